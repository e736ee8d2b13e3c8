"""Parquet files merged: fewer and larger ones, in the columns and types of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from ..lake.apply.attempts import attempt
from ..lake.apply.files import FileWriter, shaped, spelled_like, tables_of
from ..lake.apply.jobs import Folder
from ..lake.rows.types import import_pyarrow
from ..lake.runner import HERE, Runner
from ..lake.tables.table import DataFile, FileTable

if TYPE_CHECKING:
    import pyarrow as pa

ON_DRIVER = 16 << 20  # bytes of Parquet that are not worth a job
FILE_BYTES = 128 << 20
_SMALL_BYTES = FILE_BYTES // 4
_MOST_SMALL = 8  # files of a table, before they are merged
_HOLES = 3  # one row in so many is deleted: the file is written anew
_BUDGET = 4 * FILE_BYTES  # that one compaction of a table reads
_GROUP_BYTES = 64 << 20  # of Arrow, in a row group
_VERSION = "_commit_version"


class Sized(Protocol):
    """A file."""

    @property
    def name(self) -> str:
        """Its path in its directory."""
        ...

    @property
    def bytes(self) -> int:
        """Its size."""
        ...


@dataclass(frozen=True)
class Joiner:
    """Writes the rows of some files into one, or one for each partition; pickled to the workers.

    Parameters
    ----------
    source, into : Folder
        The directories of the files and of the new one.
    schema : pyarrow.Schema
        The new file's schema.
    values : mapping of name to value
        Values for columns that the files do not have.
    since : int or None
        Changes of lower versions are left out.
    read : callable
        Reads files: takes a directory and files, and gives tables.
    """

    source: Folder
    into: Folder
    schema: pa.Schema
    values: Mapping[str, Any] = field(default_factory=dict)
    since: int | None = None
    read: Callable[[Folder, Iterable[Any]], Iterator[pa.Table]] = tables_of

    def __call__(self, files: Sequence[Sized]) -> list[DataFile]:
        """Write the rows of some files, into one for each partition."""
        pa = import_pyarrow()
        waiting: list[Any] = []
        size = 0
        with FileWriter(self.into, self.schema) as writer:
            for rows in self.read(self.source, files):
                waiting.append(shaped(self._wanted(rows), self.schema, self.values))
                size += waiting[-1].nbytes
                if size >= _GROUP_BYTES:
                    writer.write(pa.concat_tables(waiting))
                    waiting, size = [], 0
            if waiting:
                writer.write(pa.concat_tables(waiting))
            return writer.finish()

    def _wanted(self, rows: pa.Table) -> pa.Table:
        import pyarrow.compute as pc

        rows = rows.rename_columns(spelled_like(rows.column_names, self.schema.names))
        return rows if self.since is None else rows.filter(pc.field(_VERSION) >= self.since)


def join(runner: Runner, joiner: Joiner, files: Iterable[Sized]) -> list[DataFile]:
    """Merge files into larger ones, on the workers, or here if the files are small."""
    groups: list[list[Sized]] = [[]]
    size = total = 0
    for one in files:
        if groups[-1] and size + one.bytes > FILE_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(one)
        size += one.bytes
        total += one.bytes
    run = HERE if total <= ON_DRIVER else runner
    return [one for found in run.map(joiner, [group for group in groups if group]) for one in found]


def compact(runner: Runner, table: FileTable, folder: Folder) -> int:
    """Write files anew that have many deleted rows, and small ones if there are many; how many they were.

    One commit exchanges them and records that no row has changed. Until then the table stays the same. At
    most `_BUDGET` bytes are read at a time, so that rounds do not wait long: the next call does more.
    """
    files = table.files()
    small: dict[tuple[Any, ...], list[DataFile]] = {}  # by partition
    for file in files:
        if file.bytes < _SMALL_BYTES:
            small.setdefault(file.partition, []).append(file)
    chosen = {one.name: one for found in small.values() if len(found) >= _MOST_SMALL for one in found}
    chosen |= {one.name: one for one in files if _is_holey(one)}
    if not chosen or table.special:
        return 0
    old: list[DataFile] = []
    size = 0
    for one in sorted(chosen.values(), key=lambda one: one.bytes):
        size += one.bytes
        if old and size > _BUDGET:
            break
        old.append(one)
    with attempt(table, folder) as place:
        old.sort(key=lambda one: repr(one.partition))  # those that become one file are read together
        new = join(runner, Joiner(folder, place, table.columns), old)
        table.exchange(new, old, table.columns, None, changes=False)
    return len(old)


def _is_holey(file: DataFile) -> bool:
    """Whether so many of a file's rows are deleted that it is worth writing anew."""
    return file.deleted is not None and file.deleted.cardinality * _HOLES >= file.rows
