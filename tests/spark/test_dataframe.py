"""Logs as tables without a session: what the functions report before and while rows are read."""

from __future__ import annotations

from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from support.source import changed, orders, read  # noqa: E402

from binlog_core import SchemaError  # noqa: E402
from binlog_core._base.change_columns import LAKE_COLUMNS  # noqa: E402
from binlog_core.spark.dataframe import _projected, primary_key, read_changes, table_schema  # noqa: E402


def test_changes_come_in_the_order_of_the_logs(tmp_path: Path) -> None:
    paths = [orders(tmp_path, f"bin.{number:06}", 3) for number in (1, 2)]
    reader = read_changes(paths, table="shop.orders", split_size=500)
    assert reader.read_all().to_pylist() == read(paths, table="shop.orders")
    declared = pa.schema({"id": pa.int64(), "more": pa.string()})
    found = read_changes(str(paths[0]), table="shop.orders", frame_schema=declared).read_all()
    assert found.schema == declared
    assert found.to_pylist() == [{"id": i, "more": None} for i in range(6)]
    with pytest.raises(SchemaError, match="the column is int64, the schema has string") as caught:
        read_changes(paths, table="shop.orders", frame_schema=pa.schema({"_commit_version": pa.string()}))
    assert caught.value.column == "_commit_version"


def test_what_the_logs_tell_of_a_table(tmp_path: Path) -> None:
    path = changed(tmp_path)
    assert primary_key(path, "shop.orders") == ("id",)
    assert table_schema(path, "shop.orders").names == ["id", "text", *LAKE_COLUMNS]
    assert table_schema(path, "shop.orders", merge_schema=True).names == [
        "id",
        "text",
        "extra",
        *LAKE_COLUMNS,
    ]
    assert table_schema(path, "shop.orders")["id"].dataType.simpleString() == "int"


def test_columns_that_are_chosen_come_with_those_about_the_change() -> None:
    schema = pa.schema({"id": pa.int32(), "Text": pa.string(), "_change_type": pa.string()})
    assert _projected(schema, ["text"], "shop.t").names == ["Text", "_change_type"]
    assert _projected(schema, ["_change_type", "id"], "shop.t").names == ["_change_type", "id"]
    with pytest.raises(SchemaError, match="no such column; there are id, Text, _change_type") as caught:
        _projected(schema, ["number"], "shop.t")
    assert (caught.value.table, caught.value.column) == ("shop.t", "number")
