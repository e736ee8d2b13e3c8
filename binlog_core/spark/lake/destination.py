"""Where an export goes: a directory that appears whole, with a manifest, or not at all.

Workers write into a staging directory beside the output. When all have come back, the driver moves the
files that they named into the table directories, writes the manifest and renames the whole into place. What a
failed attempt left is not named by anyone and goes with the staging directory. An object store, which has no
rename of directories, moves each file; there the manifest, written last, says that the output is whole.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import json
import os
import string
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from ... import errors
from ..._sources.object_stores import arrow_filesystem
from ..._sources.places import is_url
from ...errors import BinlogError
from ..rows.types import spark_schema
from .results import TableResult

if TYPE_CHECKING:
    import pyarrow as pa

    from .results import FileStatistics, WrittenSplit

MANIFEST = "_manifest.json"
_MANIFEST_FORMAT = 2
_NOTE = ".error.json"
_LONGEST_JSON = 256 << 20
_MOVING_THREADS = 32
_MAX_NAME_LEN = 200  # most file systems take 255 bytes
_KEPT_LEN = 150
_PLAIN = frozenset(f"{string.ascii_letters}{string.digits}_-".encode())


def directory_name(database: str, table: str) -> str:
    """The directory of a table: ``database.table``, safe in every file system, shell and URL.

    ASCII letters, digits, ``_`` and ``-`` stand for themselves, each other byte is ``~`` and two digits in
    hex. So no name leads out of the output, none is hidden from Spark, none depends on the locale, and none
    is read as a percent-encoded one, which libraries decode. Names with capitals end in ``~~`` and a number
    in hex that says which letters are capitals (bit 0: the first), so that two names never meet on a file
    system that ignores case. Names too long for a file system are cut and end in ``~~~`` and a digest.
    """
    letters = [c for c in database + table if c.isascii() and c.isalpha()]
    capitals = sum(1 << i for i, letter in enumerate(letters) if letter.isupper())
    name = f"{_encode(database)}.{_encode(table)}" + (f"~~{capitals:x}" if capitals else "")
    if len(name) > _MAX_NAME_LEN:
        name = f"{name[:_KEPT_LEN]}~~~{hashlib.sha256(name.encode()).hexdigest()[:32]}"
    return name


def _encode(name: str) -> str:
    if not name:
        return "~0"  # nothing would hide the directory, and two would be the output itself
    signs = [
        chr(byte) if byte in _PLAIN else f"~{byte:02X}" for byte in name.encode("utf-8", "surrogatepass")
    ]
    return "".join(["~5F", *signs[1:]] if name.startswith("_") else signs)


def check_manifest(manifest: Any, path: str) -> None:
    """Refuse a manifest whose directories are not those of its tables: it could lead anywhere.

    Raises
    ------
    BinlogError
        It is not one that an export wrote.
    """
    try:
        for table in manifest["tables"]:
            wanted = directory_name(table["database"], table["table"])
            if table["directory"] != wanted:
                raise BinlogError(
                    f"the manifest has a table in the directory {table['directory']!r}: expected {wanted!r}",
                    path=f"{path}/{MANIFEST}",
                    table=f"{table['database']}.{table['table']}",
                )
    except (KeyError, TypeError, AttributeError) as error:
        raise BinlogError(
            "the manifest is not one that an export wrote", path=f"{path}/{MANIFEST}"
        ) from error


def open_filesystem(path: str, options: dict[str, Any] | None = None) -> tuple[Any, str]:
    """The pyarrow file system of a path or URL, and the path in it; ``s3a://`` is read as ``s3://``.

    Raises
    ------
    BinlogError
        pyarrow knows no such file system or option, or it cannot be reached.
    """
    import pyarrow
    import pyarrow.fs

    if not is_url(path):
        return pyarrow.fs.LocalFileSystem(), os.path.abspath(path)
    found = arrow_filesystem(path, options)
    if found is not None:
        return found
    if options:
        raise BinlogError(f"these options of a store are not known: {', '.join(sorted(options))}", path=path)
    try:
        filesystem, inner = pyarrow.fs.FileSystem.from_uri(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise BinlogError(f"cannot be written to: {error}", path=path) from error
    return filesystem, inner.rstrip("/")


def load_json(filesystem: Any, path: str) -> Any:
    """What a JSON file holds.

    Raises
    ------
    OSError, ValueError, RecursionError
        It cannot be read, is longer than any that we write, or is not JSON.
    """
    with filesystem.open_input_file(path) as file:
        if (size := file.size()) > _LONGEST_JSON:
            raise ValueError(f"{size} bytes long: at most {_LONGEST_JSON} are expected")
        return json.loads(file.read())


class Destination(ABC):
    """The output of one export.

    Parameters
    ----------
    output : str
        Path or URL of a directory.
    run_id : str
    storage_options : dict or None

    Attributes
    ----------
    staging : str
        Where workers write.
    nested : bool
        Each table in a directory of its own there.
    prefix : str
        Of the files' names.
    """

    staging: str
    nested = False
    prefix = ""

    def __init__(self, output: str, run_id: str, *, storage_options: dict[str, Any] | None = None) -> None:
        self.output = output
        self.run_id = run_id
        self.filesystem, self.path = open_filesystem(output, storage_options)

    @abstractmethod
    def committed(self) -> list[TableResult] | None:
        """What this run has committed before; None: nothing, or not all."""

    @abstractmethod
    def begin(self) -> None:
        """Make what workers write into."""

    def keep_private(self) -> None:  # noqa: B027  (a lake's rights are its owner's business)
        """What is written comes out of encrypted logs: a directory that this makes is the owner's alone."""

    @abstractmethod
    def commit(self, splits: list[WrittenSplit]) -> list[TableResult]:
        """Make the files that the results name, and no others, the output."""

    @abstractmethod
    def abort(self) -> None:
        """Delete what was written and not committed."""

    @property
    @abstractmethod
    def notes(self) -> str:
        """The directory where workers leave notes of errors."""

    def failure(self) -> BinlogError | None:
        """The error that the last failed attempt noted, with all that it knew; None where none did."""
        from pyarrow.fs import FileSelector

        try:
            found = self.filesystem.get_file_info(FileSelector(self.notes))
            notes = sorted(
                info.path
                for info in found
                if info.base_name.startswith(self.prefix) and info.base_name.endswith(_NOTE)
            )
            if not notes:
                return None
            note = load_json(self.filesystem, notes[-1])
            kind = getattr(errors, note.pop("kind"))
            if not issubclass(kind, BinlogError):  # whoever writes into the output may name anything
                return None
            error: BinlogError = kind(note.pop("message"), **note)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None
        return error

    def refuse_inputs(self, paths: Iterable[str]) -> None:
        """Refuse an output that the logs themselves lie in."""
        for path in paths:
            place = open_filesystem(path)[1] if is_url(path) and is_url(self.output) else path
            if place == self.path or place.startswith(self.path + "/"):
                raise BinlogError(f"the output holds the log {path}", path=self.output)

    def write_json(self, path: str, value: Any) -> None:
        """Write a file in ASCII."""
        with self.filesystem.open_output_stream(path) as sink:
            sink.write(json.dumps(value, indent=1, ensure_ascii=True).encode())

    def read_json(self, path: str) -> Any:
        """What `write_json` wrote; None: there is no such file."""
        from pyarrow.fs import FileType

        if self.filesystem.get_file_info(path).type is not FileType.File:
            return None
        try:
            return load_json(self.filesystem, path)
        except (ValueError, RecursionError) as error:
            raise BinlogError(f"not a file that an export wrote: {error}", path=path) from error


