"""Staged rows: a worker's files of all tables, sorted by table, from which other workers take their tables.

A file has pieces, each with the rows of one table in one schema in Arrow's IPC format, and an index of them.
The index is in the order of buckets, numbers that tables' names give, and so are small pieces: those of some
buckets are one range of bytes. A worker has several files if its small pieces do not fit into its memory.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..._tables.described import describe, described_table
from ...errors import BinlogError
from ..rows.types import import_pyarrow
from .destination import STAGED_ROWS, bucket_of
from .results import FileStatistics, Staged
from .writer import Part, PartWriter, quietly

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from ..._tables.tables import Table

_LARGE_BYTES = 8 << 20  # in memory, of a table: its rows are written at once
_PLAIN_BYTES = 256 << 10  # smaller pieces are not compressed
_READ_BYTES = 1 << 20  # of small pieces, at once
_WRITE_BYTES = 256 << 10  # at once: a table of many columns has many small buffers
_ENTRY = np.dtype([("bucket", "<u4"), ("bytes", "<u8"), ("start", "<u8"), ("end", "<u8")])
PLACED = np.dtype([*_ENTRY.descr, ("place", "<u4")])  # of a file among others
_SHIFT = 24  # of a bucket: its first eight bits
_TRAILER = np.dtype([("starts", "<u8", (1 << 32 - _SHIFT) + 1), ("index", "<u8"), ("magic", "S8")])
_THREADS = 16
_AHEAD_BYTES = 32 << 20  # of rows that are read before they are needed
_MAGIC = b"staged01"
_ABOUT, _DEFINITION = b"binlog_core.rows", b"binlog_core.table"


def write_piece(sink: Any, rows: pa.Table, size: int, *, compressed: bool) -> None:
    """Write rows of about `size` bytes in Arrow's IPC format; `compressed`: if there are many."""
    pa, small = import_pyarrow(), size <= _PLAIN_BYTES
    options = pa.ipc.IpcWriteOptions(compression="lz4" if compressed and not small else None)
    with pa.ipc.new_stream(sink, rows.schema, options=options) as stream:
        stream.write_table(rows.combine_chunks() if small else rows)


def to_text(told: FileStatistics) -> str:
    """What is told of rows, without their schema and definition, as JSON."""
    known = {name: getattr(told, name) for name in FileStatistics.__slots__}
    return json.dumps({**known, "schema": None, "definition": None})


def from_text(text: bytes | str, schema: pa.Schema, definition: Table | None) -> FileStatistics:
    """What was given to `to_text`."""
    known = json.loads(text)
    key = None if known["key"] is None else tuple(known["key"])
    return FileStatistics(**{**known, "key": key, "schema": schema, "definition": definition})


@lru_cache(64)
def definition_text(table: Table) -> str:
    """A definition as JSON."""
    return json.dumps({"database": table.database, "table": table.name, **describe(table)})


@lru_cache(1024)
def definition_of(text: bytes | str) -> Table:
    """What was given to `definition_text`."""
    known = json.loads(text)
    return described_table(known["database"], known["table"], known)


