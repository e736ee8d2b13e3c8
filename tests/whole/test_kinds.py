"""A kind of values that is new: each way in which values are shown has to be told of it, and says so."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, cast

import numpy as np
import pytest
from support.filled import make_batch

from binlog_core import Column, Condition, ConditionError, Kind, Table
from binlog_core._core._values import RowReader
from binlog_core._decode.plans import wire_op
from binlog_core._tables import column_types
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
    "SQL": literal_maker,
    "copy of a server's table": from_a_server,
}


@pytest.mark.parametrize("name", [one for one in PRESENTATIONS if one != "copy of a server's table"])
def test_each_kind_is_shown(name: str) -> None:
    for kind in Kind:
        try:
            PRESENTATIONS[name](column_of(kind))
        except ConditionError as error:  # a number is not compared with text
            assert name == "conditions" and f"type is {kind.name}: expected" in str(error)


@pytest.mark.parametrize("name", PRESENTATIONS)
def test_a_new_kind_is_refused_until_it_has_a_form(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the ways below have one: each is asked by itself."""
    if name != "NumPy":
        monkeypatch.setitem(column_types._FIXED_DTYPES, cast("Any", NewKind.CUBE), np.dtype("u1"))
    monkeypatch.setattr(mirrored, "lake_type", lambda _: pa.binary())
    monkeypatch.setattr(mirrored, "_column", lambda *_, **__: pa.array([b""]))
    with pytest.raises(KeyError) as caught:
        PRESENTATIONS[name](column_of(NewKind.CUBE))
    assert caught.value.args == (NewKind.CUBE,)


def test_the_loop_counts_kinds_as_python_does() -> None:
    """`column_kind` in src/wire/codes.pxd has the same numbers, without a gap."""
    assert [kind.value for kind in Kind] == list(range(len(Kind)))
