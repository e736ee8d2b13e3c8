"""Rows of fixed length are decoded many at a time: they must equal those decoded one by one.

Expected values are those that the writer was given; and the bytes are those of the same row in an event of
its own, which is never taken with others.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from support.guarded import exact
from support.writer import Log, Table

import binlog_core
from binlog_core import ChangeBatch, Limits
from binlog_core._decode.log_decoder import LogDecoder
from binlog_core._decode.selection import Selection
from binlog_core._sources.sources import BufferSource
from binlog_core._walk.track import Rules
from binlog_core.errors import DecodeError
from binlog_core.report import Report

pytestmark = pytest.mark.sanitize_logs

COLUMNS = {
    "id": "BIGINT",
    "tiny": "TINYINT",
    "small": "SMALLINT UNSIGNED",
    "medium": "MEDIUMINT",
    "medium_u": "MEDIUMINT UNSIGNED",
    "number": "INT",
    "price": "DECIMAL(10,2)",
    "count": "DECIMAL(18,0)",
    "large": "DECIMAL(30,10)",
    "huge": "DECIMAL(60,20)",
    "day": "DATE",
    "at": "DATETIME(3)",
    "stamp": "TIMESTAMP(6)",
    "length": "TIME(2)",
    "year": "YEAR",
    "bits": "BIT(20)",
    "kind": "ENUM('a','b','c')",
    "ratio": "DOUBLE",
    "share": "FLOAT",
}
# A tile has 128 rows, fewer than 8 are taken one by one, and 16 bytes are the step of copies.
COUNTS = [1, 2, 7, 8, 9, 15, 16, 17, 127, 128, 129, 136, 137, 255, 256, 257, 400]
Row = dict[str, Any]


def table_of(names: Sequence[str], **options: Any) -> Table:
    return Table("shop", "fixed", [(name, COLUMNS[name]) for name in names], **options)


def value_of(name: str, rng: random.Random) -> Any:
    digits = {"price": (10, 2), "count": (18, 0), "large": (30, 10), "huge": (60, 20)}
    if name in digits:
        precision, scale = digits[name]
        unscaled = rng.randrange(10**precision) * rng.choice((1, -1))
        return Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -scale))
    moment = dt.datetime(1971, 1, 1) + dt.timedelta(seconds=rng.randrange(2**30))
    return {
        "id": rng.randrange(-(2**63), 2**63),
        "tiny": rng.randrange(-128, 128),
        "small": rng.randrange(2**16),
        "medium": rng.randrange(-(2**23), 2**23),
        "medium_u": rng.randrange(2**24),
        "number": rng.randrange(-(2**31), 2**31),
        "day": moment.date(),
        "at": moment + dt.timedelta(milliseconds=rng.randrange(1000)),
        "stamp": (moment + dt.timedelta(microseconds=rng.randrange(10**6))).replace(tzinfo=dt.UTC),
        "length": dt.timedelta(milliseconds=10 * rng.randrange(-300_000_000, 300_000_000)),
        "year": rng.randrange(1901, 2156),
        "bits": rng.randrange(2**20),
        "kind": rng.choice("abc"),
        "ratio": rng.random() * 10.0 ** rng.randrange(-20, 20),
        "share": float(np.float32(rng.random())),
    }[name]


def rows_of(names: Sequence[str], count: int, nulls: Sequence[int] = (), seed: int = 1) -> list[Row]:
    """`count` rows; those at `nulls` have a NULL somewhere."""
    rng = random.Random(seed)
    rows = [{name: value_of(name, rng) for name in names} for _ in range(count)]
    for i in nulls:
        if i < count:
            rows[i][rng.choice(names)] = None
    return rows


def written(table: Table, rows: Sequence[Any], kind: str, *, per_event: int) -> bytes:
    log = Log("8.0.36")
    log.begin()
    log.table_map(table)
    for begin in range(0, len(rows), per_event):
        getattr(log, kind)(table, rows[begin : begin + per_event], mapped=True)
    log.commit()
    return log.getvalue()


def only_batch(data: bytes, **options: Any) -> ChangeBatch:
    with binlog_core.open(exact(data), **options) as log:
        (batch,) = log.batches()
        return batch


def check(table: Table, rows: Sequence[Any], kind: str) -> None:
    together = written(table, rows, kind, per_event=len(rows))
    many = only_batch(together)
    one_by_one = only_batch(written(table, rows, kind, per_event=1))
    assert many.array["row"].tobytes() == one_by_one.array["row"].tobytes()
    for name in ("op", "timestamp", "server_id", "transaction", "null_bitmap", "absent_bitmap"):
        assert np.array_equal(many.array["image"][name], one_by_one.array["image"][name]), name
    images = 2 if kind == "update" else 1
    assert many.array["image"]["row"].tolist() == [i for i in range(len(rows)) for _ in range(images)]
    assert len(set(many.array["image"]["position"].tolist())) == 1
    assert many.invalid_dates.tobytes() == one_by_one.invalid_dates.tobytes()
    with binlog_core.open(exact(together)) as log:
        changes = list(log.rows())
    if kind != "update":
        rows = [(None, row) if kind == "insert" else (row, None) for row in rows]
    assert [(change.before, change.after) for change in changes] == list(rows)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("kind", ["insert", "delete"])
def test_all_types_together(kind: str, count: int) -> None:
    check(table_of(list(COLUMNS)), rows_of(list(COLUMNS), count), kind)


@pytest.mark.parametrize("count", COUNTS)
def test_updates(count: int) -> None:
    names = list(COLUMNS)
    pairs = list(zip(rows_of(names, count), rows_of(names, count, seed=2), strict=True))
    check(table_of(names), pairs, "update")


@pytest.mark.parametrize("name", COLUMNS)
def test_each_type_alone(name: str) -> None:
    """The shortest records: what a copy spills over falls into the next ones."""
    check(table_of([name]), rows_of([name], 300), "insert")
    pairs = list(zip(rows_of([name], 140), rows_of([name], 140, seed=2), strict=True))
    check(table_of([name]), pairs, "update")


@pytest.mark.parametrize(
    "nulls",
    [[0], [7], [8], [9], [127], [128], [129], [255], [299], range(0, 300, 3), range(0, 300, 9)],
    ids=str,
)
@pytest.mark.parametrize("kind", ["insert", "before", "after"])
def test_nulls_between(kind: str, nulls: Sequence[int]) -> None:
    names = ["id", "tiny", "medium", "price", "at", "kind"]
    rows = rows_of(names, 300, nulls)
    others = rows_of(names, 300, seed=2)
    if kind == "insert":
        check(table_of(names), rows, "insert")
    else:
        pairs = zip(rows, others, strict=True) if kind == "before" else zip(others, rows, strict=True)
        check(table_of(names), list(pairs), "update")


@pytest.mark.parametrize("where", [[0], [100], [127, 128], [299], range(0, 300, 2)], ids=str)
@pytest.mark.parametrize("name", ["day", "at", "stamp"])
def test_invalid_dates(name: str, where: Sequence[int]) -> None:
    """They are reported beside the records, each with its row."""
    rows = rows_of(["id", name], 300)
    zero = {"day": "0000-00-00", "at": "2020-02-31 10:11:12.125", "stamp": "0000-00-00 00:00:00"}[name]
    for i in where:
        rows[i][name] = zero
    table = table_of(["id", name])
    many = only_batch(written(table, rows, "insert", per_event=300))
    one_by_one = only_batch(written(table, rows, "insert", per_event=1))
    assert many.invalid_dates["record"].tolist() == list(where)
    assert many.invalid_dates.tobytes() == one_by_one.invalid_dates.tobytes()
    assert many.array["row"].tobytes() == one_by_one.array["row"].tobytes()
    assert np.flatnonzero(np.isnat(many.array["row"][name])).tolist() == list(where)


def test_a_wide_table() -> None:
    """256 columns and more: bitmaps of 32 bytes and of 33."""
    for count in (255, 256, 257):
        columns = [(f"c{i}", ("TINYINT", "INT", "DATE")[i % 3]) for i in range(count)]
        table = Table("shop", "wide", columns)
        day = dt.date(2020, 1, 1)
        rows = [
            {f"c{i}": day + dt.timedelta(i + row) if i % 3 == 2 else (i + row) % 100 for i in range(count)}
            for row in range(30)
        ]
        rows[20]["c9"] = None
        check(table, rows, "insert")


def test_columns_not_asked_for() -> None:
    names = list(COLUMNS)
    rows = rows_of(names, 200)
    data = written(table_of(names), rows, "insert", per_event=200)
    for wanted in (["id"], ["huge"], ["tiny", "share"], names[::2], names[1::2]):
        with binlog_core.open(exact(data)) as log:
            (batch,) = log.batches(columns=wanted)
            whole = only_batch(data)
            for name in wanted:
                assert batch.array["row"][name].tobytes() == whole.array["row"][name].tobytes()


def test_an_image_without_some_columns() -> None:
    names = ["id", "tiny", "price"]
    table = table_of(names)
    rows = rows_of(names, 100)
    log = Log("8.0.36")
    log.begin()
    log.insert(table, rows)
    log.insert(table, rows, columns=["id", "price"])
    log.insert(table, rows)
    log.commit()
    with binlog_core.open(exact(log.getvalue())) as opened:
        after = [change.after for change in opened.rows()]
    assert after == rows + [{"id": row["id"], "price": row["price"]} for row in rows] + rows


def test_partial_updates_have_bytes_between_their_images() -> None:
    names = ["id", "tiny"]
    pairs = list(zip(rows_of(names, 50), rows_of(names, 50, seed=2), strict=True))
    table = table_of(names)
    log = Log("8.0.36")
    log.begin()
    log.update(table, pairs, partial=True)
    log.commit()
    with binlog_core.open(exact(log.getvalue())) as opened:
        assert [(change.before, change.after) for change in opened.rows()] == pairs


@pytest.mark.parametrize("row", [0, 5, 8, 127, 128, 200])
def test_an_invalid_value(row: int) -> None:
    """The rows before it are delivered, and the error names row and column."""
    table = table_of(["id", "price"])
    rows = rows_of(["id", "price"], 250)
    present = [True, True]
    images = [table.image(r, present, unused=0) for r in rows]
    images[row] = images[row][:-5] + b"\xff\xff\xff\xff\xff"  # digits above 999,999,999
    log = Log("8.0.36", checksum=False)
    log.begin()
    log.table_map(table)
    at = log.rows_event(0, table, b"".join(images), present)
    log.commit()
    seen = []
    with binlog_core.open(exact(log.getvalue())) as opened, pytest.raises(DecodeError) as caught:
        for change in opened.rows():
            seen.append(change.after)
    assert seen == rows[:row]
    assert (caught.value.offset, caught.value.column) == (at, "price")
    assert f"row {row} of the event" in str(caught.value)


@pytest.mark.parametrize("cut", range(1, 14))
def test_an_event_that_ends_inside_a_row(cut: int) -> None:
    table = table_of(["id", "price"])
    rows = rows_of(["id", "price"], 250)
    area = b"".join(table.image(row, [True, True], unused=0) for row in rows)
    log = Log("8.0.36", checksum=False)
    log.begin()
    log.table_map(table)
    log.rows_event(0, table, area[:-cut], [True, True])
    log.commit()
    seen = []
    with (
        binlog_core.open(exact(log.getvalue())) as opened,
        pytest.raises(DecodeError, match="row 249") as caught,
    ):
        for change in opened.rows():
            seen.append(change.after)
    assert seen == rows[:-1]
    assert caught.value.column is None


def test_the_limit_of_records_holds() -> None:
    table = table_of(["id"])
    data = written(table, rows_of(["id"], 400), "insert", per_event=400)
    record = only_batch(data).array.dtype.itemsize
    for most in (1, 100, 127, 128, 129, 399):
        log = binlog_core.open(exact(data), limits=Limits(record_bytes=most * record - 1))
        with log, pytest.raises(DecodeError, match=r"Limits\.record_bytes"):
            list(log.batches())
    assert len(only_batch(data, limits=Limits(record_bytes=400 * record)).array) == 400


def test_a_log_that_ends_behind_the_rows() -> None:
    """There is no byte after the last row: it is decoded from a copy with room after it."""
    names = ["tiny"]
    table = table_of(names)
    log = Log("8.0.36", checksum=False)
    log.begin()
    log.insert(table, rows := rows_of(names, 200))
    with binlog_core.open(exact(log.getvalue())) as opened:
        assert [change.after for change in opened.rows()] == rows


# ---------------------------------------------------------------- zero dates


def rows_at_once(data: bytes) -> int:
    """How many of a log's rows were decoded many at a time."""
    decoder = LogDecoder(BufferSource(exact(data)), Selection(), Rules(Report()))
    for _ in decoder.groups():
        pass
    return decoder._loop.rows_at_once


