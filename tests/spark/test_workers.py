"""Functions that workers call, without Spark: what goes through ``mapInArrow`` and comes back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

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

    def repartitionByRange(self, count: int, key: str) -> Frame:
        assert (count, key) == (len(self.rows), "place")
        each = [self.rows.slice(i, 1).to_batches()[0] for i in range(count)]
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
