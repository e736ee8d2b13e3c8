"""A client's questions to a server, and answers and streams to them that no server gives, by a seed.

`SCENARIOS` are what a client does with a server; together they send every statement that binlog_core sends.
With the `good` answers each of them ends well. `hostile_run` answers one of the statements, the dump, or a
step of the login, with something else: whatever that is, only errors of binlog_core come out.
"""

from __future__ import annotations

import datetime as dt
import random
import struct
import threading
import warnings
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import binlog_core
from binlog_core._core import _packets
from binlog_core._core._packets import Packets
from binlog_core.archive.live_feed import LiveFeed
from binlog_core.errors import BinlogError
from binlog_core.gtids import AnyGtidSet, parse_gtid_set
from binlog_core.mirror import copies, losses, marks, values
from binlog_core.mirror.state import TableState
from binlog_core.mirror.unlogged import reach_of
from binlog_core.replay import ServerUndo, plan_undo
from binlog_core.server.address import Address
from binlog_core.server.connection import Connection
from binlog_core.server.definitions import tables_at
from binlog_core.server.doctor import examine
from binlog_core.server.result_set import result_rows
from binlog_core.server.start import logs_of, start_of, status_of, still_has

from .direct import Direct
from .hostile_server import OK, PASSWORD, Answer, HostileServer, Raw, framed
from .talk import packet
from .writer import Log, Table

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
FILE = "bin.000002"
_LOGS = Path(__file__).resolve().parent.parent / "data"
_LONGEST = 6000  # bytes of a golden log that is sent as a stream
EXTREMES = (
    *(
        None,
        b"",
        b"0",
        b"-1",
        b"1",
        b"NULL",
        b"ON",
        b"\x00",
        b"\xff\xfe",
        b"\x1b[2J",
        b"-rf",
        b"a\nb",
        b"9" * 5000,
    ),
    *(
        b"18446744073709551615",
        b"9223372036854775808",
        b"1e400",
        b"nan",
        b" 7 ",
        "٣".encode(),
        b"../../etc/passwd",
    ),
    *(
        b"8.0.36",
        b"10.11.6-MariaDB",
        f"{UUID}:1-5".encode(),
        f"{UUID}:5-1".encode(),
        b"0-1-5",
        b"bin.000009",
        b"'; --",
    ),
)
_VARIABLES = {
    "server_id": "1",
    "log_bin": "ON",
    "binlog_checksum": "CRC32",
    "server_uuid": UUID,
    "gtid_mode": "ON",
    "gtid_executed": f"{UUID}:1-9",
    "gtid_purged": f"{UUID}:1-2",
    "gtid_binlog_pos": "0-1-9",
    "binlog_format": "ROW",
    "binlog_row_image": "FULL",
    "binlog_expire_logs_seconds": "864000",
    "log_replica_updates": "OFF",
    "lower_case_table_names": "0",
    "basedir": "/rdsdbbin/x",
}
_LOGINS = ("caching_sha2_password", "sha256_password", "mysql_clear_password", "dialog", "client_ed25519")
_FIRST_LOGIN = 4  # packets, the switch to another method included
_METHODS = (
    b"",
    b"mysql_native_password",
    *(one.encode() for one in _LOGINS),
    b"mysql_old_password",
    b"\xff\x1b",
)
_CODES = (1045, 1064, 1236, 1062, 2013, 0, 65535)
_TABLE = (
    b"CREATE TABLE `t` (\n  `id` int NOT NULL,\n  `note` varchar(20) DEFAULT NULL,\n  PRIMARY KEY (`id`)\n)"
)


def _variables(mariadb: bool) -> Callable[[str], Answer]:
    def answer(sql: str) -> Answer:
        wanted = [name for name in _VARIABLES if f"'{name}'" in sql]
        other = ("server_uuid", "gtid_mode", "gtid_executed") if mariadb else ("gtid_binlog_pos",)
        return [[name.encode(), _VARIABLES[name].encode()] for name in wanted if name not in other]

    return answer


