"""Checks that the splits of a log were read from real anchors, and which must be read again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import groupby

from .._format.event_header import FIRST_EVENT
from ..errors import BinlogError
from .split import Split


@dataclass(frozen=True, slots=True)
class SplitResult:
    """The anchors between which a split was read, for `check_seams`. A task returns it, pickled.

    Parameters
    ----------
    split : Split
        The split.
    first_anchor : int or None
        Position of the first event that it owns; None if it owns none.
    next_anchor : int or None
        Position where the next split's events begin; None if the log ends before.
    error : BinlogError or None
        The error that ended reading early. Give it to `check_seams` instead of raising it: if the split did
        not begin at a true event, the error says nothing about the log.
    """

    split: Split
    first_anchor: int | None
    next_anchor: int | None
    error: BinlogError | None = None


def check_seams(results: Iterable[SplitResult]) -> list[Split]:
    """The splits that must be read again, because they do not begin where the one before them ends.

    A chain of forged events in a BLOB, with right checksums and positions, can deceive a worker whose split
    begins inside it. A worker that reaches the BLOB from before is not deceived: it reads the log from its
    first event, or from where another such reader ended. So every split's `next_anchor` must be the
    `first_anchor` of the following split that has one. A split that disagrees is returned with the true
    anchor; read it in place of the old one and check again, until none is left.

    Parameters
    ----------
    results : iterable of SplitResult
        The latest result of every split in the plan, in any order.

    Returns
    -------
    list of Split
        At most one split for each log. If it is empty, every transaction was read exactly once.

    Raises
    ------
    BinlogError
        The `error` of a split that began where it should.
    ValueError
        Results are missing for some of a log's splits.
    """
    again = []
    ordered = sorted(results, key=lambda result: (result.split.path, result.split.start))
    for path, group in groupby(ordered, lambda result: result.split.path):
        parts = list(group)
        covered = [0, *(part.split.end for part in parts[:-1])]
        if [part.split.start for part in parts] != covered:
            raise ValueError(f"{path}: its splits do not cover it")
        anchor: int | None = FIRST_EVENT
        for part in parts:
            end = part.split.end
            owned = anchor if anchor is not None and (end is None or anchor < end) else None
            if part.first_anchor != owned:
                again.append(replace(part.split, anchor=owned, trusted=True, within=None))
                break
            if part.error is not None:
                raise part.error
            if owned is not None:
                anchor = part.next_anchor
    return again
