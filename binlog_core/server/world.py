"""What reading a server needs of the world: connections, the clock, chance, and waiting.

`REAL` is the world as it is. The simulated world of ``soak/world`` hands in its own, where nothing sleeps and
a seed decides what happens.
"""

from __future__ import annotations

import random
import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol


class Started(Protocol):
    """Work that `World.start` began."""

    def join(self, timeout: float | None = None) -> None:
        """Wait until it has ended."""
        ...


class World:
    """The machine's own network and clock."""

    socket_class: Any = socket.socket
    random: random.Random = random.SystemRandom()
    files: Any = None  # how an archive uses its disk; None: as `binlog_core.archive.files` does

    def connect(self, kind: Any, host: tuple[str, int], path: str | None, timeout: float) -> Any:
        """A connected socket.

        Parameters
        ----------
        kind : type
            The class of the socket, derived from `socket_class`.
        host : (str, int)
            Host and port.
        path : str or None
            Of a Unix socket, instead of the host.
        timeout : float
            Seconds that connecting may take.

        Raises
        ------
        OSError
            Nothing accepts the connection.
        """
        if path is not None:
            made = kind(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                made.settimeout(timeout)
                made.connect(path)
            except BaseException:
                made.close()
                raise
            return made
        plain = socket.create_connection(host, timeout)
        made = kind(plain.family, plain.type, plain.proto, fileno=plain.detach())
        made.settimeout(timeout)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return made

    def now(self) -> float:
        """Seconds of a clock that only moves forward."""
        return time.monotonic()

    def time(self) -> float:
        """Seconds since 1970 UTC, by a clock that may be set."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)

    def start(self, work: Callable[[], None], name: str) -> Started:
        """Begin some work beside the caller's, which a process that ends does not wait for."""
        made = threading.Thread(target=work, name=name, daemon=True)
        made.start()
        return made

    def lock(self) -> AbstractContextManager[Any]:
        """A lock that one piece of work has at a time."""
        return threading.Lock()

    def wait(self, event: threading.Event, seconds: float | None) -> bool:
        """Wait until an event is set; whether it is."""
        return event.wait(seconds)

    def wait_for_bytes(self, sock: Any, seconds: float) -> None:
        """Wait until a socket has bytes to receive, or has ended."""
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        poll.poll(1000 * max(0.0, seconds))


REAL = World()
