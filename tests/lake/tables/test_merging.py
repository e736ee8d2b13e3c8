"""The second stage of an export: tables of many splits, in files of the size asked for."""

from __future__ import annotations

import errno
import json
import os
import pickle
import random
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

pa = pytest.importorskip("pyarrow")

import numpy as np  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from support.exported import export  # noqa: E402
from support.outputs import files_named, files_of, leftovers, manifest_of  # noqa: E402
from support.writer import Log, Table  # noqa: E402

from binlog_core import BinlogError  # noqa: E402
from binlog_core.inspect.history import history  # noqa: E402
from binlog_core.lake.rows.read_options import ReadOptions  # noqa: E402
from binlog_core.lake.runner import HERE, LocalRunner, is_given_up  # noqa: E402
from binlog_core.lake.tables import merging  # noqa: E402
from binlog_core.lake.tables.destination import BUCKETS, bucket_of  # noqa: E402
from binlog_core.lake.tables.merging import TableTask, TableWriter  # noqa: E402
from binlog_core.lake.tables.parquet import ParquetDirectory  # noqa: E402
from binlog_core.lake.tables.results import WrittenSplit  # noqa: E402
from binlog_core.lake.tables.split_writer import SplitWriter  # noqa: E402
from binlog_core.lake.tables.staged import PLACED, StagedWriter  # noqa: E402
from binlog_core.lake.tables.tables import DeltaTables  # noqa: E402
from binlog_core.lake.tables.writer import WriteLimits  # noqa: E402
from binlog_core.splits import plan_splits  # noqa: E402

ALL = (0, BUCKETS, 1 << 40)  # what one worker divides


def table(name: str, *more: tuple[str, str]) -> Table:
    return Table("shop", name, [("id", "INT"), ("text", "VARCHAR(200)"), *more], primary_key=["id"])


def write_logs(folder: Path, count: int, names: list[str], rows: int, seed: int = 1) -> dict[str, list[int]]:
    """Logs with rows of some of the tables, in a random order; the ids of each table, in their order."""
    folder.mkdir()
    chance, written = random.Random(seed), dict[str, list[int]]()
    for number in range(1, count + 1):
        log = Log("8.0.36")
        for name in chance.sample(names, chance.randint(1, len(names))):
            ids = [len(written.setdefault(name, [])) + i for i in range(chance.randint(1, rows))]
            log.begin()
            log.insert(table(name), [{"id": i, "text": f"{chance.getrandbits(320):x}"} for i in ids])
            log.commit()
            written[name] += ids
        (folder / f"bin.{number:06}").write_bytes(log.getvalue())
    return written


def read(output: Path) -> dict[str, list[int]]:
    """The ids of each table, in the order of the manifest's files and of the rows in them."""
    found: dict[str, list[int]] = {}
    for one in manifest_of(output)["tables"]:
        for file in one["files"]:
            rows = pq.read_table(output / one["directory"] / file["name"], partitioning=None)
            assert rows.num_rows == sum(file["rows"].values())
            found.setdefault(one["table"], []).extend(rows["id"].to_pylist())
    return found


def stage(logs: Path, into: ParquetDirectory, attempt: str = "a0", **options: Any) -> list[WrittenSplit]:
    reading = ReadOptions(absent=True, statements=True)
    writer = SplitWriter(into.staging, reading, prefix=into.prefix, parts=StagedWriter, **options)
    return [writer.write(split, attempt) for split in plan_splits(logs)]


def test_nobody_waits_for_a_task_any_more(tmp_path: Path) -> None:
    """As after Ctrl-C, or when another task fails: it ends with its next rows, and leaves nothing."""
    write_logs(tmp_path / "in", 3, ["a"], 9)
    into = ParquetDirectory(str(tmp_path / "out"), "run")
    into.begin()
    splits, both = stage(tmp_path / "in", into), threading.Barrier(2, timeout=60)
    TableWriter(into.staging).merged(splits, HERE, HERE)
    (task,) = TableWriter(into.staging).divide(ALL)
    before = files_of(Path(into.staging))

    def write(number: int) -> None:
        both.wait()
        if number:
            raise ValueError("the other one")
        while not is_given_up():
            time.sleep(0.01)
        TableWriter(into.staging).write((7, task))

    with pytest.raises(ValueError, match="the other one"):
        list(LocalRunner(2).each(write, [0, 1]))
    assert files_of(Path(into.staging)) == before
    into.abort()


