"""Where the ranges of a log lie, and what the headers of their events tell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from .._core._index import find_header, told_by_headers
from .._format.event_header import FIRST_EVENT
from .._format.event_types import GTID_EVENTS, EventType
from .._walk.event_walk import DESCRIPTORS, Damage, Run, walk
from ..errors import BinlogError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .._walk.track import Track

RANGE_BYTES = 1 << 20
_MOST_TOLD = 1000
_ENDS = (
    EventType.ROTATE,
    EventType.STOP,
    EventType.XID,
    EventType.XA_PREPARE,
)  # no transaction is open behind
_IS_GTID = np.isin(np.arange(256), list(GTID_EVENTS)).view(np.uint8)
_IS_DESCRIPTOR = np.isin(np.arange(256), list(DESCRIPTORS)).view(np.uint8)
_BEGIN = np.frombuffer(b"\0BEGIN", np.uint8)


@dataclass(slots=True)
class Range:
    """Some whole transactions that follow each other, or what lies before the first one.

    Parameters
    ----------
    begin : int
        Position of its first event.

    Attributes
    ----------
    end : int
        Of the first behind it.
    first_timestamp, last_timestamp : int
        The least and the greatest in the headers of its events, seconds since 1970 UTC.
    servers : set of int or None
        Who wrote the events; None: not known, or more than 1000.
    """

    begin: int
    end: int = 0
    first_timestamp: int = 0xFFFFFFFF
    last_timestamp: int = 0
    servers: set[int] | None = field(default_factory=set)


def ranges_of(track: Track) -> tuple[list[Range], bool]:
    """The ranges of a log; the last ends with it, or before it is damaged, torn or has another descriptor.

    A range begins where a transaction does, about each MiB.

    Parameters
    ----------
    track : Track
        At the log's beginning.

    Returns
    -------
    ranges : list of Range
    has_gtids : bool
        Each but the first begins with a GTID.
    """
    last = 0
    found = [Range(max(FIRST_EVENT, track.source.begin))]
    begins_with_gtid = False  # all transactions do
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
            begins_with_gtid = begins_with_gtid or find_header(headers, _IS_GTID, 0, 0) < len(headers)
            edges = [0]
            for i in _edges(found[-1].begin, run, headers, gtids=begins_with_gtid):
                found[-1].end = int(headers["position"][i])
                found.append(Range(found[-1].end))
                edges.append(i)
            edges.append(len(headers))
            for one, (first, last) in zip(found[1 - len(edges) :], pairwise(edges), strict=True):
                _tell(one, headers[first:last])
            found[-1].end = int(headers["position"][-1]) + int(headers["event_length"][-1])
            last = int(headers["type_code"][-1])
            if cut:
                break
    except BinlogError:  # who reads the log is told of it
        pass
    if track.tail is not None or found[-1].end != track.end or last not in _ENDS:
        found.pop()  # it may end inside a transaction
    return found, begins_with_gtid


def _edges(begin: int, run: Run, headers: NDArray[np.void], *, gtids: bool) -> Iterator[int]:
    """Which headers, of events that begin a transaction, begin a new range."""
    if gtids:
        i = 0
        while (i := find_header(headers, _IS_GTID, i, begin + RANGE_BYTES)) < len(headers):
            yield i
            begin = int(headers["position"][i])
        return
    at = np.flatnonzero(headers["type_code"] == EventType.QUERY)
    checksum = run.description.checksum_length_of(EventType.QUERY)
    ends = (headers["position"] + headers["event_length"])[at].astype(np.int64) - run.base - checksum
    text = _bytes_at(run, ends - len(_BEGIN), len(_BEGIN))
    at = at[(text == _BEGIN).all(axis=1)]
    positions = headers["position"][at]
    while (i := int(np.searchsorted(positions, begin + RANGE_BYTES))) < len(at):
        yield int(at[i])
        begin = int(positions[i])


def _bytes_at(run: Run, offsets: NDArray[np.int64], count: int) -> NDArray[np.uint8]:
    window = np.frombuffer(run.window, np.uint8)
    found: NDArray[np.uint8] = window[np.minimum(offsets[:, None] + np.arange(count), len(window) - 1)]
    return found


def _tell(one: Range, headers: NDArray[np.void]) -> None:
    if not len(headers):
        return
    first, last, packed, servers = told_by_headers(headers[int(_IS_DESCRIPTOR[headers["type_code"][0]]) :])
    one.first_timestamp = min(one.first_timestamp, first)
    one.last_timestamp = max(one.last_timestamp, last)
    one.servers = known_of(one.servers, None if packed else {*servers, int(headers["server_id"][0])})


def known_of(known: set[int] | None, told: set[int] | None) -> set[int] | None:
    """What is known of servers or threads, with those of more events; None: not told, or more than 1000."""
    if known is None or told is None:
        return None
    known |= told
    return known if len(known) <= _MOST_TOLD else None
