"""Times as event headers and servers have them, by hand."""

from __future__ import annotations

import datetime as dt

import pytest

from binlog_core._base.times import epoch_seconds, time_text

DAY = dt.datetime(2024, 2, 29, 12, 0, 1)  # 1709208001: `date -u -d '2024-02-29 12:00:01' +%s`


@pytest.mark.parametrize(
    "moment, seconds",
    [
        (DAY, 1709208001),
        (DAY.replace(microsecond=999_999), 1709208001),
        (DAY.replace(tzinfo=dt.timezone(dt.timedelta(hours=2))), 1709208001 - 7200),
        (dt.datetime(1969, 12, 31), 0),
    ],
)
def test_epoch_seconds(moment: dt.datetime, seconds: int) -> None:
    assert epoch_seconds(moment) == seconds


@pytest.mark.parametrize(
    "value, text",
    [
        (dt.timedelta(), "00:00:00"),
        (dt.timedelta(hours=838, minutes=59, seconds=59), "838:59:59"),
        (-dt.timedelta(hours=838, minutes=59, seconds=59), "-838:59:59"),
        (-dt.timedelta(microseconds=1), "-00:00:00.000001"),
    ],
)
def test_time_text(value: dt.timedelta, text: str) -> None:
    assert time_text(value) == text
