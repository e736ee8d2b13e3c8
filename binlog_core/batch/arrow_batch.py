"""A batch as Arrow columns: those of its table, and those about the changes."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from .._base.change_columns import CHANGE_COLUMNS, DEFAULT_CHANGE_COLUMNS
from .._core._capsules import schema_capsule, stream_capsule
from .._core._columns import Layout, export_batch, export_columns
from .._tables.side_dtypes import TRANSACTION_DTYPE
from .._tables.tables import Column
from .._tables.transcoding import TextErrors
from ..errors import DecodeError, SchemaError
from ..gtids import gtid_text
from .arrow_forms import IMAGE_COLUMNS, OP_LABELS, form_of
from .arrow_types import (
    VIEWS,
    ArrowField,
    ChangeColumn,
    Geometry,
    Text,
    Vectors,
    WideDecimals,
    followed,
    struct_field,
    view_names,
)

if TYPE_CHECKING:
    import pyarrow
    from numpy.typing import NDArray

    from .arrow_types import Rows
    from .records import BatchRecords

NO_POLARS = "to_polars() needs polars: pip install polars"


class ArrowBatch:
    """A batch as Arrow columns, with options; ``batch.export()`` makes it.

    The columns are made each time a library asks for them: the interface gives their ownership away.

    Parameters
    ----------
    batch : ChangeBatch
        The batch to export.
    change_columns, extras, rows, fill_absent, text_errors, vectors, wide_decimals, geometry, text
        As in ``ChangeBatch.export``.
    columns : sequence of Column or None
        The columns to give; None gives those of the batch. One that the records do not have is all null.
    """

    def __init__(
        self,
        batch: BatchRecords,
        *,
        change_columns: bool | str | Sequence[str] = True,
        extras: Sequence[ChangeColumn] = (),
        rows: Rows | None = None,
        fill_absent: bool = False,
        text_errors: TextErrors = "raise",
        vectors: Vectors = "fixed",
        wide_decimals: WideDecimals = "decimal256",
        geometry: Geometry = "struct",
        text: Text = "string",
        columns: Sequence[Column] | None = None,
    ) -> None:
        self.batch = batch
        self._held: tuple[tuple[ArrowField, ...], object] | None = None
        self.columns = batch.value_columns if columns is None else tuple(columns)
        self.rows = rows = None if rows is None else record_numbers(rows, len(batch))
        self.fill_absent = fill_absent
        self.text_errors: TextErrors = text_errors
        if text_errors not in ("raise", "replace", "binary"):
            raise ValueError(f"text_errors={text_errors!r}: expected raise, replace or binary")
        if geometry not in ("struct", "ewkb"):
            raise ValueError(f"geometry={geometry!r}: expected struct or ewkb")
        if vectors not in ("fixed", "list"):
            raise ValueError(f"vectors={vectors!r}: expected fixed or list")
        if wide_decimals not in ("decimal256", "text"):
            raise ValueError(f"wide_decimals={wide_decimals!r}: expected decimal256 or text")
        if text not in ("string", "view") and not isinstance(text, frozenset):
            raise ValueError(f"text={text!r}: expected string, view, or a frozenset of names")
        if isinstance(change_columns, str):
            change_columns = (change_columns,)
        names = DEFAULT_CHANGE_COLUMNS if change_columns is True else tuple(change_columns or ())
        # The core makes the first ones, if they are in the records.
        made = 0
        while made < len(names) and names[made] in IMAGE_COLUMNS:
            made += 1
        self._form_of = partial(form_of, batch, self.columns, names[:made], vectors, wide_decimals, geometry)
        self._made = names[:made]
        self._extras = (*[change_column(batch, name, rows) for name in names[made:]], *extras)
        self._show(text)
        own = self._form.names
        if not own.isdisjoint(names) or not own.isdisjoint([extra.name for extra in extras]):
            raise SchemaError(
                "the table has a column of this name: choose other change_columns",
                path=batch.path,
                table=batch.table.full_name,
                column=next(name for name in (*names, *[extra.name for extra in extras]) if name in own),
            )

    def _show(self, text: Text) -> None:
        self._form = self._form_of(text)
        self._views = view_names(text, [extra.name for extra in self._extras])

    @cached_property
    def change_columns(self) -> tuple[ChangeColumn, ...]:
        """The columns that follow the table's own."""
        made = [change_column(self.batch, name, self.rows) for name in self._made]
        return (*made, *self._extras)

    def fields(self) -> tuple[ArrowField, ...]:
        """The fields of the schema.

        Raises
        ------
        DecodeError
            text_errors is "binary", so that the values decide the types, and one is not valid for its type.
        """
        if self.text_errors == "binary":
            return self.export()[0]
        return self._planned()

    def _planned(self) -> tuple[ArrowField, ...]:
        return (*self._form.layout.fields, *_fields_of(self._extras, self._views))

    def hold(self) -> None:
        """Make the columns now, for the next `export`."""
        self._held = self.export()

    def export(self) -> tuple[tuple[ArrowField, ...], object]:
        """Fields, and the columns in a capsule named "arrow_array"; errors as in ``ChangeBatch.export``."""
        if (held := self._held) is not None:
            self._held = None
            return held
        return _exported(
            self.batch,
            self._form.layout,
            rows=self.rows,
            fill_absent=self.fill_absent,
            text_errors=self.text_errors,
            extras=self._extras,
            views=self._views,
        )

    def following(self, requested_schema: object) -> ArrowBatch:
        """The batch with strings and bytes as a requested schema has them: as such, or as views.

        Parameters
        ----------
        requested_schema : PyCapsule or None
        """
        if requested_schema is None:
            return self
        fields = self._planned()
        views = followed(fields, requested_schema)
        if views == {field.name for field in fields if field.format in VIEWS.values()}:
            return self
        again = copy(self)
        again._held = None
        again._show(views)
        return again

    def to_pyarrow(self) -> pyarrow.RecordBatch:
        """The columns as ``pyarrow.RecordBatch``; errors as in ``ChangeBatch.export``."""
        return self._form.imported(*self.export())

    def __arrow_c_schema__(self) -> object:
        """The schema, as PyCapsule."""
        return schema_capsule(struct_field(self.fields()))

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """Schema and array, as PyCapsules; of a requested schema only views of text are followed."""
        fields, array = self.following(requested_schema).export()
        return schema_capsule(struct_field(fields)), array

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """A stream of this one batch, as PyCapsule; of a requested schema only views are followed."""
        fields, array = self.following(requested_schema).export()
        return stream_capsule(struct_field(fields), iter((array,)))


