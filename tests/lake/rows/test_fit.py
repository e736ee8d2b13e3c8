"""Rows of any definition of a table in one schema."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from support.writer import Log, Table

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from support.source import changed, read  # noqa: E402

from binlog_core import SchemaError  # noqa: E402
from binlog_core.lake.plan.parts import plan_parts  # noqa: E402
from binlog_core.lake.rows.fit import held, narrows, places_by_name, to_json, widened  # noqa: E402
from binlog_core.lake.rows.source_options import SourceOptions  # noqa: E402
from binlog_core.spark.changes import ChangeReader  # noqa: E402

pytestmark = pytest.mark.oldest_spark


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


@pytest.mark.parametrize(
    ("source", "target", "whole", "some"),
    [
        (pa.int16(), pa.int32(), True, True),
        (pa.int32(), pa.int16(), False, True),
        (pa.int32(), pa.decimal128(10, 0), True, False),  # -2147483648 has ten digits
        (pa.int32(), pa.decimal128(10, 1), False, False),
        (pa.int64(), pa.float64(), False, False),  # 2**53 + 1
        (pa.int32(), pa.float64(), True, False),
        (pa.int32(), pa.float32(), False, False),
        (pa.int16(), pa.float32(), True, False),
        (pa.int64(), pa.string(), True, False),
        (pa.decimal128(10, 2), pa.decimal128(11, 2), True, False),
        (pa.decimal128(10, 2), pa.decimal128(11, 4), False, False),
        (pa.decimal128(20, 0), pa.int64(), False, True),
        (pa.decimal128(10, 2), pa.int64(), False, False),
        (pa.float32(), pa.float64(), True, False),
        (pa.date32(), pa.timestamp("us"), True, False),
        (pa.date32(), pa.timestamp("us", "UTC"), False, False),
        (pa.string(), pa.binary(), True, False),
        (pa.binary(), pa.string(), False, False),
    ],
    ids=str,
)
def test_which_types_hold_all_values_of_another_or_some(
    source: Any, target: Any, whole: bool, some: bool
) -> None:
    assert widened(source, target) is whole
    assert narrows(source, target) is some


def test_bounds_of_a_narrower_type() -> None:
    values = pa.array([-129, -128, 0, None, 127, 128, 1 << 62], pa.int64())
    assert held(values, pa.int8()).to_pylist() == [False, True, True, None, True, False, False]
    large = pa.array([Decimal((1 << 63) - 1), Decimal(1 << 63)], pa.decimal128(20, 0))
    assert held(large, pa.int64()).to_pylist() == [True, False]


def test_names_are_found_without_case_where_only_one_has_it() -> None:
    assert places_by_name(["Id", "a", "A"]) == {"Id": 0, "a": 1, "A": 2, "id": 0}


def test_values_as_json_lose_nothing() -> None:
    values = {
        "decimal": Decimal("1.50"),
        "number": (1 << 64) - 1,
        "bytes": b"\0\xff",
        "date": dt.date(2026, 1, 2),
        "moment": dt.datetime(2026, 1, 2, 3, 4, 5, 600),
        "time": dt.timedelta(hours=-1, microseconds=1),
        "text": "ä",
    }
    assert json.loads(to_json(values)) == {
        "decimal": "1.50",
        "number": 18446744073709551615,
        "bytes": "AP8=",
        "date": "2026-01-02",
        "moment": "2026-01-02T03:04:05.000600",
        "time": -3_599_999_999,
        "text": "ä",
    }
