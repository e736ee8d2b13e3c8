"""Transaction boundaries: places where a log can be cut, and from which it can be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._sources.sources import Source
from .._walk.track import Rules
from ..report import Report
from .log_decoder import LogDecoder
from .selection import Selection

if TYPE_CHECKING:
    from ..gtids import AnyGtidSet

_FIRST_STEP = 256  # doubled until a transaction ends


def boundary_behind(source: Source, start: int, least: int) -> int:
    """A transaction boundary at or soon after `least`, searched from the boundary `start` on.

    If the log ends before that, it is the log's last boundary.
    """
    step = _FIRST_STEP
    stop = least
    while True:
        found, ended = _walk(source, start, stop)
        if found >= least or ended:
            return found
        start = max(start, found)
        stop += step
        step *= 2


def last_boundary(source: Source, start: int, most: int | None = None, report: Report | None = None) -> int:
    """The last transaction boundary of a log that may be growing, from the boundary `start` on.

    Parameters
    ----------
    source : Source
    start : int
    most : int or None
        Where the log ended when its end was determined: later data is left out.
    report : Report or None
        Where damage is noted; None: it is warned of.
    """
    return _walked(source, start, most, report)[0]


def last_checkpoint(
    source: Source, start: int, before: AnyGtidSet | None = None, stop: int | None = None
) -> tuple[int, AnyGtidSet | None]:
    """The last transaction boundary from the boundary `start` on, and the GTIDs up to it.

    Parameters
    ----------
    source : Source
    start : int
    before : GtidSet, MariadbGtidSet or None
        The GTIDs up to `start`, if that is not the log's beginning.
    stop : int or None
        A position after which no boundary is searched.
    """
    source.gtids = before
    found, _, decoder = _walked(source, start, stop)
    return found, decoder.checkpoint()[0]


def _walk(source: Source, start: int, stop: int | None) -> tuple[int, bool]:
    return _walked(source, start, stop)[:2]


def _walked(
    source: Source, start: int, stop: int | None, report: Report | None = None
) -> tuple[int, bool, LogDecoder]:
    """The last boundary up to `stop`, and whether the log ends before `stop`."""
    source.seek(0)
    selection = Selection(tables=(), start_position=start or None, stop_position=stop)
    decoder = LogDecoder(source, selection, Rules.lenient(report or Report()))
    for _ in decoder.groups():
        pass
    return max(decoder.resume_position, start), stop is None or decoder.position < stop, decoder
