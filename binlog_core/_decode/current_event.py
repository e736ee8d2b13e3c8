"""The event at which the loop has stopped, as a typed event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._format.event_types import EventType

if TYPE_CHECKING:
    from .._core._rows import Decoder
    from .._format.format_description import FormatDescription
    from ..events import Event


def parse_current(
    loop: Decoder, description: FormatDescription, path: str, body: bytes | memoryview | None = None
) -> Event:
    """The current event, parsed.

    Parameters
    ----------
    loop : Decoder
    description : FormatDescription
        The format description in force for it.
    path : str
    body : bytes-like or None
        Everything after its header; None: as the loop has it.

    Raises
    ------
    DecodeError
        The event is not valid for its type.
    """
    from ..events import EventHeader, parse_event

    place, moment, kind = int(loop.event_position), int(loop.event_timestamp), int(loop.event_type)
    header = EventHeader(place, moment, kind, 0, int(loop.event_length), 0, int(loop.event_flags))
    return parse_event(header, loop.event_body() if body is None else body, description, path)


def query_body(loop: Decoder, description: FormatDescription, database: bytes, statement: bytes) -> bytes:
    """The body of the current QUERY event, up to the end of its statement.

    Events inside a payload have no checksum to cut off.
    """
    header_length, lengths, _, _ = description.core_arrays()
    body = loop.event_bytes()[header_length:]
    end = int(lengths[EventType.QUERY]) + len(database) + 1 + len(statement)
    if lengths[EventType.QUERY] >= 13:
        end += int.from_bytes(body[11:13], "little")  # status variables
    return body[:end]
