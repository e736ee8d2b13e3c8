"""Staged rows: files of pieces sorted by table, and what is read back of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")

import pyarrow.fs  # noqa: E402
from support.export import file_of  # noqa: E402
from support.golden import golden_logs  # noqa: E402
from support.source import orders  # noqa: E402
from support.writer import Log, Table  # noqa: E402

from binlog_core import BinlogError  # noqa: E402
from binlog_core.lake.rows.read_options import ReadOptions  # noqa: E402
from binlog_core.lake.rows.reader import SplitRows  # noqa: E402
from binlog_core.lake.tables import staged  # noqa: E402
from binlog_core.lake.tables.destination import BUCKETS, bucket_of  # noqa: E402
from binlog_core.lake.tables.staged import StagedFile, StagedFiles, StagedWriter  # noqa: E402
from binlog_core.lake.tables.writer import WriteLimits  # noqa: E402
from binlog_core.splits import plan_splits  # noqa: E402

FILES = pyarrow.fs.LocalFileSystem()


class Store(pyarrow.fs.SubTreeFileSystem):  # type: ignore[misc]
    """A file system that is not the local one: large pieces are compressed there."""


def write(log: Path, folder: Path, filesystem: Any = FILES, **limits: int) -> tuple[Any, list[Any]]:
    """What is told of the rows of a log, and the rows that were staged."""
    folder.mkdir(exist_ok=True)
    (split,) = plan_splits(log)
    where = "" if isinstance(filesystem, Store) else str(folder)
    writer = StagedWriter(filesystem, where, "p", 3, log=2, limits=WriteLimits(**limits))
    chunks = list(SplitRows(split, ReadOptions(unnamed="positions", absent=True)).chunks())
    for chunk in chunks:
        writer.write(chunk)
    assert writer.finish() == []
    return writer.staged, chunks


def by_table(rows: Any) -> dict[tuple[str, str], list[Any]]:
    found: dict[tuple[str, str], list[Any]] = {}
    for told, some in rows:
        assert sum(told.rows.values()) == some.num_rows
        found.setdefault((told.database, told.table), []).append(some)
    return found


@pytest.mark.parametrize("pending", [1, 1 << 20])
@pytest.mark.parametrize("kind", ["disk", "store"])
def test_all_types_come_back(
    tmp_path: Path, pending: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where pieces are compressed, and where only few bytes are read at once."""
    monkeypatch.setattr(staged, "_PLAIN_BYTES", 100)
    monkeypatch.setattr(staged, "_READ_BYTES", 3000)
    for number, golden in enumerate(golden_logs("mysql97/types_*")):
        folder = tmp_path / str(number)
        filesystem = FILES if kind == "disk" else Store(str(folder), pyarrow.fs.LocalFileSystem())
        told, chunks = write(golden.path, folder, filesystem, pending_bytes=pending)
        paths = [str(folder / name) for name in told.names]
        files = StagedFiles(FILES, paths)
        pieces = files.pieces(0, BUCKETS)
        assert len(pieces) == told.pieces
        assert int(pieces["bytes"].sum()) == told.bytes
        wanted: dict[tuple[str, str], list[Any]] = {}
        for chunk in chunks:
            wanted.setdefault((chunk.table.database, chunk.table.name), []).append(chunk.batch)
        found = by_table(files.rows(pieces))
        assert found.keys() == wanted.keys()
        assert told.rows == sum(chunk.batch.num_rows for chunk in chunks)
        for name, rows in found.items():
            if len({one.schema for one in rows}) == 1:
                assert pa.concat_tables(rows).equals(pa.Table.from_batches(wanted[name]))
            assert sum(one.num_rows for one in rows) == sum(one.num_rows for one in wanted[name])


