"""A running server, read as its replicas read it."""

from __future__ import annotations

import datetime as dt
import threading
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from support.line import Line
from support.server import SERVER, connect, dump, needs_server, run

import binlog_core
from binlog_core.errors import (
    AuthenticationError,
    DivergedError,
    PositionError,
    PrivilegeError,
    PurgedError,
    UnreachableError,
)
from binlog_core.server.address import Address
from binlog_core.server.dump import Dump, LineLost
from binlog_core.server.stream import ServerStream

pytestmark = [pytest.mark.server, needs_server]

DATABASE = "live"
TABLE = f"{DATABASE}.orders"


@pytest.fixture
def connection() -> Iterator[Any]:
    with connect() as connection:
        run(
            connection,
            f"DROP DATABASE IF EXISTS {DATABASE}",
            f"CREATE DATABASE {DATABASE}",
            f"CREATE TABLE {TABLE} (id INT PRIMARY KEY AUTO_INCREMENT, note VARCHAR(200), large LONGBLOB)",
        )
        yield connection


def status(connection: Any) -> tuple[str, int]:
    names = run(connection, "SHOW BINARY LOGS")
    return names[-1][0], int(names[-1][1])


def write(connection: Any, first: int, count: int, *, rows: int = 1) -> list[int]:
    """One transaction after the other; the notes that they leave."""
    for i in range(first, first + count):
        values = ",".join(f"('{i}.{j}')" for j in range(rows))
        run(connection, f"INSERT INTO {TABLE} (note) VALUES {values}")
    return list(range(first, first + count))


def notes(changes: Any) -> list[str]:
    return [note(change) for change in changes if change.after is not None]


def note(change: Any) -> str:
    after = change.after
    text = after["note"] if "note" in after else after["c1"]  # old servers log no names and character sets
    return text.decode() if isinstance(text, bytes) else str(text)


def rows_of(log: binlog_core.Log) -> Any:
    return log.rows(TABLE)


def is_mariadb(connection: Any) -> bool:
    return "MariaDB" in connection.get_server_info()


def test_rows_from_a_place_on(connection: Any) -> None:
    start = status(connection)
    write(connection, 0, 20)
    run(connection, "FLUSH BINARY LOGS")
    write(connection, 20, 20)
    with binlog_core.open(SERVER, start=start) as log:
        changes = list(rows_of(log))
    assert notes(changes) == [f"{i}.0" for i in range(40)]
    assert [next(iter(change.after.values())) for change in changes] == list(range(1, 41))


def test_bytes_are_those_of_the_servers_files(connection: Any) -> None:
    run(connection, "FLUSH BINARY LOGS")
    name = status(connection)[0]
    write(connection, 0, 50, rows=20)
    run(connection, "FLUSH BINARY LOGS")
    found = bytearray()
    with ServerStream(Address.of(SERVER), name, 4, follow=False) as stream:
        for part in stream:
            if part.kind == "events" and part.file == name:
                assert part.position == 4 + len(found)
                found += part.events
    assert bytes(found) == b"".join(dump(name))


def test_every_pass_reads_the_server_anew(connection: Any) -> None:
    start = status(connection)
    write(connection, 0, 5)
    with binlog_core.open(SERVER, start=start) as log:
        assert notes(rows_of(log)) == notes(rows_of(log)) == [f"{i}.0" for i in range(5)]
        assert len(log.headers()) == len(list(log.events()))
        positions = log.headers()["position"]
    assert positions[0] == start[1]
    assert (positions[1:] > positions[:-1]).all()


def test_large_events_come_in_pieces(connection: Any) -> None:
    size = 20 << 20
    run(connection, "SET GLOBAL max_allowed_packet = 64 * 1024 * 1024")
    start = status(connection)
    with connect(max_allowed_packet=64 << 20) as large:
        run(
            large,
            f"INSERT INTO {TABLE} (note, large) VALUES ('large', REPEAT('x', {size}))",
            f"INSERT INTO {TABLE} (note) VALUES ('after')",
        )
    with binlog_core.open(SERVER, start=start) as log:
        changes = list(rows_of(log))
    assert notes(changes) == ["large", "after"]
    assert list(changes[0].after.values())[2] == b"x" * size
    tracemalloc.start()
    with ServerStream(Address.of(SERVER), *start, follow=False) as stream:
        assert max(len(run.events) for run in stream) > size
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.3 * size  # it is held once, also while it comes
    limits = binlog_core.Limits(event_bytes=1 << 20)
    with (
        binlog_core.open(SERVER, start=start, limits=limits) as log,
        pytest.raises(binlog_core.DecodeError, match=r"Limits\.event_bytes"),
    ):
        list(rows_of(log))


