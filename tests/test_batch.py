"""ChangeBatch: NumPy columns, Arrow streams, other libraries, pickles."""

from __future__ import annotations

import datetime as dt
import os
import pickle
import struct
import subprocess
import sys
import threading
from dataclasses import replace
from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from support.batches import ABSENT, column, make_batch

from binlog_core._tables.column_types import SPAN_DTYPE, Kind
from binlog_core._tables.tables import Table, record_dtype
from binlog_core.batch import TRANSACTION_DTYPE, ChangeBatch
from binlog_core.batches import Batches, batch_stream
from binlog_core.errors import DecodeError, SchemaError
from binlog_core.passes import Pass, Reading
from binlog_core.report import Report

NAT = np.datetime64("NaT")
INT = column("id", Kind.INT, bytes_=4)
TEXT = column("note", Kind.TEXT, charset="utf8mb4")

# {"a": 1} in binary JSON: object, count 1, size 12, key at 11 of length 1, value int16 1, "a".
DOCUMENT = b"\x00\x01\x00\x0c\x00\x0b\x00\x01\x00\x05\x01\x00a"
REPLACE_A_BY_2 = b"\x00\x03$.a\x03\x05\x02\x00"


class Capsule:
    """Whatever speaks the Arrow stream interface."""

    def __init__(self, capsule):
        self.capsule = capsule

    def __arrow_c_stream__(self, requested_schema=None):
        return self.capsule


def orders(notes=(b"one", None, ABSENT), **options):
    return make_batch([INT, TEXT], [{"id": i, "note": note} for i, note in enumerate(notes)], **options)


def test_null_and_absent_are_told_apart():
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


@pytest.mark.parametrize("rows", [[True, False, True], np.array([True, False, True])])
def test_rows_by_a_mask(rows):
    batch = orders((b"one", b"two", b"three"))
    chosen = batch.to_arrow(rows=rows, change_columns=["_position", "_file"])
    assert chosen.column("note").to_pylist() == ["one", "three"]
    assert chosen.column("_position").to_pylist() == [1000, 1020]
    assert chosen.num_rows == 2
    assert batch.to_arrow(rows=[False] * 3).num_rows == 0


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64, np.uint64])
def test_rows_by_number(dtype):
    batch = orders((b"one", b"two", b"three"))
    assert batch.to_arrow(rows=np.array([2, 0, 2], dtype)).column("id").to_pylist() == [2, 0, 2]
    assert batch.to_arrow(rows=[]).num_rows == 0


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        ([0.0, 1.9], TypeError),
        (["0"], TypeError),
        (np.array([0], object), TypeError),
        ([[0]], TypeError),
        (1, TypeError),
        ([True, False], IndexError),
        ([3], IndexError),
        ([-1], IndexError),
        (np.array([2**64 - 1], np.uint64), IndexError),
    ],
)
def test_rows_that_choose_nothing_are_refused(rows, error):
    with pytest.raises(error, match="rows"):
        orders((b"one", b"two", b"three")).export(rows=rows)


def test_one_change_column_by_its_name():
    assert orders().to_arrow(change_columns="_row").schema.names == ["id", "note", "_row"]


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


def test_change_columns():
    batch = make_batch(
        [INT],
        [{"id": i} for i in range(4)],
        ops=[1, 2, 3, 4],
        transactions=[{"commit_time": 1_700_000_000_123_456}, {"timestamp": 1_600_000_000}],
        transaction_of=[0, 0, 0, 1],
    )
    commit = dt.datetime(2023, 11, 14, 22, 13, 20, 123456, tzinfo=dt.UTC)
    begin = dt.datetime(2020, 9, 13, 12, 26, 40, tzinfo=dt.UTC)
    arrow = batch.to_arrow()
    assert arrow.schema.names == ["id", "_change_type", "_commit_timestamp", "_position", "_row"]
    assert arrow["_change_type"].to_pylist() == ["insert", "update_preimage", "update_postimage", "delete"]
    assert arrow["_commit_timestamp"].to_pylist() == [commit, commit, commit, begin]
    assert arrow["_position"].to_pylist() == [1000, 1010, 1020, 1030]
    assert arrow["_row"].to_pylist() == [0, 1, 2, 3]
    names = ("_file", "_server_id", "_timestamp")
    some = batch.to_arrow(change_columns=names, rows=np.array([3]))
    assert some.to_pylist() == [
        {
            "id": 3,
            "_file": "log.000001",
            "_server_id": 7,
            "_timestamp": dt.datetime(2023, 11, 14, 22, 13, 20, tzinfo=dt.UTC),
        }
    ]
    with pytest.raises(SchemaError, match="_change_type"):
        batch.to_arrow(change_columns=["_op"])


