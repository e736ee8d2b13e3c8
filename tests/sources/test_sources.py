"""Where the bytes of a log come from: memory, mapped files, files read piece by piece, streams."""

from __future__ import annotations

import gc
import gzip
import io
import lzma
import os
import random
import sys
import tempfile
import threading
import tracemalloc

import numpy as np
import pytest
from support.golden import golden_logs
from support.sources import Pipe, one, read_all, written

from binlog_core._sources import sources
from binlog_core._sources.compressed_files import DecompressedSource
from binlog_core._sources.resolve import resolve
from binlog_core._sources.sources import (
    BufferSource,
    FileSource,
    on_network_mount,
    open_local,
    says_in_use,
)
from binlog_core.errors import BinlogError

pytestmark = pytest.mark.sanitize_long

STOPPED = golden_logs("mysql97/stop")[0]  # closed by its server
KILLED = golden_logs("mysql97/killed")[0]  # its descriptor marks it as in use
DATA = STOPPED.data


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


def test_in_use_is_read_from_the_descriptor_only():
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
        assert not file.closed  # it belongs to its owner
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


class OnlyRead:
    """A file object of somebody's own, which can seek."""

    def __init__(self) -> None:
        file = io.BytesIO(DATA)
        self.read, self.seek, self.tell, self.seekable = file.read, file.seek, file.tell, file.seekable


def temporary() -> object:
    file = tempfile.NamedTemporaryFile()  # noqa: SIM115 - its reader closes it
    file.write(DATA)
    file.seek(0)
    return file


@pytest.mark.parametrize(
    "make",
    [
        OnlyRead,
        temporary,
        lambda: gzip.GzipFile(fileobj=io.BytesIO(gzip.compress(DATA))),
        lambda: io.BufferedRandom(io.BytesIO(DATA)),
    ],
    ids=["own", "temporary", "gzip", "random"],
)
def test_file_objects_of_other_types_are_read_into_buffers(make):
    """Two sources share the file; each takes its lock once for a piece."""
    found: list[bytes] = []

    def work() -> None:
        [log] = resolve(make())
        for source in (log.open(), log.open()):
            buffer = memoryview(bytearray(len(DATA)))
            count = 0
            while got := source.fill(buffer[count:]):
                count += got
            found.append(bytes(buffer[:count]))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()
    assert found == [DATA, DATA]


def test_file_objects_that_fail():
    class Broken(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            raise OSError("broken")

    class Quiet(io.RawIOBase):
        def read(self, size: int = -1) -> None:
            return None

    class Generous(Pipe):
        def read(self, size: int = -1) -> bytes:
            return super().read(size + 1)

    with pytest.raises(BinlogError, match="broken"):
        one(Broken())
    with pytest.raises(BinlogError, match=r"returned \d bytes: expected at most \d"):
        read_all(one(Generous(DATA)))
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


LOG = DATA  # any log will do
