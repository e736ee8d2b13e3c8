"""Records of a batch to Python values and RowChange objects.

Batches are filled by NumPy here; what they hold and what it means is stated by hand.
"""

from __future__ import annotations

import datetime as dt
import math
import struct
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.filled import (
    ABSENT,
    DELETE,
    INSERT,
    POSTIMAGE,
    PREIMAGE,
    column,
    integer,
    make_batch,
    same,
    value_of,
)
from support.jsonb_encoder import encode, expected

from binlog_core._core._values import (
    RowReader,
)
from binlog_core._tables.column_types import Kind
from binlog_core.errors import DecodeError

pytestmark = pytest.mark.sanitize

# -- Numbers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("signed", [True, False, None])
def test_integers(width: int, signed: bool | None) -> None:
    bits = 8 * width
    low, high = (0, 2**bits - 1) if signed is False else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    for n in (low, low + 1, 0, 1, high):
        same(value_of(integer(width, signed=signed), n), n)


@pytest.mark.parametrize(
    ("bits", "n"),
    [(1, 1), (8, 255), (9, 511), (16, 65535), (33, 2**33 - 1), (64, 2**64 - 1)],
)
def test_bit(bits: int, n: int) -> None:
    same(value_of(column(Kind.BIT, length=bits), n), n)
    same(value_of(column(Kind.BIT, length=bits), 0), 0)


@pytest.mark.parametrize("year", [0, 1901, 2155])
def test_year(year: int) -> None:
    same(value_of(column(Kind.YEAR), year), year)


def test_float_is_widened_exactly() -> None:
    same(value_of(column(Kind.FLOAT), 0.1), 0.10000000149011612)
    same(value_of(column(Kind.FLOAT), -3.4028234663852886e38), -3.4028234663852886e38)


@pytest.mark.parametrize("x", [0.0, 0.1, -1.7976931348623157e308, 5e-324])
def test_double(x: float) -> None:
    same(value_of(column(Kind.DOUBLE), x), x)


def test_negative_zero() -> None:
    assert math.copysign(1, value_of(column(Kind.DOUBLE), -0.0)) == -1


def stored_decimal(unscaled: int, precision: int) -> Any:
    if precision <= 18:
        return unscaled
    limbs = 2 if precision <= 38 else 4
    data = unscaled.to_bytes(8 * limbs, "little", signed=True)
    return struct.unpack("<" + "Q" * (limbs - 1) + "q", data)


@pytest.mark.parametrize(
    ("precision", "scale", "unscaled", "text"),
    [
        (5, 2, 12345, "123.45"),
        (5, 2, -5, "-0.05"),
        (5, 2, 0, "0.00"),
        (5, 0, -99999, "-99999"),
        (18, 18, 999999999999999999, "0.999999999999999999"),
        (18, 0, -999999999999999999, "-999999999999999999"),
        (19, 0, 10**18, "1000000000000000000"),
        (30, 10, -123456789012345678900123456789, "-12345678901234567890.0123456789"),
        (38, 38, 1, "0." + "0" * 37 + "1"),
        (38, 0, 10**38 - 1, "9" * 38),
        (65, 30, 10**65 - 1, "9" * 35 + "." + "9" * 30),
        (65, 30, -(10**65 - 1), "-" + "9" * 35 + "." + "9" * 30),
        (65, 0, -(10**64), "-1" + "0" * 64),
        (65, 30, 0, "0." + "0" * 30),
        (39, 0, 2**64, "18446744073709551616"),
    ],
)
def test_decimal_has_all_digits(precision: int, scale: int, unscaled: int, text: str) -> None:
    c = column(Kind.DECIMAL, precision=precision, scale=scale)
    with localcontext() as context:
        context.prec = 5  # without influence
        value = value_of(c, stored_decimal(unscaled, precision))
    assert isinstance(value, Decimal)
    assert format(value, "f") == text
    assert -value.as_tuple().exponent == scale  # type: ignore[operator]


@given(st.integers(1, 65).flatmap(lambda p: st.tuples(st.just(p), st.integers(0, min(p, 38)),
                                                      st.integers(-(10**p) + 1, 10**p - 1))))  # fmt: skip
@settings(deadline=None, max_examples=200)
def test_any_decimal(case: tuple[int, int, int]) -> None:
    precision, scale, unscaled = case
    c = column(Kind.DECIMAL, precision=precision, scale=scale)
    digits = tuple(map(int, str(abs(unscaled))))
    want = Decimal((int(unscaled < 0), digits, -scale))
    got = value_of(c, stored_decimal(unscaled, precision))
    assert got == want
    assert got.as_tuple().exponent == -scale


