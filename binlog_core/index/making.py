"""An index beside the logs: which range of transactions may contain a key, time, table, GTID or thread.

``binlog_core.index.index(target)`` makes it. If you select by a condition, a table, a time or GTIDs, readers
find the index on their own and read only the ranges that may have matches. The rows are the same without it.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from typing import Any

from .._sources.log_files import LogFile
from .._sources.log_names import INDEX_NAME as NAME
from .._sources.places import local_path
from .._sources.resolve import resolve
from ..errors import BinlogError
from ..limits import DEFAULT_LIMITS, Limits
from ..report import BinlogWarning
from ..schema.definitions import Definitions, load
from .building import built
from .files import (
    Identity,
    IndexDamage,
    Part,
    entry_of,
    identity_of,
    index_path,
    need_pyarrow,
    opened,
    remove_old_index,
    write,
)

__all__ = ["NAME", "IndexedLog", "index"]


@dataclass(frozen=True, slots=True)
class IndexedLog:
    """A log in an index.

    Parameters
    ----------
    path : str
        The path of the log.
    index : str
        The path of the index.
    bytes : int
        The log's bytes, as it is stored.
    rows : int
        The rows that the index has for it: one for each table in each range.
    made : bool
        Whether this call indexed it; False if an earlier one did.
    """

    path: str
    index: str
    bytes: int
    rows: int
    made: bool


def index(
    target: Any,
    *,
    schema: Mapping[str, str] | str | PathLike[str] | None = None,
    schema_start: Mapping[str, str] | str | PathLike[str] | None = None,
    keys: Any = None,
    limits: Limits = DEFAULT_LIMITS,
    anew: bool = False,
    progress: Callable[[str], None] | None = None,
) -> list[IndexedLog]:
    """Make the indexes of logs, or bring them up to date: one file in each directory of logs.

    An index keeps its entries for logs that have not changed, and drops those for logs that no longer exist.
    The old index is used until the new one is complete; a crash leaves either the old or the new one.

    Parameters
    ----------
    target : str, path, or a list of them
        Local logs, directories (also of an archive), index files of servers, or glob patterns.
    schema, schema_start
        As for `binlog_core.open`, for logs without primary keys. Without keys, the index has only times,
        tables, GTIDs and threads.
    keys : path or dict, optional
        As for `binlog_core.open`. The index is then readable only by its owner, as it contains key values.
    limits : Limits
        Limits on memory and time.
    anew : bool
        Make the index again, even for logs that have not changed.
    progress : callable, optional
        Called with the path of each log before it is read.

    Returns
    -------
    list of IndexedLog
        The indexed logs in their order.

    Raises
    ------
    BinlogError
        A log cannot be read or is not a local file, or the index cannot be written.
    MissingExtraError
        pyarrow is not installed.
    """
    need_pyarrow()
    files = [_local(file) for file in resolve(target, keys=keys)]
    given = None if schema is None else load(schema)
    start = None if schema_start is None else load(schema_start)
    by_index: dict[str, list[LogFile]] = {}
    for file in files:
        by_index.setdefault(index_path(file.path), []).append(file)
    # Of "ddl" the definitions of one log are those with which the next one begins.
    definitions = None if given is None else Definitions(given, start=start, limits=limits)
    found: dict[str, IndexedLog] = {}

    def make(file: LogFile, identity: Identity) -> Part:
        if progress is not None:
            progress(file.path)
        return part_of(file, identity, definitions, limits)

    for path, logs in by_index.items():
        try:
            _bring_up(path, logs, make, found, anew=anew or given is not None)
        except IndexDamage:
            _bring_up(path, logs, make, found, anew=True)
        if (old := remove_old_index(path)) is not None:
            said = f"{old} was of an earlier version: it was made anew, as {NAME}"
            warnings.warn(said, BinlogWarning, stacklevel=2)
    return [found[file.path] for file in files]


def _bring_up(
    path: str,
    logs: list[LogFile],
    make: Callable[[LogFile, Identity], Part],
    found: dict[str, IndexedLog],
    *,
    anew: bool,
) -> None:
    """Write one index, if it is not up to date."""
    with ExitStack() as stack:
        held: dict[str, Part] = {}
        old = None
        if not anew and (old := opened(path, None)) is not None:
            stack.enter_context(old)
            for i, entry in enumerate(old.entries):
                held[entry.log] = entry, partial(old.table, i)
        parts: list[Part] = []
        for file in logs:
            identity = _identity_of(file)
            part = held.pop(os.path.basename(file.path), None)
            made = part is None or part[0].identity != identity or not identity.tail
            if part is None or made:
                part = make(file, identity)
            parts.append(part)
            found[file.path] = IndexedLog(file.path, path, identity.size, part[0].rows, made)
        # Nothing is kept for logs that no longer exist.
        there = [
            part for name, part in held.items() if os.path.exists(os.path.join(os.path.dirname(path), name))
        ]
        if any(found[file.path].made for file in logs) or len(there) < len(held):
            write(path, [part for part in (*there, *parts) if part[0].rows], mode=_mode(logs[0]))
        elif old is not None:
            old.check()


def part_of(
    file: LogFile, identity: Identity, definitions: Definitions | None = None, limits: Limits = DEFAULT_LIMITS
) -> Part:
    """A log's part of an index; for the package.

    `identity` is that of the file that will contain the log, which may differ from the one that is read.
    """
    made = built(file, definitions, limits)
    name = os.path.basename(file.path)
    return entry_of(name, identity, made.rows, has_gtids=made.has_gtids, whole=made.whole), lambda: made.rows


def _mode(file: LogFile) -> int:
    """An index contains key values: it has the logs' permissions; for encrypted logs, only the owner's."""
    return 0o600 if file.keys is not None else os.stat(file.path).st_mode & 0o666


def _identity_of(file: LogFile) -> Identity:
    with file.open_stored() as source:
        found = identity_of(source)
    if found is None:
        raise BinlogError("a pipe cannot be indexed: expected a file", path=file.path)
    return found


def _local(file: LogFile) -> LogFile:
    path = local_path(file.path) if file.target is None else None
    if path is None:
        raise BinlogError("expected a local file: index logs before they are uploaded", path=file.name)
    return replace(file, path=path)
