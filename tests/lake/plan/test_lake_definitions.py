"""schema=ddl: names from the statements of logs that have no names, wherever a part begins."""

from __future__ import annotations

import base64
import json
import zlib
from collections import deque
from pathlib import Path
from typing import Any

import pytest
from support.golden import Golden, full_name, golden_logs
from support.writer import Log, Table

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

import pyarrow as pa
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes
from support.workers import PicklingRunner

from binlog_core import BinlogError, SchemaError
from binlog_core.lake.access import Access
from binlog_core.lake.plan import definitions
from binlog_core.lake.plan.definitions import from_text, to_text
from binlog_core.lake.plan.parts import plan_parts, timeline_of
from binlog_core.lake.rows.source_options import SourceOptions
from binlog_core.schema import definition_texts
from binlog_core.schema.ddl import DdlTracker
from binlog_core.schema.given import parse_create_table
from binlog_core.spark.changes import ChangeReader, infer_schema
from binlog_core.spark.dataframe import primary_key
from binlog_core.spark.schemas import arrow_schema, spark_schema
from binlog_core.spark.streaming import BinlogStreamReader

OLD = Table("shop", "t", [("id", "INT"), ("a", "VARCHAR(20)")])
NEW = Table("shop", "t", [("b", "VARCHAR(20)"), ("id", "INT")])
SILENT = [
    golden for golden in golden_logs("*/ddl*") if golden.meta["settings"].get("binlog_row_metadata") != "FULL"
]


def reader_of(paths: list[str], **options: str) -> ChangeReader:
    parsed = SourceOptions.parse({"schema": "ddl", "mergeSchema": "true", **options})
    return ChangeReader.of(parsed, arrow_schema(spark_schema(infer_schema(paths, parsed))), projected=False)


def read(paths: list[str], **options: str) -> list[dict[str, Any]]:
    reader = reader_of(paths, **options)
    reader = reader.following(timeline_of(paths, reader.options, PicklingRunner()))
    parts = plan_parts(paths, reader.options, PicklingRunner())
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
            rows = read([str(golden.path)], table=full_name(database, name), splitSize=size, images="after")
        except SchemaError as error:
            assert "column names" in str(error) or "in one definition" in str(error)
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
    assert primary_key(paths, "shop.t", schema="ddl") == ("id",)


def test_the_beginning_may_be_given(tmp_path: Path) -> None:
    paths = history(tmp_path)[1:]
    with pytest.raises(SchemaError, match=r"column names"):
        read(paths, table="shop.t")
    definition = tmp_path / "start.sql"
    definition.write_text("CREATE TABLE shop.t (b VARCHAR(255), id INT PRIMARY KEY) CHARSET ascii;")
    rows = read(paths, table="shop.t", schemaStart=str(definition))
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


SWAPPED = Table("shop", "t", [("a", "INT"), ("b", "INT")])  # the log has no names


def stream_of(folder: Path, schema: Any, **options: str) -> BinlogStreamReader:
    """As a restart makes it."""
    parsed = SourceOptions.parse({"schema": "ddl", "table": "shop.t", **options})
    return BinlogStreamReader(ChangeReader.of(parsed, schema, projected=False), [str(folder)])


def test_a_restart_behind_a_purged_alter_knows_it(tmp_path: Path) -> None:
    """qty and price change places in the first log; the second has rows only, and is all that is left."""
    folder, definition = tmp_path / "logs", tmp_path / "start.sql"
    folder.mkdir()
    definition.write_text("CREATE TABLE shop.t (qty INT, price INT);")

    def row(log: Log, first: int, second: int) -> None:
        log.begin()
        log.table_map(SWAPPED, with_metadata=False)
        log.insert(SWAPPED, [{"a": first, "b": second}], mapped=True)
        log.commit()

    one, two = Log("8.0.36"), Log("8.0.36")
    row(one, 3, 300)
    one.query("ALTER TABLE t MODIFY price INT FIRST", "shop")
    head = two.position
    row(two, 400, 4)
    (folder / "bin.000001").write_bytes(one.getvalue())
    schema = pa.schema([("qty", pa.int32()), ("price", pa.int32())])
    stream = stream_of(folder, schema, schemaStart=str(definition))
    start = stream.initialOffset()
    end = stream.latestOffset(start, ReadAllAvailable())
    assert rows_between(stream, start, end) == [{"qty": 3, "price": 300}]
    (folder / "bin.000002").write_bytes(two.getvalue()[:head])  # a new log, nothing in it yet
    checkpoint = json.loads(json.dumps(stream.latestOffset(end, ReadAllAvailable())))
    assert (checkpoint["file"], checkpoint["position"]) == ("bin.000002", head)
    (folder / "bin.000002").write_bytes(two.getvalue())
    (folder / "bin.000001").unlink()
    restarted = stream_of(folder, schema, schemaStart=str(definition))
    last = restarted.latestOffset(checkpoint, ReadAllAvailable())
    assert rows_between(restarted, checkpoint, last) == [{"qty": 4, "price": 400}]
    # And the batch itself may be asked for again.
    again = stream_of(folder, schema, schemaStart=str(definition))
    assert rows_between(again, checkpoint, json.loads(json.dumps(last))) == [{"qty": 4, "price": 400}]


