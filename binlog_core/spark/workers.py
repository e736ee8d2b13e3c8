"""Functions called by Spark's workers, through mapInArrow, which Spark Connect has too.

What they return is pickled, as Spark does with the results of an RDD, which Connect does not have: from the
session's own workers to its driver, never from a file.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ..errors import BinlogError
from .rows.types import import_pyarrow

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


class Run(Protocol):
    """Calls a function with each task, somewhere; results in their order."""

    def __call__(self, function: Callable[[_Task], _Result], tasks: Sequence[_Task]) -> list[_Result]:
        """Call it."""
        ...


def run_here(function: Callable[[_Task], _Result], tasks: Sequence[_Task]) -> list[_Result]:
    """`Run` in this process."""
    return [function(task) for task in tasks]


def runner(spark: SparkSession) -> Run:
    """`Run` by the workers of a session, where there is more than one task."""

    def run(function: Callable[[_Task], _Result], tasks: Sequence[_Task]) -> list[_Result]:
        return call_tasks(spark, function, tasks) if len(tasks) > 1 else run_here(function, tasks)

    return run


def call_partitions(
    frame: DataFrame, function: Callable[[Iterable[pa.RecordBatch]], _Result]
) -> list[_Result]:
    """Call a function with the batches of each partition of a DataFrame.

    Raises
    ------
    BinlogError, OSError, ValueError
        That the function raised.
    """
    return _collected(frame.mapInArrow(_told(function), "result binary"))


def call_tasks(
    spark: SparkSession, function: Callable[[_Task], _Result], tasks: Sequence[_Task]
) -> list[_Result]:
    """Call a function with each task; results in their order.

    Raises
    ------
    BinlogError, OSError, ValueError
        That the function raised.
    """
    if not tasks:
        return []

    def work(ids: Iterable[pa.RecordBatch]) -> list[tuple[int, _Result]]:
        return [(i, function(tasks[i])) for batch in ids for i in batch.column(0).to_pylist()]

    found = dict(
        one for results in call_partitions(spark.range(0, len(tasks), 1, len(tasks)), work) for one in results
    )
    return [found[i] for i in range(len(tasks))]


def _told(function: Callable[[Iterable[pa.RecordBatch]], Any]) -> Callable[..., Iterator[pa.RecordBatch]]:
    """A function for ``mapInArrow``; what it raises on purpose comes back as what it is, not as text."""

    def tell(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa = import_pyarrow()
        try:
            result = (True, function(batches))
        except (ValueError, OSError, BinlogError) as error:
            result = (False, error)
        yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(result)], pa.binary())], ["result"])

    return tell


def _collected(frame: DataFrame) -> list[Any]:
    results = [pickle.loads(one) for one in frame.toArrow().column(0).to_pylist()]
    for fine, result in results:
        if not fine:
            raise result
    return [result for _, result in results]
