"""Following the definitions of tables through the DDL statements of a log.

Each row then gets the names that its table had at that point. A statement that cannot be
followed is told, and the definitions of its tables are forgotten: rows of a table are never
given names of which we are not sure.

Source: MySQL manual, "Data Definition Statements"; MariaDB knowledge base, "Data Definition".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from . import charsets
from .errors import SchemaError
from .sql_tokens import Token, TokenKind, TokenReader, tokenize_statements
from .table_definitions import (
    ColumnDefinition,
    ColumnSchema,
    Dialect,
    NotADefinition,
    TableOptions,
    TableSchema,
    comes_key_or_constraint,
    convert_charset,
    new_table_options,
    read_column,
    read_primary_key,
    read_table_body,
    settle_charset,
    with_primary_key,
)

# Bits of flags_extra of a MariaDB GTID event: the statement after it only announces or takes
# back an ALTER, whose effect comes with COMMIT ALTER.
FLAG_START_ALTER = 2
FLAG_ROLLBACK_ALTER = 8

_CONCERNED = re.compile(
    r"(?: \s+ | /\*M?!\d* | /\*.*?\*/ | --\s[^\n]* | \#[^\n]* )*+"
    r"(?: CREATE | ALTER | DROP | RENAME | TRUNCATE | SET \s+ STATEMENT )\b",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Unfollowed:
    """A statement after which a table's definition is not known.

    Parameters
    ----------
    position : int
        Of its event.
    table : str or None
        ``database.table``; None where not even the table could be told.
    reason : str
    """

    position: int
    table: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class DefinitionChange:
    """From `position` on, a table has this definition (None: none that is known)."""

    position: int
    database: str
    table: str
    definition: TableSchema | None


TableKey = tuple[str, str]


class DdlTracker:
    """The definitions of all tables, as far as given definitions and the log's DDL tell them.

    Parameters
    ----------
    initial : Schema, iterable of TableSchema or None
        The definitions at the beginning of the log. Without them a table is known from its
        CREATE TABLE on.

    Attributes
    ----------
    unfollowed : list of Unfollowed
        The statements that could not be followed.
    timeline : list of DefinitionChange
        Every change so far in log order: the definitions of a part of the log can be told from
        it without reading what comes before.
    """

    def __init__(self, initial: Iterable[TableSchema] | None = None) -> None:
        self._tables: dict[TableKey, TableSchema] = {(t.database, t.name): t for t in initial or ()}
        self._database_charsets: dict[str, str | None] = {}
        self.unfollowed: list[Unfollowed] = []
        self.timeline: list[DefinitionChange] = []

    def __iter__(self) -> Iterator[TableSchema]:
        return iter(self._tables.values())

    def definition(self, database: str, table: str) -> TableSchema | None:
        """The definition that a table has now; None: not known, or there is no such table."""
        return self._tables.get((database, table))

    def apply_statement(
        self,
        default_database: str,
        sql: str,
        mariadb: bool | None = None,
        position: int = 0,
        *,
        sql_mode: int = 0,
        database_collation: int | None = None,
        gtid_flags_extra: int = 0,
    ) -> frozenset[str] | None:
        """Follow one statement of the log.

        Parameters
        ----------
        default_database : str
            Database of the QUERY event.
        sql : str
            Its statement.
        mariadb : bool or None
            Which vendor's server wrote the log; None: not known.
        position : int
            Of the event, for `unfollowed` and `timeline`.
        sql_mode : int
            From the event's status variables.
        database_collation : int or None
            Default collation of `default_database`, from the event's status variables.
        gtid_flags_extra : int
            Of the MariaDB GTID event before it. An ALTER that is only announced (START ALTER),
            or taken back, changes nothing.

        Returns
        -------
        frozenset of str or None
            ``database.table`` of the tables whose definition is another, or is no longer known;
            empty where none is. None: no statement that could change a definition.
        """
        if _CONCERNED.match(sql) is None or gtid_flags_extra & (FLAG_START_ALTER | FLAG_ROLLBACK_ALTER):
            return None
        try:
            statements = list(tokenize_statements(sql, sql_mode))
        except SchemaError as error:
            self.unfollowed.append(Unfollowed(position, None, error.message))
            return frozenset()
        if not statements:
            return None
        charset = charsets.charset_of(database_collation) if database_collation is not None else None
        # A ; ends the statement only in the body of a routine or trigger: the first part tells what it is.
        return self.apply_tokens(
            default_database, statements[0], position, Dialect(mariadb, sql_mode), database_charset=charset
        )

    def apply_tokens(
        self,
        default_database: str,
        tokens: list[Token],
        position: int,
        dialect: Dialect = Dialect(),
        *,
        database_charset: str | None = None,
    ) -> frozenset[str] | None:
        """As `apply_statement`, of a statement already split into tokens."""
        statement = _Statement(self, TokenReader(tokens), default_database, dialect, database_charset)
        try:
            if not statement.run():
                return None
        except NotADefinition:
            statement.forget("its columns come from a SELECT")
        except SchemaError as error:
            statement.forget(error.message if error.column is None else f"{error.message}: column {error.column}")
        changed = set()
        for (database, name), definition in statement.changes.items():
            if self._tables.get((database, name)) == definition:
                continue
            if definition is None:
                del self._tables[database, name]
            else:
                self._tables[database, name] = definition
            self.timeline.append(DefinitionChange(position, database, name, definition))
            changed.add(f"{database}.{name}")
        self._database_charsets.update(statement.database_charsets)
        self.unfollowed += [Unfollowed(position, table, reason) for table, reason in statement.unfollowed]
        return frozenset(changed)

    def database_charset(self, database: str) -> str | None:
        """The default character set of a database, where the log has told it."""
        return self._database_charsets.get(database)

    def tables_of(self, database: str) -> list[TableKey]:
        """The known tables of a database."""
        return [key for key in self._tables if key[0] == database]


@dataclass(slots=True)
class _Statement:
    """One statement being followed; its changes take effect together, at its end."""

    tracker: DdlTracker
    reader: TokenReader
    default_database: str
    dialect: Dialect
    default_charset: str | None
    changes: dict[TableKey, TableSchema | None] = field(default_factory=dict)
    unfollowed: list[tuple[str | None, str]] = field(default_factory=list)
    database_charsets: dict[str, str | None] = field(default_factory=dict)
    _at_work: TableKey | None = None

    def run(self) -> bool:
        """Follow the statement; False where it is none of ours."""
        reader = self.reader
        if reader.accept("SET", "STATEMENT"):  # MariaDB: SET STATEMENT variable = value FOR statement
            while not reader.accept("FOR"):
                reader.take()
        verb = reader.accept_any("CREATE", "ALTER", "DROP", "RENAME", "TRUNCATE")
        or_replace = reader.accept("OR", "REPLACE")
        while reader.accept_any("ONLINE", "OFFLINE", "IGNORE"):
            pass
        if reader.word() == "TEMPORARY":
            return False
        what = reader.accept_any("TABLE", "TABLES", "DATABASE", "SCHEMA", "SEQUENCE")
        match verb, "TABLE" if what == "TABLES" else "DATABASE" if what == "SCHEMA" else what:
            case "CREATE", "TABLE":
                self._create_table()
            case "CREATE", "SEQUENCE":
                self._create_sequence()
            case "ALTER", "TABLE":
                self._alter_table()
            case "DROP", "TABLE" | "SEQUENCE":
                self._drop_tables()
            case "RENAME", "TABLE":
                self._rename_tables()
            case "TRUNCATE", _:
                pass
            case "CREATE" | "ALTER", "DATABASE":
                self._database_options(or_replace)
            case "DROP", "DATABASE":
                self._drop_database()
            case _:
                return False
        return True

    # --- definitions as this statement has left them

    def get(self, key: TableKey) -> TableSchema | None:
        return self.changes[key] if key in self.changes else self.tracker.definition(*key)

    def put(self, table: TableSchema) -> None:
        self.changes[table.database, table.name] = table

    def drop(self, key: TableKey) -> None:
        self.changes[key] = None

    def forget(self, reason: str) -> None:
        """The statement cannot be followed: the table it was about is no longer known."""
        if self._at_work is None:
            self.unfollowed.append((None, reason))
            return
        self.drop(self._at_work)
        self.unfollowed.append((".".join(self._at_work), reason))

    def _table_name(self) -> TableKey:
        return self.reader.qualified_name(self.default_database)

    # --- statements

    def _create_table(self) -> None:
        reader = self.reader
        if_not_exists = reader.accept("IF", "NOT", "EXISTS")
        key = self._at_work = self._table_name()
        if if_not_exists and self.get(key) is not None:
            return
        parenthesized = reader.symbol() == "(" and reader.word(1) == "LIKE"
        if parenthesized:
            reader.take()
        if reader.accept("LIKE"):
            source = self._table_name()
            like = self.get(source)
            if like is None:
                raise SchemaError(f"the definition of {'.'.join(source)} is not known")
            self.put(replace(like, database=key[0], name=key[1]))
            return
        if reader.symbol() != "(":
            raise NotADefinition
        charset = self.tracker.database_charset(key[0])
        if charset is None and key[0] == self.default_database:
            charset = self.default_charset
        self.put(read_table_body(reader, *key, self.dialect, charset))

    def _create_sequence(self) -> None:
        reader = self.reader
        if_not_exists = reader.accept("IF", "NOT", "EXISTS")
        key = self._at_work = self._table_name()
        if if_not_exists and self.get(key) is not None:
            return
        integer = ColumnSchema("", "bigint", unsigned=False, nullable=False)
        if reader.accept("AS"):
            integer = replace(read_column(_with_name(reader), self.dialect).column, nullable=False)
        names = ("next_not_cached_value", "minimum_value", "maximum_value", "start_value")
        self.put(
            TableSchema(
                *key,
                (
                    *(replace(integer, name=name) for name in names),
                    ColumnSchema("increment", "bigint", unsigned=False, nullable=False),
                    ColumnSchema("cache_size", "bigint", unsigned=True, nullable=False),
                    ColumnSchema("cycle_option", "tinyint", unsigned=True, nullable=False),
                    ColumnSchema("cycle_count", "bigint", unsigned=False, nullable=False),
                ),
            )
        )

    def _drop_tables(self) -> None:
        self.reader.accept("IF", "EXISTS")
        while True:
            self.drop(self._table_name())
            if not self.reader.accept_symbol(","):
                return

    def _rename_tables(self) -> None:
        reader = self.reader
        reader.accept("IF", "EXISTS")
        while True:
            source = self._at_work = self._table_name()
            if reader.accept("WAIT"):
                reader.number()
            reader.accept("NOWAIT")
            if not reader.accept("TO"):
                raise reader.unexpected("TO")
            self._rename(source, self._table_name())
            if not reader.accept_symbol(","):
                return

    def _rename(self, source: TableKey, target: TableKey) -> None:
        table = self.get(source)
        self.drop(source)
        if table is None:
            self.drop(target)
        else:
            self.put(replace(table, database=target[0], name=target[1]))

    def _database_options(self, or_replace: bool) -> None:
        reader = self.reader
        if_not_exists = reader.accept("IF", "NOT", "EXISTS")
        options = new_table_options()
        has_name = reader.word() not in ("CHARACTER", "CHARSET", "COLLATE", "DEFAULT", "ENCRYPTION", "READ")
        database = reader.name() if has_name else self.default_database
        while not reader.done:
            if not options.read(reader):
                reader.take()
        if or_replace:
            for key in self.tracker.tables_of(database):
                self.drop(key)
        if options.charset.name is not None and not (if_not_exists and self.tracker.tables_of(database)):
            self.database_charsets[database] = options.charset.name

    def _drop_database(self) -> None:
        self.reader.accept("IF", "EXISTS")
        database = self.reader.name()
        self.database_charsets[database] = None
        for key in self.tracker.tables_of(database):
            self.drop(key)

    def _alter_table(self) -> None:
        reader = self.reader
        reader.accept("IF", "EXISTS")
        key = self._at_work = self._table_name()
        if reader.accept("WAIT"):
            reader.number()
        reader.accept("NOWAIT")
        before = self.get(key)
        if before is None:
            # Nothing is known that could be altered, but the name may go to or come from elsewhere.
            while not reader.done:
                if reader.accept("RENAME") and reader.word() not in ("COLUMN", "INDEX", "KEY"):
                    if not reader.accept_any("TO", "AS"):
                        reader.accept_symbol("=")
                    self.drop(self._table_name())
                reader.skip_element()
                if not reader.done:
                    reader.take()
            return
        alteration = _Alteration(before, self.dialect)
        alteration.read(reader, self.default_database)
        after = alteration.result()
        if alteration.renamed is not None:
            self.drop(key)
            self._at_work = alteration.renamed
            after = replace(after, database=alteration.renamed[0], name=alteration.renamed[1])
        self.put(after)


def _with_name(reader: TokenReader) -> TokenReader:
    """A reader that gives a name before the type that comes, so that it reads as a column."""
    tokens = [Token(TokenKind.NAME, "")]
    while not reader.done and reader.word() not in ("START", "INCREMENT", "MINVALUE", "MAXVALUE", "CACHE"):
        tokens.append(reader.take())
    return TokenReader(tokens)


# ---------------------------------------------------------------------------------------
# ALTER TABLE


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a column goes: FIRST, or AFTER a column."""

    after: str | None  # None: first


