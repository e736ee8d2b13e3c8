"""A comparison while others write to the server, or after another server took over."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.server import connect

pytest.importorskip("deltalake")
pytest.importorskip("pymysql")

from support.refused import Other, Sql, mirrored, rows_of

from binlog_core import MirrorError
from binlog_core.lake.apply.jobs import Folder
from binlog_core.lake.runner import HERE, LocalRunner, by_itself
from binlog_core.mirror import Compared, chunks, comparing, verify, viewing
from binlog_core.mirror.lake import Lake
from binlog_core.mirror.marks import Mark
from binlog_core.mirror.state import TableState
from binlog_core.mirror.values import SelectList
from binlog_core.mirror.viewing import Viewed, Viewer, view
from binlog_core.schema.given import parse_create_table
from binlog_core.server.address import Address
from binlog_core.server.answers import whole
from binlog_core.server.connection import Connection
from binlog_core.server.world import World


def test_a_comparison_claims_no_more_than_the_place_that_it_was_made_at(
    url: str, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirrored(url, tmp_path)
    began: list[float] = []

    def seen(runner: Any, viewer: Viewer) -> tuple[Mark, list[Any]]:
        began.append(time.time())
        mark, *found = replace(viewer, sessions=1)(0, by_itself)
        sql("INSERT INTO t VALUES (3, 3)")
        assert isinstance(mark, Mark)
        return mark, found

    monkeypatch.setattr(comparing, "view", seen)
    monkeypatch.setattr(comparing, "compared", lambda runner, table, *rest: Compared(table.name))
    assert verify(tmp_path) == [Compared("refused.t")]
    state = Lake(str(tmp_path)).load()
    assert state is not None
    as_of = state.tables["refused.t"].as_of
    assert as_of is not None and as_of <= began[0]
    assert rows_of(tmp_path) == [(1, 1), (2, 2)]


def viewer_of_t(url: str, folder: Path) -> Viewer:
    definition = parse_create_table("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "refused", "t")
    selection = SelectList.of(definition, mariadb=True)
    columns = tuple(selection.schema.names)
    tables = (Viewed("refused.t", selection, selection.schema, ("id",), (), ("id",), columns, "InnoDB"),)
    return Viewer(Address.of(url), None, Folder(str(folder)), tables, "1", 1, False)


def test_a_view_is_of_the_server_that_was_asked_for(url: str, sql: Sql, other: Other, tmp_path: Path) -> None:
    viewer = viewer_of_t(url, tmp_path)
    assert [type(one) for one in viewer(0, by_itself)] == [Mark]
    other()
    (error,) = viewer(0, by_itself)
    assert isinstance(error, MirrorError)
    assert "the server 1 was read, and now it is 2" in str(error)


def test_a_view_waits_for_a_lock_while_others_write(
    url: str, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect(url) as writer, writer.cursor() as cursor:
        pauses: list[Callable[[], Any]] = [int, writer.commit]
        monkeypatch.setattr(World, "sleep", lambda *_: pauses.pop(0)())
        cursor.execute("BEGIN")
        cursor.execute("UPDATE refused.t SET v = 9")
        viewer = replace(viewer_of_t(url, tmp_path), tries=2, lock_wait=1)
        (error,) = viewer(0, by_itself)
        assert isinstance(error, MirrorError)
        assert "could not be locked for reading in 2 attempts of 1 seconds: another session" in str(error)
        assert [type(one) for one in viewer(0, by_itself)] == [Mark]
        assert not pauses


def test_one_session_needs_no_lock_where_snapshots_say_their_place(
    url: str, sql: Sql, tmp_path: Path
) -> None:
    """Others may write, also in a transaction that is still open."""
    viewer = replace(viewer_of_t(url, tmp_path), placed=True, tries=1, lock_wait=1)
    (viewed,) = viewer.tables
    with connect(url) as writer, writer.cursor() as cursor, ExitStack() as opened:
        cursor.execute("BEGIN")
        cursor.execute("UPDATE refused.t SET v = 9 WHERE id = 1")
        viewing, mark = viewer.alone(opened)
        status = sql("SHOW MASTER STATUS")[0]
        assert (mark.file, mark.offset) == status[:2]
        writer.commit()
        assert sql("SHOW MASTER STATUS")[0][1] > status[1]
        (seen,) = viewer.whole(viewing, viewed, 1e6)
        assert (seen.rows, seen.error) == (2, None)
        rows = viewing.query("SELECT v FROM refused.t ORDER BY id", whole)
        assert [value for value, *_ in rows] == [1, 2]


def test_several_sessions_see_the_same_without_a_lock_where_snapshots_say_their_place(
    url: str, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others write between two snapshots, and have the table in an open transaction all the time."""
    taken, places, meeting = viewing.snapshot_mark, list[Mark](), threading.Lock()

    def between(connection: Connection, server: str) -> Mark | None:
        with meeting:
            mark = taken(connection, server)
            assert mark is not None
            places.append(mark)
            if len(places) <= 4:  # the second time is not better than the first
                sql(f"INSERT INTO t VALUES ({10 + len(places)}, 0)")
            return mark

    monkeypatch.setattr(viewing, "snapshot_mark", between)
    viewer = replace(viewer_of_t(url, tmp_path), placed=True, tries=1, lock_wait=1, sessions=3)
    tables = tuple(replace(one, chunks=("id % 3 = 0", "id % 3 = 1", "id % 3 = 2")) for one in viewer.tables)
    with connect(url) as writer, writer.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("UPDATE refused.t SET v = 9 WHERE id = 1")
        mark, seen = view(LocalRunner(3), replace(viewer, tables=tables))
    assert len(places) == 9 and places[6:] == [mark] * 3
    assert len({(one.file, one.offset) for one in places}) > 2
    assert [one.error for one in seen] == [None] * 3
    assert sum(one.rows for one in seen) == 6, "two, and four that came between"


