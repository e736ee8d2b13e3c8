"""The work of an apply, done by Spark's workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from ..lake.apply.jobs import PLACE
from .schemas import arrow_schema
from .workers import call_partitions, call_tasks

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class OnSpark:
    """Spark's workers, in Spark Connect too; the changes are a DataFrame."""

    spark: SparkSession
    changes: DataFrame

    @property
    def schema(self) -> pa.Schema:
        """See `Jobs`."""
        return arrow_schema(self.changes.schema)

    def renamed(self, names: Mapping[str, str]) -> OnSpark:
        """See `Jobs`."""
        return replace(self, changes=self.changes.withColumnsRenamed(dict(names)))

    def stage(
        self, function: Callable[[Iterable[pa.RecordBatch]], _Result], *, together: bool = False
    ) -> list[_Result]:
        """See `Jobs`."""
        frame = self.changes
        if together:
            frame = frame.repartition(PLACE[0]).sortWithinPartitions(*PLACE)
        return call_partitions(frame, function)

    def run(self, function: Callable[[_Task], _Result], tasks: Sequence[_Task]) -> list[_Result]:
        """See `Jobs`."""
        return call_tasks(self.spark, function, tasks)
