"""Parquet files of a table: written in the columns of a schema, with bounds of the columns."""

from __future__ import annotations

import contextlib
import datetime as dt
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from ..rows.fit import widened
from ..rows.types import import_pyarrow
from ..tables.parquet_writer import parquet_writer
from ..tables.partitions import PartitionField, parts_of
from ..tables.table import DataFile
from ..tables.vectors import deleted_rows
from .alterations import From
from .jobs import Folder

if TYPE_CHECKING:
    import pyarrow as pa

_MAX_STATISTIC = 64  # characters
_MOST_OPEN = 100  # files, of as many partitions


class FileWriter:
    """Writes rows of a table into Parquet files, one for each partition, removed if an error ends its block.

    Parameters
    ----------
    place : Folder
        The directory.
    schema : pyarrow.Schema
        The files' schema.
    """

    def __init__(self, place: Folder, schema: pa.Schema) -> None:
        self._place, self._schema, self._filesystem = place, schema, place.open()
        self._open: dict[tuple[Any, ...], _OneFile] = {}  # by partition, the least recently written first
        self._done: list[DataFile] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is None:
            return
        for one in self._open.values():
            one.abort()
        for file in self._done:
            with contextlib.suppress(OSError, NotImplementedError):
                self._filesystem.delete_file(file.name)

    def write(self, rows: pa.Table) -> None:
        """Write some rows."""
        if not rows.num_rows:
            return
        for values, part in parts_of(rows, self._place.partition):
            one = self._open.pop(values, None)
            if one is None:
                if len(self._open) >= _MOST_OPEN:
                    self._close(next(iter(self._open)))
                one = _OneFile(self._filesystem, self._place, self._schema)
            self._open[values] = one
            one.write(part)

    def _close(self, partition: tuple[Any, ...]) -> None:
        self._done.append(replace(self._open[partition].finish(), partition=partition))
        del self._open[partition]

    def finish(self) -> list[DataFile]:
        """Close the files; none if there were no rows."""
        for partition in [*self._open]:
            self._close(partition)
        return self._done


class _OneFile:
    """A file that is being written, begun with its first rows."""

    def __init__(self, filesystem: Any, place: Folder, schema: pa.Schema) -> None:
        self._filesystem, self._schema, self._delta = filesystem, schema, place.delta
        self._name = f"{place.file_prefix}{uuid.uuid4().hex}.parquet"
        self._metadata: list[Any] = []
        self._sink: Any = None
        self._writer: Any = None

    def write(self, rows: pa.Table) -> None:
        if self._writer is None:
            self._sink = self._filesystem.open_output_stream(self._name)
            self._writer = parquet_writer(
                self._sink, self._schema, rows, delta=self._delta, metadata_collector=self._metadata
            )
        self._writer.write_table(rows)

    def finish(self) -> DataFile:
        self._writer.close()
        size = self._sink.tell()
        self._sink.close()
        metadata = self._metadata[0]
        return DataFile(self._name, metadata.num_rows, size, *statistics_of(metadata))

    def abort(self) -> None:
        if self._sink is None:
            return
        with contextlib.suppress(Exception):  # removal may fail too, with its own error
            self._writer.close()
        with contextlib.suppress(OSError):
            self._sink.close()
        with contextlib.suppress(OSError, NotImplementedError):
            self._filesystem.delete_file(self._name)


def write_files(rows: pa.Table, place: Folder, schema: pa.Schema) -> list[DataFile]:
    """Write Parquet files of some rows, one for each partition; none if there are none."""
    with FileWriter(place, schema) as writer:
        writer.write(shaped(rows, schema))
        return writer.finish()


