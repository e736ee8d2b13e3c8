"""The state of a mirror's tables, for people and programs."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from .._base.prometheus import Metric, metrics_text
from .._decode.boundaries import last_checkpoint
from .._format.event_header import FIRST_EVENT
from .._sources.log_names import name_within, unpacked
from ..errors import BinlogError
from ..gtids import parse_gtid_set
from ..lake.access import Access
from ..lake.tables.resuming import gtids_behind
from ..lake.tables.table import FileTable
from ..splits import FILE_NUMBER_SHIFT, Split, plan_splits
from .lake import Lake
from .state import GTIDS, MirrorState


@dataclass(frozen=True, slots=True)
class TableStatus:
    """The state of a table in a mirror.

    Parameters
    ----------
    table : str
        The table, as ``database.table``.
    stage : str
        "copying" while a copy is made, "following" while it is kept up to date, "stopped" if it would be and
        no process runs the mirror, "suspect" if it may lack changes until a copy is made, "parked" if it
        stopped by itself, "paused" if somebody stopped it, "dropped" if it is empty because the server
        dropped it.
    reason : str or None
        Why it stopped, or is suspect.
    uri : str
        Where the table is in the lake.
    lag_seconds : float or None
        The table has everything that the server had committed this long ago; None if not yet known.
    lag_bytes, lag_transactions : int or None
        How much of the server's log is not in the table yet; None if that is not known: nobody has asked the
        server in the last minute, as while the mirror is stopped.
    log, position : int or None
        The number of the server's log, and the offset up to which it is in the table.
    gtids : str or None
        The transactions up to there, as far as the log has GTIDs.
    rows : int or None
        The number of rows; None if not known.
    unlogged : list of str
        Columns that are left out, and null, because the server does not log their changes.
    stopped : float or None
        Since when no process runs the mirror, in seconds since 1970; None if one does, or that is not known.
    copied : float or None
        The share of its rows that the copy that is being made has, in chunks; None if none is made.
    file : str or None
        The name of that log in the archive, with which the position can be read from; None if not known.
    proved : float or None
        When it was last found equal to the server's, in seconds since 1970; None: not since its copy.
    version : int or None
        The version of the Delta table, or the snapshot of the Iceberg table.
    committed : float or None
        The time of its last commit, in seconds since 1970.
    """

    table: str
    stage: str
    reason: str | None
    uri: str
    lag_seconds: float | None = None
    log: int | None = None
    position: int | None = None
    gtids: str | None = None
    rows: int | None = None
    version: int | None = None
    committed: float | None = None
    lag_bytes: int | None = None
    lag_transactions: int | None = None
    unlogged: list[str] = field(default_factory=list)
    stopped: float | None = None
    copied: float | None = None
    file: str | None = None
    proved: float | None = None


_STATUS_INTERVAL, _PROGRESS_INTERVAL = 10.0, 0.2
_ASKED = 60.0  # seconds for which it counts what the server answered
_METRICS = {
    "seconds_behind": (
        "The table has everything that the server had committed this many seconds ago.",
        "lag_seconds",
    ),
    "bytes_behind": (
        "Bytes of the server's log that are not in the table, where the server has just been asked.",
        "lag_bytes",
    ),
    "transactions_behind": (
        "Transactions, by their GTIDs, that are not in the table, where the server has just been asked.",
        "lag_transactions",
    ),
    "rows": ("Rows of the table.", "rows"),
    "position_bytes": ("Position in the server's log that the table has reached.", "position"),
    "log_number": ("Number of that log.", "log"),
    "proved_seconds": (
        "When the table was last compared with the server's and equal, seconds since 1970 UTC.",
        "proved",
    ),
    "committed_seconds": ("When the table was last committed to, seconds since 1970 UTC.", "committed"),
}


@dataclass(frozen=True)
class MirrorStatus:
    """The state of a mirror.

    Parameters
    ----------
    lake : str
        The lake's path or URL.
    tables : list of TableStatus
        Its tables.
    updated : float
        When this was found, in seconds since 1970 UTC.
    """

    lake: str
    tables: list[TableStatus]
    updated: float = field(default_factory=time.time)

    def to_json(self) -> bytes:
        """The state as one JSON object, for programs."""
        return json.dumps(asdict(self), indent=1).encode() + b"\n"

    def to_prometheus(self) -> bytes:
        """The state as metrics in Prometheus' text format."""
        labels = [({"lake": self.lake, "table": one.table}, one) for one in self.tables]
        found = [
            Metric(
                name,
                "gauge",
                text,
                [(at, value) for at, one in labels if (value := getattr(one, key)) is not None],
            )
            for name, (text, key) in _METRICS.items()
        ]
        stages = [({**at, "state": one.stage}, 1.0) for at, one in labels]
        now = [({"lake": self.lake}, self.updated)]
        stopped = any(one.stopped is not None or one.stage == "stopped" for one in self.tables)
        runs = [({"lake": self.lake}, float(not stopped))]
        found += [
            Metric("running", "gauge", "1 while a process runs the mirror.", runs),
            Metric("table_state", "gauge", "1 for the state that a table is in.", stages),
            Metric("updated_seconds", "gauge", "When this was written, seconds since 1970 UTC.", now),
        ]
        return metrics_text("binlog_core_mirror", found)


