"""MariaDB's compressed rows events and their plain forms, made by hand."""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace

import pytest
from support.event_bodies import MARIADB

from binlog_core._format.rows_events import inflate_rows_event
from binlog_core.errors import DecodeError, DecompressionError

pytestmark = pytest.mark.sanitize

ROWS = b"r" * 100
BLOCK = b"\x81\x64" + zlib.compress(ROWS)  # one byte of length, 100
V1 = b"\x0f\0\0\0\0\0\x01\0"  # table_id, flags
V2 = V1 + b"\x04\0ab"  # extra data of two bytes after its length, which counts itself


def plain(code: int, before: bytes, block: bytes = BLOCK, limit: int = 1000) -> bytes:
    body = before + block
    header = struct.pack("<IBIIIH", 1_700_000_000, code, 7, 19 + len(body) + 4, 5000, 0x80)
    return inflate_rows_event(
        header + body + b"csum", body, code, MARIADB, limit=limit, path="log", offset=4711
    )


@pytest.mark.parametrize(
    ("code", "plain_code", "before"),
    [
        (166, 23, V1 + b"\x09\xff\x01"),  # nine columns: two bytes of bitmap
        (167, 24, V1 + b"\x09\xff\x01\xff\x01"),  # of both images
        (168, 25, V1 + b"\x01\x01"),
        (169, 30, V2 + b"\x01\x01"),
        (170, 31, V2 + b"\x01\x01\x01"),
        (171, 32, V2 + b"\x01\x01"),
    ],
)
def test_the_plain_event(code: int, plain_code: int, before: bytes) -> None:
    length = 19 + len(before) + len(ROWS)
    header = struct.pack("<IBIIIH", 1_700_000_000, plain_code, 7, length, 5000, 0x80)
    assert plain(code, before) == header + before + ROWS


@pytest.mark.parametrize(
    ("code", "before"),
    [
        (166, b""),
        (166, V1[:-1]),
        (166, V1),
        (166, V1 + b"\x09\xff"),
        (169, V2[:9]),
        (169, V1 + b"\xff\xffab"),
    ],
)
def test_an_event_that_is_too_short(code: int, before: bytes) -> None:
    with pytest.raises(DecodeError, match="too short") as caught:
        plain(code, before, b"")
    assert (caught.value.path, caught.value.offset, caught.value.type_code) == ("log", 4711, code)


def test_rows_that_are_broken_or_too_large() -> None:
    with pytest.raises(DecompressionError):
        plain(166, V1 + b"\x01\x01", BLOCK[:-3])
    with pytest.raises(DecompressionError):
        plain(166, V1 + b"\x01\x01", limit=99)


def test_post_headers_that_differ() -> None:
    lengths = list(MARIADB.post_header_lengths)
    lengths[23] = 6
    odd = replace(MARIADB, post_header_lengths=tuple(lengths))
    body = V1 + b"\x01\x01" + BLOCK
    with pytest.raises(DecodeError, match="post-header of 8 bytes, the plain one 6"):
        inflate_rows_event(bytes(19) + body, body, 166, odd, limit=1000, path="log", offset=4)