def good(*, mariadb: bool) -> dict[str, Answer]:
    """What a server answers, by the beginning of the statement."""
    gtids = b"" if mariadb else f"{UUID}:1-9".encode()
    status = [[FILE.encode(), b"4096", b"", b"", gtids]]
    return {
        "SELECT VERSION()": [[b"10.11.6-MariaDB-log" if mariadb else b"8.0.36"]],
        "SHOW GLOBAL VARIABLES": _variables(mariadb),
        "SHOW BINARY LOG STATUS": status,
        "SHOW MASTER STATUS": status,
        "SHOW BINARY LOGS": [[b"bin.000001", b"500"], [FILE.encode(), b"4096"]],
        "SELECT BINLOG_GTID_POS": [[b"0-1-4"]],
        "SHOW GRANTS": [[b"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO me"]],
        "SELECT value FROM mysql.rds_configuration": [[b"24"]],
        "SELECT schema_name": [[b"shop", b"utf8mb4"]],
        "SELECT SCHEMA_NAME": [[b"shop", b"utf8mb4"]],
        "SELECT table_schema": [[b"shop", b"t"]],
        "SELECT DISTINCT": [[b"shop", b"t"]],
        "SELECT t.TABLE_SCHEMA": [[b"shop", b"t"]],
        "SELECT AVG_ROW_LENGTH": [[b"100", b"BASE TABLE", b"16384"]],
        "SELECT `id` FROM": [],
        "SELECT `id`, `note` FROM": [[b"1", b"a"], [b"2", None]],
        "SELECT COLUMN_NAME, EXTRA": [[b"id", b""], [b"note", b""]],
        "SELECT e.ENGINE": [[b"InnoDB", b"YES"]],
        "SELECT TRIGGER_NAME": [[b"audit"]],
        "SELECT CONSTRAINT_SCHEMA": [[b"shop", b"fk", b"shop", b"t", b"id", b"shop", b"p", b"id"]],
        "SELECT COUNT(*)": [[b"0"]],
        "SELECT ROW_COUNT()": [[b"1"]],
        "SELECT 1 FROM": [[b"1"]],
        "SHOW CREATE TABLE": [[b"t", _TABLE]],
        "SHOW STATUS LIKE 'binlog_snapshot": [
            [b"binlog_snapshot_file", FILE.encode()],
            [b"binlog_snapshot_position", b"4096"],
        ],
        "SHOW GLOBAL STATUS LIKE 'Slave": [],
        "SHOW REPLICA STATUS": [],
    }


# ---------------------------------------------------------------- what a client does


@dataclass(frozen=True)
class Client:
    """How a client reaches the server."""

    url: str = "mysql://me:geheim@db1"
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def address(self) -> Address:
        """The server's address."""
        usual = {"connect_timeout": 2, "reconnect": 0, "heartbeat": 2, "ssl_mode": "DISABLED"}
        return Address.of(self.url, usual | self.options)

    def connect(self) -> Connection:
        """A connection to it."""
        return Connection(self.address)


def _read(client: Client, gtids: AnyGtidSet, **options: Any) -> None:
    address = client.address
    server = {one: getattr(address, one) for one in ("connect_timeout", "reconnect", "heartbeat", "ssl_mode")}
    server |= client.options
    with binlog_core.open(client.url, server=server, follow=False, **options) as log:
        for group in log.groups():
            str(group.position)
            for batch in group.batches:
                batch.to_arrow()


def _ask(client: Client, gtids: AnyGtidSet) -> None:
    with client.connect() as connection:
        facts = connection.facts()
        repr((facts, facts.number))
        status_of(connection), logs_of(connection), still_has(connection, facts)
        for start in ("now", (FILE, 4), dt.datetime(2020, 1, 1, tzinfo=dt.UTC), gtids):
            start_of(connection, facts, start)


def _mirror(client: Client, gtids: AnyGtidSet) -> None:
    with client.connect() as connection:
        facts = connection.facts()
        mark = marks.take_mark(connection, facts)
        marks.place_mark(connection, "x", by_gtids=facts.by_gtids_only)
        losses.check_filters(connection, ["shop"])
        losses.warn_of_cascades(reach_of(connection, facts), bool)
        losses.warn_of_partial_json(connection)
        for warn in (losses.warn_of_generated_columns, losses.warn_of_engines):
            warn(connection, facts, bool)
        values.set_for_reading(connection)
        state = TableState("shop", "t")
        copies.is_hidden(connection, state)
        copies.plan_copy(connection, state, vars(mark), mariadb=facts.mariadb)
        losses.check_settings(connection)


