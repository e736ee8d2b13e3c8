"""``schema="server"``: a server's definitions at a known place, and the statements in its logs around it.

The server is asked for its definitions between two looks at its logs. If no statement between the two changes
a table, its definition is the one at that place. If no statement changes it from the start of reading up to
that place either, it is the definition from the start on. A table that is changed in between is known from
the last of these statements on, and before it as far as the statements themselves show.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from .._decode.log_decoder import LogDecoder
from .._decode.selection import Selection
from .._format.event_header import FIRST_EVENT
from .._walk.track import Rules
from .._walk.typed_events import definition_statements
from ..errors import ProtocolError, SchemaError, ServerError
from ..events import QueryEvent
from ..limits import Limits
from ..report import Report
from ..schema.ddl import DdlTracker, TableKey
from ..schema.definitions import Definitions
from ..schema.given import read_definitions
from .address import Address
from .answers import Answer, text
from .connection import LIST_BYTES, Connection
from .source import ServerSource
from .stream import ServerStream

if TYPE_CHECKING:
    from .._sources.sources import Source
    from .._tables.tables import Table
    from ..schema.table_definitions import TableSchema

_MOST_TRIES = 5  # to ask for the tables while no statement changes one


class _Statement(NamedTuple):
    """A statement that changes tables; `tables` in lower case, None if they are not known."""

    file: str
    place: tuple[int, int]  # number of the log among those looked at, position
    event: QueryEvent
    tables: frozenset[TableKey] | None


_Later = tuple[_Statement, "list[TableSchema]"]  # from that statement on the tables are as the server says


class History:
    """A server's definitions and the statements that led to them; grows from pass to pass.

    Parameters
    ----------
    address : Address
        The server.
    limits : Limits
        Limits on memory and time.
    """

    def __init__(self, address: Address, limits: Limits) -> None:
        # With another server id: with the same one, the server would end the reader's stream.
        self._address = replace(address, server_id=None, semi_sync=False)
        self._limits = limits
        self._lock = threading.Lock()
        self._of: tuple[Any, ...] | None = None  # the server, and the GTIDs at which reading statements began
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._files: list[str] = []
        self._begin = 0, FIRST_EVENT
        self._end = "", FIRST_EVENT
        self._mariadb = False
        self._touching = _Touching(self._limits)
        self._statements: list[_Statement] = []
        self._tables: list[TableSchema] = []
        self._charsets: dict[str, str | None] = {}
        self._lower_case = False
        self._asked = 0  # how many statements came before `_tables`

    def from_place_of(self, source: ServerSource) -> tuple[DdlTracker, list[_Later]]:
        """The definitions known where a source begins, and the changes by later statements.

        Raises
        ------
        ServerError
            The server cannot be asked, or its logs cannot be read.
        """
        with self._lock:
            self._look(source)
            place = self._files.index(source.path), source.begin
            changed_charsets = dict.fromkeys(self._touching.database_charsets)
            tracker = DdlTracker(
                limits=self._limits,
                keep_timeline=False,
                database_charsets=self._charsets | changed_charsets,
                lower_case=self._lower_case,
            )
            before = sum(one.place < place for one in self._statements)
            for one in self._statements[: min(before, self._asked)]:
                tracker.apply_event(one.event, mariadb=self._mariadb)
            last: dict[TableKey | None, _Statement] = {}
            for one in self._statements[before : self._asked]:
                last |= dict.fromkeys(one.tables or (None,), one)
            later: dict[tuple[int, int], _Later] = {}
            for table in self._tables:
                changed = [last[key] for key in (None, _key(table.database, table.name)) if key in last]
                if not changed:
                    tracker.define(table)
                    continue
                one = max(changed, key=lambda statement: statement.place)
                later.setdefault(one.place, (one, []))[1].append(table)
            for one in self._statements[self._asked : before]:
                tracker.apply_event(one.event, mariadb=self._mariadb)
            tracker.unfollowed.clear()
            return tracker, list(later.values())

    # ------------------------------------------------------------ looking

    def _look(self, source: ServerSource) -> None:
        stream = source.stream
        if stream.facts.by_gtids_only:
            raise SchemaError(
                'schema="server" needs positions, which a log in InnoDB does not have: give the definitions,'
                " or set binlog_row_metadata = FULL",
                path=source.stream.address.name,
            )
        host = self._address if self._address.socket else replace(self._address, hosts=(stream.host,))
        of = stream.facts.uuid or stream.facts.server_id, stream.begun_at
        here = source.path in self._files and (self._files.index(source.path), source.begin) >= self._begin
        if of == self._of and here:
            self._scan(host, self._end)
            return
        self._of = None
        self._begin_anew()
        self._scan(host, stream.begun_at or (source.path, source.begin))
        if source.path not in self._files:
            raise ProtocolError("the server does not send this log to a second connection", path=source.path)
        self._begin = self._files.index(source.path), source.begin
        for _ in range(_MOST_TRIES):
            before = len(self._statements)
            self._ask(host)
            self._scan(host, self._end)
            since = self._statements[before:]
            if not since:
                break
        # A table that changes all the time may have been asked for before or after a change.
        self._tables = [
            table
            for table in self._tables
            if not any(one.tables is None or _key(table.database, table.name) in one.tables for one in since)
        ]
        self._asked = len(self._statements)
        self._of = of

    def _scan(self, address: Address, start: Any) -> None:
        """Gather statements up to where the logs end now."""
        with ServerStream(address, start=start, follow=False, limits=self._limits) as stream:
            self._mariadb = stream.facts.mariadb
            while True:
                source = ServerSource(stream, follow=False)
                if not self._files or self._files[-1] != source.path:
                    self._files.append(source.path)
                decoder = LogDecoder(source, Selection(), Rules.lenient(Report(warn=False)))
                for event in definition_statements(decoder.track):
                    self._note(event, source.path)
                if source.next_file is None:
                    break
            self._end = stream.file, stream.position

    def _note(self, event: QueryEvent, file: str) -> None:
        touched = self._touching.touched_by(event, mariadb=self._mariadb)
        if touched is None or touched:
            place = len(self._files) - 1, event.position
            self._statements.append(_Statement(file, place, event, touched))

    def _ask(self, address: Address) -> None:
        with Connection(address) as connection:
            letters = connection.variables(["lower_case_table_names"]).get("lower_case_table_names")
            self._lower_case = letters == "1"
            sql = "SELECT schema_name, default_character_set_name FROM information_schema.schemata"
            self._charsets = {name: charset for name, charset, *_ in _texts(connection, sql)}
            self._tables = definitions_of(connection)


def definitions_of(
    connection: Connection, chosen: Callable[[str], bool] = lambda name: True, database: str = ""
) -> list[TableSchema]:
    """The definitions of the tables that a server shows now; `chosen`, `database`: see `read_definitions`."""
    return read_definitions(partial(_texts, connection), database, chosen)


def _texts(connection: Connection, sql: str) -> Answer:
    """Rows that begin with two texts, as many as there are."""
    return connection.query(sql, text, text, most=LIST_BYTES, right="SELECT")


def tables_of(url: str) -> list[TableSchema]:
    """The definitions that ``mysql://user@host/database?option=value`` shows, asked for once.

    Raises
    ------
    SchemaError
        The URL is not valid, the server cannot be reached or refuses, or it shows no table.
    """
    scheme, _, rest = url.partition("://")
    rest, mark, query_text = rest.partition("?")
    login, at, place = rest.rpartition("@")
    hosts, _, database = place.partition("/")
    wanted = unquote(database)
    try:
        address = Address.of(f"{scheme}://{login}{at}{hosts}{mark}{query_text}")
    except ValueError as error:
        raise SchemaError(f"schema= is not a server's address: {error}") from None
    return tables_at(address, wanted)


def tables_at(address: Address, database: str) -> list[TableSchema]:
    """The definitions that a server shows, of one database or of all ("").

    Raises
    ------
    SchemaError
        The server cannot be reached or refuses, or it shows no table.
    """
    path = f"{address.name}/{database}"
    try:
        with Connection(address) as connection:
            tables = definitions_of(connection, database=database)
    except ServerError as error:
        raise SchemaError(f"the schema cannot be read from the server: {error.message}", path=path) from error
    if not tables:
        raise SchemaError("the server shows the user no tables there", path=path)
    return tables


class _Touching(DdlTracker):
    """Finds the tables that a statement changes, even those whose definitions are not known."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits=limits, keep_timeline=False)
        self._touched: set[TableKey] = set()

    def definition(self, database: str, table: str) -> TableSchema | None:
        self._touched.add(_key(database, table))  # every table that is changed is asked for
        return super().definition(database, table)

    def touched_by(self, event: QueryEvent, *, mariadb: bool) -> frozenset[TableKey] | None:
        """The tables that a statement may change; None if they are not known."""
        self._touched = set()
        self.unfollowed.clear()
        self.apply_event(event, mariadb=mariadb)
        return None if any(one.table is None for one in self.unfollowed) else frozenset(self._touched)


