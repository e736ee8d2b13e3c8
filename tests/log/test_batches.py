"""Batches: an iterator and an Arrow stream of one table, and what it takes from its batches."""

from __future__ import annotations

import threading
from dataclasses import replace

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from support.batches import column, make_batch
from support.orders import INT, TEXT, Capsule, notes, orders

from binlog_core._tables.column_types import Kind
from binlog_core.batch.change_batch import ChangeBatch
from binlog_core.errors import DecodeError, SchemaError
from binlog_core.log.batches import Batches, batch_stream
from binlog_core.log.passes import Pass, Reading
from binlog_core.report import Report

pytestmark = pytest.mark.sanitize_long


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


@pytest.mark.skipif(not hasattr(pd.DataFrame, "from_arrow"), reason="pandas before 3")
def test_pandas_reads_batches():
    assert pd.DataFrame.from_arrow(notes(b"one", b"two"))["note"].tolist() == ["one", "two"]


def test_stream_of_nothing():
    with pytest.raises(SchemaError, match="no row changes"):
        batch_stream([])
    table = pa.table(Capsule(batch_stream([], columns=[INT, TEXT])))
    assert table.num_rows == 0
    assert table.schema.names[:2] == ["id", "note"]
