"""What the text of CREATE TABLE says about its columns, keys and options.

Source: MySQL manual, "CREATE TABLE Statement", "Data Types"; MariaDB knowledge base,
"CREATE TABLE", "Data Types".
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import chain

from .._tables import charsets
from .._tables.full_names import full_name
from ..errors import SchemaError
from .table_definitions import (
    BLOB_TYPES,
    MOST_COLUMNS,
    MOST_KEY_COLUMNS,
    MOST_UNIQUE_KEYS,
    NUMERIC_TYPES,
    TEXT_TYPES,
    UTF8MB4_BIN,
    ColumnSchema,
    TableSchema,
    UniqueKey,
    smallest_lob,
    with_keys,
)
from .tokens import SQL_MODE_REAL_AS_FLOAT, TokenKind, TokenReader

_ALIASES = {
    "bool": "tinyint",
    "boolean": "tinyint",
    "int1": "tinyint",
    "int2": "smallint",
    "int3": "mediumint",
    "middleint": "mediumint",
    "int4": "int",
    "integer": "int",
    "int8": "bigint",
    "serial": "bigint",
    "dec": "decimal",
    "numeric": "decimal",
    "fixed": "decimal",
    "number": "decimal",
    "float4": "float",
    "float8": "double",
    "real": "double",
    "character": "char",
    "nchar": "char",
    "nvarchar": "varchar",
    "varcharacter": "varchar",
    "varchar2": "varchar",
    "clob": "longtext",
    "raw": "varbinary",
    "geomcollection": "geometrycollection",
}


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a statement means in addition to its text.

    Parameters
    ----------
    mariadb : bool or None
        Whether MariaDB wrote the log; None if that is not known.
    sql_mode : int
        The bit mask from the statement's event.
    """

    mariadb: bool | None = None
    sql_mode: int = 0


@dataclass(slots=True)
class _Charset:
    """A character set as written: by its name, by a collation, or not at all."""

    name: str | None = None
    default: bool = False  # CHARACTER SET DEFAULT: that of the database

    def read(self, reader: TokenReader) -> bool:
        """Take a CHARACTER SET or COLLATE clause if it is next."""
        if reader.accept("CHARACTER", "SET") or reader.accept("CHAR", "SET") or reader.accept("CHARSET"):
            name = self._value(reader)
            self.default = name.upper() == "DEFAULT"
            self.name = None if self.default else charsets.canonical_name(name)
            return True
        if reader.accept("COLLATE"):
            # A collation overrides the set only where its name holds one.
            self.name = charsets.charset_of_collation_name(self._value(reader)) or self.name
            return True
        return False

    @staticmethod
    def _value(reader: TokenReader) -> str:
        reader.accept_symbol("=")
        string = reader.accept_kind(TokenKind.STRING)
        return string.text if string is not None else reader.name()


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """A column definition: the column, and its effect on the table.

    Parameters
    ----------
    column : ColumnSchema
    primary, unique : bool
        Declared PRIMARY KEY or UNIQUE with the column.
    own_charset : bool
        Its character set does not come from the table.
    row_period : "start", "end" or None
        MariaDB's GENERATED ALWAYS AS ROW START or END.
    """

    column: ColumnSchema
    primary: bool = False
    unique: bool = False
    own_charset: bool = False
    row_period: str | None = None


def read_column(reader: TokenReader, dialect: Dialect) -> ColumnDefinition:
    """Take ``name type attributes``, up to what cannot belong to the column."""
    return _read_attributes(reader, _read_type(reader, reader.name(), dialect), dialect)


