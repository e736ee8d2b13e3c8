"""Raw changes of many tables in one file, written by a split's worker and read piece by piece."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("deltalake")

import pyarrow.fs  # noqa: E402
from support.export import piece_of  # noqa: E402
from support.source import orders  # noqa: E402

from binlog_core.lake.apply.jobs import Folder  # noqa: E402
from binlog_core.lake.rows.reader import SplitRows  # noqa: E402
from binlog_core.lake.runner import HERE  # noqa: E402
from binlog_core.mirror.raw import OnRaw, RawWriter, between, pieces  # noqa: E402
from binlog_core.spark import ReadOptions, WriteLimits, plan_splits  # noqa: E402


@pytest.mark.parametrize(
    ("limits", "counts"),
    [
        (WriteLimits(), {"orders": [160], "other": [80]}),
        (WriteLimits(row_group_rows=1), {"orders": [80, 80], "other": [40, 40]}),
        (WriteLimits(pending_bytes=1), {"orders": [80, 80], "other": [40, 40]}),
    ],
)
@pytest.mark.parametrize("small", [False, True], ids=["large", "small"])
@pytest.mark.parametrize("local", [False, True], ids=["store", "disk"])
def test_all_tables_of_a_split_are_in_one_file(
    tmp_path: Path,
    limits: WriteLimits,
    counts: dict[str, list[int]],
    *,
    small: bool,
    local: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("binlog_core.lake.tables.staged._PLAIN_BYTES", 1 << 20 if small else 0)
    filesystem: Any = pyarrow.fs.LocalFileSystem()
    if not local:
        filesystem = pyarrow.fs.SubTreeFileSystem("/", filesystem)
    (split,) = plan_splits(orders(tmp_path))
    chunks = list(SplitRows(split, ReadOptions()).chunks())
    (tmp_path / "out").mkdir()
    writer = RawWriter(filesystem, str(tmp_path / "out"), "p", 0, limits=limits)
    for chunk in chunks * 2:
        writer.write(chunk)
    told = writer.finish()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["p.arrow"]
    found: dict[str, list[int]] = {}
    whole: dict[str, list[Any]] = {}
    for one, rows in zip(
        told, pieces(Folder(str(tmp_path / "out")), [one.name for one in told]), strict=True
    ):
        versions = rows["_commit_version"].to_pylist()
        assert (one.first_version, one.last_version) == (min(versions), max(versions))
        assert (one.schema, one.rows["insert"], one.bytes) == (rows.schema, rows.num_rows, rows.nbytes)
        found.setdefault(one.table, []).append(rows.num_rows)
        whole.setdefault(one.table, []).append(rows)
    assert found == counts
    size = sum(one.nbytes for tables in whole.values() for one in tables)
    assert ((tmp_path / "out" / "p.arrow").stat().st_size > size) == (small or local)
    for chunk in chunks:
        expected = pa.Table.from_batches([chunk.batch] * 2)
        assert pa.concat_tables(whole[chunk.table.name]).combine_chunks() == expected.combine_chunks()


def test_what_fails_leaves_nothing(tmp_path: Path) -> None:
    (split,) = plan_splits(orders(tmp_path))
    (tmp_path / "out").mkdir()
    writer = RawWriter(
        pyarrow.fs.LocalFileSystem(), str(tmp_path / "out"), "p", 0, limits=WriteLimits(row_group_rows=1)
    )
    for chunk in SplitRows(split, ReadOptions()).chunks():
        writer.write(chunk)
    assert list((tmp_path / "out").iterdir())
    writer.abort()
    assert not list((tmp_path / "out").iterdir())


def rows_of(*versions: int) -> Any:
    return pa.table({"id": pa.array(versions, pa.int32()), "_commit_version": pa.array(versions, pa.int64())})


def test_rows_between_two_places() -> None:
    rows = rows_of(3, 5, 7)
    assert between(rows, 3, 8) is rows
    assert between(rows, 4, 7)["id"].to_pylist() == [5]
    assert between(rows_of(), 4, 7).num_rows == 0


def test_workers_are_given_the_pieces_of_a_split_together(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    names = [piece_of(tmp_path, "a", rows_of(1, 2)), piece_of(tmp_path, "a", rows_of(3, 4))]
    names.append(piece_of(tmp_path, "b", rows_of(5, 6)))
    schema = pa.schema({"id": pa.int64(), "_commit_version": pa.int64(), "new": pa.string()})
    statements = pa.table({"id": [None], "_commit_version": [4], "new": [None]}).cast(schema)
    jobs = OnRaw(HERE, Folder(str(tmp_path)), tuple(names), schema, 2, 6, statements)

    def staged(batches: Any) -> Any:
        return pa.Table.from_batches(batches, jobs.schema).to_pydict()

    assert [one["_commit_version"] for one in jobs.stage(staged)] == [[4], [2, 3, 4], [5]]
    jobs = replace(jobs, statements=statements.slice(1)).renamed({"id": "Id"})
    none = [None, None, None]
    assert jobs.stage(staged)[0] == {"Id": [2, 3, 4], "_commit_version": [2, 3, 4], "new": none}
