"""Lengths of time as people give them."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from binlog_core._base.durations import seconds_of


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ("30d", 2_592_000),
        ("1.5 h", 5400),
        ("0s", 0),
        (7, 7),
        (dt.timedelta(minutes=2), 120),
        ("2w", 1_209_600),
    ],
)
def test_seconds(given: Any, seconds: float) -> None:
    assert seconds_of(given, "keep") == seconds


@pytest.mark.parametrize("given", ["30", "d", "-1d", -1, dt.timedelta(-1)])
def test_what_is_not_a_length_of_time(given: Any) -> None:
    with pytest.raises(ValueError, match=r"keep=.*: expected (a number and s, m, h, d or w|0 or more)"):
        seconds_of(given, "keep")
