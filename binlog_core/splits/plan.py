"""Splits of logs, planned from their sizes alone."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from .._base.change_columns import FILE_NUMBER_SHIFT
from .._format.event_header import FIRST_EVENT
from .._format.magic import INNODB_MAGIC
from .._sources.archives import EPOCH_SHIFT
from .._sources.log_files import LogFile
from .._sources.log_names import LogName, name_key
from .._sources.places import is_url
from .._sources.resolve import check_no_server
from .._walk.anchors import Head
from ..errors import BinlogError, MissingFileError
from ..lake.access import Access
from ..lake.runner import LocalRunner
from ..log.opened import files_of
from .following import follow_definitions, tracker_of
from .split import Split, whole_logs

if TYPE_CHECKING:
    from ..log.options import AnyTarget
    from ..schema.definitions import SchemaSource
    from ..schema.given import Schema

DEFAULT_SPLIT_SIZE = 128 << 20

_MAX_FILE_NUMBER = (1 << 63 - FILE_NUMBER_SHIFT) - 1
_PLANNING_THREADS = 32  # they mostly wait for an object store


def plan_splits(
    target: AnyTarget | Iterable[AnyTarget],
    split_size: int | None = None,
    *,
    storage_options: dict[str, Any] | None = None,
    schema: Literal["ddl"] | None = None,
    schema_start: SchemaSource | Schema | None = None,
    keys: Any = None,
) -> list[Split]:
    """Plan the splits of logs.

    Parameters
    ----------
    target : what `binlog_core.open` takes, a Log, or an iterable of them
        The logs, but not as bytes or open files: workers open them by their paths. A log that is given twice
        is read once. A `Log` stands for all its files from ``start`` to ``stop``, each as a whole; give the
        options that it was opened with to :func:`read_split_groups` again.
    split_size : int or None
        The most bytes of a split; a log is cut into splits of equal size. None or 0 makes each log one split.
        Logs of v1 and v3, relay logs, and encrypted or compressed logs are always one split, because their
        bytes do not show where events begin.
    storage_options : dict or None
        Options for fsspec.
    schema : "ddl" or None
        "ddl" reads the statements of all logs here, and gives all splits the definitions of the tables: give
        their readers ``schema="ddl"`` too. Only event headers are read of all else.
    schema_start, keys
        For "ddl", the definitions at the beginning of the first log, and the keys of encrypted logs: see
        `binlog_core.open`.

    Returns
    -------
    list of Split
        The splits by base name and number, then by position. A file's number is the digits at the end of its
        name (42 for ``mysql-bin.000042``), or without digits its place in this order, from 1. If a log has
        several splits, what is written to it after planning belongs to no split.

    Raises
    ------
    BinlogError
        The path does not exist or has no log, or two logs have the same number, so that their changes would
        have no order.
    """
    if split_size is not None and split_size < 0:
        raise ValueError(f"split_size={split_size}: expected bytes, or 0 for whole logs")
    if schema not in (None, "ddl"):
        raise ValueError("schema: expected ddl; give definitions to the reader of a split")
    if schema_start is not None and schema is None:
        raise ValueError('schema_start needs schema="ddl"')
    numbered = list(_numbered(target, storage_options))
    sizes = _sizes_of([file for _, file in numbered], split_size) if split_size else {}
    splits: list[Split] = []
    for number, file in numbered:
        stored = sizes.get(file.path, _Size())
        size = stored.size if stored.divisible else None
        until = file.share.until if file.share is not None else None
        before = file.share.before if file.share is not None else None
        if size is not None and until is not None:
            size = min(size, until)
        if size is None or not split_size or size <= split_size:
            one = Split(file.path, 0, until, number, len(splits), before=before, size=stored.size)
            # Where another server took over is known, even in a log that cannot be split.
            splits.append(one if until is None else replace(one, anchor=FIRST_EVENT, trusted=True))
            continue
        count = -(-size // split_size)
        for i in range(count):
            start, end = size * i // count, size * (i + 1) // count
            last = i == count - 1 and stored.about
            splits.append(Split(file.path, start, None if last else end, number, len(splits), before=before))
    if schema is None:
        return splits
    logs, tracker = whole_logs(splits), tracker_of(schema_start)
    timeline = follow_definitions(logs, Access(keys, storage_options), tracker, run=LocalRunner())
    return [replace(one, definitions=timeline) for one in splits]  # shared: tables may be many


def _numbered(
    target: AnyTarget | Iterable[AnyTarget], storage_options: dict[str, Any] | None
) -> Iterator[tuple[int, LogFile]]:
    one = isinstance(target, str | bytes | bytearray | memoryview) or hasattr(target, "read")
    targets = list(target) if isinstance(target, Iterable) and not one else [target]
    files: dict[str, LogFile] = {}
    for each in targets:
        for file in files_of(cast("AnyTarget", each), storage_options=storage_options):
            check_no_server(file.path)
            if file.target is not None:
                raise BinlogError(
                    "splits need a path that workers can open, not bytes or an open file", path=file.path
                )
            path = file.path if is_url(file.path) else os.path.abspath(file.path)
            # A log that is not divided is not opened here; one of an archive was listed just now.
            if file.share is None and not is_url(path) and not os.path.exists(path):
                raise MissingFileError("cannot be opened: No such file or directory", path=path)
            files[path] = replace(file, path=path)
    if not files:
        raise BinlogError("no logs given")
    owners: dict[int, str] = {}
    for i, path in enumerate(sorted(files, key=lambda path: (_epoch(files[path]), name_key(path)))):
        if i:
            files[path].check_share()
        name = LogName.of(path)
        number = name.number if name else i + 1
        if (epoch := _epoch(files[path])) and number >= 1 << EPOCH_SHIFT:
            raise BinlogError(
                f"file number {number}: expected at most {(1 << EPOCH_SHIFT) - 1} after a failover",
                path=path,
            )
        number += epoch << EPOCH_SHIFT
        if number > _MAX_FILE_NUMBER:
            raise BinlogError(f"file number {number}: expected at most {_MAX_FILE_NUMBER}", path=path)
        if number in owners:
            raise BinlogError(
                f"{os.path.basename(owners[number])} also has the number {number}, so their changes have no"
                " order: read logs of different servers separately",
                path=path,
            )
        owners[number] = path
        yield number, files[path]


def _epoch(file: LogFile) -> int:
    return file.share.epoch if file.share is not None else 0


class _Size(NamedTuple):
    """How a log is stored: its bytes, whether it is divided, and whether it may have more bytes than that."""

    size: int | None = None
    divisible: bool = False
    about: bool = False


def _sizes_of(files: Iterable[LogFile], most: int) -> dict[str, _Size]:
    """The sizes of logs, by their paths; a log is divided if it is longer than `most` and can be split."""
    found: dict[str, _Size] = {}
    others = []
    for file in files:
        size = None if is_url(file.path) else _local_size(file.path)
        if size is not None and size <= most:
            found[file.path] = _Size(size)  # most logs of a folder with many: not opened
        else:
            others.append(file)
    with ThreadPoolExecutor(_PLANNING_THREADS) as threads:
        looked = threads.map(partial(_size_of, most=most), others)
        return found | {file.path: size for file, size in zip(others, looked, strict=True)}


def _size_of(file: LogFile, most: int) -> _Size:
    """The size of one log. Errors in it are left to its reader."""
    with file.open_stored() as source:
        if source.size is None or source.size <= most:
            return _Size(source.size)
        try:
            if source.seekable and source.peek(len(INNODB_MAGIC)) == INNODB_MAGIC:
                return _Size(source.size, divisible=True, about=True)
            head = Head.of(source)
        except BinlogError:
            return _Size(source.size)
        return _Size(source.size, divisible=head is not None and head.splittable)


def _local_size(path: str) -> int | None:
    try:
        return os.stat(path).st_size
    except OSError:
        return None  # as it is stored, it may have another name
