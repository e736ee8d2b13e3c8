"""The export job on a real local Spark: what comes out, and that nothing comes out of what fails."""

from __future__ import annotations

import datetime as dt
import json
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from support.forged import UUID, log_with_forgery, transactions
from support.golden import Golden, golden_logs
from support.lake import LakeRow, lake_changes, lake_rows
from support.truth import Reader, differences
from support.writer import Log, Table

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

import pyarrow.parquet as pq  # noqa: E402
from pyspark import TaskContext, cloudpickle  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402

from binlog_core import (  # noqa: E402
    BinlogError,
    ChecksumError,
    DecodeError,
    EncryptionError,
    NotABinlogError,
    SchemaError,
)
from binlog_core.spark import Progress, ReadOptions, Split, WriteLimits, export_logs, plan_splits  # noqa: E402
from binlog_core.spark.apply.current import write_current  # noqa: E402
from binlog_core.spark.doors import export as export_module  # noqa: E402
from binlog_core.spark.lake.tables import DeltaTables  # noqa: E402
from binlog_core.spark.options import SourceOptions  # noqa: E402
from binlog_core.spark.session import quiet_java, start_session  # noqa: E402
from binlog_core.splits import read_split_groups  # noqa: E402

pytestmark = pytest.mark.spark

POSITIONS = ReadOptions(unnamed="positions")


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    # local[2,4]: two cores, and four attempts at a task, as a cluster has; plain local[2] never tries again.
    with quiet_java() as said:
        session = start_session("local[2,4]", app_name="tests")
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import tests
    yield session
    session.stop()
    os.unlink(said)


