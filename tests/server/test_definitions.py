"""``schema="server"``: names, signs and members of a server that does not log them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from support.server import SERVER, connect, run

import binlog_core
from binlog_core.errors import StrictError

pytestmark = pytest.mark.server

DATABASE = "live_names"


@pytest.fixture
def connection() -> Iterator[Any]:
    """To a server that logs as little as it can."""
    with connect() as connection:
        before = run(connection, "SHOW GLOBAL VARIABLES LIKE 'binlog_row_metadata'")
        setting = "MINIMAL" if "MariaDB" not in connection.get_server_info() else "NO_LOG"
        for name, _ in before:
            run(connection, f"SET GLOBAL {name} = {setting}")
        run(
            connection,
            f"DROP DATABASE IF EXISTS {DATABASE}",
            f"CREATE DATABASE {DATABASE} DEFAULT CHARACTER SET latin1",
            f"USE {DATABASE}",
            "CREATE TABLE t (id INT UNSIGNED PRIMARY KEY, state ENUM('new','paid'),"
            " tags SET('a','b'), n TEXT)",
        )
        try:
            yield connection
        finally:
            for name, value in before:
                run(connection, f"SET GLOBAL {name} = {value}")


def now(connection: Any) -> tuple[str, int]:
    name, size, *_ = run(connection, "SHOW BINARY LOGS")[-1]
    return name, int(size)


def after(connection: Any, start: Any, **options: Any) -> list[Any]:
    with binlog_core.open(SERVER, start=start, schema="server", **options) as log:
        return [change.after for change in log.rows(f"{DATABASE}.*")]


ROW = {"id": 4294967295, "state": "paid", "tags": ["a", "b"], "n": "é"}


def test_names_signs_and_members(connection: Any) -> None:
    start = now(connection)
    run(connection, "INSERT INTO t VALUES (4294967295, 'paid', 'a,b', 'é')")
    with binlog_core.open(SERVER, start=start, schema="server", strict=True) as log:
        assert [change.after for change in log.rows(f"{DATABASE}.*")] == [ROW]
        assert [change.after for change in log.rows(f"{DATABASE}.*")] == [ROW]
        run(connection, "ALTER TABLE t CHANGE n note TEXT", "INSERT INTO t (id, note) VALUES (7, 'x')")
        run(connection, "FLUSH BINARY LOGS", "INSERT INTO t (id, note) VALUES (8, 'y')")
    with binlog_core.open(SERVER, start=start, stop=now(connection), schema="server") as log, pytest.warns():
        names = [list(change.after)[-1] for one in log.each_file() for change in one.rows(f"{DATABASE}.*")]
    assert names == ["c3", "note", "note"]


def test_statements_before_the_start_are_looked_at_for_server_alone(connection: Any) -> None:
    start = now(connection)
    run(connection, "INSERT INTO t VALUES (4294967295, 'paid', 'a,b', 'é')")
    with binlog_core.open(SERVER, start=start, stop=now(connection), schema="ddl") as log, pytest.warns():
        assert [list(change.after) for change in log.rows(f"{DATABASE}.*")] == [["c0", "c1", "c2", "c3"]]
    assert after(connection, start, stop=now(connection)) == [ROW]


def test_passes_share_what_is_known(connection: Any) -> None:
    start = now(connection)
    run(connection, "INSERT INTO t (id, n) VALUES (1, 'x')", "FLUSH BINARY LOGS")
    with binlog_core.open(SERVER, start=start, schema="server", strict=True) as log:
        assert [list(change.after)[-1] for change in log.rows(f"{DATABASE}.*")] == ["n"]
        run(connection, "INSERT INTO t (id, n) VALUES (2, 'x')", "ALTER TABLE t CHANGE n m TEXT")
        run(connection, "FLUSH BINARY LOGS", "INSERT INTO t (id, m) VALUES (3, 'x')")
        # The first pass learnt the definition from before the change.
        assert [list(change.after)[-1] for change in log.rows(f"{DATABASE}.*")] == ["n", "n", "m"]
        each = [list(change.after)[-1] for one in log.each_file() for change in one.rows(f"{DATABASE}.*")]
    assert each == ["n", "n", "m"]


def test_statements_are_followed(connection: Any) -> None:
    start = now(connection)
    run(connection, "INSERT INTO t (id) VALUES (1)", "CREATE TABLE made (a INT UNSIGNED)")
    run(connection, "INSERT INTO made VALUES (4294967295)", "ALTER TABLE made ADD b CHAR(3)")
    run(connection, "FLUSH BINARY LOGS", "INSERT INTO made VALUES (2, 'é')")
    with binlog_core.open(SERVER, start=start, schema="server", strict=True) as log:
        found = [change.after for change in log.rows("*.made")]
    assert found == [{"a": 4294967295}, {"a": 2, "b": "é"}]


def test_what_was_changed_later_is_not_guessed(connection: Any) -> None:
    start = now(connection)
    run(
        connection,
        "INSERT INTO t (id, n) VALUES (1, 'x')",
        "ALTER TABLE t CHANGE n m TEXT, CHANGE id k BIGINT",
    )
    run(connection, "INSERT INTO t (k, m) VALUES (2, 'y')", "TRUNCATE TABLE t")
    with binlog_core.open(SERVER, start=start, schema="server") as log:
        with pytest.warns(binlog_core.BinlogWarning):
            found = [list(change.after) for change in log.rows(f"{DATABASE}.t")]
        report = log.report
    assert found == [["c0", "c1", "c2", "c3"], ["k", "state", "tags", "m"]]
    assert report.unproved_definitions == 1
    assert report.first["unproved_definitions"].table == f"{DATABASE}.t"
    with (
        binlog_core.open(SERVER, start=start, schema="server", strict=True) as log,
        pytest.raises(StrictError, match="the server's is right from"),
    ):
        list(log.rows(f"{DATABASE}.t"))


def test_tables_that_the_user_may_not_see(connection: Any) -> None:
    start = now(connection)
    run(connection, "CREATE USER blind IDENTIFIED BY 'p'", "GRANT REPLICATION SLAVE ON *.* TO blind")
    run(connection, "INSERT INTO t VALUES (1, 'new', 'a', 'n')")
    url = SERVER.replace(SERVER.split("//")[1].split("@")[0], "blind")
    try:
        with (
            pytest.warns(binlog_core.BinlogWarning, match="SELECT"),
            binlog_core.open(url, start=start, schema="server", server={"password": "p"}) as log,
        ):
            [change] = log.rows(f"{DATABASE}.*")
        assert "c0" in change.after
        assert log.report.hidden_definitions == 1
        assert log.report.first["hidden_definitions"].table == f"{DATABASE}.t"
    finally:
        run(connection, "DROP USER blind")


def test_from_now_on(connection: Any) -> None:
    run(connection, "ALTER TABLE t CHANGE n m TEXT")
    with binlog_core.open(SERVER, start="now", schema="server", follow=True, strict=True) as log:
        rows = log.rows(f"{DATABASE}.*")
        timer = threading.Timer(30, log.stop)
        timer.start()
        run(connection, "INSERT INTO t (id, m) VALUES (1, 'x')")
        assert next(rows).after["m"] == "x"
        run(connection, "ALTER TABLE t DROP m", "INSERT INTO t (id) VALUES (2)")
        assert list(next(rows).after) == ["id", "state", "tags"]
        timer.cancel()


def test_tables_that_are_changed_all_the_time(connection: Any) -> None:
    """A table that was altered meanwhile is left out, or right; the others are there."""
    start = now(connection)
    stop = threading.Event()

    def alter() -> None:
        with connect(database=DATABASE) as other:
            i = 0
            while not stop.is_set():
                i += 1
                run(
                    other,
                    f"CREATE TABLE busy{i} (c{i} INT)",
                    f"INSERT INTO busy{i} VALUES ({i})",
                    f"DROP TABLE busy{i}",
                )

    thread = threading.Thread(target=alter)
    thread.start()
    try:
        run(connection, "INSERT INTO t (id) VALUES (5)")
        with binlog_core.open(SERVER, start=start, schema="server") as log:
            found = list(log.rows(f"{DATABASE}.*"))
    finally:
        stop.set()
        thread.join()
    for change in found:
        if change.table == "t":
            assert change.after["id"] == 5
        else:
            assert change.after == {f"c{change.table[4:]}": int(change.table[4:])}


def test_only_of_servers() -> None:
    with pytest.raises(ValueError, match="is for servers"):
        binlog_core.open(b"\xfebin", schema="server")
