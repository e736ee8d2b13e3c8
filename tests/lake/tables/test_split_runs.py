"""Exports whose splits a runner writes: on threads, without Spark and Java."""

from __future__ import annotations

import datetime as dt
import os
import struct
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.export import written
from support.failing import FailingAlways
from support.forged import UUID, log_with_forgery, transactions
from support.golden import golden_logs
from support.lake_forms import IcebergForm
from support.outputs import (
    POSITIONS,
    by_pyarrow,
    evolving,
    exportable,
    files_named,
    files_of,
    hold,
    ids_of,
    leftovers,
    manifest_of,
    write_log,
)
from support.writer import Log, Table

pa = pytest.importorskip("pyarrow")

import pyarrow.parquet as pq  # noqa: E402

from binlog_core import BinlogError, ChecksumError, DecodeError, NotABinlogError, SchemaError  # noqa: E402
from binlog_core.lake.rows.source_options import SourceOptions  # noqa: E402
from binlog_core.lake.runner import LocalRunner, is_given_up  # noqa: E402
from binlog_core.lake.tables.results import WrittenSplit  # noqa: E402
from binlog_core.lake.tables.split_runs import Progress, in_order, in_rounds  # noqa: E402
from binlog_core.lake.tables.split_writer import SplitWriter  # noqa: E402
from binlog_core.lake.tables.tables import DeltaTables  # noqa: E402
from binlog_core.spark import ReadOptions, WriteLimits, export_logs, plan_splits  # noqa: E402
from binlog_core.spark import export as export_module  # noqa: E402
from binlog_core.splits import Split, SplitResult, read_split_groups  # noqa: E402

THREADS = LocalRunner(2)


@pytest.mark.parametrize("split_size", [None, 4000])
@pytest.mark.parametrize("server", ["mysql56", "mysql97", "maria1011", "maria118"])
def test_export_holds_against_the_server(tmp_path: Path, server: str, split_size: int | None) -> None:
    logs = exportable(server)
    output = tmp_path / "out"
    paths = [golden.path for golden in logs]
    result = export_logs(paths, output, runner=THREADS, options=POSITIONS, split_size=split_size)
    manifest = manifest_of(output)
    assert [log["path"] for log in manifest["logs"]] == list(map(str, paths))
    hold(by_pyarrow(output, manifest), logs, manifest)
    # The report of the result is right, too.
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
        files = list(Path(table.directory).iterdir())
        assert len(files) == table.files
        assert sum(path.stat().st_size for path in files) == table.bytes
    assert {(row["db"], row["table"]) for golden in logs for row in golden.truth} == set(told)
    assert files_of(output) == {"_manifest.json", *files_named(manifest)}
    assert leftovers(output) == []


def test_it_needs_neither_pyspark_nor_java(tmp_path: Path) -> None:
    golden = golden_logs("mysql97/dml_mixed")[0]
    code = (
        "import sys; sys.modules['pyspark'] = None\n"
        "from binlog_core.lake.runner import LocalRunner\n"
        "from binlog_core.spark import export_logs\n"
        "print(export_logs(sys.argv[1], sys.argv[2], runner=LocalRunner(2)).rows)"
    )
    command = [sys.executable, "-c", code, str(golden.path), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) > 0


def test_xa_transactions_as_of_their_commit(tmp_path: Path) -> None:
    """Rows that were rolled back are not there; the others are at XA COMMIT."""
    [golden] = golden_logs("maria118/xa")
    kept = [truth for truth in golden.truth if truth.get("xa_end") != "rollback"]
    assert 0 < len(kept) < len(golden.truth)
    found = {}
    for xa in ("prepared", "committed"):
        given: Any = {"split_size": 500, "xa": xa}
        export_logs(golden.path, tmp_path / xa, runner=THREADS, options=POSITIONS, **given)
        rows = by_pyarrow(tmp_path / xa, manifest_of(tmp_path / xa))
        found[xa] = {row.version for row in rows}
        changes = sum(row.kind != "update_preimage" for row in rows)
        assert changes == len(golden.truth if xa == "prepared" else kept)
    assert found["committed"] - found["prepared"]  # of XA COMMIT


