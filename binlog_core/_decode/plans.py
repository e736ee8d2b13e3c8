"""Plans: what the decoding loop does for each column of a table definition."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._core._rows import WIRE_OPS
from .._tables.column_types import (
    INTEGER_BYTES,
    KINDS,
    MYSQL_TYPE_DATETIME,
    MYSQL_TYPE_DATETIME2,
    MYSQL_TYPE_STRING,
    MYSQL_TYPE_TIME,
    MYSQL_TYPE_TIME2,
    MYSQL_TYPE_TIMESTAMP,
    MYSQL_TYPE_TIMESTAMP2,
    MYSQL_TYPE_VAR_STRING,
    MYSQL_TYPE_VARCHAR,
    MYSQL_TYPE_VARCHAR_COMPRESSED,
    SPAN_DTYPE,
    Kind,
)
from .._tables.tables import Column, Table, image_dtype, record_dtype

if TYPE_CHECKING:
    from ..conditions.bound import BoundCondition
    from ..conditions.compiled import CompiledCondition
    from ..conditions.language import Condition
    from ..conditions.pushed import PushedFilters

_TEMPORAL_OPS = {  # type code: name, bytes before the fraction
    MYSQL_TYPE_TIME2: ("TIME2", 3),
    MYSQL_TYPE_DATETIME2: ("DATETIME2", 5),
    MYSQL_TYPE_TIMESTAMP2: ("TIMESTAMP2", 4),
    MYSQL_TYPE_TIME: ("TIME", 3),
    MYSQL_TYPE_DATETIME: ("DATETIME", 8),
    MYSQL_TYPE_TIMESTAMP: ("TIMESTAMP", 4),
}
# MariaDB's own fractional types: bytes by number of digits, from 1 to 6.
_MARIADB_FRACTION_OPS = {
    MYSQL_TYPE_TIMESTAMP: ("MARIA_TIMESTAMP", (5, 5, 6, 6, 7, 7)),
    MYSQL_TYPE_TIME: ("MARIA_TIME", (4, 4, 5, 5, 5, 6)),
    MYSQL_TYPE_DATETIME: ("MARIA_DATETIME", (6, 6, 7, 7, 7, 8)),
}
_OP = struct.Struct("<BBBBHHII")  # twin of wire_op_t in src/decode/plan.pxd
_DIGITS_LEN = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)  # bytes of a group of 0 to 9 decimal digits


class Scan(NamedTuple):
    """How the loop decodes only the columns of a condition.

    Parameters
    ----------
    ops : bytes
        As in `Plan`.
    dtype : numpy.dtype
        The dtype of these records.
    condition : (bytes, bytes, bytes)
        Tests, program and pool.
    """

    ops: bytes
    dtype: np.dtype
    condition: tuple[bytes, bytes, bytes]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Plan:
    """How the rows of tables with certain columns are decoded, and into what.

    Parameters
    ----------
    columns : tuple of Column
        The decoded columns.
    dtype : numpy.dtype
        The dtype of the records.
    ops : bytes
        One wire operation (wire_op_t) per column of the table, decoded or skipped.
    json_columns : tuple of int
        Indexes of the table's JSON columns.
    nullable : bytes
        For each column of the table: 1 if it can be NULL, or if that is unknown.
    raw : bool
        The table cannot be decoded: a record has one field, a span of the event's rows.
    silence : tuple of (str, str or None)
        What the log lacks about the table's columns: the kind in a report, and the column.
    condition : BoundCondition or None
        Which changes are wanted.
    handed_over : tuple of Column or None
        The wanted columns, if the condition needs further ones.
    scan : Scan or None
        The condition for the loop; None: there is none, or NumPy tests the batches.
    """

    columns: tuple[Column, ...]
    dtype: np.dtype
    ops: bytes
    json_columns: tuple[int, ...]
    nullable: bytes
    raw: bool = False
    silence: tuple[tuple[str, str | None], ...] = ()
    condition: BoundCondition | None = None
    handed_over: tuple[Column, ...] | None = None
    scan: Scan | None = None
    image_len: int = field(init=False)
    compressed: bool = field(init=False)  # some of `columns` are compressed
    # How its batches become Arrow columns, by options: arrow_forms keeps them here.
    arrow_forms: dict[Any, Any] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "image_len", self.dtype["image"].itemsize)
        object.__setattr__(self, "compressed", any(c.compressed for c in self.columns))


class Plans:
    """Plans of table definitions; tables that share their columns share their plan.

    Parameters
    ----------
    where : Condition, PushedFilters or None
    """

    def __init__(self, where: Condition | PushedFilters | None = None) -> None:
        self._where = where
        # By the identity of the columns, which the value holds so that it stays unique.
        self._plans: dict[tuple[int, frozenset[str] | None], tuple[tuple[Column, ...], Plan]] = {}

    def plan_of(self, table: Table, wanted: Collection[str] | None = None) -> Plan:
        """The plan for a table definition.

        Parameters
        ----------
        table : Table
        wanted : collection of str or None
            Names of the columns to decode; None: all.

        Raises
        ------
        ConditionError
            The condition does not fit the table.
        """
        key = (id(table.columns), None if wanted is None else frozenset(wanted))
        known = self._plans.get(key)
        if known is None:
            made = table.columns, plan_of(table, wanted, self._where)
            known = self._plans.setdefault(key, made)  # unless another thread was first
        return known[1]


def plan_of(
    table: Table, wanted: Collection[str] | None = None, where: Condition | PushedFilters | None = None
) -> Plan:
    """A new plan, like :meth:`Plans.plan_of`."""
    count = len(table.columns)
    condition, compiled = _conditions_of(table, where)
    nullable = bytes([c.nullable is not False for c in table.columns])
    if table.undecodable is not None:
        dtype = np.dtype([("image", image_dtype(count)), ("row", np.dtype([("raw", SPAN_DTYPE)]))])
        return Plan((), dtype, bytes(count * _OP.size), (), nullable, raw=True, condition=condition)
    columns, handed_over = table.columns, None
    if wanted is not None:
        columns = tuple([c for c in columns if c.name in wanted])
        if condition is not None and compiled is None and not condition.columns.issubset(wanted):
            handed_over = columns
            columns = tuple([c for c in table.columns if c.name in wanted or c.name in condition.columns])
    dtype = record_dtype(count, columns)
    ops = _wire_ops(table.columns, dtype)
    json_columns = tuple([c.index for c in table.columns if c.kind is Kind.JSON])
    silence = tuple(_silence(table.columns))
    return Plan(
        columns,
        dtype,
        ops,
        json_columns,
        nullable,
        silence=silence,
        condition=condition,
        handed_over=handed_over,
        scan=None if compiled is None else _scan_of(table, compiled),
    )


def _conditions_of(
    table: Table, where: Condition | PushedFilters | None
) -> tuple[BoundCondition | None, CompiledCondition | None]:
    """The condition on a table's rows, and its form for the loop if the loop can run it."""
    own = None if where is None else where.of(table)
    if own is None:
        return None, None
    from ..conditions.bound import bind
    from ..conditions.compiled import compile_condition

    condition = bind(own, table)
    return condition, compile_condition(condition, table) if table.undecodable is None else None


