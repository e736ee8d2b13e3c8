"""`apply_changes` of a log's table in one process, into a new Delta table: changes a second, and CPU seconds:

    python benchmarks/apply_alone.py LOG TABLE

With PYTHONPATH on an older build it measures that one.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

from binlog_core.spark import apply_changes, read_changes


def main(log: str, table: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        begun, cpu = time.perf_counter(), time.process_time()
        changes = read_changes(log, table=table, ddl="rows", absent="true").read_all()
        decoded = time.process_time() - cpu
        apply_changes(changes, Path(folder) / "target")
        seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
    count, most = changes.num_rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(
        f"{count:,} images, {count / seconds:,.0f} a second; CPU {cpu:.1f} s, {cpu / count * 1e6:.2f} us an"
        f" image, of which decoding {decoded:.1f}; {most} MB"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
