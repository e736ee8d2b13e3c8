"""Columns of an export as fields of records: expected values by hand."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from binlog_core import Column
from binlog_core._tables.column_types import Kind
from binlog_core.lake.exports.values import Heap, column_values

DEC20 = pa.decimal128(20, 0)
TOP = 2**64 - 1


def column(type_code: int, kind: Kind, **more: Any) -> Column:
    return Column("c", 0, type_code, kind, **more)


def values(one: Column, array: pa.Array) -> list[Any]:
    found, lost = column_values(one, array, Heap(), replaced=False)
    assert found.dtype == one.dtype and not lost
    return found.tolist()


@pytest.mark.parametrize(
    ("one", "array", "wanted"),
    [
        (
            column(8, Kind.INT, signed=False),
            pa.array([Decimal(TOP), None], DEC20),
            [TOP, 0],
        ),
        (column(1, Kind.INT, signed=True), pa.array([-128], pa.int32()), [-128]),  # widened by a lake
        (column(16, Kind.BIT, length=1), pa.array([True, False]), [1, 0]),
        (column(16, Kind.BIT, length=64), pa.array([Decimal(2**63)], DEC20), [2**63]),
        (column(13, Kind.YEAR), pa.array([2155], pa.int32()), [2155]),
        (column(246, Kind.DECIMAL, precision=5, scale=2), pa.array([Decimal("-1.50")]), [-150]),
        (
            column(246, Kind.DECIMAL, precision=38, scale=0),
            pa.array([Decimal(-1)]),
            [(TOP, -1)],
        ),
        (
            column(246, Kind.DECIMAL, precision=65, scale=1),
            pa.array(["-0.2"]),
            [(TOP - 1, TOP, TOP, -1)],
        ),
        (column(10, Kind.DATE), pa.array([dt.date(9999, 12, 31)]), [dt.date(9999, 12, 31)]),
        (column(19, Kind.TIME), pa.array([-1_500_000], pa.int64()), [dt.timedelta(seconds=-1.5)]),
        (column(247, Kind.ENUM, length=1, members=("a", "b")), pa.array(["b", "", None]), [2, 0, 0]),
        (column(247, Kind.ENUM, length=1), pa.array([7], pa.int32()), [7]),
        (
            column(248, Kind.SET, length=1, members=("x", "y")),
            pa.array([["y"], [], ["x", "y"]]),
            [2, 0, 3],
        ),
    ],
)
def test_values_of_each_kind(one: Column, array: pa.Array, wanted: list[Any]) -> None:
    assert values(one, array) == wanted


def text(charset: str, *texts: str, replaced: bool = False) -> tuple[list[bytes], list[int]]:
    heap = Heap()
    spans, lost = column_values(
        column(15, Kind.TEXT, charset=charset), pa.array(texts), heap, replaced=replaced
    )
    return [bytes(heap.data[o : o + n]) for o, n in spans.tolist()], lost


@pytest.mark.parametrize(
    ("charset", "given", "wanted"),
    [
        ("utf8mb4", "é😀", b"\xc3\xa9\xf0\x9f\x98\x80"),
        ("latin1", "é€", b"\xe9\x80"),  # the servers' latin1 is cp1252
        ("latin1", "\x81", b"\x81"),  # and has the codes that cp1252 lacks
        ("utf16", "é", b"\x00\xe9"),
        ("sjis", "ア", b"\x83\x41"),
        ("gb18030", "€", b"\xa2\xe3"),
    ],
)
def test_text_in_its_character_set(charset: str, given: str, wanted: bytes) -> None:
    assert text(charset, given) == ([wanted], [])


def test_text_of_which_the_bytes_are_not_known() -> None:
    """In sjis 5C and 815F are both a backslash."""
    assert text("sjis", "a", "\\")[1] == [1]
    assert text("latin1", "ア")[1] == [0]
    assert text("utf8mb4", "\ufffd")[1] == []
    assert text("utf8mb4", "a", "\ufffd", replaced=True)[1] == [1]


def test_geometry_and_vectors() -> None:
    heap = Heap()
    point = pa.array([{"srid": 4326, "wkb": b"\x01\x02"}])
    spans, _ = column_values(Column("g", 0, 255, Kind.GEOMETRY), point, heap, replaced=False)
    assert bytes(heap.data) == b"\xe6\x10\x00\x00\x01\x02" and spans.tolist() == [(0, 6)]
    heap = Heap()
    column_values(Column("v", 0, 242, Kind.VECTOR), pa.array([[1.0, -2.0]]), heap, replaced=False)
    assert np.frombuffer(bytes(heap.data), "<f4").tolist() == [1.0, -2.0]
