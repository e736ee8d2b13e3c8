"""Headers and typed events of one source, through the compiled header walk."""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from .._core import _headers
from .._core._headers import HEADER_DTYPE, walk_headers
from .._format.compression import payload_chunks
from .._format.event_types import EventType
from .._format.format_description import FIRST_EVENT_POSITION, FormatDescription, parse_next_descriptor
from ..errors import BinlogError, ChecksumError, DecodeError
from ..events import EventHeader, OpaqueEvent, parse_event
from .salvage import check_tail, resume

if TYPE_CHECKING:
    from .._decode.log_decoder import LogDecoder
    from ..events import Event

HeaderFilter = Callable[[np.ndarray], np.ndarray]  # headers to a mask of those wanted

_CHUNK = 65536  # headers
_DESCRIPTORS = (EventType.FORMAT_DESCRIPTION, EventType.START_V3)
_READ_LEN = 1 << 20
_INNER_HEADER = struct.Struct("<IBIIIH")


class _Walk:
    """Walks one source's headers, window by window, descriptor by descriptor."""

    def __init__(self, decoder: LogDecoder) -> None:
        self.decoder = decoder
        self.source = decoder.source
        self.path = decoder.path

    def __iter__(self) -> Iterator[tuple[np.ndarray, memoryview, int, FormatDescription]]:
        """(headers, window, position of the window's first byte, descriptor in force) until the log ends."""
        decoder = self.decoder
        while (description := decoder.read_format()) is None:
            if not self._more_comes():
                return
        view = self.source.view()
        start, stop = decoder.first_position, decoder.selection.stop_position
        if view is None:
            self.source.seek(start)
        window = view if view is not None else memoryview(b"")
        base, offset = (0, start) if view is not None else (start, 0)
        while stop is None or base + offset < stop:
            out = np.empty(_CHUNK, HEADER_DTYPE)
            at = offset
            header_length, _, canonical, checksum = description.core_arrays()
            count, offset, status = walk_headers(
                window,
                offset,
                out,
                base=base,
                header_length=header_length,
                canonical=canonical,
                checksum=bool(checksum),
                verify=decoder.verify,
                positions=decoder.skip_errors and decoder.boundaries.splittable,
            )
            if count and int(out[0]["position"]) == start > FIRST_EVENT_POSITION:
                start = 0
                if out[0]["type_code"] in _DESCRIPTORS:  # the one in force from here on, taken for it unread
                    following = self._descriptor(window, at, base, description)
                    description = decoder.format = following or description
                    offset = at
                    continue
            damaged = status in (_headers.WALK_MALFORMED, _headers.WALK_BROKEN)
            held = 0
            if damaged and decoder.skip_errors and count and not out[count - 1]["next_position"]:
                held = 1  # it told no position: the length that led here may be what is wrong
            if count > held:
                yield out[: count - held], window, base, description
            if status == _headers.WALK_FULL or (stop is not None and base + offset >= stop):
                continue
            reason = ""
            if status == _headers.WALK_DESCRIPTOR:
                try:
                    following = self._descriptor(window, offset, base, description)
                except BinlogError as error:
                    if not decoder.skip_errors:
                        raise
                    reason = error.message
                else:
                    if following is not None:
                        description = decoder.format = following
                        continue
                    status = _headers.WALK_TRUNCATED
            if status in (_headers.WALK_END, _headers.WALK_TRUNCATED):
                more = b""
                if view is None and not decoder.ends_inside(window[offset:], base + offset):
                    more = self.source.read(max(_READ_LEN, len(window) - offset))
                    if not more and self._more_comes():
                        more = self.source.read(_READ_LEN)
                if more:
                    base = self.source.position - len(more) - (len(window) - offset)
                    window = memoryview(bytes(window[offset:]) + more)
                    offset = 0
                    continue
                if offset == len(window) and not self.source.withheld:
                    return
                reason = f"the file ends inside an event, {len(window) - offset} bytes of it are there"
                if not decoder.skip_errors:
                    check_tail(decoder.boundaries, window, base, offset, self.path)
                    decoder.end_early(base + offset, reason)
                    return
            position = base + offset
            length = int.from_bytes(window[offset + 9 : offset + 13], "little")
            if damaged:
                reason = "event_length is less than its header, or the event does not end where it says"
                if not decoder.skip_errors:
                    raise DecodeError(reason, path=self.path, offset=position)
            elif status == _headers.WALK_CHECKSUM:
                reason = "wrong checksum"
                at_end = offset + length == len(window)
                if at_end and description.in_use and decoder.may_change(position):
                    window, base, offset = memoryview(b""), position, 0
                    continue
                if at_end and description.in_use and (view is not None or not self.source.peek(1)):
                    decoder.report.add("wrong_in_use_checksum", path=self.path, offset=position)
                    decoder.end_early(position, "wrong checksum in the last event of a log in use")
                    return
                if not decoder.skip_errors:
                    type_code = description.canonical(window[offset + 4])
                    raise ChecksumError(reason, path=self.path, offset=position, type_code=type_code)
            before, before_base = window, base
            found = resume(
                decoder.boundaries,
                self.source,
                window,
                base,
                position,
                length if status != _headers.WALK_TRUNCATED else 0,
                doubtful=int(out[count - 1]["position"]) if held else None,
                report=decoder.report,
            )
            window, base = memoryview(found.window), found.base
            if found.ahead:
                decoder.believe_no_positions()
            if held and (found.offset is None or base + found.offset >= position):
                yield out[count - 1 : count], before, before_base, description
            if found.offset is None and status == _headers.WALK_TRUNCATED:
                decoder.end_early(position, reason)
                return
            if not found.begins_at(position):
                decoder.report.add("skipped_events", path=self.path, offset=position, detail=reason)
            if found.offset is None:
                decoder.report.lose(self.path, position, base + len(window))
                return
            offset = found.offset

    def _more_comes(self) -> bool:
        """Wait for it, where the log is followed."""
        return self.decoder.follower is not None and self.decoder.follower.wait() == "more"

    def _descriptor(
        self, window: memoryview, offset: int, base: int, description: FormatDescription
    ) -> FormatDescription | None:
        """The descriptor at offset; None where the window ends inside it."""
        length = int.from_bytes(window[offset + 9 : offset + 13], "little")
        event = window[offset : offset + length]
        if len(event) < length:
            return None
        return parse_next_descriptor(
            event, base + offset, self.path, description, verify_checksum=self.decoder.verify
        )


