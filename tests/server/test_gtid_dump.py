"""A server whose log has no files: a scripted one, that behaves as MariaDB 12.3's documentation says."""

from __future__ import annotations

import datetime as dt
import random
import struct
from typing import Any

import pytest
from support.gtid_server import gtid_server
from support.writer import Log, Table

import binlog_core
from binlog_core import MariadbGtidSet, Position, PositionError, PurgedError
from binlog_core.archive import archive
from binlog_core.server.address import Address
from binlog_core.server.doctor import examine

TABLE = Table("shop", "orders", [("id", "INT"), ("note", "TEXT")])
SERVER = {"ssl_mode": "DISABLED", "reconnect": 20}


def log_of(rows: list[list[int]]) -> bytes:
    """A log with these transactions; each row is an event of its own."""
    log = Log("12.3.1-MariaDB-log", checksum=False)
    for number, ids in enumerate(rows, start=1):
        log.event(162, struct.pack("<QIB6x", number, 0, 0))
        for i in ids:
            log.insert(TABLE, [{"id": i, "note": "x" * 40}])
        log.commit()
    return log.getvalue()


def rows_for(seed: int) -> list[list[int]]:
    pick = random.Random(seed)
    sizes = [pick.choice([1, 1, 2, 7, 40]) for _ in range(pick.randint(5, 30))]
    ids = iter(range(10_000))
    return [[next(ids) for _ in range(size)] for size in sizes]


def ids_of(url: str, **options: Any) -> list[int]:
    with binlog_core.open(url, server=SERVER, **options) as log:
        return [change.after["id"] for change in log.rows()]


@pytest.mark.parametrize("seed", range(12))
def test_lost_connections_lose_and_repeat_nothing(seed: int) -> None:
    rows = rows_for(seed)
    with gtid_server(log_of(rows), seed=seed, cuts=6) as (server, url):
        with binlog_core.open(url, server=SERVER) as log:
            changes = list(log.rows())
        assert [change.after["id"] for change in changes] == [i for one in rows for i in one]
        assert [str(c.gtid) for c in changes] == [f"0-1-{n}" for n, one in enumerate(rows, 1) for _ in one]
        assert server.cuts == 0
        assert all(start[:4] == b"\4\0\0\0" and start[10:] == b"" for start in server.starts)
        numbers = [int(state.rpartition("-")[2] or 0) for state in server.states]
        assert numbers == sorted(numbers)


@pytest.mark.parametrize("seed", range(8))
def test_positions(seed: int) -> None:
    """Every group's position continues exactly there, also inside transactions, and as text."""
    rows = rows_for(seed)
    wanted = [i for one in rows for i in one]
    with gtid_server(log_of(rows), seed=seed) as (_, url):
        with binlog_core.open(url, server=SERVER, limits=binlog_core.Limits(group_rows=3)) as log:
            read, places = 0, []
            for group in log.groups():
                read += sum(map(len, group.batches))
                places.append((read, group.position))
        assert read == len(wanted)
        assert any(place.records for _, place in places)
        for read, place in random.Random(seed).sample(places, min(8, len(places))):
            assert (place.file, place.offset, place.server) == ("", 0, None)
            assert Position.parse(str(place)) == place
            assert '"file"' not in str(place)
            assert ids_of(url, start=place) == wanted[read:]


def test_starts() -> None:
    rows = rows_for(3)
    wanted = [i for one in rows for i in one]
    with gtid_server(log_of(rows), seed=3) as (server, url):
        assert ids_of(url) == wanted
        assert ids_of(url, start="now") == []
        assert ids_of(url, start=dt.datetime(2001, 1, 1, tzinfo=dt.UTC)) == wanted
        assert ids_of(url, start=MariadbGtidSet.parse("0-1-2")) == wanted[len(rows[0]) + len(rows[1]) :]
        assert server.states == ["", f"0-1-{len(rows)}", "", "0-1-2"]
        for start in (("binlog-000000.ibb", 4), Position("binlog-000000.ibb", 4)):
            with pytest.raises(PositionError, match="by GTIDs alone"):
                ids_of(url, start=start)
        with pytest.raises(PositionError, match="has no files"):
            ids_of(url, stop=("binlog-000000.ibb", 4))
        with pytest.raises(binlog_core.SchemaError, match="needs positions"):
            ids_of(url, schema="server")
        # A position in a file of another server, with GTIDs: another server can continue there.
        place = Position("bin.000007", 1234, MariadbGtidSet.parse("0-1-1"))
        assert ids_of(url, start=place) == wanted[len(rows[0]) :]


def test_followed_until_stopped() -> None:
    rows = rows_for(5)
    wanted = [i for one in rows for i in one]
    with gtid_server(log_of(rows), seed=5, cuts=3) as (_, url):
        got: list[int] = []
        with binlog_core.open(url, server=SERVER, follow=True) as log:
            for change in log.rows():
                got.append(change.after["id"])
                if len(got) == len(wanted):
                    log.stop()
        assert got == wanted


def test_purged_transactions() -> None:
    with gtid_server(log_of(rows_for(1)), seed=1, purged=3) as (_, url):
        with pytest.raises(PurgedError):
            ids_of(url)
        assert ids_of(url, start=MariadbGtidSet.parse("0-1-3"))


def test_what_doctor_says(tmp_path: Any) -> None:
    with gtid_server(log_of(rows_for(1)), seed=1) as (server, url):
        server.answers = {**server.answers, "SHOW GRANTS": [[b"GRANT REPLICATION SLAVE ON *.* TO x"]]}
        for number in range(2):
            found = examine(Address.of(url, SERVER), archive=str(tmp_path))
            said = {(one.subject, one.state): one.found for one in found}
            assert "by GTIDs alone" in said["binary log", "note"]
            assert not any(state == "fails" for _, state in said)
            if not number:
                archive(url, tmp_path, options=SERVER, until="now")


def test_text_of_positions() -> None:
    for text in ('{"records": 1}', "{}", '{"file": "", "offset": 4}'):
        with pytest.raises(ValueError, match="not a position"):
            Position.parse(text)
