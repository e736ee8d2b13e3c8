"""How cost grows with columns, rows, events and threads. Ratios within one run.

By CPU time, which other programs disturb less; threads by wall time. Since machines are busy, slowness does
not fail: only growth that is not linear does.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import columns as c
import numpy as np
import pytest
from logs import FOLDER, BenchLog, bench_log
from measure import LINES, SECONDS
from support.writer import Table
from workloads import RECIPE, WRITE, Answer, Maker, insert_narrow

import binlog_core

COLUMNS = (1, 10, 100, 500)
COLUMNS_MB = 32  # large enough for a definition of 500 columns, 4 ms, not to count for much
ROWS = (10**4, 10**5, 10**6)
MOST_ROWS = int(os.environ.get("BINLOG_BENCH_ROWS", ROWS[-1]))  # 100000000 by hand: a log of 2.7 GB
THREAD_BYTES = 128_000_000  # of log to each thread, so that starting it does not count
BENT = 3  # times the cost on a line; what grows with the square costs five to ten times as much


def decode(path: Path, **options: bool) -> None:
    with binlog_core.open(path, **{"verify_checksum": False, **options}) as log:
        for _ in log.batches():
            pass


def best(
    works: list[Callable[[], object]], clock: Callable[[], float] = time.process_time, rounds: int = 3
) -> list[float]:
    """Best time of each, alternating: at least `rounds` rounds, and more until some seconds are over."""
    times: list[list[float]] = [[] for _ in works]
    begin = time.perf_counter()
    while len(times[0]) < rounds or time.perf_counter() - begin < SECONDS:
        for work, taken in zip(works, times, strict=True):
            start = clock()
            work()
            taken.append(clock() - start)
    return [min(taken) for taken in times]


# ------------------------------------------------------------------ columns


def columns_log(count: int, mb: int) -> BenchLog:
    """One table of INT columns without NULLs, 100 rows a transaction; made again each time."""
    names = [(f"c{i}", "INT", {"null": False}) for i in range(count)]
    table = Table("bench", f"of{count}", names, primary_key=["c0"])
    n = np.arange(100)
    image = c.row_images([c.little(c.below(n, i, 1 << 31), 4) for i in range(count)])
    pieces = c.pieces(image)
    make = Maker(mb * 10**6)
    while not make.full:
        make.begin()
        for _ in range(max(1, 20_000 // (100 * count))):
            make.statement("INSERT", table, WRITE, pieces)
        make.commit()
    return _written(f"columns{count}-{mb}mb", make)


def _written(name: str, make: Maker) -> BenchLog:
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{name}-{RECIPE}.binlog"
    path.write_bytes(make.log.getvalue())
    return BenchLog(name, path, make.answer)


def test_columns() -> None:
    logs = [columns_log(count, COLUMNS_MB) for count in COLUMNS]
    times = best([lambda log=log: decode(log.path) for log in logs])
    row = [seconds / log.answer.rows * 1e9 for seconds, log in zip(times, logs, strict=True)]
    for count, ns in zip(COLUMNS, row, strict=True):
        LINES["columns"].append(f"{count:>4} INT columns: {ns:9.1f} ns a row, {ns / count:6.2f} ns a value")
    # The line goes through the two middle sizes.
    slope = (row[2] - row[1]) / (COLUMNS[2] - COLUMNS[1])
    line = row[2] + slope * (COLUMNS[3] - COLUMNS[2])
    LINES["columns"].append(f"{COLUMNS[3]} columns cost {row[3] / line:.2f} of the line through 10 and 100")
    assert row[3] <= BENT * line


# --------------------------------------------------------------------- rows


def rows_log(count: int) -> BenchLog:
    """The rows of narrow.

    Above a million, the events of the first million again and again, with their old positions.
    """
    path = FOLDER / f"rows{count}-{RECIPE}.binlog"
    make = Maker(1 << 62)
    once = min(count, 10**6)
    start = make.log.position
    while make.answer.rows < once:
        make.begin()
        insert_narrow(make)
        make.commit()
    data = make.log.getvalue()
    FOLDER.mkdir(exist_ok=True)
    with path.open("wb") as file:
        file.write(data[:start])
        for _ in range(count // once):
            file.write(data[start:])
    return BenchLog(f"rows{count}", path, Answer(rows=count))


def test_rows() -> None:
    counts = [10**i for i in range(4, 10) if 10**i <= max(MOST_ROWS, ROWS[-1])]
    logs = [rows_log(count) for count in counts]
    try:
        for log in logs:
            with binlog_core.open(log.path, verify_checksum=False) as source:
                assert sum(len(batch.array) for batch in source.batches()) == log.answer.rows
        times = best([lambda log=log: decode(log.path) for log in logs])
    finally:
        for log in logs:
            log.path.unlink()
    ns = [seconds / count * 1e9 for seconds, count in zip(times, counts, strict=True)]
    for count, each in zip(counts, ns, strict=True):
        LINES["rows"].append(f"{count:>11,} rows of narrow: {each:6.1f} ns a row")
    assert ns[-1] <= BENT * ns[1]


# ------------------------------------------------------------------- events


def test_events() -> None:
    """tpcc and tables against sysbench, per event."""
    logs = [bench_log(name) for name in ("sysbench", "tpcc", "tables")]
    counts = []
    for log in logs:
        with binlog_core.open(log.path, verify_checksum=False) as source:
            counts.append(len(source.headers()))
    times = best([lambda log=log: decode(log.path) for log in logs])
    ns = [seconds / count * 1e9 for seconds, count in zip(times, counts, strict=True)]
    for log, count, each in zip(logs, counts, ns, strict=True):
        LINES["events"].append(
            f"{log.name:<9}{count:>10,} events: {each:7.1f} ns an event, {each / ns[0]:5.2f} of sysbench"
        )


# ---------------------------------------------------------- checks, threads


@pytest.mark.parametrize("name", ["narrow", "sysbench", "lineitem", "wide", "tpcc", "tables"])
def test_checksum(name: str) -> None:
    path = bench_log(name).path
    off, on = best([lambda: decode(path), lambda: decode(path, verify_checksum=True)])
    LINES["checksums"].append(f"{name:<9}with checksums {off / on:5.2f} of the rate without")


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one processor")
@pytest.mark.parametrize("name", ["narrow", "sysbench", "lineitem", "wide"])
def test_threads(name: str) -> None:
    """Two files in two threads against the same two, one after the other."""
    log = bench_log(name)
    times = max(1, THREAD_BYTES // log.size)

    def again_and_again(_: int = 0) -> None:
        for _ in range(times):
            decode(log.path)

    def one() -> None:
        again_and_again()
        again_and_again()

    with ThreadPoolExecutor(2) as pool:

        def two() -> None:
            list(pool.map(again_and_again, range(2)))

        alone, together = best([one, two], time.perf_counter)
    LINES["threads"].append(f"{name:<9}two files in two threads: {alone / together:5.2f} times one")


@pytest.mark.parametrize("arrow", [False, True], ids=["arrays", "arrow"])
@pytest.mark.parametrize("name", ["narrow", "sysbench", "lineitem", "wide", "tables"])
def test_one_log_in_two_threads(name: str, arrow: bool) -> None:
    """`threads=2` against one: by wall time, and the cost in CPU time."""
    log = bench_log(name)

    def read(threads: int) -> None:
        with binlog_core.open(log.path, verify_checksum=False, threads=threads) as opened:
            for batch in opened.batches():
                if arrow:
                    batch.to_arrow()

    works = [lambda: read(1), lambda: read(2)]
    (alone, together), (cost, costs) = best(works, time.perf_counter), best(works)
    told = f"two threads {alone / together:5.2f} times one, CPU time {costs / cost:5.2f}"
    LINES["threads"].append(f"{name:<9}{'arrow' if arrow else 'arrays':<7}{told}")
