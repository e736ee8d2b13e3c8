"""binlog_core, or zlib.crc32, on one log for some seconds; a line for each round: rows, images, CPU seconds.

python ours.py LOG SECONDS arrays|arrow|rows|pandas|crc32
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


def arrays(path: str) -> None:
    with binlog_core.open(path, verify_checksum=False) as log:
        for _ in log.batches():
            pass


def arrow(path: str) -> None:
    with binlog_core.open(path, verify_checksum=False) as log:
        for batch in log.batches():
            batch.to_arrow()


def pandas(path: str) -> None:
    with binlog_core.open(path, verify_checksum=False) as log:
        for batch in log.batches():
            batch.to_pandas()


def rows(path: str) -> None:
    with binlog_core.open(path, verify_checksum=False) as log:
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


def main(path: str, limit: float, what: str) -> None:
    found = counts(path)
    ways: dict[str, Callable[[str], object]] = {f.__name__: f for f in (arrays, arrow, pandas, rows)}
    if what == "crc32":
        data = Path(path).read_bytes()
        ways["crc32"] = lambda path: zlib.crc32(data)
    begin = time.perf_counter()
    while True:
        start = time.process_time()
        ways[what](path)
        print(*found, time.process_time() - start, flush=True)
        if time.perf_counter() - begin > limit:
            break


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), sys.argv[3])
