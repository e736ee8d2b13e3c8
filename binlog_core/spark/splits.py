"""Splits: the units of work that a directory of logs is cut into, planned by listing only."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..errors import BinlogError
from ..log_files import resolve

FILE_NUMBER_SHIFT = 40  # _commit_version: the file's number above, an offset within the file below
_MAX_FILE_NUMBER = (1 << 63 - FILE_NUMBER_SHIFT) - 1

_NUMBERED = re.compile(r"(?P<base>.*)\.(?P<number>\d+)(?P<packed>\.(?:gz|zst|xz))?", re.DOTALL)
_PATTERN = re.compile(r"[*?\[]")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+://")

Logs = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


@dataclass(frozen=True, slots=True)
class Split:
    """A part of one log that one task reads; small, and made to be pickled.

    Parameters
    ----------
    path : str
        Path or URL of the log, as a worker opens it.
    start : int
        Where the part begins, in bytes.
    end : int or None
        Where it ends; None: at the end of the log.
    file_number : int
        The log's number in `_commit_version`.
    index : int
        Place in the plan, from 0.
    """

    path: str
    start: int = 0
    end: int | None = None
    file_number: int = 0
    index: int = 0

    @property
    def whole(self) -> bool:
        """Whether it is the whole log."""
        return self.start == 0 and self.end is None

    @property
    def version_base(self) -> int:
        """`_commit_version` of a transaction at offset 0."""
        return self.file_number << FILE_NUMBER_SHIFT


def plan_splits(logs: Logs, *, storage_options: dict[str, Any] | None = None) -> list[Split]:
    """The splits of some logs: one for each file.

    Parameters
    ----------
    logs : str, path or iterable of them
        Logs, directories, index files, URLs that fsspec knows, or glob patterns of local paths. A log that is
        given twice is read once.
    storage_options : dict or None
        For fsspec.

    Returns
    -------
    list of Split
        By base name and number. A file's number is the digits at the end of its name (``mysql-bin.000042``:
        42), where it has none its place in this order, from 1.

    Raises
    ------
    BinlogError
        There is no such path, or no log; two logs have the same number, so that their changes would have no
        order among them.
    """
    targets = [logs] if isinstance(logs, str | os.PathLike) else list(logs)
    paths: dict[str, None] = {}
    for target in targets:
        for expanded in _expand(os.fspath(target)):
            for file in resolve(expanded, storage_options=storage_options):
                path = file.path if _URL.match(file.path) else os.path.abspath(file.path)
                paths[path] = None
    if not paths:
        raise BinlogError("no logs given")
    splits: list[Split] = []
    owners: dict[int, str] = {}
    for i, path in enumerate(sorted(paths, key=_by_number)):
        found = _NUMBERED.fullmatch(path)
        number = int(found["number"]) if found else i + 1
        if number > _MAX_FILE_NUMBER:
            raise BinlogError(f"file number {number}, the largest handled is {_MAX_FILE_NUMBER}", path=path)
        if number in owners:
            raise BinlogError(
                f"{os.path.basename(owners[number])} has the number {number} too, so their changes have no"
                " order among them: read logs of different servers apart",
                path=path,
            )
        owners[number] = path
        splits.append(Split(path, file_number=number, index=i))
    return splits


def _expand(target: str) -> list[str]:
    if _URL.match(target) or os.path.exists(target) or not _PATTERN.search(target):
        return [target]
    found = sorted(path for path in glob.glob(target, recursive=True) if os.path.isfile(path))
    if not found:
        raise BinlogError("no file has such a name", path=target)
    return found


def _by_number(path: str) -> tuple[str, int, str]:
    found = _NUMBERED.fullmatch(path)
    return (found["base"], int(found["number"]), path) if found else (path, -1, path)
