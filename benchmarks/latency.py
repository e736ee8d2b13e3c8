"""How soon after a commit a follower has its row, on an idle server, and how much memory a live pass takes:

    BINLOG_CORE_TEST_SERVER=mysql://root@127.0.0.1 python benchmarks/latency.py [COMMITS]

One row is committed at a time, with a pause before each. The output has the median, the 99th percentile and
the maximum, in milliseconds, from the client's commit and from when it was acknowledged; then the peak memory
of reading 64 MB of logs from the server and from a copy of them, each in its own process.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
import warnings

import binlog_core
from binlog_core.archive import archive
from binlog_core.server.address import Address
from binlog_core.server.connection import Connection

PAUSE = 0.02  # seconds
DATABASE = "latency_bench"
SIZE = 64 << 20
PEAK = """
import re, sys, warnings, binlog_core
warnings.simplefilter("ignore")
peak = lambda: int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
before = peak()
with binlog_core.open(sys.argv[1], start=(sys.argv[2], 4), mmap={mmap}) as log:
    rows = sum(len(batch) for batch in log.batches())
print(rows, (peak() - before) // 1024)
"""


def latencies(url: str, server: Connection, commits: int) -> None:
    arrived: list[float] = []
    there = threading.Event()
    with binlog_core.open(url, start="now", follow=True) as log:

        def follow() -> None:
            for _ in log.rows(f"{DATABASE}.t"):
                arrived.append(time.perf_counter())
                there.set()

        reader = threading.Thread(target=follow)
        reader.start()
        time.sleep(1)
        sent, known = [], []
        for i in range(commits):
            time.sleep(PAUSE)
            there.clear()
            sent.append(time.perf_counter())
            server.query(f"INSERT INTO {DATABASE}.t (v) VALUES ('{i}')")
            known.append(time.perf_counter())
            if not there.wait(30):
                sys.exit("no row came within 30 s")
        log.stop()
        reader.join()
    for name, begun in (("known", known), ("sent", sent)):
        took = sorted(1000 * (b - a) for a, b in zip(begun, arrived, strict=True))
        middle, late = took[len(took) // 2], took[len(took) * 99 // 100]
        print(f"commit {name:6} to row: median {middle:6.2f} ms, 99 % {late:6.2f}, most {took[-1]:6.2f}")


def memory(url: str, server: Connection) -> None:
    server.query("FLUSH BINARY LOGS")
    begun = str(server.query("SHOW BINARY LOGS")[-1][0])
    values = ",".join(f"('{'v' * 200}')" for _ in range(2000))
    written = 0
    while written < SIZE:
        server.query(f"INSERT INTO {DATABASE}.t (v) VALUES {values}")
        written += 2000 * 206
    server.query("FLUSH BINARY LOGS")
    with tempfile.TemporaryDirectory() as folder:
        archive(url, folder, start=begun, until="now")
        for what, target, mmap in (("server", url, "None"), ("file", folder, "False")):
            told = subprocess.run(
                [sys.executable, "-c", PEAK.format(mmap=mmap), target, begun],
                capture_output=True,
                text=True,
                check=True,
            )
            rows, mebibytes = told.stdout.split()
            print(f"memory of a {what:6}: {mebibytes:>4} MiB for {rows} row images")


def main() -> None:
    warnings.simplefilter("ignore", binlog_core.BinlogWarning)
    url = os.environ["BINLOG_CORE_TEST_SERVER"]
    with Connection(Address.of(url)) as server:
        server.query(f"DROP DATABASE IF EXISTS {DATABASE}")
        server.query(f"CREATE DATABASE {DATABASE}")
        server.query(f"CREATE TABLE {DATABASE}.t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(200))")
        latencies(url, server, int(sys.argv[1]) if len(sys.argv) > 1 else 200)
        memory(url, server)
        server.query(f"DROP DATABASE {DATABASE}")


if __name__ == "__main__":
    main()
