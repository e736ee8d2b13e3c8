"""Values of each column type, from the row image to Python."""

from __future__ import annotations

import decimal
import struct
import zlib
from typing import Any

from . import temporal
from .charsets import BINARY, decode_text
from .cursor import Cursor, Malformed
from .jsonb import document_text
from .tablemap import Column

INTEGER_BYTES = {1: 1, 2: 2, 3: 4, 8: 8, 9: 3}
DECIMAL_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
EXACT = decimal.Context(prec=200)


def take_value(cur: Cursor, column: Column) -> Any:
    """One non-NULL value. JSON comes as its bytes: those of a partial update are not a document."""
    kind, meta = column.type, column.metadata
    if kind in INTEGER_BYTES:
        return cur.little(INTEGER_BYTES[kind], signed=not column.unsigned)
    if column.old_digits:
        return temporal.take_old_fraction(cur, kind, column.old_digits)
    match kind:
        case 4:
            return struct.unpack("<f", cur.take(4))[0]
        case 5:
            return struct.unpack("<d", cur.take(8))[0]
        case 6:
            return None
        case 7:
            return temporal.take_timestamp(cur)
        case 10 | 14:
            return temporal.take_date(cur)
        case 11:
            return temporal.take_time(cur)
        case 12:
            return temporal.take_datetime(cur)
        case 13:
            year = cur.little(1)
            return year and 1900 + year
        case 16:
            return cur.big((meta[1] * 8 + meta[0] + 7) // 8)
        case 17:
            return temporal.take_timestamp2(cur, meta[0])
        case 18:
            return temporal.take_datetime2(cur, meta[0])
        case 19:
            return temporal.take_time2(cur, meta[0])
        case 246:
            return decode_decimal(cur, meta[0], meta[1])
        case 247:
            return _enum(cur.little(column.length), column)
        case 248:
            return _set(cur.little(column.length), column)
        case 15 | 253 | 141:
            raw = cur.take(cur.little(1 if int.from_bytes(meta, "little") < 256 else 2))
        case 254:
            raw = cur.take(cur.little(1 if column.length < 256 else 2))
            if column.collation == BINARY:
                return raw.ljust(column.length, b"\0")
        case 249 | 250 | 251 | 252 | 140 | 242 | 245 | 255:
            raw = cur.take(cur.little(meta[0]))
        case _:
            raise Malformed(f"column type {kind}")
    if kind in (140, 141):
        raw = inflate_column(raw)
    if kind in (245, 255):
        return raw
    if kind == 242:
        return list(struct.unpack(f"<{len(raw) // 4}f", raw))
    return decode_text(raw, column.collation)


def decode_decimal(cur: Cursor, precision: int, scale: int) -> decimal.Decimal:
    """Groups of nine digits, big-endian, outward from the point; the first bit is the inverted sign."""
    whole = precision - scale
    groups = [whole % 9] + [9] * (whole // 9) + [9] * (scale // 9) + [scale % 9]
    raw = bytearray(cur.take(sum(DECIMAL_BYTES[g] for g in groups)))
    if not raw:
        raise Malformed(f"DECIMAL({precision},{scale})")
    negative = raw[0] < 128
    if negative:
        raw = bytearray(b ^ 0xFF for b in raw)
    raw[0] ^= 0x80
    parts = Cursor(bytes(raw))
    digits = "".join(str(parts.big(DECIMAL_BYTES[g])).rjust(g, "0") if g else "" for g in groups)
    value = decimal.Decimal(int(digits)).scaleb(-scale, EXACT)
    return value.copy_negate() if negative and value else value


def inflate_column(raw: bytes) -> bytes:
    """MariaDB's COMPRESSED attribute: a header byte, then plain bytes or a zlib stream."""
    if not raw:
        return raw
    cur = Cursor(raw)
    head = cur.little(1)
    if head >> 4 == 0:
        return cur.rest()
    if head >> 4 != 8:
        raise Malformed(f"compressed column of method {head >> 4}")
    length = cur.big(head & 7)
    plain = zlib.decompress(cur.rest(), wbits=-15 if head & 8 else 15)
    if len(plain) != length:
        raise Malformed(f"compressed column of {length} bytes has {len(plain)}")
    return plain


def _enum(index: int, column: Column) -> str | int:
    if column.members is None:
        return index
    if index > len(column.members):
        return index
    return column.members[index - 1] if index else ""


def _set(mask: int, column: Column) -> list[str] | int:
    if column.members is None or mask >> len(column.members):
        return mask
    return [name for i, name in enumerate(column.members) if mask >> i & 1]


def finish(value: Any, column: Column) -> Any:
    """JSON bytes to the server's text."""
    return document_text(value) if column.type == 245 and isinstance(value, bytes) else value
