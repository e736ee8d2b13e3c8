"""A group's batches as one sequence of changes, in log order across tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ._values import RowChange, RowReader

if TYPE_CHECKING:
    from .batch import ChangeBatch
    from .decoding import Group
    from .report import Report

_POSTIMAGE = 3


def changes_in_log_order(group: Group, report: Report) -> Iterator[RowChange]:
    """One RowChange per changed row.

    Parameters
    ----------
    group : Group
        Each of its batches is in log order already.
    report : Report
        Texts that their character set does not have are counted there.

    Yields
    ------
    RowChange
    """
    batches = [batch for batch in group.batches if batch.table.undecodable is None]
    readers = [RowReader(batch) for batch in batches]
    try:
        if len(readers) == 1:
            yield from readers[0]
        elif readers:
            iterators = [iter(reader) for reader in readers]
            for i in log_order(batches).tolist():
                yield next(iterators[i])
    finally:
        for batch, reader in zip(batches, readers, strict=True):
            if reader.invalid_text:
                report.add(
                    "invalid_text",
                    path=batch.path,
                    table=batch.table.full_name,
                    count=reader.invalid_text,
                )


def log_order(batches: list[ChangeBatch]) -> np.ndarray:
    """Whose change comes next: one index into batches per changed row of all of them.

    Returns
    -------
    ndarray, shape (n_changes,), int64
    """
    places = []
    for batch in batches:
        image = batch.array["image"]
        first = image[image["op"] != _POSTIMAGE]
        places.append((first["position"], first["row"]))
    owner = np.repeat(np.arange(len(batches)), [len(position) for position, _ in places])
    position = np.concatenate([p for p, _ in places])
    row = np.concatenate([r for _, r in places])
    return owner[np.lexsort((row, position))]
