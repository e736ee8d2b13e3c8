"""Arrow columns where loops begin and end: tiles, bytes of bitmaps, blocks of text and of memory."""

from __future__ import annotations

import datetime as dt
import threading

import numpy as np
import pyarrow as pa
import pytest
from support.batches import ABSENT, column, make_batch

from binlog_core._tables.column_types import Kind
from binlog_core.batch.change_batch import ChangeBatch
from binlog_core.errors import DecodeError

pytestmark = pytest.mark.sanitize

COUNTS = [0, 1, 2, 3, 4, 5, 7, 8, 9, 63, 64, 65, 511, 512, 513, 1027]  # a tile has 512 records
EPOCH = dt.date(1970, 1, 1)


def mixed(count: int) -> tuple[ChangeBatch, list[dict[str, object]]]:
    """Columns of many kinds over three bytes of bitmaps, each with its own nulls, and their values."""
    columns = [
        *(column(f"i{i}", Kind.INT, bytes_=(1, 2, 4, 8)[i % 4], signed=True) for i in range(13)),
        column("never", Kind.INT, bytes_=4, signed=True),
        column("text", Kind.TEXT, charset="utf8mb4"),
        column("fixed", Kind.BINARY, pad_to=5),
        column("day", Kind.DATE),
        column("kind", Kind.ENUM, members=("a", "b")),
        column("flags", Kind.SET, members=("x", "y", "z")),
        column("price", Kind.DECIMAL, precision=10, scale=0),
    ]
    stored, expected = [], []
    for row in range(count):
        texts = "é" * (row % 40)
        raw = bytes([65 + row % 26]) * (row % 6)
        values = {
            **{f"i{i}": ((row * 7 + i) % 120, (row * 7 + i) % 120) for i in range(13)},
            "never": (row, row),
            "text": (texts.encode(), texts),
            "fixed": (raw, raw.ljust(5, b"\0")),
            "day": (np.datetime64("1970-01-01") + row, EPOCH + dt.timedelta(row)),
            "kind": (row % 3, ("", "a", "b")[row % 3]),
            "flags": (row % 8, [name for bit, name in enumerate("xyz") if row >> bit & 1]),
            "price": (row - 5, row - 5),
        }
        for number, name in enumerate(values):
            if name != "never" and (row + number) % (number + 2) == 0:
                values[name] = (ABSENT if row % 2 else None, None)
        stored.append({name: value for name, (value, _) in values.items()})
        expected.append({name: value for name, (_, value) in values.items()})
    return make_batch(columns, stored), expected


@pytest.mark.parametrize("count", COUNTS)
def test_nulls_of_every_column(count: int) -> None:
    batch, expected = mixed(count)
    arrow = batch.to_arrow(change_columns=False)
    arrow.validate(full=True)
    assert arrow.to_pylist() == expected
    for name in arrow.schema.names:
        assert arrow[name].null_count == sum(row[name] is None for row in expected)
    assert arrow["never"].buffers()[0] is None  # no bitmap where nothing is null


def test_chosen_rows_and_columns() -> None:
    batch, expected = mixed(1027)
    rows = np.array([1026, 0, 5, 5, *range(700, 90, -1)])
    assert batch.to_arrow(rows=rows, change_columns=False).to_pylist() == [expected[i] for i in rows]
    batch.columns = tuple(c for c in reversed(batch.columns) if c.name in ("price", "i3", "text", "i12"))
    wanted = [{name: row[name] for name in ("price", "text", "i12", "i3")} for row in expected]
    assert batch.to_arrow(change_columns=False).to_pylist() == wanted


@pytest.mark.parametrize("columns", [1, 7, 8, 9, 16, 17, 24, 25, 31, 32, 33, 40, 56, 63, 64, 65, 72, 73, 130])
def test_the_last_null_of_bitmaps_of_every_length(columns: int) -> None:
    names = [f"c{i}" for i in range(columns)]
    rows = [dict.fromkeys(names, 1) for _ in range(20)]
    rows[3] |= {names[-1]: None}
    rows[17] |= {names[0]: ABSENT}
    batch = make_batch([column(name, Kind.INT, bytes_=1) for name in names], rows)
    arrow = batch.to_arrow(change_columns=False)
    found = {(i, name) for i, row in enumerate(arrow.to_pylist()) for name in names if row[name] is None}
    assert found == {(3, names[-1]), (17, names[0])}


@pytest.mark.parametrize("before", [0, 1, 5, 8, 13])
@pytest.mark.parametrize("length", [1, 2, 7, 8, 9, 16, 31, 33, 40])
def test_an_invalid_byte_at_every_place(before: int, length: int) -> None:
    columns = [column("t", Kind.TEXT, charset="utf8mb4")]
    for place in range(length):
        bad = bytearray(b"a" * length)
        bad[place] = 0xFF
        batch = make_batch(columns, [{"t": b"b" * before}, {"t": bytes(bad)}, {"t": b"after"}])
        with pytest.raises(DecodeError, match="utf8mb4") as info:
            batch.to_arrow()
        assert info.value.offset == 1010
        assert batch.to_arrow(text_errors="binary")["t"].to_pylist()[1] == bytes(bad)


