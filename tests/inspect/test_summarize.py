"""The summary of hostile logs: its time is in proportion to the log, its memory bounded."""

from __future__ import annotations

import numpy as np
import pytest
from support.growth import assert_linear
from support.writer import Log, Table

import binlog_core
from binlog_core import Limits
from binlog_core.inspect import summary
from binlog_core.inspect.report_page import report_page
from binlog_core.inspect.summarize import summarize
from binlog_core.inspect.summary import Activity

UUID = "00112233-4455-6677-8899-aabbccddeeff"

pytestmark = pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")


def tables(n: int, *, times: int = 1) -> bytes:
    """A row in each of n tables, each in a transaction of its own."""
    log = Log(checksum=False)
    for _ in range(times):
        for i in range(n):
            log.begin()
            log.insert(Table("d", f"t{i}", [("id", "INT")]), [{"id": 1}])
            log.commit()
    return log.getvalue()


@pytest.mark.parametrize("limits", [Limits(), Limits(group_rows=8)], ids=["one group", "many groups"])
def test_the_time_over_many_tables_is_in_proportion(limits: Limits) -> None:
    def run(data: bytes) -> None:
        with binlog_core.open(data, limits=limits) as log:
            report_page(summarize(log))

    assert_linear(run, tables, 150)


def test_tables_beyond_those_told_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "MOST_TABLES", 3)
    with binlog_core.open(tables(5, times=2)) as log:
        found = summarize(log).tables()
    assert {name: table.inserts for name, table in found.items()} == {
        "other tables": 4,
        "d.t0": 2,
        "d.t1": 2,
        "d.t2": 2,
    }
    assert found["other tables"].bytes == 2 * found["d.t0"].bytes


def test_activity_is_bounded_over_all_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "_MOST_BUCKETS_OF_ALL", 1000)
    activity, other = Activity(), Activity()
    for i in range(50):
        activity.add(f"d.t{i}", "insert", np.arange(0, 4000, 4, dtype=np.uint32))
        other.add(f"d.u{i}", "insert", np.arange(0, 4000, 4, dtype=np.uint32))
    activity.merge(other)
    assert sum(map(len, activity.counts.values())) <= 2 * 1000
    assert sum(counts.total() for counts in activity.counts.values()) == 100 * 1000


def test_gtids_are_merged_as_they_come() -> None:
    log = Log("8.4.0", checksum=False)
    for i in range(1, 9001):
        log.gtid(UUID, i)
    with binlog_core.open(log.getvalue()) as opened:
        assert str(summarize(opened).gtids()) == f"{UUID}:1-9000"


def test_gtids_of_several_logs_are_one_set() -> None:
    files = []
    for i in range(5):
        log = Log("8.4.0")
        log.gtid(UUID, 2 * i + 1)
        log.begin()
        log.insert(Table("d", "t", [("id", "INT")]), [{"id": 1}])
        log.commit()
        files.append(log.getvalue())
    parts = []
    for data in files:
        with binlog_core.open(data) as opened:
            parts += summarize(opened).files
    assert str(summary.LogSummary(parts).gtids()) == f"{UUID}:1:3:5:7:9"
