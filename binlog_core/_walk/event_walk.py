"""The walk over a log's events: runs of whole ones and damage between them; headers and typed events.

It goes by the rules of `Track`, as rows do: see there for torn tails and for how it goes on behind damage.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from .._core import _headers
from .._core._headers import HEADER_DTYPE, walk_headers
from .._format.compression import payload_chunks
from .._format.event_types import EventType
from .._format.format_description import FIRST_EVENT_POSITION, FormatDescription
from ..errors import BinlogError, ChecksumError, DecodeError
from ..events import EventHeader, GtidEvent, OpaqueEvent, parse_event
from .packed import PackedEvents
from .track import DAMAGED_END, DAMAGED_LENGTH, WRONG_CHECKSUM, Track, asked_from

if TYPE_CHECKING:
    from ..events import Event

HeaderFilter = Callable[[np.ndarray], np.ndarray]  # headers to a mask of those wanted

_CHUNK = 65536  # headers
_DESCRIPTORS = (EventType.FORMAT_DESCRIPTION, EventType.START_V3)
_COMMIT_TIMED = (EventType.GTID, EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED)
_TRANSACTION_BOUNDS = np.array(
    [*_COMMIT_TIMED, *_DESCRIPTORS, EventType.ROTATE, EventType.STOP, EventType.PREVIOUS_GTIDS], np.uint8
)
_INNER_HEADER = struct.Struct("<IBIIIH")


@dataclass(frozen=True, slots=True)
class Run:
    """Whole events, one after the other.

    Parameters
    ----------
    headers : ndarray, HEADER_DTYPE
        At most 65536.
    window : memoryview
        Holds them.
    base : int
        Position in the log of window[0].
    description : FormatDescription
        In force for all of them; a descriptor is the first of its run.
    """

    headers: np.ndarray
    window: memoryview
    base: int
    description: FormatDescription


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes of a log that cannot be read.

    Parameters
    ----------
    begin, end : int
        Offsets; end is where reading goes on.
    reason : str
    """

    begin: int
    end: int
    reason: str


@dataclass(frozen=True, slots=True)
class Part:
    """Which of a log's events are wanted.

    Parameters
    ----------
    start_position, stop_position : int or None
        Positions of the first, and of the first that is not.
    start_timestamp, stop_timestamp : int or None
        Of their headers, in seconds; no event behind the first that is too late.
    server_id : int or None
    """

    start_position: int | None = None
    stop_position: int | None = None
    start_timestamp: int | None = None
    stop_timestamp: int | None = None
    server_id: int | None = None


ALL = Part()


