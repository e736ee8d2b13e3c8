"""A part of one log that one task reads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from .._base.change_columns import FILE_NUMBER_SHIFT
from .._base.redaction import shown_url
from ..schema.timeline import DefinitionTimeline


@dataclass(frozen=True, slots=True)
class Within:
    """The transaction that a split is a part of, and what the events before and after the part say about it.

    Parameters
    ----------
    begin : int
        Where the transaction begins.
    before : tuple of (int, int)
        Where the events begin and end that are read first: its GTID and BEGIN, then the latest table map of
        each table before the part.
    ending : tuple of (int, int) or None
        The event that ends it, which is read last; None for its last part, which contains that event.
    rolled_back : bool
        Whether it was rolled back as a whole.
    undone : tuple
        Its rows that it undid itself: from the first place up to the second, each the position of an event
        and the number of a row in it.
    images : int
        The row images in the parts before this one: those that its reader counts.
    xid : int
        Its number from the event that ends it; 0 if that has none.
    """

    begin: int
    before: tuple[tuple[int, int], ...] = ()
    ending: tuple[int, int] | None = None
    rolled_back: bool = False
    undone: tuple[tuple[tuple[int, int], tuple[int, int]], ...] = ()
    images: int = 0
    xid: int = 0


@dataclass(frozen=True, slots=True, repr=False)
class Split:
    """A part of one log that one task reads; it is small and can be pickled.

    An anchor is a place where a transaction begins. A split owns all transactions that begin in it:
    everything from the first anchor in ``[start, end)`` up to the first anchor at or after ``end``. Without
    an anchor it owns nothing. The first split of a log begins at its first event.

    Parameters
    ----------
    path : str
        The log's path or URL, as a worker opens it.
    start : int
        Where the part begins, in bytes.
    end : int or None
        Where it ends; None is the end of the log.
    file_number : int
        The log's number.
    index : int
        The split's place in the plan, from 0.
    anchor : int or None
        The first anchor if `trusted`; None if the split has none.
    trusted : bool
        Whether `anchor` is already known, so that a worker need not look for it.
    before : str or None
        For a log in an archive, GTIDs of transactions that are in earlier logs and are left out.
    size : int or None
        For a whole log, the bytes that were stored when it was planned, if `plan_splits` looked at sizes.
    within : Within or None
        The transaction that the split is a part of: it owns the events from `start` up to `end`.
    definitions : DefinitionTimeline, str or None
        The tables' definitions in all logs, if `plan_splits` followed their statements: one object, which all
        splits share. Text in rows of ``splits_df``.
    """

    path: str
    start: int = 0
    end: int | None = None
    file_number: int = 0
    index: int = 0
    anchor: int | None = None
    trusted: bool = False
    before: str | None = None
    size: int | None = field(default=None, compare=False)
    within: Within | None = None
    definitions: DefinitionTimeline | str | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        end = "the end" if self.end is None else self.end
        return f"Split({shown_url(self.path)!r}, {self.start} to {end}, file {self.file_number})"

    @property
    def name(self) -> str:
        """Its path for messages; a URL is without user, password and signature."""
        return shown_url(self.path)

    @property
    def whole(self) -> bool:
        """Whether the split is the whole log."""
        return self.start == 0 and self.end is None

    @property
    def length(self) -> int | None:
        """The bytes of the part, as far as they are known; a log may grow, or be compressed."""
        return self.size if self.end is None else self.end - self.start

    @property
    def version_base(self) -> int:
        """The number to add to an offset to order transactions of several logs: file number * 2**40."""
        return self.file_number << FILE_NUMBER_SHIFT

    @property
    def begin(self) -> int:
        """The first position at which a transaction can begin of which the split has rows."""
        return self.start if self.within is None else self.within.begin

    def timeline(self) -> DefinitionTimeline | None:
        """`definitions`, for ``schema="ddl"``; None: its reader meets all statements itself.

        Raises
        ------
        ValueError
            The split does not have them, and there may be statements before it.
        BinlogError
            Another version of this package wrote them as text.
        """
        if self.definitions is None and self.start:
            raise ValueError(
                'schema="ddl": expected it in plan_splits too, since statements before a split count'
            )
        if isinstance(self.definitions, str):
            return DefinitionTimeline.from_text(self.definitions)
        return self.definitions

    def may_have(self, begin: int) -> bool:
        """Whether the split may have rows of a transaction that begins at a position."""
        if self.within is not None and begin == self.within.begin:
            return True
        return self.start <= begin and (self.end is None or begin < self.end)


def whole_logs(splits: Iterable[Split]) -> list[Split]:
    """The logs that splits are parts of, as one split each."""
    logs: dict[str, Split] = {}
    for split in splits:
        first = logs.setdefault(split.path, replace(split, start=0, index=len(logs)))
        logs[split.path] = replace(first, end=split.end)
    return list(logs.values())
