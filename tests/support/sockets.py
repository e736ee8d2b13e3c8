"""What sockets without a network share: how long receiving may take, and a file that reads from one."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from typing import Any


class MadeUpSocket(ABC):
    """A connection that a world makes, used like a socket."""

    _timeout: float | None = None

    @abstractmethod
    def recv_into(self, buffer: Any, *_: Any) -> int:
        """Receive some of what has arrived."""

    def settimeout(self, seconds: float | None) -> None:
        """Seconds that receiving may take."""
        self._timeout = seconds

    def setblocking(self, blocking: bool) -> None:
        """Whether receiving waits."""
        self._timeout = None if blocking else 0

    def makefile(self, *_: Any, **__: Any) -> io.BufferedReader:
        """A file that reads from it."""
        return io.BufferedReader(_Reader(self))


class _Reader(io.RawIOBase):
    def __init__(self, socket: MadeUpSocket) -> None:
        self._socket = socket

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._socket.recv_into(memoryview(buffer))
