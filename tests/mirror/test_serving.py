"""A running mirror answers others: it compares, copies again, pauses, and takes tables in and out."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("pymysql")

from support.lake_forms import Form
from support.refused import Sql, mirrored
from support.running import running, until
from support.s3 import CREDENTIALS, store

from binlog_core import MirrorError
from binlog_core.errors import UnreachableError
from binlog_core.lake import runner
from binlog_core.mirror import add, drop, mirroring, pause, resume, resync, status, verify
from binlog_core.mirror.copies import Copier
from binlog_core.mirror.lake import Lake
from binlog_core.mirror.requests import Requests
from binlog_core.mirror.state import MirrorState, StateTexts, TableState
from binlog_core.mirror.viewing import Viewer


def rows(lake: Path, form: Form, table: str = "t") -> list[tuple[Any, ...]]:
    try:
        return sorted(tuple(row.values()) for row in form.read(lake / f"refused.{table}").to_pylist())
    except Exception:  # there is no table yet
        return []


def stages(lake: Path) -> dict[str, str]:
    return {one.table.partition(".")[2]: one.stage for one in status(lake)}


def test_a_running_mirror_compares_and_copies_again(url: str, sql: Sql, form: Form, tmp_path: Path) -> None:
    sql("ALTER TABLE t MODIFY v VARCHAR(9)")
    with running(url, tmp_path, form):
        until(lambda: rows(tmp_path, form) == [(1, "1"), (2, "2")])
        sql("UPDATE t SET v = 3 WHERE id = 1")
        (one,) = verify(tmp_path)
        assert (one.table, one.rows, one.agrees) == ("refused.t", 2, True)
        assert rows(tmp_path, form) == [(1, "3"), (2, "2")]
        form.spoil(tmp_path / "refused.t", 1, 2, "v")
        (one,) = verify(tmp_path, "refused.t")
        assert (one.agrees, one.changed, one.missing) == (False, [{"id": 1}], [{"id": 2}])
        until(lambda: rows(tmp_path, form) == [(1, "3"), (2, "2")])  # it is copied again by itself
        (told,) = resync(tmp_path, "refused.t")
        assert told.stage == "copying"
        until(lambda: rows(tmp_path, form) == [(1, "3"), (2, "2")])
        with pytest.raises(MirrorError, match=r"the mirror has no table refused\.none"):
            resync(tmp_path, "refused.none")
        sql("INSERT INTO t VALUES (3, 3)")
        until(lambda: rows(tmp_path, form) == [(1, "3"), (2, "2"), (3, "3")])


def test_a_difference_that_may_not_be_healed_is_suspect(
    url: str, sql: Sql, form: Form, tmp_path: Path
) -> None:
    sql("ALTER TABLE t MODIFY v VARCHAR(9)")
    with running(url, tmp_path, form, heal=0):
        until(lambda: rows(tmp_path, form) == [(1, "1"), (2, "2")])
        form.spoil(tmp_path / "refused.t", 1, 2, "v")
        (one,) = verify(tmp_path)
        assert one.differ == 2
        (told,) = status(tmp_path)
        reason = "compared with the server's, 2 of 2 rows differ"
        assert (told.stage, told.reason) == ("suspect", reason)


def test_tables_are_paused_taken_out_and_taken_in(url: str, sql: Sql, form: Form, tmp_path: Path) -> None:
    sql("CREATE TABLE u (id INT PRIMARY KEY, v INT)")
    with running(url, tmp_path, form, exclude_tables="refused.x*"):
        until(lambda: rows(tmp_path, form) == [(1, 1), (2, 2)])
        assert {one.table: one.stage for one in pause(tmp_path, "refused.t")}["refused.t"] == "paused"
        sql("INSERT INTO t VALUES (3, 3)")
        sql("INSERT INTO u VALUES (3, 3)")
        until(lambda: rows(tmp_path, form, "u") == [(3, 3)])
        assert rows(tmp_path, form) == [(1, 1), (2, 2)]
        (one,) = verify(tmp_path, "refused.t")
        assert one.reason == "the table is paused"
        resume(tmp_path, "refused.t")
        until(lambda: rows(tmp_path, form) == [(1, 1), (2, 2), (3, 3)])

        assert [one.table for one in drop(tmp_path, "refused.u")] == ["refused.t"]
        sql("CREATE TABLE xx (id INT PRIMARY KEY)")
        assert [one.table for one in add(tmp_path, "refused.xx")] == ["refused.t", "refused.xx"]
        until(lambda: stages(tmp_path).get("xx") == "following")
        with pytest.raises(MirrorError, match="the mirror has no table nothing"):
            drop(tmp_path, "nothing.*")
    sql("DELETE FROM u")
    found = mirrored(url, tmp_path, exclude_tables="refused.x*", compact=None, **form.settings)
    assert [one.table for one in found] == ["refused.t", "refused.xx"]  # the next run still knows
    assert rows(tmp_path, form, "u") == [(3, 3)]


def test_what_nobody_runs_is_changed_for_the_next_run(url: str, sql: Sql, form: Form, tmp_path: Path) -> None:
    with pytest.raises(MirrorError, match="the lake has no mirror"):
        pause(tmp_path)
    assert not (tmp_path / "_mirror").exists()
    settings = {"compact": None, **form.settings}
    mirrored(url, tmp_path, **settings)
    assert [one.stage for one in pause(tmp_path)] == ["paused"]
    sql("CREATE TABLE u (id INT PRIMARY KEY, v INT)")  # all are paused, also those that come
    sql("DELETE FROM t WHERE id = 1")
    assert {one.stage for one in mirrored(url, tmp_path, **settings)} == {"paused"}
    assert rows(tmp_path, form) == [(1, 1), (2, 2)]
    resume(tmp_path, "refused.u")  # this one alone, although all are paused
    found = {one.table: one.stage for one in mirrored(url, tmp_path, **settings)}
    assert found == {"refused.t": "paused", "refused.u": "following"}
    resume(tmp_path)
    assert {one.stage for one in mirrored(url, tmp_path, **settings)} == {"following"}
    assert rows(tmp_path, form) == [(2, 2)]
    assert [one.table for one in drop(tmp_path, "refused.u")] == ["refused.t"]
    assert [one.table for one in mirrored(url, tmp_path, **settings)] == ["refused.t"]


def test_a_request_is_answered_while_a_table_is_copied(
    url: str, sql: Sql, form: Form, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy ends early, and goes on afterwards with the chunks that it lacks."""
    copy, held, tried = Copier._copy, threading.Event(), []

    def slowly(self: Copier, connection: Any, chunk: Any) -> Any:
        tried.append(chunk.table)
        while chunk.table == "refused.t" and not held.is_set():
            if runner.is_given_up():
                raise runner.GivenUp
            time.sleep(0.01)
        return copy(self, connection, chunk)

    monkeypatch.setattr(Copier, "_copy", slowly)
    monkeypatch.setattr(mirroring, "_LOOK", 0.5)
    with running(url, tmp_path, form):
        until(lambda: "refused.t" in tried)
        (one,) = pause(tmp_path)
        assert one.stage == "paused"
        sql("CREATE TABLE u (id INT PRIMARY KEY, v INT)")
        sql("INSERT INTO u VALUES (5, 5)")
        until(lambda: stages(tmp_path).get("u") == "paused")
        held.set()
        resume(tmp_path)
        until(lambda: rows(tmp_path, form) == [(1, 1), (2, 2)])
        until(lambda: rows(tmp_path, form, "u") == [(5, 5)])


