"""Functions that Spark's workers call.

Tasks go through an RDD; in Spark Connect, which has none, through mapInArrow, as the rows of a DataFrame do.
What they return is pickled, as Spark does with the results of an RDD: from the session's own workers to its
driver, never from a file.
"""

from __future__ import annotations

import gc
import pickle
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import BinlogError
from ..lake.rows.types import import_pyarrow
from ..lake.runner import HERE, Meet, by_itself
from .plan_rows import tasks_frame, tasks_of
from .session import use_this_python
from .shipped import ShippedFunction

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import Accumulator, AccumulatorParam, SparkContext
    from pyspark.sql import DataFrame, SparkSession

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")
_LIGHT_TASKS = 4
_RESULTS = (ValueError, OSError, BinlogError)  # errors that a task returns: others are Spark's to handle
POLL_SECONDS = 0.2
_JOB_GROUP = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")


class SparkRunner:
    """A `Runner` that uses the workers of a session; a single task is done by the driver.

    Parameters
    ----------
    spark : SparkSession
        The session. `slots` and `together` need one of classic Spark.
    least : int
        How many tasks are worth a job.
    again : bool
        Whether Spark tries a task of `map` or `each` again after an error; the last one is then Spark's.
    """

    def __init__(self, spark: SparkSession, least: int = 2, *, again: bool = False) -> None:
        use_this_python(spark)
        self.spark, self._least, self._again = spark, least, again

    @property
    def slots(self) -> int:
        """See `Runner`."""
        context: Any = self.spark.sparkContext
        if str(context.getConf().get("spark.dynamicAllocation.enabled", "false")).lower() == "true":
            return 1  # Spark refuses stages whose tasks wait for each other
        scala = context._jsc.sc()
        profile = scala.resourceProfileManager().defaultResourceProfile()
        return max(int(scala.maxNumConcurrentTasks(profile)), 1)

    @property
    def light(self) -> SparkRunner:
        """See `Runner`."""
        return SparkRunner(self.spark, _LIGHT_TASKS)

    def map(self, function: Callable[[_Task], _Result], tasks: Sequence[_Task]) -> list[_Result]:
        """See `Runner`."""
        if len(tasks) < self._least:
            return HERE.map(function, tasks)
        return call_tasks(self.spark, self._work(function), tasks)

    def each(
        self,
        function: Callable[[_Task], _Result],
        tasks: Sequence[_Task],
        stop: threading.Event | None = None,
    ) -> Iterator[_Result]:
        """See `Runner`: who leaves it ends the job. In Spark Connect all results come at the end."""
        if not tasks:
            return
        work = self._work(function)
        if not hasattr(self.spark, "sparkContext"):
            yield from call_tasks(self.spark, work, tasks)
            return
        job, taken = _Job(self.spark.sparkContext, work, tasks), 0
        try:
            while True:
                over = job.ended.wait(POLL_SECONDS)
                told = job.take()
                taken += len(told)
                yield from _successes(map(pickle.loads, told))
                if over:
                    break
                if stop is not None and stop.is_set():
                    job.give_up()
        finally:
            job.give_up()
        if job.error is not None and (stop is None or not stop.is_set()):
            raise job.error
        if job.error is None and taken != len(tasks):
            raise RuntimeError(f"Spark did not hand on the results of {len(tasks) - taken} tasks")

    def _work(self, function: Callable[[_Task], _Result]) -> Callable[[_Task], _Result]:
        """What a task does: Spark tries again what raises."""
        return partial(_failing, function) if self._again else function

    def together(self, function: Callable[[int, Meet], _Result], count: int) -> list[_Result]:
        """See `Runner`."""
        if count < 2:
            return [function(number, by_itself) for number in range(count)]
        numbers: Any = self.spark.sparkContext.parallelize(range(count), count)
        return _successes(
            numbers.barrier().mapPartitions(ShippedFunction(partial(_meeting, function))).collect()
        )


@cache
def _joined() -> AccumulatorParam[list[bytes]]:
    from pyspark import AccumulatorParam

    class Joined(AccumulatorParam[list[bytes]]):
        def zero(self, value: list[bytes]) -> list[bytes]:
            return []

        def addInPlace(self, one: list[bytes], other: list[bytes]) -> list[bytes]:
            one += other
            return one

    return Joined()


