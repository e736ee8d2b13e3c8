"""Sources of log bytes, for the tests of sources."""

from __future__ import annotations

import gzip
import io
import lzma
from pathlib import Path

import pytest

from binlog_core._sources.log_files import unwrap
from binlog_core._sources.resolve import resolve
from binlog_core._sources.sources import BufferSource, Source
from support.golden import Golden


def read_all(source: Source, size: int = 1000) -> bytes:
    """What a source gives, in pieces of at most `size` bytes."""
    data = b""
    while part := source.read(size):
        assert len(part) <= size
        data += part
    return data


def one(target: object, **options: object) -> Source:
    """The source of the only log of a target."""
    [file] = resolve(target, **options)
    return file.open()


def written(folder: Path, data: bytes, name: str = "log") -> str:
    """The path of a new file."""
    path = folder / name
    path.write_bytes(data)
    return str(path)


def opened(log: Golden, data: bytes | None = None, keys: object = "golden") -> Source:
    """A golden log decrypted, or other data in its place, with its own keys or others."""
    return unwrap(
        BufferSource(log.data if data is None else data, "log"), log.keys if keys == "golden" else keys
    )


class Pipe(io.RawIOBase):
    """A stream that gives a few bytes at a time and cannot seek."""

    def __init__(self, data: bytes, step: int = 10) -> None:
        self._inner = io.BytesIO(data)
        self._step = step

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._inner.read(min(size, self._step))


def compressed(data: bytes, kind: str, pieces: int = 1) -> bytes:
    """Data as gzip, zstd or xz, in this many consecutive streams."""
    if kind == "zstd":
        pytest.importorskip("zstandard")
    step = -(-len(data) // pieces)
    return b"".join(_compress(data[i : i + step], kind) for i in range(0, len(data), step))


def _compress(data: bytes, kind: str) -> bytes:
    if kind == "gzip":
        return gzip.compress(data, 1)
    if kind == "xz":
        return lzma.compress(data, preset=0)
    import zstandard

    return zstandard.ZstdCompressor(write_checksum=True).compress(data)
