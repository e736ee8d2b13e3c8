"""The header of an event, by its fields; the bytes are counted out by hand from the servers' manual."""

from __future__ import annotations

import zlib

import pytest

from binlog_core._format.event_header import (
    FIRST_EVENT,
    HEADER,
    HEADER_LENGTH_V3,
    begins_with_descriptor,
    ends_with_checksum,
    flags_of,
    length_of,
    next_position_of,
    timestamp_of,
    type_of,
)

pytestmark = pytest.mark.sanitize

# timestamp, type 15, server_id 7, 119 bytes long, next at 123, in use
_HEADER = bytes.fromhex("040302010f07000000770000007b0000000100")


def test_each_field_is_where_the_manual_says() -> None:
    log = b"\xfebin" + _HEADER
    assert len(_HEADER) == HEADER_LENGTH_V3 == HEADER.size
    told = (timestamp_of, type_of, length_of, next_position_of, flags_of)
    assert [field(log, FIRST_EVENT) for field in told] == [0x01020304, 15, 119, 123, 1]
    assert [field(memoryview(_HEADER)) for field in told] == [0x01020304, 15, 119, 123, 1]


def test_a_log_of_today_begins_with_a_descriptor() -> None:
    assert begins_with_descriptor(b"\xfebin" + _HEADER)
    assert not begins_with_descriptor(b"\xfebin" + _HEADER[:-1])
    assert not begins_with_descriptor(b"\xfdbin" + _HEADER)
    assert not begins_with_descriptor(b"\xfebin" + _HEADER.replace(b"\x0f", b"\x01"))


def test_an_event_ends_with_the_checksum_of_the_rest() -> None:
    event = _HEADER + b"123456789"
    assert not ends_with_checksum(event)
    assert not ends_with_checksum(
        b"123456789" + bytes.fromhex("2639f4cb")
    )  # right, but too short for an event
    at_hand = bytes(19) + b"\xff"
    assert ends_with_checksum(at_hand + zlib.crc32(at_hand).to_bytes(4, "little"))