def test_a_schema_file(tmp_path: Path) -> None:
    golden = golden_logs("mysql97/meta_minimal")[0]
    with pytest.raises(SchemaError, match="names"):
        export_logs(golden.path, tmp_path / "out", runner=THREADS)
    export_logs(golden.path, tmp_path / "out", runner=THREADS, options=ReadOptions(schema=golden.schema))


def test_a_session_and_a_runner(tmp_path: Path) -> None:
    session: Any = object()
    with pytest.raises(ValueError, match="spark cannot be combined with runner"):
        export_logs(tmp_path, tmp_path / "out", spark=session, runner=THREADS)
    with pytest.raises(ValueError, match="master cannot be combined with runner"):
        export_logs(tmp_path, tmp_path / "out", master="local[2]", runner=THREADS)
    with pytest.raises(ValueError, match="master cannot be combined with spark"):
        export_logs(tmp_path, tmp_path / "out", master="local[2]", spark=session)


# ------------------------------------------------------------ splits and their runs


def test_a_split_that_was_deceived_is_read_again_from_its_true_anchor() -> None:
    first, second = Split("a", 0, 100, 1, 0), Split("a", 100, None, 1, 1)
    asked: list[list[Split]] = []

    def write(splits: list[Split]) -> list[WrittenSplit]:
        asked.append(splits)
        return [
            written(
                one, SplitResult(one, 4, 180) if one.index == 0 else SplitResult(one, one.anchor or 150, None)
            )
            for one in splits
        ]

    found, reread = in_rounds(write, [first, second], [])
    assert asked == [[first, second], [replace(second, anchor=180, trusted=True)]]
    assert reread == 1
    assert found[1].seam.first_anchor == 180
    told: list[Progress] = []
    results = in_order(dict(reversed(found.items())), told.append)
    assert [one.split.index for one in results] == [0, 1]
    assert told == [Progress(2, 2, 200, 6)]


def test_progress_is_reported(tmp_path: Path) -> None:
    told: list[Progress] = []
    logs = [golden.path for golden in golden_logs("mysql97/types_*")]
    result = export_logs(logs, tmp_path / "out", runner=THREADS, progress=told.append, split_size=None)
    splits = [one for one in told if one.stage == "splits"]
    assert told[0] == Progress(0, len(logs))
    assert splits[-1] == Progress(len(logs), len(logs), result.log_bytes, result.rows)
    assert [one.done for one in splits] == list(range(len(logs) + 1))
    assert told == sorted(told, key=lambda one: (one.stage, one.log_bytes, one.rows))
    tables = told[len(splits) :]
    count = tables[0].total
    assert count > 0
    assert tables == [
        Progress(done, count, result.log_bytes, result.rows, "tables") for done in range(count + 1)
    ]


def test_tasks_that_write_tables_are_counted_one_by_one(tmp_path: Path) -> None:
    log = Log("8.0.36")
    for i in range(9):
        table = Table("shop", f"t{i}", [("id", "INT")], primary_key=["id"])
        log.begin()
        log.insert(table, [{"id": i}])
        log.commit()
    (tmp_path / "bin.000001").write_bytes(log.getvalue())
    told: list[Progress] = []
    few = WriteLimits(open_files=2)
    result = export_logs(
        tmp_path / "bin.000001",
        tmp_path / "out",
        runner=THREADS,
        progress=told.append,
        split_size=300,
        limits=few,
    )
    assert len(result.tables) == 9 and len(result.splits) > 3
    tables = [one for one in told if one.stage == "tables"]
    assert [(one.done, one.total) for one in tables] == [(done, 5) for done in range(6)]


