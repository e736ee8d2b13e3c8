"""A table of Parquet files: files that have rows with some keys are rewritten without these rows."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..rows.types import import_pyarrow
from ..tables.table import DataFile
from .alterations import Check
from .files import FileWriter, is_bound, shaped
from .folding import fits
from .jobs import Folder
from .keys import one_array, places

if TYPE_CHECKING:
    import pyarrow as pa

from .sinks import Sunk, bases_of, lacks_of

_PROBED_ROWS = 1 << 21  # keys that are searched for at a time
_LARGE_BYTES, _ONE = 8 << 20, threading.Lock()  # only one file this large at a time is in a process's memory


@dataclass(frozen=True)
class Replaced:
    """The result of rewriting a file.

    Parameters
    ----------
    name : str
        The file's name.
    touched : bool
        Whether it is to be removed.
    new : tuple of DataFile
        The files with the rows that stay, and with the rows that they completed.
    completed : int
        How many partial rows were completed from its rows.
    """

    name: str
    touched: bool
    new: tuple[DataFile, ...] = ()
    completed: int = 0


@dataclass(frozen=True)
class Rewriter:
    """Writes files of a table again, without the rows of some keys; pickled to the workers.

    Parameters
    ----------
    place, workspace : Folder
        The table's directory, and the one of the temporary files.
    schema : pyarrow.Schema
        The table's new schema.
    keys : tuple of str
        The names of the key's columns.
    sunk : tuple of Sunk
        The reports about the folded keys.
    values : mapping of name to From or a value
        Columns that change in all rows.
    every : bool
        Whether files without any of the keys are rewritten too.
    """

    place: Folder
    workspace: Folder
    schema: pa.Schema
    keys: tuple[str, ...]
    sunk: tuple[Sunk, ...]
    values: Mapping[str, Any] = field(default_factory=dict)
    every: bool = False

    def concerns(self, file: DataFile) -> bool:
        """Whether a file may have any of the keys, judged by its bounds."""
        return self.every or any(self._meets(file, one) for one in self.sunk)

    def _meets(self, file: DataFile, sunk: Sunk) -> bool:
        for name in self.keys:
            bounds: list[Any] = [at.get(name) for at in (file.least, file.most, sunk.least, sunk.most)]
            if all(is_bound(one) for one in bounds):
                with contextlib.suppress(TypeError):  # the key's type has changed
                    if bounds[1] < bounds[2] or bounds[3] < bounds[0]:
                        return False
        return True

    def __call__(self, file: DataFile) -> Replaced:
        """Search a file for the keys, and rewrite it if it has any of them."""
        with _ONE if file.bytes > _LARGE_BYTES else contextlib.nullcontext():
            return self._replaced(file)

    def _replaced(self, file: DataFile) -> Replaced:
        import pyarrow.parquet as pq

        sunk = [one for one in self.sunk if self._meets(file, one)]
        with self.place.open().open_input_file(file.name) as source:
            parquet = pq.ParquetFile(source)
            own = parquet.read(columns=list(self.keys))
            types = [self.schema.field(name).type for name in self.keys]
            here = _keys(own, self.keys, types)
            gone = np.zeros(own.num_rows, np.bool_)
            for wanted in _gathered(_loaded(one.keys, self.workspace) for one in sunk):
                gone |= places(here, _keys(wanted, self.keys, types)) >= 0  # the file may have a key twice
            bases = bases_of(self.keys)
            completing = [
                (rows, found)
                for one in sunk
                if one.partial is not None
                for rows in [_loaded(one.partial[0], self.workspace)]
                for found in [places(_keys(rows, bases, types), here)]
                if (found >= 0).any()
            ]
            if not self.every and not gone.any() and not completing:
                return Replaced(file.name, False)
            if gone.all() and not completing:
                return Replaced(file.name, True)
            return self._rewritten(file, parquet, gone, completing)

    def _rewritten(
        self,
        file: DataFile,
        parquet: Any,
        gone: NDArray[np.bool_],
        completing: list[tuple[pa.Table, NDArray[np.int64]]],
    ) -> Replaced:
        pa = import_pyarrow()
        completed, start = 0, 0
        with FileWriter(self.place, self.schema) as writer:
            for group in range(parquet.num_row_groups):
                rows = parquet.read_row_group(group)
                rows = shaped(rows, self.schema, self.values)
                end = start + rows.num_rows
                writer.write(rows.filter(pa.array(~gone[start:end])))
                for partial, found in completing:
                    here = np.flatnonzero((found >= start) & (found < end))
                    if len(here):
                        writer.write(self._completed(partial.take(here), rows.take(found[here] - start)))
                        completed += len(here)
                start = end
            new = writer.finish()
        return Replaced(file.name, True, () if new is None else (new,), completed)

    def _completed(self, partial: pa.Table, rows: pa.Table) -> pa.Table:
        """Partial rows, completed from the rows that they were before."""
        import pyarrow.compute as pc

        arrays = []
        for one in self.schema:
            flag = lacks_of(one.name)
            if flag in partial.column_names:
                arrays.append(pc.if_else(partial[flag], rows[one.name], partial[one.name]))
            else:
                arrays.append(rows[one.name])
        return import_pyarrow().Table.from_arrays(arrays, schema=self.schema)


@dataclass(frozen=True)
class Checker:
    """Tests whether a check holds for all values in a file."""

    place: Folder
    check: Check

    def __call__(self, file: DataFile) -> bool:
        """Test a file."""
        import pyarrow.parquet as pq

        with self.place.open().open_input_file(file.name) as source:
            parquet = pq.ParquetFile(source)
            if self.check.column not in parquet.schema_arrow.names:
                return True
            return all(
                fits(self.check, batch.column(0))
                for batch in parquet.iter_batches(columns=[self.check.column])
            )


def _keys(rows: pa.Table, names: Iterable[str], types: Iterable[pa.DataType]) -> list[pa.Array]:
    """The columns of keys, in the types that they have in the table."""
    return [one_array(rows[name]).cast(kind) for name, kind in zip(names, types, strict=True)]


def _gathered(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Tables merged into larger ones, of a limited number of rows."""
    pa = import_pyarrow()
    waiting: list[Any] = []
    for table in tables:
        waiting.append(table)
        if sum(one.num_rows for one in waiting) >= _PROBED_ROWS:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


def _loaded(name: str, place: Folder) -> pa.Table:
    pa = import_pyarrow()
    with place.open().open_input_file(name) as source:
        return pa.ipc.open_file(source).read_all()
