"""Streams whose columns are not those of the batch, in files that are decoded straight into Arrow columns.

What a stream leaves out is still a part of its batches: their invalid dates, their records, their damage.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.orders import Capsule
from support.writer import Log, Table

import binlog_core
from binlog_core import Limits
from binlog_core._core import _rows
from binlog_core.batch.change_batch import ChangeBatch
from binlog_core.log.batches import batch_stream

pytestmark = [pytest.mark.sanitize_logs, pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")]

COLUMNS: list[Any] = [
    ("id", "INT", {"null": False}),
    ("price", "DECIMAL(10,2)"),
    ("day", "DATE"),
    ("note", "VARCHAR(40)"),
    ("at", "DATETIME"),
]
TABLE = Table("shop", "orders", COLUMNS)
ALTERED = Table("shop", "orders", [*COLUMNS, ("until", "DATE"), ("tax", "DECIMAL(20,4)")])
ZERO = "0000-00-00"
COUNT = 800


@pytest.fixture(autouse=True)
def small_batches() -> Iterator[None]:
    before = _rows.columns_from(1)
    yield
    _rows.columns_from(before)


def rows_of(table: Table, seed: int) -> list[dict[str, Any]]:
    """Rows of which some have zero dates, each in one to three columns, and some NULLs."""
    chance = random.Random(seed)
    rows: list[dict[str, Any]] = []
    for i in range(COUNT):
        row = {
            "id": i,
            "price": Decimal(i) / 100,
            "day": dt.date(2000, 1, 1) + dt.timedelta(i),
            "note": "x" * (i % 40),
            "at": dt.datetime(2020, 1, 1, i % 24),
            "until": dt.date(2030, 1, 1),
            "tax": Decimal(i) / 10000,
        }
        for name, zero in (("day", ZERO), ("at", f"{ZERO} 00:00:00"), ("until", ZERO)):
            if chance.random() < 0.05:
                row[name] = zero
        if seed % 2 and chance.random() < 0.1:
            row[chance.choice(("day", "at", "note", "price"))] = None
        rows.append({column.name: row[column.name] for column in table.columns})
    return rows


def written(path: Path, parts: list[tuple[Table, list[dict[str, Any]]]]) -> Path:
    log = Log("8.0.36", checksum=False)
    log.start()
    for table, rows in parts:
        for at in range(0, len(rows), 40):
            log.begin()
            log.insert(table, rows[at : at + 40])
            log.commit()
    log.rotate()
    path.write_bytes(log.getvalue())
    return path


def streamed(path: Path, **options: Any) -> tuple[list[ChangeBatch], pa.Table, dict[str, int]]:
    """The batches after a stream has taken its columns of them, that stream, and the report."""
    given: list[ChangeBatch] = []

    def handed() -> Iterator[ChangeBatch]:
        for batch in log.batches():
            given.append(batch)
            yield batch

    with binlog_core.open(path, limits=Limits(group_rows=100), on_error="skip") as log:
        table = pa.table(Capsule(batch_stream(handed(), **options)))
        return given, table, dict(log.report.counts)


def zeros_in(table: Table, rows: list[dict[str, Any]]) -> list[tuple[int, str]]:
    return [
        (row["id"], str(row[column.name]))
        for row in rows
        for column in table.columns
        if str(row[column.name]).startswith(ZERO)
    ]


def zeros_told(batches: list[ChangeBatch]) -> list[tuple[int, str]]:
    return [
        (int(batch.array["row"]["id"][record]), text)
        for batch in batches
        for record, _, text in batch.invalid_dates.tolist()
    ]


@pytest.mark.parametrize("names", [["id"], ["note", "id"], ["price", "day"], ["at", "note", "day", "id"]])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_stream_of_some_columns_loses_no_invalid_date(tmp_path: Path, names: list[str], seed: int) -> None:
    rows = rows_of(TABLE, seed)
    path = written(tmp_path / "binlog.000001", [(TABLE, rows)])
    with binlog_core.open(path) as log:
        known = {column.name: column for column in next(log.batches()).columns}
    batches, table, counts = streamed(path, columns=[known[name] for name in names], new_columns="drop")
    expected = zeros_in(TABLE, rows)
    assert counts["invalid_dates"] == len(expected) > 40
    for name in names:
        said = [None if str(row[name]).startswith(ZERO) else row[name] for row in rows]
        assert table[name].to_pylist() == said
    whole = [
        None if str(row["at"]).startswith(ZERO) else row["at"] for row in rows
    ]  # afterwards each batch still has all of its columns
    assert [value for batch in batches for value in batch.to_arrow()["at"].to_pylist()] == whole
    assert zeros_told(batches) == expected
    assert [value for batch in batches for value in batch["id"].tolist()] == list(range(COUNT))


def test_a_column_that_an_alter_added_and_the_stream_drops_loses_no_invalid_date(tmp_path: Path) -> None:
    before, after = rows_of(TABLE, 2), rows_of(ALTERED, 3)
    path = written(tmp_path / "binlog.000001", [(TABLE, before), (ALTERED, after)])
    batches, table, counts = streamed(path, new_columns="drop")
    expected = zeros_in(TABLE, before) + zeros_in(ALTERED, after)
    assert table["id"].to_pylist() == 2 * list(range(COUNT))
    assert counts["invalid_dates"] == len(expected)
    assert zeros_told(batches) == expected


@pytest.mark.parametrize("names", [["id", "note"], ["id", "price", "note"]])
def test_damage_in_a_column_that_is_left_out(tmp_path: Path, names: list[str]) -> None:
    """A DECIMAL whose bytes are no number: its event is reported and skipped, all others are there."""
    rows = rows_of(TABLE, 0)
    path = written(tmp_path / "binlog.000001", [(TABLE, rows)])
    data = bytearray(path.read_bytes())
    at = data.index(b"\x80\x00\x00\x04\x1b")  # 4.27: the eight digits before the point, and those after it
    data[at + 4] = 0xFF  # 255 hundredths
    path.write_bytes(bytes(data))
    with binlog_core.open(path, on_error="skip") as log:
        known = {column.name: column for column in next(log.batches()).columns}
    batches, table, counts = streamed(path, columns=[known[name] for name in names], new_columns="drop")
    left = [i for i in range(COUNT) if not 427 <= i < 440]  # rows before it in its event stay
    assert table["id"].to_pylist() == left
    assert counts["skipped_events"] == 1
    assert [value for batch in batches for value in batch["id"].tolist()] == left
    assert [value for batch in batches for value in batch.column("price").tolist()] == left


@pytest.mark.parametrize("order", [1, -1])
def test_the_columns_of_a_stream_are_fitted_once(tmp_path: Path, order: int) -> None:
    """The same columns in another order: all batches but the first are decoded straight into them, once."""
    path = written(tmp_path / "binlog.000001", [(TABLE, rows_of(TABLE, 1))])
    with binlog_core.open(path) as log:
        columns = next(log.batches()).columns[::order]
    batches, table, _ = streamed(path, columns=columns)
    assert table["id"].to_pylist() == list(range(COUNT))
    assert [batch.run_list is not None for batch in batches] == [False] + [True] * (len(batches) - 1)


def test_batches_with_more_columns_than_the_stream_are_decoded_once(tmp_path: Path) -> None:
    """Their rows go into records at once, not first into columns that nobody can use."""
    path = written(tmp_path / "binlog.000001", [(TABLE, rows_of(TABLE, 1))])
    with binlog_core.open(path) as log:
        columns = next(log.batches()).columns[:3]
    batches, _, _ = streamed(path, columns=columns, new_columns="drop")
    assert not any(batch.run_list is not None for batch in batches)
