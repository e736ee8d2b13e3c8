"""Exports that are repeated, and those into tables of lakes."""

from __future__ import annotations

import datetime as dt
import os
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from support.failing import FailingSecond, KilledOnce
from support.forged import UUID
from support.lake_forms import IcebergForm
from support.outputs import files_of, manifest_of, write_log
from support.s3 import CREDENTIALS, client_of, store
from support.writer import Log, Table

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

import pyarrow.parquet as pq  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402

from binlog_core import BinlogError  # noqa: E402
from binlog_core._sources.deltas import delta_options  # noqa: E402
from binlog_core.lake.tables.destination import open_filesystem  # noqa: E402
from binlog_core.lake.tables.tables import DeltaTables  # noqa: E402
from binlog_core.spark import ReadOptions, export_logs  # noqa: E402
from binlog_core.spark import export as export_module  # noqa: E402

pytestmark = pytest.mark.spark


def test_a_run_is_written_once(spark: SparkSession, tmp_path: Path) -> None:
    log = write_log(tmp_path / "in" / "bin.000001", (Table("d", "t", [("id", "INT")]), [{"id": 1}]))
    output = tmp_path / "out"
    first = export_logs(log, output, spark=spark, run_id="nightly/1")
    before = files_of(output)
    again = export_logs(log, output, spark=spark, run_id="nightly/1")
    assert again.repeated and not first.repeated
    assert [(t.table, t.rows, t.bytes) for t in again.tables] == [
        (t.table, t.rows, t.bytes) for t in first.tables
    ]
    assert files_of(output) == before
    with pytest.raises(BinlogError, match="exists"):
        export_logs(log, output, spark=spark, run_id="nightly/2")


def evolving(folder: Path) -> list[Path]:
    """A table that gets a column, then another type; values of kinds that lakes treat differently."""
    columns = [("id", "INT"), ("price", "DECIMAL(12,2)"), ("at", "DATETIME"), ("note", "VARCHAR(20)")]
    old = Table("d", "t", columns)
    more = Table("d", "t", [*columns, ("small", "TINYINT")])
    wide = Table("d", "t", [("id", "BIGINT"), *columns[1:], ("small", "TINYINT")])
    values = {"price": Decimal("12.50"), "at": dt.datetime(2026, 1, 2, 3, 4, 5), "note": "ä"}
    return [
        write_log(folder / "bin.000001", (old, [{"id": i, **values} for i in range(5)])),
        write_log(folder / "bin.000002", (more, [{"id": 5, **values, "small": 7}])),
        write_log(folder / "bin.000003", (wide, [{"id": 1 << 40, **values, "small": 8}])),
    ]


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