def walk(track: Track, start: int | None = None, stop: int | None = None) -> Iterator[Run | Damage]:
    """Walk over a log's events to its end; `Track.tail` then tells where it ends inside one.

    Parameters
    ----------
    track : Track
        At the log's beginning; where its format was read, that is the one to go by.
    start, stop : int or None
        Positions of the first event, and of one not to go on at.

    Yields
    ------
    Run or Damage
        Damage only where errors are skipped.

    Raises
    ------
    DecodeError, ChecksumError
        An event is damaged, where errors are not skipped.
    TruncatedError
        The log ends inside an event, in strict mode.
    """
    description = track.format or track.wait_for_format()
    if description is None:
        return
    offset = track.begin(start)
    begin = track.base + offset
    while stop is None or track.base + offset < stop:
        at = offset
        out = np.empty(_CHUNK, HEADER_DTYPE)
        header_length, _, canonical, checksum = description.core_arrays()
        window, base = memoryview(track.window), track.base
        count, offset, status = walk_headers(
            window,
            offset,
            out,
            base=base,
            header_length=header_length,
            canonical=canonical,
            checksum=bool(checksum),
            verify=track.verify,
            positions=track.checks_positions,
        )
        if count and int(out[0]["position"]) == begin > FIRST_EVENT_POSITION:
            begin = 0
            if out[0]["type_code"] in _DESCRIPTORS:  # the one in force from here on, taken for it unread
                description = track.format = track.next_descriptor(at) or description
                offset = at
                continue
        damaged = status in (_headers.WALK_MALFORMED, _headers.WALK_BROKEN)
        # Where the last one told no position, the length that led here may be what is wrong.
        held = int(damaged and track.skip_errors and count > 0 and not out[count - 1]["next_position"])
        if count > held:
            yield Run(out[: count - held], window, base, description)
        if status == _headers.WALK_FULL or (stop is not None and base + offset >= stop):
            continue
        reason = ""
        if status == _headers.WALK_DESCRIPTOR:
            try:
                following = track.next_descriptor(offset)
            except BinlogError as error:
                if not track.skip_errors:
                    raise
                reason = error.message
            else:
                if following is not None:
                    description = track.format = following
                    continue
                status = _headers.WALK_TRUNCATED
        position = base + offset
        if status in (_headers.WALK_END, _headers.WALK_TRUNCATED):
            if track.more(offset):
                offset = 0
                continue
            if track.waits():
                continue
            found = track.finish(offset)
            if found is None:
                return
            reason = "an event's length reaches past the end of the file"
        else:
            length = int.from_bytes(window[offset + 9 : offset + 13], "little")
            error_class: type[DecodeError] = DecodeError
            if damaged:
                reason = DAMAGED_END if status == _headers.WALK_BROKEN else DAMAGED_LENGTH
            elif status == _headers.WALK_CHECKSUM:
                if track.may_be_torn(position + length) and track.read_again(position):
                    offset = position - track.base
                    continue
                if track.is_torn(position, position + length):
                    return
                reason, error_class = WRONG_CHECKSUM, ChecksumError
            if not track.skip_errors:
                type_code = description.canonical(window[offset + 4])
                raise error_class(reason, path=track.path, offset=position, type_code=type_code)
            doubtful = int(out[count - 1]["position"]) if held else None
            found = track.pass_over(position, length, reason, doubtful)
        following_position = found.base + found.offset if found.offset is not None else track.end
        if held and (found.offset is None or following_position >= position):
            yield Run(out[count - 1 : count], window, base, description)
        if not found.begins_at(position):
            first = int(out[count - 1]["position"]) if held and following_position < position else position
            yield Damage(first, following_position, reason)
        if found.offset is None:
            return
        offset = found.offset


def runs_of(track: Track, part: Part = ALL) -> Iterator[Run]:
    """The runs of a walk, without the headers that are not wanted."""
    start, stop = part.start_timestamp, part.stop_timestamp
    walked = walk(track, part.start_position, part.stop_position)
    while True:
        try:
            run = next(walked, None)
        except BinlogError as error:
            raise asked_from(error, part.start_position) from error.__cause__
        if run is None:
            return
        if isinstance(run, Damage):
            continue
        headers, ended = run.headers, False
        if stop is not None:
            late = (headers["timestamp"] >= stop) & (headers["type_code"] != EventType.FORMAT_DESCRIPTION)
            ended = bool(late.any())
            headers = headers[: int(late.argmax())] if ended else headers
            headers = headers[headers["timestamp"] < stop]
        if part.stop_position is not None:
            headers = headers[headers["position"] < part.stop_position]
        if start is not None:
            headers = headers[headers["timestamp"] >= start]
        if part.server_id is not None:
            headers = headers[headers["server_id"] == part.server_id]
        if len(headers):
            yield replace(run, headers=headers)
        if ended:
            return


def headers_of(track: Track, part: Part = ALL) -> Iterator[np.ndarray]:
    """Arrays of HEADER_DTYPE, in file order."""
    for run in runs_of(track, part):
        yield run.headers


def events_of(
    track: Track,
    types: Collection[int] | None = None,
    where: HeaderFilter | None = None,
    part: Part = ALL,
) -> Iterator[Event]:
    """Typed events in file order; what cannot be parsed raises, or comes as opaque with on_error="skip".

    With `types` or `where` others are passed over unparsed.
    """
    commits = _CommitTimes(track)
    for run in runs_of(track, part):
        yield from _events_in(run, track, types, where, commits)


