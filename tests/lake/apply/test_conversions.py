"""Which values stay the same in another type; what is expected is what a server's ALTER TABLE does."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa

from binlog_core import SchemaError
from binlog_core.lake.apply.conversions import check_conversion, fitting
from binlog_core.schema.given import parse_create_table
from binlog_core.schema.table_definitions import ColumnSchema


def column(sql: str) -> ColumnSchema:
    return parse_create_table(f"CREATE TABLE t (c {sql})", "d").columns[0]


@pytest.mark.parametrize(
    ("before", "here", "after", "kind"),
    [
        ("INT", pa.int32(), "BIGINT", pa.int64()),
        ("INT", pa.int32(), "VARCHAR(20)", pa.string()),
        ("YEAR", pa.int16(), "INT", pa.int32()),
        ("BIT(8)", pa.uint64(), "BIGINT UNSIGNED", pa.uint64()),
        ("ENUM('a','b')", pa.string(), "VARCHAR(20)", pa.string()),
        ("TIME", pa.int64(), "TIME(3)", pa.int64()),
        ("VARCHAR(5)", pa.string(), "TEXT", pa.string()),
    ],
)
def test_values_stay(before: str, here: pa.DataType, after: str, kind: pa.DataType) -> None:
    check_conversion(column(before), here, column(after), kind)


@pytest.mark.parametrize(
    ("before", "here", "after", "kind"),
    [
        ("TIME", pa.int64(), "BIGINT", pa.int64()),  # 10:00:00 becomes 100000
        ("BIGINT", pa.int64(), "TIME", pa.int64()),
        ("INT(5) ZEROFILL", pa.int64(), "VARCHAR(20)", pa.string()),  # 7 becomes 00007
        ("YEAR", pa.int16(), "VARCHAR(20)", pa.string()),  # 0 becomes 0000
        ("ENUM('a','b')", pa.string(), "INT", pa.int32()),  # the member's number
        ("VARCHAR(5)", pa.string(), "VARBINARY(20)", pa.binary()),  # its bytes depend on the character set
        ("INT", pa.int32(), "DATE", pa.date32()),
    ],
)
def test_values_change(before: str, here: pa.DataType, after: str, kind: pa.DataType) -> None:
    with pytest.raises(SchemaError, match="becomes"):
        check_conversion(column(before), here, column(after), kind)


def test_a_type_of_the_lake_alone_is_less() -> None:
    """An integer may be a TIME or ZEROFILL."""
    check_conversion(None, pa.int32(), column("BIGINT"), pa.int64())
    with pytest.raises(SchemaError, match="becomes varchar"):
        check_conversion(None, pa.int32(), column("VARCHAR(20)"), pa.string())


@pytest.mark.parametrize(
    ("sql", "here", "same", "other"),
    [
        ("DECIMAL(10,2)", pa.decimal128(10, 4), Decimal("1.1200"), Decimal("1.1234")),
        ("INT", pa.string(), "7", "007"),
        ("YEAR", pa.int16(), 1969, 69),
        ("DATE", pa.timestamp("us"), dt.datetime(2026, 1, 2), dt.datetime(2026, 1, 2, 3)),
        (
            "DATETIME(3)",
            pa.timestamp("us"),
            dt.datetime(2026, 1, 2, 3, 4, 5, 678_000),
            dt.datetime(1, 1, 1, 0, 0, 0, 1),
        ),
        ("BINARY(2)", pa.binary(), b"ab", b"a"),  # padded with a zero byte
        ("CHAR(5)", pa.string(), "a", "a "),  # the space is stripped
        ("VARCHAR(5)", pa.string(), "a    ", "a     "),  # the last one is cut off
        ("TINYTEXT", pa.string(), "a" * 255, "é" * 127 + "  "),
        ("ENUM('a')", pa.string(), "a", "b"),
    ],
)
def test_values_that_fit(sql: str, here: pa.DataType, same: Any, other: Any) -> None:
    fits = fitting(column(sql), here)
    assert fits is not None
    assert (fits(same), fits(other)) == (True, False)
