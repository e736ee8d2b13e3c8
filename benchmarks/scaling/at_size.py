"""An export of many tables in many splits: the driver's memory, files, and the workers' CPU time.

    .venv/bin/python benchmarks/scaling/at_size.py SPLITS TABLES TABLES_OF_A_SPLIT [--linked]

Processes do the work, so that this one has a driver's memory only. The logs have three rows of each of their
tables; logs after the first ones are links to them, since only their number counts. With `--linked` the first
split alone is staged, and the others are links to its staged rows: what is left is the second stage and the
commit, at a quarter of the whole's time.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent
sys.path[:0] = map(str, (_HERE, _HERE.parent, _HERE.parents[1] / "tests"))

from bench_exports import COLUMNS, linked, staging_of  # noqa: E402
from support.writer import Log, Table  # noqa: E402

from binlog_core.lake.runner import HERE  # noqa: E402
from binlog_core.lake.tables.merging import TableWriter  # noqa: E402
from binlog_core.lake.tables.results import TableResult  # noqa: E402
from binlog_core.lake.tables.split_runs import Progress  # noqa: E402
from binlog_core.lake.tables.writer import DEFAULT_FILE_SIZE  # noqa: E402
from binlog_core.spark import export_logs  # noqa: E402

ROWS = 3


class Processes:
    """A `Runner` of processes."""

    slots = 2

    def __init__(self) -> None:
        self.pool = ProcessPoolExecutor(self.slots, multiprocessing.get_context("spawn"))
        self.seconds = 0.0  # CPU

    @property
    def light(self) -> Processes:
        return self

    def map(self, function: Any, tasks: Any) -> list[Any]:
        return list(self.pool.map(function, tasks))

    def each(self, function: Any, tasks: Any, stop: threading.Event | None = None) -> Iterator[Any]:
        for one in as_completed([self.pool.submit(function, task) for task in tasks]):
            yield one.result()

    def together(self, function: Any, count: int) -> list[Any]:
        return HERE.together(function, count)


def log_of(path: Path, first: int, tables: int) -> None:
    log = Log("8.0.36")
    for i in range(first, first + tables):
        table = Table("shop", f"orders_{i:05}", COLUMNS, primary_key=["id"])
        log.begin()
        log.insert(table, [{"id": k, "name": "x", "n": k, "at": None, "d": None} for k in range(ROWS)])
        log.commit()
    path.write_bytes(log.getvalue())


def told(progress: Progress, began: float = time.monotonic()) -> None:
    taken = time.monotonic() - began
    print(f"{taken:7.0f} s  {progress.done} of {progress.total} {progress.stage}", end="\r", flush=True)


def exported(folder: Path, splits: int, tables: int, each: int, runner: Processes) -> list[TableResult]:
    (logs := folder / "logs").mkdir()
    kinds = tables // each
    for i in range(splits):
        path = logs / f"bin.{i + 1:06}"
        if i < kinds:
            log_of(path, i * each, each)
        else:
            os.link(logs / f"bin.{i % kinds + 1:06}", path)
    result = export_logs(logs, folder / "out", runner=runner, progress=told)
    assert len(result.splits) == splits
    return result.tables


def merged(folder: Path, splits: int, tables: int, runner: Processes) -> list[TableResult]:
    split, into, staging = staging_of(folder, tables)
    results = linked(into, runner.pool.submit(staging.write, split, "a0").result(), splits)
    writer = TableWriter(into.staging, file_size=DEFAULT_FILE_SIZE)
    return into.commit(results, writer.merged(results, runner, runner, told))


def main() -> None:
    take = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name in ("splits", "tables", "each"):
        take.add_argument(name, type=int)
    take.add_argument("--linked", action="store_true")
    take.add_argument("--folder", default=None)
    known = take.parse_args()
    with tempfile.TemporaryDirectory(dir=known.folder) as name:
        runner, folder = Processes(), Path(name)
        before = resource.getrusage(resource.RUSAGE_SELF)
        if known.linked:
            found = merged(folder, known.splits, known.tables, runner)
        else:
            found = exported(folder, known.splits, known.tables, known.each, runner)
        after = resource.getrusage(resource.RUSAGE_SELF)
        runner.pool.shutdown()
        workers = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert len(found) == known.tables
        rows = ROWS * known.splits * (1 if known.linked else known.each / known.tables)
        assert {one.rows["insert"] for one in found} == {rows}
        print(
            f"\n{known.splits:,} splits, {known.tables:,} tables, {known.each:,} of them in each split"
            f"{', staged once' if known.linked else ''}\n"
            f"files of a table, and tables: {dict(Counter(one.files for one in found))}\n"
            f"driver: at most {after.ru_maxrss >> 10} MiB resident, {before.ru_maxrss >> 10} before;"
            f" {after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime:.0f} CPU-s\n"
            f"workers: at most {workers.ru_maxrss >> 10} MiB resident;"
            f" {workers.ru_utime + workers.ru_stime:.0f} CPU-s"
        )


if __name__ == "__main__":
    main()
