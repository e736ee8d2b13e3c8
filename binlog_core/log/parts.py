"""The parts of a log, and the reader that decodes them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from .._tables.given_names import NamesMet
from .._walk.anchors import Head
from ..errors import BinlogError
from .notes import Found, Lost, ThreadExecuted, ThreadReport

if TYPE_CHECKING:
    from .._decode.executed import GtidsBefore
    from .._decode.group import Group
    from .._decode.log_plans import Known
    from .._decode.selection import Selection
    from .._sources.sources import Source
    from .._walk.track import Tail
    from .settings import Settings

PART_BYTES = 1 << 20  # of log that a thread takes at first, …
_GROWTH = 4  # … so many times as much then, and at last half of that at least
LEAST_PARTS = 4  # that are worth while


class Item(NamedTuple):
    """An item to return from a part: a group, and what was found up to its end."""

    found: list[Found | Lost]
    executed: list[bytes | GtidsBefore]
    met: NamesMet
    group: Group | None


@dataclass(slots=True, eq=False)
class ThreadPart:
    """A part of a log, and the items that its thread decodes from it.

    Parameters
    ----------
    file : int
        Number of the log.
    source : Source or None
        The open log, for a thread that has not read another part of it; None: it must be opened again.
    head : Head or None
        The head of a log that has several parts.
    start, stop : int or None
        Where it begins and ends; None: where the selection says.

    Attributes
    ----------
    items : deque of Item
    found : bool
        Whether it is known where it begins.
    anchor : int or None
        Position of its first event, unless it is the log's first part; None: no transaction begins in it.
    stopped_at : int or None
        Position where the next part's events begin; None: the log has ended.
    tail, mariadb
        Values of the log, as far as it was read.
    error : BaseException or None
        The error that ended reading.
    done, dropped : bool
        There are no more items; no more are wanted.
    """

    file: int
    source: Source | None = None
    head: Head | None = None
    start: int | None = None
    stop: int | None = None
    items: deque[Item] = field(default_factory=deque)
    found: bool = False
    anchor: int | None = None
    stopped_at: int | None = None
    tail: Tail | None = None
    mariadb: bool = False
    error: BaseException | None = None
    done: bool = False
    dropped: bool = False


def parts_of(whole: ThreadPart, selection: Selection, threads: int) -> list[ThreadPart]:
    """The parts of a log; the log itself if it is not divided."""
    source = whole.source
    assert source is not None
    size = source.extent
    if size is None or selection.stop_position is not None:
        return [whole]
    start = max(selection.start_position or 0, source.begin)
    if size - start < LEAST_PARTS * PART_BYTES:
        return [whole]
    try:
        head = Head.of(source)
    except BinlogError:  # its reader reports that
        return [whole]
    # Whether a transaction without a GTID is wanted depends on the events before it.
    if head is None or not head.splittable or (selection.selects_gtids and not head.has_gtids):
        return [whole]
    edges = list(_edges(start, size, threads))
    first = replace(whole, head=head, stop=edges[0])
    return [
        first,
        *(ThreadPart(whole.file, source.twin(), head, *edge) for edge in pairwise([*edges, None])),
    ]


def _edges(start: int, size: int, threads: int) -> Iterator[int]:
    """Where the parts of a log end, except the last.

    The first are short, so that rows come soon; so are the last, so that all threads end together.
    """
    number = 0
    while (left := size - start) >= 2 * PART_BYTES:
        most, least = (_GROWTH, _GROWTH // 2) if number >= threads else (1, 1)
        start += min(most * PART_BYTES, max(left // (2 * threads), least * PART_BYTES))
        number += 1
        yield start


class PartReader:
    """A decoder of one log, which reads its parts in order.

    Parameters
    ----------
    settings : Settings
    selection : Selection
        The selection for the log.
    source : Source
        The log, at its beginning.
    known : Known
        Shared definitions of the log.
    first : bool
        Whether the first part that it reads is the log's first.
    on_pause : callable
        Raises an error if no more is wanted.
    """

    def __init__(
        self,
        settings: Settings,
        selection: Selection,
        source: Source,
        known: Known,
        *,
        first: bool,
        on_pause: Callable[[], None] = lambda: None,
    ) -> None:
        self.source = source
        self._on_pause = on_pause
        self._report, self._executed, self._met = ThreadReport(settings.strict), ThreadExecuted(), NamesMet()
        done = selection.done_records if first else 0
        before = selection.done_gtids if first else None
        selection = replace(selection, met=self._met, done_records=done, done_gtids=before)
        self._decoder = settings.decoder(
            source, selection, self._report, settings.definitions(), None, self._executed, known
        )
        self._decoder.on_pause = self._pause
        if not first:
            self._decoder.begin()
            self._report.found.clear()  # on the descriptor: the reader of the first part reports them, too

    def _pause(self) -> None:
        self.source.check_size()
        self._on_pause()

    def items(self, part: ThreadPart) -> Iterator[Item]:
        """The items of a part that begins at its anchor."""
        decoder = self._decoder
        anchors = part.head.anchors if part.head is not None else 0
        try:
            if part.start is None:
                decoder.begin()
            for group in decoder.part(part.anchor, part.stop, anchors):
                yield self._item(group)
                del group
        except BinlogError as error:
            part.error = error
        part.tail, part.stopped_at = decoder.tail, decoder.stopped_at
        part.mariadb = decoder.is_mariadb
        yield self._item(None)

    def _item(self, group: Group | None) -> Item:
        report, executed = self._report, self._executed
        item = Item(report.found, executed.steps, self._met.taken(), group)
        report.found, executed.steps = [], []
        return item
