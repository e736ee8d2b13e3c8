"""Batches of some of a batch's records or columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from .._base.change_columns import POSTIMAGE, PREIMAGE
from .._tables.tables import Column, record_dtype
from .records import BatchRecords

if TYPE_CHECKING:
    from numpy.typing import NDArray


Batch = TypeVar("Batch", bound=BatchRecords)


def whole_changes(batch: BatchRecords, damaged: Iterable[int]) -> tuple[NDArray[np.bool_], list[int]]:
    """The records that stay if some are damaged; an update is dropped with both of its images.

    Parameters
    ----------
    batch : ChangeBatch
    damaged : iterable of int
        The numbers of the damaged records.

    Returns
    -------
    kept : ndarray of bool, shape (n,)
    changes : list of int
        The first damaged record of each change that is dropped.
    """
    ops = batch.array["image"]["op"]
    kept = np.ones(len(ops), np.bool_)
    changes = []
    for record in sorted(damaged):
        if kept[record]:
            changes.append(record)
        kept[record] = False
        if ops[record] == PREIMAGE:
            kept[record + 1] = False
        elif ops[record] == POSTIMAGE:
            kept[record - 1] = False
    return kept, changes


def with_columns(batch: Batch, columns: tuple[Column, ...]) -> Batch:
    """A batch with only some of its columns."""
    array = np.empty(len(batch), record_dtype(len(batch.table.columns), columns))
    array["image"] = batch.array["image"]
    for column in columns:
        array["row"][column.name] = batch.array["row"][column.name]
    indexes = [column.index for column in columns]

    def theirs(entries: NDArray[np.void]) -> NDArray[np.void]:
        chosen: NDArray[np.void] = entries[np.isin(entries["column"], indexes)]
        return chosen

    return made_of(batch, columns, array, theirs(batch.invalid), theirs(batch.json_diffs))


def only(batch: Batch, kept: NDArray[np.bool_]) -> Batch:
    """A batch of some of a batch's records, with what belongs to them."""
    places = np.cumsum(kept) - 1

    def moved(entries: NDArray[np.void]) -> NDArray[np.void]:
        chosen: NDArray[np.void] = entries[kept[entries["record"]]]
        chosen["record"] = places[chosen["record"]]
        return chosen

    return made_of(batch, batch.columns, batch.array[kept], moved(batch.invalid), moved(batch.json_diffs))


def made_of(
    batch: Batch,
    columns: tuple[Column, ...],
    array: NDArray[np.void],
    invalid: NDArray[np.void],
    json_diffs: NDArray[np.void],
) -> Batch:
    """Another batch of the same rows, with the same limit."""
    made = type(batch)(
        batch.table, columns, array, batch.buffer, batch.transactions, invalid, json_diffs, batch.path
    )
    made.arrow_bytes = batch.arrow_bytes
    return made