def made_by_default(batch: BatchRecords) -> pyarrow.RecordBatch:
    """A batch for pyarrow without options; errors as in ``ChangeBatch.export``.

    The last form is kept with the plan: looking it up takes longer than a small batch.
    """
    forms = batch.plan.arrow_forms if batch.plan is not None else {}
    form = forms.get(None)
    if form is None or form.columns is not batch.columns or form.layout.dtype is not batch.dtype:
        form = forms[None] = ArrowBatch(batch)._form
    return form.imported(*_exported(batch, form.layout))


def made_together(batch: BatchRecords, records: NDArray[np.void]) -> pyarrow.RecordBatch | None:
    """Records of several batches of a group for pyarrow, in the form of one of them, without options.

    Returns
    -------
    pyarrow.RecordBatch or None
        None if that is not possible; converting a batch by itself then shows why.
    """
    try:
        form = ArrowBatch(batch)._form
        return form.imported(
            *export_batch(
                form.layout, records, batch.buffer, transactions=batch.transactions, most=batch.arrow_bytes
            )
        )
    except (ImportError, DecodeError, SchemaError):
        return None


def _exported(
    batch: BatchRecords,
    layout: Layout,
    *,
    rows: NDArray[np.intp] | None = None,
    fill_absent: bool = False,
    text_errors: TextErrors = "raise",
    extras: Sequence[ChangeColumn] = (),
    views: frozenset[str] = frozenset(),
) -> tuple[tuple[ArrowField, ...], object]:
    """Fields, and the columns in a capsule; errors as in ``ChangeBatch.export``."""
    if rows is None and not fill_absent and (made := batch.take_columns(layout)) is not None:
        array = export_columns(layout, made, batch.buffer, extras=extras, views=views)
        if array is not None:
            more = _fields_of(extras, views)
            return (*layout.fields, *more) if more else layout.fields, array
    try:
        return export_batch(
            layout,
            batch.array,
            batch.buffer,
            rows=rows,
            fill_absent=fill_absent,
            text_errors=text_errors,
            documents=json_documents(batch),
            extras=extras,
            views=views,
            transactions=batch.transactions,
            most=batch.arrow_bytes,
        )
    except DecodeError as error:
        raise error.located(path=batch.path, table=batch.table.full_name) from error.__cause__


def _fields_of(extras: Sequence[ChangeColumn], views: frozenset[str]) -> list[ArrowField]:
    return [extra.field.as_view() if extra.name in views else extra.field for extra in extras]