def by_table(splits: Iterable[WrittenSplit]) -> list[tuple[str, str, list[FileStatistics]]]:
    """Database, table and files in the order of the logs, of each table."""
    tables: dict[tuple[str, str], list[FileStatistics]] = {}
    for split in splits:
        for file in sorted(split.files, key=lambda f: (f.first_position, f.name)):
            tables.setdefault((file.database, file.table), []).append(file)
    return [(database, table, tables[database, table]) for database, table in sorted(tables)]


def result_of(database: str, table: str, directory: str, files: list[FileStatistics]) -> TableResult:
    """What some files hold of a table."""
    rows: dict[str, int] = {}
    for file in files:
        for op, count in file.rows.items():
            rows[op] = rows.get(op, 0) + count
    versions: list[pa.Schema] = []
    for file in files:
        if file.schema not in versions:
            versions.append(file.schema)
    return TableResult(
        database,
        table,
        directory,
        rows,
        sum(file.partial_rows for file in files),
        len(files),
        sum(file.bytes for file in files),
        len(versions),
        sum(file.seconds for file in files),
        next((file.key for file in reversed(files) if file.key), None),
    )


def describe_logs(splits: Iterable[WrittenSplit]) -> list[dict[str, Any]]:
    """What a manifest says of each log."""
    logs: dict[str, dict[str, Any]] = {}
    for one in splits:
        log = logs.setdefault(
            one.split.path,
            {
                "path": one.split.name,
                "file_number": one.split.file_number,
                "splits": 0,
                "end_position": 0,
                "tail": None,
                "counts": {},
                "damaged": [],
            },
        )
        log["splits"] += 1
        log["end_position"] = max(log["end_position"], one.end_position)
        log["tail"] = log["tail"] or one.tail
        for kind, count in one.counts.items():
            log["counts"][kind] = log["counts"].get(kind, 0) + count
        log["damaged"] += [{"offset": place.offset, "reason": place.detail} for place in one.damaged]
    return list(logs.values())