# -- Dates and times -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["0001-01-01", "1582-10-15", "1600-02-29", "1900-02-28", "1900-03-01", "1969-12-31", "1970-01-01",
     "2000-02-29", "2000-12-31", "2001-01-01", "2024-02-29", "2024-12-31", "2100-03-01", "9999-12-31"],
)  # fmt: skip
def test_date(text: str) -> None:
    same(value_of(column(Kind.DATE), np.datetime64(text)), dt.date.fromisoformat(text))


@given(st.dates())
@settings(deadline=None, max_examples=300)
def test_any_date(day: dt.date) -> None:
    same(value_of(column(Kind.DATE), np.datetime64(day)), day)


@given(st.datetimes())
@settings(deadline=None, max_examples=300)
def test_any_datetime(moment: dt.datetime) -> None:
    same(value_of(column(Kind.DATETIME, fsp=6), np.datetime64(moment)), moment)
    aware = value_of(column(Kind.TIMESTAMP, fsp=6), np.datetime64(moment))
    same(aware, moment.replace(tzinfo=dt.UTC))
    assert aware.tzinfo is dt.UTC


@pytest.mark.parametrize(
    ("microseconds", "want"),
    [
        (0, dt.timedelta()),
        (-1, dt.timedelta(microseconds=-1)),
        (3020399_000000, dt.timedelta(hours=838, minutes=59, seconds=59)),
        (-3020399_000000, -dt.timedelta(hours=838, minutes=59, seconds=59)),
        (-86400_000001, dt.timedelta(days=-1, microseconds=-1)),
        (
            86399_999999,
            dt.timedelta(hours=23, minutes=59, seconds=59, microseconds=999999),
        ),
    ],
)
def test_time(microseconds: int, want: dt.timedelta) -> None:
    same(value_of(column(Kind.TIME, fsp=6), np.timedelta64(microseconds, "us")), want)


@pytest.mark.parametrize(
    ("kind", "fsp", "fields", "want"),
    [
        (Kind.DATE, 0, (0, 0, 0, 0, 0, 0, 0), "0000-00-00"),
        (Kind.DATE, 0, (2023, 5, 0, 0, 0, 0, 0), "2023-05-00"),
        (Kind.DATE, 0, (0, 1, 1, 0, 0, 0, 0), "0000-01-01"),
        (Kind.DATETIME, 0, (0, 0, 0, 0, 0, 0, 0), "0000-00-00 00:00:00"),
        (Kind.DATETIME, 3, (0, 0, 0, 0, 0, 0, 0), "0000-00-00 00:00:00.000"),
        (Kind.DATETIME, 2, (2023, 0, 31, 23, 59, 58, 120000), "2023-00-31 23:59:58.12"),
        (Kind.DATETIME, 6, (2023, 2, 31, 1, 2, 3, 4), "2023-02-31 01:02:03.000004"),
        (Kind.TIMESTAMP, 0, (0, 0, 0, 0, 0, 0, 0), "0000-00-00 00:00:00"),
        (Kind.TIMESTAMP, 6, (0, 0, 0, 0, 0, 0, 0), "0000-00-00 00:00:00.000000"),
    ],
)
def test_dates_that_no_calendar_has(kind: Kind, fsp: int, fields: tuple[int, ...], want: str) -> None:
    columns = [
        integer(4, name="id"),
        column(kind, index=1, fsp=fsp),
        column(kind, "d", index=2, fsp=fsp),
    ]
    nat = np.datetime64("NaT")
    rows: list[list[Any]] = [
        [1, None, np.datetime64("2020-01-01")],
        [2, nat, nat],
        [3, nat, None],
        [4, ABSENT, nat],
    ]
    other = (1, 2, 1999, 1, 0, 0, 0, 0, 0)
    batch = make_batch(
        columns,
        rows,
        invalid=[(1, 1, *fields), other, (2, 1, *fields), (3, 2, *fields)],
    )
    reader = RowReader(batch)
    assert reader.values(0)["c"] is None
    assert reader.values(1)["c"] == reader.values(2)["c"] == reader.values(3)["d"] == want
    assert reader.values(1)["d"].startswith("1999-01-00")
    assert "c" not in reader.values(3)
    assert reader.column_values("c") == [None, want, want, None]


def test_a_date_without_its_fields_is_an_error() -> None:
    with pytest.raises(DecodeError):
        value_of(column(Kind.DATE), np.datetime64("NaT"))


