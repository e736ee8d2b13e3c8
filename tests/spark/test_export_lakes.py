"""Exports that are repeated, and those into tables of lakes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from support.failing import FailingSecond, KilledOnce
from support.outputs import evolving, files_of, write_log
from support.s3 import CREDENTIALS, client_of, store
from support.writer import Table

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

import pyarrow.parquet as pq  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402

from binlog_core import BinlogError  # noqa: E402
from binlog_core._sources.deltas import delta_options  # noqa: E402
from binlog_core.lake.tables.destination import open_filesystem  # noqa: E402
from binlog_core.spark import ReadOptions, export_logs  # noqa: E402
from binlog_core.spark import export as export_module  # noqa: E402

pytestmark = pytest.mark.spark


def test_delta_tables(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deltalake = pytest.importorskip("deltalake")
    logs = evolving(tmp_path / "in")
    output = tmp_path / "lake"
    with monkeypatch.context() as patch, pytest.raises(BinlogError, match="injected"):
        patch.setattr(export_module, "SplitWriter", FailingSecond)
        export_logs(logs[:2], output, spark=spark, format="delta", run_id="one")
    assert files_of(output) == set()  # nothing is committed, and nothing is left
    with monkeypatch.context() as patch:
        patch.setattr(export_module, "SplitWriter", KilledOnce)
        (first,) = export_logs(logs[:2], output, spark=spark, format="delta", run_id="one").tables
    assert export_logs(logs[:2], output, spark=spark, format="delta", run_id="one").repeated

    def rows(directory: str) -> list[dict[str, Any]]:
        found = pa.table(deltalake.DeltaTable(directory).to_pyarrow_table()).sort_by("id").to_pylist()
        return list(found)

    assert [row["id"] for row in rows(first.directory)] == list(range(6))
    assert [row["small"] for row in rows(first.directory)] == [None] * 5 + [7]
    assert str(rows(first.directory)[0]["price"]) == "12.50"
    named = {f"d.t/{Path(uri).name}" for uri in deltalake.DeltaTable(first.directory).file_uris()}
    assert {name for name in files_of(output) if name.endswith(".parquet")} == named
    # If a crash came before the run was noted as a whole, its tables know of it.
    os.unlink(output / "_runs" / "one.json")
    export_logs(logs[:2], output, spark=spark, format="delta", run_id="one")
    assert len(rows(first.directory)) == 6
    assert {name for name in files_of(output) if name.endswith(".parquet")} == named
    # Another run is appended; where a type changed, to another table.
    tables = export_logs(logs[1:], output, spark=spark, format="delta", run_id="two").tables
    assert [Path(table.directory).name for table in tables] == ["d.t", "d.t.v2"]
    assert [row["id"] for row in rows(tables[0].directory)] == [0, 1, 2, 3, 4, 5, 5]
    assert [row["id"] for row in rows(tables[1].directory)] == [1 << 40]
    with pytest.raises(ValueError, match="overwrite"):
        export_logs(logs, output, spark=spark, format="delta", overwrite=True)


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_logs_and_output_in_a_store_with_its_options(
    spark: SparkSession, tmp_path: Path, format: Any
) -> None:
    """No credentials are in the environment: each side has only the options that it was given."""
    deltalake = pytest.importorskip("deltalake")
    log = write_log(tmp_path / "bin.000001", (Table("d", "t", [("id", "INT")]), [{"id": 1}, {"id": 2}]))
    with store("lakes") as endpoint:
        client_of(endpoint).put_object(Bucket="lakes", Key="logs/bin.000001", Body=log.read_bytes())
        given = {**CREDENTIALS, "endpoint_override": endpoint}
        (table,) = export_logs(
            "s3://lakes/logs",
            "s3://lakes/out",
            spark=spark,
            format=format,
            options=ReadOptions(storage_options=given),
            output_options=given,
        ).tables
        assert table.rows["insert"] == 2
        if format == "delta":
            read = deltalake.DeltaTable(table.directory, storage_options=delta_options(given))
            rows = pa.table(read.to_pyarrow_table())
        else:
            filesystem, path = open_filesystem(table.directory, given)
            rows = pq.read_table(path, filesystem=filesystem)
        assert sorted(rows["id"].to_pylist()) == [1, 2]
