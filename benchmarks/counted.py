"""Run under callgrind: decode each log once to warm up, and once more between two client requests.

    valgrind --tool=callgrind --instr-atstart=no … python counted.py LIBRARY LOG …

prints "NAME WAY IMAGES" for each dump, in their order. LIBRARY is callgrind.c, compiled.
"""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import sys
from pathlib import Path

import binlog_core


def decode(path: str, way: str) -> int:
    """Row images, decoded into arrays or on into Arrow."""
    images = 0
    with binlog_core.open(path, verify_checksum=False) as log:
        for batch in log.batches():
            images += len(batch)
            if way == "arrow":
                batch.to_arrow()
            else:
                batch.array  # noqa: B018  is made when it is asked for
    return images


def main(library: str, logs: list[str]) -> None:
    callgrind = ctypes.CDLL(library)
    ways = ["arrays", *(["arrow"] if importlib.util.find_spec("pyarrow") else [])]
    for path in logs:
        for way in ways:
            images = decode(path, way)
            gc.collect()
            gc.disable()  # or a collection falls now here, now there
            callgrind.start_counting()
            decode(path, way)
            callgrind.stop_counting(f"{Path(path).stem} {way}".encode())
            gc.enable()
            print(Path(path).stem, way, images, flush=True)
    print("from", binlog_core.__file__, file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