def test_a_mirror_in_a_store_is_asked_there(
    url: str, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))  # the archive's spool
    with store("lakes") as endpoint:
        options = {**CREDENTIALS, "endpoint_override": endpoint}
        place = "s3://lakes/shop"
        with running(url, place, storage_options=options):
            (one,) = verify(place, storage_options=options)
            assert (one.rows, one.agrees) == (2, True)
            (paused,) = pause(place, storage_options=options)
            assert paused.stage == "paused"
        queue = Requests(Lake(place, options))
        assert [queue._names(folder) for folder in ("requests", "answers")] == [set(), set()]


def test_a_table_that_is_added_while_the_server_is_lost_comes_later(
    url: str, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who asked is not told that it failed, since it is noted."""
    sql("CREATE TABLE u (id INT PRIMARY KEY)")
    look, lost = mirroring.Mirroring._look, threading.Event()

    def looks(self: mirroring.Mirroring) -> None:
        if lost.is_set():
            raise UnreachableError("lost")
        look(self)

    monkeypatch.setattr(mirroring.Mirroring, "_look", looks)
    monkeypatch.setattr(mirroring, "_LOOK", 0.5)
    with running(url, tmp_path, tables="refused.t"):
        until(lambda: Lake(str(tmp_path)).load() is not None and stages(tmp_path).get("t") == "following")
        lost.set()
        assert [one.table for one in add(tmp_path, "refused.u")] == ["refused.t"]
        lost.clear()
        until(lambda: stages(tmp_path).get("u") == "following")


def test_the_last_word_about_a_table_counts() -> None:
    state = MirrorState("id", "mysql://db1", ("shop.*",), "archive", exclude_tables=("shop.tmp_*",))
    assert [state.wants(f"shop.{one}") for one in ("a", "tmp_a")] == [True, False]
    state.amend("shop.tmp_a", wanted=True)
    state.amend("shop.*", wanted=False)
    assert [state.wants(f"shop.{one}") for one in ("a", "tmp_a")] == [False, False]
    state.amend("shop.tmp_a", wanted=True)
    assert [state.wants(f"shop.{one}") for one in ("a", "tmp_a", "tmp_b")] == [False, True, False]
    again = MirrorState.of_json(json.loads(state.to_json(StateTexts(), 0.0)))
    assert again.amended == (("shop.*", False), ("shop.tmp_a", True))


@pytest.mark.parametrize("stage", ["copying", "following", "dropped", "parked"])
def test_a_paused_table_goes_on_as_it_was(stage: Any) -> None:
    one = TableState("shop", "a", stage)
    one.pause()
    assert one.stage == (stage if stage in ("dropped", "parked") else "paused")
    one.try_again()
    one.resume()
    assert one.stage == stage
    one.park("the disk is full", again=True)
    one.pause()
    assert (one.stage, one.reason) == (
        ("parked", "the disk is full") if stage in ("dropped", "parked") else ("paused", None)
    )


def test_a_difference_that_came_while_it_was_read_is_not_healed(
    url: str, sql: Sql, form: Form, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine without snapshots has it; a copy would read a large table for nothing."""
    sql("ALTER TABLE t ENGINE=MyISAM")
    read = Viewer.read

    def late(*given: Any) -> Any:
        sql("INSERT INTO t VALUES (3, 3)")
        return read(*given)

    with running(url, tmp_path, form):
        until(lambda: rows(tmp_path, form) == [(1, 1), (2, 2)])
        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(Viewer, "read", late)
            (one,) = verify(tmp_path)
        assert one.missing == [{"id": 3}]
        until(lambda: rows(tmp_path, form) == [(1, 1), (2, 2), (3, 3)])
        (one,) = verify(tmp_path)
        assert one.agrees
        table = Lake(str(tmp_path)).load().tables["refused.t"]  # type: ignore[union-attr]
        assert (table.stage, [*table.healed], table.suspect) == ("following", [], None)
