"""Timing as a ratio: our pass over some bytes against zlib.crc32 over the same bytes, alternating.

In CPU time of this process: waiting on a busy machine does not count, but the kernel's work for the process
does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import zlib
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from logs import BenchLog

# Rate over that of zlib.crc32, one thread, without checksum.
FLOORS = {
    ("narrow", "arrays"): 0.35,
    ("sysbench", "arrays"): 1.5,
    ("lineitem", "arrays"): 0.33,
    ("wide", "arrays"): 0.20,
    ("narrow", "arrow"): 0.30,
    ("sysbench", "arrow"): 1.0,
    ("lineitem", "arrow"): 0.25,
    ("wide", "arrow"): 0.15,
}
# Of rounds; on a busy machine the best of many is what counts. CI compares no seconds, and takes fewer.
SECONDS = 0.5 if os.environ.get("CI") else 2.0


@dataclass
class Result:
    workload: str
    what: str
    size: int  # bytes
    rows: int
    seconds: float  # CPU time of the best round
    crc_seconds: float  # the same

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


LINES: defaultdict[str, list[str]] = defaultdict(list)  # of the closing report, by subject
RESULTS: list[Result] = []
MEMORY: list[Memory] = []


def measure_memory(log: BenchLog) -> Memory:
    """Decode a log into arrays in a separate process, for the closing table."""
    script = Path(__file__).with_name("memory.py")
    done = subprocess.run([sys.executable, script, log.path], check=True, capture_output=True, text=True)
    result = Memory(log.name, log.size, **json.loads(done.stdout))
    MEMORY.append(result)
    return result


def measure(
    benchmark: Any, log: BenchLog, what: str, work: Callable[[], object], most_rounds: int = 25
) -> Result | None:
    """Time ``work``, each round after a pass of crc32, and keep the best of both for the closing table.

    Returns None if benchmarks are disabled (--benchmark-disable).
    """
    data = log.path.read_bytes()
    crc_seconds: list[float] = []
    seconds: list[float] = []

    def timed(what: Callable[[], object], taken: list[float]) -> None:
        start = time.process_time()
        what()
        taken.append(time.process_time() - start)

    begin = time.perf_counter()
    work()
    rounds = min(most_rounds, max(3, int(SECONDS / (time.perf_counter() - begin))))
    benchmark.pedantic(
        lambda: timed(work, seconds),
        setup=lambda: timed(lambda: zlib.crc32(data), crc_seconds),
        rounds=rounds,
    )
    if not getattr(benchmark, "stats", None):
        return None
    result = Result(log.name, what, log.size, log.answer.rows, min(seconds), min(crc_seconds))
    benchmark.extra_info.update(
        ratio=result.ratio, rows_per_second=result.rows / result.seconds, bytes=log.size
    )
    RESULTS.append(result)
    return result
