"""The logs of a running server, one after the other, from one stream."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
import threading
import time
import warnings
from dataclasses import replace
from typing import Any

import pytest
from support.live import DATABASE, TABLE, is_mariadb, note, notes, rows_of, status, write
from support.server import SERVER, connect, run

import binlog_core
from binlog_core.errors import DivergedError
from binlog_core.gtids import MariadbGtid, parse_gtid

pytestmark = pytest.mark.server


def test_rows_from_a_place_on(connection: Any) -> None:
    start = status(connection)
    write(connection, 0, 20)
    run(connection, "FLUSH BINARY LOGS")
    write(connection, 20, 20)
    with binlog_core.open(SERVER, start=start) as log:
        changes = list(rows_of(log))
    assert notes(changes) == [f"{i}.0" for i in range(40)]
    assert [next(iter(change.after.values())) for change in changes] == list(range(1, 41))


def test_every_pass_reads_the_server_anew(connection: Any) -> None:
    start = status(connection)
    write(connection, 0, 5)
    with binlog_core.open(SERVER, start=start) as log:
        assert notes(rows_of(log)) == notes(rows_of(log)) == [f"{i}.0" for i in range(5)]
        assert len(log.headers()) == len(list(log.events()))
        positions = log.headers()["position"]
    assert positions[0] == start[1]
    assert (positions[1:] > positions[:-1]).all()


def test_a_follower_sees_a_commit_at_once(connection: Any) -> None:
    with binlog_core.open(SERVER, start="now", follow=True, server={"heartbeat": 1}) as log:
        seen: list[str] = []

        def follow() -> None:
            for change in rows_of(log):
                seen.append(note(change))

        reader = threading.Thread(target=follow)
        reader.start()
        write(connection, 0, 2)
        time.sleep(3)  # heartbeats alone keep the line
        run(connection, "FLUSH BINARY LOGS")
        write(connection, 2, 2)
        end = time.monotonic() + 20
        while len(seen) < 4 and reader.is_alive() and time.monotonic() < end:
            time.sleep(0.02)
        log.stop()
        reader.join(10)
    assert not reader.is_alive()
    assert seen == [f"{i}.0" for i in range(4)]
    assert log.report.reconnects == 0


def test_positions_continue_exactly_also_inside_a_transaction(connection: Any) -> None:
    start = status(connection)
    write(connection, 0, 3, rows=2)
    run(connection, "BEGIN")
    for i in range(10):
        write(connection, 3 + i, 1, rows=30)
    run(connection, "COMMIT")
    write(connection, 13, 3, rows=2)
    limits = binlog_core.Limits(group_rows=40)
    with binlog_core.open(SERVER, start=start, limits=limits) as log:
        whole = notes(rows_of(log))
        groups = list(log.groups(TABLE))
    assert any(group.position.records for group in groups)
    for i, group in enumerate(groups):
        text = str(group.position)
        position = binlog_core.Position.parse(text)
        assert str(position) == text
        done = sum(len(batch) for before in groups[: i + 1] for batch in before.batches)
        with binlog_core.open(SERVER, start=position, limits=limits) as log:
            assert notes(rows_of(log)) == whole[done:]


def test_on_another_server_another_transaction_may_come_first(connection: Any) -> None:
    """The events already read of a transaction are left out of that one alone, whichever comes before it."""
    write(connection, 0, 1)
    start = status(connection)
    write(connection, 1, 1, rows=4)
    if is_mariadb(connection):  # which has an order in each domain
        run(connection, "SET SESSION gtid_domain_id = 7")
    write(connection, 2, 1, rows=4)
    with binlog_core.open(SERVER, start=start, limits=binlog_core.Limits(group_rows=2)) as log:
        whole = list(rows_of(log))
        first = next(iter(log.groups())).position
    if whole[0].gtid is None:
        pytest.skip("the server has no GTIDs")
    assert (str(first.transaction), first.records) == (whole[0].gtid, 4)
    gtid = parse_gtid(str(whole[-1].gtid))
    elsewhere = None if is_mariadb(connection) else "00112233-4455-6677-8899-aabbccddeeff"
    later = replace(first, offset=4, server=elsewhere, records=3, transaction=gtid)
    with binlog_core.open(SERVER, start=later) as log:
        assert notes(rows_of(log)) == notes(whole[:4] + whole[7:])
    number = {"seq_no": gtid.seq_no + 1000} if isinstance(gtid, MariadbGtid) else {"gno": gtid.gno + 1000}
    for transaction, why in ((replace(gtid, **number), "lacks transactions"), (None, "inside a transaction")):
        with pytest.raises(DivergedError, match=why):
            list(binlog_core.open(SERVER, start=replace(later, transaction=transaction)).rows())


def test_positions_advance_where_no_event_is_wanted(connection: Any) -> None:
    """Log by log: a position in an old log would be purged some day."""
    start = status(connection)
    with binlog_core.open(SERVER, start=start, follow=True, tables=f"{DATABASE}.another") as log:
        groups = iter(log.groups())
        for i in range(2):
            write(connection, i, 1)
            run(connection, "FLUSH BINARY LOGS")
            group = next(groups)
            assert not group.batches
            position = group.position
        log.stop()
    names = [name for name, *_ in run(connection, "SHOW BINARY LOGS")]
    assert position.file == names[-2]
    write(connection, 2, 1)
    with binlog_core.open(SERVER, start=binlog_core.Position.parse(str(position))) as log:
        assert notes(rows_of(log)) == ["2.0"]


def test_unknown_names_are_reported_once_for_many_logs(connection: Any) -> None:
    start = status(connection)
    for i in range(3):
        write(connection, i, 1)
        run(connection, "FLUSH BINARY LOGS")
    for table, told in ((TABLE, 0), (f"{DATABASE}.order", 1)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with binlog_core.open(SERVER, start=start, tables=table) as log:
                assert sum(len(list(one.rows())) for one in log.each_file()) == 3 * (not told)
        assert len([one for one in caught if "names were given" in str(one.message)]) == told


def test_times_hold_in_every_log(connection: Any) -> None:
    start = status(connection)
    write(connection, 0, 1)
    run(connection, "FLUSH BINARY LOGS")
    write(connection, 1, 1)
    time.sleep(2.1)
    [[seconds]] = run(connection, "SELECT UNIX_TIMESTAMP()")
    middle = dt.datetime.fromtimestamp(int(seconds) - 1, dt.UTC)
    write(connection, 2, 1)
    run(connection, "FLUSH BINARY LOGS")
    write(connection, 3, 1)
    for options, told in (
        ({"start": start, "stop": middle}, ["0.0", "1.0"]),
        ({"start": middle}, ["2.0", "3.0"]),
    ):
        with binlog_core.open(SERVER, **options) as log:
            found = [note for one in log.each_file() for note in notes(rows_of(one))]
        assert found == told


def test_each_file_continues_where_its_user_read_nothing(connection: Any) -> None:
    run(connection, "FLUSH BINARY LOGS")
    start = status(connection)
    for i in range(4):
        write(connection, i, 3)
        run(connection, "FLUSH BINARY LOGS")
    names = [name for name, *_ in run(connection, "SHOW BINARY LOGS")]
    names = names[names.index(start[0]) :]
    with binlog_core.open(SERVER, start=start) as log:
        assert [one.files[0].name for one in log.each_file()] == names
        read = []
        for i, one in enumerate(log.each_file()):
            rows = rows_of(one)
            read += notes(rows) if i == 1 else [note(next(rows))] if i == 2 else []
    assert read == ["1.0", "2.0", "3.0", "2.0"]


PEAK = """
import re, sys, warnings, binlog_core
warnings.simplefilter("ignore")
peak = lambda: int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
with binlog_core.open(sys.argv[1], start=(sys.argv[2], int(sys.argv[3]))) as log:
    before = peak()
    for group in log.groups():
        del group
print((peak() - before) / 1024)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux has the peak of a process's memory")
def test_a_large_value_is_held_twice_at_most(connection: Any) -> None:
    """Where it was received, and where the batch has it."""
    run(connection, "SET GLOBAL max_allowed_packet = 134217728")
    with connect() as writer:
        run(writer, f"CREATE TABLE {DATABASE}.large (v LONGBLOB)")
        start = status(writer)
        run(writer, f"INSERT INTO {DATABASE}.large VALUES (REPEAT('x', {64 << 20}))")
        writer.commit()
    told = subprocess.run(
        [sys.executable, "-c", PEAK, SERVER, start[0], str(start[1])],
        capture_output=True,
        text=True,
        check=True,
    )
    assert 64 < float(told.stdout) < 2.6 * 64
