"""A mirror that cannot go on: it says why, and nothing is half applied. On a server of these tests' own."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from support.here import Here
from support.server import connect

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")
pytest.importorskip("pymysql")

from deltalake import DeltaTable

from binlog_core import PurgedError
from binlog_core.spark.lake.delta import DeltaLakeTable
from binlog_core.spark.mirror import TableStatus, mirror, status

Sql = Callable[[str], Any]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    found = spec_from_file_location("soak_server", Path(__file__).parents[3] / "soak" / "server.py")
    assert found is not None and found.loader is not None
    soak_server = module_from_spec(found)
    sys.modules[found.name] = soak_server  # as its dataclasses ask for
    found.loader.exec_module(soak_server)
    with soak_server.server() as running:
        if running is None:
            pytest.skip("no MariaDB server to start here")
        yield running.url


@pytest.fixture
def sql(url: str) -> Iterator[Sql]:
    with connect(url) as connection, connection.cursor() as cursor:

        def run(statement: str) -> Any:
            cursor.execute(statement)
            return cursor.fetchall()

        run("DROP DATABASE IF EXISTS refused")
        run("CREATE DATABASE refused")
        run("USE refused")
        run("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
        run("INSERT INTO t VALUES (1, 1), (2, 2)")
        yield run


def mirrored(url: str, lake: Path) -> list[TableStatus]:
    session: Any = Here()
    return mirror(url, lake, tables="refused.*", until="now", spark=session)


def rows_of(lake: Path, table: str = "t") -> list[tuple[Any, ...]]:
    rows = DeltaTable(str(lake / f"refused.{table}")).to_pyarrow_table().to_pylist()
    return sorted(tuple(row.values()) for row in rows)


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
        assert [one.stage for one in status(tmp_path)] == ["following"]


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


def test_another_writers_commit_is_not_overwritten(
    url: str, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody compacts the table between a round's reading and its commit: that is done again."""
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
