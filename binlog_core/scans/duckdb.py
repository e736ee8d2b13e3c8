"""SQL over logs: DuckDB scans row changes, events and transactions as tables.

>>> import duckdb, binlog_core, binlog_core.duckdb
>>> con = duckdb.connect()                                                  # doctest: +SKIP
>>> binlog_core.duckdb.register(con, "mysql-bin.000042")                    # doctest: +SKIP
>>> con.sql("FROM changes('shop.orders') WHERE _change_type = 'delete'")    # doctest: +SKIP

``changes('database.table')`` has the table's columns, null where a row image lacks one, then
`CHANGE_COLUMNS`; an update is two rows. ``database.table`` is the same, unless another database of the
connection has that name. ``changes()`` has the row images of all tables: `_table`, the `image` as JSON, and
`CHANGE_COLUMNS`. ``changed_rows('database.table')`` has one row for each changed row: ``before_…`` and
``after_…`` for each column, then `CHANGE_COLUMNS`, where `_change_type` is insert, update or delete; it needs
pyarrow. ``events`` has the log's events, and ``transactions`` the transactions that change rows. All are read
again for each query, group by group; nothing is kept.

Only the columns that a query needs are decoded: DuckDB passes their names to a pyarrow dataset
(`binlog_core.dataset`). Without pyarrow it reads an Arrow stream, and every column of it. A DECIMAL of more
than 38 digits is text, since DuckDB has no type for it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Unpack

from .._base.change_columns import CHANGE_COLUMNS
from .._tables.full_names import canonical_name, own_name, split_name
from ..errors import MissingExtraError, SchemaError
from ..log.opened import in_all_threads, log_of
from .scans import (
    AllChangesScan,
    ChangedRowsScan,
    ChangesScan,
    EventsScan,
    Scan,
    Tables,
    TransactionsScan,
    by_any_name,
    find_tables,
    unknown_table,
)

if TYPE_CHECKING:
    import duckdb

    from ..log.log import Log
    from ..log.options import AnyTarget, OpenOptions

__all__ = ["CHANGE_COLUMNS", "connect", "query", "register"]

_PREFIX = "binlog:"  # of the names under which scans are registered: no table of the user's has one such
_ROWS = "rows:"  # of names under which changed rows are registered
_MACROS = [
    f"CREATE OR REPLACE TEMP MACRO {macro} AS TABLE"
    f" FROM query_table('\"{_PREFIX}{kind}' || hex(encode(name)) || '\"')"
    for macro, kind in (("changes(name := '')", ""), ("changed_rows(name)", _ROWS))
]
_UNKNOWN = re.compile(rf"name {_PREFIX}(?:{_ROWS})?(?P<table>[0-9A-F]*) does not exist")
_NO_TABLE = re.compile(r"Table with name (?P<name>\w+|\"[^\"]+\") does not exist")
_VIEWS = {
    "events": (
        "SELECT file, position, to_timestamp(timestamp) AS timestamp, server_id, event_length, type,"
        " type_code, nullif(table_name, '') AS table_name, nullif(gtid, '') AS gtid, info"
    ),
    "transactions": (
        "SELECT file, begin_position, nullif(end_position, 0) AS end_position,"
        " to_timestamp(timestamp) AS timestamp,"
        " CASE WHEN commit_time >= 0 THEN make_timestamptz(commit_time) ELSE to_timestamp(timestamp) END"
        " AS commit_timestamp,"
        " nullif(gtid, '') AS gtid, server_id, nullif(xid, 0) AS xid, nullif(thread_id, 0) AS thread_id,"
        " outcome, row_images"
    ),
}


def register(con: duckdb.DuckDBPyConnection, log: AnyTarget, **options: Unpack[OpenOptions]) -> list[str]:
    """Make a log's row changes, events and transactions known to a DuckDB connection.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        The connection.
    log : Log, or what `binlog_core.open` takes
        The log, which is read more than once, so a pipe cannot be used. Keep it open as long as the
        connection uses its tables.
    **options
        Options for `binlog_core.open`; all processors are used unless ``threads=`` says otherwise.

    Returns
    -------
    list of str
        The tables that ``changes('…')`` knows. If only one database has a table of this name, the table's
        name alone is enough.

    Raises
    ------
    BinlogError
        Opening or reading the log failed.
    """
    opened = log_of(log, **in_all_threads(log, options))
    tables = find_tables(opened)
    _register_views(con, opened)
    _register_changes(con, opened, tables, tables)
    return sorted(tables)


def _register_views(con: duckdb.DuckDBPyConnection, log: Log) -> None:
    for name, scan in (("events", EventsScan(log)), ("transactions", TransactionsScan(log))):
        con.register(_PREFIX + name, _scanned(scan))
        _run(con, f'CREATE OR REPLACE TEMP VIEW {name} AS {_VIEWS[name]} FROM "{_PREFIX}{name}"')
    con.register(_PREFIX, _scanned(AllChangesScan(log)))
    for macro in _MACROS:
        _run(con, macro)


def _register_changes(
    con: duckdb.DuckDBPyConnection,
    log: Log,
    tables: Tables,
    wanted: Collection[str],
    names: Mapping[str, str] | None = None,
) -> None:
    """Make some of the tables known: DuckDB keeps each of their columns, whether a query needs it or not.

    names: full names by the names that are made known; None: by all that they have.
    """
    alike = Counter(name.lower() for name in tables)
    for name, full_name in (by_any_name(tables) if names is None else names).items():
        if full_name in wanted:
            changes = ChangesScan(log, full_name, tables[full_name], wide_decimals="text")
            con.register(_PREFIX + _exactly(name), _scanned(changes))
            _register_changed_rows(con, name, changes)
            if name == full_name and alike[name.lower()] == 1:
                _register_name(con, name)


def _register_changed_rows(con: duckdb.DuckDBPyConnection, name: str, changes: ChangesScan) -> None:
    try:
        from .dataset import ScannedDataset
    except MissingExtraError:
        return
    con.register(_PREFIX + _ROWS + _exactly(name), ScannedDataset(ChangedRowsScan(changes).only))


def _register_name(con: duckdb.DuckDBPyConnection, full_name: str) -> None:
    """Let ``database.table`` be its changes, in a database in memory: nothing is left in the user's own."""
    database, table = (part.replace('"', '""') for part in split_name(full_name))
    known = "SELECT database_name FROM duckdb_databases() UNION SELECT schema_name FROM duckdb_schemas()"
    ours = f"SELECT 1 FROM duckdb_views() WHERE lower(database_name) = lower(?) AND sql LIKE '%{_PREFIX}%'"
    if not con.execute(ours, [database]).fetchall():
        if database.lower() in (str(one).lower() for (one,) in con.execute(known).fetchall()):
            return
        _run(con, f"ATTACH ':memory:' AS \"{database}\"")
    _run(con, f'CREATE OR REPLACE VIEW "{database}".main."{table}" AS FROM "{_PREFIX}{_exactly(full_name)}"')


