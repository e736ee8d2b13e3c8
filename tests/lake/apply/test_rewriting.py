"""Files of a table rewritten, without the rows of some keys."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")

import pyarrow.parquet as pq  # noqa: E402

from binlog_core.lake.apply.alterations import Check, From  # noqa: E402
from binlog_core.lake.apply.files import tables_of  # noqa: E402
from binlog_core.lake.apply.folding import Folded  # noqa: E402
from binlog_core.lake.apply.jobs import Folder  # noqa: E402
from binlog_core.lake.apply.rewriting import Checker, Replaced, Rewriter  # noqa: E402
from binlog_core.lake.apply.sinks import FileSink, Sunk  # noqa: E402
from binlog_core.lake.tables.table import DataFile  # noqa: E402

MOMENT = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
TABLE = pa.schema({"id": pa.int64(), "a": pa.string()})


class Files:
    """A table of two columns in a folder, and a workspace."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.place, self.work = (Folder(str(folder / name)) for name in ("t", "work"))
        self.place.make()
        self.work.make()

    def write(self, name: str, ids: list[int], values: list[Any]) -> DataFile:
        table = pa.table([ids, values], schema=TABLE)
        pq.write_table(table, self.folder / "t" / name, row_group_size=2)
        return DataFile(name, len(ids), 0, {"id": min(ids)}, {"id": max(ids)})

    def sunk(self) -> Sunk:
        """Key 1 has a new row, 2 is deleted; 3 is the former 30, whose column `a` is not in the log."""
        columns = [pa.array([1, 2, 3]), pa.array(["new", None, None])]
        lacks = np.array([[False, False], [False, False], [False, True]])
        folded = Folded(columns, np.array([False, True, False]), lacks, [pa.array([1, 2, 30])])
        return FileSink(TABLE, TABLE, ("id",), self.place, self.work)(folded)

    def rewriter(self, **arguments: Any) -> Rewriter:
        return Rewriter(self.place, self.work, TABLE, ("id",), (self.sunk(),), **arguments)

    def rows(self, replaced: Replaced) -> list[tuple[Any, ...]]:
        found = [
            row for one in replaced.new for row in pq.read_table(self.folder / "t" / one.name).to_pylist()
        ]
        return sorted(tuple(row.values()) for row in found)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_a_file_is_written_anew_without_the_keys_and_with_completed_rows(files: Files) -> None:
    old = files.write("old.parquet", [1, 7, 30, 2], ["old", "b", "kept", "d"])
    found = files.rewriter()(old)
    assert (found.name, found.touched, found.completed) == ("old.parquet", True, 1)
    assert files.rows(found) == [(3, "kept"), (7, "b"), (30, "kept")]


def test_every_row_with_a_key_goes_where_a_file_has_the_key_twice(files: Files) -> None:
    old = files.write("old.parquet", [2, 1, 7, 1, 30, 2], ["a", "b", "c", "d", "kept", "f"])
    assert files.rows(files.rewriter()(old)) == [(3, "kept"), (7, "c"), (30, "kept")]


def test_files_without_the_keys_stay(files: Files) -> None:
    rewriter = files.rewriter()
    far, near = (
        files.write("far.parquet", [31, 40], ["a", "b"]),
        files.write("near.parquet", [8, 9], ["a", "b"]),
    )
    assert [rewriter.concerns(one) for one in (far, near)] == [False, True]
    assert rewriter.concerns(DataFile("unknown", 1, 0))  # without bounds it may have them
    assert rewriter(near) == Replaced("near.parquet", False)
    before = set((files.folder / "t").iterdir())
    assert rewriter(files.write("gone.parquet", [1, 2], ["a", "b"])) == Replaced("gone.parquet", True)
    assert {path.name for path in set((files.folder / "t").iterdir()) - before} == {"gone.parquet"}


def test_a_column_changes_in_every_file(files: Files) -> None:
    far = files.write("far.parquet", [31, 40], ["a", "b"])
    rewriter = files.rewriter(values={"a": "same"}, every=True)
    assert rewriter.concerns(far)
    assert files.rows(rewriter(far)) == [(31, "same"), (40, "same")]
    nulls = files.rewriter(values={"a": From("other")}, every=True)
    assert files.rows(nulls(far)) == [(31, None), (40, None)]