def test_who_hears_of_the_progress_may_end_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread keeps writing, and nothing is left."""
    begun, ended = threading.Event(), threading.Event()

    class Endless(SplitWriter):
        def write(self, split: Split, attempt: str) -> Any:
            if split.index == 1:
                begun.set()
                while not is_given_up():
                    ended.wait(0.01)
                ended.set()
            begun.wait(60)  # or it may be left out before it begins
            return super().write(split, attempt)

    def stop(one: Progress) -> None:
        if one.done:
            raise KeyboardInterrupt

    monkeypatch.setattr(export_module, "SplitWriter", Endless)
    logs = [golden.path for golden in golden_logs("mysql97/types_[is]*")]
    with pytest.raises(KeyboardInterrupt):
        export_logs(logs, tmp_path / "out", runner=THREADS, progress=stop, split_size=None)
    assert ended.is_set()
    assert os.listdir(tmp_path) == []


def test_an_error_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_module, "SplitWriter", FailingAlways)
    golden = golden_logs("mysql97/types_ints")[0]
    with pytest.raises(RuntimeError, match="injected"):
        export_logs(golden.path, tmp_path / "out", runner=THREADS)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("closing", [False, True])
def test_forged_transactions_in_a_blob_are_not_exported(tmp_path: Path, closing: bool) -> None:
    data, forged = log_with_forgery(closing)
    path = tmp_path / "bin.000001"
    path.write_bytes(data)
    size = len(data) // 9
    deceived = []
    for split in plan_splits(path, size):
        with read_split_groups(split) as reader:
            deceived.append(reader.first_anchor in forged)
    assert any(deceived), "no split began inside the forgery: the test shows nothing"
    result = export_logs(path, tmp_path / "out", runner=THREADS, split_size=size)
    # Where the chain of events breaks, the writer notices the damage; otherwise the seams show it.
    assert result.reread > 0 or not closing
    assert ids_of(tmp_path / "out", "shop.orders") == list(range(1, 9))
    assert leftovers(tmp_path / "out") == ["bin.000001"]


def test_row_groups_are_large_and_memory_is_bounded(tmp_path: Path) -> None:
    tables = [Table("d", f"t{i}", [("id", "INT")]) for i in range(20)]
    log = write_log(
        tmp_path / "bin.000001",
        *((table, [{"id": i} for i in range(500)]) for _ in range(10) for table in tables),
    )
    output = tmp_path / "whole" / "out"
    output.parent.mkdir()
    export_logs(log, output, runner=THREADS)
    for table in tables:
        (file,) = (output / f"d.{table.name}").iterdir()
        assert pq.ParquetFile(file).num_row_groups == 1
    # With room for little, the rows are the same in more row groups and files.
    limits = WriteLimits(row_group_rows=1000, pending_bytes=50_000, open_files=3)
    small = tmp_path / "small" / "out"
    small.parent.mkdir()
    result = export_logs(log, small, runner=THREADS, limits=limits)
    assert max(table.files for table in result.tables) > 1
    for table in tables:
        rows = pq.read_table(sorted((small / f"d.{table.name}").iterdir()))
        assert sorted(rows["id"].to_pylist()) == sorted(list(range(500)) * 10)
    names = [file["name"] for table in manifest_of(small)["tables"] for file in table["files"]]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    "name", ["../../x", "..", "/etc", "a.b", "_hidden", "ж" * 64, "a%2Fb", "ab\n", "x~y", "CON:", ""]
)
def test_names_never_lead_out_of_the_output(tmp_path: Path, name: str) -> None:
    table = Table(name, name, [("id", "INT")])
    log = write_log(tmp_path / "bin.000001", (table, [{"id": 1}]))
    output = tmp_path / "a" / "b" / "out"
    output.parent.mkdir(parents=True)
    (found,) = export_logs(log, output, runner=THREADS).tables
    assert (found.database, found.table) == (name, name)
    (directory,) = (path for path in output.iterdir() if path.is_dir())
    assert str(directory) == found.directory
    assert directory.name.isascii()
    assert directory.name[0] not in "._"
    assert len(directory.name) <= 200
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == sorted(
        ["bin.000001", "_manifest.json", *(path.name for path in directory.iterdir())]
    )
    assert pq.read_table(found.directory)["id"].to_pylist() == [1]


def test_no_row_changes(tmp_path: Path) -> None:
    write_log(tmp_path / "in" / "bin.000001")
    result = export_logs(tmp_path / "in", tmp_path / "out", runner=THREADS)
    assert result.tables == []
    assert files_of(tmp_path / "out") == {"_manifest.json"}


def test_tables_selected(tmp_path: Path) -> None:
    a, b = Table("d", "a", [("id", "INT")]), Table("d", "b", [("id", "INT")])
    log = write_log(tmp_path / "bin.000001", (a, [{"id": 1}]), (b, [{"id": 2}]))
    result = export_logs(log, tmp_path / "out", runner=THREADS, options=ReadOptions(tables=("d.b",)))
    assert [table.table for table in result.tables] == ["b"]


def test_a_table_with_a_name_of_ours_is_left_out(tmp_path: Path) -> None:
    a, b = Table("d", "a", [("_absent", "INT")]), Table("d", "b", [("id", "INT")])
    log = write_log(tmp_path / "bin.000001", (a, [{"_absent": 1}]), (b, [{"id": 2}]))
    with pytest.raises(SchemaError, match="_absent"):
        export_logs(log, tmp_path / "out", runner=THREADS)
    options = ReadOptions(exclude_tables=("d.a",), schema="ddl")
    result = export_logs(log, tmp_path / "out", runner=THREADS, options=options)
    assert [table.table for table in result.tables] == ["b"]
    assert not SourceOptions.parse({"excludeTables": "d.a, x.*"}).wants("d.a")
    assert SourceOptions.parse({"excludeTables": "d.a, x.*"}).wants("d.b")
    with pytest.raises(ValueError, match="excludeTables"):
        SourceOptions.parse({"table": "d.b", "excludeTables": "d.a"})


def test_a_cut_log_is_exported_up_to_there(tmp_path: Path) -> None:
    golden = golden_logs("mysql97/types_ints")[0]
    position = max(golden.row_positions)
    log = tmp_path / "bin.000001"
    log.write_bytes(golden.data[: position + 25])
    result = export_logs(log, tmp_path / "out", runner=THREADS)
    (split,) = result.splits
    assert split.end_position == position
    assert f"offset {position}" in (split.tail or "")
    assert manifest_of(tmp_path / "out")["logs"][0]["tail"] == split.tail


def test_no_binlog_at_all(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with pytest.raises(NotABinlogError):
        export_logs(tmp_path / "in", tmp_path / "out", runner=THREADS)
    (tmp_path / "in" / "x").write_bytes(b"\x00no binlog, that is for sure")
    with pytest.raises(NotABinlogError) as caught:
        export_logs(tmp_path / "in" / "x", tmp_path / "out", runner=THREADS)
    assert caught.value.path == str(tmp_path / "in" / "x")
    assert leftovers(tmp_path / "out") == ["in"]


def test_an_output_that_exists(tmp_path: Path) -> None:
    log = write_log(tmp_path / "in" / "bin.000001", (Table("d", "t", [("id", "INT")]), [{"id": 1}]))
    output = tmp_path / "out"
    output.mkdir()  # an empty directory counts as none
    export_logs(log, output, runner=THREADS)
    before = files_of(output)
    with pytest.raises(BinlogError, match="exists"):
        export_logs(log, output, runner=THREADS)
    assert files_of(output) == before
    # A failing run leaves the earlier export alone, one that succeeds replaces all of it.
    bad = tmp_path / "in" / "bin.000002"
    bad.write_bytes(log.read_bytes()[:-30] + bytes(30))
    with pytest.raises(DecodeError):
        export_logs(bad, output, runner=THREADS, overwrite=True)
    assert files_of(output) == before
    other = write_log(tmp_path / "in" / "bin.000003", (Table("d", "u", [("id", "INT")]), [{"id": 1}]))
    export_logs(other, output, runner=THREADS, overwrite=True)
    assert {name.partition("/")[0] for name in files_of(output)} == {"_manifest.json", "d.u"}
    assert sorted(leftovers(output)) == ["in"]


def test_what_is_not_an_export_is_never_overwritten(tmp_path: Path) -> None:
    log = write_log(tmp_path / "in" / "bin.000001")
    for output in (tmp_path, tmp_path / "in", log):
        with pytest.raises(BinlogError) as caught:
            export_logs(log, output, runner=THREADS, overwrite=True)
        assert caught.value.path == str(output)
    with pytest.raises(BinlogError):
        export_logs(log, log / "under-a-file", runner=THREADS)
    assert files_of(tmp_path) == {"in/bin.000001"}


def test_an_output_that_holds_the_logs(tmp_path: Path) -> None:
    log = write_log(tmp_path / "in" / "bin.000001")
    (tmp_path / "in" / "_manifest.json").write_text('{"tables": [], "statements": []}')
    with pytest.raises(BinlogError, match=r"has bin\.000001, which the earlier export did not write"):
        export_logs(log, tmp_path / "in", runner=THREADS, overwrite=True)
    with pytest.raises(BinlogError, match="contains the log"):
        export_logs(log, tmp_path / "in", runner=THREADS, format="delta")
    assert log.exists()


def test_sizes_that_are_none(tmp_path: Path) -> None:
    log = write_log(tmp_path / "in" / "bin.000001")
    for name in ("file_size", "split_size"):
        with pytest.raises(ValueError, match=f"{name}=-1: expected bytes, or 0 "):
            export_logs(log, tmp_path / "out", **{name: -1})  # type: ignore[arg-type]
    assert leftovers(tmp_path / "out") == ["in"]


def test_tables_that_cannot_be_decoded_are_reported(tmp_path: Path) -> None:
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
    result = export_logs(log, tmp_path / "out", runner=THREADS)
    assert [table.table for table in result.tables] == ["good"]
    assert result.counts["undecodable_tables"] == 1
    first = result.splits[0].first["undecodable_tables"]
    assert first.table == "d.bad"


def test_a_run_is_written_once(tmp_path: Path) -> None:
    log = write_log(tmp_path / "in" / "bin.000001", (Table("d", "t", [("id", "INT")]), [{"id": 1}]))
    output = tmp_path / "out"
    first = export_logs(log, output, runner=THREADS, run_id="nightly/1")
    before = files_of(output)
    again = export_logs(log, output, runner=THREADS, run_id="nightly/1")
    assert again.repeated and not first.repeated
    assert [(t.table, t.rows, t.bytes) for t in again.tables] == [
        (t.table, t.rows, t.bytes) for t in first.tables
    ]
    assert files_of(output) == before
    with pytest.raises(BinlogError, match="exists"):
        export_logs(log, output, runner=THREADS, run_id="nightly/2")


def test_delta_tables_of_any_name(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    names = ["order lines", "größe", "100%", "a%20b", "a#b?c", "Orders", "orders", "z"]
    tables = [(Table("d", name, [("id", "INT")]), [{"id": i}]) for i, name in enumerate(names)]
    log = write_log(tmp_path / "in" / "bin.000001", *tables)
    found = export_logs(log, tmp_path / "my lake", runner=THREADS, format="delta").tables
    assert {table.table: ids_of_delta(deltalake, table.directory) for table in found} == {
        name: [i] for i, name in enumerate(names)
    }
    with pytest.raises(BinlogError, match="path with a %"):
        export_logs(log, tmp_path / "50%", runner=THREADS, format="delta")


def ids_of_delta(deltalake: Any, directory: str) -> list[int]:
    return sorted(pa.table(deltalake.DeltaTable(directory).to_pyarrow_table())["id"].to_pylist())


def test_a_table_that_cannot_be_committed_holds_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
            export_logs(log, output, runner=THREADS, format="delta", run_id="one")
    assert caught.value.table == "d.a"
    assert [ids_of_delta(deltalake, str(output / f"d.{name}")) for name in "bc"] == [[1], [2]]
    # The run can be repeated: it writes what is missing, and nothing twice.
    assert not export_logs(log, output, runner=THREADS, format="delta", run_id="one").repeated
    assert [ids_of_delta(deltalake, str(output / f"d.{name}")) for name in "abc"] == [[0], [1], [2]]


def test_statistics_have_the_versions_of_commits(tmp_path: Path) -> None:
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
    (found,) = export_logs(path, tmp_path / "lake", runner=THREADS, format="delta", xa="committed").tables
    delta = deltalake.DeltaTable(found.directory)
    rows = pa.table(delta.to_pyarrow_table()).to_pylist()
    assert [row["id"] for row in sorted(rows, key=lambda row: row["_commit_version"])] == [2, 1]
    for row in rows:
        wanted = [("_commit_version", "=", row["_commit_version"])]
        assert [one["id"] for one in delta.to_pyarrow_table(filters=wanted).to_pylist()] == [row["id"]]
    export_logs(path, tmp_path / "out", runner=THREADS, xa="committed")
    (file,) = manifest_of(tmp_path / "out")["tables"][0]["files"]
    assert file["last_version"] == max(row["_commit_version"] for row in rows)


def test_iceberg_tables(tmp_path: Path) -> None:
    form = IcebergForm(tmp_path)
    logs = evolving(tmp_path / "in")
    output = tmp_path / "data"
    catalog = {**form.catalog, "warehouse": f"file://{tmp_path}/warehouse"}

    def export(some: list[Path], run: str) -> Any:
        return export_logs(some, output, runner=THREADS, format="iceberg", run_id=run, catalog=catalog)

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
        export_logs(logs, output, runner=THREADS, format="iceberg", catalog={"type": "none"})


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"format": "orc"}, "format='orc'"),
        ({"split_size": -1}, "split_size=-1"),
        ({"compression": "best"}, "best"),
    ],
)
def test_wrong_options(tmp_path: Path, wrong: dict[str, Any], message: str) -> None:
    log = write_log(tmp_path / "in" / "bin.000001", (Table("d", "t", [("id", "INT")]), [{"id": 1}]))
    with pytest.raises((ValueError, BinlogError), match=message):
        export_logs(log, tmp_path / "out", runner=THREADS, **wrong)
    assert os.listdir(tmp_path) == ["in"]


def test_a_table_that_no_log_has_is_named(tmp_path: Path) -> None:
    log = write_log(tmp_path / "in" / "bin.000001", (Table("d", "t", [("id", "INT")]), [{"id": 1}]))
    wanted = ReadOptions(tables=("d.missing", "d.t"))
    result = export_logs(log, tmp_path / "out", runner=THREADS, options=wanted)
    assert result.missing == ("d.missing",)
    assert [table.table for table in result.tables] == ["t"]


def test_a_transaction_larger_than_a_split_is_reported(tmp_path: Path) -> None:
    log = Log("8.0.36")
    transactions(log, count=3)
    transactions(log, count=1, body=9000)
    transactions(log, count=3)
    path = tmp_path / "bin.000001"
    path.write_bytes(log.getvalue())
    result = export_logs(path, tmp_path / "out", runner=THREADS, split_size=1500)
    (long,) = result.long_transactions
    assert 7000 < long.overrun < 9500
    assert long.seam.next_anchor == long.end_position
    assert [s for s in result.splits if s.seam.first_anchor is None]  # those that lie inside it
    assert len(ids_of(tmp_path / "out", "shop.orders")) == 7


def test_damage_in_the_middle_of_a_split_log(tmp_path: Path) -> None:
    log = Log("8.0.36")
    transactions(log, count=40)
    data = bytearray(log.getvalue())
    place = data.index(bytes([21]) * 300)  # of the BLOB of the 21st row
    data[place + 5] ^= 0xFF
    path = tmp_path / "bin.000001"
    path.write_bytes(data)
    with pytest.raises(ChecksumError) as caught:
        export_logs(path, tmp_path / "out", runner=THREADS, split_size=2000)
    assert caught.value.path == str(path)
    assert caught.value.offset is not None and place - 100 < caught.value.offset < place
    assert str(caught.value.offset) in str(caught.value)
    assert leftovers(tmp_path / "out") == ["bin.000001"]
    skipping = ReadOptions(on_error="skip")
    result = export_logs(path, tmp_path / "out", runner=THREADS, split_size=2000, options=skipping)
    assert result.skipped_events == 1
    (told,) = manifest_of(tmp_path / "out")["logs"][0]["damaged"]
    assert told["offset"] == caught.value.offset
    assert ids_of(tmp_path / "out", "shop.orders") == [i for i in range(1, 41) if i != 21]


@pytest.mark.parametrize(
    "name", ["mysql97/image_minimal", "maria118/image_noblob", "maria118/image_full_nodup"]
)
def test_partial_images_say_what_they_lack(tmp_path: Path, name: str) -> None:
    found = golden_logs(name)
    if not found:
        pytest.skip(f"no log {name}")
    (golden,) = found
    output = tmp_path / "out"
    options = ReadOptions(unnamed="positions", schema=golden.schema)
    result = export_logs(golden.path, output, runner=THREADS, options=options, split_size=4000)
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
