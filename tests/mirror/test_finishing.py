"""Deleted rows that stay in the lake: through rounds, revivals, and new copies of their table."""

from __future__ import annotations

import datetime as dt
import hmac
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("pymysql")

from support.lake_forms import FORMS
from support.refused import Sql

from binlog_core.mirror import TableStatus, mirror, resync, verify


@pytest.mark.parametrize("kind", ["delta", "iceberg", "vectors"])
@pytest.mark.parametrize("partition", [{}, {"refused.p": "region"}], ids=["whole", "divided"])
def test_deleted_rows_stay_and_are_revived(
    url: str, sql: Sql, kind: str, partition: dict[str, str], tmp_path: Path
) -> None:
    lake, form = tmp_path / "lake", FORMS[kind](tmp_path)
    sql("CREATE TABLE p (id INT PRIMARY KEY, region VARCHAR(9), n INT)")
    sql("INSERT INTO p SELECT seq, ELT(1 + seq % 2, 'eu', 'us'), seq FROM seq_1_to_40")

    def run(**settings: Any) -> TableStatus:
        given = {"tables": "refused.p", "until": "now", "compact": None, "soft_deletes": "refused.*"}
        return mirror(url, lake, partition=partition, **{**given, **form.settings, **settings})[0]

    def check(*deleted: int) -> None:
        """The rows of the server, and those that it has deleted."""
        found = sorted(tuple(row.values()) for row in form.read(lake / "refused.p").to_pylist())
        live = [tuple(row) for row in sql("SELECT id, region, n FROM p ORDER BY id")]
        assert [row[:3] for row in found if not row[3]] == live
        assert [row[0] for row in found if row[3]] == [*deleted]
        assert all(row[1] in ("eu", "us") and row[2] is not None for row in found)
        (compared,) = verify(lake)
        assert (compared.agrees, compared.rows) == (True, len(live)), compared

    run()
    check()
    sql("DELETE FROM p WHERE id IN (1, 2, 3)")
    sql("UPDATE p SET n = 100 WHERE id = 4")
    sql("DELETE FROM p WHERE id = 4")
    sql("INSERT INTO p VALUES (50, 'eu', 1), (51, 'us', 2)")
    sql("DELETE FROM p WHERE id = 51")
    run()
    check(1, 2, 3, 4, 51)
    assert [row["n"] for row in form.read(lake / "refused.p").to_pylist() if row["id"] == 4] == [100]
    sql("INSERT INTO p VALUES (2, 'us', 22), (3, 'us', 33)")
    sql("DELETE FROM p WHERE id = 3")
    run(compact=0)
    check(1, 3, 4, 51)
    resync(lake, "refused.p")
    check(1, 3, 4, 51)
    sql("SET sql_log_bin = 0")  # what only a copy sees
    sql("DELETE FROM p WHERE id IN (10, 12)")
    sql("INSERT INTO p VALUES (1, 'us', 11)")
    sql("SET sql_log_bin = 1")
    resync(lake, "refused.p")
    check(3, 4, 10, 12, 51)
    sql("SET SESSION binlog_row_image = MINIMAL")
    sql("DELETE FROM p WHERE id = 13")
    sql("SET SESSION binlog_row_image = FULL")
    run()
    check(3, 4, 10, 12, 13, 51)
    left = [row[0] for row in sql("SELECT id FROM p")]
    sql("TRUNCATE p")
    sql("INSERT INTO p VALUES (3, 'eu', 3)")
    run()
    check(*sorted({*left, 4, 10, 12, 13, 51}))
    sql("DROP TABLE p")
    assert run().stage == "dropped" and len(form.read(lake / "refused.p")) > 40
    sql("CREATE TABLE p (id BIGINT PRIMARY KEY, region VARCHAR(9), n INT)")
    sql("INSERT INTO p VALUES (4, 'eu', 4)")
    run()
    check(*sorted({*left, 3, 10, 12, 13, 51}))
    run(soft_deletes=())
    assert [row["id"] for row in form.read(lake / "refused.p").to_pylist()] == [4]
    run()
    check()


