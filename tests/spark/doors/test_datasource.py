"""The `binlog` data source and `changes_df`: golden logs against the servers' truth, and written logs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from support.golden import Golden, golden_logs
from support.lake import LakeRow, lake_changes
from support.truth import Reader, differences
from support.writer import Log, Table

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from pyspark.sql import DataFrame, SparkSession  # noqa: E402

from binlog_core import BinlogError, SchemaError  # noqa: E402
from binlog_core._change_columns import LAKE_COLUMNS  # noqa: E402
from binlog_core.spark.doors.changes import ChangeReader, infer_schema  # noqa: E402
from binlog_core.spark.doors.dataframe import changes_df, register  # noqa: E402
from binlog_core.spark.doors.datasource import PruningReader  # noqa: E402
from binlog_core.spark.options import SourceOptions  # noqa: E402
from binlog_core.spark.plan.parts import plan_parts  # noqa: E402
from binlog_core.spark.rows.types import arrow_schema, spark_schema  # noqa: E402
from binlog_core.spark.session import quiet_java, start_session  # noqa: E402

GTIDS = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
ORDERS = Table("shop", "orders", [("id", "INT"), ("text", "VARCHAR(20)")], primary_key=["id"])
WIDER = Table(
    "shop", "orders", [("id", "INT"), ("text", "VARCHAR(20)"), ("extra", "DATE")], primary_key=["id"]
)
OTHER = Table("shop", "other", [("id", "INT")])


# ------------------------------------------------------------------ without Spark


def read(paths: Any, **options: str) -> list[dict[str, Any]]:
    """Rows as the workers make them, in the order of the log."""
    given = [str(path) for path in (paths if isinstance(paths, list) else [paths])]
    parsed = SourceOptions.parse(options)
    schema = arrow_schema(spark_schema(infer_schema(given, parsed)))
    reader = ChangeReader.of(parsed, schema, projected=False)
    rows: list[dict[str, Any]] = []
    for part in plan_parts(given, parsed):
        for batch in reader.read(part):
            batch.validate(full=True)
            assert batch.schema == schema
            rows += batch.to_pylist()
    return sorted(rows, key=lambda row: (row["_commit_version"], row["_change_ordinal"] or 0))


def tables_of(golden: Golden) -> set[str]:
    return {f"{truth['db']}.{truth['table']}" for truth in golden.truth}


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


def orders(tmp_path: Path, name: str = "bin.000007", count: int = 40) -> Path:
    log = Log("8.0.36")
    log.previous_gtids()
    for i in range(count):
        log.timestamp += 1
        log.gtid(GTIDS, i + 1)
        log.begin()
        log.insert(ORDERS, [{"id": 2 * i, "text": f"t{i}"}, {"id": 2 * i + 1, "text": None}])
        log.insert(OTHER, [{"id": i}])
        log.commit(xid=100 + i)
    path = tmp_path / name
    path.write_bytes(log.getvalue())
    return path


def test_every_plan_gives_the_same_rows_in_a_total_order(tmp_path: Path) -> None:
    path = orders(tmp_path)
    whole = read(path, table="shop.orders", metadata="full")
    assert len(whole) == 80
    assert [row["id"] for row in whole] == list(range(80))
    places = [(row["_commit_version"], row["_change_ordinal"]) for row in whole]
    assert len(set(places)) == 80
    assert {version >> 40 for version, _ in places} == {7}
    assert [row["_gtid"] for row in whole[::2]] == [f"{GTIDS}:{i + 1}" for i in range(40)]
    assert [row["_xid"] for row in whole[::2]] == [100 + i for i in range(40)]
    assert {row["_file"] for row in whole} == {str(path)}
    assert {row["_server_id"] for row in whole} == {1}
    for size in ("97", "777", "5k", "1m", "0"):
        assert read(path, table="shop.orders", metadata="full", splitSize=size) == whole
        walked = read(path, table="shop.orders", metadata="full", splitSize=size, verifySplits="true")
        assert walked == whole
    parts = plan_parts([str(path)], SourceOptions(split_size=777))
    assert len(parts) > 5
    assert all(a.split.end == b.split.start for a, b in pairwise(parts))


def test_file_numbers_and_epochs_order_logs(tmp_path: Path) -> None:
    path = orders(tmp_path, "plain.log", 1)
    assert read(path, table="shop.orders")[0]["_commit_version"] >> 40 == 1
    assert read(path, table="shop.orders", fileNumber="9")[0]["_commit_version"] >> 40 == 9
    assert (
        read(path, table="shop.orders", fileNumber="9", epoch="3")[0]["_commit_version"] >> 40
        == (3 << 16) + 9
    )
    with pytest.raises(BinlogError, match=r"with an epoch"):
        read(path, table="shop.orders", fileNumber="65536", epoch="1")


def test_times_and_offsets_cut(tmp_path: Path) -> None:
    path = orders(tmp_path)
    whole = read(path, table="shop.orders", metadata="_position")
    late = read(path, table="shop.orders", startTime="1700000011", endTime="2023-11-14T22:13:41")
    assert [row["id"] for row in late] == list(range(20, 40))
    offset = whole[30]["_commit_version"] & (1 << 40) - 1
    rest = read(path, table="shop.orders", startOffset=f"bin.000007:{offset}", metadata="_position")
    assert rest == whole[30:]
    as_json = json.dumps({"file": "bin.000007", "position": offset})
    assert read(path, table="shop.orders", startOffset=as_json, metadata="_position") == rest
    with pytest.raises(BinlogError, match=r"no log 'bin.000009'"):
        read(path, table="shop.orders", startOffset="bin.000009:4")


def partial(tmp_path: Path) -> Path:
    log = Log("8.0.36")
    log.begin()
    log.insert(ORDERS, [{"id": 1, "text": "a"}, {"id": 2, "text": "b"}])
    log.update(ORDERS, [({"id": 1}, {"text": "c"})], before_columns=["id"], after_columns=["text"])
    log.update(ORDERS, [({"id": 2}, {"id": 9})], before_columns=["id"], after_columns=["id"])
    log.delete(ORDERS, [{"id": 9}], columns=["id"])
    log.commit()
    path = tmp_path / "bin.000001"
    path.write_bytes(log.getvalue())
    return path


def told(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row["_change_type"], row["id"], row["text"], row["_absent"]) for row in rows]


def test_partial_images_say_what_they_lack(tmp_path: Path) -> None:
    path = partial(tmp_path)
    assert told(read(path, table="shop.orders")) == [
        ("insert", 1, "a", None),
        ("insert", 2, "b", None),
        ("update_preimage", 1, None, ["text"]),
        ("update_postimage", None, "c", ["id"]),
        ("update_preimage", 2, None, ["text"]),
        ("update_postimage", 9, None, ["text"]),
        ("delete", 9, None, ["text"]),
    ]
    assert told(read(path, table="shop.orders", images="after")) == [
        ("insert", 1, "a", None),
        ("insert", 2, "b", None),
        ("update_postimage", 1, "c", None),
        ("update_postimage", 9, None, ["text"]),
        ("delete", 9, None, ["text"]),
    ]
    assert told(read(path, table="shop.orders", images="keychange")) == [
        ("insert", 1, "a", None),
        ("insert", 2, "b", None),
        ("update_postimage", 1, "c", None),
        ("delete", 2, None, ["text"]),
        ("update_postimage", 9, None, ["text"]),
        ("delete", 9, None, ["text"]),
    ]
    assert "_absent" not in read(path, table="shop.orders", absent="false")[0]


def test_keychange_compares_text_by_its_bytes(tmp_path: Path) -> None:
    table = Table("d", "t", [("k", "VARCHAR(10)"), ("n", "INT")])
    log = Log("8.0.36")
    log.begin()
    pairs = [("ab", "ab"), ("ab", "ac"), ("ab", "abc"), (None, "x"), (None, None)]
    log.update(table, [({"k": a, "n": i}, {"k": b, "n": i + 10}) for i, (a, b) in enumerate(pairs)])
    log.commit()
    path = tmp_path / "bin.000001"
    path.write_bytes(log.getvalue())
    rows = read(path, table="d.t", images="keychange", keyColumns="k")
    assert [(row["_change_type"], row["n"]) for row in rows] == [
        ("update_postimage", 10),
        ("delete", 1),
        ("update_postimage", 11),
        ("delete", 2),
        ("update_postimage", 12),
        ("delete", 3),
        ("update_postimage", 13),
        ("update_postimage", 14),
    ]
    with pytest.raises(SchemaError, match=r"primary key"):
        read(path, table="d.t", images="keychange")


def changed(tmp_path: Path) -> Path:
    log = Log("8.0.36")
    log.begin()
    log.insert(ORDERS, [{"id": 1, "text": "a"}])
    log.commit()
    log.query("ALTER TABLE orders ADD extra DATE", "shop")
    log.begin()
    log.insert(
        WIDER, [{"id": 2, "text": "b", "extra": "2024-02-29"}, {"id": 3, "text": "c", "extra": "0000-00-00"}]
    )
    log.commit()
    log.query("TRUNCATE TABLE other", "shop")
    log.query("truncate orders", "shop")
    path = tmp_path / "bin.000001"
    path.write_bytes(log.getvalue())
    return path


def test_a_definition_that_changes(tmp_path: Path) -> None:
    path = changed(tmp_path)
    with pytest.raises(SchemaError, match=r"onSchemaChange=ignore") as caught:
        read(path, table="shop.orders")
    assert (caught.value.path, caught.value.column) == (str(path), "extra")
    assert caught.value.offset is not None
    assert [row["id"] for row in read(path, table="shop.orders", onSchemaChange="ignore")] == [1, 2, 3]
    rescued = read(path, table="shop.orders", onSchemaChange="rescue")
    assert [row["_rescued"] for row in rescued] == [None, '{"extra":"2024-02-29"}', '{"extra":"0000-00-00"}']
    merged = read(path, table="shop.orders", mergeSchema="true", onSchemaChange="rescue")
    assert [str(row["extra"]) for row in merged] == ["None", "2024-02-29", "None"]
    assert [row["_rescued"] for row in merged] == [None, None, '{"extra":"0000-00-00"}']


def test_values_that_a_column_cannot_hold_are_rescued(tmp_path: Path) -> None:
    table = Table("d", "t", [("id", "INT"), ("u", "BIGINT UNSIGNED"), ("at", "DATE"), ("f", "DOUBLE")])
    most, above = (1 << 63) - 1, (1 << 64) - 1
    log = Log("8.0.36")
    log.begin()
    log.insert(
        table,
        [
            {"id": 1, "u": most, "at": "2024-02-29", "f": 0.5},
            {"id": 1 << 15, "u": above, "at": "2024-02-00", "f": 0.25},
            {"id": None, "u": None, "at": None, "f": None},
        ],
    )
    log.commit()
    path = tmp_path / "bin.000001"
    path.write_bytes(log.getvalue())
    kinds = {"id": pa.int16(), "u": pa.int64(), "at": pa.date32(), "f": pa.float32(), "_rescued": pa.string()}
    options = SourceOptions.parse({"table": "d.t", "onSchemaChange": "rescue"})
    reader = ChangeReader.of(options, pa.schema(list(kinds.items())), projected=True)
    (part,) = plan_parts([str(path)], options)
    rows = [row for batch in reader.read(part) for row in batch.to_pylist()]
    assert [(row["id"], row["u"], str(row["at"]), row["f"]) for row in rows] == [
        (1, most, "2024-02-29", None),
        (None, None, "None", None),
        (None, None, "None", None),
    ]
    assert [json.loads(row["_rescued"] or "null") for row in rows] == [
        {"f": 0.5},
        {"id": 1 << 15, "u": str(above), "at": "2024-02-00", "f": 0.25},
        None,
    ]


def test_documents_as_variant(tmp_path: Path) -> None:
    from pyspark.sql.types import VariantType, VariantVal

    path = orders(tmp_path, count=3)
    options = SourceOptions.parse({"documents": "variant"})
    schema = spark_schema(infer_schema([str(path)], options))
    assert schema["after"].dataType == VariantType()
    rows = read(path, documents="variant")
    as_json = read(path)
    assert [VariantVal(**row["after"]).toJson() for row in rows] == [row["after"] for row in as_json]
    assert [row["before"] for row in rows] == [None] * 9
    with pytest.raises(ValueError, match=r"documents=variant"):
        SourceOptions.parse({"documents": "variant", "table": "shop.orders"})


def test_statements_between_rows(tmp_path: Path) -> None:
    path = changed(tmp_path)
    rows = read(path, table="shop.orders", onSchemaChange="ignore", ddl="rows")
    kinds = ["insert", "alter", "insert", "insert", "truncate"]
    assert [row["_change_type"] for row in rows] == kinds
    assert [row["_statement"] for row in rows if row["_statement"]] == [
        "ALTER TABLE orders ADD extra DATE",
        "truncate orders",
    ]
    with pytest.raises(SchemaError, match=r"ALTER TABLE") as caught:
        read(path, table="shop.orders", ddl="fail")
    assert caught.value.offset is not None


def damaged(tmp_path: Path) -> tuple[Path, int]:
    path = orders(tmp_path)
    position = read(path, table="shop.orders", metadata="_position")[20]["_position"]
    data = bytearray(path.read_bytes())
    data[position + 25] ^= 0xFF
    path.write_bytes(data)
    return path, position


def test_damage_by_mode(tmp_path: Path) -> None:
    path, position = damaged(tmp_path)
    with pytest.raises(BinlogError) as caught:
        read(path, table="shop.orders")
    assert (caught.value.path, caught.value.offset) == (str(path), position)
    dropped = read(path, table="shop.orders", onError="skip")
    assert [row["id"] for row in dropped] == [i for i in range(80) if i not in (20, 21)]
    permissive = read(path, table="shop.orders", onError="rows", metadata="_position")
    (corrupt,) = (row for row in permissive if row["_corrupt"])
    told = json.loads(corrupt["_corrupt"])
    assert (told["file"], told["offset"], corrupt["_position"]) == (str(path), position, position)
    assert corrupt["id"] is None
    assert len(permissive) == 79
    everything = read(path, onError="rows")
    assert [row["_corrupt"] is None for row in everything].count(False) == 1


def test_all_tables_as_json(tmp_path: Path) -> None:
    path = partial(tmp_path)
    rows = read(path)
    got = [
        (row["_change_type"], json.loads(row["before"] or "null"), json.loads(row["after"] or "null"))
        for row in rows
    ]
    assert got == [
        ("insert", None, {"id": 1, "text": "a"}),
        ("insert", None, {"id": 2, "text": "b"}),
        ("update", {"id": 1}, {"text": "c"}),
        ("update", {"id": 2}, {"id": 9}),
        ("delete", {"id": 9}, None),
    ]
    assert {(row["_database"], row["_table"]) for row in rows} == {("shop", "orders")}
    assert [row["_change_ordinal"] for row in rows] == [0, 1, 2, 4, 6]
    after = [json.loads(row["after"] or "null") for row in read(path, images="after")]
    assert after[2] == {"id": 1, "text": "c"}
    both = orders(tmp_path, "bin.000002", 3)
    assert len(read(both, tables="shop.ot*")) == 3
    assert len(read([path, both])) == 14


@pytest.mark.parametrize(
    "options, message",
    [
        ({"tabel": "a.b"}, r"'tabel' is unknown: table\?"),
        ({"table": "orders"}, "database.table"),
        ({"table": "a.b", "images": "last"}, "images='last': both, after, keychange are known"),
        ({"table": "a.b", "splitSize": "many"}, "splitSize='many': expected a number of bytes"),
        ({"table": "a.b", "startTime": "yesterday"}, "ISO 8601"),
        ({"table": "a.b", "startOffset": "12"}, "FILE:POSITION"),
        ({"table": "a.b", "onError": "LENIENT"}, "raise, skip, rows"),
        ({"table": "a.b", "epoch": "128"}, "0 to 127"),
        ({"images": "keychange"}, "need option table"),
        ({"table": "a.b", "tables": "c.*"}, "one of them"),
    ],
)
def test_wrong_options(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SourceOptions.parse(options)


def test_a_table_that_no_log_has(tmp_path: Path) -> None:
    with pytest.raises(
        SchemaError, match=r"no rows of this table in 1 logs; they have rows of shop.orders, shop.other"
    ):
        read(orders(tmp_path), table="shop.missing")


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
    assert list(reader.pushFilters(pushed)) == pushed  # Spark still applies them
    partitions = reader.partitions()
    assert len(partitions) < everything / 2
    got = {row["id"] for part in partitions for batch in reader.read(part) for row in batch.to_pylist()}
    wanted = {row["id"] for row in rows if first < row["_commit_version"] <= last}
    assert wanted <= got


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


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with quiet_java() as said:
        session = start_session("local[2,2]", app_name="tests")
    yield session
    session.stop()
    os.unlink(said)


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
    with pytest.raises(Exception, match=r"images='last': both, after, keychange are known"):
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


def filtered(path: Path, filters: list[Any], **options: str) -> tuple[list[dict[str, Any]], ChangeReader]:
    """Rows as the workers make them after Spark handed filters over, and how they are read."""
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
    # A preimage that comes as a delete is none in the log.
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


CONNECT = """
import sys
from pyspark.sql import SparkSession
from binlog_core.spark.doors.dataframe import changes_df, register
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
