"""Exports that fail, damaged logs, and outputs that must not be written to: nothing is committed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.failing import FailingAlways, FailingOnce, KilledOnce, MergingFailsOnce, MergingKilledOnce
from support.golden import golden_logs
from support.outputs import (
    POSITIONS,
    by_pyarrow,
    files_named,
    files_of,
    hold,
    leftovers,
    manifest_of,
    write_log,
)
from support.writer import Table

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from pyspark.sql import SparkSession  # noqa: E402

from binlog_core import BinlogError, DecodeError  # noqa: E402
from binlog_core.spark import ReadOptions, Split, export_logs  # noqa: E402
from binlog_core.spark import export as export_module  # noqa: E402
from binlog_core.spark.current import write_current  # noqa: E402

pytestmark = pytest.mark.spark


def test_a_damaged_log_is_named_and_nothing_is_committed(spark: SparkSession, tmp_path: Path) -> None:
    golden = golden_logs("mysql97/types_ints")[0]
    position = max(golden.row_positions)
    data = bytearray(golden.data)
    data[position + 25] ^= 0xFF
    (tmp_path / "in").mkdir()
    write_log(tmp_path / "in" / "bin.000001", (Table("d", "t", [("id", "INT")]), [{"id": 1}]))
    damaged = tmp_path / "in" / "bin.000002"
    damaged.write_bytes(data)
    output = tmp_path / "out"
    with pytest.raises(DecodeError) as caught:
        export_logs(tmp_path / "in", output, spark=spark)
    assert (caught.value.path, caught.value.offset) == (str(damaged), position)
    assert str(damaged) in str(caught.value)
    assert str(position) in str(caught.value)
    assert leftovers(output) == ["in"]
    result = export_logs(tmp_path / "in", output, spark=spark, options=ReadOptions(on_error="skip"))
    assert result.counts == {"skipped_events": 1}


def test_a_log_that_is_gone_when_it_is_read(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = str(tmp_path / "bin.000001")
    monkeypatch.setattr(export_module, "plan_splits", lambda *_, **__: [Split(gone, file_number=1)])
    with pytest.raises(BinlogError) as caught:
        export_logs(gone, tmp_path / "out", spark=spark)
    assert caught.value.path == gone
    assert leftovers(tmp_path / "out") == []


@pytest.mark.parametrize("directory", ["../../elsewhere", "/etc", "d.other", None])
def test_a_manifest_leads_nowhere_else(spark: SparkSession, tmp_path: Path, directory: str | None) -> None:
    log = write_log(
        tmp_path / "in" / "bin.000001", (Table("d", "t", [("id", "INT")], primary_key=["id"]), [{"id": 1}])
    )
    output = tmp_path / "out"
    export_logs(log, output, spark=spark, run_id="one")
    manifest = manifest_of(output)
    manifest["tables"][0]["directory"] = directory
    (output / "_manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(BinlogError, match=r"expected 'd\.t'"):
        write_current(spark, output, tmp_path / "current")
    with pytest.raises(BinlogError, match=r"expected 'd\.t'"):
        export_logs(log, output, spark=spark, run_id="one")
    assert not (tmp_path / "current").exists()
    for broken in ("[]", '{"tables": 1}', '{"tables": [{}]}'):
        (output / "_manifest.json").write_text(broken)
        with pytest.raises(BinlogError, match="not one that an export wrote"):
            write_current(spark, output, tmp_path / "current")


def test_the_users_job_group_is_kept(spark: SparkSession, tmp_path: Path) -> None:
    log = write_log(tmp_path / "in" / "bin.000001", (Table("d", "t", [("id", "INT")]), [{"id": 1}]))
    context = spark.sparkContext
    context.setJobGroup("nightly", "the user's", interruptOnCancel=False)
    try:
        export_logs(log, tmp_path / "out", spark=spark)
        kept = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")
        assert [context.getLocalProperty(name) for name in kept] == ["nightly", "the user's", "false"]
    finally:
        for name in kept:
            context.setLocalProperty(name, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("failing", [FailingOnce, KilledOnce])
def test_what_a_failed_attempt_wrote_is_not_in_the_output(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: type
) -> None:
    logs = golden_logs("mysql97/types_[is]*")
    monkeypatch.setattr(export_module, "SplitWriter", failing)
    output = tmp_path / "out"
    export_logs([golden.path for golden in logs], output, spark=spark, options=POSITIONS)
    manifest = manifest_of(output)
    assert files_of(output) == {"_manifest.json", *files_named(manifest)}
    hold(by_pyarrow(output, manifest), logs, manifest)
    assert leftovers(output) == []


@pytest.mark.parametrize("failing", [MergingFailsOnce, MergingKilledOnce])
def test_what_a_failed_attempt_merged_is_not_in_the_output(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: type
) -> None:
    logs = golden_logs("mysql97/types_[is]*")
    monkeypatch.setattr(export_module, "TableWriter", failing)
    output = tmp_path / "out"
    paths = [golden.path for golden in logs]
    result = export_logs(paths, output, spark=spark, options=POSITIONS, split_size=1500)
    assert len(result.splits) > 3
    assert {table.files for table in result.tables} == {1}
    manifest = manifest_of(output)
    assert files_of(output) == {"_manifest.json", *files_named(manifest)}
    hold(by_pyarrow(output, manifest), logs, manifest)
    assert leftovers(output) == []


def test_a_job_that_fails_leaves_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_module, "SplitWriter", FailingAlways)
    golden = golden_logs("mysql97/types_ints")[0]
    with pytest.raises(BinlogError, match="injected"):
        export_logs(golden.path, tmp_path / "out", spark=spark)
    assert os.listdir(tmp_path) == []


def test_the_module_needs_no_library_to_be_imported() -> None:
    code = "import sys, binlog_core.spark; sys.exit(any(m in sys.modules for m in ('pyspark', 'pyarrow')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
