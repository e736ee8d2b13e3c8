"""Shared by batches of one form on their way to Arrow, and made once, so that small batches are cheap."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from .._base.change_columns import CHANGE_TYPES
from .._core._capsules import schema_capsule
from .._core._columns import Layout, array_address
from .._tables.tables import Column
from .arrow_types import (
    ArrowField,
    Geometry,
    ImageColumn,
    Text,
    Vectors,
    WideDecimals,
    arrow_fields,
    struct_field,
    view_names,
)

if TYPE_CHECKING:
    import pyarrow

    from .records import BatchRecords

OP_LABELS = ("unknown", *CHANGE_TYPES)  # by image["op"]
IMAGE_COLUMNS = {
    column.name: column
    for column in (
        ImageColumn("_change_type", "op", "u", OP_LABELS),
        ImageColumn("_commit_timestamp", "transaction", "tsu:UTC"),
        ImageColumn("_position", "position", "L"),
        ImageColumn("_row", "row", "I"),
        ImageColumn("_timestamp", "timestamp", "tsu:UTC"),
        ImageColumn("_server_id", "server_id", "I"),
    )
}
_MOST = 16  # forms of one plan that are kept: of other options, or of other columns in a stream


class Form:
    """Records of one dtype, with the wanted columns and their form.

    Parameters
    ----------
    dtype : numpy.dtype
        The dtype of the records.
    columns : tuple of Column
    changes : sequence of str
        Keys of IMAGE_COLUMNS, for columns that follow these.
    vectors, wide_decimals, geometry, text
        As in ``ChangeBatch.export``.

    Attributes
    ----------
    layout : Layout
    names : frozenset of str
        Names of `columns`.
    """

    def __init__(
        self,
        dtype: np.dtype,
        columns: tuple[Column, ...],
        changes: tuple[str, ...],
        vectors: Vectors,
        wide_decimals: WideDecimals,
        geometry: Geometry,
        text: Text,
    ) -> None:
        fields = arrow_fields(
            columns, vectors=vectors, wide_decimals=wide_decimals, geometry=geometry, text=text
        )
        self.columns = columns
        self.names = frozenset([column.name for column in columns])
        self.layout = Layout(
            dtype, columns, fields, [IMAGE_COLUMNS[name] for name in changes], view_names(text, changes)
        )

    @cached_property
    def schema(self) -> pyarrow.Schema:
        """The schema of the layout's fields."""
        return pyarrow_schema(self.layout.fields)

    @cached_property
    def _import(self) -> Callable[[int, pyarrow.Schema], pyarrow.RecordBatch]:
        import pyarrow

        # Like pyarrow.record_batch(batch), without making a new schema: that takes longer than a small batch.
        take: Callable[[int, pyarrow.Schema], pyarrow.RecordBatch] = pyarrow.RecordBatch._import_from_c
        return take

    def imported(self, fields: tuple[ArrowField, ...], array: object) -> pyarrow.RecordBatch:
        """Columns in a capsule named "arrow_array", for pyarrow, which then owns them."""
        schema = self.schema if fields is self.layout.fields else pyarrow_schema(fields)
        return self._import(array_address(array), schema)


# Forms of batches that no plan has made.
_forms: dict[tuple[Any, ...], Form] = {}


def form_of(
    batch: BatchRecords,
    columns: tuple[Column, ...],
    changes: tuple[str, ...],
    vectors: Vectors,
    wide_decimals: WideDecimals,
    geometry: Geometry,
    text: Text,
) -> Form:
    """The form of a batch's records and these options, cached; parameters as in :class:`Form`."""
    plan = batch.plan
    forms = _forms if plan is None else plan.arrow_forms
    dtype = batch.dtype
    # Keyed by the identity of dtype and columns, which the forms hold: comparing them takes longer than the
    # rest. A stream makes a new tuple of the same columns for each batch that it has to fit.
    key = (id(dtype), *map(id, columns), changes, vectors, wide_decimals, geometry, text)
    form = forms.get(key)
    if form is None:
        form = Form(dtype, columns, changes, vectors, wide_decimals, geometry, text)
        if len(forms) >= _MOST:
            forms.clear()
        forms[key] = form
    return form


def pyarrow_schema(fields: tuple[ArrowField, ...]) -> pyarrow.Schema:
    """The schema of these fields for pyarrow, which is installed."""
    import pyarrow

    return pyarrow.schema(_Schema(fields))


class _Schema:
    def __init__(self, fields: tuple[ArrowField, ...]) -> None:
        self._fields = fields

    def __arrow_c_schema__(self) -> object:
        return schema_capsule(struct_field(self._fields))
