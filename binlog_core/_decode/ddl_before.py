"""The statements before the start of a pass, which decide the definitions of its rows."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from .._walk.event_walk import EventRange
from .._walk.track import Rules
from .._walk.typed_events import definition_statements
from ..gtids import parse_gtid_set
from ..report import Report
from .gtid_selection import is_selected
from .log_decoder import LogDecoder
from .selection import Selection

if TYPE_CHECKING:
    from .._sources.log_files import LogFile
    from ..schema.definitions import Definitions


def follow_statements(file: LogFile, before: int | None, definitions: Definitions, report: Report) -> None:
    """Apply a log's statements to definitions.

    Parameters
    ----------
    file : LogFile
        The log, which is read again.
    before : int or None
        Position of the first event that does not count.
    definitions : Definitions
    report : Report
        Where statements that cannot be followed are counted.
    """
    share = file.share
    counts = None
    if share is not None and share.before is not None:
        counts = partial(is_selected, wanted=None, excluded=parse_gtid_set(share.before))
    with file.open() as source:
        decoder = LogDecoder(source, Selection(), Rules.lenient(Report()))
        for event in definition_statements(decoder.track, EventRange(stop_position=before), counts):
            mariadb = decoder.is_mariadb
            definitions.follow(event, report, mariadb=mariadb, path=source.path, transaction=event.position)
