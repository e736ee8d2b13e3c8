"""The C structs that NumPy reads in place are the twins of their dtypes: names, order, offsets, sizes."""

from __future__ import annotations

import numpy as np
import pytest
from support.batches import column, make_batch

from binlog_core._core._columns import span_values
from binlog_core._core._headers import HEADER_DTYPE
from binlog_core._core._spans import compact_spans, twins
from binlog_core._tables.column_types import SPAN_DTYPE, Kind
from binlog_core._tables.side_dtypes import (
    GTID_RUN_DTYPE,
    INVALID_DATE_DTYPE,
    JSON_DIFF_DTYPE,
    TRANSACTION_DTYPE,
)
from binlog_core._tables.tables import image_dtype
from binlog_core.batch.arrow_types import ArrowField

pytestmark = pytest.mark.sanitize

DTYPES = {
    "span_t": SPAN_DTYPE,
    "transaction_t": TRANSACTION_DTYPE,
    "invalid_date_t": INVALID_DATE_DTYPE,
    "json_diff_t": JSON_DIFF_DTYPE,
    "header_record_t": HEADER_DTYPE,
    "gtid_run_t": GTID_RUN_DTYPE,
}


def fields_of(dtype: np.dtype) -> dict[str, int]:
    assert dtype.names is not None and dtype.fields is not None
    return {name: dtype.fields[name][1] for name in dtype.names}


@pytest.mark.parametrize("name", DTYPES)
def test_twins(name: str) -> None:
    size, fields = twins()[name]
    assert size == DTYPES[name].itemsize
    assert list(fields.items()) == list(fields_of(DTYPES[name]).items())


def test_the_image_is_followed_by_its_bitmaps() -> None:
    size, fields = twins()["image_t"]
    for columns in (1, 8, 9, 4096):
        dtype = image_dtype(columns)
        assert fields_of(dtype) == {
            **fields,
            "null_bitmap": size,
            "absent_bitmap": size + (columns + 7) // 8,
        }


def test_no_twin_is_left_out() -> None:
    assert set(twins()) == {*DTYPES, "image_t"}


@pytest.mark.parametrize("shape", [(), (1, 1)])
def test_records_have_one_dimension(shape: tuple[int, ...]) -> None:
    """An array without dimensions has no first length."""
    text = column("t", Kind.TEXT, charset="utf8mb4")
    batch = make_batch([text], [{"t": b"a"}])
    records = batch.array.reshape(shape)
    with pytest.raises(ValueError, match="expected one dimension"):
        compact_spans(records, batch.value_columns, batch.buffer)
    with pytest.raises(ValueError, match=f"expected 1 dimension, found {len(shape)}"):
        span_values(records, text, ArrowField("t", "u"), batch.buffer, most=1 << 20)