class _Job:
    """A job in a thread of its own, and what its tasks have told so far.

    Spark hands on what a task adds to an accumulator once, when the first of its attempts has ended well.
    Outcomes are pickled by the task: one that cannot be read would end all accumulators of the session.
    """

    def __init__(self, context: SparkContext, function: Callable[[Any], Any], tasks: Sequence[Any]) -> None:
        from pyspark import InheritableThread

        self.ended, self.error = threading.Event(), None
        self._context, self._group = context, ""
        self._outcomes = context.accumulator([], _joined())
        work = ShippedFunction(partial(_told, function, self._outcomes))

        def run() -> None:
            try:
                with job_group(context, f"{len(tasks)} tasks") as self._group:
                    context.parallelize(tasks, len(tasks)).foreach(work)
            except Exception as error:
                self.error = error
            finally:
                self.ended.set()

        InheritableThread(run).start()

    def take(self) -> list[bytes]:
        """The outcomes that have come since the last call: pyspark never frees what an accumulator holds."""
        held = self._outcomes.value
        told = held[:]
        del held[: len(told)]  # others may have come meanwhile
        return told

    def give_up(self) -> None:
        """Cancel it if it is not over, and wait for its end."""
        while not self.ended.is_set():
            if self._group:
                self._context.cancelJobGroup(self._group)
            self.ended.wait(POLL_SECONDS)


@contextmanager
def job_group(context: SparkContext, description: str) -> Iterator[str]:
    """Give the jobs of this thread a group of their own, which an error cancels; then the user's is back."""
    group = f"binlog_core-{uuid.uuid4().hex}"
    users = {name: context.getLocalProperty(name) for name in _JOB_GROUP}
    context.setJobGroup(group, description, interruptOnCancel=True)
    try:
        yield group
    except BaseException:
        context.cancelJobGroup(group)  # also on Ctrl-C: no task keeps writing
        raise
    finally:
        for name, value in users.items():
            context.setLocalProperty(name, value)  # type: ignore[arg-type]


def _failing(function: Callable[[_Task], _Result], task: _Task) -> _Result:
    """Call a function; its errors are not results."""
    try:
        return function(task)
    except _RESULTS as error:
        raise RuntimeError(str(error)) from error


def _meeting(function: Callable[[int, Meet], Any], numbers: Iterable[int]) -> Iterator[tuple[bool, Any]]:
    from pyspark import BarrierTaskContext

    meet = BarrierTaskContext.get().allGather
    for number in numbers:
        yield _outcome(lambda number: function(number, meet), number)


def call_partitions(
    frame: DataFrame, function: Callable[[Iterable[pa.RecordBatch]], _Result]
) -> list[_Result]:
    """Call a function with the batches of each partition of a DataFrame.

    Raises
    ------
    BinlogError, OSError, ValueError
        Errors of the function.
    """
    return _collected(frame.mapInArrow(ShippedFunction(_mapped(function)), "result binary"))


def call_tasks(
    spark: SparkSession, function: Callable[[_Task], _Result], tasks: Sequence[_Task]
) -> list[_Result]:
    """Call a function with each task; results in their order.

    Raises
    ------
    BinlogError, OSError, ValueError
        Errors of the function.
    """
    if not tasks:
        return []
    if hasattr(spark, "sparkContext"):  # much less CPU time: no plan, and workers without pandas
        work_each = ShippedFunction(partial(_work, function))
        job = spark.sparkContext.parallelize(tasks, len(tasks)).map(work_each)
        return _successes(job.collect())

    def work(rows: Iterable[pa.RecordBatch]) -> list[tuple[int, _Result]]:
        return [(place, function(task)) for place, task in tasks_of(rows)]

    found = dict(one for results in call_partitions(tasks_frame(spark, tasks), work) for one in results)
    return [found[place] for place in range(len(tasks))]


def _mapped(function: Callable[[Iterable[pa.RecordBatch]], Any]) -> Callable[..., Iterator[pa.RecordBatch]]:
    """A function for ``mapInArrow``."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa, result = import_pyarrow(), pickle.dumps(_outcome(function, batches))
        yield pa.RecordBatch.from_arrays([pa.array([result], pa.binary())], ["result"])

    return work


def _outcome(function: Callable[[Any], Any], given: Any) -> tuple[bool, Any]:
    """The result; or False and an expected error, which is returned as an object, not as text."""
    try:
        return True, function(given)
    except _RESULTS as error:
        return False, error


def _told(function: Callable[[Any], Any], outcomes: Accumulator[list[bytes]], task: Any) -> None:
    outcomes.add([pickle.dumps(_work(function, task))])


def _work(function: Callable[[Any], Any], task: Any) -> tuple[bool, Any]:
    outcome = _outcome(function, task)
    _settle()
    return outcome


@cache
def _settle() -> None:
    """Once in each worker: exclude what is loaded by now from garbage collection.

    Spark's workers collect garbage after each task, which takes 40 ms for our modules and Arrow's.
    """
    gc.freeze()


def _collected(frame: DataFrame) -> list[Any]:
    return _successes(pickle.loads(one) for one in frame.toArrow().column(0).to_pylist())


def _successes(outcomes: Iterable[tuple[bool, Any]]) -> list[Any]:
    found = list(outcomes)
    for fine, result in found:
        if not fine:
            raise result
    return [result for _, result in found]
