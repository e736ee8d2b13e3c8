"""A real MariaDB server behind a door that hides its logs' files, as one with its log in InnoDB has none.

Statements go to the real server, except those about files and positions. Of its log comes one unbroken stream
of events, by GTIDs and without positions.
"""

from __future__ import annotations

import random
import re
import socket
import struct
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

from .hostile_server import COM_BINLOG_DUMP, COM_QUERY
from .talk import packet, serving

ROTATE, FORMAT_DESCRIPTION, HEARTBEAT, GTID_LIST = 4, 15, 27, 163
HIDDEN = {3, ROTATE, 161, GTID_LIST, 164}  # STOP, BINLOG_CHECKPOINT, START_ENCRYPTION
OF_FILES = re.compile(
    rb"SHOW (BINARY LOG|MASTER|STATUS LIKE 'binlog_snapshot)|SELECT BINLOG_GTID_POS", re.IGNORECASE
)


class Door:
    """What goes through it.

    Parameters
    ----------
    url : str
        The real server.
    seed : int
    cuts : int
        So many dumps end somewhere in their first bytes.
    """

    def __init__(self, url: str, *, seed: int = 0, cuts: int = 0) -> None:
        found = urlsplit(url)
        assert found.hostname is not None
        self._server = found.hostname, found.port or 3306
        self._pick = random.Random(seed)
        self.cuts = cuts
        self.dumps: list[bytes] = []  # the commands' arguments
        self.refused: list[bytes] = []  # statements about files

    def __call__(self, client: socket.socket) -> None:
        """Serve one connection."""
        with socket.create_connection(self._server) as server:
            dumping = threading.Event()
            back = threading.Thread(target=self._back, args=(server, client, dumping), daemon=True)
            back.start()
            with suppress(OSError, EOFError):
                while True:
                    number, payload = _taken(client)
                    if number == 0 and payload[:1] == bytes([COM_BINLOG_DUMP]):
                        self.dumps.append(payload[1:])
                        assert payload[1:5] == b"\4\0\0\0"
                        assert len(payload) == 11
                        dumping.set()
                    elif number == 0 and payload[:1] == bytes([COM_QUERY]):
                        payload = payload[:1] + self._instead(payload[1:])
                    server.sendall(packet(number, payload))
            with suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            back.join()

    def _instead(self, sql: bytes) -> bytes:
        if OF_FILES.match(sql):
            self.refused.append(sql)
            return b"this has no positions"
        asked = re.fullmatch(rb"SHOW GLOBAL VARIABLES WHERE (Variable_name IN \(.*\))", sql, re.DOTALL)
        if asked is None:
            return sql
        return (
            b"SELECT LOWER(VARIABLE_NAME), VARIABLE_VALUE FROM information_schema.GLOBAL_VARIABLES WHERE "
            + asked[1]
            + b" UNION ALL SELECT 'binlog_storage_engine', 'innodb'"
        )

    def _back(self, server: socket.socket, client: socket.socket, dumping: threading.Event) -> None:
        left = None
        sent, described = 0, False
        with suppress(OSError, EOFError):
            while True:
                number, payload = _taken(server)
                if not dumping.is_set():
                    client.sendall(packet(number, payload))
                    continue
                if left is None:
                    left = self._pick.randrange(20_000) if self.cuts else 1 << 60
                    self.cuts -= bool(self.cuts)
                if payload[:1] == b"\0":
                    kind = payload[5]
                    if kind in HIDDEN or (kind == FORMAT_DESCRIPTION and described):
                        continue
                    described |= kind == FORMAT_DESCRIPTION
                    if kind != HEARTBEAT:
                        payload = b"\0" + _without_position(payload[1:])
                sent += 1
                whole = packet(sent % 256, payload)
                client.sendall(whole[:left])
                left -= len(whole)
                if left <= 0:
                    break
        with suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)


def _without_position(event: bytes) -> bytes:
    """The server's events have checksums."""
    event = event[:13] + bytes(4) + event[17:-4]
    return event + struct.pack("<I", zlib.crc32(event))


def _taken(stream: socket.socket) -> tuple[int, bytes]:
    head = _exactly(stream, 4)
    return head[3], _exactly(stream, int.from_bytes(head[:3], "little"))


def _exactly(stream: socket.socket, count: int) -> bytes:
    out = bytearray()
    while len(out) < count:
        got = stream.recv(count - len(out))
        if not got:
            raise EOFError
        out += got
    return bytes(out)


@contextmanager
def without_files(url: str, *, seed: int = 0, cuts: int = 0) -> Iterator[tuple[Door, str]]:
    """The door, and the address of the server behind it."""
    door = Door(url, seed=seed, cuts=cuts)
    with serving(door) as there:
        yield door, urlsplit(url)._replace(netloc=_login(url) + there.rpartition("@")[2]).geturl()


def _login(url: str) -> str:
    netloc = urlsplit(url).netloc
    return netloc[: netloc.rfind("@") + 1]