def _events_in(
    run: Run,
    track: Track,
    types: Collection[int] | None,
    where: HeaderFilter | None,
    commits: _CommitTimes,
) -> Iterator[Event]:
    """The typed events of a run, and those packed into them."""
    chosen = np.arange(len(run.headers))
    if types is not None:
        wanted = np.array(sorted({*types, EventType.TRANSACTION_PAYLOAD}), np.uint8)
        chosen = np.flatnonzero(np.isin(run.headers["type_code"], wanted))
    if where is not None:
        chosen = chosen[where(run.headers[chosen])]
    commits.begin(run)
    for i, (fields, body) in zip(chosen.tolist(), bodies_in(run, run.headers[chosen]), strict=True):
        if types is None or fields.type_code in types:
            event = _parse(track, fields, body, run.description)
            yield _placed(event, track, commits.at(i, event))
        if fields.type_code == EventType.TRANSACTION_PAYLOAD:
            inner = packed_events(track, fields, body, run.description)
            try:
                for event in inner:
                    if types is None or event.type_code in types:
                        yield _placed(event, track, commits.at(i))
            except DecodeError as error:
                if not track.skip_errors:
                    raise
                track.report.add(
                    "skipped_events", path=track.path, offset=fields.position, detail=error.message
                )
                track.report.lose(track.path, fields.position, fields.position + fields.event_length)
    commits.end()


class _CommitTimes:
    """When the transactions were committed that the events of a log belong to.

    MySQL's GTID event tells it. What follows belongs to its transaction, up to the next of those events and
    of those that stand between transactions. Of events that nobody asked for none is parsed but these, and of
    these only those that a wanted event follows.
    """

    def __init__(self, track: Track) -> None:
        self._track = track
        self._latest: int | None = None  # of the last event that was looked at

    def begin(self, run: Run) -> None:
        """Go on with a run."""
        self._run = run
        self._bounds = np.flatnonzero(np.isin(run.headers["type_code"], _TRANSACTION_BOUNDS)).tolist()
        self._passed = 0  # of these

    def at(self, index: int, event: Event | None = None) -> int | None:
        """Of the event at a place of the run, which is not before that of the last call."""
        while self._passed < len(self._bounds) and self._bounds[self._passed] <= index:
            self._passed += 1
            following = self._passed == len(self._bounds) or self._bounds[self._passed] > index
            if following:
                bound = self._bounds[self._passed - 1]
                self._latest = self._told(event if event is not None and bound == index else bound)
        return self._latest

    def end(self) -> None:
        """The run is over: a transaction may go on behind it."""
        self.at(len(self._run.headers))

    def _told(self, found: Event | int) -> int | None:
        if isinstance(found, int):
            header = self._run.headers[found : found + 1]
            if header["type_code"][0] not in _COMMIT_TIMED:
                return None
            ((fields, body),) = bodies_in(self._run, header)
            try:
                found = parse_event(fields, body, self._run.description, self._track.path)
            except BinlogError:  # it says so where it is asked for
                return None
        return found.immediate_commit_timestamp if isinstance(found, GtidEvent) else None


def bodies_in(run: Run, headers: np.ndarray) -> Iterator[tuple[EventHeader, memoryview]]:
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
    object.__setattr__(event, "path", track.path)  # frozen for everybody else
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
    inner = replace(description, header_length=_INNER_HEADER.size, checksum_algorithm=0)
    chunks = payload_chunks(body, limit=track.limits.payload_bytes, path=track.path, offset=outer.position)
    packed = PackedEvents(chunks, track.limits, track.path, outer.position, outer.type_code)
    for window in packed:
        data = memoryview(window)
        at = 0
        while len(data) - at >= _INNER_HEADER.size:
            timestamp, kind, server_id, length, next_position, flags = _INNER_HEADER.unpack_from(data, at)
            if length < _INNER_HEADER.size:
                raise DecodeError(DAMAGED_LENGTH, path=track.path, offset=outer.position, type_code=kind)
            if length > len(data) - at:
                break
            if kind not in unwanted:
                fields = EventHeader(outer.position, timestamp, kind, server_id, length, next_position, flags)
                yield _parse(track, fields, data[at + _INNER_HEADER.size : at + length], inner)
            at += length
        packed.left = len(data) - at
