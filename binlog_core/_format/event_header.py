"""The header that every event begins with: where its fields are, and how to read one of them.

The core has the same in ``src/wire/header.pxd``; nothing else depends on these numbers.

Source: MySQL server documentation, "Binlog Event Header".
"""

from __future__ import annotations

import struct
import zlib

from .event_types import EventType
from .magic import MAGIC

FIRST_EVENT = len(MAGIC)

TIMESTAMP_AT, TYPE_AT, SERVER_ID_AT, LENGTH_AT, NEXT_POSITION_AT, FLAGS_AT = 0, 4, 5, 9, 13, 17
CHECKSUM_LENGTH = 4
HEADER_LENGTH_V1 = 13
HEADER_LENGTH_V3 = 19  # v4: at least this
# Of v3 and v4: timestamp, type code, server_id, event_length, next_position, flags
HEADER = struct.Struct("<IBIIIH")

IN_USE_FLAG = 0x0001
THREAD_SPECIFIC_FLAG = 0x0004  # a statement that used a temporary table, or CONNECTION_ID()
IGNORABLE_FLAG = 0x0080

Bytes = bytes | bytearray | memoryview


# These read a field of the header that begins at `at`. The caller has checked that the bytes are available.


def timestamp_of(data: Bytes, at: int = 0) -> int:
    """When the event was logged, seconds since 1970 UTC."""
    return int.from_bytes(data[at : at + TYPE_AT], "little")


def type_of(data: Bytes, at: int = 0) -> int:
    """The type code, as the file numbers it."""
    return data[at + TYPE_AT]


def length_of(data: Bytes, at: int = 0) -> int:
    """Bytes of the whole event."""
    return int.from_bytes(data[at + LENGTH_AT : at + NEXT_POSITION_AT], "little")


def next_position_of(data: Bytes, at: int = 0) -> int:
    """The position in the header; v1 has none."""
    return int.from_bytes(data[at + NEXT_POSITION_AT : at + FLAGS_AT], "little")


def flags_of(data: Bytes, at: int = 0) -> int:
    """The flags; v1 has none."""
    return int.from_bytes(data[at + FLAGS_AT : at + HEADER_LENGTH_V3], "little")


def ends_with_checksum(event: Bytes) -> bool:
    """Whether the last four bytes of an event are the CRC32 of those before."""
    if len(event) < HEADER_LENGTH_V3 + CHECKSUM_LENGTH:
        return False
    return zlib.crc32(event[:-CHECKSUM_LENGTH]) == int.from_bytes(event[-CHECKSUM_LENGTH:], "little")


def begins_with_descriptor(head: Bytes) -> bool:
    """Whether a log with these first bytes begins with a v4 descriptor."""
    return (
        len(head) >= FIRST_EVENT + HEADER_LENGTH_V3
        and head[: len(MAGIC)] == MAGIC
        and type_of(head, FIRST_EVENT) == EventType.FORMAT_DESCRIPTION
    )