ZEROS = {"day": "0000-00-00", "at": "2024-00-00 00:00:00.000", "stamp": "0000-00-00 00:00:00.000000"}


@pytest.mark.parametrize("names", [["id", "day"], ["day", "id", "at", "stamp", "number"]])
@pytest.mark.parametrize("every", [1, 7, 1000])
@pytest.mark.parametrize("kind", ["insert", "delete", "update"])
def test_zero_dates_among_rows_at_once(kind: str, every: int, names: list[str]) -> None:
    """All rows are decoded many at a time, and each invalid date is reported for its own record."""
    rows = rows_of(names, 1000)
    for row in rows[::every]:
        row |= {name: ZEROS[name] for name in names if name in ZEROS}
    log_rows = list(zip(rows, rows[1:] + rows[:1], strict=True)) if kind == "update" else rows
    assert rows_at_once(written(table_of(names), log_rows, kind, per_event=100)) == 1000
    check(table_of(names), log_rows, kind)


@pytest.mark.parametrize("kind", ["insert", "update"])
def test_neighbouring_zero_dates(kind: str) -> None:
    """In columns that one step decodes."""
    table = Table("shop", "days", [(f"d{i}", "DATE") for i in range(3)] + [("n", "INT")])
    rows = [
        {f"d{k}": "0000-00-00" if i % 5 == k else dt.date(2024, 1, 1 + k) for k in range(3)} | {"n": i}
        for i in range(300)
    ]
    check(table, [(row, row) for row in rows] if kind == "update" else rows, kind)


def test_every_day_of_the_calendar() -> None:
    """First and last days of each month, and their neighbours, as Python's calendar has them."""
    fields = [
        (year, month, day)
        for year in (*range(10010), 10082, 16000, 32767)
        for month in (0, 1, 2, 3, 6, 9, 11, 12, 13, 15)
        for day in (0, 1, 28, 29, 30, 31)
    ]
    table = Table("shop", "days", [("day", "DATE")])
    log = Log("8.0.36")
    log.table_map(table)
    packed = np.array([year << 9 | month << 5 | day for year, month, day in fields], "<u4")
    wire = np.zeros((len(packed), 4), np.uint8)  # no NULL, then three bytes
    wire[:, 1:] = packed.view(np.uint8).reshape(-1, 4)[:, :3]
    log.rows_event(0, table, wire.tobytes(), [True])
    days = np.concatenate(
        [batch.array["row"]["day"] for batch in binlog_core.open(exact(log.getvalue())).batches()]
    ).tolist()
    for (year, month, day), got in zip(fields, days, strict=True):
        try:
            wanted = dt.date(year, month, day)
        except ValueError:
            wanted = None
        assert got == wanted, (year, month, day)
