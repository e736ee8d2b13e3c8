"""Copies beside the replay of other tables, and those that a mirror makes by itself."""

from __future__ import annotations

import errno
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("pymysql")

from support.hard_statements import followed
from support.refused import Sql, mirrored, rows_of

from binlog_core.errors import BinlogError, UnreachableError
from binlog_core.mirror import TableStatus, chunks, copies, copying, mirror, resync
from binlog_core.mirror.copying import Copying, _note_healed
from binlog_core.mirror.lake import Lake
from binlog_core.mirror.state import TableState
from binlog_core.server.world import REAL

WAYS_OUT = ("ADD _change_type INT", "ADD _position INT")  # names that the changes themselves need


@pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")
def test_statements_that_are_easy_to_follow_wrongly(url: str, sql: Sql, tmp_path: Path) -> None:
    """About 150, each on a table of its own: none leaves other rows than SELECT has, and few park a table."""
    found = followed(sql, url, tmp_path)
    wrong = [f"{one.name}: {one.difference}" for one in found if one.difference]
    assert not wrong, "\n".join(wrong)
    stages = Counter(one.stage for one in found)
    assert stages["following"] > 120 and set(stages) <= {"following", "refused", "parked", "dropped"}
    assert [one.name for one in found if one.stage == "parked"] == [*WAYS_OUT]


def test_what_is_copied_again_by_itself_is_bounded(url: str, sql: Sql, tmp_path: Path) -> None:
    sql("CREATE TABLE keyless (a INT)")
    assert {one.stage for one in mirrored(url, tmp_path, heal=0)} == {"following"}, "first copies are free"
    sql("INSERT INTO keyless VALUES (1)")
    for _ in range(2):
        keyless, t = mirrored(url, tmp_path, heal=0)
        assert (keyless.stage, t.stage) == ("parked", "following")
        assert "it has changed, and has no key" in str(keyless.reason)
        assert "copy it now (resync)" in str(keyless.reason)
        assert rows_of(tmp_path, "keyless") == []
    resync(tmp_path, "refused.keyless")
    assert rows_of(tmp_path, "keyless") == [(1,)]
    size = sum(path.stat().st_size for path in (tmp_path / "refused.keyless").glob("*.parquet"))
    stages = []
    for number in range(3):
        sql(f"INSERT INTO keyless VALUES ({number})")
        keyless, _ = mirrored(url, tmp_path, heal=1.9 * size)
        stages.append(keyless.stage)
    assert stages == ["following", "parked", "parked"], "one of that size, and not two more in the same day"
    assert mirrored(url, tmp_path)[0].stage == "following"


