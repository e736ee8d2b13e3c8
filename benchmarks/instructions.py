"""Instructions per row image of the decoding loop, which no busy neighbour changes.

``python benchmarks/instructions.py BASE CHANGE`` compares two built trees on small logs of each workload,
counted by callgrind around the loop alone, and fails where the change takes more than 5 % more.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]

from logs import WORKLOADS, BenchLog, bench_log  # noqa: E402

MEGABYTES = 2
MOST = 1.05
DECODE = """
import sys, binlog_core
with binlog_core.open(sys.argv[1], verify_checksum=False) as log:
    print("images", sum(len(batch.array) for batch in log.batches()))
"""


def instructions(tree: str, log: BenchLog) -> float:
    """Per row image of the log, decoded by the package of a built tree.

    Raises
    ------
    RuntimeError
        The tree decodes another number of row images, or callgrind did not count.
    """
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [
                "valgrind",
                "--tool=callgrind",
                "--toggle-collect=*Decoder_walk*",
                f"--callgrind-out-file={folder}/out",
                sys.executable,
                *("-c", DECODE, str(log.path)),
            ],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": os.path.abspath(tree), "OPENBLAS_NUM_THREADS": "1"},
        )
    images = re.search(r"^images (\d+)$", done.stdout, re.MULTILINE)
    counted = re.search(r"Collected : (\d+)", done.stderr)
    if images is None or counted is None or int(counted[1]) == 0:
        raise RuntimeError(f"nothing was counted in {tree}:\n{done.stderr[-2000:]}")
    if int(images[1]) != log.answer.images:
        raise RuntimeError(f"{tree}: {images[1]} row images of {log.name}, {log.answer.images} are there")
    return int(counted[1]) / int(images[1])


def main(base: str, change: str) -> int:
    """Print the table; 1 if a workload became more than 5 % worse."""
    worse = 0
    print(f"{'workload':<10}{'base':>10}{'change':>10}{'ratio':>8}")
    for name in WORKLOADS:
        log = bench_log(name, MEGABYTES)
        before, after = instructions(base, log), instructions(change, log)
        bad = after > before * MOST
        worse |= bad
        print(f"{name:<10}{before:>10.1f}{after:>10.1f}{after / before:>8.3f}{'  WORSE' if bad else ''}")
    return int(worse)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
