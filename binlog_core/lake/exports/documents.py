"""From the text of a JSON document, as a server prints it, to the binary form in logs."""

from __future__ import annotations

import json
import struct
from decimal import Decimal
from typing import Any, NoReturn

_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY, _LITERAL = range(5)
_INT64, _UINT64, _DOUBLE, _STRING, _OPAQUE = 9, 10, 11, 12, 15
_LITERALS: dict[bool | None, int] = {None: 0, True: 1, False: 2}
_DECIMAL = 246
_GROUP = 9  # digits of a DECIMAL that are stored together
_GROUP_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)  # for so many digits


class _TooLong(Exception):
    """The offsets of a small object or array have 16 bits."""


def document_bytes(text: str) -> bytes:
    """The document that a server prints as this text.

    Numbers with a point and without an exponent are DECIMAL, since only these are printed with all their
    digits.

    Raises
    ------
    ValueError
        The text is not one that a server prints.
    """
    try:
        kind, body = _value(json.loads(text, parse_float=_number, parse_constant=_refuse))
    except RecursionError:
        raise ValueError("more levels than a server allows") from None
    return bytes((kind,)) + body


def _number(token: str) -> float | Decimal:
    return float(token) if "e" in token or "E" in token or token.startswith("-0.0") else Decimal(token)


def _refuse(token: str) -> NoReturn:
    raise ValueError(f"{token} is not JSON")


def _value(value: Any) -> tuple[int, bytes]:
    if value is None or isinstance(value, bool):
        return _LITERAL, bytes((_LITERALS[value],))
    if isinstance(value, int):
        if -(1 << 63) <= value < 1 << 63:
            return _INT64, struct.pack("<q", value)
        if value < 1 << 64 and value > 0:
            return _UINT64, struct.pack("<Q", value)
        value = Decimal(value)
    if isinstance(value, float):
        return _DOUBLE, struct.pack("<d", value)
    if isinstance(value, Decimal):
        data = _decimal(value)
        return _OPAQUE, bytes((_DECIMAL,)) + _length(len(data)) + data
    if isinstance(value, str):
        data = value.encode()
        return _STRING, _length(len(data)) + data
    is_object = isinstance(value, dict)
    keys = [key.encode() for key in value] if is_object else []
    if any(len(key) > 0xFFFF for key in keys):
        raise ValueError("a key has more than 65535 bytes")
    items = [_value(one) for one in (value.values() if is_object else value)]
    try:
        return (_SMALL_OBJECT if is_object else _SMALL_ARRAY), _container(keys, items, "<H")
    except _TooLong:
        return (_LARGE_OBJECT if is_object else _LARGE_ARRAY), _container(keys, items, "<I")


def _length(size: int) -> bytes:
    found = bytearray()
    while size > 127:
        found.append(size & 127 | 128)
        size >>= 7
    return bytes((*found, size))


def _decimal(value: Decimal) -> bytes:
    """Precision, scale, then the digits in groups of nine from the point on, as in a DECIMAL column."""
    sign, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    text = "".join(map(str, digits)).rjust(scale, "0")
    whole, fraction = text[: len(text) - scale].lstrip("0"), text[len(text) - scale :]
    if len(whole) + scale > 81:
        raise ValueError(f"{value} has too many digits")
    first = len(whole) % _GROUP
    groups = [whole[:first], *(whole[i : i + _GROUP] for i in range(first, len(whole), _GROUP))]
    groups += [fraction[i : i + _GROUP] for i in range(0, scale, _GROUP)]
    stored = bytearray().join(int(one).to_bytes(_GROUP_BYTES[len(one)], "big") for one in groups if one)
    stored = stored or bytearray(1)
    stored[0] ^= 0x80
    if sign:
        stored = bytearray(byte ^ 0xFF for byte in stored)
    return bytes((max(len(whole) + scale, 1), scale)) + bytes(stored)


def _container(keys: list[bytes], items: list[tuple[int, bytes]], size: str) -> bytes:
    """Count, size, entries of keys and of values, keys, values; offsets are from the count on."""
    width = struct.calcsize(size)
    most = (1 << 8 * width) - 1
    at = 2 * width + len(keys) * (width + 2) + len(items) * (1 + width)
    entries, tail = bytearray(), bytearray()
    for key in keys:
        if at > most:
            raise _TooLong
        entries += struct.pack(size, at) + struct.pack("<H", len(key))
        at += len(key)
    for kind, body in items:
        if kind == _LITERAL:
            entries += bytes((kind,)) + body.ljust(width, b"\0")
            continue
        if at > most:
            raise _TooLong
        entries += bytes((kind,)) + struct.pack(size, at)
        tail += body
        at += len(body)
    if at > most or len(items) > most:
        raise _TooLong
    return (
        struct.pack(size, len(items)) + struct.pack(size, at) + bytes(entries) + b"".join(keys) + bytes(tail)
    )
