"""Byte-for-byte copies of a server's logs: on disk before they count, one history across failovers."""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from .._base.durations import seconds_of
from .._sources.places import local_path
from ..errors import ArchiveError
from ..gtids import AnyGtidSet, parse_gtid_set
from .archiver import Archiver
from .feed import Feed, LineLost, Start
from .files import Files
from .keeper import Keeper
from .status import Status, write_status
from .store import Store, Uploader

if TYPE_CHECKING:
    from ..server.address import Address

__all__ = ["ArchiveError", "Status", "archive"]

_STATUS_INTERVAL = 1.0


def archive(
    server: str,
    destination: str | PathLike[str],
    *,
    until: str | None = None,
    start: str | AnyGtidSet | None = None,
    compress: str | None = None,
    keep: str | float | dt.timedelta | None = None,
    index: bool = False,
    semi_sync: bool = False,
    status: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
    tail_interval: float = 30.0,
    spool: str | PathLike[str] | None = None,
    storage_options: dict[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    password_file: str | PathLike[str] | None = None,
    defaults_file: str | PathLike[str] | None = None,
    stop: threading.Event | None = None,
    progress: Callable[[Status], None] | None = None,
) -> Status:
    """Keep raw copies of a server's logs, and continue where an earlier call ended.

    Parameters
    ----------
    server : str
        The server, as ``mysql://user@host:port,host:port``. Several hosts are servers that replicate one
        history: when one is lost, the archive continues from the next, by its GTIDs. The user needs the
        privilege REPLICATION SLAVE.
    destination : str or path
        A directory, or a URL of an object store (``s3://``, ``gs://``, ``abfss://`` … as `binlog_core.open`
        reads them). No other process may write to it.
    until : "now", optional
        End at the server's position at the start; by default only `stop` ends it.
    start : str or GTID set, optional
        Where a new archive begins: the name of a log, "now" (the log that the server is writing, as a whole;
        needs the privilege REPLICATION CLIENT), or GTIDs that are not needed. By default the server's oldest
        log; of a MariaDB with binlog_storage_engine=innodb, which takes "now" or GTIDs, the oldest
        transaction. Give it too if an archive cannot continue because the server purged logs: it then begins
        again there, with a gap.
    compress : "zstd", optional
        Compress finished logs.
    keep : str, float or timedelta, optional
        How long to keep finished logs: "30d", "12h", "90m", or seconds; by default forever.
    index : bool
        Keep an index of finished logs beside them, as `binlog_core.index` makes it. It needs pyarrow, and an
        archive in a directory.
    semi_sync : bool
        Register as a semi-synchronous replica and acknowledge what is on disk: everything that the server's
        clients see as committed is then in the archive.
    status : path or several, optional
        Files with the state of the archive, written about once a second: JSON, or Prometheus' text format if
        the name ends with ``.prom``.
    tail_interval : float
        For an object store, seconds between two uploads of the growing log's new part. Finished logs are
        uploaded at once.
    spool : path, optional
        For an object store, the local directory where logs are on disk until they are uploaded; it needs room
        for a few logs. By default a directory for this destination in the user's state folder.
    storage_options : dict, optional
        Options for an object store, as for `binlog_core.open`.
    options : mapping, optional
        ``server_id``, ``ssl_mode``, ``ssl_ca``, ``ssl_cert``, ``ssl_key``, ``connect_timeout``,
        ``heartbeat``, ``reconnect``: as for ``server=`` of `binlog_core.open`.
    password_file, defaults_file : path, optional
        As for `binlog_core.open`.
    stop : threading.Event, optional
        Set it to end the archive; what has been received is put on disk first.
    progress : callable, optional
        Called with a Status about once a second.

    Returns
    -------
    Status
        How far the archive has come.

    Raises
    ------
    ArchiveError
        A disk operation fails, another archiver keeps the archive, or the server's logs do not continue it.
    ServerError
        The server refuses, or cannot be reached.
    MissingExtraError
        PyMySQL, or zstandard for `compress`, is not installed.
    ValueError
        An argument's value is not one of those listed here.
    """
    if until not in (None, "now"):
        raise ValueError(f"until={until!r}: expected 'now'")
    if compress not in (None, "zstd"):
        raise ValueError(f"compress={compress!r}: expected 'zstd'")
    if index and local_path(fspath(destination)) is None:
        raise ValueError("index=True is for an archive in a directory, not in an object store")
    from ..server.address import Address

    address = Address.of(
        server,
        {**(options or {}), "semi_sync": semi_sync},
        password_file=password_file,
        defaults_file=defaults_file,
    )
    files = address.world.files or Files()
    return archiver_of(
        address,
        fspath(destination),
        Keeper(
            files,
            compress=compress == "zstd",
            keep=None if keep is None else seconds_of(keep, "keep"),
            index=index,
            world=address.world,
        ),
        until_now=until == "now",
        start=_start(start),
        tail_interval=tail_interval,
        spool=None if spool is None else fspath(spool),
        storage_options=storage_options,
        stop=stop,
        on_status=_ThrottledStatus(
            files, [status] if isinstance(status, str | PathLike) else status, progress
        ),
    ).run()


def archiver_of(
    address: Address,
    folder: str,
    keeper: Keeper | None = None,
    *,
    until_now: bool = False,
    start: Start = None,
    tail_interval: float = 30.0,
    spool: str | None = None,
    storage_options: dict[str, Any] | None = None,
    stop: threading.Event | None = None,
    on_status: Callable[[Status], None] = lambda status: None,
) -> Archiver:
    """The archiver of a server's logs: `archive` with checked arguments, before it runs.

    Parameters
    ----------
    address : Address
        The server.
    folder : str
        The archive.
    keeper : Keeper, optional
        Does the work on finished logs; by default they stay as they are.
    until_now, start, tail_interval, spool, storage_options, stop
        As for `archive`.
    on_status : callable
        Called with the status whenever something was put on disk, and about twice a second.
    """
    from .live_feed import LiveFeed

    files = address.world.files or Files()
    stop = stop or threading.Event()
    server_id = address.server_id or address.world.random.randrange(2**31, 2**32 - 1)
    hosts = list(address.hosts)

    feeds: list[LiveFeed] = []

    def connect() -> Feed:
        """The previous host, or the next that answers; not one that lacks transactions of the archive."""
        lost = None
        if feeds and feeds.pop().behind:
            hosts.append(hosts.pop(0))
        for host in list(hosts):
            try:
                feeds.append(LiveFeed(address, host, server_id, stop))
                return feeds[-1]
            except LineLost as error:
                error.lost |= lost is not None and lost.lost
                lost = error
                hosts.append(hosts.pop(0))
        assert lost is not None
        raise lost

    uploader, path = None, local_path(folder)
    if path is None:
        store = Store(folder, storage_options, patience=address.reconnect, stop=stop, world=address.world)
        folder = spool if spool is not None else _spool_of(store.url)
        uploader = Uploader(store, folder, tail_interval, files)
    else:
        folder = path
    return Archiver(
        connect,
        folder,
        keeper=keeper or Keeper(files, world=address.world),
        start=start,
        until_now=until_now,
        files=files,
        stop=stop,
        reconnect=address.reconnect,
        on_status=on_status,
        uploader=uploader,
        world=address.world,
    )


class _ThrottledStatus:
    """Passes a status on, but not more often than needed."""

    def __init__(
        self,
        files: Files,
        paths: Sequence[str | PathLike[str]],
        progress: Callable[[Status], None] | None,
    ) -> None:
        self._files = files
        self._paths = [fspath(path) for path in paths]
        self._progress = progress
        self._passed_at = 0.0
        self._state = ""

    def __call__(self, status: Status) -> None:
        since = status.updated - self._passed_at  # below 0: the clock was set back
        if 0 <= since < _STATUS_INTERVAL and status.state == self._state:
            return
        self._passed_at, self._state = status.updated, status.state
        for path in self._paths:
            write_status(self._files, path, status)
        if self._progress is not None:
            self._progress(status)


def _spool_of(url: str) -> str:
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(state, "binlog-core", hashlib.sha256(url.encode()).hexdigest()[:16])


def _start(given: str | AnyGtidSet | None) -> Start:
    if given is None or not isinstance(given, str) or given == "now":
        return given  # type: ignore[return-value]
    if ":" in given or re.fullmatch(r"\d+-\d+-\d+(\s*,.*)?", given):
        return parse_gtid_set(given)
    return given, 4
