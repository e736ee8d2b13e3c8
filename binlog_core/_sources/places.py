"""The place of a log's path: a local file, or one in a store at a URL."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Protocol, TypeGuard

from .._format.magic import ENCRYPTED_MAGIC, INNODB_MAGIC, MADE_BEFOREHAND, MAGIC, compression_of
from ..errors import BinlogError, DecompressionError, MissingFileError
from .sources import BufferSource, Source, open_local

_SERVERS = ("mysql://", "mariadb://")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.\-:]+://")  # fsspec chains them: simplecache::s3://…
_SNIFF_LEN = 64 << 10
_LOOKING_THREADS = 32


def is_server(target: object) -> TypeGuard[str]:
    """Whether a target is the address of a server, which sends its logs itself."""
    return isinstance(target, str) and target.lower().startswith(_SERVERS)


def is_url(path: str) -> bool:
    """Whether a target is a URL, including ``file://`` and chains of fsspec, and not a path."""
    return _URL.match(path) is not None


def local_path(path: str) -> str | None:
    """The local path of a path or ``file://`` URL; None for any other URL."""
    if not is_url(path):
        return path
    if not path.lower().startswith("file:"):
        return None
    from urllib.parse import unquote, urlsplit

    return unquote(urlsplit(path).path)


class StorePlace(Protocol):
    """A place of files: this machine, or an fsspec file system."""

    def files(self, path: str) -> list[str] | None:
        """Paths of the files in a directory; None: it is not a directory."""

    def head(self, path: str, size: int) -> bytes | None:
        """The first bytes of a file; None if reading would consume them."""

    def exists(self, path: str) -> bool:
        """Whether a file exists."""

    def open(self, path: str, mmap: bool | None) -> Source:
        """The stored bytes of the file."""


class LocalFiles:
    """Local files."""

    def files(self, path: str) -> list[str] | None:
        """Paths of the files in a directory; None: it is not a directory."""
        path = _here(path)
        if not os.path.isdir(path):
            return None
        try:
            return [entry.path for entry in os.scandir(path) if _is_file(entry)]
        except OSError as exc:
            raise BinlogError(f"the directory cannot be read: {exc.strerror}", path=path) from exc

    def head(self, path: str, size: int) -> bytes | None:
        """The first bytes of a file; None if reading would consume them."""
        path = _here(path)
        if os.path.exists(path) and not os.path.isfile(path):  # a pipe
            return None
        with open_local(path, mmap=False) as source:
            return source.peek(size)

    def exists(self, path: str) -> bool:
        """Whether a file exists."""
        return os.path.isfile(_here(path))

    def open(self, path: str, mmap: bool | None) -> Source:
        """The stored bytes of the file."""
        return open_local(_here(path), mmap=mmap)


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:  # a link that leads to itself, say
        return False


def _here(path: str) -> str:
    return local_path(path) or path


def place_of(path: str, storage_options: dict[str, Any] | None = None) -> StorePlace:
    """The place of a path or URL.

    Raises
    ------
    BinlogError
        The store cannot be reached, or a library for it is missing.
    """
    if local_path(path) is not None:
        return LocalFiles()
    from .object_stores import ObjectStore, arrow_filesystem
    from .remote import Remote

    found = arrow_filesystem(path, storage_options)
    return Remote(path, storage_options) if found is None else ObjectStore(path, found[0])


def logs_among(place: StorePlace, paths: Sequence[str]) -> set[str]:
    """The files that are logs, judged by their first bytes."""
    if isinstance(place, LocalFiles):
        return {path for path in paths if _is_log_here(path)}
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_LOOKING_THREADS) as threads:  # reading from a store is waiting, not work
        found = threads.map(lambda path: _is_log_still(place, path), paths)
        return {path for path, one in zip(paths, found, strict=True) if one}


def _is_log_here(path: str) -> bool:
    try:
        now = os.stat(_here(path))
    except OSError:
        return _is_log_still(LocalFiles(), path)
    return _is_log_unchanged(path, now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns)


@lru_cache(maxsize=1 << 14)
def _is_log_unchanged(path: str, *_file: int) -> bool:
    """The same, asked once: an archive is listed again and again, and most of its logs are finished."""
    return _is_log_still(LocalFiles(), path)


def _is_log_still(place: StorePlace, path: str) -> bool:
    try:
        return is_log(place, path)
    except MissingFileError:
        if os.path.basename(path).startswith("."):  # what was being written got its name
            return False
        raise


def is_log(place: StorePlace, path: str) -> bool:
    """Whether a file is a log, plain, encrypted or compressed, from its first bytes."""
    head = place.head(path, 6)
    if head is None:
        return False
    kind = compression_of(head)
    if kind is None:
        if head[:4] == MADE_BEFOREHAND:
            return path.endswith(".ibb")
        return head[:4] in (MAGIC, ENCRYPTED_MAGIC, INNODB_MAGIC)
    from .compressed_files import DecompressedSource

    try:
        with DecompressedSource(BufferSource(place.head(path, _SNIFF_LEN) or b"", path), kind) as source:
            return source.peek(4) in (MAGIC, ENCRYPTED_MAGIC)
    except DecompressionError:
        return False
