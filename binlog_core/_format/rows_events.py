"""MariaDB's compressed rows events, converted to plain ones."""

from __future__ import annotations

import struct

from ..errors import DecodeError
from .compression import inflate_block
from .cursor import Cursor
from .event_header import HEADER_LENGTH_V3, LENGTH_AT, TYPE_AT
from .event_types import EventType
from .format_description import FormatDescription

# compressed type: plain type
_PLAIN_TYPES = {
    EventType.MARIADB_WRITE_ROWS_COMPRESSED_V1: EventType.WRITE_ROWS_V1,
    EventType.MARIADB_UPDATE_ROWS_COMPRESSED_V1: EventType.UPDATE_ROWS_V1,
    EventType.MARIADB_DELETE_ROWS_COMPRESSED_V1: EventType.DELETE_ROWS_V1,
    EventType.MARIADB_WRITE_ROWS_COMPRESSED: EventType.WRITE_ROWS,
    EventType.MARIADB_UPDATE_ROWS_COMPRESSED: EventType.UPDATE_ROWS,
    EventType.MARIADB_DELETE_ROWS_COMPRESSED: EventType.DELETE_ROWS,
}
_UPDATES = (EventType.UPDATE_ROWS_V1, EventType.UPDATE_ROWS)


def inflate_rows_event(
    event: bytes,
    body: bytes,
    type_code: int,
    description: FormatDescription,
    *,
    limit: int,
    path: str | None,
    offset: int,
) -> bytes:
    """The plain form of a compressed rows event (166 to 171).

    Parameters
    ----------
    event, body : bytes
        The whole event, and the event without header and checksum.
    type_code : int
    description : FormatDescription
        The format description in force.
    limit : int
        Most bytes of rows.
    path, offset
        For errors.

    Returns
    -------
    bytes
        The event, with a header of 19 bytes and no checksum.

    Source: MariaDB server, ``row_log_event_uncompress``: everything before the rows is in clear.
    """
    plain = _PLAIN_TYPES[EventType(type_code)]
    v2 = plain >= EventType.WRITE_ROWS
    before = description.post_header_length(type_code) or (10 if v2 else 8)
    cur = Cursor(body)
    try:
        cur.skip(before)
        if before >= 10:
            cur.skip(struct.unpack_from("<H", body, 8)[0] - 2)
        cur.skip((cur.take_lenenc() + 7) // 8 * (2 if plain in _UPDATES else 1))
    except (struct.error, DecodeError):
        raise DecodeError(
            "the compressed rows event is too short", path=path, offset=offset, type_code=type_code
        ) from None
    at = cur.pos
    rows = inflate_block(body[at:], limit=limit, path=path, offset=offset, type_code=type_code)
    # The loop skips the post-header that the descriptor gives for the plain type.
    plain_before = description.post_header_length(plain) or (10 if v2 else 8)
    if plain_before != before:
        raise DecodeError(
            f"the compressed event has a post-header of {before} bytes, the plain one {plain_before}",
            path=path,
            offset=offset,
            type_code=type_code,
        )
    header = bytearray(event[:HEADER_LENGTH_V3])
    header[TYPE_AT] = plain
    struct.pack_into("<I", header, LENGTH_AT, len(header) + at + len(rows))
    return b"".join((header, body[:at], rows))
