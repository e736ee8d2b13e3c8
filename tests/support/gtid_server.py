"""A scripted MariaDB server whose log has no files, as the documentation of 12.3 describes it.

What is not published varies by the seed: whether a ROTATE event comes first, what it names, and how the
descriptor is marked.
"""

from __future__ import annotations

import random
import re
import socket
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from .hostile_server import COM_BINLOG_DUMP, COM_QUERY, END, HostileServer
from .talk import packet, serving
from .writer.fragments import events_in

ARTIFICIAL = 0x20
NON_BLOCK = 1
PURGED = (
    b"\xff\xd4\x04#HY000Could not find GTID state requested by slave in any binlog files. Probably the slave"
    b" state is too old and required binlog files have been purged."
)


class GtidServer(HostileServer):
    """Sends the transactions of a log after the state that the client has set.

    Parameters
    ----------
    log : bytes
        Of MariaDB, without checksums; its transactions are numbered 0-1-1, 0-1-2 and so on.
    seed : int
    cuts : int
        So many connections end somewhere in their bytes.
    purged : int
        So many of the first transactions are gone.
    """

    def __init__(self, log: bytes, *, seed: int, cuts: int = 0, purged: int = 0) -> None:
        self.pick = random.Random(seed)
        self.cuts, self.purged = cuts, purged
        self.states: list[str] = []  # with which dumps have begun
        self.starts: list[bytes] = []  # the commands' arguments
        self.rotates = self.pick.random() < 0.5
        self.checksum = self.pick.random() < 0.5
        self.marked = self.pick.random() < 0.5
        descriptor, *events = events_in(log)
        self.descriptor = descriptor
        self.transactions: list[list[bytes]] = []
        for event in events:
            if event[4] == 162:
                self.transactions.append([])
            if self.transactions:
                self.transactions[-1].append(event)
        last = str(len(self.transactions)).encode()
        super().__init__(
            answers={
                "SELECT VERSION()": [[b"12.3.1-MariaDB-log"]],
                "SHOW GLOBAL VARIABLES": [
                    [b"server_id", b"1"],
                    [b"log_bin", b"ON"],
                    [b"binlog_checksum", b"CRC32" if self.checksum else b"NONE"],
                    [b"binlog_storage_engine", b"innodb"],
                    [b"gtid_binlog_pos", b"0-1-" + last],
                ],
            }
        )

    def answer(self, stream: Any, command: bytes) -> None:
        if command[0] == COM_QUERY and (set_ := re.search(rb"@slave_connect_state='([^']*)'", command)):
            self.states.append(set_[1].decode())
        if command[0] != COM_BINLOG_DUMP:
            super().answer(stream, command)
            return
        self.starts.append(command[1:])
        (flags,) = struct.unpack_from("<H", command, 5)
        after = int(self.states[-1].rpartition("-")[2] or 0)
        number = 1
        sent = bytearray()
        for payload in [PURGED] if after < self.purged else self._payloads(after):
            sent += packet(number % 256, payload)
            number += 1
        whole = bytes(sent)
        if self.cuts:
            self.cuts -= 1
            stream.sendall(whole[: self.pick.randrange(len(whole))])
            raise EOFError
        stream.sendall(whole + (packet(number % 256, END) if flags & NON_BLOCK else b""))
        if not flags & NON_BLOCK:
            stream.recv(1)  # until the client goes

    def _payloads(self, after: int) -> Iterator[bytes]:
        if self.rotates:
            name = self.pick.choice([b"binlog-000003.ibb", b"binlog-000000.ibb"])
            yield b"\0" + self._event(
                4, struct.pack("<Q", self.pick.choice([4, 0, 16384])) + name, ARTIFICIAL
            )
        body = bytearray(self.descriptor[19:-5]) + bytes([self.checksum])
        body[52:56] = struct.pack("<I", self.pick.randrange(2**31))  # the time of this dump, say
        flags = ARTIFICIAL if self.marked else 0
        head = struct.pack("<IBIIIH", 1_700_000_000, 15, 1, 19 + len(body) + 4, 0, flags)
        event = head + bytes(body)
        yield b"\0" + event + struct.pack("<I", zlib.crc32(event))
        yield b"\0" + self._event(163, struct.pack("<IIIQ", 1, 0, 1, after), ARTIFICIAL)
        for transaction in self.transactions[after:]:
            for event in transaction:
                yield b"\0" + self._event(event[4], event[19:], 0, int.from_bytes(event[:4], "little"))

    def _event(self, kind: int, body: bytes, flags: int, timestamp: int = 0) -> bytes:
        length = 19 + len(body) + 4 * self.checksum
        event = struct.pack("<IBIIIH", timestamp, kind, 1, length, 0, flags) + body
        return event + (struct.pack("<I", zlib.crc32(event)) if self.checksum else b"")


@contextmanager
def gtid_server(log: bytes, **server: Any) -> Iterator[tuple[GtidServer, str]]:
    """Such a server, and its address."""
    made = GtidServer(log, **server)

    def talk(client: socket.socket) -> None:
        with suppress(EOFError):
            made(client)

    with serving(talk) as url:
        yield made, url
