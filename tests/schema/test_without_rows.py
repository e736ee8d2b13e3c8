"""A table that has no rows takes its columns from a given schema: the same as its rows would have had."""

from __future__ import annotations

from typing import Any

import pytest
from support.golden import Golden, golden_logs
from support.writer import Log as LogWriter
from support.writer import Table

import binlog_core
from binlog_core import Limits, SchemaError
from binlog_core.schema.given import parse_create_table
from binlog_core.schema.without_rows import table_without_rows

pyarrow = pytest.importorskip("pyarrow")

ORDERS = "CREATE TABLE orders (id INT UNSIGNED PRIMARY KEY, note VARCHAR(20) CHARACTER SET utf8mb4)"
OTHER = "CREATE TABLE other (n BIGINT)"


@pytest.mark.parametrize("golden", [g for g in golden_logs() if "/types_" in g.name], ids=str)
def test_arrow_types_are_those_of_logged_rows(golden: Golden) -> None:
    """SHOW CREATE TABLE alone must give the types that the logged rows of every type have."""
    assert golden.schema is not None
    arguments = {**golden.open_arguments, "schema": golden.schema}
    with (
        binlog_core.open(golden.path, **arguments) as log,
        binlog_core.open(golden.path, **arguments, server_id=(1 << 32) - 1) as nothing,
    ):
        names = list(log.tables())
        assert names
        for name in names:
            rows = pyarrow.schema(log.batches(name).stream())
            assert nothing.batches(name).peek() is None
            assert pyarrow.schema(nothing.batches(name).stream()).equals(rows), name


def empty_log() -> bytes:
    log = LogWriter("8.0.36")
    log.begin()
    log.insert(Table("shop", "loud", [("id", "INT")]), [{"id": 1}])
    log.commit()
    return log.getvalue()


def given(**options: Any) -> Any:
    options.setdefault("schema", {"shop.orders": ORDERS, "shop.other": OTHER})
    return binlog_core.open(empty_log(), **options)


def test_streams_and_tables_have_the_columns() -> None:
    with given() as log:
        for table in (
            log.batches("shop.orders").to_arrow(),
            pyarrow.table(log.batches("shop.orders").stream()),
        ):
            assert table.num_rows == 0
            assert table.schema.names[:2] == ["id", "note"]
            assert table.schema.types[:2] == [pyarrow.uint32(), pyarrow.string()]
        some = log.batches("shop.orders", {"shop.orders": ["note"]}).to_arrow(change_columns=False)
        assert some.schema.names == ["note"]
        assert pyarrow.schema(log.batches("shop.orders").stream()).names[:2] == ["id", "note"]


def test_two_tables_have_no_columns_in_common() -> None:
    with given() as log, pytest.raises(SchemaError, match="columns are unknown"):
        log.batches(["shop.orders", "shop.other"]).to_arrow()
    unknown = "no row changes of shop.orders in .*, so its columns are unknown: give schema="
    with given(schema=None) as log, pytest.raises(SchemaError, match=unknown):
        log.batches("shop.orders").to_arrow()


def test_definitions_that_the_log_itself_tells() -> None:
    with given(schema="ddl", schema_start={"shop.orders": ORDERS}) as log:
        assert log.batches("shop.orders").to_arrow(change_columns=False).schema.names == ["id", "note"]


def test_read_table_and_dataset() -> None:
    import binlog_core.dataset

    with given() as log:
        table = binlog_core.read_table(log, "orders", change_columns=False)
        assert (table.num_rows, table.schema.names) == (0, ["id", "note"])
        dataset = binlog_core.dataset.changes(log, "shop.orders")
        assert dataset.to_table(columns=["note"]).schema.names == ["note"]
        with pytest.raises(SchemaError, match=r"near: shop\.orders"):
            binlog_core.read_table(log, "shop.order")


def test_sql() -> None:
    duckdb = pytest.importorskip("duckdb")
    import binlog_core.scans.duckdb as sql

    with given() as log:
        assert sql.query(log, "SELECT count(*), sum(id) FROM changes('shop.orders')").fetchall() == [
            (0, None)
        ]
        con = duckdb.connect()
        assert sql.register(con, log) == ["shop.loud", "shop.orders", "shop.other"]
        assert con.sql("FROM changes('other')").fetchall() == []


def test_a_name_of_its_own_means_the_table_that_has_rows() -> None:
    schema = {"shop.loud": "CREATE TABLE loud (id INT)", "past.loud": "CREATE TABLE loud (a INT, b INT)"}
    with given(schema=schema) as log:
        assert binlog_core.read_table(log, "loud", change_columns=False).to_pylist() == [{"id": 1}]
        assert binlog_core.read_table(log, "past.loud", change_columns=False).schema.names == ["a", "b"]


def test_a_large_schema_does_not_break_the_bound_of_columns() -> None:
    from binlog_core.scans.scans import find_tables

    with given(limits=Limits(sql_columns=3)) as log:
        assert list(find_tables(log)) == ["shop.loud", "shop.orders"]


def test_a_type_that_only_a_log_knows_gives_none() -> None:
    schema = parse_create_table("CREATE TABLE t (a INT, b XMLTYPE)", "d", "t")
    assert table_without_rows(schema, mariadb=True) is None
    known = parse_create_table("CREATE TABLE t (j JSON)", "d", "t")
    kinds = [table_without_rows(known, mariadb=mariadb).columns[0].kind.name for mariadb in (False, True)]
    assert kinds == ["JSON", "TEXT"]
