"""SQL over logs: DuckDB scans row changes, events and transactions as tables.

>>> import duckdb, binlog_core, binlog_core.duckdb
>>> con = duckdb.connect()                                                  # doctest: +SKIP
>>> binlog_core.duckdb.register(con, "mysql-bin.000042")                    # doctest: +SKIP
>>> con.sql("FROM changes('shop.orders') WHERE _change_type = 'delete'")    # doctest: +SKIP

``changes('database.table')`` has the columns of the table, null where a row image lacks one, then
`CHANGE_COLUMNS`; an update is two rows. ``events`` has the log's events, ``transactions`` those transactions
that change rows. All are read anew for each query, group by group: nothing is kept.

DuckDB asks an Arrow stream for all of its columns, whatever the query needs. `query` therefore looks through
the parsed query for the names of columns before it runs, and has only those decoded.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ._capsules import schema_capsule, stream_capsule
from .arrow import ArrowBatch, map_columns, struct_field
from .arrow_types import ArrowField, ChangeColumn
from .batch import OUTCOMES, TRANSACTION_DTYPE, ChangeBatch
from .describe import Describer
from .errors import MissingExtraError, SchemaError
from .events import GtidEvent, MariadbGtidEvent
from .reader import Log
from .reader import open as open_log
from .summarize import gtid_text
from .tables import Column, Table, record_dtype

if TYPE_CHECKING:
    import duckdb

CHANGE_COLUMNS = (
    "_change_type",
    "_commit_timestamp",
    "_timestamp",
    "_gtid",
    "_server_id",
    "_file",
    "_position",
    "_row",
    "_transaction",  # position of its first event: transactions.begin_position
)
_OWN_COLUMNS = ("_gtid", "_transaction")

_PREFIX = "binlog:"  # of the names under which streams are registered: no table of the user's has one such
_EVENTS_CHUNK = 4096
_MACRO = (
    f"CREATE OR REPLACE TEMP MACRO changes(name) AS TABLE FROM query_table('\"{_PREFIX}' || name || '\"')"
)
_VIEWS = {
    "events": (
        "SELECT file, position, to_timestamp(timestamp) AS timestamp, server_id, event_length, type,"
        " type_code, nullif(table_name, '') AS table_name, nullif(gtid, '') AS gtid, info"
    ),
    "transactions": (
        "SELECT file, begin_position, nullif(end_position, 0) AS end_position,"
        " to_timestamp(timestamp) AS timestamp,"
        " CASE WHEN commit_time >= 0 THEN make_timestamptz(commit_time) END AS commit_timestamp,"
        " nullif(gtid, '') AS gtid, server_id, nullif(xid, 0) AS xid, outcome, row_images"
    ),
}


def register(
    con: duckdb.DuckDBPyConnection,
    log: Log | Any,
    *,
    columns: dict[str, list[str]] | None = None,
    **options: Any,
) -> list[str]:
    """Make a log's row changes, events and transactions known to a DuckDB connection.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
    log : Log, or what `binlog_core.open` takes
        Must be readable more than once: no pipe. Has to live as long as the connection asks for its tables.
    columns : dict of table name to list of str, optional
        Columns to decode, of the table's own and of `CHANGE_COLUMNS`; by default all.
    **options
        For `binlog_core.open`.

    Returns
    -------
    list of str
        The tables that ``changes('…')`` knows. Those whose name is in one database only also go without it.

    Raises
    ------
    BinlogError
        As opening and reading the log does.
    """
    opened = log if isinstance(log, Log) else open_log(log, **options)
    return _register(con, opened, find_tables(opened), columns or {})


def query(log: Log, sql: str, con: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyConnection:
    """Run a query with only those columns decoded that it names.

    Parameters
    ----------
    log : Log
    sql : str
    con : duckdb.DuckDBPyConnection, optional
        A new one without.

    Returns
    -------
    duckdb.DuckDBPyConnection
        With the result: ``.fetchall()``, ``.df()`` …

    Raises
    ------
    SchemaError
        ``changes('…')`` of a table that the log does not have; the message has near names.
    duckdb.Error
        The query is none.
    MissingExtraError
        DuckDB is not installed.
    """
    con = con or connect()
    wanted = _Query.of(con, sql)
    tables = find_tables(log) if wanted is None or wanted.tables or wanted.dynamic else {}
    if wanted is None:
        _register(con, log, tables, {})
        return con.execute(sql)
    names = _names(tables)
    for name in wanted.tables:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
            hint = f"near: {', '.join(near)}" if near else f"there are {', '.join(sorted(tables)) or 'none'}"
            raise SchemaError(f"no row changes of a table {name!r} in these logs; {hint}")
    _register(con, log, tables, {name: wanted.columns_of(found) for name, found in tables.items()})
    try:
        return con.execute(sql)
    except _binder_error():
        _register(con, log, tables, {})  # its message then knows every column that comes near
        return con.execute(sql)


def connect() -> duckdb.DuckDBPyConnection:
    """A DuckDB connection in memory, in UTC; MissingExtraError where DuckDB is not installed."""
    try:
        import duckdb
    except ImportError:
        raise MissingExtraError.of("duckdb", "duckdb", "SQL over logs") from None
    con = duckdb.connect()
    _run(con, "SET TimeZone = 'UTC'")
    return con


def _binder_error() -> type[Exception]:
    import duckdb

    error: type[Exception] = duckdb.BinderException
    return error


def find_tables(log: Log) -> dict[str, tuple[Column, ...]]:
    """Tables with row changes, and the columns of all of their definitions; no value is decoded."""
    found: dict[str, dict[str, Column]] = {}
    for group in log.groups(columns={"*": ()}):
        for batch in group.batches:
            columns = found.setdefault(batch.table.full_name, {})
            if batch.table.undecodable is None:
                columns |= {
                    column.name: column for column in batch.table.columns if column.name not in columns
                }
    return {name: tuple(columns.values()) for name, columns in found.items()}


# ---------------------------------------------------------------- registering


def _register(
    con: duckdb.DuckDBPyConnection,
    log: Log,
    tables: dict[str, tuple[Column, ...]],
    columns: Mapping[str, list[str] | None],
) -> list[str]:
    for name, full_name in _names(tables).items():
        wanted = columns.get(full_name, columns.get(name))
        con.register(_PREFIX + name, _changes(log, full_name, tables[full_name], wanted))
    for name, source in (("events", _events), ("transactions", _transactions)):
        con.register(_PREFIX + name, _Stream(source(log)))
        _run(con, f'CREATE OR REPLACE TEMP VIEW {name} AS {_VIEWS[name]} FROM "{_PREFIX}{name}"')
    _run(con, _MACRO)
    return sorted(tables)


def _run(con: duckdb.DuckDBPyConnection, sql: str, parameters: list[Any] | None = None) -> list[Any]:
    # To the end: DuckDB does nothing else on a connection whose result has not been fetched.
    return con.execute(sql, parameters or []).fetchall()


def _names(tables: dict[str, tuple[Column, ...]]) -> dict[str, str]:
    """Full names, and the tables' own where no two databases have the same."""
    names = {name: name for name in tables}
    short: dict[str, list[str]] = {}
    for name in tables:
        short.setdefault(name.partition(".")[2], []).append(name)
    return {own: full[0] for own, full in short.items() if len(full) == 1} | names