@pytest.mark.parametrize(
    ("kind", "stored", "want"),
    [
        (Kind.DATE, np.datetime64("10000-01-01"), "010000-01-01"),
        (
            Kind.DATETIME,
            np.datetime64("10082-12-31T23:59:59.5", "us"),
            "010082-12-31 23:59:59.50",
        ),
        (
            Kind.DATETIME,
            np.datetime64("0000-01-01T00:00:00", "us"),
            "0000-01-01 00:00:00.00",
        ),
        (Kind.DATE, np.datetime64("0000-12-31"), "0000-12-31"),
    ],
)
def test_dates_beyond_pythons_are_text(kind: Kind, stored: np.datetime64, want: str) -> None:
    same(value_of(column(kind, fsp=2), stored), want)


def test_a_date_beyond_all_bounds_is_an_error() -> None:
    with pytest.raises(DecodeError):
        value_of(column(Kind.DATE), np.datetime64(2**62, "D"))


# -- Text and bytes --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("charset", "stored", "want"),
    [
        ("utf8mb4", "héllo \U0001f600".encode(), "héllo \U0001f600"),
        ("utf8mb3", "é€".encode(), "é€"),
        ("ascii", b"plain", "plain"),
        ("utf8mb4", b"", ""),
        ("latin1", b"caf\xe9 \x80 \x81", "café € \x81"),
        ("latin1", b"only ASCII here", "only ASCII here"),
        ("sjis", "日本".encode("shift_jis"), "日本"),
        ("ucs2", "ab€".encode("utf-16-be"), "ab€"),
        ("utf16le", "ab".encode("utf-16-le"), "ab"),
    ],
)
def test_text(charset: str, stored: bytes, want: str) -> None:
    same(value_of(column(Kind.TEXT, charset=charset), stored), want)


@pytest.mark.parametrize(
    ("charset", "stored"),
    [("utf8mb4", b"ab\xff"), ("utf8mb4", b"\xed\xa0\x80"), ("ascii", b"\xe9"), ("sjis", b"\x85\x40\xff"),
     ("ucs2", b"a")],
)  # fmt: skip
def test_bytes_that_are_not_text_are_counted(charset: str, stored: bytes) -> None:
    columns = [
        integer(4, name="id"),
        column(Kind.TEXT, "note", index=1, charset=charset),
    ]
    good = "ok".encode("utf-16-be" if charset == "ucs2" else "ascii")
    reader = RowReader(make_batch(columns, [[1, good], [2, stored], [3, stored]]))
    assert [c.after["note"] for c in reader] == ["ok", stored, stored]  # type: ignore[index]
    assert reader.invalid_text == 2
    error = reader.first_invalid_text
    assert isinstance(error, DecodeError)
    assert (error.path, error.offset, error.table, error.column) == (
        "binlog.000042",
        1001,
        "shop.orders",
        "note",
    )


def test_binary_is_padded() -> None:
    assert value_of(column(Kind.BINARY, pad_to=4), b"ab") == b"ab\0\0"
    assert value_of(column(Kind.BINARY, pad_to=4), b"") == b"\0\0\0\0"
    assert value_of(column(Kind.BINARY, pad_to=4), b"abcd") == b"abcd"
    assert value_of(column(Kind.BINARY), b"ab\0\xff") == b"ab\0\xff"
    assert value_of(column(Kind.GEOMETRY), b"\0\0\0\0\x01") == b"\0\0\0\0\x01"


def test_a_value_longer_than_a_length_byte_holds() -> None:
    assert value_of(column(Kind.BINARY), b"x" * 70000) == b"x" * 70000
    assert value_of(column(Kind.TEXT, charset="utf8mb4"), b"x" * 70000) == "x" * 70000


def test_text_in_an_unknown_character_set_is_bytes() -> None:
    assert value_of(column(Kind.TEXT, charset="klingon"), b"a{") == b"a{"
    assert value_of(column(Kind.TEXT, charset="swe7"), b"a{") == "aä"


def test_vector() -> None:
    assert value_of(column(Kind.VECTOR), struct.pack("<3f", 1, -2.5, 0.1)) == [
        1.0,
        -2.5,
        0.10000000149011612,
    ]
    assert value_of(column(Kind.VECTOR), b"") == []


@pytest.mark.parametrize(
    ("offset", "length"),
    [(0, 11), (10, 1), (11, 0), (2**64 - 1, 1), (2**64 - 1, 2**32 - 1), (5, 2**32 - 1)],
)
@pytest.mark.parametrize("kind", [Kind.TEXT, Kind.BINARY, Kind.JSON, Kind.GEOMETRY, Kind.VECTOR])
def test_a_span_outside_the_buffer_is_an_error(kind: Kind, offset: int, length: int) -> None:
    batch = make_batch([column(kind, charset="utf8mb4")], [[(offset, length)]])
    batch.buffer = bytes(10)
    with pytest.raises(DecodeError) as caught:
        RowReader(batch).values(0)
    assert (caught.value.offset, caught.value.column) == (1000, "c")


