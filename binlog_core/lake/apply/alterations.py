"""Effects of ALTER TABLE on existing rows, for which the log does not have rows."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import SchemaError
from ...schema.create_table import Dialect, Keys, read_column
from ...schema.table_definitions import BLOB_TYPES, INTEGER_TYPES, TEXT_TYPES, ColumnSchema
from ...schema.tokens import Token, TokenKind, TokenReader, tokenize_statements
from ..rows.fit import widened
from ..rows.types import import_pyarrow
from .conversions import check_conversion, fitting, holds

if TYPE_CHECKING:
    import pyarrow as pa

ServerColumns = Mapping[str, ColumnSchema | None]  # by their names in small letters
_ENGINES = frozenset(  # they keep all rows that they are given
    ("ARCHIVE", "ARIA", "HEAP", "INNODB", "MEMORY", "MYISAM", "ROCKSDB", "TOKUDB", "XTRADB")
)
_AFTER_DEFAULT = frozenset(  # the words that may follow a DEFAULT
    (
        *("CHECK", "COLLATE", "COLUMN_FORMAT", "COMMENT", "CONSTRAINT", "INVISIBLE", "KEY", "NOT", "NULL"),
        *("PRIMARY", "REFERENCES", "STORAGE", "UNIQUE", "VISIBLE"),
    )
)
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DATETIME = re.compile(_DATE.pattern + " [0-9]{2}:[0-9]{2}:[0-9]{2}")
_SHORT = 64  # characters, which fit any type of text
_PARTITION_WORDS = frozenset(
    ("ANALYZE", "CHECK", "COALESCE", "OPTIMIZE", "PARTITION", "REBUILD", "REMOVE", "REORGANIZE")
)
_OPTIONS = frozenset(  # they begin parts that change no values
    (
        *("ALGORITHM", "AUTOEXTEND_SIZE", "AUTO_INCREMENT", "AVG_ROW_LENGTH", "CHARACTER", "CHARSET"),
        *("CHECKSUM", "COLLATE", "COMMENT", "COMPRESSION", "DEFAULT", "DELAY_KEY_WRITE", "DISABLE"),
        *("ENABLE", "ENCRYPTED", "ENCRYPTION", "ENCRYPTION_KEY_ID", "ENGINE", "FORCE", "KEY_BLOCK_SIZE"),
        *("LOCK", "MAX_ROWS", "MIN_ROWS", "NOWAIT", "PACK_KEYS", "PAGE_CHECKSUM", "PAGE_COMPRESSED"),
        *("PAGE_COMPRESSION_LEVEL", "ROW_FORMAT", "SECONDARY_ENGINE", "STATS_AUTO_RECALC"),
        *("STATS_PERSISTENT", "STATS_SAMPLE_PAGES", "TABLESPACE", "TRANSACTIONAL", "WAIT"),
    )
)


class Check(NamedTuple):
    """A new type of a column, which does not change values that fit it.

    Parameters
    ----------
    column : str
    fits : callable
        Tests a value that is not null.
    reason : str
    nulls : bool
        Whether null fits it.
    """

    column: str
    fits: Callable[[Any], bool]
    reason: str
    nulls: bool = True

    def holds(self, value: Any) -> bool:
        """Whether a value, which may be null, stays the same."""
        return self.nulls if value is None else self.fits(value)


class From(NamedTuple):
    """A column that gets the values of another."""

    column: str


@dataclass
class Alteration:
    """Changes to the columns of existing rows, all at the same time.

    Parameters
    ----------
    values : dict of name to From or a value
        The columns that change; a value is the same in every row.
    types : dict of name to pyarrow.DataType
        The types of columns that are added or get another type.
    checks : list of Check
        What has to hold, because otherwise values would change without a row in the log.
    defaults : dict of name to value
        Defaults of the columns that are added.
    present : dict of name to ColumnSchema or None, or None
        The columns that the server's table has then, by their names in small letters, and what is known of
        each; None if they are not known.
    drops_key : bool
        Whether the table loses its primary key, or gets another one.
    """

    values: dict[str, Any] = field(default_factory=dict)
    types: dict[str, pa.DataType] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)
    defaults: dict[str, Any] = field(default_factory=dict)
    present: ServerColumns | None = None
    drops_key: bool = False


def read_alteration(
    sql: str, known: Mapping[str, pa.DataType], present: ServerColumns | None = None
) -> Alteration:
    """Read an ALTER TABLE.

    Parameters
    ----------
    sql : str
        The statement.
    known : mapping of name to pyarrow.DataType
        The columns that the table has or had, in the types of a lake.
    present : mapping of name to ColumnSchema or None, or None
        The columns that it has on the server, as in `Alteration`.

    Raises
    ------
    SchemaError
        Its effect on rows cannot be known.
    """
    reader = TokenReader(next(tokenize_statements(sql), ()))
    reader.skip_settings()
    if not reader.accept("ALTER"):
        raise reader.unexpected("ALTER")
    if reader.accept("IGNORE"):
        raise SchemaError("IGNORE deletes rows")
    reader.accept_any("ONLINE", "OFFLINE")
    if not reader.accept("TABLE"):
        raise reader.unexpected("TABLE")
    reader.accept("IF", "EXISTS")
    reader.qualified_name("")
    return _Reading(reader, known, present).run()


class _Reading:
    def __init__(
        self, reader: TokenReader, known: Mapping[str, pa.DataType], present: ServerColumns | None
    ) -> None:
        self.reader = reader
        self.present = present
        self.known = known
        self.names = {name.lower(): name for name in known}
        self.out = Alteration()
        self.gone: list[str] = []
        self.came: dict[str, ColumnSchema | None] = {}
        self.dialect = Dialect()

    def run(self) -> Alteration:
        reader = self.reader
        if reader.accept("WAIT"):
            reader.number()
        reader.accept("NOWAIT")
        while not reader.done:
            if reader.word() in _PARTITION_WORDS:
                break  # rows only move; statements that delete or exchange partitions do not come here
            self._part()
            if not reader.done and not reader.accept_symbol(","):
                raise reader.unexpected("the end of a part")
        for name in self.gone:
            self.out.values.setdefault(name, None)  # unless another column gets the name
        if self.present is not None:
            gone = {name.lower() for name in self.gone}
            stay = {name: column for name, column in self.present.items() if name not in gone}
            self.out.present = {**stay, **self.came}
        return self.out

    def _is_there(self, name: str) -> bool:
        """Whether the server's table has a column, where a statement does nothing if it has, or has not."""
        if name.lower() not in self.names:
            return False
        if self.present is None:  # one that was dropped is still among the known ones
            raise SchemaError("IF EXISTS: it is not known whether the column was there", column=name)
        return name.lower() in self.present

    def _part(self) -> None:
        reader = self.reader
        if reader.accept("ADD"):
            self._add()
        elif reader.accept("DROP"):
            self._drop()
        elif reader.accept("MODIFY"):
            reader.accept("COLUMN")
            missing_allowed = reader.accept("IF", "EXISTS")
            column, tokens = self._definition()
            if not missing_allowed or self._is_there(column.name):
                self._change(column.name, column, tokens)
        elif reader.accept("CHANGE"):
            reader.accept("COLUMN")
            missing_allowed = reader.accept("IF", "EXISTS")
            old = reader.name()
            column, tokens = self._definition()
            if not missing_allowed or self._is_there(old):
                self._change(old, column, tokens)
        elif reader.accept("RENAME"):
            self._rename()
        elif reader.accept("CONVERT"):
            if not reader.accept("TO") or not reader.accept_any("CHARACTER", "CHARSET"):
                raise SchemaError("CONVERT may change rows")
            reader.accept("SET")
            if reader.take().text.lower() not in ("utf8mb4", "utf8mb3", "utf8"):
                raise SchemaError("text may not fit the character set")
            reader.skip_element()
        elif reader.accept("ORDER", "BY"):
            while not reader.done:
                reader.take()
        elif reader.accept("ALTER"):
            reader.skip_element()  # defaults of future rows, visibility
        elif (reader.accept("WITH") or reader.accept("WITHOUT")) and reader.accept("VALIDATION"):
            pass
        elif reader.word() in _OPTIONS:
            while not reader.done and reader.symbol() != ",":
                if reader.word() in ("PARTITION", "REMOVE"):
                    return self._to_the_end()
                if reader.accept("ENGINE"):
                    reader.accept_symbol("=")
                    if reader.take().text.upper() not in _ENGINES:
                        raise SchemaError("the engine may have no rows of its own")
                    continue
                if reader.accept("SYSTEM"):
                    raise SchemaError("system versioning adds columns")
                if not reader.skip_parens():
                    reader.take()
        else:
            raise SchemaError("a part of ALTER TABLE is not understood")
        return None

    def _to_the_end(self) -> None:
        while not self.reader.done:
            self.reader.take()

    def _add(self) -> None:
        reader = self.reader
        if reader.accept("PARTITION"):
            return self._to_the_end()
        if reader.accept("SYSTEM"):
            raise SchemaError("system versioning adds columns")
        if reader.word() == "PERIOD" and reader.word(1) == "FOR":
            raise SchemaError("a period changes its columns")
        if not reader.accept("COLUMN") and Keys().read(reader):
            return None
        exists_allowed = reader.accept("IF", "NOT", "EXISTS")
        if not reader.accept_symbol("("):
            return self._add_column(exists_allowed)
        while True:
            if not Keys().read(reader):
                self._add_column(exists_allowed)
            if not reader.accept_symbol(","):
                break
        return reader.expect_symbol(")")

    def _add_column(self, exists_allowed: bool) -> None:
        column, tokens = self._definition()
        if exists_allowed and self._is_there(column.name):
            return
        self.came[column.name.lower()] = column
        name = self.names.get(column.name.lower(), column.name)
        kind = lake_type_of(column)
        if kind is None or column.generated or _words_of(tokens) & {"AUTO_INCREMENT", "SERIAL", "NEXT"}:
            raise SchemaError("the server gives a new column values of its own", column=column.name)
        if column.nullable is None:  # for TIMESTAMP, that depends on the server's settings
            raise SchemaError("the server may give a new TIMESTAMP a value of its own", column=column.name)
        self._check_kept(name, kind)
        self.out.types[name] = kind
        self.out.values[name] = _first_value(column, tokens, kind)
        self.out.defaults[name] = self.out.values[name]

    def _drop(self) -> None:
        reader = self.reader
        if reader.accept("SYSTEM"):
            raise SchemaError("system versioning is dropped, and old rows with it")
        if reader.accept("PRIMARY", "KEY"):
            self.out.drops_key = True
            return reader.skip_element()
        if reader.accept_any("INDEX", "KEY", "CONSTRAINT"):
            reader.accept("IF", "EXISTS")
            self.out.drops_key |= reader.name().upper() == "PRIMARY"
            return reader.skip_element()
        if reader.word() in ("FOREIGN", "CHECK") or (reader.word() == "PERIOD" and reader.word(1) == "FOR"):
            return reader.skip_element()
        reader.accept("COLUMN")
        reader.accept("IF", "EXISTS")
        name = reader.name()
        self.gone.append(self.names.get(name.lower(), name))
        return reader.skip_element()

    def _rename(self) -> None:
        reader = self.reader
        if reader.accept_any("INDEX", "KEY"):
            return reader.skip_element()
        if not reader.accept("COLUMN"):
            raise SchemaError("the table is renamed")
        missing_allowed = reader.accept("IF", "EXISTS")
        old = reader.name()
        if not reader.accept("TO"):
            raise reader.unexpected("TO")
        new = reader.name()
        if not missing_allowed or self._is_there(old):
            known = (self.present or {}).get(old.lower())
            self._move(old, new)
            self.came[new.lower()] = known
        return None

    def _move(self, old: str, new: str) -> None:
        old, new = self.names.get(old.lower(), old), self.names.get(new.lower(), new)
        if old != new:
            if old in self.known:
                self._check_kept(new, self.known[old])
                self.out.types.setdefault(new, self.known[old])
            self.out.values[new] = From(old)
            self.gone.append(old)

    def _check_kept(self, name: str, kind: pa.DataType) -> None:
        """Refuse values for a column that is there from before, with a type that does not hold them."""
        here = self.known.get(name, kind)
        if not holds(here, kind):
            raise SchemaError(f"the table has a column of this name, with {here}, not {kind}", column=name)

    def _change(self, old: str, column: ColumnSchema, tokens: list[Token]) -> None:
        """Take a new definition, which can be applied if it does not change the values."""
        old = self.names.get(old.lower(), old)
        kind = lake_type_of(column)
        here = self.known.get(old)
        before = None if self.present is None else self.present.get(old.lower())
        same = before is not None and before.holds_same(column, any_charset=True)
        if column.generated or (kind is None and (here is None or not same)):
            raise SchemaError("the server computes the values again", column=column.name)
        if here is not None:
            if not same:
                assert kind is not None
                self._compare(old, here, column, kind)
            if column.type_name == "timestamp" and not column.nullable:
                self._check(old, lambda value: True, "NULL becomes the current time", nulls=False)
            if _words_of(tokens) & {"AUTO_INCREMENT", "SERIAL"}:
                self._check(old, bool, "AUTO_INCREMENT numbers a row with 0 anew", nulls=False)
        self._move(old, column.name)
        self.came[column.name.lower()] = column
        if old.lower() != column.name.lower():
            new = self.names.get(column.name.lower(), column.name)
            after = self.out.types.pop(old, here) or kind
            assert after is not None
            self.out.types[new] = after

    def _compare(self, name: str, here: pa.DataType, column: ColumnSchema, kind: pa.DataType) -> None:
        types = import_pyarrow().types
        before = None if self.present is None else self.present.get(name.lower())
        check_conversion(before, here, column, kind)
        if here != kind and widened(here, kind):
            self.out.types[name] = kind
        elif types.is_floating(here) and here != kind:
            raise SchemaError(f"{here} becomes {kind}", column=name)
        fits = fitting(column, here, before)
        if fits is not None:
            self._check(name, fits, f"{column.type_name} changes its values")

    def _check(self, name: str, fits: Callable[[Any], bool], reason: str, *, nulls: bool = True) -> None:
        self.out.checks.append(Check(name, fits, reason, nulls))

    def _definition(self) -> tuple[ColumnSchema, list[Token]]:
        reader = self.reader
        rest: list[Token] = []
        ahead = 0
        while (token := reader.peek(ahead)) is not None:
            rest.append(token)
            ahead += 1
        column = read_column(reader, self.dialect).column
        left = 0
        while reader.peek(left) is not None:
            left += 1
        if reader.accept("AFTER"):
            reader.name()
        reader.accept("FIRST")
        return column, rest[: len(rest) - left]


