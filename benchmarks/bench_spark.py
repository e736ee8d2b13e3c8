"""Roads from logs into Spark, CPU seconds and wall time side by side in one run.

    python benchmarks/bench_spark.py LOG [LOG ...] --table database.table

CPU seconds are of this process, the JVM and the Python workers together (Linux).
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from binlog_core.spark import ReadOptions, export_logs, plan_splits, read_split
from binlog_core.spark.dataframe import changes_df
from binlog_core.spark.session import quiet_java, start_session

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds() -> float:
    """Of this process and all its descendants, also the workers that have ended."""
    children: dict[int, list[int]] = {}
    used: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        pid = int(entry.name)
        children.setdefault(int(fields[1]), []).append(pid)
        used[pid] = sum(map(int, fields[11:15])) / TICKS
    total, waiting = 0.0, [os.getpid()]
    while waiting:
        pid = waiting.pop()
        total += used.get(pid, 0.0)
        waiting += children.get(pid, [])
    return total


def measure(name: str, run: Callable[[], Any]) -> tuple[float, float]:
    cpu, wall = cpu_seconds(), time.perf_counter()
    run()
    wall, cpu = time.perf_counter() - wall, cpu_seconds() - cpu
    print(f"{name:48} {wall:8.2f} s wall {cpu:8.2f} CPU-s", flush=True)
    return wall, cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("logs", nargs="+")
    parser.add_argument("--table", required=True)
    parser.add_argument("--master", default="local[2]")
    given = parser.parse_args()
    options = ReadOptions(tables=(given.table,), unnamed="positions")
    source = {"table": given.table, "unnamed": "positions", "absent": "ignore"}
    folder = Path(tempfile.mkdtemp())
    print(f"{sum(os.path.getsize(log) for log in given.logs) / 1e6:.0f} MB of logs")

    def decode() -> None:
        for split in plan_splits(given.logs):
            for _ in read_split(split, tables=given.table, unnamed="positions"):
                pass

    def one_process() -> None:
        import pyarrow.parquet as pq

        for split in plan_splits(given.logs):
            writer = None
            for _, batch in read_split(split, tables=given.table, unnamed="positions"):
                if writer is None:
                    writer = pq.ParquetWriter(folder / f"one-{split.index}.parquet", batch.schema)
                writer.write_batch(batch, row_group_size=1 << 20)
            if writer is not None:
                writer.close()

    def tuples() -> None:
        def rows(splits: Any) -> Any:
            for split in splits:
                for _, batch in read_split(split, tables=given.table, unnamed="positions"):
                    yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

        parts = plan_splits(given.logs[:1])
        frame = changes_df(spark, given.logs[:1], **source)
        rdd = spark.sparkContext.parallelize(parts, len(parts)).mapPartitions(rows)
        spark.createDataFrame(rdd, frame.schema, verifySchema=False).write.format("noop").mode(
            "overwrite"
        ).save()

    decode_wall, _ = measure("decode to record batches, one process", decode)
    one_wall, _ = measure("the same, written by pyarrow, one process", one_process)
    with quiet_java():
        spark = start_session(given.master)
    spark.range(10).mapInArrow(lambda batches: batches, "id long").count()  # workers are there
    try:
        direct_wall, direct_cpu = measure(
            "direct write (export)",
            lambda: export_logs(given.logs, folder / "direct", spark=spark, options=options),
        )
        frame = spark.read.format("binlog").options(**source).load(given.logs)
        measure("data source, nothing written", lambda: frame.write.format("noop").mode("overwrite").save())
        _, source_cpu = measure(
            "data source, Spark's Parquet", lambda: frame.write.parquet(str(folder / "source"))
        )
        mapped = changes_df(spark, given.logs, **source)
        measure("changes_df, nothing written", lambda: mapped.write.format("noop").mode("overwrite").save())
        size = sum(os.path.getsize(log) for log in given.logs)
        for count in (1, 4, 16, 64):
            divided = changes_df(spark, given.logs, split_size=str(max(size // count, 1)), **source)
            measure(
                f"changes_df in {divided.rdd.getNumPartitions()} splits, nothing written",
                lambda divided=divided: divided.write.format("noop").mode("overwrite").save(),
            )
        measure("tuples through createDataFrame, one log of them", tuples)
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)
    print(f"direct write is {one_wall / direct_wall:.2f}x as fast as one process (asked: 1.6 on two cores)")
    print(f"direct write takes {direct_cpu / source_cpu:.2f} of the data source's CPU (asked: 0.33)")
    print(f"decoding is {decode_wall / one_wall:.0%} of the time of one process")


if __name__ == "__main__":
    main()