def test_now_begins_behind_what_is_there(connection: Any) -> None:
    write(connection, 0, 3)
    with binlog_core.open(SERVER, start="now") as log:
        assert notes(rows_of(log)) == []
    with binlog_core.open(SERVER, start="now", follow=True) as log:
        written = write(connection, 3, 3)
        changes = rows_of(log)
        assert [note(next(changes)) for _ in written] == ["3.0", "4.0", "5.0"]


def test_a_time_begins_in_the_log_that_has_it(connection: Any) -> None:
    write(connection, 0, 2)
    time.sleep(1.1)  # header timestamps are whole seconds
    run(connection, "FLUSH BINARY LOGS")
    moment = dt.datetime.fromtimestamp(int(run(connection, "SELECT UNIX_TIMESTAMP()")[0][0]), dt.UTC)
    write(connection, 2, 2)
    with binlog_core.open(SERVER, start=moment) as log:
        assert notes(rows_of(log)) == ["2.0", "3.0"]
        assert len(log.headers()) < 100  # of the last log alone


def test_stop_ends_before_what_comes_behind(connection: Any) -> None:
    start = status(connection)
    write(connection, 0, 4)
    stop = status(connection)
    write(connection, 4, 4)
    with binlog_core.open(SERVER, start=start, stop=stop) as log:
        assert notes(rows_of(log)) == [f"{i}.0" for i in range(4)]


def test_it_ends_where_the_server_stood_when_it_was_asked(connection: Any) -> None:
    start = status(connection)
    write(connection, 0, 4)
    with binlog_core.open(SERVER, start=start) as log:
        write(connection, 4, 4)
        assert notes(rows_of(log)) == [f"{i}.0" for i in range(4)]


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


def test_positions_go_on_exactly_also_inside_a_transaction(connection: Any) -> None:
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


def test_a_position_of_an_unknown_server_is_refused(connection: Any) -> None:
    file, offset = status(connection)
    position = binlog_core.Position(file, offset, server="11111111-2222-3333-4444-555555555555")
    with pytest.raises(DivergedError):
        binlog_core.open(SERVER, start=position)


def test_positions_go_on_where_nothing_is_wanted(connection: Any) -> None:
    """Log by log: one that stays behind would be purged some day."""
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


@pytest.mark.parametrize("seed", range(4))
def test_a_bad_line_loses_and_repeats_nothing(connection: Any, seed: int) -> None:
    start = status(connection)
    for i in range(6):
        write(connection, 40 * i, 40, rows=i + 1)
        run(connection, "FLUSH BINARY LOGS")
    with binlog_core.open(SERVER, start=start) as log:
        expected = [(change.position, note(change)) for change in rows_of(log)]
    with (
        Line(SERVER, seed=seed, cuts=30, most=4000, least=3000) as line,
        binlog_core.open(line.url, start=start, server={"ssl_mode": "DISABLED"}) as log,
    ):
        found = [(change.position, note(change)) for change in rows_of(log)]
        assert log.report.reconnects > 3
    assert found == expected


def test_a_killed_connection_is_mended(connection: Any) -> None:
    for kill in ("KILL", "KILL QUERY"):
        with binlog_core.open(SERVER, start="now", follow=True) as log:
            changes = rows_of(log)
            write(connection, 0, 1)
            assert note(next(changes)) == "0.0"
            for row in run(connection, "SHOW PROCESSLIST"):
                if "Binlog Dump" in row[4]:
                    run(connection, f"{kill} {row[0]}")
            write(connection, 1, 2)
            assert [note(next(changes)) for _ in range(2)] == ["1.0", "2.0"]
            assert changes.report.reconnects >= 1


