"""Small batches converted to Arrow together, each a slice, must equal those converted alone.

test_arrow_truth.py compares with the servers those converted alone, as `export` does it.
"""

from __future__ import annotations

import datetime as dt
import io
import pickle
import weakref
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from support.guarded import exact
from support.writer import Log, Table

import binlog_core
from binlog_core import Limits
from binlog_core.batch.change_batch import ChangeBatch
from binlog_core.errors import DecodeError

pytestmark = pytest.mark.sanitize_logs

COLUMNS = [
    ("id", "INT", {"null": False}),
    ("name", "VARCHAR(40)"),
    ("total", "DECIMAL(12,2)"),
    ("at", "DATETIME(3)"),
    ("kind", "ENUM('a','b')"),
    ("tags", "SET('x','y')"),
    ("doc", "JSON"),
]
OTHERS = [("id", "INT"), ("made", "DATE")]
TABLES = [Table("d", f"t{i:03d}", OTHERS if i % 5 == 4 else COLUMNS) for i in range(300)]


def row(table: Table, i: int) -> dict[str, Any]:
    values = {
        "id": i,
        "name": f"name {i} ü" * (i % 4),
        "total": Decimal(i * 7) / 100,
        "at": dt.datetime(2020, 1, 1) + dt.timedelta(hours=i),
        "kind": "ab"[i % 2],
        "tags": ["x"] if i % 3 else [],
        "doc": None,
        "made": dt.date(2000, 1, 1) + dt.timedelta(i),
    }
    return {
        column.name: None if (i + at) % 6 == 0 and at else values[column.name]
        for at, column in enumerate(table.columns)
    }


@cache
def log() -> bytes:
    log = Log("8.0.36")
    for i in range(3 * len(TABLES)):
        table = TABLES[i % len(TABLES)]
        log.begin()
        if i % 3 == 2:
            log.update(table, [(row(table, i), row(table, i + 1))])
        else:
            log.insert(table, [row(table, i + k) for k in range(1 + i % 4)])
        log.commit()
    return log.getvalue()


def batches_of(data: bytes | None = None, **options: Any) -> list[ChangeBatch]:
    with binlog_core.open(exact(log() if data is None else data), **options) as source:
        return list(source.batches())


def alone(batch: ChangeBatch) -> pa.RecordBatch:
    """The plain way."""
    return batch.export().to_pyarrow()


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Records of each import for several batches."""
    made: list[int] = []
    whole: Callable[..., Any] = binlog_core.batch.change_batch.made_together

    def noted(batch: ChangeBatch, records: Any) -> Any:
        made.append(len(records))
        return whole(batch, records)

    monkeypatch.setattr("binlog_core.batch.change_batch.made_together", noted)
    return made


def test_equal_to_each_by_itself(together: list[int]) -> None:
    batches = batches_of()
    got = [batch.to_arrow() for batch in batches]
    assert len(got) == len(TABLES)
    # Of each shape one was asked for before it was known that others are: 239 of 240 and 59 of 60 are left.
    assert len(together) == 5
    assert sum(together) == sum(map(len, batches)) - len(batches[0]) - len(batches[4])
    for batch, found in zip(batches_of(), got, strict=True):
        expected = alone(batch)
        found.validate(full=True)
        assert found.equals(expected, check_metadata=True)
        assert [c.null_count for c in found.columns] == [c.null_count for c in expected.columns]
        assert pickle.loads(pickle.dumps(found)).equals(expected)


def test_one_batch_is_not_made_with_others(together: list[int]) -> None:
    """Selecting one table does no work for the others."""
    for _ in range(3):
        batches = batches_of()
        assert batches[7].to_arrow().equals(alone(batches_of()[7]))
    assert not together


def test_batches_that_were_let_go(together: list[int]) -> None:
    batches = batches_of()
    wanted = batches[1:4]
    rows = sum(map(len, batches[2:4]))
    expected = [alone(batch) for batch in batches_of()[1:4]]
    del batches
    assert [batch.to_arrow() for batch in wanted] == expected
    assert together == [rows]


def test_a_batch_that_goes_asks_for_another(together: list[int]) -> None:
    """A weak reference's callback may do so: the first has no owner any more, and must not get one."""
    batches = batches_of()
    wanted, others = batches[1:4], batches_of()[1:4]
    batches[0].to_arrow()
    gone = weakref.ref(wanted[0], lambda _: found.append(wanted[-1].to_arrow()))
    found: list[pa.RecordBatch] = []
    del batches, wanted[0]
    assert gone() is None
    assert found == [alone(others[2])]
    assert together == [len(others[1]) + len(others[2])]


