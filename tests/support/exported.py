"""Exports made without Spark: the same writer and commit in this process."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, TypeVar

from binlog_core.lake.rows.read_options import ReadOptions
from binlog_core.lake.runner import LocalRunner
from binlog_core.lake.tables.destination import Destination
from binlog_core.lake.tables.merging import TableWriter
from binlog_core.lake.tables.parquet import ParquetDirectory
from binlog_core.lake.tables.split_writer import SplitWriter
from binlog_core.lake.tables.staged import StagedWriter
from binlog_core.lake.tables.tables import DeltaTables
from binlog_core.lake.tables.writer import PartWriter
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
    staged: bool = False,
    file_size: int | None = None,
    **options: Any,
) -> AnyPath:
    """Write what `export_logs` writes, `staged` in two stages; the output."""
    kinds: dict[str, type[Destination]] = {"parquet": ParquetDirectory, "delta": DeltaTables}
    destination = kinds[format](str(output), run_id, storage_options=storage_options)
    destination.begin()
    reading = ReadOptions(absent=True, statements=True, **options)
    splits = plan_splits(logs, split_size)
    numbers = {path: i for i, path in enumerate(dict.fromkeys(one.path for one in splits))}
    common: dict[str, Any] = {
        "prefix": destination.prefix,
        "nested": destination.nested,
        "storage_options": storage_options,
        "file_size": file_size,
    }
    kind = StagedWriter if staged else PartWriter
    writer = SplitWriter(destination.staging, reading, logs=numbers, parts=kind, **common)
    try:
        results = [writer.write(one, "a0") for one in splits]
        runner = LocalRunner(2)
        destination.commit(
            results, TableWriter(destination.staging, **common).merged(results, runner, runner)
        )
    finally:
        destination.abort()
    return output
