"""A new kind of values: each way in which values are shown refuses it, until KINDS has a row for it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from enum import IntEnum
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from support import batches
from support.filled import make_batch

from binlog_core import Column, Condition, ConditionError, Kind, Table
from binlog_core._core._values import RowReader
from binlog_core._decode.plans import wire_op
from binlog_core._tables import column_types
from binlog_core._tables.column_types import KINDS, KindFacts
from binlog_core.batch.arrow_types import arrow_field
from binlog_core.conditions import bound, compiled
from binlog_core.index import filters
from binlog_core.replay.literals import literal_maker

pa = pytest.importorskip("pyarrow")
from binlog_core.lake.exports import values as exported  # noqa: E402
from binlog_core.lake.rows import debezium, types  # noqa: E402
from binlog_core.mirror import values as mirrored  # noqa: E402

pytestmark = pytest.mark.sanitize_long


class NewKind(IntEnum):
    CUBE = len(Kind)


CODES = {one.kind: one.code for one in column_types.COLUMN_TYPES.values() if one.kind is not None} | {
    Kind.TEXT: column_types.MYSQL_TYPE_VARCHAR
}


def column_of(kind: Any) -> Column:
    members = ("a", "b") if kind in (Kind.ENUM, Kind.SET) else None
    return Column(
        *("c", 0, CODES.get(kind, 200), kind),
        charset="utf8mb4" if kind is Kind.TEXT else None,
        length=8 if kind is not Kind.ENUM else 1,
        precision=9,
        signed=True,
        members=members,
        dimensions=2 if kind is Kind.VECTOR else None,
    )


def bound_to(column: Column) -> object:
    return bound.bind(Condition("c = 1"), Table("d", "t", (column,)))


def as_python(column: Column) -> object:
    return RowReader(make_batch([column], []))


def from_an_export(column: Column) -> object:
    kind = types.lake_type(column) if column.kind in set(Kind) else pa.uint8()
    return exported.column_values(column, pa.array([None], kind), exported.Heap(), replaced=False)


def from_a_server(column: Column) -> object:
    return mirrored._converted(cast("Any", None), 0, column)


PRESENTATIONS: dict[str, Callable[[Column], object]] = {
    "NumPy": lambda column: column.dtype,
    "the loop": wire_op,
    "Python": as_python,
    "Arrow": arrow_field,
    "conditions": bound_to,
    "conditions in the loop": compiled._form_of,
    "index": filters.form_of,
    "lake": types.lake_type,
    "export read back": from_an_export,
    "Debezium": debezium._encoder,
    "copy of a server's table": from_a_server,
}


@pytest.mark.parametrize("name", [one for one in PRESENTATIONS if one != "copy of a server's table"])
def test_each_kind_is_shown(name: str) -> None:
    for kind in Kind:
        try:
            PRESENTATIONS[name](column_of(kind))
        except ConditionError as error:  # a number is not compared with text
            assert name == "conditions" and f"type is {kind.name}: expected" in str(error)


def test_each_kind_has_a_literal() -> None:
    for kind in Kind:
        assert literal_maker(column_of(kind))(None) == "NULL"


@pytest.mark.parametrize("name", PRESENTATIONS)
def test_a_new_kind_is_refused_until_it_has_a_row(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server's copy refuses it even then: nobody has said what its text is like."""
    monkeypatch.setattr(mirrored, "lake_type", lambda _: pa.binary())
    monkeypatch.setattr(mirrored, "_column", lambda *_, **__: pa.array([b""]))
    with pytest.raises(KeyError) as caught:
        PRESENTATIONS[name](column_of(NewKind.CUBE))
    assert caught.value.args == (NewKind.CUBE,)


@pytest.fixture
def cube(monkeypatch: pytest.MonkeyPatch) -> Column:
    """A column of a new kind, of which nothing but its row is known."""
    row = KindFacts("number", np.dtype("u1"), ("COPY", 1), "", "C", "number")
    monkeypatch.setitem(KINDS, cast("Any", NewKind.CUBE), row)
    return column_of(NewKind.CUBE)


def test_a_row_is_enough_for_every_presentation(cube: Column) -> None:
    batch = batches.make_batch([cube], [{"c": 7}, {"c": 8}])
    assert wire_op(cube) == ("COPY", 1, (0, 0, 0))
    assert batch.column("c").tolist() == [7, 8]
    assert RowReader(batch).column_values("c") == [7, 8]
    assert pa.record_batch(batch.export(change_columns=False)).column("c") == pa.array([7, 8], pa.uint8())
    assert types.lake_type(cube) == pa.int16()
    assert filters.form_of(cube) == "CUBE |u1 0"
    assert compiled._form_of(cube) == "U1"
    assert bound.bind(Condition("c >= 8"), Table("d", "t", (cube,))).kept(batch).tolist() == [False, True]
    found, _ = exported.column_values(cube, pa.array([7, None], pa.int16()), exported.Heap(), replaced=False)
    assert found.tolist() == [7, 0]
    assert literal_maker(cube)(7) == "7"
    assert debezium._encoder(cube)(7) == 7


def test_a_row_is_enough_for_bytes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    row = KindFacts("span", column_types.SPAN_DTYPE, None, "BYTES", "z", "bytes")
    monkeypatch.setitem(KINDS, cast("Any", NewKind.CUBE), row)
    column = replace(column_of(NewKind.CUBE), name="d")  # plans of "c" are kept
    batch = batches.make_batch([column], [{"d": b"ab"}, {"d": b"c"}])
    assert wire_op(column)[:2] == ("SPAN", 8)
    assert RowReader(batch).column_values("d") == [b"ab", b"c"]
    assert pa.record_batch(batch.export(change_columns=False)).column("d") == pa.array([b"ab", b"c"])
    assert types.lake_type(column) == pa.binary()
    assert filters.form_of(column) == "BYTES 0"
    assert bound.bind(Condition("d = x'63'"), Table("d", "t", (column,))).kept(batch).tolist() == [
        False,
        True,
    ]
    assert literal_maker(column)(b"ab") == "x'6162'"


def test_the_core_counts_kinds_as_python_does() -> None:
    codes = Path(__file__).parents[2] / "src" / "wire" / "codes.pxd"
    found = re.findall(r"^    KIND_(\w+) = (\d+)$", codes.read_text(), re.MULTILINE)
    assert found
    assert [Kind[name].value for name, _ in found] == [int(number) for _, number in found]
