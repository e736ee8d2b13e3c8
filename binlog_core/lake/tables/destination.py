"""The destination of an export: common parts of its outputs, and the names of places and tables in them."""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import json
import os
import re
import string
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ... import errors
from ..._base.new_files import put_durably
from ..._sources.object_stores import arrow_filesystem, load_json, named_alike, telling
from ..._sources.places import is_url, local_path
from ..._tables.described import describe
from ...errors import BinlogError
from ..rows.types import import_pyarrow
from .results import TableResult

if TYPE_CHECKING:
    import pyarrow as pa

    from ..._tables.tables import Table
    from .results import FileStatistics, TableFiles, WrittenSplit

STAGING = ".staging"
STAGED = re.compile(rf"(?P<parent>.*)/\.(?P<name>[^/]+)\.[0-9a-f]{{32}}\{STAGING}(/|$)", re.DOTALL)
STAGED_ROWS = ".staged"  # what the names of files end in that wait for the second stage of an export
ABANDONED = dt.timedelta(days=1)  # what was last written so long ago is of a run that was killed
_NOTE = ".error.json"
_MOST_NOT_COMMITTED = 10_000  # transactions of a log that a manifest names
_MAX_NAME_LEN = 200  # most file systems take 255 bytes
_KEPT_LEN = 150
BUCKETS = 1 << 32
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
        return "~0"  # an empty part would hide the directory, and two would name a parent directory
    signs = [
        chr(byte) if byte in _PLAIN else f"~{byte:02X}" for byte in name.encode("utf-8", "surrogatepass")
    ]
    return "".join(["~5F", *signs[1:]] if name.startswith("_") else signs)


def bucket_of(database: str, table: str) -> int:
    """A number below `BUCKETS` for a table, the same in every process."""
    return zlib.crc32(f"{database}\0{table}".encode("utf-8", "surrogatepass"))


