"""The simulated world's server sends what a real one of its version sends, event by event."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path
from typing import NamedTuple

import pytest

pytest.importorskip("pymysql")
sys.path.insert(0, str(Path(__file__).parents[2] / "soak"))

from support.hostile_server import COM_BINLOG_DUMP, COM_BINLOG_DUMP_GTID
from support.server import SERVER, connect, run
from support.writer.numbering import (
    GTID,
    MARIADB_BINLOG_CHECKPOINT,
    MARIADB_GTID,
    ROTATE,
    XA_PREPARE,
)
from world.line import Fault
from world.model import Change, Transaction
from world.server import Kind, Server
from world.world import SimulatedWorld

from binlog_core import GtidSet
from binlog_core.server.address import Address
from binlog_core.server.connection import Connection, Facts
from binlog_core.server.start import encoded

BRANCH = "X'6669727374',X'',1"
WORK = [
    Transaction(1, (Change(1, 0, "insert"),), (1,)),
    Transaction(2, (Change(2, 0, "insert"), Change(3, 0, "insert")), (2,)),
    Transaction(3, (), statement="CREATE TABLE made (a INT)"),
    Transaction(4, (Change(4, 0, "insert"), Change(5, 0, "insert")), (1, 1), "savepoint"),
    Transaction(5, (Change(1, 0, "update", moves=True),), (1,)),
]
NON_BLOCK, ANNOTATE = 1, 2


class Sent(NamedTuple):
    """What tells an event of the stream from others, apart from its size."""

    kind: int
    without_time: bool
    without_position: bool
    flags: int


def sent(address: Address, file: str, at: int, after: str | None) -> list[Sent]:
    """The events that a server sends from a place, or after GTIDs, up to the second ROTATE of a log's end."""
    found, ends = [], 0
    with Connection(address) as connection:
        facts = connection.facts()
        for event in _dump(connection, facts, file, at, after):
            time, kind, _, _, position, flags = struct.unpack_from("<IBIIIH", event)
            if kind != MARIADB_BINLOG_CHECKPOINT:  # it is written a while after a log began
                found.append(Sent(kind, not time, not position, flags))
            ends += kind == ROTATE and not flags
            if ends == 2:
                break
    return found


def _dump(connection: Connection, facts: Facts, file: str, at: int, after: str | None) -> Iterator[bytes]:
    settings = ["@master_binlog_checksum=@@global.binlog_checksum", "@master_heartbeat_period=5000000000"]
    if facts.mariadb:
        settings.append("@mariadb_slave_capability=4")
        if after is not None:
            settings.append(f"@slave_connect_state='{after}'")
    else:
        settings.append("@slave_uuid='aaaaaaaa-71ca-11e1-9e33-c80aa9429562'")
    connection.query("SET " + ", ".join(settings))
    flags = NON_BLOCK | (ANNOTATE if facts.mariadb else 0)
    if after is not None and not facts.mariadb:
        gtids = encoded(GtidSet.parse(after), tags=False)
        arguments = struct.pack("<HIIQI", flags, 9_998, 0, 4, len(gtids)) + gtids
        connection.command(COM_BINLOG_DUMP_GTID, arguments)
    else:
        connection.command(COM_BINLOG_DUMP, struct.pack("<IHI", at, flags, 9_998) + file.encode())
    sock = connection.take_socket()
    sock.settimeout(20)
    received = b""
    while True:
        while len(received) < 4 or len(received) < 4 + int.from_bytes(received[:3], "little"):
            room = bytearray(1 << 16)
            count = sock.recv_into(room)
            assert count
            received += room[:count]
        size = int.from_bytes(received[:3], "little")
        payload, received = received[4 : 4 + size], received[4 + size :]
        if payload[0] != 0:
            assert payload[0] == 0xFE, payload
            return
        yield payload[1:]


