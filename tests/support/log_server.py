"""A server on loopback that sends the logs of a `FakeServer` as a real one does, from any place and GTID."""

from __future__ import annotations

import re
import socket
import struct
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Any

from binlog_core.gtids import GtidSet, MariadbGtidSet, uuid_text

from .archive import FakeServer
from .hostile_server import COM_BINLOG_DUMP, COM_BINLOG_DUMP_GTID, END, Answer, HostileServer
from .talk import packet, serving

NON_BLOCK, ARTIFICIAL, IN_USE = 1, 0x20, 1
ROTATE, MYSQL_GTID, ANONYMOUS_GTID, MARIADB_GTID, STOP = 4, 33, 34, 162, 3
_HEADER = struct.Struct("<IBIIIH")


@dataclass
class LogServer(HostileServer):
    """Answers what a reader asks, and sends the logs.

    Parameters
    ----------
    fake : FakeServer
        Whose logs and GTIDs it has.
    now : (str, int) or None
        Where it says that it writes; None: at the end of its logs.
    cuts : list of int
        Each of the next dumps is cut after so many events, one after the other; later ones are not.
    """

    fake: FakeServer = field(default_factory=FakeServer)
    now: tuple[str, int] | None = None
    cuts: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.state: str | None = None  # @slave_connect_state
        self.answers = {
            "SELECT VERSION()": lambda _: [[self.fake.version.encode()]],
            "SHOW GLOBAL VARIABLES": lambda _: self._variables(),
            "SHOW BINARY LOGS": lambda _: [
                [name.encode(), b"%d" % len(self.fake.bytes_of(name))] for name in self.fake.logs
            ],
            "SHOW BINARY LOG STATUS": lambda _: self._status(),
            "SHOW MASTER STATUS": lambda _: self._status(),
            "SELECT BINLOG_GTID_POS(": self._gtids_at,
            "SET @": self._set,
        }

    def _variables(self) -> Answer:
        fake = self.fake
        executed = str(fake.executed)
        found = {"server_id": str(fake.server_id), "log_bin": "ON"}
        found["binlog_checksum"] = "CRC32" if fake.checksum else "NONE"
        if fake.mariadb:
            found["gtid_binlog_pos"] = _last_of_domains(fake.executed)
        else:
            found |= {"server_uuid": fake.uuid, "gtid_mode": "ON" if fake.with_gtids else "OFF"}
            found["gtid_executed"] = executed
        return [[name.encode(), value.encode()] for name, value in found.items()]

    def _status(self) -> Answer:
        file, offset = self.now or (self.fake.current, len(self.fake.bytes_of(self.fake.current)))
        gtids = b"" if self.fake.mariadb else str(self._before(file, offset)).encode()
        return [[file.encode(), b"%d" % offset, b"", b"", gtids]]

    def _gtids_at(self, sql: str) -> Answer:
        found = re.search(r"'(.*)', (\d+)", sql)
        assert found is not None
        if found[1] not in self.fake.logs:
            return [[None]]
        return [[_last_of_domains(self._before(found[1], int(found[2]))).encode()]]

    def _set(self, sql: str) -> Answer:
        if (found := re.search(r"@slave_connect_state='(.*?)'", sql)) is not None:
            self.state = found[1]
        return b"\0\0\0\2\0\0\0"

    def _before(self, file: str, offset: int) -> Any:
        """The GTIDs before a place."""
        gtids = self.fake.before[file]
        for position, event in events_of(self.fake.bytes_of(file)):
            if position >= offset:
                break
            if (gtid := gtid_of(event)) is not None:
                gtids = gtids | gtid
        return gtids

    # ------------------------------------------------------------ the logs

    def answer(self, stream: Any, command: bytes) -> None:
        if command[0] not in (COM_BINLOG_DUMP, COM_BINLOG_DUMP_GTID):
            super().answer(stream, command)
            return
        if command[0] == COM_BINLOG_DUMP:
            position, flags, _ = struct.unpack_from("<IHI", command, 1)
            file, known = command[11:].decode(), None
            if self.state is not None:
                known = MariadbGtidSet.parse(self.state)
                file, position = self._oldest_needed(known), 4
        else:
            flags, _, length = struct.unpack_from("<HII", command, 1)
            file = command[11 : 11 + length].decode()
            (position,) = struct.unpack_from("<Q", command, 11 + length)
            known = GtidSet.from_bytes(command[23 + length :])
            file = file or self._oldest_needed(known)
        numbers = count(1)
        most = self.cuts.pop(0) if self.cuts else None
        for event in islice(self._sent(file or next(iter(self.fake.logs)), position, known), most):
            stream.sendall(packet(next(numbers) % 256, b"\0" + event))
        if most is not None:
            raise EOFError
        if flags & NON_BLOCK:
            stream.sendall(packet(next(numbers) % 256, END))
        else:
            stream.recv(1)  # until the reader leaves
        raise EOFError

    def _oldest_needed(self, known: Any) -> str:
        return next(name for name in reversed(self.fake.logs) if _contains(known, self.fake.before[name]))

    def _sent(self, file: str, position: int, known: Any) -> Iterator[bytes]:
        names = list(self.fake.logs)
        for name in names[names.index(file) :]:
            yield self._artificial(ROTATE, struct.pack("<Q", position) + name.encode())
            data = self.fake.bytes_of(name)
            passing = False  # inside a transaction that the reader has
            for at, event in events_of(data):
                if at == 4:
                    head = bytearray(event)
                    head[17] &= ~IN_USE
                    # It is not at this place, and no log began now; MySQL says so only without GTIDs.
                    changed = position > 4 and not isinstance(known, GtidSet)
                    if changed:
                        head[13:17] = head[71:75] = bytes(4)
                    yield self._sealed(bytes(head)) if changed else bytes(head)
                    continue
                gtid = gtid_of(event)
                if gtid is not None or event[4] in (ROTATE, STOP, ANONYMOUS_GTID):
                    passing = gtid is not None and known is not None and _contains(known, gtid)
                if at >= position and not passing:
                    yield event
            position = 4

    def _artificial(self, kind: int, body: bytes) -> bytes:
        size = 19 + len(body) + 4 * self.fake.checksum
        head = _HEADER.pack(0, kind, self.fake.server_id, size, 0, ARTIFICIAL)
        return self._sealed(head + body + bytes(4 * self.fake.checksum))

    def _sealed(self, event: bytes) -> bytes:
        if not self.fake.checksum:
            return event
        return event[:-4] + zlib.crc32(event[:-4]).to_bytes(4, "little")


