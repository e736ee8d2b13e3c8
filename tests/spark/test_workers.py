"""Functions that workers call, without Spark: what goes through ``mapInArrow`` and comes back."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import ContentTooShortError

import pytest

pa = pytest.importorskip("pyarrow")

from binlog_core import DecodeError  # noqa: E402
from binlog_core.spark.workers import SparkRunner, call_partitions, call_tasks  # noqa: E402


class Frame:
    """Partitions of numbers, and what a function makes of each."""

    def __init__(self, partitions: list[Any]) -> None:
        self.partitions = partitions

    def mapInArrow(self, function: Callable[[Iterator[Any]], Iterator[Any]], schema: str) -> Frame:
        assert schema == "result binary"
        return Frame([batch for part in self.partitions for batch in function(iter(part))])

    def toArrow(self) -> Any:
        return pa.Table.from_batches(self.partitions)


class Spark:
    """A session whose partitions come in reverse order, since tasks end in any order.

    The first has two rows, also in reverse, and another has none.
    """

    asked = 0

    def createDataFrame(self, rows: Any) -> Spark:
        self.asked, self.rows = self.asked + 1, rows
        return self

    def range(self, start: int, end: int, step: int, partitions: int) -> Spark:
        assert (start, step, partitions) == (0, 1, end)
        self.count = end
        return self

    def withColumnRenamed(self, name: str, new: str) -> Spark:
        return self

    def hint(self, name: str) -> Spark:
        assert name == "broadcast"
        return self

    def join(self, other: Spark, key: str) -> Frame:
        assert (other.rows.num_rows, key) == (self.count, "place")
        each = [self.rows.slice(i, 1).to_batches()[0] for i in range(self.count)]
        return Frame([*([one] for one in reversed(each[2:])), each[1::-1], []])


class WithRdds:
    """A session that has RDDs, and an RDD: it keeps the order of its tasks."""

    def __init__(self, tasks: Sequence[Any] = ()) -> None:
        self.sparkContext, self.tasks, self.asked = self, tasks, 0

    def parallelize(self, tasks: Sequence[Any], slices: int) -> WithRdds:
        self.asked += 1
        assert slices == len(tasks)
        return WithRdds(tasks)

    def map(self, function: Callable[[Any], Any]) -> WithRdds:
        return WithRdds([function(task) for task in self.tasks])

    def collect(self) -> list[Any]:
        return list(self.tasks)


def fail(task: Any) -> Any:
    if task == 2:
        raise DecodeError("a wrong value", path="bin.000001", offset=4)
    return task


@pytest.fixture(params=[Spark, WithRdds])
def spark(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("gc.freeze", lambda: None)
    return request.param()


def test_results_come_in_the_order_of_the_tasks(spark: Any) -> None:
    assert call_tasks(spark, lambda task: (task, -task), [3, 1, 2]) == [(3, -3), (1, -1), (2, -2)]
    assert call_tasks(spark, fail, []) == []
    assert spark.asked == 1
    assert SparkRunner(spark).map(fail, [7]) == [7]
    assert spark.asked == 1  # one task is not worth a job
    assert SparkRunner(spark).map(fail, [7, 8]) == [7, 8]
    assert spark.asked == 2
    assert SparkRunner(spark).light.map(fail, [7, 8, 9]) == [7, 8, 9]
    assert spark.asked == 2  # so few are not worth one either
    assert SparkRunner(spark).light.map(fail, [7, 8, 9, 10]) == [7, 8, 9, 10]
    assert spark.asked == 3


def test_an_error_comes_back_as_what_it_is(spark: Any) -> None:
    with pytest.raises(DecodeError) as caught:
        call_tasks(spark, fail, [1, 2, 3])
    assert (caught.value.path, caught.value.offset) == ("bin.000001", 4)
    with pytest.raises(ZeroDivisionError):  # an unexpected error: the job fails
        call_tasks(spark, lambda task: task / 0, [1, 2])


def test_a_partition_is_handed_over_whole() -> None:
    frame: Any = Frame([[pa.record_batch({"id": [1, 2]}), pa.record_batch({"id": [3]})], []])
    assert call_partitions(frame, lambda batches: sum(batch.num_rows for batch in batches)) == [3, 0]


# ------------------------------------------------------------ results as they come, with Spark itself

_LONG = 60  # seconds until a task that waits in vain says so


def _waiting(folder: str, task: int) -> tuple[int, bool]:
    """Task 0 ends at once; the others when the one before has been told, as a file says."""
    until = time.monotonic() + _LONG
    while task and not (Path(folder) / str(task - 1)).exists():
        if time.monotonic() > until:
            return task, False
        time.sleep(0.01)
    return task, True


def _endless(folder: str, task: int) -> int:
    while task:
        (Path(folder) / f"alive{task}").write_text(str(time.monotonic_ns()))
        time.sleep(0.01)
    return task


@pytest.fixture
def runner() -> SparkRunner:
    pytest.importorskip("pyspark")
    from pyspark import cloudpickle
    from support import sparks

    session = sparks.shared()
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import tests
    return SparkRunner(session)


@pytest.mark.spark
def test_results_come_while_others_work(runner: SparkRunner, tmp_path: Path) -> None:
    found = []
    for task, in_time in runner.each(partial(_waiting, str(tmp_path)), range(4)):
        assert in_time
        (tmp_path / str(task)).touch()
        found.append(task)
    assert found == [0, 1, 2, 3]


def _ends(folder: Path) -> bool:
    """Whether nobody writes there any more, soon: Spark gives workers two seconds until it kills them."""

    def said() -> list[str]:
        time.sleep(0.3)
        return [one.read_text() for one in sorted(folder.iterdir())]

    until = time.monotonic() + _LONG
    while said() != said():
        if time.monotonic() > until:
            return False
    return True


@pytest.mark.spark
@pytest.mark.parametrize("how", ["left", "stopped"])
def test_who_takes_no_more_results_ends_the_job(runner: SparkRunner, tmp_path: Path, how: str) -> None:
    stop = threading.Event()
    found: Any = runner.each(partial(_endless, str(tmp_path)), range(3), stop)
    assert next(found) == 0
    if how == "left":
        found.close()
    else:
        stop.set()
        assert list(found) == []
    assert _ends(tmp_path)


@pytest.mark.spark
@pytest.mark.parametrize("again", [False, True])
def test_an_error_of_a_task_ends_the_job(runner: SparkRunner, again: bool) -> None:
    runner = SparkRunner(runner.spark, again=again)
    with pytest.raises(Exception, match=r"a wrong value \(file bin.000001, offset 4\)") as caught:
        list(runner.each(fail, range(4)))
    assert isinstance(caught.value, DecodeError) != again  # which is what Spark says at the end
    assert list(runner.each(fail, [])) == []


def _cut(task: int) -> int:
    if task == 1:
        raise ContentTooShortError("it has ended", b"")  # an OSError that does not survive pickling
    return task


@pytest.mark.spark
def test_an_outcome_that_cannot_be_read_does_no_harm_to_later_jobs(runner: SparkRunner) -> None:
    with pytest.raises(TypeError, match="content"):
        list(runner.each(_cut, range(3)))
    assert sorted(runner.each(abs, range(3))) == [0, 1, 2]


@pytest.mark.spark
def test_a_session_does_not_keep_what_was_taken(runner: SparkRunner) -> None:
    from pyspark.accumulators import _accumulatorRegistry as known

    before = set(known)
    assert sorted(runner.each(abs, range(3))) == [0, 1, 2]
    (added,) = set(known) - before
    assert known[added].value == []
