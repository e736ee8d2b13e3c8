"""Connections compressed with zstd, frame by frame."""

from __future__ import annotations

import random
import socket
from collections.abc import Callable

import pytest
import zstandard
from support.server import SERVER
from support.talk import GREETING, packet, serving

import binlog_core
from binlog_core.errors import ProtocolError, ServerError
from binlog_core.server.address import Address
from binlog_core.server.compressed import Frames, framed
from binlog_core.server.connection import Connection


def frame(plain: bytes, number: int = 0, *, stored: bool = False, claimed: int | None = None) -> bytes:
    data = plain if stored else zstandard.compress(plain, 3)
    size = 0 if stored else len(plain) if claimed is None else claimed
    return len(data).to_bytes(3, "little") + bytes([number]) + size.to_bytes(3, "little") + data


@pytest.mark.parametrize("seed", range(6))
def test_any_split_of_the_frames_gives_the_same_bytes(seed: int) -> None:
    chance = random.Random(seed)
    plain = [chance.randbytes(chance.choice((1, 40, 60, 5000))) * chance.randrange(1, 9) for _ in range(60)]
    plain.append(chance.randbytes(3 << 19))  # more than there is room for
    wire = b"".join(frame(one, n % 256, stored=chance.random() < 0.3) for n, one in enumerate(plain))
    frames, taken, at = Frames(), bytearray(), 0
    while at < len(wire):
        room = frames.room()
        count = min(chance.choice((1, 7, 8, 1000, 100_000)), len(room), len(wire) - at)
        assert count
        room[:count] = wire[at : at + count]
        room.release()
        frames.received(count)
        at += count
        target = memoryview(bytearray(chance.choice((100, 10_000, 1 << 20))))
        while got := frames.take(target):
            taken += target[:got]
    assert taken == b"".join(plain)


def test_an_empty_frame_holds_nothing() -> None:
    frames = Frames()
    wire = frame(b"", 0, stored=True) + frame(b"packet" * 20, 1)
    frames.room()[: len(wire)] = wire
    frames.received(len(wire))
    target = memoryview(bytearray(1000))
    assert bytes(target[: frames.take(target)]) == b"packet" * 20