def _words_of(tokens: Sequence[Token]) -> set[str]:
    return {token.text.upper() for token in tokens if token.kind is TokenKind.WORD}


def lake_type_of(column: ColumnSchema) -> pa.DataType | None:
    """The type that `schema.lake_type` gives, from a definition; None for types that are not handled here."""
    pa = import_pyarrow()
    name = column.type_name
    if name in INTEGER_TYPES:
        sizes = {"tinyint": 0, "smallint": 1, "mediumint": 2, "int": 2, "bigint": 3}
        kinds = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.decimal128(20, 0))
        return kinds[sizes[name] + bool(column.unsigned)]
    if name == "decimal":
        precision, scale = column.precision or 10, column.scale or 0
        return pa.decimal128(precision, scale) if precision <= 38 else pa.string()
    if name in ("char", "varchar", "enum", *TEXT_TYPES):
        return pa.string()
    if name in ("varbinary", "binary", *BLOB_TYPES):
        return pa.binary()
    return {
        "float": pa.float32(),
        "double": pa.float64(),
        "date": pa.date32(),
        "datetime": pa.timestamp("us"),
        "timestamp": pa.timestamp("us", "UTC"),
        "time": pa.int64(),
        "year": pa.int32(),
        "json": pa.string(),
    }.get(name)


