"""Partitions of a mirror's tables: in copies, rounds and compactions, with readers that leave out files."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("pymysql")

from support.lake_forms import FORMS, Form
from support.refused import Sql

from binlog_core.mirror import TableStatus, copying, mirror, resync, verify

KINDS = ["delta", "iceberg", "vectors"]


def divided(form: Form, path: Path) -> dict[tuple[Any, ...], int]:
    """How many files each partition has, by the format's own library."""
    found: dict[tuple[Any, ...], int] = {}
    if form.name == "iceberg":
        parts = [tuple(one.file.partition) for one in form.table(path).scan().plan_files()]
    else:
        import pyarrow as pa

        actions = pa.table(form.table(path).get_add_actions(flatten=True)).to_pylist()
        parts = [tuple(v for k, v in one.items() if k.startswith("partition.")) for one in actions]
    for one in parts:
        found[one] = found.get(one, 0) + 1
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_copies_rounds_and_compactions_keep_partitions(url: str, sql: Sql, kind: str, tmp_path: Path) -> None:
    lake, form = tmp_path / "lake", FORMS[kind](tmp_path)
    path = lake / "refused.p"
    sql("CREATE TABLE p (id INT PRIMARY KEY, Created DATETIME(6), region VARCHAR(9), n INT)")
    sql(
        "INSERT INTO p SELECT seq, IF(seq % 10, '2020-01-01' + INTERVAL seq % 3 DAY, NULL),"
        " ELT(1 + seq % 2, 'eu', 'ü/=%'), seq FROM seq_1_to_60"
    )
    by = {"refused.p": "day(created), REGION"}

    def run(partition: dict[str, str] = by, **settings: Any) -> TableStatus:
        given = {"tables": "refused.p", "until": "now", "compact": None, **form.settings, **settings}
        return mirror(url, lake, partition=partition, **given)[0]

    def check() -> None:
        found = form.read(path)
        found = found.rename_columns([one.replace("created", "Created") for one in found.column_names])
        rows = sorted(
            tuple(row.values()) for row in found.select(["id", "Created", "region", "n"]).to_pylist()
        )
        assert rows == [tuple(row) for row in sql("SELECT id, created, region, n FROM p ORDER BY id")]
        days = sql("SELECT DISTINCT DATE(created), region FROM p")
        epoch = dt.date(1970, 1, 1)
        iceberg = form.name == "iceberg"
        expected = {(day and (day - epoch).days if iceberg else day, region) for day, region in days}
        assert set(divided(form, path)) == expected
        if not iceberg:
            derived = {
                (row["Created"] and row["Created"].date(), row["Created_day"]) for row in found.to_pylist()
            }
            assert all(one == other for one, other in derived)
        (compared,) = verify(lake)
        assert compared.agrees, compared

    one = run()
    assert one.stage == "following", one.reason
    check()
    sql("UPDATE p SET created = '2021-05-05 23:59:59.999999' WHERE id IN (1, 2, 10)")
    sql("UPDATE p SET region = 'us', id = id + 100 WHERE id = 3")
    sql("UPDATE p SET created = NULL WHERE id = 4")
    sql("DELETE FROM p WHERE id BETWEEN 20 AND 29")
    sql("INSERT INTO p VALUES (1000, '1969-12-31 10:00:00', 'eu', 1), (1001, '2020-01-01', NULL, 2)")
    run(history=True)
    check()
    for i in range(9):
        sql(f"INSERT INTO p VALUES ({2000 + i}, '2020-01-0{1 + i % 2} 12:00:00', 'eu', {i})")
        run()
    before = divided(form, path)
    run(compact=0)
    after = divided(form, path)
    day = dt.date(2020, 1, 1)
    most = ((day - dt.date(1970, 1, 1)).days if form.name == "iceberg" else day, "eu")
    assert sum(after.values()) <= sum(before.values()) and set(after) == set(before)
    assert before[most] >= 5
    check()
    sql("SET SESSION binlog_row_image = MINIMAL")
    sql("UPDATE p SET region = 'asia' WHERE id = 5")
    sql("UPDATE p SET created = '2022-02-02' WHERE id = 6")
    sql("SET SESSION binlog_row_image = FULL")
    run()
    check()
    sql("ALTER TABLE p ADD COLUMN m INT DEFAULT 7")
    sql("ALTER TABLE p MODIFY created DATETIME")
    sql("INSERT INTO p VALUES (3000, '2023-03-03', 'eu', 1, 1)")
    one = run()
    assert one.stage == "following", one.reason
    check()
    resync(lake, "refused.p")
    check()
    sql("ALTER TABLE p CHANGE created made DATETIME")
    one = run()
    assert (one.stage, "is not there: use its present name" in (one.reason or "")) == ("parked", True)
    one = run({"refused.p": "month(made), n"})
    assert (one.stage, verify(lake)[0].agrees) == ("following", True), one.reason
    sql("ALTER TABLE p CHANGE made created DATETIME")
    run()
    check()
    sql("TRUNCATE p")
    sql("INSERT INTO p VALUES (1, '2023-03-03', 'eu', 1, 1)")
    run()
    check()
    run({"*.p": "n"})  # another one
    assert set(divided(form, path)) == {(1,)}
    sql("INSERT INTO p VALUES (2, '2023-03-03', 'eu', 2, 1)")
    run({"*.p": "n"})
    assert set(divided(form, path)) == {(1,), (2,)} and verify(lake)[0].agrees
    run({})
    assert set(divided(form, path)) == {()} and verify(lake)[0].agrees
    assert form.read(path).schema.names == ["id", "created", "region", "n", "m"] or kind == "iceberg"


