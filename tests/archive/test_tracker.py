"""What the tracker knows of the events that pass it: times, complete transactions, wrong checksums."""

from __future__ import annotations

import random

import pytest
from support.archive import UUID, FakeServer
from support.writer import Log

from binlog_core._core._trail import Trail
from binlog_core.archive.tracker import Tracker
from binlog_core.errors import ArchiveError
from binlog_core.gtids import GtidSet, MariadbGtidSet

OTHER = "aaaaaaaa-71ca-11e1-9e33-c80aa9429562"


def events_of(data: bytes) -> list[bytes]:
    """The events of a log, by their lengths alone."""
    found, at = [], 4
    while at < len(data):
        length = int.from_bytes(data[at + 9 : at + 13], "little")
        found.append(data[at : at + length])
        at += length
    return found


def passed(data: bytes, seed: int = 0, tracker: Tracker | None = None) -> Tracker:
    """A tracker after a log that came in runs of so many events."""
    tracker, chance, at = tracker or Tracker(), random.Random(seed), 4
    tracker.begin()
    events = events_of(data)
    while events:
        count = chance.choice((1, 2, 7, 1000))
        run, events = b"".join(events[:count]), events[count:]
        tracker.take(memoryview(run), at, "log")
        at += len(run)
    return tracker


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("version", ["8.0.36", "10.11.6-MariaDB-log", "5.6.24"])
def test_complete_transactions_are_known(version: str, seed: int) -> None:
    server = FakeServer(version, checksum=version != "5.6.24")
    for number in range(40):
        server.transaction(gtid=(OTHER, 100 + number) if number % 5 == 1 and "Maria" not in version else None)
    data = server.bytes_of(server.current)
    tracker = passed(data, seed)
    assert tracker.gtids == server.executed
    assert tracker.events == len(events_of(data))
    assert tracker.timestamp == server.clock
    assert (tracker.damaged, tracker.rotated_to) == (None, None)
    server.rotate()
    passed(server.bytes_of("mysql-bin.000001"), seed, tracker)
    assert tracker.rotated_to == "mysql-bin.000002"
    passed(server.bytes_of("mysql-bin.000002"), seed, tracker)
    assert tracker.previous == tracker.gtids == server.executed


def test_a_transaction_is_not_complete_before_its_end() -> None:
    server = FakeServer()
    server.transaction()
    *events, commit = events_of(server.bytes_of(server.current))
    tracker = passed(b"\xfebin" + b"".join(events))
    assert tracker.gtids == GtidSet()
    tracker.take(memoryview(commit), 0, "log")
    assert tracker.gtids == GtidSet([((UUID, ""), (1, 1))])


def test_a_statement_that_commits_by_itself_is_complete() -> None:
    log = Log("8.0.36")
    log.gtid(UUID, 7)
    log.begin("shop")
    assert passed(log.getvalue()).gtids is None
    log = Log("8.0.36")
    log.gtid(UUID, 7)
    log.query("CREATE TABLE t (id INT)", "shop")
    assert passed(log.getvalue()).gtids == GtidSet([((UUID, ""), (7, 7))])


@pytest.mark.parametrize("vendor", ["mysql", "maria"])
@pytest.mark.parametrize(
    ("statements", "ended"),
    [
        (("BEGIN", "INSERT INTO t VALUES (1)"), False),
        (("BEGIN", "SAVEPOINT `a`", "ROLLBACK TO `a`"), False),
        (("BEGIN", "INSERT INTO t VALUES (1)", "COMMIT"), True),
        (("BEGIN", "INSERT INTO t VALUES (1)", "ROLLBACK"), True),
        (("BEGIN", "CREATE TEMPORARY TABLE t (id INT)"), False),
        (("XA START X'61',X'',1", "INSERT INTO t VALUES (1)"), False),
        (("XA START X'61',X'',1", "INSERT INTO t VALUES (1)", "XA END X'61',X'',1"), False),
        (("XA COMMIT X'61',X'',1",), True),
        (("XA ROLLBACK X'61',X'',1",), True),
        (("CREATE TABLE t (id INT)",), True),
    ],
)
def test_which_statements_end_a_transaction(vendor: str, statements: tuple[str, ...], ended: bool) -> None:
    """An archive that counts one too early goes on behind it with the next server, and lacks its rest."""
    log = Log("8.0.36" if vendor == "mysql" else "10.11.6-MariaDB")
    begins = statements[0].startswith(("BEGIN", "XA START"))
    if vendor == "mysql":
        log.gtid(UUID, 7)
        whole: object = GtidSet([((UUID, ""), (7, 7))])
    else:
        log.maria_gtid(7, standalone=not begins)
        statements = statements[begins:]  # the GTID serves as BEGIN
        whole = MariadbGtidSet([((0, log.server_id), (1, 7))])
    for statement in statements:
        log.query(statement, "shop")
    for seed in range(4):
        assert passed(log.getvalue(), seed).gtids == (whole if ended else None)


def test_a_log_that_breaks_off_leaves_its_last_transaction_incomplete() -> None:
    server = FakeServer("10.11.6-MariaDB")
    server.transaction()
    server.transaction()
    *events, _ = events_of(server.bytes_of(server.current))
    tracker = passed(b"\xfebin" + b"".join(events))
    tracker.begin()
    assert tracker.gtids == MariadbGtidSet([((0, 1), (1, 1))])


@pytest.mark.parametrize("seed", range(4))
def test_the_first_checksum_that_does_not_hold_is_known(seed: int) -> None:
    server = FakeServer()
    for _ in range(30):
        server.transaction()
    data = bytearray(server.bytes_of(server.current))
    starts = [4]
    for event in events_of(bytes(data)):
        starts.append(starts[-1] + len(event))
    for first in (0, 1, 2, 17, len(starts) - 11):
        broken = bytearray(data)
        for wrong in (first, first + 9):
            broken[starts[wrong + 1] - 1] ^= 1
        assert passed(bytes(broken), seed).damaged == starts[first]


def test_bytes_that_are_not_events_are_refused() -> None:
    data = FakeServer().bytes_of("mysql-bin.000001")
    for cut in (1, 12, 20):
        with pytest.raises(ArchiveError, match="not valid"):
            passed(data).take(memoryview(data[4 : 4 + cut]), 4, "log")
    log = Log("8.0.36")
    log.event(33, b"\0" * 24)  # a GTID without its number's last byte
    with pytest.raises(ArchiveError, match="not valid"):
        passed(log.getvalue())


def test_a_place_outside_of_the_data_is_refused() -> None:
    for arguments in (
        (b"", 1, 19, bytes(256), False, 13),
        (b"", 0, 14, bytes(256), False, 13),
        (b"", 0, 19, b"", False, 13),
    ):
        with pytest.raises(ValueError, match=r"start|header_length|canonical"):
            Trail().take(*arguments)
