"""A running mirror compares its tables with the server's, and copies again those that differ."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("pymysql")

from support.lake_forms import Form
from support.refused import Sql, mirrored, rows_of
from support.running import running, until
from support.server import connect

from binlog_core.mirror import mirror, proving, status
from binlog_core.mirror.lake import Lake
from binlog_core.mirror.state import TableState
from binlog_core.mirror.viewing import Viewer
from binlog_core.report import BinlogWarning


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table's turn comes again at once."""
    monkeypatch.setattr(proving, "_EVERY", 0.0)
    monkeypatch.setattr(proving, "_LOOK", 0.1)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Any:
    """While it is held, no comparison begins: what is spoiled in several commits is found as a whole."""
    held, begin = threading.Lock(), proving.Proving._begin

    def begins(self: proving.Proving, *arguments: Any) -> None:
        with held:
            begin(self, *arguments)

    monkeypatch.setattr(proving.Proving, "_begin", begins)
    return held


def state_of(lake: Path, table: str = "t") -> TableState:
    found = Lake(str(lake)).load()
    return TableState("refused", table) if found is None else found.tables[f"refused.{table}"]


def proved(lake: Path, table: str = "t") -> float:
    try:
        return state_of(lake, table).proved or 0.0
    except KeyError:  # it is not known yet
        return 0.0


def rows(lake: Path, form: Form, table: str = "t") -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in form.read(lake / f"refused.{table}").to_pylist())


@contextmanager
def writing(url: str, statement: str) -> Iterator[None]:
    """Another session that writes all the time."""
    stop = threading.Event()

    def write() -> None:
        with connect(url) as connection, connection.cursor() as cursor:
            number = 0
            while not stop.wait(0.02):
                cursor.execute(statement.format(number := number + 1))
                connection.commit()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_what_was_changed_in_the_lake_is_found_and_copied_again(
    url: str, sql: Sql, form: Form, tmp_path: Path, recwarn: pytest.WarningsRecorder, gate: Any
) -> None:
    """While others write, and without a lock: a transaction with the table's rows is open all the time."""
    sql("ALTER TABLE t MODIFY v VARCHAR(9)")
    sql("CREATE TABLE u (id INT PRIMARY KEY, v INT)")
    sql("INSERT INTO u VALUES (1, 0), (7, 7)")
    with (
        connect(url) as holder,
        holder.cursor() as cursor,
        running(url, tmp_path, form, verify_rate=1e6),
        writing(url, "UPDATE refused.u SET v = {} WHERE id = 1"),
    ):
        cursor.execute("BEGIN")
        cursor.execute("UPDATE refused.t SET v = 'never' WHERE id = 1")
        until(lambda: proved(tmp_path) > 0 and proved(tmp_path, "u") > 0)
        before = proved(tmp_path)
        until(lambda: proved(tmp_path) > before)  # again, and later
        told = {one.table: one.proved for one in status(tmp_path)}
        assert told["refused.t"] is not None and told["refused.u"] is not None
        assert not [one for one in recwarn if "compared" in str(one.message)]
        with gate:
            form.spoil(tmp_path / "refused.t", 1, 2, "v")
        until(lambda: bool(state_of(tmp_path).healed))
        until(lambda: rows(tmp_path, form) == [(1, "1"), (2, "2")])
        until(lambda: proved(tmp_path) > 0)
    found = [str(one.message) for one in recwarn if "compared" in str(one.message)]
    assert found == [
        "refused.t: compared with the server's, 2 of 2 rows differ: changed {'id': 1}, missing {'id': 2}"
    ]
    assert not state_of(tmp_path, "u").healed
    assert not (tmp_path / "_mirror" / "proofs").exists()