class _ArchiveEnd:
    """Measures how much of an archive comes after places in it.

    Parameters
    ----------
    splits : list of Split
        The logs of the archive.
    places : dict of int to str or None
        The places, with the GTIDs up to them: nothing before the first of them is read.
    storage_options : dict or None
        Options for the archive's store.
    """

    def __init__(
        self, splits: list[Split], places: dict[int, str | None], storage_options: dict[str, Any] | None
    ) -> None:
        self._sizes: list[tuple[int, int | None]] = []  # first version and bytes of each log
        self._gtids: str | None = None
        self._end = 0  # the last transaction boundary
        access = Access(storage_options=storage_options)
        first = min(places) >> FILE_NUMBER_SHIFT
        for split in reversed(splits):
            if split.file_number < first:
                break
            with access.file(split.path).open() as source:
                if not self._end:
                    own = (at for at in places if at >> FILE_NUMBER_SHIFT == split.file_number)
                    start = max((at for at in own if places[at]), default=split.version_base)
                    before = places.get(start)
                    end, gtids = last_checkpoint(
                        source, start - split.version_base, parse_gtid_set(before) if before else None
                    )
                    if end > FIRST_EVENT:
                        self._end = split.version_base + end
                        self._gtids = None if gtids is None else str(gtids)
                self._sizes.append((split.version_base, source.size))

    def behind(self, place: int, gtids: str | None) -> dict[str, int | None]:
        """Bytes and transactions after a place."""
        if place >= self._end:
            return {"lag_bytes": 0, "lag_transactions": 0}
        total: int | None = 0
        for base, size in self._sizes:
            if total is None or size is None:
                total = None
            else:
                total += max(min(base + size, self._end) - max(place, base + FIRST_EVENT), 0)
        return {"lag_bytes": total, "lag_transactions": gtids_behind(self._gtids, gtids) if gtids else None}


Seen = dict[str, tuple[tuple[Any, ...], dict[str, Any]]]