class _Stream:
    """What DuckDB asks for an Arrow stream, each time anew.

    Parameters
    ----------
    fields : tuple of ArrowField
    arrays : callable
        Gives the batches as capsules.
    """

    def __init__(self, made: tuple[tuple[ArrowField, ...], Callable[[], Iterator[object]]]) -> None:
        self.fields, self.arrays = made

    def __arrow_c_schema__(self) -> object:
        return schema_capsule(struct_field(self.fields))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return stream_capsule(struct_field(self.fields), self.arrays())


# ---------------------------------------------------------------- changes


def _changes(log: Log, name: str, every: tuple[Column, ...], wanted: list[str] | None) -> _Stream:
    columns = every if wanted is None else tuple(c for c in every if c.name in wanted)
    extras = CHANGE_COLUMNS if wanted is None else tuple(c for c in CHANGE_COLUMNS if c in wanted)
    if not columns and not extras:
        extras = ("_row",)  # a stream has columns, also under count(*)
    own = {column.name for column in every}
    extras = tuple(extra for extra in extras if extra not in own)

    def arrays() -> Iterator[object]:
        chosen = {name: [column.name for column in columns]}
        for batch in log.batches(name, chosen):
            yield _exported(batch, columns, extras)[1]

    sample = ChangeBatch(
        Table("", "", every),
        every,
        np.empty(0, record_dtype(len(every), every)),
        b"",
        np.empty(0, TRANSACTION_DTYPE),
    )
    return _Stream((_exported(sample, columns, extras)[0], arrays))


