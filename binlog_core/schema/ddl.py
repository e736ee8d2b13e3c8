"""Following the definitions of tables through the DDL statements of a log.

Each row then gets the names that its table had at that point. A statement that cannot be followed is
reported, and the definitions of its tables are forgotten: rows never get names that may be wrong.

Source: MySQL manual, "Data Definition Statements"; MariaDB knowledge base, "Data Definition".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import TYPE_CHECKING

from .._format.event_header import THREAD_SPECIFIC_FLAG
from .._tables import charsets
from .._tables.full_names import full_name
from ..errors import SchemaError
from ..events.query import query_text
from ..limits import DEFAULT_LIMITS, Limits
from .alter_table import Alteration
from .create_table import Dialect, Keys, NotADefinition, new_table_options, read_column, read_table_body
from .table_definitions import ColumnSchema, TableSchema, with_keys
from .tokens import Token, TokenKind, TokenReader, executed_by, tokenize_statements

if TYPE_CHECKING:
    from ..events.query import QueryEvent

# Bits of flags_extra of a MariaDB GTID event: the statement after it only announces or takes
# back an ALTER, whose effect comes with COMMIT ALTER.
FLAG_START_ALTER = 2
FLAG_ROLLBACK_ALTER = 8

_CONCERNED = re.compile(
    r"(?> (?: \s+ | /\*M?!\d* | /\*.*?\*/ | --\s[^\n]* | \#[^\n]* )* )"
    r"(?: CREATE | ALTER | DROP | RENAME | TRUNCATE | SET \s+ STATEMENT )\b",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Unfollowed:
    """A statement after which a table's definition is not known.

    Parameters
    ----------
    position : int
        Position of its event.
    table : str or None
        ``database.table``; None if not even the table is known.
    reason : str
        Why the statement could not be followed.
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
_ANY_DIALECT = Dialect()


