"""``spark.readStream.format("binlog")``: a directory of logs, the last of which its server still writes.

An offset is a log and a transaction boundary in it. So a micro-batch has whole transactions, and the same
range always has the same rows: that makes restarts exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    SupportsTriggerAvailableNow,
)

from .._sources.log_names import name_within
from ..lake.plan.ranges import LogPlace, LogRanges, Offset, offset_of, place_of
from ..lake.runner import HERE, Runner
from .changes import ChangeReader, check_columns
from .keeping import ArchiveKeeper
from .partition import LogPartition
from .reasons import brief
from .shipped import Shipped

if TYPE_CHECKING:
    import pyarrow as pa


class BinlogStreamReader(Shipped, LogRanges, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows logs that grow and are rotated.

    Parameters
    ----------
    changes : ChangeReader
        Reads the parts.
    paths : list of str
        The logs; directories are listed for each micro-batch.
    run : Runner
        What reads through logs. Spark plans a stream in a separate process, which has no session.
    """

    def __init__(self, changes: ChangeReader, paths: list[str], run: Runner = HERE) -> None:
        super().__init__(changes.options, paths, run)
        self._changes = changes
        self._until: tuple[str, int] | None = None  # for a query that takes what is there now: log and size
        self._target: LogPlace | None = None  # the boundary there
        self._known: Offset | None = None  # the last offset that was requested or reported
        self._keeper: ArchiveKeeper | None = None  # made where the stream is, never pickled

    # ------------------------------------------------------------ offsets

    def initialOffset(self) -> Offset:
        """The first log's beginning, or ``startOffset``; Spark asks for it if there is no checkpoint.

        Raises
        ------
        BinlogError
            The log of ``startOffset`` does not exist, or the given schema has columns that no definition has.
        """
        options = self._changes.options
        with brief:
            if (keeper := self._kept_archive()) is not None:
                keeper.begin()
            if self._changes.projected:
                check_columns(self._changes.schema, self._paths, options, growing=True)
            return self._first()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """The boundary that the next micro-batch ends at.

        Parameters
        ----------
        start : dict
            The offset where the micro-batch begins.
        limit : ReadLimit
            A limit in bytes applies, except that the transaction that exceeds it is read to its end.
        """
        with brief:
            if self._until is None and (keeper := self._kept_archive()) is not None:
                keeper.keep()
            if self._until is not None and self._target is None:
                logs = self._logs()
                self._target = self._end(logs, place_of(logs, start), self._until)
            self._known = start
            # `start`: also if a restart begins after the place where this query would end.
            most = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
            self._known = self._later(start, most, self._target)
        return self._known

    def getDefaultReadLimit(self) -> ReadLimit:
        """``maxBytesPerTrigger``."""
        most = self._options.max_bytes_per_trigger
        return ReadMaxBytes(most) if most is not None else ReadAllAvailable()

    def reportLatestOffset(self) -> Offset | None:
        """The last boundary in the logs; Spark shows its distance from the batch's end as the lag."""
        if self._known is None:
            return None
        with brief:
            logs = self._logs()
            return offset_of(logs, self._end(logs, place_of(logs, self._known)), {})

    def prepareForTriggerAvailableNow(self) -> None:
        """Note where the logs end now."""
        with brief:
            if (keeper := self._kept_archive()) is not None:
                keeper.up_to_now()
            last = self._logs()[-1]
            with self._options.access.file(last.path).open() as source:
                self._until = name_within(last.path), source.size or 1 << 63
        self._target = None

    # ------------------------------------------------------------ reading

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """The parts between two offsets, the same ones at each call."""
        with brief:
            return [LogPartition(parts) for parts in self._changes.tasks(self._parts(start, end))]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The rows of its parts."""
        if isinstance(partition, LogPartition):
            with brief:
                yield from self._changes.read_all(partition.parts)

    def commit(self, end: Offset) -> None:
        """Nothing: the logs are not ours to delete."""

    def stop(self) -> None:
        """Stop keeping the archive."""
        if self._keeper is not None:
            self._keeper.stop()

    def _kept_archive(self) -> ArchiveKeeper | None:
        if self._keeper is None and self._options.server is not None:
            self._keeper = ArchiveKeeper(self._options, self._paths)
        return self._keeper