def _selected(decoder: LogDecoder) -> Iterator[tuple[np.ndarray, memoryview, int, FormatDescription]]:
    """What a walk gives, without the headers that the decoder's selection leaves out."""
    selection = decoder.selection
    start, stop = selection.start_timestamp, selection.stop_timestamp
    walk = iter(_Walk(decoder))
    while True:
        try:
            found = next(walk, None)
        except BinlogError as error:
            raise decoder.asked_from(error) from error.__cause__
        if found is None:
            return
        headers, window, base, description = found
        ended = False
        if stop is not None:
            late = (headers["timestamp"] >= stop) & (headers["type_code"] != EventType.FORMAT_DESCRIPTION)
            ended = bool(late.any())
            headers = headers[: int(late.argmax())] if ended else headers
            headers = headers[headers["timestamp"] < stop]
        if selection.stop_position is not None:
            headers = headers[headers["position"] < selection.stop_position]
        if start is not None:
            headers = headers[headers["timestamp"] >= start]
        if selection.server_id is not None:
            headers = headers[headers["server_id"] == selection.server_id]
        if len(headers):
            yield headers, window, base, description
        if ended:
            return


def headers_of(decoder: LogDecoder) -> Iterator[np.ndarray]:
    """Arrays of HEADER_DTYPE, in file order: those that the decoder's selection has in its range."""
    for headers, _, _, _ in _selected(decoder):
        yield headers


def events_of(
    decoder: LogDecoder, types: Collection[int] | None = None, where: HeaderFilter | None = None
) -> Iterator[Event]:
    """Typed events in file order, in the range of the decoder's selection.

    What cannot be parsed raises, or comes as opaque with on_error="skip".
    With `types` or `where` others are passed over unparsed.
    """
    path = decoder.path
    wanted = None if types is None else np.array(sorted({*types, EventType.TRANSACTION_PAYLOAD}), np.uint8)
    for headers, window, base, description in _selected(decoder):
        if wanted is not None:
            headers = headers[np.isin(headers["type_code"], wanted)]
        if where is not None:
            headers = headers[where(headers)]
        for header in headers.tolist():
            fields = EventHeader(*header)
            begin = fields.position - base
            end = begin + fields.event_length - description.checksum_length_of(fields.type_code)
            body = window[begin + description.header_length_of(fields.type_code) : end]
            if types is None or fields.type_code in types:
                yield _parse(decoder, fields, body, description)
            if fields.type_code == EventType.TRANSACTION_PAYLOAD:
                inner = _inner_events(decoder, fields, body, description, path)
                try:
                    yield from (event for event in inner if types is None or event.type_code in types)
                except DecodeError as error:
                    if not decoder.skip_errors:
                        raise
                    decoder.report.add(
                        "skipped_events", path=path, offset=fields.position, detail=error.message
                    )
                    decoder.report.lose(path, fields.position, fields.position + fields.event_length)


def _parse(
    decoder: LogDecoder, fields: EventHeader, body: memoryview, description: FormatDescription
) -> Event:
    try:
        return parse_event(fields, body, description, decoder.path)
    except BinlogError as error:
        if not decoder.skip_errors:
            raise
        decoder.report.add("skipped_events", path=decoder.path, offset=fields.position, detail=error.message)
        return OpaqueEvent(*fields, body=bytes(body))


def _inner_events(
    decoder: LogDecoder,
    outer: EventHeader,
    body: memoryview,
    description: FormatDescription,
    path: str,
) -> Iterator[Event]:
    """The events inside a transaction payload: 19-byte headers, no checksums, the outer event's position."""
    inner = _without_checksum(description)
    held = bytearray()
    wanted = 0
    for chunk in payload_chunks(body, limit=decoder.limits.payload_bytes, path=path, offset=outer.position):
        held += chunk
        if len(held) < wanted:
            continue
        data = memoryview(held)
        at = 0
        while len(data) - at >= _INNER_HEADER.size:
            timestamp, kind, server_id, length, next_position, flags = _INNER_HEADER.unpack_from(data, at)
            if length < _INNER_HEADER.size:
                raise DecodeError(
                    "event_length is less than its header", path=path, offset=outer.position, type_code=kind
                )
            if length > len(data) - at:
                break
            fields = EventHeader(outer.position, timestamp, kind, server_id, length, next_position, flags)
            yield _parse(decoder, fields, data[at + _INNER_HEADER.size : at + length], inner)
            at += length
        held = held[at:]
        wanted = decoder.limits.packed_length(held, path, outer.position)
    if held:
        raise DecodeError(
            f"the packed events end inside one, {len(held)} bytes of it are there",
            path=path,
            offset=outer.position,
            type_code=outer.type_code,
        )


def _without_checksum(description: FormatDescription) -> FormatDescription:

    return replace(description, header_length=_INNER_HEADER.size, checksum_algorithm=0)
