"""Spark's workers, played by this process: functions, tasks and results are pickled on the way."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any

from pyspark import cloudpickle

from binlog_core.lake.runner import LocalRunner


class PicklingRunner(LocalRunner):
    """A runner on one thread. `asked` has how many tasks it was given each time."""

    def __init__(self) -> None:
        super().__init__(1)
        self.asked: list[int] = []

    def map(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        self.asked.append(len(tasks))
        called = cloudpickle.loads(cloudpickle.dumps(function))
        return [pickle.loads(pickle.dumps(called(pickle.loads(pickle.dumps(task))))) for task in tasks]
