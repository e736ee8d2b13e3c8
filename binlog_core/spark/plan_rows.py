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


def one_row_each(spark: SparkSession, rows: pa.Table, key: str) -> DataFrame:
    """Rows as a DataFrame, in Spark Connect too: one in each partition, in the order of `key`.

    Spark draws the bounds of the partitions from a sample. With as many partitions as rows the sample is all
    rows, so that each is a range of its own; up to some millions of rows, of which a partition may then get
    two, or none.
    """
    return spark.createDataFrame(rows).repartitionByRange(max(rows.num_rows, 1), key)


def tasks_frame(spark: SparkSession, tasks: Sequence[Any]) -> DataFrame:
    """Tasks as a DataFrame, one in each partition in their order; `tasks_of` has them on a worker."""
    from pyspark import cloudpickle

    pa, pickler = import_pyarrow(), cast(Any, cloudpickle)
    columns = [
        pa.array(range(len(tasks)), pa.int64()),
        pa.array((pickler.dumps(task) for task in tasks), pa.binary(), size=len(tasks)),
    ]
    return one_row_each(spark, pa.table(columns, [_PLACE, _TASK]), _PLACE)


def tasks_of(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, Any]]:
    """The tasks of a partition with their places, in order.

    They are unpickled: they come from the session's own driver, as what Spark itself pickles.
    """
    found = [row for batch in batches for row in zip(*(c.to_pylist() for c in batch.columns), strict=True)]
    for place, task in sorted(found):
        yield place, pickle.loads(task)
