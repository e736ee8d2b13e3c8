"""The axes of charts, by hand."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest

from binlog_core.inspect.report_page.charts import TimelineChart, short
from binlog_core.inspect.summary import Activity

NOON = int(dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC).timestamp())


def test_time_is_cut_into_bars_that_begin_at_round_moments() -> None:
    activity = Activity()
    activity.add("a.b", "insert", np.array([NOON + 7, NOON + 7, NOON + 9], np.uint32))
    activity.add("a.c", "delete", np.array([NOON + 606], np.uint32))
    timeline = TimelineChart.over(activity)  # 600 seconds; by 2 that would be 300 bars
    assert (timeline.first, timeline.width) == (NOON + 5, 5)
    assert timeline.bars == 121
    assert timeline.counts(activity)["insert"] == [3, *[0] * 120]
    assert timeline.counts(activity)["delete"] == [*[0] * 120, 1]
    assert timeline.counts(activity, "a.c")["insert"] == [0] * 121
    assert timeline.amounts(activity) == [3, *[0] * 119, 1]
    assert timeline.begin(1) == "2026-11-21 12:00:10"


def test_a_place_is_from_0_to_1() -> None:
    timeline = TimelineChart(1000, 1095, 10)  # of 10 bars
    assert [timeline.place(at) for at in (900, 1000, 1050, 1100, 2000)] == [0, 0, 0.5, 1, 1]


@pytest.mark.parametrize(
    ("begin", "width", "bars", "ticks"),
    [
        (NOON, 1, 5, ["12:00:00", "12:00:01", "12:00:02", "12:00:03", "12:00:04", "12:00:05"]),
        (NOON - 30, 60, 3, ["12:00", "12:01", "12:02"]),
        (NOON, 3600, 36, ["12:00", "Nov 22", "12:00", "Nov 23"]),
    ],
)
def test_ticks_stand_at_round_moments(begin: int, width: int, bars: int, ticks: list[str]) -> None:
    found = TimelineChart(begin, begin + bars * width, width).ticks(most=len(ticks))
    assert [text for _, text in found] == ticks


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1k"),
        (12_345, "12.3k"),
        (2_500_000, "2.5M"),
        (3e9, "3G"),
        (0.25, "0.25"),
    ],
)
def test_counts_on_an_axis(number: float, text: str) -> None:
    assert short(number) == text