def _exported(
    batch: ChangeBatch, columns: tuple[Column, ...], extras: tuple[str, ...]
) -> tuple[tuple[ArrowField, ...], object]:
    image = batch.array["image"]
    made = []
    if "_gtid" in extras:
        labels = tuple(gtid_text(one) or "" for one in batch.transactions) or ("",)
        made.append(ChangeColumn("_gtid", image["transaction"], labels=labels))
    if "_transaction" in extras:
        begins = batch.transactions["begin_position"] if len(batch) else np.empty(0, np.uint64)
        made.append(ChangeColumn("_transaction", begins[image["transaction"]]))
    mapped = map_columns(columns, batch, drop=True)
    usual = [extra for extra in extras if extra not in _OWN_COLUMNS]
    return ArrowBatch(batch, columns=mapped, change_columns=usual, extras=made).export()


# ---------------------------------------------------------------- events and transactions


def _events(log: Log) -> tuple[tuple[ArrowField, ...], Callable[[], Iterator[object]]]:
    def arrays() -> Iterator[object]:
        for one in log.each_file():
            describer = Describer()
            rows: list[tuple[Any, ...]] = []
            path = one.files[0].path
            for event in one.events():
                told = describer.describe(event)
                gtid = event.gtid if isinstance(event, GtidEvent | MariadbGtidEvent) else None
                table = describer.table_of(event)
                rows.append(
                    (
                        path,
                        event.position,
                        event.timestamp,
                        event.server_id,
                        event.event_length,
                        event.name,
                        event.type_code,
                        table or "",
                        str(gtid or ""),
                        told.encode("utf-8", "backslashreplace").decode(),
                    )
                )
                if len(rows) == _EVENTS_CHUNK:
                    yield _plain(_EVENT_COLUMNS, rows)[1]
                    rows = []
            if rows:
                yield _plain(_EVENT_COLUMNS, rows)[1]

    return _plain(_EVENT_COLUMNS, [])[0], arrays


def _transactions(log: Log) -> tuple[tuple[ArrowField, ...], Callable[[], Iterator[object]]]:
    def arrays() -> Iterator[object]:
        waiting: tuple[Any, ...] | None = None  # the one in which the last group ended
        for group in log.groups(columns={"*": ()}):
            images = np.zeros(len(group.transactions), np.int64)
            for batch in group.batches:
                images += np.bincount(batch.array["image"]["transaction"], minlength=len(images))
            rows = [
                (
                    group.path,
                    int(one["begin_position"]),
                    int(one["end_position"]),
                    int(one["timestamp"]),
                    int(one["commit_time"]),
                    gtid_text(one) or "",
                    int(one["server_id"]),
                    int(one["xid"]),
                    OUTCOMES[one["outcome"]],
                    count,
                )
                for one, count in zip(group.transactions, images.tolist(), strict=True)
            ]
            if waiting is not None and rows and rows[0][:2] == waiting[:2]:
                rows[0] = (*rows[0][:-1], rows[0][-1] + waiting[-1])
            elif waiting is not None:
                rows.insert(0, waiting)
            waiting = rows.pop() if rows and not rows[-1][2] else None
            if rows:
                yield _plain(_TRANSACTION_COLUMNS, rows)[1]
        if waiting is not None:
            yield _plain(_TRANSACTION_COLUMNS, [waiting])[1]

    return _plain(_TRANSACTION_COLUMNS, [])[0], arrays


_EVENT_COLUMNS = {
    "file": None,
    "position": np.uint64,
    "timestamp": np.uint32,
    "server_id": np.uint32,
    "event_length": np.uint32,
    "type": None,
    "type_code": np.uint8,
    "table_name": None,
    "gtid": None,
    "info": None,
}
_TRANSACTION_COLUMNS = {
    "file": None,
    "begin_position": np.uint64,
    "end_position": np.uint64,
    "timestamp": np.uint32,
    "commit_time": np.int64,
    "gtid": None,
    "server_id": np.uint32,
    "xid": np.uint64,
    "outcome": None,
    "row_images": np.int64,
}