def manifest_of(output: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((output / "_manifest.json").read_text(encoding="ascii"))
    return manifest


def files_of(output: Path) -> set[str]:
    return {str(path.relative_to(output)) for path in output.rglob("*") if path.is_file()}


def leftovers(output: Path) -> list[str]:
    return [name for name in os.listdir(output.parent) if name != output.name]


def write_log(path: Path, *statements: tuple[Table, list[dict[str, Any]]], server: str = "8.0.36") -> Path:
    log = Log(server)
    for table, rows in statements:
        log.begin()
        log.insert(table, rows)
        log.commit()
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(log.getvalue())
    return path


# ------------------------------------------------------------------ against the truth


def exportable(server: str) -> list[Golden]:
    """Logs that need nothing given, as one export reads them."""
    return [golden for golden in golden_logs(f"{server}/*") if not golden.open_arguments]


def rows_of(database: str, table: str, read: Any) -> list[LakeRow]:
    assert read.column_names[-1] == "_absent"
    rows = lake_rows(database, table, read.drop_columns("_absent").to_pylist())
    for row, absent in zip(rows, read["_absent"].to_pylist(), strict=True):
        assert absent is None or {row.values[name] for name in absent} == {None}
    return rows


def by_pyarrow(output: Path, manifest: dict[str, Any]) -> list[LakeRow]:
    rows: list[LakeRow] = []
    for table in manifest["tables"]:
        for file in table["files"]:
            read = pq.ParquetFile(output / table["directory"] / file["name"]).read()
            assert read.num_rows == sum(file["rows"].values())
            rows += rows_of(table["database"], table["table"], read)
    return rows


def by_spark(spark: SparkSession, output: Path, manifest: dict[str, Any]) -> list[LakeRow]:
    rows: list[LakeRow] = []
    for table in manifest["tables"]:
        for version in table["versions"]:
            frame = spark.read.option("pathGlobFilter", f"v{version['version']}-*").parquet(
                str(output / table["directory"])
            )
            told = [(column["name"], column["type"]) for column in version["columns"]]
            assert frame.dtypes == told
            rows += rows_of(table["database"], table["table"], frame.toArrow())
    return rows


def hold(rows: list[LakeRow], logs: list[Golden], manifest: dict[str, Any]) -> None:
    statements = {(one["version"], one["ordinal"]) for one in manifest["statements"]}
    by_log: dict[int, list[LakeRow]] = {}
    for row in rows:
        by_log.setdefault(row.version >> 40, []).append(row)
    assert set(by_log) <= set(range(1, len(logs) + 1))
    for number, golden in enumerate(logs, start=1):
        changes = lake_changes(by_log.get(number, []), golden, statements)
        found = differences(changes, golden, None, Reader.ARROW, place=False)
        assert found == [], golden


@pytest.mark.parametrize("server", ["mysql56", "mysql97", "maria1011", "maria118"])
def test_export_holds_against_the_server(spark: SparkSession, tmp_path: Path, server: str) -> None:
    logs = exportable(server)
    output = tmp_path / "out"
    result = export_logs([golden.path for golden in logs], output, spark=spark, options=POSITIONS)
    manifest = manifest_of(output)
    assert [log["path"] for log in manifest["logs"]] == [str(golden.path) for golden in logs]
    hold(by_pyarrow(output, manifest), logs, manifest)
    if server in ("mysql97", "maria118"):
        hold(by_spark(spark, output, manifest), logs, manifest)
    # What is said of the result is so, too.
    told = {(table.database, table.table): table for table in result.tables}
    for (database, name), table in told.items():
        truth = [
            row["op"]
            for golden in logs
            for row in golden.truth
            if (row["db"], row["table"]) == (database, name)
        ]
        assert table.rows == {
            "insert": truth.count("insert"),
            "update_preimage": truth.count("update"),
            "update_postimage": truth.count("update"),
            "delete": truth.count("delete"),
        }
        written = list(Path(table.directory).iterdir())
        assert len(written) == table.files
        assert sum(path.stat().st_size for path in written) == table.bytes
    assert {(row["db"], row["table"]) for golden in logs for row in golden.truth} == set(told)
    assert leftovers(output) == []


@pytest.mark.parametrize("server", ["mysql97", "maria118"])
def test_xa_transactions_as_of_their_commit(spark: SparkSession, tmp_path: Path, server: str) -> None:
    """What was rolled back is not there; the rest stands where XA COMMIT does."""
    [golden] = golden_logs(f"{server}/xa")
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
    assert output.stat().st_mode & 0o777 == 0o700  # decrypted: its owner's alone


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


# ------------------------------------------------------------------ shapes


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


def test_row_groups_are_large_and_memory_is_bounded(spark: SparkSession, tmp_path: Path) -> None:
    tables = [Table("d", f"t{i}", [("id", "INT")]) for i in range(20)]
    log = write_log(
        tmp_path / "bin.000001",
        *((table, [{"id": i} for i in range(500)]) for _ in range(10) for table in tables),
    )
    output = tmp_path / "whole" / "out"
    output.parent.mkdir()
    export_logs(log, output, spark=spark)
    for table in tables:
        (file,) = (output / f"d.{table.name}").iterdir()
        assert pq.ParquetFile(file).num_row_groups == 1
    # With room for little, the rows are the same in more row groups and files.
    limits = WriteLimits(row_group_rows=1000, pending_bytes=50_000, open_files=3)
    small = tmp_path / "small" / "out"
    small.parent.mkdir()
    result = export_logs(log, small, spark=spark, limits=limits)
    assert max(table.files for table in result.tables) > 1
    for table in tables:
        rows = pq.read_table(sorted((small / f"d.{table.name}").iterdir()))
        assert sorted(rows["id"].to_pylist()) == sorted(list(range(500)) * 10)
    names = [file["name"] for table in manifest_of(small)["tables"] for file in table["files"]]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    "name", ["../../x", "..", "/etc", "a.b", "_hidden", "ж" * 64, "a%2Fb", "ab\n", "x~y", "CON:", ""]
)
def test_names_never_lead_out_of_the_output(spark: SparkSession, tmp_path: Path, name: str) -> None:
    table = Table(name, name, [("id", "INT")])
    log = write_log(tmp_path / "bin.000001", (table, [{"id": 1}]))
    output = tmp_path / "a" / "b" / "out"
    output.parent.mkdir(parents=True)
    (found,) = export_logs(log, output, spark=spark).tables
    assert (found.database, found.table) == (name, name)
    (directory,) = (path for path in output.iterdir() if path.is_dir())
    assert str(directory) == found.directory
    assert directory.name.isascii()
    assert directory.name[0] not in "._"
    assert len(directory.name) <= 200
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == sorted(
        ["bin.000001", "_manifest.json", *(path.name for path in directory.iterdir())]
    )
    assert [row.id for row in spark.read.parquet(found.directory).collect()] == [1]


