"""Worse disks: power cuts before every change, and calls that fail."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path

import pytest
from support.archive import (
    SERVERS,
    DroppingFiles,
    FailingFiles,
    FakeServer,
    PowerCut,
    archive,
    assert_same,
    busy,
)

import binlog_core


@pytest.mark.parametrize("ragged", [False, True], ids=["clean", "ragged"])
@pytest.mark.parametrize("kind", SERVERS)
def test_a_power_cut_loses_nothing_that_counted(kind: str, tmp_path: Path, ragged: bool) -> None:
    """The machine stops before every single change of the disk; what is not synced is lost."""
    server = busy(SERVERS[kind](), 5)
    server.rotate()
    busy(server, 3)
    stop_at = 0
    chance = random.Random(7) if ragged else None
    while True:
        stop_at += 1
        folder, keep = tmp_path / f"{stop_at}", tmp_path / f"{stop_at}.inodes"
        folder.mkdir()
        keep.mkdir()
        files = DroppingFiles(stop_at, ragged=chance)
        files.watch(str(folder), str(keep))
        feed = server.connect(most=4, semi_sync=True, seed=stop_at)
        try:
            archive(server, folder, files=files, connect=lambda feed=feed: feed)
        except PowerCut:
            files.cut(str(folder))
        else:
            break
        if feed.acknowledged:  # what was acknowledged is there
            name, position = feed.acknowledged[-1]
            held = (folder / name).read_bytes()
            assert _plain(held[:position]) == _plain(server.bytes_of(name)[:position])
        archive(server, folder)
        assert_same(server, folder)
    assert stop_at > 15 and feed.acknowledged[-1] == (server.current, len(server.bytes_of(server.current)))


def _plain(data: bytes) -> bytes:
    return data[:21] + bytes([data[21] & ~1]) + data[22:]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_a_disk_that_refuses_leaves_whole_events(tmp_path: Path, number: int) -> None:
    server = busy(FakeServer(), 10)
    fail_at = 0
    met = set()
    while True:
        fail_at += 1
        folder = tmp_path / str(fail_at)
        files = FailingFiles(fail_at, number)
        try:
            archive(server, folder, files=files, most=4, semi_sync=True)
        except binlog_core.BinlogError as error:
            assert os.strerror(number) in str(error) and str(folder) in str(error)
        else:
            break
        met.add(files.failed)
        for path in folder.iterdir():
            if path.suffix[1:].isdigit():
                held = path.read_bytes()
                assert _plain(server.bytes_of(path.name)).startswith(_plain(held) if len(held) > 21 else held)
                if held:
                    *_, last = binlog_core.open(held).headers()
                    assert last["position"] + last["event_length"] == len(held)
        archive(server, folder)
        assert_same(server, folder)
        assert not [path for path in folder.iterdir() if path.name.startswith(".unfinished")]
    assert met >= {"open", "write", "sync", "sync_directory", "rename"}
