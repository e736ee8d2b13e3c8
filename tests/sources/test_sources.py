"""Where logs come from: memory, files, streams, compressed files, directories, index files, URLs."""

from __future__ import annotations

import gc
import gzip
import io
import lzma
import os
import pickle
import random
import shutil
import sys
import threading
import time
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pytest
from support.golden import golden_logs

import binlog_core
from binlog_core._sources import sources
from binlog_core._sources.compressed_files import DecompressedSource, compression_of
from binlog_core._sources.follow import Follower, logs_after, next_log_after
from binlog_core._sources.log_files import IndexFile, resolve
from binlog_core._sources.log_names import Gap
from binlog_core._sources.sources import (
    BufferSource,
    FileSource,
    Source,
    on_network_mount,
    open_local,
    says_in_use,
)
from binlog_core.errors import BinlogError, DecompressionError, MissingExtraError, NotABinlogError

STOPPED = golden_logs("mysql97/stop")[0]  # closed by its server
KILLED = golden_logs("mysql97/killed")[0]  # its descriptor says in use
DATA = STOPPED.data


def read_all(source: Source, size: int = 1000) -> bytes:
    data = b""
    while part := source.read(size):
        data += part
    return data


def one(target: object, **options: object) -> Source:
    [file] = resolve(target, **options)
    return file.open()


class Pipe(io.RawIOBase):
    """Gives a few bytes at a time and cannot go back."""

    def __init__(self, data: bytes, step: int = 10) -> None:
        self._inner = io.BytesIO(data)
        self._step = step

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._inner.read(min(size, self._step))


# Memory


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda d: np.frombuffer(d, np.uint8)])
def test_bytes(kind):
    source = one(kind(DATA))
    assert source.path == "<bytes>"
    assert source.view() == DATA and source.view().readonly and source.view().format == "B"
    assert (source.size, source.splittable, source.seekable) == (len(DATA), True, True)
    assert read_all(source) == DATA


def test_bytes_are_not_copied():
    data = np.frombuffer(DATA, np.uint8)
    assert np.shares_memory(np.frombuffer(one(data).view(), np.uint8), data)


def test_empty_bytes():
    source = one(b"")
    assert (source.size, source.read(10), source.peek(4), len(source.view())) == (0, b"", b"", 0)


@pytest.mark.parametrize("target", [None, 3, 4.5, {"a"}, {"a": 1}, object()])
def test_what_is_no_target(target):
    with pytest.raises(BinlogError, match=type(target).__name__):
        resolve(target)


# Reading and seeking, the same for every kind of source

KINDS = {
    "bytes": lambda data, folder: BufferSource(data),
    "mapped": lambda data, folder: open_local(written(folder, data), mmap=True),
    "read": lambda data, folder: open_local(written(folder, data), mmap=False),
    "file object": lambda data, folder: FileSource(io.BytesIO(data), "x"),
    "pipe": lambda data, folder: FileSource(Pipe(data), "x"),
    "gzip": lambda data, folder: DecompressedSource(BufferSource(gzip.compress(data)), "gzip"),
    "xz": lambda data, folder: DecompressedSource(BufferSource(lzma.compress(data)), "xz"),
    "gzip pipe": lambda data, folder: DecompressedSource(FileSource(Pipe(gzip.compress(data)), "x"), "gzip"),
}


def written(folder, data: bytes, name: str = "log") -> str:
    path = folder / name
    path.write_bytes(data)
    return str(path)


@pytest.mark.parametrize("kind", KINDS)
def test_read_peek_and_seek(kind, tmp_path):
    rng = random.Random(11)
    data = rng.randbytes(100_000)
    source = KINDS[kind](data, tmp_path)
    assert source.size in (len(data), None)
    assert (source.size is None) == ("pipe" in kind or kind in ("gzip", "xz"))
    at = 0
    for _ in range(400):
        action = rng.randrange(4)
        if action == 0:
            size = rng.randrange(0, 3000)
            assert source.peek(size) == data[at : at + size]
        elif action == 1:
            forward = min(at + rng.randrange(400), len(data))
            source.seek(forward)
            at = forward
        elif action == 2 and source.seekable:
            at = rng.randrange(len(data) + 1)
            source.seek(at)
        else:
            part = source.read(rng.randrange(1, 500))
            assert data.startswith(part, at)
            assert part or at == len(data)
            at += len(part)
        assert source.position == at
    assert source.read(0) == b""
    with pytest.raises(BinlogError, match="outside"):
        source.seek(len(data) + 1)
    if not source.seekable:
        with pytest.raises(BinlogError, match="stream"):
            source.seek(0)
    source.close()
    source.close()
    with pytest.raises(BinlogError):
        source.read(10)


