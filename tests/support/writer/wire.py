"""Primitive encodings: packed integers, serialization-library integers, bitmaps, compressed blocks."""

from __future__ import annotations

import zlib
from collections.abc import Iterable


def lenenc(value: int) -> bytes:
    """A packed integer, in its shortest form."""
    if value < 251:
        return bytes((value,))
    for first, size in ((252, 2), (253, 3), (254, 8)):
        if value < 1 << 8 * size:
            return bytes((first,)) + value.to_bytes(size, "little")
    raise ValueError(f"{value} has more than 64 bits")


def lenenc_text(text: bytes | str) -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    return lenenc(len(raw)) + raw


def varint(value: int) -> bytes:
    """An unsigned integer of MySQL's serialization library: trailing ones of the first byte give its size."""
    size = (value.bit_length() * 575 >> 12) + 1
    if size >= 9:
        return b"\xff" + value.to_bytes(8, "little")
    return (value << size | (1 << size - 1) - 1).to_bytes(size, "little")


def signed_varint(value: int) -> bytes:
    return varint(value << 1 if value >= 0 else (-(value + 1) << 1) | 1)


def bitmap(bits: Iterable[bool], *, msb_first: bool = False, unused: int = 0) -> bytes:
    """Bits to bytes; LSB first in row images, MSB first in SIGNEDNESS and COLUMN_VISIBILITY."""
    flags = list(bits)
    flags += [bool(unused)] * (-len(flags) % 8)
    return bytes(
        sum(1 << (7 - i if msb_first else i) for i, bit in enumerate(flags[at : at + 8]) if bit)
        for at in range(0, len(flags), 8)
    )


def crc32(data: bytes) -> bytes:
    return zlib.crc32(data).to_bytes(4, "little")


def maria_block(data: bytes) -> bytes:
    """The compressed tail of MariaDB's events 165 to 171."""
    size = max(1, (len(data).bit_length() + 7) // 8)
    return bytes((0x80 | size,)) + len(data).to_bytes(size, "big") + zlib.compress(data)


def maria_column(data: bytes, *, deflate: bool | None = None) -> bytes:
    """The value of a COMPRESSED column; short values are stored plain, as the server does."""
    if not data:
        return b""
    if not (len(data) >= 100 if deflate is None else deflate):
        return b"\0" + data
    packer = zlib.compressobj(wbits=-15)
    size = (len(data).bit_length() + 7) // 8
    return bytes((0x88 | size,)) + len(data).to_bytes(size, "big") + packer.compress(data) + packer.flush()
