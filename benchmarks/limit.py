"""The physical bound of each workload beside our figures: bytes from memory once, output written once.

    python benchmarks/limit.py [MEGABYTES [WORKLOAD …]]

For each workload, into arrays and into Arrow with strings and with views: the bytes of the log and of the
output, the time of a loop that does nothing but read the one and write the other (limit.c), and ours. Both
map the file anew in each pass. CPU time of this process, the best of alternating rounds, no checksums.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import binlog_core

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]

from logs import WORKLOADS, bench_log  # noqa: E402

ROUNDS = 25
WAYS = ("arrays", "Arrow", "Arrow, views")


def compiled(folder: Path) -> ctypes.CDLL:
    """limit.c, compiled for this machine."""
    library = folder / "limit.so"
    compiler = os.environ.get("CC", "cc")
    subprocess.run(
        [compiler, "-O3", "-march=native", "-shared", "-fPIC", "-o", library, HERE / "limit.c"], check=True
    )
    loaded = ctypes.CDLL(str(library))
    loaded.limit_pass.argtypes = (
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_size_t,
    )
    loaded.limit_pass.restype = ctypes.c_uint64
    return loaded


def decode(path: Path, way: str, count: bool = False) -> tuple[int, int]:
    """Bytes of the output if they are to be counted, and the number of groups."""
    written = groups = 0
    with binlog_core.open(path, verify_checksum=False) as log:
        for group in log.groups():
            groups += 1
            for batch in group.batches:
                if way == "arrays":
                    written += batch.array.nbytes
                    continue
                columns = batch.to_arrow() if way == "Arrow" else batch.to_arrow(text="view")
                if count:
                    written += own_bytes(columns)
    return written, groups


def own_bytes(batch: Any) -> int:
    """Bytes of the buffers that were written, without those of the log that views refer to."""
    return sum(16 * len(c) if str(c.type).endswith("_view") else c.nbytes for c in batch.columns)


def touch(library: ctypes.CDLL, path: Path, block: np.ndarray, written: int, groups: int) -> None:
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        data = np.frombuffer(mapped, np.uint8)
        library.limit_pass(data.ctypes.data, len(data), block.ctypes.data, written, groups)
        del data


def seconds(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def main(megabytes: int = 64, *names: str) -> None:
    print("| | into | MB read | MB written | bound, ms | ours, ms | ratio |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        library = compiled(Path(folder))
        for name in names or WORKLOADS:
            log = bench_log(name, megabytes)
            for way in WAYS:
                written, groups = decode(log.path, way, count=True)
                block = np.zeros(written // groups + 8, np.uint8)
                bound, ours = [], []
                for _ in range(ROUNDS):
                    bound.append(seconds(lambda: touch(library, log.path, block, written, groups)))  # noqa: B023
                    ours.append(seconds(lambda: decode(log.path, way)))  # noqa: B023
                least, taken = min(bound) * 1e3, min(ours) * 1e3
                print(
                    f"| {name} | {way} | {log.size / 1e6:.0f} | {written / 1e6:.0f}"
                    f" | {least:.1f} | {taken:.1f} | {least / taken:.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]), *sys.argv[2:])
