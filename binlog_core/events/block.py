"""The compressed tail of MariaDB's QUERY_COMPRESSED and *_ROWS_COMPRESSED events.

Source: MariaDB, "QUERY_COMPRESSED_EVENT"; ``binlog_buf_compress`` in ``log_event.cc``.
"""

from __future__ import annotations

import zlib

from ..cursor import Cursor
from ..errors import DecompressionError


def inflate_block(block: bytes) -> bytes:
    """Inflate one block: a byte of algorithm and width, big-endian length, zlib stream.

    Raises
    ------
    DecompressionError
        The block is broken, or its length is not that of what it holds.
    """
    cur = Cursor(block)
    head = cur.take_u8()
    if head & 0xF8 != 0x80 or not 1 <= head & 7 <= 4:
        raise DecompressionError(f"compressed block: head is 0x81 to 0x84, found 0x{head:02x}")
    length = int.from_bytes(cur.take(head & 7), "big")
    inflater = zlib.decompressobj()
    try:
        data = inflater.decompress(cur.rest_view(), length + 1)
    except zlib.error as error:
        raise DecompressionError(f"compressed block: {error}") from None
    if len(data) != length or not inflater.eof:
        raise DecompressionError(f"compressed block: {length} bytes announced, it holds another number")
    return data
