"""What a summary keeps: activity over time, in bounded memory."""

from __future__ import annotations

import numpy as np
import pytest

from binlog_core.inspect import summary
from binlog_core.inspect.report_page.charts import TimelineChart
from binlog_core.inspect.summary import Activity


def test_activity_widens_and_keeps_every_row() -> None:
    activity = Activity()
    moments = np.arange(1_000_000_000, 1_000_000_000 + 5_000_000, 977, dtype=np.uint32)
    for part in np.array_split(moments, 50):
        activity.add("a.b", "insert", part)
    assert activity.width > 1
    assert sum(activity.counts["a.b", "insert"].values()) == len(moments)
    timeline = TimelineChart.over(activity)
    assert timeline.bars <= 121
    assert sum(timeline.counts(activity)["insert"]) == len(moments)
    assert timeline.first <= moments[0]
    assert timeline.first + timeline.bars * timeline.width > moments[-1]
    other = Activity()
    other.add("a.b", "insert", moments[:3])
    other.merge(activity)
    assert sum(other.counts["a.b", "insert"].values()) == len(moments) + 3


def test_activity_is_bounded_over_all_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "_MOST_BUCKETS_OF_ALL", 1000)
    activity, other = Activity(), Activity()
    for i in range(50):
        activity.add(f"d.t{i}", "insert", np.arange(0, 4000, 4, dtype=np.uint32))
        other.add(f"d.u{i}", "insert", np.arange(0, 4000, 4, dtype=np.uint32))
    activity.merge(other)
    assert sum(map(len, activity.counts.values())) <= 2 * 1000
    assert sum(counts.total() for counts in activity.counts.values()) == 100 * 1000


def test_buckets_of_two_logs_become_as_wide_as_the_wider() -> None:
    one, other = Activity(), Activity()
    one.add("a.b", "insert", np.array([100, 100, 101, 104], np.uint32))
    one.add("a.b", "insert", np.array([107], np.uint32), np.array([5]))
    assert one.counts == {("a.b", "insert"): {100: 2, 101: 1, 104: 1, 107: 5}}
    assert one.span() == (100, 107) and Activity().span() == (0, -1)
    other.add("a.b", "insert", np.array([103, 110], np.uint32))
    other.widen(4)
    assert other.counts == {("a.b", "insert"): {25: 1, 27: 1}}
    one.merge(other)
    assert (one.width, one.counts) == (4, {("a.b", "insert"): {25: 4, 26: 6, 27: 1}})
