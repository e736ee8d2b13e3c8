"""Rows that a mirror leaves out by a condition: in copies, in the log, in histories, and when it compares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("pymysql")

import pyarrow as pa
from support.lake_forms import FORMS
from support.refused import Sql

from binlog_core import BinlogWarning
from binlog_core.errors import SchemaError
from binlog_core.lake.tables.results import ReportedStatement
from binlog_core.mirror import TableStatus, mirror, resync, verify
from binlog_core.mirror.columns import ColumnRules, ColumnSettings
from binlog_core.mirror.filters import check_filter, kept_changes, kept_when_deleted, ops_of
from binlog_core.schema.given import parse_create_table
from binlog_core.schema.without_rows import table_without_rows

SCHEMA = parse_create_table("CREATE TABLE t (id INT PRIMARY KEY, N INT, g INT AS (n + 1))", "shop", "t")
TABLE: Any = table_without_rows(SCHEMA, mariadb=True)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({"orders": "n > 1"}, "expected database.table=CONDITION"),
        ({"shop.orders": "n >"}, "where='shop.orders': .*expected"),
        ({"shop.orders": ""}, "where='shop.orders': .*expected"),
        ({"shop.orders": "n > 1 and before.n < 2"}, r"before\.n is not a column of a row"),
        ({"shop.orders": "n > 1 or _gtid is null"}, "_gtid is not a column"),
        ({"shop.orders": "not (n > 1 and changed(n))"}, r"changed\(\) is about a change"),
    ],
)
def test_conditions_are_checked_before_anything_is_copied(
    where: dict[str, str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        mirror("mysql://127.0.0.1:1", tmp_path / "lake", tables="shop.*", where=where)
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize(
    ("where", "lacks", "message"),
    [("m = 1", (), "is not there"), ("n = 1", ("n",), "is left out"), ("G = 1", (), "is generated")],
)
def test_a_column_that_cannot_be_asked_for_is_an_error(where: str, lacks: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        check_filter(where, SCHEMA, lacks)


def changes(*rows: tuple[str, int, int | None], absent: list[Any] | None = None) -> pa.RecordBatch:
    kinds, keys, numbers = zip(*rows, strict=True)
    columns = {
        "id": pa.array(keys, pa.int32()),
        "N": pa.array(numbers, pa.int32()),
        "_change_type": list(kinds),
    }
    names = pa.list_(pa.string())
    return pa.record_batch({**columns, "_absent": pa.array(absent or [None] * len(rows), names)})


def test_an_update_that_leaves_the_condition_is_a_delete_and_one_that_enters_it_an_insert() -> None:
    before, after = "update_preimage", "update_postimage"
    rows = [
        *(("insert", 1, 5), ("insert", 2, 0), ("insert", 3, None), ("delete", 4, 5), ("delete", 5, 0)),
        *((before, 1, 5), (after, 1, 6), (before, 1, 6), (after, 1, 0), (before, 1, 0), (after, 1, None)),
        *((before, 1, None), (after, 9, 7)),
    ]
    found = kept_changes("n > 1", changes(*rows), TABLE)
    assert [tuple(row.values())[:3] for row in found.to_pylist()] == [
        *(
            (1, 5, "insert"),
            (4, 5, "delete"),
            (1, 5, before),
            (1, 6, after),
            (1, 6, "delete"),
            (9, 7, "insert"),
        )
    ]
    assert ops_of(found).tolist() == [0, 2, 1, 1, 2]  # inserts, images before and after, deletes


@pytest.mark.parametrize(
    ("numbers", "absent", "refused"),
    [
        ((5, 6), [None, None], False),
        ((5, 6), [["g"], None], False),
        ((5, 6), [["N"], None], True),
        ((5, 6), [None, ["n (changed)"]], True),
        ((0, 6), [None, ["g"]], True),  # an insert without all columns
        ((5, 0), [None, ["g"]], False),
    ],
)
def test_an_image_that_does_not_tell_leads_to_a_copy(numbers: Any, absent: Any, refused: bool) -> None:
    rows = [("update_preimage", 1, numbers[0]), ("update_postimage", 1, numbers[1])]
    if refused:
        with pytest.raises(SchemaError, match="a row image lacks columns"):
            kept_changes("n > 1", changes(*rows, absent=absent), TABLE)
        return
    assert kept_changes("n > 1", changes(*rows, absent=absent), TABLE).num_rows


def test_columns_that_are_never_logged_are_not_missed() -> None:
    rows = changes(("update_preimage", 1, 0), ("update_postimage", 1, 6), absent=[["g"], ["g"]])
    assert kept_changes("n > 1", rows, TABLE, ("g",)).column("_change_type").to_pylist() == ["insert"]


def test_a_deleted_row_becomes_one_that_is_marked() -> None:
    before, after = "update_preimage", "update_postimage"
    rows = changes(("insert", 1, 5), (before, 1, 5), (after, 1, 6), ("delete", 1, 6), ("delete", 2, None))
    found = kept_when_deleted(rows, "_deleted", ())
    assert found.column("_change_type").to_pylist() == ["insert", before, after, "insert", "insert"]
    assert found.column("_deleted").to_pylist() == [False, False, False, True, True]
    assert found.column("N").to_pylist() == [5, 5, 6, 6, None]
    absent = [None, None, None, ["N"], None]
    rows = changes(
        ("insert", 1, 5), (before, 1, 5), (after, 1, 6), ("delete", 1, 6), ("delete", 2, None), absent=absent
    )
    with pytest.raises(SchemaError, match="a row image lacks columns"):
        kept_when_deleted(rows, "_deleted", ())
    assert kept_when_deleted(rows, "_deleted", ("n",)).num_rows == 5


def test_a_statement_that_names_the_column_leads_to_a_copy() -> None:
    rules = ColumnSettings(where={"shop.*": "N > 1"}).rules(SCHEMA)
    assert rules == ColumnRules(where="N > 1")
    for sql, concerned in (("ALTER TABLE t CHANGE n m INT", True), ("ALTER TABLE t ADD COLUMN m INT", False)):
        statement = ReportedStatement(1, 1, "alter", ("shop.t",), None, False, sql)
        assert rules.concerned([statement]) is concerned


KINDS = {  # a condition of ours, and the server's own for the same rows
    "i > 1": None,
    "u >= 9223372036854775808": None,
    "d < -1.05 or w = 12345678901234567890123456789.5": None,
    "f > 0.5 and r <= 2.5e0": None,
    "e in ('b', 'ö')": None,
    "e = 2 or e = 'b'": None,
    "s = 'x,z'": None,
    "s = 5": None,
    "bits >= b'101' or flag = 1": "bits >= 5 or flag = 1",
    "day < '2020-02-01' or y = 2021": None,
    "at >= '2020-01-02 03:04:05.5'": None,
    "ts < '2020-01-02 00:00:00'": None,
    "took between '-00:00:01' and '00:00:01.5'": None,
    "name like 'A%' and name <> 'Axx'": "name like binary 'A%' and name <> binary 'Axx'",
    "raw = x'00ff' or raw is null": None,
    "name is not null and not (i = 1 or i = 2)": None,
}
TYPES = (
    "CREATE TABLE p (id INT PRIMARY KEY, i INT, u BIGINT UNSIGNED, d DECIMAL(6, 2), w DECIMAL(30, 1),"
    " f FLOAT, r DOUBLE, e ENUM('a', 'b', 'ö'), s SET('x', 'y', 'z'), bits BIT(5), flag BIT(1), day DATE,"
    " y YEAR, at DATETIME(6), ts TIMESTAMP NULL, took TIME(3), name VARCHAR(20), raw VARBINARY(9))"
    " CHARSET utf8mb4"
)
COLUMNS = "i, u, d, w, f, r, e, s, bits, flag, day, y, at, ts, took, name, raw"
VALUES = (
    "1, 18446744073709551615, -1.06, 12345678901234567890123456789.5, 0.25, 2.5, 'a', 'x,z', 5, 1,"
    " '2020-01-31', 2021, '2020-01-02 03:04:05.5', '2020-01-01 23:59:59', '00:00:01.500', 'Axx', x'00ff'",
    "2, 9223372036854775807, -1.05, -0.1, 0.75, 2.25, 'b', 'y', 4, 0, '2020-02-01', 1999,"
    " '2020-01-02 03:04:05.4', '2020-01-02 00:00:00', '-00:00:01.001', 'Ab', x'00'",
    "3, 0, 0, 0, 1, 3, 'ö', '', 31, 0, '1000-01-01', 2155, "
    "'9999-12-31 23:59:59.999999', '2038-01-01 00:00:00', '-838:59:59', 'ab', x'ff'",
    "NULL" + ", NULL" * 16,
)


def test_conditions_mean_in_copies_and_in_the_log_what_they_mean_on_the_server(
    url: str, sql: Sql, tmp_path: Path
) -> None:
    """For every type: rows that are copied, and the same rows that come by the log."""
    sql("SET SESSION time_zone = '+00:00'")
    sql(TYPES)
    for i, values in enumerate(VALUES):
        sql(f"INSERT INTO p VALUES ({i}, {values})")
    for n in range(len(KINDS)):
        sql(f"CREATE TABLE p{n} LIKE p")
        sql(f"INSERT INTO p{n} SELECT * FROM p")
    given = {
        "tables": [f"refused.p{n}" for n in range(len(KINDS))],
        "where": {f"refused.p{n}": condition for n, condition in enumerate(KINDS)},
        "until": "now",
    }
    form = FORMS["delta"](tmp_path)

    def check(step: int) -> None:
        found = mirror(url, tmp_path / "lake", **given)
        assert {one.stage for one in found} == {"following"}, found
        for n, (ours, theirs) in enumerate(KINDS.items()):
            expected = [row[0] for row in sql(f"SELECT id FROM p{n} WHERE {theirs or ours} ORDER BY id")]
            here = form.read(tmp_path / "lake" / f"refused.p{n}")["id"].to_pylist()
            assert sorted(here) == expected, (step, ours)
            assert expected and len(expected) < sql(f"SELECT COUNT(*) FROM p{n}")[0][0], ours

    check(1)
    for n in range(len(KINDS)):
        sql(f"INSERT INTO p{n} SELECT id + 10, {COLUMNS} FROM p")
        sql(f"DELETE FROM p{n} WHERE id = 3")
    check(2)
    assert all(one.agrees for one in verify(tmp_path / "lake"))


@pytest.mark.parametrize("kind", ["delta", "iceberg", "vectors"])
def test_rows_enter_and_leave(url: str, sql: Sql, kind: str, tmp_path: Path) -> None:
    lake, form = tmp_path / "lake", FORMS[kind](tmp_path)
    sql("CREATE TABLE p (id INT PRIMARY KEY, Status VARCHAR(9), n INT)")
    sql("INSERT INTO p SELECT seq, IF(seq % 2, 'paid', 'new'), seq FROM seq_1_to_100")
    sql("CREATE TABLE q LIKE t")

    def run(where: dict[str, str], **settings: Any) -> TableStatus:
        given = {"tables": ["refused.[pq]"], "until": "now", "compact": None, **form.settings, **settings}
        return mirror(url, lake, where=where, **given)[0]

    def rows(folder: str = "refused.p") -> list[tuple[Any, ...]]:
        found = form.read(lake / folder).select(["id", "Status", "n"]).to_pylist()
        return sorted(tuple(row.values()) for row in found)

    def expected(where: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in sql(f"SELECT * FROM p WHERE {where} ORDER BY id")]

    paid = {"refused.p": "status = 'paid'"}
    with pytest.warns(BinlogWarning, match=r"nothing is refused\.P \("):
        one = run({"refused.P": "n = 1", **paid}, history=True)
    assert (one.stage, rows(), one.rows) == ("following", expected("Status = 'paid'"), 50)
    sql("UPDATE p SET Status = 'new' WHERE id IN (1, 3)")
    sql("UPDATE p SET Status = 'paid', n = n + 1000 WHERE id IN (2, 4, 6)")
    sql("UPDATE p SET id = id + 1000 WHERE id IN (5, 6, 8)")
    sql("UPDATE p SET Status = NULL WHERE id = 7")
    sql("UPDATE p SET n = 0 WHERE id BETWEEN 10 AND 13")
    sql("UPDATE p SET Status = 'new' WHERE id = 2")  # and out again
    sql("DELETE FROM p WHERE id BETWEEN 20 AND 23")
    sql("INSERT INTO p VALUES (2001, 'paid', 1), (2002, 'new', 2)")
    run(paid, history=True)
    assert rows() == expected("Status = 'paid'")
    found = form.read(lake / "history" / "refused.p").to_pylist()
    assert sorted(row["_change_type"] for row in found if row["id"] == 1) == ["delete", "insert"]
    assert len([row for row in found if row["_change_type"] == "copy"]) == 1
    assert {row["Status"] for row in found if row["_change_type"] != "copy"} == {"paid"}
    (one_compared, _) = verify(lake)
    assert one_compared.agrees and one_compared.rows == len(rows())
    form.spoil(lake / "refused.p", 13, 15, "Status")
    compared = verify(lake, "refused.p")[0]
    assert (compared.changed, compared.missing) == ([{"id": 13}], [{"id": 15}])
    resync(lake, "refused.p")
    assert rows() == expected("Status = 'paid'")

    sql("SET SESSION binlog_row_image = MINIMAL")  # whose images do not tell
    sql("UPDATE p SET n = 5 WHERE id < 30")
    sql("SET SESSION binlog_row_image = FULL")
    assert run(paid).stage == "following" and rows() == expected("Status = 'paid'")
    sql("ALTER TABLE p CHANGE Status state VARCHAR(9)")
    sql("UPDATE p SET state = 'new' WHERE id < 50")
    told = run(paid)
    assert (told.stage, "is not there: use its present name" in (told.reason or "")) == ("parked", True)
    state = {"refused.p": "state = 'new' and n >= 7"}
    assert run(state).stage == "following"
    found = form.read(lake / "refused.p").select(["id", "state", "n"]).to_pylist()
    assert sorted(tuple(row.values()) for row in found) == expected("state = 'new' and n >= 7")
    assert run({}).rows == sql("SELECT COUNT(*) FROM p")[0][0]


def test_a_masked_column_chooses_by_its_value(
    url: str, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BINLOG_CORE_MASK_KEY", "0123456789abcdef")
    given = {"tables": "refused.p", "mask_columns": "refused.p.mail", "until": "now"}
    sql("CREATE TABLE p (id INT PRIMARY KEY, mail TEXT)")
    sql("INSERT INTO p VALUES (1, 'a@x'), (2, 'a@y')")
    mirror(url, tmp_path, where={"refused.p": "mail like '%@y'"}, archive=tmp_path / "a", **given)
    sql("INSERT INTO p VALUES (3, 'c@y'), (4, 'secret@x')")
    sql("UPDATE p SET mail = 'b@x' WHERE id = 2")
    (one,) = mirror(url, tmp_path, where={"refused.p": "mail like '%@y'"}, archive=tmp_path / "a", **given)
    found = FORMS["delta"](tmp_path).read(tmp_path / "refused.p").to_pylist()
    assert [(row["id"], len(row["mail"])) for row in found] == [(3, 64)]
    assert one.stage == "following" and verify(tmp_path)[0].agrees
