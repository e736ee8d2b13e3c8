"""JSON that every reader accepts: valid UTF-8, without NaN."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from .times import time_text


class JsonText:
    """Makes JSON of Python values.

    A number that JSON does not have becomes a string, "NaN", "Infinity" or "-Infinity". A byte of a name that
    is not text in its character set becomes an escape such as ``\\udcff`` (half a surrogate pair, U+DC00 +
    byte).

    Parameters
    ----------
    default : callable
        Converts types that JSON does not have.
    separators : (str, str) or None
        As json.dumps takes them.
    """

    def __init__(
        self, default: Callable[[Any], Any] | None = None, separators: tuple[str, str] | None = None
    ) -> None:
        self._encode = json.JSONEncoder(
            ensure_ascii=False,
            allow_nan=False,
            check_circular=False,
            default=default,
            separators=separators,
        ).encode

    def encode(self, value: Any) -> bytes:
        """The value as JSON, UTF-8."""
        try:
            text = self._encode(value)
        except ValueError:  # numbers that are not finite
            text = self._encode(_finite(value))
        return text.encode("utf-8", "backslashreplace")  # inside a JSON string these are its escapes


def _finite(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case dict():
            return {key: _finite(one) for key, one in value.items()}
        case list() | tuple():
            return [_finite(one) for one in value]
    return value


def plain(value: Any) -> Any:
    """A value of a row in types that JSON has.

    DECIMAL is text with all its digits, dates and times are as MySQL prints them (UTC with its offset), bytes
    are ``{"hex": …}``.
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


encode_plain = JsonText(default=plain).encode
