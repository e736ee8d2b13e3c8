"""Tables and columns: the records that their rows become."""

from __future__ import annotations

import numpy as np
import pytest
from support.batches import column

from binlog_core import Table
from binlog_core._tables.column_types import Kind
from binlog_core._tables.tables import image_dtype, record_dtype, records_at_a_time

pytestmark = pytest.mark.sanitize_long


@pytest.mark.parametrize(("columns", "bitmap"), [(1, 1), (8, 1), (9, 2), (4096, 512)])
def test_records_are_packed(columns: int, bitmap: int) -> None:
    # op, timestamp, server_id, position, row, transaction, and a bit of each column for NULL and for absent
    assert image_dtype(columns).itemsize == 1 + 4 + 4 + 8 + 4 + 4 + 2 * bitmap
    decoded = [
        column("a", Kind.INT, bytes_=3),
        column("t", Kind.TEXT),
        column("d", Kind.DECIMAL, precision=19),
    ]
    record = record_dtype(columns, decoded)
    assert record.itemsize == image_dtype(columns).itemsize + 4 + 12 + 16
    assert record["row"].names == ("a", "t", "d")


def test_columns_of_unknown_sign_are_read_as_signed() -> None:
    signs = (None, True, False)
    assert [column("a", Kind.INT, bytes_=8, signed=sign).dtype for sign in signs] == [
        np.dtype("<i8"),
        np.dtype("<i8"),
        np.dtype("<u8"),
    ]


def test_members_bound_how_many_records_are_text_at_a_time() -> None:
    assert records_at_a_time([column("a", Kind.INT, bytes_=4)]) == 16 << 20
    members = ("x" * 1000, "y" * 24)
    assert records_at_a_time([column("e", Kind.ENUM, members=members)]) == (16 << 20) // 1000
    assert records_at_a_time([column("s", Kind.SET, members=members)]) == (16 << 20) // 1024
    assert records_at_a_time([column("s", Kind.SET, members=("x" * (16 << 20),))]) == 2


def test_a_table_is_known_by_its_full_name() -> None:
    assert str(Table("a", "b", ())) == Table("a", "b", ()).full_name == "a.b"