def test_what_is_told_of_rows(tmp_path: Path) -> None:
    told, chunks = write(orders(tmp_path), tmp_path / "out")
    (name,) = told.names
    with StagedFile(FILES, str(tmp_path / "out" / name)) as file:
        found = {one.table: one for one, _ in file.read(file.pieces(0, BUCKETS))}
    for chunk in chunks:
        one, versions = found[chunk.table.name], chunk.batch["_commit_version"].to_pylist()
        assert (one.split, one.log, one.database) == (3, 2, "shop")
        assert (one.first_position, one.last_position) == (chunk.first_position, chunk.last_position)
        assert (one.first_version, one.last_version) == (min(versions), max(versions))
        assert (one.rows["insert"], one.rows["delete"]) == (chunk.batch.num_rows, 0)
        assert one.schema == chunk.batch.schema
        assert one.definition == replace(chunk.table, flags=0)
        assert one.key == (("id",) if one.table == "orders" else None)
    assert told.last_time == max(one.last_time for one in found.values())


def test_a_bucket_is_read_by_itself(tmp_path: Path) -> None:
    told, _ = write(orders(tmp_path), tmp_path / "out")
    with StagedFile(FILES, str(tmp_path / "out" / told.names[0])) as file:
        every = file.pieces(0, BUCKETS)["bucket"].tolist()
        assert every == sorted(bucket_of("shop", name) for name in ("orders", "other"))
        for name in ("orders", "other"):
            bucket = bucket_of("shop", name)
            ((one, rows),) = file.read(file.pieces(bucket, bucket + 1))
            assert (one.table, rows.num_rows) == (name, {"orders": 80, "other": 40}[name])
            assert not len(file.pieces(bucket + 1, bucket + 2))
        for low in np.linspace(0, BUCKETS - 1, 50, dtype=np.int64).tolist():
            below, above = file.pieces(0, low + 1), file.pieces(low + 1, BUCKETS) if low + 1 < BUCKETS else ()
            assert [*below["bucket"].tolist(), *(one["bucket"] for one in above)] == every


def test_text_about_rows_comes_back() -> None:
    known = file_of("a/b.parquet", "né\n\ud800", pa.schema([]), key=None, last_time=5)
    assert staged.from_text(staged.to_text(known), known.schema, None) == known


def test_a_definition_that_comes_back_has_another_piece(tmp_path: Path) -> None:
    """Pieces of a table are in the order of the log, and none spans rows of another definition."""
    writer = StagedWriter(FILES, str(tmp_path), "p", 0)
    for number, more in enumerate(([], [("n", "INT")], []), 1):
        log, path = Log("8.0.36"), tmp_path / f"bin.{number:06}"
        log.begin()
        log.insert(Table("d", "t", [("id", "INT"), *more]), [{"id": number, "n": 5}])
        log.commit()
        path.write_bytes(log.getvalue())
        (split,) = plan_splits(path)
        for chunk in SplitRows(split, ReadOptions()).chunks():
            writer.write(chunk)
    writer.finish()
    assert writer.staged is not None
    with StagedFile(FILES, str(tmp_path / writer.staged.names[0])) as file:
        found = list(file.read(file.pieces(0, BUCKETS)))
    assert [rows["id"].to_pylist() for _, rows in found] == [[1], [2], [3]]
    assert [told.last_version >> 40 for told, _ in found] == [1, 2, 3]


@pytest.mark.parametrize("length", [0, 10, 3000])
def test_another_file_is_refused(tmp_path: Path, length: int) -> None:
    path = tmp_path / "x.staged"
    path.write_bytes(bytes(length))
    with (
        StagedFile(FILES, str(path)) as file,
        pytest.raises(BinlogError, match="not a complete file") as caught,
    ):
        file.pieces(0, BUCKETS)
    assert caught.value.path == str(path)


def test_what_is_given_up_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (split,) = plan_splits(orders(tmp_path))
    writer = StagedWriter(FILES, str(tmp_path / "out"), "p", 0, limits=WriteLimits(pending_bytes=1))
    for chunk in SplitRows(split, ReadOptions()).chunks():
        writer.write(chunk)
    assert len(list((tmp_path / "out").iterdir())) == 2
    writer.abort()
    assert not list((tmp_path / "out").iterdir())
