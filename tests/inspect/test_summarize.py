"""The summary of hostile logs: its time is in proportion to the log, its memory bounded."""

from __future__ import annotations

import struct
import tracemalloc

import numpy as np
import pytest
from support.golden import full_name, golden_logs
from support.growth import assert_linear
from support.writer import Log, Table

import binlog_core
from binlog_core import Limits
from binlog_core.inspect import summary
from binlog_core.inspect.report_page import report_page
from binlog_core.inspect.summarize import _Spans, summarize

UUID = "00112233-4455-6677-8899-aabbccddeeff"

pytestmark = pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")


def tables(n: int, *, times: int = 1) -> bytes:
    """A row in each of n tables, each in its own transaction."""
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


def test_tables_beyond_those_listed_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_nothing_is_kept_of_an_event() -> None:
    log = Log(checksum=False)
    for i in range(300):
        log.begin()
        log.insert(Table("d", "t", [("id", "INT")]), [{"id": i}] * (i + 1))
        log.commit()
    at = log.position
    log.raw(struct.pack("<IBIIIH", 0, 3, 1, 19, 0, 0) * 1_000_000)  # STOP, 19 bytes each
    log.begin()
    log.insert(Table("d", "u", [("id", "INT")]), [{"id": 1}])
    log.commit()
    data = log.getvalue()
    with binlog_core.open(data, limits=Limits(group_rows=100)) as opened:
        tracemalloc.start()
        found = summarize(opened)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert found.files[0].event_count > 1_000_000
    assert found.files[0].end_position == len(data) > at
    assert peak < 8 << 20  # 24 bytes an event would be 24 MB
    with binlog_core.open(data) as opened:
        by_header = dict.fromkeys(("d.t", "d.u"), 0)
        name = ""
        for event in opened.events([19, 30]):
            if event.type_code == 19:
                name = full_name(event.database, event.table)
            else:
                by_header[name] += event.event_length
    assert {name: table.bytes for name, table in found.tables().items()} == by_header


def test_spans_that_touch_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def spans(*given: list[tuple[int, int]]) -> list[tuple[int, int]]:
        gathered = _Spans()
        for part in given:
            gathered.add(*np.array(part, np.uint64).T)
        begins, ends = gathered.sorted()
        return list(zip(begins.tolist(), ends.tolist(), strict=True))

    assert spans() == [(0, 0)]
    assert spans([(4, 9), (9, 20)], [(20, 30), (31, 40)], [(40, 50)]) == [(4, 30), (31, 50)]
    monkeypatch.setattr("binlog_core.inspect.summarize._MOST_SPANS", 2)
    assert spans([(1, 2), (3, 4), (5, 6)], [(7, 8), (9, 10)], [(11, 12)]) == [(1, 2), (3, 4), (11, 12)]


def test_a_target_is_opened_and_closed() -> None:
    path = f"{golden_logs('mysql97/gtid')[0].base}.binlog"
    with binlog_core.open(path) as log:
        assert summarize(log).tables() == summarize(path).tables()
        assert list(summarize(path, tables="nowhere").tables()) == []