def rows_between(
    stream: BinlogStreamReader, start: dict[str, Any], end: dict[str, Any]
) -> list[dict[str, Any]]:
    return [
        row
        for partition in stream.partitions(start, end)
        for records in stream.read(partition)
        for row in records.to_pylist()
    ]


def test_a_stream_that_began_without_it_is_refused(tmp_path: Path) -> None:
    paths = history(tmp_path)
    parsed = SourceOptions.parse({"table": "shop.t", "unnamed": "positions"})
    reader = ChangeReader.of(parsed, pa.schema([("c0", pa.int32())]), projected=False)
    plain = BinlogStreamReader(reader, [str(tmp_path)])
    start = plain.initialOffset()
    end = plain.latestOffset(start, ReadAllAvailable())
    following = BinlogStreamReader(reader_of(paths, table="shop.t"), [str(tmp_path)])
    with pytest.raises(BinlogError, match="began without schema=ddl"):
        following.partitions(start, end)
    with pytest.raises(BinlogError, match="definitions cannot be read"):
        following.partitions({**start, "definitions": "e30="}, end)


def test_a_restart_reads_no_log_before_its_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = history(tmp_path)
    for number in (3, 4, 5):
        (tmp_path / f"bin.{number:06}").write_bytes((tmp_path / "bin.000002").read_bytes())
    changes = reader_of(paths, table="shop.t", xa="committed")
    stream = BinlogStreamReader(changes, [str(tmp_path)])
    offset = stream.initialOffset()
    while offset["file"] != "bin.000004":
        offset = stream.latestOffset(offset, ReadMaxBytes(100))
    opened: list[str] = []
    real = Access.file

    def file(access: Access, path: str) -> Any:
        opened.append(Path(path).name)
        return real(access, path)

    monkeypatch.setattr(Access, "file", file)
    for available_now in (False, True):
        restarted = BinlogStreamReader(changes, [str(tmp_path)])
        if available_now:
            restarted.prepareForTriggerAvailableNow()
        end = restarted.latestOffset(offset, ReadAllAvailable())
        assert restarted.partitions(offset, end)
        assert restarted.reportLatestOffset() == {name: end[name] for name in ("file", "position")}
    assert set(opened) == {"bin.000004", "bin.000005"}


def test_definitions_as_text() -> None:
    tracker = DdlTracker()
    for sql in (
        "CREATE DATABASE shop CHARSET latin1",
        "CREATE TABLE shop.a (id INT UNSIGNED PRIMARY KEY, d DECIMAL(9), e ENUM('x','ü') NOT NULL UNIQUE)",
        "CREATE TABLE shop.b LIKE shop.a",
        "CREATE TABLE shop.`c \udcff` (t TIMESTAMP(6) NULL, p POINT SRID 4326 INVISIBLE, s SET('a'), j JSON)",
    ):
        tracker.apply_statement("shop", sql, mariadb=False)
    again = from_text(to_text(tracker))
    assert list(again) and sorted(again, key=repr) == sorted(tracker, key=repr)
    assert to_text(again) == to_text(tracker)
    for one in (tracker, again):
        one.apply_statement("shop", "CREATE TABLE d (name CHAR(10))", mariadb=False)
    assert again.definition("shop", "d") == tracker.definition("shop", "d")
    assert again.definition("shop", "d").columns[0].charset == "latin1"  # type: ignore[union-attr]


def test_definitions_that_are_a_bomb(monkeypatch: pytest.MonkeyPatch) -> None:
    """Right as they are, behind spaces: only their length is too much."""
    known = zlib.decompress(base64.b64decode(to_text(DdlTracker([]))))
    bomb = base64.b64encode(zlib.compress(b" " * (1 << 20) + known)).decode()
    monkeypatch.setattr(definition_texts, "_LONGEST_TEXT", 1 << 20)
    with pytest.raises(BinlogError, match="definitions cannot be read"):
        from_text(bomb)
    monkeypatch.setattr(definition_texts, "_LONGEST_TEXT", 2 << 20)
    assert [*from_text(bomb)] == []


def test_a_text_that_was_just_read_or_written_is_read_as_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a mirror's rounds ask for again and again is kept, and no tracker changes another."""
    monkeypatch.setattr(definitions, "_written", deque(maxlen=4))
    table = parse_create_table("CREATE TABLE t (id INT PRIMARY KEY, s ENUM('a', 'b'))", "shop", "t")
    text = to_text(DdlTracker([table], database_charsets={"shop": "latin1"}))
    for _ in range(2):
        tracker = from_text(text, lower_case=True)
        assert (tracker.lower_case, [*tracker]) == (True, [table])
        assert tracker.database_charsets == {"shop": "latin1"}
        assert to_text(tracker) == text
        tracker.apply_statement("shop", "ALTER TABLE t ADD v INT")
        tracker.database_charsets["other"] = "utf8mb4"
        later = to_text(tracker)
        assert later != text
        assert [len(one.columns) for one in from_text(later)] == [3]
        definitions._written.clear()  # another process
        assert from_text(later).database_charsets == {"other": "utf8mb4", "shop": "latin1"}
