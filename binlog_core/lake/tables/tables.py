"""An export into tables of a lake, without a JVM: Delta through deltalake, Iceberg through pyiceberg.

Workers write into the tables' directories, where files without a commit are ignored. The driver
commits the files in the results, one commit for each table, and deletes the rest.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import re
import uuid
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ..._sources.deltas import delta_options, import_deltalake
from ..._tables.full_names import full_name
from ...errors import BinlogError, CommitInDoubtError
from ..exports.manifests import RUNS
from ..rows.types import import_pyarrow
from .delta import DeltaLakeTable
from .destination import (
    ABANDONED,
    STAGED_ROWS,
    Destination,
    Manifest,
    by_table,
    describe_definitions,
    directory_name,
    result_of,
)
from .iceberg import IcebergLakeTable, kept_type, load_iceberg_catalog, promoted
from .results import TableResult
from .table import App, DataFile, GrowingTable

if TYPE_CHECKING:
    import pyarrow as pa

    from .results import FileStatistics, TableFiles, WrittenSplit

_MOST_DEFINITIONS = 1000
_DELETING_THREADS = 32
_STAGED = re.compile(rf"[0-9a-f]{{12}}-.+\{STAGED_ROWS}", re.DOTALL)  # a run's prefix is before it


class LakeTables(Destination):
    """What Delta and Iceberg have in common.

    Parameters
    ----------
    output : str
        The path or URL of the directory that holds the tables' data.
    run_id : str
        The name of the run.
    storage_options : dict or None
        Options for the store of the output.
    """

    nested = True

    def __init__(self, output: str, run_id: str, *, storage_options: dict[str, Any] | None = None) -> None:
        super().__init__(output, run_id, storage_options=storage_options)
        self.staging = output
        # Task attempts count from 0 in each session: a repeated run must not overwrite its own files.
        self.prefix = f"{uuid.uuid4().hex[:12]}-"
        self._marker = f"{self.path}/{RUNS}/{quote(run_id, safe='')}.json"
        self._kept: set[str] = set()

    @property
    def notes(self) -> str:
        """The directory where workers leave notes of errors."""
        return self.path

    def committed(self) -> list[TableResult] | None:
        """What this run has committed before; None if it did not commit everything."""
        marker = self.read_json(self._marker)
        if marker is None:
            return None
        return [
            TableResult(**{**table, "key": tuple(table["key"]) if table["key"] else None})
            for table in marker["tables"]
        ]

    def begin(self) -> None:
        """Make the directory, and delete rows that killed runs have staged there."""
        from pyarrow.fs import FileSelector, FileType

        try:
            self.filesystem.create_dir(f"{self.path}/{RUNS}", recursive=True)
            since = dt.datetime.now(dt.UTC) - ABANDONED
            for info in self.filesystem.get_file_info(FileSelector(self.path)):
                staged = _STAGED.fullmatch(info.base_name) and info.type is FileType.File
                if staged and info.mtime is not None and info.mtime < since:
                    with contextlib.suppress(FileNotFoundError):  # another run removes the same
                        self.filesystem.delete_file(info.path)
        except OSError as error:
            raise BinlogError(f"the output cannot be written: {error}", path=self.output) from error

    def commit(
        self, splits: list[WrittenSplit], tables: Iterable[TableFiles] | None = None
    ) -> list[TableResult]:
        """Append the files in the results to their tables; see `Destination`.

        Raises
        ------
        BinlogError
            A table cannot be written; all others are.
        """
        results: list[TableResult] = []
        failures: list[BinlogError] = []
        manifest = Manifest()
        for database, table, files in by_table(splits) if tables is None else tables:
            try:
                for one in self._commit_table(database, table, files):
                    results.append(one)
                    manifest.add({name: getattr(one, name) for name in TableResult.__slots__}, ())
                manifest.definitions += map(json.dumps, describe_definitions(files))
            except Exception as error:  # of deltalake, pyiceberg and the stores below them
                failure = error
                if not isinstance(failure, BinlogError):
                    failure = BinlogError(f"the table cannot be written: {type(error).__name__}: {error}")
                    failure.__cause__ = error
                failures.append(failure.located(path=self.output, table=full_name(database, table)))
        if failures:
            others = ", ".join(str(failure.table) for failure in failures[1:])
            if others:
                failures[0].add_note(f"These tables could not be written either: {others}.")
            raise failures[0]
        try:
            self.write_manifest(self._marker, splits, manifest)
        except OSError as error:
            raise BinlogError(f"the output cannot be written: {error}", path=self.output) from error
        return results

    def _commit_table(self, database: str, table: str, files: list[FileStatistics]) -> Iterator[TableResult]:
        for place, group in self._by_definition(database, table, files):
            self._commit_group(database, table, place, group)
            yield result_of(database, table, self._result_name(database, table, place), group)

    def _commit_group(self, database: str, table: str, place: int, files: list[FileStatistics]) -> None:
        before = set(self._kept)
        self._kept.update(file.name for file in files)  # from here on a commit may name them
        try:
            appended = self._append(database, table, place, files)
        except CommitInDoubtError:
            raise
        except BaseException:
            # A commit that failed, or was interrupted, may have been made.
            if self._table(database, table, place).applied(self._app.id) is None:
                self._kept = before
            raise
        if not appended:
            self._kept = before

    @property
    def _app(self) -> App:
        return App(f"binlog_core:{self.run_id}", 1)

    def abort(self) -> None:
        """Delete files that this run wrote and that are in no commit."""
        from pyarrow.fs import FileSelector

        with contextlib.suppress(OSError):
            found = self.filesystem.get_file_info(FileSelector(self.path, recursive=True))
            left = [
                info.path
                for info in found
                if info.base_name.startswith(self.prefix)
                and info.path.removeprefix(f"{self.path}/") not in self._kept
            ]
            with ThreadPoolExecutor(_DELETING_THREADS) as threads:
                list(threads.map(self.filesystem.delete_file, left))

    def _by_definition(
        self, database: str, table: str, files: list[FileStatistics]
    ) -> Iterator[tuple[int, list[FileStatistics]]]:
        """The files by the table they go to: the first whose columns have the same types and spelling."""
        groups: dict[int, list[FileStatistics]] = {}
        schemas: dict[int, dict[str, pa.Field]] = {}
        places: list[tuple[pa.Schema, int]] = []
        for file in files:
            fields = {one.name.lower(): one.with_type(self._kept_as(one.type)) for one in file.schema}
            place = next((known for schema, known in places if schema == file.schema), 0)
            while not place or place not in schemas:
                for number in range(1, _MOST_DEFINITIONS):
                    if number not in schemas:
                        here = self._table(database, table, number).columns
                        schemas[number] = {field.name.lower(): field for field in here}
                    have = schemas[number]
                    if all(self._both(have.get(name, one), one) is not None for name, one in fields.items()):
                        place = number
                        break
                else:
                    raise BinlogError("too many definitions of a table", table=full_name(database, table))
                places.append((file.schema, place))
            have = schemas[place]
            have.update({name: self._both(have.get(name, one), one) for name, one in fields.items()})
            groups.setdefault(place, []).append(file)
        yield from sorted(groups.items())

    def _both(self, have: pa.Field, one: pa.Field) -> pa.Field | None:
        """A column that can hold both; None: there is none, or readers would not find one of the two."""
        kind = self._widest(have.type, one.type) if have.name == one.name else None
        return None if kind is None else have.with_type(kind)

    def _kept_as(self, kind: pa.DataType) -> pa.DataType:
        """The type that the table's format has for an Arrow type."""
        return kind

    def _widest(self, have: pa.DataType, kind: pa.DataType) -> pa.DataType | None:
        """A type that holds both, and that the column can get without a rewrite; None if there is none."""
        return have if have == kind else None

    def _append(self, database: str, table: str, place: int, files: list[FileStatistics]) -> bool:
        """Commit files; False if this run has done so before."""
        into, app = self._table(database, table, place), self._app
        if into.applied(app.id) is not None:
            return False
        added = [
            DataFile(
                self._placed(file, place),
                sum(file.rows.values()),
                file.bytes,
                {"_commit_version": file.first_version},
                {"_commit_version": file.last_version},
                {"_commit_version": 0},
            )
            for file in files
        ]
        into.append(added, self._columns(into, files), app)
        return True

    def _columns(self, table: GrowingTable, files: list[FileStatistics]) -> pa.Schema:
        """The columns of the files, with types as wide as the table's."""
        pa = import_pyarrow()
        names: dict[str, str] = {}
        types = {one.name.lower(): one.type for one in table.columns}
        for one in (field for file in files for field in file.schema):
            small, kind = one.name.lower(), self._kept_as(one.type)
            names.setdefault(small, one.name)
            types[small] = self._widest(types.get(small, kind), kind)
        return pa.schema([(name, types[small]) for small, name in names.items()])

    @abstractmethod
    def _table(self, database: str, table: str, place: int) -> GrowingTable:
        """The table for some of the definitions."""

    @abstractmethod
    def _placed(self, file: FileStatistics, place: int) -> str:
        """Move a file to its table if necessary; its name there."""

    @abstractmethod
    def _result_name(self, database: str, table: str, place: int) -> str:
        """The table's name in a result."""


