"""The log that grows: torn events, bytes that differ, and what is on disk."""

from __future__ import annotations

import errno
import os
import random
import re
import threading
from pathlib import Path

import pytest
from support.archive import (
    FakeServer,
    archive,
    assert_same,
)

import binlog_core
from binlog_core.archive.files import Files
from binlog_core.archive.status import Status


def test_it_continues_after_torn_events(server: FakeServer, tmp_path: Path) -> None:
    archive(server, tmp_path)
    path = tmp_path / server.current
    data = path.read_bytes()
    sizes = [*range(30), *range(len(data) - 60, len(data)), *random.Random(2).sample(range(len(data)), 20)]
    for size in sizes:
        path.write_bytes(data[:size])
        archive(server, tmp_path, seed=size)
        assert path.read_bytes() == data


def test_a_finished_log_may_be_read_only(tmp_path: Path) -> None:
    server = FakeServer()
    for _ in range(2):
        server.transaction()
        server.rotate()
    archive(server, tmp_path)
    (tmp_path / server.current).unlink()  # the archiver ended before it
    last = max(path for path in tmp_path.iterdir() if path.suffix[1:].isdigit())
    asked = []

    class Protected(Files):
        def open(self, path: str, *, new: bool = False) -> int:
            if path == str(last):
                asked.append(path)
                raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
            return super().open(path, new=new)

    server.transaction()
    archive(server, tmp_path, files=Protected())
    assert asked
    assert_same(server, tmp_path)


def test_what_is_there_is_compared_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("binlog_core.archive.growing._PIECE", 16)
    server = FakeServer("5.6.24", checksum=False)
    for _ in range(3):
        server.transaction()
    archive(server, tmp_path)
    sizes = []

    class Watched(Files):
        def read(self, descriptor: int, size: int, position: int) -> bytes:
            sizes.append(size)
            return super().read(descriptor, size, position)

    archive(server, tmp_path, files=Watched())
    assert len(sizes) > 10 and max(sizes) <= 16
    assert_same(server, tmp_path)
    path = tmp_path / server.current
    data = path.read_bytes()
    notes = [match.start() + 10 for match in re.finditer(b"x{20}", data)]
    assert len(notes) == 3
    for at in notes:
        path.write_bytes(data[:at] + b"y" + data[at + 1 :])
        with pytest.raises(binlog_core.DivergedError) as caught:
            archive(server, tmp_path)
        assert caught.value.offset == at
    for at in notes:  # zeros are what a power cut leaves
        path.write_bytes(data[:at] + b"\0" + data[at + 1 :])
        archive(server, tmp_path)
        assert path.read_bytes() == data


def test_what_goes_to_disk_beside_the_stream_counts_once_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("binlog_core.archive.archiver._UNSYNCED", 1)
    server = FakeServer()
    for _ in range(20):
        server.transaction()
    stuck, free, met = threading.Event(), threading.Event(), threading.Event()

    class SlowFiles(Files):
        def sync(self, descriptor: int) -> None:
            if threading.current_thread().name.startswith("archive-sync"):
                stuck.set()
                met.set()
                free.wait(60)
                stuck.clear()
            super().sync(descriptor)

    told = []

    def see(status: Status) -> None:
        if stuck.is_set() and not free.is_set():
            told.append(status.position)
            if len(told) == 5:
                assert set(told) == {0}  # nothing counts while the disk is busy
                free.set()
        else:
            met.wait(60)

    archive(server, tmp_path, files=SlowFiles(), on_status=see, most=2)
    assert len(told) == 5
    assert_same(server, tmp_path)


def test_a_disk_that_fails_beside_the_stream_is_an_error(
    server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("binlog_core.archive.archiver._UNSYNCED", 1)

    class BadFiles(Files):
        def sync(self, descriptor: int) -> None:
            if threading.current_thread().name.startswith("archive-sync"):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            super().sync(descriptor)

    with pytest.raises(binlog_core.BinlogError, match="cannot write to the disk: Input/output error"):
        archive(server, tmp_path, files=BadFiles(), most=2)
    archive(server, tmp_path)
    assert_same(server, tmp_path)
