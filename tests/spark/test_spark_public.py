"""The public names of ``binlog_core.spark``, and functions that have no test file."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.golden import DATA
from support.writer import Log, Table

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

import pyarrow as pa
from pyspark.sql import SparkSession

import binlog_core
import binlog_core.spark
from binlog_core import BinlogError, ConditionError
from binlog_core.spark import (
    Split,
    changes_df,
    plan_splits,
    read_changes,
    read_split,
    splits_df,
    table_schema,
)

pytestmark = pytest.mark.oldest_spark

ROOT = Path(__file__).resolve().parents[2]
LOGS = str(DATA / "apply" / "maria118")


def test_docs_use_public_names_only() -> None:
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    used: set[str] = set()
    for page in pages:
        text = page.read_text("utf-8")
        assert not re.findall(r"from binlog_core\.spark\.(?!mirror )\S+ import", text), page
        for names in re.findall(r"from binlog_core\.spark import (.+)", text):
            used.update(name.strip() for name in names.split(","))
    assert used
    assert used <= set(binlog_core.spark.__all__)
    assert all(hasattr(binlog_core.spark, name) for name in binlog_core.spark.__all__)


def test_splits_and_a_schema_for_a_function_of_ones_own(spark: SparkSession) -> None:
    splits = plan_splits(LOGS, 2000)
    frame = splits_df(spark, LOGS, 2000)
    assert [Split(**row.asDict()) for row in frame.collect()] == splits
    assert frame.rdd.getNumPartitions() == len(splits)
    schema = table_schema(LOGS, "w.t")
    (_, first) = next(read_split(splits[0], tables="w.t"))
    assert schema.names == first.schema.names
    with pytest.raises(BinlogError, match="no rows of this table"):
        table_schema(LOGS, "w.nothing")


def test_splits_of_logs_without_names(spark: SparkSession, tmp_path: Path) -> None:
    """Each split is read by itself: what it does not say of the definitions nobody tells it."""
    for number, columns in enumerate((("id", "a"), ("b", "id")), 1):
        log = Log("8.0.36")
        if number == 1:
            log.query("CREATE TABLE t (id INT PRIMARY KEY, a INT)", "shop")
        table = Table("shop", "t", [(name, "INT") for name in columns], metadata=None)
        for value in range(4):
            log.begin()
            log.insert(table, [dict.fromkeys(columns, value)])
            log.commit()
        if number == 1:
            log.query("ALTER TABLE t CHANGE a b INT FIRST", "shop")
        (tmp_path / f"bin.{number:06}").write_bytes(log.getvalue())

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                for _, found in read_split(Split(**row), schema="ddl"):
                    texts = [json.dumps(one) for one in found.select([0, 1]).to_pylist()]
                    yield pa.record_batch({"row": texts})

    frame = splits_df(spark, tmp_path, 200, schema="ddl")
    assert frame.rdd.getNumPartitions() > 5
    found = [json.loads(row["row"]) for row in frame.mapInArrow(rows, "row string").collect()]
    assert found == [
        *({"id": value, "a": value} for value in range(4)),
        *({"b": value, "id": value} for value in range(4)),
    ]
    assert {row["definitions"] for row in splits_df(spark, tmp_path, 200).collect()} == {None}
    given = {"shop.t": "CREATE TABLE t (c INT, d INT)"}
    (tmp_path / "bin.000001").unlink()
    (row,) = splits_df(spark, tmp_path, schema="ddl", schema_start=given).collect()
    ((_, batch),) = read_split(Split(**row.asDict()), schema="ddl")
    assert batch.schema.names[:2] == ["c", "d"]


def test_changes_without_a_session_are_those_of_the_dataframe(spark: SparkSession) -> None:
    found = read_changes(LOGS, table="w.t", merge_schema=True, split_size="3k")
    rows = found.read_all().to_pylist()
    frame = changes_df(spark, LOGS, table="w.t", merge_schema=True)
    order = ["_commit_version", "_change_ordinal"]
    assert frame.orderBy(*order).toArrow().to_pylist() == sorted(
        rows, key=lambda row: [row[name] for name in order]
    )
    walked = changes_df(
        spark,
        LOGS,
        table="w.t",
        schema="ddl",
        xa="committed",
        merge_schema=True,
        verify_splits=True,
        split_size="3k",
    )
    assert walked.orderBy(*order).toArrow().to_pylist() == frame.orderBy(*order).toArrow().to_pylist()
    narrow = read_changes(LOGS, table="w.t", frame_schema=found.schema.remove(1).remove(0))
    assert narrow.read_all().num_rows == len(rows)


def test_only_changes_that_match_a_condition(spark: SparkSession) -> None:
    every = read_changes(LOGS, table="w.t", merge_schema=True).read_all().to_pylist()
    deletes = read_changes(LOGS, table="w.t", merge_schema=True, where="_change_type = 'delete'")
    versions = sorted(row["_commit_version"] for row in every if row["_change_type"] == "delete")
    assert sorted(row["_commit_version"] for row in deletes.read_all().to_pylist()) == versions != []
    frame = changes_df(spark, LOGS, table="w.t", merge_schema=True, where="_change_type = 'delete'")
    assert sorted(row["_commit_version"] for row in frame.collect()) == versions
    splits = plan_splits(LOGS, 3000)
    parts = [batch for split in splits for _, batch in read_split(split, tables="w.t", where="id is null")]
    assert parts == []
    with pytest.raises(ConditionError, match="does not have the column 'nothing'"):
        read_changes(LOGS, table="w.t", where="nothing = 1")
    with pytest.raises(ValueError, match="option where='id =': expected a number"):
        read_changes(LOGS, table="w.t", where="id =")


def test_the_package_needs_no_library_to_be_imported() -> None:
    code = "import sys; sys.modules.update(pyspark=None, pyarrow=None); import binlog_core.spark"
    subprocess.run([sys.executable, "-c", code], check=True)