def test_a_silent_line_is_noticed(connection: Any) -> None:
    with Line(SERVER, seed=1, cuts=0) as line:
        options = {"heartbeat": 0.5, "ssl_mode": "DISABLED"}
        with binlog_core.open(line.url, start="now", follow=True, server=options) as log:
            changes = rows_of(log)
            write(connection, 0, 1)
            assert note(next(changes)) == "0.0"
            line.dead.set()
            write(connection, 1, 1)
            threading.Timer(2.5, line.dead.clear).start()
            assert note(next(changes)) == "1.0"
            assert changes.report.reconnects >= 1


def test_a_line_that_does_not_come_back_is_an_error(connection: Any) -> None:
    with Line(SERVER, seed=1, cuts=0) as line:
        options = {"reconnect": 0.5, "ssl_mode": "DISABLED"}
        with binlog_core.open(line.url, start="now", follow=True, server=options) as log:
            changes = rows_of(log)
            write(connection, 0, 1)
            next(changes)
            line.__exit__(None, None, None)
            with pytest.raises(UnreachableError):
                next(changes)


def test_a_stream_is_stopped_while_its_line_is_lost(connection: Any) -> None:
    with (
        Line(SERVER, seed=1, cuts=0) as line,
        binlog_core.open(line.url, start="now", follow=True, server={"ssl_mode": "DISABLED"}) as log,
    ):
        changes = rows_of(log)
        write(connection, 0, 1)
        next(changes)
        line.__exit__(None, None, None)
        reader = threading.Thread(target=list, args=(changes,), daemon=True)
        reader.start()
        time.sleep(0.3)
        log.stop()
        reader.join(30)
        assert not reader.is_alive()


def test_a_server_that_lets_us_in_and_sends_nothing_is_lost(
    connection: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: Any) -> None:
        raise LineLost("cut")

    for reconnect, least, most in ((0, 0, 0), (1.0, 1, 10)):
        with ServerStream(Address.of(SERVER, {"reconnect": reconnect})) as stream:
            stream.next_run()
            with monkeypatch.context() as patched, pytest.raises(UnreachableError, match="cut"):
                patched.setattr(Dump, "next_run", lost)
                stream.next_run()
            assert least <= stream.reconnects <= most


def test_a_stop_in_front_of_the_start_says_so(connection: Any) -> None:
    stop = status(connection)
    write(connection, 0, 1)
    run(connection, "FLUSH BINARY LOGS")
    file, _ = status(connection)
    write(connection, 1, 1)
    with pytest.raises(PositionError, match=f"stop= lies in {stop[0]}, in front"):
        binlog_core.open(SERVER, start=(file, 4), stop=stop)


def test_an_empty_gtid_set_is_of_both_vendors(connection: Any) -> None:
    write(connection, 0, 1)
    if not is_mariadb(connection) and "ON" not in run(connection, "SELECT @@gtid_mode")[0]:
        pytest.skip("the server has no GTIDs (gtid_mode is not ON)")
    for nothing in (binlog_core.GtidSet(), binlog_core.MariadbGtidSet()):
        with binlog_core.open(SERVER, start=nothing) as log:
            assert note(list(rows_of(log))[-1]) == "0.0"


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