@dataclass(slots=True)
class _Changed:
    """What becomes of a column of the table: another definition, maybe at another place."""

    definition: ColumnDefinition
    place: _Place | None


# What may begin a part of ALTER TABLE without any effect on names, types or order.
_WITHOUT_EFFECT = frozenset(
    ["ALGORITHM", "ANALYZE", "AUTO_INCREMENT", "AVG_ROW_LENGTH", "CHECK", "CHECKSUM", "COALESCE", "COMMENT", "COMPRESSION", "CONNECTION", "DATA", "DELAY_KEY_WRITE", "DISABLE", "DISCARD", "ENABLE", "ENCRYPTED", "ENCRYPTION", "ENGINE", "ENGINE_ATTRIBUTE", "EXCHANGE", "FORCE", "IMPORT", "INDEX", "INSERT_METHOD", "KEY_BLOCK_SIZE", "LOCK", "MAX_ROWS", "MIN_ROWS", "NOWAIT", "OPTIMIZE", "PACK_KEYS", "PARTITION", "PASSWORD", "REBUILD", "REMOVE", "REORGANIZE", "REPAIR", "ROW_FORMAT", "SECONDARY_ENGINE", "SECONDARY_ENGINE_ATTRIBUTE", "SECONDARY_LOAD", "SECONDARY_UNLOAD", "STATS_AUTO_RECALC", "STATS_PERSISTENT", "STATS_SAMPLE_PAGES", "STORAGE", "TABLESPACE", "TRANSACTIONAL", "TRUNCATE", "TYPE", "UNION", "UPGRADE", "VALIDATION", "WAIT", "WITHOUT", "WITH"]
)
_PARTITION_VERBS = frozenset(
    ["ANALYZE", "CHECK", "COALESCE", "DISCARD", "EXCHANGE", "IMPORT", "OPTIMIZE", "PARTITION", "REBUILD", "REMOVE", "REORGANIZE", "REPAIR", "TRUNCATE"]
)


