"""Rows that did not stay: their transaction was rolled back, as a whole or to a savepoint.

Servers log such rows if the transaction also did what cannot be undone: it changed a table without
transactions, or created or dropped a temporary one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, suppress
from itertools import groupby
from operator import attrgetter
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ..._decode.group import Aside, Group
from ..._decode.savepoints import RowPlace, Savepoints
from ...batch.change_batch import OUTCOMES
from ...errors import BinlogError
from ...splits import Within

_T = TypeVar("_T")
_UNKNOWN, _ROLLED_BACK = OUTCOMES.index("unknown"), OUTCOMES.index("rolled back")
_Range = tuple[RowPlace, RowPlace]


class UndoneRows:
    """Knows which rows of a split did not stay, group by group.

    Parameters
    ----------
    read_on : callable
        The groups from the transaction that begins at a position, with their asides. It is called for a
        transaction that goes on after the group that follows.
    within : Within or None
        What is known of the transaction that the split is a part of.
    """

    def __init__(self, read_on: Callable[[int], Generator[Group]], within: Within | None = None) -> None:
        self._read_on = read_on
        self._rolled_back = np.empty(0, np.uint64)  # begins of transactions
        self._ranges: list[_Range] = []
        self._long = -1  # begin of the last transaction in several groups, and the same about it
        self._long_rolled_back = False
        self._long_ranges: list[_Range] = []
        if within is not None:
            self._long, self._long_rolled_back = within.begin, within.rolled_back
            self._long_ranges = [(RowPlace(*first), RowPlace(*last)) for first, last in within.undone]

    def groups(self, found: Iterator[tuple[_T, Group]]) -> Iterator[tuple[_T, Group]]:
        """Groups, and what is given with each, when `kept` can be asked about their rows.

        If the last transaction of a group has not ended in it, the next group is read before. An error in
        that comes after the group.
        """
        pair = next(found, None)
        while pair is not None:
            following, failed = None, None
            open_one = self._open(pair[1])
            if open_one is not None:
                try:
                    following = next(found, None)
                except Exception as error:
                    failed = error
            self._note(pair[1], open_one, following[1] if following else None)
            yield pair
            if failed is not None:
                raise failed
            pair = following or next(found, None)

    def _open(self, group: Group) -> int | None:
        """Where the transaction begins that has not ended in a group, unless it is known how it ends."""
        if not len(group.transactions) or group.transactions["outcome"][-1] != _UNKNOWN:
            return None
        begin = int(group.transactions["begin_position"][-1])
        return begin if begin != self._long else None

    def _note(self, group: Group, open_one: int | None, following: Group | None) -> None:
        transactions = group.transactions
        self._rolled_back = transactions["begin_position"][transactions["outcome"] == _ROLLED_BACK]
        own = (aside for aside in group.asides if aside.transaction != self._long)
        self._ranges = [*self._long_ranges, *_undone(own)]
        if open_one is None or following is None:
            return
        self._long, self._long_rolled_back, asides = open_one, False, []
        known = _outcome(following, open_one) is not None
        parts = (part for part in (group, following)) if known else self._read_on(open_one)
        with closing(parts), suppress(BinlogError):  # an error comes where its rows would
            for part in parts:
                asides += [aside for aside in part.asides if aside.transaction == open_one]
                outcome = _outcome(part, open_one)
                if outcome is not None:
                    self._long_rolled_back = outcome == _ROLLED_BACK
                    break
                if (part.transactions["begin_position"] > open_one).any():
                    break  # it has no end
        self._long_ranges = _undone(asides)
        self._ranges += self._long_ranges

    def kept(
        self, begin: NDArray[np.uint64], position: NDArray[np.uint64], row: NDArray[np.uint32]
    ) -> NDArray[np.bool_] | None:
        """Whether each row stayed, by its transaction's begin, its event, and its number there; None: all."""
        if not len(self._rolled_back) and not self._long_rolled_back and not self._ranges:
            return None
        keep = ~np.isin(begin, self._rolled_back)
        if self._long_rolled_back:
            keep &= begin != self._long
        for first, last in self._ranges:
            keep &= _before(position, row, first) | ~_before(position, row, last)
        return None if keep.all() else keep


def _outcome(group: Group, begin: int) -> int | None:
    """How the transaction that begins at a position ended; None: not in this group."""
    here = group.transactions["outcome"][group.transactions["begin_position"] == begin].tolist()
    return here[0] if here and here[0] != _UNKNOWN else None


def _before(position: NDArray[np.uint64], row: NDArray[np.uint32], place: RowPlace) -> NDArray[np.bool_]:
    there = np.uint64(place.position)
    found: NDArray[np.bool_] = (position < there) | ((position == there) & (row < place.row))
    return found


def _undone(asides: Iterable[Aside]) -> list[_Range]:
    """What ROLLBACK TO undid, in log order."""
    found: list[_Range] = []
    statements = (aside for aside in asides if aside.kind == "savepoint")
    for begin, own in groupby(statements, key=attrgetter("transaction")):
        savepoints = Savepoints(begin)
        for aside in own:
            savepoints.note(aside.text, RowPlace(aside.position, aside.row))
        found += savepoints.undone
    return found
