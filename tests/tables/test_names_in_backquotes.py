"""A table's name may have backquotes around each part, or not, wherever a table is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.cli import run
from support.writer import Log, Table

import binlog_core
import binlog_core.duckdb
from binlog_core.inspect.history import history, row_as_of
from binlog_core.lake.rows.source_options import SourceOptions
from binlog_core.scans.dataset import changes

pytestmark = [pytest.mark.sanitize_long, pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")]

# database, table, and ways to write both
TABLES = [
    ("shop", "orders", ["shop.orders", "`shop`.`orders`", "shop.`orders`", "`shop`.orders"]),
    ("shop", "or.ders", ["shop.`or.ders`", "`shop`.`or.ders`"]),
    ("sh.op", "orders", ["`sh.op`.orders", "`sh.op`.`orders`"]),
    ("shop", "o`r", ["shop.o`r", "`shop`.`o``r`"]),
]
NAMES = [(database, table, name) for database, table, names in TABLES for name in names]
COLUMNS: Any = [("id", "INT", {"null": False}), ("a", "INT")]


def log_of(database: str, table: str) -> bytes:
    """Two rows of the table, and one of another."""
    log = Log("8.4.0", checksum=False)
    log.begin()
    log.insert(Table(database, table, COLUMNS, primary_key=["id"]), [{"id": 1, "a": 1}, {"id": 2, "a": 2}])
    log.insert(Table("other", "t", COLUMNS, primary_key=["id"]), [{"id": 3, "a": 3}])
    log.commit()
    quoted = ".".join("`" + one.replace("`", "``") + "`" for one in (database, table))
    log.query(f"TRUNCATE TABLE {quoted}", database)
    log.rotate()
    return log.getvalue()


def rows(data: bytes, **options: Any) -> list[Any]:
    with binlog_core.open(data) as log:
        return [(change.after or {}).get("id") for change in log.rows(**options)]


def left_out(data: bytes, name: str) -> int:
    with binlog_core.open(data, exclude_tables=name) as log:
        return 3 - len(list(log.rows()))


def queried(data: bytes, name: str) -> int:
    with binlog_core.open(data) as log:
        text = name.replace("'", "''")
        [(count,)] = binlog_core.duckdb.query(log, f"SELECT count(*) FROM changes('{text}')").fetchall()
        return int(count)


def from_dataset(data: bytes, name: str) -> int:
    with binlog_core.open(data) as log:
        return int(changes(log, name).to_table().num_rows)


def by_command(data: bytes, *arguments: str, path: Path) -> int:
    path.write_bytes(data)
    ran = run(*arguments, path)
    assert ran.code == 0, ran.err
    return len(ran.lines)


ROADS: dict[str, Callable[[bytes, str, Path], object]] = {
    "tables": lambda data, name, path: len(rows(data, tables=name)),
    "exclude_tables": lambda data, name, path: left_out(data, name),
    "columns": lambda data, name, path: rows(data, columns={name: ["id"], "*": ["a"]}).count(None) + 1,
    "where": lambda data, name, path: len(rows(data, tables=name, where="id > 0")),
    "read_table": lambda data, name, path: binlog_core.read_table(data, name).num_rows,
    "dataset": lambda data, name, path: from_dataset(data, name),
    "duckdb": lambda data, name, path: queried(data, name),
    "history": lambda data, name, path: len(history(data, name, {"id": 1})) + 1,
    "row_as_of": lambda data, name, path: 2 if row_as_of(data, name, {"id": 1}, 1 << 40) is None else 0,
    "--table": lambda data, name, path: by_command(data, "rows", "-f", "jsonl", "--table", name, path=path),
    "history command": lambda data, name, path: by_command(
        data, "history", "-f", "jsonl", name, "id=1", path=path
    ) + 1,
    "Spark": lambda data, name, path: 2 * SourceOptions.of({}, table=name).wants(
        SourceOptions.of({}, table=name).table or ""
    ),
}  # fmt: skip


@pytest.mark.parametrize(("database", "table", "name"), NAMES)
@pytest.mark.parametrize("road", ROADS)
def test_every_way_to_write_a_name_is_the_table(
    road: str, database: str, table: str, name: str, tmp_path: Path
) -> None:
    assert ROADS[road](log_of(database, table), name, tmp_path / "binlog.000001") == 2


@pytest.mark.parametrize(("database", "table", "names"), TABLES)
def test_spark_reads_one_table_whatever_its_name_is_written_like(
    database: str, table: str, names: list[str]
) -> None:
    told = {SourceOptions.of({}, table=name).table for name in names}
    assert told == {names[0]}
    assert all(SourceOptions.of({}, table=name).wants(names[0]) for name in names)


@pytest.mark.parametrize("name", ["orders", "`orders`", "shop.", ".orders", "a.b.c"])
def test_spark_refuses_what_is_not_one_table(name: str) -> None:
    with pytest.raises(ValueError, match="expected database\\.table"):
        SourceOptions.of({}, table=name)


@pytest.mark.parametrize(
    ("table", "name"), [("orders", "orders"), ("orders", "`orders`"), ("or.ders", "`or.ders`")]
)
def test_a_database_and_the_name_of_a_table(table: str, name: str, tmp_path: Path) -> None:
    for database in ("shop", "sh.op"):
        path = tmp_path / "binlog.000001"
        arguments = ("rows", "-f", "jsonl", "--database", database, "--table", name)
        assert by_command(log_of(database, table), *arguments, path=path) == 2
