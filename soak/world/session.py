"""The protocol of one connection: login, the statements that a reader sends, the dump of the logs."""

from __future__ import annotations

import re
import struct

from support.hostile_server import COM_BINLOG_DUMP, COM_BINLOG_DUMP_GTID, COM_QUERY, END, OK, framed
from support.talk import GREETING, packet
from support.writer import numbering as n
from support.writer.wire import crc32

from .line import Line
from .questions import Asked
from .server import UUIDS, Server

_ARTIFICIAL = 0x20
_ACKNOWLEDGED = b"\xef"
_NON_BLOCK = 1
_HEARTBEAT = 27
_OF_FILES = (n.FORMAT_DESCRIPTION, n.MARIADB_GTID_LIST, n.MARIADB_BINLOG_CHECKPOINT, n.ROTATE, n.STOP)
_SYNTAX_ERROR = b"\xff\x28\x04#42000You have an error in your SQL syntax"


class Session:
    """One connection of a server."""

    def __init__(self, server: Server, line: Line) -> None:
        self.server = server
        self.line = line
        self._received = b""
        self._logged_in = False
        self._number = 0
        self._period = 15.0
        self._after: int | None = None  # transactions up to this one are not sent
        self._file: str | None = None  # of the dump
        self._at = 0
        self._wait = True
        self._skips = self._reached = False
        self._beat_at: float | None = None
        self._semi_sync = False
        self.asked = Asked(server)
        line.serve(self)
        server.sessions.append(self)

    def greet(self) -> None:
        """Send what a server says first."""
        version = self.server.kind.version.encode()
        shown = b"5.5.5-" + version if self.server.kind.mariadb else version
        self.line.deliver(packet(0, GREETING.replace(b"8.0.36", shown)))

    def over(self) -> None:
        """The line has ended."""
        self._file = None
        if self in self.server.sessions:
            self.server.sessions.remove(self)
        self.asked.end()

    def reads(self, file: str) -> bool:
        """Whether a log is being sent."""
        return self._file == file

    # ------------------------------------------------------------ commands

    def feed(self, data: bytes) -> None:
        """Take what the client sends."""
        self._received += data
        while len(self._received) >= 4:
            size = int.from_bytes(self._received[:3], "little")
            if len(self._received) < 4 + size:
                return
            number, payload = self._received[3], self._received[4 : 4 + size]
            self._received = self._received[4 + size :]
            if payload[:1] == _ACKNOWLEDGED:
                position = struct.unpack_from("<Q", payload, 1)[0]
                self.server.acknowledge(payload[9:].decode(), position)
            elif not self._logged_in:
                self._logged_in = True
                self.line.deliver(packet(number + 1, OK))
            else:
                self._command(payload)

    def _command(self, payload: bytes) -> None:
        if payload[0] == COM_QUERY:
            self._query(payload[1:].decode())
        elif payload[0] == COM_BINLOG_DUMP:
            at, flags, _ = struct.unpack_from("<IHI", payload, 1)
            self._dump(payload[11:].decode(), at, flags)
        elif payload[0] == COM_BINLOG_DUMP_GTID:
            flags, _, size = struct.unpack_from("<HII", payload, 1)
            at, length = struct.unpack_from("<QI", payload, 11 + size)
            self._after = _last_of(payload[23 + size : 23 + size + length])
            self._dump(payload[11 : 11 + size].decode(), at, flags)
        else:
            self.line.deliver(packet(1, OK))

    def _query(self, sql: str) -> None:
        server, rows = self.server, None
        if sql.startswith("SELECT VERSION()"):
            rows = [[server.kind.version]]
        elif sql.startswith("SHOW GLOBAL VARIABLES"):
            known = self._variables()
            rows = [[name, known[name]] for name in re.findall(r"'(\w+)'", sql) if name in known]
        elif server.kind.without_files and sql.startswith(("SHOW BINARY LOG", "SHOW MASTER STATUS")):
            self.line.deliver(packet(1, _SYNTAX_ERROR))  # what it answers is not published
            return
        elif sql.startswith("SHOW BINARY LOGS"):
            rows = [[name, str(log.position)] for name, log in server.logs.items()]
        elif sql.startswith(("SHOW BINARY LOG STATUS", "SHOW MASTER STATUS")):
            new = not server.kind.mariadb and n.version_of(server.kind.version) >= (8, 4)
            if new != sql.startswith("SHOW BINARY LOG STATUS"):
                self.line.deliver(packet(1, _SYNTAX_ERROR))
                return
            rows = [[server.file, str(server.log.position), "", ""]]
            if not server.kind.mariadb:
                rows[0].append(server.executed)
        elif found := re.match(r"SELECT BINLOG_GTID_POS\('(.*)', (\d+)\)", sql):
            rows = [[self._position_gtids(found[1], int(found[2]))]]
        elif sql.startswith("SET "):
            self._semi_sync |= "@rpl_semi_sync_slave=1" in sql
            if found := re.search(r"@master_heartbeat_period=(\d+)", sql):
                self._period = int(found[1]) / 1e9
            if found := re.search(r"@slave_connect_state='([^']*)'", sql):
                self._after = max((int(one.split("-")[2]) for one in found[1].split(",") if one), default=0)
        elif server.tables is not None:
            found = self.asked.answer(sql)
            if isinstance(found, bytes):
                self.line.deliver(packet(1, found))
                return
            rows = found
        if rows is None:
            self.line.deliver(packet(1, OK))
        else:
            self.line.deliver(
                framed([[None if one is None else one.encode() for one in each] for each in rows])
            )

    def _variables(self) -> dict[str, str]:
        server, kind = self.server, self.server.kind
        known = {
            "server_id": str(server.server_id),
            "log_bin": "ON",
            "binlog_checksum": "CRC32" if kind.checksum else "NONE",
            "binlog_format": "ROW",
            "binlog_row_image": "FULL",
            "lower_case_table_names": "0",
        }
        if kind.mariadb:
            engine = {"binlog_storage_engine": "innodb"} if kind.without_files else {}
            return known | engine | {"gtid_binlog_pos": server.executed}
        mode = "ON" if kind.gtids else "OFF"
        return known | {
            "server_uuid": server.uuid,
            "gtid_mode": mode,
            "gtid_executed": server.executed,
            "gtid_purged": f"{UUIDS[0]}:1-{server.restored_to}" if kind.gtids and server.restored_to else "",
        }

    def _position_gtids(self, file: str, at: int) -> str | None:
        server = self.server
        if not server.has(file) or at > server.logs[file].position:
            return None
        last = server.state(file)
        for one in server.written:
            if one.file == file and one.start < at:
                last = one.transaction.number
        return f"0-1-{last}" if last else ""

    # ------------------------------------------------------------ the dump

    def _dump(self, file: str, at: int, flags: int) -> None:
        server = self.server
        self._wait = not flags & _NON_BLOCK
        names = list(server.logs)
        if server.kind.without_files:
            file, at, self._after = "", 0, self._after or 0
        if self._after is not None:
            known = [name for name in names if server.state(name) <= self._after]
            if not known or self._after > server.last:
                self._refuse("the master has purged binary logs, or has other transactions")
                return
            if server.kind.mariadb or not file:  # MySQL begins in the log that the client names, if it does
                file, at = known[-1], self._indexed(known[-1])
        file = file or names[0]
        if not server.has(file):
            self._refuse("Could not find first log file name in binary log index file")
            return
        if at > server.logs[file].position:
            self._refuse("Client requested master to start replication from position > file size")
            return
        if not _begins_at(server.logs[file].getvalue(), max(4, at)):  # a place in another log of this name
            self._refuse("bogus data in log event")
            return
        self._open(file, max(4, at))
        self.send_log()

    def _indexed(self, file: str) -> int:
        """Where a server with an index of GTIDs begins to look for the first that is wanted."""
        server = self.server
        if not server.kind.without_positions:
            return 4
        places = [server.heads[file]]
        places += [
            one.start
            for one in server.written
            if one.file == file and one.transaction.number <= (self._after or 0)
        ]
        return server.world.chance.choice(places)

    def _refuse(self, why: str) -> None:
        self.line.deliver(packet(1, b"\xff\xd4\x04#HY000" + why.encode()))

    def _open(self, file: str, at: int) -> None:
        goes_on = self._file is not None
        self._file, self._at, self._skips = file, at, False
        if self.server.kind.without_files:  # one stream, whose descriptor is where the client begins
            if not goes_on:
                log = self.server.logs[file].getvalue()
                self._send(log[4 : 4 + struct.unpack_from("<I", log, 13)[0]])
            return
        self._send(
            self._artificial(
                n.ROTATE, struct.pack("<Q", at) + file.encode(), summed=self.server.kind.checksum
            )
        )
        if at > 4:
            log = self.server.logs[file].getvalue()
            length = struct.unpack_from("<I", log, 13)[0]
            event = bytearray(log[4 : 4 + length])
            event[13:17] = bytes(4)  # it is not at this place
            event[19 + 52 : 19 + 56] = bytes(4)
            event[-4:] = crc32(bytes(event[:-4]))
            self._send(bytes(event))

    def send_log(self) -> None:
        """Send what the logs have and the client does not."""
        while self._file is not None:
            log = self.server.logs[self._file]
            if self._at < log.position:
                self._send_events(log.getvalue())
                if self._skips:
                    self._end_of_skipping(0, was_skipping=True)
            elif (after := self.server.after(self._file)) is not None:
                self._open(after, 4)
            elif not self._wait:
                self._file = None
                self.line.deliver(packet(self._next(), END))
            else:
                self._beat_later()
                return

    def _send_events(self, data: bytes) -> None:
        while self._file is not None and self._at < len(data):
            length = struct.unpack_from("<I", data, self._at + 9)[0]
            event = data[self._at : self._at + length]
            self._at += length
            if self.server.kind.without_files and event[4] in _OF_FILES:
                continue
            if self._after is not None and not self._wanted(event):
                continue
            self._send(event)

    def _wanted(self, event: bytes) -> bool:
        """Whether an event is not one of a transaction that the client has."""
        assert self._after is not None
        kind = event[4]
        if kind in (n.GTID, n.MARIADB_GTID):
            number = struct.unpack_from("<q", event, 19 + 17 * (kind == n.GTID))[0]
            before, self._skips = self._skips, number <= self._after
            if not self._skips and (before or not self._reached):
                self._end_of_skipping(len(event), was_skipping=before)
        elif kind in (n.ROTATE, n.STOP, n.FORMAT_DESCRIPTION, n.PREVIOUS_GTIDS, n.MARIADB_GTID_LIST):
            return True
        return not self._skips

    def _end_of_skipping(self, length: int, *, was_skipping: bool) -> None:
        """What servers send behind the transactions that the client has: how far they reach."""
        kind = self.server.kind
        before, self._at = self._at, self._at - length
        if kind.mariadb:
            if not self._reached:
                state = (
                    struct.pack("<I", 1) + struct.pack("<IIQ", 0, 1, self._after) if self._after else bytes(4)
                )
                self._send(self._artificial(n.MARIADB_GTID_LIST, state, summed=kind.checksum))
        elif was_skipping:
            self._send(self._heartbeat())
        self._at, self._reached = before, True

    def _send(self, event: bytes) -> None:
        mark = b""
        if self.server.kind.without_files:
            summed = self.server.kind.checksum or event[4] == n.FORMAT_DESCRIPTION
            event = event[:13] + bytes(4) + event[17 : len(event) - 4 * summed]
            event += crc32(event) if summed else b""
        if self._semi_sync:  # the last event of a transaction waits for its acknowledgement
            mark = _ACKNOWLEDGED + bytes([(self._file, self._at) in self.server.ends])
        self.line.deliver(packet(self._next(), b"\0" + mark + event))

    def _next(self) -> int:
        self._number = (self._number + 1) % 256
        return self._number

    def _artificial(self, kind: int, body: bytes, *, summed: bool, flags: int = _ARTIFICIAL) -> bytes:
        length = 19 + len(body) + 4 * summed
        at = 0 if kind == n.ROTATE else self._at
        event = struct.pack("<IBIIIH", 0, kind, self.server.server_id, length, at, flags) + body
        return event + crc32(event) if summed else event

    def _heartbeat(self) -> bytes:
        name = b"binlog-000003.ibb" if self.server.kind.without_files else (self._file or "").encode()
        return self._artificial(_HEARTBEAT, name, summed=self.server.kind.checksum, flags=0)

    def _beat_later(self) -> None:
        world = self.server.world
        if self._beat_at is not None and self._beat_at > world.now():
            return
        self._beat_at = world.now() + self._period
        world.after(self._period, self._beat)

    def _beat(self) -> None:
        if self._file is not None:
            self._send(self._heartbeat())
            self._beat_later()


def _begins_at(log: bytes, at: int) -> bool:
    """Whether an event begins at a position of a log, or would."""
    place = 4
    while place < at:
        place += int.from_bytes(log[place + 9 : place + 13], "little")
    return place == at


def _last_of(data: bytes) -> int:
    """The end of the first host's transactions in an encoded set, which begins with 1."""
    if not struct.unpack_from("<Q", data)[0]:
        return 0
    return int(struct.unpack_from("<Q", data, 8 + 16 + 8 + 8)[0]) - 1
