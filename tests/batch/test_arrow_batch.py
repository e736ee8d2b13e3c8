"""From a batch to Arrow: change columns, chosen rows, JSON, and readers of the stream."""

from __future__ import annotations

import datetime as dt
import os
import pickle
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from support.batches import ABSENT, column, make_batch
from support.orders import DOCUMENT, INT, REPLACE_A_BY_2, TEXT, notes, orders, raw_batch

from binlog_core._tables.column_types import Kind
from binlog_core.batch.arrow_batch import ArrowBatch
from binlog_core.batch.arrow_types import ChangeColumn
from binlog_core.errors import DecodeError, SchemaError
from binlog_core.log.batches import Batches

pytestmark = pytest.mark.sanitize


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


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, bool])
def test_chosen_rows_are_those_of_the_call(dtype):
    """An array that the caller uses again for others changes nothing, and is no way around the check."""
    batch = orders((b"one", b"two", b"three"))
    rows = np.array([1, 0, 1], dtype)
    expected = [0, 2] if dtype is bool else [1, 0, 1]
    chosen = batch.export(rows=rows, change_columns=["_row"])
    rows[:] = 0 if dtype is bool else 200
    assert pa.record_batch(chosen)["id"].to_pylist() == expected


CHANGED_MEANWHILE = """
import sys, threading
import numpy as np
sys.path.insert(0, sys.argv[1])
from support.orders import orders

batch = orders([b"x"] * 20_000)
rows = np.zeros(200_000, np.int64)
done = False

def change():
    while not done:
        rows[-1000:] = 1 << 40
        rows[-1000:] = 0

thread = threading.Thread(target=change)
thread.start()
for _ in range(150):
    try:
        given = batch.export(rows=rows, change_columns=False)
        given.__arrow_c_array__()
    except IndexError:
        pass
done = True
thread.join()
"""


def test_rows_that_another_thread_changes_meanwhile():
    """The columns are made without the GIL: record numbers that were checked must be those that are used."""
    tests = str(Path(__file__).parents[1])
    child = subprocess.run(
        [sys.executable, "-P", "-c", CHANGED_MEANWHILE, tests], capture_output=True, text=True
    )
    assert child.returncode == 0, (child.returncode, child.stderr)


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
        assert "(the extra binlog_core[" in str(error), error
    else:
        raise AssertionError("no error")
print("fine")
"""


def test_without_pyarrow():
    # The capsules need no library; to_arrow() says what is missing. In a separate process: this one has it.
    path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
    done = subprocess.run(
        [sys.executable, "-P", "-c", WITHOUT_PYARROW],  # -P: not the source folder
        check=False,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "fine\n", done.stderr


def test_geometry_of_a_stream():
    point = bytes.fromhex("0101000000 000000000000f03f 0000000000000040")
    batch = make_batch([column("g", Kind.GEOMETRY)], [{"g": b"\xe6\x10\x00\x00" + point}])
    table = pa.table(Batches(lambda: iter([batch, batch])).stream(geometry="ewkb", change_columns=False))
    assert table.schema == pa.schema([("g", pa.binary())])
    assert table["g"].to_pylist() == [bytes.fromhex("0101000020 e6100000") + point[5:]] * 2


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


def test_undecodable_table():
    raw = raw_batch()
    assert raw.to_arrow(change_columns=["_position"]).to_pylist() == [
        {"raw": b"\x01rows", "_position": 4711},
        {"raw": b"", "_position": 0},
    ]
    assert raw.column("raw").tolist() == [b"\x01rows", b""]
    assert raw.is_null("raw").tolist() == [False, False]
    assert pickle.loads(pickle.dumps(raw)).to_arrow().equals(raw.to_arrow())


def test_schema_alone():
    assert pa.schema(orders()).equals(orders().to_arrow().schema)
    binary = orders([b"\xff"]).export(text_errors="binary")
    assert pa.schema(binary).field("note").type == pa.binary()


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


def test_places_of_text_that_change_after_their_check():
    batch = orders((b"a", b"b", b"c"))
    places = np.array([0, 1, 1, 3])
    column = ChangeColumn("t", places, text=b"xyz")
    given = ArrowBatch(batch, columns=(), change_columns=False, extras=[column])
    assert pa.record_batch(given)["t"].to_pylist() == ["x", "", "yz"]
    for wrong in ([0, 1, 1, 1 << 20], [0, 3, 1, 3], [-1, 1, 1, 3]):
        places[:] = wrong
        with pytest.raises(IndexError, match="of 3 bytes of text"):
            given.__arrow_c_array__()
