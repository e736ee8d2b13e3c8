"""The clock, the network and the hosts on it. Time moves only when somebody waits."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Iterator
from itertools import count
from random import Random
from typing import Any

from binlog_core.server.world import World

from .line import Fault, Line
from .server import EPOCH, Server
from .session import Session


class Hang(Exception):
    """Somebody waits for what will never happen, or for longer than any history lasts."""


class SimulatedWorld(World):
    """A world in which everything happens by a seed.

    Parameters
    ----------
    seed : int
        Decides what is not in the history: how bytes are divided, how long a packet takes.
    faults : iterator of Fault
        What happens to each connection, in their order.
    most : float
        Seconds of the world's time that a history may last.
    """

    socket_class = Line

    def __init__(self, seed: int, faults: Iterator[Fault], *, most: float = 3600.0) -> None:
        self.chance = Random(seed)
        self.hosts: dict[str, Server] = {}
        self.connections = 0
        self.skew = 0.0  # seconds by which the clock of the reader's machine is wrong
        self._faults = faults
        self._most = most
        self._now = 0.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._number = count()

    # ------------------------------------------------------------ what production code asks for

    def connect(self, kind: Any, host: tuple[str, int], path: str | None, timeout: float) -> Line:
        """A line to a host that runs."""
        self.let(_never, self.chance.choice((0.0, 0.001, 0.05)))
        server = self.hosts.get(host[0])
        if server is None or not server.up:
            raise ConnectionRefusedError(111, "Connection refused")
        self.connections += 1
        line: Line = kind(self, next(self._faults))
        line.settimeout(timeout)
        Session(server, line).greet()
        return line

    def now(self) -> float:
        """Seconds since the world began."""
        return self._now

    def time(self) -> float:
        """The clock of the reader's machine."""
        return EPOCH + self._now + self.skew

    def wait(self, event: threading.Event, seconds: float | None) -> bool:
        """Let time pass until an event is set."""
        self.let(event.is_set, self._most if seconds is None else seconds)
        return event.is_set()

    def wait_for_bytes(self, sock: Any, seconds: float) -> None:
        """Let time pass until a line has something."""
        self.let(sock.ready, seconds)

    # ------------------------------------------------------------ what moves it

    def after(self, seconds: float, work: Callable[[], None]) -> None:
        """Have something happen."""
        heapq.heappush(self._due, (self._now + seconds, next(self._number), work))

    def let(self, ready: Callable[[], bool], seconds: float) -> None:
        """Let things happen until one is so, or so many seconds are over."""
        end = self._now + max(0.0, seconds)
        while not ready():
            if not self._due or self._due[0][0] > end:
                self._now = end
                break
            when, _, work = heapq.heappop(self._due)
            self._now = max(self._now, when)
            work()
        if self._now > self._most:
            raise Hang(f"still waiting after {self._most:g} s")


def _never() -> bool:
    return False
