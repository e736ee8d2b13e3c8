"""One dump of a running server: large events, far positions, acknowledgements."""

from __future__ import annotations

import threading
import time
import tracemalloc
from typing import Any

import pytest
from support.live import TABLE, is_mariadb, notes, rows_of, status, write
from support.server import SERVER, connect, run

import binlog_core
from binlog_core.errors import (
    PositionError,
)
from binlog_core.server.address import Address
from binlog_core.server.stream import ServerStream

pytestmark = pytest.mark.server


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
    assert peak < 1.3 * size  # it is held once, also while it is received
    limits = binlog_core.Limits(event_bytes=1 << 20)
    with (
        binlog_core.open(SERVER, start=start, limits=limits) as log,
        pytest.raises(binlog_core.DecodeError, match=r"Limits\.event_bytes"),
    ):
        list(rows_of(log))


def test_positions_that_the_command_has_no_room_for(connection: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond 4 GiB the log is read from its beginning; here the limit is set to a position in a small log."""
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


@pytest.mark.parametrize(
    ("tables", "compression"), [("*.*", "none"), ("live.another", "none"), ("*.*", "zstd")]
)
def test_commits_wait_for_the_acknowledgement(connection: Any, tables: str, compression: str) -> None:
    """Also those to tables that the reader does not want: it is given groups without batches."""
    kind = "master" if is_mariadb(connection) else "source"
    if compression != "none" and not run(connection, "SHOW VARIABLES LIKE 'protocol_compression_algorithms'"):
        pytest.skip("the server does not compress by zstd")
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
            SERVER,
            start=start,
            follow=True,
            tables=tables,
            server={"semi_sync": True, "compression": compression},
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
