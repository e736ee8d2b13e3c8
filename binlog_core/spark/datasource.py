"""The `binlog` data source of Spark: ``spark.read.format("binlog")`` and ``spark.readStream``.

Importing this needs pyspark 4.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ..errors import BinlogError
from ..lake.plan.parts import TaskPart
from ..lake.rows.source_options import SourceOptions, paths_of
from ..lake.runner import LocalRunner
from .changes import ChangeReader, check_columns, check_types, infer_schema
from .filters import pushed_predicate
from .keeping import bring_up_to_date, with_names
from .partition import LogPartition
from .reasons import brief
from .schemas import arrow_schema, spark_schema
from .shipped import Shipped

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import Filter

    from .streaming import BinlogStreamReader


class BinlogDataSource(DataSource):
    """Row changes of MySQL and MariaDB binary logs; for the options see `SourceOptions`."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._parsed = SourceOptions.parse(options)
        self._inferred = False

    @classmethod
    def name(cls) -> str:
        """``format("binlog")``."""
        return "binlog"

    def schema(self) -> StructType:
        """The schema, if the user gives none.

        Raises
        ------
        BinlogError
            See ``changes.infer_schema``.
        """
        paths = paths_of(self.options)
        with brief:
            bring_up_to_date(self._parsed, paths)
            self._parsed = with_names(self._parsed)
            schema = spark_schema(infer_schema(paths, self._parsed))
        self._inferred = True  # Spark pickles the source with it, and then calls reader()
        return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch reader."""
        kind = PruningReader if self._parsed.push_filters else BinlogReader
        with brief:
            changes, paths = self._changes(schema), paths_of(self.options)
            if not self._inferred:
                bring_up_to_date(self._parsed, paths)
                check_columns(changes.schema, paths, self._parsed)
            if not self._parsed.follows:
                return kind(changes, paths)
            # In partitions() it would be late: Spark has pickled the reader.
            changes, planned = changes.planned(paths, LocalRunner())
            return kind(changes, paths, planned)

    def streamReader(self, schema: StructType) -> BinlogStreamReader:
        """A stream reader.

        Raises
        ------
        BinlogError
            Spark is older than 4.2, and does not tell a source where its stream is.
        """
        try:
            from .streaming import BinlogStreamReader
        except ImportError as error:
            raise BinlogError("a stream of binary logs needs Spark 4.2 or newer") from error

        with brief:
            return BinlogStreamReader(self._changes(schema), paths_of(self.options))

    def _changes(self, schema: StructType) -> ChangeReader:
        self._parsed = with_names(self._parsed)
        wanted = arrow_schema(schema)
        check_types(wanted, self._parsed)
        return ChangeReader.of(self._parsed, wanted, projected=not self._inferred)


class BinlogReader(Shipped, DataSourceReader):
    """Reads logs as they are when the query is planned.

    Parameters
    ----------
    changes : ChangeReader
        Reads the parts.
    paths : list of str
        The logs.
    planned : list of TaskPart, optional
        The parts, if they were planned before; workers do not get them.
    """

    def __init__(
        self, changes: ChangeReader, paths: list[str], planned: list[TaskPart] | None = None
    ) -> None:
        self._changes = changes
        self._paths = paths
        self._planned = planned

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_planned": None}

    def partitions(self) -> list[InputPartition]:
        """The parts, of which small ones share a partition."""
        with brief:
            return [LogPartition(parts) for parts in self._changes.tasks(self._parts())]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The rows of its parts; no rows for None, which Spark passes if there are no partitions."""
        if isinstance(partition, LogPartition):
            with brief:
                yield from self._changes.read_all(partition.parts)

    def _parts(self) -> list[TaskPart]:
        planned = self._planned
        if planned is None:
            _, planned = self._changes.planned(self._paths, LocalRunner())
        return self._changes.wanted(planned)


class PruningReader(BinlogReader):
    """Leaves out parts by filters on `_commit_version`, and rows by others. Spark still applies each."""

    def __init__(
        self, changes: ChangeReader, paths: list[str], planned: list[TaskPart] | None = None
    ) -> None:
        super().__init__(changes, paths, planned)
        self._least, self._below = 0, 1 << 63

    # Spark refuses a reader that has this method while spark.sql.python.filterPushdown.enabled is false.
    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        """Note bounds and conditions, and return all filters, so that Spark applies them too."""
        found = []
        for one in filters:
            if getattr(one, "attribute", None) == ("_commit_version",):
                self._bound(one)
            elif (predicate := pushed_predicate(one, self._changes.options)) is not None:
                found.append(predicate)
            yield one
        self._changes = self._changes.pushed(found)

    def _bound(self, one: Any) -> None:
        from pyspark.sql.datasource import (  # Spark 4.1 and later
            EqualTo,
            GreaterThan,
            GreaterThanOrEqual,
            LessThan,
            LessThanOrEqual,
        )

        value = getattr(one, "value", None)
        if not isinstance(value, int):
            return
        if isinstance(one, EqualTo | GreaterThanOrEqual):
            self._least = max(self._least, value)
        if isinstance(one, GreaterThan):
            self._least = max(self._least, value + 1)
        if isinstance(one, EqualTo | LessThanOrEqual):
            self._below = min(self._below, value + 1)
        if isinstance(one, LessThan):
            self._below = min(self._below, value)

    def _parts(self) -> list[TaskPart]:
        return [
            part
            for part in super()._parts()
            if part.versions[0] < self._below and part.versions[1] > self._least
        ]
