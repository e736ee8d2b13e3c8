"""Raw changes: one file for each split with the changes of all tables, as pieces in Arrow's IPC format.

A piece has rows of one table in one schema. Its name says which file it is in, and where. A Parquet file for
a hundred changes of a table would take twenty times the CPU time, and a directory entry.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import DecodeError, SchemaError
from ..lake.apply.files import shaped
from ..lake.apply.jobs import Folder
from ..lake.rows.reader import Chunk
from ..lake.rows.types import import_pyarrow
from ..lake.runner import Runner
from ..lake.tables.results import FileStatistics
from ..lake.tables.staged import write_piece
from ..lake.tables.writer import Part, PartWriter, quietly
from .columns import ColumnRules
from .filters import ops_of

if TYPE_CHECKING:
    import pyarrow as pa

    from .._tables.tables import Table

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")
_VERSION = "_commit_version"
NO_RULES: Mapping[str, ColumnRules] = {}


class RawWriter(PartWriter):
    """Writes the rows of one split into one file; see `PartWriter`.

    Its `FileStatistics` are about pieces; their `bytes` are what the rows take in memory.

    Parameters
    ----------
    columns : mapping of str to ColumnRules
        What becomes of the columns of some tables.
    mask_key : bytes or None
        The key of masked columns.
    """

    _sink: Any = None

    def __init__(
        self,
        *these: Any,
        columns: Mapping[str, ColumnRules] = NO_RULES,
        mask_key: bytes | None = None,
        **named: Any,
    ) -> None:
        super().__init__(*these, **named)
        self._columns, self._mask_key = columns, mask_key

    def write(self, chunk: Chunk) -> None:
        """See `PartWriter`."""
        rules = self._columns.get(chunk.table.full_name)
        if rules is not None:
            try:
                batch = rules.of_log(chunk.batch, chunk.table, self._mask_key)
            except (DecodeError, SchemaError) as error:
                raise error.located(table=chunk.table.full_name) from None
            if not batch.num_rows:
                return
            chunk = chunk._replace(batch=batch, ops=ops_of(batch) if rules.where or rules.soft else chunk.ops)
        super().write(chunk)

    def _begin(self, key: Any, table: Table) -> Part:
        return Part(key, "", None)

    def _flush(self, part: Part) -> None:
        pa, began = import_pyarrow(), time.perf_counter()
        rows = pa.Table.from_batches(part.waiting, part.key[3])
        if self._sink is None:
            self._names.append(f"{self._prefix}.arrow")
            self._sink = self._filesystem.open_output_stream(f"{self._directory}/{self._names[0]}")
        start = self._sink.tell()
        write_piece(self._sink, rows, rows.nbytes, compressed=self._filesystem.type_name != "local")
        part.name = f"{self._names[0]}:{start}:{self._sink.tell()}"
        self._waiting_bytes -= part.waiting_bytes
        part.seconds += time.perf_counter() - began
        del self._parts[part.key[:2]]
        self._done.append(self._statistics(part, rows.nbytes))

    def _close(self, part: Part) -> None:
        self._flush(part)

    def finish(self) -> list[FileStatistics]:
        """See `PartWriter`."""
        done = super().finish()
        if self._sink is not None:
            self._sink.close()
        return done

    def abort(self) -> None:
        """See `PartWriter`."""
        if self._sink is not None:
            quietly(self._sink.close)
        self._parts.clear()
        super().abort()


def pieces(place: Folder, names: Iterable[str]) -> Iterator[pa.Table]:
    """The rows of some pieces, piece by piece."""
    pa, filesystem = import_pyarrow(), place.open()
    for file, here in groupby((name.rsplit(":", 2) for name in names), lambda one: one[0]):
        with filesystem.open_input_file(file) as source:
            for _, start, end in here:
                yield pa.ipc.open_stream(source.read_at(int(end) - int(start), int(start))).read_all()


@dataclass(frozen=True)
class OnRaw:
    """`Jobs` whose workers read pieces themselves.

    Parameters
    ----------
    runner : Runner
        Who does the work.
    place : Folder
        The directory of the files.
    names : tuple of str
        The names of the pieces.
    schema : pyarrow.Schema
        The common schema of all pieces.
    since, below : int
        Only changes of versions from `since` on and below `below` are read.
    statements : pyarrow.Table
        Statements, which are in no piece.
    spelling : mapping of str to str
        Other names for columns of pieces.
    """

    runner: Runner
    place: Folder
    names: tuple[str, ...]
    schema: pa.Schema
    since: int
    below: int
    statements: pa.Table
    spelling: Mapping[str, str] = field(default_factory=dict)

    def renamed(self, names: Mapping[str, str]) -> OnRaw:
        """See `Jobs`."""
        schema = import_pyarrow().schema(
            [one.with_name(names.get(one.name, one.name)) for one in self.schema]
        )
        return replace(self, schema=schema, spelling=names)

    def stage(
        self, function: Callable[[Iterable[pa.RecordBatch]], _Result], *, together: bool = False
    ) -> list[_Result]:
        """See `Jobs`; a split, and so a transaction, is always in one task, and its changes in order."""
        place, schema, since, below, spelling = self.place, self.schema, self.since, self.below, self.spelling

        def changes(names: Sequence[str]) -> Iterator[pa.RecordBatch]:
            for rows in pieces(place, names):
                known = rows.rename_columns([spelling.get(name, name) for name in rows.column_names])
                yield from shaped(between(known, since, below), schema).to_batches()

        def read(names: Sequence[str]) -> _Result:
            return function(changes(names))

        splits = [list(here) for _, here in groupby(self.names, lambda name: name.rsplit(":", 2)[0])]
        found = [function(self.statements.to_batches())] if self.statements.num_rows else []
        return found + self.runner.map(read, splits)

    def run(self, function: Callable[[_Task], _Result], tasks: Sequence[_Task]) -> list[_Result]:
        """See `Jobs`."""
        return self.runner.map(function, tasks)


def between(rows: pa.Table, since: int, below: int) -> pa.Table:
    """The rows of versions from `since` on and below `below`."""
    import pyarrow.compute as pc

    versions = rows[_VERSION]
    if not rows.num_rows or (pc.min(versions).as_py() >= since and pc.max(versions).as_py() < below):
        return rows
    return rows.filter((pc.field(_VERSION) >= since) & (pc.field(_VERSION) < below))