@pytest.mark.parametrize("kind", KINDS)
def test_reading_everything(kind, tmp_path):
    data = random.Random(2).randbytes(300_000)
    with KINDS[kind](data, tmp_path) as source:
        assert read_all(source, 70_001) == data
        assert source.read(10) == b""


def test_one_read_does_not_allocate_what_it_is_asked_for(tmp_path):
    source = open_local(written(tmp_path, DATA), mmap=False)
    tracemalloc.start()
    try:
        assert source.read(1 << 50) == DATA
        assert tracemalloc.get_traced_memory()[1] < 200 << 20
    finally:
        tracemalloc.stop()


# Local files


def test_a_file_is_mapped_unless_it_is_in_use(monkeypatch):
    monkeypatch.setattr(sources, "on_network_mount", lambda path: False)
    assert one(str(STOPPED.path)).view() == DATA
    assert one(KILLED.path).view() is None
    assert one(KILLED.path, mmap=True).view() == KILLED.data
    assert one(STOPPED.path, mmap=False).view() is None
    assert read_all(one(STOPPED.path, mmap=False)) == DATA
    assert read_all(one(KILLED.path)) == KILLED.data
    assert one(KILLED.path).splittable
    assert one(f"file://{STOPPED.path}").view() == DATA
    monkeypatch.setattr(sources, "on_network_mount", lambda path: True)
    assert one(STOPPED.path).view() is None
    assert one(STOPPED.path, mmap=True).view() == DATA


def test_in_use_is_told_by_the_descriptor_only():
    assert says_in_use(KILLED.data[:23])
    assert not says_in_use(STOPPED.data[:23])
    assert not says_in_use(KILLED.data[:22])
    assert not says_in_use(b"\xfebin" + KILLED.data[4:8] + b"\x01" + KILLED.data[9:23])


def test_empty_file(tmp_path):
    path = written(tmp_path, b"")
    for mmap in (None, True, False):
        source = one(path, mmap=mmap)
        assert (source.size, source.read(10), source.peek(1)) == (0, b"", b"")
        source.seek(0)
        assert mmap is not True or len(source.view()) == 0


def test_a_buffer_outlives_its_source(tmp_path):
    source = one(written(tmp_path, DATA), mmap=True)
    view = source.view()
    array = np.frombuffer(view, np.uint8)
    source.close()
    del source, view
    gc.collect()
    assert array.tobytes() == DATA
    os.truncate(tmp_path / "log", len(DATA))  # nothing holds the file itself


def test_a_file_that_shrinks_ends_early(tmp_path):
    path = written(tmp_path, DATA)
    source = one(path, mmap=False)
    source.seek(1000)
    os.truncate(path, 1050)
    assert source.size == 1050
    assert read_all(source) == DATA[1000:1050]


def test_a_missing_file():
    for target in ("/nowhere/log.000001", "file:///nowhere/log.000001", "a\0b"):
        with pytest.raises(BinlogError) as caught:
            one(target)
        assert caught.value.path


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_named_pipe(tmp_path):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    writer = threading.Thread(target=lambda: path.write_bytes(DATA))
    writer.start()
    source = one(path)
    assert not source.splittable and not source.seekable and source.size is None
    assert read_all(source) == DATA
    writer.join()


def test_network_mounts():
    mounts = (
        "/dev/sda1 / ext4 rw 0 0\n"
        "server:/logs /mnt/logs nfs4 rw 0 0\n"
        "/dev/sdb /mnt/logs/local xfs rw 0 0\n"
        "sshfs /mnt/with\\040space fuse.sshfs rw 0 0\n"
        "/dev/sdc /mnt/ntfs fuseblk rw 0 0\n"
        "//win/share /mnt/win cifs rw 0 0\n"
        "broken line\n"
    )
    for path, expected in {
        "/var/lib/mysql/log": False,
        "/mnt/logs/log": True,
        "/mnt/logs2/log": False,
        "/mnt/logs/local/log": False,
        "/mnt/with space/log": True,
        "/mnt/ntfs/log": False,
        "/mnt/win/deep/log": True,
    }.items():
        assert on_network_mount(path, mounts) == expected, path
    assert on_network_mount("/any", "") is False
    assert on_network_mount("/any", "nfs:/ / nfs rw 0 0\n") is True
    assert on_network_mount("/any") in (True, False)


# Streams


