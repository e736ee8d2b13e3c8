"""A table that is a set of Parquet files: those that have rows of some keys are written anew without them."""

from __future__ import annotations

import contextlib
import datetime as dt
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..rows.types import import_pyarrow
from .alterations import Check, From
from .folding import Folded, fits
from .jobs import Folder
from .keys import one_array, places

if TYPE_CHECKING:
    import pyarrow as pa

DELETES, LACKS, BASE = "__deletes", "__lacks", "__base"
_PROBED_ROWS = 1 << 21  # keys that are looked for at a time
_MAX_STATISTIC = 64  # characters


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file of a table.

    Parameters
    ----------
    name : str
    rows, bytes : int
    least, most : dict of name to value
        Bounds of the columns that have some.
    nulls : dict of name to int
    """

    name: str
    rows: int
    bytes: int
    least: Mapping[str, Any] = field(default_factory=dict)
    most: Mapping[str, Any] = field(default_factory=dict)
    nulls: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sunk:
    """What a worker says of keys that it folded.

    Parameters
    ----------
    puts, deletes : int
    data : DataFile or None
        The rows that are whole.
    keys : str
        File with all keys.
    partial : (str, int) or None
        File with the rows that lack columns, and how many they are.
    least, most : dict of name to value
        Bounds of the keys, and of those that partial rows come from.
    """

    puts: int
    deletes: int
    data: DataFile | None
    keys: str
    partial: tuple[str, int] | None
    least: Mapping[str, Any]
    most: Mapping[str, Any]


class FileWriter:
    """Writes rows of a table into one Parquet file.

    Parameters
    ----------
    place : Folder
    schema : pyarrow.Schema
    """

    def __init__(self, place: Folder, schema: pa.Schema) -> None:
        self._filesystem, self._schema = place.open(), schema
        self._name = f"part-{uuid.uuid4().hex}.parquet"
        self._sink: Any = None
        self._writer: Any = None
        self._metadata: list[Any] = []

    def write(self, rows: pa.Table) -> None:
        """Write some rows."""
        import pyarrow.parquet as pq

        if not rows.num_rows:
            return
        if self._writer is None:
            self._sink = self._filesystem.open_output_stream(self._name)
            self._writer = pq.ParquetWriter(
                self._sink,
                self._schema,
                store_schema=False,
                store_decimal_as_integer=True,
                metadata_collector=self._metadata,
            )
        self._writer.write_table(rows)

    def finish(self) -> DataFile | None:
        """Close it; None: there was nothing to write."""
        if self._writer is None:
            return None
        self._writer.close()
        size = self._sink.tell()
        self._sink.close()
        metadata = self._metadata[0]
        least, most, nulls = _statistics(metadata)
        return DataFile(self._name, metadata.num_rows, size, least, most, nulls)

    def abort(self) -> None:
        """Delete it."""
        with contextlib.suppress(OSError):
            if self._writer is not None:
                self._writer.close()
                self._sink.close()
                self._filesystem.delete_file(self._name)


def _statistics(metadata: Any) -> tuple[dict[str, Any], dict[str, Any], dict[str, int]]:
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    broken: set[str] = set()
    for group in range(metadata.num_row_groups):
        for i in range(metadata.num_columns):
            column = metadata.row_group(group).column(i)
            name, told = column.path_in_schema, column.statistics
            if told is None or "." in name:  # of nested columns there is none
                broken.add(name)
                continue
            if told.has_null_count:
                nulls[name] = nulls.get(name, 0) + told.null_count
            if told.has_min_max:
                least[name] = min(least.get(name, told.min), told.min)
                most[name] = max(most.get(name, told.max), told.max)
            elif told.null_count != column.num_values:
                broken.add(name)
    for bounds in (least, most):
        for name in broken.union(n for n, value in bounds.items() if not _is_bound(value)):
            least.pop(name, None)
            most.pop(name, None)
    return least, most, nulls


def _is_bound(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= _MAX_STATISTIC
    return isinstance(value, int) or type(value) is dt.date  # decimals may have been rounded


@dataclass(frozen=True)
class FileSink:
    """Writes what became of keys, for `Rewriter`; pickled to the workers.

    Parameters
    ----------
    folded, schema : pyarrow.Schema
        Of what comes; of the table.
    keys : tuple of str
    place : Folder
        Of the table.
    workspace : Folder
    """

    folded: pa.Schema
    schema: pa.Schema
    keys: tuple[str, ...]
    place: Folder
    workspace: Folder

    def __call__(self, folded: Folded) -> Sunk:
        """Write."""
        import pyarrow.compute as pc

        pa = import_pyarrow()
        rows = pa.Table.from_arrays(folded.columns, schema=self.folded)
        put = ~folded.deleted
        lacking = np.zeros(len(put), np.bool_) if folded.lacks is None else folded.lacks.any(axis=1)
        whole = put & ~lacking
        key_rows = rows.select(self.keys)
        writer = FileWriter(self.place, self.schema)
        try:
            writer.write(shaped(rows if whole.all() else rows.filter(pa.array(whole)), self.schema))
            data = writer.finish()
        except BaseException:
            writer.abort()
            raise
        names = _spilled(key_rows, self.workspace, "keys")
        bounded = [key_rows]
        partial = None
        if lacking.any():
            assert folded.lacks is not None
            flags = pa.array(lacking)
            bases = pa.Table.from_arrays(folded.bases, names=[f"{BASE}{i}" for i in range(len(self.keys))])
            bases = bases.filter(flags)
            lacks = folded.lacks[lacking]
            told = [pa.array(lacks[:, j]) for j in range(lacks.shape[1])]
            both = shaped(rows.filter(flags), self.schema)
            for column, name in zip(bases.columns, bases.column_names, strict=True):
                both = both.append_column(name, column)
            for name, column in zip(self.folded.names, told, strict=True):
                both = both.append_column(f"{LACKS}_{name}", column)
            partial = _spilled(both, self.workspace, "partial"), len(lacks)
            bounded.append(bases.rename_columns(list(self.keys)))
        least: dict[str, Any] = {}
        most: dict[str, Any] = {}
        joined = pa.concat_tables(bounded)
        for name in self.keys:
            with contextlib.suppress(pa.ArrowNotImplementedError):
                found = pc.min_max(joined[name])
                least[name], most[name] = found["min"].as_py(), found["max"].as_py()
        deletes = int(np.count_nonzero(folded.deleted))
        return Sunk(len(put) - deletes, deletes, data, names, partial, least, most)


@dataclass(frozen=True, slots=True)
class MergeFile:
    """A file of what became of keys.

    Parameters
    ----------
    name : str
    puts, deletes : int
    partial : int
        Rows that lack columns.
    """

    name: str
    puts: int
    deletes: int
    partial: int


def merge_schema(schema: pa.Schema, keys: Iterable[pa.Field]) -> pa.Schema:
    """The columns of the files of `MergeSink`: the table's, and what is to be done."""
    pa = import_pyarrow()
    names = pa.list_(pa.field("element", pa.string()))
    bases = [pa.field(f"{BASE}{i}", one.type) for i, one in enumerate(keys)]
    return pa.schema([*schema, pa.field(DELETES, pa.bool_()), pa.field(LACKS, names), *bases])


