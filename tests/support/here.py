"""A Spark session without Spark: this process does the work of the workers."""

from __future__ import annotations

from typing import Any


class Here:
    """The parts of a session that a mirror needs to copy and follow."""

    defaultParallelism = 2

    @property
    def sparkContext(self) -> Here:
        return self

    def parallelize(self, tasks: Any, _: int = 1) -> Here:
        self._tasks = list(tasks)
        return self

    def map(self, function: Any) -> Here:
        self._found = [function(task) for task in self._tasks]
        return self

    def mapPartitions(self, function: Any) -> Here:
        self._found = list(function(iter(self._tasks)))
        return self

    def collect(self) -> list[Any]:
        return self._found
