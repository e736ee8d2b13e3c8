"""What Spark shows of an error: the reason, after one frame."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from support.source import damaged, orders

from binlog_core import BinlogError, SchemaError
from binlog_core.spark.dataframe import changes_df
from binlog_core.spark.reasons import brief, spark_failure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def deep(depth: int, error: Exception) -> Iterator[int]:
    yield depth
    if depth:
        yield from deep(depth - 1, error)
    raise error from OSError("a cause")


@pytest.mark.parametrize(("error", "frames"), [(SchemaError("it is so"), 1), (TypeError("a mistake"), 5)])
def test_only_what_is_expected_is_brief(error: Exception, frames: int) -> None:
    """With the frame of the iteration itself; what is not expected keeps all, and its cause."""

    def read() -> Iterator[int]:
        with brief:
            yield from deep(3, error)

    found = []
    with pytest.raises(type(error)) as caught:
        for one in read():
            found.append(one)
    assert found == [3, 2, 1, 0]
    assert len(traceback.extract_tb(caught.value.__traceback__)) == 1 + frames
    assert (caught.value.__cause__ is None) == isinstance(error, BinlogError)
    shown = "".join(traceback.format_exception(caught.value))
    assert ("a cause" in shown) != isinstance(error, BinlogError)


def frames_of(error: Exception) -> list[str]:
    return [line for line in str(error).splitlines() if line.startswith("  File ")]


@pytest.mark.spark
def test_spark_shows_one_frame_before_the_reason(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "good").mkdir()
    good, (bad, _) = orders(tmp_path / "good"), damaged(tmp_path)
    with pytest.raises(Exception, match=r"they have rows of shop\.orders") as caught:
        spark.read.format("binlog").option("table", "shop.nothing").load(str(good))
    assert len(frames_of(caught.value)) == 1
    with pytest.raises(Exception, match=r"no logs|cannot be opened") as caught:
        spark.read.format("binlog").load(f"{tmp_path}/nothing").collect()
    assert len(frames_of(caught.value)) == 1
    kinds = "_change_type string"  # with it no log is read before the query
    for frame in (
        spark.read.format("binlog").option("table", "shop.orders").schema(kinds).load(str(bad)),
        changes_df(spark, bad, table="shop.orders", frame_schema=kinds),
    ):
        with pytest.raises(Exception, match=r"\(file .*offset \d+") as caught:
            frame.collect()
        assert len(frames_of(caught.value)) == 1


@pytest.mark.spark
def test_spark_can_show_the_reason_alone(spark: SparkSession, tmp_path: Path) -> None:
    setting = "spark.sql.execution.pyspark.udf.hideTraceback.enabled"
    spark.conf.set(setting, "true")
    try:
        with pytest.raises(Exception, match="they have rows") as caught:
            spark.read.format("binlog").option("table", "shop.nothing").load(str(orders(tmp_path)))
    finally:
        spark.conf.unset(setting)
    first = str(caught.value).splitlines()[0]
    assert "binlog_core.errors.SchemaError: no rows of this table in 1 logs" in first


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "Job aborted\nTraceback (most recent call last):\n  File x\n    y()\nValueError: bad\n\tat java",
            "ValueError: bad",
        ),
        ("\n  [NO_SPACE] the disk is full\nand more", "[NO_SPACE] the disk is full"),
        (
            "An error occurred while calling z:org.x.collect.\n: org.apache.SparkException: lost\n\tat java",
            "org.apache.SparkException: lost",
        ),
        ("An error occurred while calling o5.collect.", "An error occurred while calling o5.collect."),
        ("", "RuntimeError"),
    ],
)
def test_a_job_that_fails_is_reported_in_a_line(text: str, reason: str) -> None:
    error: Any = spark_failure(RuntimeError(text))
    assert str(error) == f"the Spark job failed: {reason}"