def _read_type(reader: TokenReader, name: str, dialect: Dialect) -> ColumnDefinition:
    written = reader.name().lower()
    type_name = _ALIASES.get(written, written)
    charset = None
    if written == "national":
        charset = "utf8mb3"
        written = reader.name().lower()
        type_name = _ALIASES.get(written, written)
    elif written in ("nchar", "nvarchar"):
        charset = "utf8mb3"
    elif written == "long":
        binary = reader.accept("VARBINARY")
        if not binary and not reader.accept("VARCHAR") and reader.accept_any("CHAR", "CHARACTER"):
            reader.accept("VARYING")
        type_name = "mediumblob" if binary else "mediumtext"
    elif written == "double":
        reader.accept("PRECISION")
    elif written == "real" and dialect.sql_mode & SQL_MODE_REAL_AS_FLOAT:
        type_name = "float"
    if type_name == "char" and reader.accept_any("VARYING", "VARCHAR", "VARCHARACTER"):
        type_name = "varchar"

    column = ColumnSchema(name, type_name)
    if type_name in ("enum", "set"):
        column = replace(column, members=_read_members(reader))
    else:
        column = _with_arguments(column, _read_arguments(reader))
    if type_name in NUMERIC_TYPES:
        column = replace(column, unsigned=written == "serial")
    if written == "serial":
        column = replace(column, nullable=False)
    elif column.type_name == "timestamp":
        column = replace(column, nullable=None)
    elif column.type_name == "json" and dialect.mariadb:
        column = replace(column, type_name="longtext", charset="utf8mb4", collation_id=UTF8MB4_BIN)
    if charset is not None:
        column = column.with_charset(charset)
    return ColumnDefinition(column, unique=written == "serial", own_charset=column.charset is not None)


def _read_arguments(reader: TokenReader) -> list[int]:
    numbers: list[int] = []
    if reader.accept_symbol("("):
        numbers.append(reader.number())
        while reader.accept_symbol(","):
            numbers.append(reader.number())
        reader.expect_symbol(")")
    return numbers


def _with_arguments(column: ColumnSchema, numbers: list[int]) -> ColumnSchema:
    first = numbers[0] if numbers else None
    match column.type_name:
        case "char" | "binary" | "bit":
            return replace(column, length=1 if first is None else first)
        case "varchar" | "varbinary":
            return replace(column, length=first)
        case "time" | "datetime" | "timestamp":
            if (first or 0) > 6:
                raise SchemaError(f"{first} fraction digits; at most 6 are possible", column=column.name)
            return replace(column, fsp=first or 0)
        case "decimal":
            scale = numbers[1] if len(numbers) > 1 else 0
            return replace(column, precision=first or 10, scale=scale)
        case "float" if len(numbers) == 1 and numbers[0] > 24:
            return replace(column, type_name="double")
        case "float" | "double" if len(numbers) == 2:  # it rounds
            return replace(column, precision=first, scale=numbers[1])
        case "vector":
            return replace(column, dimensions=2048 if first is None else first)
        case "blob" | "text":
            return replace(column, length=first)  # settled with the character set
    return column


def _read_members(reader: TokenReader) -> tuple[str, ...] | None:
    """The members in parentheses; None if one is not written as plain text, such as x'e9'."""
    reader.expect_symbol("(")
    members: list[str] = []
    plain = True
    while not reader.accept_symbol(")"):
        if reader.done:
            raise reader.unexpected("')'")
        string = reader.accept_kind(TokenKind.STRING)
        if string is not None and reader.symbol() in (",", ")"):
            members.append(string.text.rstrip(" "))
        else:
            plain = False
            reader.skip_element()
        reader.accept_symbol(",")
    return tuple(members) if plain else None


# ---------------------------------------------------------------------------------------
# Column attributes


_AFTER_ATTRIBUTES = ("FIRST", "AFTER", "PARTITION")  # what follows a column in ALTER TABLE


