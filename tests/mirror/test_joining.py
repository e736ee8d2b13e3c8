"""Small files of a table are merged in one commit, without a row more or less."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
deltalake = pytest.importorskip("deltalake")

import pyarrow.parquet as pq  # noqa: E402

from binlog_core import BinlogError, BinlogWarning  # noqa: E402
from binlog_core.lake.apply.jobs import Folder  # noqa: E402
from binlog_core.lake.runner import HERE  # noqa: E402
from binlog_core.lake.tables.delta import DeltaLakeTable  # noqa: E402
from binlog_core.lake.tables.table import DataFile  # noqa: E402
from binlog_core.lake.tables.vectors import Vector  # noqa: E402
from binlog_core.mirror import joining  # noqa: E402
from binlog_core.mirror.joining import Joiner, compact, join  # noqa: E402
from binlog_core.mirror.lake import Lake  # noqa: E402
from binlog_core.mirror.mirroring import Mirroring  # noqa: E402
from binlog_core.mirror.state import MirrorState, TableState  # noqa: E402
from binlog_core.server.address import Address  # noqa: E402


class File(NamedTuple):
    name: str
    bytes: int


def put(place: Path, count: int) -> None:
    for i in range(count):
        deltalake.write_deltalake(place, pa.table({"id": [i]}), mode="append")


def test_small_files_become_one_and_no_row_changes(tmp_path: Path) -> None:
    put(tmp_path, 8)
    table = DeltaLakeTable(str(tmp_path))
    table.add_columns(pa.schema({"v": pa.string()}))
    assert compact(HERE, table, Folder(str(tmp_path))) == 8
    found = deltalake.DeltaTable(tmp_path)
    assert len(found.file_uris()) == 1
    assert found.to_pyarrow_table().sort_by("id").to_pydict() == {"id": list(range(8)), "v": [None] * 8}
    log = (tmp_path / "_delta_log" / f"{found.version():020}.json").read_text().splitlines()
    actions = [one[kind] for one in map(json.loads, log) for kind in ("add", "remove") if kind in one]
    assert [one["dataChange"] for one in actions] == [False] * 9
    assert [one.rows for one in DeltaLakeTable(str(tmp_path)).files()] == [8]


def test_few_files_and_large_ones_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, 7)
    table = DeltaLakeTable(str(tmp_path))
    assert compact(HERE, table, Folder(str(tmp_path))) == 0
    put(tmp_path, 1)
    monkeypatch.setattr(joining, "_SMALL_BYTES", 10)
    assert compact(HERE, DeltaLakeTable(str(tmp_path)), Folder(str(tmp_path))) == 0
    assert deltalake.DeltaTable(tmp_path).version() == 7


def test_what_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, 8)
    before = sorted(path.name for path in tmp_path.glob("*.parquet"))
    table = DeltaLakeTable(str(tmp_path))
    (tmp_path / before[-1]).rename(tmp_path / "gone")
    with pytest.raises(OSError, match="No such file"):
        compact(HERE, table, Folder(str(tmp_path)))
    (tmp_path / "gone").rename(tmp_path / before[-1])
    assert sorted(path.name for path in tmp_path.glob("*.parquet")) == before
    assert deltalake.DeltaTable(tmp_path).version() == 7


def test_another_writers_commit_is_not_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It deletes a row of the files while they are read."""
    put(tmp_path, 8)

    def late(*arguments: Any) -> Any:
        found = join(*arguments)
        deltalake.DeltaTable(tmp_path).delete("id = 3")
        return found

    monkeypatch.setattr(joining, "join", late)
    with pytest.raises(BinlogError, match="another writer has committed"):
        compact(HERE, DeltaLakeTable(str(tmp_path)), Folder(str(tmp_path)))
    found = deltalake.DeltaTable(tmp_path).to_pyarrow_table()
    assert sorted(found["id"].to_pylist()) == [0, 1, 2, 4, 5, 6, 7]
    assert len(list(tmp_path.glob("*.parquet"))) == 8  # the merged file is gone


