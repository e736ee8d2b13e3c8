"""The current state of tables, from an export."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.golden import Golden, golden_logs
from support.writer import Log, Table

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")
from pyspark.sql import SparkSession  # noqa: E402

from binlog_core import (  # noqa: E402
    BinlogError,
)
from binlog_core.schema.table_statements import spelling_of  # noqa: E402
from binlog_core.spark import ReadOptions, export_logs  # noqa: E402
from binlog_core.spark.current import _concerning, write_current  # noqa: E402


def truth_of(golden: Golden, database: str, table: str, key: tuple[str, ...]) -> list[dict[str, Any]]:
    """The rows that the server's own changes leave, as it prints their values."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for change in golden.truth:
        if (change["db"], change["table"]) != (database, table):
            continue
        if change["before"] is not None:
            rows.pop(tuple(change["before"][name] for name in key), None)
        if change["after"] is not None:
            rows[tuple(change["after"][name] for name in key)] = change["after"]
    return list(rows.values())


@pytest.mark.parametrize("name", ["mysql97/dml_mixed", "maria118/dml_mixed"])
def test_current_tables_hold_against_the_server(spark: SparkSession, tmp_path: Path, name: str) -> None:
    (golden,) = golden_logs(name)
    options = ReadOptions(unnamed="positions", schema=golden.schema)
    export_logs(golden.path, tmp_path / "out", spark=spark, options=options, split_size=3000)
    manifest = json.loads((tmp_path / "out" / "_manifest.json").read_text())
    keys = {(t["database"], t["table"]): t["key"] for t in manifest["tables"]}
    tables = write_current(spark, tmp_path / "out", tmp_path / "now")
    told = 0
    for table in tables:
        key = keys[table.database, table.table]
        if not key:
            assert table.directory is None and "primary key" in (table.reason or "")
            continue
        assert table.reason is None
        wanted = truth_of(golden, table.database, table.table, tuple(key))
        found = spark.read.parquet(table.directory or "").toArrow().to_pylist()
        assert len(found) == len(wanted) == table.rows
        names = [name for name in found[0] if type(found[0][name]) in (int, str)] if found else []
        assert {tuple(str(row[n]) for n in names) for row in found} == {
            tuple(str(row[n]) for n in names) for row in wanted
        }
        told += len(found)
    assert told


def test_a_statement_is_about_the_table_of_its_spelling() -> None:
    """Where any table has capitals: such a server distinguishes names by case."""
    told: list[dict[str, Any]] = [
        {"database": None, "tables": ["d.T"]},
        {"database": None, "tables": ["d.t", "d.u"]},
        {"database": "D", "tables": []},
    ]
    assert _concerning(told, "d.t", spelling_of("d.t", "d.T")) == told[1:2]
    assert _concerning(told, "d.T", spelling_of("d.t", "d.T")) == told[:1]
    assert _concerning(told, "d.t", spelling_of("d.t", "d.u")) == told


def test_current_tables_after_statements(spark: SparkSession, tmp_path: Path) -> None:
    cleared, altered = (
        Table("d", "cleared", [("id", "INT"), ("n", "INT")], primary_key=["id"]),
        Table("d", "altered", [("id", "INT")], primary_key=["id"]),
    )
    renamed = Table("d", "renamed", [("id", "INT")], primary_key=["id"])
    files = Table("d", "files", [("id", "INT"), ("_file", "INT")], primary_key=["id"])
    keyed, other = (
        Table("d", "keyed", [("id", "INT"), ("n", "INT")], primary_key=key) for key in (["id"], ["n"])
    )
    log = Log("8.0.36")

    def insert(table: Table, *rows: dict[str, Any]) -> None:
        log.begin()
        log.insert(table, list(rows))
        log.commit()

    for table in (cleared, altered, renamed):
        insert(table, {"id": 1, "n": 1}, {"id": 2, "n": 2})
    log.query("TRUNCATE TABLE cleared", "d")
    log.query("ALTER TABLE altered ADD COLUMN more INT NOT NULL DEFAULT 7", "d")
    log.query("RENAME TABLE renamed TO other", "d")
    insert(cleared, {"id": 2, "n": 20})
    insert(files, {"id": 1, "_file": 1})
    insert(keyed, {"id": 1, "n": 1}, {"id": 2, "n": 1})
    log.begin()
    log.delete(keyed, [{"id": 2, "n": 1}])
    log.commit()
    log.query("DROP INDEX `PRIMARY` ON keyed", "d")
    log.query("CREATE UNIQUE INDEX n ON keyed (n)", "d")
    insert(other, {"id": 5, "n": 5})
    path = tmp_path / "bin.000001"
    path.write_bytes(log.getvalue())
    export_logs(path, tmp_path / "out", spark=spark)
    found = {table.table: table for table in write_current(spark, tmp_path / "out", tmp_path / "now")}

    def rows(name: str) -> list[dict[str, Any]]:
        return sorted(
            spark.read.parquet(found[name].directory or "").toArrow().to_pylist(), key=lambda row: row["id"]
        )

    assert rows("cleared") == [{"id": 2, "n": 20}]
    assert rows("altered") == [{"id": 1, "more": 7}, {"id": 2, "more": 7}]
    assert (found["keyed"].directory, found["keyed"].reason) == (None, "the primary key changed")
    assert (found["files"].directory, found["files"].rows) == (None, 0)
    assert "the column _file has the name of a change column" in (found["files"].reason or "")
    assert found["renamed"].directory is None and "rename" in (found["renamed"].reason or "")
    with pytest.raises(BinlogError, match="exists"):
        write_current(spark, tmp_path / "out", tmp_path / "now")
    with pytest.raises(BinlogError, match="no Parquet export"):
        write_current(spark, tmp_path, tmp_path / "elsewhere")
    # A directory that is an export, or a table of a lake, is not one to be replaced.
    before = {path: path.stat().st_size for path in (tmp_path / "out").rglob("*")}
    with pytest.raises(BinlogError, match=r"contains v1-.*, which no such table has"):
        write_current(spark, tmp_path / "out", tmp_path / "out", overwrite=True)
    assert {path: path.stat().st_size for path in (tmp_path / "out").rglob("*")} == before
    (tmp_path / "now" / "d.altered" / "_delta_log").mkdir()
    with pytest.raises(BinlogError, match="contains _delta_log, which no such table has"):
        write_current(spark, tmp_path / "out", tmp_path / "now", overwrite=True)
    (tmp_path / "now" / "d.altered" / "_delta_log").rmdir()
    found = {
        one.table: one for one in write_current(spark, tmp_path / "out", tmp_path / "now", overwrite=True)
    }
    assert rows("cleared") == [{"id": 2, "n": 20}]