def statistics_of(metadata: Any) -> tuple[dict[str, Any], dict[str, Any], dict[str, int]]:
    """The bounds of a Parquet file's columns and their numbers of nulls, as in `DataFile`."""
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    broken: set[str] = set()
    for group in range(metadata.num_row_groups):
        for i in range(metadata.num_columns):
            column = metadata.row_group(group).column(i)
            name, statistics = column.path_in_schema, column.statistics
            if statistics is None or "." in name:  # nested columns have none
                broken.add(name)
                continue
            if statistics.has_null_count:
                nulls[name] = nulls.get(name, 0) + statistics.null_count
            if statistics.has_min_max:
                try:
                    least[name] = min(least.get(name, statistics.min), statistics.min)
                    most[name] = max(most.get(name, statistics.max), statistics.max)
                except OverflowError:  # Python has no year 0 and none beyond 9999
                    broken.add(name)
            elif statistics.null_count != column.num_values:
                broken.add(name)
    for bounds in (least, most):
        for name in broken.union(n for n, value in bounds.items() if not is_bound(value)):
            least.pop(name, None)
            most.pop(name, None)
    return least, most, nulls


def is_bound(value: Any) -> bool:
    """Whether a value may be kept as a bound of a column."""
    if isinstance(value, str):
        return len(value) <= _MAX_STATISTIC
    return isinstance(value, int) or type(value) is dt.date  # decimals may have been rounded


def tables_of(
    place: Folder, files: Iterable[DataFile], columns: Sequence[str] | None = None
) -> Iterator[pa.Table]:
    """The rows of some Parquet files that are not deleted, a part at a time; `columns`: None is all.

    Raises
    ------
    BinlogError
        A deletion vector cannot be used.
    """
    import pyarrow.parquet as pq

    pa, filesystem = import_pyarrow(), place.open()
    for file in files:
        with filesystem.open_input_file(file.name) as source:
            parquet = pq.ParquetFile(source)
            live, start = live_rows(place, file, parquet.metadata.num_rows), 0
            for batch in parquet.iter_batches(columns=columns):
                rows = pa.table(batch)
                end = start + rows.num_rows
                yield rows if live is None else rows.filter(pa.array(live[start:end]))
                start = end


def live_rows(place: Folder, file: DataFile, rows: int) -> NDArray[np.bool_] | None:
    """Which rows of a file are not deleted; None: all. `rows`: how many it has.

    Raises
    ------
    BinlogError
        Its deletion vector cannot be used.
    """
    if file.deleted is None:
        return None
    live = np.ones(rows, np.bool_)
    live[deleted_rows(file.deleted, rows, place.open(), place.root)] = False
    return live


def spelled_like(names: Iterable[str], known: Sequence[str]) -> list[str]:
    """Names of columns, spelled like known ones: a server does not distinguish them by case."""
    spelt = {name.lower(): name for name in known}
    return [name if name in known else spelt.get(name.lower(), name) for name in names]


def shaped(rows: pa.Table, schema: pa.Schema, values: Mapping[str, Any] | None = None) -> pa.Table:
    """Rows in the columns and types of a schema; `values`: those that change, as in `Effects`.

    Or fields of a partition, for the columns that are made of others.

    Raises
    ------
    ValueError
        A value would be changed by its column's type.
    """
    pa = import_pyarrow()
    arrays = []
    for one in schema:
        source = (values or {}).get(one.name, From(one.name))
        if isinstance(source, PartitionField) and source.column in rows.column_names:
            arrays.append(source.values(_cast(rows[source.column], schema.field(source.column))))
        elif not isinstance(source, From | PartitionField):
            arrays.append(pa.repeat(pa.scalar(source, one.type), rows.num_rows))
        elif source.column in rows.column_names:
            arrays.append(_cast(rows[source.column], one))
        else:
            arrays.append(pa.nulls(rows.num_rows, one.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def _cast(column: Any, wanted: pa.Field) -> Any:
    pa = import_pyarrow()
    if column.type == wanted.type:
        return column
    refused = f"{wanted.name}: the table has {wanted.type}, which would change a value of {column.type}"
    try:
        found = column.cast(wanted.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ValueError(refused) from None
    # Arrow rounds to decimals, cuts times off dates, and takes every number but 0 as true.
    kept = pa.types.is_floating(wanted.type) or widened(column.type, wanted.type)
    if not kept and not found.cast(column.type).equals(column):
        raise ValueError(refused)
    return found