def real() -> tuple[Facts, str, int, str]:
    """Do the work on the server; its log, and the place and the GTIDs after its first transaction."""
    with connect() as connection:
        run(
            connection,
            "CREATE DATABASE IF NOT EXISTS world",
            "CREATE OR REPLACE TABLE world.t (n BIGINT PRIMARY KEY, note VARCHAR(40))"
            if "MariaDB" in connection.get_server_info()
            else "CREATE TABLE IF NOT EXISTS world.t (n BIGINT PRIMARY KEY, note VARCHAR(40))",
            "DELETE FROM world.t",
            "DROP TABLE IF EXISTS world.made",
            "FLUSH BINARY LOGS",
        )
        file = run(connection, "SHOW BINARY LOGS")[-1][0]
        run(connection, "INSERT INTO world.t VALUES (1, 'a')")
        middle = int(run(connection, "SHOW BINARY LOGS")[-1][1])
        with Connection(Address.of(SERVER)) as asked:
            facts = asked.facts()
        run(
            connection,
            "INSERT INTO world.t VALUES (2, 'b'), (3, 'c')",
            "CREATE TABLE world.made (a INT)",
            "BEGIN",
            "INSERT INTO world.t VALUES (4, 'd')",
            "SAVEPOINT s",
            "INSERT INTO world.t VALUES (5, 'e')",
            "COMMIT",
            "FLUSH BINARY LOGS",
            "UPDATE world.t SET n = 6 WHERE n = 1",
            "FLUSH BINARY LOGS",
        )
        return facts, file, middle, facts.executed


@pytest.mark.server
@pytest.mark.parametrize("start", ["begin", "middle", "gtids"])
def test_the_stream_is_that_of_a_real_server(start: str) -> None:
    facts, file, middle, executed = real()
    if start == "gtids" and not facts.gtids:
        pytest.skip("the server has no GTIDs")
    world = SimulatedWorld(1, repeat(Fault()))
    kind = Kind(facts.version, gtids=facts.gtids, checksum=facts.checksum == "CRC32")
    server = Server(world, "a", kind, server_id=1)
    world.hosts = {"a": server}
    for transaction in WORK[:1]:
        server.commit(transaction)
    place = server.log.position
    for transaction in WORK[1:4]:
        server.commit(transaction)
    server.rotate()
    server.commit(WORK[4])
    server.rotate()
    address = Address.of("mysql://root@a", {"world": world, "ssl_mode": "DISABLED"})
    ours = sent(
        address, "a-bin.000001", place if start == "middle" else 4, None if start != "gtids" else _one(kind)
    )
    theirs = sent(
        Address.of(SERVER), file, middle if start == "middle" else 4, executed if start == "gtids" else None
    )
    assert ours == theirs


def _events(data: bytes) -> list[bytes]:
    events, at = [], 4
    while at < len(data):
        length = struct.unpack_from("<I", data, at + 9)[0]
        events.append(data[at : at + length])
        at += length
    return events


@pytest.mark.parametrize(
    ("log", "version", "gtids"),
    [
        ("mysql97/gtid_xa", "9.7.4", True),
        ("maria1011/xa", "10.11.18-MariaDB-log", True),
        ("maria118/xa", "11.8.6-MariaDB-log", True),
    ],
)
def test_xa_is_logged_as_a_server_does(log: str, version: str, gtids: bool) -> None:
    """A transaction of two tables that is prepared, and its commit, beside the log of a real server."""
    golden = _events((Path(__file__).parents[1] / "data" / f"{log}.binlog").read_bytes())
    prepared = next(i for i, event in enumerate(golden) if event[4] == XA_PREPARE)
    begin = max(i for i in range(prepared) if golden[i][4] in (GTID, MARIADB_GTID))
    server = Server(SimulatedWorld(1, repeat(Fault())), "a", Kind(version, gtids=gtids), server_id=1)
    at = server.log.position
    changes = Change(1, 0, "insert"), Change(2, 1, "insert")
    server.commit(Transaction(1, changes, (1, 1), "prepare", branch=BRANCH))
    server.commit(Transaction(2, (), statement=f"XA COMMIT {BRANCH}", branch=BRANCH))
    ours = _events(bytes(4) + server.log.getvalue()[at:])
    theirs = golden[begin : begin + len(ours)]
    assert [_form(event) for event in ours] == [_form(event) for event in theirs]
    for mine, its in zip(ours, theirs, strict=True):
        if mine[4] == XA_PREPARE:
            assert mine[19:-4] == its[19:-4]
        if mine[4] == MARIADB_GTID:  # flags, and the name of the XA transaction
            assert mine[31:43] == its[31:43]


