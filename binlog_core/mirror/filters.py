"""Which rows of a table the lake has: those for which a condition is true, in copies and in the log."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._base.change_columns import ABSENT, CHANGE_TYPES, OPS, POSTIMAGE, PREIMAGE
from .._tables.column_types import KINDS, Kind
from .._tables.full_names import split_name
from ..conditions.bound import BoundCondition, bind, states_of
from ..conditions.language import Changed, Condition, refs_of
from ..conditions.predicates import TRUE
from ..errors import ConditionError, SchemaError
from ..lake.rows.types import import_pyarrow

if TYPE_CHECKING:
    import pyarrow as pa

    from .._tables.tables import Column, Table
    from ..schema.table_definitions import TableSchema

_WIDE = np.dtype([("low", "<u8"), ("high", "<i8")])  # a decimal, as Arrow has it and `ordered_keys` reads it


def check_filters(filters: Mapping[str, str]) -> None:
    """Check the conditions of some tables.

    Raises
    ------
    ValueError
        One cannot be read, or is about more than the values of a row.
    """
    for pattern, text in filters.items():
        if not all(split_name(pattern)):
            raise ValueError(f"where={pattern!r}: expected database.table=CONDITION")
        try:
            condition = _read(text)
        except ConditionError as error:
            raise ValueError(f"where={pattern!r}: {error}") from None
        for ref in refs_of(condition.tree):
            if ref.pseudo or ref.side:
                shown = f"{ref.side}.{ref.name}" if ref.side else ref.name
                raise ValueError(f"where={pattern!r}: {shown} is not a column of a row: expected its columns")
        if _asks_for_changes(condition.tree):
            raise ValueError(f"where={pattern!r}: changed() is about a change: expected a condition on a row")


def _asks_for_changes(node: Any) -> bool:
    parts = getattr(node, "parts", None) or ([node.part] if hasattr(node, "part") else [])
    return isinstance(node, Changed) or any(map(_asks_for_changes, parts))


def columns_of(where: str) -> frozenset[str]:
    """The names, in small letters, of the columns that a condition needs."""
    return frozenset(ref.name.lower() for ref in refs_of(_read(where).tree)) if where else frozenset()


def check_filter(where: str, definition: TableSchema, lacks: Sequence[str]) -> None:
    """Check that a table's rows can be chosen by a condition, in the log as in a copy.

    Raises
    ------
    SchemaError
        A column is not there, or is left out, or is computed by the server, which may not log it.
    """
    known = {one.name.lower(): one for one in definition.columns}
    for name in sorted(columns_of(where)):
        reason = None
        if name not in known:
            reason = "is not there: use its present name"
        elif name in lacks:
            reason = "is left out (exclude_columns)"
        elif known[name].generated:
            reason = "is generated: not every server logs its values"
        if reason is not None:
            raise SchemaError(
                f"a column of the table's where condition {reason}", table=definition.full_name, column=name
            )


def kept_rows(where: str, rows: pa.RecordBatch, table: Table) -> pa.RecordBatch:
    """Those of a server's rows that the lake has.

    Raises
    ------
    SchemaError
        The condition does not fit the table.
    """
    if not where:
        return rows
    return rows.filter(import_pyarrow().array(_is_true(where, rows, table)))


def kept_changes(
    where: str, rows: pa.RecordBatch, table: Table, unlogged: Collection[str] = ()
) -> pa.RecordBatch:
    """Those row images of the log that concern the lake.

    An update of a row that the lake did not have is an insert there, one after which it has it no longer is a
    delete. `unlogged`: the names, in small letters, of columns that images may lack.

    Raises
    ------
    SchemaError
        The condition does not fit the table, or an image lacks a column that is needed: a copy has it.
    """
    if not where or not rows.num_rows:
        return rows
    pa, op = import_pyarrow(), _numbers_of(rows.column("_change_type"))
    here = _is_true(where, rows, table)
    after = np.flatnonzero(op == POSTIMAGE)
    before = after - 1
    assert (op[before] == PREIMAGE).all()  # both are in one batch, one after the other
    moved = here[before] != here[after]
    refuse_absent(rows, columns_of(where), after[moved & here[after]].tolist(), unlogged)
    op[before[moved]], op[after[moved]] = CHANGE_TYPES.index("delete") + 1, CHANGE_TYPES.index("insert") + 1
    return _with_kinds(rows, op).filter(pa.array(here))


def kept_when_deleted(rows: pa.RecordBatch, name: str, unlogged: Collection[str]) -> pa.RecordBatch:
    """Row images of a table that keeps deleted rows, with a further column that says whether they are.

    Raises
    ------
    SchemaError
        The image of a deleted row lacks a column that is not among `unlogged`: a copy keeps the row.
    """
    pa, op = import_pyarrow(), _numbers_of(rows.column("_change_type"))
    deleted = op == CHANGE_TYPES.index("delete") + 1
    refuse_absent(rows, (), np.flatnonzero(deleted).tolist(), unlogged)
    op[deleted] = CHANGE_TYPES.index("insert") + 1
    return _with_kinds(rows, op).append_column(name, pa.array(deleted))


def _with_kinds(rows: pa.RecordBatch, op: NDArray[np.int64]) -> pa.RecordBatch:
    """Row images that are changes of other kinds."""
    pa, place = import_pyarrow(), rows.schema.get_field_index("_change_type")
    field = rows.schema.field(place)
    return rows.set_column(place, field, pa.array(["", *CHANGE_TYPES], field.type).take(pa.array(op)))


def ops_of(rows: pa.RecordBatch) -> NDArray[np.int64]:
    """The number of rows by op number, as in `Chunk`."""
    return np.bincount(_numbers_of(rows.column("_change_type")), minlength=len(OPS) + 1).astype(np.int64)


def _numbers_of(kinds: pa.Array) -> NDArray[np.int64]:
    import pyarrow.compute as pc

    known = import_pyarrow().array(CHANGE_TYPES, kinds.type)
    numbers: NDArray[np.int64] = pc.index_in(kinds, known).to_numpy(zero_copy_only=False).astype(np.int64) + 1
    return numbers


def refuse_absent(
    rows: pa.RecordBatch,
    needed: Collection[str],
    entering: Collection[int] = (),
    unlogged: Collection[str] = (),
) -> None:
    """Refuse row images that lack a column.

    Parameters
    ----------
    rows : pyarrow.RecordBatch
        The images.
    needed : collection of str
        The names, in small letters, of columns that none may lack.
    entering : collection of int
        The numbers of those that may only lack `unlogged` columns.
    unlogged : collection of str
        Their names, in small letters.

    Raises
    ------
    SchemaError
        One does: a copy has it.
    """
    if ABSENT not in rows.schema.names or not (needed or entering):
        return
    absent = rows.column(ABSENT)
    if absent.null_count == len(absent):
        return
    strictly = set(entering)
    for i, names in enumerate(absent.to_pylist()):
        lacking = {name.partition(" (")[0].lower() for name in names or ()} - {*unlogged}
        if lacking and (i in strictly or not lacking.isdisjoint(needed)):
            raise SchemaError("a row image lacks columns that decide about the row in the lake")


def _is_true(where: str, rows: pa.RecordBatch, table: Table) -> NDArray[np.bool_]:
    records: Any = _Records(rows)
    try:
        bound = _bound(where, table)
        found: NDArray[np.bool_] = states_of(bound.root, records) == TRUE
        return found
    except ConditionError as error:
        raise SchemaError(
            f"the where condition does not fit the table: {error.message}",
            table=table.full_name,
            column=error.column,
        ) from None


def _bound(where: str, table: Table) -> BoundCondition:
    return bind(_read(where), table)


_read = lru_cache(256)(Condition)


class _Records:
    """Rows in the types of a lake, as `predicates.Records` shows those of a log."""

    def __init__(self, rows: pa.RecordBatch) -> None:
        self._rows = rows
        self.count = rows.num_rows
        self.ops = np.zeros(self.count, np.uint8)
        self.batch = SimpleNamespace(invalid=())  # dates that no calendar has are null here
        self.reader = self

    def bit(self, bitmap: str, column: Column) -> NDArray[np.bool_]:
        if bitmap != "null_bitmap":
            return np.zeros(self.count, np.bool_)  # see `refuse_absent`
        nulls: NDArray[np.bool_] = self._rows.column(column.name).is_null().to_numpy(zero_copy_only=False)
        return nulls.copy()

    def column_values(self, name: str) -> list[Any]:
        """The values as Python has them."""
        values: list[Any] = self._rows.column(name).to_pylist()
        return values

    def values(self, column: Column) -> NDArray[Any]:
        """The values as numbers, as `predicates.ordered_keys` takes them; anything where they are null."""
        import pyarrow.compute as pc

        pa = import_pyarrow()
        types, kind, values = pa.types, column.kind, self._rows.column(column.name)
        if kind is Kind.ENUM and column.members is not None:
            values = pc.index_in(values, pa.array(["", *column.members], values.type))
        elif types.is_list(values.type):  # a SET compared with a number
            bits = {name: 1 << i for i, name in enumerate(column.members or ())}
            sums = [sum(map(bits.__getitem__, one or ())) for one in values.to_pylist()]
            return np.array(sums, np.uint64)
        elif types.is_temporal(values.type):
            values = values.cast(pa.int32()) if types.is_date32(values.type) else values
            values = values.cast(pa.int64())
        elif types.is_decimal(values.type) and KINDS[kind].stored == "decimal":
            shift = values.offset * _WIDE.itemsize
            return np.frombuffer(values.buffers()[1], _WIDE, len(values), shift)
        elif types.is_decimal(values.type):
            values = values.cast(pa.uint64())
        elif types.is_string(values.type):
            raise ConditionError("the lake has such a number as text", column=column.name)
        elif types.is_boolean(values.type):
            values = values.cast(pa.uint8())
        found: NDArray[Any] = values.fill_null(0).to_numpy(zero_copy_only=False)
        return found