def _read_attributes(reader: TokenReader, definition: ColumnDefinition, dialect: Dialect) -> ColumnDefinition:
    column = definition.column
    charset = _Charset(column.charset)
    primary, unique = False, definition.unique
    row_period: str | None = None
    while not reader.done and reader.symbol() not in (",", ")") and reader.word() not in _AFTER_ATTRIBUTES:
        if charset.read(reader):
            continue
        if reader.accept_kind(TokenKind.OLD_FRACTION):
            column = replace(column, old_fraction=True)
        elif reader.accept("UNSIGNED"):
            column = replace(column, unsigned=True)
        elif reader.accept("ZEROFILL"):
            column = replace(column, unsigned=True, zerofill=True)
        elif reader.accept("ASCII"):
            charset.name = "latin1"
        elif reader.accept("UNICODE"):
            charset.name = "ucs2"
        elif reader.accept("BYTE"):
            charset.name = "binary"
        elif reader.accept("NOT", "NULL"):
            column = replace(column, nullable=False)
        elif reader.accept("NULL"):
            column = replace(column, nullable=True)
        elif reader.accept("DEFAULT") or reader.accept("ON", "UPDATE"):
            _skip_value(reader)
        elif reader.accept("UNIQUE"):
            unique = True
            reader.accept("KEY")
        elif reader.accept("PRIMARY", "KEY") or reader.accept("PRIMARY") or reader.accept("KEY"):
            primary = True
        elif reader.accept("INVISIBLE"):
            column = replace(column, invisible=True)
        elif reader.accept("COMPRESSED"):
            column = replace(column, compressed=True)
            if reader.accept_symbol("="):
                reader.take()
        elif reader.accept("SRID"):
            column = replace(column, srid=reader.number())
        elif reader.accept("REF_SYSTEM_ID"):
            reader.accept_symbol("=")
            column = replace(column, srid=reader.number())
        elif reader.accept("GENERATED", "ALWAYS", "AS", "ROW") or reader.accept("AS", "ROW"):
            row_period = reader.take().text.lower()
            column = replace(column, generated="stored", nullable=False)
        elif reader.accept("GENERATED", "ALWAYS", "AS") or reader.accept("AS"):
            reader.skip_parens()
            column = replace(column, generated="virtual")
        elif reader.accept_any("STORED", "PERSISTENT"):
            column = replace(column, generated="stored")
        elif reader.accept_any("COMMENT", "COLUMN_FORMAT", "STORAGE"):
            reader.take()
        elif reader.accept("REFERENCES"):
            _skip_references(reader)
        elif not reader.skip_parens():
            reader.take()
    if primary:
        column = replace(column, nullable=False)
    own = definition.own_charset or charset.name is not None
    if charset.name is not None and charset.name != column.charset:
        column = column.with_charset(charset.name)
    return ColumnDefinition(column, primary, unique, own, row_period)


def _skip_value(reader: TokenReader) -> None:
    """Step over a DEFAULT or ON UPDATE value: ``- 5``, ``_latin1'x'``, ``now(3)``, ``(a + 1)``."""
    if reader.skip_parens():
        return
    if reader.accept_any("NEXT"):
        reader.take()  # VALUE
        reader.take()  # FOR
    while reader.symbol() in ("-", "+"):
        reader.take()
    first = reader.take()
    if first.kind is TokenKind.WORD and first.text[0] in "_bBxXnN":
        reader.accept_kind(TokenKind.STRING)
    while reader.accept_symbol("."):
        reader.take()
    reader.skip_parens()


def _skip_references(reader: TokenReader) -> None:
    reader.qualified_name("")
    reader.skip_parens()
    while True:
        if reader.accept("MATCH"):
            reader.take()
        elif reader.accept("ON", "DELETE") or reader.accept("ON", "UPDATE"):
            if reader.accept_any("SET", "NO"):
                reader.take()  # NULL, DEFAULT, ACTION
            else:
                reader.take()
        else:
            return


# ---------------------------------------------------------------------------------------
# CREATE TABLE


class NotADefinition(Exception):
    """The statement creates a table whose columns its text does not name (… SELECT)."""


def read_key_columns(reader: TokenReader) -> tuple[tuple[str, ...], bool]:
    """Take ``(a, b(10) DESC, (expression))``: the names, and whether all parts are whole columns."""
    reader.expect_symbol("(")
    names: list[str] = []
    whole = True
    while not reader.accept_symbol(")"):
        if reader.skip_parens():
            whole = False
        else:
            names.append(reader.name())
            if len(names) > MOST_KEY_COLUMNS:
                raise SchemaError(f"an index of more than {MOST_KEY_COLUMNS} columns")
            whole = not reader.skip_parens() and whole
        reader.skip_element()
        if not reader.accept_symbol(",") and reader.symbol() != ")":
            raise reader.unexpected("a key's column")
    return tuple(names), whole


