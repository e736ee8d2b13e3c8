"""The two stages of an export at two numbers of tables: CPU time, files and the driver's bytes for each.

Its ratios are printed. What fails is growth that no load of the machine explains: work that grows with the
square of tables costs ten times as much per table at the large size. The splits after the first are links to
its staged rows, as of logs in which the same tables have changed.
"""

from __future__ import annotations

import os
import pickle
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from measure import LINES
from support.writer import Log, Table

pytest.importorskip("pyarrow")

from binlog_core.lake.rows.read_options import ReadOptions
from binlog_core.lake.runner import HERE
from binlog_core.lake.tables.merging import TableWriter
from binlog_core.lake.tables.parquet import ParquetDirectory
from binlog_core.lake.tables.results import WrittenSplit
from binlog_core.lake.tables.split_writer import SplitWriter
from binlog_core.lake.tables.staged import StagedWriter
from binlog_core.lake.tables.writer import DEFAULT_FILE_SIZE
from binlog_core.splits import plan_splits

MOST_TIME = 2  # times the cost per table of the small size
MOST_HELD = 1.2
ROUNDS = 3  # what else runs on the machine only adds to a time
TABLES = (100, 1_000)
SPLITS = 20
TABLE_BYTES = 25_000  # in the driver
SPLIT_BYTES = 1_000  # of a split's result
COLUMNS = [("id", "INT"), ("name", "VARCHAR(20)"), ("n", "BIGINT"), ("at", "DATETIME"), ("d", "DECIMAL(9,2)")]


def cpu(work: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.process_time()
    found = work()
    return time.process_time() - begin, found


def log_of(folder: Path, tables: int) -> Path:
    """A log with three rows of each table."""
    log = Log("8.0.36")
    for i in range(tables):
        table = Table("shop", f"orders_{i:05}", COLUMNS, primary_key=["id"])
        log.begin()
        log.insert(table, [{"id": k, "name": "x", "n": k, "at": None, "d": None} for k in range(3)])
        log.commit()
    path = folder / f"{tables}.000001"
    path.write_bytes(log.getvalue())
    return path


def linked(into: ParquetDirectory, first: WrittenSplit) -> list[WrittenSplit]:
    """The split, and others with the same rows."""
    found, staged = [first], first.staged
    assert staged is not None
    for number in range(1, SPLITS):
        names = tuple(f"{number:03}-{name}" for name in staged.names)
        for name, link in zip(staged.names, names, strict=True):
            os.link(f"{into.staging}/{name}", f"{into.staging}/{link}")
        found.append(replace(first, staged=replace(staged, names=names)))
    return found


def export(folder: Path, tables: int) -> tuple[float, float, float]:
    """CPU time for each table of staging a split and of writing its files, and the driver's bytes."""
    (split,) = plan_splits(log_of(folder, tables))
    into = ParquetDirectory(str(folder / f"out{tables}"), "run")
    into.begin()
    reading = ReadOptions(absent=True, statements=True)
    staging = SplitWriter(into.staging, reading, parts=StagedWriter)
    staged, first = cpu(lambda: staging.write(split, "a0"))
    assert len(pickle.dumps(first)) < SPLIT_BYTES
    results = linked(into, first)
    writer = TableWriter(into.staging, file_size=DEFAULT_FILE_SIZE)
    merged, found = cpu(lambda: writer.merged(results, HERE, HERE))
    tracemalloc.start()
    done = into.commit(results, found)
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [(one.files, one.rows["insert"]) for one in done] == [(1, 3 * SPLITS)] * tables
    return staged / tables, merged / tables, held / tables


def test_exporting_many_tables(tmp_path: Path) -> None:
    export(tmp_path, 3)  # imports
    rounds: list[list[tuple[float, float, float]]] = []
    for number in range(ROUNDS):
        (folder := tmp_path / str(number)).mkdir()
        rounds.append([export(folder, tables) for tables in TABLES])
    small, large = (
        [min(figures) for figures in zip(*sized, strict=True)] for sized in zip(*rounds, strict=True)
    )
    growth = [more / less for less, more in zip(small, large, strict=True)]
    LINES["exports"] += [
        f"staging {TABLES[1]:,} tables of a split: {large[0] * 1e6:.0f} us CPU a table, {growth[0]:.2f} of"
        f" {TABLES[0]}",
        f"a file of each from {SPLITS} splits: {large[1] * 1e6:.0f} us CPU a table, {growth[1]:.2f}",
        f"in the driver: {large[2]:,.0f} bytes a table, {growth[2]:.2f}",
    ]
    assert max(growth[:2]) <= MOST_TIME, rounds
    assert growth[2] <= MOST_HELD
    assert large[2] < TABLE_BYTES
