"""Which row images are delivered, what they lack, and which columns about them are added on demand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._base.change_columns import CHANGED, DELETE, POSTIMAGE, PREIMAGE
from ..._base.options import Images
from ..._tables.column_types import KINDS
from ..._tables.tables import Column
from ...batch.change_batch import ChangeBatch
from ...errors import SchemaError
from ...gtids import gtid_text
from .types import import_pyarrow

if TYPE_CHECKING:
    import pyarrow as pa


class Selected(NamedTuple):
    """Row images of a batch that are returned.

    Parameters
    ----------
    rows : ndarray, shape (n,), or None
        Their records in the batch; None: all.
    ops : ndarray, shape (n,), uint8
        The operation of each, as in ``binlog_core.batch.OPS``.
    """

    rows: NDArray[np.intp] | None
    ops: NDArray[np.uint8]


def select_images(batch: ChangeBatch, images: Images, key: Sequence[str] | None = None) -> Selected:
    """The row images that ``images=`` asks for.

    Parameters
    ----------
    batch : ChangeBatch
        The row images.
    images : "both", "after" or "keychange"
        "after" leaves out the preimages of updates. "keychange" does so too, except that the preimage of an
        update that changed the key becomes a delete.
    key : sequence of str or None
        Names of the key's columns; None: the primary key in the log.

    Raises
    ------
    SchemaError
        The key is not known, or not decoded.
    """
    ops = batch.array["image"]["op"]
    if images == "both":
        return Selected(None, ops)
    if images == "after":
        rows = np.flatnonzero(ops != PREIMAGE)
        return Selected(rows, ops[rows])
    before = np.flatnonzero(ops == PREIMAGE)
    changed = before[_key_changed(batch, before, key_columns(batch, key))]
    ops = ops.copy()
    ops[changed] = DELETE
    rows = np.flatnonzero(ops != PREIMAGE)
    return Selected(rows, ops[rows])


def key_columns(batch: ChangeBatch, key: Sequence[str] | None) -> list[Column]:
    """The columns of the given key, or of the primary key."""
    names = key if key is not None else batch.table.primary_key
    if not names:
        raise SchemaError(
            "the log does not have the primary key (binlog_row_metadata=FULL would): name the key's columns",
            path=batch.path,
            table=batch.table.full_name,
        )
    known = {column.name: column for column in batch.columns}
    for name in names:
        if name not in known:
            raise SchemaError(
                "the key's column is not in the table",
                path=batch.path,
                table=batch.table.full_name,
                column=name,
            )
    return [known[name] for name in names]


def _key_changed(batch: ChangeBatch, before: NDArray[np.intp], key: Iterable[Column]) -> NDArray[np.bool_]:
    # The record after a preimage is its postimage. Columns that a postimage lacks have not changed.
    after = before + 1
    changed = np.zeros(len(before), np.bool_)
    for column in key:
        there = ~batch.is_absent(column.name)[after] & ~batch.is_absent(column.name)[before]
        null = batch.is_null(column.name)
        differs = null[before] != null[after]
        values = batch.array["row"][column.name]
        if KINDS[column.kind].stored == "span":
            differs |= _spans_differ(batch, values[before], values[after])
        else:
            old, new = np.ascontiguousarray(values[before]), np.ascontiguousarray(values[after])
            width = old.dtype.itemsize
            if width:
                shape = (len(before), width)
                differs |= (old.view(np.uint8).reshape(shape) != new.view(np.uint8).reshape(shape)).any(
                    axis=1
                )
        changed |= np.asarray(there & differs)
    return changed


def _spans_differ(batch: ChangeBatch, old: NDArray[np.void], new: NDArray[np.void]) -> NDArray[np.bool_]:
    differs = np.asarray(old["length"] != new["length"])
    data = memoryview(batch.buffer).cast("B")
    for i in np.flatnonzero(~differs):
        length = int(old["length"][i])
        a, b = int(old["offset"][i]), int(new["offset"][i])
        differs[i] = data[a : a + length] != data[b : b + length]
    return differs


def absent_names(batch: ChangeBatch, rows: NDArray[np.intp] | None, *, filled: bool) -> pa.Array:
    """Names of the decoded columns that each row image lacks.

    Parameters
    ----------
    batch : ChangeBatch
        The row images.
    rows : ndarray or None
        The records; None: all.
    filled : bool
        Whether postimages took the columns that they lack from their preimages.

    Returns
    -------
    pyarrow.Array, list of string
        The names; null where the image is complete. A JSON column of which the log has only changes, not the
        document, has two entries: the second ends with `CHANGED`.
    """
    pa = import_pyarrow()
    bitmaps = batch.array["image"]["absent_bitmap"]
    if filled:
        bitmaps = bitmaps.copy()
        after = np.flatnonzero(batch.array["image"]["op"] == POSTIMAGE)
        bitmaps[after] &= bitmaps[after - 1]
    if rows is not None:
        bitmaps = bitmaps[rows]
    kind = pa.list_(pa.field("element", pa.string()))
    lost = batch.lost_documents
    if not bitmaps.any() and not len(lost):
        return pa.nulls(len(bitmaps), kind)
    patterns, which = np.unique(bitmaps, axis=0, return_inverse=True)
    lists = []
    for pattern in patterns:
        bits = np.unpackbits(pattern, bitorder="little")
        lists.append([column.name for column in batch.columns if bits[column.index]] or None)
    if not len(lost):
        return pa.array(lists, kind).take(pa.array(which.reshape(-1)))
    each: list[list[str] | None] = [lists[i] for i in which.reshape(-1).tolist()]
    place = {record: i for i, record in enumerate(range(len(each)) if rows is None else rows.tolist())}
    columns = {column.index: column.name for column in batch.columns}
    for record, index in lost.tolist():
        if (i := place.get(record)) is not None:
            name = columns[index]
            each[i] = [*(each[i] or ()), name, name + CHANGED]
    return pa.array(each, kind)


def metadata_column(batch: ChangeBatch, name: str, transactions: NDArray[np.integer[Any]]) -> pa.Array:
    """`_gtid`, `_file` or `_xid` of row images; `transactions`: their indices in ``batch.transactions``."""
    pa = import_pyarrow()
    if name == "_file":
        return pa.repeat(pa.scalar(batch.path, pa.string()), len(transactions))
    used, which = np.unique(transactions, return_inverse=True)
    fields = batch.transactions[used]
    if name == "_xid":
        values: list[Any] = [int(xid) or None for xid in fields["xid"]]
        kind = pa.int64()
    else:
        values, kind = [gtid_text(one) for one in fields], pa.string()
    return pa.array(values, kind).take(pa.array(which.reshape(-1)))
