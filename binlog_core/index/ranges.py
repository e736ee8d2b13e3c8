"""The ranges of a log, and what the headers of their events show."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from .._core._index import find_header, summarize_headers
from .._format.event_header import FIRST_EVENT
from .._format.event_types import DESCRIPTORS, GTID_EVENTS, EventType
from .._walk.event_walk import Damage, EventRun, begins_in, by_code, walk
from ..errors import BinlogError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .._walk.track import Track

RANGE_BYTES = 1 << 20
_MOST_KNOWN = 1000
_ENDS = (
    EventType.ROTATE,
    EventType.STOP,
    EventType.XID,
    EventType.XA_PREPARE,
)  # no transaction is open after it
_IS_GTID = by_code(GTID_EVENTS).view(np.uint8)
_IS_DESCRIPTOR = by_code(DESCRIPTORS).view(np.uint8)


@dataclass(slots=True)
class Range:
    """Some complete consecutive transactions, or the events before the first one.

    Parameters
    ----------
    begin : int
        Position of its first event.

    Attributes
    ----------
    end : int
        Position of the first event after it.
    first_timestamp, last_timestamp : int
        The least and the greatest in the headers of its events, seconds since 1970 UTC.
    servers : set of int or None
        Ids of the servers that wrote the events; None: not known, or more than 1000.
    """

    begin: int
    end: int = 0
    first_timestamp: int = 0xFFFFFFFF
    last_timestamp: int = 0
    servers: set[int] | None = field(default_factory=set)


class Ranges:
    """The ranges of a log; the last ends with it, or before it is damaged, torn or has another descriptor.

    A range begins with a transaction, about every MiB. Headers are read on demand, right after their rows,
    which have brought them into the processor's caches.

    Parameters
    ----------
    track : Track
        The log's track, at its beginning.

    Attributes
    ----------
    found : list of Range
        Ranges found so far; the last one may continue.
    begins : list of int
        Where each begins.
    has_gtids : bool
        Each but the first begins with a GTID.
    sound : int
        How many are complete at the end: all, or all but the last, which may end inside a transaction.
    """

    def __init__(self, track: Track) -> None:
        self.found = [Range(max(FIRST_EVENT, track.source.begin))]
        self.begins = [self.found[0].begin]
        self.has_gtids = False
        self.sound = 0
        self._track = track
        self._steps = self._walk()

    def reach(self, position: int) -> None:
        """Read all headers up to and including the one at a position, if the log is that long."""
        while self.found[-1].end <= position and next(self._steps, False):
            pass

    def number_at(self, position: int) -> int:
        """The range that holds a position."""
        return max(bisect_right(self.begins, position), 1) - 1

    def _walk(self) -> Iterator[bool]:
        track, last = self._track, 0
        try:
            for run in walk(track):
                if isinstance(run, Damage):
                    break
                headers = run.headers
                again = find_header(headers, _IS_DESCRIPTOR, 0, FIRST_EVENT + 1)
                if cut := again < len(headers):
                    headers = headers[:again]
                if not len(headers):
                    break
                self._add(run, headers)
                last = int(headers["type_code"][-1])
                if cut:
                    break
                yield True
        except BinlogError:  # the reader of the log reports it
            pass
        ends = track.tail is None and self.found[-1].end == track.end and last in _ENDS
        self.sound = len(self.found) - (not ends)

    def _add(self, run: EventRun, headers: NDArray[np.void]) -> None:
        found = self.found
        self.has_gtids = self.has_gtids or find_header(headers, _IS_GTID, 0, 0) < len(headers)
        edges = [0]
        for i in _edges(found[-1].begin, run, headers, gtids=self.has_gtids):
            found[-1].end = int(headers["position"][i])
            found.append(Range(found[-1].end))
            self.begins.append(found[-1].begin)
            edges.append(i)
        edges.append(len(headers))
        for one, (first, last) in zip(found[1 - len(edges) :], pairwise(edges), strict=True):
            _add_headers(one, headers[first:last])
        found[-1].end = int(headers["position"][-1]) + int(headers["event_length"][-1])


def _edges(begin: int, run: EventRun, headers: NDArray[np.void], *, gtids: bool) -> Iterator[int]:
    """Which headers, of events that begin a transaction, begin a new range."""
    if gtids:
        i = 0
        while (i := find_header(headers, _IS_GTID, i, begin + RANGE_BYTES)) < len(headers):
            yield i
            begin = int(headers["position"][i])
        return
    at = np.flatnonzero(begins_in(run._replace(headers=headers)))
    positions = headers["position"][at]
    while (i := int(np.searchsorted(positions, begin + RANGE_BYTES))) < len(at):
        yield int(at[i])
        begin = int(positions[i])


def _add_headers(one: Range, headers: NDArray[np.void]) -> None:
    if not len(headers):
        return
    first, last, packed, servers = summarize_headers(headers[int(_IS_DESCRIPTOR[headers["type_code"][0]]) :])
    one.first_timestamp = min(one.first_timestamp, first)
    one.last_timestamp = max(one.last_timestamp, last)
    one.servers = known_of(one.servers, None if packed else {*servers, int(headers["server_id"][0])})


def known_of(known: set[int] | None, more: set[int] | None) -> set[int] | None:
    """The known servers or threads, with those of more events; None if unknown, or more than 1000."""
    if known is None or more is None:
        return None
    known |= more
    return known if len(known) <= _MOST_KNOWN else None
