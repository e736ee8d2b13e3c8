"""Values of SELECT and decoded ones, in forms that can be compared."""

from __future__ import annotations

import json
import socket
import struct
from decimal import Decimal
from typing import Any
from uuid import UUID

Row = dict[str, Any]
TEMPORAL = ("date", "time", "datetime", "timestamp")
# Types of a fixed number of bytes that Python makes from their texts.
FIXED = {
    "uuid": lambda text: UUID(text).bytes,
    "inet4": lambda text: socket.inet_pton(socket.AF_INET, text),
    "inet6": lambda text: socket.inet_pton(socket.AF_INET6, text),
}


def known(value: Any, kind: str) -> Any:
    """A value of SELECT, in the form that `ours` gives decoded values."""
    if value is None:
        return None
    if kind == "bytes":
        return (value.encode() if isinstance(value, str) else bytes(value)).rstrip(b"\0")
    if kind in FIXED:
        return FIXED[kind](value)
    if kind == "bit":
        return int.from_bytes(value, "big")
    if kind == "set":
        return sorted(value.split(",")) if value else []
    if kind == "json":
        return json.dumps(json.loads(value), sort_keys=True)
    if kind == "vector":
        raw = bytes.fromhex(value) if isinstance(value, str) else value
        return list(struct.unpack(f"<{len(raw) // 4}f", raw))
    if kind in TEMPORAL:
        return value.decode() if isinstance(value, bytes) else value
    return value


def ours(value: Any, kind: str) -> Any:
    """A decoded value, to be compared."""
    if value is None:
        return None
    if kind == "bytes":
        return bytes(value).rstrip(b"\0")
    if kind in FIXED:
        return bytes(value)
    if kind in ("int", "bit"):
        return int(value)
    if kind == "decimal":
        return Decimal(value)
    if kind == "set":
        return sorted(value)
    if kind == "json":
        return json.dumps(json.loads(value), sort_keys=True)
    if kind == "vector":
        if isinstance(value, bytes):  # MariaDB logs a VARBINARY
            return known(value, kind)
        return [float(one) for one in value]
    if kind == "geometry":
        if isinstance(value, dict):
            return struct.pack("<I", value["srid"] or 0) + value["wkb"]
        if not isinstance(value, bytes):
            return struct.pack("<I", value.srid) + bytes(value.wkb)
    if kind in TEMPORAL:
        return text_of(value, kind)
    return value


def text_of(value: Any, kind: str) -> str:
    """A date or time with as many digits as it needs; other values unchanged."""
    from support.truth import datetime_text, time_text

    if isinstance(value, str):
        return value
    return value.isoformat() if kind == "date" else (time_text if kind == "time" else datetime_text)(value, 6)


def shown(row: Row) -> str:
    """A row, to be compared: fractions of seconds without trailing zeros."""
    return repr(sorted((name, trimmed(value)) for name, value in row.items()))


def trimmed(value: Any) -> Any:
    return (
        value.rstrip("0").rstrip(".")
        if (isinstance(value, str) and value[-7:-6] == ".") or _fraction(value)
        else value
    )


def _fraction(value: Any) -> bool:
    return isinstance(value, str) and ":" in value and "." in value[-7:] and value[-1].isdigit()