def test_an_empty_buffer() -> None:
    columns = [column(Kind.TEXT, charset="utf8mb4"), column(Kind.BINARY, "b", index=1, pad_to=2),
               column(Kind.JSON, "j", index=2), column(Kind.VECTOR, "v", index=3)]  # fmt: skip
    batch = make_batch(columns, [[(0, 0)] * 4])
    batch.buffer = b""
    assert RowReader(batch).values(0) == {"c": "", "b": b"\0\0", "j": "null", "v": []}


# -- ENUM and SET ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "number", "want"),
    [
        (("x", "y"), 1, "x"),
        (("x", "y"), 2, "y"),
        (("x", "y"), 0, ""),
        (("x", "y"), 3, 3),
        (None, 2, 2),
        (None, 0, 0),
        (tuple(map(str, range(65535))), 65535, "65534"),
    ],
)
def test_enum(members: tuple[str, ...] | None, number: int, want: object) -> None:
    same(value_of(column(Kind.ENUM, members=members), number), want)


@pytest.mark.parametrize(
    ("members", "mask", "want"),
    [
        (("a", "b", "c"), 0, []),
        (("a", "b", "c"), 0b101, ["a", "c"]),
        (("a", "b", "c"), 0b1001, 9),
        (None, 5, 5),
        (tuple(map(str, range(64))), 2**63 | 1, ["0", "63"]),
    ],
)
def test_set(members: tuple[str, ...] | None, mask: int, want: object) -> None:
    same(value_of(column(Kind.SET, members=members), mask), want)


# -- JSON ------------------------------------------------------------------------------------


def test_json_is_the_servers_text() -> None:
    document = {"b": 1, "aa": [1.5, "é", None]}
    same(value_of(column(Kind.JSON), encode(document)), expected(document))
    same(value_of(column(Kind.JSON), b""), "null")


DIFFS = b"\x00\x03$.i\x03\x05\x02\x00" + b"\x02\x03$.x"  # replace $.i by 2, remove $.x


@pytest.mark.parametrize(
    ("before", "want"),
    [
        (encode({"i": 1, "x": 0, "y": "z"}), '{"i": 2, "y": "z"}'),
        (ABSENT, [("replace", "$.i", "2"), ("remove", "$.x", None)]),
        (None, [("replace", "$.i", "2"), ("remove", "$.x", None)]),
    ],
)
def test_partial_update(before: object, want: object) -> None:
    columns = [column(Kind.JSON, "k"), column(Kind.JSON, "j", index=1)]
    whole = encode([7])
    rows: list[list[Any]] = [[whole, whole], [whole, before], [whole, DIFFS], [whole, whole]]
    batch = make_batch(columns, rows, [INSERT, PREIMAGE, POSTIMAGE, DELETE], json_diffs=[(2, 1)])
    changes = list(RowReader(batch))
    assert changes[1].after == {"k": "[7]", "j": want}
    assert changes[0].after == changes[2].before == {"k": "[7]", "j": "[7]"}


def test_partial_update_that_changes_nothing() -> None:
    rows = [[encode({"i": 1})], [b""]]
    batch = make_batch([column(Kind.JSON)], rows, [PREIMAGE, POSTIMAGE], json_diffs=[(1, 0)])
    assert RowReader(batch).change(0).after == {"c": '{"i": 1}'}
    assert RowReader(batch).column_values("c") == ['{"i": 1}', '{"i": 1}']


@pytest.mark.parametrize(
    ("kind", "stored", "diffs"),
    [(Kind.JSON, b"\x0c\x05ab", False), (Kind.VECTOR, b"abc", False), (Kind.JSON, DIFFS, True),
     (Kind.JSON, b"\x07", True)],
)  # fmt: skip
def test_a_damaged_value_fails_alone(kind: Kind, stored: bytes, diffs: bool) -> None:
    good = b"" if kind == Kind.VECTOR else encode([])
    ops = [INSERT, PREIMAGE, POSTIMAGE, INSERT]
    batch = make_batch(
        [column(kind)],
        [[good], [good], [stored], [good]],
        ops,
        json_diffs=[(2, 0)] if diffs else [],
    )
    changes = iter(RowReader(batch))
    assert next(changes).op == "insert"
    with pytest.raises(DecodeError) as caught:
        next(changes)
    assert (caught.value.offset, caught.value.column, caught.value.table) == (
        1002,
        "c",
        "shop.orders",
    )
    assert next(changes).op == "insert"  # continues after the damaged one

    reader = RowReader(batch, on_error="skip")
    assert [c.after["c"] for c in reader][1] == stored  # type: ignore[index]
    assert reader.damaged_values == 1
    assert reader.first_damaged_value is not None
    assert reader.first_damaged_value.offset == 1002
