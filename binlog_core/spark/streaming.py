"""``spark.readStream.format("binlog")``: a directory of logs, the last of which its server still writes.

An offset is a log and a transaction boundary in it, so a micro-batch holds whole transactions, and the same
range always holds the same rows: that makes a restart exact.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from ..errors import BinlogError
from .changes import ChangeReader
from .datasource import LogPartition
from .planning import (
    Part,
    boundary_behind,
    divide,
    index_of,
    last_boundary,
    log_file,
    plan_logs,
    with_definitions,
)
from .splits import Split
from .timeline import TimelineMaker
from .xa import XaHistory

if TYPE_CHECKING:
    import pyarrow as pa

try:  # Spark 4.2 and later
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # before, every batch takes all there is
    ReadAllAvailable = ReadLimit = ReadMaxBytes = None  # type: ignore[assignment, misc]
    SupportsTriggerAvailableNow = object  # type: ignore[assignment, misc]

_FIRST_EVENT = 4
Offset = dict[str, Any]


class BinlogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows logs that grow and are rotated.

    Parameters
    ----------
    changes : ChangeReader
    paths : list of str
        Listed anew for each micro-batch.
    """

    def __init__(self, changes: ChangeReader, paths: list[str]) -> None:
        self._changes = changes
        self._options = replace(changes.options, start_offset=None)
        self._paths = paths
        self._target: Offset | None = None  # of a query that takes what is there now
        self._known: Offset | None = None  # the furthest boundary that was seen
        self._xa: XaHistory | None = None
        self._timeline = TimelineMaker(self._options) if self._options.follow_ddl else None

    # ------------------------------------------------------------ offsets

    def initialOffset(self) -> Offset:
        """The first log's beginning, or ``startOffset``."""
        given = self._changes.options.start_offset
        logs = self._logs()
        if given is not None:
            return _offset(logs[index_of(logs, given[0])], given[1])
        return _offset(logs[0], 0)

    def latestOffset(self, start: Offset | None = None, limit: ReadLimit | None = None) -> Offset:
        """The boundary that the next micro-batch ends at.

        Parameters
        ----------
        start : dict or None
            None before Spark 4.2.
        limit : ReadLimit or None
            Bytes are kept to, but for the transaction that goes beyond them.
        """
        start = start or self._known or self.initialOffset()
        most = limit.max_bytes if ReadMaxBytes is not None and isinstance(limit, ReadMaxBytes) else None
        logs = self._logs()
        found = self._advance(logs, start, most)
        if most is None:
            self._known = found
        if self._target is not None and _place(logs, found) > _place(logs, self._target):
            # The restart of a query may begin behind what this one would end at.
            return max(self._target, start, key=lambda offset: _place(logs, offset))
        return found

    def getDefaultReadLimit(self) -> ReadLimit:
        """``maxBytesPerTrigger``."""
        most = self._options.max_bytes_per_trigger
        return ReadMaxBytes(most) if most is not None else ReadAllAvailable()

    def reportLatestOffset(self) -> Offset | None:
        """The last boundary there is; the lag is its distance from the end of the batch."""
        start = self._known or self.initialOffset()
        self._known = self._advance(self._logs(), start, None)
        return self._known

    def prepareForTriggerAvailableNow(self) -> None:
        """Note where the logs end now."""
        self._target = self._advance(self._logs(), self._known or self.initialOffset(), None)

    # ------------------------------------------------------------ reading

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """The parts between two offsets; the same ones whenever they are asked for."""
        logs = self._logs()
        first, last = index_of(logs, start["file"]), index_of(logs, end["file"])
        parts: list[Part] = []
        for i in range(first, last + 1):
            begin = start["position"] if i == first else 0
            stop = end["position"] if i == last else self._end_of(logs[i], begin)
            if stop <= max(begin, _FIRST_EVENT):
                continue
            if self._options.split_size is None:
                parts.append(Part(replace(logs[i], start=begin, end=stop), exact=True))
            else:
                parts += divide(logs[i], begin, stop, self._options.split_size, self._options)
        parts = self._with_xa(parts, logs, start, end)
        if self._timeline is not None:
            read = logs[: index_of(logs, end["file"]) + 1]
            timeline = self._timeline.follow(read, end=int(end["position"]))
            parts = with_definitions(parts, timeline)
        return [LogPartition(part) for part in parts]

    def _with_xa(self, parts: list[Part], logs: list[Split], start: Offset, end: Offset) -> list[Part]:
        """XA transactions come in the batch that has their commit, wherever they were prepared."""
        if self._options.xa != "committed":
            return parts
        since, below = _version(logs, start), _version(logs, end)
        if self._xa is None:
            self._xa = XaHistory(self._options, since)
        self._xa.follow(logs[: index_of(logs, end["file"]) + 1], end=int(end["position"]))
        late = self._xa.committed_later(since, below)
        parts = [replace(part, prepared=self._xa.prepared(part.split, below)) for part in parts]
        return [*(Part(split, exact=True, prepared=(one,)) for split, one in late), *parts]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The rows of a part."""
        if isinstance(partition, LogPartition):
            yield from self._changes.read(partition.part)

    def commit(self, end: Offset) -> None:
        """Nothing: the logs are not ours to delete."""

    def stop(self) -> None:
        """Nothing is held open."""

    # ------------------------------------------------------------ the logs

    def _logs(self) -> list[Split]:
        logs = plan_logs(self._paths, self._options)
        for log, following in pairwise(logs):
            if following.file_number != log.file_number + 1:
                raise BinlogError(
                    f"logs are missing between this one and {os.path.basename(following.path)}: a stream over"
                    " them would lose changes",
                    path=log.path,
                )
        return logs

    def _advance(self, logs: list[Split], start: Offset, most: int | None) -> Offset:
        i, position = index_of(logs, start["file"]), int(start["position"])
        left = most
        found = start
        while True:
            # A log that another follows in a listing made before is complete.
            with log_file(logs[i].path, self._options).open() as source:
                if source.size is not None and source.size < position:
                    raise BinlogError(
                        f"the log has {source.size} bytes, the offset of the stream is {position}: it is not"
                        " the log that was read before",
                        path=logs[i].path,
                    )
                if left is not None:
                    stop = boundary_behind(source, position, max(position, _FIRST_EVENT) + left)
                    if stop is not None:
                        return _offset(logs[i], stop)
                end = last_boundary(source, position)
            if end > max(position, _FIRST_EVENT):
                found = _offset(logs[i], end)
                if left is not None:
                    left -= end - position
            i += 1
            if i == len(logs) or (left is not None and left <= 0):
                return found
            position = 0

    def _end_of(self, log: Split, start: int) -> int:
        # What a crash left of a last transaction was never committed.
        with log_file(log.path, self._options).open() as source:
            return last_boundary(source, start)


def _offset(log: Split, position: int) -> Offset:
    return {"file": os.path.basename(log.path), "position": position}


def _version(logs: list[Split], offset: Offset) -> int:
    return logs[index_of(logs, offset["file"])].version_base + int(offset["position"])


def _place(logs: list[Split], offset: Offset) -> tuple[int, int]:
    return index_of(logs, offset["file"]), int(offset["position"])