def test_sessions_that_never_see_the_same_lock_the_table(
    url: str, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, locked, number = viewing.snapshot_mark, list[str](), itertools.count(10)
    query, meeting = Connection.query, threading.Lock()

    def between(connection: Connection, server: str) -> Mark | None:
        mark = taken(connection, server)
        assert mark is not None
        with meeting:
            found = next(number)
            sql(f"INSERT INTO t VALUES ({found}, 0)")
        return replace(mark, offset=found)

    def noting(self: Connection, statement: str, *arguments: Any, **options: Any) -> Any:
        if statement.startswith("LOCK"):
            locked.append(statement)
        return query(self, statement, *arguments, **options)

    monkeypatch.setattr(viewing, "snapshot_mark", between)
    monkeypatch.setattr(viewing, "_ALIGNED", 3)
    monkeypatch.setattr(Connection, "query", noting)
    viewer = replace(viewer_of_t(url, tmp_path), placed=True, sessions=2)
    tables = tuple(replace(one, chunks=("id % 2", "NOT id % 2")) for one in viewer.tables)
    mark, seen = view(LocalRunner(2), replace(viewer, tables=tables))
    assert locked == ["LOCK TABLES `refused`.`t` READ"]
    status = sql("SHOW MASTER STATUS")[0]
    assert (mark.file, mark.offset) == status[:2]
    assert sum(one.rows for one in seen) == next(number) - 8


@pytest.mark.parametrize("fails_at", ["connect", "first", "second"])
def test_a_session_that_fails_lets_no_other_wait(
    url: str, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails_at: str
) -> None:
    made, taken, query, marks = viewing.connected, viewing.snapshot_mark, Connection.query, itertools.count()
    failing: list[Connection] = []

    def connecting(*arguments: Any) -> Connection:
        if fails_at == "connect" and not failing:
            failing.append(made(*arguments))
            failing[0].close()
            raise MirrorError("not today")
        return made(*arguments)

    def between(connection: Connection, server: str) -> Mark | None:
        mark = taken(connection, server)
        if next(marks) == 0:
            failing.append(connection)
            if fails_at == "first":
                raise MirrorError("not today")
        assert mark is not None
        return replace(mark, offset=id(connection))  # never the same

    def rolling_back(self: Connection, statement: str, *arguments: Any, **options: Any) -> Any:
        if statement == "ROLLBACK" and self in failing:
            raise MirrorError("not today")
        return query(self, statement, *arguments, **options)

    monkeypatch.setattr(viewing, "connected", connecting)
    monkeypatch.setattr(viewing, "snapshot_mark", between)
    monkeypatch.setattr(Connection, "query", rolling_back)
    viewer = replace(viewer_of_t(url, tmp_path), placed=True, sessions=3)
    with pytest.raises(MirrorError, match="not today"):
        view(LocalRunner(3), viewer)


def test_a_table_is_read_in_chunks_of_one_view(
    url: str, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between them it has no lock, so that MySQL can alter the table (tried by hand: error 1412 then)."""
    monkeypatch.setattr(chunks, "_LEAST_ROWS", 1)
    viewer = replace(viewer_of_t(url, tmp_path), placed=True)
    (viewed,) = viewer.tables
    query, told = Connection.query, list[str]()

    def noting(self: Connection, statement: str, *arguments: Any, **options: Any) -> Any:
        if "SAVEPOINT" in statement:
            told.append(statement.partition(" ")[0])
            sql("INSERT INTO t SELECT MAX(id) + 1, 0 FROM t")
        return query(self, statement, *arguments, **options)

    monkeypatch.setattr(Connection, "query", noting)
    with ExitStack() as opened:
        viewing, _ = viewer.alone(opened)
        seen = viewer.whole(viewing, viewed, 1e3)
    assert sum(one.rows for one in seen) == 2
    assert told == ["SAVEPOINT", "ROLLBACK"] * len(seen) + ["SAVEPOINT"]
    assert len(seen) > 1


def test_a_table_that_is_dropped_meanwhile_does_not_end_a_comparison(
    url: str, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql("CREATE TABLE u LIKE t")
    mirrored(url, tmp_path)
    planned = comparing.planned

    def dropping(connection: Any, lake: Lake, state: TableState, *rest: Any) -> Viewed:
        found = planned(connection, lake, state, *rest)
        if state.name == "u":
            sql("DROP TABLE u")
        return found

    monkeypatch.setattr(comparing, "planned", dropping)
    assert verify(tmp_path) == [Compared("refused.t", 2)]


def test_a_table_that_is_altered_while_it_is_read_is_said_to_have_changed(
    url: str, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql("CREATE TABLE u LIKE t")
    mirrored(url, tmp_path)
    open_view = Viewer._view

    def altering(*arguments: Any, **rest: Any) -> Any:
        found = open_view(*arguments, **rest)
        sql("ALTER TABLE u FORCE")
        return found

    monkeypatch.setattr(Viewer, "_view", altering)
    assert verify(tmp_path, runner=HERE) == [
        Compared("refused.t", 2),
        Compared("refused.u", reason="the table changed while it was compared"),
    ]