@dataclass(frozen=True)
class MergeSink:
    """Writes what became of keys for a MERGE of Spark's; pickled to the workers.

    Parameters
    ----------
    folded, schema : pyarrow.Schema
        Of what comes; of the table.
    keys : tuple of str
    workspace : Folder
    """

    folded: pa.Schema
    schema: pa.Schema
    keys: tuple[str, ...]
    workspace: Folder

    def __call__(self, folded: Folded) -> MergeFile:
        """Write."""
        pa = import_pyarrow()
        count, partial = len(folded.deleted), 0
        rows = shaped(pa.Table.from_arrays(folded.columns, schema=self.folded), self.schema)
        schema = merge_schema(self.schema, (self.schema.field(name) for name in self.keys))
        import pyarrow.compute as pc

        arrays = [*rows.columns, pa.array(folded.deleted)]
        if folded.lacks is None:
            arrays += [pa.nulls(count, one.type) for one in list(schema)[len(arrays) :]]
        else:
            names = np.array(self.folded.names, object)
            partial = int(np.count_nonzero(folded.lacks.any(axis=1)))
            arrays.append(
                pa.array([list(names[one]) or None for one in folded.lacks], schema.field(LACKS).type)
            )
            flags = pa.array(folded.lacks.any(axis=1))
            for column in folded.bases:
                arrays.append(pc.if_else(flags, column, pa.scalar(None, column.type)))
        writer = FileWriter(self.workspace, schema)
        writer.write(shaped(pa.Table.from_arrays(arrays, names=schema.names), schema))
        written = writer.finish()
        assert written is not None
        deletes = int(np.count_nonzero(folded.deleted))
        return MergeFile(written.name, count - deletes, deletes, partial)


def _spilled(rows: pa.Table, place: Folder, name: str) -> str:
    pa = import_pyarrow()
    name = f"{name}-{uuid.uuid4().hex}.arrow"
    with place.open().open_output_stream(name) as sink, pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)
    return name


def _loaded(name: str, place: Folder) -> pa.Table:
    pa = import_pyarrow()
    with place.open().open_input_file(name) as source:
        return pa.ipc.open_file(source).read_all()


@dataclass(frozen=True)
class Replaced:
    """What became of a file.

    Parameters
    ----------
    name : str
    touched : bool
        It is to be removed.
    new : tuple of DataFile
        What has the rows that stay, and the rows that it completed.
    completed : int
    """

    name: str
    touched: bool
    new: tuple[DataFile, ...] = ()
    completed: int = 0


