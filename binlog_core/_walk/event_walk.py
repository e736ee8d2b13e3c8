"""The walk over a log's events: runs of complete events, and damage between them; headers.

Like rows, it follows the rules of `Track`: see there for torn tails and for reading after damage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from .._core import _headers
from .._core._headers import HEADER_DTYPE, walk_headers
from .._format.event_header import FIRST_EVENT, length_of, type_of
from .._format.event_types import DESCRIPTORS, EventType
from .._format.format_description import FormatDescription
from ..errors import BinlogError, ChecksumError, DecodeError
from .track import DAMAGED_END, DAMAGED_LENGTH, WRONG_CHECKSUM, Track, asked_from

HeaderFilter = Callable[[np.ndarray], np.ndarray]  # headers to a mask of those wanted

_BEGIN = np.frombuffer(b"\0BEGIN", np.uint8)  # after the database's name
_CHUNK = 8192  # headers: more leave the processor's caches
_FIRST_CHUNK = 64


class EventRun(NamedTuple):
    """Consecutive complete events.

    Parameters
    ----------
    headers : ndarray, HEADER_DTYPE
        Headers, at most 8192.
    window : memoryview
        The bytes that hold them.
    base : int
        Position in the log of window[0].
    description : FormatDescription
        Valid for all of them; a descriptor is the first event of its run.
    """

    headers: np.ndarray
    window: memoryview
    base: int
    description: FormatDescription


RunFilter = Callable[[EventRun], np.ndarray]  # a mask of the wanted ones of its headers


def begins_in(run: EventRun) -> np.ndarray:
    """Which of a run's events are the statement BEGIN: a mask of its headers."""
    headers = run.headers
    found: np.ndarray = headers["type_code"] == EventType.QUERY
    queries = headers[found]
    checksum = run.description.checksum_length_of(EventType.QUERY)
    ends = (queries["position"] + queries["event_length"]).astype(np.int64) - run.base - checksum
    window = np.frombuffer(run.window, np.uint8)
    found[found] = (window[ends[:, None] + np.arange(-len(_BEGIN), 0)] == _BEGIN).all(axis=1)
    return found


def by_code(types: Iterable[int]) -> np.ndarray:
    """Whether each type code, from 0 to 255, is one of some types.

    A table to look up the codes of each run: `np.isin` over its headers would take longer than all else.
    """
    return np.isin(np.arange(256), list(types))


class Damage(NamedTuple):
    """Bytes of a log that cannot be read.

    Parameters
    ----------
    begin, end : int
        Offsets; end is where reading continues.
    reason : str
    """

    begin: int
    end: int
    reason: str


class EventRange(NamedTuple):
    """Which of a log's events are wanted.

    Parameters
    ----------
    start_position, stop_position : int or None
        Positions of the first event, and of the first that is not wanted.
    start_timestamp, stop_timestamp : int or None
        Range of the headers' timestamps, in seconds; the walk ends at the first event that is too late.
    server_id : int or None
    """

    start_position: int | None = None
    stop_position: int | None = None
    start_timestamp: int | None = None
    stop_timestamp: int | None = None
    server_id: int | None = None


ALL = EventRange()


def walk(track: Track, start: int | None = None, stop: int | None = None) -> Iterator[EventRun | Damage]:
    """Walk over a log's events to its end; `Track.tail` then says where it ends inside one.

    Parameters
    ----------
    track : Track
        The log's track, at its beginning; if the log's format was read, this is the one to use.
    start, stop : int or None
        Positions of the first event, and of one not to continue at.

    Yields
    ------
    Run or Damage
        Damage occurs only if errors are skipped.

    Raises
    ------
    DecodeError, ChecksumError
        An event is damaged, and errors are not skipped.
    TruncatedError
        The log ends inside an event, in strict mode.
    """
    if (track.format or track.wait_for_format()) is None:
        return
    offset = track.begin(start)
    description = track.format
    assert description is not None
    begin = track.base + offset
    chunk = _CHUNK if stop is None else _FIRST_CHUNK  # little is read after `stop`
    while stop is None or track.base + offset < stop:
        at = offset
        out = np.empty(chunk, HEADER_DTYPE)
        chunk = min(2 * chunk, _CHUNK)
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
        if count and int(out[0]["position"]) == begin > FIRST_EVENT:
            begin = 0
            if (
                out[0]["type_code"] in DESCRIPTORS
            ):  # the descriptor in force from here on, assumed before it is read
                description = track.format = track.next_descriptor(at) or description
                offset = at
                continue
        damaged = status in (_headers.WALK_MALFORMED, _headers.WALK_BROKEN)
        # If the last one had no position, the length that led here may be wrong.
        held = int(damaged and track.skip_errors and count > 0 and not out[count - 1]["next_position"])
        if count > held:
            yield EventRun(out[: count - held], window, base, description)
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
            try:
                found_at = track.more(offset)
            except BinlogError as error:
                left = track.leave_damage(offset, error)
                yield Damage(position, left.base, error.message)
                offset = 0
                continue
            if found_at is not None:
                offset = found_at
                continue
            if track.waits():
                continue
            found = track.finish(offset)
            if found is None:
                return
            reason = "an event's length reaches past the end of the file"
        else:
            length = length_of(window, offset)
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
                type_code = description.canonical(type_of(window, offset))
                raise error_class(reason, path=track.path, offset=position, type_code=type_code)
            doubtful = int(out[count - 1]["position"]) if held else None
            found = track.pass_over(position, length, reason, doubtful)
        following_position = found.base + found.offset if found.offset is not None else track.end
        if held and (found.offset is None or following_position >= position):
            yield EventRun(out[count - 1 : count], window, base, description)
        if not found.begins_at(position):
            first = int(out[count - 1]["position"]) if held and following_position < position else position
            yield Damage(first, following_position, reason)
        if found.offset is None:
            return
        offset = found.offset


def runs_of(track: Track, part: EventRange = ALL) -> Iterator[EventRun]:
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
            yield run._replace(headers=headers)
        if ended:
            return


def headers_of(track: Track, part: EventRange = ALL) -> Iterator[np.ndarray]:
    """Arrays of HEADER_DTYPE, in file order."""
    for run in runs_of(track, part):
        yield run.headers
