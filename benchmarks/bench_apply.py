"""Changes of a log folded and written into a Delta table, against decoding them and writing them as Parquet.

Both run in this process and in one thread, alternating; ratios of CPU seconds are shown. BINLOG_BENCH_MB
sets the size of each log.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from logs import bench_log
from measure import LINES

from binlog_core.lake.apply import batch as batches
from binlog_core.lake.apply.changes import Changes
from binlog_core.lake.apply.file_target import FileTarget
from binlog_core.spark import apply_changes, read_changes

_ROUNDS = 3
_SUBJECT = "apply: CPU seconds, and their ratio to decoding + pyarrow's Parquet writing"


class Streamed:
    """The changes of a log as they are decoded, without a table of them all. See `Jobs`."""

    def __init__(self, changes: Any) -> None:
        self.changes, self.schema = changes, changes.schema

    def stage(self, function: Callable[[Any], Any], *, together: bool = False) -> list[Any]:
        return [function(self.changes)]

    def run(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        return [function(task) for task in tasks]


@pytest.mark.parametrize(("name", "table"), [("lineitem", "bench.lineitem"), ("sysbench", "bench.sbtest1")])
def test_apply(
    name: str, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, benchmark: Any
) -> None:
    log = bench_log(name)
    pa.set_cpu_count(1)
    took: dict[str, float] = {"decode": 1e9, "decode + Parquet": 1e9, "apply": 1e9}

    def read() -> Any:
        return read_changes(log.path, table=table, ddl="rows", absent="true")

    def decode() -> int:
        return sum(batch.num_rows for batch in read())

    def write() -> int:
        reader = read()
        with pq.ParquetWriter(tmp_path / "plain.parquet", reader.schema, store_schema=False) as writer:
            for batch in reader:
                writer.write_batch(batch)
        return pq.read_metadata(tmp_path / "plain.parquet").num_rows

    stages: dict[str, float] = {}

    def timed(owner: Any, what: str) -> None:
        real = getattr(owner, what)

        def run(*args: Any, **kwargs: Any) -> Any:
            began = time.process_time()
            try:
                return real(*args, **kwargs)
            finally:
                stages[what] = time.process_time() - began

        monkeypatch.setattr(owner, what, run)

    for owner, what in ((Changes, "stage"), (Changes, "fold"), (FileTarget, "_commit")):
        timed(owner, what)
    number = 0

    def apply() -> int:
        nonlocal number
        number += 1
        reader = read()
        monkeypatch.setattr(batches, "_jobs_of", lambda _: Streamed(reader))
        told = apply_changes(reader.schema.empty_table(), tmp_path / f"target{number}")
        return told.changes

    count = decode()
    for _ in range(_ROUNDS):
        for what, run in (("decode", decode), ("decode + Parquet", write), ("apply", apply)):
            began = time.process_time()
            assert run() == count
            spent = time.process_time() - began
            if spent < took[what]:
                took[what] = spent
                if what == "apply":
                    best = dict(stages)
    benchmark.pedantic(apply, rounds=1)
    told = ", ".join(f"{what} {spent:.2f}" for what, spent in best.items())
    LINES.setdefault(_SUBJECT, []).append(
        f"{name:<10}{count:>10,} images  decode {took['decode']:.2f}"
        f"  + Parquet {took['decode + Parquet']:.2f}"
        f"  apply {took['apply']:.2f} ({told})  ratio {took['apply'] / took['decode + Parquet']:.2f}"
        f"  {took['apply'] / count * 1e6:.2f} us an image,"
        f" peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MB"
    )