def test_delta_tables_of_any_name(spark: SparkSession, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    names = ["order lines", "größe", "100%", "a%20b", "a#b?c", "Orders", "orders", "z"]
    tables = [(Table("d", name, [("id", "INT")]), [{"id": i}]) for i, name in enumerate(names)]
    log = write_log(tmp_path / "in" / "bin.000001", *tables)
    found = export_logs(log, tmp_path / "my lake", spark=spark, format="delta").tables
    assert {table.table: ids_of_delta(deltalake, table.directory) for table in found} == {
        name: [i] for i, name in enumerate(names)
    }
    with pytest.raises(BinlogError, match="path with a %"):
        export_logs(log, tmp_path / "50%", spark=spark, format="delta")


def ids_of_delta(deltalake: Any, directory: str) -> list[int]:
    return sorted(pa.table(deltalake.DeltaTable(directory).to_pyarrow_table())["id"].to_pylist())


def test_a_table_that_cannot_be_committed_holds_no_other(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deltalake = pytest.importorskip("deltalake")
    tables = [(Table("d", name, [("id", "INT")]), [{"id": i}]) for i, name in enumerate("abc")]
    log = write_log(tmp_path / "in" / "bin.000001", *tables)
    output = tmp_path / "lake"
    with monkeypatch.context() as patch:
        real = DeltaTables._append

        def append(self: DeltaTables, database: str, table: str, *rest: Any) -> bool:
            if table == "a":
                raise RuntimeError("injected")
            return real(self, database, table, *rest)

        patch.setattr(DeltaTables, "_append", append)
        with pytest.raises(BinlogError, match="injected") as caught:
            export_logs(log, output, spark=spark, format="delta", run_id="one")
    assert caught.value.table == "d.a"
    assert [ids_of_delta(deltalake, str(output / f"d.{name}")) for name in "bc"] == [[1], [2]]
    # The run can be repeated: it writes what is missing, and nothing twice.
    assert not export_logs(log, output, spark=spark, format="delta", run_id="one").repeated
    assert [ids_of_delta(deltalake, str(output / f"d.{name}")) for name in "abc"] == [[0], [1], [2]]


def test_statistics_have_the_versions_of_commits(spark: SparkSession, tmp_path: Path) -> None:
    """An XA transaction that was prepared first and committed last: its version is the largest."""
    deltalake = pytest.importorskip("deltalake")
    table = Table("d", "t", [("id", "INT")], primary_key=["id"])
    log = Log("8.0.36")
    log.previous_gtids()
    log.gtid(UUID, 1)
    log.query("XA START X'61',X'',1")
    log.insert(table, [{"id": 1}])
    log.query("XA END X'61',X'',1")
    log.event(38, struct.pack("<BIII", 0, 1, 1, 0) + b"a")
    log.gtid(UUID, 2)
    log.begin()
    log.insert(table, [{"id": 2}])
    log.commit()
    log.gtid(UUID, 3)
    log.query("XA COMMIT X'61',X'',1")
    path = tmp_path / "in" / "bin.000001"
    path.parent.mkdir()
    path.write_bytes(log.getvalue())
    (found,) = export_logs(path, tmp_path / "lake", spark=spark, format="delta", xa="committed").tables
    delta = deltalake.DeltaTable(found.directory)
    rows = pa.table(delta.to_pyarrow_table()).to_pylist()
    assert [row["id"] for row in sorted(rows, key=lambda row: row["_commit_version"])] == [2, 1]
    for row in rows:
        wanted = [("_commit_version", "=", row["_commit_version"])]
        assert [one["id"] for one in delta.to_pyarrow_table(filters=wanted).to_pylist()] == [row["id"]]
    export_logs(path, tmp_path / "out", spark=spark, xa="committed")
    (file,) = manifest_of(tmp_path / "out")["tables"][0]["files"]
    assert file["last_version"] == max(row["_commit_version"] for row in rows)


def test_iceberg_tables(spark: SparkSession, tmp_path: Path) -> None:
    form = IcebergForm(tmp_path)
    logs = evolving(tmp_path / "in")
    output = tmp_path / "data"
    catalog = {**form.catalog, "warehouse": f"file://{tmp_path}/warehouse"}

    def export(some: list[Path], run: str) -> Any:
        return export_logs(some, output, spark=spark, format="iceberg", run_id=run, catalog=catalog)

    def rows(name: str) -> list[dict[str, Any]]:
        return list(form.read(Path(name)).sort_by("id").to_pylist())

    (table,) = export(logs[:2], "one").tables
    assert table.directory == "d.t"
    assert [(row["id"], row["small"], row["note"]) for row in rows("d.t")] == [
        *((i, None, "ä") for i in range(5)),
        (5, 7, "ä"),
    ]
    assert str(rows("d.t")[0]["price"]) == "12.50"
    assert {row["_change_type"] for row in rows("d.t")} == {"insert"}
    assert export(logs[:2], "one").repeated
    os.unlink(output / "_runs" / "one.json")
    export(logs[:2], "one")
    assert len(rows("d.t")) == 6
    # INT became BIGINT, which Iceberg promotes; an earlier file goes into the wider table too.
    assert [one.directory for one in export(logs[1:], "two").tables] == ["d.t"]
    assert [row["id"] for row in rows("d.t")] == [0, 1, 2, 3, 4, 5, 5, 1 << 40]
    assert [one.directory for one in export(logs[:1], "three").tables] == ["d.t"]
    assert [row["id"] for row in rows("d.t")] == sorted([*range(5), *range(5), 5, 5, 1 << 40])
    # What it does not promote goes to another table.
    other = write_log(
        tmp_path / "in" / "bin.000004", (Table("d", "t", [("id", "DATE")]), [{"id": dt.date(2026, 1, 1)}])
    )
    assert [one.directory for one in export([other], "four").tables] == ["d.t__v2"]
    assert [row["id"] for row in rows("d.t__v2")] == [dt.date(2026, 1, 1)]
    with pytest.raises(BinlogError, match="catalog"):
        export_logs(logs, output, spark=spark, format="iceberg", catalog={"type": "none"})


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"format": "orc"}, "format='orc'"),
        ({"split_size": -1}, "split_size=-1"),
        ({"compression": "best"}, "best"),
    ],
)
def test_wrong_options(spark: SparkSession, tmp_path: Path, wrong: dict[str, Any], message: str) -> None:
    log = write_log(tmp_path / "in" / "bin.000001", (Table("d", "t", [("id", "INT")]), [{"id": 1}]))
    with pytest.raises((ValueError, BinlogError), match=message):
        export_logs(log, tmp_path / "out", spark=spark, **wrong)
    assert os.listdir(tmp_path) == ["in"]


def test_a_table_that_no_log_has_is_named(spark: SparkSession, tmp_path: Path) -> None:
    log = write_log(tmp_path / "in" / "bin.000001", (Table("d", "t", [("id", "INT")]), [{"id": 1}]))
    wanted = ReadOptions(tables=("d.missing", "d.t"))
    result = export_logs(log, tmp_path / "out", spark=spark, options=wanted)
    assert result.missing == ("d.missing",)
    assert [table.table for table in result.tables] == ["t"]