def record_numbers(rows: Rows, count: int) -> NDArray[np.intp]:
    """Numbers of the records that `rows` selects among `count`, as an array of its own.

    Raises
    ------
    TypeError
        `rows` is neither numbers nor a mask.
    IndexError
        A mask has the wrong length, or there is no record with a number.
    """
    given = np.array(rows)  # a copy, so that what is checked here is what is used later
    if given.ndim != 1:
        raise TypeError(f"rows= takes one dimension, not {given.ndim}")
    if given.dtype == bool:
        if len(given) != count:
            raise IndexError(f"rows=: a mask of {len(given)} values for {count} records")
        return np.flatnonzero(given)
    if not len(given):
        return np.empty(0, np.intp)
    if given.dtype.kind not in "iu":
        raise TypeError(f"rows= takes whole numbers or a mask of booleans, not {given.dtype}")
    if given.min() < 0 or given.max() >= count:
        raise IndexError(f"rows=: expected record numbers from 0 to {count - 1}")
    return given.astype(np.intp, copy=False)


def change_column(batch: BatchRecords, name: str, rows: NDArray[np.integer[Any]] | None) -> ChangeColumn:
    """One of CHANGE_COLUMNS for the records of a batch that are exported; SchemaError for any other name."""
    image = batch.array["image"] if rows is None else batch.array["image"][rows]
    if name == "_change_type":
        return ChangeColumn(name, image["op"], labels=OP_LABELS)
    if name == "_commit_timestamp":
        return ChangeColumn(name, _commit_times(batch, image["transaction"]), utc=True)
    if name == "_timestamp":
        return ChangeColumn(name, image["timestamp"].astype("M8[s]").astype("M8[us]"), utc=True)
    if name == "_file":
        return ChangeColumn(name, np.zeros(len(image), np.uint8), labels=(batch.path or "",))
    if name in ("_position", "_row", "_server_id"):
        return ChangeColumn(name, image[name[1:]])
    if name == "_gtid":
        used, codes = np.unique(image["transaction"], return_inverse=True)
        gtids = tuple(gtid_text(batch.transactions[i]) or "" for i in used.tolist()) or ("",)
        return ChangeColumn(name, codes.reshape(-1), labels=gtids)
    if name == "_transaction":
        begins = batch.transactions["begin_position"] if len(image) else np.empty(0, np.uint64)
        return ChangeColumn(name, begins[image["transaction"]])
    if name in ("_xid", "_thread_id"):
        column = name[1:]
        each = batch.transactions[column] if len(image) else np.empty(0, TRANSACTION_DTYPE[column])
        return ChangeColumn(name, each[image["transaction"]])
    raise SchemaError(f"unknown change column {name!r}; known: {', '.join(CHANGE_COLUMNS)}")


def json_documents(batch: BatchRecords) -> dict[str, dict[int, bytes | None]]:
    """Texts of the JSON values that a batch has as lists of changes.

    Returns
    -------
    dict of column name to dict of record to (bytes or None)
        The whole document, UTF-8, where the preimage (the record before) holds one; else None.

    Raises
    ------
    DecodeError
        A list of changes is not valid, or does not fit its document.
    """
    found: dict[str, dict[int, bytes | None]] = {}
    if not len(batch.json_diffs):
        return found
    from .._core._jsonb import apply_json_diffs

    columns = {column.index: column for column in batch.columns}
    data = memoryview(batch.buffer).cast("B")
    for record, index in batch.json_diffs.tolist():
        if (column := columns.get(index)) is None:
            continue
        text: bytes | None = None
        try:
            before = _span(batch, data, record - 1, column) if record else None
            diffs = _span(batch, data, record, column)
            if before is not None and diffs is not None:
                text = apply_json_diffs(before, diffs)
        except DecodeError as error:
            error.path, error.table, error.column = batch.path, batch.table.full_name, column.name
            error.offset = int(batch.array[record]["image"]["position"])
            raise
        found.setdefault(column.name, {})[record] = text
    return found


def _span(batch: BatchRecords, data: memoryview, record: int, column: Column) -> bytes | None:
    entry = batch.array[record]
    byte, bit = column.index // 8, 1 << column.index % 8
    if (entry["image"]["null_bitmap"][byte] | entry["image"]["absent_bitmap"][byte]) & bit:
        return None
    offset, length = entry["row"][column.name].tolist()
    if offset + length > len(data):
        raise DecodeError(f"record {record}: the value's span reaches outside the batch's buffer")
    return bytes(data[offset : offset + length])


def _commit_times(batch: BatchRecords, numbers: NDArray[np.uint32]) -> NDArray[np.datetime64]:
    # Only the batch's own transactions: a group has many more than a small batch has rows.
    times = batch.transactions["commit_time"][numbers]
    unknown = times < 0
    if unknown.any():
        times[unknown] = batch.transactions["timestamp"][numbers[unknown]].astype(np.int64) * 1_000_000
    return times.view("M8[us]")