def _copy(client: Client, gtids: AnyGtidSet) -> None:
    with client.connect() as connection:
        for rows in connection.stream("SELECT `id`, `note` FROM `shop`.`t`"):
            list(rows.tuples())


def _undo(client: Client, gtids: AnyGtidSet) -> None:
    log = Log("8.0.36")
    log.previous_gtids()
    log.gtid(UUID, 1)
    log.begin()
    log.insert(_ORDERS, [{"id": 1, "note": "a"}])
    log.commit()
    for act in (ServerUndo.check, ServerUndo.execute):
        with client.connect() as connection:
            act(ServerUndo(plan_undo(log.getvalue()), connection))


def _feed(client: Client, gtids: AnyGtidSet) -> None:
    address = client.address
    feed = LiveFeed(address, address.hosts[0], 77, threading.Event())
    try:
        for start in (None, "now", gtids):
            feed.locate(start)
        for _ in feed.dump(FILE, 4, until_now=True):
            pass
    finally:
        feed.close()


_ORDERS = Table("shop", "t", [("id", "INT"), ("note", "VARCHAR(20)")], primary_key=["id"])

SCENARIOS: dict[str, Callable[[Client, AnyGtidSet], Any]] = {
    "ask": _ask,
    "read": _read,
    "read with the server's definitions": lambda client, gtids: _read(client, gtids, schema="server"),
    "read from GTIDs": lambda client, gtids: _read(client, gtids, start=gtids),
    "doctor": lambda client, gtids: examine(client.address),
    "definitions": lambda client, gtids: tables_at(client.address, "shop"),
    "mirror": _mirror,
    "copy": _copy,
    "undo": _undo,
    "archive": _feed,
}


def had(*, mariadb: bool) -> AnyGtidSet:
    """GTIDs that a client has read before."""
    return parse_gtid_set("0-1-3" if mariadb else f"{UUID}:1-3")


def log_events(*, mariadb: bool) -> list[bytes]:
    """What a server sends as its log: where it begins, and its events."""
    log = Log("10.11.6-MariaDB-log" if mariadb else "8.0.36")
    if not mariadb:
        log.previous_gtids()
    for number in range(1, 4):
        if mariadb:
            log.maria_gtid(number)
        else:
            log.gtid(UUID, number)
            log.begin("shop")
        log.insert(_ORDERS, [{"id": number, "note": "a"}, {"id": -number, "note": None}])
        log.commit(number)
    return _sent(log.getvalue())


def _sent(log: bytes) -> list[bytes]:
    at, out = 4, [rotation(4, FILE.encode())]
    while at < len(log):
        length = int.from_bytes(log[at + 9 : at + 13], "little")
        out.append(log[at : at + length])
        at += length
    return out


@cache
def golden_events(*, mariadb: bool) -> list[list[bytes]]:
    """The same of real servers' logs, those that are short."""
    folders = ("maria1011", "maria118") if mariadb else ("mysql56", "mysql97")
    paths = [path for folder in folders for path in sorted((_LOGS / folder).glob("*.binlog"))]
    logs = [path.read_bytes() for path in paths if path.stat().st_size <= _LONGEST]
    return [_sent(log) for log in logs if log.startswith(b"\xfebin")]


def rotation(position: int, name: bytes) -> bytes:
    """The event that names a log."""
    body = struct.pack("<Q", position) + name
    return struct.pack("<IBIIIH", 0, 4, 1, 19 + len(body), 0, 0x20) + body


# ---------------------------------------------------------------- what a hostile server answers instead


def _byte(chance: random.Random) -> int:
    return chance.choice((0, 1, 127, 128, 0xFB, 0xFC, 0xFE, 0xFF, chance.randrange(256)))


def hostile_answer(chance: random.Random, usual: Answer) -> Answer:
    """Something else than the usual rows: other values, other shapes, packets that are none."""
    rows = [list(row) for row in usual] if not isinstance(usual, bytes) else []
    match chance.randrange(8):
        case 0:
            return OK  # no rows
        case 1:
            return b"\xff" + struct.pack("<H", chance.choice(_CODES)) + b"#HY000 no"
        case 2:
            return Raw(packet(1, chance.randbytes(chance.randrange(1, 40))))
        case 3:
            changed = bytearray(framed(rows))
            for _ in range(chance.randrange(1, 6)):
                changed[chance.randrange(len(changed))] = chance.choice(
                    (0, 1, 0xFB, 0xFE, 0xFF, chance.randrange(256))
                )
            return Raw(changed[: chance.randrange(1, len(changed))] if chance.random() < 0.2 else changed)
        case 4:
            return [row[: chance.randrange(1, len(row) + 1)] for row in rows]
        case 5:
            return [[*row, *chance.choices(EXTREMES, k=3)] for row in rows * chance.randrange(3)]
        case _:
            for row in rows or [[b""]]:
                for i in range(len(row)):
                    if chance.random() < 0.5:
                        row[i] = chance.choice(EXTREMES)
            return rows