@dataclass(frozen=True)
class Rewriter:
    """Writes files of a table anew, without the rows of some keys; pickled to the workers.

    Parameters
    ----------
    place, workspace : Folder
    schema : pyarrow.Schema
        Of the table as it is to be.
    keys : tuple of str
    sunk : tuple of Sunk
    values : mapping of name to From or a value
        Columns that change in all rows.
    every : bool
        Files change even if they have none of the keys.
    """

    place: Folder
    workspace: Folder
    schema: pa.Schema
    keys: tuple[str, ...]
    sunk: tuple[Sunk, ...]
    values: Mapping[str, Any] = field(default_factory=dict)
    every: bool = False

    def concerns(self, file: DataFile) -> bool:
        """Whether a file may have any of the keys, as far as its bounds tell."""
        return self.every or any(self._meets(file, one) for one in self.sunk)

    def _meets(self, file: DataFile, sunk: Sunk) -> bool:
        for name in self.keys:
            bounds: list[Any] = [at.get(name) for at in (file.least, file.most, sunk.least, sunk.most)]
            if all(_is_bound(one) for one in bounds):
                with contextlib.suppress(TypeError):  # the key's type has changed
                    if bounds[1] < bounds[2] or bounds[3] < bounds[0]:
                        return False
        return True

    def __call__(self, file: DataFile) -> Replaced:
        """Look for the keys in a file, and write it anew if it has some."""
        import pyarrow.parquet as pq

        pa = import_pyarrow()
        sunk = [one for one in self.sunk if self._meets(file, one)]
        with self.place.open().open_input_file(file.name) as source:
            parquet = pq.ParquetFile(source)
            own = parquet.read(columns=list(self.keys))
            own = own.cast(pa.schema([self.schema.field(name) for name in self.keys]))
            gone = np.zeros(own.num_rows, np.bool_)
            for wanted in _gathered((_loaded(one.keys, self.workspace) for one in sunk), own.schema):
                found = self._places(wanted, own)
                gone[found[found >= 0]] = True
            completing = [
                (rows, found)
                for one in sunk
                if one.partial is not None
                for rows in [_loaded(one.partial[0], self.workspace)]
                for found in [self._places(rows, own, base=True)]
                if (found >= 0).any()
            ]
            if not self.every and not gone.any() and not completing:
                return Replaced(file.name, False)
            if gone.all() and not completing:
                return Replaced(file.name, True)
            return self._rewritten(file, parquet, gone, completing)

    def _places(self, wanted: pa.Table, own: pa.Table, *, base: bool = False) -> NDArray[np.int64]:
        """For each wanted key its row in the file."""
        names = [f"{BASE}{i}" for i in range(len(self.keys))] if base else self.keys
        have = [one_array(own[name]) for name in self.keys]
        keys = [one_array(wanted[name]).cast(h.type) for name, h in zip(names, have, strict=True)]
        return places(keys, have)

    def _rewritten(
        self,
        file: DataFile,
        parquet: Any,
        gone: NDArray[np.bool_],
        completing: list[tuple[pa.Table, NDArray[np.int64]]],
    ) -> Replaced:
        pa = import_pyarrow()
        writer = FileWriter(self.place, self.schema)
        completed, start = 0, 0
        try:
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
        except BaseException:
            writer.abort()
            raise
        return Replaced(file.name, True, () if new is None else (new,), completed)

    def _completed(self, partial: pa.Table, rows: pa.Table) -> pa.Table:
        """Rows with what they lack from those that they come from."""
        import pyarrow.compute as pc

        arrays = []
        for one in self.schema:
            flag = f"{LACKS}_{one.name}"
            if flag in partial.column_names:
                arrays.append(pc.if_else(partial[flag], rows[one.name], partial[one.name]))
            else:
                arrays.append(rows[one.name])
        return import_pyarrow().Table.from_arrays(arrays, schema=self.schema)


@dataclass(frozen=True)
class Checker:
    """Whether a check holds of all values in a file."""

    place: Folder
    check: Check

    def __call__(self, file: DataFile) -> bool:
        """Look at them."""
        import pyarrow.parquet as pq

        with self.place.open().open_input_file(file.name) as source:
            parquet = pq.ParquetFile(source)
            if self.check.column not in parquet.schema_arrow.names:
                return True
            return all(
                fits(self.check, batch.column(0))
                for batch in parquet.iter_batches(columns=[self.check.column])
            )


def _gathered(tables: Iterable[pa.Table], schema: pa.Schema) -> Iterator[pa.Table]:
    """Tables put together, up to so many rows."""
    pa = import_pyarrow()
    waiting: list[Any] = []
    for table in tables:
        waiting.append(table)
        if sum(one.num_rows for one in waiting) >= _PROBED_ROWS:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


def shaped(rows: pa.Table, schema: pa.Schema, values: Mapping[str, Any] | None = None) -> pa.Table:
    """Rows in the columns and types of a schema, each from where `Effects.values` says."""
    pa = import_pyarrow()
    arrays = []
    for one in schema:
        source = (values or {}).get(one.name, From(one.name))
        if not isinstance(source, From):
            arrays.append(pa.repeat(pa.scalar(source, one.type), rows.num_rows))
        elif source.column in rows.column_names:
            column = rows[source.column]
            arrays.append(column if column.type == one.type else column.cast(one.type))
        else:
            arrays.append(pa.nulls(rows.num_rows, one.type))
    return pa.Table.from_arrays(arrays, schema=schema)
