"""The archive of a mirror: brought up to now, or kept by a thread as the server streams its log."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from .._sources.log_names import name_key
from ..archive.archiver import Archiver
from ..archive.status import Status
from ..errors import BinlogError
from ..gtids import MariadbGtidSet, parse_gtid_set
from ..server.address import Address
from ..server.answers import understood
from ..server.connection import Connection
from ..server.start import status_of
from ..server.world import Started

End = tuple[str, int] | MariadbGtidSet  # of a server's log: a place, or the last GTID of each domain
_NOTHING: tuple[str, str | None, int, str | None] = ("", None, 0, None)  # server; log, bytes on disk, GTIDs
_STATE = "gtid_binlog_pos"
_LOOKING = 0.1  # seconds between two looks at whether to stop
_ENDING = 30.0


class Making(Protocol):
    """Makes an archiver that runs until `stop`, or up to now."""

    def __call__(
        self, *, until_now: bool, stop: threading.Event, on_status: Callable[[Status], None]
    ) -> Archiver:
        """Make it."""
        ...


class Receiver:
    """Receives a server's log into a mirror's archive.

    Parameters
    ----------
    address : Address
        The server.
    make : Making
        Makes archivers.
    stop : threading.Event
        Ends the mirror when set.
    streams : bool
        Whether what is received can be read at once: not from an archive in a store.
    """

    def __init__(self, address: Address, make: Making, stop: threading.Event, *, streams: bool) -> None:
        self._address, self._make, self._stop, self.streams = address, make, stop, streams
        self._world = address.world
        self._more = threading.Event()  # is on disk than was seen
        self._ended = threading.Event()
        self._thread: Started | None = None
        self._error: Exception | None = None
        self._status = _NOTHING
        self._asking: Connection | None = None
        self._by_gtids = False  # the server that is asked has no positions
        self._asked = ""  # which server

    def up_to_now(self) -> None:
        """Have everything that the server has logged by now, unless the mirror is stopped.

        Raises
        ------
        BinlogError
            The server cannot be reached, or its log does not continue the archive.
        """
        if self._thread is None:
            self._make(until_now=True, stop=self._stop, on_status=lambda status: None).run()
            return
        asked, end = "", None
        while not self._stop.is_set():
            if end is None or asked != self._status[0]:  # another has taken over
                asked, end = self._status[0], self._end()
            if end is None:  # the user may not ask
                self.end()
                self.up_to_now()
                return
            if self.has(end):
                return
            self.wait(1.0)

    def begin(self) -> None:
        """Have a thread receive what the server logs, until `end`."""
        if self._thread is not None:
            return
        self._ended, self._error = threading.Event(), None
        self._thread = self._world.start(self._run, "binlog_core mirror's archive")

    def wait(self, seconds: float, halt: threading.Event | None = None) -> bool:
        """Wait for more of the log on disk; False: none in time, or the mirror is stopped, or `halt` is set.

        Raises
        ------
        BinlogError
            That of the thread, which is then over.
        """
        until = self._world.now() + seconds
        while not self._stop.is_set():
            if self._error is not None:
                error = self._error
                self.end()
                raise error
            left = until - self._world.now()
            if self._world.wait(self._more, max(min(left, _LOOKING), 0)):
                self._more.clear()
                return True
            if left <= 0 or (halt is not None and halt.is_set()):
                break
        return False

    def asked(self) -> tuple[float, End | None]:
        """The present time, and then the end of the server's log; None: the user may not ask."""
        return self._world.time(), self._end()

    def has(self, end: End) -> bool:
        """Whether the archive has the log up to a place of the server that was asked last."""
        server, file, position, gtids = self._status
        if file is None or not server or server != self._asked:  # another's places are its own
            return False
        if isinstance(end, MariadbGtidSet):
            known = parse_gtid_set(gtids or "") or MariadbGtidSet()
            return isinstance(known, MariadbGtidSet) and end <= known
        (base, number, _), (last_base, last, _) = name_key(file), name_key(end[0])
        return base == last_base and (number, position) >= (last, end[1])

    def end(self) -> None:
        """End the thread; what was received is on disk."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(_ENDING)
        self._thread = self._error = None
        self._status = _NOTHING
        self._close()

    def _close(self) -> None:
        if self._asking is not None:
            self._asking.close()
        self._asking = None

    def _run(self) -> None:
        ended = self._ended
        try:
            self._make(until_now=False, stop=ended, on_status=self._note).run()
        except Exception as error:  # raised where the mirror waits
            self._error = error
        else:
            if not ended.is_set():
                self._error = BinlogError("the archive is no longer kept up to date")
        self._more.set()

    def _note(self, status: Status) -> None:
        found = status.server, status.file, status.position, status.gtids
        if found != self._status:
            self._status = found
            self._more.set()

    def _end(self) -> End | None:
        """The end of the log of the server that is received from."""
        server = self._status[0]
        try:
            if self._asking is None or self._asked != server:
                self._close()
                hosts = [one for one in self._address.hosts if f"{one[0]}:{one[1]}" == server]
                self._asking, self._asked = Connection(self._address, hosts or None), server
                self._by_gtids = self._asking.facts().by_gtids_only
            if self._by_gtids:
                state = self._asking.variables([_STATE]).get(_STATE, "")
                with understood("SHOW VARIABLES"):
                    return MariadbGtidSet.parse("".join(state.split()))
            status = status_of(self._asking)
        except BaseException:
            self._close()
            raise
        return None if status is None else (status.file, status.offset)
