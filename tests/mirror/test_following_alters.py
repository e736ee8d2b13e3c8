"""What ALTERs make of a table in the lake: its types, and the columns that a server's own comments add."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("pymysql")

import pyarrow as pa
from support.lake_forms import Form
from support.refused import Sql, mirrored

from binlog_core.mirror.lake import Lake
from binlog_core.mirror.state import TableState


def columns_of(lake: Path, form: Form) -> dict[str, pa.DataType]:
    found = form.read(lake / "refused.t")
    return {field.name: field.type for field in found.schema}


@pytest.mark.parametrize("rows", [True, False])
def test_a_date_becomes_a_datetime(rows: bool, url: str, sql: Sql, tmp_path: Path, form: Form) -> None:
    sql("ALTER TABLE t ADD d DATE")
    sql("UPDATE t SET d = '2024-02-29'")
    mirrored(url, tmp_path, **form.settings)
    sql("ALTER TABLE t MODIFY d DATETIME")
    if rows:
        sql("UPDATE t SET d = '2024-02-29 12:30:00' WHERE id = 1")
    (one,) = mirrored(url, tmp_path, **form.settings)
    assert one.stage == "following"
    assert columns_of(tmp_path, form)["d"] == pa.timestamp("us")
    found = sorted(tuple(row.values()) for row in form.read(tmp_path / "refused.t").to_pylist())
    assert found == sorted(sql("SELECT * FROM t"))


def test_only_the_vendors_own_comments_are_executed(url: str, sql: Sql, tmp_path: Path, form: Form) -> None:
    mirrored(url, tmp_path, **form.settings)
    sql(
        "ALTER TABLE t ADD a INT DEFAULT 5 /*M! , ADD b INT DEFAULT 6 */ /*!80000 , ADD c INT DEFAULT 7 */"
        " /*!100100 , ADD d INT DEFAULT 8 */ /*! , ADD e INT DEFAULT 9 */"
    )
    sql("INSERT INTO t (id, v) VALUES (3, 3)")
    (one,) = mirrored(url, tmp_path, **form.settings)
    assert one.stage == "following"
    mariadb = "MariaDB" in str(sql("SELECT VERSION()")[0][0])
    assert list(columns_of(tmp_path, form)) == ["id", "v", "a", *(["b", "d"] if mariadb else ["c"]), "e"]
    found = sorted(tuple(row.values()) for row in form.read(tmp_path / "refused.t").to_pylist())
    assert found == sorted(sql("SELECT * FROM t"))


def test_a_column_that_only_the_log_has_is_left_out(url: str, sql: Sql, tmp_path: Path, form: Form) -> None:
    """MariaDB's DB_ROW_HASH_1 of a UNIQUE key over a TEXT is in inserts, and not in updates."""
    if "MariaDB" not in str(sql("SELECT VERSION()")[0][0]):
        pytest.skip("MySQL has no UNIQUE key over a TEXT")
    sql("ALTER TABLE t ADD s TEXT UNIQUE")
    mirrored(url, tmp_path, **form.settings)
    for change in (
        "INSERT INTO t VALUES (3, 3, 'x')",
        "UPDATE t SET v = 5",
        "UPDATE t SET s = 'y' WHERE id = 3",
    ):
        sql(change)
        (one,) = mirrored(url, tmp_path, **form.settings)
        assert one.stage == "following"
        assert list(columns_of(tmp_path, form)) == ["id", "v", "s"]
        rows = sorted(tuple(row.values()) for row in form.read(tmp_path / "refused.t").to_pylist())
        assert rows == sorted(sql("SELECT * FROM t"))


@pytest.mark.parametrize("mode", ["", "STRICT_TRANS_TABLES"])
def test_alters_that_keep_types_need_no_copy(
    mode: str, url: str, sql: Sql, tmp_path: Path, form: Form
) -> None:
    sql("ALTER TABLE t ADD s VARCHAR(9)")
    sql("UPDATE t SET s = 's'")
    mirrored(url, tmp_path, **form.settings)
    copied = state_of(tmp_path).exact_from
    sql(f"SET SESSION sql_mode = '{mode}'")
    for number, alter in enumerate(
        (
            "CHANGE v w INT",
            "CHANGE w w INT COMMENT 'x'",
            "MODIFY w INT DEFAULT 5",
            "MODIFY w INT AFTER s",
            "MODIFY s VARCHAR(9) NULL",
            "CHANGE s u VARCHAR(9) FIRST, CHANGE w v INT",
        )
    ):
        sql(f"ALTER TABLE t {alter}")
        sql(f"INSERT INTO t (id) VALUES ({10 + number})")
    (one,) = mirrored(url, tmp_path, **form.settings)
    assert (one.stage, state_of(tmp_path).exact_from) == ("following", copied)
    rows = form.read(tmp_path / "refused.t").to_pylist()
    found = sorted(((row["u"], row["id"], row["v"]) for row in rows), key=str)
    assert found == sorted(sql("SELECT u, id, v FROM t"), key=str)


def state_of(lake: Path) -> TableState:
    state = Lake(str(lake)).load()
    assert state is not None
    return state.tables["refused.t"]
