"""The tables of a server in a lake: copied, kept up to date, and compared with the server.

Importing this needs neither pyspark nor deltalake nor pyiceberg.
"""

from __future__ import annotations

import datetime as dt
import math
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qsl, quote, urlencode

from .._base.durations import seconds_of
from .._base.options import Deletes, check_choice
from .._sources.places import is_url, local_path
from ..errors import MirrorError
from ..report import BinlogWarning
from .columns import ColumnSettings, read_key
from .lake import ARCHIVE, Lake, loaded, opened
from .renaming import check_renames
from .reporting import Progress, StatusFiles, TableStatus, statuses
from .state import FORMATS, HEAL, MirrorState, new_state

if TYPE_CHECKING:
    from ..lake.runner import Runner
    from ..server.address import Address
    from .comparing import Compared
    from .mirroring import Mirroring
    from .proving import Proving
    from .serving import Serving

__all__ = [
    "Compared",
    "TableStatus",
    "add",
    "drop",
    "mirror",
    "pause",
    "resume",
    "resync",
    "status",
    "verify",
]

Uri = str | os.PathLike[str]
Catalog = Mapping[str, str] | str | None


def mirror(
    server: str,
    lake: Uri,
    *,
    tables: str | Sequence[str] | None = None,
    exclude_tables: str | Sequence[str] = (),
    exclude_columns: str | Sequence[str] = (),
    mask_columns: str | Sequence[str] = (),
    mask_key_file: Uri | None = None,
    where: Mapping[str, str] | None = None,
    partition: Mapping[str, str] | None = None,
    soft_deletes: str | Sequence[str] = (),
    rename: Mapping[str, str] | None = None,
    unsigned_bigint: Literal["decimal", "bigint"] = "decimal",
    metadata: str | Sequence[str] = (),
    archive: Uri | None = None,
    until: Literal["now"] | None = None,
    format: Literal["delta", "iceberg"] | None = None,
    catalog: Catalog = None,
    history: bool = False,
    deletes: Deletes = "copy",
    compact: str | float | dt.timedelta | None = "1h",
    rate: float | None = None,
    heal: float = HEAL,
    verify_rate: float | None = None,
    status: Uri | Sequence[Uri] = (),
    runner: Runner | None = None,
    storage_options: dict[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    password_file: Uri | None = None,
    defaults_file: Uri | None = None,
    stop: threading.Event | None = None,
    progress: Callable[[list[TableStatus]], None] | None = None,
) -> list[TableStatus]:
    """Copy tables of a server into a lake and keep them up to date, without locks on the server.

    Call this again with the same lake to continue a mirror: however the last run ended, nothing is lost and
    nothing is applied twice.

    Parameters
    ----------
    server : str
        The server, as ``mysql://user@host:port,host:port``. The user needs SELECT, REPLICATION SLAVE and
        REPLICATION CLIENT; on a MySQL server without GTIDs, and on MariaDB with binlog_storage_engine=innodb,
        also RELOAD, for a read lock of some milliseconds.
    lake : str or path
        A directory, or a URL of an object store. Each table has the directory ``LAKE/database.table``.
    tables : str or sequence of str, optional
        Names or patterns, such as ``shop.*``. Tables that are created later are included. A table that is no
        longer named stays in the lake as it is; named again, it is copied anew. By default those of the last
        run, with its `exclude_tables`.
    exclude_tables : str or sequence of str, optional
        Names or patterns of tables to leave out, although `tables` names them.
    exclude_columns : str or sequence of str, optional
        Names or patterns of columns that the lake is not to have, as ``database.table.column``.
    mask_columns : str or sequence of str, optional
        Names or patterns of columns that the lake has as hashes: HMAC-SHA256 in hexadecimal digits, of the
        value as text. A change of these two leads to a copy of the tables whose columns it concerns.
    mask_key_file : path, optional
        A file with the key of these hashes, of 16 bytes or more; by default it is in the environment, as
        ``BINLOG_CORE_MASK_KEY``. It is never written anywhere.
    where : mapping of str to str, optional
        Conditions by names or patterns of tables, such as ``{"shop.orders": "status = 'paid'"}``: the lake
        has only the rows for which they are true. The first that matches counts. A change copies those
        tables again.
    partition : mapping of str to str, optional
        Partitions of tables, such as ``{"shop.orders": "day(created), region"}``: columns, or the year,
        month or day of one. In Delta tables these become columns such as ``created_day``. The first that
        matches counts; a change copies those tables again.
    soft_deletes : str or sequence of str, optional
        Names or patterns of tables whose rows stay in the lake when they are deleted, with true in a column
        ``_deleted``, also when the table is copied again. Not with `history`, which has them too.
    rename : mapping of str to str, optional
        New names of tables in the lake by their own, as ``database.table``; a ``*`` stands for any text, the
        same on both sides of ``{"shop_prod.*": "shop.*"}``. The first that matches counts.
    unsigned_bigint : "decimal" or "bigint"
        The type of BIGINT UNSIGNED in the lake: decimal(20, 0), or BIGINT, where a table with a larger value
        is parked. A change copies the tables with such columns again.
    metadata : str or sequence of str, optional
        Columns about the last change of each row: "commit_timestamp" and "gtid" become
        ``__commit_timestamp`` and ``__gtid``, which are null for rows as they were copied.
    archive : str or path, optional
        Where the raw copies of the server's logs are kept (see `binlog_core.archive.archive`); workers must
        be able to read it. By default a directory in the lake.
    until : "now", optional
        End when the tables have reached the server's position at the start; by default continue until `stop`.
    format : "delta" or "iceberg", optional
        Delta tables, or tables ``database.table`` of an Iceberg catalog. By default the format that the lake
        already has, and Delta in a new lake.
    catalog : mapping or str, optional
        Iceberg's catalog: properties for ``pyiceberg.catalog.load_catalog``, or its name in pyiceberg's
        configuration. Properties that are not secret are kept in the lake; you need not give them again.
    history : bool
        Also keep all versions of rows, in a table in ``LAKE/history/database.table`` (Iceberg:
        ``database.table__history``).
    deletes : "copy" or "vectors"
        What becomes of files with changed rows: they are written again, or stay and get deletion vectors, for
        which only the rows of the round are written. Not all readers know these: see the documentation.
        Vectors need Delta tables in a directory.
    compact : str, float or timedelta, optional
        How often a table's small files are merged: ``1h``, or seconds; None is never.
    rate : float, optional
        The most bytes a second that copies read from the server, for all workers together.
    heal : float
        The most bytes of a table's files that are copied again in a day because the log does not show all
        changes; beyond that the table waits, ``parked`` or ``suspect``. 0: it waits for `resync`.
    verify_rate : float, optional
        The most bytes a second that a mirror that keeps running reads from the server to compare all tables
        with it, one after the other, each at most once an hour; a table that differs is copied again. By
        default it compares none.
    status : path or sequence of path, optional
        Files that are kept up to date with the state of the tables: JSON, or Prometheus' text format if the
        name ends with ``.prom``.
    runner : Runner, optional
        Who copies, decodes and writes: by default threads of this process, one for each processor
        (`LocalRunner`). `binlog_core.spark.mirror` has Spark do it. A lake can be continued with either.
    storage_options : dict, optional
        Credentials and endpoint of the store of the lake and the archive, as for `binlog_core.open`.
    options : mapping, optional
        As ``server=`` of `binlog_core.open`: ``ssl_mode``, ``connect_timeout`` and so on.
    password_file, defaults_file : path, optional
        As for `binlog_core.open`. The password is never written anywhere.
    stop : threading.Event, optional
        Set it to end the mirror.
    progress : callable, optional
        Called with the state of the tables after steps, at most five times a second.

    Returns
    -------
    list of TableStatus
        The state of each table. One that cannot continue is ``parked`` and says why; all others continue. One
        that may lack changes, because the log does not have them as rows, is copied again, or ``suspect``.

    Raises
    ------
    UnsafeServerError
        A setting of the server would lose changes.
    PurgedError
        The server no longer has the next logs: begin a new lake.
    MirrorError
        The lake cannot be written, or another process mirrors into it.
    ServerError, ArchiveError
        The server or its logs cannot be read.
    MissingExtraError
        PyMySQL, or deltalake or pyiceberg is not installed.
    """
    if until not in (None, "now"):
        raise ValueError(f"until={until!r}: expected 'now'")
    if format not in (None, *FORMATS):
        raise ValueError(f"format={format!r}: expected 'delta' or 'iceberg'")
    interval = None if compact is None else seconds_of(compact, "compact")
    if unsigned_bigint not in ("decimal", "bigint"):
        raise ValueError(f"unsigned_bigint={unsigned_bigint!r}: expected 'decimal' or 'bigint'")
    for name, given in (("rate", rate), ("verify_rate", verify_rate)):
        if given is not None and not 0 < given < math.inf:
            raise ValueError(f"{name}={given!r}: expected a number above 0")
    if not heal >= 0:
        raise ValueError(f"heal={heal!r}: expected a number that is not negative")
    check_choice("deletes", deletes)
    if history and soft_deletes:
        raise ValueError("soft_deletes= with history=True: expected only one of them")
    from ..server.world import REAL
    from .proving import Proving
    from .serving import Serving
    from .settings import choose
    from .settings import rename as set_names

    patterns = _names(tables or ())
    check_renames(rename or {})
    columns = ColumnSettings(
        _names(exclude_columns),
        _names(mask_columns),
        read_key(mask_key_file),
        bigints=unsigned_bigint == "bigint",
        metadata=_names(metadata),
        where=where or {},
        partition=partition or {},
        soft=_names(soft_deletes),
    )
    stop = stop or threading.Event()
    place = Lake(os.fspath(lake), storage_options)
    with place.locked():
        state = place.load()
        if state is None:
            state = new_state(_without_password(server), patterns, place.own(ARCHIVE))
        elif format not in (None, state.format) and state.has_copies:
            raise MirrorError(f"the tables are in format {state.format}, not {format}", path=place.uri)
        state.deletes = deletes
        if format not in (None, state.format):
            state.format, state.catalog = str(format), {}
            place.check_vectors(state)
            place.save(state)  # the next run need not be told again, even if this one fails at once
        place.use(state, catalog)
        columns = replace(columns, derives=place.is_delta)
        state.server = _without_password(server)
        if (told := choose(state, patterns, _names(exclude_tables))) is not None:
            warnings.warn(told, BinlogWarning, stacklevel=2)
        set_names(state, rename or {})
        if archive is not None:
            own = os.fspath(archive)
            state.archive = own if is_url(own) else os.path.abspath(own)
        state.history, state.heal = history, heal
        login = {"options": options, "password_file": password_file, "defaults_file": defaults_file}
        files = [status] if isinstance(status, str | os.PathLike) else status
        passed = StatusFiles(place, [os.fspath(one) for one in files])
        world = (options or {}).get("world", REAL)
        serving = Serving(place, stop, world) if until is None else None
        proving = Proving(place, verify_rate)
        with _working(
            place,
            state,
            server,
            login,
            runner,
            stop,
            progress,
            compact=interval,
            rate=rate,
            passed=passed,
            serving=serving,
            proving=proving,
            columns=columns,
        ) as work:
            if serving is None:
                work.until_now()
            else:
                with serving, proving:
                    work.follow()
            found = statuses(place, state)
            passed.write(found)
        return found


def status(
    lake: Uri, *, catalog: Catalog = None, storage_options: dict[str, Any] | None = None
) -> list[TableStatus]:
    """The state of a mirror's tables, from the lake and the archive; the server is not asked.

    Parameters
    ----------
    lake : str or path
        The mirror's lake.
    catalog : mapping or str, optional
        As for `mirror`; needed only if it has secrets.
    storage_options : dict, optional
        As for `mirror`.

    Returns
    -------
    list of TableStatus
        The state of each table.

    Raises
    ------
    MirrorError
        The lake has no mirror.
    """
    place = Lake(os.fspath(lake), storage_options)
    return statuses(place, opened(place, catalog))


def resync(
    lake: Uri,
    *tables: str,
    runner: Runner | None = None,
    catalog: Catalog = None,
    storage_options: dict[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    password_file: Uri | None = None,
    defaults_file: Uri | None = None,
    mask_key_file: Uri | None = None,
) -> list[TableStatus]:
    """Copy tables again, and bring all tables up to the server's current position.

    A running mirror is asked to do it: it answers before the copies are made, and its own runner and login
    count.

    Parameters
    ----------
    lake : str or path
        The mirror's lake.
    *tables : str
        Names or patterns; without any, all tables that are parked or suspect.
    runner, catalog, storage_options, options, password_file, defaults_file, mask_key_file
        As for `mirror`. The server's address is that of the mirror.

    Returns
    -------
    list of TableStatus
        The state of each table.

    Raises
    ------
    MirrorError
        The lake has no mirror, or does not have these tables.
    """
    from .requests import RESYNC, told
    from .serving import change

    place = Lake(os.fspath(lake), storage_options)
    if (answer := _asked(place, RESYNC, tables)) is not None:
        return told(TableStatus, answer)
    with place.locked():
        state = opened(place, catalog)
        change(state, RESYNC, tables)
        login = {"options": options, "password_file": password_file, "defaults_file": defaults_file}
        columns = state.column_settings(read_key(mask_key_file))
        with _working(place, state, state.server, login, runner, None, None, columns=columns) as work:
            work.until_now()
        return statuses(place, state)


def verify(
    lake: Uri,
    *tables: str,
    runner: Runner | None = None,
    catalog: Catalog = None,
    storage_options: dict[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    password_file: Uri | None = None,
    defaults_file: Uri | None = None,
    mask_key_file: Uri | None = None,
) -> list[Compared]:
    """Compare all values of all rows with the server's, at one position in its log.

    Workers read the server's tables in snapshots of one moment; a read lock is held while they are opened.
    First the lake is brought to exactly this position. A running mirror is asked to do all of it, with its
    own runner and login; values of keys that JSON does not have are then texts.

    Parameters
    ----------
    lake : str or path
        The mirror's lake.
    *tables : str
        Names or patterns; without any, all tables.
    runner, catalog, storage_options, options, password_file, defaults_file, mask_key_file
        As for `mirror`.

    Returns
    -------
    list of Compared
        One for each table, with the keys of rows that differ.

    Raises
    ------
    MirrorError
        The lake has no mirror, or does not have these tables.
    """
    from .comparing import Compared, compare
    from .requests import VERIFY, told

    place = Lake(os.fspath(lake), storage_options)
    if (answer := _asked(place, VERIFY, tables)) is not None:
        return told(Compared, answer)
    with place.locked():
        state = opened(place, catalog)
        state.chosen(tables)
        login = {"options": options, "password_file": password_file, "defaults_file": defaults_file}
        columns = state.column_settings(read_key(mask_key_file))
        with _working(place, state, state.server, login, runner, None, None, columns=columns) as work:
            return compare(work, place, tables)


def pause(lake: Uri, *tables: str, storage_options: dict[str, Any] | None = None) -> list[TableStatus]:
    """Stop following tables until `resume`, also at later runs; the server's log is still archived.

    A running mirror is asked to do it. If none runs, the next run finds it.

    Parameters
    ----------
    lake : str or path
        The mirror's lake.
    *tables : str
        Names or patterns; without any, all tables, also those that come.
    storage_options : dict, optional
        As for `mirror`.

    Returns
    -------
    list of TableStatus
        The state of each table. Parked and dropped ones stay so.

    Raises
    ------
    MirrorError
        The lake has no mirror, or does not have these tables, or a process works on it that ends by itself.
    """
    from .requests import PAUSE

    return _change(lake, PAUSE, tables, storage_options)


def resume(lake: Uri, *tables: str, storage_options: dict[str, Any] | None = None) -> list[TableStatus]:
    """Continue paused tables from where they stopped.

    Parameters
    ----------
    lake, *tables, storage_options
        As for `pause`; without tables, all.

    Returns
    -------
    list of TableStatus
        The state of each table.

    Raises
    ------
    MirrorError
        As for `pause`.
    """
    from .requests import RESUME

    return _change(lake, RESUME, tables, storage_options)


def add(lake: Uri, *tables: str, storage_options: dict[str, Any] | None = None) -> list[TableStatus]:
    """Mirror more tables, also in later runs, whatever their ``tables=`` and ``exclude_tables=`` say.

    Parameters
    ----------
    lake, storage_options
        As for `pause`.
    *tables : str
        Names or patterns.

    Returns
    -------
    list of TableStatus
        The state of each table; with those that were added, if the mirror runs and the server has them.

    Raises
    ------
    MirrorError
        As for `pause`.
    """
    from .requests import ADD

    return _change(lake, ADD, tables, storage_options)


def drop(lake: Uri, *tables: str, storage_options: dict[str, Any] | None = None) -> list[TableStatus]:
    """Stop mirroring tables, also in later runs, until `add`: their rows stay in the lake.

    Parameters
    ----------
    lake, *tables, storage_options
        As for `add`.

    Returns
    -------
    list of TableStatus
        The state of each table that is left.

    Raises
    ------
    MirrorError
        As for `pause`.
    """
    from .requests import DROP

    return _change(lake, DROP, tables, storage_options)


def _change(
    lake: Uri, kind: str, tables: tuple[str, ...], storage_options: dict[str, Any] | None
) -> list[TableStatus]:
    from .requests import ADD, DROP, told
    from .serving import change

    if kind in (ADD, DROP) and not tables:
        raise ValueError("tables=(): expected names or patterns of tables")
    place = Lake(os.fspath(lake), storage_options)
    if (answer := _asked(place, kind, tables)) is not None:
        return told(TableStatus, answer)
    loaded(place)  # nothing is written where no mirror is
    with place.locked(works=False):
        state = loaded(place)
        change(state, kind, tables)
        place.save(state)
    return [one for one in statuses(place, state, quick=True) if state.wants(one.table)]


def _asked(place: Lake, kind: str, tables: tuple[str, ...]) -> list[dict[str, Any]] | None:
    """The answer of the process that runs the mirror; None: none does that answers."""
    from .requests import Requests

    holder, at_work = place.worker()
    if holder is None or not at_work or not holder.answers:
        return None
    return Requests(place).ask(kind, tables)


@contextmanager
def _working(
    place: Lake,
    state: MirrorState,
    server: str,
    login: Mapping[str, Any],
    runner: Runner | None,
    stop: threading.Event | None,
    progress: Callable[[list[TableStatus]], None] | None,
    *,
    compact: float | None = None,
    rate: float | None = None,
    passed: Callable[[MirrorState], None] = lambda state: None,
    serving: Serving | None = None,
    proving: Proving | None = None,
    columns: ColumnSettings,
) -> Iterator[Mirroring]:
    from .._sources.places import place_of as place_at
    from .._sources.timeline import NAME
    from ..archive import archiver_of
    from ..archive.archiver import Archiver
    from ..archive.status import Status
    from ..lake.runner import LocalRunner
    from ..server.address import Address
    from .mirroring import Mirroring
    from .receiving import Receiver

    address: Address = Address.of(
        server,
        login["options"],
        password_file=login["password_file"],
        defaults_file=login["defaults_file"],
    )
    stop = stop or threading.Event()

    def archiver(*, until_now: bool, stop: threading.Event, on_status: Callable[[Status], None]) -> Archiver:
        begins = all(one.place is None for one in state.tables.values())
        # With start= an archive that exists would go on behind a gap, over which nothing is replayed.
        begins = begins and not place_at(state.archive, place.storage_options).exists(
            f"{state.archive.rstrip('/')}/{NAME}"
        )
        return archiver_of(
            address,
            state.archive,
            until_now=until_now,
            start="now" if begins else None,
            storage_options=place.storage_options,
            stop=stop,
            on_status=on_status,
        )

    receiver = Receiver(address, archiver, stop, streams=local_path(state.archive) is not None)
    stepped = Progress(place, progress) if progress is not None else lambda state: None
    try:
        yield Mirroring(
            runner or LocalRunner(),
            place,
            state,
            address,
            receiver,
            stop,
            stepped,
            compact=compact,
            rate=rate,
            passed=passed,
            serve=serving or (lambda work: None),
            halt=None if serving is None else serving.due,
            prove=proving or (lambda work: None),
            columns=columns,
        )
    finally:
        receiver.end()


def _names(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _without_password(server: str) -> str:
    """An address that may be stored: with the user, but without credentials."""
    scheme, _, rest = server.partition("://")
    rest, _, query = rest.partition("?")
    login, at, hosts = rest.rpartition("@")
    user = login.partition(":")[0]
    kept = [(name, value) for name, value in parse_qsl(query, keep_blank_values=True) if name != "password"]
    return f"{scheme}://{user}{at}{hosts}" + (f"?{urlencode(kept, quote_via=quote)}" if kept else "")


def __getattr__(name: str) -> Any:
    if name == "Compared":  # it needs pyarrow
        from .comparing import Compared

        return Compared
    raise AttributeError(name)