def events_of(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Positions and events of a log."""
    at = 4
    while at < len(data):
        size = int.from_bytes(data[at + 9 : at + 13], "little")
        yield at, data[at : at + size]
        at += size


def gtid_of(event: bytes) -> Any:
    """The GTID of an event that begins a transaction; None for others."""
    if event[4] == MYSQL_GTID:
        number = int.from_bytes(event[36:44], "little")
        return GtidSet([((uuid_text(event[20:36]), ""), (number, number))])
    if event[4] == MARIADB_GTID:
        number, domain = struct.unpack_from("<QI", event, 19)
        return MariadbGtidSet([((domain, int.from_bytes(event[5:9], "little")), (1, number))])
    return None


def _contains(known: Any, gtids: Any) -> bool:
    if isinstance(gtids, GtidSet):
        return not gtids - known
    last = {domain: number for (domain, _), (_, number) in known.intervals()}
    return all(last.get(domain, 0) >= number for (domain, _), (_, number) in gtids.intervals())


def _last_of_domains(gtids: Any) -> str:
    return ",".join(f"{domain}-{server}-{number}" for (domain, server), (_, number) in gtids.intervals())


@contextmanager
def log_server(fake: FakeServer, **options: Any) -> Iterator[str]:
    """The address of a server with these logs."""

    def serve(client: socket.socket) -> None:
        with client, suppress(EOFError, OSError):
            LogServer(fake=fake, **options)(client)

    def talk(client: socket.socket) -> None:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=serve, args=(client.dup(),), daemon=True).start()

    with serving(talk) as url:
        yield url
