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

ARTIFICIAL, IGNORABLE = 0x20, 0x80
BETWEEN = 3, 161  # STOP, BINLOG_CHECKPOINT
UNKNOWN = b"Error: connecting slave requested to start from GTID ?, which is not in the master's binlog."
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
        Of MariaDB, without checksums. What comes between its transactions is not sent again after the one
        before, or only sometimes.
    seed : int
    cuts : int
        So many connections end somewhere in their bytes.
    purged : int
        So many of the first transactions are gone.
    known : int or None
        It has only so many transactions yet; None: all. Tests change it.
    """

    def __init__(
        self, log: bytes, *, seed: int, cuts: int = 0, purged: int = 0, known: int | None = None
    ) -> None:
        self.pick = random.Random(seed)
        self.cuts, self.purged = cuts, purged
        self.server_id = 1
        self.states: list[str] = []  # with which dumps have begun
        self.starts: list[bytes] = []  # the commands' arguments
        self.rotates = self.pick.random() < 0.5
        self.checksum = self.pick.random() < 0.5
        self.again = self.pick.random() < 0.5  # what comes between transactions
        self.marked = self.pick.random() < 0.5
        descriptor, *events = events_in(log)
        self.descriptor = descriptor
        self.transactions: list[list[bytes]] = []
        for event in events:
            if event[4] == 162:
                self.transactions.append([])
            if self.transactions:
                self.transactions[-1].append(event)
        self.known = len(self.transactions) if known is None else known
        super().__init__(
            answers={
                "SELECT VERSION()": [[b"12.3.1-MariaDB-log"]],
                "SHOW GLOBAL VARIABLES": lambda _: [
                    [b"server_id", str(self.server_id).encode()],
                    [b"log_bin", b"ON"],
                    [b"binlog_checksum", b"CRC32" if self.checksum else b"NONE"],
                    [b"binlog_storage_engine", b"innodb"],
                    [b"gtid_binlog_pos", self.state().encode()],
                ],
            }
        )

    def state(self) -> str:
        """The last GTID of each domain."""
        last = {gtid[0]: gtid for gtid in map(gtid_of, self.transactions[: self.known])}
        return ",".join("-".join(map(str, gtid)) for gtid in last.values())

    def answer(self, stream: Any, command: bytes) -> None:
        if command[0] == COM_QUERY and (set_ := re.search(rb"@slave_connect_state='([^']*)'", command)):
            self.states.append(set_[1].decode())
        if command[0] != COM_BINLOG_DUMP:
            super().answer(stream, command)
            return
        self.starts.append(command[1:])
        (flags,) = struct.unpack_from("<H", command, 5)
        number = 1
        sent = bytearray()
        for payload in self._payloads(self.states[-1]):
            sent += packet(number % 256, payload)
            number += 1
        whole = bytes(sent)
        if self.cuts:
            self.cuts -= 1
            most = self.pick.choice([len(whole), 400])  # also before the first event of the log
            stream.sendall(whole[: self.pick.randrange(most)])
            raise EOFError
        stream.sendall(whole + (packet(number % 256, END) if flags & NON_BLOCK else b""))
        if not flags & NON_BLOCK:
            stream.recv(1)  # until the client goes

    def _payloads(self, state: str) -> Iterator[bytes]:
        asked = {tuple(map(int, text.split("-"))) for text in state.split(",") if text}
        before = {gtid[0] for gtid in asked}  # the domains in which what is sent has not begun
        sent = []
        for number, transaction in enumerate(self.transactions[: self.known]):
            if gtid_of(transaction)[0] not in before:
                sent.append(number)
            elif gtid_of(transaction) in asked:
                before.discard(gtid_of(transaction)[0])
        if before:
            yield b"\xff\xd4\x04#HY000" + UNKNOWN.replace(b"?", state.encode())
            return
        if sent and sent[0] < self.purged:
            yield PURGED
            return
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
        head = b"".join(struct.pack("<IIQ", *gtid) for gtid in sorted(asked))
        yield b"\0" + self._event(163, struct.pack("<I", len(asked)) + head, ARTIFICIAL)
        if self.again and sent and sent[0]:
            for event in self.sent(sent[0] - 1):
                if event[4] in BETWEEN:
                    yield b"\0" + event
        for number in sent:
            for event in self.sent(number):
                yield b"\0" + event

    def sent(self, number: int) -> list[bytes]:
        """The events of a transaction as it sends them, the first is 0."""
        return [
            self._event(
                event[4],
                event[19:],
                int.from_bytes(event[17:19], "little") & IGNORABLE,
                int.from_bytes(event[:4], "little"),
                int.from_bytes(event[5:9], "little"),
            )
            for event in self.transactions[number]
        ]

    def _event(self, kind: int, body: bytes, flags: int, timestamp: int = 0, server_id: int = 1) -> bytes:
        length = 19 + len(body) + 4 * self.checksum
        event = struct.pack("<IBIIIH", timestamp, kind, server_id, length, 0, flags) + body
        return event + (struct.pack("<I", zlib.crc32(event)) if self.checksum else b"")


def gtid_of(transaction: list[bytes]) -> tuple[int, int, int]:
    """Domain, server and number of a transaction's events."""
    number, domain = struct.unpack_from("<QI", transaction[0], 19)
    return domain, int.from_bytes(transaction[0][5:9], "little"), number


@contextmanager
def gtid_server(log: bytes, **server: Any) -> Iterator[tuple[GtidServer, str]]:
    """Such a server, and its address."""
    made = GtidServer(log, **server)

    def talk(client: socket.socket) -> None:
        with suppress(EOFError):
            made(client)

    with serving(talk) as url:
        yield made, url
