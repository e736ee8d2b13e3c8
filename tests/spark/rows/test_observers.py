"""What is recorded while a split is read: statements between rows, and damage."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from support.source import ORDERS, changed, read  # noqa: E402
from support.writer import Log  # noqa: E402

from binlog_core import SchemaError  # noqa: E402
from binlog_core.spark.rows.observers import DamageReport  # noqa: E402


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


@pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")
def test_changes_that_are_logged_as_statements(tmp_path: Path) -> None:
    log = Log("8.0.36")
    load = struct.pack("<IIBHH", 7, 0, 4, 0, 0) + struct.pack("<IIIB", 3, 10, 20, 1) + b"shop\0"
    log.event(18, load + b"LOAD DATA INFILE 'f' INTO TABLE orders")  # EXECUTE_LOAD_QUERY
    texts = [
        "UPDATE orders SET a = 1",
        "SET STATEMENT sort_buffer_size=9 FOR UPDATE orders SET a = 1",
        "SELECT f(1)",
    ]
    for text in (*texts, "UPDATE other SET a = 1"):
        log.query(text, "shop")
    log.begin()
    log.insert(ORDERS, [{"id": 1, "text": "a"}])
    log.commit()
    path = tmp_path / "bin.000001"
    path.write_bytes(log.getvalue())
    rows = read(path, table="shop.orders", ddl="rows")
    assert [(row["_change_type"], row["_statement"]) for row in rows] == [
        ("unknown", "LOAD DATA INFILE 'f' INTO TABLE orders"),
        *(("unknown", text) for text in texts),
        ("insert", None),
    ]


@pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")
def test_every_place_of_damage_is_kept_until_it_is_taken() -> None:
    report = DamageReport()
    for offset in (4, 90):
        report.add("skipped_events", path="bin.000001", offset=offset, detail="wrong checksum")
    report.add("skipped_events", offset=100, count=0)
    report.add("schema_misfits", offset=5)
    assert [place.offset for place in report.take_damaged()] == [4, 90]
    assert report.take_damaged() == []
    assert report.as_dict() == {"skipped_events": 2, "schema_misfits": 1}
    assert report.first["skipped_events"].offset == 4
