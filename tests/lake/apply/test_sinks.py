"""Where workers put the results of keys, and what happens to the files with rows of these keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")

import pyarrow.parquet as pq  # noqa: E402

from binlog_core.lake.apply.folding import Folded  # noqa: E402
from binlog_core.lake.apply.jobs import Folder  # noqa: E402
from binlog_core.lake.apply.sinks import FileSink, MergeSink  # noqa: E402

FOLDED = pa.schema({"id": pa.int32(), "a": pa.string()})
TABLE = pa.schema({"id": pa.int64(), "a": pa.string(), "new": pa.int8()})


def folded() -> Folded:
    """Key 1 has a row, 2 is deleted, 3 has the former row of 30 except for the columns in the log."""
    columns = [pa.array([1, 2, 3], pa.int32()), pa.array(["x", None, None])]
    lacks = np.array([[False, False], [False, False], [False, True]])
    deleted = np.array([False, True, False])
    return Folded(columns, deleted, lacks, [pa.array([1, 2, 30], pa.int32())])


def rows_of(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".parquet":
        return list(pq.read_table(path).to_pylist())
    with pa.ipc.open_file(path) as reader:
        return list(reader.read_all().to_pylist())


def test_rows_keys_and_what_is_to_be_completed(tmp_path: Path) -> None:
    for name in ("t", "work"):
        (tmp_path / name).mkdir()
    place, work = Folder(str(tmp_path / "t")), Folder(str(tmp_path / "work"))
    sunk = FileSink(FOLDED, TABLE, ("id",), place, work)(folded())
    assert (sunk.puts, sunk.deletes) == (2, 1)
    assert (sunk.least, sunk.most) == ({"id": 1}, {"id": 30})
    assert sunk.partial is not None
    assert rows_of(tmp_path / "t" / sunk.data[0].name) == [{"id": 1, "a": "x", "new": None}]
    assert [row["id"] for row in rows_of(tmp_path / "work" / sunk.keys)] == [1, 2, 3]
    name, count = sunk.partial
    assert count == 1
    assert rows_of(tmp_path / "work" / name) == [
        {"id": 3, "a": None, "new": None, "base 0 ": 30, "id lacks ": False, "a lacks ": True}
    ]
    whole = Folded([column.slice(0, 1) for column in folded().columns], np.array([True]))
    gone = FileSink(FOLDED, TABLE, ("id",), place, work)(whole)
    assert (gone.puts, gone.deletes, gone.data, gone.partial) == (0, 1, [], None)


def test_what_a_merge_is_to_do(tmp_path: Path) -> None:
    sunk = MergeSink(FOLDED, TABLE, ("id",), Folder(str(tmp_path)))(folded())
    assert (sunk.puts, sunk.deletes, sunk.partial) == (2, 1, 1)
    names = ("id", "a", "new", "deletes ", "lacks ", "base 0 ")
    assert rows_of(tmp_path / sunk.name) == [
        dict(zip(names, row, strict=True))
        for row in [
            (1, "x", None, False, None, None),
            (2, None, None, True, None, None),
            (3, None, None, False, ["a"], 30),
        ]
    ]
