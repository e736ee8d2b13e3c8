"""A session of Spark without Spark: what workers would do is done in this process."""

from __future__ import annotations

from typing import Any


class Here:
    """As far as a mirror that copies and follows asks for one."""

    defaultParallelism = 2

    @property
    def sparkContext(self) -> Here:
        return self

    def parallelize(self, tasks: Any, _: int = 1) -> Here:
        self._tasks = list(tasks)
        return self

    def mapPartitions(self, function: Any) -> Here:
        self._found = list(function(iter(self._tasks)))
        return self

    def collect(self) -> list[Any]:
        return self._found
