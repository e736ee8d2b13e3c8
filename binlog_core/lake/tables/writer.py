"""Parquet files written by a worker: rows are gathered into large row groups within a budget of memory."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..._base.change_columns import ABSENT
from ...batch.change_batch import OPS
from ..rows.reader import Chunk
from .destination import bucket_of, directory_name
from .parquet_writer import parquet_writer
from .results import FileStatistics, Staged

if TYPE_CHECKING:
    import pyarrow as pa

    from ..._tables.tables import Column, Table

# Database, table, its columns as the log has them, those that the file has, and the primary key.
_Key = tuple[str, str, "tuple[Column, ...]", "pa.Schema", tuple[str, ...] | None]
DEFAULT_FILE_SIZE = 128 << 20
_MAX_VERSION = (1 << 63) - 1
_BUFFER_LEN = 512  # bytes that a column of a batch takes in addition to its values


@dataclass(frozen=True, slots=True)
class WriteLimits:
    """Limits on a worker's memory.

    Parameters
    ----------
    row_group_rows, row_group_bytes : int
        A table's rows are written when there are this many, or this many bytes of them in Arrow.
    pending_bytes : int
        The largest tables are written when all waiting rows together take this many bytes.
    open_files : int
        The most files open at a time; if a table has more rows after its file was closed, it gets another.
    """

    row_group_rows: int = 1 << 20
    row_group_bytes: int = 64 << 20
    pending_bytes: int = 96 << 20
    open_files: int = 64


@dataclass(slots=True)
class Part:
    """The file that one table, in one schema, is being written to."""

    key: _Key
    name: str
    definition: Table | None
    first_position: int = -1  # -1: it has no rows yet
    last_position: int = 0
    split: int = 0
    log: int = 0
    first_version: int = _MAX_VERSION
    last_version: int = 0
    last_time: int = 0
    partial_rows: int = 0
    ops: NDArray[np.int64] = field(default_factory=lambda: np.zeros(len(OPS) + 1, np.int64))
    seconds: float = 0.0
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    waiting_rows: int = 0
    waiting_bytes: int = 0
    written_bytes: int = 0  # of rows in memory
    sink: Any = None
    writer: Any = None


class PartWriter:
    """Writes rows, a file for each table and schema: those of one split, or staged ones of many.

    Parameters
    ----------
    filesystem : pyarrow.fs.FileSystem
        The file system of `directory`.
    directory : str
        Where the files go; it exists.
    prefix : str
        The beginning of the files' names, unique to the attempt.
    split, log : int
        Their numbers, for the statistics.
    nested : bool
        Whether each table has a directory in `directory`.
    compression : str or None
        Parquet's codec; None: see `parquet_writer`.
    limits : WriteLimits
        Limits on files and memory.
    file_size : int or None
        A file that has this many bytes is closed, and the table's next rows go to another.
    left : mapping of int to int, or None
        For each table, by its `bucket_of`, the bytes of rows to come: a file is not closed if what is left
        does not fill another. None: not known.
    """

    staged: Staged | None = None

    def __init__(
        self,
        filesystem: Any,
        directory: str,
        prefix: str,
        split: int,
        *,
        log: int = 0,
        nested: bool = False,
        compression: str | None = None,
        limits: WriteLimits = WriteLimits(),
        file_size: int | None = None,
        left: Mapping[int, int] | None = None,
    ) -> None:
        self._filesystem = filesystem
        self._directory = directory
        self._prefix = prefix
        self._split = split
        self._log = log
        self._nested = nested
        self._compression = compression
        self._limits = limits
        self._file_size = file_size
        self._left = None if left is None else dict(left)
        self._parts: dict[tuple[str, str], Part] = {}  # by database and table
        # Those whose files are open, the least recently flushed first.
        self._open: dict[tuple[str, str], None] = {}
        self._waiting_bytes = 0
        self._names: list[str] = []
        self._done: list[FileStatistics] = []

    def write(self, chunk: Chunk) -> None:
        """Take rows; they are in a file once `finish` has returned."""
        import pyarrow
        import pyarrow.compute as pc

        table, batch = chunk.table, chunk.batch
        primary = tuple(table.primary_key) if table.primary_key else None
        key = (table.database, table.name, table.columns, batch.schema, primary)
        part = self._part(key, chunk.table)
        if part.first_position < 0:
            part.split, part.log, part.first_position = self._split, self._log, chunk.first_position
        part.ops += chunk.ops
        part.last_position = chunk.last_position
        # With xa=committed, versions are those of the commits, which are not in log order.
        versions = batch["_commit_version"].to_numpy()
        part.first_version = min(part.first_version, int(versions.min()))
        part.last_version = max(part.last_version, int(versions.max()))
        times = pc.max(batch["_commit_timestamp"].cast(pyarrow.int64())).as_py()
        part.last_time = max(part.last_time, times or 0)
        if ABSENT in batch.schema.names:
            part.partial_rows += batch.num_rows - batch[ABSENT].null_count
        part.waiting.append(batch)
        # Of whole buffers: `nbytes`, which also knows slices, takes ten times as long for many columns.
        self._wait(part, batch.num_rows, batch.get_total_buffer_size() + _BUFFER_LEN * batch.num_columns)

    def append(self, told: FileStatistics, rows: pa.Table) -> None:
        """Take rows that another writer has gathered, with what it tells of them."""
        assert told.definition is not None
        key = (told.database, told.table, told.definition.columns, rows.schema, told.key)
        part = self._part(key, told.definition)
        if part.first_position < 0:
            part.split, part.log, part.first_position = told.split, told.log, told.first_position
        part.ops += [told.rows.get(OPS.get(op, ""), 0) for op in range(len(part.ops))]
        part.last_position = told.last_position
        part.first_version = min(part.first_version, told.first_version)
        part.last_version = max(part.last_version, told.last_version)
        part.last_time = max(part.last_time, told.last_time)
        part.partial_rows += told.partial_rows
        part.seconds += told.seconds
        part.waiting += rows.to_batches()
        if self._left is not None:
            self._left[bucket_of(told.database, told.table)] -= told.bytes
        self._wait(part, rows.num_rows, told.bytes)

    def _part(self, key: _Key, table: Table) -> Part:
        part = self._parts.get(key[:2])
        if part is not None and part.key != key:
            # A definition that comes back gets another file: ranges of versions tell whose rows are whose.
            self._end(part)
            part = None
        if part is None:
            part = self._parts[key[:2]] = self._begin(key, table)
        return part

    def _end(self, part: Part) -> None:
        """Write what waits of a table that has another definition now."""
        self._close(part)

    def _begin(self, key: _Key, table: Table) -> Part:
        name = f"{self._prefix}-{len(self._names):05}.parquet"
        if self._nested:
            folder = directory_name(key[0], key[1])
            self._filesystem.create_dir(f"{self._directory}/{folder}", recursive=True)
            name = f"{folder}/{name}"
        self._names.append(name)
        return Part(key, name, replace(table, flags=0))

    def _wait(self, part: Part, rows: int, size: int) -> None:
        part.waiting_rows += rows
        part.waiting_bytes += size
        self._waiting_bytes += size
        self._make_room(part)

    def _make_room(self, part: Part) -> None:
        """Write what has waited long enough; `part` has just grown."""
        limits = self._limits
        most = min(limits.row_group_bytes, self._file_size or limits.row_group_bytes)
        if part.waiting_rows >= limits.row_group_rows or part.waiting_bytes >= most:
            self._flush(part)
            self._close_if_full(part)
        if self._waiting_bytes >= limits.pending_bytes:
            for largest in sorted(self._parts.values(), key=lambda p: p.waiting_bytes, reverse=True):
                if self._waiting_bytes < limits.pending_bytes // 2:
                    break
                if largest.waiting:  # making room for another file may have closed this one
                    self._flush(largest)
                    self._close_if_full(largest)

    def _close_if_full(self, part: Part) -> None:
        if self._file_size is None or part.sink is None or part.sink.tell() < self._file_size:
            return
        if self._left is not None:
            rate = part.sink.tell() / max(part.written_bytes, 1)
            if self._left[bucket_of(*part.key[:2])] * rate < self._file_size:
                return
        self._close(part)

    def finish(self) -> list[FileStatistics]:
        """Write the waiting rows and close the files."""
        while self._parts:
            self._close(next(iter(self._parts.values())))
        return self._done

    def abort(self) -> None:
        """Close and delete the files, as far as they can be."""
        for part in self._parts.values():
            if part.writer is not None:  # an open writer complains about a closed sink when it is collected
                quietly(part.writer.close)
            if part.sink is not None:
                quietly(part.sink.close)
        for name in self._names:
            quietly(self._filesystem.delete_file, f"{self._directory}/{name}")

    def _flush(self, part: Part) -> None:
        import pyarrow

        began = time.perf_counter()
        schema = part.key[3]
        rows = pyarrow.Table.from_batches(part.waiting, schema)
        self._open.pop(part.key[:2], None)
        if part.writer is None:
            while len(self._open) >= self._limits.open_files:
                self._close(self._parts[next(iter(self._open))])
            part.sink = self._filesystem.open_output_stream(f"{self._directory}/{part.name}")
            # Only Delta's own readers are known to take the encoding for long texts.
            part.writer = parquet_writer(part.sink, schema, rows, delta=False, codec=self._compression)
        self._open[part.key[:2]] = None
        part.writer.write_table(rows, row_group_size=max(1, part.waiting_rows))
        self._waiting_bytes -= part.waiting_bytes
        part.written_bytes += part.waiting_bytes
        part.waiting.clear()
        part.waiting_rows = part.waiting_bytes = 0
        part.seconds += time.perf_counter() - began

    def _close(self, part: Part) -> None:
        if part.waiting:
            self._flush(part)
        began = time.perf_counter()
        part.writer.close()
        size = part.sink.tell()
        part.sink.close()
        part.seconds += time.perf_counter() - began
        del self._parts[part.key[:2]], self._open[part.key[:2]]
        self._done.append(self._statistics(part, size))

    def _statistics(self, part: Part, size: int) -> FileStatistics:
        database, table, _, schema, primary = part.key
        return FileStatistics(
            part.name,
            part.split,
            part.log,
            database,
            table,
            schema,
            primary,
            {name: int(part.ops[op]) for op, name in OPS.items()},
            part.partial_rows,
            size,
            part.seconds,
            part.first_position,
            part.last_position,
            part.first_version,
            part.last_version,
            part.last_time,
            part.definition,
        )


def quietly(action: Any, *arguments: Any) -> None:
    """Call a function, and ignore errors of files and of Arrow."""
    # What is left is in the staging directory, which is deleted as a whole.
    import pyarrow

    with contextlib.suppress(OSError, pyarrow.ArrowException):
        action(*arguments)
