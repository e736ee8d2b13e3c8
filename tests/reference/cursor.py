"""Reading from bytes, one field after the other."""

from __future__ import annotations


class Malformed(Exception):
    """The bytes cannot be a binary log."""


class Cursor:
    """A position in bytes; every method takes from it and moves on."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    @property
    def left(self) -> int:
        return len(self.data) - self.at

    def take(self, count: int) -> bytes:
        if not 0 <= count <= self.left:
            raise Malformed(f"{count} bytes wanted, {self.left} left")
        self.at += count
        return self.data[self.at - count : self.at]

    def rest(self) -> bytes:
        return self.take(self.left)

    def little(self, size: int, signed: bool = False) -> int:
        return int.from_bytes(self.take(size), "little", signed=signed)

    def big(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def lenenc(self) -> int:
        first = self.little(1)
        if first < 251:
            return first
        if first in (251, 255):
            raise Malformed(f"packed integer begins with {first}")
        return self.little({252: 2, 253: 3, 254: 8}[first])

    def lenenc_bytes(self) -> bytes:
        return self.take(self.lenenc())

    def bits(self, count: int, msb_first: bool = False) -> list[bool]:
        raw = self.take((count + 7) // 8)
        order = range(7, -1, -1) if msb_first else range(8)
        return [bool(byte >> i & 1) for byte in raw for i in order][:count]

    def varint(self) -> int:
        """MySQL's serialization library: as many bytes as the first has trailing ones, and one more."""
        first = self.little(1)
        size = 1
        while size < 9 and first >> size - 1 & 1:
            size += 1
        raw = bytes((first,)) + self.take(size - 1)
        if size == 9:
            return int.from_bytes(raw[1:], "little")
        return int.from_bytes(raw, "little") >> size

    def signed_varint(self) -> int:
        value = self.varint()
        return -(value >> 1) - 1 if value & 1 else value >> 1
