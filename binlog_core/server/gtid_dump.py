"""A dump without files: MariaDB 12.3 with ``binlog_storage_engine=innodb``.

Such a server is read by GTIDs alone. It sends one unbroken stream: no ROTATE event where one of its files
ends, no descriptor at the beginning of the next one, no positions in its events. The stream is presented as
one log, whose positions are counted from where the connection began; nobody can come back to them.

Source: MariaDB server 12.3, Docs/replication/binlog.md.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from .._format.event_header import CHECKSUM_LENGTH, FIRST_EVENT, HEADER_LENGTH_V3, type_of
from .._format.event_types import EventType
from ..errors import PositionError
from ..gtids import AnyGtidSet, GtidSet, MariadbGtidSet
from ..position import WITHOUT_FILES, Position
from .connection import Connection, Facts
from .dump import Dump, LineLost
from .run import ServerRun

_BEGIN = 256  # position of the first event: behind the descriptor, which is not part of what is counted
_CREATED_AT = slice(HEADER_LENGTH_V3 + 52, HEADER_LENGTH_V3 + 56)  # the time in a descriptor


def gtids_to_begin_with(connection: Connection, facts: Facts, start: Any) -> AnyGtidSet:
    """The GTIDs after which reading begins.

    Parameters
    ----------
    connection : Connection
    facts : Facts
    start : None, "now", datetime, Position, or anything else that ``start=`` takes
        None and times begin with the oldest transaction; times are then looked for by the reader.

    Raises
    ------
    PositionError
        The start is a place in a file, or a position without GTIDs.
    """
    if start is None or isinstance(start, dt.datetime):
        return MariadbGtidSet()
    if start == "now":
        return MariadbGtidSet.parse(facts.executed)
    if isinstance(start, GtidSet | MariadbGtidSet):
        return start
    if isinstance(start, Position) and start.gtids is not None:
        return start.gtids
    if isinstance(start, tuple) and tuple(start) == ("", FIRST_EVENT):
        return MariadbGtidSet()
    what = f"start={start!r} is a place in a file"
    if isinstance(start, Position):
        what = "the position has no GTIDs"
    raise PositionError(
        f"{what}, and with binlog_storage_engine=innodb a server can be read by GTIDs alone: start from"
        ' GTIDs, a position with GTIDs, or "now"',
        path=connection.name,
    )


class GtidDump(Dump):
    """Runs of events of such a server; see `Dump`."""

    _named = False
    _kept: ServerRun | None = None
    _descriptor: bytes | None = None

    def next_run(self, timeout: float | None) -> ServerRun | None:
        """The next run; the events of the one before are no longer valid then. The first names the stream."""
        run, self._kept = self._kept, None
        if run is None:
            if not self._named:
                self.file = WITHOUT_FILES
                self._packets.go_to(_BEGIN)
            run = super().next_run(timeout)
        if run is None or self._named:
            return run
        self._named, self._kept = True, run
        return ServerRun("file", WITHOUT_FILES, _BEGIN, memoryview(b""), False)

    def _special(self, event: bytes) -> ServerRun | None:
        kind = type_of(event)
        if kind == EventType.ROTATE:  # what it names cannot be asked for
            return None
        if kind == EventType.FORMAT_DESCRIPTION:
            known, self._descriptor = self._descriptor, _without_time(event)
            if known == self._descriptor:
                return None
            if known is not None:  # the events from here on have another form: begin anew with it
                raise LineLost("the server describes its events anew")
        return super()._special(event)

    def _over_hole(self) -> None:
        self._packets.accept(self._buffer, self._packets.position)


def _without_time(descriptor: bytes) -> bytes:
    out = bytearray(descriptor[HEADER_LENGTH_V3:-CHECKSUM_LENGTH])
    begin = _CREATED_AT.start - HEADER_LENGTH_V3
    out[begin : begin + 4] = bytes(4)
    return bytes(out)
