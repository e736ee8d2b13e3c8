"""Spark's own MERGE into a Delta or Iceberg table, where the session may have the jars.

``BINLOG_CORE_TEST_SPARK_PACKAGES=io.delta:delta-spark_4.1_2.13:4.4.0``, or
``org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0``, of the Spark at hand, runs it: by itself, since
a process has one session.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from support import sparks
from support.golden import DATA
from support.lake_tables import plain
from support.named import NAMES, partial_images

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from pyspark.sql import SparkSession  # noqa: E402

from binlog_core.lake.plan.parts import plan_parts  # noqa: E402
from binlog_core.lake.rows.source_options import SourceOptions  # noqa: E402
from binlog_core.spark import apply_changes  # noqa: E402
from binlog_core.spark.changes import ChangeReader, infer_schema  # noqa: E402
from binlog_core.spark.merge_target import SparkTarget, literal  # noqa: E402
from binlog_core.spark.schemas import arrow_schema, spark_schema  # noqa: E402

PACKAGES = os.environ.get("BINLOG_CORE_TEST_SPARK_PACKAGES", "")
USING = "iceberg" if "iceberg" in PACKAGES else "delta"


def test_literals() -> None:
    assert literal(None) == "NULL"
    assert literal(bytes((0, 255))) == "X'00ff'"
    assert literal(Decimal("-1.50")) == "'-1.50'"
    assert literal("it's \\ é\n") == "'it\\u0027s \\u005c é\\u000a'"
    assert literal(7) == "'7'"


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    sparks.stop()
    warehouse = str(tmp_path_factory.mktemp("warehouse"))
    conf = {
        **({"spark.jars.packages": PACKAGES} if PACKAGES else {}),
        "spark.sql.warehouse.dir": warehouse,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.ui.enabled": "false",
    }
    if PACKAGES and USING == "delta":
        conf["spark.sql.extensions"] = "io.delta.sql.DeltaSparkSessionExtension"
        conf["spark.sql.catalog.spark_catalog"] = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        conf["spark.databricks.delta.snapshotPartitions"] = "1"
        conf["spark.databricks.delta.properties.defaults.enableTypeWidening"] = "true"
    if USING == "iceberg":
        extensions = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
        conf["spark.sql.extensions"] = extensions
        conf["spark.sql.catalog.lake"] = "org.apache.iceberg.spark.SparkCatalog"
        conf["spark.sql.catalog.lake.type"] = "hadoop"
        conf["spark.sql.catalog.lake.warehouse"] = warehouse
    builder = SparkSession.builder.master("local[2]")
    for name, value in conf.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.mark.spark
def test_two_targets_at_once_do_not_interfere(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each MERGE waits until the other has begun; then the test sees what each would read and commit."""
    both = threading.Barrier(2, timeout=60)
    seen: dict[str, tuple[list[int], str]] = {}
    real = SparkSession.sql

    def sql(session: SparkSession, text: str, **arguments: Any) -> Any:
        if not text.startswith("MERGE"):
            return real(session, text, **arguments)
        both.wait()
        words = text.split()
        rows = session.table(words[words.index("USING") + 1]).toArrow().column("id").to_pylist()
        seen[words[2]] = (rows, session.conf.get("spark.databricks.delta.write.txnAppId"))
        both.wait()
        return None

    for name in ("first", "second"):
        spark.sql(f"CREATE TABLE {name} (id INT) USING parquet")
    monkeypatch.setattr(SparkSession, "sql", sql)

    def write(name: str, number: int) -> None:
        change = {"id": [number], "_change_type": ["insert"], "_commit_version": [1], "_change_ordinal": [0]}
        batch = pa.table({**change, "id": pa.array([number], pa.int32())})
        target = SparkTarget(spark, name, using="delta")
        monkeypatch.setattr(target, "applied", lambda app_id: None)
        apply_changes(batch, target, key_columns=["id"], app_id=name, batch_id=1, without_statements=True)

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(write, ("first", "second"), (1, 2)))
    assert seen == {"first": ([1], "first"), "second": ([2], "second")}
    assert spark.conf.get("spark.databricks.delta.write.txnAppId", None) is None


@pytest.mark.spark
def test_columns_of_any_names_are_completed(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here MERGE, of which the format's own jars make a commit, replaces the table's only row."""
    real = SparkSession.sql

    def sql(session: SparkSession, text: str, **arguments: Any) -> Any:
        if not text.startswith("MERGE"):
            return real(session, text, **arguments)
        words = text.split()
        merged = session.table(words[words.index("USING") + 1]).toArrow()
        assert merged.num_rows == 1
        assert f"INSERT ({', '.join(f'`{name}`' for name in NAMES)})" in text
        session.createDataFrame(merged.select(list(NAMES))).write.insertInto("named", overwrite=True)
        return None

    batches, row = partial_images()
    types = ", ".join(f"`{name}` INT" for name in NAMES)
    spark.sql(f"CREATE TABLE named ({types}) USING parquet")
    monkeypatch.setattr(SparkSession, "sql", sql)
    for batch in batches[:4]:
        target = SparkTarget(spark, "named")
        apply_changes(batch, target, key_columns=["id"], without_statements=True)
    expected = {**dict.fromkeys(NAMES, 1), **{name: row[name] for name in NAMES[1:4]}}
    assert spark.table("named").toArrow().to_pylist() == [expected]


@pytest.mark.spark
def test_a_target_is_where_the_session_is(spark: SparkSession) -> None:
    spark.sql("CREATE DATABASE elsewhere")
    spark.sql("USE elsewhere")
    spark.conf.set("spark.sql.catalog.some", "kept")
    try:
        spark.sql("CREATE TABLE here (id INT) USING parquet")
        assert SparkTarget(spark, "here", using="parquet").columns.names == ["id"]
        assert SparkTarget(spark, "here")._spark.conf.get("spark.sql.catalog.some") == "kept"
    finally:
        spark.conf.unset("spark.sql.catalog.some")
        spark.sql("USE default")


@pytest.mark.spark
@pytest.mark.skipif(
    not PACKAGES, reason="no jars of Delta or Iceberg: BINLOG_CORE_TEST_SPARK_PACKAGES names them"
)
def test_the_table_is_what_the_server_had_after_each_log(spark: SparkSession) -> None:
    folder: Path = DATA / "apply" / "maria118"
    table = "t" if USING == "delta" else "lake.d.t"
    logs: list[str] = []
    for number, (name, state) in enumerate(json.loads((folder / "truth.json").read_text())["states"].items()):
        logs.append(str(folder / name))
        given = {"table": "w.t", "ddl": "rows", "absent": "true", "mergeSchema": "true"}
        parsed = SourceOptions.parse(given)
        schema = arrow_schema(spark_schema(infer_schema(logs, parsed)))
        reader = ChangeReader.of(parsed, schema, projected=False)
        parts = plan_parts(logs[-1:], parsed)
        batch = pa.Table.from_batches([b for part in parts for b in reader.read(part)], schema)
        arguments: dict[str, Any] = {"on_drop": "empty", "app_id": "w", "batch_id": number}
        apply_changes(batch, SparkTarget(spark, table, using=USING), **arguments)
        assert apply_changes(batch, SparkTarget(spark, table, using=USING), **arguments).skipped
        rows = spark.table(table).toArrow().to_pylist()
        rows.sort(key=lambda row: (row["id"], row["k"]))
        assert [plain({name: row[name] for name in state[0]}) for row in rows] == state
