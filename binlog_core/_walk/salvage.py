"""``on_error="skip"``: where a log continues after damaged bytes."""

from __future__ import annotations

from typing import NamedTuple

from .._core import _resync
from .._format.event_header import HEADER_LENGTH_V3, next_position_of, type_of
from .._sources.sources import Source
from ..errors import DecodeError
from ..report import Report
from .resync import Boundaries, Window


class Resumption(NamedTuple):
    """How reading continues.

    Parameters
    ----------
    window : bytes-like
    base : int
        Position in the log of window[0].
    offset : int or None
        Offset of the next event in the window; None: there is none, and the rest of the log is lost.
    chained : bool
        It directly follows the damaged event, whose header can be trusted.
    ahead : bool
        From here on positions run ahead of the log, which lacks events or bytes.
    """

    window: Window
    base: int
    offset: int | None
    chained: bool
    ahead: bool = False

    def begins_at(self, position: int) -> bool:
        """Whether nothing was damaged: the event there is the next one."""
        return self.offset is not None and self.base + self.offset == position


def resume(
    boundaries: Boundaries,
    source: Source,
    window: Window,
    base: int,
    position: int,
    length: int,
    *,
    doubtful: int | None = None,
    in_parts: bool = False,
    report: Report,
) -> Resumption:
    """Find the next event after a damaged one, and report the bytes between as lost if there is one.

    If neither that event nor any later one ends where it says, the log may lack events (a copy that
    was fetched without MariaDB's annotations) or bytes. Then the next event is the first whose position runs
    ahead of the log. That may be the current one: then nothing is lost.

    Parameters
    ----------
    boundaries : Boundaries
    source : Source
    window : bytes-like
    base : int
        Position in the log of window[0].
    position, length : int
        Place of the damaged event in the log, as far as its header can be trusted.
    doubtful : int or None
        Position of the event before it, if that had no next position: its length may be wrong.
    in_parts : bool
        Whether others read other parts of the log, and find no events that do not end where they say.
    report : Report

    Returns
    -------
    Resumption
    """
    offset = position - base
    follows = position + length
    if length and follows - base <= len(window) and boundaries.ends_where_it_says(window, base, offset):
        report.lose(source.path, position, follows)
        return Resumption(window, base, follows - base, True)
    start = position
    found: int | None = None
    ahead = False
    astray = not in_parts and boundaries.is_astray(window, base, offset)
    if doubtful is not None and base <= doubtful < position:
        end = position + 1
        window, base, found = boundaries.next_event(source, window, base, doubtful + 1 - base, limit=end)
        if found is not None and base + found < position:
            start = doubtful
        else:
            found = None
    if found is None:
        window, base, found = boundaries.next_event(source, window, base, position + 1 - base)
    if found is None and astray and (source.view() is not None or source.seekable):
        if source.view() is None:
            source.seek(position)
            window, base = b"", position
        window, base, found = boundaries.ahead().next_event(source, window, base, position - base)
        ahead = found is not None
    if found is None:
        return Resumption(window, base, None, False)
    if ahead:
        report.add("missing_bytes", path=source.path, offset=base + found)
    if base + found > start:
        report.lose(source.path, start, base + found)
    return Resumption(window, base, found, base + found in (position, follows), ahead)


def check_tail(boundaries: Boundaries, window: Window, base: int, offset: int, path: str) -> None:
    """Distinguish a log cut off inside an event from an event of damaged length inside a log.

    Parameters
    ----------
    boundaries : Boundaries
    window : bytes-like
        A window that reaches to the end of the log.
    base, offset : int
        Position in the log of window[0]; offset in the window of the incomplete event.
    path : str

    Raises
    ------
    DecodeError
        The event is damaged.
    """
    header = window[offset : offset + HEADER_LENGTH_V3]
    if len(header) < HEADER_LENGTH_V3 or not boundaries.splittable:
        return
    type_code = boundaries.description.canonical(type_of(header))
    if next_position_of(header):
        if not boundaries.ends_where_it_says(window, base, offset):
            raise DecodeError(
                "the event does not end where it says", path=path, offset=base + offset, type_code=type_code
            )
        return
    found, status = boundaries.find(window, offset + 1, len(window), base=base, more=False, zeros=True)
    if status == _resync.FOUND:
        raise DecodeError(
            f"the event is longer than the file, but another begins at {base + found}",
            path=path,
            offset=base + offset,
            type_code=type_code,
        )
