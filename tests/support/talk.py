"""Servers that are made up: what a test writes to whoever connects."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

GREETING = (
    b"\x0a8.0.36\0\x01\0\0\0abcdefgh\0\xff\xf7\x2d\x02\0\xff\xdf\x15\0\0\0\0\0\0\0\0\0\0ijklmnopqrst\0"
    b"mysql_native_password\0"
)


def packet(number: int, payload: bytes) -> bytes:
    """A packet of the protocol."""
    return len(payload).to_bytes(3, "little") + bytes([number]) + payload


@contextmanager
def serving(talk: Callable[[socket.socket], None]) -> Iterator[str]:
    """The address of a server that talks so to whoever comes."""
    listening = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _ = listening.accept()
                with client, suppress(OSError):
                    talk(client)

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"mysql://me:geheim@127.0.0.1:{listening.getsockname()[1]}"
    finally:
        with suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)
        listening.close()
