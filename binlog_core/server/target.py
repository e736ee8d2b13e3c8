"""A server as the target of `binlog_core.open`, in place of files."""

from __future__ import annotations

import datetime as dt
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from operator import index
from typing import TYPE_CHECKING, Any, SupportsIndex

from .._decode.selection import MAX_POSITION
from .._format.event_header import FIRST_EVENT
from .._sources.log_files import LogFile, LogFiles
from ..gtids import GtidSet, MariadbGtidSet
from ..limits import Limits
from ..position import Checkpoint, Position
from ..report import Report
from .address import Address
from .source import ServerFollower, ServerSource
from .stream import ServerStream

if TYPE_CHECKING:
    from .._sources.sources import Source
    from ..schema.definitions import Definitions
    from .definitions import History

ServerPlace = tuple[str, int] | dt.datetime


@dataclass(frozen=True, repr=False)
class ServerLog(LogFile):
    """The logs of a server from some place on, one after the other, as one stream.

    Parameters
    ----------
    path : str
        The server's address, without user and password; of a log that is not the first, its name.
    address : Address
        The server.
    options : mapping
        Arguments of `ServerStream`.
    streams : list of ServerStream
        The stream to continue with, until it is taken.
    history : list of History
        The definitions for ``schema="server"``, once they were asked for.
    """

    address: Address = field(default_factory=lambda: Address(()))
    options: Mapping[str, Any] = field(default_factory=dict)
    streams: list[ServerStream] = field(default_factory=list)
    history: list[History] = field(default_factory=list)

    chained = True

    def open(self) -> ServerSource:
        """Connect, or continue with the stream.

        Raises
        ------
        ServerError
            The server cannot be reached, or refuses.
        """
        stream = self.streams.pop() if self.streams else ServerStream(self.address, **self.options)
        try:
            return ServerSource(stream, follow=self.options["follow"])
        except BaseException:
            stream.close()
            raise

    def follower(self, source: Source, stop: threading.Event, report: Report) -> ServerFollower:
        """What waits for the server to send more."""
        assert isinstance(source, ServerSource)
        return ServerFollower(source, stop, report)

    def definitions(self, limits: Limits, charset: str | None) -> Definitions:
        """The definitions for a pass with ``schema="server"``."""
        from .definitions import History, ServerDefinitions

        if not self.history:
            self.history.append(History(self.address, limits))
        return ServerDefinitions(self.history[0], limits=limits, charset=charset)

    def following(self) -> None:
        """None: which log comes next is known only when this one has been read."""

    def after(self, source: Source, path: str, done: Checkpoint) -> ServerLog:
        """The log after the one that was read; after a failover, one of the other server."""
        assert isinstance(source, ServerSource)
        if source.failed_over and done.ended is not None:
            source.stream.gtids = done.ended
        if source.failed_over or done.awaited:
            source.stream.done_records, source.stream.done_gtid = done.records, done.gtid
        return self._at(path, source)

    def behind(self, source: Source) -> ServerLog | None:
        """The log after the one that was read."""
        assert isinstance(source, ServerSource)
        return self._at(source.next_file, source) if source.next_file is not None else None

    def _at(self, path: str, source: ServerSource) -> ServerLog:
        options = {**self.options, "start": (path, FIRST_EVENT)}
        return replace(self, path=path, options=options, streams=[source.stream])


def server_logs(
    url: str,
    server: Mapping[str, Any] | None = None,
    *,
    start: Any,
    stop: Any,
    follow: bool,
    limits: Limits,
    password_file: str | os.PathLike[str] | None = None,
    defaults_file: str | os.PathLike[str] | None = None,
) -> tuple[LogFiles, dt.datetime | None, dt.datetime | None]:
    """A server's logs from ``start`` to ``stop``, and those of the two that are times, left to the reader.

    Raises
    ------
    TypeError, ValueError
        The address, an option or a place is not valid.
    """
    address = Address.of(url, server, password_file=password_file, defaults_file=defaults_file)
    check_start(start)
    until = stop
    if isinstance(stop, Position):
        until = stop.file.rpartition("/")[2], stop.offset
    elif not (stop is None or isinstance(stop, dt.datetime) or _is_place(stop)):
        raise TypeError(f"stop={stop!r}: a server takes (log name, position), a datetime or a Position")
    options = {
        "start": start,
        "stop": until if isinstance(until, tuple) else None,
        "follow": follow,
        "limits": limits,
    }
    log = ServerLog(address.name, address=address, options=options)
    times = [place if isinstance(place, dt.datetime) else None for place in (start, stop)]
    return LogFiles([log]), times[0], times[1]


def check_start(start: Any) -> None:
    """Raise TypeError for what is not a place in a server's logs."""
    known = start is None or start == "now" or _is_place(start)
    if not known and not isinstance(start, dt.datetime | Position | GtidSet | MariadbGtidSet):
        raise TypeError(
            f'start={start!r}: a server takes "now", (log name, position), a datetime, a Position or GTIDs'
        )


def _is_place(place: Any) -> bool:
    if not (isinstance(place, tuple) and len(place) == 2 and isinstance(place[0], str)):
        return False
    position = place[1]
    return isinstance(position, SupportsIndex) and 0 <= index(position) <= MAX_POSITION
