"""What the values of a condition mean for a column: whole numbers, texts and patterns that a test accepts."""

from __future__ import annotations

import datetime as dt
import math
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from .._tables.column_types import Kind
from .language import Literal

if TYPE_CHECKING:
    from .._tables.tables import Column

_DAY = 86_400_000_000  # microseconds
_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)

_DATE = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})"
    r"(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6}))?)?)?"
    r"\s*(Z|[+-]\d{2}:\d{2})?",
    re.ASCII,
)
_TIME = re.compile(r"(-?)(\d{1,3}):(\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?", re.ASCII)
_NUMBER = re.compile(r"\s*[+-]?(?:\d{1,128}(?:\.\d{0,128})?|\.\d{1,128})(?:[eE][+-]?\d{1,3})?\s*", re.ASCII)

Fields = tuple[int, int, int, int, int, int, int]  # year to microsecond


@dataclass(frozen=True, slots=True)
class Span:
    """Whole numbers from `low` to `high`, both included; None: unbounded.

    Dates also have the fields of both ends, since invalid dates lie between valid ones.
    """

    low: int | None = None
    high: int | None = None
    fields_low: Fields | None = None
    fields_high: Fields | None = None

    def has_fields(self, fields: Fields) -> bool:
        low, high = self.fields_low, self.fields_high
        return (low is None or low <= fields) and (high is None or fields <= high)


@dataclass(frozen=True, slots=True)
class TextSpan:
    """Texts (or bytes) from `low` to `high`; None: unbounded."""

    low: Any = None
    high: Any = None
    open_low: bool = False
    open_high: bool = False

    def has(self, value: Any) -> bool:
        if self.low is not None and not (self.low < value if self.open_low else self.low <= value):
            return False
        return self.high is None or (value < self.high if self.open_high else value <= self.high)


@dataclass(frozen=True, slots=True)
class Pattern:
    """Texts (or bytes) that a LIKE pattern matches.

    Parameters
    ----------
    tokens : tuple of (int, str or bytes)
        0 and a character, 1 for any character, 2 for any text.
    """

    tokens: tuple[tuple[int, Any], ...]

    @property
    def regex(self) -> re.Pattern[Any]:
        return _like_regex(self.tokens)

    def has(self, value: Any) -> bool:
        return self.regex.fullmatch(value) is not None


TextTest = TextSpan | Pattern


def like_tokens(pattern: Any, escape: str) -> Iterator[tuple[int, Any]]:
    """The tokens of a `Pattern`; in bytes, each byte is a character."""
    binary = isinstance(pattern, bytes)
    characters = iter(pattern.decode("latin-1") if binary else pattern)
    for character in characters:
        kind = {"%": 2, "_": 1}.get(character, 0)
        if escape and character == escape:
            kind, character = 0, next(characters, escape)
        yield kind, character.encode("latin-1") if binary else character


@lru_cache(256)
def _like_regex(tokens: tuple[tuple[int, Any], ...]) -> re.Pattern[Any]:
    parts = [""]  # between the %
    binary = any(isinstance(character, bytes) for _, character in tokens)
    for kind, character in tokens:
        if kind == 2:
            parts.append("")
        else:
            text = character.decode("latin-1") if binary else character
            parts[-1] += "." if kind else re.escape(text)
    # A part between two % is matched where it first occurs, and not tried again further on.
    head, *middle = parts
    tail = f".*{middle.pop()}" if middle else ""
    regex = head + "".join(f"(?>.*?{part})" for part in middle if part) + tail
    return re.compile(regex.encode("latin-1") if binary else regex, re.DOTALL)


def span_of(op: str, value: Fraction) -> Span:
    floor, ceiling = math.floor(value), math.ceil(value)
    if op == "=":
        return Span(floor, floor) if floor == ceiling else _NOTHING
    if op == "<":
        return Span(None, ceiling - 1)
    if op == "<=":
        return Span(None, floor)
    return Span(floor + 1, None) if op == ">" else Span(ceiling, None)


_NOTHING = Span(1, 0, (1, 0, 0, 0, 0, 0, 0), (0, 0, 0, 0, 0, 0, 0))


