"""The two stages of an export at two numbers of tables and of splits: CPU time, files and the driver's bytes.

The splits after the first are links to its staged rows, as of logs in which the same tables have changed.
"""

from __future__ import annotations

import os
import pickle
import tempfile
import tracemalloc
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from growth import MOST, cost, growth_of
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
from binlog_core.splits import Split, SplitResult, check_seams, plan_splits

TABLES = (100, 500)
SPLITS, FEW_TABLES, MANY_SPLITS, SEAMS = 20, 20, (50, 250), (4_000, 20_000)
TABLE_BYTES = 25_000  # in the driver
SPLIT_BYTES = 1_000  # of a split's result
COLUMNS = [("id", "INT"), ("name", "VARCHAR(20)"), ("n", "BIGINT"), ("at", "DATETIME"), ("d", "DECIMAL(9,2)")]


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


def linked(into: ParquetDirectory, first: WrittenSplit, splits: int) -> list[WrittenSplit]:
    """The split, and others with the same rows."""
    found, staged = [first], first.staged
    assert staged is not None
    for number in range(1, splits):
        names = tuple(f"{number:03}-{name}" for name in staged.names)
        for name, link in zip(staged.names, names, strict=True):
            os.link(f"{into.staging}/{name}", f"{into.staging}/{link}")
        found.append(replace(first, staged=replace(staged, names=names)))
    return found


def staging_of(folder: Path, tables: int) -> tuple[Split, ParquetDirectory, SplitWriter]:
    (split,) = plan_splits(log_of(folder, tables))
    into = ParquetDirectory(str(folder / "out"), "run")
    into.begin()
    reading = ReadOptions(absent=True, statements=True)
    return split, into, SplitWriter(into.staging, reading, parts=StagedWriter)


def staged(folder: Path, tables: int) -> float:
    """CPU time of staging a split."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        split, _, staging = staging_of(Path(name), tables)
        return cost(lambda: staging.write(split, "a0"))


def merged(folder: Path, tables: int, splits: int = SPLITS) -> tuple[float, float]:
    """CPU time of writing the tables' files from many splits, and the driver's bytes at the commit."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        split, into, staging = staging_of(Path(name), tables)
        first = staging.write(split, "a0")
        assert len(pickle.dumps(first)) < SPLIT_BYTES
        results = linked(into, first, splits)
        writer, found = TableWriter(into.staging, file_size=DEFAULT_FILE_SIZE), list[Any]()
        seconds = cost(lambda: found.append(writer.merged(results, HERE, HERE)))
        tracemalloc.start()
        done = into.commit(results, found[0])
        held = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert [(one.files, one.rows["insert"]) for one in done] == [(1, 3 * splits)] * tables
        return seconds, held


def told(what: str, unit: str, figures: tuple[float, float], sizes: tuple[int, int]) -> None:
    large, growth = figures
    LINES["exports"].append(f"{what}: {large * 1e6:.0f} us CPU a {unit}, {growth:.2f} of {sizes[0]:,}")
    assert growth <= MOST


def test_staging_many_tables(tmp_path: Path) -> None:
    staged(tmp_path, 3)  # imports
    grown = growth_of([partial(staged, tmp_path, tables) for tables in TABLES], TABLES)
    told(f"staging {TABLES[1]:,} tables of a split", "table", grown, TABLES)


def test_writing_many_tables(tmp_path: Path) -> None:
    merged(tmp_path, 3)
    held = [0.0, 0.0]

    def run(place: int) -> float:
        seconds, held[place] = merged(tmp_path, TABLES[place])
        return seconds

    grown = growth_of([partial(run, place) for place in (0, 1)], TABLES)
    told(f"{TABLES[1]:,} tables from {SPLITS} splits", "table", grown, TABLES)
    small, large = (one / tables for one, tables in zip(held, TABLES, strict=True))
    LINES["exports"].append(
        f"in the driver at the commit: {large:,.0f} bytes a table, {large / small:.2f} of {TABLES[0]:,}"
    )
    assert large <= MOST * small
    assert large < TABLE_BYTES


def test_writing_many_splits(tmp_path: Path) -> None:
    merged(tmp_path, 3)
    grown = growth_of([lambda n=n: merged(tmp_path, FEW_TABLES, n)[0] for n in MANY_SPLITS], MANY_SPLITS)
    told(f"{FEW_TABLES} tables from {MANY_SPLITS[1]:,} splits", "split", grown, MANY_SPLITS)


def test_seams_of_many_splits() -> None:
    """What the driver does with the results of all splits."""

    def results(count: int) -> list[SplitResult]:
        splits = [Split("bin.000001", i << 9, i + 1 << 9, 1, i) for i in range(count)]
        return [SplitResult(one, one.start or 4, one.end) for one in splits]

    def check(found: list[SplitResult]) -> None:
        assert check_seams(found) == []

    grown = growth_of([partial(cost, partial(check, results(count))) for count in SEAMS], SEAMS)
    told(f"checking the seams of {SEAMS[1]:,} splits", "split", grown, SEAMS)