def test_files_are_as_large_as_they_should_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "FILE_BYTES", 100)
    asked: list[list[str]] = []

    def written(_: Joiner, files: list[Any]) -> list[DataFile]:
        asked.append([one.name for one in files])
        return []

    monkeypatch.setattr(Joiner, "__call__", written)
    place = Folder("/")
    sizes = (60, 40, 1, 300, 99, 1)
    files = [File(str(i), size) for i, size in enumerate(sizes)]
    assert join(HERE, Joiner(place, place, pa.schema({})), files) == []
    assert asked == [["0", "1"], ["2"], ["3"], ["4", "5"]]
    assert join(HERE, Joiner(place, place, pa.schema({})), []) == []


def test_a_table_that_cannot_be_opened_stops_no_other(tmp_path: Path) -> None:
    state = MirrorState("id", "mysql://root@db1", ("shop.*",), "archive")
    for name in ("a", "b"):
        state.tables[f"shop.{name}"] = TableState("shop", name, "following")
        put(tmp_path / f"shop.{name}", 8)
    (tmp_path / "shop.a" / "_delta_log" / f"{0:020}.json").write_text("{")
    nothing: Any = None
    address = Address.of("mysql://root@db1")
    work = Mirroring(HERE, Lake(str(tmp_path)), state, address, nothing, threading.Event(), compact=0)
    with pytest.warns(BinlogWarning, match="the files of shop.a cannot be compacted"):
        work._compact()
    assert len(deltalake.DeltaTable(tmp_path / "shop.b").file_uris()) == 1


def test_a_table_that_many_rounds_changed_does_not_wait(tmp_path: Path) -> None:
    """Each round adds a file, and searches those of all before it."""
    state = MirrorState("id", "mysql://root@db1", ("shop.*",), "archive")
    for name in ("a", "b"):
        state.tables[f"shop.{name}"] = TableState("shop", name, "following", compacted=time.time())
        put(tmp_path / f"shop.{name}", 8)
    nothing: Any = None
    address = Address.of("mysql://root@db1")
    for every, files in ((None, 8), (3600, 1)):
        work = Mirroring(HERE, Lake(str(tmp_path)), state, address, nothing, threading.Event(), compact=every)
        work._rounds["shop.a"], work._rounds["shop.b"] = 64, 63
        work._compact()
        found = [len(deltalake.DeltaTable(tmp_path / f"shop.{name}").file_uris()) for name in ("a", "b")]
        assert (found, work._rounds["shop.a"]) == ([files, 8], 0 if files == 1 else 64)


def test_files_with_many_deleted_rows_are_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few small files; as many at a time as the budget has room for."""
    put(tmp_path, 1)
    schema = pa.schema({"id": pa.int64()})
    files = []
    for number, gone in enumerate((2, 4, 5, 6)):
        rows = pa.table({"id": range(100 * number, 100 * number + 12)}, schema=schema)
        pq.write_table(rows, tmp_path / f"{number}.parquet")
        size = (tmp_path / f"{number}.parquet").stat().st_size
        vector = Vector.new(np.arange(gone, dtype=np.uint64))
        files.append(DataFile(f"{number}.parquet", 12, size, deleted=vector))
    DeltaLakeTable(str(tmp_path)).exchange(files, (), schema, None)

    def rows_now() -> list[int]:
        found = deltalake.DeltaTable(tmp_path).scan().read_all()
        return sorted(pa.table(found)["id"].to_pylist())

    before = rows_now()
    assert len(before) == 1 + 10 + 8 + 7 + 6
    monkeypatch.setattr(joining, "_BUDGET", 2 * files[0].bytes + 10)
    folder = Folder(str(tmp_path))
    done = [compact(HERE, DeltaLakeTable(str(tmp_path)), folder) for _ in range(3)]
    assert (done, rows_now()) == ([2, 1, 0], before)  # a third of 12 rows are 4
    left = [one.deleted.cardinality for one in DeltaLakeTable(str(tmp_path)).files() if one.deleted]
    assert left == [2]
