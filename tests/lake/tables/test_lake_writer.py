"""Parquet files of a worker: rows wait for large row groups, within a budget of memory and of open files."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

import pyarrow.fs  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from support.source import orders  # noqa: E402

from binlog_core.lake.rows.reader import SplitRows  # noqa: E402
from binlog_core.lake.tables.writer import PartWriter  # noqa: E402
from binlog_core.spark import ReadOptions, WriteLimits, plan_splits  # noqa: E402


def write(log: Path, out: Path, limits: WriteLimits) -> PartWriter:
    """Takes all rows of a log twice: 80 orders and 40 of another table, alternately."""
    (split,) = plan_splits(log)
    chunks = list(SplitRows(split, ReadOptions()).chunks())
    assert [chunk.batch.num_rows for chunk in chunks] == [80, 40]
    writer = PartWriter(pyarrow.fs.LocalFileSystem(), str(out), "p", 0, nested=True, limits=limits)
    for chunk in chunks * 2:
        writer.write(chunk)
    return writer


@pytest.mark.parametrize(
    ("limits", "groups"),
    [
        (WriteLimits(), {"orders": [1], "other": [1]}),
        (WriteLimits(row_group_rows=80), {"orders": [2], "other": [1]}),
        (WriteLimits(row_group_rows=1), {"orders": [2], "other": [2]}),
        (WriteLimits(row_group_bytes=1, open_files=1), {"orders": [1, 1], "other": [1, 1]}),
        (WriteLimits(pending_bytes=1), {"orders": [2], "other": [2]}),
    ],
)
def test_rows_wait_for_row_groups(tmp_path: Path, limits: WriteLimits, groups: dict[str, list[int]]) -> None:
    (tmp_path / "out").mkdir()
    writer = write(orders(tmp_path), tmp_path / "out", limits)
    told = writer.finish()
    found: dict[str, list[int]] = {}
    for one in sorted(told, key=lambda one: one.name):
        parquet = pq.ParquetFile(tmp_path / "out" / one.name)
        assert one.name.startswith(f"shop.{one.table}/p-")
        assert one.bytes == (tmp_path / "out" / one.name).stat().st_size
        assert one.rows["insert"] == sum(one.rows.values()) == parquet.metadata.num_rows
        versions = parquet.read()["_commit_version"].to_pylist()
        assert (one.first_version, one.last_version) == (min(versions), max(versions))
        found.setdefault(one.table, []).append(parquet.num_row_groups)
    assert found == groups
    assert {table: sum(one.rows["insert"] for one in told if one.table == table) for table in found} == {
        "orders": 160,
        "other": 80,
    }


def test_files_are_written_as_those_of_tables_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With zstd, and dictionaries only where values repeat; small ones with what pyarrow does by itself."""
    (tmp_path / "out").mkdir()
    for few, codec in ((1 << 18, "SNAPPY"), (0, "ZSTD")):
        monkeypatch.setattr("binlog_core.lake.tables.parquet_writer._FEW_BYTES", few)
        for one in write(orders(tmp_path), tmp_path / "out", WriteLimits()).finish():
            group = pq.ParquetFile(tmp_path / "out" / one.name).metadata.row_group(0)
            columns = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
            assert {column.compression for column in columns.values()} == {codec}
            assert "RLE_DICTIONARY" in columns["_change_type"].encodings


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_what_is_given_up_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    writer = write(orders(tmp_path), tmp_path / "out", WriteLimits(row_group_rows=1))
    assert len(list(tmp_path.rglob("*.parquet"))) == 2
    writer.abort()
    del writer
    gc.collect()  # pyarrow's writers do not report anything any more
    assert not list(tmp_path.rglob("*.parquet"))
