"""A table leaves the lake only if the server's log shows that it was dropped or renamed."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("pymysql")

from deltalake import DeltaTable
from support.lake_forms import DeltaForm, Form
from support.refused import Sql, mirrored

from binlog_core.mirror import mirror, resync, verify
from binlog_core.mirror.lake import Lake
from binlog_core.mirror.state import MirrorState

ROWS = [(1, 1), (2, 2)]


def rows_of(lake: Path, form: Form) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in form.read(lake / "refused.t").to_pylist())


def is_mariadb(sql: Sql) -> bool:
    return "MariaDB" in str(sql("SELECT VERSION()")[0][0])


def dropped_without_log(sql: Sql) -> None:
    sql("SET sql_log_bin = 0")
    sql("DROP TABLE t")
    sql("SET sql_log_bin = 1")


def test_a_versioned_table_is_copied_when_it_has_changed(
    url: str, sql: Sql, tmp_path: Path, form: Form
) -> None:
    """Its log has rows of the past among the present ones."""
    if not is_mariadb(sql):
        pytest.skip("MySQL has no system versioning")
    mirrored(url, tmp_path, **form.settings)
    sql("ALTER TABLE t ADD SYSTEM VERSIONING")
    sql("CREATE TABLE v (id INT PRIMARY KEY) WITH SYSTEM VERSIONING")
    t, v = mirrored(url, tmp_path, **form.settings)
    assert (t.stage, v.stage) == ("following", "following")
    sql("UPDATE t SET v = 5 WHERE id = 1")
    sql("DELETE FROM t WHERE id = 2")
    sql("INSERT INTO v VALUES (7)")
    mirrored(url, tmp_path, **form.settings)
    assert [row[:2] for row in rows_of(tmp_path, form)] == [(1, 5)]  # and from when until when it counts
    assert [(one.table, one.agrees) for one in verify(tmp_path)] == [("refused.t", True), ("refused.v", True)]
    sql("ALTER TABLE t DROP SYSTEM VERSIONING")
    sql("INSERT INTO t VALUES (3, 3)")
    (t, _) = mirrored(url, tmp_path, **form.settings)
    found = [row[:2] for row in rows_of(tmp_path, form)]
    assert (t.stage, found) == ("following", [(1, 5), (3, 3)])


def test_a_drop_that_was_not_logged_leaves_the_rows(url: str, sql: Sql, tmp_path: Path, form: Form) -> None:
    mirrored(url, tmp_path, **form.settings)
    dropped_without_log(sql)
    (one,) = resync(tmp_path, "refused.t")
    assert one.stage == "parked"
    assert "does not show a DROP" in str(one.reason)
    assert rows_of(tmp_path, form) == ROWS
    (compared,) = verify(tmp_path)
    assert not compared.agrees


@pytest.mark.parametrize(
    "what", ["removed", "its log removed", "put back", "history removed", "history put back"]
)
def test_a_table_that_others_removed_or_put_back_is_copied_again(
    what: str, url: str, sql: Sql, tmp_path: Path
) -> None:
    """A round would add its changes to what lacks those before it."""
    settings: dict[str, Any] = {"format": "delta", "history": "history" in what}
    mirrored(url, tmp_path, **settings)
    table, past, earlier = (tmp_path / name for name in ("refused.t", "history/refused.t", "earlier"))
    concerned = past if "history" in what else table
    shutil.copytree(concerned, earlier)
    sql("INSERT INTO t VALUES (3, 3)")
    mirrored(url, tmp_path, **settings)
    shutil.rmtree(table / "_delta_log" if what == "its log removed" else concerned)
    if "put back" in what:
        earlier.rename(concerned)
    sql("UPDATE t SET v = 5 WHERE id = 1")
    (one,) = mirrored(url, tmp_path, **settings)
    assert (one.stage, one.rows) == ("following", 3)
    assert sorted(map(tuple, map(dict.values, DeltaForm(tmp_path).read(table).to_pylist()))) == [
        (1, 5),
        (2, 2),
        (3, 3),
    ]
    if "history" in what:
        rows = DeltaForm(tmp_path).read(past).to_pylist()
        rows.sort(key=lambda row: (row["_commit_version"], row["_change_ordinal"]))
        last = max(i for i, row in enumerate(rows) if row["_change_type"] == "copy")
        assert sorted((row["id"], row["_change_type"]) for row in rows[last + 1 :]) == [
            (1, "insert"),
            (2, "insert"),
            (3, "insert"),
        ]


@pytest.mark.parametrize("ending", ["DROP TABLE t", "RENAME TABLE t TO another", "DROP DATABASE refused"])
def test_a_drop_in_the_log_empties_the_table(
    ending: str, url: str, sql: Sql, tmp_path: Path, form: Form
) -> None:
    mirrored(url, tmp_path, **form.settings)
    sql(ending)
    one = next(one for one in mirrored(url, tmp_path, **form.settings) if one.table == "refused.t")
    assert one.stage == "dropped"
    assert rows_of(tmp_path, form) == []
    sql("CREATE DATABASE IF NOT EXISTS refused")


def test_a_drop_after_an_alter_that_needs_a_copy_empties_the_table(
    url: str, sql: Sql, tmp_path: Path, form: Form
) -> None:
    """The log after the ALTER is not replayed any more."""
    mirrored(url, tmp_path, **form.settings)
    sql("ALTER TABLE t ADD n INT NOT NULL UNIQUE AUTO_INCREMENT")
    sql("DROP TABLE t")
    (one,) = mirrored(url, tmp_path, **form.settings)
    assert one.stage == "dropped"
    assert rows_of(tmp_path, form) == []


def test_verify_names_a_dropped_table_with_rows_and_a_new_one(url: str, sql: Sql, tmp_path: Path) -> None:
    mirrored(url, tmp_path)
    sql("DROP TABLE t")
    mirrored(url, tmp_path)
    DeltaTable(str(tmp_path / "refused.t")).restore(0)
    sql("CREATE TABLE u (_change_type INT PRIMARY KEY)")
    t, u = verify(tmp_path)
    assert "has 2 rows" in str(t.reason)
    assert "_change_type" not in str(t.reason)
    assert (u.table, u.agrees) == ("refused.u", False)


def test_a_run_that_is_stopped_before_it_has_an_archive_ends(url: str, tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()
    assert mirror(url, tmp_path / "lake", tables="stopped.*", until="now", stop=stop) == []


def test_a_table_that_is_left_out_stays_as_it_is(url: str, sql: Sql, tmp_path: Path, form: Form) -> None:
    sql("CREATE TABLE u LIKE t")
    assert [one.table for one in mirrored(url, tmp_path, **form.settings)] == ["refused.t", "refused.u"]
    sql("DELETE FROM t")
    sql("CREATE TABLE tmp_1 LIKE t")
    found = mirrored(url, tmp_path, exclude_tables=["*.t", "refused.tmp_*"], **form.settings)
    assert [one.table for one in found] == ["refused.u"]
    assert [one.table for one in verify(tmp_path)] == ["refused.u"]
    assert rows_of(tmp_path, form) == ROWS
    found = mirrored(url, tmp_path, exclude_tables="refused.tmp_*", **form.settings)
    assert [one.table for one in found] == ["refused.t", "refused.u"]
    assert rows_of(tmp_path, form) == []


def test_key_indexes_are_looked_at_once_when_a_mirror_begins(
    url: str, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if tables are not wanted any more."""
    sql("CREATE TABLE u LIKE t")
    mirrored(url, tmp_path)
    looks, remove = list[int](), Lake.remove_key_indexes

    def counted(lake: Lake, state: MirrorState) -> None:
        looks.append(len(state.tables))
        remove(lake, state)

    monkeypatch.setattr(Lake, "remove_key_indexes", counted)
    mirrored(url, tmp_path, exclude_tables="refused.u")
    assert looks == [1]