@pytest.mark.parametrize("kind", KINDS)
def test_readers_leave_out_the_files_of_other_partitions(
    url: str, sql: Sql, kind: str, tmp_path: Path
) -> None:
    lake, form = tmp_path / "lake", FORMS[kind](tmp_path)
    path = lake / "refused.p"
    sql("CREATE TABLE p (id INT PRIMARY KEY, created TIMESTAMP NULL, n INT)")
    sql("INSERT INTO p SELECT seq, FROM_UNIXTIME(1600000000 + 86400 * (seq % 5)), seq FROM seq_1_to_100")
    given = {"tables": "refused.p", "partition": {"refused.p": "month(created), n"}, "until": "now"}
    mirror(url, lake, **{**given, "partition": {"refused.p": "day(created)"}}, **form.settings)
    sql("UPDATE p SET n = -1 WHERE id = 5")
    mirror(url, lake, **{**given, "partition": {"refused.p": "day(created)"}}, **form.settings)
    table = form.table(path)
    if form.name == "iceberg":
        files = table.scan(row_filter="created >= '2020-09-15T00:00:00+00:00'").plan_files()
        found = [one.file.file_path for one in files]
        assert 0 < len(found) < form.files(path)
    else:
        found = table.file_uris(partition_filters=[("created_day", "=", "2020-09-13")])
        assert 0 < len(found) < form.files(path)
        rows = sql("SELECT COUNT(*) FROM p WHERE DATE(created) = '2020-09-13'")[0][0]
        scanned = table.scan(columns=["id", "created_day"], predicate="created_day = '2020-09-13'").read_all()
        assert len(scanned) == rows > 0


def test_what_cannot_be_a_partition_is_told(url: str, sql: Sql, tmp_path: Path) -> None:
    sql("CREATE TABLE p (id INT PRIMARY KEY, d DECIMAL(5, 2), s TEXT, at DATE, at_year INT)")
    given = {"tables": "refused.p", "until": "now"}
    for by, told in (
        ("d", "cannot be partitioned by d: expected an integer, a text, a date or a boolean"),
        ("day(s)", "cannot be partitioned by day"),
        ("none", "is not there: use its present name"),
        ("year(at)", "needs the name at_year, which another column has"),
    ):
        (one,) = mirror(url, tmp_path, partition={"refused.p": by}, **given)
        assert (one.stage, told in (one.reason or "")) == ("parked", True), one.reason
    (one,) = mirror(url, tmp_path, partition={"refused.p": "s"}, **given)
    assert one.stage == "following"
    sql("INSERT INTO p (id, s) VALUES (1, 'x'), (2, '')")
    for _ in range(3):
        (one,) = mirror(url, tmp_path, partition={"refused.p": "s"}, **given)
    assert (one.stage, "a text of 0 characters cannot be a partition" in (one.reason or "")) == (
        "parked",
        True,
    )


@pytest.mark.parametrize(
    ("partition", "message"),
    [
        ({"orders": "n"}, "expected database.table=COLUMNS"),
        ({"shop.orders": "hour(n)"}, "is not a partition"),
        ({"shop.orders": ""}, "is not a partition"),
        ({"shop.orders": "day(n), N, n"}, "twice"),
    ],
)
def test_partitions_are_checked_before_anything_is_copied(
    partition: dict[str, str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        mirror("mysql://127.0.0.1:1", tmp_path / "lake", tables="shop.*", partition=partition)
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("soft", [(), "refused.p"], ids=["plain", "soft"])
def test_a_table_gets_more_partitions_and_fewer_although_its_run_is_killed(
    url: str, sql: Sql, kind: str, soft: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the commit of the copy, the state does not know yet what divides the table."""
    lake, form = tmp_path / "lake", FORMS[kind](tmp_path)
    sql("CREATE TABLE p (id INT PRIMARY KEY, created DATE, region VARCHAR(9))")
    sql("INSERT INTO p SELECT seq, '2020-01-01' + INTERVAL seq % 3 DAY, 'eu' FROM seq_1_to_9")
    given = {"tables": "refused.p", "until": "now", "compact": None, "soft_deletes": soft, **form.settings}
    ends = copying.Copying._finish

    def killed(self: Any, planned: Any, *rest: Any) -> None:
        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(type(planned.state), "end_copy", dies)
            ends(self, planned, *rest)

    def dies(_: Any) -> None:
        raise SystemExit

    mirror(url, lake, **given)
    sql("DELETE FROM p WHERE id = 1")
    for text in ("day(created)", "day(created), region", "region", ""):
        monkeypatch.setattr(copying.Copying, "_finish", killed)
        with pytest.raises(SystemExit):
            mirror(url, lake, partition={"refused.p": text} if text else {}, **given)
        monkeypatch.setattr(copying.Copying, "_finish", ends)
        (one,) = mirror(url, lake, partition={"refused.p": text} if text else {}, **given)
        assert one.stage == "following", one.reason
        assert verify(lake)[0].agrees
        rows = form.read(lake / "refused.p").to_pylist()
        assert sorted(row["id"] for row in rows) == [*range(1 if soft else 2, 10)]
        assert all(row.get("created_day", row["created"]) == row["created"] for row in rows), text
