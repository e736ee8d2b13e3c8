"""Dates and times in MySQL's storage forms, from Python values or, for invalid dates, from text."""

from __future__ import annotations

import datetime as dt
import re
from typing import NamedTuple

_TEXT = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?: (\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?$")
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
MICROSECOND = dt.timedelta(microseconds=1)


class Fields(NamedTuple):
    year: int
    month: int
    day: int
    hour: int = 0
    minute: int = 0
    second: int = 0
    microsecond: int = 0


def fields_of(value: dt.date | str) -> Fields:
    """The fields of a date, a datetime, or a text such as ``2023-05-00 00:00:00.5``."""
    if isinstance(value, str):
        found = _TEXT.match(value)
        assert found, value
        year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
        return Fields(year, month, day, hour, minute, second, int((found[7] or "").ljust(6, "0")))
    if isinstance(value, dt.datetime):
        return Fields(
            value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond
        )
    return Fields(value.year, value.month, value.day)


def _fraction(microsecond: int, fsp: int) -> bytes:
    """The fraction's bytes: hundredths, ten-thousandths or microseconds; two's complement if negative."""
    size = (fsp + 1) // 2
    if not size:
        return b""
    unit = int(10 ** (6 - 2 * size))
    assert microsecond % unit == 0, f"{microsecond} µs have more than {fsp} digits"
    whole = abs(microsecond) // unit
    return (-whole if microsecond < 0 else whole).to_bytes(size, "big", signed=microsecond < 0)


def packed_datetime(value: dt.date | str) -> int:
    """year*13+month, day, hour, minute, second above 24 fraction bits."""
    f = fields_of(value)
    ymd = (f.year * 13 + f.month) << 5 | f.day
    return (ymd << 17 | f.hour << 12 | f.minute << 6 | f.second) << 24 | f.microsecond


def packed_time(value: dt.timedelta) -> int:
    """Hour, minute, second above 24 fraction bits, negative as a whole."""
    total = value // MICROSECOND
    seconds, microsecond = divmod(abs(total), 1_000_000)
    packed = (seconds // 3600 << 12 | seconds // 60 % 60 << 6 | seconds % 60) << 24 | microsecond
    return -packed if total < 0 else packed


def encode_date(value: dt.date | str) -> bytes:
    f = fields_of(value)
    return (f.year << 9 | f.month << 5 | f.day).to_bytes(3, "little")


def encode_datetime2(value: dt.datetime | str, fsp: int) -> bytes:
    packed = packed_datetime(value)
    return ((packed >> 24) + (1 << 39)).to_bytes(5, "big") + _fraction(packed & 0xFFFFFF, fsp)


def encode_time2(value: dt.timedelta, fsp: int) -> bytes:
    packed = packed_time(value)
    if fsp > 4:
        return (packed + (1 << 47)).to_bytes(6, "big")
    # The integer part is rounded down and the fraction keeps its own sign: that is how the server stores it.
    fraction = abs(packed) & 0xFFFFFF
    return ((packed >> 24) + (1 << 23)).to_bytes(3, "big") + _fraction(
        -fraction if packed < 0 else fraction, fsp
    )


def _epoch(value: dt.datetime | str) -> tuple[int, int]:
    if isinstance(value, str):
        assert fields_of(value)[:6] == (0,) * 6, f"a TIMESTAMP is a time or zero, not {value}"
        return 0, 0
    return divmod((value - EPOCH) // MICROSECOND, 1_000_000)


def encode_timestamp2(value: dt.datetime | str, fsp: int) -> bytes:
    seconds, microsecond = _epoch(value)
    return seconds.to_bytes(4, "big") + _fraction(microsecond, fsp)


def encode_timestamp(value: dt.datetime | str) -> bytes:
    """Type 7, before 5.6."""
    return _epoch(value)[0].to_bytes(4, "little")


def encode_datetime(value: dt.datetime | str) -> bytes:
    """Type 12, before 5.6: the decimal number YYYYMMDDhhmmss."""
    f = fields_of(value)
    number = 0
    for part, unit in zip(f[:6], (1, 100, 100, 100, 100, 100), strict=True):
        number = number * unit + part
    return number.to_bytes(8, "little")


def encode_time(value: dt.timedelta) -> bytes:
    """Type 11, before 5.6: the decimal number ±HHHMMSS."""
    total = value // MICROSECOND
    seconds = abs(total) // 1_000_000
    number = seconds // 3600 * 10000 + seconds // 60 % 60 * 100 + seconds % 60
    return (-number if total < 0 else number).to_bytes(3, "little", signed=True)
