"""Exports of logs that are read in parts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.forged import UUID, log_with_forgery
from support.golden import golden_logs
from support.outputs import POSITIONS, by_pyarrow, hold, ids_of, leftovers, manifest_of
from support.writer import Log, Table

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from pyspark.sql import SparkSession  # noqa: E402

from binlog_core.spark import ReadOptions, export_logs, plan_splits  # noqa: E402
from binlog_core.splits import read_split_groups  # noqa: E402

pytestmark = pytest.mark.spark


def test_a_large_log_is_spread_over_splits(spark: SparkSession, tmp_path: Path) -> None:
    logs = golden_logs("mysql97/dml_mixed") + golden_logs("mysql97/xa")
    output = tmp_path / "out"
    paths = [golden.path for golden in logs]
    result = export_logs(paths, output, spark=spark, options=POSITIONS, split_size=1500)
    assert len(result.splits) >= sum(os.path.getsize(path) for path in paths) // 1500
    assert [split.split.index for split in result.splits] == list(range(len(result.splits)))
    hold(by_pyarrow(output, manifest_of(output)), logs, manifest_of(output))
    # What each split says adds up.
    assert result.log_bytes == sum(os.path.getsize(path) - 4 for path in paths)
    assert result.rows == sum(split.rows for split in result.splits) > 0
    assert {table.files for table in result.tables} == {1}  # however many splits it is in
    assert result.slowest is not None and result.skew >= 1
    assert result.reread == 0 and result.skipped_events == 0
    assert [log["end_position"] for log in manifest_of(output)["logs"]] == list(map(os.path.getsize, paths))
    assert all(log["splits"] > 1 for log in manifest_of(output)["logs"])


def test_forged_transactions_in_a_blob_are_not_exported(spark: SparkSession, tmp_path: Path) -> None:
    data, forged = log_with_forgery(True)
    path = tmp_path / "bin.000001"
    path.write_bytes(data)
    size = len(data) // 9
    deceived = []
    for split in plan_splits(path, size):
        with read_split_groups(split) as reader:
            deceived.append(reader.first_anchor in forged)
    assert any(deceived), "no split began inside the forgery: the test shows nothing"
    result = export_logs(path, tmp_path / "out", spark=spark, split_size=size)
    assert result.reread > 0
    assert ids_of(tmp_path / "out", "shop.orders") == list(range(1, 9))
    assert leftovers(tmp_path / "out") == ["bin.000001"]


def test_definitions_from_statements_in_any_split(spark: SparkSession, tmp_path: Path) -> None:
    log = Log("8.0.36")
    log.gtid(UUID, 100)
    log.query("CREATE TABLE t (id INT, body BLOB)", "d")
    table = Table("d", "t", [("a", "INT"), ("b", "BLOB")], metadata=None)
    for i in range(8):
        if i == 4:
            log.gtid(UUID, 101)
            log.query("ALTER TABLE t RENAME COLUMN body TO note", "d")
        log.gtid(UUID, i + 1)
        log.begin()
        log.insert(table, [{"a": i, "b": bytes(200)}])
        log.commit()
    path = tmp_path / "bin.000001"
    path.write_bytes(log.getvalue())
    options = ReadOptions(schema="ddl")
    result = export_logs(path, tmp_path / "out", spark=spark, options=options, split_size=500)
    assert len([split for split in result.splits if split.rows]) > 2
    versions = manifest_of(tmp_path / "out")["tables"][0]["versions"]
    assert [[column["name"] for column in v["columns"][:2]] for v in versions] == [
        ["id", "body"],
        ["id", "note"],
    ]
    kinds = [(one["kind"], one["tables"]) for one in manifest_of(tmp_path / "out")["statements"]]
    assert kinds == [("create", ["d.t"]), ("alter", ["d.t"])]
