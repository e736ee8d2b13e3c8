"""What is recorded while a split is read: statements between rows, and damage."""

from __future__ import annotations

from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from support.source import changed, read  # noqa: E402

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
