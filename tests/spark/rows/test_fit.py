"""Rows of any definition of a table in one schema."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.writer import Log, Table

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from support.source import changed, read  # noqa: E402

from binlog_core import SchemaError  # noqa: E402
from binlog_core.spark.doors.changes import ChangeReader  # noqa: E402
from binlog_core.spark.options import SourceOptions  # noqa: E402
from binlog_core.spark.plan.parts import plan_parts  # noqa: E402


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
