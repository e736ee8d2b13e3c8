"""The raw events of a server's logs, run by run, over lost lines and restarts."""

from __future__ import annotations

import random
import threading
import time
import uuid as _uuid
from collections.abc import Callable, Iterator
from typing import Self

from ..errors import DivergedError, UnreachableError
from ..limits import DEFAULT_LIMITS, Limits
from .address import Address
from .connection import Connection, Facts
from .dump import Begin, Dump, LineLost
from .run import Run

_FIRST_PAUSE = 0.1  # seconds before the second try to connect; each further one waits twice as long, up to
_LONGEST_PAUSE = 15.0


class ServerStream:
    """A server's logs as runs of whole raw events.

    >>> from binlog_core.server.address import Address
    >>> from binlog_core.server.stream import ServerStream
    >>> with ServerStream(Address.of("mysql://repl@db1"), "mysql-bin.000042", 4) as stream:   # doctest: +SKIP
    ...     for run in stream:
    ...         if run.kind == "events":
    ...             write(run.file, run.position, run.events)

    Joined in order, the "events" of a log from position 4 on are its file without the four bytes in front
    (with the in-use flag cleared while it still grows). A run never crosses a log's end, and "file" comes
    before the first run of each. After a lost line the stream goes on at the byte where the last whole event
    ended: a user sees nothing of it.

    Parameters
    ----------
    address : Address
    file : str
        The log to begin with; "" stands for the oldest that the server has.
    position : int
        Of the first event, 4 for the log's first.
    follow : bool
        False: end where the server's logs end.
    stop : (str, int), optional
        File and position of the first event not to be read.
    limits : Limits, optional
        `event_bytes` bounds one event.
    told : callable, optional
        Is given a text for each line that was lost and mended.
    stopping : threading.Event, optional
        Ends the stream when set.

    Attributes
    ----------
    file, position : str, int
        Everything before it has been handed out.
    facts : Facts
        What the server said of itself when it was last connected to.
    reconnects : int
        Lines that were lost and mended.

    Raises
    ------
    UnreachableError
        No host answers; later: a lost line did not come back within the address's `reconnect` seconds.
    AuthenticationError, PrivilegeError, PurgedError, PositionError, DivergedError, IdentityError, ServerError
        The server refuses.
    ProtocolError
        What answers is not a server.
    DecodeError
        An event is larger than `Limits.event_bytes`.
    """

    def __init__(
        self,
        address: Address,
        file: str = "",
        position: int = 4,
        *,
        follow: bool = True,
        stop: tuple[str, int] | None = None,
        limits: Limits = DEFAULT_LIMITS,
        told: Callable[[str], None] | None = None,
        stopping: threading.Event | None = None,
    ) -> None:
        self.address = address
        self.file = file
        self.position = position
        self.reconnects = 0
        self.ended = False
        self.stopping = stopping or threading.Event()
        self._follow = follow
        self._stop = stop
        self._limits = limits
        self._told = told
        self._uuid = str(_uuid.uuid4())
        self._server_id = address.server_id or _random_id()
        self._identity: bytes | None = None  # of the log at hand: its descriptor's time, server and version
        self._begun = False
        self._closed = False
        self._dump: Dump | None = None
        self.facts = self._connect()

    def __iter__(self) -> Iterator[Run]:
        """Runs until the logs end, `stop` is reached or the stream is stopped."""
        while (run := self.next_run()) is not None:
            yield run

    def next_run(self, timeout: float | None = None) -> Run | None:
        """The next run; the events of the one before are gone then.

        Parameters
        ----------
        timeout : float or None
            Seconds to wait; 0 takes what is there. None: as long as it takes.

        Returns
        -------
        Run or None
            None: nothing in time, or `ended`, or stopped.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while not self.ended and not self._closed:
            try:
                if self._dump is None:
                    self.facts = self._connect()
                assert self._dump is not None
                left = None if until is None else max(0.0, until - time.monotonic())
                run = self._dump.next_run(left)
            except LineLost as lost:
                self._mend(str(lost))
                continue
            if run is None:
                if self._dump.ended:
                    self.ended = True
                return None
            run = self._noted(run)
            if run is not None:
                return run
        return None

    def acknowledge(self, file: str, position: int) -> None:
        """Tell a semi-synchronous server that everything before a position is safe."""
        if self.address.semi_sync and self._dump is not None:
            try:
                self._dump.acknowledge(file, position)
            except LineLost:
                pass  # the next read finds it, too

    def stop(self) -> None:
        """End the stream, from another thread or a signal handler."""
        self.stopping.set()

    def close(self) -> None:
        """End the connection; may be called again."""
        self._closed = True
        if self._dump is not None:
            self._dump.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------ one server after another

    def _noted(self, run: Run) -> Run | None:
        """A run that is to be handed out, or None; `file` and `position` move on with it."""
        if run.kind == "file":
            known = self._begun and run.file == self.file and run.position == self.position
            self.file, self.position, self._begun = run.file, run.position, True
            if self._stop is not None and self._is_over():
                self.ended = True
                return None
            if known:
                return None  # the line was mended
            self._identity = None
            return run
        if run.kind == "descriptor" or (run.kind == "events" and run.position == 4):
            identity = bytes(run.events[0:4]) + bytes(run.events[5:9])
            if self._identity is not None and identity != self._identity:
                raise DivergedError(
                    "the server has another log of this name than was read: it was restored or reset",
                    path=self.file,
                    offset=self.position,
                )
            known = self._identity is not None
            self._identity = identity
            if known and run.kind == "descriptor":
                return None
        if run.kind != "events":
            return run
        if self._stop is not None and run.file == self._stop[0] and run.end >= self._stop[1]:
            self.ended = True
            run = run._replace(events=run.events[: max(0, self._stop[1] - run.position)])
            if not run.events:
                return None
        self.position = run.end
        return run

    def _is_over(self) -> bool:
        """Whether `stop` lies behind us."""
        assert self._stop is not None
        here, there = _number(self.file), _number(self._stop[0])
        return here > there or (here == there and self.position >= self._stop[1])

    def _connect(self) -> Facts:
        connection = Connection(self.address)
        try:
            facts = connection.facts()
            begin = Begin(self.file, self.position)
            self._dump = Dump(
                connection,
                facts,
                begin,
                server_id=self._server_id,
                uuid=self._uuid,
                wait=self._follow,
                limits=self._limits,
                stop=self.stopping,
            )
        except BaseException:
            connection.close()
            raise
        return facts

    def _mend(self, why: str) -> None:
        """Connect again where we stand, for as long as the address says."""
        if self._dump is not None:
            self._dump.close()
            self._dump = None
        end = time.monotonic() + self.address.reconnect
        pause = _FIRST_PAUSE
        while True:
            try:
                self.facts = self._connect()
            except UnreachableError as error:
                left = end - time.monotonic()
                if left <= 0:
                    error.message = f"{why}, and {error.message}"
                    raise
                if self.stopping.wait(min(pause, left)):
                    self.ended = True
                    return
                pause = min(2 * pause, _LONGEST_PAUSE)
                continue
            self.reconnects += 1
            if self._told is not None:
                self._told(f"{why}; went on at {self.file} {self.position}")
            return


def _random_id() -> int:
    return random.SystemRandom().randrange(2**31, 2**32 - 1)


def _number(file: str) -> tuple[str, int]:
    base, _, number = file.rpartition(".")
    return base, int(number) if number.isdecimal() else 0