def hostile_stream(chance: random.Random, events: list[bytes]) -> list[bytes | Raw]:
    """A dump of other events: changed, cut, doubled, in another order, or with other packets between them."""
    out: list[bytes | Raw] = list(events)
    sealed = events[1][-5] == 1 and chance.random() < 0.7  # with right checksums: otherwise little is reached
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(out))
        match chance.randrange(7):
            case 0 | 1 | 2:
                changed = bytearray(out[at])
                for _ in range(chance.randrange(1, 4)):
                    place = chance.randrange(len(changed)) if chance.random() < 0.7 else chance.randrange(19)
                    changed[place % len(changed)] = _byte(chance)
                if sealed and len(changed) > 23:
                    changed[-4:] = zlib.crc32(changed[:-4]).to_bytes(4, "little")
                out[at] = bytes(changed)
            case 3:
                out[at] = out[at][: chance.randrange(1, len(out[at]) + 1)]
            case 4:
                out.insert(at, chance.choice(out))
            case 5:
                name = chance.choice(
                    (
                        b"",
                        b"-x",
                        b"a\x1b[2J.000001",
                        b"bin.000003",
                        b"\xff.000001",
                        b"n" * 600,
                        b"../b.000003",
                    )
                )
                out.insert(at, rotation(chance.choice((4, 0, 157, 1 << 63, (1 << 64) - 1)), name))
            case _:
                out.insert(at, Raw(packet(chance.randrange(256), chance.randbytes(chance.randrange(30)))))
    return out


def hostile_payload(chance: random.Random, usual: bytes) -> bytes:
    """Another packet of a login: changed, cut, longer, or one that does not belong there."""
    match chance.randrange(6):
        case 0 | 1 | 2:
            changed = bytearray(usual)
            for _ in range(chance.randrange(1, 5)):
                changed[chance.randrange(len(changed))] = _byte(chance)
            return bytes(changed)
        case 3:
            return usual[: chance.randrange(len(usual) + 1)]
        case 4:
            return usual + chance.randbytes(chance.choice((1, 8, 300, 70_000)))
        case _:
            method = chance.choice(_METHODS)
            wrong = (b"", OK, b"\1", b"\1\3", b"\1\4", b"\xfe", b"\xfb/etc/passwd", b"\xfe\0\0\2\0")
            asks = b"\xfe" + method + b"\0" + chance.randbytes(chance.choice((0, 1, 20, 21, 400)))
            return chance.choice((*wrong, asks, asks, b"\xff\x15\x04#28000no", b"\1" + chance.randbytes(400)))


@dataclass
class Asked:
    """A server in the client's own thread, and how a client reaches it.

    Parameters
    ----------
    client : Client
    server : HostileServer
    noted : list of str
        What it was asked, in order: "login" for each of its packets until the client is logged in,
        statements, "" for a dump.
    at : int or None
        The number of the question that gets a hostile answer.
    """

    client: Client
    server: HostileServer
    noted: list[str]
    at: int | None

    @property
    def was_hostile(self) -> bool:
        """Whether it has come to that question."""
        return self.at is not None and self.at < len(self.noted)


