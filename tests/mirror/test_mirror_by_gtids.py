"""Mirrors of a MariaDB server whose log has no files: a real one, behind a door that hides them."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("pymysql")

from support.archive import segments
from support.lake_forms import Form
from support.refused import Sql
from support.server import connect
from support.without_files import without_files

import binlog_core
from binlog_core.archive import own_logs
from binlog_core.lake.runner import LocalRunner
from binlog_core.mirror import mirror, status, verify
from binlog_core.mirror.marks import place_mark, take_mark
from binlog_core.server.address import Address
from binlog_core.server.answers import whole
from binlog_core.server.connection import Connection


def rows(lake: Path, form: Form, table: str = "t") -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in form.read(lake / f"refused.{table}").to_pylist())


@pytest.mark.parametrize("seed", range(2))
def test_rounds_with_new_tables(
    seed: int, url: str, sql: Sql, form: Form, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Started, resumed, with lost connections; tables come and go; the lake agrees with the server."""
    pick = random.Random(seed)
    monkeypatch.setattr(own_logs, "LOG_BYTES", pick.choice([2000, 20_000]))
    lake = tmp_path / "lake"
    sql("INSERT INTO t SELECT seq, 0 FROM seq_100_to_2000")
    with without_files(url, seed=seed, cuts=4) as (door, there):
        arguments: dict[str, Any] = {"tables": "refused.*", "runner": LocalRunner(2), **form.settings}
        for number in range(3):
            mirror(there, lake, until="now", **arguments)
            sql(f"UPDATE t SET v = v + 1 WHERE id % {pick.randint(2, 9)} = 1")
            sql(f"INSERT INTO t VALUES ({10 + number}, {number})")
            sql(f"CREATE TABLE u{number} (a INT PRIMARY KEY, w VARCHAR(10))")
            sql(f"INSERT INTO u{number} VALUES (1, 'x'), (2, 'y')")
            if number == 1:
                sql("DROP TABLE u0")
            sql("FLUSH BINARY LOGS")
        found = mirror(there, lake, until="now", **arguments)
        assert {one.table: one.stage for one in found} == {
            "refused.t": "following",
            "refused.u0": "dropped",
            **{f"refused.u{number}": "following" for number in (1, 2)},
        }
        assert rows(lake, form) == sorted(sql("SELECT * FROM t"))
        assert rows(lake, form, "u2") == [(1, "x"), (2, "y")]
        last = sql("SELECT @@gtid_binlog_pos")[0][0]
        assert {one.gtids for one in status(lake) if one.table == "refused.t"} == {last}
        compared = [one for one in verify(lake) if one.table != "refused.u0"]
        assert all(one.agrees for one in compared), compared
        assert door.cuts == 0
        assert all(said.startswith((b"SHOW MASTER", b"SHOW BINARY")) for said in door.refused)
    assert list((lake / "_mirror").rglob("stream.00000*"))


def test_it_follows_writers(url: str, sql: Sql, form: Form, tmp_path: Path) -> None:
    """Several sessions write while it begins, follows, and is stopped and started again."""
    lake, over = tmp_path / "lake", threading.Event()

    def write(number: int) -> None:
        with connect(url) as connection, connection.cursor() as cursor:
            cursor.execute("USE refused")
            key = 100_000 * number
            while not over.is_set():
                key += 1
                cursor.execute(f"INSERT INTO t VALUES ({key}, 0)")
                cursor.execute(f"UPDATE t SET v = v + 1 WHERE id = {key - key % 7}")
                connection.commit()
                time.sleep(0.005)

    writers = [threading.Thread(target=write, args=(number,)) for number in (1, 2, 3)]
    for writer in writers:
        writer.start()
    arguments: dict[str, Any] = {"tables": "refused.t", "runner": LocalRunner(2), **form.settings}
    try:
        with without_files(url, seed=1, cuts=3) as (_, there):
            for _ in range(2):
                stop = threading.Event()
                threading.Timer(3, stop.set).start()
                mirror(there, lake, stop=stop, **arguments)
            compared = verify(lake)
            assert [one.agrees for one in compared] == [True], compared
            over.set()
            for writer in writers:
                writer.join()
            mirror(there, lake, until="now", **arguments)
    finally:
        over.set()
    assert rows(lake, form) == sorted(sql("SELECT * FROM t"))


def test_a_server_that_changes_its_log(url: str, sql: Sql, form: Form, tmp_path: Path) -> None:
    """From a classic log to one without positions, and back: archive and mirror go on by GTIDs."""
    lake = tmp_path / "lake"
    sql("FLUSH BINARY LOGS")  # the archive begins with the whole log
    with without_files(url) as (_, there):
        for number, server in enumerate((url, there, url, there)):
            mirror(server, lake, tables="refused.*", until="now", runner=LocalRunner(2), **form.settings)
            sql(f"INSERT INTO t VALUES ({number + 10}, 0)")
            sql("UPDATE t SET v = v + 1")
            sql("FLUSH BINARY LOGS")
        mirror(there, lake, tables="refused.*", until="now", runner=LocalRunner(2), **form.settings)
    assert rows(lake, form) == sorted(sql("SELECT * FROM t"))
    found = binlog_core.open(lake / "_mirror" / "archive", tables="refused.t", ops="insert", strict=True)
    assert [row.after["id"] for row in found.rows() if row.after["id"] >= 10] == [10, 11, 12, 13]
    assert [one["seam"] for one in segments(lake / "_mirror" / "archive")] == [None, *["failover"] * 3]


@pytest.mark.parametrize("safe", [True, False])
def test_every_select_after_a_mark_sees_what_is_before_it(url: str, sql: Sql, safe: bool) -> None:
    """Each commit adds one to a row, and one to the GTID. Without the lock some are seen too late."""
    sql("CREATE TABLE m (id INT PRIMARY KEY, n BIGINT) ENGINE=InnoDB")
    sql("INSERT INTO m SELECT seq, 0 FROM seq_1_to_16")
    sql("SET GLOBAL sync_binlog = 1")
    over = threading.Event()

    def write(key: int) -> None:
        with connect(url) as connection, connection.cursor() as cursor:
            cursor.execute("USE refused")
            while not over.is_set():
                cursor.execute(f"UPDATE m SET n = n + 1 WHERE id = {key}")
                connection.commit()

    writers = [threading.Thread(target=write, args=(key,)) for key in range(1, 17)]
    before = int(sql("SELECT @@gtid_binlog_pos")[0][0].rpartition("-")[2])
    for writer in writers:
        writer.start()
    lacking = 0
    try:
        with Connection(Address.of(url)) as marking:
            facts = replace(marking.facts(), by_gtids_only=True)
            for _ in range(150 if safe else 1500):
                mark = take_mark(marking, facts) if safe else place_mark(marking, "1", by_gtids=True)
                ((seen,),) = marking.query("SELECT SUM(n) FROM refused.m", whole)
                assert mark.last is not None
                lacking += seen < int(mark.last.rpartition("-")[2]) - before
                if lacking:
                    break
    finally:
        over.set()
        for writer in writers:
            writer.join()
        sql("SET GLOBAL sync_binlog = 0")
    assert bool(lacking) == (not safe)