@pytest.mark.parametrize("length", [0, 1, 31, 32, 33, 63, 64, 65, 127, 128, 224, 255, 256, 257, 300, 5000])
@pytest.mark.parametrize("behind", [0, 1, 31, 255, 256])
def test_values_near_the_end_of_the_buffer(length: int, behind: int) -> None:
    value = bytes(i * 7 % 95 + 32 for i in range(length))
    batch = make_batch([column("b", Kind.BINARY)], [{"b": value}, {"b": b"x"}, {"b": value}])
    batch.buffer = bytearray(bytes(batch.buffer) + b"\xee" * behind)
    assert batch.to_arrow()["b"].to_pylist() == [value, b"x", value]


def test_values_that_grow_and_shrink() -> None:
    # One large value among the first, then none; and many after few: what is reserved is a guess.
    values = [b"x" * 100_000, *[b""] * 3000, *[bytes([97 + i % 26]) * (i % 300) for i in range(3000)]]
    batch = make_batch([column("b", Kind.BINARY)], [{"b": value} for value in values])
    assert batch.to_arrow()["b"].to_pylist() == values


OPS = ["insert", "update_preimage", "update_postimage", "delete"]


@pytest.mark.parametrize("count", COUNTS)
def test_change_columns(count: int) -> None:
    ops = [1] * min(count, 600) + [i % 4 + 1 for i in range(max(0, count - 600))]
    transactions = [{"commit_time": 5_000_000 + i if i % 2 else -1, "timestamp": 9 + i} for i in range(4)]
    batch = make_batch(
        [column("v", Kind.INT, bytes_=1)],
        [{"v": 1}] * count,
        ops=ops,
        transactions=transactions,
        transaction_of=[i // 3 % 4 for i in range(count)],
    )
    batch.array["image"]["timestamp"] = np.arange(count) + 4_000_000_000
    names = ["_row", "_change_type", "_commit_timestamp", "_position", "_timestamp", "_file", "_server_id"]
    arrow = batch.to_arrow(change_columns=names)
    arrow.validate(full=True)
    assert arrow.schema.names == ["v", *names]
    assert arrow["_row"].to_pylist() == list(range(count))
    assert arrow["_change_type"].to_pylist() == [OPS[op - 1] for op in ops]
    times = [9_000_000, 5_000_001, 11_000_000, 5_000_003]
    assert arrow["_commit_timestamp"].cast(pa.int64()).to_pylist() == [
        times[i // 3 % 4] for i in range(count)
    ]
    assert arrow["_position"].to_pylist() == [1000 + 10 * i for i in range(count)]
    assert arrow["_timestamp"].cast(pa.int64()).to_pylist() == [
        (4_000_000_000 + i) * 1_000_000 for i in range(count)
    ]
    assert arrow["_file"].to_pylist() == ["log.000001"] * count
    assert arrow["_server_id"].to_pylist() == [7] * count
    some = np.arange(count)[::-2]
    assert batch.to_arrow(rows=some, change_columns=names).equals(arrow.take(pa.array(some)))


@pytest.mark.parametrize(("field", "name"), [("op", "_change_type"), ("transaction", "_commit_timestamp")])
@pytest.mark.parametrize("record", [0, 1, 2])
def test_numbers_of_changes_that_cannot_be(field: str, name: str, record: int) -> None:
    batch = make_batch([column("v", Kind.INT, bytes_=1)], [{"v": 1}] * 3)
    batch.array["image"][field][record] = 200
    with pytest.raises(DecodeError, match=name) as info:
        batch.to_arrow()
    assert (info.value.column, info.value.offset) == (name, 1000 + 10 * record)


def test_large_blocks_are_used_again_only_when_released() -> None:
    """More than 2 MB of text a column: blocks that go back to a pool when Arrow's users let go of them."""

    def big(letter: int) -> ChangeBatch:
        value = bytes([letter]) * 3000
        return make_batch([column("t", Kind.TEXT, charset="utf8mb4")], [{"t": value}] * 1200)

    wrong: list[str] = []

    def work(letter: int) -> None:
        batch, expected = big(letter), chr(letter) * 3000
        kept: list[pa.RecordBatch] = []
        for _ in range(12):
            kept = [*kept[-1:], batch.to_arrow()]
            for arrow in kept:
                if set(arrow["t"].to_pylist()) != {expected}:
                    wrong.append(expected[:1])

    threads = [threading.Thread(target=work, args=(letter,)) for letter in b"abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
