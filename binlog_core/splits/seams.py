"""What shows that the splits of a log were read from true anchors, and which must be read again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import groupby

from .._format.event_header import FIRST_EVENT
from ..errors import BinlogError
from .plan import Split


@dataclass(frozen=True, slots=True)
class SplitResult:
    """Between which anchors a split was read: what `check_seams` needs. Pickled with what a task returns.

    Parameters
    ----------
    split : Split
    first_anchor : int or None
        Position of its first event; None: it owns nothing.
    next_anchor : int or None
        Position where the next split's events begin; None: the log ends before.
    error : BinlogError or None
        What ended the reading early. Give it to `check_seams` rather than raise it: of a split that began
        at no true event it says nothing about the log.
    """

    split: Split
    first_anchor: int | None
    next_anchor: int | None
    error: BinlogError | None = None


def check_seams(results: Iterable[SplitResult]) -> list[Split]:
    """The splits that must be read again, because they do not begin where the one before them ends.

    A chain of forged events in a BLOB, checksums and positions included, can deceive a worker whose split
    begins inside it. The one that comes to the BLOB from before is not deceived: it reads a log from its
    first event on, or from where another such reader ended. So every split's `next_anchor` must be the
    following one's `first_anchor`, where splits without an anchor are passed over. One that disagrees is
    given back with the true anchor; read it in place of the old one and check again, until none is left.

    Parameters
    ----------
    results : iterable of SplitResult
        Of all splits of the plan, in any order, with the latest result of each.

    Returns
    -------
    list of Split
        At most one of each log. Empty: every transaction was read exactly once.

    Raises
    ------
    BinlogError
        The `error` of a split that did begin where it should.
    ValueError
        A log's splits are not all there.
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
                again.append(replace(part.split, anchor=owned, trusted=True))
                break
            if part.error is not None:
                raise part.error
            if owned is not None:
                anchor = part.next_anchor
    return again
