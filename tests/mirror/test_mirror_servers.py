"""A mirror of a separate server with unusual defaults, tables and statements."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("pymysql")

import pyarrow.compute as pc
from deltalake import DeltaTable
from support.refused import Sql, mirrored, rows_of
from support.rest_catalog import rest_catalog
from support.server import connect, run

from binlog_core import MirrorError, ServerError
from binlog_core.mirror import copying, joining, mirror, mirroring, resync, status
from binlog_core.mirror.lake import Lake
from binlog_core.mirror.state import TableState
from binlog_core.mirror.values import set_for_reading
from binlog_core.server.address import Address
from binlog_core.server.connection import Connection


def copies(lake: Path, table: str = "t") -> list[str]:
    """The copies that a table was made of, one after another."""
    history = DeltaTable(str(lake / f"refused.{table}")).history()
    return [one["binlog_core.copy"] for one in history if "binlog_core.copy" in one]


@pytest.fixture
def defaults(sql: Sql) -> Iterator[Callable[[str, str], None]]:
    """Sets what sessions of the server begin with."""
    set_here: list[str] = []

    def begin_with(name: str, value: str) -> None:
        before = sql(f"SELECT @@global.{name}")[0][0]
        set_here.append(f"SET GLOBAL {name} = {before!r}")
        sql(f"SET GLOBAL {name} = {value}")

    yield begin_with
    for statement in set_here:
        sql(statement)


def test_a_servers_own_limit_of_rows_cuts_nothing(
    url: str, sql: Sql, defaults: Callable[[str, str], None], tmp_path: Path
) -> None:
    sql("INSERT INTO t SELECT seq, 0 FROM seq_3_to_60")
    defaults("sql_select_limit", "50")
    mirrored(url, tmp_path)
    assert len(rows_of(tmp_path)) == 60


def test_what_is_rolled_back_is_not_copied(
    url: str, sql: Sql, defaults: Callable[[str, str], None], tmp_path: Path
) -> None:
    defaults("tx_isolation", "'READ-UNCOMMITTED'")
    defaults("max_statement_time", "300")
    sql("BEGIN")
    sql("INSERT INTO t VALUES (9, 9)")
    mirrored(url, tmp_path)
    sql("ROLLBACK")
    assert rows_of(tmp_path) == [(1, 1), (2, 2)]
    with Connection(Address.of(url, None)) as connection:
        set_for_reading(connection)
        found = connection.query("SELECT @@tx_isolation, @@max_statement_time")
    assert found == [("REPEATABLE-READ", "0.000000")]


def test_what_is_logged_and_rolled_back_is_not_followed(url: str, sql: Sql, tmp_path: Path) -> None:
    """A server logs rows that did not stay where their transaction also did what cannot be undone."""
    sql("CREATE TABLE plain (id INT PRIMARY KEY) ENGINE=MyISAM")
    mirrored(url, tmp_path, history=True)
    for statement in (
        *("BEGIN", "INSERT INTO t VALUES (10, 1)", "CREATE TEMPORARY TABLE x (id INT)", "ROLLBACK"),
        *("BEGIN", "INSERT INTO t VALUES (20, 1)", "SAVEPOINT s", "INSERT INTO t VALUES (21, 1)"),
        *("INSERT INTO plain VALUES (1)", "ROLLBACK TO s", "UPDATE t SET v = 5 WHERE id = 1", "COMMIT"),
    ):
        sql(statement)
    texts = [str(row[5]) for row in sql(f"SHOW BINLOG EVENTS IN '{sql('SHOW MASTER STATUS')[0][0]}'")]
    assert "ROLLBACK" in texts and "ROLLBACK TO `s`" in texts  # otherwise there is nothing to leave out
    mirrored(url, tmp_path, history=True)
    assert rows_of(tmp_path) == sorted(sql("SELECT id, v FROM t")) == [(1, 5), (2, 2), (20, 1)]
    history = DeltaTable(str(tmp_path / "history" / "refused.t")).to_pyarrow_table().to_pylist()
    assert not {10, 21} & {row["id"] for row in history}


def test_a_table_that_is_listed_but_cannot_be_opened_is_parked(
    url: str, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MySQL before 8.0 lists one whose tablespace is gone: the mirror must not retry it forever."""
    plan, looks = copying.plan_copy, []

    def planned(connection: Connection, state: TableState, *these: Any, **named: Any) -> Any:
        if state.name == "t":
            looks.append(state)
            assert len(looks) < 100
            raise ServerError("Table 'refused.t' doesn't exist", code=1146)
        return plan(connection, state, *these, **named)

    sql("CREATE TABLE other (id INT PRIMARY KEY)")
    monkeypatch.setattr(copying, "plan_copy", planned)
    other, t = mirrored(url, tmp_path)
    assert (other.stage, t.stage) == ("following", "parked")
    assert "doesn't exist" in str(t.reason)


