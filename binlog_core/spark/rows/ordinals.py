"""`_change_ordinal`: the number of a row image within its transaction, in log order over all tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...batch import ChangeBatch


class Ordinals:
    """Counts row images group by group; a transaction that goes on in the next group is counted on."""

    def __init__(self) -> None:
        self._begin = -1  # position where the transaction of the last row image begins
        self._count = 0  # of its row images so far

    def number(self, batches: Sequence[ChangeBatch]) -> list[NDArray[np.int64]]:
        """Number the row images of a group's batches.

        Parameters
        ----------
        batches : sequence of ChangeBatch
            Each in log order by itself, none empty.

        Returns
        -------
        list of ndarray, shape (n_records,), int64
            One for each batch; from 0.
        """
        if not batches:
            return []
        images = [batch.array["image"] for batch in batches]
        begin = np.concatenate(
            [
                batch.transactions["begin_position"][image["transaction"]]
                for batch, image in zip(batches, images, strict=True)
            ]
        )
        order = None
        if len(batches) > 1:
            position = np.concatenate([image["position"] for image in images])
            row = np.concatenate([image["row"] for image in images])
            order = np.lexsort((row, position))  # stable: a preimage stays before its postimage
            begin = begin[order]
        ordinals = self._count_on(begin)
        if order is not None:
            in_order, ordinals = ordinals, np.empty_like(ordinals)
            ordinals[order] = in_order
        return np.split(ordinals, np.cumsum([len(image) for image in images])[:-1])

    def number_one(self, begin: int) -> int:
        """Number something else in the transaction that begins at a position: a statement among its rows."""
        if begin != self._begin:
            self._begin, self._count = begin, 0
        self._count += 1
        return self._count - 1

    def _count_on(self, begin: NDArray[np.uint64]) -> NDArray[np.int64]:
        count = len(begin)
        starts = np.flatnonzero(np.concatenate(([True], begin[1:] != begin[:-1])))
        lengths = np.diff(starts, append=count)
        ordinals = np.arange(count, dtype=np.int64) - np.repeat(starts, lengths)
        if begin[0] == self._begin:
            ordinals[: lengths[0]] += self._count
        self._begin, self._count = int(begin[-1]), int(ordinals[-1]) + 1
        return ordinals
