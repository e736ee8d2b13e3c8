"""followDdl: names from the statements of logs that have no names, wherever a part begins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.golden import Golden, golden_logs
from support.writer import Log, Table

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from binlog_core import SchemaError
from binlog_core.spark.changes import ChangeReader, infer_schema
from binlog_core.spark.dataframe import primary_key
from binlog_core.spark.datasource import arrow_schema
from binlog_core.spark.options import SourceOptions
from binlog_core.spark.planning import plan_parts
from binlog_core.spark.schema import spark_schema
from binlog_core.spark.streaming import BinlogStreamReader

OLD = Table("shop", "t", [("id", "INT"), ("a", "VARCHAR(20)")])
NEW = Table("shop", "t", [("b", "VARCHAR(20)"), ("id", "INT")])
SILENT = [
    golden for golden in golden_logs("*/ddl*") if golden.meta["settings"].get("binlog_row_metadata") != "FULL"
]


def reader_of(paths: list[str], **options: str) -> ChangeReader:
    parsed = SourceOptions.parse({"followDdl": "true", "mergeSchema": "true", **options})
    return ChangeReader.of(parsed, arrow_schema(spark_schema(infer_schema(paths, parsed))), projected=False)


def read(paths: list[str], **options: str) -> list[dict[str, Any]]:
    reader = reader_of(paths, **options)
    parts = plan_parts(paths, reader.options)
    rows = [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: (row["_commit_version"], row["_change_ordinal"]))


@pytest.mark.parametrize("size", ["250", "1m"])
@pytest.mark.parametrize("golden", SILENT, ids=str)
def test_rows_have_the_names_that_the_server_gave_them(golden: Golden, size: str) -> None:
    tables = {(truth["db"], truth["table"]) for truth in golden.truth}
    checked = 0
    for database, name in tables:
        truths = [t for t in golden.truth if (t["db"], t["table"]) == (database, name)]
        try:
            rows = read([str(golden.path)], table=f"{database}.{name}", splitSize=size, images="after")
        except SchemaError as error:
            assert "names of the columns" in str(error) or "in one definition" in str(error)
            continue
        assert len(rows) == len(truths)
        for row, truth in zip(rows, truths, strict=True):
            for column, value in (truth["after"] or truth["before"]).items():
                if isinstance(value, int | str | None) and isinstance(row[column], int | str | None):
                    assert str(row[column]) == str(value)
                    checked += 1
    assert checked > 20


def history(folder: Path) -> list[str]:
    """Two logs without names; the second begins with another definition and changes nothing itself."""
    log = Log("8.0.36")
    log.query("CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(255)) CHARSET ascii", "shop")
    for number in range(5):
        log.begin()
        log.table_map(OLD, with_metadata=False)
        log.insert(OLD, [{"id": number, "a": "x"}], mapped=True)
        log.commit()
    log.query("ALTER TABLE t CHANGE a b VARCHAR(255) FIRST", "shop")
    rows = [log]
    rows.append(Log("8.0.36"))
    for log in rows:
        for number in range(5):
            log.begin()
            log.table_map(NEW, with_metadata=False)
            log.insert(NEW, [{"b": "y", "id": 10 + number}], mapped=True)
            log.commit()
    for number, log in enumerate(rows, 1):
        (folder / f"bin.{number:06}").write_bytes(log.getvalue())
    return sorted(str(path) for path in folder.iterdir())


WANTED = [
    *((number, "x", None) for number in range(5)),
    *((10 + number, None, "y") for number in (*range(5), *range(5))),
]


@pytest.mark.parametrize("size", ["150", "1m"])
def test_a_definition_goes_from_log_to_log(tmp_path: Path, size: str) -> None:
    paths = history(tmp_path)
    rows = read(paths, table="shop.t", splitSize=size)
    assert [(row["id"], row["a"], row["b"]) for row in rows] == WANTED
    as_json = read(paths, splitSize=size)
    assert [row["after"] for row in as_json][::14] == ['{"id":0,"a":"x"}', '{"b":"y","id":14}']
    late = read(paths, table="shop.t", splitSize=size, startOffset="bin.000002:4")
    assert [(row["id"], row["b"]) for row in late] == [(10 + number, "y") for number in range(5)]
    assert primary_key(paths, "shop.t", follow_ddl=True) == ("id",)


def test_the_beginning_may_be_given(tmp_path: Path) -> None:
    paths = history(tmp_path)[1:]
    with pytest.raises(SchemaError, match=r"names of the columns"):
        read(paths, table="shop.t")
    definition = tmp_path / "start.sql"
    definition.write_text("CREATE TABLE shop.t (b VARCHAR(255), id INT PRIMARY KEY) CHARSET ascii;")
    rows = read(paths, table="shop.t", schemaFile=str(definition))
    assert [row["id"] for row in rows] == list(range(10, 15))


@pytest.mark.parametrize("restarts", [False, True])
def test_a_stream_follows(tmp_path: Path, restarts: bool) -> None:
    paths = history(tmp_path)
    changes = reader_of(paths, table="shop.t", maxBytesPerTrigger="1")
    stream = BinlogStreamReader(changes, [str(tmp_path)])
    offset, rows = stream.initialOffset(), []
    while (end := stream.latestOffset(offset, stream.getDefaultReadLimit())) != offset:
        if restarts:
            stream = BinlogStreamReader(changes, [str(tmp_path)])
        for partition in stream.partitions(offset, end):
            for records in stream.read(partition):
                rows += [(row["id"], row["a"], row["b"]) for row in records.to_pylist()]
        offset = end
    assert rows == WANTED