def test_change_column_named_like_a_column():
    batch = make_batch([column("_row", Kind.INT, bytes_=4)], [{"_row": 1}])
    with pytest.raises(SchemaError) as info:
        batch.to_arrow()
    assert info.value.column == "_row"
    assert batch.to_arrow(change_columns=["_position"])["_row"].to_pylist() == [1]


def test_partial_json_updates():
    columns = [INT, column("doc", Kind.JSON), column("other", Kind.JSON)]
    rows = [
        {"id": 1, "doc": DOCUMENT, "other": DOCUMENT},
        {"id": 1, "doc": REPLACE_A_BY_2, "other": b""},  # no document at all: JSON null
        {"id": 2, "doc": ABSENT, "other": None},
        {"id": 2, "doc": REPLACE_A_BY_2, "other": None},
    ]
    batch = make_batch(columns, rows, ops=[2, 3, 2, 3], json_diffs=[(1, 1), (3, 1)])
    assert batch.to_arrow()["doc"].to_pylist() == ['{"a": 1}', '{"a": 2}', None, None]
    assert batch.to_arrow()["other"].to_pylist() == ['{"a": 1}', "null", None, None]
    assert batch.to_arrow(rows=np.array([3, 1]))["doc"].to_pylist() == [None, '{"a": 2}']
    assert batch.column("doc").tolist() == ['{"a": 1}', '{"a": 2}', None, None]
    assert batch.is_null("doc").tolist() == [False] * 4
    assert batch.json_diffs.tolist() == [(1, 1), (3, 1)]
    assert pickle.loads(pickle.dumps(batch)).to_arrow().equals(batch.to_arrow())


@pytest.mark.parametrize("document", [b"\x00", b"\x05\x01", b"\x63", b"\x0c\x05ab", b"\x0c\x01\xff"])
def test_broken_json(document):
    batch = make_batch([column("doc", Kind.JSON)], [{"doc": DOCUMENT}, {"doc": document}])
    with pytest.raises(DecodeError) as info:
        batch.to_arrow()
    assert (info.value.column, info.value.offset) == ("doc", 1010)
    assert batch.to_arrow(text_errors="binary")["doc"].to_pylist() == [DOCUMENT, document]


def test_broken_json_diff():
    batch = make_batch(
        [column("doc", Kind.JSON)], [{"doc": DOCUMENT}, {"doc": b"\x09"}], ops=[2, 3], json_diffs=[(1, 0)]
    )
    with pytest.raises(DecodeError) as info:
        batch.to_arrow()
    assert (info.value.column, info.value.table, info.value.offset) == ("doc", "shop.orders", 1010)


def test_json_extension_type():
    batch = make_batch([column("doc", Kind.JSON)], [{"doc": DOCUMENT}])
    assert batch.to_arrow().schema.field("doc").type == pa.json_()


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


def test_polars():
    frame = pl.DataFrame(orders())
    assert frame["note"].to_list() == ["one", None, None]
    assert frame.schema["_commit_timestamp"] == pl.Datetime("us", "UTC")
    columns = [column("e", Kind.ENUM, members=("x", "y")), column("s", Kind.SET, members=("p", "q"))]
    frame = pl.DataFrame(make_batch(columns, [{"e": 2, "s": 3}, {"e": 0, "s": 0}, {"e": None, "s": None}]))
    assert frame["e"].cast(pl.String).to_list() == ["y", "", None]
    assert frame["s"].cast(pl.List(pl.String)).to_list() == [["p", "q"], [], None]


def test_duckdb():
    columns = [
        INT,
        TEXT,
        column("e", Kind.ENUM, members=("x", "y")),
        column("doc", Kind.JSON),
        column("d", Kind.DECIMAL, precision=38, scale=10),
        column("ts", Kind.TIMESTAMP, fsp=6),
    ]
    row = {
        "id": 1,
        "note": b"\xc3\xa9",
        "e": 1,
        "doc": DOCUMENT,
        "d": (2**64 - 5, -1),
        "ts": np.datetime64("2024-01-02T03:04:05.000006"),
    }
    batch = make_batch(columns, [row, {**dict.fromkeys(row), "id": 2}])
    con = duckdb.connect()
    con.execute("set TimeZone = 'UTC'")
    con.register("changes", batch)
    query = (
        "select id, note, e::varchar, doc::json->>'a', d, ts::varchar, _change_type from changes order by id"
    )
    assert con.execute(query).fetchall() == [
        (1, "é", "x", "1", Decimal("-0.0000000005"), "2024-01-02 03:04:05.000006+00", "insert"),
        (2, None, None, None, None, None, "insert"),
    ]


