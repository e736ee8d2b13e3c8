"""The archive of a mirror, up to now or kept by a thread, without a server."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pymysql")
pytest.importorskip("pyarrow")

from binlog_core import ArchiveError, MariadbGtidSet
from binlog_core.archive.status import Status
from binlog_core.lake.runner import HERE
from binlog_core.mirror.lake import Lake
from binlog_core.mirror.mirroring import Mirroring
from binlog_core.mirror.receiving import Receiver
from binlog_core.mirror.state import new_state
from binlog_core.server.address import Address


class Server:
    """Makes archivers; `size` is how much its log ``bin.000007`` has."""

    def __init__(self) -> None:
        self.size = self.runs = 0
        self.name = "bin.000007"
        self.gtids: str | None = None
        self.error: Exception | None = None
        self.told = threading.Event()
        self.stop = threading.Event()
        self.receiver = Receiver(Address.of("mysql://root@db1"), self.make, self.stop, streams=True)
        self.host = "db1:3306"
        self.receiver._end = self.end  # type: ignore[method-assign]

    def end(self) -> tuple[str, int]:
        self.receiver._asked = self.receiver._status[0]
        return self.name, self.size

    def make(self, *, until_now: bool, stop: threading.Event, on_status: Callable[[Status], None]) -> Any:
        server = self

        class Archiver:
            def run(self) -> None:
                server.runs += until_now
                while not until_now and not stop.is_set():
                    if server.told.wait(0.01):
                        server.told.clear()
                        if server.error is not None:
                            raise server.error
                        told = Status("", server.host, file=server.name, position=server.size)
                        told.gtids = server.gtids
                        on_status(told)

        return Archiver()

    def log(self, count: int) -> None:
        self.size += count
        self.told.set()


@pytest.fixture
def server() -> Any:
    found = Server()
    yield found
    found.receiver.end()


def test_without_a_thread_it_is_brought_up_to_now(server: Server) -> None:
    server.receiver.up_to_now()
    assert server.runs == 1
    assert not server.receiver.has(("bin.000001", 4))


def test_what_arrives_ends_the_wait(server: Server) -> None:
    server.receiver.begin()
    server.receiver.begin()  # once
    assert not server.receiver.wait(0)
    server.log(100)
    assert server.receiver.wait(60)
    _, end = server.receiver.asked()
    assert end == ("bin.000007", 100)
    assert server.receiver.has(end)
    assert server.receiver.has(("bin.000006", 500))
    assert not server.receiver.has(("bin.000007", 101))
    assert not server.receiver.has(("bin.000008", 4))
    assert not server.receiver.has(("other.000007", 4))
    server.log(0)  # nothing new
    assert not server.receiver.wait(0.1)
    assert server.runs == 0


def test_up_to_now_is_where_the_server_is_when_it_is_asked(server: Server) -> None:
    server.receiver.begin()
    server.size = 50  # which has not arrived
    waiting = threading.Thread(target=server.receiver.up_to_now)
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()
    server.log(0)
    waiting.join(60)
    assert not waiting.is_alive()
    assert server.runs == 0


def test_a_mirror_that_is_stopped_waits_for_nothing(server: Server) -> None:
    server.receiver.begin()
    server.size = 50
    server.stop.set()
    server.receiver.up_to_now()
    assert not server.receiver.wait(60)


def test_the_error_of_the_thread_comes_to_who_waits_and_then_it_can_begin_again(server: Server) -> None:
    server.receiver.begin()
    server.error = ArchiveError("the disk is full")
    server.log(1)
    with pytest.raises(ArchiveError, match="the disk is full"):
        while server.receiver.wait(60):
            pass
    server.receiver.up_to_now()
    assert server.runs == 1
    server.error = None
    server.receiver.begin()
    server.log(1)
    assert server.receiver.wait(60)


def test_a_user_who_may_not_ask_where_the_log_ends_has_it_read_to_there(server: Server) -> None:
    server.receiver.begin()
    server.receiver._end = lambda: None  # type: ignore[method-assign]
    server.receiver.up_to_now()
    assert server.runs == 1


def test_the_place_of_one_server_is_not_that_of_the_next(server: Server) -> None:
    """Two servers' logs have the same names: the old one's end says nothing about the new one's log."""
    server.receiver.begin()
    server.log(100)
    assert server.receiver.wait(60)
    _, end = server.receiver.asked()
    assert end is not None
    server.host = "db2:3306"
    server.log(900)
    assert server.receiver.wait(60)
    assert not server.receiver.has(end)
    server.receiver.up_to_now()
    _, end = server.receiver.asked()
    assert end == ("bin.000007", 1000)
    assert server.receiver.has(end)


def test_a_mirror_that_is_stopped_before_it_has_an_archive_ends(server: Server, tmp_path: Path) -> None:
    lake, url = Lake(str(tmp_path)), "mysql://root@db1"
    state = new_state(url, ("shop.*",), lake.own("archive"))
    work = Mirroring(HERE, lake, state, Address.of(url), server.receiver, server.stop)
    server.stop.set()
    work.archive()
    assert server.runs == 1
    assert work.server == ""


def test_a_server_without_positions_says_its_last_gtids(server: Server) -> None:
    """The archive's logs are its own: how many bytes they have says nothing."""
    server.receiver.begin()
    server.name, server.gtids = "stream.000001", "0-1-1:12,0-2-1:9,1-1-1:3"
    server.log(100)
    assert server.receiver.wait(60)
    server.end()
    for end, here in (
        ("0-1-12,1-1-3", True),
        ("", True),
        ("0-1-13", False),
        ("2-1-1", False),
        ("0-1-1", True),
    ):
        assert server.receiver.has(MariadbGtidSet.parse(end)) == here
    server.gtids = None
    server.log(1)
    assert server.receiver.wait(60)
    assert not server.receiver.has(MariadbGtidSet.parse("0-1-1"))
