"""Run under callgrind: decode each log once to warm up, and once more between two client requests.

    valgrind --tool=callgrind --instr-atstart=no … python counted.py LIBRARY JOB …

A job is a log: "PATH", "PATH+2" for two threads, "PATH+read" to read it instead of mapping, "PATH+group" to
count from the second group on, when its tables are known, and until they are forgotten. Prints
"NAME WAY IMAGES COUNTED" for each dump, in order: the row images of the log, and of what was counted. LIBRARY
is callgrind.c, compiled.
"""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import binlog_core


def decode(
    path: str, how: str, way: str, begin: Callable[[], object] = list, end: Callable[[], object] = list
) -> list[int]:
    """Row images of each group; for `rows`, of all. What runs between `begin` and `end` is counted."""
    images = []
    if how != "group":
        begin()
    threads = int(how) if how.isdigit() else 1
    with binlog_core.open(path, verify_checksum=False, threads=threads, mmap=how != "read") as log:
        if way == "rows":
            images.append(sum(2 if change.op == "update" else 1 for change in log.rows()))
        else:
            for group in log.groups():
                images.append(0)
                for batch in group.batches:
                    images[-1] += len(batch)
                    if way == "arrow":
                        batch.to_arrow()
                    else:
                        batch.array  # noqa: B018  is made when it is asked for
                if how == "group" and len(images) == 1:
                    begin()
        if how == "group":
            end()
    if how != "group":
        end()
    return images


def main(library: str, jobs: list[str]) -> None:
    callgrind = ctypes.CDLL(library)
    ways = ["arrays", *(["arrow"] if importlib.util.find_spec("pyarrow") else [])]
    for job in jobs:
        path, _, how = job.partition("+")
        name = Path(path).stem + (f"+{how}" if how else "")
        for way in ways if how else [*ways, "rows"]:
            images = decode(path, how, way)
            gc.collect()
            gc.disable()  # otherwise garbage collections would fall in different places
            stop = partial(callgrind.stop_counting, f"{name} {way}".encode())
            decode(path, how, way, callgrind.start_counting, stop)
            gc.enable()
            print(name, way, sum(images), sum(images[how == "group" :]), flush=True)
    print("from", binlog_core.__file__, file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
