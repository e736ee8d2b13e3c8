"""Reading one split: where its transactions are, and their groups."""

from __future__ import annotations

import datetime as dt
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Self, Unpack

from .._decode.group import Group
from .._decode.log_decoder import LogDecoder
from .._decode.selection import check_condition
from .._format.event_header import FIRST_EVENT
from .._walk.anchors import Head, anchor_behind, first_anchor
from .._walk.track import Tail
from ..errors import BinlogError
from ..log.opening import open as open_log
from .seams import SplitResult
from .split import Split

if TYPE_CHECKING:
    from .._sources.sources import Source
    from ..log.options import LogOptions


class SplitBounds:
    """Where a split's transactions are in its log.

    Parameters
    ----------
    split : Split
        The split.
    source : Source
        The log, just opened; it is left at its beginning.
    skip_errors : bool
        A split that lies behind damage in an .ibb file owns nothing until `check_seams` says where it begins.

    Attributes
    ----------
    first_anchor : int or None
        Position of the first event that the split owns; None if it owns none.
    next_anchor : int or None
        Position where the next split's events begin, once `finish` was called; None if the log ends before.

    Raises
    ------
    BinlogError
        It is not a log.
    """

    def __init__(self, split: Split, source: Source, *, skip_errors: bool = False) -> None:
        self.split = split
        self._skip_errors = skip_errors
        self.next_anchor: int | None = None
        self._head = Head.of(source)
        self._splittable = self._head is not None and self._head.splittable
        self.first_anchor = self._first_anchor(source)
        if source.position:
            source.seek(0)

    def _first_anchor(self, source: Source) -> int | None:
        split, head = self.split, self._head
        if split.within is not None:
            return split.start
        if split.trusted:
            return split.anchor
        if split.start <= FIRST_EVENT:
            return FIRST_EVENT
        if head is None or not head.splittable:
            return None
        try:
            return first_anchor(source, head, split.start, 1 << 63 if split.end is None else split.end)
        except BinlogError:
            if not (self._skip_errors and source.finds_transactions):
                raise
            return None

    @property
    def start_position(self) -> int | None:
        """`start_position` of ``Selection``, for a split that owns something."""
        first = self.first_anchor
        return first if first is not None and first > FIRST_EVENT else None

    @property
    def stop_position(self) -> int | None:
        """`stop_position` of ``Selection``; a log that cannot be split is read to its end.

        Unless the plan knows that it ends here, since another server took over.
        """
        return self.split.end if self._splittable or self.split.trusted else None

    @property
    def stop_anchor(self) -> int:
        """`stop_anchor` of ``Selection``; a part of a transaction ends at an event of this."""
        within = self.split.within
        if self._head is None or (within is not None and within.ending is not None):
            return 0
        return self._head.anchors

    @property
    def in_parts(self) -> bool:
        """`in_parts` of ``Selection``: other readers find their parts by where events say that they end."""
        return self._splittable and not self.split.whole

    def groups(self, decoder: LogDecoder) -> Iterator[Group]:
        """The groups of a decoder that was made for these bounds."""
        split, within = self.split, self.split.within
        if within is None:
            yield from decoder.groups()
            return
        own = split.start, split.end
        for group in decoder.within(within.before, own, within.ending, self.stop_anchor):
            transactions = group.transactions
            transactions.flags.writeable = True  # nobody has seen them yet
            transactions["xid"][transactions["begin_position"] == within.begin] = within.xid
            transactions.flags.writeable = False
            yield group

    def reached(self, position: int) -> int:
        """Up to where the split was read, if the decoder is at a position, which may be after its end."""
        within, end = self.split.within, self.split.end
        return position if within is None or within.ending is None or end is None else min(position, end)

    def finish(self, decoder: LogDecoder) -> None:
        """Find `next_anchor`, once the decoder has reached the end."""
        here, end = decoder.stopped_at, self.split.end
        if self.split.within is not None and self.split.within.ending is not None:
            self.next_anchor = here  # its end is not an anchor, but there the next part begins
            return
        if not self._splittable or here is None or end is None:
            return
        # The decoder is at the anchor, unless it stopped at a time.
        assert self._head is not None
        source = decoder.source
        try:
            anchor, whole = anchor_behind(source, self._head, here, end)
        except BinlogError:
            if not (self._skip_errors and source.finds_transactions):
                raise
            anchor, whole = here, True  # behind damage, which was passed
        if whole:
            self.next_anchor = anchor


