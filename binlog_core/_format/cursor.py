"""The bounded cursor of the Python side: everything read from an event's body goes through it.

Twin of src/wire/cursor.pxd, for the events that the compiled loop leaves to Python. Every ``take_``
checks; a read past the end is a `DecodeError`, to which the caller adds file, offset and type.
"""

from __future__ import annotations

import struct

from ..errors import DecodeError

_U16 = struct.Struct("<H")
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_I32 = struct.Struct("<i")
_I64 = struct.Struct("<q")
_F64 = struct.Struct("<d")


class Cursor:
    """Reads a bytes-like from its start to its end.

    Parameters
    ----------
    data : bytes-like, uint8
        Not copied; the results of ``take`` and ``rest`` are.
    """

    __slots__ = ("data", "end", "pos")

    def __init__(self, data: bytes | memoryview) -> None:
        self.data = memoryview(data)
        self.pos = 0
        self.end = len(self.data)

    @property
    def remaining(self) -> int:
        """Bytes left."""
        return self.end - self.pos

    def skip(self, length: int) -> int:
        """Advance by a number of bytes that must be there; return where they begin."""
        begin = self.pos
        if length > self.end - begin:
            raise DecodeError(f"{length} bytes are needed, {self.end - begin} are left")
        self.pos = begin + length
        return begin

    def take(self, length: int) -> bytes:
        """The next bytes, copied."""
        begin = self.skip(length)
        return bytes(self.data[begin : self.pos])

    def take_slice(self, length: int) -> Cursor:
        """A cursor over the next bytes, which cannot reach beyond them."""
        begin = self.skip(length)
        return Cursor(self.data[begin : self.pos])

    def rest(self) -> bytes:
        """All bytes left, copied."""
        return self.take(self.remaining)

    def rest_view(self) -> memoryview:
        """All bytes left, not copied."""
        begin = self.skip(self.remaining)
        return self.data[begin:]

    def take_u8(self) -> int:
        return self.data[self.skip(1)]

    def take_u16(self) -> int:
        value: int = _U16.unpack_from(self.data, self.skip(2))[0]
        return value

    def take_u24(self) -> int:
        return int.from_bytes(self.take(3), "little")

    def take_u32(self) -> int:
        value: int = _U32.unpack_from(self.data, self.skip(4))[0]
        return value

    def take_u48(self) -> int:
        return int.from_bytes(self.take(6), "little")

    def take_u56(self) -> int:
        return int.from_bytes(self.take(7), "little")

    def take_u64(self) -> int:
        value: int = _U64.unpack_from(self.data, self.skip(8))[0]
        return value

    def take_i32(self) -> int:
        value: int = _I32.unpack_from(self.data, self.skip(4))[0]
        return value

    def take_i64(self) -> int:
        value: int = _I64.unpack_from(self.data, self.skip(8))[0]
        return value

    def take_f64(self) -> float:
        value: float = _F64.unpack_from(self.data, self.skip(8))[0]
        return value

    def take_lenenc(self) -> int:
        """MySQL's packed integer; encodings longer than needed are accepted."""
        first = self.take_u8()
        if first < 251:
            return first
        if first == 252:
            return self.take_u16()
        if first == 253:
            return self.take_u24()
        if first == 254:
            return self.take_u64()
        raise DecodeError(f"a packed integer begins with {first}: expected 0 to 250, or 252 to 254")

    def take_varint(self) -> int:
        """Unsigned integer of MySQL's serialization library: 1 to 9 bytes.

        The first byte has as many trailing 1-bits as bytes follow it.
        """
        first = self.take_u8()
        if first == 0xFF:
            return self.take_u64()
        length = (~first & (first + 1)).bit_length()  # lowest 0-bit, counted from 1
        self.pos -= 1
        return int.from_bytes(self.take(length), "little") >> length

    def take_signed_varint(self) -> int:
        """Signed integer of MySQL's serialization library: the sign is the lowest bit."""
        value = self.take_varint()
        return -(value >> 1) - 1 if value & 1 else value >> 1

    def take_text(self, length: int) -> str:
        """A name or other text in UTF-8; other bytes survive as surrogate escapes."""
        return text_of(self.take(length))

    def take_text_u8(self) -> str:
        """Text after a byte of length."""
        return self.take_text(self.take_u8())

    def take_cstr(self) -> bytes:
        """Bytes up to a NUL, which is skipped."""
        left = bytes(self.data[self.pos : self.end])
        length = left.find(b"\0")
        if length < 0:
            raise DecodeError(f"no NUL ends the text in the {len(left)} bytes left")
        self.pos += length + 1
        return left[:length]

    def check_count(self, count: int, least_len: int) -> int:
        """A count from the log, compared with the bytes left before it sizes anything."""
        if count * least_len > self.remaining:
            raise DecodeError(
                f"{count} items of at least {least_len} bytes, but {self.remaining} bytes are left"
            )
        return count


def text_of(raw: bytes) -> str:
    """UTF-8 text; other bytes survive as surrogate escapes."""
    return raw.decode("utf-8", "surrogateescape")
