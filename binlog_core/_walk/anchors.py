"""Where transactions begin: what the head of a log says about them, and the first one after any byte."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .._core import _resync
from .._core._rows import FAULTS, WRONG_POSITION
from .._format.descriptors import LogState, detect
from .._format.event_header import FIRST_EVENT, HEADER_LENGTH_V1, length_of
from .._format.event_types import GTID_EVENTS, EventType
from .._format.format_description import FormatDescription
from .._format.server_versions import split_server_version
from .resync import READ_LEN, Boundaries, Window, head_of

if TYPE_CHECKING:
    from .._sources.sources import Source

ELSEWHERE = FAULTS[WRONG_POSITION]
NOT_IN_PARTS = (
    ": events were left out or changed on the log's way here, and other workers would not find"
    " their parts of it; as one split (split_size 0) it can be read"
)

_HEAD_LEN = 64 << 10
_STEP_OVER = 1 << 20  # events that are longer are not read to find what follows them

_ANCHOR_GTID, _ANCHOR_BEGIN = 1, 2  # twin of anchor_t in src/find/anchor.pxd
_GTID_STATES = frozenset((EventType.PREVIOUS_GTIDS, EventType.MARIADB_GTID_LIST))
# From this version on every transaction has a GTID event, possibly an anonymous one.
_GTIDS_SINCE_MYSQL = (5, 7, 6)
_GTIDS_SINCE_MARIADB = (10, 0, 2)


class Head(NamedTuple):
    """What the first bytes of a log say about splitting it.

    Parameters
    ----------
    description : FormatDescription
    boundaries : Boundaries
    anchors : int
        The events that begin a transaction: GTID events, or BEGIN and XA START.
    splittable : bool
    """

    description: FormatDescription
    boundaries: Boundaries
    anchors: int
    splittable: bool

    @property
    def has_gtids(self) -> bool:
        """Whether transactions begin with their GTIDs."""
        return self.anchors == _ANCHOR_GTID

    @classmethod
    def of(cls, source: Source) -> Head | None:
        """None if the log ends before its format description. A source without a view is at its beginning.

        Raises
        ------
        BinlogError
            The source is not a log, or is encrypted.
        """
        view = source.view()
        head = source.peek(_HEAD_LEN) if view is None else view[:_HEAD_LEN]
        found = detect(head, source.path)
        if found.state is not LogState.OPEN or found.format is None:
            return None
        boundaries = Boundaries.of(head, found.format)
        headers, second_descriptor = head_of(head, found.format)
        types = set(headers["type_code"].tolist())
        told = headers[headers["next_position"] != 0]
        ends = (told["position"] + told["event_length"]) & 0xFFFFFFFF
        splittable = (
            boundaries.splittable
            and not second_descriptor
            and bool(np.all(ends == told["next_position"]))
            and source.splittable
            and source.seekable
            and EventType.MARIADB_START_ENCRYPTION not in types
        ) or source.finds_transactions
        anchors = _ANCHOR_GTID if _has_gtids(found.format, types) else _ANCHOR_BEGIN
        return cls(found.format, boundaries, anchors, splittable)


def _has_gtids(description: FormatDescription, types: set[int]) -> bool:
    # A wrong choice must do no harm: if there are no GTIDs after all, the first split owns the log. BEGIN in
    # a log with GTIDs would separate a transaction from its GTID.
    since = _GTIDS_SINCE_MARIADB if description.is_mariadb else _GTIDS_SINCE_MYSQL
    return split_server_version(description.server_version) >= since or bool(
        types & (GTID_EVENTS | _GTID_STATES)
    )


def first_anchor(source: Source, head: Head, start: int, end: int) -> int | None:
    """Where the first transaction of a split begins, found from any byte.

    Parameters
    ----------
    source : Source
        Splittable.
    head : Head
    start, end : int
        The split.

    Returns
    -------
    int or None
        Position; None: no transaction begins there.
    """
    if start <= FIRST_EVENT:
        return FIRST_EVENT if end > FIRST_EVENT else None
    if source.finds_transactions:
        begin = source.transaction_from(start)
        return begin if begin is not None and begin < end else None
    size = source.size
    if size is not None and start >= size:
        return None
    window, base, offset = window_at(source, start)
    while True:
        window, base, found = head.boundaries.next_event(
            source, window, base, offset, limit=end, zeros=head.boundaries.zeros
        )
        if found is None:
            return None
        window, base, offset, status = walk_to_anchor(source, head, window, base, found, least=0, limit=end)
        if status == _resync.WALK_FOUND:
            return base + offset
        if status != _resync.WALK_BROKEN:
            return None
        offset += 1  # damage: the split that owns it reports it


def walk_to_anchor(
    source: Source, head: Head, window: Window, base: int, offset: int, *, least: int, limit: int | None
) -> tuple[Window, int, int, int]:
    """Walk over headers, from a real event to the first anchor at a position in ``[least, limit)``.

    Returns
    -------
    (window, base, offset, status)
        Where the walk ended, and a WALK_* status.
    """
    header_length, lengths, canonical, checksum = head.description.core_arrays()
    mapped = source.view() is not None
    size = source.size
    end = 1 << 63 if limit is None else limit
    while base + offset < end:
        offset, status = _resync.find_anchor(
            window,
            offset,
            max(least - base, 0),
            max(end - base, 0),
            base=base,
            header_length=header_length,
            lengths=lengths,
            canonical=canonical,
            checksum=bool(checksum),
            anchors=head.anchors,
        )
        if status != _resync.WALK_MORE or mapped:
            return window, base, offset, status
        left = len(window) - offset
        length = length_of(window, offset) if left >= HEADER_LENGTH_V1 else 0
        if length > max(left, _STEP_OVER) and size is not None and base + offset + length <= size:
            base, window, offset = base + offset + length, b"", 0
            source.seek(base)
            continue
        data = source.read(max(READ_LEN, left))
        if not data:
            return window, base, offset, status
        window = bytes(window[offset:]) + data
        base, offset = base + offset, 0
    return window, base, offset, _resync.WALK_LIMIT


def anchor_behind(source: Source, head: Head, here: int, least: int) -> tuple[int | None, bool]:
    """The first anchor at or after a position.

    Parameters
    ----------
    source : Source
        Splittable.
    head : Head
    here : int
        Where a true event begins.
    least : int

    Returns
    -------
    (position, whole)
        Position, or None: the log ends before. Whether the log is whole up to the place where the walk ended,
        which is the position if it is not.
    """
    if source.finds_transactions:
        return source.transaction_from(max(here, least)), True
    window, base, offset = window_at(source, here)
    window, base, offset, status = walk_to_anchor(source, head, window, base, offset, least=least, limit=None)
    if status == _resync.WALK_BROKEN:
        return base + offset, False
    return (base + offset if status == _resync.WALK_FOUND else None), True


def window_at(source: Source, position: int) -> tuple[Window, int, int]:
    """(window, base, offset) to begin reading at a position."""
    view = source.view()
    if view is not None:
        return view, 0, position
    source.seek(position)
    return b"", position, 0
