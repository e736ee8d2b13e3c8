"""An export into a directory, which appears completely, with a manifest, or not at all.

Workers write into a staging directory beside the output. When all are done, the driver moves the files in
their results into the table directories, writes the manifest and renames the complete output into place.
Files of failed attempts are in no result and are deleted with the staging directory. An object store cannot
rename directories, so each file is moved, and the manifest, written last, shows that the output is complete.

A local output is locked. A store has no locks: of two exports that replace one output at the same time, the
one that ends last looks at what is there, and is an error unless that is its own.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import fcntl
import os
import uuid
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from ..._base.new_files import exchanged, sync_directory
from ..._base.own_files import held, locks
from ..._sources.object_stores import telling
from ..._sources.places import is_url
from ..._tables.full_names import full_name
from ...errors import BinlogError
from ..exports.manifests import MANIFEST
from ..rows.types import type_name
from .destination import (
    ABANDONED,
    STAGED,
    STAGING,
    Destination,
    Manifest,
    by_table,
    describe_definitions,
    directory_name,
    open_filesystem,
    renames,
    result_of,
)
from .results import TableResult

if TYPE_CHECKING:
    import pyarrow as pa

    from .results import FileStatistics, TableFiles, WrittenSplit

_MANIFEST_FORMAT = 2
_MOVING_THREADS = 32
_REPLACED = "replaced"

_OF_TABLES = {"rows", "partial_rows", "key", "versions", "files"}


def check_manifest(manifest: Any, path: str) -> None:
    """Refuse a manifest whose directories are not those of its tables: it could lead anywhere.

    Raises
    ------
    BinlogError
        The manifest was not written by an export.
    """
    try:
        for table in manifest["tables"]:
            wanted = directory_name(table["database"], table["table"])
            if table["directory"] != wanted:
                raise BinlogError(
                    f"the manifest has a table in the directory {table['directory']!r}: expected {wanted!r}",
                    path=f"{path}/{MANIFEST}",
                    table=full_name(table["database"], table["table"]),
                )
            if missing := _OF_TABLES - table.keys():
                raise KeyError(*missing)
        manifest["statements"]
    except (KeyError, TypeError, AttributeError) as error:
        raise BinlogError(
            "the manifest is not one that an export wrote", path=f"{path}/{MANIFEST}"
        ) from error


class ParquetDirectory(Destination):
    """Parquet files and a manifest.

    Parameters
    ----------
    output : str
        The path or URL of a directory.
    run_id : str
        The name of the run.
    overwrite : bool
        Whether to replace an earlier export.
    storage_options : dict or None
        Options for the store of the output.

    Raises
    ------
    BinlogError
        The output exists and is not to be overwritten, or is not an export.
    """

    def __init__(
        self,
        output: str,
        run_id: str,
        *,
        overwrite: bool = False,
        storage_options: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(output, run_id, storage_options=storage_options)
        self._manifest: dict[str, Any] | None = None
        self._overwrite = overwrite
        self._lock: int | None = None
        parent, _, name = self.path.rpartition("/")
        self._staging = f"{parent}/.{name}.{uuid.uuid4().hex}{STAGING}"
        if self.filesystem.type_name == "local":  # the staging directory may not be a link
            self.filesystem, _ = open_filesystem(self._staging)
        self._replaces = self._check(overwrite)
        scheme = output.rstrip("/").removesuffix(self.path) if is_url(output) else ""
        self.staging = f"{scheme}{self._staging}/written"  # as workers open it
        self._renames = renames(self.filesystem)
        if not self._renames:  # another run's files of the same names would take the place of these
            self.prefix = f"{uuid.uuid4().hex[:12]}-"

    @property
    def notes(self) -> str:
        """The directory where workers leave notes of errors."""
        return f"{self._staging}/written"

    def _check(self, overwrite: bool) -> bool:
        """Check the output; True if there is something to replace."""
        from pyarrow.fs import FileSelector, FileType

        with telling(self.output):
            self._bring_back()
            info = self.filesystem.get_file_info(self.path)
            if info.type == FileType.NotFound:
                return False
            if info.type != FileType.Directory:
                raise BinlogError("the output is a file, not a directory", path=self.output)
            names = [found.base_name for found in self.filesystem.get_file_info(FileSelector(self.path))]
        if not names:
            return True
        if MANIFEST not in names:
            raise BinlogError(
                f"the output has files but no {MANIFEST}: expected an earlier export, others are not"
                " overwritten",
                path=self.output,
            )
        manifest = self.read_json(f"{self.path}/{MANIFEST}")
        check_manifest(manifest, self.output)
        if manifest.get("run_id") == self.run_id:
            self._manifest = manifest
        elif not overwrite:
            raise BinlogError("the output exists: choose another, or overwrite", path=self.output)
        elif foreign := self._there() - _named_by(manifest):
            raise BinlogError(
                f"the output has {min(foreign)}, which the earlier export did not write: move it away, since"
                " the output is replaced as a whole",
                path=self.output,
            )
        return True

    def _there(self) -> set[str]:
        """The files in the output, by their paths in it."""
        from pyarrow.fs import FileSelector, FileType

        found = self.filesystem.get_file_info(FileSelector(self.path, recursive=True))
        return {
            info.path.removeprefix(f"{self.path}/") for info in found if info.type is not FileType.Directory
        }

    def committed(self) -> list[TableResult] | None:
        """What this run has committed before; None if it committed nothing."""
        if self._manifest is None:
            return None
        with contextlib.suppress(OSError, BinlogError):  # the run may have been killed while it cleaned up
            self._delete_remains()
        return [
            TableResult(
                table["database"],
                table["table"],
                f"{self.output.rstrip('/')}/{table['directory']}",
                table["rows"],
                table["partial_rows"],
                len(table["files"]),
                sum(file["bytes"] for file in table["files"]),
                len(table["versions"]),
                0.0,
                tuple(table["key"]) if table["key"] else None,
            )
            for table in self._manifest["tables"]
        ]

    def begin(self) -> None:
        """Make the staging directory, and delete those that killed runs have left.

        Raises
        ------
        BinlogError
            The directory cannot be made, or another export writes to the output.
        """
        try:
            self.filesystem.create_dir(f"{self._staging}/written", recursive=True)
            self.filesystem.create_dir(f"{self._staging}/complete", recursive=True)
            with self._alone():
                # A run first takes a lock and then looks for others: of two at a time, one continues.
                self._lock = self._locked(self._staging)
                self._replaces = self._check(self._overwrite)
                self._delete_remains()
        except OSError as error:
            raise BinlogError(f"the output cannot be written: {error}", path=self.output) from error

    def keep_private(self) -> None:
        """For this user alone: the directory keeps these permissions when it is renamed into place."""
        if self.filesystem.type_name == "local":
            for directory in (self._staging, f"{self._staging}/complete"):
                with held(directory, self.filesystem.root) as descriptor:
                    os.fchmod(descriptor, 0o700)

    def commit(
        self, splits: list[WrittenSplit], tables: Iterable[TableFiles] | None = None
    ) -> list[TableResult]:
        """See `Destination`."""
        target = f"{self._staging}/complete" if self._renames else self.path
        written = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        manifest = Manifest({"format": _MANIFEST_FORMAT, "written": written})
        results = []
        moves: list[tuple[str, str]] = []
        try:
            for database, table, files in by_table(splits) if tables is None else tables:
                directory = directory_name(database, table)
                names = _versioned(files)
                if self._renames:
                    self.filesystem.create_dir(f"{target}/{directory}", recursive=True)
                moves += [
                    (f"{self._staging}/written/{file.name}", f"{target}/{directory}/{name}")
                    for file, (_, name) in zip(files, names, strict=True)
                ]
                result = result_of(database, table, f"{self.output.rstrip('/')}/{directory}", files)
                results.append(result)
                entry = _describe_table(result, directory, files, names)
                manifest.add(entry, describe_definitions(files))
            if not self._renames:
                self._check_staged({old for old, _ in moves})
                if self._replaces:
                    self.filesystem.delete_dir_contents(self.path)
            with ThreadPoolExecutor(1 if self._renames else _MOVING_THREADS) as threads:
                list(threads.map(lambda move: self.filesystem.move(*move), moves))
            self.write_manifest(f"{target}/{MANIFEST}", splits, manifest)
            if self._renames:
                self._put_in_place(target)
            else:
                self._check_written({MANIFEST, *(new.removeprefix(f"{target}/") for _, new in moves)})
            if self.filesystem.type_name == "local":
                sync_directory(os.path.dirname(self.path))
        except OSError as error:
            raise BinlogError(f"the output cannot be written: {error}", path=self.output) from error
        self.abort()
        return results

    def _check_staged(self, files: set[str]) -> None:
        """Check that all written files are still there, before anything of the output is removed."""
        from pyarrow.fs import FileSelector

        staged = FileSelector(f"{self._staging}/written", allow_not_found=True)
        if gone := files.difference(info.path for info in self.filesystem.get_file_info(staged)):
            raise BinlogError(
                f"{len(gone)} files that the export wrote were removed, such as {min(gone)}", path=self.output
            )

    def _check_written(self, files: set[str]) -> None:
        """Check that the output in a store is this run's: another may have replaced it at the same time."""
        there = self.read_json(f"{self.path}/{MANIFEST}")
        if there is None or there.get("run_id") != self.run_id or self._there() != files:
            raise BinlogError(
                "another export wrote to this output at the same time, so its files may be mixed: remove it,"
                " and export again",
                path=self.output,
            )

    def _put_in_place(self, target: str) -> None:
        """Rename the complete output; if that fails, the earlier output is restored."""
        if not self._replaces:
            self.filesystem.move(target, self.path)
            return
        if self.filesystem.type_name == "local" and exchanged(target, self.path):
            return  # the output never disappeared
        replaced = f"{self._staging}/{_REPLACED}"
        try:
            self.filesystem.move(self.path, replaced)
            self.filesystem.move(target, self.path)
        except BaseException:
            if not self._is_there(self.path):
                self.filesystem.move(replaced, self.path)
            raise

    def _is_there(self, path: str) -> bool:
        from pyarrow.fs import FileType

        return bool(self.filesystem.get_file_info(path).type is FileType.Directory)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold off others on this machine: two that begin would refuse each other."""
        with contextlib.ExitStack() as alone:
            if self.filesystem.type_name == "local":
                folder = os.open(os.path.dirname(self._staging), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                alone.callback(os.close, folder)
                with contextlib.suppress(OSError):  # some file systems have no locks
                    fcntl.flock(folder, fcntl.LOCK_EX)
            yield

    def _remains(self) -> Iterator[str]:
        """Staging directories of other runs, which were killed; each is locked meanwhile.

        Raises
        ------
        BinlogError
            A process still holds the lock of one.
        """
        from pyarrow.fs import FileSelector

        parent, _, name = self.path.rpartition("/")
        try:
            found = self.filesystem.get_file_info(FileSelector(parent, allow_not_found=True))
        except OSError:  # a store may list only the output
            return
        for info in found:
            staged = STAGED.fullmatch(f"/{info.base_name}")
            own = staged is not None and staged["name"] == name
            if own and info.path != self._staging and (lock := self._locked(info.path)) is not None:
                try:
                    yield info.path
                finally:
                    if lock >= 0:
                        os.close(lock)

    def _locked(self, path: str) -> int | None:
        """Lock a local directory for this run until it ends.

        Returns
        -------
        int or None
            The descriptor that holds the lock; -1 if there are no locks; None if the directory is gone, is a
            link, or is in a store and may be in use.

        Raises
        ------
        BinlogError
            Another run holds the lock.
        """
        if self.filesystem.type_name != "local":
            return -1 if path == self._staging or self._is_abandoned(path) else None
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):  # its run has ended; or a link of others
            return None
        if (alone := locks(descriptor)) is True:
            return descriptor
        os.close(descriptor)
        if alone is None:
            return -1
        raise BinlogError(
            "another export writes to this output: wait for its end, or choose another output",
            path=self.output,
        )

    def _is_abandoned(self, path: str) -> bool:
        """Whether a staging directory in a store was last written to so long ago that its run was killed."""
        from pyarrow.fs import FileSelector, FileType

        found = self.filesystem.get_file_info(FileSelector(path, recursive=True, allow_not_found=True))
        times = [info.mtime for info in found if info.type is FileType.File]
        since = dt.datetime.now(dt.UTC) - ABANDONED
        return bool(times) and all(one is not None and one < since for one in times)

    def _delete_remains(self) -> None:
        for path in self._remains():
            self.filesystem.delete_dir(path)

    def _bring_back(self) -> None:
        """Bring back the output that a killed run was about to replace."""
        for path in self._remains():
            if self._is_there(f"{path}/{_REPLACED}") and not self._is_there(self.path):
                self.filesystem.move(f"{path}/{_REPLACED}", self.path)

    def abort(self) -> None:
        """Delete the staging directory."""
        with contextlib.suppress(OSError):
            self.filesystem.delete_dir(self._staging)
        if self._lock is not None and self._lock >= 0:
            os.close(self._lock)
        self._lock = None


def _named_by(manifest: dict[str, Any]) -> set[str]:
    """All files of an output, by their paths in it."""
    tables = manifest["tables"]
    return {MANIFEST, *(f"{one['directory']}/{file['name']}" for one in tables for file in one["files"])}


def _versioned(files: list[FileStatistics]) -> list[tuple[int, str]]:
    """For each file the number of its definition, and its name in the output."""
    versions: list[pa.Schema] = []
    found = []
    for file in files:
        if file.schema not in versions:
            versions.append(file.schema)
        version = versions.index(file.schema) + 1
        found.append((version, f"v{version}-{file.name}"))
    return found


def _describe_table(
    result: TableResult, directory: str, files: list[FileStatistics], names: list[tuple[int, str]]
) -> dict[str, Any]:
    versions: dict[int, pa.Schema] = {}
    for file, (version, _) in zip(files, names, strict=True):
        versions.setdefault(version, file.schema)
    return {
        "database": result.database,
        "table": result.table,
        "directory": directory,
        "rows": result.rows,
        "partial_rows": result.partial_rows,
        "key": result.key,
        "versions": [
            {
                "version": version,
                "columns": [{"name": field.name, "type": type_name(field.type)} for field in schema],
            }
            for version, schema in versions.items()
        ],
        "files": [
            {
                "name": name,
                "version": version,
                "log": file.log,
                "rows": file.rows,
                "bytes": file.bytes,
                "first_position": file.first_position,
                "last_position": file.last_position,
                "last_version": file.last_version,
            }
            for file, (version, name) in zip(files, names, strict=True)
        ],
    }
