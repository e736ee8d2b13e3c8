"""The results of an export: sums over files, tables and splits."""

from __future__ import annotations

import json

from support.export import written

from binlog_core.lake.tables.results import ExportResult, ExportState, TableResult
from binlog_core.splits import Split, SplitResult


def test_a_split_knows_how_far_its_last_transaction_went() -> None:
    split = Split("a", 100, 200)
    one = written(split, end_position=250)
    assert (one.rows, one.bytes, one.overrun, one.long_transaction) == (3, 50, 50, False)
    assert written(split, end_position=301).long_transaction
    assert written(split, SplitResult(split, None, 301), end_position=301).overrun == 0  # it owned none
    assert written(Split("a", 100), end_position=301).overrun == 0


def test_sums_of_an_export() -> None:
    splits = [
        written(Split("a", index=0), counts={"skipped_events": 2}, seconds=3.0),
        written(Split("a", 100, 200, index=1), counts={"skipped_events": 1, "lost": 4}, end_position=301),
        written(Split("b", index=2), log_bytes=0, seconds=5.0),
    ]
    table = TableResult("shop", "t", "out/shop.t", {"insert": 2, "delete": 1}, 0, 1, 50, 1, 0.5, ("id",))
    found = ExportResult("out", "run", [table, table], splits, 9.0)
    assert (found.rows, found.bytes, found.logs, found.log_bytes) == (6, 100, 2, 200)
    assert found.counts == {"skipped_events": 3, "lost": 4}
    assert found.skipped_events == 3
    assert found.slowest is splits[2]
    assert found.skew == 1.5  # 3 seconds of 3 and 1; splits that read nothing do not count
    assert found.long_transactions == [splits[1]]
    empty = ExportResult("out", "run", [], [], 0.0)
    assert (empty.rows, empty.skew, empty.slowest) == (0, 1.0, None)


def test_a_state_names_its_runs_and_is_given_to_programs() -> None:
    state = ExportState("s3://lake", "f00", runs=9, file="bin.000042", position=120, updated=5.0)
    state.rows["shop.t"] = {"insert": 7}
    assert (state.run_id, state.run_name) == ("f00-10", "000010")
    assert ExportState(**json.loads(state.to_json())) == state
    lines = state.to_prometheus().decode().splitlines()
    for line in (
        'binlog_core_export_runs_total{output="s3://lake"} 9',
        'binlog_core_export_log_number{output="s3://lake"} 42',
        'binlog_core_export_rows_total{output="s3://lake",table="shop.t",change_type="insert"} 7',
    ):
        assert line in lines
    assert not any(line.startswith("binlog_core_export_transactions_behind{") for line in lines)  # not known