@pytest.mark.parametrize("seed", range(4))
def test_each_table_has_one_file_with_its_rows_in_order(tmp_path: Path, seed: int) -> None:
    names = [f"t{i}" for i in range(20)]
    written = write_logs(tmp_path / "in", 12, names, 5, seed)
    output = export(tmp_path / "in", tmp_path / "out", staged=True)
    assert read(output) == written
    manifest = manifest_of(output)
    assert {len(one["files"]) for one in manifest["tables"]} == {1}
    assert [one["table"] for one in manifest["tables"]] == sorted(written)
    assert [one["table"] for one in manifest["definitions"]] == sorted(written)
    assert leftovers(output) == ["in"]
    assert not [name for name in files_of(output) if not name.endswith((".parquet", "_manifest.json"))]


def test_the_manifest_is_that_of_one_stage(tmp_path: Path) -> None:
    """Except for what is about files."""
    write_logs(tmp_path / "in", 5, ["a", "B", "c"], 9)
    one, two = (
        manifest_of(export(tmp_path / "in", tmp_path / f"out{staged}", staged=staged))
        for staged in (False, True)
    )
    for manifest in (one, two):
        del manifest["written"]
        for entry in manifest["tables"]:
            del entry["files"]
    assert one == two


@pytest.mark.parametrize("names", [["large"], ["large", "small"], [f"t{i}" for i in range(9)]])
def test_files_have_the_size_asked_for(
    tmp_path: Path, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging, "_LEAST_TASK_BYTES", 1)
    written = write_logs(tmp_path / "in", 30, names, 700)
    size = 40_000
    output = export(tmp_path / "in", tmp_path / "out", staged=True, file_size=size)
    assert read(output) == written
    counts = []
    for one in manifest_of(output)["tables"]:
        sizes = [file["bytes"] for file in one["files"]]
        assert sizes == [(output / one["directory"] / file["name"]).stat().st_size for file in one["files"]]
        assert len(sizes) <= sum(sizes) / size + 2
        assert max(sizes) < 4 * size
        counts.append(len(sizes))
    assert max(counts) > 3


def test_files_of_a_table_whose_first_rows_are_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parquet takes more for each of few rows of many columns: they do not tell how many files there are."""
    (tmp_path / "in").mkdir()
    names = [f"c{i}" for i in range(20)]
    kind, size = table("t", *((name, "INT") for name in names)), 5_000
    for number in range(1, 25):
        log = Log("8.0.36")
        log.begin()
        count = 1 if number == 1 else 150
        log.insert(kind, [{"id": i, "text": "", **dict.fromkeys(names, i & 1)} for i in range(count)])
        log.commit()
        (tmp_path / "in" / f"bin.{number:06}").write_bytes(log.getvalue())
    counts = []
    for least in (1 << 20, 1):  # one task, and as many as there are files
        monkeypatch.setattr(merging, "_LEAST_TASK_BYTES", least)
        output = export(tmp_path / "in", tmp_path / f"out{least}", staged=True, file_size=size)
        (told,) = manifest_of(output)["tables"]
        counts.append(len(told["files"]))
    assert 2 < counts[0] <= counts[1] < counts[0] * 1.5


def test_a_large_table_is_divided_among_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "_LEAST_TASK_BYTES", 1)
    write_logs(tmp_path / "in", 30, ["large", "small"], 700)
    into = ParquetDirectory(str(tmp_path / "out"), "run")
    into.begin()
    staged, tasks = stage(tmp_path / "in", into), list[TableTask]()
    writer = TableWriter(into.staging, file_size=40_000)

    class Dividing(TableWriter):
        def write(self, task: Any) -> Any:
            tasks.append(task[1])
            return super().write(task)

    assert list(Dividing(**vars(writer)).merged(staged, HERE, HERE) or ())
    plan = np.fromfile(f"{into.staging}/{tasks[0].plan}", PLACED)
    assert [0, *(one.last for one in tasks)] == [*(one.first for one in tasks), len(plan)]
    tables = [set(plan["bucket"][one.first : one.last].tolist()) for one in tasks]
    assert tables.count({bucket_of("shop", "large")}) > 2
    assert all(len(one) == 1 for one in tables)
    into.abort()


def test_tasks_grow_before_they_are_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests to a store grow with tasks times splits."""
    monkeypatch.setattr(merging, "_LEAST_TASK_BYTES", 1)
    monkeypatch.setattr(merging, "_TASKS", 3)
    written = write_logs(tmp_path / "in", 20, ["a", "b"], 200)
    into = ParquetDirectory(str(tmp_path / "out"), "run")
    into.begin()
    results, told = stage(tmp_path / "in", into), list[Any]()
    writer = TableWriter(into.staging, file_size=2_000)
    into.commit(results, writer.merged(results, HERE, HERE, told.append))
    assert 2 <= told[-1].total <= 4
    assert read(tmp_path / "out") == written


