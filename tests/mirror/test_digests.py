"""Digests of rows: equal for equal values."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

pa = pytest.importorskip("pyarrow")

from binlog_core.errors import MirrorError  # noqa: E402
from binlog_core.mirror.digests import digested, row_digests  # noqa: E402


def test_rows_are_distinguished_by_each_of_their_values() -> None:
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


def test_numbers_of_rows_with_their_keys() -> None:
    narrow = pa.RecordBatch.from_pylist([{"id": 1, "v": 7}], pa.schema({"id": pa.int32(), "v": pa.int8()}))
    schema = pa.schema({"v": pa.int64(), "id": pa.int32()})
    found = digested(narrow, schema, ["id"])
    assert found.schema.names == ["id", "digest "]
    wide = pa.RecordBatch.from_pylist([{"v": 7, "id": 1}], schema)
    assert found.equals(digested(wide, schema, ["id"]))
    with pytest.raises(MirrorError, match="types differ from the server's"):
        digested(wide, pa.schema({"v": pa.date32(), "id": pa.int8()}), ["id"])
