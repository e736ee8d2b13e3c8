"""Plans as rows: one a partition, whatever the session, and nothing of the plan in what all tasks get."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from pyspark import cloudpickle  # noqa: E402
from support.source import orders  # noqa: E402
from support.writer import Log, Table  # noqa: E402

from binlog_core.lake.plan.parts import plan_parts, timeline_of  # noqa: E402
from binlog_core.lake.rows.source_options import SourceOptions  # noqa: E402
from binlog_core.spark import changes, dataframe, datasource  # noqa: E402
from binlog_core.spark.changes import ChangeReader, infer_schema  # noqa: E402
from binlog_core.spark.dataframe import _reading, changes_df, splits_df  # noqa: E402
from binlog_core.spark.plan_rows import one_row_each, tasks_frame, tasks_of  # noqa: E402
from binlog_core.splits import Split, plan_splits  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_partition_with_two_rows_or_none() -> None:
    rows = pa.record_batch({"place": [8, 7], "task": [cloudpickle.dumps(n) for n in ("b", "a")]})
    more = pa.record_batch({"place": [3], "task": [cloudpickle.dumps(Split("bin.000001"))]})
    assert list(tasks_of([rows, more])) == [(3, Split("bin.000001")), (7, "a"), (8, "b")]
    assert list(tasks_of([])) == []


@pytest.mark.parametrize("options", [{}, {"schema": "ddl"}], ids=["named", "ddl"])
def test_what_all_tasks_get_does_not_grow_with_the_plan(tmp_path: Path, options: dict[str, str]) -> None:
    paths, sizes = [str(orders(tmp_path, count=400))], []
    for size in ("1m", "100"):
        parsed = SourceOptions.parse({"table": "shop.orders", "splitSize": size, **options})
        reader = ChangeReader.of(parsed, infer_schema(paths, parsed), projected=False)
        reader = reader.following(timeline_of(paths, parsed))
        parts = reader.wanted(plan_parts(paths, parsed))
        sizes.append((len(parts), len(cloudpickle.dumps(_reading(reader)))))
        assert max(len(cloudpickle.dumps(part)) for part in parts) < 500
    (few, small), (many, large) = sizes
    assert many > 500 * few
    assert large < small + 100


@pytest.mark.parametrize("way", ["read_changes", "reader", "pruning"])
def test_a_log_that_comes_while_statements_are_followed(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not read: its statements were not followed, so that its rows would have the names of before."""
    one = Table("d", "t", [("id", "INT"), ("body", "INT")], metadata=None)

    def write(number: int, statement: str) -> None:
        log = Log("8.0.36")
        log.query(statement, "d")
        log.begin()
        log.insert(one, [{"id": number, "body": number}])
        log.commit()
        (tmp_path / f"bin.00000{number}").write_bytes(log.getvalue())

    write(1, "CREATE TABLE t (id INT, body INT)")

    def followed(*arguments: Any) -> Any:
        found = timeline_of(*arguments)
        write(2, "ALTER TABLE t RENAME COLUMN body TO note")
        return found

    monkeypatch.setattr(changes, "timeline_of", followed)
    options = {"table": "d.t", "schema": "ddl"}
    if way == "read_changes":
        rows = dataframe.read_changes(tmp_path, **options).read_all().to_pylist()  # type: ignore[arg-type]
    else:
        pushing = {"pushFilters": "true"} if way == "pruning" else {}
        source = datasource.BinlogDataSource({"path": str(tmp_path), **options, **pushing})
        reader = source.reader(source.schema())
        assert len(cloudpickle.dumps(reader)) < 4000 and cloudpickle.loads(cloudpickle.dumps(reader))
        found = [batch for part in reader.partitions() for batch in reader.read(part)]
        rows = [row for batch in found for row in batch.to_pylist()]
    assert [(row["id"], row["body"]) for row in rows] == [(1, 1)]


@pytest.mark.spark
def test_each_partition_has_one_row_in_its_order(spark: SparkSession, tmp_path: Path) -> None:
    def seen(rows: Iterator[Any]) -> Iterator[Any]:
        found = [place for batch in rows for place in batch.column(0).to_pylist()]
        yield pa.record_batch({"found": [str(found)]})

    for count in (1, 40):
        frame = tasks_frame(spark, [f"task {i}" for i in range(count)])
        assert [row[0] for row in frame.mapInArrow(seen, "found string").collect()] == [
            f"[{i}]" for i in range(count)
        ]
    empty = one_row_each(spark, pa.table({"n": pa.array([], pa.int64())}))
    assert empty.collect() == []
    path = orders(tmp_path, count=20)
    splits = plan_splits([str(path)], 999)
    frame = splits_df(spark, path, 999)
    assert [Split(**row.asDict()) for row in frame.collect()] == splits
    assert frame.rdd.getNumPartitions() == len(splits)
    rows = changes_df(spark, path, table="shop.orders", split_size="999").collect()
    assert [row["id"] for row in rows] == list(range(40))


@pytest.mark.spark
def test_spark_gives_each_task_no_more_of_a_large_plan(spark: SparkSession) -> None:
    def given(count: int) -> int:
        """Bytes of what Spark itself sends with each task, besides its partition."""
        rows = tasks_frame(spark, range(count))._jdf.queryExecution().toRdd()
        utils: Any = spark.sparkContext._jvm.org.apache.spark.util.Utils  # type: ignore[union-attr]
        return len(utils.serialize(rows))

    assert given(2_000) < given(20) + 1_000
