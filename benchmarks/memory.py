"""Decode the log named on the command line into arrays, and print the peak of anonymous memory as JSON."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

import binlog_core

EVERY = 0.001  # seconds between two looks


def anonymous() -> int:
    """Bytes of resident memory that no file backs: the mapped log does not count."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) * 1024


def main(path: str) -> None:
    before = peak = anonymous()
    done = threading.Event()

    def look() -> None:
        nonlocal peak
        while not done.wait(EVERY):
            peak = max(peak, anonymous())

    looking = threading.Thread(target=look)
    looking.start()
    try:
        with binlog_core.open(path) as log:
            for _ in log.batches():
                pass
    finally:
        done.set()
        looking.join()
    print(json.dumps({"before": before, "peak": peak}))


if __name__ == "__main__":
    main(sys.argv[1])