class DdlTracker:
    """The definitions of all tables, as far as they follow from given definitions and the log's DDL.

    Parameters
    ----------
    initial : Schema, iterable of TableSchema or None
        The definitions at the beginning of the log. Without them, a table is known from its CREATE TABLE on.
    limits : Limits
        Its `statement_bytes` and `definition_columns` apply.
    keep_timeline : bool
        Also keep the earlier definitions of tables.
    database_charsets : mapping or None
        The default character sets of databases at the beginning of the log.
    lower_case : bool or None
        Whether the server stores names in lower case, however they are written (lower_case_table_names=1).
        None: not known, so a table that a statement with capitals may mean is no longer known.

    Attributes
    ----------
    database_charsets : dict of str to str or None
        The default character sets of databases, as far as the log has them.
    unfollowed : list of Unfollowed
        The statements that could not be followed; you may clear it once you have reported them.
    timeline : list of DefinitionChange
        With `keep_timeline`, every change so far in log order, so that the definitions for a part of the log
        are known without reading what comes before it.
    """

    def __init__(
        self,
        initial: Iterable[TableSchema] | None = None,
        *,
        limits: Limits = DEFAULT_LIMITS,
        keep_timeline: bool = True,
        database_charsets: Mapping[str, str | None] | None = None,
        lower_case: bool | None = None,
    ) -> None:
        self._limits = limits
        self.lower_case = lower_case
        self._keep_timeline = keep_timeline
        self._tables: dict[str, dict[str, TableSchema]] = {}
        for table in initial or ():
            self._tables.setdefault(table.database, {})[table.name] = table
        self._weight = sum(map(_weight, self))
        self.database_charsets: dict[str, str | None] = dict(database_charsets or {})
        self.unfollowed: list[Unfollowed] = []
        self.timeline: list[DefinitionChange] = []

    def copied(self, *, lower_case: bool | None = None) -> DdlTracker:
        """Another tracker that begins with the same definitions; `lower_case`: as for a new one."""
        found = DdlTracker(
            limits=self._limits, database_charsets=self.database_charsets, lower_case=lower_case
        )
        found._tables = {database: dict(tables) for database, tables in self._tables.items()}
        found._weight = self._weight
        return found

    def __iter__(self) -> Iterator[TableSchema]:
        return chain.from_iterable(tables.values() for tables in self._tables.values())

    def definition(self, database: str, table: str) -> TableSchema | None:
        """The current definition of a table; None if it is not known, or the table does not exist."""
        return self._tables.get(database, {}).get(table)

    def define(self, table: TableSchema) -> None:
        """Give a table this definition from here on."""
        before = self.definition(table.database, table.name)
        self._weight += _weight(table) - _weight(before)
        self._tables.setdefault(table.database, {})[table.name] = table

    def apply_event(self, event: QueryEvent, *, mariadb: bool | None = None) -> frozenset[str] | None:
        """Follow the statement of a QUERY event, with its status variables.

        Parameters
        ----------
        event : QueryEvent
            The event.
        mariadb : bool or None
            As in `apply_statement`; so is the result.
        """
        status = event.status
        # One byte more than is read, so that a longer statement is noticed.
        sql = query_text(event.query_bytes[: self._limits.statement_bytes + 1], status.character_set_client)
        return self.apply_statement(
            event.database,
            sql,
            mariadb,
            event.position,
            sql_mode=status.sql_mode or 0,
            server_collation=status.collation_server,
            gtid_flags_extra=status.gtid_flags3 or 0,
            of_session=bool(event.flags & THREAD_SPECIFIC_FLAG),
        )

    def apply_statement(
        self,
        default_database: str,
        sql: str,
        mariadb: bool | None = None,
        position: int = 0,
        *,
        sql_mode: int = 0,
        server_collation: int | None = None,
        gtid_flags_extra: int = 0,
        of_session: bool = False,
    ) -> frozenset[str] | None:
        """Follow one statement of the log.

        Parameters
        ----------
        default_database : str
            The default database of the QUERY event.
        sql : str
            The text of the statement.
        mariadb : bool or None
            Whether MariaDB wrote the log; None if that is not known.
        position : int
            The event's position, for `unfollowed` and `timeline`.
        sql_mode : int
            The sql_mode from the event's status variables.
        server_collation : int or None
            The server's collation from the event's status variables. A database gets it if CREATE DATABASE
            does not name one, and so does a table whose database is not known.
        gtid_flags_extra : int
            The extra flags from the event's status variables, or from the MariaDB GTID event before it. An
            ALTER that is only announced (START ALTER) or rolled back changes nothing.
        of_session : bool
            Whether the statement depends on its session. Its table may then be a temporary one that hides
            the known one of the same name, which is no longer known after an ALTER.

        Returns
        -------
        frozenset of str or None
            ``database.table`` of each table whose definition changed or is no longer known; empty if there
            are none. None if no statement of this kind can change a definition.
        """
        sql = executed_by(mariadb, sql, sql_mode)
        if _CONCERNED.match(sql) is None or gtid_flags_extra & (FLAG_START_ALTER | FLAG_ROLLBACK_ALTER):
            return None
        charset = charsets.charset_of(server_collation) if server_collation is not None else None
        # Only routines and triggers have a ; before the end: what comes before it shows what they are.
        statements = tokenize_statements(sql, sql_mode, most=self._limits.statement_bytes)
        return self.apply_reader(
            default_database,
            TokenReader(chain.from_iterable(islice(statements, 1))),
            position,
            Dialect(mariadb, sql_mode),
            server_charset=charset,
            of_session=of_session,
        )

    def apply_reader(
        self,
        default_database: str,
        reader: TokenReader,
        position: int,
        dialect: Dialect = _ANY_DIALECT,
        *,
        server_charset: str | None = None,
        of_session: bool = False,
    ) -> frozenset[str] | None:
        """Like `apply_statement`, for a statement already split into tokens."""
        statement = _Statement(self, reader, default_database, dialect, server_charset, of_session)
        try:
            if not statement.run():
                return None
        except NotADefinition:
            statement.forget("its columns come from a SELECT")
        except SchemaError as error:
            column = "" if error.column is None else f": column {error.column}"
            statement.forget(error.message + column)
        changed = set()
        for (database, name), definition in statement.changes.items():
            before = self.definition(database, name)
            if before == definition:
                continue
            added = _weight(definition, before)
            if self._weight + added > self._limits.definition_columns:
                reason = f"more definitions than Limits.definition_columns={self._limits.definition_columns}"
                statement.unfollowed.append((full_name(database, name), reason))
                definition, added = None, 0
                if before is None:
                    continue
            self._weight += added - (0 if self._keep_timeline else _weight(before, definition))
            if definition is None:
                del self._tables[database][name]
            else:
                self._tables.setdefault(database, {})[name] = definition
            if self._keep_timeline:
                self.timeline.append(DefinitionChange(position, database, name, definition))
            changed.add(full_name(database, name))
        self.database_charsets.update(statement.database_charsets)
        self.unfollowed += [Unfollowed(position, table, reason) for table, reason in statement.unfollowed]
        return frozenset(changed)

    def database_charset(self, database: str) -> str | None:
        """The default character set of a database, if the log has it."""
        return self.database_charsets.get(database)

    def tables_of(self, database: str) -> list[TableKey]:
        """The known tables of a database."""
        return [(database, name) for name in self._tables.get(database, ())]


