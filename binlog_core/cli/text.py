"""Values of rows as JSON and CSV; the same texts in both."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from .._json_text import JsonText
from ..replay import time_text

_encode = JsonText(default=lambda value: plain(value)).encode


def json_line(record: dict[str, Any]) -> bytes:
    """One object on one line; what JSON has no type for as `plain` has it."""
    return _encode(record) + b"\n"


def csv_line(values: Iterable[Any]) -> bytes:
    """One line of CSV: NULL is nothing, the empty text is two quotes."""
    return ",".join(map(csv_field, values)).encode("utf-8", "backslashreplace") + b"\n"


def csv_field(value: Any) -> str:
    """One field of CSV; lists and JSON-like values as JSON."""
    if value is None:
        return ""
    value = plain(value)
    if isinstance(value, dict):  # bytes
        value = value["hex"]
    if isinstance(value, float):
        return _encode(value).decode().strip('"')
    text = value if isinstance(value, str) else _encode(value).decode()
    if text and not any(c in text for c in ',"\r\n') and text == text.strip():
        return text
    return '"' + text.replace('"', '""') + '"'


def plain(value: Any) -> Any:
    """A value of a row in types that JSON has.

    DECIMAL as text with all its digits, dates and times as MySQL prints them (UTC with its offset), bytes as
    ``{"hex": …}``.
    """
    match value:
        case Decimal():
            return format(value, "f")
        case dt.datetime():
            return value.isoformat(" ")
        case dt.date():
            return value.isoformat()
        case dt.timedelta():
            return time_text(value)
        case bytes() | bytearray() | memoryview():
            return {"hex": value.hex()}
    return value
