"""Dates and times, each from its stored form."""

from __future__ import annotations

import datetime as dt

from .cursor import Cursor

UTC = dt.UTC
EPOCH = dt.datetime(1970, 1, 1, tzinfo=UTC)


def _fraction_text(microsecond: int, digits: int) -> str:
    return f".{microsecond:06d}"[: digits + 1] if digits else ""


def make_date(year: int, month: int, day: int) -> dt.date | str:
    try:
        return dt.date(year, month, day)
    except ValueError:
        return f"{year:04d}-{month:02d}-{day:02d}"


def make_datetime(
    fields: tuple[int, int, int, int, int, int], microsecond: int, digits: int
) -> dt.datetime | str:
    """A datetime, or the server's text for an invalid date."""
    try:
        return dt.datetime(*fields, microsecond)
    except ValueError:
        year, month, day, hour, minute, second = fields
        whole = f"{year:04d}-{month:02d}-{day:02d} {hour:02d}:{minute:02d}:{second:02d}"
        return whole + _fraction_text(microsecond, digits)


def _take_fraction(cur: Cursor, digits: int) -> int:
    size = (digits + 1) // 2
    return cur.big(size) * int(10 ** (6 - 2 * size))


def take_date(cur: Cursor) -> dt.date | str:
    value = cur.little(3)
    return make_date(value >> 9, value >> 5 & 15, value & 31)


def take_datetime2(cur: Cursor, digits: int) -> dt.datetime | str:
    packed = cur.big(5) - (1 << 39)
    return make_datetime(_fields(packed), _take_fraction(cur, digits), digits)


def _fields(packed: int) -> tuple[int, int, int, int, int, int]:
    date, time = packed >> 17, packed & (1 << 17) - 1
    month = date >> 5
    return month // 13, month % 13, date & 31, time >> 12, time >> 6 & 63, time & 63


def take_timestamp2(cur: Cursor, digits: int) -> dt.datetime | str:
    seconds = cur.big(4)
    return _timestamp(seconds, _take_fraction(cur, digits), digits)


def _timestamp(seconds: int, microsecond: int, digits: int) -> dt.datetime | str:
    if not (seconds or microsecond):
        return "0000-00-00 00:00:00" + _fraction_text(0, digits)
    return EPOCH + dt.timedelta(seconds=seconds, microseconds=microsecond)


def take_time2(cur: Cursor, digits: int) -> dt.timedelta:
    if digits > 4:
        packed = cur.big(6) - (1 << 47)
    else:
        whole = cur.big(3) - (1 << 23)
        size = (digits + 1) // 2
        fraction = cur.big(size)
        if whole < 0 and fraction:
            # Stored rounded down, with a fraction that counts backwards.
            whole += 1
            fraction -= 1 << 8 * size
        packed = (whole << 24) + fraction * 10 ** (6 - 2 * size)
    return _duration(packed)


def _duration(packed: int) -> dt.timedelta:
    sign, packed = (-1 if packed < 0 else 1), abs(packed)
    whole = packed >> 24
    seconds = (whole >> 12 & 1023) * 3600 + (whole >> 6 & 63) * 60 + (whole & 63)
    return sign * dt.timedelta(seconds=seconds, microseconds=packed & (1 << 24) - 1)


def take_timestamp(cur: Cursor) -> dt.datetime | str:
    return _timestamp(cur.little(4), 0, 0)


def take_datetime(cur: Cursor) -> dt.datetime | str:
    """Type 12: the number YYYYMMDDhhmmss."""
    date, time = divmod(cur.little(8), 1_000_000)
    fields = (date // 10000, date // 100 % 100, date % 100, time // 10000, time // 100 % 100, time % 100)
    return make_datetime(fields, 0, 0)


def take_time(cur: Cursor) -> dt.timedelta:
    """Type 11: the number ±HHHMMSS."""
    number = cur.little(3, signed=True)
    sign, number = (-1 if number < 0 else 1), abs(number)
    return sign * dt.timedelta(hours=number // 10000, minutes=number // 100 % 100, seconds=number % 100)


def take_old_fraction(cur: Cursor, kind: int, digits: int) -> dt.datetime | dt.timedelta | str:
    """MariaDB's own layouts of types 7, 11 and 12 with 1 to 6 digits, a number that is not in the log."""
    unit = 10 ** (6 - digits)
    if kind == 7:
        seconds = cur.big(4)
        return _timestamp(seconds, cur.big((digits + 1) // 2) * unit, digits)
    if kind == 11:
        ticks = cur.big((4, 4, 5, 5, 5, 6)[digits - 1]) - 3020400 * 10**digits
        return dt.timedelta(microseconds=ticks * unit)
    value = cur.big((6, 6, 7, 7, 7, 8)[digits - 1]) * unit
    parts = []
    for base in (1_000_000, 60, 60, 24, 32, 13):
        value, part = divmod(value, base)
        parts.append(part)
    microsecond, second, minute, hour, day, month = parts
    return make_datetime((value, month, day, hour, minute, second), microsecond, digits)


def packed_to_text(packed: int, date_only: bool) -> str:
    """A date or datetime inside JSON, always with six digits."""
    year, month, day, hour, minute, second = _fields(packed >> 24)
    date = f"{year:04d}-{month:02d}-{day:02d}"
    return date if date_only else f"{date} {hour:02d}:{minute:02d}:{second:02d}.{packed & (1 << 24) - 1:06d}"


def packed_time_to_text(packed: int) -> str:
    sign, packed = ("-" if packed < 0 else ""), abs(packed)
    whole = packed >> 24
    return (
        f"{sign}{whole >> 12 & 1023:02d}:{whole >> 6 & 63:02d}:{whole & 63:02d}.{packed & (1 << 24) - 1:06d}"
    )
