"""``option("server", …)``: a stream over an archive that its driver keeps, against a server that writes."""

from __future__ import annotations

import pickle
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.server import SERVER, connect

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

import pyarrow as pa

from binlog_core import ArchiveError, AuthenticationError, PrivilegeError, SchemaError
from binlog_core.archive import archive
from binlog_core.archive.files import locked
from binlog_core.lake.rows.source_options import SourceOptions
from binlog_core.schema.given import Schema
from binlog_core.spark import read_changes, register
from binlog_core.spark.changes import ChangeReader, infer_schema
from binlog_core.spark.keeping import ArchiveKeeper, with_names
from binlog_core.spark.streaming import BinlogStreamReader

DATABASE, USER, PASSWORD = "kept", "keeper", "kept-in-no-plan"
_PATIENCE = 120.0


@pytest.fixture
def sql() -> Iterator[Callable[[str], Any]]:
    with connect() as connection, connection.cursor() as cursor:

        def run(statement: str) -> Any:
            cursor.execute(statement)
            return cursor.fetchall()

        for statement in (
            f"DROP DATABASE IF EXISTS {DATABASE}",
            f"DROP USER IF EXISTS {USER}@'%'",
            f"CREATE USER {USER}@'%' IDENTIFIED BY '{PASSWORD}'",
            f"GRANT REPLICATION SLAVE ON *.* TO {USER}@'%'",
            f"CREATE DATABASE {DATABASE}",
            f"USE {DATABASE}",
        ):
            run(statement)
        yield run
        run(f"DROP DATABASE IF EXISTS {DATABASE}")
        run(f"DROP USER IF EXISTS {USER}@'%'")


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "password"
    path.write_text(PASSWORD)
    return path


def _url() -> str:
    return re.sub(r"//.*@", f"//{USER}@", SERVER)


def _options(secret: Path) -> dict[str, str]:
    return {"server": _url(), "passwordFile": str(secret), "table": f"{DATABASE}.t"}


@pytest.mark.server
def test_a_stream_keeps_the_archive_that_it_reads(
    sql: Callable[[str], Any], secret: Path, tmp_path: Path, spark: Any
) -> None:
    folder, checkpoint = str(tmp_path / "archive"), str(tmp_path / "checkpoint")
    sql("CREATE TABLE t (id INT PRIMARY KEY, text VARCHAR(30))")
    sql("INSERT INTO t VALUES (1, 'one'), (2, 'two')")
    archive(SERVER, folder, until="now", start="now")  # not what other tests have written
    register(spark)
    batches: dict[int, list[Any]] = {}

    def start(**trigger: Any) -> Any:
        frame = spark.readStream.format("binlog").options(**_options(secret)).load(folder)
        writer = frame.writeStream.option("checkpointLocation", checkpoint).trigger(**trigger)
        return writer.foreachBatch(lambda batch, number: batches.update({number: batch.collect()})).start()

    def current() -> list[tuple[int, str]]:
        rows: dict[int, tuple[int, str]] = {}
        found = [row for number in sorted(batches) for row in batches[number]]
        places = [(row["_commit_version"], row["_change_ordinal"]) for row in found]
        assert len(set(places)) == len(places)
        for _, row in sorted(zip(places, found, strict=True)):
            if row["_change_type"] in ("insert", "update_postimage"):
                rows[row["id"]] = (row["id"], row["text"])
            else:
                rows.pop(row["id"], None)
        return sorted(rows.values())

    def wait(query: Any) -> None:
        wanted = sorted(sql("SELECT * FROM t"))
        until = time.monotonic() + _PATIENCE
        while current() != wanted:
            assert query.isActive, query.exception()
            assert time.monotonic() < until, (current(), wanted)
            time.sleep(0.05)

    query = start(processingTime="0 seconds")
    try:
        sql("INSERT INTO t VALUES (3, 'three')")
        sql("FLUSH BINARY LOGS")
        sql("UPDATE t SET text = 'zwei' WHERE id = 2")
        wait(query)
        plan = query._jsq.explainInternal(True)
    finally:
        query.stop()
    sql("DELETE FROM t WHERE id = 1")
    sql("FLUSH BINARY LOGS")
    query = start(processingTime="0 seconds")
    try:
        wait(query)
        sql("INSERT INTO t VALUES (4, 'four')")
        wait(query)
    finally:
        query.stop()
    sql("INSERT INTO t VALUES (5, 'five')")
    start(availableNow=True).awaitTermination()
    assert current() == sorted(sql("SELECT * FROM t")) != []
    kept = [path for path in Path(checkpoint).rglob("*") if path.is_file()]
    assert plan and any(path.stat().st_size for path in kept)  # an early stop leaves an empty one
    for text in (plan.encode(), *(path.read_bytes() for path in kept)):
        assert PASSWORD.encode() not in text
    secret.write_text("wrong-and-secret")
    with pytest.raises(AuthenticationError) as refused:
        read_changes(folder, table=f"{DATABASE}.t", server=_url(), password_file=secret)
    assert "wrong-and-secret" not in str(refused.value)


