"""The results of the export job on a real local Spark."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from support.golden import golden_logs
from support.outputs import (
    POSITIONS,
    by_pyarrow,
    exportable,
    hold,
    leftovers,
    manifest_of,
    spark_reads_the_same,
    write_log,
)
from support.writer import Table

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

import pyarrow.parquet as pq  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402

from binlog_core import EncryptionError, SchemaError  # noqa: E402
from binlog_core.lake.runner import LocalRunner  # noqa: E402
from binlog_core.spark import Progress, ReadOptions, export_logs  # noqa: E402

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("server", ["mysql97", "maria118"])
def test_export_holds_against_the_server(spark: SparkSession, tmp_path: Path, server: str) -> None:
    # What differs by type, name or statement; all logs are read in tests/lake/tables/test_split_runs.py.
    some = ("types_", "names_", "killed", "stmt_")
    logs = [golden for golden in exportable(server) if golden.path.stem.startswith(some)]
    output = tmp_path / "out"
    result = export_logs([golden.path for golden in logs], output, spark=spark, options=POSITIONS)
    manifest = manifest_of(output)
    assert [log["path"] for log in manifest["logs"]] == [str(golden.path) for golden in logs]
    hold(by_pyarrow(output, manifest), logs, manifest)
    spark_reads_the_same(spark, output, manifest)
    # Threads of this process write the same: values, files and the report.
    here = export_logs(
        [golden.path for golden in logs], tmp_path / "here", runner=LocalRunner(2), options=POSITIONS
    )
    assert [(one.table, one.rows, one.files) for one in here.tables] == [
        (one.table, one.rows, one.files) for one in result.tables
    ]
    other = manifest_of(tmp_path / "here")
    assert sorted(by_pyarrow(tmp_path / "here", other), key=str) == sorted(
        by_pyarrow(output, manifest), key=str
    )
    names = ("statements", "server_versions", "damaged", "tail")
    assert [manifest.get(name) for name in names] == [other.get(name) for name in names]
    assert sorted(leftovers(output)) == ["here"]


def test_xa_transactions_as_of_their_commit(spark: SparkSession, tmp_path: Path) -> None:
    """Rows that were rolled back are not there; the others are at XA COMMIT."""
    [golden] = golden_logs("mysql97/xa")
    ends = {"xa_end": "rollback"}
    kept = [truth for truth in golden.truth if not ends.items() <= truth.items()]
    assert 0 < len(kept) < len(golden.truth)
    wanted = sorted((t["table"], (t["after"] or t["before"])["id"]) for t in kept)
    told: dict[str, set[int]] = {}
    for xa in ("prepared", "committed"):
        output = tmp_path / xa
        export_logs(golden.path, output, spark=spark, options=POSITIONS, split_size=500, xa=xa)
        manifest = manifest_of(output)
        found: list[tuple[str, Any]] = []
        versions = told.setdefault(xa, set())
        for table in manifest["tables"]:
            for file in table["files"]:
                for row in pq.ParquetFile(output / table["directory"] / file["name"]).read().to_pylist():
                    if row["_change_type"] != "update_preimage":
                        found.append((table["table"], next(iter(row.values()))))
                        versions.add(row["_commit_version"])
        if xa == "committed":
            assert sorted(found) == wanted
        else:
            assert len(found) == len(golden.truth)
    assert told["committed"] - told["prepared"]  # of XA COMMIT
    with pytest.raises(ValueError, match="xa="):
        export_logs(golden.path, tmp_path / "x", spark=spark, options=POSITIONS, xa="later")  # type: ignore[arg-type]


def test_an_encrypted_log_with_its_key(spark: SparkSession, tmp_path: Path) -> None:
    (golden,) = golden_logs("mysql97/encrypted")
    output = tmp_path / "out"
    with pytest.raises(EncryptionError) as caught:
        export_logs(golden.path, output, spark=spark, options=POSITIONS)
    assert caught.value.path == str(golden.path)
    assert not output.exists()
    export_logs(golden.path, output, spark=spark, options=ReadOptions(unnamed="positions", keys=golden.keys))
    hold(by_pyarrow(output, manifest_of(output)), [golden], manifest_of(output))
    assert output.stat().st_mode & 0o777 == 0o700  # decrypted: only its owner may read it


def test_a_schema_file_is_read_by_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    golden = golden_logs("mysql97/meta_minimal")[0]
    with pytest.raises(SchemaError, match="names"):
        export_logs(golden.path, tmp_path / "out", spark=spark)
    export_logs(golden.path, tmp_path / "out", spark=spark, options=ReadOptions(schema=golden.schema))
    names = {
        (table["database"], table["table"]): [
            column["name"] for column in table["versions"][0]["columns"][:-5]
        ]
        for table in manifest_of(tmp_path / "out")["tables"]
    }
    assert names
    for definition in golden.definitions:
        wanted = [column["name"] for column in definition["columns"]]
        assert names.get((definition["db"], definition["table"]), wanted) == wanted


def test_definitions_that_change_are_versions(spark: SparkSession, tmp_path: Path) -> None:
    old = Table("d", "t", [("id", "INT")])
    new = Table("d", "t", [("id", "INT"), ("more", "BIGINT")])
    write_log(tmp_path / "in/bin.000001", (old, [{"id": 1}]), (new, [{"id": 2, "more": 20}]))
    write_log(tmp_path / "in/bin.000002", (new, [{"id": 3, "more": 30}]), (old, [{"id": 4}]))
    output = tmp_path / "out"
    (table,) = export_logs(tmp_path / "in", output, spark=spark).tables
    assert (table.versions, table.files) == (2, 4)
    first = pq.read_table(sorted((output / "d.t").glob("v1-*")))
    assert first.column_names[:-5] == ["id"]
    assert sorted(first["id"].to_pylist()) == [1, 4]
    frame = spark.read.option("mergeSchema", "true").parquet(str(output / "d.t")).orderBy("id")
    assert [(row.id, row.more) for row in frame.collect()] == [(1, None), (2, 20), (3, 30), (4, None)]


def test_progress_is_reported(spark: SparkSession, tmp_path: Path) -> None:
    told: list[Progress] = []
    logs = [golden.path for golden in golden_logs("mysql97/types_*")]
    result = export_logs(logs, tmp_path / "out", spark=spark, progress=told.append)
    assert told[0] == Progress(0, len(logs))
    splits = [one for one in told if one.stage == "splits"]
    assert splits[-1] == Progress(len(logs), len(logs), result.log_bytes, result.rows)
    assert [(one.stage, one.done) for one in told[len(splits) :]] == [
        ("tables", done) for done in (0, *range(1, told[-1].total + 1))
    ]
    told = splits
    assert [(p.done, p.log_bytes, p.rows) for p in told] == sorted(
        (p.done, p.log_bytes, p.rows) for p in told
    )
    assert result.log_bytes == sum(os.path.getsize(log) - 4 for log in logs)
