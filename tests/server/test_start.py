"""Where reading begins and ends on a server, also in the words of the protocol."""

from __future__ import annotations

import datetime as dt
import time
from contextlib import nullcontext
from typing import Any

import pytest
from support.live import is_mariadb, note, notes, rows_of, status, write
from support.server import SERVER, run

import binlog_core
from binlog_core import GtidSet, MariadbGtidSet
from binlog_core.errors import (
    DivergedError,
    PositionError,
    PurgedError,
    ServerError,
)
from binlog_core.server.connection import Facts
from binlog_core.server.start import encoded, lacking, unknown_sources

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def number(value: int) -> bytes:
    return value.to_bytes(8, "little")


def test_a_set_for_com_binlog_dump_gtid() -> None:
    source = bytes.fromhex(UUID.replace("-", ""))
    # Sources; of each its UUID, its intervals, and of each interval the first and the one after its last.
    want = number(1) + source + number(2) + number(1) + number(6) + number(8) + number(9)
    assert encoded(GtidSet.parse(f"{UUID}:1-5:8"), tags=True) == want
    assert encoded(GtidSet(), tags=False) == number(0)


def test_tags_are_refused_where_the_server_does_not_know_them() -> None:
    tagged = GtidSet.parse(f"{UUID}:blue:1")
    # The first and last byte of the count mark the form with tags; a tag's length is doubled.
    assert encoded(tagged, tags=True)[:8] == bytes((1, 1, 0, 0, 0, 0, 0, 1))
    assert encoded(tagged, tags=True)[24:29] == b"\x08blue"
    with pytest.raises(ServerError, match="have tags"):
        encoded(tagged, tags=False)


def facts_of(executed: str, *, mariadb: bool = False) -> Facts:
    version = "10.11.18-MariaDB" if mariadb else "8.0.36"
    return Facts(version, mariadb, 1, None if mariadb else UUID, "CRC32", True, executed)


OTHER = "11111111-2222-3333-4444-555555555555"


@pytest.mark.parametrize(
    ("executed", "asked", "unknown"),
    [
        (f"{UUID}:1-5", f"{UUID}:1-9", None),  # its own: the server itself refuses
        ("", f"{UUID}:1", None),
        (f"{UUID}:1-5,{OTHER}:7", f"{OTHER}:1-9", None),
        (f"{UUID}:1-5", f"{UUID}:1,{OTHER}:blue:1-9", f"server {OTHER}"),
        (f"{UUID}:1-5", "", None),
    ],
)
def test_servers_of_a_set_that_a_server_never_heard_of(
    executed: str, asked: str, unknown: str | None
) -> None:
    found = unknown_sources(facts_of(executed), GtidSet.parse(asked))
    assert (found is None) == (unknown is None)
    assert unknown is None or unknown in str(found)


@pytest.mark.parametrize(
    ("executed", "asked", "unknown", "missing"),
    [
        ("0-1-5,2-7-3", "0-9-5", None, None),
        ("0-1-5,2-7-3", "2-7-4", None, "2-7-4"),
        ("0-1-5", "0-1-5,3-1-1", "domain 3,", "3-1-1"),
        ("0-1-5", "3-1-1,4-1-1", "domain 3 and 1 more", "3-1-1"),
        ("", "0-1-1", "domain 0", "0-1-1"),
    ],
)
def test_domains_that_a_server_never_had(
    executed: str, asked: str, unknown: str | None, missing: str | None
) -> None:
    facts, gtids = facts_of(executed, mariadb=True), MariadbGtidSet.parse(asked)
    found = unknown_sources(facts, gtids)
    assert (found is None) == (unknown is None)
    assert unknown is None or f"transactions of {unknown.rstrip(',')} are expected" in str(found)
    assert lacking(facts, gtids) == missing


@pytest.mark.server
def test_gtids_of_an_unknown_server_are_reported(connection: Any) -> None:
    write(connection, 0, 1)
    if is_mariadb(connection):
        known = binlog_core.MariadbGtidSet.parse(run(connection, "SELECT @@gtid_binlog_pos")[0][0])
        gtids: Any = known | binlog_core.MariadbGtidSet.parse("77-1-5")
    elif "ON" in run(connection, "SELECT @@gtid_mode")[0]:
        known = GtidSet.parse(run(connection, "SELECT @@global.gtid_executed")[0][0])
        gtids = known | GtidSet.parse(f"{OTHER}:1-5")
    else:
        pytest.skip("the server has no GTIDs (gtid_mode is not ON)")
    write(connection, 1, 2)
    with binlog_core.open(SERVER, start=known) as log:
        assert notes(rows_of(log)) == ["1.0", "2.0"]
        assert log.report.unknown_sources == 0
    with binlog_core.open(SERVER, start=gtids) as log:
        with pytest.warns(binlog_core.BinlogWarning, match="never had one of them"):
            assert notes(rows_of(log)) == ["1.0", "2.0"]
        assert log.report.unknown_sources == 1
    with binlog_core.open(SERVER, start=gtids, strict=True) as log, pytest.raises(binlog_core.StrictError):
        list(rows_of(log))