def test_no_row_changes(spark: SparkSession, tmp_path: Path) -> None:
    write_log(tmp_path / "in" / "bin.000001")
    result = export_logs(tmp_path / "in", tmp_path / "out", spark=spark)
    assert result.tables == []
    assert files_of(tmp_path / "out") == {"_manifest.json"}


def test_tables_selected(spark: SparkSession, tmp_path: Path) -> None:
    a, b = Table("d", "a", [("id", "INT")]), Table("d", "b", [("id", "INT")])
    log = write_log(tmp_path / "bin.000001", (a, [{"id": 1}]), (b, [{"id": 2}]))
    result = export_logs(log, tmp_path / "out", spark=spark, options=ReadOptions(tables=("d.b",)))
    assert [table.table for table in result.tables] == ["b"]


def test_a_table_with_a_name_of_ours_is_left_out(spark: SparkSession, tmp_path: Path) -> None:
    a, b = Table("d", "a", [("_absent", "INT")]), Table("d", "b", [("id", "INT")])
    log = write_log(tmp_path / "bin.000001", (a, [{"_absent": 1}]), (b, [{"id": 2}]))
    with pytest.raises(SchemaError, match="_absent"):
        export_logs(log, tmp_path / "out", spark=spark)
    options = ReadOptions(exclude_tables=("d.a",), schema="ddl")
    result = export_logs(log, tmp_path / "out", spark=spark, options=options)
    assert [table.table for table in result.tables] == ["b"]
    assert not SourceOptions.parse({"excludeTables": "d.a, x.*"}).wants("d.a")
    assert SourceOptions.parse({"excludeTables": "d.a, x.*"}).wants("d.b")
    with pytest.raises(ValueError, match="excludeTables"):
        SourceOptions.parse({"table": "d.b", "excludeTables": "d.a"})


def test_progress_is_told(spark: SparkSession, tmp_path: Path) -> None:
    told: list[Progress] = []
    logs = [golden.path for golden in golden_logs("mysql97/types_*")]
    result = export_logs(logs, tmp_path / "out", spark=spark, progress=told.append)
    assert told[0] == Progress(0, len(logs))
    assert told[-1] == Progress(len(logs), len(logs), result.log_bytes, result.rows)
    assert [(p.done, p.log_bytes, p.rows) for p in told] == sorted(
        (p.done, p.log_bytes, p.rows) for p in told
    )
    assert result.log_bytes == sum(os.path.getsize(log) - 4 for log in logs)


# ------------------------------------------------------------------ what fails


def test_a_cut_log_is_exported_up_to_there(spark: SparkSession, tmp_path: Path) -> None:
    golden = golden_logs("mysql97/types_ints")[0]
    position = max(golden.row_positions)
    log = tmp_path / "bin.000001"
    log.write_bytes(golden.data[: position + 25])
    result = export_logs(log, tmp_path / "out", spark=spark)
    (split,) = result.splits
    assert split.end_position == position
    assert f"offset {position}" in (split.tail or "")
    assert manifest_of(tmp_path / "out")["logs"][0]["tail"] == split.tail


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


