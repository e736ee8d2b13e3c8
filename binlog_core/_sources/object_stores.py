"""Logs in object stores and HDFS, through pyarrow's own file systems, which need no other library."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from .._base.redaction import shown_cause
from ..errors import BinlogError, cannot_read
from .sources import FileSource, Source

_FIRST_READ_LEN = 4 << 10  # after a seek; four times as many with each read
_READ_AHEAD_LEN = 8 << 20
_MARK_LEN = 16
_LONGEST_JSON = 256 << 20
_TRIES = 4

_S3 = ("s3", "s3a", "s3n")
_GCS = ("gs", "gcs")
_AZURE = ("abfs", "abfss")
_HADOOP = ("hdfs", "viewfs")

_SCHEMES = {"s3": _S3, "gs": _GCS, "az": _AZURE, "hdfs": _HADOOP}

# Names of fsspec and others, and pyarrow's names.
_S3_NAMES = {
    "key": "access_key",
    "secret": "secret_key",
    "token": "session_token",
    "anon": "anonymous",
    "endpoint_url": "endpoint_override",
    "endpoint": "endpoint_override",
    "region_name": "region",
}
_KNOWN = {
    "s3": frozenset(
        (
            *("access_key", "secret_key", "session_token", "anonymous", "region", "endpoint_override"),
            *("scheme", "role_arn", "session_name", "external_id", "request_timeout", "connect_timeout"),
        )
    ),
    "gs": frozenset(("access_token", "anonymous", "endpoint_override", "project_id", "scheme")),
    "az": frozenset(("account_name", "account_key", "sas_token", "tenant_id", "client_id", "client_secret")),
    "hdfs": frozenset(("user", "replication", "kerb_ticket")),
}


def arrow_filesystem(url: str, options: dict[str, Any] | None = None) -> tuple[Any, str] | None:
    """The pyarrow file system of a URL, and the path in it.

    Parameters
    ----------
    url : str
        ``s3://`` (also ``s3a://``), ``gs://``, ``abfss://`` or ``hdfs://``.
    options : dict or None
        Credentials, region and endpoint under pyarrow's names; for S3 also under those of fsspec. Without
        them, they come from the environment or the machine's role.

    Returns
    -------
    (pyarrow.fs.FileSystem, str) or None
        None: pyarrow is not installed, or does not know the scheme or an option.

    Raises
    ------
    BinlogError
        The store cannot be reached.
    """
    try:
        import pyarrow
        import pyarrow.fs
    except ImportError:
        return None
    kind = _kind(url)
    if kind is None:
        return None
    given = _s3_options(dict(options or {})) if kind == "s3" else dict(options or {})
    if not _KNOWN[kind].issuperset(given):
        return None
    parts = urlsplit(url)
    try:
        filesystem = _made(kind, parts.netloc, json.dumps(given, sort_keys=True))
    except (OSError, TypeError, ValueError, pyarrow.ArrowException) as error:
        raise cannot_read(error, f"cannot be reached: {type(error).__name__}: {error}", url) from shown_cause(
            error
        )
    if kind == "hdfs":
        return filesystem, parts.path
    container = parts.netloc.partition("@")[0] if kind == "az" else parts.netloc
    return filesystem, (container + parts.path).rstrip("/")


def named_alike(url: str) -> str:
    """A URL under one name of its scheme, to be compared with others; no store is asked."""
    return f"{_kind(url) or urlsplit(url).scheme}://{url.partition('://')[2].rstrip('/')}"


def _kind(url: str) -> str | None:
    """The kind of store that has a URL; None: pyarrow does not know it."""
    scheme = urlsplit(url).scheme.lower()
    return next((kind for kind, schemes in _SCHEMES.items() if scheme in schemes), None)


def s3_words(options: dict[str, Any]) -> dict[str, Any]:
    """Options under pyarrow's names."""
    flat = {**options, **options.get("client_kwargs", {})}
    return {_S3_NAMES.get(name, name): value for name, value in flat.items() if name != "client_kwargs"}


def _s3_options(given: dict[str, Any]) -> dict[str, Any]:
    found = s3_words(given)
    told = s3_endpoint()  # pyarrow itself does not look for it
    endpoint = found.setdefault("endpoint_override", told) if told else found.get("endpoint_override")
    if isinstance(endpoint, str) and "://" in endpoint:
        found["scheme"], _, found["endpoint_override"] = endpoint.partition("://")
    if isinstance(found.get("anonymous"), str):  # options of Spark are text
        found["anonymous"] = found["anonymous"].lower() == "true"
    for name in ("connect_timeout", "request_timeout"):
        if name in found:
            found[name] = float(found[name])
    return found


def s3_endpoint() -> str | None:
    """The endpoint in the environment."""
    variables = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
    return next((os.environ[name] for name in variables if os.environ.get(name)), None)


@lru_cache(maxsize=64)
def _made(kind: str, place: str, options: str) -> Any:
    from pyarrow import fs

    given = json.loads(options)
    if kind == "s3":
        if not given:
            return fs.FileSystem.from_uri(f"s3://{place}/")[0]  # which asks for the bucket's region
        return fs.S3FileSystem(**given)
    if kind == "gs":
        return fs.GcsFileSystem(**given) if given else fs.FileSystem.from_uri(f"gs://{place}/")[0]
    if kind == "az":
        account = place.partition("@")[2].partition(".")[0]
        return fs.AzureFileSystem(**{"account_name": account, **given})
    host, _, port = place.partition(":")
    return fs.HadoopFileSystem(host or "default", int(port or 0), **given)


