"""Durations such as ``30d``."""

from __future__ import annotations

import datetime as dt
import re

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def seconds_of(given: str | float | dt.timedelta, name: str) -> float:
    """The seconds in ``30d``, a number of seconds, or a timedelta.

    Parameters
    ----------
    given : str, float or timedelta
        The duration.
    name : str
        The argument's name, for the error.

    Raises
    ------
    ValueError
        `given` is not a duration, or is below 0.
    """
    if isinstance(given, dt.timedelta):
        given = given.total_seconds()
    elif isinstance(given, str):
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw])", given.strip())
        if found is None:
            raise ValueError(f"{name}={given!r}: expected a number and s, m, h, d or w, such as 30d")
        given = float(found[1]) * _UNITS[found[2]]
    if given < 0:
        raise ValueError(f"{name}={given!r}: expected 0 or more")
    return float(given)
