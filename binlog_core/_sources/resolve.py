"""The logs of a target of `open`, in order: of a path, URL, directory, index file, stream or bytes."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from .._base.redaction import shown_url
from ..errors import BinlogError, MissingFileError, NotABinlogError
from .log_files import IndexFile, LogFile, LogFiles
from .log_names import INDEX_NAME, OLD_INDEX_NAME, LeftOut, find_gaps, order_logs
from .places import LocalFiles, StorePlace, is_server, is_url, logs_among, place_of
from .sources import SharedFile

_PATTERN = re.compile(r"[*?\[]")
_INDEX_ENDING = ".index"
_INDEX_LIMIT = 16 << 20
_TOLD = 10  # names that an error lists


def resolve(
    target: Any,
    *,
    keys: Any = None,
    mmap: bool | None = None,
    storage_options: dict[str, Any] | None = None,
) -> LogFiles:
    """The logs of a target.

    Parameters
    ----------
    target : str, path, file object, bytes-like, or a list of them
        A log, ``"-"`` for standard input, a URL that fsspec knows (``s3://``, ``s3a://``, ``gs://``,
        ``https://``, ``file://`` …), a directory of logs, an index file, or a glob pattern of local files. A
        log may be compressed by gzip, zstd or xz, and encrypted by its server.
    keys : path, dict or None
        MySQL's keyring file or MariaDB's key file of encrypted logs, or a mapping of key id (MySQL) or
        number (MariaDB) to bytes.
    mmap : bool or None
        As in ``sources.open_local``.
    storage_options : dict or None
        Options for fsspec; without them, credentials come from the environment.

    Returns
    -------
    LogFiles
        At least one. Those of a directory or pattern by base name and number, an index file's in its order.

    Raises
    ------
    NotABinlogError
        The directory has no log.
    BinlogError
        The target cannot be read, or an index file names logs that are not there; `MissingFileError`: it does
        not exist.
    """

    def log(path: str, found: Any = None) -> LogFile:
        return LogFile(path, found, keys, mmap, storage_options)

    check_no_server(target)
    if isinstance(target, LogFiles):
        return target
    if isinstance(target, LogFile):
        return LogFiles([target])
    if isinstance(target, (list, tuple)):
        # A shell's /backup/* names our index among the logs.
        targets = [one for one in target if not _is_our_index(one)] or target
        files = _joined([resolve(t, keys=keys, mmap=mmap, storage_options=storage_options) for t in targets])
        return LogFiles(_begun(files), files.gaps, files.left_out)
    if not isinstance(target, (str, os.PathLike, IndexFile)):
        if hasattr(target, "read"):
            name = getattr(target, "name", None)
            path = name if isinstance(name, str) and name else "<stream>"
            return LogFiles([log(path, SharedFile(target, path))])
        try:
            memoryview(target)
        except TypeError:
            raise BinlogError(
                f"expected a path, a URL, a binary file object or bytes, not {type(target).__name__}"
            ) from None
        return LogFiles([log("<bytes>", target)])
    index = target if isinstance(target, IndexFile) else None
    path = _text(index.path if index is not None else target)
    if path == "-":
        return LogFiles([log("<stdin>", SharedFile(sys.stdin.buffer, "<stdin>"))])
    if index is None and (matching := _matching(path)) is not None:
        ordered = order_logs(matching, matching)  # a log and its compressed copy may both match
        if not ordered.logs:
            raise MissingFileError("no log matches the pattern", path=path)
        return LogFiles(_begun(map(log, ordered.logs)), ordered.gaps, ordered.left_out)
    place = place_of(path, storage_options)
    if index is None and path.lower().endswith(_INDEX_ENDING) and place.files(path) is None:
        index = IndexFile(path)
    if index is not None:
        listed = _read_index(place, path, absolute=index.absolute)
        return LogFiles(map(log, listed), find_gaps(listed))
    names = place.files(path)
    if names is None:
        return LogFiles([log(path)])
    from .archived import logs_of_archive

    history = logs_of_archive(place, path, names, log(path))
    if history is not None:
        return LogFiles(history)
    found = order_logs(names, logs_among(place, names))
    if not found.logs:
        raise NotABinlogError("the directory has no binary log", path=path)
    return LogFiles(_begun(map(log, found.logs)), found.gaps, found.left_out)


def _begun(found: Iterable[LogFile]) -> list[LogFile]:
    """The logs without .ibb files at their end that were made beforehand.

    The one before them is still written: reading would go on with them, and lose what comes before.
    """
    files = list(found)
    while len(files) > 1 and files[-1].path.endswith(".ibb"):
        try:
            with files[-1].open() as source:
                if source.begun:
                    break
        except BinlogError:  # whoever reads it says so
            break
        del files[-1]
    return files


def check_no_server(target: object) -> None:
    """Refuse a server where files are expected."""
    if is_server(target):
        raise BinlogError(
            "expected files, not a server: archive the server's logs first (binlog-core archive); on Spark,"
            ' option("server", …) does so',
            path=shown_url(target),
        )


def _matching(path: str) -> list[str] | None:
    """Local files that match a pattern, without index files and notes beside logs; None: not a pattern."""
    if is_url(path) or not _PATTERN.search(path) or os.path.exists(path):
        return None
    import glob

    found = sorted(one for one in glob.glob(path, recursive=True) if os.path.isfile(one))
    if not found:
        raise MissingFileError("no file matches the pattern", path=path)
    return [one for one in found if not one.endswith((".index", ".json")) and not _is_our_index(one)]


def _is_our_index(target: object) -> bool:
    if not isinstance(target, (str, os.PathLike)):
        return False
    return os.path.basename(_text(target)) in (INDEX_NAME, OLD_INDEX_NAME)


def _text(path: Any) -> str:
    found = os.fspath(path)
    return found if isinstance(found, str) else os.fsdecode(found)  # a PathLike of bytes


def _joined(parts: Sequence[LogFiles]) -> LogFiles:
    """The logs of several targets, in the given order; gaps are those between all of them."""
    files = [file for part in parts for file in part]
    if not files:
        raise BinlogError("no logs given")
    if len(parts) == 1:
        return parts[0]
    left_out = [one for part in parts for one in part.left_out]
    kept, copies = _each_once(files)
    gaps = find_gaps(file.path for file in kept if file.target is None)
    return LogFiles(kept, gaps, left_out + copies)


def _each_once(files: Iterable[LogFile]) -> tuple[list[LogFile], list[LeftOut]]:
    """Each log once, and the copies that are left out.

    Of ``binlog.*`` a shell makes a list with compressed copies and the index file, which names all logs.
    """
    by_path: dict[object, LogFile] = {}
    for file in files:
        plain = file.target is None
        path = os.path.abspath(file.path) if plain and not is_url(file.path) else file.path
        by_path.setdefault(path if plain else id(file), file)
    paths = [path for path in by_path if isinstance(path, str)]
    copies = order_logs(paths, paths).left_out
    for path, _ in copies:
        del by_path[path]
    return list(by_path.values()), copies


def _read_index(place: StorePlace, path: str, *, absolute: bool) -> list[str]:
    """The logs that an index file names."""
    text = place.head(path, _INDEX_LIMIT) or b""
    lines = [line.strip() for line in os.fsdecode(text).splitlines() if line.strip()]
    if not lines or re.search(rb"[\x00-\x08\x0e-\x1f]", text):
        raise NotABinlogError("not an index file: expected the name of a log on each line", path=path)
    folder = re.split(r"[^/\\]*$", path, maxsplit=1)[0]
    logs, missing = [], []
    for line in lines:
        name = re.split(r"[/\\]", line)[-1]
        if is_url(line) and line != folder + name:
            raise BinlogError(
                f"the index file names a URL, {shown_url(line)!r}: expected names of logs beside it",
                path=path,
            )
        if name and place.exists(folder + name):
            logs.append(folder + name)
        elif absolute and os.path.isabs(line) and isinstance(place, LocalFiles) and place.exists(line):
            logs.append(line)
        else:
            missing.append(line)
    if missing:
        told = ", ".join(missing[:_TOLD]) + (
            f" and {len(missing) - _TOLD} more" if len(missing) > _TOLD else ""
        )
        raise BinlogError(f"the index file names logs that are not beside it: {told}", path=path)
    return logs