class ObjectStore:
    """The places of one store's URLs.

    Parameters
    ----------
    url : str
    filesystem : pyarrow.fs.FileSystem
    """

    def __init__(self, url: str, filesystem: Any) -> None:
        self._scheme = "s3" if urlsplit(url).scheme.lower() in _S3 else urlsplit(url).scheme
        self._place = urlsplit(url).netloc
        self._fs = filesystem

    def files(self, path: str) -> list[str] | None:
        """Paths of the files in a directory; None: it is not a directory."""
        from pyarrow.fs import FileSelector, FileType

        inner = self._inner(path)
        with telling(path):
            if not path.endswith("/") and self._fs.get_file_info(inner).type is not FileType.Directory:
                return None
            found = self._fs.get_file_info(FileSelector(inner))
        files = [info.path for info in found if info.type is FileType.File]
        check_listed(files, inner, path)
        return [self._outer(one) for one in files]

    def head(self, path: str, size: int) -> bytes | None:
        """The first bytes of a file."""
        with telling(path), self._fs.open_input_file(self._inner(path)) as file:
            return ObjectSource(file, path, first_len=size).peek(size)

    def exists(self, path: str) -> bool:
        """Whether a file exists."""
        from pyarrow.fs import FileType

        with telling(path):
            return bool(self._fs.get_file_info(self._inner(path)).type is not FileType.NotFound)

    def open(self, path: str, mmap: bool | None = None) -> Source:
        """The stored bytes of the file, read by ranges."""
        with telling(path):
            return ObjectSource(self._fs.open_input_file(self._inner(path)), path)

    def _inner(self, path: str) -> str:
        parts = urlsplit(path)
        if self._scheme in _HADOOP:
            return parts.path
        container = parts.netloc.partition("@")[0] if self._scheme in _AZURE else parts.netloc
        # Not urlsplit's path: ? and # can be part of a key.
        return (container + "/" + path.partition("://")[2].partition("/")[2]).rstrip("/")

    def _outer(self, inner: str) -> str:
        if self._scheme in _HADOOP:
            return f"{self._scheme}://{self._place}{inner}"
        return f"{self._scheme}://{self._place}/{inner.partition('/')[2]}"


class ObjectSource(FileSource):
    """An object, read by ranges that grow as reading goes on, so that reading only its head stays cheap."""

    def __init__(self, handle: Any, path: str, *, first_len: int = _FIRST_READ_LEN) -> None:
        super().__init__(handle, path, owned=True, splittable=True)
        with telling(path):
            self._size: int = handle.size()
        self._next = 0  # the byte that `_fetch` gives next
        self._block = memoryview(b"")  # bytes fetched from there on
        self._ahead_len = first_len

    @property
    def size(self) -> int | None:
        """Bytes of the log as it was when opened."""
        return self._size

    def _fetch(self, size: int) -> bytes:
        if not self._block:
            length = min(max(size, self._ahead_len), self._size - self._next)
            if length <= 0:
                return b""
            with telling(self.path):
                self._block = self._read_at(length)
            self._ahead_len = min(4 * self._ahead_len, _READ_AHEAD_LEN)
        data = bytes(self._block[:size])
        self._block = self._block[len(data) :]
        self._next += len(data)
        return data

    def _read_at(self, length: int) -> memoryview:
        """This many bytes from the current position.

        If an answer is too short, pyarrow's S3 leaves the rest of the memory unchanged, and claims that
        everything came. So a mark is put where the last bytes go; bytes that look like the mark are requested
        again with a different mark.
        """
        handle: Any = self._open_handle()
        block = bytearray(length)
        mark = os.urandom(min(length, _MARK_LEN))
        for _ in range(2):
            block[-len(mark) :] = mark
            handle.seek(self._next)
            count = handle.readinto(block)
            if count == length and block[-len(mark) :] != mark:
                return memoryview(block).toreadonly()
            mark = bytes(~byte & 0xFF for byte in mark)
        raise BinlogError(
            f"the store said that the log has {self._size} bytes, but does not send those from"
            f" {self._next} to {self._next + length}",
            path=self.path,
        )

    def _move(self, position: int) -> None:
        if self._next <= position < self._next + len(self._block):
            self._block = self._block[position - self._next :]
        else:
            self._block = memoryview(b"")
            self._ahead_len = _FIRST_READ_LEN
        self._next = position


def check_listed(files: list[str], folder: str, path: str) -> None:
    """Refuse listed files that are not in the requested folder.

    Raises
    ------
    BinlogError
        The store lists a file in another place.
    """
    begin = folder.rstrip("/") + "/"
    for file in files:
        if not file.startswith(begin) or "/" in file[len(begin) :]:
            raise BinlogError(f"the store lists {file[:255]!r}, which is not in this folder", path=path)


def load_json(filesystem: Any, path: str) -> Any:
    """The contents of a JSON file.

    Raises
    ------
    OSError, ValueError, RecursionError
        It cannot be read, is longer than any that this package writes, or is not JSON.
    """
    before = None
    for tries_left in reversed(range(_TRIES)):
        with filesystem.open_input_file(path) as file:
            if (size := file.size()) > _LONGEST_JSON:
                raise ValueError(f"{size} bytes long: expected at most {_LONGEST_JSON}")
            try:
                return json.loads(file.read())
            except (OSError, ValueError):  # in a store it may be replaced between its length and its bytes
                if size == before or not tries_left:
                    raise
        before = size
    raise AssertionError


@contextlib.contextmanager
def telling(path: str, table: str | None = None) -> Iterator[None]:
    """Turn errors of pyarrow's file systems into a BinlogError that names the file."""
    import pyarrow

    try:
        yield
    except BinlogError:
        raise
    except (OSError, pyarrow.ArrowException) as error:
        told = cannot_read(error, f"cannot be read: {type(error).__name__}: {error}", path)
        raise told.located(table=table) from shown_cause(error)