def test_pandas():
    frame = orders().to_pandas()
    assert frame.dtypes["id"] == pd.ArrowDtype(pa.int32())
    assert frame["note"].isna().tolist() == [False, True, True]
    assert frame["note"][0] == "one"


WITHOUT_PYARROW = """
import sys
sys.modules["pyarrow"] = sys.modules["pandas"] = None
import polars
from support.batches import ABSENT, column, make_batch
from binlog_core._tables.column_types import Kind
from binlog_core.errors import MissingExtraError

columns = [column("id", Kind.INT, bytes_=4), column("note", Kind.TEXT, charset="utf8mb4")]
batch = make_batch(columns, [{"id": i, "note": n} for i, n in enumerate([b"one", None, ABSENT])])
assert polars.DataFrame(batch)["note"].to_list() == ["one", None, None]
for call in (batch.to_arrow, batch.to_pandas):
    try:
        call()
    except MissingExtraError as error:
        assert "pip install 'binlog_core[" in str(error), error
    else:
        raise AssertionError("no error")
print("fine")
"""


def test_without_pyarrow():
    # The capsules need no library; to_arrow() says what is missing. A process of its own: ours has it.
    path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
    done = subprocess.run(
        [sys.executable, "-P", "-c", WITHOUT_PYARROW],  # -P: not the source folder
        check=False,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "fine\n", done.stderr


def test_pickle_carries_only_what_is_referenced():
    batch = orders(transactions=[{"xid": i} for i in range(5)], transaction_of=[2, 3, 3])
    batch.buffer = batch.buffer + b"\0" * 10_000_000
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


def test_stream_of_several_batches():
    stream = Capsule(batch_stream(iter([orders(), orders([b"two"])])))
    table = pa.table(stream)
    assert table["note"].to_pylist() == ["one", None, None, "two"]


def test_stream_maps_later_definitions_by_name():
    later = make_batch([TEXT, INT], [{"id": 9, "note": b"later"}])
    without = make_batch([INT], [{"id": 10}])
    table = pa.table(Capsule(batch_stream([orders([b"one"]), later, without])))
    table.validate(full=True)
    assert table.select(["id", "note"]).to_pylist() == [
        {"id": 0, "note": "one"},
        {"id": 9, "note": "later"},
        {"id": 10, "note": None},
    ]


@pytest.mark.parametrize(
    "missing",
    [
        column("m", Kind.DATE),
        column("m", Kind.DECIMAL, precision=65),
        column("m", Kind.ENUM, members=("a",)),
        column("m", Kind.SET, members=("a",)),
        column("m", Kind.GEOMETRY),
        column("m", Kind.VECTOR, dimensions=2),
        column("m", Kind.VECTOR),
        column("m", Kind.JSON),
        column("m", Kind.TEXT, charset="sjis"),
        column("m", Kind.BINARY, declared_type="uuid"),
        column("m", Kind.BINARY, pad_to=4),
        column("m", Kind.NULL),
    ],
)
def test_stream_fills_any_kind_with_nulls(missing):
    capsule = batch_stream([make_batch([INT], [{"id": i} for i in range(9)])], columns=[INT, missing])
    table = pa.table(Capsule(capsule))
    table.validate(full=True)
    assert table["m"].to_pylist() == [None] * 9
    assert table["id"].to_pylist() == list(range(9))


def test_stream_refuses_a_new_column():
    wider = make_batch([INT, TEXT, column("new", Kind.DATE)], [{"id": 1, "note": b"x", "new": None}])
    with pytest.raises(Exception, match=r"SchemaError.*column new"):
        pa.table(Capsule(batch_stream([orders(), wider])))
    table = pa.table(Capsule(batch_stream([orders([b"one"]), wider], new_columns="drop")))
    assert table["note"].to_pylist() == ["one", "x"]


def test_stream_refuses_a_changed_type():
    changed = make_batch([column("id", Kind.INT, bytes_=8), TEXT], [{"id": 1, "note": b"x"}])
    with pytest.raises(Exception, match=r"SchemaError.*column id"):
        pa.table(Capsule(batch_stream([orders(), changed])))


def test_stream_takes_new_members():
    first = make_batch([column("e", Kind.ENUM, members=("a",))], [{"e": 1}])
    later = make_batch([column("e", Kind.ENUM, members=("b", "a"))], [{"e": 1}])
    table = pa.table(Capsule(batch_stream([first, later])))
    assert table["e"].to_pylist() == ["a", "b"]


def test_stream_reports_errors_while_reading():
    def batches():
        yield orders()
        raise DecodeError("length 5, expected 4", offset=4711)

    with pytest.raises(Exception, match=r"DecodeError: length 5, expected 4 \(offset 4711\)"):
        pa.table(Capsule(batch_stream(batches())))


def test_stream_refuses_another_table():
    other = make_batch([INT, TEXT], [{"id": 1, "note": b"x"}], table="customers")
    with pytest.raises(Exception, match=r"SchemaError.*one table, shop\.orders.*table shop\.customers"):
        pa.table(Batches(lambda: iter([orders(), other])))


def notes(*notes):
    return Batches(lambda: iter([orders([note]) for note in notes]))


def test_geometry_of_a_stream():
    point = bytes.fromhex("0101000000 000000000000f03f 0000000000000040")
    batch = make_batch([column("g", Kind.GEOMETRY)], [{"g": b"\xe6\x10\x00\x00" + point}])
    table = pa.table(Batches(lambda: iter([batch, batch])).stream(geometry="ewkb", change_columns=False))
    assert table.schema == pa.schema([("g", pa.binary())])
    assert table["g"].to_pylist() == [bytes.fromhex("0101000020 e6100000") + point[5:]] * 2


def test_batches_are_an_iterator_and_a_stream():
    batches = notes(b"one", b"two", b"three")
    assert next(batches).column("note").tolist() == ["one"]
    assert pa.schema(batches).names[:2] == ["id", "note"]
    assert next(batches).column("note").tolist() == ["two"]
    assert pl.DataFrame(batches)["note"].to_list() == ["one", "two", "three"]  # never what is left only
    assert pl.DataFrame(batches)["note"].to_list() == ["one", "two", "three"]
    assert [batch.column("note")[0] for batch in batches] == ["three"]
    assert [batch.column("note")[0] for batch in batches] == ["one", "two", "three"]
    with pytest.raises(StopIteration):
        next(batches)
    assert pa.table(batches).num_rows == 3
    assert [batch.column("note").tolist() for batch in notes(b"a", b"b")] == [["a"], ["b"]]
    options = {"change_columns": False, "text_errors": "replace"}
    assert pa.table(notes(b"\xff").stream(**options)).to_pylist() == [{"id": 0, "note": "\ufffd"}]


def test_what_was_looked_at_only_is_read_once():
    passes = []

    def read():
        passes.append(1)
        return iter([orders([b"one"]), orders([b"two"])])

    batches = Batches(read)
    assert pa.schema(batches).names[0] == "id"
    assert batches.peek() is batches.peek()
    assert batches.to_arrow().num_rows == 2
    assert len(passes) == 1


def test_batches_of_one_table_as_a_whole():
    for frame in (notes(b"one", None).to_pandas(), notes(b"one", None).to_polars()):
        assert frame["note"].to_list()[0] == "one"
        assert frame.shape == (2, 6)
    assert notes(b"one", b"two").to_pandas().dtypes["id"] == pd.ArrowDtype(pa.int32())
    table = notes(b"one", b"two").to_arrow(change_columns=False)
    assert table.to_pylist() == [{"id": 0, "note": "one"}, {"id": 0, "note": "two"}]
    assert orders([b"one"]).to_polars(change_columns=False).rows() == [(0, "one")]


def test_no_batches_as_a_whole():
    nothing = Batches(lambda: Pass(Reading(Report(), threading.Event()), (batch for batch in ())))
    assert nothing.to_arrow(columns=[INT, TEXT]).schema.names[:2] == ["id", "note"]
    assert nothing.to_polars(columns=[INT, TEXT]).shape == (0, 6)
    assert nothing.to_pandas(columns=[INT, TEXT], change_columns=False).shape == (0, 2)
    with pytest.raises(SchemaError, match="no row changes"):
        nothing.to_pandas()


def test_errors_of_a_whole_are_our_own():
    other = replace(orders().table, name="other")
    batch = orders([b"one"])
    mixed = Batches(
        lambda: iter([batch, ChangeBatch(other, batch.columns, *orders([b"two"]).__reduce__()[1][2:])])
    )
    for call in (mixed.to_arrow, mixed.to_pandas, mixed.to_polars):
        with pytest.raises(SchemaError, match=r"a stream holds one table, shop\.orders") as caught:
            call()
        assert caught.value.table == "shop.other"
    with pytest.raises(DecodeError):
        notes(b"one", b"\xff").to_arrow()


def test_wide_decimals_are_text_in_polars():
    wide = make_batch([column("d", Kind.DECIMAL, precision=40, scale=1)], [{"d": (15, 0, 0, 0)}])
    assert wide.to_polars(change_columns=False).rows() == [("1.5",)]
    assert Batches(lambda: iter([wide])).to_polars(change_columns=False).rows() == [("1.5",)]


def test_a_frame_is_not_made_of_the_objects():
    with pytest.raises(TypeError, match="to_pandas"):
        pd.DataFrame(notes(b"one"))
    for given in (notes(b"one"), orders()):
        with pytest.raises(TypeError, match="array"):
            np.asarray(given)


@pytest.mark.parametrize("options", [{"rows": [0]}, {"extras": ()}, {"nonsense": 1}])
def test_options_of_one_batch_are_refused_for_a_stream(options):
    with pytest.raises(TypeError, match=next(iter(options))):
        notes(b"one").stream(**options)
    with pytest.raises(TypeError, match=next(iter(options))):
        batch_stream([], **options)


def test_duckdb_reads_batches():
    con = duckdb.connect()
    con.register("changes", notes(b"one", b"two"))
    assert con.execute("select count(*), max(note) from changes").fetchall() == [(2, "two")]
    assert con.execute("select note from changes where note < 'p'").fetchall() == [("one",)]


def test_pandas_reads_batches():
    assert pd.DataFrame.from_arrow(notes(b"one", b"two"))["note"].tolist() == ["one", "two"]


def test_undecodable_table():
    raw = raw_batch()
    assert raw.to_arrow(change_columns=["_position"]).to_pylist() == [
        {"raw": b"\x01rows", "_position": 4711},
        {"raw": b"", "_position": 0},
    ]
    assert raw.column("raw").tolist() == [b"\x01rows", b""]
    assert raw.is_null("raw").tolist() == [False, False]
    assert pickle.loads(pickle.dumps(raw)).to_arrow().equals(raw.to_arrow())


def raw_batch():
    table = Table("shop", "odd", (column("c0", Kind.INT, bytes_=4),), undecodable="column type 20")
    image = record_dtype(1, ())["image"]
    array = np.zeros(2, np.dtype([("image", image), ("row", [("raw", SPAN_DTYPE)])]))
    array["image"]["absent_bitmap"] = array["image"]["null_bitmap"] = 0xFF
    array["image"]["position"][0] = 4711
    array["row"]["raw"][0] = (3, 5)
    return ChangeBatch(table, (), array, b"___\x01rows___", np.zeros(1, TRANSACTION_DTYPE))


def test_stream_of_nothing():
    with pytest.raises(SchemaError, match="no row changes"):
        batch_stream([])
    table = pa.table(Capsule(batch_stream([], columns=[INT, TEXT])))
    assert table.num_rows == 0
    assert table.schema.names[:2] == ["id", "note"]


def test_schema_alone():
    assert pa.schema(orders()).equals(orders().to_arrow().schema)
    binary = orders([b"\xff"]).export(text_errors="binary")
    assert pa.schema(binary).field("note").type == pa.binary()


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


def test_gtids_as_a_change_column():
    uuid = list(range(16))
    transactions = [{"gtid_kind": 1, "uuid": uuid, "sequence_number": 7}, {}]
    batch = orders((b"a", b"b", b"c"), transactions=transactions, transaction_of=[0, 1, 0])
    text = "00010203-0405-0607-0809-0a0b0c0d0e0f:7"
    assert batch.to_arrow(change_columns="_gtid")["_gtid"].to_pylist() == [text, "", text]
    chosen = batch.to_arrow(change_columns=["_gtid", "_row"], rows=[1, 2])
    assert chosen["_gtid"].to_pylist() == ["", text]
    assert [record["_gtid"] for record in batch.to_pylist(change_columns=["_gtid"])] == [text, "", text]
    assert orders(()).to_arrow(change_columns=["_gtid", "_transaction"]).num_rows == 0


def test_batches_and_batch_as_html():
    batch = orders([b"<b>", None] + [b"x" * 200] * 10)
    shown = batch._repr_html_()
    assert "&lt;b&gt;" in shown and "<b>" not in shown
    assert "<i>NULL</i>" in shown and "x" * 80 + "…" in shown
    assert "<small>2 more</small>" in shown
    batches = Batches(lambda: iter([batch]), "shop.<orders>")
    assert repr(batches) == "<Batches of shop.<orders>: not read yet>"
    assert "shop.&lt;orders&gt;" in batches._repr_html_()
    next(batches)
    assert "partly read" in repr(batches)
    list(batches)
    assert "read to the end" in repr(batches)