def test_rounds_go_on_while_a_table_is_compared(
    url: str, sql: Sql, form: Form, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is compared is the table of the moment at which the view was opened."""
    whole, held, reads = Viewer.whole, threading.Event(), list[str]()

    def slowly(self: Viewer, viewing: Any, viewed: Any, rate: float) -> Any:
        reads.append(viewed.table)
        assert held.wait(60)
        return whole(self, viewing, viewed, rate)

    monkeypatch.setattr(Viewer, "whole", slowly)
    with running(url, tmp_path, form, verify_rate=1e6):
        until(lambda: bool(reads))
        sql("UPDATE t SET v = 5 WHERE id = 1")
        sql("INSERT INTO t VALUES (3, 3)")
        until(lambda: rows(tmp_path, form) == [(1, 5), (2, 2), (3, 3)])
        assert proved(tmp_path) == 0
        held.set()
        until(lambda: proved(tmp_path) > 0)
        assert not state_of(tmp_path).healed


def test_no_proof_of_what_cannot_be_read_at_one_moment(
    url: str, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine without snapshots, and a table that is altered or emptied meanwhile."""
    sql("CREATE TABLE m (id INT PRIMARY KEY) ENGINE=MyISAM")
    whole, left = Viewer.whole, ["ALTER TABLE t FORCE", "TRUNCATE t"]

    def altering(self: Viewer, viewing: Any, viewed: Any, rate: float) -> Any:
        if left:
            assert proved(tmp_path) == 0
            sql(left.pop(0))
        return whole(self, viewing, viewed, rate)

    monkeypatch.setattr(Viewer, "whole", altering)
    monkeypatch.setattr(proving, "_SOON", 0.1)
    with warnings.catch_warnings(record=True) as told, running(url, tmp_path, verify_rate=1e6):
        warnings.simplefilter("always")
        until(lambda: proved(tmp_path) > 0)
        assert not left
        assert (proved(tmp_path, "m"), [*state_of(tmp_path).healed]) == (0, [])
    found = {str(one.message) for one in told if issubclass(one.category, BinlogWarning)}
    assert {one for one in found if "compared" in one} == {
        "refused.m is not compared with the server's: its engine, MyISAM, has no snapshots"
    }


def test_a_difference_that_may_not_be_healed_stays_said(
    url: str, sql: Sql, form: Form, tmp_path: Path, gate: Any
) -> None:
    sql("ALTER TABLE t MODIFY v VARCHAR(9)")

    def stage() -> str:
        return status(tmp_path)[0].stage

    with (
        pytest.warns(BinlogWarning, match="2 of 2 rows differ"),
        running(url, tmp_path, form, verify_rate=1e6, heal=0),
    ):
        until(lambda: proved(tmp_path) > 0)
        with gate:
            form.spoil(tmp_path / "refused.t", 1, 2, "v")
        until(lambda: stage() == "suspect")
        assert status(tmp_path)[0].reason == "compared with the server's, 2 of 2 rows differ"
        assert rows(tmp_path, form) == [(1, "wrong")]


def test_tables_are_compared_together_up_to_a_size(
    url: str, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        sql(f"CREATE TABLE {name} LIKE t")
        sql(f"INSERT INTO {name} VALUES (1, 1)")
    views = list[list[str]]()
    alone = Viewer.alone

    def noting(self: Viewer, opened: Any) -> Any:
        views.append(sorted(one.table for one in self.tables))
        return alone(self, opened)

    monkeypatch.setattr(Viewer, "alone", noting)
    monkeypatch.setattr(proving, "_EVERY", 3600.0)
    names = [f"refused.{name}" for name in "abct"]
    for rate, expected in ((1e6, [names]), (50.0, [[name] for name in names])):
        lake = tmp_path / str(rate)
        mirrored(url, lake)
        views.clear()
        with running(url, lake, verify_rate=rate, tables="refused.*"):
            until(lambda lake=lake: all(proved(lake, name) for name in "abct"))  # type: ignore[misc]
        assert sorted(views) == expected


def test_a_table_that_mariadb_could_not_alter_for_long_is_left_out(
    url: str, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proving, "_LONGEST", 0.0)
    with (
        pytest.warns(BinlogWarning, match=r"refused\.t is not compared .*: that would take about [1-9]"),
        running(url, tmp_path, verify_rate=1),
    ):
        until(lambda: state_of(tmp_path).stage == "following")
        until(lambda: state_of(tmp_path).as_of is not None)
        sql("INSERT INTO t VALUES (3, 3)")
        until(lambda: rows_of(tmp_path) == [(1, 1), (2, 2), (3, 3)])
    assert proved(tmp_path) == 0


def test_it_is_a_rate(tmp_path: Path) -> None:
    for rate in (0, -1, float("inf"), float("nan")):
        with pytest.raises(ValueError, match=r"verify_rate=.*: expected a number above 0"):
            mirror("mysql://root@db1", tmp_path, tables="a.b", verify_rate=rate)
