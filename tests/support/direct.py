"""A server in the client's own thread: a world whose connections answer while they are written to.

Nothing is sent over a network and nothing sleeps: time moves on only when the client waits, so a client that
would wait for hours ends at once, and one that never ends is a hang.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from random import Random
from typing import Any

from binlog_core.server.world import World

from .hostile_server import OK, HostileServer
from .sockets import MadeUpSocket
from .talk import packet

_SIZES = (1, *[37] * 3, *[4000] * 6, *[1 << 20] * 20)  # a byte at a time takes long


class Direct(World):
    """A world with one server, at every address.

    Parameters
    ----------
    server : HostileServer
        Without TLS.
    chance : Random
        Decides how many bytes arrive together.
    said : callable, optional
        Changes what the server says until the client is logged in.
    """

    def __init__(
        self, server: HostileServer, chance: Random, said: Callable[[bytes], bytes] = lambda payload: payload
    ) -> None:
        self.socket_class = Wire
        self.server, self.chance, self.said = server, chance, said
        self.passed = 0.0

    def connect(self, kind: Any, host: tuple[str, int], path: str | None, timeout: float) -> Any:
        """A wire to the server."""
        made = kind(self)
        made.settimeout(timeout)
        return made

    def now(self) -> float:
        """Seconds that the client has waited."""
        return self.passed

    def wait(self, event: threading.Event, seconds: float | None) -> bool:
        """Let time pass."""
        if seconds is None and not event.is_set():
            raise AssertionError("a wait without an end")
        self.passed += seconds or 0.0
        return event.is_set()

    def wait_for_bytes(self, sock: Any, seconds: float) -> None:
        """Let time pass: what the server has to say is there already."""
        self.passed += max(0.0, seconds)


class Wire(MadeUpSocket):
    """One connection, used like a socket."""

    def __init__(self, world: Direct) -> None:
        self._world = world
        self._most = world.chance.choice(_SIZES)
        self._received, self._coming, self._at = bytearray(), bytearray(), 0
        self._turns: Any = None
        self._over = self._logged_in = self._ended = False  # over: the server has no more to ask
        self._say(0, world.server.greeting())

    # ------------------------------------------------------------ the server's side

    def _say(self, number: int, payload: bytes) -> None:
        said = self._world.said(payload)
        self._logged_in = self._over and said[:1] not in (b"\xfe", b"\1")  # which the client answers
        self.deliver(packet(number % 256, said))

    def deliver(self, data: bytes) -> None:
        """Bytes from the server."""
        if not self._ended:
            self._coming += data

    def _take(self, number: int, payload: bytes) -> None:
        server = self._world.server
        server.received.append(payload)
        if self._logged_in:
            server.answer(_ServersEnd(self), payload)
            return
        if self._turns is None:
            self._turns = server.turns(secure=False)
            said = next(self._turns)
        else:
            said = next(self._turns, OK) if self._over else self._turns.send(payload)
        self._over = said == OK
        self._say(number + 1, said)

    # ------------------------------------------------------------ the client's side

    def sendall(self, data: Any) -> None:
        """Send, and have it answered."""
        if self._ended:
            raise BrokenPipeError(32, "Broken pipe")
        self._received += data
        while len(self._received) >= 4:
            size = int.from_bytes(self._received[:3], "little")
            if len(self._received) < 4 + size:
                return
            number, payload = self._received[3], bytes(self._received[4 : 4 + size])
            del self._received[: 4 + size]
            try:
                self._take(number, payload)
            except EOFError:
                self._ended = True
                return

    def send(self, data: Any) -> int:
        """Send, and have it answered."""
        self.sendall(data)
        return len(data)

    def recv_into(self, buffer: Any, *_: Any) -> int:
        """Receive what is there; without anything the time of the wait passes."""
        left = len(self._coming) - self._at
        if not left:
            if self._ended:
                return 0
            if self._timeout == 0:
                raise BlockingIOError(11, "Resource temporarily unavailable")
            self._world.passed += 3600.0 if self._timeout is None else self._timeout
            raise TimeoutError("timed out")
        size = min(left, len(buffer), self._most)
        buffer[:size] = self._coming[self._at : self._at + size]
        self._at += size
        if self._at == len(self._coming):
            self._coming, self._at = bytearray(), 0
        return size

    def shutdown(self, _: int) -> None:
        """End both directions."""
        self._ended = True

    def close(self) -> None:
        """End it."""
        self._ended = True


class _ServersEnd:
    """What a server's `answer` writes to."""

    def __init__(self, wire: Wire) -> None:
        self.sendall = wire.deliver

    def recv(self, _: int) -> bytes:
        raise EOFError
