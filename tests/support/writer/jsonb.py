"""Python values to MySQL's binary JSON."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import struct
from typing import Any

from .temporal import packed_datetime, packed_time

SMALL_OBJECT, LARGE_OBJECT, SMALL_ARRAY, LARGE_ARRAY, LITERAL = 0, 1, 2, 3, 4
INT16, UINT16, INT32, UINT32, INT64, UINT64, DOUBLE, STRING, OPAQUE = 5, 6, 7, 8, 9, 10, 11, 12, 15
_LITERALS = {None: 0, True: 1, False: 2}
_INTEGERS = {INT16: "<h", UINT16: "<H", INT32: "<i", UINT32: "<I", INT64: "<q", UINT64: "<Q"}


class Unsigned(int):
    """An integer to be written in an unsigned type."""


class _TooLarge(Exception):
    """A small container needs offsets above 64 KiB."""


def encode_json(value: Any) -> bytes:
    """A whole document: the type byte and the value.

    None, bool, int (``Unsigned`` picks the unsigned types), float, str, list, dict, Decimal, date, datetime,
    timedelta; bytes become an opaque BLOB.
    """
    kind, body = _encode(value)
    return bytes((kind,)) + body


def base64_text(data: bytes, type_code: int = 252) -> str:
    """How the server prints opaque bytes."""
    text = base64.b64encode(data).decode()
    lines = [text[at : at + 76] for at in range(0, len(text), 76)]
    return f"base64:type{type_code}:" + "\n".join(lines)


def _length(size: int) -> bytes:
    out = bytearray()
    while size >= 128:
        out.append(size & 127 | 128)
        size >>= 7
    return bytes(out) + bytes((size,))


def _opaque(type_code: int, data: bytes) -> tuple[int, bytes]:
    return OPAQUE, bytes((type_code,)) + _length(len(data)) + data


def _encode(value: Any) -> tuple[int, bytes]:
    if value is None or isinstance(value, bool):
        return LITERAL, bytes((_LITERALS[value],))
    if isinstance(value, int):
        kind = _integer_type(value)
        return kind, struct.pack(_INTEGERS[kind], value)
    if isinstance(value, float):
        return DOUBLE, struct.pack("<d", value)
    if isinstance(value, str):
        raw = value.encode()
        return STRING, _length(len(raw)) + raw
    if isinstance(value, decimal.Decimal):
        from .types import encode_decimal

        _, digits, exponent = value.as_tuple()
        scale = max(0, -int(exponent))
        precision = max(len(digits), scale)
        return _opaque(246, bytes((precision, scale)) + encode_decimal(value, precision, scale))
    if isinstance(value, dt.datetime):
        return _opaque(12, struct.pack("<q", packed_datetime(value)))
    if isinstance(value, dt.date):
        return _opaque(10, struct.pack("<q", packed_datetime(value)))
    if isinstance(value, dt.timedelta):
        return _opaque(11, struct.pack("<q", packed_time(value)))
    if isinstance(value, bytes):
        return _opaque(252, value)
    is_object = isinstance(value, dict)
    try:
        return (SMALL_OBJECT if is_object else SMALL_ARRAY), _container(value, "H")
    except _TooLarge:
        return (LARGE_OBJECT if is_object else LARGE_ARRAY), _container(value, "I")


def _integer_type(value: int) -> int:
    unsigned = isinstance(value, Unsigned) or value >= 1 << 63
    for kind, bits in ((INT16, 16), (INT32, 32), (INT64, 64)):
        if unsigned and value < 1 << bits:
            return kind + 1
        if not unsigned and -(1 << bits - 1) <= value < 1 << bits - 1:
            return kind
    raise ValueError(f"{value} has more than 64 bits")


def _container(value: dict[str, Any] | list[Any], size: str) -> bytes:
    """Count, size, key entries, value entries, keys, values; offsets count from the first byte of count."""
    width = struct.calcsize("<" + size)

    def number(n: int) -> bytes:
        if n >= 1 << 8 * width:
            raise _TooLarge
        return struct.pack("<" + size, n)

    keys: list[bytes] = []
    if isinstance(value, dict):
        members = sorted(((k.encode(), v) for k, v in value.items()), key=lambda kv: (len(kv[0]), kv[0]))
        keys = [k for k, _ in members]
        items = [v for _, v in members]
    else:
        items = list(value)
    at = 2 * width + len(keys) * (width + 2) + len(items) * (1 + width)
    head = number(len(items))
    entries = b""
    for key in keys:
        entries += number(at) + struct.pack("<H", len(key))
        at += len(key)
    inline = {LITERAL, INT16, UINT16} | ({INT32, UINT32} if width == 4 else set())
    tail = b""
    for item in items:
        kind, body = _encode(item)
        if kind in inline:
            fill = b"\xff" if isinstance(item, int) and not isinstance(item, bool) and item < 0 else b"\0"
            entries += bytes((kind,)) + body + fill * (width - len(body))
        else:
            entries += bytes((kind,)) + number(at)
            tail += body
            at += len(body)
    return head + number(at) + entries + b"".join(keys) + tail
