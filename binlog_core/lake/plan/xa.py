"""``xa="committed"``: rows of a prepared XA transaction, logged at XA PREPARE, come as of XA COMMIT.

The end of such a transaction is logged later, maybe in another file, and maybe never. So a
plan walks over the event headers of each log first, and tells each part what became of the transactions
prepared in it.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._decode.gtid_selection import is_selected
from ..._format.event_types import GTID_EVENTS, EventType
from ..._sources.log_names import name_within
from ..._walk import event_walk
from ..._walk.track import Rules, Track
from ..._walk.typed_events import events_of
from ...errors import PreparedBeforeError
from ...events import GtidEvent, QueryEvent, XaPrepareEvent
from ...gtids import AnyGtidSet, parse_gtid_set
from ...report import Report
from ...splits import Split
from ..access import Access
from ..rows.prepared import Prepared
from ..runner import HERE, Runner

_GTIDS = tuple(GTID_EVENTS)
_IS_GTID = event_walk.by_code(_GTIDS)
_END = re.compile(
    r"XA\s+(?P<how>COMMIT|ROLLBACK)\s+X'(?P<gtrid>[0-9a-f]*)'\s*,\s*X'(?P<bqual>[0-9a-f]*)'\s*,\s*(?P<format>\d+)",
    re.IGNORECASE,
)
# Bytes of such an event at most: the longest XID takes 290, the name of the default database up to 192.
# Longer statements need not be looked at.
_NAME_LEN = 1024

Xid = tuple[int, bytes, bytes]


class Open(NamedTuple):
    """A transaction that was prepared and has not ended, as the offset of a stream keeps it.

    Parameters
    ----------
    file : str
        The name of its log.
    begin, last : int
        The positions of its first and last event.
    format_id : int
        The format of its XID.
    gtrid, bqual : str
        The two parts of its XID, in hex.
    """

    file: str
    begin: int
    last: int
    format_id: int
    gtrid: str
    bqual: str


@dataclass(slots=True)
class _Transaction:
    log: Split
    begin: int
    last: int  # its last event
    version: int | None = None
    microseconds: int = 0


class XaHistory:
    """The prepared transactions of logs, and how they ended.

    Parameters
    ----------
    access : Access
        How the logs are opened.
    since : int
        The version at which reading begins: transactions committed before it do not matter.
    """

    def __init__(self, access: Access, since: int = 0) -> None:
        self._access = access
        self._since = since
        self._all: dict[str, list[_Transaction]] = {}  # by path of the log
        self._open: dict[Xid, _Transaction] = {}

    def add_open(self, found: Iterable[Open], log_of: Callable[[str], Split]) -> None:
        """Add transactions prepared before the logs that `follow` reads; `log_of` finds a log by its name."""
        for kept in found:
            one = _Transaction(log_of(kept.file), kept.begin, kept.last)
            self._all.setdefault(one.log.path, []).append(one)
            self._open[_xid(kept.format_id, kept.gtrid, kept.bqual)] = one

    @property
    def open(self) -> list[Open]:
        """The transactions that are prepared, and have not ended in the logs that were followed."""
        return [
            Open(name_within(one.log.path), one.begin, one.last, kind, gtrid.hex(), bqual.hex())
            for (kind, gtrid, bqual), one in self._open.items()
        ]

    def follow(
        self, logs: Iterable[Split], *, start: int = 0, end: int | None = None, run: Runner = HERE
    ) -> None:
        """Have `run` read logs, from a position in the first to one in the last.

        Raises
        ------
        PreparedBeforeError
            A transaction is committed that none of the logs prepares.
        """
        logs = list(logs)
        last = len(logs) - 1
        tasks = [
            _XaScan(log, self._access, start if i == 0 else 0, end if i == last else None)
            for i, log in enumerate(logs)
        ]
        for log, found in zip(logs, run.map(_XaScan.found, tasks), strict=True):
            for one in found:
                if one.how == "PREPARE":
                    prepared = _Transaction(log, one.begin, one.position)
                    self._all.setdefault(log.path, []).append(prepared)
                    self._open[one.xid] = prepared
                else:
                    self._end(log, one)

    def _end(self, log: Split, found: _XaEvent) -> None:
        one = self._open.pop(found.xid, None)
        if found.how == "ROLLBACK":
            return
        if one is not None:
            one.version = log.version_base + found.begin
            one.microseconds = found.microseconds
            return
        if log.version_base + found.begin >= self._since:
            raise PreparedBeforeError(
                "XA COMMIT of a transaction prepared before the first log: start with an earlier log,"
                " give startOffset= after it, or xa=prepared",
                path=log.path,
                offset=found.position,
            )

    def prepared(self, split: Split, below: int | None = None) -> tuple[Prepared, ...]:
        """What became of the transactions that begin in a split.

        Parameters
        ----------
        split : Split
            The split.
        below : int or None
            Transactions committed at this version or later are not read.
        """
        return tuple(
            Prepared(one.begin, self._version(one, below), one.microseconds)
            for one in self._all.get(split.path, ())
            if split.may_have(one.begin)
        )

    @staticmethod
    def _version(one: _Transaction, below: int | None) -> int | None:
        return None if one.version is not None and below is not None and one.version >= below else one.version

    def committed_later(self, since: int, below: int) -> list[tuple[Split, Prepared]]:
        """Transactions prepared before a version and committed at or after it, with their parts."""
        return [
            (
                replace(one.log, start=one.begin, end=one.last + 1),
                Prepared(one.begin, one.version, one.microseconds),
            )
            for transactions in self._all.values()
            for one in transactions
            if one.version is not None
            and since <= one.version < below
            and one.log.version_base + one.begin < since
        ]


def _xid(format_id: int, gtrid: str, bqual: str) -> Xid:
    return format_id, bytes.fromhex(gtrid), bytes.fromhex(bqual)


class _XaEvent(NamedTuple):
    """XA PREPARE, COMMIT or ROLLBACK, and where its transaction begins."""

    how: str
    xid: Xid
    begin: int
    position: int
    microseconds: int = 0


def ends_of(log: Split, access: Access, end: int | None = None) -> list[tuple[Xid, str, int]]:
    """PREPARE, COMMIT and ROLLBACK of XA transactions in a log, up to a position, and where each begins."""
    return [(one.xid, one.how, one.begin) for one in _XaScan(log, access, 0, end).found()]


@dataclass(frozen=True)
class _XaScan:
    """The search for prepared transactions and their ends in one log."""

    log: Split
    access: Access
    start: int
    end: int | None

    def found(self) -> list[_XaEvent]:
        """What was found, in log order."""
        begins: list[int] = []
        stop = 1 << 63 if self.end is None else self.end

        def wanted(run: event_walk.EventRun) -> NDArray[np.bool_]:
            position, kinds = run.headers["position"], run.headers["type_code"]
            inside = (position >= self.start) & (position < stop)
            gtids = _IS_GTID[kinds]
            begins.extend(position[inside & gtids].tolist())
            short = (kinds != EventType.QUERY) | (run.headers["event_length"] < _NAME_LEN)
            return np.asarray(inside & ~gtids & short & ~event_walk.begins_in(run))

        out = []
        for event in self._events((*_GTIDS, EventType.QUERY, EventType.XA_PREPARE), wanted):
            begin = begins[bisect(begins, event.position) - 1] if begins else event.position
            if isinstance(event, XaPrepareEvent) and not event.one_phase:
                xid = event.format_id, event.gtrid, event.bqual
                out.append(_XaEvent("PREPARE", xid, begin, event.position))
            elif isinstance(event, QueryEvent) and (ends := _END.match(event.query)):
                xid = _xid(int(ends["format"]), ends["gtrid"], ends["bqual"])
                time = event.timestamp * 1_000_000
                out.append(_XaEvent(ends["how"].upper(), xid, begin, event.position, time))
        if self.log.before is not None:
            repeated = self._repeated({one.begin for one in out}, parse_gtid_set(self.log.before))
            out = [one for one in out if one.begin not in repeated]
        times = self._times({one.begin for one in out if one.how == "COMMIT"})
        return [one._replace(microseconds=times.get(one.begin, one.microseconds)) for one in out]

    def _times(self, begins: set[int]) -> dict[int, int]:
        """When transactions were committed, in microseconds since 1970, if their GTID events have it."""
        return {
            event.position: event.immediate_commit_timestamp
            for event in self._beginnings(begins)
            if isinstance(event, GtidEvent) and event.immediate_commit_timestamp
        }

    def _repeated(self, begins: set[int], before: AnyGtidSet) -> set[int]:
        """Those of the transactions that an earlier log of the archive has, from another server."""
        events = self._beginnings(begins)
        return {event.position for event in events if not is_selected(event.gtid, None, before)}

    def _beginnings(self, begins: set[int]) -> Iterable[Any]:
        """The GTID events at some positions."""
        if not begins:
            return ()
        wanted = np.array(sorted(begins), np.uint64)
        return self._events(_GTIDS, lambda run: np.isin(run.headers["position"], wanted))

    def _events(self, types: Sequence[int], where: event_walk.RunFilter) -> Iterable[Any]:
        with self.access.file(self.log.path).open() as source:
            yield from events_of(Track(source, Rules.lenient(Report())), types, where)
