"""A hostile server on loopback: it greets, asks for a password by any method, answers, and sends any log."""

from __future__ import annotations

import datetime as dt
import socket
import ssl
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any

from .talk import GREETING, packet, serving
from .talk import field as value

PASSWORD = b"geheim"  # what `serving` has in its address
SALT = b"abcdefghijklmnopqrst"
COM_QUERY, COM_BINLOG_DUMP, COM_BINLOG_DUMP_GTID = 0x03, 0x12, 0x1E
OK, END = b"\0\0\0\2\0\0\0", b"\xfe\0\0\2\0"


class Raw(bytes):
    """Bytes that are sent as they are, without the header of a packet; then the connection ends."""


Answer = bytes | Sequence[Sequence[bytes | None]] | Callable[[str], "Answer"]


@dataclass
class HostileServer:
    """What it does, and what it got.

    Parameters
    ----------
    plugin : str
        The method of authentication in the greeting.
    switch : str or None
        The method that it then asks for.
    tls : ssl.SSLContext or None
        With one it has TLS; `certified` makes it.
    answers : mapping
        By the beginning of a statement: the payload of a packet (b"\xfb/etc/passwd" asks for a file), or
        rows. To others it answers OK.
    log : iterable of bytes, or a callable that returns one
        The events that it sends as its log; then it ends the dump.
    received : list of bytes
        Payloads of the packets that it got, those of the login first.
    """

    plugin: str = "mysql_native_password"
    switch: str | None = None
    tls: ssl.SSLContext | None = None
    answers: Mapping[str, Answer] = field(default_factory=dict)
    log: Iterable[bytes] | Callable[[], Iterable[bytes]] = ()
    received: list[bytes] = field(default_factory=list)

    def __call__(self, client: socket.socket) -> None:
        """Serve one connection; ``serving(server)`` calls it for each."""
        stream = client
        stream.sendall(packet(0, self.greeting()))
        number, login = self._take(stream)
        if self.tls is not None and len(login) == 32:
            stream = self.tls.wrap_socket(client, server_side=True)
            number, _ = self._take(stream)
        try:
            self._login(stream, number + 1)
            while True:
                self.answer(stream, self._take(stream)[1])
        finally:
            stream.close()

    def greeting(self) -> bytes:
        """What it says first."""
        said = GREETING.replace(b"mysql_native_password", self.plugin.encode())
        return said if self.tls is None else said.replace(b"\xff\xf7", b"\xff\xff", 1)

    def _take(self, stream: socket.socket) -> tuple[int, bytes]:
        with stream.makefile("rb", buffering=0) as file:
            head = _exactly(file, 4)
            payload = _exactly(file, int.from_bytes(head[:3], "little"))
        self.received.append(payload)
        return head[3], payload

    def _login(self, stream: socket.socket, number: int) -> None:
        turns = self.turns(secure=isinstance(stream, ssl.SSLSocket))
        payload = next(turns)
        while payload != OK:
            stream.sendall(packet(number, payload))
            got, reply = self._take(stream)
            number, payload = got + 1, turns.send(reply)
        stream.sendall(packet(number, OK))

    def turns(self, *, secure: bool) -> Generator[bytes, bytes, None]:
        """What it says in the login, each time given what the client replies; the last is OK."""
        method, reply = self.plugin, b"" if secure else b"\1"
        if self.switch is not None:
            method = self.switch
            first = b"\2Password: " if method == "dialog" else SALT + b"\0"
            reply = yield b"\xfe" + method.encode() + b"\0" + first
        if method == "caching_sha2_password":
            reply = yield b"\1\4"
        if method in ("caching_sha2_password", "sha256_password") and reply in (b"\1", b"\2"):
            yield b"\1" + public_key()
        yield OK

    def answer(self, stream: Any, command: bytes) -> None:
        """Answer a command; EOFError ends the connection."""
        if command[:1] == bytes([COM_QUERY]):
            sql = command[1:].decode("utf-8", "surrogateescape")
            answer = next((given for start, given in self.answers.items() if sql.startswith(start)), OK)
            while callable(answer):
                answer = answer(sql)
            if isinstance(answer, Raw):
                stream.sendall(answer)
                raise EOFError
            stream.sendall(packet(1, answer) if isinstance(answer, bytes) else framed(answer))
        elif command[0] in (COM_BINLOG_DUMP, COM_BINLOG_DUMP_GTID):
            numbers = cycle(range(256))
            next(numbers)
            for event in self.log() if callable(self.log) else self.log:
                stream.sendall(event if isinstance(event, Raw) else packet(next(numbers), b"\0" + event))
            stream.sendall(packet(next(numbers), END))
        else:
            stream.sendall(packet(1, OK))

    def got_password(self, password: bytes = PASSWORD) -> bool:
        """Whether it can now read the password."""
        return any(password in one or password == _decrypted(one) for one in self.received)


@contextmanager
def hostile(**server: Any) -> Iterator[tuple[HostileServer, str]]:
    """A hostile server, and its address with a user and `PASSWORD`."""
    made = HostileServer(**server)

    def talk(client: socket.socket) -> None:
        with suppress(EOFError):
            made(client)

    with serving(talk) as url:
        yield made, url


def framed(rows: Sequence[Sequence[bytes | None]]) -> bytes:
    """Rows with definitions of columns that PyMySQL reads, too: VARCHAR in utf8mb4."""
    count = len(rows[0]) if rows else 1
    column = b"\3def\0\0\0\1c\0\x0c\x2d\0\0\1\0\0\xfd\0\0\0\0\0"
    payloads = [bytes([count]), *[column] * count, END, *(b"".join(map(value, row)) for row in rows), END]
    out, number = [], 1
    for payload in payloads:
        for at in range(0, len(payload) + 1, 0xFFFFFF):  # if the last piece is full, an empty one follows it
            out.append(packet(number % 256, payload[at : at + 0xFFFFFF]))
            number += 1
    return b"".join(out)


def _exactly(file: Any, size: int) -> bytes:
    out = b""
    while len(out) < size:
        if not (piece := file.read(size - len(out))):
            raise EOFError
        out += piece
    return out


@cache
def _key() -> Any:
    from cryptography.hazmat.primitives.asymmetric import rsa

    return rsa.generate_private_key(65537, 2048)


def public_key() -> bytes:
    """Its public key, in PEM."""
    from cryptography.hazmat.primitives import serialization as form

    made: bytes = _key().public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo)
    return made


def _decrypted(payload: bytes) -> bytes | None:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding

    try:
        sha1 = hashes.SHA1()
        plain = _key().decrypt(payload, padding.OAEP(padding.MGF1(sha1), sha1, None))
    except ValueError:
        return None
    return bytes(byte ^ mask for byte, mask in zip(plain, cycle(SALT), strict=False)).rstrip(b"\0")


def certified(folder: Path) -> tuple[ssl.SSLContext, str]:
    """TLS with a certificate of its own for 127.0.0.1, and the path of that."""
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives import serialization as form

    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "db1")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder(
            name, name, _key().public_key(), 1, now - dt.timedelta(1), now + dt.timedelta(1)
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
        )
        .sign(_key(), hashes.SHA256())
    )
    path = folder / "server.pem"
    secret = _key().private_bytes(
        form.Encoding.PEM, form.PrivateFormat.TraditionalOpenSSL, form.NoEncryption()
    )
    path.write_bytes(made.public_bytes(form.Encoding.PEM) + secret)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context, str(path)