def test_a_table_that_is_copied_again_where_it_stands_has_a_history_of_it(
    url: str, sql: Sql, tmp_path: Path
) -> None:
    mirrored(url, tmp_path, history=True)
    sql("SET SESSION sql_log_bin = 0")
    sql("UPDATE t SET v = 5 WHERE id = 1")
    sql("SET SESSION sql_log_bin = 1")
    resync(tmp_path, "refused.t")
    assert rows_of(tmp_path) == [(1, 5), (2, 2)]
    history = DeltaTable(str(tmp_path / "history" / "refused.t")).to_pyarrow_table().to_pylist()
    history.sort(key=lambda row: (row["_commit_version"], row["_change_ordinal"]))
    assert [row["_change_type"] for row in history] == ["copy", "insert", "insert"] * 2
    assert sorted((row["id"], row["v"]) for row in history[4:]) == [(1, 5), (2, 2)]


def test_a_transaction_prepared_before_the_first_log_asks_for_a_resync(
    url: str, sql: Sql, tmp_path: Path
) -> None:
    prepared = "XA START 'x'", "INSERT INTO refused.t VALUES (9, 9)", "XA END 'x'", "XA PREPARE 'x'"
    with connect(url) as connection:
        run(connection, *prepared)
    sql("FLUSH BINARY LOGS")
    mirrored(url, tmp_path)
    sql("XA COMMIT 'x'")
    for _ in range(2):
        with pytest.raises(MirrorError, match=r"XA COMMIT .*resync"):
            mirrored(url, tmp_path)
    resync(tmp_path, "*")
    assert rows_of(tmp_path) == [(1, 1), (2, 2), (9, 9)]
    sql("DELETE FROM t WHERE id = 1")
    mirrored(url, tmp_path)
    assert rows_of(tmp_path) == [(2, 2), (9, 9)]


