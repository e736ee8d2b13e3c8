"""Descriptors made by hand: the arrays as servers write them."""

from __future__ import annotations

import struct
import zlib

LENGTHS_50 = bytes([56, 13, 0, 8, 0, 18, 0, 4, 4, 4, 4, 18, 0, 0, 75, 0, 4, 26])
LENGTHS_5117 = LENGTHS_50[:14] + bytes([79, 0, 4, 26, 8, 8, 8, 8])
# 5.2.2-a_drop6p13: TABLE_MAP is 16, rows are 17 to 19, XID and the LOAD DATA events 20 to 22.
LENGTHS_A_DROP6 = LENGTHS_50[:14] + bytes([79, 6, 6, 6, 6, 0, 4, 26])


def event(type_code: int, body: bytes, *, flags: int = 0, position: int = 4, v1: bool = False) -> bytes:
    length = (13 if v1 else 19) + len(body)
    head = struct.pack("<IBII", 1700000000, type_code, 1, length)
    return head + (b"" if v1 else struct.pack("<IH", position + length, flags)) + body


def fde(
    version: str,
    lengths: bytes,
    *,
    algorithm: int | None = None,
    header_length: int = 19,
    binlog_version: int = 4,
    flags: int = 0,
    created: int = 1600000000,
) -> bytes:
    body = struct.pack("<H50sIB", binlog_version, version.encode(), created, header_length) + lengths
    if algorithm is None:
        return event(15, body, flags=flags)
    whole = event(15, body + bytes([algorithm]) + bytes(4), flags=flags)
    clean = bytearray(whole[:-4])
    clean[17] &= 0xFE
    return whole[:-4] + struct.pack("<I", zlib.crc32(clean))
