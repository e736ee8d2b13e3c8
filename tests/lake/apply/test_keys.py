"""Keys as arrays: hashes, numbers, places."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("deltalake")
pytest.importorskip("pyspark")
from binlog_core.lake.apply.keys import hashes, numbered, places, rows_with  # noqa: E402


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1, -1, None, 1 << 40, 1]),
        pa.array(["a", "", None, "ab", "a"]),
        pa.array([b"\0", b"", None, b"\0\0", b"\0"]),
        pa.array([Decimal("1.50"), Decimal("-1.50"), None, Decimal("0.00"), Decimal("1.50")]),
        pa.array([0.5, 2.0, None, 1e300, 0.5]),
        pa.array([dt.date(2026, 1, 1), dt.date(1, 1, 1), None, dt.date(9999, 1, 1), dt.date(2026, 1, 1)]),
        pa.array([5, 6, None, 7, 5], pa.timestamp("us")),
    ],
    ids=lambda values: str(values.type),
)
def test_keys_of_every_type(values: Any) -> None:
    whole, part = hashes([values]), hashes([values.slice(3)])
    assert whole[3:].tolist() == part.tolist()
    assert whole[0] == whole[4]
    values = values.drop_null()
    assert len(set(hashes([values]).tolist())) == len(set(values.to_pylist()))
    two = [values, pa.array([1, 1, 1, 2])]
    assert numbered([values])[0].tolist()[3] == 0
    assert numbered(two)[1] == 4
    wanted = [column.take(pa.array([3, 1])) for column in two]
    assert places(two, wanted).tolist()[1:] == [1, -1, 0]
    assert places([values], [values.take(pa.array([1, 0]))]).tolist() == [1, 0, -1, 1]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_there_is_one_zero(kind: pa.DataType) -> None:
    """For a server -0.0 and 0.0 are the same key."""
    keys = [pa.array([-0.0, 1.5, 0.0], kind)]
    codes, count = numbered(keys)
    assert (codes.tolist(), count) == ([0, 1, 0], 2)
    assert places([pa.array([-0.0, 0.0, 2.0], kind)], [pa.array([0.0], kind)]).tolist() == [0, 0, -1]


def test_rows_that_have_one_of_some_values() -> None:
    numbers = pa.array([0.0, 1.5, -0.0, None, 2.5])
    assert rows_with(numbers, [pa.array([-0.0]), pa.array([2.5, 7.0])]).tolist() == [0, 2, 4]
    texts = pa.array(["a", "ä", "A", ""])
    assert rows_with(texts, [pa.array(["ä", "b"]), pa.array([""])]).tolist() == [1, 3]
    assert rows_with(texts.slice(0, 0), [texts]).tolist() == []
