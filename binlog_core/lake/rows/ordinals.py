"""`_change_ordinal`: the number of a row image within its transaction, in log order over all tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ..._base.change_columns import POSTIMAGE
from ..._decode.group import Group
from ...batch.change_batch import ChangeBatch


class Ordinals:
    """Counts row images group by group; a transaction that continues in the next group is counted on.

    Parameters
    ----------
    begin : int
        Where the transaction begins that was read before, if the first group continues it.
    count : int
        Its row images so far.
    """

    def __init__(self, begin: int = -1, count: int = 0) -> None:
        self._begin = begin  # position where the transaction of the last row image begins
        self._count = count  # of its row images so far

    def number(self, batches: Sequence[ChangeBatch]) -> list[NDArray[np.int64]]:
        """Number the row images of a group's batches.

        Parameters
        ----------
        batches : sequence of ChangeBatch
            The group's batches, each in log order; none is empty.

        Returns
        -------
        list of ndarray, shape (n_records,), int64
            The numbers of each batch's images, from 0.
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


class OrdinalsOfAll(Ordinals):
    """Numbers selected row images as if all images were there.

    Parameters
    ----------
    groups : iterator of Group
        The groups of all images, read as far as the selected ones go.
    begin, count
        As in `Ordinals`.
    """

    def __init__(self, groups: Iterator[Group], begin: int = -1, count: int = 0) -> None:
        super().__init__(begin, count)
        self._groups = groups
        self._seen = np.empty(0, _PLACE), np.empty(0, np.int64)  # of the last group that was needed

    def number(self, batches: Sequence[ChangeBatch]) -> list[NDArray[np.int64]]:
        """The same as in `Ordinals`."""
        wanted = [_places(batch) for batch in batches]
        if not wanted:
            return []
        places = np.concatenate(wanted)
        order = np.argsort(places, kind="stable")
        places, ordinals = places[order], np.empty(len(order), np.int64)
        done = 0
        while done < len(places):
            seen, numbers = self._seen
            here = done + int(np.searchsorted(places[done:], seen[-1:], side="right").sum())
            ordinals[order[done:here]] = numbers[np.searchsorted(seen, places[done:here])]
            done = here
            if done < len(places):
                self._seen = self._next()
        return np.split(ordinals, np.cumsum([len(one) for one in wanted])[:-1])

    def _next(self) -> tuple[NDArray[np.void], NDArray[np.int64]]:
        batches = [batch for batch in next(self._groups).batches if batch.table.undecodable is None]
        if not batches:
            return np.empty(0, _PLACE), np.empty(0, np.int64)
        numbers = np.concatenate(super().number(batches))
        places = np.concatenate([_places(batch) for batch in batches])
        order = np.argsort(places, kind="stable")
        return places[order], numbers[order]


_PLACE = np.dtype([("position", "u8"), ("row", "u4"), ("after", "u1")])  # ordered as images are in the log


def _places(batch: ChangeBatch) -> NDArray[np.void]:
    image = batch.array["image"]
    found = np.empty(len(image), _PLACE)
    found["position"], found["row"], found["after"] = (
        image["position"],
        image["row"],
        image["op"] == POSTIMAGE,
    )
    return found
