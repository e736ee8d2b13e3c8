"""A plan of Spark's readers at two sizes: CPU time a log, bytes a part in the driver, and bytes in each task.

So for the splits of `splits_df` with many definitions, with what Spark is given of them.

Cost per unit may grow by a fifth from the small size to the large one. Parts travel as rows, one a task: what
all tasks get must not grow with the plan.
"""

from __future__ import annotations

import gc
import os
import tracemalloc
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from growth import MOST, cost, growth_of
from measure import LINES
from support.source import orders
from support.writer import Log

from binlog_core.lake.plan.parts import TaskPart, plan_parts, tasks_of_parts, timeline_of
from binlog_core.lake.rows.source_options import SourceOptions
from binlog_core.splits import Split, plan_splits

LOGS = (2_000, 10_000)
PARTS = (4_000, 20_000)
PART_BYTES = 1_000  # in the driver
SPLITS, TABLES = (200, 2_000), 1_000


def folder_of(where: Path, logs: int) -> Path:
    """A folder with one log under many names."""
    (folder := where / str(logs)).mkdir()
    first = orders(where, f"one.{logs:06}", 20)
    for i in range(1, logs + 1):
        os.link(first, folder / f"bin.{i:06}")
    return folder


def test_planning_many_logs(tmp_path: Path) -> None:
    folders = [folder_of(tmp_path, logs) for logs in LOGS]
    for folder, logs in zip(folders, LOGS, strict=True):
        assert len(plan_splits(folder, 128 << 20)) == logs
    gc.freeze()  # what is loaded by now is not the plan's
    plans = [partial(cost, partial(plan_splits, folder, 128 << 20)) for folder in folders]
    large, growth = growth_of(plans, LOGS)
    LINES["plans"].append(
        f"planning {LOGS[1]:,} logs: {large * 1e6:.0f} us CPU a log, {growth:.2f} of {LOGS[0]:,}"
    )
    assert growth <= MOST


def parts_of(count: int) -> list[TaskPart]:
    path = "s3://a-bucket-with-a-name/and/some/prefix/mysql-bin.{:06}"
    return [
        TaskPart(Split(path.format(i // 8 + 1), i % 8 << 27, (i % 8 + 1) << 27, i // 8)) for i in range(count)
    ]


def rows_of(count: int) -> tuple[list[TaskPart], list[bytes]]:
    """A plan, and its tasks as `tasks_frame` sends them."""
    from pyspark import cloudpickle

    parts = parts_of(count)
    return parts, [cloudpickle.dumps(task) for task in tasks_of_parts(parts, 128 << 20)]


def test_a_plan_in_the_driver() -> None:
    pytest.importorskip("pyspark")
    held = []
    rows_of(10)  # imports
    for count in PARTS:
        tracemalloc.start()
        plan = rows_of(count)
        held.append(tracemalloc.get_traced_memory()[1] / count)
        tracemalloc.stop()
        assert len(plan[1]) == count
    large, growth = growth_of([partial(cost, partial(rows_of, count)) for count in PARTS], PARTS)
    LINES["plans"].append(
        f"a plan of {PARTS[1]:,} parts as rows: {large * 1e6:.0f} us CPU a part, {growth:.2f} of {PARTS[0]:,}"
    )
    assert growth <= MOST
    LINES["plans"].append(
        f"a plan of {PARTS[1]:,} parts: {held[1]:.0f} bytes a part in the driver, {held[1] / held[0]:.2f} of"
        f" {PARTS[0]:,}"
    )
    assert held[1] <= MOST * held[0]
    assert held[1] < PART_BYTES


class Frames:
    """Stands in for a session and its DataFrames: counts the bytes of their rows."""

    held = 0

    def createDataFrame(self, rows: Any) -> Frames:
        self.held += rows.nbytes
        return self

    def range(self, start: int, end: int, step: int, partitions: int) -> Frames:
        return self

    def withColumnRenamed(self, name: str, new: str) -> Frames:
        return self

    def join(self, other: Frames, key: str) -> Frames:
        return self

    def drop(self, name: str) -> Frames:
        return self

    def hint(self, name: str) -> Frames:
        return self

    def crossJoin(self, other: Frames) -> Frames:
        return self


@pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")
def test_splits_with_many_definitions(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    from binlog_core.spark import splits_df

    log, path = Log("8.0.36"), tmp_path / "bin.000001"
    for i in range(TABLES):
        log.query(
            f"CREATE TABLE orders_{i:05} (id INT PRIMARY KEY, name VARCHAR({i % 99 + 1}), n BIGINT)", "shop"
        )
    path.write_bytes(log.getvalue())
    held = []
    for count in SPLITS:
        spark: Any = Frames()
        splits_df(spark, path, 999, schema="ddl")  # imports
        spark.held = 0
        tracemalloc.start()
        splits_df(spark, path, -(-path.stat().st_size // count), schema="ddl")
        held.append(tracemalloc.get_traced_memory()[1] + spark.held)
        tracemalloc.stop()
    each = (held[1] - held[0]) / (SPLITS[1] - SPLITS[0])
    LINES["plans"].append(
        f"{SPLITS[1]:,} splits with {TABLES:,} definitions: {each:.0f} bytes a split in the driver"
        f" beyond those of {SPLITS[0]:,}"
    )
    assert each < PART_BYTES


@pytest.mark.parametrize("schema", [None, "ddl"])
def test_what_every_task_gets(tmp_path: Path, schema: str | None) -> None:
    pytest.importorskip("pyspark")
    from pyspark import cloudpickle

    from binlog_core.spark.changes import ChangeReader, infer_schema
    from binlog_core.spark.dataframe import _reading

    paths, sizes = [str(orders(tmp_path, count=800))], []
    for size in ("1m", "100"):
        options = {"table": "shop.orders", "splitSize": size, **({"schema": schema} if schema else {})}
        parsed = SourceOptions.parse(options)
        reader = ChangeReader.of(parsed, infer_schema(paths, parsed), projected=False)
        reader = reader.following(timeline_of(paths, parsed))
        sizes.append((len(plan_parts(paths, parsed)), len(cloudpickle.dumps(_reading(reader)))))
    (few, small), (many, large) = sizes
    LINES["plans"].append(
        f"a task's function, schema={schema}: {large:,} bytes of {many:,} parts, {small:,} of {few}"
    )
    assert large <= MOST * small
