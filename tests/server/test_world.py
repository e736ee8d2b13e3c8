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
from support.server import SERVER, connect, needs_server, run
from support.writer.numbering import MARIADB_BINLOG_CHECKPOINT, ROTATE
from world.line import Fault
from world.model import Change, Transaction
from world.server import Kind, Server
from world.world import SimulatedWorld

from binlog_core import GtidSet
from binlog_core.server.address import Address
from binlog_core.server.connection import Connection, Facts
from binlog_core.server.start import encoded

WORK = [
    Transaction(1, (Change(1, 0, "insert"),), (1,)),
    Transaction(2, (Change(2, 0, "insert"), Change(3, 0, "insert")), (2,)),
    Transaction(3, ()),
    Transaction(4, (Change(1, 0, "update"),), (1,)),
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
            "FLUSH BINARY LOGS",
            "UPDATE world.t SET note = 'd' WHERE n = 1",
            "FLUSH BINARY LOGS",
        )
        return facts, file, middle, facts.executed


@needs_server
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
    for transaction in WORK[1:3]:
        server.commit(transaction)
    server.rotate()
    server.commit(WORK[3])
    server.rotate()
    address = Address.of("mysql://root@a", {"world": world, "ssl_mode": "DISABLED"})
    ours = sent(
        address, "a-bin.000001", place if start == "middle" else 4, None if start != "gtids" else _one(kind)
    )
    theirs = sent(
        Address.of(SERVER), file, middle if start == "middle" else 4, executed if start == "gtids" else None
    )
    assert ours == theirs


def _one(kind: Kind) -> str:
    return "0-1-1" if kind.mariadb else "3e11fa47-71ca-11e1-9e33-c80aa9429562:1"
