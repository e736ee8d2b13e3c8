"""Times as logs and servers have them."""

from __future__ import annotations

import datetime as dt


def as_utc(moment: dt.datetime) -> dt.datetime:
    """A moment with its time zone; naive datetimes are UTC."""
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)


def epoch_seconds(moment: dt.datetime) -> int:
    """Seconds since 1970 UTC, as in event headers: 0 or more; naive datetimes are UTC."""
    return max(0, int(as_utc(moment).timestamp()))


def time_text(value: dt.timedelta) -> str:
    """TIME as the server prints it: ``-838:59:59``; a fraction only where there is one."""
    sign = "-" if value < dt.timedelta(0) else ""
    whole = abs(value)
    seconds = whole.days * 86400 + whole.seconds
    text = f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{whole.microseconds:06}" if whole.microseconds else text
