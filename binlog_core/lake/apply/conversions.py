"""Which values of a column stay the same when ALTER TABLE gives it another type."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

from ...errors import SchemaError
from ...schema.table_definitions import BLOB_TYPES, INTEGER_TYPES, NUMERIC_TYPES, TEXT_TYPES, ColumnSchema
from ..rows.fit import widened
from ..rows.types import import_pyarrow

if TYPE_CHECKING:
    import pyarrow as pa

_FRACTION_DIGITS = 6
_WIDE = Context(prec=76)
_ROOM = {"tinytext": 2**8 - 1, "text": 2**16 - 1}  # bytes
_LONGEST_CHARACTER = 4  # bytes
_NUMBER, _TEXT, _BYTES = "a number", "text", "bytes"
# Different types share a type in the lake, as TIME and BIGINT do. Of these pairs, the server's new value is
# the one in the lake; of others it is not (TIME 10:00:00 becomes 100000).
_KEPT = frozenset(
    (
        *((_NUMBER, _TEXT), (_NUMBER, "year"), (_TEXT, _NUMBER), (_TEXT, "enum"), ("enum", _TEXT)),
        *(("bit", _NUMBER), ("year", _NUMBER), ("date", "datetime"), ("datetime", "date")),
        *(("uuid", _BYTES), ("inet4", _BYTES), ("inet6", _BYTES)),
    )
)


def one_holds_the_other(here: pa.DataType, kind: pa.DataType) -> bool:
    """Whether one of two types of a lake holds the values of the other as they are."""
    types = import_pyarrow().types
    # Bytes of text depend on its character set, which the lake's text does not have.
    as_bytes = types.is_binary(here) != types.is_binary(kind)
    return here == kind or (not as_bytes and (widened(here, kind) or widened(kind, here)))


def holds(here: pa.DataType, kind: pa.DataType) -> bool:
    """Whether a type of a lake holds the values of another as they are: equal ones, and wider numbers."""
    types = import_pyarrow().types
    numbers = all(types.is_primitive(one) or types.is_decimal(one) for one in (here, kind))
    numbers = numbers and not any(types.is_temporal(one) for one in (here, kind))
    return here == kind or (numbers and widened(kind, here))


def check_conversion(
    before: ColumnSchema | None, here: pa.DataType, column: ColumnSchema, kind: pa.DataType
) -> None:
    """Refuse a new type that changes values in a way that they do not show.

    Parameters
    ----------
    before : ColumnSchema or None
        The column on the server before; None if only its type in the lake is known.
    here : pyarrow.DataType
        Its type in the lake.
    column : ColumnSchema
        The column on the server then.
    kind : pyarrow.DataType
        The type that it would have in a lake.

    Raises
    ------
    SchemaError
    """
    types = import_pyarrow().types
    decimals = types.is_decimal(here) and types.is_decimal(kind)
    whole = (types.is_integer(here) or (types.is_decimal(here) and not here.scale)) and (
        types.is_integer(kind) or (types.is_decimal(kind) and not kind.scale)
    )
    padded = types.is_integer(here) and types.is_string(kind) and column.scale  # 5 becomes 5.00
    if padded or not (one_holds_the_other(here, kind) or decimals or whole):
        raise SchemaError(f"{here} becomes {kind}", column=column.name)
    after = _family(column)
    if before is None:
        if not _is_likely(here, after):
            raise SchemaError(f"{here} becomes {column.type_name}", column=column.name)
    elif before.zerofill and after != _NUMBER:
        raise SchemaError(f"{before.type_name} zerofill becomes {column.type_name}", column=column.name)
    elif after != (family := _family(before)) and (family, after) not in _KEPT:
        raise SchemaError(f"{before.type_name} becomes {column.type_name}", column=column.name)


def _family(column: ColumnSchema) -> str:
    """Types whose values the server converts without changing what they mean."""
    name = column.type_name
    if name in NUMERIC_TYPES:
        return _NUMBER
    if name in ("char", "varchar", *TEXT_TYPES):
        return _TEXT
    return _BYTES if name in ("binary", "varbinary", *BLOB_TYPES) else name


def _is_likely(here: pa.DataType, after: str) -> bool:
    """Whether a type of the lake is enough to know that values stay.

    An integer of the lake may be a TIME or BIT, or ZEROFILL, and text an ENUM, whose number is another.
    """
    types = import_pyarrow().types
    if types.is_integer(here) or types.is_decimal(here):
        return after in (_NUMBER, "year")
    return after in (_TEXT, "enum", "json") if types.is_string(here) else True


def fitting(
    column: ColumnSchema, here: pa.DataType, before: ColumnSchema | None = None
) -> Callable[[Any], bool] | None:
    """A test whether a value stays the same in a column of this type; None if all do, or are refused.

    A server in strict mode refuses a statement that would cut or clip a value; it rounds, pads and strips
    values silently, and cuts off spaces. `before`: the column on the server before, if it is known.
    """
    pa = import_pyarrow()
    name = column.type_name
    if name in _ROOM or name == "varchar":
        most = column.length or 0 if name == "varchar" else _ROOM[name] // _LONGEST_CHARACTER
        if not pa.types.is_string(here) or _longest(before) <= most:
            return None
        return lambda value: len(value) <= most or value[-1] != " "
    if name in ("char", "enum", "json"):
        members = frozenset(column.members or ())
        if name == "json":
            raise SchemaError("the server prints JSON in its own form", column=column.name)
        if name == "enum":
            return lambda value: value in members
        return (lambda value: not value.endswith(" ")) if pa.types.is_string(here) else None
    if name == "binary":
        length = column.length or 1
        return lambda value: len(value) == length
    if name == "decimal" and pa.types.is_decimal(here):
        scale = column.scale or 0
        step = Decimal(1).scaleb(-scale)
        return None if scale >= here.scale else lambda value: value == value.quantize(step, context=_WIDE)
    if name == "decimal" and pa.types.is_string(here):  # above 38 digits, the lake has text
        digits_after = column.scale or 0
        return lambda value: _is_as_a_decimal_prints(value, digits_after)
    if name in ("float", "double") and (digits := column.scale) is not None:
        return lambda value: value == round(value, digits)
    if name in INTEGER_TYPES and pa.types.is_string(here):
        return _is_as_a_number_prints
    if name == "year" and not pa.types.is_string(here):
        return lambda value: not value or 1900 < value < 2156  # 69 becomes 2069
    if name == "date" and pa.types.is_timestamp(here):
        return lambda value: value.time() == dt.time()
    if pa.types.is_timestamp(here):
        micros = 10 ** (_FRACTION_DIGITS - column.fsp)
        return None if micros == 1 else lambda value: value.microsecond % micros == 0
    if name == "time":
        micros = 10 ** (_FRACTION_DIGITS - column.fsp)
        return None if micros == 1 else lambda value: value % micros == 0
    return None


def _longest(column: ColumnSchema | None) -> float:
    """The most characters that a column can hold."""
    if column is not None and column.type_name in ("char", "varchar") and column.length is not None:
        return column.length
    if column is not None and column.type_name == "enum" and column.members is not None:
        return max(map(len, column.members), default=0)
    return float("inf") if column is None else _ROOM.get(column.type_name, float("inf"))


def _is_as_a_number_prints(value: str) -> bool:
    try:
        return str(int(value)) == value
    except ValueError:
        return False


def _is_as_a_decimal_prints(value: str, scale: int) -> bool:
    whole, _, fraction = value.removeprefix("-").partition(".")
    if not (whole + fraction).isdecimal() or not value.isascii() or len(fraction) != scale:
        return False
    sign = "-" if value.startswith("-") and (whole + fraction).strip("0") else ""
    point = "." if scale else ""
    return value == f"{sign}{whole.lstrip('0') or '0'}{point}{fraction}"