def asked(*, mariadb: bool, at: int | None = None, seed: float = 0) -> Asked:
    """Such a server; the question of number `at` gets a hostile answer."""
    noted: list[str] = []
    chance = random.Random(seed)
    usual, events = good(mariadb=mariadb), log_events(mariadb=mariadb)
    method, switch, options = "mysql_native_password", None, {}
    if at is not None:
        if chance.random() < 0.7:
            events = chance.choice(golden_events(mariadb=mariadb))
        if at < _FIRST_LOGIN:
            method, switch = chance.choice((method, *_LOGINS)), chance.choice((None, None, *_LOGINS))
        options = {"reconnect": chance.choice((0, 30))}

    def hostile() -> bool:
        return at == len(noted) - 1

    def answer(sql: str) -> Answer:
        found: Any = next((given for start, given in usual.items() if sql.startswith(start)), OK)
        found = found(sql) if callable(found) else found
        noted.append(sql)
        return hostile_answer(chance, found) if hostile() else found

    def dump() -> list[bytes | Raw]:
        noted.append("")
        return hostile_stream(chance, events) if hostile() else list(events)

    def said(payload: bytes) -> bytes:
        noted.append("login")
        return hostile_payload(chance, payload) if hostile() else payload

    server = HostileServer(plugin=method, switch=switch, answers={"": answer}, log=dump)
    return Asked(Client(options={"world": Direct(server, chance, said), **options}), server, noted, at)


def hostile_run(name: str, *, mariadb: bool, at: int, seed: float) -> str | None:
    """Run a scenario with one hostile answer; the kind of error that came out, "an end" if none.

    None: it did not come to that answer. Any other error than those of binlog_core comes out of this, too.
    """
    one = asked(mariadb=mariadb, at=at, seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            SCENARIOS[name](one.client, had(mariadb=mariadb))
        except BinlogError as error:
            assert str(error).isprintable(), repr(str(error))
            return type(error).__name__ if one.was_hostile else None
        finally:
            assert not any(PASSWORD in got for got in one.server.received), "the password was sent"
    return "an end" if one.was_hostile else None


def hostile_packets(seed: float) -> None:
    """A mutated stream through the compiled reader of packets alone, in pieces of any size."""
    chance = random.Random(seed)
    events = hostile_stream(chance, chance.choice(golden_events(mariadb=chance.random() < 0.5)))
    wire = bytearray()
    for number, event in enumerate(events, 1):
        mark = b"\0\xef" + bytes([chance.randrange(3)]) if seed % 2 else b"\0"
        wire += event if isinstance(event, Raw) else packet(number % 256, mark + event)
    packets = Packets(chance.choice((100, 1 << 20)), semi_sync=bool(seed % 2), numbered=chance.random() < 0.8)
    packets.go_to(chance.choice((0, 4, 157, (1 << 32) - 60)))
    buffer, at, most = (
        bytearray(chance.choice((64, 4096, 1 << 16))),
        0,
        chance.choice((1, 60, 3000, 1 << 16, 1 << 16)),
    )
    left = len(wire) + len(events)
    while left:
        left -= 1
        status = packets.strip(buffer)
        if status == _packets.HOLE:
            packets.accept(buffer, chance.choice((packets.gap, packets.position)))
        elif status == _packets.SPECIAL:
            packets.drop()
        elif status != _packets.MORE:
            return
        packets.take_gtids()
        packets.compact(buffer, buffer)
        if packets.fill == len(buffer):
            larger = bytearray(2 * len(buffer))
            packets.compact(buffer, larger)
            buffer = larger
        size = min(len(wire) - at, len(buffer) - packets.fill, chance.randrange(1, most + 1))
        if not size and status == _packets.MORE:
            return
        buffer[packets.fill : packets.fill + size] = wire[at : at + size]
        packets.fill += size
        at += size


def hostile_rows(seed: float) -> None:
    """A mutated result through the compiled reader alone, in pieces of any size."""
    chance = random.Random(seed)
    data = bytearray(framed([[b"1", b"a" * chance.randrange(400)], [b"2", None]] * chance.randrange(1, 9)))
    for _ in range(chance.randrange(6)):
        data[chance.randrange(len(data))] = chance.choice(
            (0, 1, 0xFB, 0xFC, 0xFE, 0xFF, chance.randrange(256))
        )
    left = memoryview(bytes(data))

    def receive(room: memoryview) -> int:
        nonlocal left
        count = min(len(room), len(left), chance.randrange(1, 900))
        room[:count], left = left[:count], left[count:]
        return count

    import pymysql

    try:
        for rows in result_rows(receive, most=chance.choice((64, 256, 4096))):
            list(rows.tuples())
            for number in range(2):
                for form in range(1, 7):
                    try:
                        rows.column(number, form, precision=9, scale=2)
                    except ValueError:
                        pass
    except (BinlogError, pymysql.Error):
        pass
