"""Where workers write folded changes: files of the table, or files for Spark's MERGE."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..rows.types import import_pyarrow
from ..tables.table import DataFile
from .files import shaped, write_files
from .folding import Folded
from .jobs import Folder

if TYPE_CHECKING:
    import pyarrow as pa

# Names beside those of a table's columns, which on a server never end with a space.
DELETES, LACKS = "deletes ", "lacks "


def bases_of(keys: Sequence[str]) -> list[str]:
    """The columns with the key that the row had before."""
    return [f"base {i} " for i in range(len(keys))]


def lacks_of(name: str) -> str:
    """The column that says whether a row lacks a column."""
    return f"{name} lacks "


@dataclass(frozen=True, slots=True)
class Sunk:
    """A worker's report about the keys that it folded.

    Parameters
    ----------
    puts, deletes : int
        How many keys are written, and how many deleted.
    data : sequence of DataFile
        The files with the complete rows, one for each partition.
    keys : str
        The name of the file with all keys.
    partial : (str, int) or None
        The name of the file with rows that lack columns, and their number.
    least, most : dict of name to value
        The bounds of the keys, including those that partial rows had before.
    """

    puts: int
    deletes: int
    data: Sequence[DataFile]
    keys: str
    partial: tuple[str, int] | None
    least: Mapping[str, Any]
    most: Mapping[str, Any]


@dataclass(frozen=True)
class FileSink:
    """Writes folded changes for `Rewriter`; pickled to the workers.

    Parameters
    ----------
    folded, schema : pyarrow.Schema
        The schemas of the folded images and of the table.
    keys : tuple of str
        The names of the key's columns.
    place : Folder
        The table's directory.
    workspace : Folder
        The directory for temporary files.
    """

    folded: pa.Schema
    schema: pa.Schema
    keys: tuple[str, ...]
    place: Folder
    workspace: Folder

    def __call__(self, folded: Folded) -> Sunk:
        """Write the results of some keys."""
        import pyarrow.compute as pc

        pa = import_pyarrow()
        rows = pa.Table.from_arrays(folded.columns, schema=self.folded)
        put = ~folded.deleted
        lacking = np.zeros(len(put), np.bool_) if folded.lacks is None else folded.lacks.any(axis=1)
        whole = put & ~lacking
        key_rows = rows.select(self.keys)
        data = write_files(rows if whole.all() else rows.filter(pa.array(whole)), self.place, self.schema)
        names = spilled(key_rows, self.workspace, "keys")
        bounded = [key_rows]
        partial = None
        if lacking.any():
            assert folded.lacks is not None
            flags = pa.array(lacking)
            bases = pa.Table.from_arrays(folded.bases, names=bases_of(self.keys))
            bases = bases.filter(flags)
            lacks = folded.lacks[lacking]
            columns = [pa.array(lacks[:, j]) for j in range(lacks.shape[1])]
            both = shaped(rows.filter(flags), self.schema)
            for column, name in zip(bases.columns, bases.column_names, strict=True):
                both = both.append_column(name, column)
            for name, column in zip(self.folded.names, columns, strict=True):
                both = both.append_column(lacks_of(name), column)
            partial = spilled(both, self.workspace, "partial"), len(lacks)
            bounded.append(bases.rename_columns(list(self.keys)))
        least: dict[str, Any] = {}
        most: dict[str, Any] = {}
        joined = pa.concat_tables(bounded)
        for name in self.keys:
            # Python lacks some dates: OverflowError.
            with contextlib.suppress(pa.ArrowNotImplementedError, OverflowError):
                found = pc.min_max(joined[name])
                least[name], most[name] = found["min"].as_py(), found["max"].as_py()
        deletes = int(np.count_nonzero(folded.deleted))
        return Sunk(len(put) - deletes, deletes, data, names, partial, least, most)


@dataclass(frozen=True, slots=True)
class MergeFile:
    """A worker's report about a file of folded changes.

    Parameters
    ----------
    name : str
        The file's name.
    puts, deletes : int
        How many keys are written, and how many deleted.
    partial : int
        How many rows lack columns.
    """

    name: str
    puts: int
    deletes: int
    partial: int


def merge_schema(schema: pa.Schema, keys: Sequence[str]) -> pa.Schema:
    """The columns of the files of `MergeSink`: the table's, and what to do with the row."""
    pa = import_pyarrow()
    names = pa.list_(pa.field("element", pa.string()))
    bases = [pa.field(base, schema.field(key).type) for base, key in zip(bases_of(keys), keys, strict=True)]
    return pa.schema([*schema, pa.field(DELETES, pa.bool_()), pa.field(LACKS, names), *bases])


@dataclass(frozen=True)
class MergeSink:
    """Writes folded changes for Spark's MERGE; pickled to the workers.

    Parameters
    ----------
    folded, schema : pyarrow.Schema
        The schemas of the folded images and of the table.
    keys : tuple of str
        The names of the key's columns.
    workspace : Folder
        The directory for temporary files.
    """

    folded: pa.Schema
    schema: pa.Schema
    keys: tuple[str, ...]
    workspace: Folder

    def __call__(self, folded: Folded) -> MergeFile:
        """Write the results of some keys."""
        import pyarrow.compute as pc

        pa = import_pyarrow()
        count, partial = len(folded.deleted), 0
        rows = shaped(pa.Table.from_arrays(folded.columns, schema=self.folded), self.schema)
        schema = merge_schema(self.schema, self.keys)
        arrays = [*rows.columns, pa.array(folded.deleted)]
        if folded.lacks is None:
            arrays += [pa.nulls(count, one.type) for one in list(schema)[len(arrays) :]]
        else:
            names, lacking = np.array(self.folded.names, object), folded.lacks.any(axis=1)
            partial = int(np.count_nonzero(lacking))
            arrays.append(
                pa.array([list(names[one]) or None for one in folded.lacks], schema.field(LACKS).type)
            )
            flags = pa.array(lacking)
            for column in folded.bases:
                arrays.append(pc.if_else(flags, column, pa.scalar(None, column.type)))
        (written,) = write_files(pa.Table.from_arrays(arrays, names=schema.names), self.workspace, schema)
        deletes = int(np.count_nonzero(folded.deleted))
        return MergeFile(written.name, count - deletes, deletes, partial)


def spilled(rows: pa.Table, place: Folder, name: str) -> str:
    """Write rows into a temporary file, whose name begins with `name`; its name."""
    pa = import_pyarrow()
    name = f"{name}-{uuid.uuid4().hex}.arrow"
    with place.open().open_output_stream(name) as sink, pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)
    return name
