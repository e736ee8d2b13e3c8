"""Times in ISO 8601, in the formats of the vendors' tools, and such as "1 hour ago"."""

from __future__ import annotations

import datetime as dt
import re
from zoneinfo import ZoneInfo

import typer

_UNITS = {"s": 1, "sec": 1, "second": 1, "min": 60, "minute": 60, "h": 3600, "hour": 3600}
_UNITS |= {"d": 86400, "day": 86400, "w": 604_800, "week": 604_800}
_AGO = re.compile(r"(?P<count>\d+|an?)\s*(?P<unit>[a-z]+?)s?\s+ago")
_DIGITS = {14: "%Y%m%d%H%M%S", 12: "%y%m%d%H%M%S", 8: "%Y%m%d", 6: "%y%m%d"}
_PARTS = re.compile(
    r"(\d{4}|\d\d)[-/.:](\d{1,2})[-/.:](\d{1,2})(?:[T ]+(\d{1,2}):(\d{1,2})(?::(\d{1,2}))?(?:\.(\d{1,6}))?)?"
)
_LOGGED = re.compile(r"#?(\d\d)(\d\d)(\d\d) (\d{1,2}:\d\d:\d\d)")
_DAYS = {"today": 0, "yesterday": 1}


def zone_of(name: str | None) -> dt.tzinfo:
    """A time zone by its name; None: UTC.

    Raises
    ------
    typer.BadParameter
        The zone is not known.
    """
    if name is None or name.upper() == "UTC":
        return dt.UTC
    if name.lower() == "local":
        return dt.datetime.now().astimezone().tzinfo or dt.UTC
    if offset := re.fullmatch(r"([+-])(\d\d):?(\d\d)", name):
        minutes = int(offset[2]) * 60 + int(offset[3])
        if minutes < 24 * 60:
            return dt.timezone(dt.timedelta(minutes=-minutes if offset[1] == "-" else minutes))
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise typer.BadParameter(
            f"--tz {name!r} is not a time zone: expected Europe/Berlin, +02:00, local or UTC"
        ) from None


def parse_time(text: str, zone: dt.tzinfo = dt.UTC, *, now: dt.datetime | None = None) -> dt.datetime | None:
    """A time; None if the text is not one.

    Parameters
    ----------
    text : str
        ISO 8601; ``2026-11-21 8:05``, ``26/11/21 08:05:00``, ``20261121080500``, ``261121`` and
        ``261121  8:05:00`` as the vendors' tools take and print them; ``1 hour ago``, ``now``, ``today``,
        ``yesterday 08:00``.
    zone : tzinfo
        Zone of a time without one.
    now : datetime, optional
        For relative times.
    """
    text = " ".join(text.lower().split())
    now = (now or dt.datetime.now(dt.UTC)).astimezone(zone)
    if text == "now":
        return now
    if (found := _AGO.fullmatch(text)) and found["unit"] in _UNITS:
        count = 1 if found["count"].startswith("a") else int(found["count"])
        try:
            return now - dt.timedelta(seconds=count * _UNITS[found["unit"]])
        except OverflowError:
            return None
    day, _, rest = text.partition(" ")
    if day in _DAYS:
        date = (now - dt.timedelta(days=_DAYS[day])).date()
        text = f"{date.isoformat()} {rest}".strip()
    try:
        moment = _absolute(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=zone)


def _absolute(text: str) -> dt.datetime:
    if text.isdecimal() and len(text) in _DIGITS:
        return dt.datetime.strptime(text, _DIGITS[len(text)])
    if found := _LOGGED.fullmatch(text):  # as mysqlbinlog prints it: #261121  8:05:00
        text = f"{found[1]}-{found[2]}-{found[3]} {found[4]}"
    if found := _PARTS.fullmatch(text.replace("t", " ")):
        year, month, day, hour, minute, second, fraction = (part or "0" for part in found.groups())
        number = int(year)
        if len(year) == 2:
            number += 2000 if number < 70 else 1900
        microsecond = int(fraction.ljust(6, "0"))
        return dt.datetime(number, int(month), int(day), int(hour), int(minute), int(second), microsecond)
    return dt.datetime.fromisoformat(text.upper().replace("/", "-"))