def test_file_objects(tmp_path):
    with STOPPED.path.open("rb") as file:
        source = one(file)
        assert source.path == str(STOPPED.path)
        assert source.seekable and not source.splittable and source.view() is None
        assert read_all(source) == DATA
        source.close()
        assert not file.closed  # it is its owner's
    source = one(Pipe(DATA))
    assert (source.path, source.size) == ("<stream>", None)
    assert read_all(source) == DATA


def test_a_file_object_begins_where_it_stands():
    file = io.BytesIO(b"before" + DATA)
    file.seek(6)
    source = one(file)
    assert source.size == len(DATA)
    assert source.read(50) == DATA[:50]
    source.seek(0)
    assert read_all(source) == DATA


def test_file_objects_that_fail():
    class Broken(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            raise OSError("broken")

    class Quiet(io.RawIOBase):
        def read(self, size: int = -1) -> None:
            return None

    with pytest.raises(BinlogError, match="broken"):
        one(Broken())
    with pytest.raises(BinlogError, match="binary mode"):
        one(io.StringIO("text"))
    assert one(Quiet()).read(10) == b""
    closed = io.BytesIO(DATA)
    source = one(closed)
    closed.close()
    with pytest.raises(BinlogError):
        read_all(source)


def test_standard_input(monkeypatch):
    class Stdin:
        buffer = Pipe(DATA)

    monkeypatch.setattr(sys, "stdin", Stdin)
    source = one("-")
    assert source.path == "<stdin>"
    assert read_all(source) == DATA


# Compressed files


def compressed(data: bytes, kind: str, pieces: int = 1) -> bytes:
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
        assert found == DATA  # a byte that means nothing, as gzip's file name or operating system
    with pytest.raises(DecompressionError, match="broken"):
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


# Directories and index files

LOG = DATA  # any log does


def names(target: object, **options: object) -> list[str]:
    return [os.path.basename(file.path) for file in resolve(target, **options)]


def test_a_directory_in_order(tmp_path):
    for name in ("bin.000009", "bin.000010", "bin.999999", "bin.1000000", "relay.000002", "alone.binlog"):
        written(tmp_path, LOG, name)
    written(tmp_path, gzip.compress(LOG), "bin.000011.gz")
    written(tmp_path, b"./bin.000009\n./bin.000010\n", "bin.index")
    written(tmp_path, b"", "bin.000012")
    written(tmp_path, b"text", "notes.000001")
    written(tmp_path, gzip.compress(b"text"), "notes.gz")
    (tmp_path / "bin.000013").mkdir()
    found = resolve(tmp_path)
    expected = [
        "alone.binlog",
        "bin.000009",
        "bin.000010",
        "bin.000011.gz",
        "bin.999999",
        "bin.1000000",
        "relay.000002",
    ]
    assert [os.path.basename(file.path) for file in found] == expected
    assert found.gaps == (Gap(str(tmp_path / "bin"), 12, 999998),)
    assert read_all(found[3].open()) == LOG
    assert [f.path for f in found[1:3]] == [str(tmp_path / "bin.000009"), str(tmp_path / "bin.000010")]


def test_a_numbered_file_that_is_no_log_is_a_gap(tmp_path):
    for number in (3, 4, 6):
        written(tmp_path, LOG, f"bin.{number:06}")
    for number in (2, 5, 7):
        written(tmp_path, b"\0" * 100, f"bin.{number:06}")
    base = str(tmp_path / "bin")
    assert resolve(tmp_path).gaps == (Gap(base, 2, 2), Gap(base, 5, 5), Gap(base, 7, 7))


def test_a_log_and_its_compressed_copy_are_one(tmp_path):
    written(tmp_path, LOG, "bin.000001")
    written(tmp_path, gzip.compress(LOG), "bin.000001.gz")
    assert names(tmp_path) == ["bin.000001"]


def test_files_with_the_same_number_are_told(tmp_path):
    """The one that is named as servers do is read, whichever sorts first."""
    plain = written(tmp_path, LOG, "bin.000001")
    written(tmp_path, LOG, "bin.0000001")
    written(tmp_path, gzip.compress(LOG), "bin.000001.gz")
    packed = written(tmp_path, gzip.compress(LOG), "bin.000002.gz")
    written(tmp_path, LOG, "bin.02")
    found = resolve(tmp_path)
    assert [f.path for f in found] == [plain, packed]
    assert [(os.path.basename(one.path), one.kept) for one in found.left_out] == [
        ("bin.000001.gz", plain),
        ("bin.0000001", plain),
        ("bin.02", packed),
    ]
    with binlog_core.open(tmp_path) as log, pytest.warns(binlog_core.BinlogWarning, match="same number"):
        log.headers()
    assert log.report.files_left_out == 3


def test_a_link_to_itself_does_not_hide_the_other_files(tmp_path):
    written(tmp_path, LOG, "bin.000001")
    (tmp_path / "bin.000002").symlink_to(tmp_path / "bin.000002")
    assert names(tmp_path) == ["bin.000001"]


def test_a_directory_without_logs(tmp_path):
    written(tmp_path, b"text", "readme.txt")
    with pytest.raises(NotABinlogError, match="no binary log") as caught:
        resolve(str(tmp_path))
    assert caught.value.path == str(tmp_path)


def test_encrypted_and_in_use_logs_belong_to_a_directory(tmp_path):
    for i, log in enumerate([*golden_logs("*/encrypted"), KILLED]):
        written(tmp_path, log.data, f"bin.{i:06}")
    assert len(resolve(tmp_path)) == 4


def test_an_index_file(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("bin.000002", "bin.000001", "bin.000005", "bin.000006"):
        written(tmp_path, LOG, name)
    absolute = written(elsewhere, LOG, "bin.000004")
    lines = ["./bin.000001", "bin.000002", absolute, "/gone/away/bin.000005", r".\bin.000006"]
    for newline in ("\n", "\r\n"):
        index = written(tmp_path, newline.join([*lines, ""]).encode(), "bin.index")
        with pytest.raises(BinlogError, match=r"not beside it: .*bin\.000004"):
            resolve(index)
        found = resolve(IndexFile(index, absolute=True))
        assert [f.path for f in found] == [
            str(tmp_path / "bin.000001"),
            str(tmp_path / "bin.000002"),
            absolute,
            str(tmp_path / "bin.000005"),
            str(tmp_path / "bin.000006"),
        ]
        assert found[0].open().view() == LOG


def test_an_index_file_in_the_current_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, LOG, "bin.000001")
    written(tmp_path, LOG, "bin.000003")
    written(tmp_path, b"./bin.000001\n./bin.000003\n", "bin.index")
    found = resolve("bin.index")
    assert [f.path for f in found] == ["bin.000001", "bin.000003"]
    assert found.gaps == (Gap("bin", 2, 2),)


def test_an_index_file_whose_logs_are_gone(tmp_path):
    written(tmp_path, LOG, "bin.000002")
    index = written(tmp_path, b"./bin.000001\n./bin.000002\n./bin.000003\n", "bin.index")
    with pytest.raises(BinlogError, match=r"not beside it: \./bin\.000001, \./bin\.000003") as caught:
        resolve(index)
    assert caught.value.path == index


@pytest.mark.parametrize(
    "text", [b"", b"\n\n", b"a text\n", b"bin.000001\nand more\n", b"\xfebin", b"bin.000001\n\0"]
)
def test_what_is_no_index_file(tmp_path, text):
    path = written(tmp_path, text, "any")
    assert [f.path for f in resolve(path)] == [path]


def test_a_text_file_named_like_a_log_leads_nowhere(tmp_path):
    """Not even where each line names a log: what it says would be opened."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    secret = written(elsewhere, LOG, "bin.000007")
    for name in ("bin.000001", "list.txt"):
        path = written(tmp_path, f"{secret}\n".encode(), name)
        assert [f.path for f in resolve(path)] == [path]
        with pytest.raises(NotABinlogError):
            binlog_core.open(path)


@pytest.mark.parametrize(
    "line",
    [
        "http://localhost:1/bin.000001",
        "file:///{}/bin.000001",
        "simplecache::file://{}/bin.000001",
        "reference://bin.000001::file://{}/x.000001",
    ],
)
def test_an_index_file_names_no_urls(tmp_path, line):
    written(tmp_path, LOG, "bin.000001")
    index = written(tmp_path, line.format(tmp_path).encode(), "bin.index")
    for target in (index, IndexFile(index, absolute=True)):
        with pytest.raises(BinlogError, match="names a URL"):
            resolve(target)


def test_an_index_file_names_logs_beside_it_only(tmp_path):
    inner, outer = tmp_path / "logs", tmp_path / "outside"
    inner.mkdir()
    outer.mkdir()
    written(outer, LOG, "bin.000001")
    written(inner, LOG, "bin.000002")
    for line in ("../outside/bin.000001", str(outer / "bin.000001")):
        index = written(inner, line.encode(), "bin.index")
        with pytest.raises(BinlogError, match="not beside it"):
            resolve(index)
    index = written(inner, b"../outside/bin.000002\n", "logs.txt")
    assert [f.path for f in resolve(IndexFile(index))] == [str(inner / "bin.000002")]
    with pytest.raises(NotABinlogError, match="not an index file"):
        resolve(IndexFile(written(inner, LOG, "some")))


def test_log_files_are_a_picklable_sequence(tmp_path):
    written(tmp_path, LOG, "bin.000001")
    written(tmp_path, LOG, "bin.000002")
    found = resolve(tmp_path, mmap=False)
    assert len(found) == 2 and found[-1].path.endswith("2") and len(found[:1]) == 1
    assert read_all(pickle.loads(pickle.dumps(found[1])).open()) == LOG


# Growing logs


def test_waiting_for_more(tmp_path):
    path = written(tmp_path, DATA[:100])
    source = one(path, mmap=False)
    assert read_all(source) == DATA[:100]
    assert source.wait(0.01, poll=0.001) is False
    stop = threading.Event()
    stop.set()
    assert source.wait(60, stop=stop) is False

    def write() -> None:
        time.sleep(0.05)
        with open(path, "ab") as file:
            file.write(DATA[100:])

    writer = threading.Thread(target=write)
    writer.start()
    assert source.wait(60, poll=0.005) is True
    writer.join()
    assert read_all(source) == DATA[100:]


def test_following_from_log_to_log(tmp_path):
    first = written(tmp_path, DATA[:100], "bin.000009")
    source = one(first, mmap=False)
    stop = threading.Event()
    follower = Follower(source, poll=0.001, stop=stop)
    assert follower.wait(0) == "more"
    assert read_all(source) == DATA[:100]
    assert follower.wait(0.005) == "timeout"
    second = tmp_path / "bin.000010"
    second.write_bytes(b"\xfe")  # the server has only begun
    written(tmp_path, b"text", "bin.index")
    assert follower.wait(0.005) == "timeout"
    second.write_bytes(DATA)
    with open(first, "ab") as file:
        file.write(b"rotate")
    assert follower.wait() == "more"
    assert read_all(source) == b"rotate"
    assert follower.wait() == "next"
    assert follower.next_path == str(second)
    last = one(str(second), mmap=False)
    read_all(last)
    threading.Timer(0.05, stop.set).start()
    assert Follower(last, poll=0.001, stop=stop).wait() == "stopped"


def test_next_log(tmp_path, monkeypatch):
    for name in ("bin.999999", "bin.1000000", "bin.1000002", "other.1000001"):
        written(tmp_path, LOG, name)
    path = str(tmp_path / "bin.")
    assert next_log_after(path + "999999") == path + "1000000"
    assert next_log_after(path + "1000000") is None  # 1000002 is not the next
    assert logs_after(path + "1000000") == {1000002: path + "1000002"}
    assert next_log_after(path + "1000002") is None
    assert next_log_after(str(tmp_path / "alone.binlog")) is None
    monkeypatch.chdir(tmp_path)
    assert next_log_after("bin.999999") == "bin.1000000"
    encrypted = golden_logs("mysql97/encrypted")[0].data
    written(tmp_path, encrypted[:511], "bin.1000003")
    assert next_log_after("bin.1000002") is None
    written(tmp_path, encrypted[:512], "bin.1000003")
    assert next_log_after("bin.1000002") == "bin.1000003"


def test_a_missing_file_is_a_file_not_found_error_too(tmp_path: Path) -> None:
    for target in (tmp_path / "nowhere.000001", str(tmp_path / "nowhere.*"), f"file://{tmp_path}/nowhere"):
        for read in (binlog_core.open, lambda target: binlog_core.splits.plan_splits(target, 1 << 20)):
            with pytest.raises(FileNotFoundError) as caught:
                read(target)
            error = caught.value
            assert isinstance(error, binlog_core.BinlogError)
            assert (error.errno, error.filename) == (2, error.path)
            assert "nowhere" in str(error)
            again = pickle.loads(pickle.dumps(error))
            assert (type(again), str(again), again.filename) == (type(error), str(error), error.filename)


def test_a_pattern_stands_for_the_logs_that_it_matches(tmp_path: Path) -> None:
    log = golden_logs("mysql97/types_ints")[0].path
    for name in ("log.000001", "log.000003", "log.index", "log.000001.json", "[x].000007"):
        shutil.copy(log, tmp_path / name)
    with binlog_core.open(f"{tmp_path}/log.*") as opened:
        assert [Path(file.path).name for file in opened.files] == ["log.000001", "log.000003"]
        assert [(gap.first, gap.last) for gap in opened.files.gaps] == [(2, 2)]
    with binlog_core.open(tmp_path / "[x].000007") as opened:  # a name that is there is no pattern
        assert len(opened.files) == 1
    assert len(binlog_core.splits.plan_splits(f"{tmp_path}/log.*")) == 2