def _scan_of(table: Table, compiled: CompiledCondition) -> Scan:
    ops = _wire_ops(table.columns, compiled.dtype)
    return Scan(ops, compiled.dtype, (compiled.tests, compiled.program, compiled.pool))


def _silence(columns: Iterable[Column]) -> Iterator[tuple[str, str | None]]:
    if not all(c.named for c in columns):
        yield "unnamed_columns", None
    for c in columns:
        if c.kind is Kind.INT and c.signed is None:
            yield "unknown_signs", c.name
        elif c.kind is Kind.BINARY and c.charset is None:
            yield "unknown_charsets", c.name


def _wire_ops(columns: Iterable[Column], dtype: np.dtype) -> bytes:
    """The operations of all columns; columns that are not fields of the record are skipped."""
    row = dtype["row"]
    fields: Mapping[str, Any] = row.fields or {}
    row_offset = dtype.itemsize - row.itemsize
    ops = []
    for column in columns:
        name, width, (a, b, c) = wire_op(column)
        place = fields.get(column.name)
        if place is not None:
            code, out_width, out = _code(name, width), place[0].itemsize, row_offset + place[1]
        else:
            code = _code("SKIP_VALUE" if name == "SPAN" else "SKIP" if width else "NOTHING", width)
            a = b = c = out_width = out = 0
        ops.append(_OP.pack(code, a, b, c, column.index, out_width, width, out))
    return b"".join(ops)


def _code(name: str, width: int) -> int:
    """The operation's code; copies and spans of common widths have codes of their own."""
    if name == "COPY":
        return WIRE_OPS["COPY"] + {1: 1, 2: 2, 4: 3, 8: 4}.get(width, 0)
    if name == "SPAN":
        return WIRE_OPS["SPAN"] - {1: 2, 2: 1}.get(width, 0)
    return WIRE_OPS[name]


def wire_op(column: Column) -> tuple[str, int, tuple[int, int, int]]:
    """The operation that reads a column's value.

    Returns
    -------
    (name, width, details)
        name in ``WIRE_OPS``; width in bytes, of the value, or of the length before it.
    """
    facts, none = KINDS[column.kind], (0, 0, 0)
    if facts.wire is not None:
        return *facts.wire, none
    if facts.stored == "span":
        return "SPAN", _length_bytes(column), none
    if facts.stored == "moment":
        return _temporal_op(column)
    match column.kind:
        case Kind.DECIMAL:
            return _decimal_op(column)
        case Kind.BIT:
            return "BIT", (column.length + 7) // 8, none
        case Kind.ENUM | Kind.SET:
            return ("COPY" if column.length == column.dtype.itemsize else "WIDEN"), column.length, none
    width = INTEGER_BYTES[column.type_code]
    return ("UINT24" if column.signed is False else "INT24") if width == 3 else "COPY", width, none


def _length_bytes(column: Column) -> int:
    """Bytes of the length before a value."""
    if column.type_code in (
        MYSQL_TYPE_VARCHAR,
        MYSQL_TYPE_VAR_STRING,
        MYSQL_TYPE_VARCHAR_COMPRESSED,
        MYSQL_TYPE_STRING,
    ):
        return 1 if column.length <= 255 else 2
    return column.length


def _temporal_op(column: Column) -> tuple[str, int, tuple[int, int, int]]:
    code = column.type_code
    if column.old_fraction and column.fsp:
        name, widths = _MARIADB_FRACTION_OPS[code]
        return name, widths[column.fsp - 1], (column.fsp, 0, 0)
    name, whole = _TEMPORAL_OPS[code]
    fraction = (column.fsp + 1) // 2 if code not in _MARIADB_FRACTION_OPS else 0
    return name, whole + fraction, (fraction, 0, 0)


def _decimal_op(column: Column) -> tuple[str, int, tuple[int, int, int]]:
    integer_groups, head_digits = divmod(column.precision - column.scale, 9)
    fraction_groups, tail_digits = divmod(column.scale, 9)
    groups = integer_groups + fraction_groups
    width = _DIGITS_LEN[head_digits] + 4 * groups + _DIGITS_LEN[tail_digits]
    size = 64 if column.precision <= 18 else 128 if column.precision <= 38 else 256
    return f"DECIMAL{size}", width, (head_digits, groups, tail_digits)