def test_tasks_do_not_grow_with_ever_smaller_files(tmp_path: Path) -> None:
    """Each task opens all staged files."""
    write_logs(tmp_path / "in", 9, [f"t{i}" for i in range(40)], 50)
    into = ParquetDirectory(str(tmp_path / "out"), "run")
    into.begin()
    staged = stage(tmp_path / "in", into)
    tasks = list[TableTask]()

    class Noting(TableWriter):
        def write(self, task: Any) -> Any:
            tasks.append(task[1])
            return super().write(task)

    assert list(Noting(into.staging, file_size=1).merged(staged, HERE, HERE) or ())
    pieces = sum(one.staged.pieces for one in staged if one.staged)
    assert [(one.first, one.last) for one in tasks] == [(0, pieces)]
    into.abort()


def test_definitions_that_change_in_between(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    kinds = [
        table("t"),
        table("t"),
        table("t", ("n", "INT")),
        table("t", ("n", "INT")),
        table("t", ("n", "BIGINT")),
    ]
    for number, kind in enumerate(kinds, 1):
        log = Log("8.0.36")
        log.begin()
        log.insert(kind, [{"id": number, "text": None, "n": number * 10}])
        log.commit()
        (tmp_path / "in" / f"bin.{number:06}").write_bytes(log.getvalue())
    output = export(tmp_path / "in", tmp_path / "out", staged=True)
    manifest = manifest_of(output)
    (told,) = manifest["tables"]
    assert read(output) == {"t": [1, 2, 3, 4, 5]}
    assert [file["version"] for file in told["files"]] == [1, 2, 3]
    assert [len(one["columns"]) for one in manifest["definitions"]] == [2, 3, 3]
    assert [one["first_version"] >> 40 for one in manifest["definitions"]] == [1, 3, 5]
    assert [one["last_version"] >> 40 for one in manifest["definitions"]] == [2, 4, 5]
    last = pq.read_table(output / told["directory"] / told["files"][2]["name"], partitioning=None)
    assert (last.schema.field("n").type, last["n"].to_pylist()) == (pa.int64(), [50])


@pytest.mark.parametrize("staged", [False, True])
def test_a_definition_that_comes_back(tmp_path: Path, staged: bool) -> None:
    """The manifest says which rows have which: undo and history restore values by it."""
    (tmp_path / "in").mkdir()
    for number, kind in enumerate([table("t"), table("t", ("n", "INT")), table("t")], 1):
        log = Log("8.0.36")
        log.begin()
        log.insert(kind, [{"id": number, "text": None, "n": 5}])
        log.commit()
        (tmp_path / "in" / f"bin.{number:06}").write_bytes(log.getvalue())
    output = export(tmp_path / "in", tmp_path / "out", staged=staged)
    assert read(output) == {"t": [1, 2, 3]}
    told = manifest_of(output)["definitions"]
    assert [len(one["columns"]) for one in told] == [2, 3, 2]
    assert [one["first_version"] >> 40 for one in told] == [1, 2, 3]
    assert [one["last_version"] >> 40 for one in told] == [1, 2, 3]
    for number in (1, 2, 3):
        (version,) = history(str(output), "shop.t", {"id": number})
        assert (version.change.after or {})["id"] == number


def test_attempts_that_run_twice_are_counted_once(tmp_path: Path) -> None:
    """Also those of splits, and those that end after another of the same task."""
    written = write_logs(tmp_path / "in", 6, ["a", "b", "c"], 5)
    output = tmp_path / "out"
    into = ParquetDirectory(str(output), "run")
    into.begin()
    stage(tmp_path / "in", into, "a0")

    class Twice(TableWriter):
        def write(self, task: Any) -> Any:
            first, last = super().write(task), super().write(task)
            assert first.part != last.part
            return first

    results = stage(tmp_path / "in", into, "a1")
    tables = into.commit(results, Twice(into.staging, file_size=1 << 20).merged(results, HERE, HERE))
    assert read(output) == written
    assert {one.table: one.rows["insert"] for one in tables} == {
        name: len(ids) for name, ids in written.items()
    }
    assert files_of(output) == {"_manifest.json", *files_named(manifest_of(output))}
    assert leftovers(output) == ["in"]


@pytest.mark.parametrize("damage", ["cut", "gone", "plan"])
def test_staged_rows_that_are_damaged_are_an_error(tmp_path: Path, damage: str) -> None:
    write_logs(tmp_path / "in", 4, ["a", "b"], 5)
    into = ParquetDirectory(str(tmp_path / "out"), "run")
    into.begin()
    results = stage(tmp_path / "in", into)
    assert results[2].staged is not None
    path = Path(into.staging, results[2].staged.names[0])
    writer = TableWriter(into.staging)
    (Path(into.staging) / "names.staged").write_text(json.dumps([path.name]))
    (task,) = writer.divide(ALL)
    if damage == "plan":
        os.truncate(f"{into.staging}/{task.plan}", 30)
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:900])
    else:
        path.unlink()
    with pytest.raises(BinlogError, match=r"staged rows|cannot be written|was changed") as caught:
        writer.write((0, task))
    failure = into.failure()
    assert failure is not None and str(failure) == str(caught.value)
    assert not list(Path(into.staging).glob("*.parquet"))
    into.abort()
    assert leftovers(tmp_path / "out") == ["in"]