class ServerDefinitions(Definitions):
    """The definitions of a server's tables, each where it is known to be true.

    Parameters
    ----------
    history : History
        What is known of the server's definitions.
    limits, charset
        As for `Definitions`.
    """

    def __init__(self, history: History, *, limits: Limits, charset: str | None) -> None:
        super().__init__("ddl", limits=limits, charset=charset)
        self._history = history
        self._later: dict[tuple[str, int, bytes], list[TableSchema]] = {}
        self._unproved: dict[TableKey, _Statement] = {}

    def begin(self, source: Source) -> None:
        """Rows are read from this source on."""
        assert isinstance(source, ServerSource)
        self._tracker, later = self._history.from_place_of(source)
        for one, tables in later:
            self._later[one.file, one.event.position, one.event.query_bytes] = tables
            self._unproved |= {(table.database, table.name): one for table in tables}

    def _defined(self, table: Table, report: Report, *, path: str, offset: int) -> Table:
        found = super()._defined(table, report, path=path, offset=offset)
        if found is not table or all(column.named for column in table.columns):
            return found
        one = self._unproved.get((table.database, table.name))
        if one is None and found.full_name in self._undefined:
            report.add("hidden_definitions", path=path, offset=offset, table=table.full_name)
        elif one is not None:
            report.add(
                "unproved_definitions",
                path=path,
                offset=offset,
                table=table.full_name,
                detail=f"the server's is right from {one.file} {one.event.position} on, where it was changed",
            )
        return found

    def follow(
        self, event: QueryEvent, report: Report, *, mariadb: bool, path: str, transaction: int
    ) -> None:
        super().follow(event, report, mariadb=mariadb, path=path, transaction=transaction)
        assert self._tracker is not None
        for table in self._later.pop((path, event.position, event.query_bytes), ()):
            self._tracker.define(table)
            del self._unproved[table.database, table.name]


def _key(database: str, table: str) -> TableKey:
    """A table's name for a server that may not distinguish case."""
    return database.casefold(), table.casefold()
