"""Types of columns: the dtype that each one's values need."""

from __future__ import annotations

from typing import Any

import pytest

from binlog_core._tables import column_types as ct
from binlog_core._tables.column_types import Kind, value_dtype

pytestmark = pytest.mark.sanitize_long


@pytest.mark.parametrize(
    ("kind", "attributes", "dtype"),
    [
        (Kind.INT, {"bytes_": 1}, "|i1"),
        (Kind.INT, {"bytes_": 3}, "<i4"),
        (Kind.INT, {"bytes_": 3, "unsigned": True}, "<u4"),
        (Kind.INT, {"bytes_": 8, "unsigned": True}, "<u8"),
        (Kind.BIT, {"bits": 8}, "|u1"),
        (Kind.BIT, {"bits": 9}, "<u2"),
        (Kind.BIT, {"bits": 33}, "<u8"),
        # 18 digits are below 2**63, 38 below 2**127, 65 below 2**255.
        (Kind.DECIMAL, {"precision": 18}, "<i8"),
        (Kind.DATE, {}, "<M8[D]"),
        (Kind.TIME, {}, "<m8[us]"),
        (Kind.ENUM, {}, "<u2"),  # at most 65535 members
        (Kind.SET, {}, "<u8"),  # at most 64
    ],
)
def test_dtypes(kind: Kind, attributes: dict[str, Any], dtype: str) -> None:
    assert value_dtype(kind, **attributes).str == dtype


def test_dtypes_of_several_fields() -> None:
    assert [value_dtype(Kind.DECIMAL, precision=n).itemsize for n in (18, 19, 38, 39, 65)] == [
        8,
        16,
        16,
        32,
        32,
    ]
    assert 10**18 < 2**63 and 10**38 < 2**127 and 10**65 < 2**255
    for kind in (Kind.TEXT, Kind.BINARY, Kind.JSON, Kind.GEOMETRY, Kind.VECTOR):
        assert value_dtype(kind) == ct.SPAN_DTYPE
    for kind in Kind:
        value_dtype(kind, bytes_=4, bits=1, precision=1)  # each has one


def test_bytes_of_metadata() -> None:
    """As MySQL's documentation of the table map lists them."""
    two = {"VARCHAR", "BIT", "NEWDECIMAL", "ENUM", "SET", "VAR_STRING", "STRING", "VARCHAR_COMPRESSED"}
    none = {"DECIMAL", "TINY", "SHORT", "LONG", "NULL", "TIMESTAMP", "LONGLONG", "INT24", "DATE", "TIME"}
    none |= {"DATETIME", "YEAR", "NEWDATE"}
    for one in ct.COLUMN_TYPES.values():
        expected = 2 if one.name in two else 0 if one.name in none else 1
        assert one.metadata_len == expected, one.name