class _Alteration:
    """The parts of one ALTER TABLE, gathered first and then carried out as the server does.

    All parts speak of the table as it was, so that ``CHANGE a b …, CHANGE b a …`` swaps names.
    """

    def __init__(self, table: TableSchema, dialect: Dialect) -> None:
        self.table = table
        self.dialect = dialect
        self.options: TableOptions = new_table_options()
        self.converted = False
        self.renamed: TableKey | None = None
        self._dropped: set[int] = set()
        self._changed: dict[int, _Changed] = {}
        self._added: list[tuple[ColumnDefinition, _Place | None]] = []
        self._drop_key = False
        self._key: tuple[str, ...] | None = None

    # --- gathering

    def read(self, reader: TokenReader, default_database: str) -> None:
        """Take all parts of the statement."""
        while not reader.done:
            word = reader.word()
            if word in _PARTITION_VERBS or (word in ("ADD", "DROP") and reader.word(1) == "PARTITION"):
                return  # nothing but partitions can follow
            self._read_part(reader, default_database)
            if not reader.accept_symbol(",") and reader.symbol() == ")":
                raise reader.unexpected("a part of ALTER TABLE")

    def _read_part(self, reader: TokenReader, default_database: str) -> None:
        if reader.accept("ADD"):
            self._read_add(reader)
        elif reader.accept("DROP"):
            self._read_drop(reader)
        elif reader.accept("MODIFY"):
            reader.accept("COLUMN")
            self._read_change(reader, renames=False)
        elif reader.accept("CHANGE"):
            reader.accept("COLUMN")
            self._read_change(reader, renames=True)
        elif reader.accept("RENAME"):
            self._read_rename(reader, default_database)
        elif reader.accept("ALTER"):
            self._read_alter_column(reader)
        elif reader.accept("CONVERT", "TO"):
            self.converted = True
            self.options.read(reader)
            self.options.read(reader)  # COLLATE
        elif reader.accept("CONVERT"):
            raise SchemaError("a partition is converted to or from a table")
        elif reader.accept("ORDER", "BY"):
            self._skip_order(reader)
        else:
            self._read_options(reader)

    def _read_add(self, reader: TokenReader) -> None:
        named_column = reader.accept("COLUMN")
        if not named_column:
            if reader.accept("SYSTEM", "VERSIONING"):
                raise SchemaError("system versioning is added")
            if (key := read_primary_key(reader)) is not None:
                self._key = key
                reader.skip_element()
                return
            if comes_key_or_constraint(reader):
                reader.skip_element()
                return
        exists_allowed = reader.accept("IF", "NOT", "EXISTS")
        if not reader.accept_symbol("("):
            self._add_column(reader, exists_allowed)
            return
        while True:
            if (key := read_primary_key(reader)) is not None:
                self._key = key
                reader.skip_element()
            elif comes_key_or_constraint(reader):
                reader.skip_element()
            else:
                self._add_column(reader, exists_allowed)
            if not reader.accept_symbol(","):
                break
        reader.expect_symbol(")")

    def _add_column(self, reader: TokenReader, exists_allowed: bool) -> None:
        definition = read_column(reader, self.dialect)
        place = self._read_place(reader)
        if exists_allowed and self._find(definition.column.name) is not None:
            return
        self._check_period(place)
        self._added.append((definition, place))

    def _check_period(self, place: _Place | None) -> None:
        last = self.table.columns[-1]
        if place is None and last.invisible and last.name.lower() == "row_end":
            raise SchemaError("a column is added to a table with hidden period columns")

    def _read_drop(self, reader: TokenReader) -> None:
        if reader.accept("PRIMARY", "KEY") or (
            reader.word() == "CONSTRAINT" and (after := reader.peek(1)) is not None and after.text == "PRIMARY"
        ):
            self._drop_key = True
            reader.skip_element()
            return
        if reader.accept("SYSTEM", "VERSIONING"):
            raise SchemaError("system versioning is dropped")
        if reader.word() in ("INDEX", "KEY", "FOREIGN", "CONSTRAINT", "CHECK") or (
            reader.word() == "PERIOD" and reader.word(1) == "FOR"
        ):
            reader.skip_element()
            return
        reader.accept("COLUMN")
        index = self._take_column(reader)
        if index is not None:
            self._dropped.add(index)
        reader.skip_element()  # RESTRICT, CASCADE

    def _read_change(self, reader: TokenReader, *, renames: bool) -> None:
        missing_allowed = reader.accept("IF", "EXISTS")
        if renames:
            old = reader.name()
            definition = read_column(reader, self.dialect)
        else:
            definition = read_column(reader, self.dialect)
            old = definition.column.name
        place = self._read_place(reader)
        index = self._find(old)
        if index is None:
            if missing_allowed:
                return
            raise SchemaError("there is no such column", column=old)
        if not renames:
            definition = replace(
                definition, column=replace(definition.column, name=self.table.columns[index].name)
            )
        self._changed[index] = _Changed(definition, place)

    def _read_rename(self, reader: TokenReader, default_database: str) -> None:
        if reader.accept("COLUMN"):
            index = self._take_column(reader)
            if not reader.accept("TO"):
                raise reader.unexpected("TO")
            name = reader.name()
            if index is not None:
                column = replace(self.table.columns[index], name=name)
                self._changed[index] = _Changed(ColumnDefinition(column, own_charset=True), None)
        elif reader.word() in ("INDEX", "KEY"):
            reader.skip_element()
        else:
            if not reader.accept_any("TO", "AS"):
                reader.accept_symbol("=")
            self.renamed = reader.qualified_name(default_database)

    def _read_alter_column(self, reader: TokenReader) -> None:
        if reader.word() in ("INDEX", "KEY", "CHECK", "CONSTRAINT"):
            reader.skip_element()
            return
        reader.accept("COLUMN")
        index = self._take_column(reader)
        if reader.accept("SET") and index is not None and (shown := reader.accept_any("VISIBLE", "INVISIBLE")):
            column = replace(self.table.columns[index], invisible=shown == "INVISIBLE")
            self._changed[index] = _Changed(ColumnDefinition(column, own_charset=True), None)
        reader.skip_element()

    @staticmethod
    def _skip_order(reader: TokenReader) -> None:
        while True:
            reader.name()
            reader.accept_any("ASC", "DESC")
            if reader.symbol() != "," or reader.word(1) in ("ADD", "DROP", "CHANGE", "ALTER", "CONVERT", "RENAME"):
                return
            reader.take()

    def _read_options(self, reader: TokenReader) -> None:
        first = True
        while not reader.done and reader.symbol() != "," and reader.word() not in ("PARTITION", "REMOVE"):
            if self.options.versioned:
                raise SchemaError("system versioning is added")
            if not self.options.read(reader):
                token = reader.take()
                known = token.text.upper() in _WITHOUT_EFFECT or reader.symbol() == "="
                if first and not known and token.kind is not TokenKind.SYMBOL:
                    raise SchemaError("a part of ALTER TABLE is not understood")
                if token.text == "(":
                    raise reader.unexpected("an option")
                reader.skip_parens()
            first = False

    @staticmethod
    def _read_place(reader: TokenReader) -> _Place | None:
        if reader.accept("FIRST"):
            return _Place(None)
        if reader.accept("AFTER"):
            return _Place(reader.name())
        return None

    def _find(self, name: str) -> int | None:
        folded = name.casefold()
        return next((i for i, c in enumerate(self.table.columns) if c.name.casefold() == folded), None)

    def _take_column(self, reader: TokenReader) -> int | None:
        """Take ``[IF EXISTS] name``: its index; None where it is missing and may be."""
        missing_allowed = reader.accept("IF", "EXISTS")
        name = reader.name()
        index = self._find(name)
        if index is None and not missing_allowed:
            raise SchemaError("there is no such column", column=name)
        return index

    # --- carrying out

    def result(self) -> TableSchema:
        """The table afterwards."""
        table = self.table
        charset = self.options.charset.name
        if self.converted:
            table = convert_charset(table, charset)
        elif charset is not None:
            table = replace(table, charset=charset)

        columns: list[ColumnSchema] = []
        moved: list[tuple[ColumnSchema, _Place | None]] = []
        new_names: dict[int, str] = {}
        for index, column in enumerate(table.columns):
            if index in self._dropped:
                continue
            if (change := self._changed.get(index)) is not None:
                column = settle_charset(change.definition, table.charset)
                if change.place is not None:
                    moved.append((column, change.place))
            new_names[index] = column.name
            if change is None or change.place is None:
                columns.append(column)
        moved += [(settle_charset(d, table.charset), place) for d, place in self._added]
        for column, place in moved:
            columns.insert(_insert_at(columns, place), column)
        if not columns or len({c.name.casefold() for c in columns}) != len(columns):
            raise SchemaError("columns of the same name, or none at all, would be left")
        return with_primary_key(replace(table, columns=tuple(columns), primary_key=None), self._new_key(new_names))

    def _new_key(self, new_names: dict[int, str]) -> tuple[str, ...] | None:
        """The primary key: given anew, declared with a column, or the old one under new names."""
        if self._key is not None:
            return self._key
        definitions = [*(c.definition for c in self._changed.values()), *(d for d, _ in self._added)]
        if declared := tuple(d.column.name for d in definitions if d.primary):
            return declared
        if self._drop_key or self.table.primary_key is None:
            return None
        old = [self.table.position(name) for name in self.table.primary_key]
        return tuple(new_names[i] for i in old if i in new_names) or None


def _insert_at(columns: list[ColumnSchema], place: _Place | None) -> int:
    if place is None:
        return len(columns)
    if place.after is None:
        return 0
    folded = place.after.casefold()
    for i, column in enumerate(columns):
        if column.name.casefold() == folded:
            return i + 1
    raise SchemaError("there is no column to go after", column=place.after)
