"""binlog_core, or zlib.crc32, on one log for some seconds. Prints rows, images and seconds of each round.

python ours.py LOG SECONDS WAY [checksums] [threads=N]

WAY is arrays, arrow, rows or crc32. Seconds are CPU time; with several threads, wall time.
"""

from __future__ import annotations

import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

import binlog_core

UPDATE_PREIMAGE = 2


def arrays(log: binlog_core.Log) -> None:
    for batch in log.batches():
        batch.array  # noqa: B018  is made when it is asked for


def arrow(log: binlog_core.Log) -> None:
    for batch in log.batches():
        batch.to_arrow()


def rows(log: binlog_core.Log) -> None:
    for _ in log.rows():
        pass


def counts(path: str) -> tuple[int, int]:
    """Rows and row images."""
    images = preimages = 0
    with binlog_core.open(path, verify_checksum=True) as log:
        for batch in log.batches():
            images += len(batch.array)
            preimages += int(np.count_nonzero(batch.array["image"]["op"] == UPDATE_PREIMAGE))
    return images - preimages, images


def main(path: str, limit: float, way: str, *options: str) -> None:
    found = counts(path)
    threads = next((int(one.partition("=")[2]) for one in options if one.startswith("threads=")), 1)
    clock = time.process_time if threads == 1 else time.perf_counter
    ways: dict[str, Callable[[binlog_core.Log], None]] = {f.__name__: f for f in (arrays, arrow, rows)}
    data = Path(path).read_bytes() if way == "crc32" else b""
    begin = time.perf_counter()
    while True:
        start = clock()
        if data:
            zlib.crc32(data)
        else:
            with binlog_core.open(path, verify_checksum="checksums" in options, threads=threads) as log:
                ways[way](log)
        print(*found, clock() - start, flush=True)
        if time.perf_counter() - begin > limit:
            break


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), *sys.argv[3:])
