"""Logs in object stores and on web servers, through fsspec."""

from __future__ import annotations

import io
from typing import Any, BinaryIO, cast

from .._base.redaction import shown_cause
from ..errors import BinlogError, MissingExtraError, cannot_read
from .object_stores import check_listed
from .sources import FileSource, Source

# Bytes to fetch ahead: few after a seek, doubled while reading continues.
# The first bytes show what a log is; with an index, little more is read of most logs.
_FIRST_READ_LEN = 4 << 10
READ_AHEAD_LEN = 8 << 20


class Remote:
    """The fsspec file system that a URL leads to.

    Parameters
    ----------
    url : str
        ``s3a://`` is read as ``s3://``.
    storage_options : dict or None
        Options for fsspec; without them, credentials come from the environment.
    """

    def __init__(self, url: str, storage_options: dict[str, Any] | None = None) -> None:
        try:
            import fsspec
        except ImportError as exc:
            raise MissingExtraError.of("fsspec", "remote", "a log at a URL", path=url) from exc
        self._url = url
        try:
            self._fs, _ = fsspec.core.url_to_fs(_known_scheme(url), **(storage_options or {}))
        except ImportError as exc:  # fsspec says which library the scheme needs
            raise MissingExtraError(str(exc), path=url) from shown_cause(exc)
        except Exception as exc:
            raise _error(url, exc) from shown_cause(exc)

    def files(self, path: str) -> list[str] | None:
        """Paths of the files in a directory; None: it is not a directory."""
        web = path.startswith(("http://", "https://"))
        if web and not path.endswith("/"):  # listing fetches the page, and the page may be the log
            return None
        try:
            self._fs.invalidate_cache(self._inner(path))  # of what others have written since
            if not web and self._fs.info(self._inner(path))["type"] != "directory":
                return None
            entries = self._fs.ls(self._inner(path), detail=True)
        except Exception as exc:
            raise _error(path, exc) from shown_cause(exc)
        found = [e["name"] for e in entries if e["type"] == "file"]
        if not web:
            check_listed(found, self._inner(path), path)
        return [self._fs.unstrip_protocol(one) for one in found]

    def head(self, path: str, size: int) -> bytes | None:
        """The first bytes of a file."""
        # Not cat_file: a web server without support for ranges would send the whole log.
        with RemoteSource(self._open(path, size), path) as source:
            return source.peek(size)

    def exists(self, path: str) -> bool:
        """Whether a file exists."""
        try:
            return bool(self._fs.exists(self._inner(path)))
        except Exception as exc:
            raise _error(path, exc) from shown_cause(exc)

    def open(self, path: str, mmap: bool | None = None) -> Source:
        """The stored bytes of the file, read by ranges."""
        return RemoteSource(self._open(path, _FIRST_READ_LEN), path)

    def _open(self, path: str, block_len: int) -> BinaryIO:
        try:
            handle = self._fs.open(self._inner(path), "rb", block_size=block_len, cache_type="readahead")
        except Exception as exc:
            raise _error(path, exc) from shown_cause(exc)
        if isinstance(handle, io.BytesIO):  # of memory: the same object, and place in it, for all who open it
            handle = io.BytesIO(handle.getvalue())
        _measure(handle)
        return cast(BinaryIO, handle)

    def _inner(self, path: str) -> str:
        return str(self._fs._strip_protocol(_known_scheme(path)))


class RemoteSource(FileSource):
    """A file of an fsspec file system; a stream if a web server does not support ranges."""

    def __init__(self, handle: BinaryIO, path: str) -> None:
        size: int | None = getattr(handle, "size", None)
        if isinstance(handle, io.BytesIO):
            size = len(handle.getbuffer())
        super().__init__(handle, path, owned=True, splittable=size is not None)
        self._size = size
        self.seekable = size is not None  # fsspec calls streams seekable, too
        self.read_once = False  # asked for again, a web server sends it again
        cache: Any = getattr(handle, "cache", None)
        self._cache = cache if hasattr(cache, "blocksize") else None  # of fsspec's, which reads ahead
        self._first_len: int = cache.blocksize if self._cache is not None else 0

    @property
    def size(self) -> int | None:
        """Bytes of the log as it was when opened."""
        return self._size

    def _fetch(self, size: int) -> bytes:
        try:
            data = super()._fetch(size)
            if self._cache is not None:
                self._cache.blocksize = min(2 * self._cache.blocksize, READ_AHEAD_LEN)
            if (
                size
                and not data
                and self._size is not None
                and (here := self._open_handle().tell()) < self._size
            ):
                raise BinlogError(
                    f"the server said that the log has {self._size} bytes, but sends {here}",
                    path=self.path,
                )
            return data
        except BinlogError:
            raise
        except Exception as exc:  # each store raises different errors
            raise _error(self.path, exc) from shown_cause(exc)

    def _move(self, position: int) -> None:
        if self._cache is not None:
            self._cache.blocksize = self._first_len
        super()._move(position)


def _measure(handle: Any) -> None:
    """Check the length of each range that a store sends: fsspec itself accepts a wrong one."""
    cache = getattr(handle, "cache", None)
    fetch = getattr(cache, "fetcher", None)
    if cache is None or fetch is None:
        return

    def measured(start: int, end: int) -> bytes:
        data: bytes = fetch(start, end)
        if len(data) != end - start:
            raise OSError(f"expected {end - start} bytes, received {len(data)}")
        return data

    cache.fetcher = measured


def _known_scheme(url: str) -> str:
    return "s3://" + url[6:] if url.lower().startswith("s3a://") else url


def _error(path: str, exc: Exception) -> BinlogError:
    return cannot_read(exc, f"cannot be read: {type(exc).__name__}: {exc}", path)
