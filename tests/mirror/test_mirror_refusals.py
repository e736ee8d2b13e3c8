"""A mirror that cannot continue says why, and applies no part of a round.

These tests have their own server.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.lake_forms import Form, IcebergForm

pytest.importorskip("deltalake")
pytest.importorskip("pymysql")

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from support.refused import Other, Sql, mirrored, rows_of

from binlog_core import BinlogError, BinlogWarning, DivergedError, PurgedError
from binlog_core.archive import archive
from binlog_core.lake.tables.delta import DeltaLakeTable
from binlog_core.lake.tables.iceberg import IcebergLakeTable, load_iceberg_catalog
from binlog_core.mirror import copying, mirror, mirroring, resync, status
from binlog_core.mirror.applying import apply_round
from binlog_core.mirror.copies import Copier, commit_copy
from binlog_core.mirror.lake import Lake
from binlog_core.mirror.marks import connected
from binlog_core.mirror.state import TableState
from binlog_core.mirror.values import SelectList
from binlog_core.server.address import Address
from binlog_core.server.connection import Connection


def test_logs_that_the_server_purged_are_missed_by_name(url: str, sql: Sql, tmp_path: Path) -> None:
    mirrored(url, tmp_path)
    sql("UPDATE t SET v = 5")
    sql("FLUSH BINARY LOGS")
    sql("FLUSH BINARY LOGS")
    for _ in range(100):  # it keeps what a connection that ends still reads, and what InnoDB has to sync
        sql(f"PURGE BINARY LOGS TO '{sql('SHOW BINARY LOGS')[-1][0]}'")
        if len(sql("SHOW BINARY LOGS")) == 1:
            break
        time.sleep(0.2)
    else:
        pytest.fail("the server kept its logs")
    for _ in range(2):  # and so it stays
        with pytest.raises(PurgedError):
            mirrored(url, tmp_path)
        assert rows_of(tmp_path) == [(1, 1), (2, 2)]
        assert [one.stage for one in status(tmp_path)] == ["stopped"]


def test_logs_that_the_archive_purged_are_missed_by_name(url: str, sql: Sql, tmp_path: Path) -> None:
    mirrored(url, tmp_path)
    sql("UPDATE t SET v = 5")
    sql("FLUSH BINARY LOGS")
    (log,) = (tmp_path / "_mirror" / "archive").glob("bin.*")
    sql("FLUSH BINARY LOGS")
    sql("INSERT INTO t VALUES (3, 3)")
    archive(url, log.parent, until="now")
    log.unlink()
    for _ in range(2):
        with pytest.raises(BinlogError, match=log.name):
            mirrored(url, tmp_path)
        assert rows_of(tmp_path) == [(1, 1), (2, 2)]
        assert [one.stage for one in status(tmp_path)] == ["stopped"]


def test_a_table_that_stands_in_a_log_that_is_gone_holds_no_other(
    url: str, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql("CREATE TABLE other (id INT PRIMARY KEY)")
    mirrored(url, tmp_path)
    lake, log = Lake(str(tmp_path)), min((tmp_path / "_mirror" / "archive").glob("bin.*"))
    state = lake.load()
    assert state is not None
    state.tables["refused.t"].park("a fault", again=True)
    lake.save(state)
    sql("UPDATE t SET v = 5")
    sql("FLUSH BINARY LOGS")
    sql("INSERT INTO other VALUES (1)")
    with monkeypatch.context() as patch:
        patch.setattr(TableState, "try_again", lambda self: None)
        mirrored(url, tmp_path)
    log.unlink()  # as the archive does with --keep
    sql("INSERT INTO other VALUES (2)")
    for _ in range(2):
        other, t = mirrored(url, tmp_path, heal=0)
        assert (other.stage, t.stage) == ("following", "parked")
        assert f"the archive no longer has the log {log.name}" in str(t.reason)
        assert "copy it now (resync)" in str(t.reason)
    assert (rows_of(tmp_path, "other"), rows_of(tmp_path)) == ([(1,), (2,)], [(1, 1), (2, 2)])
    assert {one.stage for one in mirrored(url, tmp_path)} == {"following"}
    assert rows_of(tmp_path) == [(1, 5), (2, 5)]


def test_an_outage_of_a_tables_catalog_delays_no_other_table(
    url: str, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether a copy is committed, its leftovers are removed, or a dropped table is emptied."""

    def stages() -> dict[str, str]:
        return {one.table.removeprefix("refused."): one.stage for one in mirrored(url, tmp_path)}

    def down(self: Lake, state: TableState, *number: int, **rules: Any) -> Any:
        if state.name == "other":
            raise ConnectionError("the catalog is down")
        return opened(self, state, *number, **rules)

    opened, remove, removed = Lake.opened, copying.clean_up, []
    sql("CREATE TABLE other (id INT PRIMARY KEY)")
    sql("INSERT INTO other VALUES (1)")
    with monkeypatch.context() as patch:
        patch.setattr(Lake, "opened", down)
        assert stages() == {"other": "parked", "t": "following"}
        told = {one.table: one.reason for one in status(tmp_path)}
        assert told == {"refused.other": "ConnectionError: the catalog is down", "refused.t": None}

    def refused(*given: Any) -> None:
        removed.append(given[1].name)
        if len(removed) == 1:
            raise OSError("the store is down")
        remove(*given)

    with monkeypatch.context() as patch:
        patch.setattr(copying, "clean_up", refused)
        assert stages() == {"other": "following", "t": "following"}
        sql("DROP TABLE other")
    assert rows_of(tmp_path, "other") == [(1,)]
    with monkeypatch.context() as patch:
        patch.setattr(Lake, "opened", down)
        stages()
    assert stages() == {"other": "dropped", "t": "following"}
    assert rows_of(tmp_path, "other") == []


