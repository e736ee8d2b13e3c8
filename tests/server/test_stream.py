"""The stream of a running server, over connections that are lost, killed or silent."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from support.line import Line
from support.live import note, notes, rows_of, status, write
from support.server import SERVER, dump, run

import binlog_core
from binlog_core.errors import (
    AuthenticationError,
    PrivilegeError,
    UnreachableError,
)
from binlog_core.server.address import Address
from binlog_core.server.dump import Dump, LineLost
from binlog_core.server.stream import ServerStream

pytestmark = pytest.mark.server


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


def test_a_server_that_accepts_the_login_and_sends_nothing_is_lost(
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
