"""Typed events of a log, made from the runs of the walk."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from .._format.compression import payload_chunks
from .._format.event_header import HEADER
from .._format.event_types import DESCRIPTORS, GTID_EVENTS, ROWS_EVENTS, EventType
from .._format.format_description import FormatDescription
from .._format.fragments import ENDS_BETWEEN_FRAGMENTS, Fragments
from .._format.statements import may_change_definitions
from ..errors import BinlogError, DecodeError
from ..events import EventHeader, GtidEvent, MariadbGtidEvent, OpaqueEvent, QueryEvent, parse_event
from .event_walk import ALL, EventRange, EventRun, RunFilter, begins_in, by_code, runs_of
from .packed import PackedEvents
from .track import DAMAGED_LENGTH, Track

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .._format.event_header import Bytes
    from ..events import Event
    from ..gtids import AnyGtid

_COMMIT_TIMED = (EventType.GTID, EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED)
_IS_BOUND = by_code(
    (*_COMMIT_TIMED, *DESCRIPTORS, EventType.ROTATE, EventType.STOP, EventType.PREVIOUS_GTIDS)
)
_STATEMENTS = (EventType.QUERY, EventType.MARIADB_QUERY_COMPRESSED)


def events_of(
    track: Track,
    types: Collection[int] | None = None,
    where: RunFilter | None = None,
    part: EventRange = ALL,
) -> Iterator[Event]:
    """Typed events in file order. An event that cannot be parsed raises, or is opaque with on_error="skip".

    With `types` or `where`, other events are skipped without parsing.
    """
    commits = _CommitTimes(track)
    fragments = None
    holders = [EventType.TRANSACTION_PAYLOAD]
    if types is None or not ROWS_EVENTS.isdisjoint(types):
        fragments = Fragments(track.limits.event_bytes, track.path)
        holders.append(EventType.MARIADB_ROWS_FRAGMENT)
    wanted = None if types is None else by_code((*types, *holders))
    for run in runs_of(track, part):
        yield from _events_in(run, track, types, wanted, where, commits, fragments)
    if fragments is not None and fragments.begin is not None:
        track.end_early(fragments.begin, ENDS_BETWEEN_FRAGMENTS)


def definition_statements(
    track: Track, part: EventRange = ALL, counts: Callable[[AnyGtid | None], bool] | None = None
) -> Iterator[QueryEvent]:
    """The statements that may change definitions. BEGIN, most statements of MySQL's logs, is not parsed.

    With `counts`, only those of transactions whose GTIDs count.
    """
    types = _STATEMENTS if counts is None else (*_STATEMENTS, *GTID_EVENTS)
    counted = True
    for event in events_of(track, types, lambda run: ~begins_in(run), part):
        if isinstance(event, GtidEvent | MariadbGtidEvent):
            counted = counts is None or counts(event.gtid)
        elif counted and isinstance(event, QueryEvent) and may_change_definitions(event.query_bytes):
            yield event


def _events_in(
    run: EventRun,
    track: Track,
    types: Collection[int] | None,
    wanted: NDArray[np.bool_] | None,
    where: RunFilter | None,
    commits: _CommitTimes,
    fragments: Fragments | None,
) -> Iterator[Event]:
    """The typed events of a run, and those inside them."""
    chosen = np.arange(len(run.headers))
    if wanted is not None:
        chosen = np.flatnonzero(wanted[run.headers["type_code"]])
    if where is not None:
        chosen = chosen[where(run._replace(headers=run.headers[chosen]))]
    commits.begin(run)
    for i, (fields, body) in zip(chosen.tolist(), bodies_in(run, run.headers[chosen]), strict=True):
        if types is None or fields.type_code in types:
            event = _parse(track, fields, body, run.description)
            yield _placed(event, track, commits.at(i, event))
        try:
            for event in _events_inside(track, fields, body, run.description, fragments):
                if types is None or event.type_code in types:
                    yield _placed(event, track, commits.at(i))
        except DecodeError as error:
            if not track.skip_errors:
                raise
            begin = fields.position if error.offset is None else error.offset
            track.report.add("skipped_events", path=track.path, offset=begin, detail=error.message)
            track.report.lose(track.path, begin, fields.position + fields.event_length)
    commits.end()


def _events_inside(
    track: Track,
    outer: EventHeader,
    body: memoryview,
    description: FormatDescription,
    fragments: Fragments | None,
) -> Iterator[Event]:
    """The events that an event holds: those of a payload, or the rows event whose last fragment it is."""
    if outer.type_code == EventType.TRANSACTION_PAYLOAD:
        yield from packed_events(track, outer, body, description)
    elif fragments is None:
        return
    elif outer.type_code == EventType.MARIADB_ROWS_FRAGMENT:
        begin = outer.position if fragments.begin is None else fragments.begin
        whole = fragments.add(body, outer.position)
        if whole is not None:
            yield from _inner_events(track, outer._replace(position=begin), (whole,), description)
    elif fragments.begin is not None:
        raise fragments.incomplete(outer.position)


class _CommitTimes:
    """The commit times of the transactions that a log's events belong to.

    MySQL's GTID event has the time. The events after it belong to its transaction, up to the next GTID event
    or an event that lies between transactions. Of events that are not wanted, only these are parsed, and only
    if a wanted event follows.
    """

    def __init__(self, track: Track) -> None:
        self._track = track
        self._latest: int | None = None  # of the last event that was looked at

    def begin(self, run: EventRun) -> None:
        """Continue with a run."""
        self._run = run
        self._bounds = np.flatnonzero(_IS_BOUND[run.headers["type_code"]]).tolist()
        self._passed = 0  # of these

    def at(self, index: int, event: Event | None = None) -> int | None:
        """The commit time for the event at a place of the run, not before that of the last call."""
        passed = bisect(self._bounds, index, self._passed)
        if passed > self._passed:
            bound = self._bounds[passed - 1]
            self._passed = passed
            self._latest = self._commit_time_of(event if event is not None and bound == index else bound)
        return self._latest

    def end(self) -> None:
        """End the run: a transaction may continue after it."""
        self.at(len(self._run.headers))

    def _commit_time_of(self, found: Event | int) -> int | None:
        if isinstance(found, int):
            header = self._run.headers[found : found + 1]
            if header["type_code"][0] not in _COMMIT_TIMED:
                return None
            ((fields, body),) = bodies_in(self._run, header)
            try:
                found = parse_event(fields, body, self._run.description, self._track.path)
            except BinlogError:  # the error is raised when that event is wanted
                return None
        return found.immediate_commit_timestamp if isinstance(found, GtidEvent) else None


def bodies_in(run: EventRun, headers: np.ndarray) -> Iterator[tuple[EventHeader, memoryview]]:
    """Header and body of some events of a run."""
    description = run.description
    for header in headers.tolist():
        fields = EventHeader(*header)
        begin = fields.position - run.base
        end = begin + fields.event_length - description.checksum_length_of(fields.type_code)
        yield fields, run.window[begin + description.header_length_of(fields.type_code) : end]


def _parse(track: Track, fields: EventHeader, body: memoryview, description: FormatDescription) -> Event:
    try:
        event = parse_event(fields, body, description, track.path)
    except BinlogError as error:
        if not track.skip_errors:
            raise
        track.report.add("skipped_events", path=track.path, offset=fields.position, detail=error.message)
        event = OpaqueEvent(*fields, body=bytes(body))
    return event


def _placed(event: Event, track: Track, commit_time: int | None) -> Event:
    object.__setattr__(event, "path", track.path)  # frozen for all other code
    object.__setattr__(event, "commit_time", commit_time)
    return event


def packed_events(
    track: Track,
    outer: EventHeader,
    body: memoryview,
    description: FormatDescription,
    unwanted: Collection[int] = (),
) -> Iterator[Event]:
    """The events inside a transaction payload: 19-byte headers, no checksums, the outer event's position."""
    chunks = payload_chunks(body, limit=track.limits.payload_bytes, path=track.path, offset=outer.position)
    yield from _inner_events(track, outer, chunks, description, unwanted)


def _inner_events(
    track: Track,
    outer: EventHeader,
    chunks: Iterable[Bytes],
    description: FormatDescription,
    unwanted: Collection[int] = (),
) -> Iterator[Event]:
    inner = replace(description, header_length=HEADER.size, checksum_algorithm=0)
    packed = PackedEvents(chunks, track.limits, track.path, outer.position, outer.type_code)
    for window in packed:
        data = memoryview(window)
        at = 0
        while len(data) - at >= HEADER.size:
            timestamp, kind, server_id, length, next_position, flags = HEADER.unpack_from(data, at)
            if length < HEADER.size:
                raise DecodeError(DAMAGED_LENGTH, path=track.path, offset=outer.position, type_code=kind)
            if length > len(data) - at:
                break
            if kind not in unwanted:
                fields = EventHeader(outer.position, timestamp, kind, server_id, length, next_position, flags)
                yield _parse(track, fields, data[at + HEADER.size : at + length], inner)
            at += length
        packed.left = len(data) - at
