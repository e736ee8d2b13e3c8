"""ChangeBatch: NumPy columns, Arrow streams, other libraries, pickles."""

from __future__ import annotations

import datetime as dt
import pickle
import struct
from decimal import Decimal

import numpy as np
import pytest
from support.batches import column, make_batch
from support.orders import DOCUMENT, NAT, orders, raw_batch

from binlog_core._tables.column_types import Kind
from binlog_core.errors import DecodeError, SchemaError

pytestmark = pytest.mark.sanitize


def test_null_and_absent_are_distinguished():
    batch = orders()
    assert len(batch) == 3
    assert batch.is_null("note").tolist() == [False, True, False]
    assert batch.is_absent("note").tolist() == [False, False, True]
    assert batch.is_null("id").tolist() == [False] * 3
    assert batch.column("note").tolist() == ["one", None, None]
    assert batch.column("note").mask.tolist() == [False, True, True]


def test_unknown_column_names_near_ones():
    for call in (orders().column, orders().is_null, orders().is_absent):
        with pytest.raises(SchemaError, match="note") as info:
            call("notes")
        assert (info.value.column, info.value.table) == ("notes", "shop.orders")


def test_repr():
    assert repr(orders()) == "<ChangeBatch shop.orders: 3 records, 2 columns of log.000001>"


def test_column_numbers_are_contiguous():
    values = orders().column("id")
    assert values.tolist() == [0, 1, 2]
    assert values.dtype == np.int32
    assert values.data.flags.c_contiguous


@pytest.mark.parametrize(
    ("precision", "scale", "stored", "unscaled"),
    [
        (10, 2, -12345, -12345),
        (18, 0, 7, 7),
        (30, 5, (2**64 - 1, -1), -1),
        (38, 38, (1, 2**40), 2**104 + 1),
        (65, 30, (2**64 - 1, 2**64 - 1, 2**64 - 1, -1), -1),
        (65, 0, (3, 0, 0, 2**22), 2**214 + 3),
    ],
)
def test_decimals(precision, scale, stored, unscaled):
    batch = make_batch(
        [column("d", Kind.DECIMAL, precision=precision, scale=scale)], [{"d": stored}, {"d": None}]
    )
    assert batch.column("d").tolist() == [unscaled, None]
    digits = Decimal((unscaled < 0, [int(c) for c in str(abs(unscaled))], -scale))
    exact = batch.column("d", decimals="decimal")[0]
    assert str(exact) == str(digits)
    assert batch.column("d", decimals="float")[0] == float(digits)
    assert batch.column("d", decimals="float").dtype == np.float64
    with pytest.raises(ValueError, match="decimals"):
        batch.column("d", decimals="int")


@pytest.mark.parametrize("option", ["decimals", "members", "text_errors"])
def test_an_unknown_option_of_column_is_refused_for_any_type(option):
    for name in ("id", "note"):
        with pytest.raises(ValueError, match=f"{option}='x'"):
            orders((b"one",)).column(name, **{option: "x"})
    with pytest.raises(ValueError, match="text_errors='x'"):
        orders().export(text_errors="x")


def test_members():
    columns = [column("e", Kind.ENUM, members=("x", "y")), column("s", Kind.SET, members=("p", "q", "r"))]
    batch = make_batch(columns, [{"e": 2, "s": 6}, {"e": 0, "s": 0}, {"e": None, "s": None}])
    assert batch.column("e").tolist() == ["y", "", None]
    assert batch.column("s").tolist() == [["q", "r"], [], None]
    assert batch.column("e", members="numbers").tolist() == [2, 0, None]
    assert batch.column("s", members="numbers").tolist() == [6, 0, None]
    batch.array["row"]["e"][1] = 3
    batch.array["row"]["s"][1] = 8
    for name in "es":
        with pytest.raises(DecodeError):
            batch.column(name)


def test_column_of_spans():
    columns = [
        column("t", Kind.TEXT, charset="latin1"),
        column("b", Kind.BINARY, pad_to=3),
        column("g", Kind.GEOMETRY),
        column("v", Kind.VECTOR, dimensions=2),
        column("j", Kind.JSON),
    ]
    row = {"t": b"\xe9", "b": b"x", "g": b"\0\0\0\0wkb", "v": struct.pack("<2f", 1, 2), "j": DOCUMENT}
    batch = make_batch(columns, [row, dict.fromkeys(row)])
    assert batch.column("t").tolist() == ["é", None]
    assert batch.column("t").dtype == np.dtypes.StringDType()
    assert batch.column("b").tolist() == [b"x\0\0", None]
    assert batch.column("g").tolist() == [b"\0\0\0\0wkb", None]
    assert batch.column("v")[0].tolist() == [1.0, 2.0]
    assert batch.column("j").tolist() == ['{"a": 1}', None]
    bad = make_batch(columns, [{**row, "t": b"\xe9", "v": b"12345"}])
    with pytest.raises(DecodeError, match="VECTOR"):
        bad.column("v")


