"""Columns whose type changed: the wider one, its records, and their form in Arrow."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.batches import column, make_batch

from binlog_core._tables.column_types import Kind
from binlog_core._tables.widening import type_name, wider
from binlog_core.errors import SchemaError
from binlog_core.log.batches import Batches

pytestmark = pytest.mark.sanitize_long

INT = {"bytes_": 4, "signed": True}
UINT = {"bytes_": 4, "signed": False}
BIGINT = {"bytes_": 8, "signed": True}

# narrow, wide, its name, {stored: Python value} of the narrow column in the wide one's type
PAIRS: list[tuple[Any, Any, str, list[tuple[Any, Any]]]] = [
    ((Kind.INT, INT), (Kind.INT, BIGINT), "bigint", [(-(2**31), -(2**31)), (2**31 - 1, 2**31 - 1)]),
    ((Kind.INT, UINT), (Kind.INT, BIGINT), "bigint", [(2**32 - 1, 2**32 - 1)]),
    ((Kind.INT, {"bytes_": 3, "signed": True}), (Kind.INT, BIGINT), "bigint", [(-8388608, -8388608)]),
    ((Kind.INT, {"bytes_": 1}), (Kind.INT, {"bytes_": 2, "signed": True}), "smallint", [(-128, -128)]),
    (
        (Kind.INT, {"bytes_": 1, "signed": False}),
        (Kind.INT, {"bytes_": 8, "signed": False}),
        "bigint unsigned",
        [(255, 255)],
    ),
    ((Kind.FLOAT, {}), (Kind.DOUBLE, {}), "double", [(0.5, 0.5)]),
    (
        (Kind.DATE, {}),
        (Kind.DATETIME, {"fsp": 6}),
        "datetime",
        [(np.datetime64("2024-02-29"), dt.datetime(2024, 2, 29)), (np.datetime64("NaT"), None)],
    ),
    ((Kind.BIT, {"length": 8}), (Kind.BIT, {"length": 33}), "bit(33)", [(255, 255)]),
    (
        (Kind.DECIMAL, {"precision": 5, "scale": 2}),
        (Kind.DECIMAL, {"precision": 18, "scale": 4}),
        "decimal(18,4)",
        [(-12345, Decimal("-123.4500"))],
    ),
    (
        (Kind.DECIMAL, {"precision": 18, "scale": 0}),
        (Kind.DECIMAL, {"precision": 38, "scale": 20}),
        "decimal(38,20)",
        [(-(10**18) + 1, Decimal(-(10**18) + 1)), (7, Decimal(7))],
    ),
    (
        (Kind.DECIMAL, {"precision": 38, "scale": 1}),
        (Kind.DECIMAL, {"precision": 65, "scale": 2}),
        "decimal(65,2)",
        [((2**64 - 1, -1), Decimal("-0.10")), ((5, 1), Decimal("1844674407370955162.10"))],
    ),
]


@pytest.mark.parametrize(("narrow", "wide", "name", "values"), PAIRS, ids=lambda v: str(v)[:40])
def test_narrow_values_come_in_the_wider_type(narrow: Any, wide: Any, name: str, values: Any) -> None:
    one, other = column("v", narrow[0], **narrow[1]), column("v", wide[0], **wide[1])
    for found in (wider(one, other), wider(other, one)):
        assert found is not None
        assert type_name(found) == name
    wide_batch = make_batch([other], [{"v": None}])
    batch = make_batch([one], [{"v": None}, *({"v": stored} for stored, _ in values)])
    table = Batches(lambda: iter([wide_batch, batch])).to_arrow(change_columns=False)  # type: ignore[arg-type]
    assert table.column("v").to_pylist() == [None, None, *(value for _, value in values)]
    assert table.schema.field("v").type == wide_batch.to_arrow().schema.field("v").type
    with pytest.raises(SchemaError, match="the stream has ") as caught:
        Batches(lambda: iter([batch, wide_batch])).to_arrow()  # type: ignore[arg-type]
    assert f"here it is {name}" in caught.value.message


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((Kind.INT, {"bytes_": 8, "signed": False}), (Kind.INT, INT)),
        ((Kind.INT, INT), (Kind.TEXT, {"charset": "utf8mb4"})),
        ((Kind.DECIMAL, {"precision": 65, "scale": 0}), (Kind.DECIMAL, {"precision": 30, "scale": 30})),
        ((Kind.DATETIME, {}), (Kind.TIMESTAMP, {})),
    ],
)
def test_types_that_do_not_go_together(one: Any, other: Any) -> None:
    assert wider(column("v", one[0], **one[1]), column("v", other[0], **other[1])) is None


def test_a_signed_and_an_unsigned_type_meet_in_one_of_twice_the_size() -> None:
    found = wider(column("v", Kind.INT, **INT), column("v", Kind.INT, **UINT))
    assert found is not None
    assert (type_name(found), found.dtype) == ("bigint", np.dtype("<i8"))


def test_the_other_columns_are_kept() -> None:
    text = column("t", Kind.TEXT, charset="utf8mb4")
    one = make_batch([column("v", Kind.INT, **BIGINT), text], [{"v": 2**40, "t": b"a"}])
    other = make_batch([text, column("v", Kind.INT, **INT)], [{"t": b"b", "v": -1}, {"t": None, "v": None}])
    table = Batches(lambda: iter([one, other])).to_arrow(change_columns=["_position"])  # type: ignore[arg-type]
    assert table.to_pylist() == [
        {"v": 2**40, "t": "a", "_position": 1000},
        {"v": -1, "t": "b", "_position": 1000},
        {"v": None, "t": None, "_position": 1010},
    ]
    assert other.array["row"]["v"].dtype == np.int32  # the batch itself stays as it is
    assert pa.types.is_int64(table.schema.field("v").type)
