"""The `binlog` data source and `changes_df`: golden logs against the servers' truth, and written logs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.golden import Golden, full_name, golden_logs
from support.lake import LakeRow, lake_changes
from support.truth import Reader, differences

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from pyspark.sql import DataFrame, SparkSession  # noqa: E402
from support.source import GTIDS, damaged, orders, read  # noqa: E402

from binlog_core._base.change_columns import LAKE_COLUMNS  # noqa: E402
from binlog_core.spark.dataframe import changes_df, register  # noqa: E402

pytestmark = pytest.mark.oldest_spark

# ------------------------------------------------------------------ without Spark


def tables_of(golden: Golden) -> set[str]:
    return {full_name(truth["db"], truth["table"]) for truth in golden.truth}


ONE_TABLE = [
    golden
    for golden in golden_logs("m*/*", max_bytes=200_000)
    if golden.truth
    and len(tables_of(golden)) == 1
    and len(golden.definitions) == 1
    and not golden.needs_schema
    and golden.keys is None
]


@pytest.mark.parametrize("golden", ONE_TABLE, ids=str)
@pytest.mark.parametrize("size", ["700", "20k"])
def test_rows_hold_against_the_server_under_every_split_plan(golden: Golden, size: str) -> None:
    (table,) = tables_of(golden)
    rows = read(golden.path, table=table, unnamed="positions", absent="false", splitSize=size)
    found = [LakeRow(*table.split(".", 1), row, *(row.pop(name) for name in LAKE_COLUMNS)) for row in rows]
    assert differences(lake_changes(found, golden), golden, golden.known, Reader.ARROW, place=False) == []


def test_the_module_that_spark_finds_is_light() -> None:
    code = (
        "import sys, pyspark_binlog\n"
        "heavy = {'numpy', 'pyarrow', 'pyspark', 'binlog_core'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "sys.modules['pyspark'] = None\n"
        "assert not hasattr(pyspark_binlog, 'DefaultSource')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# ------------------------------------------------------------------ Spark


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.orderBy("_commit_version", "_change_ordinal").collect()]


def source(spark: SparkSession, path: Any, **options: str) -> DataFrame:
    return spark.read.format("binlog").options(**options).load(str(path))


@pytest.mark.spark
def test_spark_finds_the_source_and_it_gives_the_rows(spark: SparkSession, tmp_path: Path) -> None:
    path = orders(tmp_path)
    frame = source(spark, path, table="shop.orders", splitSize="800")
    assert frame.columns == ["id", "text", *LAKE_COLUMNS]
    assert [(f.name, f.dataType.simpleString()) for f in frame.schema] == [
        ("id", "int"),
        ("text", "string"),
        ("_change_type", "string"),
        ("_commit_version", "bigint"),
        ("_commit_timestamp", "timestamp"),
        ("_change_ordinal", "bigint"),
    ]
    found = rows_of(frame)
    expected = read(path, table="shop.orders")
    for row in expected:
        row["_commit_timestamp"] = row["_commit_timestamp"].astimezone().replace(tzinfo=None)
    assert [{**row, "_commit_timestamp": None} for row in found] == [
        {**row, "_commit_timestamp": None} for row in expected
    ]
    assert frame.rdd.getNumPartitions() > 3
    assert rows_of(changes_df(spark, path, table="shop.orders", split_size="800")) == found


@pytest.mark.spark
def test_a_schema_is_a_projection(spark: SparkSession, tmp_path: Path) -> None:
    path = orders(tmp_path)
    reading = spark.read.format("binlog").option("table", "shop.orders")
    frame = reading.schema("ID bigint, _gtid string, _change_type string").load(str(path))
    rows = sorted(tuple(row) for row in frame.collect())
    assert rows[0] == (0, f"{GTIDS}:1", "insert")
    assert [row[0] for row in rows] == list(range(80))
    with pytest.raises(Exception, match=r"no definition in the logs has the columns nothing") as caught:
        reading.schema("id int, nothing string").load(str(path)).collect()
    assert "id, text" in str(caught.value)
    with pytest.raises(Exception, match=r"int32 in the log, which does not fit int16.*offset \d+.*column id"):
        reading.schema("id smallint").load(str(path)).collect()
    with pytest.raises(Exception, match=r"the schema has string.*_commit_version"):
        reading.schema("id int, _commit_version string").load(str(path)).collect()
    frame = changes_df(spark, path, table="shop.orders", columns=["text"])
    assert frame.columns == ["text", *LAKE_COLUMNS]
    assert frame.where("text is not null").count() == 40


@pytest.mark.spark
def test_what_the_user_sees_when_it_fails(spark: SparkSession, tmp_path: Path) -> None:
    path, position = damaged(tmp_path)
    with pytest.raises(Exception, match=rf"wrong checksum.*file {path}, offset {position}"):
        source(spark, path, table="shop.orders").collect()
    with pytest.raises(Exception, match=r"images='last': expected one of both, after, keychange"):
        source(spark, path, table="shop.orders", images="last")
    with pytest.raises(Exception, match=r"no rows of this table in 1 logs"):
        source(spark, orders(tmp_path), table="shop.missing")
    with pytest.raises(Exception, match=r"(?i)no such file"):
        source(spark, tmp_path / "missing.000001", table="shop.orders")


@pytest.mark.spark
def test_a_log_that_is_deleted_between_plan_and_reading(spark: SparkSession, tmp_path: Path) -> None:
    for number in (1, 2):
        orders(tmp_path, f"bin.00000{number}")
    frame = changes_df(spark, tmp_path, table="shop.orders")
    (tmp_path / "bin.000002").unlink()
    out = tmp_path / "out"
    with pytest.raises(Exception, match=r"(?is)no such file.*bin\.000002"):
        frame.write.parquet(str(out))
    assert not list(out.glob("*.parquet"))


@pytest.mark.spark
def test_pushed_filters_views_and_register(spark: SparkSession, tmp_path: Path) -> None:
    path = orders(tmp_path)
    register(spark)
    version = read(path, table="shop.orders")[40]["_commit_version"]
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = source(spark, path, table="shop.orders", splitSize="500", pushFilters="true")
        assert frame.where(f"_commit_version >= {version}").count() == 40
        chosen = frame.where("id in (7, 8, 9) and text like 't%'").select("id", "_change_ordinal").collect()
        assert [tuple(row) for row in chosen] == [(8, 0)]
        (moment,) = {row["_commit_timestamp"].isoformat() for row in read(path, table="shop.orders")}
        assert frame.where(f"_commit_timestamp >= timestamp'{moment}'").count() == 80
        assert frame.where(f"_commit_timestamp > timestamp'{moment}'").count() == 0
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    spark.sql(f"CREATE TEMPORARY VIEW v USING binlog OPTIONS (path '{path}', table 'shop.orders')")
    assert spark.sql("SELECT max(id) FROM v").first()[0] == 79


CONNECT = """
import sys
from pyspark.sql import SparkSession
from binlog_core.spark.dataframe import changes_df, register
from binlog_core.spark.java import ensure_java
ensure_java()
spark = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false").getOrCreate()
frame = changes_df(spark, sys.argv[1], table="shop.orders", split_size="800")
print("changes_df", frame.count(), frame.agg({"id": "sum"}).first()[0])
frame = spark.read.format("binlog").option("table", "shop.orders").load(sys.argv[1])
print("source", frame.count())
from binlog_core.spark import ReadOptions, export_logs
options = ReadOptions(tables=("shop.orders",))
print("export", export_logs(sys.argv[1], sys.argv[2], spark=spark, options=options, split_size=800).rows)
spark.stop()
"""


@pytest.mark.spark
def test_spark_connect(tmp_path: Path) -> None:
    pytest.importorskip("grpc")
    done = subprocess.run(
        [sys.executable, "-c", CONNECT, str(orders(tmp_path)), str(tmp_path / "out")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        timeout=120,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith(("changes_df", "source", "export"))]
    assert lines == [f"changes_df 80 {sum(range(80))}", "source 80", "export 80"], done.stderr[-3000:]


NOT_ACTIVATED = """
import sys
from binlog_core.spark import changes_df, register
from binlog_core.spark.java import ensure_java
from pyspark.sql import SparkSession
ensure_java()
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
register(spark)
source = spark.read.format("binlog").option("table", "shop.orders").load(sys.argv[1])
print("source", source.count())
print("changes_df", changes_df(spark, sys.argv[1], table="shop.orders").count())
spark.stop()
"""


@pytest.mark.spark
def test_python_of_an_environment_that_is_not_activated(tmp_path: Path) -> None:
    """The first python3 of PATH, which Spark starts, is another one that has no libraries."""
    (tmp_path / "python3").write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')
    (tmp_path / "python3").chmod(0o755)
    path = os.pathsep.join((str(tmp_path), os.environ["PATH"]))
    done = subprocess.run(
        [sys.executable, "-c", NOT_ACTIVATED, str(orders(tmp_path))],
        capture_output=True,
        text=True,
        check=False,
        env={name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"} | {"PATH": path},
        timeout=240,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith(("changes_df", "source"))]
    assert lines == ["source 80", "changes_df 80"], done.stderr[-3000:]