@pytest.fixture
def half_copied(url: str, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """A lake with a copy that was read and not committed, twice; the names of its files each time."""
    take, copy, stop, copied = copying.take_mark, copying.run_copies, threading.Event(), []

    def in_a_new_log(connection: Connection, facts: Any) -> Any:
        sql("FLUSH BINARY LOGS")
        return take(connection, facts)

    def stopped(*these: Any, **named: Any) -> Any:
        found = [*copy(*these, **named)]
        copied.append([one.name for one in dict(found)["refused.t"]])
        stop.set()
        return found

    with monkeypatch.context() as patch:
        patch.setattr(copying, "take_mark", in_a_new_log)
        patch.setattr(copying, "run_copies", stopped)
        (one,) = mirrored(url, tmp_path, stop=stop)
        assert one.stage == "copying"
        stop.clear()
        mirrored(url, tmp_path, stop=stop)
    return copied


def files_of_copies(lake: Path) -> tuple[set[str], int]:
    """The names of the copies' files in the table's directory, and how many copies have notes."""
    notes = lake / "_mirror" / "copies"
    found = {path.name for path in (lake / "refused.t").glob("copy-*")}
    return found, len(list(notes.iterdir())) if notes.exists() else 0


def test_a_copy_that_is_stopped_is_kept(
    url: str, sql: Sql, tmp_path: Path, half_copied: list[list[str]]
) -> None:
    assert half_copied[0] == half_copied[1] != []
    (one,) = mirrored(url, tmp_path)
    assert (one.stage, rows_of(tmp_path)) == ("following", [(1, 1), (2, 2)])
    assert files_of_copies(tmp_path) == ({*half_copied[0]}, 0)


def test_a_copy_that_is_begun_anew_leaves_no_files(
    url: str, sql: Sql, tmp_path: Path, half_copied: list[list[str]]
) -> None:
    (one,) = resync(tmp_path, "refused.t")
    assert (one.stage, rows_of(tmp_path)) == ("following", [(1, 1), (2, 2)])
    found, notes = files_of_copies(tmp_path)
    assert found.isdisjoint(half_copied[0])
    assert (len(found), notes) == (1, 0)


def test_a_table_that_is_no_longer_wanted_stays_as_it_is(
    url: str, sql: Sql, tmp_path: Path, half_copied: list[list[str]]
) -> None:
    """The copy that was begun goes; one that was followed keeps its rows, until it is wanted again."""

    def run(tables: Any) -> list[str]:
        found = mirror(url, tmp_path, tables=tables, until="now", history=True)
        assert {one.stage for one in found} <= {"following"}
        assert [one.table for one in status(tmp_path)] == [one.table for one in found]
        return [one.table.partition(".")[2] for one in found]

    sql("CREATE TABLE u (id INT PRIMARY KEY, v INT)")
    sql("INSERT INTO u VALUES (1, 1)")
    assert run("refused.u") == ["u"]
    assert files_of_copies(tmp_path) == (set(), 0)
    assert run(["refused.u", "refused.t"]) == ["t", "u"]
    assert run("refused.t") == ["t"]
    sql("UPDATE u SET v = 2")
    sql("UPDATE t SET v = 2")
    assert run("refused.t") == ["t"]
    assert (rows_of(tmp_path), rows_of(tmp_path, "u")) == ([(1, 2), (2, 2)], [(1, 1)])
    assert run("refused.*") == ["t", "u"]
    assert (rows_of(tmp_path), rows_of(tmp_path, "u")) == ([(1, 2), (2, 2)], [(1, 2)])


@pytest.mark.parametrize("killed", [False, True])
def test_the_state_is_not_saved_for_each_table_that_is_copied(
    url: str, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    """A run that ends before it is saved has committed some copies: the next one knows them by the tables."""
    save, commit, saves, done = Lake.save, copying.commit_copy, [], []

    def saved(lake: Lake, state: Any) -> None:
        saves.append(sum(one.stage == "following" for one in state.tables.values()))
        save(lake, state)

    def committed(*given: Any) -> None:
        if killed and len(done) == 3:
            raise KeyboardInterrupt
        done.append(given)
        commit(*given)

    for i in range(5):
        sql(f"CREATE TABLE u{i} (id INT PRIMARY KEY)")
        sql(f"INSERT INTO u{i} VALUES ({i})")
    with monkeypatch.context() as patch:
        patch.setattr(mirroring, "_SAVING", 1e9)
        patch.setattr(copying, "commit_copy", committed)
        patch.setattr(Lake, "save", saved)
        with pytest.raises(KeyboardInterrupt) if killed else contextlib.nullcontext():
            mirrored(url, tmp_path)
    assert len(done) == (3 if killed else 6)
    assert {*saves} == ({0} if killed else {0, 6})
    assert {one.stage for one in mirrored(url, tmp_path)} == {"following"}
    for i in range(5):
        assert (rows_of(tmp_path, f"u{i}"), len(copies(tmp_path, f"u{i}"))) == ([(i,)], 1)
        assert len(list((tmp_path / f"refused.u{i}").glob("*.parquet"))) == 1
    assert list((tmp_path / "_mirror" / "copies").iterdir()) == []


def test_a_history_that_has_just_begun_has_the_round_in_which_the_mirror_is_killed(
    url: str, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its beginning may not have been saved yet: the state is not, for each table."""

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    mirrored(url, tmp_path)
    sql("UPDATE t SET v = 5 WHERE id = 1")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(mirroring, "_SAVING", 1e9)
        patch.setattr(mirroring, "apply_round", killed)
        mirrored(url, tmp_path, history=True)
    mirrored(url, tmp_path, history=True)
    history = DeltaTable(str(tmp_path / "history" / "refused.t")).to_pyarrow_table().to_pylist()
    kinds = sorted(row["_change_type"] for row in history)
    assert kinds == ["copy", "insert", "insert", "update_postimage", "update_preimage"]


def test_a_lake_may_be_named_in_another_way_or_moved(
    url: str, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    mirrored(url, Path("lake"), archive="logs")
    mirrored(url, Path("other"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here" / "other").rename(tmp_path / "moved")
    sql("DELETE FROM t WHERE id = 1")
    for lake in (tmp_path / "here" / "lake", Path("moved")):
        mirrored(url, lake)
        assert rows_of(lake) == [(2, 2)]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["here", "moved"]
    assert sorted(one.name for one in (tmp_path / "here").iterdir()) == ["lake", "logs"]


def test_a_lake_of_a_catalog_that_chooses_where_tables_are(
    url: str, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies, changes, histories, new copies and compactions, and runs that fail in between."""
    lake = tmp_path / "lake"
    with rest_catalog(tmp_path / "catalog", chooses=True) as rest:
        settings: dict[str, Any] = {"format": "iceberg", "catalog": {"type": "rest", "uri": rest.uri}}

        def there() -> list[tuple[int, int]]:
            rows = rest.sql.load_table("refused.t").scan().to_arrow().select(["id", "v"])
            return sorted(tuple(row.values()) for row in rows.to_pylist())

        def refused(method: str, path: str) -> int | None:
            return 403 if method == "POST" and path.endswith("/tables") else None

        rest.before = refused
        (one,) = mirrored(url, lake, history=True, **settings)
        assert one.stage == "parked" and "does not make the table: Forbidden" in str(one.reason)
        rest.before = lambda method, path: 403 if method == "POST" and path.endswith("/tables/t") else None
        (one,) = mirrored(url, lake, history=True, **settings)
        assert one.stage == "parked" and "refuses the commit: Forbidden" in str(one.reason)
        assert not rest.sql.load_table("refused.t").schema().fields
        rest.before = lambda method, path: None
        (one,) = mirrored(url, lake, history=True, **settings)
        assert (one.stage, there()) == ("following", [(1, 1), (2, 2)])
        sql("INSERT INTO t SELECT seq, 0 FROM seq_3_to_9")
        sql("UPDATE t SET v = 7 WHERE id = 1")
        mirrored(url, lake, history=True, **settings)
        assert there() == [(1, 7), (2, 2), *((i, 0) for i in range(3, 10))]
        (one,) = resync(lake, "refused.t")
        assert (one.stage, there()) == ("following", [(1, 7), (2, 2), *((i, 0) for i in range(3, 10))])
        monkeypatch.setattr(joining, "_MOST_SMALL", 2)
        for number in range(3):
            sql(f"DELETE FROM t WHERE id = {number + 3}")
            mirrored(url, lake, history=True, compact=0, **settings)
        assert there() == [(1, 7), (2, 2), *((i, 0) for i in range(6, 10))]
        past = rest.sql.load_table("refused.t__history").scan().to_arrow()
        gone = past.filter(pc.equal(past["_change_type"], "delete"))
        assert sorted(gone["id"].to_pylist()) == [3, 4, 5]
        for name in ("t", "t__history"):
            table = rest.sql.load_table(f"refused.{name}")
            files = table.inspect.files().to_pylist()
            assert files and all(one["file_path"].startswith(f"{table.location()}/") for one in files)
    assert not list(lake.glob("refused.*"))


def test_two_rows_with_a_key_that_is_gone_for_a_while_are_two(url: str, sql: Sql, tmp_path: Path) -> None:
    mirrored(url, tmp_path)
    sql("ALTER TABLE t DROP PRIMARY KEY")
    sql("INSERT INTO t VALUES (1, 7)")
    sql("DELETE FROM t WHERE v = 1")
    sql("ALTER TABLE t ADD PRIMARY KEY (id)")
    (one,) = mirrored(url, tmp_path)
    assert (one.stage, rows_of(tmp_path)) == ("following", [(1, 7), (2, 2)])


def test_a_partition_that_is_exchanged_parks_both_tables(url: str, sql: Sql, tmp_path: Path) -> None:
    sql(
        "CREATE TABLE parts (id INT PRIMARY KEY, v INT)"
        " PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (9))"
    )
    sql("INSERT INTO parts VALUES (3, 3)")
    mirrored(url, tmp_path)
    sql("ALTER TABLE parts REORGANIZE PARTITION p INTO (PARTITION q VALUES LESS THAN (9))")
    sql("INSERT INTO t VALUES (5, 5)")
    assert {one.stage for one in mirrored(url, tmp_path)} == {"following"}
    sql("ALTER TABLE parts EXCHANGE PARTITION q WITH TABLE t")
    found = mirrored(url, tmp_path)
    assert [one.stage for one in found] == ["following", "following"]
    for table in ("parts", "t"):
        assert rows_of(tmp_path, table) == sorted(sql(f"SELECT * FROM {table}"))
    assert len(copies(tmp_path, "parts")) == len(copies(tmp_path, "t")) == 2


def test_an_alter_that_does_nothing_changes_nothing(url: str, sql: Sql, tmp_path: Path) -> None:
    """IF [NOT] EXISTS does, where the column is there already, or gone."""
    sql("INSERT INTO t VALUES (3, NULL)")
    mirrored(url, tmp_path)
    sql("ALTER TABLE t ADD COLUMN IF NOT EXISTS v INT DEFAULT 5")
    sql("ALTER TABLE t ADD COLUMN IF NOT EXISTS w INT DEFAULT 5")
    sql("UPDATE t SET w = 7 WHERE id = 1")
    sql("ALTER TABLE t CHANGE COLUMN v x INT")
    mirrored(url, tmp_path)
    sql("ALTER TABLE t CHANGE COLUMN IF EXISTS v x INT")
    sql("ALTER TABLE t ADD COLUMN IF NOT EXISTS v INT NOT NULL DEFAULT 8")
    sql("INSERT INTO t VALUES (4, 4, 4, 4)")
    sql("ALTER TABLE t ADD COLUMN IF NOT EXISTS v INT NOT NULL DEFAULT 9")
    (status,) = mirrored(url, tmp_path)
    assert status.stage == "following"
    rows = DeltaTable(str(tmp_path / "refused.t")).to_pyarrow_table().to_pylist()
    found = sorted(tuple(row[name] for name in ("id", "x", "w", "v")) for row in rows)
    assert found == list(sql("SELECT id, x, w, v FROM t ORDER BY id"))
    assert found == [(1, 1, 7, 8), (2, 2, 5, 8), (3, None, 5, 8), (4, 4, 4, 4)]


def test_a_time_keeps_its_value_with_more_digits(url: str, sql: Sql, tmp_path: Path) -> None:
    sql("ALTER TABLE t ADD c TIME")
    sql("UPDATE t SET c = '-10:00:01'")
    mirrored(url, tmp_path)
    sql("ALTER TABLE t MODIFY c TIME(3)")
    (status,) = mirrored(url, tmp_path)
    assert status.stage == "following"
    micros = "CAST(TIME_TO_SEC(c) * 1000000 AS SIGNED)"
    assert rows_of(tmp_path) == list(sql(f"SELECT id, v, {micros} FROM t ORDER BY id"))


def test_nulls_that_become_the_current_time_are_copied(url: str, sql: Sql, tmp_path: Path) -> None:
    sql("ALTER TABLE t ADD at TIMESTAMP NULL")
    mirrored(url, tmp_path)
    sql("SET SESSION time_zone = '+00:00'")
    sql("ALTER TABLE t MODIFY at TIMESTAMP NOT NULL")
    (status,) = mirrored(url, tmp_path)
    assert (status.stage, len(copies(tmp_path))) == ("following", 2)
    found = [(id, v, at.replace(tzinfo=None)) for id, v, at in rows_of(tmp_path)]
    assert found == sorted(sql("SELECT * FROM t"))


@pytest.mark.parametrize(
    ("kind", "value", "new", "after", "copied"),
    [
        ("DECIMAL(10,4)", "1.1234", "DECIMAL(12,2)", "1.15", True),
        ("TIMESTAMP NULL", "'2020-01-01 10:00:00'", "DATETIME", "'2020-01-01'", True),
        ("VARCHAR(9)", "'007'", "INT", "7", True),
        ("DATETIME", "'2020-01-01 10:00:00'", "DATE", "'2020-01-01'", True),
        ("VARCHAR(9) CHARACTER SET latin1", "'é'", "VARBINARY(9)", "'é'", True),
        ("TIME", "'10:00:00'", "BIGINT", "5", True),
        ("BIGINT", "100", "TIME", "'10:00:00'", True),
        ("INT ZEROFILL", "7", "VARCHAR(20)", "'x'", True),
        ("YEAR", "0", "VARCHAR(9)", "'x'", True),
        ("ENUM('2','1')", "'1'", "INT", "7", True),
        ("VARCHAR(9)", "'70'", "YEAR", "1999", True),
        ("DECIMAL(40,4)", "1.1234", "DECIMAL(50,2)", "1.15", True),
        ("INT", "5", "DECIMAL(40,2)", "1.15", True),
        ("BIT(9)", "65", "BIGINT", "5", False),
        ("INT", "7", "CHAR(20)", "'x'", False),
        ("INET6", "'::1'", "VARBINARY(16)", "'x'", False),
        ("DECIMAL(10,4)", "1.1200", "DECIMAL(12,2)", "1.15", False),
        ("DATE", "'2020-01-01'", "DATETIME", "'2020-01-01 10:00:00'", False),
    ],
)
def test_values_are_judged_by_the_type_before_an_alter(
    url: str, sql: Sql, tmp_path: Path, kind: str, value: str, new: str, after: str, copied: bool
) -> None:
    """A row after it in the same round has the new type already."""
    sql("SET SESSION time_zone = '+05:00'")
    sql(f"ALTER TABLE t ADD c {kind}")
    sql(f"UPDATE t SET c = {value}")
    mirrored(url, tmp_path)
    sql(f"ALTER TABLE t MODIFY c {new}")
    sql(f"INSERT INTO t VALUES (3, 3, {after})")
    (status,) = mirrored(url, tmp_path)
    assert (status.stage, len(copies(tmp_path))) == ("following", 2 if copied else 1)
    seconds = {"TIME": "TIME_TO_SEC(c) * 1000000", "DECIMAL(40,2)": "CONCAT(c)", "DECIMAL(50,2)": "CONCAT(c)"}
    wanted = [
        tuple(int(one) if isinstance(one, Decimal) and new == "TIME" else one for one in row)
        for row in sql(f"SELECT id, v, {seconds.get(new, 'c')} FROM t ORDER BY id")
    ]
    assert rows_of(tmp_path) == wanted
