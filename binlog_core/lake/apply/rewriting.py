"""A table of Parquet files: files that have rows with some keys are rewritten without these rows."""

from __future__ import annotations

import contextlib
import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..rows.types import import_pyarrow
from ..tables.table import DataFile
from ..tables.vectors import Vector, deleted_rows
from .alterations import Check
from .files import FileWriter, is_bound, live_rows, shaped, tables_of
from .folding import fits
from .jobs import Folder
from .key_runs import distinct
from .keys import one_array, places, rows_with

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
        The files with the rows that stay, and with the rows that they completed; also the file itself, if it
        stays with more of its rows deleted.
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
    vectors : bool
        Whether a file stays, and gets a deletion vector, unless `every` or none of its rows is left.
    """

    place: Folder
    workspace: Folder
    schema: pa.Schema
    keys: tuple[str, ...]
    sunk: tuple[Sunk, ...]
    values: Mapping[str, Any] = field(default_factory=dict)
    every: bool = False
    vectors: bool = False

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

    def sought(self) -> Iterator[list[pa.Array]]:
        """The keys, in the types of the table."""
        types = [self.schema.field(name).type for name in self.keys]
        return (_keys(_loaded(one.keys, self.workspace), self.keys, types) for one in self.sunk)

    def marked(self, file: DataFile, rows: NDArray[np.uint64]) -> Replaced:
        """Delete some rows of a file without reading it; some may be deleted already."""
        if not len(rows):
            return Replaced(file.name, False)
        before = np.empty(0, np.uint64)
        if file.deleted is not None:
            before = deleted_rows(file.deleted, file.rows, self.place.open(), self.place.root)
        gone = distinct(np.concatenate((before, rows)))
        if len(gone) == len(before):
            return Replaced(file.name, False)
        new = () if len(gone) == file.rows else (replace(file, deleted=Vector.new(gone)),)
        return Replaced(file.name, True, new)

    def __call__(self, file: DataFile) -> Replaced:
        """Search a file for the keys, and rewrite it if it has any of them."""
        with _ONE if file.bytes > _LARGE_BYTES else contextlib.nullcontext():
            return self._replaced(file)

    def _replaced(self, file: DataFile) -> Replaced:
        import pyarrow.parquet as pq

        sunk = [one for one in self.sunk if self._meets(file, one)]
        with self.place.open().open_input_file(file.name) as source:
            parquet = pq.ParquetFile(source)
            types = [self.schema.field(name).type for name in self.keys]
            loaded = _gathered(_loaded(one.keys, self.workspace) for one in sunk)
            wanted: Iterable[list[pa.Array]] = (_keys(one, self.keys, types) for one in loaded)
            partial = [_loaded(one.partial[0], self.workspace) for one in sunk if one.partial is not None]
            bases = [_keys(rows, bases_of(self.keys), types) for rows in partial]
            sought = None
            if sum(one.puts + one.deletes for one in sunk) <= _PROBED_ROWS:
                wanted = [*wanted]
                sought = [keys[0] for keys in (*wanted, *bases)]
            at, own = _read(parquet, self.keys, sought)
            here = _keys(own, self.keys, types)
            if sought:
                some = rows_with(here[0], sought)
                at, here = at[some], [one.take(import_pyarrow().array(some)) for one in here]
            live = live_rows(self.place, file, parquet.metadata.num_rows)
            gone = np.zeros(parquet.metadata.num_rows, np.bool_)
            for keys in wanted:
                gone[at[places(here, keys) >= 0]] = True  # the file may have a key twice
            if live is not None:
                gone &= live
                left = np.flatnonzero(live[at])
                at, here = at[left], [one.take(import_pyarrow().array(left)) for one in here]
            completing = [
                (rows, np.append(at, -1)[found])
                for rows, base in zip(partial, bases, strict=True)
                for found in [places(base, here)]
                if (found >= 0).any()
            ]
            if not self.every and not gone.any() and not completing:
                return Replaced(file.name, False)
            if live is not None:
                gone |= ~live
            if gone.all() and not completing:
                return Replaced(file.name, True)
            if self.vectors and not self.every:
                return self._with_vector(file, parquet, gone, completing)
            return self._rewritten(file, parquet, gone, completing)

    def _with_vector(
        self,
        file: DataFile,
        parquet: Any,
        gone: NDArray[np.bool_],
        completing: list[tuple[pa.Table, NDArray[np.int64]]],
    ) -> Replaced:
        found = Replaced(file.name, True)
        if completing:  # only these rows
            found = self._rewritten(file, parquet, np.ones(len(gone), np.bool_), completing)
        if gone.all():
            return found
        vector = Vector.new(np.flatnonzero(gone).astype(np.uint64))
        return replace(found, new=(*found.new, replace(file, rows=len(gone), deleted=vector)))

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
                end = start + parquet.metadata.row_group(group).num_rows
                within = [(found >= start) & (found < end) for _, found in completing]
                if not gone[start:end].all() or any(one.any() for one in within):
                    rows = self.shaped(parquet.read_row_group(group))
                    writer.write(rows.filter(pa.array(~gone[start:end])))
                    for (partial, found), one in zip(completing, within, strict=True):
                        if one.any():
                            here = np.flatnonzero(one)
                            writer.write(self._completed(partial.take(here), rows.take(found[here] - start)))
                            completed += len(here)
                start = end
            new = writer.finish()
        return Replaced(file.name, True, tuple(new), completed)

    def shaped(self, rows: pa.Table) -> pa.Table:
        """Rows of a file in the table's new columns."""
        return shaped(rows, self.schema, self.values)

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
            if self.check.column not in pq.read_schema(source).names:
                return True
        found = tables_of(self.place, [file], [self.check.column])
        return all(fits(self.check, one.column(0)) for one in found)


def _read(
    parquet: Any, names: Sequence[str], sought: Iterable[pa.Array] | None
) -> tuple[NDArray[np.int64], pa.Table]:
    """The key columns of those groups of rows that may have one of some keys, and the numbers of the rows.

    `sought`: values of the first column, in arrays; None: all groups.
    """
    ordered = None if sought is None else [_in_order(one) for one in sought]
    chosen, numbers, start = [], [np.empty(0, np.int64)], 0
    for group in range(parquet.metadata.num_row_groups):
        found = parquet.metadata.row_group(group)
        if ordered is None or any(_may_have(found, names[0], one) for one in ordered):
            chosen.append(group)
            numbers.append(np.arange(start, start + found.num_rows))
        start += found.num_rows
    return np.concatenate(numbers), parquet.read_row_groups(chosen, columns=list(names))


def _in_order(keys: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    return keys.take(pc.sort_indices(keys))


def _may_have(group: Any, name: str, sought: pa.Array) -> bool:
    """Whether a group of rows may have one of some sorted values, as far as its bounds say."""
    columns = map(group.column, range(group.num_columns))
    found = next((one.statistics for one in columns if one.path_in_schema == name), None)
    if found is None or not found.has_min_max or sought.null_count:
        return True
    try:
        least, most = found.min, found.max
        at = bisect_left(range(len(sought)), least, key=lambda i: sought[i].as_py())
        return at < len(sought) and bool(sought[at].as_py() <= most)
    # The key's type has changed; another writer cut a text within a character; Python lacks some dates.
    except (TypeError, ValueError, OverflowError):
        return True


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