def _weight(definition: TableSchema | None, beside: TableSchema | None = None) -> int:
    """The cost of a definition, in columns; columns shared with another definition hardly count."""
    if definition is None:
        return 0
    shared = set(map(id, beside.columns)) if beside is not None else set()
    own = [column for column in definition.columns if id(column) not in shared]
    texts = sum(len(c.name) + sum(map(len, c.members or ())) for c in own)
    return 1 + len(own) + texts // 256 + len(definition.columns) // 32


@dataclass(slots=True)
class _Statement:
    """One statement being followed; its changes take effect together, at its end."""

    tracker: DdlTracker
    reader: TokenReader
    default_database: str
    dialect: Dialect
    server_charset: str | None
    of_session: bool
    changes: dict[TableKey, TableSchema | None] = field(default_factory=dict)
    unfollowed: list[tuple[str | None, str]] = field(default_factory=list)
    database_charsets: dict[str, str | None] = field(default_factory=dict)
    _at_work: TableKey | None = None

    def run(self) -> bool:
        """Follow the statement; False if it does not concern definitions."""
        reader = self.reader
        verb, or_replace = reader.table_verb()
        if reader.word() == "TEMPORARY":
            return False
        index = reader.accept_any("UNIQUE", "FULLTEXT", "SPATIAL")
        what = reader.accept_any("TABLE", "TABLES", "DATABASE", "SCHEMA", "SEQUENCE", "INDEX")
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
                self._database_options(created=verb == "CREATE", or_replace=or_replace)
            case "DROP", "DATABASE":
                self._drop_database()
            case "CREATE", "INDEX" if or_replace or index == "UNIQUE":
                self._create_index(unique=index == "UNIQUE", or_replace=or_replace)
            case "DROP", "INDEX":
                self._drop_index()
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
        self.unfollowed.append((full_name(*self._at_work), reason))

    def _spelt(self, name: str) -> str:
        """A name as the server stores it."""
        return name.lower() if self.tracker.lower_case else name

    def _table_name(self) -> TableKey:
        database, table = self.reader.qualified_name(self.default_database)
        return self._spelt(database), self._spelt(table)

    def _altered(self, key: TableKey) -> TableSchema | None:
        """The definition that the statement changes; None if it is not known."""
        self._check_case(key)
        table = self.get(key)
        if table is not None and self.of_session:
            raise SchemaError("its table may be a temporary one of the same name")
        return table

    def _check_case(self, key: TableKey) -> None:
        """Forget a table that a statement means if the server stores names in lower case."""
        small = key[0].lower(), key[1].lower()
        if self.tracker.lower_case is None and self.get(key) is None and self.get(small) is not None:
            self.drop(small)
            reason = f"it is not known whether {full_name(*key)} is another table"
            self.unfollowed.append((full_name(*small), reason))

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
                raise SchemaError(f"the definition of {full_name(*source)} is not known")
            self.put(replace(like, database=key[0], name=key[1]))
            return
        if reader.symbol() != "(":
            raise NotADefinition
        charset = self.tracker.database_charset(key[0])
        self.put(read_table_body(reader, *key, self.dialect, charset, self.server_charset))

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
            key = self._table_name()
            self._check_case(key)
            self.drop(key)
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
        self._check_case(source)
        table = self.get(source)
        self.drop(source)
        if table is None:
            self.drop(target)
        else:
            self.put(replace(table, database=target[0], name=target[1]))

    def _database_options(self, *, created: bool, or_replace: bool) -> None:
        reader = self.reader
        # With IF NOT EXISTS it is not known whether the database existed, and with which defaults.
        certain = not reader.accept("IF", "NOT", "EXISTS")
        options = new_table_options()
        has_name = reader.word() not in ("CHARACTER", "CHARSET", "COLLATE", "DEFAULT", "ENCRYPTION", "READ")
        database = self._spelt(reader.name() if has_name else self.default_database)
        while not reader.done:
            if not options.read(reader):
                reader.take()
        if or_replace:
            for key in self.tracker.tables_of(database):
                self.drop(key)
        charset = options.charset.name
        if charset is None and created:
            charset = self.server_charset
        if charset is not None and certain:
            self.database_charsets[database] = charset

    def _drop_database(self) -> None:
        self.reader.accept("IF", "EXISTS")
        database = self._spelt(self.reader.name())
        self.database_charsets[database] = None
        for key in self.tracker.tables_of(database):
            self.drop(key)

    def _create_index(self, *, unique: bool, or_replace: bool) -> None:
        reader = self.reader
        reader.accept("IF", "NOT", "EXISTS")
        name = reader.name()
        while not reader.accept("ON"):
            reader.take()
        key = self._at_work = self._table_name()
        table = self._altered(key)
        if table is not None:
            gone = name.casefold() if or_replace else None
            keys = Keys(table.primary_key, [k for k in table.unique_keys if k.name.casefold() != gone])
            if unique:
                keys.read_unique(reader, name)
            self.put(with_keys(table, keys.primary, keys.unique))

    def _drop_index(self) -> None:
        reader = self.reader
        reader.accept("IF", "EXISTS")
        name = reader.name().casefold()
        if not reader.accept("ON"):
            raise reader.unexpected("ON")
        key = self._at_work = self._table_name()
        table = self._altered(key)
        if table is not None:
            primary = None if name == "primary" else table.primary_key
            unique = (k for k in table.unique_keys if k.name.casefold() != name)
            self.put(with_keys(table, primary, unique))

    def _alter_table(self) -> None:
        reader = self.reader
        reader.accept("IF", "EXISTS")
        key = self._at_work = self._table_name()
        if reader.accept("WAIT"):
            reader.number()
        reader.accept("NOWAIT")
        before = self._altered(key)
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
        alteration = Alteration(before, self.dialect)
        alteration.read(reader, self.default_database)
        after = alteration.result()
        if alteration.renamed is not None:
            self.drop(key)
            database, name = map(self._spelt, alteration.renamed)
            self._at_work = database, name
            after = replace(after, database=database, name=name)
        self.put(after)


def _with_name(reader: TokenReader) -> TokenReader:
    """A reader that gives a name before the type that comes, so that it reads as a column."""
    tokens = [Token(TokenKind.NAME, "")]
    while not reader.done and reader.word() not in ("START", "INCREMENT", "MINVALUE", "MAXVALUE", "CACHE"):
        tokens.append(reader.take())
    return TokenReader(tokens)