@pytest.mark.server
def test_a_reader_begins_an_archive_and_ends_with_its_query(
    sql: Callable[[str], Any], secret: Path, tmp_path: Path
) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY)")
    sql("INSERT INTO t VALUES (1)")
    options = SourceOptions.parse(_options(secret))
    folder = str(tmp_path / "archive")
    archive(SERVER, folder, until="now", start="now")
    schema = pa.schema([("id", pa.int32()), ("_commit_version", pa.int64())])
    reader = BinlogStreamReader(ChangeReader.of(options, schema, projected=True), [folder])
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    sql("INSERT INTO t VALUES (2)")
    until = time.monotonic() + _PATIENCE
    while end == (end := reader.latestOffset(end, reader.getDefaultReadLimit())):
        assert time.monotonic() < until
        time.sleep(0.05)
    other = ArchiveKeeper(options, [folder])
    with pytest.raises(ArchiveError, match="another archiver"), locked(folder):
        pass
    pickled = pickle.dumps(ChangeReader.of(options, schema, projected=True))
    assert PASSWORD.encode() not in pickled
    reader.stop()
    other.up_to_now()
    found = read_changes(
        folder, table=f"{DATABASE}.t", server=_url(), password_file=secret, metadata="_file"
    ).read_all()
    assert found["id"].to_pylist()[-2:] == [1, 2]


@pytest.mark.server
@pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")
def test_names_come_from_a_server_that_does_not_log_them(
    sql: Callable[[str], Any], secret: Path, tmp_path: Path
) -> None:
    [(_, before)] = sql("SHOW GLOBAL VARIABLES LIKE 'binlog_row_metadata'")
    sql("CREATE TABLE t (id INT UNSIGNED PRIMARY KEY, text VARCHAR(20) CHARACTER SET utf8mb4)")
    sql(f"GRANT SELECT ON {DATABASE}.* TO {USER}@'%'")
    options = SourceOptions.parse(_options(secret))
    try:
        sql("SET GLOBAL binlog_row_metadata = FULL")
        assert with_names(options) is options  # the logs have them
        sql("SET GLOBAL binlog_row_metadata = MINIMAL")
        sql("FLUSH BINARY LOGS")  # CREATE is in none that is read
        folder = str(tmp_path / "archive")
        archive(SERVER, folder, until="now", start="now")
        sql("INSERT INTO t VALUES (4000000000, 'eins')")
        archive(SERVER, folder, until="now")
        with pytest.raises(SchemaError, match='column names: schema="ddl" takes them from CREATE TABLE'):
            infer_schema([folder], options)
        assert infer_schema([folder], with_names(options)).names[:2] == ["id", "text"]
        found = read_changes(folder, table=f"{DATABASE}.t", server=_url(), password_file=secret).read_all()
    finally:
        sql(f"SET GLOBAL binlog_row_metadata = {before}")
    assert found.select(["id", "text"]).to_pylist() == [{"id": 4000000000, "text": "eins"}]


def test_a_user_who_sees_no_table_is_told_what_to_grant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("binlog_core.spark.keeping.server_names", lambda *_, **__: Schema())
    asked = {"server": "mysql://repl:secret@db1", "table": "shop.orders"}
    with pytest.raises(
        PrivilegeError, match=r"GRANT SELECT ON shop\.orders TO the user, or schema=\"ddl\""
    ) as told:
        with_names(SourceOptions(**asked))
    assert "secret" not in str(told.value)
    for found in ({"schema": "ddl"}, {"unnamed": "positions"}):
        options = SourceOptions(**asked, **found)
        assert with_names(options) is options


def test_the_archive_of_a_server_is_one_directory() -> None:
    options = SourceOptions.parse({"server": "mysql://root@db1"})
    for paths in (["a", "b"], ["a/bin.*"]):
        with pytest.raises(ValueError, match="expected one directory"):
            ArchiveKeeper(options, paths)
