"""Typed events from bodies alone, for tests: their headers are made up."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from binlog_core import events as ev
from binlog_core._format.descriptors import detect
from binlog_core._format.format_description import FormatDescription, artificial_description
from binlog_core.errors import DecodeError
from support.writer.log import Log

UUID = bytes.fromhex("00112233445566778899aabbccddeeff")
UUID_TEXT = "00112233-4455-6677-8899-aabbccddeeff"


def description_of(server: str, **options: Any) -> FormatDescription:
    found = detect(Log(server, **options).getvalue())
    assert found.format is not None
    return found.format


MYSQL = description_of("9.7.4")
MARIADB = description_of("11.8.6-MariaDB")
V1 = artificial_description(1)
V3 = artificial_description(3)


def parse(
    code: int, body: bytes, description: FormatDescription = MYSQL, *, next_position: int = 0, flags: int = 0
) -> Any:
    header = ev.EventHeader(2**40, 1700000000, code, 11, len(body) + 23, next_position, flags)
    event = ev.parse_event(header, body, description, "some.log")
    assert (event.position, event.timestamp, event.type_code) == (2**40, 1700000000, code)
    assert (event.server_id, event.event_length, event.next_position) == (11, len(body) + 23, next_position)
    assert event.flags == flags
    return event


def fails(code: int, body: bytes, description: FormatDescription = MYSQL) -> str:
    with pytest.raises(DecodeError) as caught:
        parse(code, body, description)
    error = caught.value
    assert (error.path, error.offset, error.type_code) == ("some.log", 2**40, code)
    return error.message


def text8(text: bytes) -> bytes:
    return bytes([len(text)]) + text


def query_body(
    status: bytes = b"", database: bytes = b"d", query: bytes = b"SELECT 1", *, post: bytes = b""
) -> bytes:
    return (
        struct.pack("<IIBHH", 7, 3, len(database), 1062, len(status))
        + post
        + status
        + database
        + b"\0"
        + query
    )
