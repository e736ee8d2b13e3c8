"""Decode the log named on the command line into arrays, and print the peak of anonymous memory as JSON."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import binlog_core

EVERY = 0.001  # seconds between two looks


def anonymous(pid: int | str = "self") -> int:
    """Bytes of a process's resident memory that no file backs: the mapped log does not count."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) * 1024


@contextmanager
def peak(every: float = EVERY, of: Callable[[], int] = anonymous) -> Iterator[list[int]]:
    """The most anonymous memory that this process had in the meantime, sampled every so many seconds."""
    most, done = [of()], threading.Event()

    def look() -> None:
        while not done.wait(every):
            most[0] = max(most[0], of())

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield most
    finally:
        done.set()
        looking.join()


def main(path: str) -> None:
    before = anonymous()
    with peak() as most, binlog_core.open(path) as log:
        for _ in log.batches():
            pass
    print(json.dumps({"before": before, "peak": most[0]}))


if __name__ == "__main__":
    main(sys.argv[1])