def test_a_table_without_a_key_is_copied_when_it_has_changed(url: str, sql: Sql, tmp_path: Path) -> None:
    sql("CREATE TABLE keyless (a INT)")
    sql("INSERT INTO keyless VALUES (1), (1), (NULL)")
    mirrored(url, tmp_path)
    sql("INSERT INTO keyless VALUES (1)")
    sql("DELETE FROM keyless WHERE a IS NULL")
    sql("UPDATE t SET v = 7 WHERE id = 1")
    assert {one.stage for one in mirrored(url, tmp_path)} == {"following"}
    assert rows_of(tmp_path, "keyless") == [(1,), (1,), (1,)]
    assert rows_of(tmp_path) == [(1, 7), (2, 2)]


def test_a_table_without_a_key_that_is_always_written_to_keeps_no_table_waiting(
    url: str, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql("CREATE TABLE keyless (a INT)")
    copy, copies = copying.run_copies, list[int]()

    def writing(*arguments: Any, **rest: Any) -> Any:
        found = [*copy(*arguments, **rest)]
        copies.append(len(copies))
        assert len(copies) < 5, "it goes on for ever"
        sql(f"INSERT INTO keyless VALUES ({len(copies)})")
        return found

    with monkeypatch.context() as patch:
        patch.setattr(copying, "run_copies", writing)
        keyless, t = mirrored(url, tmp_path)
        assert (keyless.stage, t.stage) == ("copying", "following")
        assert rows_of(tmp_path, "keyless") == [(number,) for number in copies[1:]]
    assert {one.stage for one in mirrored(url, tmp_path)} == {"following"}
    assert rows_of(tmp_path, "keyless") == sorted(sql("SELECT * FROM keyless"))


def test_rows_that_a_foreign_key_deletes_are_warned_of(url: str, sql: Sql, tmp_path: Path) -> None:
    sql("CREATE TABLE child (id INT PRIMARY KEY, t INT, FOREIGN KEY (t) REFERENCES t (id) ON DELETE CASCADE)")
    sql("INSERT INTO child VALUES (1, 1), (2, 2)")
    with pytest.warns(BinlogWarning, match=r"foreign keys change rows of refused\.child \(ON DELETE"):
        mirrored(url, tmp_path)
    sql("DELETE FROM t WHERE id = 1")
    assert sql("SELECT id FROM child") == ((2,),)
    with pytest.warns(BinlogWarning, match="foreign keys"):
        mirrored(url, tmp_path, heal=0)
    assert rows_of(tmp_path) == [(2, 2)]
    assert rows_of(tmp_path, "child") == [(1, 1), (2, 2)]  # as the server logs it
    with pytest.warns(BinlogWarning, match="foreign keys"):
        mirrored(url, tmp_path)
    assert rows_of(tmp_path, "child") == [(2, 2)]


def test_statements_are_of_the_table_that_is_spelt_so(url: str, sql: Sql, tmp_path: Path) -> None:
    sql("CREATE TABLE T (id INT PRIMARY KEY)")
    sql("INSERT INTO T VALUES (1)")
    mirrored(url, tmp_path)
    sql("UPDATE t SET v = 5 WHERE id = 1")
    sql("TRUNCATE TABLE T")
    assert [(one.table, one.rows) for one in mirrored(url, tmp_path)] == [("refused.T", 0), ("refused.t", 2)]
    assert rows_of(tmp_path) == [(1, 5), (2, 2)]


def test_names_with_dots_are_of_tables_of_their_own(
    form: Form, url: str, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = tmp_path / "lake"
    names, here = ["`refused.b`.c", "refused.`b.c`"], ["refused~2Eb.c", "refused.b~2Ec"]
    sql("DROP DATABASE IF EXISTS `refused.b`")
    sql("CREATE DATABASE `refused.b`")
    for i, name in enumerate(names):
        sql(f"CREATE TABLE {name} (id INT PRIMARY KEY, v{i} INT)")
        sql(f"INSERT INTO {name} VALUES (1, {i}), (2, {i})")

    def found(*tables: str) -> list[Any]:
        arguments: Any = {"tables": tables or names, "until": "now", "history": True}
        told = mirror(url, lake, **arguments, **form.settings)
        assert [(one.table, one.stage) for one in told] == [(one, "following") for one in sorted(names)]
        return [sorted(list(row.values()) for row in form.read(lake / one).to_pylist()) for one in here]

    assert found() == [[[1, i], [2, i]] for i in (0, 1)]
    sql(f"UPDATE {names[0]} SET v0 = 7 WHERE id = 1")
    sql(f"DELETE FROM {names[1]} WHERE id = 1")
    sql(f"TRUNCATE TABLE {names[0]}")
    sql(f"INSERT INTO {names[0]} VALUES (3, 3)")
    assert found() == [[[3, 3]], [[2, 1]]]
    sql(f"DROP TABLE {names[1]}")
    sql(f"CREATE TABLE {names[1]} (id INT PRIMARY KEY, v1 INT)")
    sql("DROP DATABASE `refused.b`")
    told = mirror(url, lake, tables=names, until="now", history=True)
    assert [(one.table, one.stage, one.rows) for one in told] == [
        (names[0], "dropped", 0),
        (names[1], "following", 0),
    ]


def test_a_column_that_is_spelt_in_another_way_is_the_same(
    form: Form, url: str, sql: Sql, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    mirrored(url, lake, **form.settings)
    sql("UPDATE t SET v = 5 WHERE id = 1")
    sql("ALTER TABLE t CHANGE v V INT")
    sql("UPDATE t SET V = 9 WHERE id = 2")
    for key in (3, 4):
        sql(f"INSERT INTO t VALUES ({key}, {key})")
        assert [one.stage for one in mirrored(url, lake)] == ["following"]
    rows = form.read(lake / "refused.t")
    assert rows.column_names == ["id", "v"]
    assert sorted(tuple(row.values()) for row in rows.to_pylist()) == [(1, 5), (2, 9), (3, 3), (4, 4)]


def test_another_writers_commit_is_not_overwritten(
    url: str, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer compacts the table between a round's reading and its commit: the round is repeated."""
    mirrored(url, tmp_path)
    sql("INSERT INTO t VALUES (3, 3)")
    mirrored(url, tmp_path)
    commit, met = DeltaLakeTable._commit, []

    def late(self: DeltaLakeTable, *arguments: Any, **settings: Any) -> None:
        if not met:
            met.append(DeltaTable(self.uri).optimize.compact()["numFilesRemoved"])
        commit(self, *arguments, **settings)

    monkeypatch.setattr(DeltaLakeTable, "_commit", late)
    sql("UPDATE t SET v = v + 10")
    sql("DELETE FROM t WHERE id = 2")
    mirrored(url, tmp_path)
    assert met == [2]
    assert [one.stage for one in mirrored(url, tmp_path)] == ["following"]
    assert rows_of(tmp_path) == [(1, 11), (3, 13)]

    met.clear()
    sql("UPDATE t SET v = v + 10")
    assert [one.stage for one in resync(tmp_path, "refused.t")] == ["following"]
    assert len(met) == 1  # in the copy's commit, too
    assert rows_of(tmp_path) == [(1, 21), (3, 23)]


def test_a_delta_table_of_others_is_not_written_to(url: str, sql: Sql, tmp_path: Path) -> None:
    """Whether its rows would be replaced by a copy, or deleted with the server's table."""
    theirs = pa.table({"mine": pa.array([1], pa.int32())})
    write_deltalake(str(tmp_path / "refused.t"), theirs)
    sql("CREATE TABLE u (id INT PRIMARY KEY)")
    stages = {one.table: one.stage for one in mirrored(url, tmp_path)}
    assert stages["refused.u"] == "following"
    for _ in range(2):
        found = {one.table: one for one in mirrored(url, tmp_path)}
    assert found["refused.t"].stage == "parked"
    assert "that this mirror did not make: move it away" in str(found["refused.t"].reason)
    sql("DROP TABLE t")
    mirrored(url, tmp_path)
    mirrored(url, tmp_path)
    assert rows_of(tmp_path) == [(1,)]
    assert DeltaTable(str(tmp_path / "refused.t")).version() == 0


def test_an_iceberg_table_of_others_is_not_written_to(
    url: str, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a table of the same name, nor over a commit between a round's reading and its own."""
    form, place = IcebergForm(tmp_path), tmp_path / "lake" / "refused.t"
    sql("CREATE TABLE taken (id INT PRIMARY KEY)")
    other = IcebergLakeTable(load_iceberg_catalog(form.catalog), ("refused", "taken"), f"{tmp_path}/theirs")
    other.replace([], pa.schema({"id": pa.int64()}), None)
    t, taken = mirrored(url, tmp_path / "lake", **form.settings)
    assert (t.stage, taken.stage, other.reopened().version) == ("following", "parked", other.version)
    assert f"another table refused.taken, in {tmp_path}/theirs" in str(taken.reason)
    commit, met = IcebergLakeTable._commit, []

    def late(self: IcebergLakeTable, *arguments: Any, **settings: Any) -> None:
        if not met:
            met.append(form.table(place).overwrite(form.read(place)))
        commit(self, *arguments, **settings)

    monkeypatch.setattr(IcebergLakeTable, "_commit", late)
    sql("UPDATE t SET v = v + 10")
    sql("DELETE FROM t WHERE id = 2")
    for _ in range(2):  # it repeats what it found half done
        t, _ = mirrored(url, tmp_path / "lake")
    assert (len(met), t.stage, form.read(place).to_pylist()) == (1, "following", [{"id": 1, "v": 11}])


def test_a_mirror_continues_after_a_failover(url: str, sql: Sql, other: Other, tmp_path: Path) -> None:
    mirrored(url, tmp_path)
    sql("UPDATE t SET v = 5 WHERE id = 1")
    other()
    sql("INSERT INTO t VALUES (3, 3)")
    sql("CREATE TABLE later (id INT PRIMARY KEY)")
    sql("INSERT INTO later VALUES (1)")
    assert {one.stage for one in mirrored(url, tmp_path)} == {"following"}
    assert rows_of(tmp_path) == [(1, 5), (2, 2), (3, 3)]
    assert rows_of(tmp_path, "later") == [(1,)]
    assert (tmp_path / "_mirror" / "archive" / "timeline-2").is_dir()


def test_a_transaction_that_the_next_server_lacks_stops_the_mirror(
    url: str, sql: Sql, other: Other, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirrored(url, tmp_path)
    sql("RESET MASTER")  # as if what is in the archive had been lost with the other
    other()
    sql("UPDATE t SET v = 5")
    monkeypatch.setattr("binlog_core.archive.archiver._LOOKING", 0.1)
    for _ in range(2):  # and so it stays
        with pytest.raises(DivergedError, match="lacks transactions that are in the archive"):
            mirrored(url, tmp_path)
        assert rows_of(tmp_path) == [(1, 1), (2, 2)]
        assert DeltaTable(str(tmp_path / "refused.t")).version() == 0


@pytest.mark.parametrize("when", ["before", "behind"])
def test_a_copy_is_made_from_one_server(
    when: str, url: str, sql: Sql, other: Other, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another server takes over while chunks are read: no log shows which rows it lacks."""
    copied: list[str] = []

    def run(self: Copier, chunks: Any) -> Any:
        copied.append("begun")
        if len(copied) == 1 and when == "before":
            other()
        yield from real(self, chunks)
        if len(copied) == 1 and when == "behind":
            sql("SET sql_log_bin = 0")  # lost with its server
            sql("DELETE FROM t WHERE id = 1")
            sql("SET sql_log_bin = 1")
            other()

    real = Copier.__call__
    monkeypatch.setattr(Copier, "__call__", run)
    assert [one.stage for one in mirrored(url, tmp_path)] == ["following"]
    assert len(copied) == 2
    assert rows_of(tmp_path) == [(1, 1), (2, 2)][when == "behind" :]


def test_a_copy_that_was_committed_stays_whole_when_it_is_given_up(
    url: str, sql: Sql, other: Other, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is killed after the commit; the next one finds another server and makes another copy."""

    def killed(*arguments: Any) -> None:
        commit_copy(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(copying, "commit_copy", killed)
        mirrored(url, tmp_path)
    other()
    assert [one.stage for one in mirrored(url, tmp_path)] == ["following"]
    first = DeltaTable(str(tmp_path / "refused.t"), version=0).to_pyarrow_table()
    assert sorted(first["id"].to_pylist()) == [1, 2]


@pytest.mark.parametrize("cut", [False, True])
def test_a_copy_whose_files_are_cleaned_away_is_read_again(
    url: str, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: bool
) -> None:
    def full(*arguments: Any) -> None:
        raise OSError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(copying, "commit_copy", full)
        assert [one.stage for one in mirrored(url, tmp_path)] == ["parked"]
    for path in (tmp_path / "refused.t").glob("copy-*"):  # as VACUUM does with what no commit names
        os.truncate(path, 0) if cut else path.unlink()  # or a power failure, with what is not on disk yet
    sql("UPDATE t SET v = 5 WHERE id = 1")
    assert [one.stage for one in mirrored(url, tmp_path)] == ["following"]
    assert rows_of(tmp_path) == [(1, 5), (2, 2)]


def test_notes_of_a_copy_whose_run_was_killed_after_its_commit_are_removed(
    url: str, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*arguments: Any) -> None:
        raise KeyboardInterrupt

    notes, table = tmp_path / "_mirror" / "copies", tmp_path / "refused.t"
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(copying, "clean_up", killed)
        mirrored(url, tmp_path)
    (copy,) = notes.iterdir()
    whole = {path.name for path in table.glob("*.parquet")}
    (table / f"copy-{copy.name}-000000-0badf00d.parquet").write_bytes(
        b"PAR1"
    )  # of a worker that was killed, too
    assert [one.stage for one in mirrored(url, tmp_path)] == ["following"]
    assert list(notes.iterdir()) == []
    assert {path.name for path in table.glob("*.parquet")} == whole
    assert rows_of(tmp_path) == [(1, 1), (2, 2)]


def test_who_waits_on_a_connection_that_is_closed_waits_no_longer(url: str, sql: Sql) -> None:
    connection = Connection(Address.of(url))
    ended: list[str] = []

    def ask() -> None:
        with pytest.raises(BinlogError):
            list(connection.stream("SELECT SLEEP(500)"))
        ended.append("")

    thread = threading.Thread(target=ask)
    thread.start()
    while not sql("SELECT 1 FROM information_schema.PROCESSLIST WHERE INFO = 'SELECT SLEEP(500)'"):
        time.sleep(0.05)
    connection.close()
    thread.join(100)
    assert ended == [""]


def test_a_table_that_arrow_cannot_hold_stops_alone(
    url: str, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = SelectList.batch

    def too_large(self: SelectList, rows: Any) -> Any:
        if self.table.name == "large":
            raise pa.ArrowCapacityError("array cannot contain more than 2147483646 bytes")
        return batch(self, rows)

    monkeypatch.setattr(SelectList, "batch", too_large)
    sql("CREATE TABLE large (id INT PRIMARY KEY)")
    sql("INSERT INTO large VALUES (1)")
    large, t = mirrored(url, tmp_path)
    assert (large.stage, t.stage, rows_of(tmp_path)) == ("parked", "following", [(1, 1), (2, 2)])
    assert "ArrowCapacityError: array cannot contain" in str(large.reason)


def test_a_round_whose_answer_was_lost_is_not_applied_twice(
    url: str, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit is made, then the store is gone; the next round is longer."""
    mirrored(url, tmp_path)
    calls: list[int] = []

    def lost(*arguments: Any) -> None:
        calls.append(1)
        if len(calls) == 1:
            apply_round(*arguments)
        raise OSError("unreachable")

    sql("ALTER TABLE t RENAME COLUMN v TO w")
    sql("UPDATE t SET w = 7 WHERE id = 2")
    with monkeypatch.context() as patch:
        patch.setattr(mirroring, "apply_round", lost)
        assert [one.stage for one in mirrored(url, tmp_path)] == ["parked"]
    sql("INSERT INTO t VALUES (3, 3)")
    assert [one.stage for one in mirrored(url, tmp_path)] == ["following"]
    assert rows_of(tmp_path) == [(1, None, 1), (2, None, 7), (3, None, 3)]


def test_a_server_that_is_never_the_same_parks_what_is_to_be_copied(
    url: str, sql: Sql, other: Other, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(*arguments: Any) -> Any:
        other()
        return connected(*arguments)

    monkeypatch.setattr("binlog_core.mirror.copies.connected", late)
    (one,) = mirrored(url, tmp_path)
    assert one.stage == "parked"
    assert "expected one that stays the same while its tables are read" in str(one.reason)


Room = Callable[[int], Path]


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    """A separate file system with this many free KiB."""
    place = tmp_path / "disk"
    place.mkdir()

    def left(free: int) -> Path:
        kind = ["-t", "tmpfs", "-o", "size="]
        if place.is_mount():
            used = shutil.disk_usage(place).used
            kind, free = ["-o", "remount,size="], free + used // 1024
        command = ["mount", *kind[:-1], f"{kind[-1]}{free}k", "tmpfs", str(place)]
        if subprocess.run(command, stderr=subprocess.DEVNULL).returncode:
            pytest.skip("only root may mount a file system")
        return place

    yield left
    if place.is_mount():
        subprocess.run(["umount", place], check=True)


def test_a_full_disk_stops_a_table_until_there_is_room(
    url: str, sql: Sql, room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql("CREATE TABLE large (id INT PRIMARY KEY, v VARBINARY(99))")
    sql("INSERT INTO large SELECT seq, CONCAT(MD5(seq), MD5(-seq)) FROM seq_1_to_15000")  # 1 MB, not less
    lake, logs = room(500) / "lake", tmp_path / "archive"

    def large() -> list[tuple[int, bytes]]:
        return [(number, text) for number, text in sql("SELECT * FROM large ORDER BY id")]

    def stops_large() -> None:
        stopped, small = mirrored(url, lake, archive=logs)
        assert (stopped.stage, small.stage) == ("parked", "following")
        assert "No space left on device" in str(stopped.reason)

    stops_large()  # in the copy
    assert list((lake / "refused.large").iterdir()) == []
    assert rows_of(lake) == [(1, 1), (2, 2)]
    room(20_000)
    assert {one.stage for one in mirrored(url, lake, archive=logs)} == {"following"}
    copied = large()
    assert rows_of(lake, "large") == copied

    sql("UPDATE large SET v = CONCAT(REVERSE(v), MD5(id))")
    sql("UPDATE t SET v = 5")
    room(500)
    with pytest.raises(BinlogError, match="No space left on device"):  # in what all tables are made of
        mirrored(url, lake, archive=logs)
    room(20_000)
    apply = mirroring.apply_round
    monkeypatch.setattr(mirroring, "apply_round", lambda *these: room(500) and apply(*these))
    stops_large()  # in its new files
    assert rows_of(lake, "large") == copied
    assert rows_of(lake) == [(1, 5), (2, 5)]

    monkeypatch.undo()
    room(20_000)
    assert {one.stage for one in mirrored(url, lake, archive=logs)} == {"following"}
    assert rows_of(lake, "large") == large() != copied


def test_a_column_with_the_name_of_a_change_column_parks_its_table(
    url: str, sql: Sql, tmp_path: Path
) -> None:
    """An apply would leave it out: changed rows would keep its old value, and new ones have null."""
    sql("CREATE TABLE files (id INT PRIMARY KEY, _File TEXT)")
    sql("INSERT INTO files VALUES (1, 'a')")
    files, t = mirrored(url, tmp_path)
    assert (files.stage, t.stage) == ("parked", "following")
    assert "has the name of a change column" in str(files.reason) and "_File" in str(files.reason)
    sql("ALTER TABLE t ADD _position INT")
    sql("INSERT INTO t VALUES (3, 3, 3)")
    _, t = mirrored(url, tmp_path)
    assert (t.stage, "_position" in str(t.reason)) == ("parked", True)
    sql("ALTER TABLE t DROP _position")
    _, t = resync(tmp_path)
    assert (t.stage, rows_of(tmp_path)) == ("following", [(1, 1), (2, 2), (3, 3)])


def test_a_table_that_the_user_may_no_longer_read_is_not_taken_for_a_dropped_one(
    url: str, sql: Sql, tmp_path: Path
) -> None:
    """The server's lists lack it then, as they lack a dropped one."""
    address = Address.of(url)
    _, port = address.hosts[0]
    sql("CREATE OR REPLACE USER reader@'%' IDENTIFIED BY 'known'")
    sql("GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO reader@'%'")
    sql("GRANT SELECT ON refused.* TO reader@'%'")
    reader = f"mysql://reader:known@127.0.0.1:{port}"
    mirrored(reader, tmp_path)
    sql("REVOKE SELECT ON refused.* FROM reader@'%'")
    sql("ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (v)")  # which leads to a new copy
    (t,) = mirrored(reader, tmp_path)
    assert (t.stage, rows_of(tmp_path)) == ("parked", [(1, 1), (2, 2)])
    assert "GRANT SELECT" in str(t.reason)
    sql("GRANT SELECT ON refused.* TO reader@'%'")
    (t,) = mirrored(reader, tmp_path)
    assert (t.stage, rows_of(tmp_path)) == ("following", [(1, 1), (2, 2)])


def test_patterns_of_tables_that_the_user_does_not_see_are_told(url: str, sql: Sql, tmp_path: Path) -> None:
    """A user without SELECT sees no tables."""
    sql("CREATE OR REPLACE USER seer@'127.0.0.1' IDENTIFIED BY 's'")
    sql("GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO seer@'127.0.0.1'")
    sql("GRANT SELECT ON refused.t TO seer@'127.0.0.1'")
    sql("CREATE TABLE u (id INT PRIMARY KEY)")
    seer = f"mysql://seer:s@{url.rpartition('@')[2]}"
    tables = ["refused.t", "refused.u"]
    with pytest.warns(BinlogWarning, match=r"no table of the server is 'refused\.u': .* lacks SELECT"):
        found = mirror(seer, tmp_path, tables=tables, until="now")
    assert [(one.table, one.stage) for one in found] == [("refused.t", "following")]
