"""Columns whose type an ALTER TABLE widened: a type that holds the values of both, and records in it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .column_types import (
    INTEGER_BYTES,
    MYSQL_TYPE_DOUBLE,
    MYSQL_TYPE_LONG,
    MYSQL_TYPE_LONGLONG,
    MYSQL_TYPE_SHORT,
    MYSQL_TYPE_TINY,
    Kind,
)
from .tables import Column

if TYPE_CHECKING:
    from numpy.typing import NDArray

_INTEGERS = {1: MYSQL_TYPE_TINY, 2: MYSQL_TYPE_SHORT, 4: MYSQL_TYPE_LONG, 8: MYSQL_TYPE_LONGLONG}
_INTEGER_NAMES = {1: "tinyint", 2: "smallint", 3: "mediumint", 4: "int", 8: "bigint"}
_MOST_DIGITS = 65
_LIMB = (1 << 64) - 1


def wider(one: Column, other: Column) -> Column | None:
    """A column that holds every value of both, with the name and place of the first; None: there is none.

    Integers can be combined, except BIGINT UNSIGNED with a signed type; so can FLOAT and DOUBLE, DECIMALs,
    BITs, DATE and DATETIME.
    """
    kinds = {one.kind, other.kind}
    if kinds == {Kind.INT}:
        return _wider_integer(one, other)
    if kinds == {Kind.FLOAT, Kind.DOUBLE}:
        return replace(one, type_code=MYSQL_TYPE_DOUBLE, kind=Kind.DOUBLE)
    if kinds == {Kind.DATE, Kind.DATETIME}:
        datetime = one if one.kind is Kind.DATETIME else other
        return replace(one, type_code=datetime.type_code, kind=Kind.DATETIME, fsp=datetime.fsp)
    if kinds == {Kind.DECIMAL}:
        scale = max(one.scale, other.scale)
        digits = max(one.precision - one.scale, other.precision - other.scale) + scale
        return replace(one, precision=digits, scale=scale) if digits <= _MOST_DIGITS else None
    if kinds == {Kind.BIT}:
        return replace(one, length=max(one.length, other.length))
    return None


def _wider_integer(one: Column, other: Column) -> Column | None:
    unsigned = [column.signed is False for column in (one, other)]
    sizes = [column.dtype.itemsize for column in (one, other)]
    if unsigned[0] == unsigned[1]:
        size, signed = max(sizes), one.signed if one.signed is not None else other.signed
    else:
        # A signed type holds an unsigned one of half its size.
        size, signed = max(n * (1 + u) for n, u in zip(sizes, unsigned, strict=True)), True
    if size > 8:
        return None
    return replace(one, type_code=_INTEGERS[size], signed=signed)


def converted(values: NDArray[Any], source: Column, target: Column) -> NDArray[Any]:
    """A column's values in the records, in the type of a wider column (see `wider`)."""
    if source.kind is not Kind.DECIMAL:
        return values.astype(target.dtype)
    factor = 10 ** (target.scale - source.scale)
    if target.dtype.names is None:
        return np.asarray(values * np.int64(factor))
    out = np.empty(len(values), target.dtype)
    for i, number in enumerate(_whole_numbers(values)):
        number *= factor
        limbs = [number >> 64 * k & _LIMB for k in range(len(target.dtype.names))]
        limbs[-1] -= (limbs[-1] >> 63) << 64  # signed
        out[i] = tuple(limbs)
    return out


def _whole_numbers(values: NDArray[Any]) -> list[int]:
    if values.dtype.names is None:
        found: list[int] = values.tolist()
        return found
    return [sum(limb << 64 * k for k, limb in enumerate(limbs)) for limbs in values.tolist()]


def type_name(column: Column) -> str:
    """A column's type for messages: "int unsigned", "decimal(10,2)"."""
    kind = column.kind
    if kind is Kind.INT:
        name = _INTEGER_NAMES[INTEGER_BYTES[column.type_code]]
        return f"{name} unsigned" if column.signed is False else name
    if kind is Kind.DECIMAL:
        return f"decimal({column.precision},{column.scale})"
    if kind is Kind.BIT:
        return f"bit({column.length})"
    if kind is Kind.VECTOR and column.dimensions is not None:
        return f"vector({column.dimensions})"
    if kind is Kind.BINARY and column.declared_type:
        return column.declared_type
    return kind.name.lower()