def describe_statements(splits: Iterable[WrittenSplit]) -> list[dict[str, Any]]:
    """What a manifest says of the statements that change what tables are or hold."""
    return [one._asdict() for split in splits for one in split.statements]


class ParquetDirectory(Destination):
    """Parquet files and a manifest.

    Parameters
    ----------
    output : str
        Path or URL of a directory.
    run_id : str
    overwrite : bool
        Replace what an earlier export left there.
    storage_options : dict or None

    Raises
    ------
    BinlogError
        There is something that is not ours to overwrite.
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
        self._replaces = self._check(overwrite)
        parent, _, name = self.path.rpartition("/")
        self._staging = f"{parent}/.{name}.{uuid.uuid4().hex}.staging"
        scheme = output.rstrip("/").removesuffix(self.path) if is_url(output) else ""
        self.staging = f"{scheme}{self._staging}/written"  # as workers open it
        self._renames = self.filesystem.type_name in ("local", "hdfs")

    @property
    def notes(self) -> str:
        """The directory where workers leave notes of errors."""
        return f"{self._staging}/written"

    def _check(self, overwrite: bool) -> bool:
        """Whether there is something to replace."""
        from pyarrow.fs import FileSelector, FileType

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
                f"the output has files but no {MANIFEST}: not an earlier export, never overwritten",
                path=self.output,
            )
        manifest = self.read_json(f"{self.path}/{MANIFEST}")
        check_manifest(manifest, self.output)
        if manifest.get("run_id") == self.run_id:
            self._manifest = manifest
        elif not overwrite:
            raise BinlogError("the output exists: choose another, or overwrite", path=self.output)
        return True

    def committed(self) -> list[TableResult] | None:
        """What this run has committed before; None: nothing."""
        if self._manifest is None:
            return None
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
        """Make the staging directory."""
        try:
            self.filesystem.create_dir(f"{self._staging}/written", recursive=True)
            self.filesystem.create_dir(f"{self._staging}/complete", recursive=True)
        except OSError as error:
            raise BinlogError(f"the output cannot be written: {error}", path=self.output) from error

    def keep_private(self) -> None:
        """See `Destination`; the directory goes from its staging place to its own with these rights."""
        if self.filesystem.type_name == "local":
            for directory in (self._staging, f"{self._staging}/complete"):
                os.chmod(directory, 0o700)

    def commit(self, splits: list[WrittenSplit]) -> list[TableResult]:
        """Make the files that the results name, and no others, the output.

        Returns
        -------
        list of TableResult
            By database and table.
        """
        target = f"{self._staging}/complete" if self._renames else self.path
        results, tables = [], []
        moves: list[tuple[str, str]] = []
        try:
            if not self._renames and self._replaces:
                self.filesystem.delete_dir_contents(self.path)
            for database, table, files in by_table(splits):
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
                tables.append(_describe_table(result, directory, files, names))
            with ThreadPoolExecutor(1 if self._renames else _MOVING_THREADS) as threads:
                list(threads.map(lambda move: self.filesystem.move(*move), moves))
            manifest = {
                "format": _MANIFEST_FORMAT,
                "run_id": self.run_id,
                "written": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
                "logs": describe_logs(splits),
                "statements": describe_statements(splits),
                "tables": tables,
            }
            self.write_json(f"{target}/{MANIFEST}", manifest)
            if self._renames:
                if self._replaces:
                    self.filesystem.move(self.path, f"{self._staging}/replaced")
                self.filesystem.move(target, self.path)
        except OSError as error:
            raise BinlogError(f"the output cannot be written: {error}", path=self.output) from error
        self.abort()
        return results

    def abort(self) -> None:
        """Delete the staging directory."""
        with contextlib.suppress(OSError):
            self.filesystem.delete_dir(self._staging)


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
                "columns": [
                    {"name": field.name, "type": field.dataType.simpleString()}
                    for field in spark_schema(schema)
                ],
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


def note_failure(filesystem: Any, directory: str, name: str, error: BinlogError) -> None:
    """Leave a worker's error where the driver finds it with its attributes; Spark hands on only text."""
    note = {
        "kind": type(error).__name__,
        "message": error.message,
        "path": error.path,
        "offset": error.offset,
        "type_code": error.type_code,
        "table": error.table,
        "column": error.column,
    }
    path = f"{directory}/{name}{_NOTE}"
    with contextlib.suppress(OSError), filesystem.open_output_stream(path) as sink:
        sink.write(json.dumps(note, ensure_ascii=True).encode())
