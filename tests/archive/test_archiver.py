"""An archive of a server in memory: byte identity, resuming, crashes, power cuts, full and failing disks."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.archive import (
    DroppingFiles,
    FakeFeed,
    FakeServer,
    PowerCut,
    archive,
    assert_same,
    busy,
)

import binlog_core
from binlog_core.archive.feed import FeedRun, LineLost


def test_an_archive_holds_the_servers_bytes(server: FakeServer, tmp_path: Path) -> None:
    archiver = archive(server, tmp_path)
    assert_same(server, tmp_path)
    assert archiver.status.position == len(server.bytes_of(server.current))
    assert archiver.status.gtids == str(server.executed)
    assert archiver.status.state == "stopped"


def test_it_continues_inside_a_log(server: FakeServer, tmp_path: Path) -> None:
    for seed in range(6):
        archive(server, tmp_path, seed=seed)
        assert_same(server, tmp_path)
        server.transaction()
        if seed == 3:
            server.rotate()
    archiver = archive(server, tmp_path)
    assert_same(server, tmp_path)
    assert archiver.status.gtids == str(server.executed)


def test_events_of_a_later_time_than_the_servers_do_not_end_it(server: FakeServer, tmp_path: Path) -> None:
    server.clock += 1_000_000  # of a session's SET TIMESTAMP, or of a primary whose clock is ahead
    busy(server)
    server.clock -= 1_000_000
    busy(server)
    archive(server, tmp_path)
    assert_same(server, tmp_path)


def test_a_server_that_writes_without_end_ends_at_its_position(server: FakeServer, tmp_path: Path) -> None:
    class Writing(FakeFeed):
        def dump(self, file: str, position: int, *, until_now: bool) -> Iterator[FeedRun]:
            return super().dump(file, position, until_now=False)

    feed = Writing(server, idle=lambda: server.transaction() > 0)
    file, end = server.current, len(server.bytes_of(server.current))
    server.transaction()
    archiver = archive(server, tmp_path, connect=lambda: feed)
    assert archiver.status.file == file
    assert archiver.status.position >= end


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
    monkeypatch.setattr("binlog_core.server.world.time.monotonic", lambda: clock[0])

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


def test_a_process_that_was_killed_leaves_nothing_for_a_later_cut_of_power(tmp_path: Path) -> None:
    """What the next one finds may be only in the system's cache: names of logs, the end of a finished one."""
    for calls in itertools.count(1):
        server = busy(FakeServer(), 5)
        server.rotate()
        folder, dropped = tmp_path / f"{calls}", tmp_path / f"{calls}-dropped"
        folder.mkdir()
        dropped.mkdir()
        files = DroppingFiles(calls)
        files.watch(str(folder), str(dropped))
        try:
            archive(server, folder, files=files)
            break
        except PowerCut:  # here the process alone ends
            files.stop_at = None
        (folder / ".lock").unlink()  # it has another name on this disk
        archive(server, folder, files=files)
        files.cut(str(folder))
        assert_same(server, folder)
    assert calls > 10


def test_an_address_that_has_answered_is_tried_again_when_it_refuses(
    server: FakeServer, tmp_path: Path
) -> None:
    """The first connection is lost in its handshake, then the server is down for a moment."""
    tries: list[bool] = [True, False, False]  # whether a server was there

    def connect() -> FakeFeed:
        if tries:
            error = LineLost("no answer")
            error.lost = tries.pop(0)
            raise error
        return server.connect()

    archive(server, tmp_path, connect=connect, stop=_NoWaiting())
    assert_same(server, tmp_path)


class _NoWaiting(threading.Event):
    def wait(self, timeout: float | None = None) -> bool:
        return self.is_set()


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


def test_a_log_that_the_server_holds_damaged_is_kept_and_reported(tmp_path: Path) -> None:
    server = busy(FakeServer(), 5)
    damaged = server.current
    server.logs[damaged]._out[-1] ^= 1
    server.rotate()
    server.transaction()
    with pytest.warns(binlog_core.BinlogWarning, match="the checksum of the event at"):
        archiver = archive(server, tmp_path)
    assert archiver.status.damaged_logs == [damaged]
    assert_same(server, tmp_path)
