"""A server that keeps a connection busy makes no reader deaf, and a bounded read comes to an end."""

from __future__ import annotations

import datetime as dt
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest
from support.archive import FakeServer
from support.hostile_server import COM_BINLOG_DUMP, HostileServer, hostile
from support.log_server import ARTIFICIAL, LogServer, events_of
from support.talk import packet, serving

import binlog_core
from binlog_core.archive import archive
from binlog_core.errors import ProtocolError, UnreachableError
from binlog_core.server.address import Address
from binlog_core.server.stream import ServerStream

FILE = "mysql-bin.000001"
ROTATE, HEARTBEAT, GTID_LIST, QUERY = 4, 27, 163, 2
ANSWERS = {
    "SELECT VERSION()": [[b"8.0.36"]],
    "SHOW GLOBAL VARIABLES": [[b"server_id", b"1"], [b"log_bin", b"ON"], [b"binlog_checksum", b"NONE"]],
}
QUICK = {"reconnect": 1, "heartbeat": 0.2, "ssl_mode": "DISABLED"}


def event(kind: int, body: bytes, *, end: int = 0, flags: int = 0) -> bytes:
    return struct.pack("<IBIIIH", 0, kind, 1, 19 + len(body), end, flags) + body


def head() -> list[bytes]:
    fake = FakeServer(checksum=False)
    description = next(one for _, one in events_of(fake.bytes_of(fake.current)))
    return [event(ROTATE, struct.pack("<Q", 4) + FILE.encode(), flags=ARTIFICIAL), description]


def passed_over() -> Iterator[bytes]:
    """Events that are not in the log, which no reader is given."""
    return chain(head(), repeat(event(GTID_LIST, bytes(4), flags=ARTIFICIAL)))


def heartbeats() -> Iterator[bytes]:
    return chain(head(), repeat(event(HEARTBEAT, FILE.encode())))


def descriptors() -> Iterator[bytes]:
    described = head()[1]
    return chain(head(), repeat(described[:13] + bytes(4) + described[17:]))


def changes() -> Iterator[bytes]:
    """Transactions without end."""
    fake = FakeServer(checksum=False)
    for _ in range(50):
        fake.transaction()
    events = [one for _, one in events_of(fake.bytes_of(fake.current))]
    yield from head()[:1]
    yield from events[:2]
    at = 4 + sum(map(len, events[:2]))
    while True:
        for one in events[2:]:
            at += len(one)
            yield one[:13] + struct.pack("<I", at) + one[17:]


@dataclass
class Flood:
    """Begins anew on each connection."""

    make: Callable[[], Iterator[bytes]]

    def __iter__(self) -> Iterator[bytes]:
        return self.make()


FLOODS = {
    "passed over": Flood(passed_over),
    "heartbeats": Flood(heartbeats),
    "descriptors": Flood(descriptors),
}


def ends(work: Callable[[], Any]) -> None:
    """Check that some work ends; the limit is far above what it needs."""
    ended: list[BaseException | None] = []

    def attempt() -> None:
        try:
            work()
        except BaseException as error:
            ended.append(error)
        else:
            ended.append(None)

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(60)
    assert ended == [None]


@pytest.mark.parametrize("name", FLOODS)
def test_the_time_counts_and_a_stop_ends_it(name: str) -> None:
    with (
        hostile(answers=ANSWERS, log=FLOODS[name]) as (_, url),
        ServerStream(Address.of(url, QUICK)) as stream,
    ):

        def read() -> None:
            end = time.monotonic() + 1
            while time.monotonic() < end:
                stream.next_run(0.1)
            threading.Timer(0.3, stream.stop).start()
            while stream.next_run() is not None:
                pass

        ends(read)


def test_the_time_counts_on_the_way_to_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("binlog_core.server.dump._MOST_POSITION", 4)
    with (
        hostile(answers=ANSWERS, log=Flood(changes)) as (_, url),
        ServerStream(Address.of(url, QUICK), FILE, 2**60) as stream,
    ):

        def read() -> None:
            while (run := stream.next_run(0.3)) is not None:
                assert run.kind != "events"
            threading.Timer(0.3, stream.stop).start()
            assert stream.next_run() is None

        ends(read)


@pytest.mark.parametrize("how", ["tables", "time", "heartbeats", "passed over"])
def test_a_log_that_is_followed_can_be_stopped(how: str) -> None:
    options: dict[str, Any] = {}
    if how == "tables":
        options["tables"] = "nothing.*"
    elif how == "time":
        options["start"] = dt.datetime(2090, 1, 1, tzinfo=dt.UTC)
    flood = FLOODS.get(how, Flood(changes))
    with (
        hostile(answers=ANSWERS, log=flood) as (_, url),
        binlog_core.open(url, follow=True, server=QUICK, **options) as log,
    ):

        def read() -> None:
            threading.Timer(0.5, log.stop).start()
            assert list(log.rows()) == []

        ends(read)