class DeltaTables(LakeTables):
    """Delta tables ``OUTPUT/database.table``, ``….v2`` after a column changed its type or spelling."""

    def __init__(self, output: str, run_id: str, *, storage_options: dict[str, Any] | None = None) -> None:
        import_deltalake()
        if "%" in output:
            raise BinlogError("deltalake cannot write to a path with a % in it: choose another", path=output)
        super().__init__(output, run_id, storage_options=storage_options)
        self._options = delta_options(storage_options)

    def _result_name(self, database: str, table: str, place: int) -> str:
        name = directory_name(database, table) + (f".v{place}" if place > 1 else "")
        return f"{self.output.rstrip('/')}/{name}"

    def _table(self, database: str, table: str, place: int) -> GrowingTable:
        return DeltaLakeTable(self._result_name(database, table, place), self._options)

    def _placed(self, file: FileStatistics, place: int) -> str:
        folder, _, name = file.name.rpartition("/")
        if place > 1:
            moved = f"{folder}.v{place}/{name}"
            self.filesystem.create_dir(f"{self.path}/{folder}.v{place}", recursive=True)
            self.filesystem.move(f"{self.path}/{file.name}", f"{self.path}/{moved}")
            self._kept.add(moved)
        return name


class IcebergTables(LakeTables):
    """Tables ``database.table`` of a catalog, ``table__v2`` after a column changed its type or spelling.

    Parameters
    ----------
    output, run_id, storage_options
        See `LakeTables`.
    catalog : mapping, str or None
        Properties of the catalog and, if it is not "default", its name; or its name in pyiceberg's
        configuration.
    """

    def __init__(
        self,
        output: str,
        run_id: str,
        catalog: Mapping[str, str] | str | None,
        *,
        storage_options: dict[str, Any] | None = None,
    ) -> None:
        self._catalog = load_iceberg_catalog(catalog, storage_options)
        super().__init__(output, run_id, storage_options=storage_options)

    def _result_name(self, database: str, table: str, place: int) -> str:
        return full_name(*_identifier(database, table, place))

    def _table(self, database: str, table: str, place: int) -> GrowingTable:
        source = full_name(database, table) + (f" ({place})" if place > 1 else "")
        return IcebergLakeTable(self._catalog, _identifier(database, table, place), source=source)

    def _kept_as(self, kind: pa.DataType) -> pa.DataType:
        return kept_type(kind)

    def _widest(self, have: pa.DataType, kind: pa.DataType) -> pa.DataType | None:
        return have if have == kind or promoted(kind, have) else kind if promoted(have, kind) else None

    def _placed(self, file: FileStatistics, place: int) -> str:
        base = self.output.rstrip("/") if "://" in self.output else self.path
        return f"{base}/{file.name}"


def _identifier(database: str, table: str, place: int) -> tuple[str, str]:
    return database, table + (f"__v{place}" if place > 1 else "")