class StagedWriter(PartWriter):
    """Writes the rows of one split into files of pieces; see `PartWriter`. `finish` says so in `staged`."""

    def __init__(self, *these: Any, **named: Any) -> None:
        super().__init__(*these, **named)
        self._pieces = self._rows = self._bytes = self._last_time = 0
        self._seconds = 0.0
        self._sink: Any = None
        self._index: list[tuple[int, int, int, int]] = []

    def _begin(self, key: Any, table: Table) -> Part:
        return Part(key, "", table)

    def _end(self, part: Part) -> None:
        self._write_piece(part)

    def _make_room(self, part: Part) -> None:
        if part.waiting_bytes >= _LARGE_BYTES:  # now, while its values are in the processor's cache
            self._write_piece(part)
        elif self._waiting_bytes >= self._limits.pending_bytes:
            self._end_file()

    def finish(self) -> list[FileStatistics]:
        """Write the waiting rows."""
        if self._parts or self._sink is not None:
            self._end_file()
        self.staged = Staged(
            tuple(self._names), self._pieces, self._rows, self._bytes, self._last_time, self._seconds
        )
        return []

    def _write_piece(self, part: Part) -> None:
        pa, began = import_pyarrow(), time.perf_counter()
        assert part.definition is not None
        if self._sink is None:
            self._names.append(f"{self._prefix}-{len(self._names):03}{STAGED_ROWS}")
            path = f"{self._directory}/{self._names[-1]}"
            self._sink = self._filesystem.open_output_stream(path, buffer_size=_WRITE_BYTES)
        start, size = self._sink.tell(), part.waiting_bytes
        about = {
            _ABOUT: to_text(self._statistics(part, size)),
            _DEFINITION: definition_text(part.definition),
        }
        rows = pa.Table.from_batches(part.waiting, part.key[3]).replace_schema_metadata(about)
        write_piece(self._sink, rows, size, compressed=self._filesystem.type_name != "local")
        self._index.append((bucket_of(*part.key[:2]), size, start, self._sink.tell()))
        self._rows += rows.num_rows
        self._last_time = max(self._last_time, part.last_time)
        self._waiting_bytes -= size
        del self._parts[part.key[:2]]
        self._seconds += time.perf_counter() - began

    def _end_file(self) -> None:
        """Write the waiting rows, sorted by bucket, and the index."""
        for name in sorted(self._parts, key=lambda name: (bucket_of(*name), *name)):
            self._write_piece(self._parts[name])
        began, index = time.perf_counter(), np.array(self._index, _ENTRY)
        index = index[np.argsort(index["bucket"], kind="stable")]
        trailer = np.zeros(1, _TRAILER)
        edges = np.arange(1, len(trailer["starts"][0]), dtype=np.int64) << _SHIFT
        trailer["starts"][0, 1:] = np.searchsorted(index["bucket"].astype(np.int64), edges)
        trailer["index"], trailer["magic"] = self._sink.tell(), _MAGIC
        self._sink.write(index.tobytes() + trailer.tobytes())
        self._sink.close()
        self._sink, self._index = None, []
        self._pieces, self._bytes = self._pieces + len(index), self._bytes + int(index["bytes"].sum())
        self._seconds += time.perf_counter() - began

    def abort(self) -> None:
        """See `PartWriter`."""
        if self._sink is not None:
            quietly(self._sink.close)
        self._parts.clear()
        super().abort()


class StagedFile:
    """A file of pieces.

    Parameters
    ----------
    filesystem : pyarrow.fs.FileSystem
    path : str

    Raises
    ------
    BinlogError
        It is not such a file, once its index is read.
    OSError
        It cannot be read.
    """

    def __init__(self, filesystem: Any, path: str) -> None:
        self._source, self._path = filesystem.open_input_file(path), path
        self._is_local = filesystem.type_name == "local"

    def pieces(self, low: int, high: int) -> NDArray[np.void]:
        """The index of the pieces with the buckets from `low` on and below `high`, in their order."""
        start = self._source.size() - _TRAILER.itemsize
        data = self._source.read_at(_TRAILER.itemsize, start) if start >= 0 else b""
        trailer = np.frombuffer(data, _TRAILER)[0] if data.endswith(_MAGIC) else None
        if trailer is None or not _fits(trailer, start):
            raise BinlogError("not a complete file of staged rows", path=self._path)
        starts = trailer["starts"]
        first, last = int(starts[low >> _SHIFT]), int(starts[(high - 1 >> _SHIFT) + 1])
        start = int(trailer["index"]) + first * _ENTRY.itemsize
        data = self._source.read_at((last - first) * _ENTRY.itemsize, start)
        found: NDArray[np.void] = np.frombuffer(data, _ENTRY)
        return found[(found["bucket"] >= low) & (found["bucket"] < high)]

    def read(self, pieces: NDArray[np.void]) -> Iterator[tuple[FileStatistics, pa.Table]]:
        """The rows of consecutive pieces, and what is told of them."""
        pa = import_pyarrow()
        for group in _groups(pieces):
            begin, end = int(group["start"][0]), int(group["end"][-1])
            with self._opened(end - begin) as source:
                source.seek(begin)
                data = source.read_buffer(end - begin)
            if len(data) != end - begin:
                raise BinlogError("not a complete file of staged rows", path=self._path)
            for piece in group:
                start, length = int(piece["start"]) - begin, int(piece["end"] - piece["start"])
                rows = pa.ipc.open_stream(data.slice(start, length)).read_all()
                told = rows.schema.metadata
                rows = rows.replace_schema_metadata(None)
                yield from_text(told[_ABOUT], rows.schema, definition_of(told[_DEFINITION])), rows

    def _opened(self, length: int) -> Any:
        """What is read; a large piece of a local file is mapped, which takes less time."""
        if length > _READ_BYTES and self._is_local:
            return import_pyarrow().memory_map(self._path)
        return contextlib.nullcontext(self._source)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        quietly(self._source.close)