@pytest.mark.server
def test_now_begins_behind_what_is_there(connection: Any) -> None:
    write(connection, 0, 3)
    with binlog_core.open(SERVER, start="now") as log:
        assert notes(rows_of(log)) == []
    with binlog_core.open(SERVER, start="now", follow=True) as log:
        written = write(connection, 3, 3)
        changes = rows_of(log)
        assert [note(next(changes)) for _ in written] == ["3.0", "4.0", "5.0"]


@pytest.mark.server
def test_a_time_begins_in_the_log_that_has_it(connection: Any) -> None:
    write(connection, 0, 2)
    time.sleep(1.1)  # header timestamps are whole seconds
    run(connection, "FLUSH BINARY LOGS")
    moment = dt.datetime.fromtimestamp(int(run(connection, "SELECT UNIX_TIMESTAMP()")[0][0]), dt.UTC)
    write(connection, 2, 2)
    with binlog_core.open(SERVER, start=moment) as log:
        assert notes(rows_of(log)) == ["2.0", "3.0"]
        assert len(log.headers()) < 100  # of the last log alone


@pytest.mark.server
def test_stop_ends_before_what_comes_behind(connection: Any) -> None:
    start = status(connection)
    write(connection, 0, 4)
    stop = status(connection)
    write(connection, 4, 4)
    with binlog_core.open(SERVER, start=start, stop=stop) as log:
        assert notes(rows_of(log)) == [f"{i}.0" for i in range(4)]


@pytest.mark.server
def test_it_ends_where_the_server_stood_when_it_was_asked(connection: Any) -> None:
    start = status(connection)
    write(connection, 0, 4)
    with binlog_core.open(SERVER, start=start) as log:
        write(connection, 4, 4)
        assert notes(rows_of(log)) == [f"{i}.0" for i in range(4)]


@pytest.mark.server
def test_a_position_of_an_unknown_server_is_refused(connection: Any) -> None:
    file, offset = status(connection)
    position = binlog_core.Position(file, offset, server="11111111-2222-3333-4444-555555555555")
    with pytest.raises(DivergedError):
        binlog_core.open(SERVER, start=position)


@pytest.mark.server
def test_gtids_begin_behind_what_they_name(connection: Any) -> None:
    start = status(connection)
    write(connection, 0, 3)
    with binlog_core.open(SERVER, start=start) as log:
        *_, group = log.groups()
        if is_mariadb(connection):
            position = group.position.gtids
        else:
            rows = run(connection, "SHOW GLOBAL VARIABLES LIKE 'gtid_executed'")
            text = rows[0][1] if rows else ""
            if not text:
                pytest.skip("the server has no GTIDs (gtid_mode is not ON)")
            position = binlog_core.GtidSet.parse(text)
    run(connection, "FLUSH BINARY LOGS")
    write(connection, 3, 3)
    with binlog_core.open(SERVER, start=position) as log:
        assert notes(rows_of(log)) == ["3.0", "4.0", "5.0"]
        assert len(log.headers()) < 100


@pytest.mark.server
def test_a_stop_in_front_of_the_start_says_so(connection: Any) -> None:
    stop = status(connection)
    write(connection, 0, 1)
    run(connection, "FLUSH BINARY LOGS")
    file, _ = status(connection)
    write(connection, 1, 1)
    with pytest.raises(PositionError, match=f"stop= is in {stop[0]}, before"):
        binlog_core.open(SERVER, start=(file, 4), stop=stop)


@pytest.mark.server
def test_an_empty_gtid_set_is_of_both_vendors(connection: Any) -> None:
    write(connection, 0, 1)
    if not is_mariadb(connection) and "ON" not in run(connection, "SELECT @@gtid_mode")[0]:
        pytest.skip("the server has no GTIDs (gtid_mode is not ON)")
    purged = not run(connection, "SHOW BINARY LOGS")[0][0].endswith(".000001")  # by another test
    for nothing in (binlog_core.GtidSet(), binlog_core.MariadbGtidSet()):
        lost = pytest.raises(PurgedError) if purged else nullcontext()
        with lost, binlog_core.open(SERVER, start=nothing) as log:
            assert note(list(rows_of(log))[-1]) == "0.0"


@pytest.mark.server
def test_what_is_not_there_says_so(connection: Any) -> None:
    file, offset = status(connection)
    first = run(connection, "SHOW BINARY LOGS")[0][0]
    with (
        pytest.raises(PurgedError, match=f"it has the logs from {first} to {file}"),
        binlog_core.open(SERVER, start=("nothing.000001", 4)) as log,
    ):
        list(log.rows())
    with pytest.raises(PositionError), binlog_core.open(SERVER, start=(file, offset + 1000)) as log:
        list(log.rows())