def _register_bare(con: duckdb.DuckDBPyConnection, name: str, tables: Tables) -> bool:
    """Let a name that DuckDB does not know be the changes of the only table of this name."""
    alike = sorted(full_name for full_name in tables if own_name(full_name).lower() == name.lower())
    alike = [full_name for full_name in alike if own_name(full_name) == name] or alike
    if len(alike) > 1:
        raise SchemaError(f"several tables are called {name!r}: {', '.join(alike)}")
    for full_name in alike:
        quoted = name.replace('"', '""')
        _run(con, f'CREATE TEMP VIEW "{quoted}" AS FROM "{_PREFIX}{_exactly(full_name)}"')
    return bool(alike)


def _exactly(name: str) -> str:
    """A table's name as DuckDB tells it from others that differ in case only, and from views of ours."""
    return name.encode("utf-8", "surrogateescape").hex().upper()


def query(log: Log, sql: str, con: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyConnection:
    """Run a query over a log.

    Parameters
    ----------
    log : Log
        The log that the query reads.
    sql : str
        The query.
    con : duckdb.DuckDBPyConnection, optional
        The connection to use; by default a new one.

    Returns
    -------
    duckdb.DuckDBPyConnection
        The connection with the result: ``.fetchall()``, ``.df()`` …

    Raises
    ------
    SchemaError
        ``changes('…')`` names a table that the log does not have; the message suggests similar names.
    duckdb.Error
        The query is not valid.
    MissingExtraError
        DuckDB is not installed.
    """
    con = con or connect()
    import duckdb

    words = set(re.findall(r"\w+", sql.lower()))

    def written(full_name: str) -> bool:
        own = own_name(full_name)
        quotes = (
            f"{quote}{name.replace(quote, 2 * quote)}{quote}" for name in (full_name, own) for quote in "'\""
        )
        return own.lower() in words or any(text in sql for text in quotes)

    tables = find_tables(log, written)
    known = set(filter(written, tables))
    _register_views(con, log)
    _register_changes(con, log, tables, known)
    while True:
        try:
            return con.execute(sql)
        except duckdb.CatalogException as error:
            unknown = _UNKNOWN.search(str(error))
            if unknown is None:
                missing = _NO_TABLE.search(str(error))
                name = missing["name"].strip('"') if missing is not None else ""
                qualified = "." in name or f".{name.lower()}" in sql.lower()
                if name and not qualified and _register_bare(con, name, tables):
                    continue
                if not name:
                    raise
                raise unknown_table(name, {*tables, *_VIEWS, "changes()"}) from None
            # A name that the query computes, maybe.
            name = bytes.fromhex(unknown["table"]).decode("utf-8", "replace")
            written_so = canonical_name(name)
            full_name = by_any_name(tables).get(written_so)
            if full_name is None or (full_name in known and name == written_so):
                raise unknown_table(name, tables) from None
            known.add(full_name)
            also = None if name == written_so else {name: full_name}
            _register_changes(con, log, find_tables(log, full_name.__eq__), {full_name}, also)


def connect() -> duckdb.DuckDBPyConnection:
    """A DuckDB connection in memory, in UTC; `MissingExtraError` if DuckDB is not installed."""
    try:
        import duckdb
    except ImportError:
        raise MissingExtraError.of("duckdb", "duckdb", "SQL over logs") from None
    con = duckdb.connect()
    _run(con, "SET TimeZone = 'UTC'")
    _run(con, "SET python_enable_replacements = false")  # names are of tables, never of Python variables
    _run(con, "SET enable_progress_bar = false")  # it would be drawn into the results
    return con


def _scanned(scan: Scan) -> Any:
    """What DuckDB asks for the columns that it needs; without pyarrow, what it asks for all."""
    try:
        from .dataset import ScannedDataset
    except MissingExtraError:
        return scan.only(None)
    return ScannedDataset(scan.only)


def _run(con: duckdb.DuckDBPyConnection, sql: str) -> list[Any]:
    # To the end: DuckDB does nothing else on a connection whose result has not been fetched.
    return con.execute(sql).fetchall()
