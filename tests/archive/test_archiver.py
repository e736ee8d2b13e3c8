"""An archive of a server in memory: byte identity, resuming, crashes, power cuts, disks that refuse."""

from __future__ import annotations

import errno
import os
import random
import threading
from pathlib import Path
from typing import Any

import binlog_core
import pytest
from binlog_core.archive.archiver import Archiver
from binlog_core.archive.files import Files
from binlog_core.archive.keeper import Keeper
from support.archive import DroppingFiles, FailingFiles, FakeFeed, FakeServer, PowerCut


def archive(server: FakeServer, folder: Path, *, files: Files | None = None, **settings: Any) -> Archiver:
    feed = {key: settings.pop(key) for key in ("seed", "most", "semi_sync") if key in settings}
    keep = {key: settings.pop(key) for key in ("compress", "keep") if key in settings}
    settings.setdefault("connect", lambda: server.connect(**feed))
    settings.setdefault("until_now", True)
    archiver = Archiver(folder=str(folder), keeper=Keeper(files, **keep), files=files, **settings)
    archiver.run()
    return archiver


def assert_same(server: FakeServer, folder: Path) -> None:
    """Every log of the archive is the server's, the growing one a prefix of it."""
    names = sorted(path.name for path in folder.iterdir() if path.suffix[1:].isdigit())
    assert names == list(server.logs)
    for name in names:
        assert (folder / name).read_bytes() == server.bytes_of(name)


def busy(server: FakeServer, transactions: int = 30, seed: int = 1) -> FakeServer:
    chance = random.Random(seed)
    for _ in range(transactions):
        server.transaction("n" * chance.randrange(200))
        if chance.random() < 0.1:
            server.rotate()
        elif chance.random() < 0.03:
            server.restart()
    return server


SERVERS = {
    "mysql": lambda: FakeServer("8.0.36"),
    "mysql 5.6": lambda: FakeServer("5.6.24", checksum=False),
    "mariadb": lambda: FakeServer("10.11.6-MariaDB-log"),
    "mariadb without checksums": lambda: FakeServer("11.4.2-MariaDB", checksum=False),
}


@pytest.fixture(params=SERVERS, ids=lambda name: name.replace(" ", "-"))
def server(request: pytest.FixtureRequest) -> FakeServer:
    return busy(SERVERS[request.param](), 20)


def test_an_archive_holds_the_servers_bytes(server: FakeServer, tmp_path: Path) -> None:
    archiver = archive(server, tmp_path)
    assert_same(server, tmp_path)
    assert archiver.status.position == len(server.bytes_of(server.current))
    assert archiver.status.gtids == str(server.executed)
    assert archiver.status.state == "stopped"


def test_it_goes_on_inside_a_log(server: FakeServer, tmp_path: Path) -> None:
    for seed in range(6):
        archive(server, tmp_path, seed=seed)
        assert_same(server, tmp_path)
        server.transaction()
        if seed == 3:
            server.rotate()
    archiver = archive(server, tmp_path)
    assert_same(server, tmp_path)
    assert archiver.status.gtids == str(server.executed)


def test_it_goes_on_behind_torn_events(server: FakeServer, tmp_path: Path) -> None:
    archive(server, tmp_path)
    path = tmp_path / server.current
    data = path.read_bytes()
    sizes = [*range(30), *range(len(data) - 60, len(data)), *random.Random(2).sample(range(len(data)), 20)]
    for size in sizes:
        path.write_bytes(data[:size])
        archive(server, tmp_path, seed=size)
        assert path.read_bytes() == data


def test_lines_that_are_lost_lose_nothing(server: FakeServer, tmp_path: Path) -> None:
    feeds: list[FakeFeed] = []

    def connect() -> FakeFeed:
        feeds.append(server.connect(seed=len(feeds), cut_after=len(feeds) // 2, most=3))
        return feeds[-1]

    archiver = archive(server, tmp_path, connect=connect, stop=_NoWaiting())
    assert_same(server, tmp_path)
    assert archiver.status.reconnects == len(feeds) - 1 > 10
    assert archiver.status.gtids == str(server.executed)


class _NoWaiting(threading.Event):
    def wait(self, timeout: float | None = None) -> bool:
        return self.is_set()


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