@dataclass(slots=True)
class Keys:
    """The PRIMARY KEY and the UNIQUE indexes of a table, as they are read."""

    primary: tuple[str, ...] | None = None
    unique: list[UniqueKey] = field(default_factory=list)
    periods: dict[str, tuple[str, ...]] = field(default_factory=dict)  # start and end, by case-folded name

    def read(self, reader: TokenReader) -> bool:
        """Take an index, constraint or period; False if a column is next."""
        if not _key_or_constraint_is_next(reader):
            return False
        name = None
        if reader.accept("CONSTRAINT") and reader.word() not in ("PRIMARY", "UNIQUE", "FOREIGN", "CHECK"):
            name = reader.name()
        if reader.accept("PRIMARY", "KEY"):
            while reader.symbol() != "(":
                reader.take()  # a name, USING BTREE
            self.primary, _ = read_key_columns(reader)
        elif reader.accept("UNIQUE"):
            reader.accept_any("KEY", "INDEX")
            self.read_unique(reader, name)
        elif reader.accept("PERIOD", "FOR") and reader.word() != "SYSTEM_TIME":  # which no key names
            period = reader.name().casefold()
            self.periods[period], _ = read_key_columns(reader)
        reader.skip_element()
        return True

    def expand_periods(self) -> None:
        """Put the end and start of a period where a key names it: ``UNIQUE (a, p WITHOUT OVERLAPS)``."""

        def expanded(names: tuple[str, ...]) -> tuple[str, ...]:
            parts = (reversed(self.periods.get(name.casefold(), (name,))) for name in names)
            return tuple(chain.from_iterable(parts))  # as the server orders them

        if self.primary is not None:
            self.primary = expanded(self.primary)
        self.unique = [replace(key, columns=expanded(key.columns)) for key in self.unique]

    def read_unique(self, reader: TokenReader, name: str | None = None) -> None:
        """Take what follows UNIQUE KEY: ``[IF NOT EXISTS] [name] [USING type] (columns)``."""
        reader.accept("IF", "NOT", "EXISTS")
        if reader.symbol() != "(" and reader.word() != "USING":
            name = reader.name()
        while reader.symbol() != "(":
            reader.take()
        self._add_unique(UniqueKey(name or "", *read_key_columns(reader)))

    def _add_unique(self, key: UniqueKey) -> None:
        if len(self.unique) == MOST_UNIQUE_KEYS:
            raise SchemaError(f"more than {MOST_UNIQUE_KEYS} UNIQUE indexes")
        self.unique.append(key)

    def read_column(self, definition: ColumnDefinition) -> None:
        """Add a column's own options."""
        if definition.primary:
            self.primary = (*(self.primary or ()), definition.column.name)
            if len(self.primary) > MOST_KEY_COLUMNS:
                raise SchemaError(f"an index of more than {MOST_KEY_COLUMNS} columns")
        if definition.unique:
            self._add_unique(UniqueKey("", (definition.column.name,)))


def _key_or_constraint_is_next(reader: TokenReader) -> bool:
    word, after = reader.word(), reader.word(1)
    return (
        word in ("PRIMARY", "KEY", "INDEX", "UNIQUE", "FULLTEXT", "SPATIAL", "CONSTRAINT", "FOREIGN", "CHECK")
        or (word == "PERIOD" and after == "FOR")
        or (word == "VECTOR" and (after in ("KEY", "INDEX") or reader.symbol(1) == "("))
    )


@dataclass(slots=True)
class TableOptions:
    """The options of CREATE TABLE or ALTER TABLE that matter here."""

    charset: _Charset
    versioned: bool = False

    def read(self, reader: TokenReader) -> bool:
        """Take one option if it is one of these."""
        ahead = 1 if reader.word() == "DEFAULT" else 0
        if reader.word(ahead) in ("CHARACTER", "CHAR", "CHARSET", "COLLATE"):
            reader.accept("DEFAULT")
            return self.charset.read(reader)
        if reader.accept("WITH", "SYSTEM", "VERSIONING"):
            self.versioned = True
            return True
        return False


