"""An archive of a server in memory: byte identity, resuming, crashes, power cuts, disks that refuse."""

from __future__ import annotations

import errno
import os
import random
import re
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import zstandard
from support.archive import DroppingFiles, FailingFiles, FakeFeed, FakeServer, PowerCut

import binlog_core
from binlog_core._index.files import NAME, opened
from binlog_core.archive.archiver import Archiver
from binlog_core.archive.feed import LineLost
from binlog_core.archive.files import Files
from binlog_core.archive.keeper import Keeper
from binlog_core.archive.status import Status


def archive(server: FakeServer, folder: Path, *, files: Files | None = None, **settings: Any) -> Archiver:
    feed = {key: settings.pop(key) for key in ("seed", "most", "semi_sync") if key in settings}
    keep = {key: settings.pop(key) for key in ("compress", "keep", "index") if key in settings}
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


def test_lines_that_are_lost_lose_nothing(server: FakeServer, tmp_path: Path) -> None:
    feeds: list[FakeFeed] = []

    def connect() -> FakeFeed:
        feeds.append(server.connect(seed=len(feeds), cut_after=len(feeds) // 2, most=3))
        return feeds[-1]

    archiver = archive(server, tmp_path, connect=connect, stop=_NoWaiting())
    assert_same(server, tmp_path)
    assert archiver.status.reconnects == len(feeds) - 1 > 10
    assert archiver.status.gtids == str(server.executed)


def test_lines_that_are_lost_long_after_each_other_are_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = busy(FakeServer(), 3)
    clock, lost = [0.0], []
    monkeypatch.setattr("binlog_core.archive.archiver.time.monotonic", lambda: clock[0])

    def idle() -> bool:  # nothing new for an hour, then the line is lost
        if clock[0] % 7200 == 0:
            clock[0] += 3600
            return True
        clock[0] += 3600
        lost.append(clock[0])
        if len(lost) < 5:
            raise LineLost("cut")
        return False

    archiver = archive(
        server,
        tmp_path,
        connect=lambda: server.connect(idle=idle),
        until_now=False,
        stop=_NoWaiting(),
    )
    assert archiver.status.reconnects == 4


class _NoWaiting(threading.Event):
    def wait(self, timeout: float | None = None) -> bool:
        return self.is_set()


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

    archive(server, tmp_path, files=SlowFiles(), told_status=see, most=2)
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


@pytest.mark.parametrize(
    "name", ["../bin.000001", "/tmp/bin.000001", ".hidden.000001", "bin", "a\0.000001", "x.1.zst"]
)
def test_a_servers_names_lead_nowhere_else(tmp_path: Path, name: str) -> None:
    server = FakeServer()
    server.logs = {name: server.logs[server.current]}
    server.before = {name: server.executed}
    with pytest.raises(binlog_core.BinlogError, match="calls a log"):
        archive(server, tmp_path / "a")
    assert {path.name for path in tmp_path.rglob("*")} <= {"a", ".lock"}


def test_a_second_archiver_is_refused(tmp_path: Path) -> None:
    server = busy(FakeServer(), 3)

    def idle() -> bool:
        with pytest.raises(binlog_core.BinlogError, match=rf"another archiver .* \(process {os.getpid()}\)"):
            archive(server, tmp_path)
        return False

    archive(server, tmp_path, connect=lambda: server.connect(idle=idle), until_now=False)
    assert_same(server, tmp_path)


def test_a_directory_of_other_logs_is_not_an_archive(tmp_path: Path) -> None:
    (tmp_path / "mysql-bin.000001").write_bytes(b"\xfebin")
    with pytest.raises(binlog_core.BinlogError, match="is not an archive"):
        archive(FakeServer(), tmp_path)


def test_a_log_that_the_server_holds_damaged_is_kept_and_told(tmp_path: Path) -> None:
    server = busy(FakeServer(), 5)
    damaged = server.current
    server.logs[damaged]._out[-1] ^= 1
    server.rotate()
    server.transaction()
    with pytest.warns(binlog_core.BinlogWarning, match="the checksum of the event at"):
        archiver = archive(server, tmp_path)
    assert archiver.status.damaged_logs == [damaged]
    assert_same(server, tmp_path)


def test_finished_logs_are_compressed_and_removed(tmp_path: Path) -> None:
    server = FakeServer()
    server.clock = int(time.time()) - 10_000
    server.logs.clear()
    server.begin_log(1)
    for number in range(6):
        server.transaction()
        server.clock += 1000
        server.rotate()
        if number % 2:
            archive(server, tmp_path, compress=True, keep=6500.0)
    archive(server, tmp_path, compress=True, keep=6500.0)
    names = sorted(path.name for path in tmp_path.iterdir() if "bin" in path.name)
    assert names == [*(f"mysql-bin.00000{n}.zst" for n in (4, 5, 6)), "mysql-bin.000007"]
    for name in names:
        held = tmp_path / name
        data = (
            zstandard.decompress(held.read_bytes(), 1 << 20) if name.endswith(".zst") else held.read_bytes()
        )
        assert data == server.bytes_of(name.removesuffix(".zst"))
    with binlog_core.open(tmp_path) as log:
        assert [change.after["id"] for change in log.rows()] == [4, 5, 6]


@pytest.mark.parametrize("compress", [False, True])
def test_an_index_of_finished_logs_is_kept(tmp_path: Path, compress: bool) -> None:
    server = FakeServer()
    for number in range(5):
        server.transaction()
        server.rotate()
        if number != 2:  # what one run leaves undone the next one does
            archive(server, tmp_path, compress=compress, index=number > 0)
    ending = ".zst" if compress else ""
    with opened(str(tmp_path / NAME), None) as index:
        finished = [f"{name}{ending}" for name in list(server.logs)[:-1]]
        assert [entry.log for entry in index.entries] == finished
    with binlog_core.open(tmp_path, where="id = 3") as log:
        assert [change.after["id"] for change in log.rows()] == [3]
        assert log.indexes.of(log.files[0], log.report) is not None
    (tmp_path / NAME).write_bytes(b"damaged")
    server.rotate()
    archive(server, tmp_path, compress=compress, index=True)
    with opened(str(tmp_path / NAME), None) as index:
        assert len(index.entries) == len(server.logs) - 1
