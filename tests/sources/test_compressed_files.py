"""Logs that were compressed whole: gzip, zstd, xz."""

from __future__ import annotations

import lzma
import random
import sys
import tracemalloc
import zlib

import pytest
from support.golden import golden_logs
from support.sources import Pipe, compressed, one, read_all, written

from binlog_core._format.magic import compression_of
from binlog_core._sources.compressed_files import DecompressedSource
from binlog_core._sources.sources import (
    BufferSource,
)
from binlog_core.errors import DecompressionError, MissingExtraError

pytestmark = pytest.mark.sanitize_long

DATA = golden_logs("mysql97/stop")[0].data


@pytest.mark.parametrize("kind", ["gzip", "zstd", "xz"])
@pytest.mark.parametrize("pieces", [1, 3])
def test_compressed_files(kind, pieces, tmp_path):
    path = written(tmp_path, compressed(DATA, kind, pieces), "log")
    assert compression_of(compressed(DATA, kind, pieces)[:6]) == kind
    source = one(path)
    assert not source.splittable and source.view() is None and source.size is None
    assert source.read(4) == b"\xfebin"
    source.seek(500)
    assert read_all(source, 77) == DATA[500:]
    source.seek(100)
    assert read_all(source) == DATA[100:]
    assert read_all(one(Pipe(compressed(DATA, kind, pieces)))) == DATA
    assert read_all(one(compressed(DATA, kind, pieces))) == DATA


@pytest.mark.parametrize("kind", ["gzip", "zstd", "xz"])
def test_large_compressed_files(kind):
    rng = random.Random(4)
    data = b"\xfebin" + b"".join(rng.randbytes(50) * rng.randrange(1, 9) for _ in range(20_000))
    assert read_all(one(compressed(data, kind, 5)), 100_000) == data


@pytest.mark.parametrize("kind", ["gzip", "xz"])
def test_padding_between_and_after_streams(kind):
    packed = compressed(DATA[:500], kind) + bytes(8) + compressed(DATA[500:], kind) + bytes(70_000)
    assert read_all(one(packed)) == DATA


@pytest.mark.parametrize("kind", ["gzip", "zstd", "xz"])
def test_a_cut_compressed_file_gives_what_it_has_and_then_says_so(kind):
    packed = compressed(DATA, kind)
    for cut in range(6, len(packed), 7):
        source = DecompressedSource(BufferSource(packed[:cut], "log"), kind)
        found = b""
        with pytest.raises(DecompressionError, match=f"{kind} file is cut") as caught:
            while True:
                part = source.read(100)
                assert part
                found += part
        assert caught.value.path == "log"
        assert DATA.startswith(found)


@pytest.mark.parametrize("kind", ["gzip", "zstd", "xz"])
def test_a_broken_compressed_file(kind):
    packed = compressed(DATA, kind)
    for at in range(8, len(packed) - 30, 41):
        broken = packed[:at] + bytes([packed[at] ^ 0x55]) + packed[at + 1 :]
        try:
            found = read_all(DecompressedSource(BufferSource(broken), kind))
        except DecompressionError:
            continue
        assert found == DATA  # a byte without meaning, such as gzip's file name or operating system
    with pytest.raises(DecompressionError, match="damaged"):
        read_all(DecompressedSource(BufferSource(packed + b"no more of it"), kind))


@pytest.mark.parametrize("kind", ["gzip", "zstd", "xz"])
def test_a_bomb_is_read_in_bounded_memory(kind):
    bomb = compressed(bytes(64 << 20), kind)
    assert len(bomb) < 1 << 20
    source = DecompressedSource(BufferSource(bomb), kind)
    tracemalloc.start()
    try:
        total = 0
        while part := source.read(1 << 16):
            total += len(part)
        assert tracemalloc.get_traced_memory()[1] < 40 << 20
    finally:
        tracemalloc.stop()
    assert total == 64 << 20


def test_xz_with_a_huge_dictionary_is_refused():
    """3 GiB by the header of a file of a few bytes."""
    packed = bytearray(lzma.compress(b"\xfebin", lzma.FORMAT_XZ, preset=0))
    header = packed[12:24]  # of the block: its size, flags, filter, size of its properties, the dictionary
    assert header[2:4] == b"\x21\x01"
    header[4] = 39
    packed[12:24] = header[:8] + zlib.crc32(header[:8]).to_bytes(4, "little")
    with pytest.raises(DecompressionError, match=r"[Mm]emory"):
        one(bytes(packed))


def test_zstd_without_the_library(monkeypatch):
    packed = compressed(DATA, "zstd")
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(MissingExtraError, match=r"zstandard.*binlog_core\[zstd\]"):
        one(packed)
