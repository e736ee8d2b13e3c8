"""The jobs of an export: they write splits, repeat those that began at a forged event, and merge tables."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from ..errors import BinlogError
from ..lake.tables.merging import TableWriter
from ..lake.tables.results import TableFiles, WrittenSplit
from ..lake.tables.split_runs import Progress as Progress
from ..lake.tables.split_runs import in_order, in_rounds, split_tasks
from ..lake.tables.split_writer import SplitWriter
from ..splits import Split, SplitResult
from .shipped import ShippedFunction
from .workers import POLL_SECONDS, SparkRunner, attempt_name, call_tasks, job_group

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import SparkSession

_CALLING = "An error occurred while calling "


@dataclass(frozen=True)
class _Writing:
    """The function for ``mapPartitions``: writes splits, and adds to the sums of `_counter`."""

    writer: SplitWriter
    done: Accumulator[tuple[int, int, int]]

    def __call__(self, tasks: Iterable[Sequence[Split]]) -> Iterator[WrittenSplit]:
        for split in chain.from_iterable(tasks):
            result = self.writer.write(split, attempt_name())
            self.done.add((1, result.log_bytes, result.rows))
            yield result


def _counter(session: SparkSession) -> Accumulator[tuple[int, int, int]]:
    """Sums (splits, bytes of logs, rows) that the workers add to."""
    from pyspark import AccumulatorParam

    class Sums(AccumulatorParam[tuple[int, int, int]]):
        def zero(self, value: tuple[int, int, int]) -> tuple[int, int, int]:
            return (0, 0, 0)

        def addInPlace(self, one: tuple[int, int, int], other: tuple[int, int, int]) -> tuple[int, int, int]:
            return (one[0] + other[0], one[1] + other[1], one[2] + other[2])

    return session.sparkContext.accumulator((0, 0, 0), Sums())


def run_job(
    session: SparkSession,
    writer: SplitWriter,
    splits: list[Split],
    progress: Callable[[Progress], None] | None,
    done: list[SplitResult],
    size: int | None = None,
) -> tuple[list[WrittenSplit], int]:
    """Write splits, small ones in tasks of `size`; their results, and how many were read again.

    `done` has the results of earlier runs.
    """
    if not hasattr(session, "sparkContext"):
        return _run_connected(session, writer, splits, progress, done, size)
    context = session.sparkContext
    stop, sums = threading.Event(), _counter(session)
    work = ShippedFunction(_Writing(writer, sums))
    watcher = threading.Thread(target=_watch, args=(sums, len(splits), progress, stop), daemon=True)
    try:
        with job_group(context, f"export of {len(splits)} splits"):
            if progress is not None:
                progress(Progress(0, len(splits)))
                watcher.start()

            def write(todo: list[Split]) -> list[WrittenSplit]:
                tasks = split_tasks(todo, size)
                return context.parallelize(tasks, len(tasks)).mapPartitions(work).collect()

            found, reread = in_rounds(write, splits, done)
    finally:
        stop.set()
        if watcher.is_alive():
            watcher.join()
    return in_order(found, progress), reread


def _run_connected(
    session: SparkSession,
    writer: SplitWriter,
    splits: list[Split],
    progress: Callable[[Progress], None] | None,
    done: list[SplitResult],
    size: int | None,
) -> tuple[list[WrittenSplit], int]:
    """Like `run_job`, in a session of Spark Connect, which does not have RDDs."""
    if progress is not None:
        progress(Progress(0, len(splits)))

    def work(task: list[Split]) -> list[WrittenSplit]:
        return [writer.write(split, attempt_name()) for split in task]

    def write(todo: list[Split]) -> list[WrittenSplit]:
        return list(chain.from_iterable(call_tasks(session, work, split_tasks(todo, size))))

    found, reread = in_rounds(write, splits, done)
    return in_order(found, progress), reread


def merge_tables(
    session: SparkSession,
    writer: TableWriter,
    results: list[WrittenSplit],
    progress: Callable[[Progress], None] | None,
) -> Iterator[TableFiles] | None:
    """Write the tables whose rows were staged; see `TableWriter.merged`."""
    light, runner = SparkRunner(session), SparkRunner(session, 1, again=True)
    if not hasattr(session, "sparkContext"):  # without jobs that can be watched
        return writer.merged(results, light, runner)
    with job_group(session.sparkContext, f"tables of {len(results)} splits"):
        return writer.merged(results, light, runner, progress)


def _watch(done: Any, total: int, progress: Callable[[Progress], None], stop: threading.Event) -> None:
    shown = 0
    while not stop.wait(POLL_SECONDS):
        splits, log_bytes, rows = done.value
        if splits > shown:  # failed attempts of Spark may be counted too
            shown = splits
            progress(Progress(min(splits, total), total, log_bytes, rows))


def spark_failure(error: Exception) -> BinlogError:
    """The error of a failed job, with the reason in one line."""
    _, found, trace = str(error).rpartition("Traceback (most recent call last):")
    lines = trace.splitlines()
    if found:  # of a worker; the line that is not indented says what happened
        lines = [line for line in lines if not line.startswith((" ", "\t"))]
    said = [line.strip() for line in lines if line.strip()] or [type(error).__name__]
    if said[0].startswith(_CALLING) and len(said) > 1:  # Java's own words are in the next line
        del said[0]
    reason = said[0].removeprefix(": ")
    return BinlogError(f"the Spark job failed: {reason}")