def test_a_check_is_held_against_all_values(files: Files) -> None:
    file = files.write("old.parquet", [1, 2, 3], ["x", None, "y "])

    def holds(column: str, suffix: str) -> bool:
        return Checker(files.place, Check(column, lambda value: not value.endswith(suffix), "why"))(file)

    assert [holds("a", "!"), holds("a", " "), holds("elsewhere", " ")] == [True, False, True]


FIRST: dict[str, tuple[Any, list[Any], Any]] = {  # type, values of ten groups in order, another value
    "int": (pa.int64(), [10 * i for i in range(10)], 1000),
    "text": (pa.string(), [f"{'ä' * i}z" for i in range(10)], "ü"),
    "binary": (pa.binary(), [bytes([i * 20, 255]) for i in range(10)], b"\xff\xff"),
    "decimal": (pa.decimal128(20, 2), [Decimal(i - 5) * 3 / 2 for i in range(10)], Decimal(99)),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        [MOMENT.replace(microsecond=i) for i in range(10)],
        MOMENT.replace(year=2027),
    ),
    "date": (pa.date32(), [MOMENT.date().replace(day=i + 2) for i in range(10)], MOMENT.date()),
    "far dates": (pa.date32(), [-800_000 - i for i in range(10)], None),
}


@pytest.mark.parametrize("kind", FIRST)
@pytest.mark.parametrize("vectors", [True, False])
def test_only_groups_of_rows_that_may_have_a_key_are_read(
    kind: str, vectors: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bounds are in the file's footer, for every type."""
    declared, values, other = FIRST[kind]
    schema = pa.schema({"k": declared, "n": pa.int32()})
    column = (
        pa.array(values, pa.int32()).cast(declared) if kind == "far dates" else pa.array(values, declared)
    )
    place, work = (Folder(str(tmp_path / name)) for name in ("t", "work"))
    place.make()
    work.make()
    pq.write_table(pa.table([column, range(10)], schema=schema), tmp_path / "t" / "f", row_group_size=1)
    gone = pa.chunked_array([column.slice(3, 1), column.slice(7, 1), pa.array([other], declared)])
    gone = pa.concat_arrays(gone.chunks)
    folded = Folded([gone, pa.nulls(3, pa.int32())], np.ones(3, np.bool_), None, [])
    sunk = FileSink(schema, schema, ("k",), place, work)(folded)
    asked: list[list[int]] = []
    read = pq.ParquetFile.read_row_groups

    def noted(self: Any, groups: list[int], **settings: Any) -> Any:
        asked.append(groups)
        return read(self, groups, **settings)

    monkeypatch.setattr(pq.ParquetFile, "read_row_groups", noted)
    file = DataFile("f", 10, 0)
    found = Rewriter(place, work, schema, ("k",), (sunk,), vectors=vectors)(file)
    assert asked == ([[3, 7]] if kind != "far dates" else [[*range(10)]])  # Python has no such dates
    left = [n for one in found.new for rows in tables_of(place, [one]) for n in rows["n"].to_pylist()]
    assert left == [0, 1, 2, 4, 5, 6, 8, 9]
    assert [one.name == "f" for one in found.new] == [vectors]


def test_a_bound_that_was_cut_within_a_character_leaves_no_group_out(files: Files) -> None:
    """As some writers cut long texts."""
    schema = pa.schema({"id": pa.string(), "a": pa.string()})
    cut = pa.array([b"a", b"\xc3"]).view(pa.string())
    pq.write_table(pa.table([cut, ["x", "y"]], schema=schema), files.folder / "t" / "cut")
    folded = Folded([pa.array(["a"]), pa.nulls(1, pa.string())], np.ones(1, np.bool_), None, [])
    sunk = FileSink(schema, schema, ("id",), files.place, files.work)(folded)
    file = DataFile("cut", 2, 0)
    (new,) = Rewriter(files.place, files.work, schema, ("id",), (sunk,), vectors=True)(file).new
    assert (new.live, next(tables_of(files.place, [new], ["a"]))["a"].to_pylist()) == (1, ["y"])
