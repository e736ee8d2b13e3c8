"""The clock, the network and the hosts on it. Time moves only when somebody waits."""

from __future__ import annotations

import heapq
import math
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


class Killed(BaseException):
    """The process has ended; nothing that it would still do counts."""


class _Lock:
    def __init__(self, world: SimulatedWorld) -> None:
        self._world = world
        self._held = False

    def __enter__(self) -> None:
        while self._held:
            self._world.let(lambda: not self._held, 3600.0)
        self._held = True

    def __exit__(self, *_: object) -> None:
        self._held = False


class Task:
    """A thread of a process: it moves only while all others wait."""

    def __init__(self, world: SimulatedWorld) -> None:
        self._world = world
        self.ready: Callable[[], bool] = lambda: True
        self.until = 0.0
        self.turn = threading.Semaphore(0)
        self.over = False

    def join(self, timeout: float | None = None) -> None:
        """See `binlog_core.server.world.Started`."""
        self._world.let(lambda: self.over, 3600.0 if timeout is None else timeout)


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

    Attributes
    ----------
    killed : bool
        The process is dead: its threads end where they are.
    """

    socket_class = Line

    def __init__(self, seed: int, faults: Iterator[Fault], *, most: float = 3600.0) -> None:
        self.chance = Random(seed)
        self.random = Random(f"own {seed}")  # what the process itself leaves to chance
        self.hosts: dict[str, Server] = {}
        self.connections = 0
        self._lines: list[Line] = []
        self._refused = -math.inf  # when a host that was down was last asked
        self.skew = 0.0  # seconds by which the clock of the reader's machine is wrong
        self._faults = faults
        self._most = most
        self._now = 0.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._number = count()
        self.killed = False
        self._tasks = [Task(self)]
        self._running = self._tasks[0]

    # ------------------------------------------------------------ what production code asks for

    def step(self) -> None:
        """The process does something that others can see."""
        if self.killed:
            raise Killed

    def connect(self, kind: Any, host: tuple[str, int], path: str | None, timeout: float) -> Line:
        """A line to a host that runs."""
        self.step()
        self.let(_never, self.chance.choice((0.0, 0.001, 0.05)))
        server = self.hosts.get(host[0])
        if server is None or not server.up:
            self._refused = self._now
            raise ConnectionRefusedError(111, "Connection refused")
        self.connections += 1
        line: Line = kind(self, next(self._faults))
        self._lines.append(line)
        line.settimeout(timeout)
        Session(server, line).greet()
        return line

    def failed(self, since: float) -> bool:
        """Whether a process may have met a host that was down, or a line that failed, since then."""
        return self._refused >= since or any(line.failed(since, self._now) for line in self._lines)

    def now(self) -> float:
        """Seconds since the world began."""
        return self._now

    def time(self) -> float:
        """The clock of the reader's machine."""
        return EPOCH + self._now + self.skew

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.step()
        self.let(_never, seconds)

    def start(self, work: Callable[[], None], name: str) -> Task:
        """A thread that moves while all others wait."""
        self.step()
        task = Task(self)
        self._tasks.append(task)

        def run() -> None:
            task.turn.acquire()
            try:
                if not self.killed:
                    work()
            except Killed:
                pass
            finally:
                task.over = True
                self._tasks.remove(task)
                self._go_on(self._next())

        threading.Thread(target=run, name=name, daemon=True).start()
        return task

    def lock(self) -> _Lock:
        """A lock that one thread has at a time."""
        return _Lock(self)

    def wait(self, event: threading.Event, seconds: float | None) -> bool:
        """Let time pass until an event is set."""
        self.step()
        self.let(event.is_set, self._most if seconds is None else seconds)
        return event.is_set()

    def wait_for_bytes(self, sock: Any, seconds: float) -> None:
        """Let time pass until a line has something."""
        self.step()
        self.let(sock.ready, seconds)

    # ------------------------------------------------------------ what moves it

    def after(self, seconds: float, work: Callable[[], None]) -> None:
        """Have something happen."""
        heapq.heappush(self._due, (self._now + seconds, next(self._number), work))

    def let(self, ready: Callable[[], bool], seconds: float) -> None:
        """Let things happen until one is so, or so many seconds are over; other threads go on meanwhile."""
        me = self._running  # also for a thread of a pool, for which its own waits outside of this world
        me.ready, me.until = ready, self._now + max(0.0, seconds)
        if (task := self._next()) is not me:
            self._go_on(task)
            me.turn.acquire()
        if self.killed:
            raise Killed
        if self._now > self._most:
            raise Hang(f"still waiting after {self._most:g} s")

    def alone(self) -> bool:
        """Whether there is one thread."""
        return len(self._tasks) == 1

    def end_threads(self) -> None:
        """Let all threads but this one come to their ends."""
        while not self.alone():
            self._go_on(self._tasks[-1])
            self._tasks[0].turn.acquire()

    def _go_on(self, task: Task) -> None:
        self._running = task
        task.turn.release()

    def _next(self) -> Task:
        """Let things happen until one of the threads may go on."""
        while True:
            if self.killed:
                return self._tasks[0]
            if ready := [one for one in self._tasks if one.ready()]:
                return ready[0] if len(ready) == 1 else self.chance.choice(ready)
            first = min(self._tasks, key=lambda one: one.until)
            if not self._due or self._due[0][0] > first.until:
                self._now = max(self._now, first.until)
                return first
            when, _, work = heapq.heappop(self._due)
            self._now = max(self._now, when)
            work()


def _never() -> bool:
    return False
