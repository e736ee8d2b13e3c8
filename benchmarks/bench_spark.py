"""Ways from logs into Spark, CPU seconds and wall time side by side in one run.

    python benchmarks/bench_spark.py LOG [LOG ...] --table database.table [--split-size 32m]

CPU seconds are of this process, the JVM and the Python workers together (Linux). Where the machine is busy
with other work wall times say little: for the direct write the ratio is also given as its tasks' CPU seconds,
dealt out in their order to two cores, over those of the one process.
"""

from __future__ import annotations

import argparse
import ctypes
import heapq
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from binlog_core.lake.rows.option_texts import size_or_none
from binlog_core.spark import ReadOptions, export_logs, plan_splits, read_split
from binlog_core.spark.dataframe import changes_df
from binlog_core.spark.session import quiet_java, start_session

TICKS = os.sysconf("SC_CLK_TCK")
SPLIT_COUNTS = (1, 4, 16, 64)
_PR_SET_CHILD_SUBREAPER = 36


def keep_orphans() -> None:
    """Workers whose parent ends become our children, and can still be counted after they end."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants() -> Iterator[tuple[int, str, list[str]]]:
    """This process and all its descendants: number, name, and the fields after these in ``stat``."""
    children: dict[int, list[int]] = {}
    found: dict[int, tuple[str, list[str]]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            name, _, rest = (entry / "stat").read_text().rpartition(")")
        except OSError:
            continue  # it has ended
        pid, fields = int(entry.name), rest.split()
        children.setdefault(int(fields[1]), []).append(pid)
        found[pid] = name.partition("(")[2], fields
    waiting = [os.getpid()]
    while waiting:
        pid = waiting.pop()
        yield pid, *found[pid]
        waiting += children.get(pid, [])


def cpu_seconds() -> float:
    """CPU seconds of this process and all its descendants, including those that have ended."""
    # Its own, and of children that were waited for.
    return sum(sum(map(int, fields[11:15])) / TICKS for _, _, fields in descendants())


def measure(name: str, run: Callable[[], Any]) -> tuple[float, float, Any]:
    cpu, wall = cpu_seconds(), time.perf_counter()
    result = run()
    wall, cpu = time.perf_counter() - wall, cpu_seconds() - cpu
    print(f"{name:52} {wall:8.2f} s wall {cpu:8.2f} CPU-s", flush=True)
    return wall, cpu, result


def on_cores(seconds: Iterable[float], cores: int) -> float:
    """When the last task ends if this many cores take the tasks in order."""
    busy = [0.0] * cores
    for one in seconds:
        heapq.heapreplace(busy, busy[0] + one)
    return max(busy)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("logs", nargs="+")
    parser.add_argument("--table", required=True)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--split-size", default="32m", type=size_or_none)
    given = parser.parse_args()
    options = ReadOptions(tables=(given.table,), unnamed="positions")
    source = {"table": given.table, "unnamed": "positions", "absent": "false"}
    divided = {**source, "splitSize": str(given.split_size or 0)}
    folder = Path(tempfile.mkdtemp())
    size = sum(os.path.getsize(log) for log in given.logs)
    print(f"{size / 1e6:.0f} MB of logs in {len(plan_splits(given.logs, given.split_size))} splits")
    keep_orphans()

    def read(logs: list[str]) -> Any:
        for split in plan_splits(logs):
            yield split, (batch for _, batch in read_split(split, tables=given.table, unnamed="positions"))

    def decode() -> None:
        for _, batches in read(given.logs):
            for _ in batches:
                pass

    def one_process() -> None:
        import pyarrow
        import pyarrow.parquet as pq

        for split, batches in read(given.logs):
            writer, waiting = None, []

            def flush(writer: Any, waiting: list[Any]) -> None:
                table = pyarrow.Table.from_batches(waiting)
                writer.write_table(table, row_group_size=table.num_rows)
                waiting.clear()

            for batch in batches:
                if writer is None:
                    writer = pq.ParquetWriter(folder / f"one-{split.index}.parquet", batch.schema)
                waiting.append(batch)
                if sum(one.nbytes for one in waiting) > 64 << 20:
                    flush(writer, waiting)
            if writer is not None:
                flush(writer, waiting)
                writer.close()

    def tuples() -> None:
        def rows(splits: Any) -> Any:
            for split in splits:
                for _, batch in read_split(split, tables=given.table, unnamed="positions"):
                    yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

        parts = plan_splits(given.logs[:1], given.split_size)
        frame = changes_df(spark, given.logs[:1], **source)
        rdd = spark.sparkContext.parallelize(parts, len(parts)).mapPartitions(rows)
        made = spark.createDataFrame(rdd, frame.schema, verifySchema=False)
        made.write.format("noop").mode("overwrite").save()

    def export(name: str, split_size: int | None, logs: list[str] = given.logs) -> Any:
        return export_logs(logs, folder / name, spark=spark, options=options, split_size=split_size)

    def noop(frame: Any) -> Callable[[], None]:
        return lambda: frame.write.format("noop").mode("overwrite").save()

    _, decode_cpu, _ = measure("decode to record batches, one process", decode)
    one_wall, one_cpu, _ = measure("the same, written by pyarrow, one process", one_process)
    with quiet_java():
        spark = start_session(given.master)
    try:
        # Now the workers are there and have imported what they need, and the JVM has run each way once.
        export("warm", given.split_size, given.logs[:1])
        noop(changes_df(spark, given.logs[:1], **divided))()
        spark.read.format("binlog").options(**divided).load(given.logs[:1]).limit(1).collect()
        wall, cpu, result = measure("direct write (export)", lambda: export("direct", given.split_size))
        frame = spark.read.format("binlog").options(**divided).load(given.logs)
        measure("data source, nothing written", noop(frame))
        _, source_cpu, _ = measure(
            "data source, Spark's Parquet", lambda: frame.write.parquet(str(folder / "source"))
        )
        measure("changes_df, nothing written", noop(changes_df(spark, given.logs, **divided)))
        for count in SPLIT_COUNTS:
            per_file = -(-size // count) if count > len(given.logs) else None
            splits = len(plan_splits(given.logs, per_file))
            measure(f"direct write in {splits} splits", lambda c=count, p=per_file: export(f"direct-{c}", p))
        _, tuples_cpu, _ = measure("tuples through createDataFrame, the first log", tuples)
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)
    tasks = [split.cpu_seconds for split in result.splits]
    reading = sum(split.read_seconds for split in result.splits) / sum(s.seconds for s in result.splits)
    share = sum(map(os.path.getsize, given.logs[:1])) / size
    print(f"direct write is {one_wall / wall:.2f}x as fast as one process, wall (asked: 1.6 on two cores)")
    print(
        f"its tasks, {sum(tasks):.2f} CPU-s, on two cores: {one_cpu / on_cores(tasks, 2):.2f}x by CPU seconds"
    )
    print(f"direct write takes {cpu / source_cpu:.2f} of the CPU of the data source with Spark's Parquet"
          " (asked: 0.33)")  # fmt: skip
    print(
        f"tuples take {tuples_cpu / (cpu * share):.1f} times the CPU of the direct write, and write nothing"
    )
    print(
        f"decoding is {decode_cpu / one_cpu:.0%} of the CPU of one process, {reading:.0%} of the tasks' time"
    )
    print(f"slowest split {result.skew:.2f} times the mean")


if __name__ == "__main__":
    main()