ROLLED_BACK = [  # those that made a temporary table stay in the log
    "BEGIN",
    "INSERT INTO world.t VALUES (1, 'x')",
    "CREATE TEMPORARY TABLE world.first (n INT)",
    "ROLLBACK",
    "BEGIN",
    "INSERT INTO world.t VALUES (2, 'x')",
    "SAVEPOINT `s`",
    "INSERT INTO world.t VALUES (3, 'x')",
    "CREATE TEMPORARY TABLE world.second (n INT)",
    "ROLLBACK TO `s`",
    "COMMIT",
]
XA = [
    *("XA START 'first'", "INSERT INTO world.t VALUES (4, 'x')", "XA END 'first'", "XA PREPARE 'first'"),
    "XA COMMIT 'first'",
    *("XA START 'first'", "INSERT INTO world.t VALUES (5, 'x')", "XA END 'first'", "XA PREPARE 'first'"),
    "XA ROLLBACK 'first'",
    *("XA START 'first'", "INSERT INTO world.t VALUES (6, 'x')", "XA END 'first'"),
    "XA COMMIT 'first' ONE PHASE",
]


@pytest.mark.server
@pytest.mark.parametrize("what", ["rollbacks", "xa"])
def test_what_is_undone_is_logged_as_a_real_server_does(what: str) -> None:
    """Transactions that are rolled back, to a savepoint too, and XA ones that come to each of their ends."""
    with connect() as connection:
        run(
            connection,
            "CREATE DATABASE IF NOT EXISTS world",
            "CREATE TABLE IF NOT EXISTS world.t (n BIGINT PRIMARY KEY, note VARCHAR(40))",
            "DELETE FROM world.t",
            "USE world",
            "FLUSH BINARY LOGS",
        )
        file, at = run(connection, "SHOW BINARY LOGS")[-1][:2]
        with Connection(Address.of(SERVER)) as asked:
            facts = asked.facts()
        kind = Kind(facts.version, gtids=facts.gtids, checksum=facts.checksum == "CRC32")
        if what == "xa" and not kind.logs_xa:
            pytest.skip("the server does not log what is prepared")
        if what == "rollbacks" and not kind.mariadb:
            pytest.skip("MySQL 9.7 cuts what is rolled back off, however the transaction went")
        run(connection, *(XA if what == "xa" else ROLLED_BACK))
    with Connection(Address.of(SERVER)) as reading:
        theirs = list(_dump(reading, facts, file, int(at), None))[2:]
    theirs = [
        one for one in theirs if one[4] != MARIADB_BINLOG_CHECKPOINT
    ]  # written a while after a log began
    server = Server(SimulatedWorld(1, repeat(Fault())), "a", kind, server_id=1)
    place = server.log.position
    for transaction in _undone() if what == "rollbacks" else _prepared():
        server.commit(transaction)
    ours = _events(bytes(4) + server.log.getvalue()[place:])
    assert [_form(event) for event in ours] == [_form(event) for event in theirs]


def _undone() -> list[Transaction]:
    return [
        Transaction(1, (Change(1, 0, "insert"),), (1,), "rollback"),
        Transaction(2, (Change(2, 0, "insert"), Change(3, 0, "insert")), (1, 1), "undone"),
    ]


def _prepared() -> list[Transaction]:
    def changed(number: int, way: str) -> Transaction:
        return Transaction(number, (Change(number, 0, "insert"),), (1,), way, branch=BRANCH)

    ends = [Transaction(n, (), statement=f"XA {end} {BRANCH}", branch=BRANCH) for n, end in _ENDS]
    return [changed(1, "prepare"), ends[0], changed(3, "prepare"), ends[1], changed(5, "one phase")]


_ENDS = ((2, "COMMIT"), (4, "ROLLBACK"))


def _form(event: bytes) -> Sent:
    _, kind, _, _, position, flags = struct.unpack_from("<IBIIIH", event)
    return Sent(kind, False, not position, flags)


def _one(kind: Kind) -> str:
    return "0-1-1" if kind.mariadb else "3e11fa47-71ca-11e1-9e33-c80aa9429562:1"
