"""A connection to a server of the world, used like a socket; it fails as its `Fault` says."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from support.sockets import MadeUpSocket


class Clock(Protocol):
    """Time that moves only when somebody waits, and chance that a seed decides."""

    chance: Random

    def now(self) -> float:
        """Seconds since the world began."""

    def after(self, seconds: float, work: Callable[[], None]) -> None:
        """Have something happen."""

    def let(self, ready: Callable[[], bool], seconds: float) -> None:
        """Let things happen until one is so, or so many seconds are over."""


class Peer(Protocol):
    """Who is at the other end of a line."""

    def feed(self, data: bytes) -> None:
        """Take what the client sends."""

    def over(self) -> None:
        """The line has ended."""


@dataclass(frozen=True)
class Fault:
    """What happens to a connection.

    Parameters
    ----------
    cut : int or None
        It ends after so many bytes from the server.
    reset : bool
        Then what has not been received is lost.
    stall : int or None
        After so many bytes nothing comes for `seconds`.
    seconds : float
    """

    cut: int | None = None
    reset: bool = False
    stall: int | None = None
    seconds: float = 0.0


class Line(MadeUpSocket):
    """Bytes from a session arrive in pieces, and not at once."""

    def __init__(self, world: Clock, fault: Fault) -> None:
        self._world = world
        self._fault = fault
        self._peer: Peer | None = None
        self._coming: deque[tuple[float, memoryview]] = deque()
        self._sent = 0
        self._quiet_until = 0.0
        self._ended = self._reset = self._closed = False
        self._cut_at = self._left_at = self._quiet_from = math.inf

    # ------------------------------------------------------------ the server's side

    def serve(self, peer: Peer) -> None:
        """Set who answers."""
        self._peer = peer

    def deliver(self, data: bytes) -> None:
        """Send bytes to the client."""
        if self._ended or not data:
            return
        fault, world = self._fault, self._world
        cut = fault.cut is not None and self._sent + len(data) >= fault.cut
        if cut and fault.cut is not None:
            data = data[: fault.cut - self._sent]
        self._sent += len(data)
        if fault.stall is not None and self._sent >= fault.stall and not self._quiet_until:
            self._quiet_from, self._quiet_until = world.now(), world.now() + fault.seconds
        when = max(world.now() + world.chance.choice((0.0, 0.0, 0.0005)), self._quiet_until)
        if self._coming:
            when = max(when, self._coming[-1][0])
        if data:
            self._coming.append((when, memoryview(data)))
        if when > world.now():
            world.after(when - world.now(), _nothing)
        if cut:
            self.end(reset=fault.reset)

    def end(self, *, reset: bool) -> None:
        """End the connection from the server's side, or on the way."""
        if self._ended:
            return
        self._ended, self._reset, self._cut_at = True, reset, self._world.now()
        if reset:
            self._coming.clear()
        self._leave()

    def _leave(self) -> None:
        if self._peer is not None:
            peer, self._peer = self._peer, None
            peer.over()

    def failed(self, begin: float, end: float) -> bool:
        """Whether the client may have met a fault, or the end of the server, between two times."""
        stalled = self._quiet_from <= end and begin <= min(self._quiet_until, self._left_at)
        return stalled or (self._cut_at <= end and begin <= self._left_at)

    # ------------------------------------------------------------ the client's side

    def ready(self) -> bool:
        """Whether `recv_into` returns at once."""
        if self._coming:
            return self._coming[0][0] <= self._world.now()
        return self._ended

    def recv_into(self, buffer: Any, *_: Any) -> int:
        """Receive some of what has arrived."""
        if self._closed:
            raise OSError(9, "Bad file descriptor")
        if not self.ready():
            if self._timeout == 0:
                raise BlockingIOError(11, "Resource temporarily unavailable")
            self._world.let(self.ready, 3600.0 if self._timeout is None else self._timeout)
            if not self.ready():
                raise TimeoutError("timed out")
        if not self._coming:
            if self._reset:
                raise ConnectionResetError(104, "Connection reset by peer")
            return 0
        when, piece = self._coming.popleft()
        size = min(len(piece), len(buffer), self._world.chance.choice((1, 30, 4000, 1 << 20, 1 << 20)))
        buffer[:size] = piece[:size]
        if size < len(piece):
            self._coming.appendleft((when, piece[size:]))
        return size

    def sendall(self, data: Any) -> None:
        """Send to the server."""
        self.send(data)

    def send(self, data: Any) -> int:
        """Send to the server."""
        if self._closed or self._peer is None:
            raise BrokenPipeError(32, "Broken pipe")
        self._peer.feed(bytes(data))
        return len(data)

    def shutdown(self, _: int) -> None:
        """End both directions."""
        self._ended, self._left_at = True, min(self._left_at, self._world.now())
        self._leave()

    def close(self) -> None:
        """End it from the client's side."""
        self._closed = True
        self._ended, self._left_at = True, min(self._left_at, self._world.now())
        self._leave()


def _nothing() -> None:
    """Time has come that bytes arrive."""