def test_changed_batches_are_made_by_themselves() -> None:
    batches = batches_of()
    batches[0].to_arrow()
    batches[1].to_arrow()  # with the rest of its shelf
    batches[2].array["row"]["id"] += 1000
    assert batches[2].to_arrow()["id"][0].as_py() >= 1000
    batches[3].columns = batches[3].columns[:1]
    assert batches[3].to_arrow().schema.names[:2] == ["id", "_change_type"]
    batches[5].arrow_bytes = 1
    with pytest.raises(DecodeError, match=r"Limits\.arrow_bytes=1"):
        batches[5].to_arrow()
    batches[6].array = batches[6].array[:1]
    assert batches[6].to_arrow().num_rows == 1
    batches[7].transactions = batches[7].transactions.copy()
    batches[7].transactions["commit_time"] = 5
    assert batches[7].to_arrow()["_commit_timestamp"][0].value == 5
    assert batches[8].to_arrow(change_columns=False).schema.names == [c.name for c in batches[8].columns]


def test_transactions_that_batches_share_are_not_changed_in_place() -> None:
    """Columns that were made of them, or are made with those of other batches, would not show it."""
    for batch in batches_of():
        with pytest.raises(ValueError, match="read-only"):
            batch.transactions["commit_time"] = 5


def test_changed_before_the_others_are_made() -> None:
    batches = batches_of()
    batches[2].array["row"]["id"] = 77
    for batch in batches:
        batch.to_arrow()
    assert set(batches[2].to_arrow()["id"].to_pylist()) == {77}


def test_a_batch_without_its_records(together: list[int]) -> None:
    """They are gone with `array`: their memory must not be read when the others become Arrow."""
    batches, others = batches_of()[:4], batches_of()[:4]
    batches[1].array = None  # type: ignore[assignment]
    for i in (0, 2, 3):
        assert batches[i].to_arrow().equals(alone(others[i]))
    assert together == [len(others[2]) + len(others[3])]
    with pytest.raises(TypeError):
        batches[1].to_arrow()


def test_error_is_of_the_batch_at_fault() -> None:
    """One of many tables has bytes that are not UTF-8."""
    data = log()
    at = data.index(b"name 7 ")
    data = data[:at] + b"\xff" + data[at + 1 :]
    good = bad = 0
    for batch, whole in zip(batches_of(data, verify_checksum=False), batches_of(), strict=True):
        try:
            found = batch.to_arrow()
        except DecodeError as error:
            bad += 1
            assert (error.table, error.column) == ("d.t006", "name")  # whose rows are 6 to 8
        else:
            good += 1
            assert found.equals(alone(whole))
    assert (good, bad) == (len(TABLES) - 1, 1)


def test_too_large_together() -> None:
    """`Limits.arrow_bytes` applies to each batch: together they may have more."""
    for batch in batches_of(limits=Limits(arrow_bytes=1 << 14)):
        assert batch.to_arrow().num_rows == len(batch)


def test_streams_have_no_shelves(together: list[int]) -> None:
    """Their values are in each batch's own memory."""
    with binlog_core.open(io.BytesIO(log())) as source:
        found = [batch.to_arrow() for batch in source.batches()]
    assert not together
    assert found == [alone(batch) for batch in batches_of()]


def test_groups_of_very_many_tables_are_larger() -> None:
    """With a thousand tables or more, a group may have four times as many bytes."""
    tables = [Table("d", f"t{i:04d}", OTHERS) for i in range(1100)]
    many = Log("8.0.36")
    for k in range(8):
        many.begin()
        for i, table in enumerate(tables):
            many.insert(table, [row(table, i * k)])
        many.commit()
    with binlog_core.open(exact(many.getvalue()), limits=Limits(group_rows=1500)) as source:
        assert [sum(map(len, group.batches)) for group in source.groups()] == [6000, 2800]
    with binlog_core.open(exact(many.getvalue()), limits=Limits(group_rows=1000)) as source:
        assert {sum(map(len, group.batches)) for group in source.groups()} == {1000, 800}
