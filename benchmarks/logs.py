"""The logs of the benches, made once per recipe and size and kept in benchmarks/data."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from pathlib import Path

from cliffs import CLIFFS
from many_tables import tables, tpcc
from workloads import RECIPE, Answer, Maker, huge, lineitem, narrow, sysbench, wide

FOLDER = Path(__file__).parent / "data"
WORKLOADS: dict[str, Callable[[Maker], None]] = {
    make.__name__: make for make in (narrow, sysbench, lineitem, wide, tpcc, tables)
}
MEMORY_WORKLOADS = {**WORKLOADS, huge.__name__: huge}
EVERY = {**MEMORY_WORKLOADS, **CLIFFS}


def megabytes() -> int:
    """Size of each log, from BINLOG_BENCH_MB; 64 by default."""
    return int(os.environ.get("BINLOG_BENCH_MB", "64"))


@dataclasses.dataclass(frozen=True)
class BenchLog:
    name: str
    path: Path
    answer: Answer

    @property
    def size(self) -> int:
        """Bytes."""
        return self.path.stat().st_size


def bench_log(name: str, mb: int | None = None) -> BenchLog:
    """The log of a workload, from the cache or made again.

    Parameters
    ----------
    name : str
        A key of EVERY.
    mb : int, optional
        Size in 10**6 bytes.
    """
    size = megabytes() if mb is None else mb
    path = FOLDER / f"{name}-{size}mb-{RECIPE}.binlog"
    told = path.with_suffix(".json")
    if not (path.exists() and told.exists()):
        FOLDER.mkdir(exist_ok=True)
        make = Maker(size * 10**6)
        EVERY[name](make)
        make.log.rotate("bench.000002")
        path.write_bytes(make.log.getvalue())
        told.write_text(json.dumps(dataclasses.asdict(make.answer)))
    return BenchLog(name, path, Answer(**json.loads(told.read_text())))
