"""A bad connection: a proxy that splits, stalls, cuts and resets at seeded random places."""

from __future__ import annotations

import random
import socket
import struct
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit


class Line:
    """Forwards connections to a server; it cuts `cuts` of them.

    Parameters
    ----------
    url : str
        Of the server.
    seed : int
    cuts : int
        Number of connections that are cut; later ones are left alone.
    most : int
        A connection is cut after this many bytes from the server at the latest.
    least : int
        Bytes of the first connection before it can be cut: a server that cannot be reached at all is an
        error.
    """

    def __init__(self, url: str, *, seed: int, cuts: int, most: int = 60_000, least: int = 0) -> None:
        parts = urlsplit(url)
        self._server = parts.hostname or "127.0.0.1", parts.port or 3306
        self._chance = random.Random(seed)
        self._bounds = least, most
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self.left = cuts
        self.port: int = self._listening.getsockname()[1]
        user = f"{parts.username or 'root'}{':' + parts.password if parts.password else ''}"
        self.url = f"mysql://{user}@127.0.0.1:{self.port}"
        self.dead = threading.Event()  # set: nothing is forwarded, and neither side notices
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._server)
            except OSError:
                client.close()
                continue
            self._open |= {client, server}
            for end in (client, server):  # pieces must not wait for an acknowledgement
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            least, most = self._bounds
            until = least + self._chance.randrange(most) if self.left > 0 else None
            self._bounds = 0, most
            seed = self._chance.random()
            for source, target, end in ((client, server, None), (server, client, until)):
                threading.Thread(target=self._forward, args=(source, target, end, seed), daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket, until: int | None, seed: float) -> None:
        chance, sent = random.Random(seed), 0
        with suppress(OSError):
            while data := source.recv(chance.choice((1, 7, 100, 4096, 65536))):
                while self.dead.is_set():
                    if self.dead.wait(0.01) and self._listening.fileno() < 0:
                        return
                if until is not None and sent + len(data) >= until:
                    target.sendall(data[: until - sent])
                    self.left -= 1
                    if chance.random() < 0.5:  # a reset, which throws away what was not read yet
                        target.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    break
                sent += len(data)
                if until is not None and chance.random() < 0.01:
                    threading.Event().wait(0.02)
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
            self._open.discard(end)

    def cut(self) -> None:
        """End all connections now."""
        for end in list(self._open):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listening.close()
        self.dead.clear()
        self.cut()