@pytest.mark.parametrize("name", FLOODS)
def test_a_bounded_read_ends_where_nothing_new_comes(name: str) -> None:
    with hostile(answers=ANSWERS, log=FLOODS[name]) as (_, url):

        def read() -> None:
            with (
                pytest.raises(UnreachableError, match="nothing new has come"),
                binlog_core.open(url, server=QUICK) as log,
            ):
                list(log.rows())

        ends(read)


class Trickling(HostileServer):
    """Sends its log a byte at a time, after the head."""

    def answer(self, stream: socket.socket, command: bytes) -> None:
        if command[0] != COM_BINLOG_DUMP:
            super().answer(stream, command)
            return
        for number, one in enumerate(self.log, 1):
            data = packet(number, b"\0" + one)
            step = len(data) if number <= len(head()) else 1
            for at in range(0, len(data), step):
                stream.sendall(data[at : at + step])
                time.sleep(0.05)


def test_a_byte_at_a_time_is_not_progress() -> None:
    server = Trickling(answers=ANSWERS, log=[*head(), event(QUERY, bytes(10_000), end=0)])

    def read() -> None:
        with (
            serving(server) as url,
            ServerStream(Address.of(url, QUICK), follow=False) as stream,
            pytest.raises(UnreachableError, match="nothing new has come"),
        ):
            list(stream)

    ends(read)


class GoingBack(LogServer):
    """Cuts each connection after some events, and then begins again."""

    beats = False

    def answer(self, stream: socket.socket, command: bytes) -> None:
        if command[0] != COM_BINLOG_DUMP:
            super().answer(stream, command)
            return
        (position,) = struct.unpack_from("<I", command, 1)
        sent = list(self._sent(FILE, position if self.beats else 4, None))
        sent = (
            sent[: 2 if position > 4 and self.beats else 12] + [event(HEARTBEAT, FILE.encode())] * self.beats
        )
        stream.sendall(b"".join(packet(number, b"\0" + one) for number, one in enumerate(sent, 1)))
        time.sleep(0.02)
        raise EOFError


@pytest.mark.parametrize("beats", [False, True])
def test_a_server_that_goes_back_ends_with_an_error(beats: bool) -> None:
    fake = FakeServer(gtids=False, checksum=False)
    for _ in range(30):
        fake.transaction()
    server = GoingBack(fake=fake)
    server.beats = beats

    def talk(client: socket.socket) -> None:
        with suppress(EOFError):
            server(client)

    found: list[int] = []

    def read() -> None:
        kind = UnreachableError if beats else ProtocolError
        with pytest.raises(kind), binlog_core.open(url, server=QUICK) as log:
            found.extend(change.after["id"] for change in log.rows())

    with serving(talk) as url:
        ends(read)
    assert len(found) == len(set(found))


def test_an_answer_without_end_is_not_a_lost_connection() -> None:
    """With the default `reconnect`: a lost connection would be tried again for minutes."""
    answers = {"SELECT VERSION()": b"\1" + bytes(5 << 20)}
    with (
        hostile(answers=answers) as (_, url),
        pytest.raises(ProtocolError, match="larger than any can be"),
    ):
        binlog_core.open(url, server={"ssl_mode": "DISABLED"})


def test_the_same_server_without_a_flood() -> None:
    with hostile(answers=ANSWERS, log=head()) as (_, url), binlog_core.open(url, server=QUICK) as log:
        assert list(log.rows()) == []


@pytest.mark.parametrize("name", FLOODS)
def test_an_archive_until_now_ends_where_nothing_new_comes(name: str, tmp_path: Path) -> None:
    with hostile(answers=ANSWERS, log=FLOODS[name]) as (_, url):

        def read() -> None:
            with pytest.raises(UnreachableError, match="nothing new has come"):
                archive(url, tmp_path, until="now", options=QUICK)

        ends(read)


@pytest.mark.parametrize("name", FLOODS)
def test_an_archiver_that_follows_can_be_stopped(name: str, tmp_path: Path) -> None:
    with hostile(answers=ANSWERS, log=FLOODS[name]) as (_, url):

        def read() -> None:
            stop = threading.Event()
            threading.Timer(1, stop.set).start()
            archive(url, tmp_path, stop=stop, options=QUICK)

        ends(read)