def test_text_errors_of_column():
    batch = orders([b"\xff"])
    with pytest.raises(DecodeError):
        batch.column("note")
    assert batch.column("note", text_errors="replace").tolist() == ["\ufffd"]


def test_invalid_dates():
    columns = [
        column("d", Kind.DATE),
        column("t0", Kind.DATETIME, fsp=0),
        column("t3", Kind.DATETIME, fsp=3),
        column("ts", Kind.TIMESTAMP, fsp=6),
    ]
    row = {"d": NAT, "t0": NAT, "t3": NAT, "ts": NAT}
    batch = make_batch(
        columns,
        [row],
        invalid=[
            (0, 0, 0, 0, 0, 0, 0, 0, 0),
            (0, 1, 2023, 5, 0, 10, 11, 12, 0),
            (0, 2, 2023, 0, 7, 1, 2, 3, 120000),
            (0, 3, 0, 0, 0, 0, 0, 0, 0),
        ],
    )
    assert batch.invalid_dates["text"].tolist() == [
        "0000-00-00",
        "2023-05-00 10:11:12",
        "2023-00-07 01:02:03.120",
        "0000-00-00 00:00:00.000000",
    ]
    assert batch.invalid_dates["column"].tolist() == [0, 1, 2, 3]
    assert batch.is_null("d").tolist() == [False]
    assert np.isnat(batch.column("d")[0])
    assert batch.to_arrow(change_columns=False).to_pylist() == [dict.fromkeys(row)]


def test_pylist():
    commit = dt.datetime(2023, 11, 14, 22, 13, 20, 123456, tzinfo=dt.UTC)
    batch = orders(transactions=[{"commit_time": 1_700_000_000_123_456}])
    change = {"_change_type": "insert", "_commit_timestamp": commit}
    assert batch.to_pylist() == [
        {"id": 0, "note": "one", **change, "_position": 1000, "_row": 0},
        {"id": 1, "note": None, **change, "_position": 1010, "_row": 1},
        {"id": 2, **change, "_position": 1020, "_row": 2},
    ]
    assert batch.to_pylist(change_columns=False)[2] == {"id": 2}
    assert raw_batch().to_pylist(change_columns=["_position"])[0] == {"raw": b"\x01rows", "_position": 4711}


def test_pickle_carries_only_what_is_referenced():
    batch = orders(transactions=[{"xid": i} for i in range(5)], transaction_of=[2, 3, 3])
    batch.buffer = bytes(batch.buffer) + b"\0" * 10_000_000
    pickled = pickle.dumps(batch)
    assert len(pickled) < 10_000
    copy = pickle.loads(pickled)
    assert copy.to_arrow().equals(batch.to_arrow())
    assert copy.buffer == b"one"
    assert copy.transactions["xid"][copy.array["image"]["transaction"]].tolist() == [2, 3, 3]
    assert copy.table == batch.table
    assert batch.array["row"]["note"]["offset"][0] == 7  # the batch itself is as it was


def test_pickle_of_no_records():
    copy = pickle.loads(pickle.dumps(orders([])))
    assert len(copy) == 0


def test_items_are_columns_and_slices_are_batches():
    batch = orders((b"one", b"two", None, b"four"))
    assert batch["note"].tolist() == ["one", "two", None, "four"]
    for part in (slice(1, 3), slice(None), slice(-2, None), slice(0, 4, 2), slice(9, None)):
        assert batch[part].to_arrow().to_pylist() == batch.to_arrow().to_pylist()[part]
    with pytest.raises(SchemaError, match="near: note"):
        batch["not"]
    for key in (0, None, ["id"]):
        with pytest.raises(TypeError, match="a column's name or a slice"):
            batch[key]
    with pytest.raises(ValueError, match="step"):
        batch[::-1]
    with pytest.raises(TypeError, match="not iterable"):
        iter(batch)


def test_a_slice_keeps_what_belongs_to_its_records():
    dates = [column("d", Kind.DATE)]
    batch = make_batch(dates, [{"d": NAT}, {"d": NAT}], invalid=[(1, 0, 2024, 0, 5, 0, 0, 0, 0)])
    assert batch[1:].invalid_dates["text"].tolist() == ["2024-00-05"]
    assert batch[1:].invalid_dates["record"].tolist() == [0]
    assert not len(batch[:1].invalid_dates)