def _first_value(column: ColumnSchema, tokens: list[Token], kind: pa.DataType) -> Any:
    """The value of existing rows in a new column."""
    reader = TokenReader(tokens)
    while not reader.done and not reader.accept("DEFAULT"):
        if not reader.skip_parens():
            reader.take()
    if not reader.done:
        return _literal(reader, column, kind)
    if column.nullable:
        return None
    pa = import_pyarrow()
    if column.type_name == "enum" and column.members:
        return column.members[0]
    if column.type_name in ("varchar", "char", *TEXT_TYPES):
        return ""
    if column.type_name in ("varbinary", *BLOB_TYPES):
        return b""
    if pa.types.is_decimal(kind):
        return Decimal(0)
    if column.type_name in (*INTEGER_TYPES, "float", "double"):
        return 0
    raise SchemaError("the server gives a new column values of its own", column=column.name)


def _literal(reader: TokenReader, column: ColumnSchema, kind: pa.DataType) -> Any:
    """The value of a DEFAULT, of those whose effect is the same on every server."""
    negative = reader.accept_symbol("-")
    if not negative:
        reader.accept_symbol("+")
    token = reader.take()
    text = token.text
    if token.kind is TokenKind.WORD and reader.accept_symbol("."):
        text += "." + reader.take().text
    if reader.symbol() or (not reader.done and reader.word() not in _AFTER_DEFAULT):
        raise SchemaError("the DEFAULT of a new column is an expression, or in parts", column=column.name)
    if token.kind is TokenKind.WORD and text.upper() in ("NULL", "TRUE", "FALSE"):
        if text.upper() == "NULL":
            return None
        text = str(int(text.upper() == "TRUE"))
    found = None
    if token.kind is TokenKind.STRING:
        found = _of_text(text, column, kind)
    if found is None and (token.kind is TokenKind.STRING or token.kind is TokenKind.WORD):
        found = _of_number(("-" if negative else "") + text, column, kind)
    if found is None:
        raise SchemaError("the DEFAULT of a new column is not understood", column=column.name)
    return found