def _plain(columns: dict[str, Any], rows: list[tuple[Any, ...]]) -> tuple[tuple[ArrowField, ...], object]:
    """Rows of numbers and texts (dtype None) as an Arrow batch."""
    made = []
    for i, (name, dtype) in enumerate(columns.items()):
        values = [row[i] for row in rows]
        if dtype is None:
            labels = tuple(dict.fromkeys(values))
            codes = {label: code for code, label in enumerate(labels)}
            numbers: NDArray[Any] = np.array([codes[value] for value in values], np.uint32)
            made.append(ChangeColumn(name, numbers, labels=labels or ("",)))
        else:
            made.append(ChangeColumn(name, np.array(values, dtype)))
    none = np.zeros(len(rows), record_dtype(0, ()))
    batch = ChangeBatch(Table("", "", ()), (), none, b"", np.empty(0, TRANSACTION_DTYPE))
    return ArrowBatch(batch, columns=(), change_columns=False, extras=made).export()


# ---------------------------------------------------------------- what a query needs


@dataclass(slots=True)
class _Query:
    """What a parsed query names.

    Parameters
    ----------
    tables : set of str
        Arguments of ``changes``.
    dynamic : bool
        One of them is no literal.
    every : bool
        A star, a natural join …: any column may be meant.
    words : set of str
        Every text in the query, in lower case: the names of columns are among them.
    aliases : set of str
        Names that stand for tables: as a column one is the whole row.
    """

    tables: set[str] = field(default_factory=set)
    dynamic: bool = False
    every: bool = False
    words: set[str] = field(default_factory=set)
    aliases: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, con: duckdb.DuckDBPyConnection, sql: str) -> _Query | None:
        """Of the query as DuckDB parses it; None where it tells nothing of it (it is no SELECT, or wrong)."""
        parsed = json.loads(_run(con, "SELECT json_serialize_sql(?)", [sql])[0][0])
        if parsed.get("error"):
            return None
        found = cls(aliases=set(_aliases(parsed["statements"])) - {""})
        found._look(parsed["statements"])
        return found

    def columns_of(self, columns: tuple[Column, ...]) -> list[str] | None:
        """Of a table's columns those that the query may mean; None: all."""
        if self.every:
            return None
        names = [column.name for column in columns] + list(CHANGE_COLUMNS)
        return [name for name in names if name.lower() in self.words]

    def _look(self, node: Any) -> None:
        if isinstance(node, list):
            for item in node:
                self._look(item)
        elif isinstance(node, str):
            self.words.add(node.lower())
        elif isinstance(node, dict):
            if (
                node.get("class") == "STAR"
                or node.get("ref_type") == "NATURAL"
                or node.get("type") == "PIVOT"
            ):
                self.every = True
            names = node.get("column_names")
            if (
                node.get("class") == "COLUMN_REF"
                and names
                and names[-1].lower() in ("changes", *self.aliases)
            ):
                self.every = True  # a whole row
            if node.get("type") == "TABLE_FUNCTION" and node["function"].get("function_name") == "changes":
                self._argument(node["function"])
            for value in node.values():
                self._look(value)

    def _argument(self, function: dict[str, Any]) -> None:
        for argument in function.get("arguments") or function.get("children") or ():
            expression = argument.get("expression", argument)
            literal = expression.get("literal") or expression.get("value") or {}
            text = literal.get("text", literal.get("value"))
            if isinstance(text, str):
                self.tables.add(text)
            else:
                self.dynamic = True


def _aliases(node: Any) -> Iterator[str]:
    """Names that stand for tables."""
    if isinstance(node, list):
        for item in node:
            yield from _aliases(item)
    elif isinstance(node, dict):
        if "alias" in node and node.get("type") in ("TABLE_FUNCTION", "SUBQUERY", "BASE_TABLE", "JOIN"):
            yield node["alias"].lower()
        for value in node.values():
            yield from _aliases(value)
