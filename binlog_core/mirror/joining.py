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
    """Writes the rows of some files into one; pickled to the workers.

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
        Reads files: takes a directory and names, and gives tables.
    """

    source: Folder
    into: Folder
    schema: pa.Schema
    values: Mapping[str, Any] = field(default_factory=dict)
    since: int | None = None
    read: Callable[[Folder, Iterable[str]], Iterator[pa.Table]] = tables_of

    def __call__(self, names: Sequence[str]) -> DataFile | None:
        """Write the rows of some files; None if there are none."""
        pa = import_pyarrow()
        waiting: list[Any] = []
        size = 0
        with FileWriter(self.into, self.schema) as writer:
            for rows in self.read(self.source, names):
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
    groups: list[list[str]] = [[]]
    size = total = 0
    for one in files:
        if groups[-1] and size + one.bytes > FILE_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(one.name)
        size += one.bytes
        total += one.bytes
    run = HERE if total <= ON_DRIVER else runner
    return [one for one in run.map(joiner, [names for names in groups if names]) if one is not None]


def compact(runner: Runner, table: FileTable, folder: Folder) -> int:
    """Merge a table's small files if it has many; how many were merged.

    One commit exchanges them and records that no row has changed. Until then the table stays the same.
    """
    small = [file for file in table.files() if file.bytes < _SMALL_BYTES]
    if len(small) < _MOST_SMALL or table.special:
        return 0
    with attempt(table, folder) as place:
        new = join(runner, Joiner(folder, place, table.columns), small)
        table.exchange(new, small, table.columns, None, changes=False)
    return len(small)