def statuses(
    lake: Lake, state: MirrorState, *, quick: bool = False, seen: Seen | None = None
) -> list[TableStatus]:
    """The states of all tables.

    Parameters
    ----------
    lake : Lake
        The lake.
    state : MirrorState
        The mirror's state.
    quick : bool
        Leave out what has to be read from the tables and the archive.
    seen : dict or None
        What was read from the tables before, for a process that is their only writer: those that it has
        committed to since are read again.
    """
    now = time.time()
    out = []
    holder, at_work = lake.worker()
    stopped = None if at_work or holder is None else holder.seen
    archive: _ArchiveEnd | None = None
    # A dropped table has nothing more to read, wherever the log continues.
    there = {name: one.place for name, one in state.tables.items() if one.stage != "dropped"}
    places = {place: state.offsets.get(place, {}).get(GTIDS) for place in there.values() if place is not None}
    splits: list[Split] = []
    if places and not quick:
        with contextlib.suppress(BinlogError, OSError):  # there is none yet, or it is on another machine
            splits = plan_splits([state.archive], None, storage_options=lake.storage_options)
    files = {one.version_base >> FILE_NUMBER_SHIFT: unpacked(name_within(one.path)) for one in splits}
    asked, reached = (holder.asked, holder.place or 0) if holder is not None else (None, 0)
    if splits and at_work and asked is not None and now - asked < _ASKED:
        with contextlib.suppress(BinlogError):
            archive = _ArchiveEnd(splits, places, lake.storage_options)
    for name, one in sorted(state.tables.items()):
        uri, reason, stage = lake.table(one), one.reason, str(one.stage)
        if stage == "following" and one.suspect is not None:
            stage, reason = "suspect", one.suspect
        elif stage == "following" and not at_work:
            stage = "stopped"
        known: dict[str, Any] = {}
        try:
            if not quick:
                last = one.committed, one.compacted, one.stage
                before = None if seen is None or one.committed is None else seen.get(name)
                known = {**before[1]} if before and before[0] == last else _committed(lake.opened(one))
                if seen is not None:
                    seen[name] = last, {**known}
        except Exception as error:  # of the format's library, the catalog and the stores below them
            reason = reason or f"the table cannot be read: {type(error).__name__}: {error}"
        place = there.get(name)
        if place is not None:
            gtids = places[place]
            known |= archive.behind(place, gtids) if archive is not None else {}
            known |= {
                "file": files.get(place >> FILE_NUMBER_SHIFT),
                "log": place >> FILE_NUMBER_SHIFT & 0xFFFF,
                "position": place % (1 << FILE_NUMBER_SHIFT),
                "gtids": gtids,
            }
        as_of = one.as_of
        if asked is not None and one.stage == "following" and (place or -1) >= reached:
            as_of = max(as_of or 0.0, asked)
        lag = None if as_of is None else max(now - as_of, 0.0)
        known |= {"unlogged": one.unlogged, "stopped": stopped, "proved": one.proved}
        with contextlib.suppress(OSError):
            known["copied"] = lake.copied(one)
        out.append(TableStatus(name, stage, reason, uri, lag, **known))
    return out


def _committed(table: FileTable) -> dict[str, Any]:
    if not table.exists:
        return {}
    last = table.last_commit()
    return {
        "rows": table.rows,
        "version": table.version,
        "committed": last["timestamp"] / 1000 if last else None,
    }


class StatusFiles:
    """Writes the state of the tables into files, at most every 10 seconds.

    Parameters
    ----------
    lake : Lake
        The lake.
    paths : sequence of str
        The files.
    """

    def __init__(self, lake: Lake, paths: Sequence[str]) -> None:
        self._lake, self._paths, self._next = lake, paths, 0.0
        self._seen: Seen = {}

    def __call__(self, state: MirrorState) -> None:
        if self._paths and time.monotonic() >= self._next:
            self.write(statuses(self._lake, state, seen=self._seen))
            self._next = time.monotonic() + _STATUS_INTERVAL

    def write(self, found: list[TableStatus]) -> None:
        """Write a state into all files."""
        from ..archive.files import Files
        from ..archive.status import write_status

        status = MirrorStatus(self._lake.uri, found)
        for path in self._paths:
            write_status(Files(), path, status)


class Progress:
    """Shows the state of the tables, unless that was done just now.

    Parameters
    ----------
    lake : Lake
        The lake.
    show : callable of list of TableStatus
        Shows it.
    """

    def __init__(self, lake: Lake, show: Callable[[list[TableStatus]], None]) -> None:
        self._lake, self._show, self._next = lake, show, 0.0

    def __call__(self, state: MirrorState) -> None:
        if time.monotonic() >= self._next:
            self._show(statuses(self._lake, state, quick=True))
            self._next = time.monotonic() + _PROGRESS_INTERVAL
