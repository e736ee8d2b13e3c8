"""Building an index: up to where it covers a log."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from support.indexed import UUID, Read, found_by, write_log
from support.questions import answer, without_index
from support.writer import Log, Table

from binlog_core.conditions.language import quoted
from binlog_core.index import building, ranges
from binlog_core.index.making import index

pytest.importorskip("pyarrow")
pytestmark = pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")


def test_schema_gives_the_keys_and_ddl_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = Table("shop", "t", [("id", "INT"), ("b", "VARCHAR(200)")], metadata=False)
    log = Log("8.4.0")
    log.gtid(UUID, 1)
    log.query("CREATE TABLE t (id INT PRIMARY KEY, b VARCHAR(200) CHARACTER SET utf8mb4)", "shop")
    for i in range(400):
        if i == 200:
            log.gtid(UUID, 1000)
            log.query("ALTER TABLE t RENAME COLUMN id TO number", "shop")
        log.gtid(UUID, i + 2)
        log.begin("shop")
        log.insert(bare, [{"id": i * 7919 % 400 * 1000, "b": "x" * 20}])
        log.commit()
    log.rotate()
    path = tmp_path / "bin.000001"
    path.write_bytes(log.getvalue())
    index(path, schema="ddl")
    read = Read(monkeypatch)
    for where in ("id = 7000", "number = 7000", "id = 7001"):
        read.bytes = 0
        found = answer(path, {"tables": "shop.t", "where": where}, schema="ddl")
        assert read.bytes < path.stat().st_size // 2
        assert found == without_index(
            lambda where=where: answer(path, {"tables": "shop.t", "where": where}, schema="ddl")
        )  # type: ignore[misc]
    assert len(answer(path, {"tables": "shop.t", "where": "id = 7000 and b = 'x'"}, schema="ddl")[0]) == 0


def test_a_damaged_log_is_indexed_up_to_its_damage(tmp_path: Path) -> None:
    path = write_log(tmp_path / "bin.000001", 0)
    data = bytearray(path.read_bytes())
    data[len(data) * 2 // 3] ^= 255
    path.write_bytes(data)
    index(path)
    question = {"tables": "shop.t", "where": "id = 1"}
    assert answer(path, question)[1].startswith(("ChecksumError", "DecodeError"))
    assert answer(path, question) == without_index(lambda: answer(path, question))


@pytest.mark.parametrize("tables", [1, 2])
@pytest.mark.parametrize(
    "question",
    [
        {"server_id": 3},
        {"where": "_server_id = 3"},
        {"where": "_thread_id = 9"},
        {"where": f"_gtid = '{UUID}:2'"},
        {"gtids": f"{UUID}:2"},
    ],
)
def test_a_range_with_too_many_tables_still_says_whose_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, question: dict[str, str], tables: int
) -> None:
    """Its tables are not recorded, but its servers, threads and GTIDs are, and no row is lost."""
    monkeypatch.setattr(building, "_MOST_TABLES", tables)
    log = Log("8.4.0", server_id=3)
    for i in (1, 2, 3):
        log.gtid(UUID, i)
        log.query("BEGIN", "shop", flags=8, thread=9)
        for name in ("t", "u"):
            log.insert(Table("shop", name, [("id", "INT")], primary_key=["id"]), [{"id": i}])
        log.commit()
    log.rotate()
    path = tmp_path / "bin.000001"
    path.write_bytes(log.getvalue())
    index(path)
    assert len(found_by(path, **question)) == (2 if "gtid" in str(question) else 6)
    assert found_by(path, where="_server_id = 4 or _thread_id = 8") == found_by(path, server_id=4) == []


@pytest.mark.parametrize("tables", [1, 2])
@pytest.mark.parametrize(
    "named",
    [
        {"where": "v = 1"},
        {"where": "v = 1", "tables": "shop.u"},
        {"tables": "shop.u"},
        {"tables": "shop.*", "columns": {"shop.*": ["id", "v"]}},
    ],
)
def test_a_name_may_be_that_of_a_table_that_was_left_out_unseen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: dict[str, Any], tables: int
) -> None:
    """A range of too many tables is skipped for its server; the range that is read has another table."""
    monkeypatch.setattr(building, "_MOST_TABLES", tables)
    monkeypatch.setattr(ranges, "RANGE_BYTES", 1)
    log = Log("8.4.0")
    for i, names in enumerate(("tu", "t"), 1):
        log.server_id = i
        log.gtid(UUID, i)
        log.begin("shop")
        for name in names:
            other = "v" if name == "u" else "n"
            table = Table("shop", name, [("id", "INT"), (other, "INT")], primary_key=["id"])
            log.insert(table, [{"id": i, other: 7}])
        log.commit()
    log.rotate()
    path = tmp_path / "bin.000001"
    path.write_bytes(log.getvalue())
    index(path)
    question = {"server_id": 2, **named}
    assert answer(path, question) == without_index(lambda: answer(path, question))


EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
KEYS: dict[str, tuple[object, ...]] = {
    "DATE": ("2026-01-01", "1000-01-01", "9999-12-31"),
    "DATETIME": ("2026-01-01 10:00:00", "1000-01-01 00:00:00", "9999-12-31 23:59:59"),
    "DATETIME(6)": ("2026-01-01 10:00:00.000001", "2026-01-01 10:00:00.000002", "2026-01-01 10:00:00"),
    "TIMESTAMP(3)": (EPOCH + dt.timedelta(seconds=1), EPOCH + dt.timedelta(days=20_000, milliseconds=7)),
    "TIME(2)": (dt.timedelta(0), dt.timedelta(hours=-838, milliseconds=10), dt.timedelta(hours=838)),
    "YEAR": (2026, 1901, 2155),
    "TINYINT": (0, -128, 127),
    "BIGINT": (0, -(1 << 63), (1 << 63) - 1),
    "BIGINT UNSIGNED": (0, 1 << 63, (1 << 64) - 1),
    "DOUBLE": (0.0, -1e300, 1e300),
    "DECIMAL(10,2)": (Decimal("0.00"), Decimal("-99999999.99"), Decimal("99999999.99")),
    "VARCHAR(40)": ("", "a", "ü" * 40),
    "BINARY(4)": (b"\0\0\0\0", b"a\0\0\0", b"\xff\xff\xff\xff"),
}


@pytest.mark.parametrize("type_", KEYS)
@pytest.mark.parametrize("at", [0, 1])
def test_a_key_of_any_type_is_found(tmp_path: Path, type_: str, at: int) -> None:
    """As the first and as the second column of the key, several in one event."""
    columns = [("id", type_), ("n", "INT")] if at == 0 else [("n", "INT"), ("id", type_)]
    table = Table("shop", "t", columns, primary_key=[name for name, _ in columns])
    rows = [{"n": i, "id": value} for i, value in enumerate(KEYS[type_])]
    log = Log("8.4.0")
    for i, write in enumerate((log.insert, log.delete)):
        log.gtid(UUID, i + 1)
        log.begin("shop")
        write(table, rows)
        log.commit()
    log.rotate()
    path = tmp_path / "bin.000001"
    path.write_bytes(log.getvalue())
    index(path)
    for i, value in enumerate(KEYS[type_]):
        where = f"id = {quoted(value)}"
        assert [op for op, *_ in found_by(path, where=where)] == ["insert", "delete"]
        assert found_by(path, where=f"{where} and n = {i}") == found_by(path, where=where)
        assert found_by(path, where=f"{where} and n = {i + 3}") == []
