"""A server's logs for the loop that reads files: one source for each log of a stream."""

from __future__ import annotations

import threading
from typing import Literal

from .._format.event_header import FIRST_EVENT, HEADER_LENGTH_V3, length_of
from .._format.magic import MAGIC
from .._sources.sources import Source
from ..errors import BinlogError, NotABinlogError
from ..position import Position
from ..report import Report
from .run import ServerRun
from .stream import ServerStream

_LONGEST_DESCRIPTOR = 4096


class ServerSource(Source):
    """One log of a stream.

    Parameters
    ----------
    stream : ServerStream
        The stream, at the place where the log begins or continues.
    follow : bool
        Whether `read` returns nothing when nothing is there; otherwise it waits for more.

    Attributes
    ----------
    next_file : str or None
        The log that comes after this one, once this has been read to its end.
    """

    def __init__(self, stream: ServerStream, *, follow: bool) -> None:
        self.stream = stream
        self.next_file: str | None = None
        self.over = self.failed_over = False
        self._follow = follow
        self._pending = memoryview(b"")
        self._head = b""
        first, head = self._begin()
        super().__init__(first.file)
        self.begin = first.position
        self.server = stream.facts.uuid
        self.gtids = stream.gtids if first.position > FIRST_EVENT or stream.begun_at is not None else None
        self.done_records, self.done_gtid = stream.done_records, stream.done_gtid
        stream.done_records, stream.done_gtid = 0, None
        if head is None:
            self._end(None)
            return
        self._head = MAGIC + bytes(head.events[:_LONGEST_DESCRIPTOR])
        if head.kind == "events":
            self._pending = head.events
            self.awaited = head.acknowledge
            self.begin = head.position
            if len(head.events) < HEADER_LENGTH_V3 or len(head.events) < length_of(head.events):
                self._pending = memoryview(b"")
                self._end(None)  # the end of reading is inside the descriptor

    def _begin(self) -> tuple[ServerRun, ServerRun | None]:
        """The run that names a log, and the one with its descriptor; None: reading was stopped before."""
        stream = self.stream
        first, stream.begun = stream.begun, None
        while (run := stream.next_run()) is not None:
            if run.kind == "file":  # again: its server was lost, and another has taken over
                first = run
            elif first is not None and run.kind in ("descriptor", "events"):
                return first, run
        if first is None:
            raise NotABinlogError("the server sends no log", path=stream.address.name)
        return first, None

    # ------------------------------------------------------------ bytes

    def peek(self, size: int) -> bytes:
        """The next bytes; at the beginning the magic and the log's descriptor."""
        if self.position == 0:
            return self._head[:size]
        if not self._pending:
            self._take(wait=not self._follow)
        return bytes(self._pending[:size])

    def read(self, size: int) -> bytes:
        """The next bytes: any number of complete events. Empty: none for now, or the log is over."""
        return bytes(self.borrow(size))

    lends = True

    def borrow(self, size: int) -> bytes | memoryview:
        """Like `read`; the result is valid only until the next call."""
        if self.position == 0 and self.begin == len(MAGIC):
            self.position = len(MAGIC)
            return MAGIC
        if not self._pending:
            self._take(wait=not self._follow)
        data, self._pending = self._pending, memoryview(b"")
        self.position += len(data)
        return data

    def seek(self, position: int) -> None:
        """Go to the place where the events begin, the only one that a stream can go to."""
        if self.position not in (0, position) or position != self.begin:
            raise BinlogError(
                f"cannot go from {self.position} to {position}: a server sends its log once", path=self.path
            )
        self.position = position

    def wait_for_more(self) -> bool:
        """Wait until `read` has something; False: the log has ended, or reading was stopped."""
        return bool(self._pending) or self._take(wait=True)

    def _take(self, *, wait: bool) -> bool:
        while not self.over:
            run = self.stream.next_run(None if wait else 0)
            if run is None:
                if self.stream.ended or self.stream.stopping.is_set():
                    self._end(None)
                return False
            if run.kind == "events":
                self._pending = run.events
                self.position = run.position
                self.awaited |= run.acknowledge
                return True
            if run.kind in ("file", "failover"):
                self._end(run)
            else:  # a heartbeat: nothing is there
                self.withheld_to = self.stream.position
                if not wait:
                    return False
        return False

    def _end(self, run: ServerRun | None) -> None:
        self.over = True
        self.stream.begun = run if run is not None and run.kind == "file" else None
        self.next_file = None if run is None else run.file
        self.failed_over = run is not None and run.kind == "failover"

    def acknowledge(self, position: Position) -> None:
        """Tell a semi-synchronous server that everything before a position is stored safely."""
        self.stream.acknowledge(position.file, position.offset)

    def _fetch(self, size: int) -> bytes:
        raise NotImplementedError

    def close(self) -> None:
        """End the stream, unless the next log is to be read from it; may be called again."""
        self._pending = memoryview(b"")
        if self.next_file is None:
            self.over = True
            self.stream.close()


class ServerFollower:
    """Waits at the end of the part of a log that a server has sent.

    Parameters
    ----------
    source : ServerSource
        The source that is read.
    stop : threading.Event
        Ends the waiting when set.
    report : Report
        Counts lost and restored connections, and start GTIDs that the server does not know.
    """

    def __init__(self, source: ServerSource, stop: threading.Event, report: Report) -> None:
        self._source = source
        source.stream.stopping = stop
        doubt, source.stream.doubt = source.stream.doubt, None
        report.add("unknown_sources", path=source.path, detail=doubt, count=int(doubt is not None))
        source.stream.on_reconnect = lambda text: report.add("reconnects", path=source.path, detail=text)

    @property
    def next_path(self) -> str | None:
        """The log that follows, once `wait` has returned "next"."""
        return self._source.next_file

    def wait(self, timeout: float | None = None) -> Literal["more", "next", "stopped", "timeout"]:
        """Wait until something can be read: "more", "next" (the log is over) or "stopped"."""
        if self._source.wait_for_more():
            return "more"
        return "next" if self._source.next_file is not None else "stopped"
