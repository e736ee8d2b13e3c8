"""Fake servers: they send these bytes to every client that connects."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

GREETING = (
    b"\x0a8.0.36\0\x01\0\0\0abcdefgh\0\xff\xf7\x2d\x02\0\xff\xdf\x15\0\0\0\0\0\0\0\0\0\0ijklmnopqrst\0"
    b"mysql_native_password\0"
)


def packet(number: int, payload: bytes) -> bytes:
    """A packet of the protocol."""
    return len(payload).to_bytes(3, "little") + bytes([number]) + payload


def field(value: bytes | None) -> bytes:
    """A field of a row in the text protocol."""
    if value is None:
        return b"\xfb"
    if len(value) < 251:
        return bytes([len(value)]) + value
    width, mark = (2, 252) if len(value) < 1 << 16 else (3, 253) if len(value) < 1 << 24 else (8, 254)
    return bytes([mark]) + len(value).to_bytes(width, "little") + value


def result_set(rows: Iterable[Sequence[bytes | None]], columns: int) -> bytes:
    """The answer to a statement that has rows."""
    end = b"\xfe\0\0\2\0"
    payloads = [
        bytes([columns]),
        *[b"\3def"] * columns,
        end,
        *(b"".join(map(field, row)) for row in rows),
        end,
    ]
    out, number = [], 1
    for payload in payloads:
        for at in range(0, len(payload) + 1, 0xFFFFFF):  # if the last piece is full, an empty one follows it
            out.append(packet(number % 256, payload[at : at + 0xFFFFFF]))
            number += 1
    return b"".join(out)


@contextmanager
def serving(talk: Callable[[socket.socket], None]) -> Iterator[str]:
    """The address of a server that answers every connection this way."""
    listening = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _ = listening.accept()
                threading.Thread(target=converse, args=(client,), daemon=True).start()

    def converse(client: socket.socket) -> None:
        with client, suppress(OSError):
            talk(client)

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"mysql://me:geheim@127.0.0.1:{listening.getsockname()[1]}"
    finally:
        with suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)
        listening.close()
