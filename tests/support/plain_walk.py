"""A plain walk over the events of a log, for tests: simple, and independent of the package's."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from binlog_core._format.descriptors import (
    LogState,
    detect,
    format_description_checksum,
    parse_format_description,
    parse_start_v3,
)
from binlog_core._format.event_types import EventType
from binlog_core._format.format_description import FormatDescription
from binlog_core.events import Event, EventHeader, TransactionPayloadEvent, parse_event


def iterate(
    data: bytes, path: str | None = None, *, verify: bool = True
) -> Iterator[tuple[Event, FormatDescription]]:
    """Every whole event of a log, with the description in force."""
    found = detect(data, path)
    if found.state is LogState.EMPTY or found.format is None:
        return
    description, at = found.format, found.first_event
    while at < len(data):
        short = 13 if description.binlog_version == 1 else 19
        if len(data) - at < short:
            return
        timestamp, file_code, server_id, length = struct.unpack_from("<IBII", data, at)
        next_position, flags = (0, 0) if short == 13 else struct.unpack_from("<IH", data, at + 13)
        code = description.canonical(file_code)
        if len(data) - at < length:
            return
        event = data[at : at + length]
        if code == EventType.FORMAT_DESCRIPTION:
            description = parse_format_description(event, at, path)
        elif code == EventType.START_V3:
            description = parse_start_v3(event, at, path)
        body = event[description.header_length_of(code) : length - description.checksum_length_of(code)]
        if verify and code == EventType.FORMAT_DESCRIPTION and description.checksum == "crc32":
            stored, computed = format_description_checksum(event)
            assert stored == computed, at
        elif verify and description.checksum_length_of(code) and code != EventType.FORMAT_DESCRIPTION:
            assert struct.unpack("<I", event[-4:])[0] == zlib.crc32(event[:-4]), at
        header = EventHeader(at, timestamp, code, server_id, length, next_position, flags)
        yield parse_event(header, body, description, path), description
        at += length


def iterate_payload(
    event: TransactionPayloadEvent, description: FormatDescription, path: str | None = None
) -> Iterator[Event]:
    """The events inside a compressed transaction."""
    import zstandard

    if event.compression_type == 255:
        data = bytes(event.payload)
    else:
        data = zstandard.ZstdDecompressor().decompressobj().decompress(event.payload)
    at = 0
    while at < len(data):
        timestamp, code, server_id, length, next_position, flags = struct.unpack_from("<IBIIIH", data, at)
        header = EventHeader(event.position, timestamp, code, server_id, length, next_position, flags)
        yield parse_event(header, data[at + 19 : at + length], description, path)
        at += length
