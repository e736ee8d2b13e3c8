"""Where an export goes: a directory that appears whole, with a manifest, or not at all.

Workers write into a staging directory beside the output. When all have come back, the driver moves the
files that they named into the table directories, writes the manifest and renames the whole into place. What a
failed attempt left is not named by anyone and goes with the staging directory.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import json
import os
import re
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from .. import errors
from ..errors import BinlogError
from .schema import spark_schema

if TYPE_CHECKING:
    import pyarrow as pa

    from .parquet import FileStatistics

MANIFEST = "_manifest.json"
_MANIFEST_FORMAT = 1
_MAX_NAME_LEN = 200  # most file systems take 255 bytes
_KEPT_LEN = 150
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+://")


def directory_name(database: str, table: str) -> str:
    """The directory of a table: ``database.table``, all but letters, digits, ``_`` and ``-`` percent-encoded.

    So no name leads out of the output, none is hidden from Spark, and none depends on the locale. Names
    too long for a file system are cut and end in ``~`` and a digest.
    """
    name = f"{_encode(database)}.{_encode(table)}"
    if len(name) > _MAX_NAME_LEN:
        name = f"{name[:_KEPT_LEN]}~{hashlib.sha256(name.encode()).hexdigest()[:32]}"
    return name


def _encode(name: str) -> str:
    if not name:
        return "~"  # an empty one would hide the directory, and two would be the output itself
    encoded = quote(name.encode("utf-8", "surrogatepass"), safe="")
    for sign in ".~":  # quote leaves them
        encoded = encoded.replace(sign, f"%{ord(sign):02X}")
    return "%5F" + encoded[1:] if encoded.startswith("_") else encoded


def open_filesystem(path: str) -> tuple[Any, str]:
    """The pyarrow file system of a path or URL, and the path in it; ``s3a://`` is read as ``s3://``.

    Raises
    ------
    BinlogError
        pyarrow knows no such file system, or it cannot be reached.
    """
    import pyarrow
    import pyarrow.fs

    if not _URL.match(path):
        return pyarrow.fs.LocalFileSystem(), os.path.abspath(path)
    try:
        filesystem, inner = pyarrow.fs.FileSystem.from_uri(re.sub(r"^s3[an]://", "s3://", path))
    except (OSError, pyarrow.ArrowException) as error:
        raise BinlogError(f"cannot be written to: {error}", path=path) from error
    return filesystem, inner.rstrip("/")


@dataclass(frozen=True, slots=True)
class TableResult:
    """What an export holds of one table.

    Parameters
    ----------
    database, table : str
    directory : str
        Its path.
    rows : dict of str to int
        By `_change_type`.
    files, bytes : int
    versions : int
        Definitions that the table had.
    seconds : float
        Spent on converting and writing, in all workers.
    """

    database: str
    table: str
    directory: str
    rows: dict[str, int]
    files: int
    bytes: int
    versions: int
    seconds: float


class Destination:
    """The output of one export.

    Parameters
    ----------
    output : str
        Path or URL of a directory.
    overwrite : bool
        Replace what an earlier export left there.

    Raises
    ------
    BinlogError
        There is something that is not ours to overwrite.
    """

    def __init__(self, output: str, *, overwrite: bool = False) -> None:
        self.output = output
        self._filesystem, self._path = open_filesystem(output)
        self._replaces = self._check(overwrite)
        parent, _, name = self._path.rpartition("/")
        self._staging = f"{parent}/.{name}.{uuid.uuid4().hex}.staging"
        scheme = output.rstrip("/").removesuffix(self._path) if _URL.match(output) else ""
        self.staging = f"{scheme}{self._staging}/written"  # as workers open it

    def _check(self, overwrite: bool) -> bool:
        """Whether there is something to replace."""
        from pyarrow.fs import FileSelector, FileType

        info = self._filesystem.get_file_info(self._path)
        if info.type == FileType.NotFound:
            return False
        if info.type != FileType.Directory:
            raise BinlogError("the output is a file, not a directory", path=self.output)
        names = [found.base_name for found in self._filesystem.get_file_info(FileSelector(self._path))]
        if not names:
            return True
        if MANIFEST not in names:
            raise BinlogError(
                f"the output has files but no {MANIFEST}: it is no earlier export, and never overwritten",
                path=self.output,
            )
        if not overwrite:
            raise BinlogError("the output exists: choose another, or overwrite", path=self.output)
        return True

    def refuse_inputs(self, paths: Iterable[str]) -> None:
        """Refuse an output that the logs themselves lie in."""
        for path in paths:
            if path == self._path or path.startswith(self._path + "/"):
                raise BinlogError(f"the output holds the log {path}", path=self.output)

    def begin(self) -> None:
        """Make the staging directory."""
        try:
            self._filesystem.create_dir(f"{self._staging}/written", recursive=True)
            self._filesystem.create_dir(f"{self._staging}/complete", recursive=True)
        except OSError as error:
            raise BinlogError(f"the output cannot be written: {error}", path=self.output) from error

    def commit(self, files: list[FileStatistics], logs: list[dict[str, Any]]) -> list[TableResult]:
        """Make the files the output.

        Parameters
        ----------
        files : list of FileStatistics
            Those, and no others, that the output shall have.
        logs : list of dict
            What the manifest says of each log.

        Returns
        -------
        list of TableResult
            By database and table.
        """
        by_table: dict[tuple[str, str], list[FileStatistics]] = {}
        for file in sorted(files, key=lambda f: (f.split, f.first_position, f.name)):
            by_table.setdefault((file.database, file.table), []).append(file)
        results, tables = [], []
        try:
            for (database, table), parts in sorted(by_table.items()):
                result, entry = self._commit_table(database, table, parts)
                results.append(result)
                tables.append(entry)
            manifest = {
                "format": _MANIFEST_FORMAT,
                "written": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
                "logs": logs,
                "tables": tables,
            }
            with self._filesystem.open_output_stream(f"{self._staging}/complete/{MANIFEST}") as sink:
                sink.write(json.dumps(manifest, indent=1, ensure_ascii=True).encode())
            if self._replaces:
                self._filesystem.move(self._path, f"{self._staging}/replaced")
            self._filesystem.move(f"{self._staging}/complete", self._path)
        except OSError as error:
            raise BinlogError(f"the output cannot be written: {error}", path=self.output) from error
        self.abort()
        return results

    def _commit_table(
        self, database: str, table: str, files: list[FileStatistics]
    ) -> tuple[TableResult, dict[str, Any]]:
        directory = directory_name(database, table)
        self._filesystem.create_dir(f"{self._staging}/complete/{directory}")
        versions: list[pa.Schema] = []
        entries = []
        rows: dict[str, int] = {}
        for file in files:
            if file.schema not in versions:
                versions.append(file.schema)
            version = versions.index(file.schema) + 1
            name = f"v{version}-{file.name}"
            self._filesystem.move(
                f"{self._staging}/written/{file.name}", f"{self._staging}/complete/{directory}/{name}"
            )
            for op, count in file.rows.items():
                rows[op] = rows.get(op, 0) + count
            entries.append(
                {
                    "name": name,
                    "version": version,
                    "log": file.split,
                    "rows": file.rows,
                    "bytes": file.bytes,
                    "first_position": file.first_position,
                    "last_position": file.last_position,
                }
            )
        result = TableResult(
            database,
            table,
            f"{self.output.rstrip('/')}/{directory}",
            rows,
            len(files),
            sum(file.bytes for file in files),
            len(versions),
            sum(file.seconds for file in files),
        )
        described = [
            {
                "version": i,
                "columns": [
                    {"name": field.name, "type": field.dataType.simpleString()}
                    for field in spark_schema(schema)
                ],
            }
            for i, schema in enumerate(versions, start=1)
        ]
        entry = {
            "database": database,
            "table": table,
            "directory": directory,
            "rows": rows,
            "versions": described,
            "files": entries,
        }
        return result, entry

    def failure(self) -> BinlogError | None:
        """The error that the last failed attempt noted, with all that it knew; None where none did."""
        from pyarrow.fs import FileSelector

        try:
            found = self._filesystem.get_file_info(FileSelector(f"{self._staging}/written"))
            notes = sorted(info.path for info in found if info.path.endswith(".error.json"))
            if not notes:
                return None
            with self._filesystem.open_input_stream(notes[-1]) as stream:
                note = json.loads(stream.read())
        except OSError:
            return None
        kind = getattr(errors, note.pop("kind"), BinlogError)
        error: BinlogError = kind(note.pop("message"), **note)
        return error

    def abort(self) -> None:
        """Delete the staging directory."""
        with contextlib.suppress(OSError):
            self._filesystem.delete_dir(self._staging)


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
    path = f"{directory}/{name}.error.json"
    with contextlib.suppress(OSError), filesystem.open_output_stream(path) as sink:
        sink.write(json.dumps(note, ensure_ascii=True).encode())