def test_a_copy_stops_no_other_table(
    url: str, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, go_on, stop = copies.batches_of, threading.Event(), threading.Event()
    seen: list[list[TableStatus]] = []

    def slow(connection: Any, statement: str, *these: Any, **named: Any) -> Iterator[Any]:
        if "`large`" in statement:
            assert go_on.wait(60)
        return read(connection, statement, *these, **named)

    monkeypatch.setattr(copies, "batches_of", slow)
    sql("CREATE TABLE large (id INT PRIMARY KEY, v INT)")
    sql("INSERT INTO large VALUES (1, 1)")
    work = threading.Thread(
        target=lambda: mirror(url, tmp_path, tables="refused.*", stop=stop, progress=seen.append)
    )
    work.start()
    try:
        until(lambda: (tmp_path / "refused.t" / "_delta_log").exists() or bool(seen))
        sql("INSERT INTO t VALUES (3, 3)")
        sql("UPDATE large SET v = 2")
        until(lambda: rows(tmp_path, "t") == [(1, 1), (2, 2), (3, 3)])
        sql("CREATE TABLE late (id INT PRIMARY KEY)")
        sql("INSERT INTO late VALUES (1)")
        until(lambda: rows(tmp_path, "late") == [(1,)])
        large = next(one for one in seen[-1] if one.table == "refused.large")
        assert (large.stage, large.copied) == ("copying", 0.0)
        assert not (tmp_path / "refused.large" / "_delta_log").exists()
        go_on.set()
        until(lambda: rows(tmp_path, "large") == [(1, 2)])
    finally:
        go_on.set()
        stop.set()
        work.join(60)
    assert not work.is_alive()


def rows(lake: Path, table: str) -> list[tuple[Any, ...]]:
    return rows_of(lake, table) if (lake / f"refused.{table}" / "_delta_log").exists() else []


def until(so: Callable[[], bool]) -> None:
    for _ in range(600):
        if so():
            return
        threading.Event().wait(0.1)
    raise AssertionError("it does not become so")


@pytest.mark.parametrize("error", [UnreachableError("lost"), chunks.Outage("away")])
def test_a_copy_whose_line_was_lost_goes_on_with_its_chunks(error: BinlogError, tmp_path: Path) -> None:
    state = TableState("shop", "t", copy={"id": "abc"})
    host: Any = SimpleNamespace(lake=Lake(str(tmp_path)), state=None)
    work = Copying(host)
    work._give_up(state, SimpleNamespace(id="abc"), error)  # type: ignore[arg-type]
    assert (state.stage, state.copy, state.failures) == ("copying", {"id": "abc"}, 1)


def test_a_copy_whose_store_is_away_at_its_end_goes_on_with_its_chunks(
    url: str, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dividing files by a partition reads and writes the store.

    A value that does not fit is no outage, nor is a full disk: it needs the room of what was copied.
    """
    read = list[str]()
    reading, finished = copies.batches_of, copying.finished

    def counted(connection: Any, statement: str, *rest: Any, **named: Any) -> Any:
        read.append(statement)
        return reading(connection, statement, *rest, **named)

    def away(*_: Any, **__: Any) -> Any:
        monkeypatch.setattr(copying, "finished", finished)
        raise error

    monkeypatch.setattr(copies, "batches_of", counted)
    full = OSError(errno.ENOSPC, "no room")
    for error, copied_again in ((OSError("away"), False), (ValueError("too long"), True), (full, True)):
        monkeypatch.setattr(copying, "finished", away)
        read.clear()
        lake = tmp_path / str(error)
        (found,) = mirrored(url, lake, partition={"refused.t": "v"})
        assert found.stage == "following"
        assert len(read) == 1 + copied_again
        assert rows_of(lake) == [(1, 1), (2, 2)]


def test_a_copy_waits_for_a_store_that_is_away_at_its_beginning(
    url: str, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is looked for what an earlier run has read."""
    done = copies._done

    def away(*_: Any) -> Any:
        monkeypatch.setattr(copies, "_done", done)
        raise OSError("the store is away")

    monkeypatch.setattr(copies, "_done", away)
    (found,) = mirrored(url, tmp_path)
    assert (found.stage, rows_of(tmp_path)) == ("following", [(1, 1), (2, 2)])


def test_a_copy_that_is_resumed_knows_its_files_as_if_it_had_not_been_killed(
    url: str, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bounds of its columns, and that a date of the key is null, by which no change can be applied."""
    monkeypatch.setattr(copying, "CHUNK_BYTES", 1)
    monkeypatch.setattr(chunks, "_LEAST_ROWS", 4)
    sql("SET sql_mode = ''")
    sql("CREATE TABLE dated (d DATE PRIMARY KEY, v INT)")
    days = ", ".join(f"('2024-01-{day:02}', {day})" for day in range(1, 11))
    sql(f"INSERT INTO dated VALUES ('0000-00-00', 0), {days}")
    read = list[str]()

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Copying, "_finish_all", killed)
        with pytest.raises(KeyboardInterrupt):
            mirrored(url, tmp_path)
    monkeypatch.setattr(copies, "batches_of", lambda _, statement, *rest, **named: read.append(statement))
    mirrored(url, tmp_path)
    assert not read, "no chunk is read again"
    lake = Lake(str(tmp_path))
    state = lake.load()
    assert state is not None
    lake.use(state)
    dated = state.tables["refused.dated"]
    assert (dated.stage, dated.keyless) == ("following", True)
    bounds = sorted((one.least["v"], one.most["v"]) for one in lake.opened(dated).files())
    assert bounds == [(0, 3), (4, 7), (8, 10)]


def test_a_healing_copy_that_fails_counts_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is tried again now and then, and would be for ever."""
    monkeypatch.setattr(copying, "clean_up", lambda *_: None)
    lake = SimpleNamespace(opened=lambda _: SimpleNamespace(files=lambda: [SimpleNamespace(bytes=10)]))
    tables = dict[str, TableState]()
    told = SimpleNamespace(heal=25.0, tables=tables)
    host: Any = SimpleNamespace(address=SimpleNamespace(world=REAL), lake=lake, state=told)
    work = Copying(host)
    for healing, spent in (("its log", 20), (None, 0)):
        one = tables["shop.t"] = TableState("shop", "t", place=1, healing=healing)
        for number in range(2):
            assert work.due() == [one]
            one.copy = {"id": "abc"}
            copy = SimpleNamespace(id="abc")
            work._give_up(one, copy, BinlogError("it cannot be read"))  # type: ignore[arg-type]
            assert (one.stage, one.failures) == ("copying", number + 1)
        assert sum(size for _, size in one.healed) == spent
        assert work.due() == ([] if healing else [one])
        assert one.stage == ("parked" if healing else "copying")


def test_suspect_tables_are_copied_first() -> None:
    tables = {
        "a": TableState("shop", "a"),
        "b": TableState("shop", "b", copy={"id": "x"}, healing="no key"),
        "c": TableState("shop", "c", copy={"id": "y"}, healing="by statements", suspect="by statements"),
        "d": TableState("shop", "d", "following"),
    }
    host: Any = SimpleNamespace(state=SimpleNamespace(tables=tables))
    assert [one.name for one in Copying(host).due()] == ["c", "b", "a"]


def test_copies_of_a_day_are_few_entries_and_a_clock_that_is_set_back_does_not_keep_them() -> None:
    state, clock = TableState("shop", "t", "following", 1), [1e9]
    lake = SimpleNamespace(opened=lambda _: SimpleNamespace(files=lambda: [SimpleNamespace(bytes=10)]))
    world = SimpleNamespace(time=lambda: clock[0])
    host: Any = SimpleNamespace(
        address=SimpleNamespace(world=world), lake=lake, state=SimpleNamespace(heal=100.0)
    )
    work = Copying(host)
    for _ in range(3600):
        clock[0] += 3
        _note_healed(state, clock[0], 1)
    assert sum(size for _, size in state.healed) == 3600 and len(state.healed) <= 12
    assert work._over(state) is not None
    clock[0] -= 10 * 86400
    assert work._over(state) is not None, "not more because of that"
    clock[0] += 86400
    assert work._over(state) is None and not state.healed


def test_a_stop_while_the_log_is_fetched_leaves_the_copy_as_it_is(tmp_path: Path) -> None:
    """The archive may lack its mark, or the end up to which was read: it is neither given up nor put in."""
    state = TableState("shop", "t", copy={"id": "abc"})
    planned: Any = SimpleNamespace(state=state, copy=SimpleNamespace(id="abc", mark={"server": ""}))
    host: Any = SimpleNamespace(archive=lambda: False, lake=Lake(str(tmp_path)), server="")
    Copying(host)._finish_all([(planned, [])])
    assert (state.stage, state.copy, state.failures) == ("copying", {"id": "abc"}, 0)


def test_what_is_paused_or_dropped_meanwhile_is_read_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its thread read on to the end, for hours; the tables that it was to read besides are begun again."""
    ended: list[str] = []

    def waiting(*_: Any, stop: threading.Event, **__: Any) -> Iterator[Any]:
        if stop.wait(60):
            ended.append("in time")
        yield from ()

    monkeypatch.setattr(copying, "run_copies", waiting)
    tables = {name: TableState("shop", name, copy={"id": name}) for name in "abc"}
    cleaned: list[Any] = []
    host: Any = SimpleNamespace(
        state=SimpleNamespace(tables=tables),
        address=SimpleNamespace(world=REAL),
        columns=SimpleNamespace(key=None),
        runner=None,
        lake=None,
        clean=cleaned.append,
    )
    work = Copying(host)
    monkeypatch.setattr(
        work,
        "_begun",
        lambda due: {
            one.name: SimpleNamespace(state=one, copy=SimpleNamespace(id=one.copy["id"])) for one in due
        },
    )
    work.beside()
    work.leave_unwanted()
    assert not work.due() and work.at_work and not ended, "all are wanted"
    tables["a"].pause()
    tables["b"].copy_anew()
    work.leave_unwanted()
    until(lambda: not work.collect() and not work.at_work)
    assert ended == ["in time"]
    assert [one.name for one in work.due()] == ["b", "c"]
    assert [one.args[2] for one in cleaned] == ["b"]