def open_filesystem(path: str, options: dict[str, Any] | None = None) -> tuple[Any, str]:
    """The pyarrow file system of a path or URL, and the path in it; ``s3a://`` is read as ``s3://``.

    Raises
    ------
    BinlogError
        pyarrow does not have the file system or option, or the store cannot be reached.
    MissingExtraError
        pyarrow is not installed.
    """
    import_pyarrow()
    import pyarrow.fs

    if not is_url(path):
        return _local(os.path.abspath(path))
    found = arrow_filesystem(path, options)
    if found is not None:
        return found
    if options:
        raise BinlogError(f"unknown storage options: {', '.join(sorted(options))}", path=path)
    try:
        filesystem, inner = pyarrow.fs.FileSystem.from_uri(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise BinlogError(f"cannot be written to: {error}", path=path) from error
    inner = inner.rstrip("/")
    return _local(inner) if filesystem.type_name == "local" else (filesystem, inner)


def _local(path: str) -> tuple[Any, str]:
    from .local_files import LocalFiles

    # A staging directory is ours: it may not be a link, as the place that the user names may.
    staged = STAGED.match(path)
    return LocalFiles(path if staged is None else staged["parent"] or "/"), path


def _names(path: str) -> set[str]:
    """The name of a place, which may be given in several ways; of a local one also that without links."""
    local = local_path(path)
    return {named_alike(path)} if local is None else {os.path.abspath(local), os.path.realpath(local)}


def write_whole(filesystem: Any, path: str, data: bytes) -> None:
    """Write a small file completely, or leave the earlier one in place.

    On a local file system it is on disk at the end, with all that was written there before it.

    Raises
    ------
    OSError
        It cannot be written.
    """
    if filesystem.type_name == "local":
        put_durably(path, data, filesystem.root)
        return
    written = f"{path}.new" if renames(filesystem) else path
    with filesystem.open_output_stream(written) as sink:
        sink.write(data)
    if written != path:
        filesystem.move(written, path)


def renames(filesystem: Any) -> bool:
    """Whether files and directories can be renamed atomically; in other stores, objects appear complete."""
    return filesystem.type_name in ("local", "hdfs")


class Destination(ABC):
    """The output of one export.

    Parameters
    ----------
    output : str
        The path or URL of a directory.
    run_id : str
        The name of the run.
    storage_options : dict or None
        Options for the store of the output.

    Attributes
    ----------
    staging : str
        Where workers write.
    nested : bool
        Whether each table has a directory there.
    prefix : str
        The beginning of the files' names.
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
        """What this run has committed before; None if it did not commit everything."""

    @abstractmethod
    def begin(self) -> None:
        """Create the directories that workers write into."""

    def keep_private(self) -> None:  # noqa: B027  (a lake's owner decides about its permissions)
        """Note that rows come from encrypted logs: directories made here are readable only by the owner."""

    @abstractmethod
    def commit(
        self, splits: list[WrittenSplit], tables: Iterable[TableFiles] | None = None
    ) -> list[TableResult]:
        """Make the files in the results, and no others, the output.

        Parameters
        ----------
        splits : list of WrittenSplit
            What is told of the logs.
        tables : iterable of (database, table, list of FileStatistics), or None
            The tables by database and name; None: the files of the splits.

        Returns
        -------
        list of TableResult
            The results, by database and table.
        """

    @abstractmethod
    def abort(self) -> None:
        """Delete files that were written but not committed."""

    @property
    @abstractmethod
    def notes(self) -> str:
        """The directory where workers leave notes of errors."""

    def failure(self) -> BinlogError | None:
        """The error that the last failed attempt noted, with its attributes; None if there is none."""
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
            if not issubclass(kind, BinlogError):  # whoever can write to the output can put any name here
                return None
            error: BinlogError = kind(note.pop("message"), **note)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None
        return error

    def refuse_inputs(self, paths: Iterable[str]) -> None:
        """Refuse an output that contains the logs."""
        outputs = _names(self.output)
        for path in paths:
            if any(f"{name}/".startswith(f"{output}/") for output in outputs for name in _names(path)):
                raise BinlogError(f"the output contains the log {path}", path=self.output)

    def write_manifest(self, path: str, splits: list[WrittenSplit], about: Manifest) -> None:
        """Write the manifest of this run, or its marker; entries of tables have a line each."""
        head = {
            **about.head,
            "run_id": self.run_id,
            "logs": describe_logs(splits),
            "statements": describe_statements(splits),
        }
        text = json.dumps(head, indent=1, ensure_ascii=True).removesuffix("\n}")
        lists = {"definitions": about.definitions, "tables": about.tables}
        for name, entries in lists.items():
            text += f',\n "{name}": [' + ",".join(f"\n  {one}" for one in entries) + "\n ]"
        write_whole(self.filesystem, path, f"{text}\n}}".encode())

    def read_json(self, path: str) -> Any:
        """The JSON in a file; None if there is no file."""
        from pyarrow.fs import FileType

        try:
            with telling(path):
                if self.filesystem.get_file_info(path).type is not FileType.File:
                    return None
                return load_json(self.filesystem, path)
        except (ValueError, RecursionError) as error:
            raise BinlogError(f"not a file that an export wrote: {error}", path=path) from error


@dataclass
class Manifest:
    """What a manifest says of tables, collected one by one, as text: there may be many.

    Parameters
    ----------
    head : dict
        What comes first.
    definitions, tables : list of str
        Entries as JSON.
    """

    head: dict[str, Any] = field(default_factory=dict)
    definitions: list[str] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)

    def add(self, entry: dict[str, Any], definitions: Iterable[dict[str, Any]]) -> None:
        """Add a table, with its definitions."""
        self.tables.append(json.dumps(entry))
        self.definitions += map(json.dumps, definitions)


def by_table(splits: Iterable[WrittenSplit]) -> list[TableFiles]:
    """The tables, each with database, name and files in the order of the logs."""
    tables: dict[tuple[str, str], list[FileStatistics]] = {}
    for split in splits:
        for file in sorted(split.files, key=lambda f: (f.first_position, f.name)):
            tables.setdefault((file.database, file.table), []).append(file)
    return [(database, table, tables[database, table]) for database, table in sorted(tables)]


def result_of(database: str, table: str, directory: str, files: list[FileStatistics]) -> TableResult:
    """The result for a table that is in some files."""
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
    """The entry of each log in a manifest."""
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
                "server_version": "",
                "counts": {},
                "damaged": [],
                "not_committed": [],
            },
        )
        log["splits"] += 1
        log["end_position"] = max(log["end_position"], one.end_position)
        log["tail"] = log["tail"] or one.tail
        log["server_version"] = log["server_version"] or one.server_version
        for kind, count in one.counts.items():
            log["counts"][kind] = log["counts"].get(kind, 0) + count
        known, more = log["not_committed"], one.not_committed
        fits = known is not None and len(known) + len(more) <= _MOST_NOT_COMMITTED
        log["not_committed"] = [*known, *more] if fits else None
        log["damaged"] += [{"offset": place.offset, "reason": place.detail} for place in one.damaged]
    return list(logs.values())


def describe_statements(splits: Iterable[WrittenSplit]) -> list[dict[str, Any]]:
    """A manifest's entries about statements that change tables or their contents."""
    return [one._asdict() for split in splits for one in split.statements]


def describe_definitions(files: Iterable[FileStatistics]) -> list[dict[str, Any]]:
    """A manifest's entries about a table's definitions, each with the first and last version of its rows."""
    definitions: list[dict[str, Any]] = []
    last: Table | None = None
    for file in sorted(files, key=lambda one: one.first_version):
        if file.definition is None:
            continue
        if file.definition != last:
            last = file.definition
            names = {"database": file.database, "table": file.table}
            definitions.append({**names, "first_version": file.first_version})
            definitions[-1] |= {"last_version": 0, **describe(last)}
        definitions[-1]["last_version"] = max(definitions[-1]["last_version"], file.last_version)
    return definitions


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
