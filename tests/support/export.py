"""Reports of an export's workers, made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from binlog_core.lake.tables.results import FileStatistics, WrittenSplit
from binlog_core.splits import Split, SplitResult


def file_of(name: str, table: str = "t", schema: Any = None, **given: Any) -> FileStatistics:
    """A Parquet file of ``shop.TABLE`` with 3 rows."""
    known: dict[str, Any] = {
        "split": 0,
        "log": 0,
        "database": "shop",
        "table": table,
        "schema": schema,
        "key": ("id",),
        "rows": {"insert": 2, "delete": 1},
        "partial_rows": 0,
        "bytes": 50,
        "seconds": 0.5,
        "first_position": 4,
        "last_position": 90,
        "first_version": 4,
        "last_version": 90,
    }
    return FileStatistics(name, **{**known, **given})


def written(split: Split, seam: SplitResult | None = None, **given: Any) -> WrittenSplit:
    """A split of which 100 bytes were read and one file written."""
    known: dict[str, Any] = {
        "files": (file_of(f"{split.index}.parquet"),),
        "statements": (),
        "counts": {},
        "first": {},
        "damaged": (),
        "tail": None,
        "end_position": 100,
        "log_bytes": 100,
        "seconds": 1.0,
        "cpu_seconds": 1.0,
        "read_seconds": 0.5,
    }
    return WrittenSplit(split, seam or SplitResult(split, 4, None), **{**known, **given})


def piece_of(directory: Path, file: str, rows: Any) -> str:
    """Append a piece of raw changes to the file; return its name."""
    import pyarrow as pa

    path = directory / file
    start = path.stat().st_size if path.exists() else 0
    with path.open("ab") as sink, pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    return f"{file}:{start}:{path.stat().st_size}"