def new_table_options() -> TableOptions:
    """Options before any is read."""
    return TableOptions(_Charset())


def read_table_body(
    reader: TokenReader,
    database: str,
    name: str,
    dialect: Dialect,
    database_charset: str | None = None,
    server_charset: str | None = None,
) -> TableSchema:
    """Take ``( columns and keys ) options`` of CREATE TABLE, after the table's name.

    Parameters
    ----------
    reader : TokenReader
        The statement after the table's name.
    database, name : str
        The names of the database and the table.
    dialect : Dialect
        What the text means.
    database_charset : str or None
        The default character set of the database; None if it is not known.
    server_charset : str or None
        The default character set of new databases, which is assumed if nothing else gives one.

    Returns
    -------
    TableSchema

    Raises
    ------
    SchemaError
        The text cannot be read.
    NotADefinition
        The columns, or some of them, come from a SELECT.
    """
    definitions: list[ColumnDefinition] = []
    keys = Keys()
    reader.expect_symbol("(")
    if reader.word() in ("SELECT", "WITH", "VALUES", "TABLE") or reader.symbol() == "(":
        raise NotADefinition
    while True:
        if not keys.read(reader):
            definitions.append(definition := read_column(reader, dialect))
            keys.read_column(definition)
            check_columns(len(definitions))
        if not reader.accept_symbol(","):
            break
    reader.expect_symbol(")")

    options = new_table_options()
    while not reader.done and reader.word() != "PARTITION":
        if options.read(reader):
            continue
        if reader.word() in ("SELECT", "AS", "IGNORE", "REPLACE") or (
            reader.word() in ("WITH", "VALUES", "TABLE") and reader.symbol(1) != "="
        ):
            raise NotADefinition
        if not reader.skip_parens():
            reader.take()

    keys.expand_periods()
    if options.versioned:
        _add_period(definitions, keys)
    if not definitions:
        raise SchemaError("a table without columns", table=full_name(database, name))
    known = options.charset.name or database_charset
    charset = known or server_charset
    columns = tuple(settle_charset(definition, charset) for definition in definitions)
    table = TableSchema(database, name, columns, charset=charset, charset_assumed=known != charset)
    return with_keys(table, keys.primary, keys.unique)


def check_columns(count: int) -> None:
    """Refuse more columns than a table can have."""
    if count > MOST_COLUMNS:
        raise SchemaError(f"more than {MOST_COLUMNS} columns")


def _add_period(definitions: list[ColumnDefinition], keys: Keys) -> None:
    """Add what a system-versioned table of MariaDB has: a period, also where the text does not name
    its columns, and the period's end in every key."""
    if not any(d.row_period for d in definitions):
        for period in ("start", "end"):
            column = ColumnSchema(
                f"row_{period}", "timestamp", fsp=6, nullable=False, generated="stored", invisible=True
            )
            definitions.append(ColumnDefinition(column, row_period=period))
    end = next((d.column.name for d in definitions if d.row_period == "end"), None)
    if end is None:
        return
    if keys.primary is not None and end not in keys.primary:
        keys.primary = (*keys.primary, end)
    keys.unique = [
        replace(key, columns=(*key.columns, end)) if end not in key.columns else key for key in keys.unique
    ]


def settle_charset(definition: ColumnDefinition, table_charset: str | None) -> ColumnSchema:
    """The column once its table's default character set is known."""
    column = definition.column
    if not definition.own_charset:
        column = column.with_charset(table_charset)
    if column.type_name in ("text", "blob") and column.length is not None:
        # TEXT(n) asks for n characters, and gets the smallest type that holds them.
        charset = charsets.get(column.charset) if column.charset is not None else None
        size = column.length * (charset.max_char_len if charset is not None else 1)
        types = TEXT_TYPES if column.type_name == "text" else BLOB_TYPES
        column = replace(column, type_name=smallest_lob(types, size), length=None)
    return column
