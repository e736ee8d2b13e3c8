"""Something that is not a server, or a hostile one, ends in our own error, in bounded time and memory."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable

import pytest
from support.talk import GREETING, packet, serving

import binlog_core
from binlog_core.errors import AuthenticationError, ServerError, UnreachableError


def login(client: socket.socket) -> None:
    client.sendall(packet(0, GREETING))
    client.recv(65536)
    client.sendall(packet(2, b"\0\0\0\x02\0\0\0"))


def says(data: bytes) -> Callable[[socket.socket], None]:
    def talk(client: socket.socket) -> None:
        client.sendall(data)
        client.recv(65536)

    return talk


def answers(payload: bytes) -> Callable[[socket.socket], None]:
    """Accepts every login, and gives the same answer to every question."""

    def talk(client: socket.socket) -> None:
        login(client)
        while client.recv(65536):
            client.sendall(packet(1, payload))

    return talk


def trickles(client: socket.socket) -> None:
    for byte in packet(0, GREETING) * 100:
        client.sendall(bytes([byte]))
        time.sleep(0.1)


def floods(client: socket.socket) -> None:
    while True:
        client.sendall(packet(0, bytes(0xFFFFFF)))


def floods_answers(client: socket.socket) -> None:
    login(client)
    client.recv(65536)
    number = 1
    while True:
        client.sendall(packet(number % 256, bytes(0xFFFFFF)))
        number += 1


_TALKS: dict[str, Callable[[socket.socket], None]] = {
    "nothing": says(b""),
    "http": says(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    "empty packet": says(packet(0, b"")),
    "half a greeting": says(packet(0, GREETING[:20])),
    "an error": says(packet(0, b"\xff\x10\x04Too many \x1b[31mconnections\n")),
    "a local file is asked for": answers(b"\xfb/etc/passwd"),
    "nonsense": answers(b"\x05nonsense"),
    "columns without end": answers(b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"),
    "trickles": trickles,
    "floods": floods,
    "floods answers": floods_answers,
}


@pytest.mark.parametrize("name", _TALKS)
def test_it_is_an_error_of_our_own(name: str) -> None:
    begun = time.monotonic()
    with serving(_TALKS[name]) as url, pytest.raises(ServerError) as refused:
        binlog_core.open(url, server={"connect_timeout": 2, "reconnect": 0})
    assert time.monotonic() - begun < 60  # not forever: the timeout bounds the whole exchange
    text = str(refused.value) + repr(refused.value)
    assert "geheim" not in text
    assert text.replace("\\x1b", "").isprintable()


def test_a_line_that_is_cut_in_the_tls_handshake_may_be_tried_again() -> None:
    def talk(client: socket.socket) -> None:
        client.sendall(packet(0, GREETING.replace(b"\xff\xf7", b"\xff\xff", 1)))  # it has TLS
        client.recv(36)
        client.recv(65536)

    with serving(talk) as url, pytest.raises(UnreachableError):
        binlog_core.open(url, server={"connect_timeout": 5, "reconnect": 0})


@pytest.mark.parametrize("option", ["ssl_ca", "ssl_cert"])
def test_a_certificate_that_cannot_be_read_is_named(option: str) -> None:
    with (
        serving(says(packet(0, GREETING))) as url,
        pytest.raises(AuthenticationError, match=option) as refused,
    ):
        binlog_core.open(url, server={"ssl_mode": "REQUIRED", option: "/nowhere/a.pem", "connect_timeout": 5})
    assert "/nowhere/a.pem" in str(refused.value)


@pytest.mark.parametrize("seed", range(20))
def test_packets_of_every_wrong_kind(seed: int) -> None:
    chance = random.Random(seed)

    def talk(client: socket.socket) -> None:
        data = bytearray(packet(0, GREETING))
        for _ in range(chance.randrange(4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        client.sendall(data)
        while client.recv(65536):
            client.sendall(packet(chance.randrange(4), chance.randbytes(chance.randrange(60))))

    with serving(talk) as url, pytest.raises(ServerError):
        binlog_core.open(url, server={"connect_timeout": 1, "reconnect": 0, "ssl_mode": "DISABLED"})
