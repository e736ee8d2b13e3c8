"""A server with several writers has purged the transactions of one that nobody needs."""

from __future__ import annotations

import time
from typing import Any
from uuid import uuid4

import pytest
from support.live import is_mariadb, note, rows_of, write
from support.server import SERVER, run

import binlog_core
from binlog_core import MariadbGtidSet, PurgedError
from binlog_core.gtids import parse_gtid_set
from binlog_core.server.address import Address


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("5, 7", ("5", "7")),
        (5, ("5",)),
        ([5, "7"], ("5", "7")),
        ("00112233-4455-6677-8899-AABBCCDDEEFF", ("00112233-4455-6677-8899-aabbccddeeff",)),
    ],
)
def test_the_option(given: Any, expected: tuple[str, ...]) -> None:
    assert Address.of("mysql://db1", {"ignore_missing_gtids": given}).ignore_missing_gtids == expected


@pytest.mark.parametrize("given", ["", "x", "5;7", "0-1-5"])
def test_what_is_not_a_writer(given: Any) -> None:
    with pytest.raises(ValueError, match="expected UUIDs"):
        Address.of("mysql://db1", {"ignore_missing_gtids": given})


def _mariadb(connection: Any) -> bool:
    return "mariadb" in run(connection, "SELECT VERSION()")[0][0].lower()


@pytest.mark.server
def test_purged_transactions_of_a_writer_that_is_not_needed(connection: Any) -> None:
    if is_mariadb(connection):
        writer = "7"
        run(connection, "SET SESSION gtid_domain_id = 7, SESSION gtid_seq_no = 1000000")
        write(connection, 900, 1)
        run(connection, "SET SESSION gtid_domain_id = 0")
        had = MariadbGtidSet.parse(run(connection, "SELECT @@gtid_binlog_pos")[0][0])
        needed: Any = MariadbGtidSet(part for part in had.intervals() if part[0][0] != 7)
    else:
        if run(connection, "SELECT @@gtid_mode")[0][0] != "ON":
            pytest.skip("without GTIDs")
        writer = str(uuid4())
        run(connection, f"SET gtid_next = '{writer}:1'")
        write(connection, 900, 1)
        run(connection, "SET gtid_next = 'AUTOMATIC'")
        needed = parse_gtid_set(run(connection, "SELECT @@gtid_executed")[0][0]) - parse_gtid_set(
            f"{writer}:1"
        )
    run(connection, "FLUSH BINARY LOGS")
    write(connection, 901, 1)
    last = run(connection, "SHOW BINARY LOGS")[-1][0]
    for _ in range(100):  # MariaDB keeps a log without a word until its checkpoint is written
        run(connection, f"PURGE BINARY LOGS TO '{last}'")
        if run(connection, "SHOW BINARY LOGS")[0][0] == last:
            break
        time.sleep(0.1)
    with pytest.raises(PurgedError), binlog_core.open(SERVER, start=needed) as log:
        list(log.rows())
    with pytest.raises(PurgedError):
        other = {"ignore_missing_gtids": "8" if is_mariadb(connection) else str(uuid4())}
        with binlog_core.open(SERVER, start=needed, server=other) as log:
            list(log.rows())
    with binlog_core.open(SERVER, start=needed, server={"ignore_missing_gtids": writer}) as log:
        assert [note(change) for change in rows_of(log)] == ["901.0"]
        assert log.report.reconnects == 0
