"""What an export says about itself: its logs, statements, and the definitions of its tables."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from ..._sources.log_names import OLD_INDEX_NAME as INDEX
from ..._sources.object_stores import arrow_filesystem, load_json, telling
from ..._sources.places import local_path
from ..._tables.described import described_table
from ..._tables.tables import Table
from ...errors import BinlogError, MissingExtraError, cannot_read

if TYPE_CHECKING:
    from collections.abc import Callable

MANIFEST = "_manifest.json"
RUNS = "_runs"  # of tables of a lake: a folder with a manifest of each run
MIRROR = "_mirror"  # what a mirror keeps for itself in its lake
_DELTA_LOG = "_delta_log"
_OWN = {MANIFEST, RUNS, MIRROR, _DELTA_LOG}


@dataclass(slots=True)
class ExportedTable:
    """One table of an export.

    Parameters
    ----------
    definitions : list of (first version, last version, Table)
    files : list of str
        Parquet files; empty for Delta.
    deltas : list of str
        Paths or URLs of Delta tables.
    """

    definitions: list[tuple[int, int, Table]] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    deltas: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Export:
    """An export, of one or several runs.

    Parameters
    ----------
    path : str
    filesystem : pyarrow.fs.FileSystem
    logs : dict of int to str
        Names of logs by their numbers.
    counts : dict of int to dict
        Counts of missing information by log: see ``binlog_core.Report``.
    server_version : str
    not_committed : dict of int to int
        Outcomes of transactions that did not commit, by their versions.
    statements : list of dict
    tables : dict of (str, str) to ExportedTable
    """

    path: str
    filesystem: Any
    logs: dict[int, str] = field(default_factory=dict)
    counts: dict[int, dict[str, int]] = field(default_factory=dict)
    server_version: str = ""
    not_committed: dict[int, int] = field(default_factory=dict)
    statements: list[dict[str, Any]] = field(default_factory=list)
    tables: dict[tuple[str, str], ExportedTable] = field(default_factory=dict)

    def add(self, told: dict[str, Any], files: Callable[[dict[str, Any]], tuple[str, list[str]]]) -> None:
        """Add a run's manifest; `files` gives a table's directory and Parquet files."""
        for log in told["logs"]:
            number, path = int(log["file_number"]), str(log["path"])
            if self.logs.setdefault(number, path) != path:
                raise BinlogError(
                    f"two logs of the export have the number {number}, {self.logs[number]} and {path}: their"
                    " changes cannot be told apart",
                    path=self.path,
                )
            known = self.counts.setdefault(number, {})
            for kind, count in log["counts"].items():
                known[kind] = known.get(kind, 0) + int(count)
            if log["not_committed"] is None:
                raise BinlogError(
                    f"{path} has many uncommitted transactions, probably of XA: expected an export"
                    " with --xa committed",
                    path=self.path,
                )
            self.not_committed.update(
                (int(version), int(outcome)) for version, outcome in log["not_committed"]
            )
            self.server_version = self.server_version or str(log["server_version"])
        self.statements += told["statements"]
        for one in told["definitions"]:
            name = str(one["database"]), str(one["table"])
            table = described_table(*name, one)
            # The values of an export are inflated.
            table = replace(table, columns=tuple(replace(c, compressed=False) for c in table.columns))
            version = int(one["first_version"]), int(one["last_version"])
            self.tables.setdefault(name, ExportedTable()).definitions.append((*version, table))
        for one in told["tables"]:
            place, names = files(one)
            known_table = self.tables.setdefault((str(one["database"]), str(one["table"])), ExportedTable())
            known_table.files += names
            if not names and place not in known_table.deltas:
                known_table.deltas.append(place)


def find_export(target: Any, storage_options: dict[str, Any] | None = None) -> Export | None:
    """The export in a directory; None if there is none.

    Raises
    ------
    BinlogError
        It cannot be read; or it is Parquet or Delta that is not from an export.
    """
    if isinstance(target, list | tuple) and len(target) == 1:
        target = target[0]
    if not isinstance(target, str | PurePath):
        return None
    path = str(target)
    place = _place(path, storage_options)
    if place is None:
        return None
    filesystem, root = place
    names = _names(filesystem, root, path)
    if MIRROR in names:
        raise BinlogError(
            "undo and history do not read a mirror's tables: expected its archive of the logs,"
            f" {MIRROR}/archive in the lake unless another was given",
            path=path,
        )
    found = Export(path, filesystem)
    runs = [root] if MANIFEST in names else []
    runs += [f"{root}/{one}" for one in sorted(names) if one.isdecimal()] if not runs else []
    try:
        for run in runs:
            _add_parquet(found, run)
        if not runs and RUNS in names:
            base = root if local_path(path) is not None else path.rstrip("/")  # deltalake takes URLs
            for told in _markers(filesystem, f"{root}/{RUNS}"):
                found.add(told, lambda one: (f"{base}/{_last(one['directory'])}", []))
        if found.tables or found.logs:
            return found
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise BinlogError(
            f"not an export's manifest with table definitions: {type(error).__name__} {error}",
            path=path,
        ) from error
    if _DELTA_LOG in names or any(map(_is_parquet, names)):
        raise BinlogError(
            "the tables' definitions are missing, and a lake's values cannot be restored without them:"
            " expected the directory that binlog-core export wrote, with its manifest"
            f" ({MANIFEST}, or {RUNS} for Delta tables); for a mirror, its archive of the logs",
            path=path,
        )
    return None


def _place(path: str, options: dict[str, Any] | None) -> tuple[Any, str] | None:
    """The pyarrow file system of a possible export, and the path in it."""
    local = local_path(path)
    if local is None:
        return arrow_filesystem(path, options)
    if path.endswith(".parquet"):
        raise BinlogError(
            "a single Parquet file does not contain its table's definition: expected the directory that"
            " binlog-core export wrote",
            path=path,
        )
    if not os.path.isdir(local):
        return None
    try:
        names = os.listdir(local)
    except OSError as error:
        raise cannot_read(error, f"cannot be read: {type(error).__name__}: {error}", path) from error
    if not any(one in _OWN or one.isdecimal() or _is_parquet(one) for one in names):
        return None  # before pyarrow is imported, which takes longer than a small log
    try:
        from pyarrow.fs import LocalFileSystem
    except ImportError:
        if MANIFEST in names or RUNS in names:
            raise MissingExtraError.of("pyarrow", "arrow", "an export") from None
        return None
    return LocalFileSystem(), os.path.abspath(local)


def _is_parquet(name: str) -> bool:
    return name.endswith(".parquet") and name != INDEX


def _names(filesystem: Any, root: str, path: str) -> set[str]:
    from pyarrow.fs import FileSelector

    with telling(path):
        return {one.base_name for one in filesystem.get_file_info(FileSelector(root, allow_not_found=True))}


def _add_parquet(found: Export, run: str) -> None:
    from pyarrow.fs import FileType

    name = f"{run}/{MANIFEST}"
    with telling(name):
        if found.filesystem.get_file_info(name).type is not FileType.File:
            return  # a directory of something else, or of a run that was not finished
    told = _json(found.filesystem, name)

    def files(one: dict[str, Any]) -> tuple[str, list[str]]:
        directory = f"{run}/{_last(one['directory'])}"
        return directory, [f"{directory}/{_last(file['name'])}" for file in one["files"]]

    found.add(told, files)


def _markers(filesystem: Any, folder: str) -> Iterator[dict[str, Any]]:
    for name in sorted(_names(filesystem, folder, folder)):
        if name.endswith(".json"):
            yield _json(filesystem, f"{folder}/{name}")


def _json(filesystem: Any, path: str) -> dict[str, Any]:
    with telling(path):
        told: dict[str, Any] = load_json(filesystem, path)
    return told


def _last(name: str) -> str:
    """A name without anything that could lead out of its folder."""
    last = name.rstrip("/").rpartition("/")[2]
    if last in ("", ".", ".."):
        raise ValueError(f"{name!r} is not a name")
    return last
