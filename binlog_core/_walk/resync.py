"""Event boundaries of one log, found from any offset: in a mapped log, or by reading piece by piece."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .._core import _headers, _resync
from .._format.event_header import FIRST_EVENT, HEADER_LENGTH_V3, length_of, next_position_of, type_of
from .._format.event_types import EventType
from .._format.format_description import FormatDescription

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .._sources.sources import Source

Window = bytes | memoryview

READ_LEN = 1 << 20
# An event that is longer, and so cannot be confirmed in a log that is read piece by piece, is looked
# through for the events after it instead.
_LONGEST_CONFIRMED = 32 << 20
# What a replica writes into its relay logs itself, with its own positions.
_REPLICAS_OWN = (
    EventType.FORMAT_DESCRIPTION,
    EventType.ROTATE,
    EventType.PREVIOUS_GTIDS,
    EventType.MARIADB_GTID_LIST,
)
_LOOK_LEN = 256 << 20  # between two chances for Ctrl-C
_KNOWN_TYPES = frozenset(EventType) - {EventType.UNKNOWN}


class Boundaries(NamedTuple):
    """What distinguishes the events of a log from random bytes.

    Parameters
    ----------
    description : FormatDescription
    rule : int
        What next_position says: a POSITION_* of the compiled core.
    zeros : bool
        Whether no event at the log's head has a position.
    """

    description: FormatDescription
    rule: int
    zeros: bool

    @classmethod
    def of(cls, head: Window, description: FormatDescription) -> Boundaries:
        """Determine it from the events in the first bytes of a log.

        Relay logs, whose positions are those of the source's log, are known by their second descriptor
        or by positions that are all wrong, some of them by the same amount.
        """
        if description.binlog_version < 4:
            rule = _resync.POSITION_NONE if description.binlog_version == 1 else _resync.POSITION_START
            return cls(description, rule, False)
        headers, second_descriptor = head_of(head, description)
        told = headers[(headers["next_position"] != 0) & ~np.isin(headers["type_code"], _REPLICAS_OWN)]
        ends = told["position"] + told["event_length"]
        shifts = np.unique((told["next_position"] - ends) % (1 << 32))
        # One that agrees outweighs those that do not: damage does not make positions right.
        elsewhere = 0 not in shifts and (second_descriptor or len(shifts) < len(told))
        rule = _resync.POSITION_ELSEWHERE if elsewhere else _resync.POSITION_END
        return cls(description, rule, len(headers) > 1 and not np.any(headers["next_position"][1:]))

    @property
    def splittable(self) -> bool:
        """Whether positions say where each event ends in this file."""
        return self.rule == _resync.POSITION_END

    def ahead(self) -> Boundaries:
        """The same for a log that lacks events or bytes: positions run more and more ahead of it."""
        return self._replace(rule=_resync.POSITION_AHEAD)

    def find(
        self, window: Window, start: int, limit: int, *, base: int, more: bool, zeros: bool
    ) -> tuple[int, int]:
        """`_resync.find_event` with what this log's descriptor says of headers and lengths."""
        header_length, lengths, canonical, checksum = self.description.core_arrays()
        status = _resync.NOTHING
        while start < limit:
            part = min(limit, start + _LOOK_LEN)
            found, status = _resync.find_event(
                window,
                start,
                part,
                base=base,
                more=more,
                header_length=header_length,
                lengths=lengths,
                canonical=canonical,
                checksum=bool(checksum),
                rule=self.rule,
                zeros=zeros,
            )
            if status != _resync.NOTHING or found < part:
                return found, status
            start = part
        return start, status

    def next_event(
        self,
        source: Source,
        window: Window,
        base: int,
        start: int,
        *,
        limit: int | None = None,
        zeros: bool = True,
    ) -> tuple[Window, int, int | None]:
        """The first real event at or after an offset.

        Parameters
        ----------
        source : Source
            Continues where `window` ends, unless that is its whole view.
        window : bytes-like
        base : int
            Position in the log of window[0].
        start : int
            Offset in window, at most its length.
        limit : int or None
            Position in the log where the search ends.
        zeros : bool
            Also look for events without a position.

        Returns
        -------
        (window, base, offset) : bytes-like, int, int or None
            The window to continue with, and the event's offset in it; None: there is no event.
        """
        whole = source.view() is not None
        more = not whole
        while True:
            end = len(window) if limit is None else max(min(len(window), limit - base), 0)
            found, status = self.find(window, start, end, base=base, more=more, zeros=zeros)
            if status == _resync.FOUND:
                return window, base, found
            if status == _resync.OPEN and len(window) - found >= _LONGEST_CONFIRMED:
                start = found + 1
                continue
            if not more or (limit is not None and base + found >= limit):
                return window, base, None
            data = source.read(max(READ_LEN, len(window) - found))
            more = bool(data)
            window = bytes(window[found:]) + data
            base, start = base + found, 0

    def ends_where_it_says(self, window: Window, base: int, offset: int) -> bool:
        """Whether the header at an offset has a position that agrees with its length; 0 is not one."""
        if self.rule != _resync.POSITION_END:
            return False
        next_position = next_position_of(window, offset)
        return (
            next_position != 0 and next_position == (base + offset + length_of(window, offset)) & 0xFFFFFFFF
        )

    def is_astray(self, window: Window, base: int, offset: int) -> bool:
        """Whether the offset has no header, or that of an event that does not end where it says."""
        if self.rule != _resync.POSITION_END or len(window) - offset < HEADER_LENGTH_V3:
            return False
        if not next_position_of(window, offset):
            return self.description.canonical(type_of(window, offset)) not in _KNOWN_TYPES
        return not self.ends_where_it_says(window, base, offset)


def head_of(head: Window, description: FormatDescription) -> tuple[NDArray[np.void], bool]:
    """Headers of the complete events in the first bytes of a log; whether a second descriptor follows."""
    out = np.empty(64, _headers.HEADER_DTYPE)
    header_length, _, canonical, checksum = description.core_arrays()
    count, _, status = _headers.walk_headers(
        memoryview(head),
        FIRST_EVENT,
        out,
        base=0,
        header_length=header_length,
        canonical=canonical,
        checksum=bool(checksum),
        verify=False,
    )
    return out[:count], status == _headers.WALK_DESCRIPTOR