@pytest.mark.parametrize("damage", ["cut", "gone", "place", "count", "no room", "part", "part cut"])
def test_what_the_driver_cannot_read_or_write_is_an_error(
    tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_logs(tmp_path / "in", 4, ["a", "b"], 5)
    into = ParquetDirectory(str(tmp_path / "out"), "run")
    into.begin()
    results = stage(tmp_path / "in", into)
    assert results[2].staged is not None
    path = Path(into.staging, results[2].staged.names[0])
    data = path.read_bytes()
    if damage == "cut":
        path.write_bytes(data[:-9])
    elif damage == "gone":
        path.unlink()
    elif damage == "place":  # of the index
        path.write_bytes(data[:-16] + b"\xff" * 8 + data[-8:])
    elif damage == "count":  # of pieces
        path.write_bytes(data[:-24] + b"\xff" * 8 + data[-16:])
    elif damage == "no room":
        full = OSError(errno.ENOSPC, "No space left on device")
        monkeypatch.setattr(merging, "write_whole", Mock(side_effect=full))

    class Damaged(TableWriter):
        def write(self, task: Any) -> Any:
            written = super().write(task)
            part = Path(self.staging, written.part)
            if damage == "part":
                part.write_text(part.read_text().replace("[", "{"))
            elif damage == "part cut":
                part.write_text("")
            return written

    with pytest.raises(BinlogError) as caught:
        into.commit(results, Damaged(into.staging).merged(results, HERE, HERE))
    assert (caught.value.path or "").startswith(into.staging)
    assert ("No space left" in str(caught.value)) == (damage == "no room")
    into.abort()
    assert leftovers(tmp_path / "out") == ["in"]


def test_what_goes_back_to_the_driver_does_not_grow_with_tables(tmp_path: Path) -> None:
    sizes = []
    for count in (5, 200):
        log = Log("8.0.36")
        for i in range(count):
            log.begin()
            log.insert(table(f"t{i}"), [{"id": 1, "text": "x"}])
            log.commit()
        path = tmp_path / f"{count}.000001"
        path.write_bytes(log.getvalue())
        into = ParquetDirectory(str(tmp_path / f"out{count}"), "run")
        into.begin()
        (found,) = stage(path, into)
        assert found.rows == count
        sizes.append(len(pickle.dumps(replace(found, split=plan_splits(path)[0]))))
        into.abort()
    assert sizes[1] < sizes[0] + 50


def test_a_split_whose_rows_do_not_fit_into_memory_has_several_files(tmp_path: Path) -> None:
    written = write_logs(tmp_path / "in", 4, ["a", "b", "c"], 300)
    into = ParquetDirectory(str(tmp_path / "out"), "run")
    into.begin()
    results = stage(tmp_path / "in", into, limits=WriteLimits(pending_bytes=1))
    assert max(len(one.staged.names) for one in results if one.staged) > 1
    into.commit(results, TableWriter(into.staging).merged(results, HERE, HERE))
    assert read(tmp_path / "out") == written


def test_no_rows_at_all(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(1, 6):
        (tmp_path / "in" / f"bin.{number:06}").write_bytes(Log("8.0.36").getvalue())
    output = export(tmp_path / "in", tmp_path / "out", staged=True)
    assert manifest_of(output)["tables"] == []
    assert len(manifest_of(output)["logs"]) == 5


def test_tables_of_a_lake(tmp_path: Path) -> None:
    """Each has one file; what killed runs staged there long ago is removed, and nothing else."""
    deltalake = pytest.importorskip("deltalake")
    names = ["a", "b", "staged"]
    written = write_logs(tmp_path / "in", 8, names, 20)
    output, old, new = tmp_path / "out", "0123456789ab", "ba9876543210"
    export(tmp_path / "in", output, format="delta", staged=True)
    gone = [f"{old}-00000-a0-000.staged", f"{old}-names.staged", f"{old}-t00000-01234567.tables.staged"]
    kept = [name.replace(old, new) for name in gone] + ["mine.staged", f"{old}.staged", "names.staged"]
    for name in gone + kept:
        (output / name).touch()
    (output / f"{old}-x.staged").mkdir()  # of a table
    kept.append(f"{old}-x.staged")
    for path in output.iterdir():
        if not path.name.startswith(new):
            os.utime(path, (1, 1))
    export(tmp_path / "in", output, format="delta", staged=True, run_id="second")
    for name, ids in written.items():
        for file in (output / f"shop.{name}").glob("*.parquet"):
            assert pq.read_table(file, partitioning=None)["id"].to_pylist() == ids
        assert deltalake.DeltaTable(str(output / f"shop.{name}")).to_pyarrow_table().num_rows == 2 * len(ids)
    there = {path.name for path in output.iterdir()}
    assert there == {"_runs", *kept, *(f"shop.{name}" for name in names)}


def test_two_runs_that_remove_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("deltalake")
    path = tmp_path / "0123456789ab-names.staged"
    path.touch()
    os.utime(path, (1, 1))
    into = DeltaTables(str(tmp_path), "run")
    remove = into.filesystem.delete_file

    def removed_twice(path: str) -> None:
        remove(path)
        remove(path)

    monkeypatch.setattr(into.filesystem, "delete_file", removed_twice)
    into.begin()
    assert not path.exists()