def _of_text(text: str, column: ColumnSchema, kind: pa.DataType) -> Any:
    """The value of a quoted DEFAULT in a column that is not a number; None if it is not certain."""
    name, types = column.type_name, import_pyarrow().types
    if name == "enum":
        # By the collation, which decides about case and accents, several members may be meant.
        members = column.members or ()
        plain = all(member.isascii() for member in members)
        alike = [member for member in members if member.lower() == text.lower()]
        return text if plain and alike == [text] else None
    if name == "char":
        text = text.rstrip(" ")
    if name in ("char", "varchar"):  # a server cuts off spaces that have no room
        return text if len(text) <= (column.length or 0) else None
    if name in TEXT_TYPES:  # MySQL without strict mode takes '' for no DEFAULT
        return text if 0 < len(text) < _SHORT else None
    try:
        if types.is_date32(kind) and _DATE.fullmatch(text):
            return dt.date.fromisoformat(text)
        if types.is_timestamp(kind) and kind.tz is None and _DATETIME.fullmatch(text):
            return dt.datetime.fromisoformat(text)
    except ValueError:
        pass  # it does not exist in the calendar
    return None


def _of_number(text: str, column: ColumnSchema, kind: pa.DataType) -> Any:
    """The value of a DEFAULT in a column of numbers; None if it is not certain."""
    types = import_pyarrow().types
    if not _NUMBER.fullmatch(text):
        return None
    if column.type_name in INTEGER_TYPES and not types.is_decimal(kind):
        return int(text) if "." not in text else None
    if types.is_decimal(kind):
        return Decimal(text).quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP)
    if types.is_float64(kind) and column.scale is None:
        return float(text) or 0.0
    return None
