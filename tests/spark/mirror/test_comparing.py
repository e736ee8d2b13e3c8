"""A table on two sides: rows as numbers, and which of them only one side has."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from binlog_core.spark.mirror.comparing import Compared, _difference, row_digests  # noqa: E402


def test_rows_are_told_apart_by_each_of_their_values() -> None:
    rows = [
        {"id": 1, "text": "a", "price": Decimal("1.50"), "day": dt.date(2026, 1, 1)},
        {"id": 1, "text": "a", "price": Decimal("1.51"), "day": dt.date(2026, 1, 1)},
        {"id": 1, "text": "a ", "price": Decimal("1.50"), "day": dt.date(2026, 1, 1)},
        {"id": 1, "text": None, "price": Decimal("1.50"), "day": dt.date(2026, 1, 1)},
        {"id": 1, "text": "None", "price": Decimal("1.50"), "day": None},
        {"id": 1, "text": "a", "price": Decimal("1.50"), "day": dt.date(2026, 1, 1)},
    ]
    batch = pa.RecordBatch.from_pylist(rows)
    found = row_digests(batch).tolist()
    assert found[0] == found[5]
    assert len(set(found)) == 5
    assert found[2:4] == row_digests(batch.slice(2, 2)).tolist()  # not by where they are


def test_dates_that_python_has_not() -> None:
    days = pa.array([-719_528, 2_932_897], pa.int32()).cast(pa.date32())  # 0000-01-01, 10000-01-01
    assert len(set(row_digests(pa.record_batch({"day": days})).tolist())) == 2


@pytest.mark.parametrize(
    ("one", "other", "left"),
    [
        ([1, 2, 2, 3], [2, 3, 4], [1, 2]),
        ([5, 5, 5], [5, 5], [5]),
        ([1], [], [1]),
        ([], [1], []),
        ([9], [1, 2], [9]),
        ([1, 2], [1, 2], []),
    ],
)
def test_numbers_that_one_side_has_more_often(one: list[int], other: list[int], left: list[int]) -> None:
    found = _difference(np.array(one, np.uint64), np.array(other, np.uint64))
    assert found.tolist() == left


def test_what_agrees() -> None:
    assert Compared("shop.t", 5).agrees
    assert not Compared("shop.t", 5, 1).agrees
    assert not Compared("shop.t", reason="the table is parked").agrees
