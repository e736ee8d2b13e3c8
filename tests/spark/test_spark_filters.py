"""Filters that Spark passes: they leave out rows, but never one that is wanted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.writer import Log, Table

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from support.source import OTHER, orders, read  # noqa: E402

from binlog_core.lake.rows.source_options import SourceOptions  # noqa: E402
from binlog_core.spark.changes import ChangeReader, infer_schema  # noqa: E402
from binlog_core.spark.datasource import PruningReader  # noqa: E402
from binlog_core.spark.schemas import arrow_schema, spark_schema  # noqa: E402

pytestmark = pytest.mark.oldest_spark


def test_filters_leave_out_parts(tmp_path: Path) -> None:
    filters = pytest.importorskip("pyspark.sql.datasource")
    if not hasattr(filters, "GreaterThan"):
        pytest.skip("Spark 4.0 does not push filters into a Python source")
    path = orders(tmp_path)
    rows = read(path, table="shop.orders")
    options = SourceOptions.parse({"table": "shop.orders", "splitSize": "500"})
    schema = arrow_schema(spark_schema(infer_schema([str(path)], options)))
    reader = PruningReader(ChangeReader.of(options, schema, projected=False), [str(path)])
    everything = len(reader.partitions())
    first, last = rows[20]["_commit_version"], rows[40]["_commit_version"]
    version = ("_commit_version",)
    pushed = [filters.GreaterThan(version, first), filters.LessThanOrEqual(version, last)]
    assert list(reader.pushFilters(pushed)) == pushed  # Spark applies them again
    partitions = reader.partitions()
    assert len(partitions) < everything / 2
    got = {row["id"] for part in partitions for batch in reader.read(part) for row in batch.to_pylist()}
    wanted = {row["id"] for row in rows if first < row["_commit_version"] <= last}
    assert wanted <= got


def filtered(path: Path, filters: list[Any], **options: str) -> tuple[list[dict[str, Any]], ChangeReader]:
    """Rows as the workers make them after Spark passed filters, and how they are read."""
    parsed = SourceOptions.parse({"table": "shop.orders", "splitSize": "700", **options})
    schema = arrow_schema(spark_schema(infer_schema([str(path)], parsed)))
    reader = PruningReader(ChangeReader.of(parsed, schema, projected=False), [str(path)])
    assert list(reader.pushFilters(filters)) == filters, "Spark is to apply each"
    rows = [row for one in reader.partitions() for batch in reader.read(one) for row in batch.to_pylist()]
    return rows, reader._changes


VERSIONS = Table(
    "shop", "orders", [("id", "INT"), ("text", "VARCHAR(20)"), ("state", "ENUM('new','paid')")],
    primary_key=["id"],
)  # fmt: skip


def states(tmp_path: Path) -> Path:
    log = Log("8.0.36")
    for i in range(60):
        log.timestamp += 1
        log.begin()
        log.insert(OTHER, [{"id": i}])
        old = {"id": i, "text": f"t{i % 7}", "state": 1}
        log.insert(VERSIONS, [old, old | {"id": 100 + i, "text": None, "state": 2}])
        log.update(VERSIONS, [(old, old | {"text": "a%b"})])
        log.commit(xid=100 + i)
    path = tmp_path / "bin.000001"
    path.write_bytes(log.getvalue())
    return path


def test_filters_choose_rows_in_the_loop_and_numbers_stay(tmp_path: Path) -> None:
    """Row for row, with its `_change_ordinal`, what a filter of all rows gives."""
    import datetime as dt

    from pyspark.sql import datasource as ds

    path = states(tmp_path)
    every, _ = filtered(path, [])
    moment = every[90]["_commit_timestamp"]
    assert moment.tzinfo is not None
    assert isinstance(moment, dt.datetime)
    cases: list[tuple[list[Any], Any]] = [
        ([ds.EqualTo(("id",), 7)], lambda r: r["id"] == 7),
        ([ds.GreaterThan(("ID",), 150), ds.IsNotNull(("id",))], lambda r: r["id"] > 150),
        ([ds.In(("id",), (3, 4, 1000))], lambda r: r["id"] in (3, 4)),
        ([ds.Not(ds.In(("id",), (3, 4)))], lambda r: r["id"] not in (3, 4)),
        ([ds.EqualTo(("text",), "t3")], lambda r: r["text"] == "t3"),
        ([ds.Not(ds.EqualTo(("text",), "t3"))], lambda r: r["text"] not in (None, "t3")),
        ([ds.StringStartsWith(("text",), "a%")], lambda r: (r["text"] or "").startswith("a%")),
        ([ds.StringEndsWith(("text",), "_b")], lambda r: False),
        ([ds.StringContains(("text",), "%")], lambda r: "%" in (r["text"] or "")),
        ([ds.EqualTo(("state",), "paid")], lambda r: r["state"] == "paid"),
        ([ds.LessThan(("id",), 5), ds.EqualTo(("state",), "new")], lambda r: r["id"] < 5),
        ([ds.EqualTo(("_change_type",), "insert")], lambda r: r["_change_type"] == "insert"),
        ([ds.GreaterThanOrEqual(("_commit_timestamp",), moment)], lambda r: r["_commit_timestamp"] >= moment),
    ]  # fmt: skip
    for filters, wanted in cases:
        rows, changes = filtered(path, filters)
        assert changes.reading.pushed is not None, filters
        assert len(rows) < len(every), filters
        assert [row for row in rows if wanted(row)] == [row for row in every if wanted(row)], filters
    left = [
        [ds.IsNull(("text",))],
        [ds.EqualNullSafe(("text",), None)],
        [ds.Not(ds.EqualNullSafe(("text",), "t3"))],
        [ds.EqualTo(("_change_ordinal",), 3)],
        [ds.EqualTo(("text", "part"), "t3")],
    ]
    for filters in left:
        assert filtered(path, filters)[0] == every, filters


@pytest.mark.parametrize(
    "options",
    [
        {"where": "text is not null"},
        {"ddl": "rows"},
        {"textErrors": "replace"},
        {"images": "keychange"},
    ],
)
def test_filters_that_could_lose_rows_are_left_to_spark(tmp_path: Path, options: dict[str, str]) -> None:
    from pyspark.sql import datasource as ds

    path = states(tmp_path)
    # A preimage that is returned as a delete is not a delete in the log.
    rows, _ = filtered(path, [ds.EqualTo(("_change_type",), "delete")], **options)
    assert rows == filtered(path, [], **options)[0]


def test_a_filter_holds_for_definitions_that_it_fits(tmp_path: Path) -> None:
    """A column that came later is null before, and one that was text then is not compared as a number."""
    from pyspark.sql import datasource as ds

    log = Log("8.0.36")
    for columns, row in (
        ([("id", "INT")], {"id": 1}),
        ([("id", "INT"), ("c", "BIGINT")], {"id": 2, "c": 5}),
        ([("id", "INT"), ("c", "VARCHAR(9)")], {"id": 3, "c": "7"}),
    ):
        log.begin()
        log.insert(Table("shop", "orders", columns, primary_key=["id"]), [row, row | {"id": row["id"] + 10}])
        log.commit(xid=1)
    path = tmp_path / "bin.000001"
    path.write_bytes(log.getvalue())
    parsed = SourceOptions.parse({"table": "shop.orders", "onSchemaChange": "ignore"})
    wanted = pa.schema({"id": pa.int32(), "c": pa.int64(), "_change_ordinal": pa.int64()})
    for value, found in ((5, [(2, 5), (12, 5)]), (7, [])):
        reader = PruningReader(ChangeReader.of(parsed, wanted, projected=True), [str(path)])
        list(reader.pushFilters([ds.EqualTo(("c",), value)]))
        rows = [row for one in reader.partitions() for batch in reader.read(one) for row in batch.to_pylist()]
        assert [(row["id"], row["c"]) for row in rows if row["c"] == value] == found
