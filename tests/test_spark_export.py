"""The export job on a real local Spark: what comes out, and that nothing comes out of what fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.golden import Golden, golden_logs
from support.lake import LakeRow, lake_changes, lake_rows
from support.truth import Reader, differences
from support.writer import Log, Table

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

import pyarrow.parquet as pq  # noqa: E402
from pyspark import TaskContext, cloudpickle  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402

from binlog_core import BinlogError, DecodeError, EncryptionError, NotABinlogError, SchemaError  # noqa: E402
from binlog_core.spark import ReadOptions, Split, WriteLimits, export_logs  # noqa: E402
from binlog_core.spark import export as export_module  # noqa: E402
from binlog_core.spark.session import quiet_java, start_session  # noqa: E402

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


def by_pyarrow(output: Path, manifest: dict[str, Any]) -> list[LakeRow]:
    rows: list[LakeRow] = []
    for table in manifest["tables"]:
        for file in table["files"]:
            read = pq.ParquetFile(output / table["directory"] / file["name"]).read()
            assert read.num_rows == sum(file["rows"].values())
            rows += lake_rows(table["database"], table["table"], read.to_pylist())
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
            rows += lake_rows(table["database"], table["table"], frame.toArrow().to_pylist())
    return rows


def hold(rows: list[LakeRow], logs: list[Golden]) -> None:
    by_log: dict[int, list[LakeRow]] = {}
    for row in rows:
        by_log.setdefault(row.version >> 40, []).append(row)
    assert set(by_log) <= set(range(1, len(logs) + 1))
    for number, golden in enumerate(logs, start=1):
        changes = lake_changes(by_log.get(number, []), golden)
        found = differences(changes, golden, None, Reader.ARROW, place=False)
        assert found == [], golden


@pytest.mark.parametrize("server", ["mysql56", "mysql97", "maria1011", "maria118"])
def test_export_holds_against_the_server(spark: SparkSession, tmp_path: Path, server: str) -> None:
    logs = exportable(server)
    output = tmp_path / "out"
    result = export_logs([golden.path for golden in logs], output, spark=spark, options=POSITIONS)
    manifest = manifest_of(output)
    assert [log["path"] for log in manifest["logs"]] == [str(golden.path) for golden in logs]
    hold(by_pyarrow(output, manifest), logs)
    if server in ("mysql97", "maria118"):
        hold(by_spark(spark, output, manifest), logs)
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


def test_an_encrypted_log_with_its_key(spark: SparkSession, tmp_path: Path) -> None:
    (golden,) = golden_logs("mysql97/encrypted")
    output = tmp_path / "out"
    with pytest.raises(EncryptionError) as caught:
        export_logs(golden.path, output, spark=spark, options=POSITIONS)
    assert caught.value.path == str(golden.path)
    assert not output.exists()
    export_logs(golden.path, output, spark=spark, options=ReadOptions(unnamed="positions", keys=golden.keys))
    hold(by_pyarrow(output, manifest_of(output)), [golden])


def test_a_schema_file_is_read_by_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    golden = golden_logs("mysql97/meta_minimal")[0]
    with pytest.raises(SchemaError, match="names"):
        export_logs(golden.path, tmp_path / "out", spark=spark)
    export_logs(golden.path, tmp_path / "out", spark=spark, options=ReadOptions(schema=golden.schema))
    names = {
        (table["database"], table["table"]): [
            column["name"] for column in table["versions"][0]["columns"][:-4]
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
    assert first.column_names[:-4] == ["id"]
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


def test_different_names_have_different_directories() -> None:
    from binlog_core.spark.destination import directory_name

    names = ["a", "a.b", "b", "", ".", "a%2Eb", "ж" * 64, "ж" * 63 + "е", "_a", "%5Fa", "a~b", "A"]
    directories = {directory_name(database, table) for database in names for table in names}
    assert len(directories) == len(names) ** 2


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


def test_progress_is_told(spark: SparkSession, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    logs = [golden.path for golden in golden_logs("mysql97/types_*")]
    export_logs(logs, tmp_path / "out", spark=spark, progress=lambda done, total: told.append((done, total)))
    assert told[0] == (0, len(logs))
    assert told[-1] == (len(logs), len(logs))
    assert told == sorted(told)


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
    monkeypatch.setattr(export_module, "plan_splits", lambda logs, **_: [Split(gone, file_number=1)])
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
    (tmp_path / "in" / "_manifest.json").write_text("{}")
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
    hold(by_pyarrow(output, manifest), logs)
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