WRONG = {
    "not zstd": b"\x05\0\0\0\x09\0\0hello",
    "less than it says": frame(b"x" * 100, claimed=101),
    "more than it says": frame(b"x" * 100, claimed=99),
    "far more than it says": frame(bytes(1 << 26), claimed=1 << 20),
    "cut": b"\x08\0\0\0\x64\0\0" + zstandard.compress(b"x" * 100)[:8],
    "of unknown size, more than it says": (
        lambda data: len(data).to_bytes(3, "little") + b"\0\x09\0\0" + data
    )(zstandard.ZstdCompressor(write_content_size=False).compress(bytes(1 << 20))),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_frame_that_lies_is_refused(name: str) -> None:
    frames, wire = Frames(), WRONG[name]
    frames.room()[: len(wire)] = wire
    frames.received(len(wire))
    with pytest.raises(ProtocolError, match="does not match its header"):
        frames.take(memoryview(bytearray(1 << 20)))


@pytest.mark.parametrize("number", [0, 1, 255])
def test_a_frame_that_is_missing_is_noticed(number: int) -> None:
    frames, target = Frames(), memoryview(bytearray(100))
    frames.expect(254)
    wire = frame(b"x", 254) + frame(b"y", 255)
    frames.room()[: len(wire)] = wire
    frames.received(len(wire))
    assert frames.take(target) == 2
    wire = frame(b"z", number)
    frames.room()[: len(wire)] = wire
    frames.received(len(wire))
    if number == 0:
        assert frames.take(target) == 1
    else:
        with pytest.raises(ProtocolError, match="missing or duplicated"):
            frames.take(target)


def test_what_we_send_is_framed() -> None:
    data = bytes(0xFFFFFF) + b"rest"
    sent = framed(data)
    assert sent[:7] == b"\xff\xff\xff\0\0\0\0"
    assert sent[7 + 0xFFFFFF :] == b"\x04\0\0\x01\0\0\0rest"
    assert framed(b"\1\0\0\0\x0e") == b"\5\0\0\0\0\0\0\1\0\0\0\x0e"


OK = b"\0\0\0\x02\0\0\0"
TEXT = b"\x03def\0\0\0\x01v\0\x0c\x2d\0\xff\0\0\0\xfd\0\0\0\0\0"  # a column of strings
END = b"\xfe\0\0\x02\0"


def answering(answer: bytes, asked: list[bytes]) -> Callable[[socket.socket], None]:
    """A server that compresses: every question of a client gets the same bytes."""

    def talk(client: socket.socket) -> None:
        client.sendall(packet(0, GREETING))
        asked.append(client.recv(65536))
        client.sendall(packet(2, OK))
        while question := client.recv(65536):
            asked.append(question)
            own = b"VERSION" in question
            client.sendall(answer if own else frame(packet(1, OK), 1, stored=True))

    return talk


def test_questions_and_answers_are_framed() -> None:
    rows = [(b"8.0.36",), (b"x" * 5000,)]
    packets = [b"\x01", TEXT, END, *(_text(value) for (value,) in rows), END]
    wire = b"".join(packet(n + 1, payload) for n, payload in enumerate(packets))
    asked: list[bytes] = []
    with serving(answering(frame(wire[:70], 1) + frame(wire[70:], 2), asked)) as url:
        address = Address.of(url, {"compression": "zstd", "ssl_mode": "DISABLED"})
        with Connection(address) as connection:
            assert connection.query("SELECT VERSION()") == [("8.0.36",), ("x" * 5000,)]
    login, *questions = asked
    assert int.from_bytes(login[4:8], "little") & 1 << 26
    assert login[-1] == 3  # the level
    question = packet(0, b"\x03SELECT VERSION()")
    assert questions[-1] == len(question).to_bytes(3, "little") + bytes(4) + question


def _text(value: bytes) -> bytes:
    return (bytes([len(value)]) if len(value) < 251 else b"\xfc" + len(value).to_bytes(2, "little")) + value


@pytest.mark.parametrize("name", WRONG)
def test_an_answer_in_a_frame_that_lies_is_refused(name: str) -> None:
    with serving(answering(WRONG[name], [])) as url:
        address = Address.of(url, {"compression": "zstd", "ssl_mode": "DISABLED"})
        with Connection(address) as connection, pytest.raises(ProtocolError):
            connection.query("SELECT VERSION()")


def test_answers_are_bounded_by_what_comes_out_of_their_frames() -> None:
    wire = packet(1, b"\x01") + packet(2, TEXT) + packet(3, END)
    rows = b"".join(packet(n % 256, _text(b"x" * 60_000)) for n in range(4, 40))  # 2 MB of plain text
    with serving(answering(frame(wire + rows, 1), [])) as url:
        address = Address.of(url, {"compression": "zstd", "ssl_mode": "DISABLED"})
        with Connection(address) as connection, pytest.raises(ProtocolError, match="larger than any can be"):
            connection.query("SELECT VERSION()", most=1 << 20)


def test_a_server_that_does_not_compress_says_so() -> None:
    flags = GREETING.replace(b"\xff\xdf", b"\xff\xdb")
    with serving(lambda client: (client.sendall(packet(0, flags)), client.recv(100))[0]) as url:
        address = Address.of(url, {"compression": "zstd"})
        with pytest.raises(ServerError, match=r"does not compress by zstd: MySQL 8\.0\.18"):
            Connection(address)


def test_frames_that_are_counted_anew() -> None:
    """As a semi-synchronous server does after an event that needs an acknowledgement."""
    wire = b"".join(len(one).to_bytes(3, "little") + bytes((at, 0, 0, 0)) + one for at, one in NUMBERED)
    for may_restart in (True, False):
        frames, target = Frames(), memoryview(bytearray(100))
        frames.expect(1, may_restart=may_restart)
        room = frames.room()
        room[: len(wire)] = wire
        frames.received(len(wire))
        if may_restart:
            assert bytes(target[: frames.take(target)]) == b"abcde"
        else:
            with pytest.raises(ProtocolError, match="missing or duplicated"):
                frames.take(target)
    frames = Frames()
    frames.expect(1, may_restart=True)
    missing = b"\1\0\0\3\0\0\0x"
    frames.room()[: len(missing)] = missing
    frames.received(len(missing))
    with pytest.raises(ProtocolError, match="missing or duplicated"):
        frames.take(memoryview(bytearray(100)))


NUMBERED = [(1, b"a"), (2, b"b"), (0, b"c"), (1, b"d"), (0, b"e")]


def test_another_compression_is_refused() -> None:
    with pytest.raises(ValueError, match="compression: expected one of none, zstd"):
        Address.of("mysql://db1?compression=gzip")


@pytest.mark.server
def test_a_compressed_stream_is_the_servers() -> None:
    settings = {"compression": "zstd"}
    try:
        Connection(Address.of(SERVER, settings)).close()
    except ServerError as error:
        assert "does not compress by zstd" in str(error)  # MariaDB
        return
    streams = []
    for options in ({}, settings, {**settings, "ssl_mode": "DISABLED"}):
        with binlog_core.open(SERVER, server=options) as log:
            streams.append([h.tolist() for h in log.headers()])
    assert len(streams[0]) > 10
    for stream in streams[1:]:  # another thread may write in the meantime
        assert stream[: len(streams[0])] == streams[0]
