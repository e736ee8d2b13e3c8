"""Conditions that the compiled loop runs: on which columns, and what it refuses."""

from __future__ import annotations

import dataclasses
import io
import random
import time
from pathlib import Path
from typing import Any

import pytest
from support import writer
from support.conditions import ORDERS, WITHOUT_ORDER, Question, by_telling_name, columns_of, found, usable
from support.golden import Golden

import binlog_core
from binlog_core import Column, Condition
from binlog_core._core import _rows
from binlog_core._core._values import RowReader
from binlog_core._decode import plans
from binlog_core._tables.column_types import Kind
from binlog_core._tables.tables import image_dtype
from binlog_core.conditions import bound as conditions
from binlog_core.conditions import compiled as compiled_conditions
from binlog_core.conditions.compiled import compile_condition

pytestmark = [pytest.mark.sanitize_logs, pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")]


@pytest.mark.parametrize(
    ("kind", "most"), [(kind, 0) for kind in Kind if kind not in WITHOUT_ORDER] + [(Kind.GEOMETRY, 0)]
)
def test_the_loop_runs_conditions_on_columns_of_every_kind(kind: Kind, most: int) -> None:
    """NumPy answers what the loop cannot run, so comparing rows of golden logs would not show it."""
    column = Column("a", 0, 0, kind, members=("x", "y"), charset="utf8mb4", precision=9, length=8)
    column = dataclasses.replace(column, type_code=8 if kind is Kind.INT else 0)
    table = binlog_core.Table("d", "t", (column,))
    texts = ["changed(a)", "a is not null"]
    if kind not in WITHOUT_ORDER:
        literal = {Kind.DATE: "'2026-01-01'", Kind.TIME: "'08:00:00'"}.get(kind, "5")
        if kind in (Kind.DATETIME, Kind.TIMESTAMP):
            literal = "'2026-01-01 08:00:00'"
        if kind in (Kind.TEXT, Kind.BINARY, Kind.ENUM):
            texts += ["a like 'x%_'", "a between 'x' and 'y'"]
            literal = "'x'"
        texts += [f"a = {literal}", f"before.a in ({literal}, null)", f"not a >= {literal}"]
    for text in texts:
        compiled = compile_condition(conditions.bind(Condition(text), table), table)
        assert compiled is not None, text


@by_telling_name
def test_the_loop_and_numpy_agree(golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(f"{golden} again")
    asked: list[tuple[str, str]] = []
    for table, column, _, values in columns_of(golden):
        if (
            column.kind not in WITHOUT_ORDER
            and values
            and all(usable(v, column.kind, column) for v in values)
        ):
            where, _ = Question(chance, [(column, values)]).make(2)
            asked.append((table, where))
    quick = [found(golden, *one) for one in asked]
    monkeypatch.setattr(compiled_conditions, "compile_condition", lambda *_: None)
    assert [found(golden, *one) for one in asked] == quick


CONSTANT = _rows.CONDITION_CODES["CONSTANT"]  # the last test


@pytest.mark.parametrize(
    "condition",
    [
        (b"\0", b"\3", b""),
        (b"", b"\3", b""),
        (b"", b"", b""),
        (bytes(56), b"\0", b""),
        (bytes(56), b"\3\3", b""),
        (bytes(56), b"\3\1", b""),
        (bytes(56), b"\3" * 25 + b"\1" * 24, b""),
        (bytes([CONSTANT + 1]) + bytes(55), b"\3", b""),  # no such test
        (bytes([0, 0, 4]) + bytes(53), b"\3", b""),  # a value inside of the image part
        (bytes([0, 3, 0]) + bytes(53), b"\3", b""),  # no such side
        (bytes([9]) + bytes(55), b"\3", bytes(4)),  # no state of the last op
        (bytes([CONSTANT]) + bytes(23) + b"\3" + bytes(31), b"\3", b""),  # no such state
    ],
)
def test_a_condition_that_would_read_elsewhere_is_refused(condition: tuple[bytes, bytes, bytes]) -> None:
    loop = _rows.Decoder()
    image = image_dtype(1).itemsize
    ops = plans.plan_of(binlog_core.Table("d", "t", (Column("a", 0, 3, Kind.INT, signed=True),))).ops
    scan = loop.add_plan(ops, image_len=image, record_len=image + 4)
    with pytest.raises(ValueError, match=r"condition|tests|states"):
        loop.add_plan(ops, image_len=image, record_len=image + 4, scan=scan, condition=condition)
    with pytest.raises(ValueError, match="no plan 7"):
        loop.add_plan(ops, image_len=image, record_len=image + 4, scan=7, condition=(b"", b"", b""))


def test_nothing_is_kept_of_rows_that_do_not_match() -> None:
    """From a log that can be read only once, values are copied: only those of rows that match."""
    data = Path(ORDERS).read_bytes()
    with binlog_core.open(io.BytesIO(data), where="k = 2") as log:
        (batch,) = log.batches("shop.uq")
        assert len(bytes(batch.buffer)) == len(b"b" + b"b" + b"zz" + b"changed")
        assert [c.after["v"] for c in log_rows(batch)] == ["b", "zz"]


def log_rows(batch: binlog_core.ChangeBatch) -> list[Any]:
    return list(RowReader(batch))


def test_an_enum_without_members_beside_what_python_decides() -> None:
    table = writer.Table("shop", "t", [("id", "INT"), ("e", "ENUM('a','b')")], metadata=False)
    log = writer.Log("8.4.0")
    log.begin("shop")
    log.insert(table, [{"id": 1, "e": "a"}, {"id": 2, "e": "b"}])
    log.commit()
    with binlog_core.open(log.getvalue(), where="c1 = 2 and _gtid is null") as opened:
        assert [change.after["c0"] for change in opened.rows() if change.after] == [2]


def test_an_event_full_of_dates_that_are_none() -> None:
    """Each is looked up among all of the event: the time must not grow with the square of their number."""
    table = writer.Table("shop", "t", [("id", "INT"), ("day", "DATE")])
    log = writer.Log("8.4.0")
    log.begin("shop")
    log.insert(table, [{"id": i, "day": "2020-00-31" if i == 7 else "0000-00-00"} for i in range(60_000)])
    log.commit()
    data, took = log.getvalue(), {}
    for where, count in (("id >= 0", 60_000), ("day = '0000-00-00'", 59_999), ("day = '2020-00-31'", 1)):
        begin = time.perf_counter()
        with binlog_core.open(data, where=where) as opened:
            assert sum(map(len, opened.batches())) == count
        took[where] = time.perf_counter() - begin
    assert took["day = '2020-00-31'"] < 20 * took["id >= 0"]