def _fits(trailer: np.void, end: int) -> bool:
    """Whether the index ends where the trailer begins, and its places are in order."""
    starts = trailer["starts"]
    size = int(starts[-1]) * _ENTRY.itemsize
    return int(trailer["index"]) + size == end and not (starts[1:] < starts[:-1]).any()


class StagedFiles:
    """Staged files in the order of the logs; few of them are open at a time.

    Parameters
    ----------
    filesystem : pyarrow.fs.FileSystem
    paths : list of str
    """

    def __init__(self, filesystem: Any, paths: list[str]) -> None:
        self._filesystem, self._paths = filesystem, paths

    def pieces(self, low: int, high: int) -> NDArray[np.void]:
        """The `pieces` of all files, sorted by bucket, then in their order."""

        def find(path: str) -> NDArray[np.void]:
            with StagedFile(self._filesystem, path) as file:
                return file.pieces(low, high)

        with ThreadPoolExecutor(_THREADS) as threads:
            found = list(threads.map(find, self._paths))
        placed = np.empty(sum(map(len, found)), PLACED)
        placed["place"] = np.repeat(np.arange(len(found)), [len(one) for one in found])
        for name in _ENTRY.names or ():
            placed[name] = np.concatenate([one[name] for one in found])
        return placed[np.argsort(placed["bucket"], kind="stable")]

    def rows(self, pieces: NDArray[np.void]) -> Iterator[tuple[FileStatistics, pa.Table]]:
        """The rows of some pieces, file after file, and what is told of them; small ones are read ahead."""
        pieces = pieces[np.argsort(pieces["place"], kind="stable")]
        places, starts = np.unique(pieces["place"], return_index=True)
        each = np.split(pieces, starts[1:])
        wanted = [(self._paths[place], some) for place, some in zip(places.tolist(), each, strict=False)]
        size = int(pieces["bytes"].sum())
        ahead = min(_THREADS, _AHEAD_BYTES * len(wanted) // max(size, 1))
        if ahead < 2:
            for one in wanted:
                yield from self._read(*one)
            return
        with ThreadPoolExecutor(ahead) as threads:
            waiting: deque[Future[list[tuple[FileStatistics, pa.Table]]]] = deque()
            for one in wanted:
                waiting.append(threads.submit(lambda one: list(self._read(*one)), one))
                if len(waiting) > ahead:
                    yield from waiting.popleft().result()
            while waiting:
                yield from waiting.popleft().result()

    def _read(self, path: str, pieces: NDArray[np.void]) -> Iterator[tuple[FileStatistics, pa.Table]]:
        with StagedFile(self._filesystem, path) as file:
            yield from file.read(pieces)


def _groups(pieces: NDArray[np.void]) -> Iterator[NDArray[np.void]]:
    """Pieces that are read at once: few bytes, since rows that wait keep the memory of all of them."""
    first = 0
    for i in range(1, len(pieces)):
        together = pieces["start"][i] == pieces["end"][i - 1]
        if not together or pieces["end"][i] - pieces["start"][first] > _READ_BYTES:
            yield pieces[first:i]
            first = i
    if len(pieces):
        yield pieces[first:]
