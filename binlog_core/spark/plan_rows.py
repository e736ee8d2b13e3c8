"""Plans as rows: each partition of a DataFrame has one row, and a task gets that row alone.

What a function closes over goes to every task. A plan grows with the logs: in a closure each task would read
all of it.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from ..lake.rows.types import import_pyarrow

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_PLACE, _TASK = "place", "task"


def one_row_each(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Rows as a DataFrame, in Spark Connect too: one in each partition, in their order, after its place.

    Executors get the rows once. If they were shuffled, each task would get the bounds of all partitions.
    """
    pa, count = import_pyarrow(), rows.num_rows
    placed = rows.add_column(0, _PLACE, pa.array(range(count), pa.int64()))
    places = spark.range(0, count, 1, max(count, 1)).withColumnRenamed("id", _PLACE)
    return places.join(spark.createDataFrame(placed).hint("broadcast"), _PLACE)


def tasks_frame(spark: SparkSession, tasks: Sequence[Any]) -> DataFrame:
    """Tasks as a DataFrame, one in each partition in their order; `tasks_of` has them on a worker."""
    from pyspark import cloudpickle

    pa, pickler = import_pyarrow(), cast(Any, cloudpickle)
    pickled = pa.array((pickler.dumps(task) for task in tasks), pa.binary(), size=len(tasks))
    return one_row_each(spark, pa.table({_TASK: pickled}))


def tasks_of(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, Any]]:
    """The tasks of a partition with their places, in order.

    They are unpickled: they come from the session's own driver, as what Spark itself pickles.
    """
    found = [row for batch in batches for row in zip(*(c.to_pylist() for c in batch.columns), strict=True)]
    for place, task in sorted(found):
        yield place, pickle.loads(task)