def test_what_cannot_keep_deleted_rows_says_so(url: str, sql: Sql, tmp_path: Path) -> None:
    sql("CREATE TABLE p (n INT)")
    sql("CREATE TABLE q (id INT PRIMARY KEY, _deleted INT)")
    sql("CREATE TABLE r (id INT PRIMARY KEY, n INT)")
    sql("INSERT INTO r VALUES (1, 1), (2, 2)")
    given = {"tables": "refused.[pqr]", "until": "now", "soft_deletes": "refused.*"}
    found = mirror(url, tmp_path, **given)
    assert [one.stage for one in found] == ["parked", "parked", "following"]
    assert "only be kept in a table with a key" in str(found[0].reason)
    assert "name of the column of deleted rows" in str(found[1].reason)
    sql("DELETE FROM r WHERE id = 1")
    mirror(url, tmp_path, **given)
    sql("ALTER TABLE r CHANGE id other INT")
    sql("ALTER TABLE r MODIFY COLUMN n INT DEFAULT 5")
    for _ in range(4):
        found = mirror(url, tmp_path, **given)
    assert found[2].stage == "parked", found[2]
    assert "its deleted rows cannot be kept: the lake has no column for other" in str(found[2].reason)
    rows = FORMS["delta"](tmp_path).read(tmp_path / "refused.r").to_pylist()
    assert sorted((row["id"], row["_deleted"]) for row in rows) == [(1, True), (2, False)]
    with pytest.raises(ValueError, match="soft_deletes= with history=True: expected only one"):
        mirror(url, tmp_path, **given, history=True)


@pytest.mark.parametrize("kind", ["delta", "iceberg", "vectors"])
def test_deleted_rows_become_as_the_options_say(url: str, sql: Sql, kind: str, tmp_path: Path) -> None:
    lake, form = tmp_path / "lake", FORMS[kind](tmp_path)
    key = tmp_path / "key"
    key.write_bytes(b"0123456789abcdef")
    sql("CREATE TABLE p (id INT PRIMARY KEY, created DATETIME, email VARCHAR(20))")
    sql("INSERT INTO p VALUES (1, '2020-01-02', 'a@b.c'), (2, '2020-03-04 05:06:07', 'd@e.f')")
    sql("INSERT INTO p VALUES (3, NULL, NULL)")
    given = {"tables": "refused.p", "until": "now", "soft_deletes": "refused.*", **form.settings}
    mirror(url, lake, **given)
    sql("DELETE FROM p WHERE id IN (1, 3)")
    mirror(url, lake, **given)
    given |= {"partition": {"refused.p": "day(created)"}}
    masked = {"mask_columns": "refused.p.email", "mask_key_file": key}
    (found,) = mirror(url, lake, **given, **masked)
    assert found.stage == "following", found

    def rows() -> dict[int, dict[str, Any]]:
        return {row["id"]: row for row in form.read(lake / "refused.p").to_pylist()}

    assert {row["id"]: row["_deleted"] for row in rows().values()} == {1: True, 2: False, 3: True}
    values = (b"a@b.c", b"d@e.f")
    expected = [*(hmac.new(key.read_bytes(), one, "sha256").hexdigest() for one in values), None]
    assert [rows()[i]["email"] for i in (1, 2, 3)] == expected
    if kind != "iceberg":
        days = [dt.date(2020, 1, 2), dt.date(2020, 3, 4), None]
        assert [rows()[i]["created_day"] for i in (1, 2, 3)] == days
    resync(lake, "refused.p", mask_key_file=key)
    assert [rows()[i]["email"] for i in (1, 2, 3)] == expected  # not hashed twice
    for _ in range(4):
        (found,) = mirror(url, lake, **given)
    assert found.stage == "parked"
    assert "its deleted rows cannot be kept: email was masked" in str(found.reason)
    assert [rows()[i]["email"] for i in (1, 2, 3)] == expected


@pytest.mark.parametrize("filled", [False, True])
@pytest.mark.parametrize("names", [("_deleted", "created_day"), ("_Deleted", "Created_DAY")])
def test_a_new_column_with_the_name_of_the_lakes_own_parks_its_table(
    url: str, sql: Sql, tmp_path: Path, names: tuple[str, str], *, filled: bool
) -> None:
    for name in "pqr":
        sql(f"CREATE TABLE {name} (id INT PRIMARY KEY, created DATE)")
        sql(f"INSERT INTO {name} VALUES (1, '2020-01-02'), (2, '2020-01-03')")
    given: dict[str, Any] = {"tables": "refused.[pqr]", "until": "now", "soft_deletes": "refused.p"}
    given |= {"partition": {"refused.q": "day(created)"}}
    mirror(url, tmp_path, **given)
    sql(f"ALTER TABLE p ADD COLUMN {names[0]} INT DEFAULT 1")
    sql(f"ALTER TABLE q ADD COLUMN {names[1]} INT DEFAULT 1")
    sql("INSERT INTO r VALUES (3, NULL)")
    if filled:
        sql("INSERT INTO p VALUES (3, '2020-01-02', 0)")
        sql("INSERT INTO q VALUES (3, '2020-01-02', 0)")
    found = mirror(url, tmp_path, **given)
    assert [one.stage for one in found] == ["parked", "parked", "following"]
    assert "name of the column of deleted rows" in str(found[0].reason)
    assert "needs the name created_day, which another column has" in str(found[1].reason)
    read = FORMS["delta"](tmp_path).read
    assert len(read(tmp_path / "refused.r")) == 3
    assert read(tmp_path / "refused.p")["_deleted"].to_pylist() == [False, False]
