"""Anchors that need no check, found by a walk over all event headers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from .._format.event_header import FIRST_EVENT
from .._sources.log_files import LogFile
from .._walk.anchors import ELSEWHERE, NOT_IN_PARTS, Head, anchor_behind
from ..errors import DecodeError
from .split import Split

if TYPE_CHECKING:
    from .._sources.sources import Source


def trust_splits(splits: Iterable[Split], *, storage_options: dict[str, Any] | None = None) -> list[Split]:
    """The same splits with anchors that need no check: walks over all event headers of their logs.

    For readers whose rows cannot be taken back, so that no split can be read again after `check_seams`.

    Parameters
    ----------
    splits : iterable of Split
        In order; the first of each log begins at its beginning, or is trusted already.
    storage_options : dict or None
        Options for fsspec.

    Returns
    -------
    list of Split
        The splits with the anchors that a walk found; logs that cannot be split keep theirs.

    Raises
    ------
    DecodeError
        A log is damaged.
    """
    trusted: list[Split] = []
    for path, group in groupby(splits, lambda split: split.path):
        parts = list(group)
        if len(parts) == 1 and (parts[0].whole or parts[0].trusted):
            trusted += parts
            continue
        with LogFile(path, storage_options=storage_options).open() as source:
            head = Head.of(source)
            here = parts[0].anchor if parts[0].trusted else FIRST_EVENT
            for split in parts:
                if head is None or not head.splittable:
                    trusted.append(split)
                    continue
                if here is None or (split.end is not None and here >= split.end):
                    trusted.append(replace(split, anchor=None, trusted=True))
                    continue
                trusted.append(replace(split, anchor=here, trusted=True))
                if split.end is not None:
                    here = _anchor_behind(source, head, here, split.end)
    return trusted


def trust_split(split: Split, *, storage_options: dict[str, Any] | None = None) -> Split:
    """One split with its true anchor, found by a walk over the event headers from the log's beginning on.

    Raises
    ------
    DecodeError
        The log is damaged.
    """
    if split.trusted or split.start <= FIRST_EVENT:
        return split
    with LogFile(split.path, storage_options=storage_options).open() as source:
        head = Head.of(source)
        if head is None or not head.splittable:
            return replace(split, anchor=None, trusted=True)
        anchor = _anchor_behind(source, head, FIRST_EVENT, split.start)
        owned = anchor is not None and (split.end is None or anchor < split.end)
        return replace(split, anchor=anchor if owned else None, trusted=True)


def _anchor_behind(source: Source, head: Head, here: int, least: int) -> int | None:
    """The first anchor at or after `least`, from the true event at `here` on; None: the log ends before."""
    anchor, whole = anchor_behind(source, head, here, least)
    if not whole:
        raise DecodeError(ELSEWHERE + NOT_IN_PARTS, path=source.path, offset=anchor)
    return anchor
