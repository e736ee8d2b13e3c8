"""The statements before the start of a pass, which decide the definitions of its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._format.event_types import EventType
from .._format.statements import may_change_definitions
from .._walk.event_walk import begins_in
from .._walk.typed_events import events_of
from ..events import QueryEvent
from ..report import Report
from .log_decoder import LogDecoder
from .selection import Selection

if TYPE_CHECKING:
    from .._sources.log_files import LogFile
    from ..schema.definitions import Definitions

_STATEMENTS = frozenset((EventType.QUERY, EventType.MARIADB_QUERY_COMPRESSED))


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
    with file.open() as source:
        # Reading the rows verifies checksums; damage does not matter here.
        selection = Selection()
        decoder = LogDecoder(
            source, selection=selection, report=Report(), verify_checksum=False, skip_errors=True
        )
        for event in events_of(decoder.track, _STATEMENTS, lambda run: ~begins_in(run)):
            if before is not None and event.position >= before:
                break
            if isinstance(event, QueryEvent) and may_change_definitions(event.query_bytes):
                mariadb = decoder.format is not None and decoder.format.is_mariadb
                definitions.follow(
                    event, report, mariadb=mariadb, path=source.path, transaction=event.position
                )
