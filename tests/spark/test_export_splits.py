"""Exports of logs that are read in parts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.forged import UUID, log_with_forgery, transactions
from support.golden import golden_logs
from support.outputs import POSITIONS, by_pyarrow, hold, ids_of, leftovers, manifest_of
from support.writer import Log, Table

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

import pyarrow.parquet as pq  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402

from binlog_core import ChecksumError  # noqa: E402
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


def test_a_transaction_larger_than_a_split_is_reported(spark: SparkSession, tmp_path: Path) -> None:
    log = Log("8.0.36")
    transactions(log, count=3)
    transactions(log, count=1, body=9000)
    transactions(log, count=3)
    path = tmp_path / "bin.000001"
    path.write_bytes(log.getvalue())
    result = export_logs(path, tmp_path / "out", spark=spark, split_size=1500)
    (long,) = result.long_transactions
    assert 7000 < long.overrun < 9500
    assert long.seam.next_anchor == long.end_position
    assert [s for s in result.splits if s.seam.first_anchor is None]  # those that lie inside it
    assert len(ids_of(tmp_path / "out", "shop.orders")) == 7


@pytest.mark.parametrize("closing", [False, True])
def test_forged_transactions_in_a_blob_are_not_exported(
    spark: SparkSession, tmp_path: Path, closing: bool
) -> None:
    data, forged = log_with_forgery(closing)
    path = tmp_path / "bin.000001"
    path.write_bytes(data)
    size = len(data) // 9
    deceived = []
    for split in plan_splits(path, size):
        with read_split_groups(split) as reader:
            deceived.append(reader.first_anchor in forged)
    assert any(deceived), "no split began inside the forgery: the test shows nothing"
    result = export_logs(path, tmp_path / "out", spark=spark, split_size=size)
    # Where the chain of events breaks, the worker notices the damage; otherwise the driver does.
    assert result.reread > 0 or not closing
    assert ids_of(tmp_path / "out", "shop.orders") == list(range(1, 9))
    assert leftovers(tmp_path / "out") == ["bin.000001"]


def test_damage_in_the_middle_of_a_split_log(spark: SparkSession, tmp_path: Path) -> None:
    log = Log("8.0.36")
    transactions(log, count=40)
    data = bytearray(log.getvalue())
    place = data.index(bytes([21]) * 300)  # of the BLOB of the 21st row
    data[place + 5] ^= 0xFF
    path = tmp_path / "bin.000001"
    path.write_bytes(data)
    with pytest.raises(ChecksumError) as caught:
        export_logs(path, tmp_path / "out", spark=spark, split_size=2000)
    assert caught.value.path == str(path)
    assert caught.value.offset is not None and place - 100 < caught.value.offset < place
    assert str(caught.value.offset) in str(caught.value)
    assert leftovers(tmp_path / "out") == ["bin.000001"]
    skipping = ReadOptions(on_error="skip")
    result = export_logs(path, tmp_path / "out", spark=spark, split_size=2000, options=skipping)
    assert result.skipped_events == 1
    (told,) = manifest_of(tmp_path / "out")["logs"][0]["damaged"]
    assert told["offset"] == caught.value.offset
    assert ids_of(tmp_path / "out", "shop.orders") == [i for i in range(1, 41) if i != 21]


@pytest.mark.parametrize(
    "name", ["mysql97/image_minimal", "maria118/image_noblob", "maria118/image_full_nodup"]
)
def test_partial_images_say_what_they_lack(spark: SparkSession, tmp_path: Path, name: str) -> None:
    found = golden_logs(name)
    if not found:
        pytest.skip(f"no log {name}")
    (golden,) = found
    output = tmp_path / "out"
    options = ReadOptions(unnamed="positions", schema=golden.schema)
    result = export_logs(golden.path, output, spark=spark, options=options, split_size=4000)
    rows = []
    for table in result.tables:
        for file in Path(table.directory).iterdir():
            read = pq.ParquetFile(file).read()
            rows += [(table, read.column_names[:-5], row) for row in read.to_pylist()]
    rows.sort(key=lambda r: (r[2]["_commit_version"], r[2]["_change_ordinal"]))
    images = [
        (truth, side) for truth in golden.truth for side in ("before", "after") if truth.get(side) is not None
    ]
    lacking = 0
    for (_, names, row), (truth, side) in zip(rows, images, strict=True):
        logged = truth.get(f"{side}_cols", range(len(names)))
        wanted = [column for i, column in enumerate(names) if i not in logged]
        assert (row["_absent"] or []) == wanted
        lacking += bool(wanted)
    assert lacking == sum(table.partial_rows for table in result.tables) > 0


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
