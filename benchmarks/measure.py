"""Timing as a ratio: our pass over some bytes against zlib.crc32 over the same bytes, taken in turns."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from logs import BenchLog

# First floors, one thread, into arrays, without checksum.
FLOORS = {
    ("narrow", "arrays"): 0.2,
    ("sysbench", "arrays"): 0.8,
    ("lineitem", "arrays"): 0.2,
    ("wide", "arrays"): 0.12,
}
SECONDS = 2.0  # of rounds; on a busy machine the best of many is what counts


@dataclass
class Result:
    workload: str
    what: str
    size: int  # bytes
    rows: int
    seconds: float  # best round
    crc_seconds: float  # best round

    @property
    def ratio(self) -> float:
        return self.crc_seconds / self.seconds


@dataclass
class Memory:
    """Peak anonymous resident memory of a process that decodes a log, in bytes."""

    workload: str
    size: int  # of the log
    before: int  # Python and the imported package
    peak: int

    @property
    def taken(self) -> int:
        return self.peak - self.before


RESULTS: list[Result] = []
MEMORY: list[Memory] = []


def measure_memory(log: BenchLog) -> Memory:
    """Decode a log into arrays in a process of its own, for the closing table."""
    script = Path(__file__).with_name("memory.py")
    done = subprocess.run([sys.executable, script, log.path], check=True, capture_output=True, text=True)
    result = Memory(log.name, log.size, **json.loads(done.stdout))
    MEMORY.append(result)
    return result


def measure(
    benchmark: Any, log: BenchLog, what: str, work: Callable[[], object], most_rounds: int = 25
) -> Result | None:
    """Time ``work``, each round after a pass of crc32, and keep the best of both for the closing table.

    Returns None where benchmarks are disabled (--benchmark-disable).
    """
    data = log.path.read_bytes()
    crc_seconds = []

    def one_pass_of_crc32() -> None:
        start = time.perf_counter()
        zlib.crc32(data)
        crc_seconds.append(time.perf_counter() - start)

    start = time.perf_counter()
    work()
    rounds = min(most_rounds, max(3, int(SECONDS / (time.perf_counter() - start))))
    benchmark.pedantic(work, setup=one_pass_of_crc32, rounds=rounds)
    if not getattr(benchmark, "stats", None):
        return None
    result = Result(log.name, what, log.size, log.answer.rows, benchmark.stats.stats.min, min(crc_seconds))
    benchmark.extra_info.update(
        ratio=result.ratio, rows_per_second=result.rows / result.seconds, bytes=log.size
    )
    RESULTS.append(result)
    return result
