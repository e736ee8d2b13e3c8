"""Rows decoded straight into Arrow columns must equal those that come through records.

A batch is decoded so once the one before it of its shape was asked for columns. test_truth.py and
test_arrow_truth.py compare what comes through records with the servers.
"""

from __future__ import annotations

import datetime as dt
import io
import pickle
import random
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.golden import Golden, golden_logs
from support.splits import cut
from support.writer import Log, Table

import binlog_core
from binlog_core import Limits
from binlog_core._core import _rows
from binlog_core._core._columns import export_columns
from binlog_core.batch.change_batch import ChangeBatch
from binlog_core.cli.writers import ArrowWriter, ParquetWriter
from binlog_core.errors import BinlogError, DecodeError
from binlog_core.splits import read_split_groups

pytestmark = [pytest.mark.sanitize_logs, pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")]

TABLE = Table(
    "shop",
    "orders",
    [
        ("id", "BIGINT", {"null": False}),
        ("price", "DECIMAL(10,2)"),
        ("total", "DECIMAL(30,4)"),
        ("day", "DATE"),
        ("at", "DATETIME(3)"),
        ("stamp", "TIMESTAMP(6)"),
        ("note", "VARCHAR(300)"),
        ("code", "CHAR(3)"),
        ("data", "BLOB"),
        ("kind", "ENUM('a','b','c')"),
        ("medium", "MEDIUMINT"),
        ("bits", "BIT(12)"),
    ],
    primary_key=["id"],
)
FIXED = Table(
    "shop", "points", [("id", "INT", {"null": False}), ("x", "INT"), ("day", "DATE"), ("at", "TIMESTAMP")]
)
UTC = dt.UTC


def row(i: int, **changed: Any) -> dict[str, Any]:
    values = {
        "id": i,
        "price": Decimal(i * 7) / 100,
        "total": -(Decimal(i) ** 3) / 10000,
        "day": dt.date(2000, 1, 1) + dt.timedelta(i % 9000),
        "at": dt.datetime(2020, 1, 1, 0, 0, i % 60, 123000),
        "stamp": dt.datetime(2021, 1, 1, i % 24, 0, 0, i % 10**6, UTC),
        "note": "é" * (i % 140),
        "code": "abc"[: i % 4],
        "data": bytes([i % 256]) * (i % 71),
        "kind": "abc"[i % 3],
        "medium": i - 500,
        "bits": i % 4096,
    }
    return values | changed


def written(rows: list[dict[str, Any]], table: Table = TABLE, to_event: int = 40) -> bytes:
    log = Log("8.0.36", checksum=False)
    log.start()
    for at in range(0, len(rows), to_event):
        log.begin()
        log.insert(table, rows[at : at + to_event])
        log.commit()
    log.rotate()
    return log.getvalue()


@pytest.fixture(autouse=True)
def small_batches() -> Iterator[None]:
    before = _rows.columns_from(1)
    yield
    _rows.columns_from(before)


def mapped(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "binlog.000001"
    path.write_bytes(data)
    return path


def read(path: Path, group_rows: int = 100, **options: Any) -> tuple[list[pa.RecordBatch], int]:
    """The columns, and how many batches were decoded straight into them."""
    out, at_once = [], 0
    with binlog_core.open(path, limits=Limits(group_rows=group_rows), **options) as log:
        for batch in log.batches():
            out.append(batch.to_arrow())
            out[-1].validate(full=True)
            at_once += is_columns(batch)
    return out, at_once


def by_records(path: Path, group_rows: int = 100, **options: Any) -> list[pa.RecordBatch]:
    _rows.columns_from(1 << 30)
    try:
        out, at_once = read(path, group_rows, **options)
    finally:
        _rows.columns_from(1)
    assert at_once == 0
    return out


def dates(path: Path, least: int, **options: Any) -> list[Any]:
    """Invalid dates of all batches; from a number of rows on, batches become columns at once."""
    _rows.columns_from(least)
    with binlog_core.open(path, limits=Limits(group_rows=500), **options) as log:
        return [(batch.to_arrow(), batch.invalid_dates.tolist())[1] for batch in log.batches()]


def is_columns(batch: ChangeBatch) -> bool:
    return batch.run_list is not None


def check(path: Path, group_rows: int = 100, **options: Any) -> int:
    """Compare both ways; returns how many batches were decoded straight into columns."""
    expected = by_records(path, group_rows, **options)
    found, at_once = read(path, group_rows, **options)
    assert found == expected
    return at_once


def records(batch: ChangeBatch) -> tuple[bytes, bytes]:
    """A batch's records and their values, wherever these lie in its buffer."""
    batch.array  # noqa: B018  is made when it is asked for
    compact = pickle.loads(pickle.dumps(batch))
    return compact.array.tobytes(), bytes(compact.buffer)


def values(batches: list[pa.RecordBatch], column: str) -> list[Any]:
    return [value for batch in batches for value in batch.column(column).to_pylist()]


@pytest.mark.parametrize("golden", golden_logs(), ids=str)
def test_golden_logs(golden: Golden) -> None:
    """Each batch of a few rows, as columns and as records that are asked for later."""
    options = golden.open_arguments
    limits = Limits(group_rows=4)
    with binlog_core.open(golden.path, limits=limits, **options) as log:
        expected = [(records(batch), batch.invalid.tobytes()) for batch in log.batches()]
    try:
        check(golden.path, 4, **options)
    except DecodeError as error:  # values that Arrow does not take are reported both ways
        with pytest.raises(DecodeError) as again:
            by_records(golden.path, 4, **options)
        assert str(again.value) == str(error)
        return
    with binlog_core.open(golden.path, limits=limits, **options) as log:
        for number, batch in enumerate(log.batches()):
            assert batch.invalid.tobytes() == expected[number][1]
            batch.to_arrow()
            if number % 3 == 2:
                assert records(batch) == expected[number][0]


@pytest.mark.parametrize("to_event", [1, 3, 40, 200])
@pytest.mark.parametrize("wide", [True, False])
def test_all_kinds(tmp_path: Path, to_event: int, wide: bool) -> None:
    rows = [row(i) for i in range(1000)]
    before = _rows.use_wide(wide)
    try:
        path = mapped(tmp_path, written(rows, to_event=to_event))
        assert check(path) >= 4
        found, _ = read(path)
    finally:
        _rows.use_wide(before)
    for name in ("id", "price", "total", "day", "note", "code", "data", "medium", "kind", "bits"):
        assert values(found, name) == [r[name] for r in rows]


CLIFFS = {
    "a NULL": {"note": None},
    "NULLs": {"price": None, "day": None, "data": None, "bits": None, "total": None, "at": None},
    "a zero date": {"day": "0000-00-00"},
    "zero dates": {"day": "0000-00-00", "at": "0000-00-00 00:00:00.000", "stamp": "0000-00-00 00:00:00"},
    "a long text": {"note": "ß" * 290},
}


@pytest.mark.parametrize("name", CLIFFS)
@pytest.mark.parametrize("every", [1, 5, 777])
def test_rare_values_do_not_end_the_columnar_decoding(tmp_path: Path, name: str, every: int) -> None:
    rows = [row(i, **(CLIFFS[name] if i % every == every - 1 else {})) for i in range(1000)]
    path = mapped(tmp_path, written(rows))
    assert check(path) >= 8  # all of ten batches except the first, and perhaps the last
    found, _ = read(path)
    for column in ("price", "note", "day"):
        said = [None if r[column] == "0000-00-00" else r[column] for r in rows]
        assert values(found, column) == said


ALIKE = Table(
    "shop",
    "alike",
    [
        ("id", "INT", {"null": False}),
        *((f"n{i}", "INT") for i in range(3)),
        *((f"d{i}", "DATE") for i in range(2)),
        *((f"m{i}", "DATETIME") for i in range(3)),
        *((f"p{i}", "DECIMAL(10,2)") for i in range(2)),
        *((f"v{i}", "VARCHAR(30)") for i in range(3)),
        *((f"t{i}", "TEXT") for i in range(2)),
        *((f"b{i}", "BINARY(6)") for i in range(2)),
        ("last", "TINYINT"),
    ],
)


def alike(i: int, chance: random.Random) -> dict[str, Any]:
    given: dict[str, Any] = {
        "n": lambda: chance.randrange(-(2**31), 2**31),
        "d": lambda: "0000-00-00" if chance.random() < 0.02 else dt.date(2000, 1, 1) + dt.timedelta(i),
        "m": lambda: "0000-00-00 00:00:00" if chance.random() < 0.02 else dt.datetime(2020, 1, 1, i % 24),
        "p": lambda: Decimal(chance.randrange(-(10**9), 10**9)) / 100,
        "v": lambda: "é" * chance.randrange(16),
        "t": lambda: "x" * (chance.randrange(70) if chance.random() < 0.98 else 40_000),
        "b": lambda: bytes(chance.randrange(256) for _ in range(6)),
        "l": lambda: i % 100,
    }
    names = [column.name for column in ALIKE.columns[1:]]
    return {"id": i} | {name: None if chance.random() < 0.3 else given[name[0]]() for name in names}


@pytest.mark.parametrize("wanted", [None, ["id", "n1", "m2", "v0", "v2", "t1", "last"]])
def test_neighbours_of_one_type_with_nulls(tmp_path: Path, wanted: list[str] | None) -> None:
    chance = random.Random(1)
    rows = [alike(i, chance) for i in range(1500)]
    path = mapped(tmp_path, written(rows, ALIKE))
    options: dict[str, Any] = {} if wanted is None else {"columns": {"shop.alike": wanted}}
    assert check(path, group_rows=500, **options) >= 1
    found, _ = read(path, 500, **options)
    for name in wanted or [column.name for column in ALIKE.columns]:
        said = [None if str(r[name]).startswith("0000-") else r[name] for r in rows]
        assert values(found, name) == said
    told = dates(path, 1, **options)
    assert told == dates(path, 1 << 30, **options)
    assert sum(map(len, told)) > 10


@pytest.mark.parametrize("columns", [3, 8, 70])
def test_a_null_at_every_place_among_rows_of_one_length(tmp_path: Path, columns: int) -> None:
    """Their NULL bitmaps are looked at eight at a time: one NULL before, in and after each eight."""
    names = [f"n{i}" for i in range(columns)]
    table = Table("shop", "fixed", [(name, "INT") for name in names])
    count = 37
    null = [(at, name) for at in range(count) for name in (names[0], names[-1])]
    rows = [
        {name: None if (i, name) == found else 1000 * i + k for k, name in enumerate(names)}
        for found in null
        for i in range(count)
    ]
    path = mapped(tmp_path, written(rows, table, count))
    assert check(path) >= 20
    found, _ = read(path)
    for name in names:
        assert values(found, name) == [r[name] for r in rows]


def test_invalid_dates_are_reported_in_order(tmp_path: Path) -> None:
    rows = [row(i, **(CLIFFS["zero dates"] if i % 3 == 0 else {})) for i in range(400)]
    path = mapped(tmp_path, written(rows))
    said = []
    with binlog_core.open(path, limits=Limits(group_rows=100)) as log:
        for batch in log.batches():
            batch.to_arrow()
            said.append(batch.invalid_dates.tolist())
        assert log.report.counts["invalid_dates"] == 3 * 134
    assert all(one == sorted(one) for one in said)
    assert sum(map(len, said)) == 3 * 134
    assert {text for one in said for _, _, text in one} == {
        "0000-00-00",
        "0000-00-00 00:00:00.000",
        "0000-00-00 00:00:00.000000",
    }


def test_updates_and_deletes(tmp_path: Path) -> None:
    log = Log("8.0.36", checksum=False)
    log.start()
    for i in range(0, 300, 3):
        log.begin()
        log.update(TABLE, [(row(i + k), row(i + k, note=None if i % 7 else "new")) for k in range(3)])
        log.delete(TABLE, [row(i)])
        log.commit()
    log.rotate()
    path = mapped(tmp_path, log.getvalue())
    assert check(path) >= 4
    found, _ = read(path)
    assert values(found, "_change_type") == (["update_preimage", "update_postimage"] * 3 + ["delete"]) * 100
    assert values(found, "_row") == [0, 0, 1, 1, 2, 2, 0] * 100


def test_partial_images_go_into_records(tmp_path: Path) -> None:
    log = Log("8.0.36", checksum=False)
    log.start()
    for i in range(0, 200, 2):
        log.begin()
        log.insert(TABLE, [row(i)])
        if i > 100:
            log.update(TABLE, [(row(i), row(i, note="x"))], before_columns=["id"], after_columns=["note"])
        log.commit()
    log.rotate()
    path = mapped(tmp_path, log.getvalue())
    assert 0 < check(path, 20) < 6


def test_tables_that_take_turns_and_an_alter_in_the_middle(tmp_path: Path) -> None:
    log = Log("8.0.36", checksum=False)
    log.start()
    altered = Table("shop", "points", [("id", "INT"), ("y", "VARCHAR(9)")])
    for i in range(400):
        log.begin()
        log.insert(TABLE, [row(i)])
        if i < 200:
            log.insert(
                FIXED,
                [{"id": i, "x": -i, "day": dt.date(2020, 1, 1), "at": dt.datetime(2020, 1, 1, tzinfo=UTC)}],
            )
        else:
            log.insert(altered, [{"id": i, "y": str(i)}])
        log.commit()
    log.rotate()
    path = mapped(tmp_path, log.getvalue())
    assert check(path, 50) >= 24
    assert [v for b in read(path, 50)[0] if "y" in b.schema.names for v in b.column("y").to_pylist()] == [
        str(i) for i in range(200, 400)
    ]


def test_the_end_of_the_file(tmp_path: Path) -> None:
    """Loading whole words after the last row would read beyond the file."""
    data = written([row(i) for i in range(500)], to_event=50)
    end = data.rindex(b"binlog.000002") - 8 - 19
    for less in (0, 31):  # the rotation; and the commit
        assert check(mapped(tmp_path, data[: end - less]), strict=False) >= 1


@pytest.mark.parametrize("text_errors", ["raise", "replace", "binary"])
def test_invalid_text(tmp_path: Path, text_errors: Any) -> None:
    rows = [row(i, note=b"\xff\xfe" if i == 290 else "good") for i in range(400)]
    path = mapped(tmp_path, written(rows))
    found = []
    with binlog_core.open(path, limits=Limits(group_rows=100)) as log:
        if text_errors == "raise":
            with pytest.raises(DecodeError, match="record 50: invalid utf8mb4 text"):
                for batch in log.batches():
                    batch.to_arrow()
            return
        for batch in log.batches():
            found.append(batch.to_arrow(text_errors=text_errors))
    assert found[2].column("note").to_pylist()[50] == (
        "\ufffd\ufffd" if text_errors == "replace" else b"\xff\xfe"
    )


@pytest.mark.parametrize("to_event", [2, 40])
def test_rows_that_cannot_be(tmp_path: Path, to_event: int) -> None:
    """Damage of a value and of a length is reported as for records, and the rest is read."""
    rows = [row(i) for i in range(300)]
    good = written(rows, to_event=to_event)
    at = good.index("é".encode() * 131 + b"\x03abc")
    for place, byte in ((at - 2, 0xFF), (at - 2 - 8 - 3 - 14 - 3, 0x7F), (at + 262, 0xF0)):
        data = bytearray(good)
        data[place] = byte
        path = mapped(tmp_path, bytes(data))
        results: list[Any] = []
        for way in (by_records, lambda p, **options: read(p, **options)[0]):
            try:
                way(path)
                results.append(None)
            except BinlogError as error:
                results.append((str(error), error.offset, error.column))
            results.append(values(way(path, on_error="skip"), "id"))
        assert results[:2] == results[2:]
        assert len(results[1]) >= 200


def test_memory_is_bounded(tmp_path: Path) -> None:
    path = mapped(tmp_path, written([row(i) for i in range(400)]))
    limits = Limits(group_rows=200, arrow_bytes=20_000)
    with binlog_core.open(path, limits=limits) as log, pytest.raises(DecodeError, match="arrow_bytes"):
        for number, batch in enumerate(log.batches()):
            batch.export(rows=[0]).to_pyarrow()
            batch.take_columns(batch.export()._form.layout)
            if number:
                batch.to_arrow()


def test_records_that_are_asked_for_end_it(tmp_path: Path) -> None:
    path = mapped(tmp_path, written([row(i) for i in range(600)]))
    seen = []
    with binlog_core.open(path, limits=Limits(group_rows=100)) as log:
        for number, batch in enumerate(log.batches()):
            batch.to_arrow()
            seen.append(is_columns(batch))
            if number == 2:
                assert batch.array["row"]["id"].tolist() == list(range(240, 360))
                assert batch.to_arrow().column("id").to_pylist() == list(range(240, 360))
    assert seen[:3] == [False, True, True]
    assert not any(seen[3:])


def test_records_that_are_asked_for_first_do_not_begin_it(tmp_path: Path) -> None:
    """Otherwise the rows of the next batch would be decoded twice."""
    path = mapped(tmp_path, written([row(i) for i in range(400)]))
    with binlog_core.open(path, limits=Limits(group_rows=100)) as log:
        for batch in log.batches():
            assert not is_columns(batch)
            assert len(batch.array)
            batch.to_arrow()


@pytest.mark.parametrize("make", [ArrowWriter, ParquetWriter])
def test_files_are_written_from_columns(make: type[ArrowWriter], tmp_path: Path) -> None:
    """Neither for its errors nor for the report does a writer need records."""
    rows = [row(i, day="0000-00-00" if i % 9 else dt.date(2020, 1, 1)) for i in range(600)]
    path = mapped(tmp_path, written(rows))
    seen = []
    with binlog_core.open(path, limits=Limits(group_rows=100)) as log:
        writer = make(io.BytesIO())
        for group in log.groups():
            seen += map(is_columns, group.batches)
            writer.write(group)
    assert seen == [False, True, True, True, True]


def test_splits_count_rows_without_records(tmp_path: Path) -> None:
    path = mapped(tmp_path, written([row(i) for i in range(600)]))
    [split] = cut(path, 1 << 20)
    seen = []
    with read_split_groups(split, limits=Limits(group_rows=100)) as reader:
        for group in reader:
            for batch in group.batches:
                seen.append(is_columns(batch))
                batch.to_arrow()
        assert reader.rows == 600
    assert seen == [False, True, True, True, True]


def test_the_place_of_a_record(tmp_path: Path) -> None:
    path = mapped(tmp_path, written([row(i) for i in range(300)]))
    with binlog_core.open(path, limits=Limits(group_rows=100)) as log:
        for batch in log.batches():
            batch.to_arrow()
            places = [batch.position_of(i) for i in range(len(batch))]
            with pytest.raises(IndexError):
                batch.position_of(len(batch))
            assert places == batch.array["image"]["position"].tolist()
            assert [batch.position_of(i) for i in range(len(batch))] == places


def test_batches_outlive_their_log_and_pickle(tmp_path: Path) -> None:
    path = mapped(tmp_path, written([row(i) for i in range(400)]))
    with binlog_core.open(path, limits=Limits(group_rows=100)) as log:
        batches = []
        for batch in log.batches():
            batch.to_arrow()
            batches.append(batch)
    assert is_columns(batches[1])
    again = pickle.loads(pickle.dumps(batches[1]))
    assert again.array["row"]["id"].tolist() == batches[1].array["row"]["id"].tolist()
    assert again.to_arrow().column("note").to_pylist() == batches[1].to_arrow().column("note").to_pylist()
    assert batches[1].position_of(3) == batches[1].array["image"]["position"][3]


def first_columns(log: binlog_core.Log) -> ChangeBatch:
    """The first batch that was decoded straight into columns, and not requested yet."""
    for batch in log.batches():
        if is_columns(batch):
            return batch
        batch.to_arrow()
    raise AssertionError("none was")


def test_batches_that_are_given_something_else(tmp_path: Path) -> None:
    """Their columns were made of the former records."""
    path = mapped(tmp_path, written([row(i) for i in range(400)]))
    with binlog_core.open(path, limits=Limits(group_rows=100)) as log:
        batch = first_columns(log)
        batch.transactions = batch.transactions.copy()
        batch.transactions["commit_time"] = 5
        assert {time.value for time in batch.to_arrow()["_commit_timestamp"]} == {5}
    with binlog_core.open(path, limits=Limits(group_rows=100)) as log:
        batch = first_columns(log)
        batch.buffer = bytes(batch.buffer).replace("é".encode(), b"e!")
        assert batch.to_arrow()["note"][0].as_py().startswith("e!e!")


def test_columns_of_another_layout_are_refused(tmp_path: Path) -> None:
    path = mapped(tmp_path, written([row(i) for i in range(400)]))
    with binlog_core.open(path, limits=Limits(group_rows=100)) as log:
        batch = first_columns(log)
        made = batch.take_columns(batch.export()._form.layout)
        assert made is not None
        with pytest.raises(ValueError, match="expected that of the 16 columns, not one of 12"):
            export_columns(batch.export(change_columns=False)._form.layout, made, batch.buffer)


def test_positions_without_records(tmp_path: Path) -> None:
    path = mapped(tmp_path, written([row(i) for i in range(400)], to_event=7))
    with binlog_core.open(path, limits=Limits(group_rows=100)) as log:
        for batch in log.batches():
            positions = batch.to_arrow().column("_position").to_pylist()
            assert [batch.position_of(i) for i in range(len(batch))] == positions


@pytest.mark.parametrize("to_event", [2, 40])
def test_flipped_bytes_give_the_same_both_ways(tmp_path: Path, to_event: int) -> None:
    rows = [row(i, **(CLIFFS["NULLs"] if i % 11 == 0 else {})) for i in range(120)]
    good = written(rows, to_event=to_event)
    chance = random.Random(to_event)
    for _ in range(60):
        data = bytearray(good)
        for _ in range(chance.choice((1, 1, 3))):
            data[chance.randrange(4 + 120, len(data))] = chance.choice(
                (0, 1, 0x7F, 0xFF, chance.randrange(256))
            )
        path = mapped(tmp_path, bytes(data))
        results = []
        for least in (1 << 30, 1):
            _rows.columns_from(least)
            said: list[Any] = []
            with binlog_core.open(path, limits=Limits(group_rows=20), on_error="skip") as log:
                for batch in log.batches():
                    try:
                        said.append(batch.to_arrow(text_errors="replace").to_pydict())
                    except DecodeError as error:
                        said.append(str(error))
                said.append(dict(log.report.counts))
            results.append(said)
        assert results[0] == results[1]


@pytest.mark.parametrize("version", ["8.0.36", "10.11.6-MariaDB"])
def test_rows_of_compressed_events_stay_in_order_among_others(tmp_path: Path, version: str) -> None:
    log = Log(version, checksum=False)
    log.start()
    rows = [row(i, **({"note": None} if i % 5 == 0 else {})) for i in range(240)]
    for at in range(0, len(rows), 8):
        some, compress = rows[at : at + 8], at % 24 == 16
        log.begin()
        if compress and not log.mariadb:
            with log.compressed_transaction() as inner:
                inner.insert(TABLE, some)
        else:
            log.insert(TABLE, some, compress=compress)
        log.commit()
    log.rotate()
    path = mapped(tmp_path, log.getvalue())
    for least in (1, 1 << 30):
        _rows.columns_from(least)
        with binlog_core.open(path, limits=Limits(group_rows=100)) as opened:
            batches = [(batch, batch.to_arrow()) for batch in opened.batches()]
        # Wherever its values are, a group has one batch per definition.
        assert [len(batch) for batch, _ in batches] == [104, 104, 32]
        found = [values([arrow for _, arrow in batches], name) for name in ("id", "note", "data")]
        assert list(zip(*found, strict=True)) == [(one["id"], one["note"], one["data"]) for one in rows]
    with binlog_core.open(path) as opened:
        assert [change.after["id"] for change in opened.rows() if change.after] == list(range(240))
