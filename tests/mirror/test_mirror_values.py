"""The result of a SELECT in the types of the lake; the texts are as servers send them."""

from __future__ import annotations

import datetime as dt
import io
from decimal import Decimal
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

from support.talk import result_set  # noqa: E402

from binlog_core import DecodeError  # noqa: E402
from binlog_core.mirror.values import SelectList, quoted  # noqa: E402
from binlog_core.schema.given import parse_create_table  # noqa: E402
from binlog_core.server.result_set import Rows, result_rows  # noqa: E402


def received(rows: list[tuple[bytes | None, ...]]) -> Rows:
    """Rows as they come from a server."""
    return next(result_rows(io.BytesIO(result_set(rows, len(rows[0]))).readinto))


def selection(kind: str) -> SelectList:
    text = f"CREATE TABLE t (`c` {kind}) DEFAULT CHARSET=utf8mb4"
    return SelectList.of(parse_create_table(text, "shop", "t"), mariadb=True)


@pytest.mark.parametrize(
    ("kind", "sent", "values"),
    [
        ("BIGINT UNSIGNED", b"18446744073709551615", Decimal((1 << 64) - 1)),
        ("DECIMAL(5,2)", b"-1.50", Decimal("-1.50")),
        ("DECIMAL(65,30)", b"0." + b"0" * 29 + b"1", "0." + "0" * 29 + "1"),
        ("FLOAT", b"0.10000000149011612", 0.10000000149011612),
        ("BIT(1)", b"1", True),
        ("BIT(9)", b"511", 511),
        ("YEAR", b"2155", 2155),
        ("DATE", b"2024-02-29", dt.date(2024, 2, 29)),
        ("DATE", b"2023-02-29", None),  # no calendar has them
        ("DATE", b"0000-00-00", None),
        ("DATETIME", b"1000-01-01 23:59:59", dt.datetime(1000, 1, 1, 23, 59, 59)),
        ("DATETIME(3)", b"2024-12-31 01:02:03.045", dt.datetime(2024, 12, 31, 1, 2, 3, 45_000)),
        ("TIMESTAMP(6) NULL", b"1970-01-01 00:00:01.000001", dt.datetime(1970, 1, 1, 0, 0, 1, 1, dt.UTC)),
        ("TIME", b"-838:59:59", -(838 * 3600 + 59 * 60 + 59) * 1_000_000),
        ("TIME(2)", b"-00:00:00.01", -10_000),
        ("VARCHAR(9)", "ä".encode(), "ä"),
        ("VARCHAR(9) CHARACTER SET latin1", b"\x80", "€"),  # latin1 is cp1252 there
        ("BLOB", b"\0\xff", b"\0\xff"),
        ("ENUM('a','b')", b"2", "b"),
        ("ENUM('a','b')", b"0", ""),
        ("SET('r','g','b')", b"5", ["r", "b"]),
        ("SET('r','g','b')", b"0", []),
        ("POINT", b"\xe6\x10\0\0\x01", {"srid": 4326, "wkb": b"\x01"}),
    ],
)
def test_values_in_the_types_of_the_lake(kind: str, sent: bytes, values: Any) -> None:
    chosen = selection(kind)
    batch = chosen.batch(received([(sent,), (None,)]))
    assert batch.schema == chosen.schema
    assert batch["c"].to_pylist() == [values, None]


@pytest.mark.parametrize(
    ("kind", "sent"),
    [("INT", b"x"), ("TINYINT", b"128"), ("DATE", b"2024-1-1"), ("TIME", b"noon"), ("DATE", b"2024-0a-01")],
)
def test_a_value_that_does_not_fit_its_type_names_its_column(kind: str, sent: bytes) -> None:
    with pytest.raises(DecodeError, match="the server's value is not a") as caught:
        selection(kind).batch(received([(sent,)]))
    assert (caught.value.table, caught.value.column) == ("shop.t", "c")
    assert sent.decode() not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "asked"),
    [
        ("INT", "`c`"),
        ("INT(5) ZEROFILL", "`c` + 0"),
        ("FLOAT", "`c` * 1e0"),
        ("ENUM('a')", "CAST(`c` AS UNSIGNED)"),
        ("BIT(3)", "CAST(`c` AS UNSIGNED)"),
        ("UUID", "CAST(`c` AS BINARY(16))"),
        ("INET4", "CAST(`c` AS BINARY(4))"),
        ("DATETIME", "`c`"),
    ],
)
def test_what_a_server_would_round_is_asked_for_in_another_way(kind: str, asked: str) -> None:
    assert selection(kind).expressions == (asked,)


def test_names_in_sql() -> None:
    assert quoted("a`b") == "`a``b`"
