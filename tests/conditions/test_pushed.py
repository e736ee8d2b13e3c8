"""Filters of others that become conditions."""

from __future__ import annotations

import pytest
from support.conditions import ORDERS
from support.decoded import conditions_asked

import binlog_core
from binlog_core import Column
from binlog_core._tables.column_types import Kind
from binlog_core.conditions.pushed import pushed_condition

pytestmark = [pytest.mark.sanitize, pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")]


@pytest.mark.parametrize(
    ("expression", "condition"),
    [
        ("(k == 2)", "`k` = 2"),
        ('((k == 2) and (v == "zz"))', "`k` = 2 and `v` = 'zz'"),
        ("((k != 2) and is_null(v, {nan_is_null=false}))", "`k` <> 2"),
        ("((w > 5) or (k == -1))", "(`w` > 5 or `k` = -1)"),
        ("((w > 5) or is_valid(k))", None),
        ("(((w > 5) or (k <= 1)) and (_server_id == 7))", "(`w` > 5 or `k` <= 1) and _server_id = 7"),
        ('(_change_type == "delete")', "_change_type = 'delete'"),
        ('(_change_type == "deleted")', None),
        ("invert((k == 2))", None),
        ("is_in(k, {value_set=int64:[\n  1\n]})", None),
        ('(v == "a\\"b")', None),
        ('(v == ") or (k")', "`v` = ') or (k'"),
        ('(bl == "78")', None),
        ("(k == 2.5)", None),
        ("(cast(k, {to_type=double}) == 2)", None),
        ("(k == w)", None),
        ("(nothing == 2)", None),
        ("k", None),
        ("((k == 2)", None),
    ],
)
def test_filters_that_become_conditions(expression: str, condition: str | None) -> None:
    with binlog_core.open(ORDERS) as log:
        columns = log.tables()["shop.uq"].columns
    assert pushed_condition(expression, columns) == condition
    assert pushed_condition(expression, [Column("k == 2) or (k", 0, 3, Kind.INT), *columns]) is None


@pytest.mark.parametrize(
    "sql",
    [
        "k = 2",
        "k = 2 and v = 'zz'",
        "k <> 2",
        "w > 5 or k = 1",
        "v = 'b' and w is not null and _change_type = 'update_preimage'",
        "w > 1 and v is not null",
        "v >= 'b'",
        "k = 99",
    ],
)
def test_a_query_asks_the_loop(sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("pyarrow")
    asked = conditions_asked(monkeypatch)
    with binlog_core.open(ORDERS) as log:
        every = binlog_core.read_table(log, "uq", change_columns="_change_type")
        pushed = binlog_core.dataset.changes(log, "uq")
        asked.clear()
        query = "select k, v, w, _change_type from {} where " + sql
        con = duckdb.connect()
        con.register("pushed", pushed)
        con.register("every", every)
        assert con.sql(query.format("pushed")).fetchall() == con.sql(query.format("every")).fetchall()
        assert all(asked)
        # What chooses changes by one of their images may choose rows by the other.
        con.register("chosen", binlog_core.dataset.changes(log, "uq", where="w = 10"))
        assert con.sql("select w from chosen where w = 1").fetchall() == [(1,)]
