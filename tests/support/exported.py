"""Exports made without Spark: the same writer and commit in this process."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, TypeVar

from binlog_core.lake.rows.read_options import ReadOptions
from binlog_core.lake.tables.destination import Destination
from binlog_core.lake.tables.parquet import ParquetDirectory
from binlog_core.lake.tables.split_writer import SplitWriter
from binlog_core.lake.tables.tables import DeltaTables
from binlog_core.splits import plan_splits

AnyPath = TypeVar("AnyPath", Path, str)


def export(
    logs: Path | Iterable[Path],
    output: AnyPath,
    *,
    format: Literal["parquet", "delta"] = "parquet",
    run_id: str = "run",
    split_size: int | None = None,
    storage_options: dict[str, Any] | None = None,
    **options: Any,
) -> AnyPath:
    """Write what `export_logs` writes; the output."""
    kinds: dict[str, type[Destination]] = {"parquet": ParquetDirectory, "delta": DeltaTables}
    destination = kinds[format](str(output), run_id, storage_options=storage_options)
    destination.begin()
    reading = ReadOptions(absent=True, statements=True, **options)
    splits = plan_splits(logs, split_size)
    numbers = {path: i for i, path in enumerate(dict.fromkeys(one.path for one in splits))}
    writer = SplitWriter(
        destination.staging,
        reading,
        prefix=destination.prefix,
        nested=destination.nested,
        logs=numbers,
        storage_options=storage_options,
    )
    try:
        destination.commit([writer.write(one, "a0") for one in splits])
    finally:
        destination.abort()
    return output