def test_positions_that_the_command_has_no_room_for(connection: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind 4 GiB the log is read from its beginning; here what counts as that is a place in a small one."""
    run(connection, "FLUSH BINARY LOGS")
    begin = status(connection)
    write(connection, 0, 3)
    file, offset = status(connection)
    write(connection, 3, 3)
    monkeypatch.setattr("binlog_core.server.dump._MOST_POSITION", 4)
    with binlog_core.open(SERVER, start=(file, offset)) as log:
        assert notes(rows_of(log)) == ["3.0", "4.0", "5.0"]
    with binlog_core.open(SERVER, start=begin, stop=(file, offset)) as log:
        assert notes(rows_of(log)) == ["0.0", "1.0", "2.0"]
    end = status(connection)
    for wrong in ((file, offset + 1), (file, end[1] + 1000)):
        with pytest.raises(PositionError), binlog_core.open(SERVER, start=wrong) as log:
            list(log.rows())
    with binlog_core.open(SERVER, start=end) as log:
        assert notes(rows_of(log)) == []
    run(connection, "FLUSH BINARY LOGS")
    with pytest.raises(PositionError), binlog_core.open(SERVER, start=(file, end[1] + 1000)) as log:
        list(log.rows())


def test_a_user_needs_the_right_to_replicate_and_no_other(connection: Any) -> None:
    start = status(connection)
    run(connection, "CREATE USER nobody IDENTIFIED BY 'se:c/ret'")
    url = SERVER.replace(SERVER.split("//")[1].split("@")[0], "nobody")
    try:
        with pytest.raises(AuthenticationError) as refused:
            binlog_core.open(url.replace("nobody", "nobody:wrong-pass"))
        assert "wrong-pass" not in str(refused.value) + repr(refused.value)
        with pytest.raises(PrivilegeError, match="REPLICATION SLAVE"):
            binlog_core.open(url, start=start, server={"password": "se:c/ret"})
        run(connection, "GRANT REPLICATION SLAVE ON *.* TO nobody")
        write(connection, 0, 3)
        with binlog_core.open(url, start=start, server={"password": "se:c/ret"}) as log:
            assert notes(rows_of(log)) == ["0.0", "1.0", "2.0"]
            assert "ret" not in repr(log) + repr(log.files)
    finally:
        run(connection, "DROP USER nobody")


def test_each_file_goes_on_where_its_user_read_nothing(connection: Any) -> None:
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


def test_acknowledged_by_a_thread_while_it_reads(connection: Any) -> None:
    """Over TLS neither disturbs the other."""
    start = status(connection)
    options = {"semi_sync": True, "ssl_mode": "REQUIRED" if has_tls(connection) else "DISABLED"}
    with ServerStream(Address.of(SERVER, options), start=start, follow=True) as stream:
        done = threading.Event()

        def acknowledge() -> None:
            while not done.is_set():
                stream.acknowledge(*start)

        thread = threading.Thread(target=acknowledge)
        thread.start()
        try:
            write(connection, 0, 20)
            wanted = status(connection)[1]
            while stream.position < wanted:
                assert stream.next_run(30) is not None
        finally:
            done.set()
            thread.join()
        assert not stream.reconnects


def has_tls(connection: Any) -> bool:
    return bool(run(connection, "SHOW STATUS LIKE 'Ssl_server_not_after'")[0][1])


@pytest.mark.parametrize("tables", ["*.*", "live.another"])
def test_commits_wait_for_the_acknowledgement(connection: Any, tables: str) -> None:
    """Also those to tables that the reader does not want: it is given groups without batches."""
    kind = "master" if is_mariadb(connection) else "source"
    if not run(connection, f"SHOW VARIABLES LIKE 'rpl_semi_sync_{kind}_enabled'"):
        try:
            run(connection, "INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'")
        except Exception as error:
            pytest.skip(f"no semi-synchronous replication: {error}")

    def acknowledged() -> int:
        return int(run(connection, f"SHOW STATUS LIKE 'Rpl_semi_sync_{kind}_yes_tx'")[0][1])

    start = status(connection)
    run(connection, f"SET GLOBAL rpl_semi_sync_{kind}_timeout = 60000")
    run(connection, f"SET GLOBAL rpl_semi_sync_{kind}_enabled = ON")
    try:
        with binlog_core.open(
            SERVER, start=start, follow=True, tables=tables, server={"semi_sync": True}
        ) as log:

            def store() -> None:
                for group in log.groups():
                    log.acknowledge(group.position)

            thread = threading.Thread(target=store)
            thread.start()
            try:
                until(
                    lambda: run(connection, f"SHOW STATUS LIKE 'Rpl_semi_sync_{kind}_clients'")[0][1] == "1"
                )
                before = acknowledged()
                write(connection, 0, 10)
                write(connection, 10, 1, rows=20_000)
                assert acknowledged() == before + 11
            finally:
                run(connection, f"SET GLOBAL rpl_semi_sync_{kind}_enabled = OFF")
                log.stop()
                thread.join(60)
            assert not log.report.reconnects
    finally:
        run(connection, f"SET GLOBAL rpl_semi_sync_{kind}_enabled = OFF")


def until(done: Any) -> None:
    end = time.monotonic() + 60
    while not done():
        assert time.monotonic() < end
        time.sleep(0.02)
