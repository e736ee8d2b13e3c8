"""The steps of an export, each as CPU seconds for a terabyte of logs, beside one process that only decodes
and writes.

One thread of this process does all; a log is read in five splits, so that its rows are staged. Times are the
least of some rounds that alternate. Nothing fails here: the other programs look at how costs grow.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from growth import cost
from logs import bench_log
from measure import LINES

pytest.importorskip("pyarrow")

import pyarrow as pa
import pyarrow.parquet as pq

from binlog_core.lake.rows.read_options import ReadOptions
from binlog_core.lake.rows.reader import read_split
from binlog_core.lake.runner import HERE
from binlog_core.lake.tables.merging import TableWriter
from binlog_core.lake.tables.parquet import ParquetDirectory
from binlog_core.lake.tables.split_writer import SplitWriter
from binlog_core.lake.tables.staged import StagedWriter
from binlog_core.lake.tables.writer import DEFAULT_FILE_SIZE
from binlog_core.splits import Split, plan_splits

SPLITS = 5
ROUNDS = 3
GROUP_BYTES = 64 << 20


def decode(splits: list[Split]) -> Any:
    for split in splits:
        for _, batch in read_split(split, unnamed="positions", absent=True):
            yield batch


def decode_and_write(splits: list[Split], folder: Path) -> None:
    """The same rows in one file, with pyarrow's own settings."""
    writer, waiting, size = None, list[Any](), 0

    def flush() -> None:
        table = pa.Table.from_batches(waiting)
        writer.write_table(table, row_group_size=table.num_rows)
        waiting.clear()

    for batch in decode(splits):
        if writer is None:
            writer = pq.ParquetWriter(folder / "one.parquet", batch.schema)
        waiting.append(batch)
        size += batch.nbytes
        if size > GROUP_BYTES:
            flush()
            size = 0
    if waiting:
        flush()
    writer.close()


class Export:
    """The stages of one export, each to be called once."""

    def __init__(self, splits: list[Split], folder: Path) -> None:
        self.splits = splits
        self.into = ParquetDirectory(str(folder), "run")
        self.into.begin()
        reading = ReadOptions(absent=True, statements=True, unnamed="positions")
        self.staging = SplitWriter(self.into.staging, reading, parts=StagedWriter)
        self.tables = TableWriter(self.into.staging, file_size=DEFAULT_FILE_SIZE)

    def stage(self) -> None:
        self.results = [self.staging.write(split, f"a{split.index}") for split in self.splits]

    def write_tables(self) -> None:
        self.found = self.tables.merged(self.results, HERE, HERE)

    def commit(self) -> None:
        self.done = self.into.commit(self.results, self.found)


@pytest.mark.skipif("CI" in os.environ, reason="it only tells")
@pytest.mark.parametrize("name", ["narrow", "sysbench", "lineitem", "wide", "tpcc"])
def test_steps_of_an_export(name: str, tmp_path: Path) -> None:
    log = bench_log(name)
    size = log.size
    splits = plan_splits(log.path, -(-size // SPLITS))
    assert len(splits) == SPLITS
    least: dict[str, float] = {}

    def take(what: str, work: Callable[[], Any]) -> None:
        least[what] = min(least.get(what, 1e9), cost(work))

    for number in range(ROUNDS):
        take("decode", lambda: sum(batch.num_rows for batch in decode(splits)))
        if name != "tpcc":  # of several tables
            take("decode, write", partial(decode_and_write, splits, tmp_path))
        export = Export(splits, tmp_path / f"out{number}")
        take("stage", export.stage)
        take("tables", export.write_tables)
        take("commit", export.commit)
        assert sum(sum(one.rows.values()) for one in export.done) == log.answer.images
        shutil.rmtree(tmp_path / f"out{number}")
    staged = least["stage"] + least["tables"] + least["commit"]
    plain = least.get("decode, write")
    LINES["CPU seconds for a terabyte of logs"].append(
        f"{name:<9}"
        + "  ".join(f"{what} {seconds * 1e12 / size:,.0f}" for what, seconds in least.items())
        + (f"  export / (decode, write) {staged / plain:.2f}" if plain else "")
    )