def test_no_binlog_at_all(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with pytest.raises(NotABinlogError):
        export_logs(tmp_path / "in", tmp_path / "out", spark=spark)
    (tmp_path / "in" / "x").write_bytes(b"\x00no binlog, that is for sure")
    with pytest.raises(NotABinlogError) as caught:
        export_logs(tmp_path / "in" / "x", tmp_path / "out", spark=spark)
    assert caught.value.path == str(tmp_path / "in" / "x")
    assert leftovers(tmp_path / "out") == ["in"]


def test_a_log_that_is_gone_when_it_is_read(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = str(tmp_path / "bin.000001")
    monkeypatch.setattr(export_module, "plan_splits", lambda *_, **__: [Split(gone, file_number=1)])
    with pytest.raises(BinlogError) as caught:
        export_logs(gone, tmp_path / "out", spark=spark)
    assert caught.value.path == gone
    assert leftovers(tmp_path / "out") == []


def test_an_output_that_exists(spark: SparkSession, tmp_path: Path) -> None:
    log = write_log(tmp_path / "in" / "bin.000001", (Table("d", "t", [("id", "INT")]), [{"id": 1}]))
    output = tmp_path / "out"
    output.mkdir()  # an empty directory is as good as none
    export_logs(log, output, spark=spark)
    before = files_of(output)
    with pytest.raises(BinlogError, match="exists"):
        export_logs(log, output, spark=spark)
    assert files_of(output) == before
    # A failing run leaves the earlier export alone, one that succeeds replaces all of it.
    bad = tmp_path / "in" / "bin.000002"
    bad.write_bytes(log.read_bytes()[:-30] + bytes(30))
    with pytest.raises(DecodeError):
        export_logs(bad, output, spark=spark, overwrite=True)
    assert files_of(output) == before
    other = write_log(tmp_path / "in" / "bin.000003", (Table("d", "u", [("id", "INT")]), [{"id": 1}]))
    export_logs(other, output, spark=spark, overwrite=True)
    assert {name.partition("/")[0] for name in files_of(output)} == {"_manifest.json", "d.u"}
    assert sorted(leftovers(output)) == ["in"]


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


def test_what_is_no_export_is_never_overwritten(spark: SparkSession, tmp_path: Path) -> None:
    log = write_log(tmp_path / "in" / "bin.000001")
    for output in (tmp_path, tmp_path / "in", log):
        with pytest.raises(BinlogError) as caught:
            export_logs(log, output, spark=spark, overwrite=True)
        assert caught.value.path == str(output)
    with pytest.raises(BinlogError):
        export_logs(log, log / "under-a-file", spark=spark)
    assert files_of(tmp_path) == {"in/bin.000001"}


def test_an_output_that_holds_the_logs(spark: SparkSession, tmp_path: Path) -> None:
    log = write_log(tmp_path / "in" / "bin.000001")
    (tmp_path / "in" / "_manifest.json").write_text('{"tables": [], "statements": []}')
    with pytest.raises(BinlogError, match="holds the log"):
        export_logs(log, tmp_path / "in", spark=spark, overwrite=True)
    assert log.exists()


class FailingOnce(export_module.SplitWriter):
    """Fails after all is written, the first time."""

    def write(self, split: Split, attempt: str) -> Any:
        result = super().write(split, attempt)
        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber() == 0:
            raise RuntimeError("injected")
        return result


class KilledOnce(export_module.SplitWriter):
    """Its process is killed while files are open, the first time."""

    def write(self, split: Split, attempt: str) -> Any:
        context = TaskContext.get()
        assert context is not None
        result = super().write(split, attempt)
        if context.attemptNumber() == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return result


@pytest.mark.parametrize("failing", [FailingOnce, KilledOnce])
def test_what_a_failed_attempt_wrote_is_not_in_the_output(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: type
) -> None:
    logs = golden_logs("mysql97/types_[is]*")
    monkeypatch.setattr(export_module, "SplitWriter", failing)
    output = tmp_path / "out"
    export_logs([golden.path for golden in logs], output, spark=spark, options=POSITIONS)
    manifest = manifest_of(output)
    named = {
        f"{table['directory']}/{file['name']}" for table in manifest["tables"] for file in table["files"]
    }
    assert files_of(output) == {"_manifest.json", *named}
    hold(by_pyarrow(output, manifest), logs, manifest)
    assert leftovers(output) == []


class FailingAlways(export_module.SplitWriter):
    def write(self, split: Split, attempt: str) -> Any:
        super().write(split, attempt)
        raise RuntimeError("injected")


def test_a_job_that_fails_leaves_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_module, "SplitWriter", FailingAlways)
    golden = golden_logs("mysql97/types_ints")[0]
    with pytest.raises(BinlogError, match="injected"):
        export_logs(golden.path, tmp_path / "out", spark=spark)
    assert os.listdir(tmp_path) == []


def test_tables_that_cannot_be_decoded_are_told(spark: SparkSession, tmp_path: Path) -> None:
    good, bad = Table("d", "good", [("id", "INT")]), Table("d", "bad", [("id", "INT")])
    log = write_log(tmp_path / "bin.000001", (good, [{"id": 1}]), (bad, [{"id": 2}]))
    data = log.read_bytes()
    place = data.index(b"\x03bad\x00") + len(b"\x03bad\x00")
    assert data[place : place + 2] == b"\x01\x03"  # one column, LONG
    broken = Log("8.0.36", checksum=False)
    for table, code in ((good, 3), (bad, 99)):
        part = Log("8.0.36", checksum=False)
        part.begin()
        head = part.position
        part.insert(table, [{"id": 1}])
        part.commit()
        event = bytearray(part.getvalue()[head:])
        at = event.index(table.name.encode() + b"\x00") + len(table.name) + 1
        event[at + 1] = code
        broken.begin()
        broken.raw(bytes(event))
    log.write_bytes(broken.getvalue())
    result = export_logs(log, tmp_path / "out", spark=spark)
    assert [table.table for table in result.tables] == ["good"]
    assert result.counts["undecodable_tables"] == 1
    first = result.splits[0].first["undecodable_tables"]
    assert first.table == "d.bad"


def test_the_module_needs_no_library_to_be_imported() -> None:
    code = "import sys, binlog_core.spark; sys.exit(any(m in sys.modules for m in ('pyspark', 'pyarrow')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# ------------------------------------------------------------------ splits


def ids_of(output: Path, table: str) -> list[int]:
    """In log order."""
    rows = pq.read_table(sorted((output / table).iterdir())).sort_by(
        [("_commit_version", "ascending"), ("_change_ordinal", "ascending")]
    )
    found: list[int] = rows["id"].to_pylist()
    return found


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
    assert result.bytes == sum(split.bytes for split in result.splits)
    assert result.slowest is not None and result.skew >= 1
    assert result.reread == 0 and result.skipped_events == 0
    assert [log["end_position"] for log in manifest_of(output)["logs"]] == list(map(os.path.getsize, paths))
    assert all(log["splits"] > 1 for log in manifest_of(output)["logs"])


def test_a_transaction_larger_than_a_split_is_told(spark: SparkSession, tmp_path: Path) -> None:
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
    # Where the chain breaks off the worker meets damage and sees by itself; else the driver does.
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


# ------------------------------------------------------------------ runs and lakes


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


class FailingSecond(export_module.SplitWriter):
    """Writes all of a split and fails, for the second log, in every attempt."""

    def write(self, split: Split, attempt: str) -> Any:
        result = super().write(split, attempt)
        if split.file_number == 2:
            raise RuntimeError("injected")
        return result


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
    # Another run is appended; where a type changed, there is another table.
    tables = export_logs(logs[1:], output, spark=spark, format="delta", run_id="two").tables
    assert [Path(table.directory).name for table in tables] == ["d.t", "d.t.v2"]
    assert [row["id"] for row in rows(tables[0].directory)] == [0, 1, 2, 3, 4, 5, 5]
    assert [row["id"] for row in rows(tables[1].directory)] == [1 << 40]
    with pytest.raises(ValueError, match="overwrite"):
        export_logs(logs, output, spark=spark, format="delta", overwrite=True)


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


def test_statistics_tell_the_versions_of_commits(spark: SparkSession, tmp_path: Path) -> None:
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
    pytest.importorskip("pyiceberg")
    pytest.importorskip("sqlalchemy")
    from pyiceberg.catalog import load_catalog

    logs = evolving(tmp_path / "in")
    output = tmp_path / "data"
    catalog = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"file://{tmp_path}/warehouse",
    }

    def export(some: list[Path], run: str) -> Any:
        return export_logs(some, output, spark=spark, format="iceberg", run_id=run, catalog=catalog)

    def rows(name: str) -> list[dict[str, Any]]:
        found = (
            load_catalog("default", **catalog).load_table(name).scan().to_arrow().sort_by("id").to_pylist()
        )
        return list(found)

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
    # INT became BIGINT, which Iceberg promotes; a file of before goes into the wider table too.
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
        ({"split_size": 0}, "split_size=0"),
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


# ------------------------------------------------------------------ current state