def number_of(literal: Literal, column: Column) -> int | Decimal | None:
    value = literal.value
    if isinstance(value, bytes):
        integer = column.kind in (Kind.BIT, Kind.INT, Kind.SET)
        return int.from_bytes(value, "big") if integer and len(value) <= 32 else None
    if isinstance(value, str):
        return Decimal(value.strip()) if _NUMBER.fullmatch(value) else None
    return value


def float_key(value: int | Decimal) -> int:
    """The key of the nearest double: see `ordered_keys`."""
    try:
        nearest = float(value)
    except OverflowError:
        nearest = math.inf if value > 0 else -math.inf
    (bits,) = struct.unpack("<q", struct.pack("<d", nearest + 0.0))
    return -(bits & (1 << 63) - 1) if bits < 0 else int(bits)


def time_of(literal: Literal) -> int | None:
    """Microseconds of a TIME."""
    found = _TIME.fullmatch(literal.value.strip()) if isinstance(literal.value, str) else None
    if found is None:
        return None
    sign, hour, minute, second, fraction = found.groups()
    if int(minute) > 59 or int(second or 0) > 59:
        return None
    seconds = int(hour) * 3600 + int(minute) * 60 + int(second or 0)
    total = seconds * 1_000_000 + int((fraction or "").ljust(6, "0"))
    return -total if sign else total


def fields_of(literal: Literal, *, zone: bool) -> Fields | None:
    """A date, or a date and time, as fields; with a zone, in UTC. Zero and partial dates are allowed."""
    found = _DATE.fullmatch(literal.value.strip()) if isinstance(literal.value, str) else None
    if found is None or (found[8] and not zone):
        return None
    year, month, day, hour, minute, second = (int(found[i] or 0) for i in range(1, 7))
    fields = (year, month, day, hour, minute, second, int((found[7] or "").ljust(6, "0")))
    if month > 12 or day > 31 or hour > 23 or minute > 59 or second > 59:
        return None
    if found[8] and found[8] != "Z":
        try:
            moment = dt.datetime(*fields) - (
                dt.datetime.fromisoformat(f"2000-01-01T00:00{found[8]}").utcoffset() or dt.timedelta()
            )
        except (ValueError, OverflowError):
            return None
        return (*moment.timetuple()[:6], moment.microsecond)
    return fields


def moments(op: str, fields: Fields, *, days: bool) -> Span:
    """The values that compare this way with a moment; days: each value is a date, the start of its day."""
    low, high, inside = None, None, True
    at = _first_at(fields)
    exact = at is not None and _fields_at(at) == fields
    unit = _DAY if days else 1
    # Among valid dates, `at` is the first that is not before the moment.
    if at is None:
        value = Fraction(253402300800 * 1_000_000, unit)  # after the year 9999
    else:
        value = Fraction(at if exact else at * 2 - 1, unit if exact else unit * 2)
    span = span_of(op, value)
    if op == "=":
        low, high = fields, fields
    elif op in ("<", "<="):
        high, inside = fields, op == "<="
    else:
        low, inside = fields, op == ">="
    if not inside:
        if high is not None:
            high = _beside(high, -1)
        elif low is not None:
            low = _beside(low, 1)
    return Span(span.low, span.high, low, high)


def _beside(fields: Fields, step: int) -> Fields:
    """The next fields in order, whether they are a valid date or not."""
    return (*fields[:6], fields[6] + step)


def _first_at(fields: Fields) -> int | None:
    """Microseconds since 1970 of the first valid moment that is not before these fields."""
    year, month, day, hour, minute, second, microsecond = fields
    if year < 1:
        return _microseconds(dt.datetime(1, 1, 1))
    try:
        if not month or not day:
            return _microseconds(dt.datetime(year, max(month, 1), 1))
        try:
            return _microseconds(dt.datetime(year, month, day, hour, minute, second, microsecond))
        except ValueError:  # the 31st of a shorter month
            return _microseconds(dt.datetime(year + month // 12, month % 12 + 1, 1))
    except ValueError:
        return None


def _microseconds(moment: dt.datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


def _fields_at(at: int) -> Fields:
    moment = _EPOCH + at * _MICROSECOND
    return (*moment.timetuple()[:6], moment.microsecond)
