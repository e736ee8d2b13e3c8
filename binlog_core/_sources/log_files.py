"""What `open` was given, as logs in order: a path, URL, directory, index file, stream or bytes."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, overload
from urllib.parse import unquote, urlsplit

from .._redaction import shown_url
from ..errors import BinlogError, DecompressionError, NotABinlogError
from .sources import ENCRYPTED_MAGIC, MAGIC, BufferSource, FileSource, Source, open_local

_NUMBERED = re.compile(r"(?P<base>.*)\.(?P<number>\d+)(?P<packed>\.(?:gz|zst|xz))?", re.DOTALL)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.\-:]+://")
_INDEX_LIMIT = 16 << 20
_SNIFF_LEN = 64 << 10
_LOOKING_THREADS = 32


class Gap(NamedTuple):
    """Numbers that are missing between the logs of a directory or index file.

    Parameters
    ----------
    base : str
        The logs' name without the number.
    first, last : int
        The missing numbers, both included.
    """

    base: str
    first: int
    last: int


@dataclass(frozen=True, repr=False)
class LogFile:
    """One log, not opened yet.

    Parameters
    ----------
    path : str
        Its path or URL; ``<bytes>``, ``<stdin>`` or the file object's name where it has none.
    target : object
        The bytes or file object, None for a path.
    keys, mmap, storage_options
        As `resolve` takes them.
    """

    path: str
    target: Any = field(default=None, repr=False)
    keys: Any = field(default=None, repr=False)
    mmap: bool | None = None
    storage_options: dict[str, Any] | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """Its path as it is shown: of a URL without user, password and signature."""
        return shown_url(self.path)

    def __repr__(self) -> str:
        return f"LogFile({self.name!r})"

    def open(self) -> Source:
        """Open it, decrypted and decompressed.

        Raises
        ------
        BinlogError
            It cannot be opened, its key is missing, or a library for it is.
        """
        return unwrap(self.open_stored(), self.keys)

    def open_stored(self) -> Source:
        """Open it as it is stored."""
        if self.target is None:
            return _place_of(self.path, self.storage_options).open(self.path, self.mmap)
        if hasattr(self.target, "read"):
            return FileSource(self.target, self.path)
        return BufferSource(self.target, self.path)


class LogFiles(Sequence[LogFile]):
    """Logs in order.

    Parameters
    ----------
    files : iterable of LogFile

    Attributes
    ----------
    gaps : tuple of Gap
        Numbers that are missing between them: logs that were purged, lost or are no logs any more.
    """

    def __init__(self, files: Iterable[LogFile], gaps: Iterable[Gap] = ()) -> None:
        self._files = tuple(files)
        self.gaps = tuple(gaps)

    @overload
    def __getitem__(self, index: int) -> LogFile: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[LogFile, ...]: ...
    def __getitem__(self, index: int | slice) -> LogFile | tuple[LogFile, ...]:
        return self._files[index]

    def __len__(self) -> int:
        return len(self._files)


def resolve(
    target: Any,
    *,
    keys: Any = None,
    mmap: bool | None = None,
    storage_options: dict[str, Any] | None = None,
) -> LogFiles:
    """The logs that a target stands for.

    Parameters
    ----------
    target : str, path, file object, bytes-like, or a list of them
        A log, ``"-"`` for standard input, a URL that fsspec knows (``s3://``, ``s3a://``, ``gs://``,
        ``https://``, ``file://`` …), a directory of logs or an index file. A log may be compressed by
        gzip, zstd or xz, and encrypted by its server.
    keys : path, dict or None
        MySQL's keyring file or MariaDB's key file of encrypted logs, or a mapping of key id (MySQL) or
        number (MariaDB) to bytes.
    mmap : bool or None
        As in ``sources.open_local``.
    storage_options : dict or None
        For fsspec; without it credentials come from the environment.

    Returns
    -------
    LogFiles
        At least one. A directory's logs by base name and number, an index file's in its order.

    Raises
    ------
    NotABinlogError
        A directory without a log.
    BinlogError
        The target does not exist, or an index file names logs that do not.
    """

    def log(path: str, found: Any = None) -> LogFile:
        return LogFile(path, found, keys, mmap, storage_options)

    if isinstance(target, (list, tuple)):
        return _joined([resolve(t, keys=keys, mmap=mmap, storage_options=storage_options) for t in target])
    if not isinstance(target, (str, os.PathLike)):
        if hasattr(target, "read"):
            name = getattr(target, "name", None)
            return LogFiles([log(name if isinstance(name, str) else "<stream>", target)])
        try:
            memoryview(target)
        except TypeError:
            raise BinlogError(
                f"a log is a path, a URL, a binary file object or bytes, not {type(target).__name__}"
            ) from None
        return LogFiles([log("<bytes>", target)])
    path = os.fspath(target)
    if not isinstance(path, str):  # a PathLike of bytes
        path = os.fsdecode(path)
    if path == "-":
        return LogFiles([log("<stdin>", sys.stdin.buffer)])
    place = _place_of(path, storage_options)
    names = place.files(path)
    if names is not None:
        paths, gaps = order_logs(names, _logs_among(place, names).__contains__)
        if not paths:
            raise NotABinlogError("the directory has no binary log", path=path)
        return LogFiles(map(log, paths), gaps)
    listed = _read_index(place, path)
    if listed is None:
        return LogFiles([log(path)])
    return LogFiles(map(log, listed), find_gaps(listed))


def _joined(parts: Sequence[LogFiles]) -> LogFiles:
    """Several targets' logs, in the order given; gaps are those between all of them."""
    files = [file for part in parts for file in part]
    if not files:
        raise BinlogError("no logs given")
    if len(parts) == 1:
        return parts[0]
    return LogFiles(files, find_gaps(file.path for file in files if file.target is None))


def unwrap(source: Source, keys: Any = None) -> Source:
    """Put decompression and decryption around the stored bytes of a log, as its first bytes ask for.

    Parameters
    ----------
    source : Source
        Closed if this fails.
    keys : path, dict or None

    Returns
    -------
    Source
        `source` itself where it is a plain log, or no log at all.
    """
    from .compressed_files import DecompressedSource, compression_of
    from .mariadb_encryption import MariaDBDecryptedSource, find_start_encryption
    from .mysql_encryption import MySQLDecryptedSource

    try:
        kind = compression_of(source.peek(6))
        if kind is not None:
            source = DecompressedSource(source, kind)
        magic = source.peek(4)
        if magic == ENCRYPTED_MAGIC:
            return MySQLDecryptedSource(source, keys)
        if magic == MAGIC and (start := find_start_encryption(source)) is not None:
            return MariaDBDecryptedSource(source, keys, start)
    except BaseException:
        source.close()
        raise
    return source


def order_logs(paths: Iterable[str], is_log: Any) -> tuple[list[str], list[Gap]]:
    """The logs among the files of a directory, in order, and the numbers that are missing.

    Parameters
    ----------
    paths : iterable of str
    is_log : callable of str to bool
        Whether the file is a log, from its first bytes.

    Returns
    -------
    list of str, list of Gap
    """
    found: dict[tuple[str, int, str], str] = {}
    others: list[str] = []
    for path in sorted(paths):  # the plain file comes before its compressed copy
        if not is_log(path):
            others.append(path)
            continue
        match = _NUMBERED.fullmatch(path)
        key = (match["base"], int(match["number"]), "") if match else (path, -1, path)
        found.setdefault(key, path)
    logs = [found[key] for key in sorted(found)]
    bases = {base for base, number, _ in found if number >= 0}
    # A numbered file that is no log stands where a log was: its number counts as missing.
    lost = [p for p in others if (m := _NUMBERED.fullmatch(p)) and m["base"] in bases]
    return logs, find_gaps(logs, lost)


def find_gaps(logs: Iterable[str], lost: Iterable[str] = ()) -> list[Gap]:
    """Numbers that are missing between logs of the same base name, or that only `lost` files have."""
    numbers: dict[str, set[int]] = {}
    missing: dict[str, set[int]] = {}
    for target, paths in ((numbers, logs), (missing, lost)):
        for path in paths:
            if match := _NUMBERED.fullmatch(path):
                target.setdefault(match["base"], set()).add(int(match["number"]))
    gaps = []
    for base, have in sorted(numbers.items()):
        edges = sorted(have)
        found = [Gap(base, a + 1, b - 1) for a, b in pairwise(edges) if b > a + 1]
        outside = missing.get(base, set()) - have
        found += [Gap(base, n, n) for n in outside if not edges[0] < n < edges[-1]]
        gaps += sorted(found)
    return gaps


def next_log_after(path: str) -> str | None:
    """The log that follows a local one: the next number of the same base name in its directory.

    Parameters
    ----------
    path : str

    Returns
    -------
    str or None
        None: there is none yet, or what shows how to read it is not written yet.
    """
    match = _NUMBERED.fullmatch(path)
    if not match:
        return None
    later = []
    place = _Local()
    for name in place.files(os.path.dirname(path) or ".") or ():
        name = os.path.join(os.path.dirname(path), os.path.basename(name))
        other = _NUMBERED.fullmatch(name)
        if other and other["base"] == match["base"] and int(other["number"]) > int(match["number"]):
            later.append((int(other["number"]), name))
    for _, name in sorted(later):
        try:
            head = place.head(name, 512) or b""
        except BinlogError:  # purged between listing and looking
            continue
        written = len(head) == 512 if head[:4] == ENCRYPTED_MAGIC else _is_log(place, name)
        return name if written else None
    return None


class Place(Protocol):
    """Where paths lead to: this machine's files, or an fsspec file system."""

    def files(self, path: str) -> list[str] | None:
        """Paths of the files in a directory, None: it is none."""

    def head(self, path: str, size: int) -> bytes | None:
        """The first bytes of a file, None: reading them would consume them."""

    def exists(self, path: str) -> bool:
        """Whether a file is there."""

    def open(self, path: str, mmap: bool | None) -> Source:
        """The file's bytes as they are stored."""


class _Local:
    """Files of this machine."""

    def files(self, path: str) -> list[str] | None:
        path = _local_path(path)
        if not os.path.isdir(path):
            return None
        try:
            return [entry.path for entry in os.scandir(path) if entry.is_file()]
        except OSError as exc:
            raise BinlogError(f"the directory cannot be read: {exc.strerror}", path=path) from exc

    def head(self, path: str, size: int) -> bytes | None:
        path = _local_path(path)
        if os.path.exists(path) and not os.path.isfile(path):  # a pipe
            return None
        with open_local(path, mmap=False) as source:
            return source.peek(size)

    def exists(self, path: str) -> bool:
        return os.path.isfile(_local_path(path))

    def open(self, path: str, mmap: bool | None) -> Source:
        return open_local(_local_path(path), mmap=mmap)


def _local_path(path: str) -> str:
    return unquote(urlsplit(path).path) if path.lower().startswith("file:") else path


def _place_of(path: str, storage_options: dict[str, Any] | None) -> Place:
    if _URL.match(path) and not path.lower().startswith("file:"):
        from .object_stores import ObjectStore, arrow_filesystem
        from .remote import Remote

        found = arrow_filesystem(path, storage_options)
        return Remote(path, storage_options) if found is None else ObjectStore(path, found[0])
    return _Local()


def _logs_among(place: Place, paths: Sequence[str]) -> set[str]:
    if isinstance(place, _Local):
        return {path for path in paths if _is_log(place, path)}
    with ThreadPoolExecutor(_LOOKING_THREADS) as threads:  # a look into a store is waiting, not work
        found = threads.map(lambda path: _is_log(place, path), paths)
        return {path for path, is_log in zip(paths, found, strict=True) if is_log}


def _is_log(place: Place, path: str) -> bool:
    from .compressed_files import DecompressedSource, compression_of

    head = place.head(path, 6)
    if head is None:
        return False
    kind = compression_of(head)
    if kind is None:
        return head[:4] in (MAGIC, ENCRYPTED_MAGIC)
    try:
        with DecompressedSource(BufferSource(place.head(path, _SNIFF_LEN) or b"", path), kind) as source:
            return source.peek(4) in (MAGIC, ENCRYPTED_MAGIC)
    except DecompressionError:
        return False


def _read_index(place: Place, path: str) -> list[str] | None:
    """The logs that an index file names, None if it is no index file."""
    head = place.head(path, _SNIFF_LEN)
    if not head or re.search(rb"[\x00-\x08\x0e-\x1f]", head):  # no text: a log
        return None
    text = place.head(path, _INDEX_LIMIT) or b""
    lines = [line.strip() for line in os.fsdecode(text).splitlines() if line.strip()]
    if not lines or not all(_NUMBERED.fullmatch(line) for line in lines):
        return None
    folder = re.split(r"[^/\\]*$", path, maxsplit=1)[0]
    logs, missing = [], []
    for line in lines:
        absolute = _URL.match(line) or os.path.isabs(line)
        given = line if absolute else folder + line.removeprefix("./")
        beside = folder + re.split(r"[/\\]", line)[-1]
        found = next((p for p in (given, beside) if place.exists(p)), None)
        if found is None:
            missing.append(line)
        else:
            logs.append(found)
    if missing:
        raise BinlogError(f"the index file names logs that are not there: {', '.join(missing)}", path=path)
    return logs