class SplitReader:
    """Iterator over the groups of one split; `read_split_groups` makes it.

    Attributes
    ----------
    split : Split
        The split.
    first_anchor : int or None
        Position of the first event that the split owns; None if it owns none.
    next_anchor : int or None
        Position where the next split's events begin, known once everything has been read; None if the log
        ends before.
    rows : int
        Row images returned so far.
    end_position : int
        Everything before this position has been returned.
    report : Report
        What has been found missing or lost, or skipped, in the part read so far.
    tail : Tail or None
        Where the log ended inside an event.
    error : BinlogError or None
        What ended the reading early.
    """

    def __init__(self, split: Split, options: LogOptions) -> None:
        for name, value in (("start", options.get("start")), ("stop", options.get("stop"))):
            if not isinstance(value, dt.datetime | None):
                raise ValueError(f"{name}={value!r}: expected a time, since a split has its own positions")
        if options.get("follow"):
            raise ValueError("follow=True: expected False, since a split has an end")
        self.split = split
        self.rows = 0
        self.tail: Tail | None = None
        self.error: BinlogError | None = None
        self._timeline = split.timeline() if options.get("schema") == "ddl" else None
        self._log = open_log(split.path, **options)
        self.report = self._log.report
        self._source = self._log.opened.take(0)
        try:
            skip_errors = self._log.settings.skip_errors
            self._bounds = SplitBounds(split, self._source, skip_errors=skip_errors)
        except BaseException:
            self._end()
            raise
        self.end_position = self.first_anchor or split.start
        self._groups = self._read()

    @property
    def first_anchor(self) -> int | None:
        """Position of the first event that the split owns; None if it owns none."""
        return self._bounds.first_anchor

    @property
    def next_anchor(self) -> int | None:
        """Position where the next split's events begin, once it is known; None if the log ends before."""
        return self._bounds.next_anchor

    @property
    def bytes_read(self) -> int:
        """Bytes of the log from the first anchor to the place where reading ended."""
        return self.end_position - self.first_anchor if self.first_anchor is not None else 0

    @property
    def overrun(self) -> int:
        """Bytes read after the split's end; more than its size means skew because of one long transaction."""
        if self.first_anchor is None or self.split.end is None:
            return 0
        return max(self.end_position - self.split.end, 0)

    @property
    def result(self) -> SplitResult:
        """The input for `check_seams`, known once everything has been read."""
        return SplitResult(self.split, self.first_anchor, self.next_anchor, self.error)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Group:
        return next(self._groups)

    def close(self) -> None:
        """End reading early. Batches stay valid."""
        self._groups.close()
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self) -> Generator[Group, None, None]:
        bounds = self._bounds
        if bounds.first_anchor is None:
            self._end()
            return
        try:
            log, settings = self._log, self._log.settings
            selection = log.opened.selection_of_part(
                start=bounds.start_position,
                stop=bounds.stop_position,
                anchors=bounds.stop_anchor,
                in_parts=bounds.in_parts,
            ).without_repeated(self.split.before)
            self.report = settings.report()
            log.files.tell(self.report)
            definitions = settings.definitions()
            if self._timeline is not None:
                definitions = self._timeline.definitions(self.split.version_base, charset=settings.charset)
            decoder = settings.decoder(self._source, selection, self.report, definitions)
            try:
                for group in bounds.groups(decoder):
                    self.rows += sum(map(len, group.batches))
                    self.end_position = bounds.reached(group.end_position)
                    yield group
            finally:
                self.tail = decoder.tail
            bounds.finish(decoder)
            self.end_position = max(self.end_position, bounds.reached(decoder.position))
            check_condition(selection, whole=False)
        except BinlogError as error:
            self.error = error
            raise
        finally:
            self._end()

    def _end(self) -> None:
        self._source.close()
        self._log.close()


def read_split_groups(split: Split, **options: Unpack[LogOptions]) -> SplitReader:
    """The row changes of a split as groups of batches, as ``Log.groups`` gives them.

    Parameters
    ----------
    split : Split
        A split from `plan_splits`.
    **options
        Options for `binlog_core.open`, except ``follow``; ``start`` and ``stop`` can only be times.

    Returns
    -------
    SplitReader
        Its `first_anchor` is known at once, its `next_anchor` when everything has been read.

    Raises
    ------
    BinlogError
        As for `binlog_core.open`, and while iterating as for ``Log.groups``. That the condition fits no table
        is not an error, since other splits may have those that it fits.
    ValueError
        A start or stop that is not a time, or ``follow=True``.
    """
    return SplitReader(split, options)
