"""The partitions that Spark hands to the tasks of the data source."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from ..lake.plan.parts import TaskPart


@dataclass
class LogPartition(InputPartition):
    """What one task reads, in this order."""

    parts: tuple[TaskPart, ...]

    def __init__(self, parts: tuple[TaskPart, ...]) -> None:
        super().__init__(None)
        self.parts = parts
