"""One connection to a server, made by PyMySQL: TLS, queries and results, limited in time and bytes."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Self

from ..errors import AuthenticationError, MissingExtraError, ProtocolError, ServerError, UnreachableError
from ..gtids import MariadbGtidSet, parse_gtid_set
from .address import Address
from .answers import Answer, Convert, converted, maybe, text, understood, whole
from .answers import uuid as as_uuid
from .answers import version as as_version
from .authentication import guarded, unverified
from .compressed import Frames, compressed
from .refusals import clean_text, is_passing, refusal
from .result_set import RECEIVED, Rows, raise_refusal, result_rows

_HANDSHAKE_BYTES = 1 << 20
_SAFE = (1, 2, 1)  # PyMySQL before asks no handler which key it may encrypt a password with
_ANSWER_BYTES = 4 << 20
LIST_BYTES = 64 << 20  # of logs, tables or GTIDs: half a million of them
_ANSWER_COLUMNS = 64  # SHOW REPLICA STATUS has the most
_PACKET_BYTES = 128  # what a row takes here, however short it is
_OTHER_NAME = (62, 64)  # OpenSSL: X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH
_ROW_BYTES = 4 << 30  # a row of LONGBLOBs
_COM_QUERY = 3
_CLIENT_ERRORS = range(2000, 3000)
_LOST = frozenset((2003, 2006, 2013, 2055))
_TLS_REFUSED = 2026
_WHOLE = "SET SESSION sql_select_limit = 18446744073709551615"  # the server's setting may cut all results
_NO_TLS = "set it up there (ssl_cert, ssl_key), or ssl_mode=DISABLED"
_NO_ANSWER = "check that it runs, its host and port, and that no firewall blocks it"
_ENGINE = "binlog_storage_engine"
_SET_LOG_BIN = (
    "set log_bin in its option file (on RDS turn on automated backups; on Aurora only the writer has logs)"
)
_RESET = (BrokenPipeError, ConnectionResetError, ConnectionAbortedError)  # while it is made: it was there
_CUT = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)


class _Bounds:
    """The time and the bytes that the server may still take for the current answer."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.end: float | None = None
        self.left = self.columns = 0

    def renew(self, seconds: float, size: int, columns: int = 0) -> None:
        self.end, self.left = self.now() + seconds, size
        self.columns = max(columns, _ANSWER_COLUMNS)

    def count(self, size: int) -> None:
        """Count received bytes."""
        if self.end is not None:
            self.left -= size
            if self.left < 0:
                raise _TooMuch


class _TooMuch(Exception):
    """The server sends more bytes than an answer has; not an OSError, which PyMySQL takes for a lost line."""


def _bounded(kind: Any, bounds: _Bounds) -> Any:
    """A class of sockets that limit time and size, however slowly bytes arrive."""

    class Bounded(kind):  # type: ignore[misc]
        def recv_into(self, *arguments: Any, **keywords: Any) -> int:
            if bounds.end is not None:
                left = bounds.end - bounds.now()
                if left <= 0:
                    raise TimeoutError("no complete answer in time")
                self.settimeout(left)
            count: int = super().recv_into(*arguments, **keywords)
            bounds.count(count)
            return count

    return Bounded


def _counting(kind: Any, bounds: _Bounds) -> Any:
    """A class of PyMySQL connections that count the rows and columns of an answer, too."""
    from pymysql.protocol import FieldDescriptorPacket, MysqlPacket

    class Packet(MysqlPacket):  # type: ignore[misc]
        def raise_for_error(self) -> None:
            raise_refusal(self._data)

    class Counting(kind):  # type: ignore[misc]
        def _read_packet(self, packet_type: Any = Packet) -> Any:
            if packet_type is FieldDescriptorPacket:
                bounds.columns -= 1
                if bounds.columns < 0:
                    raise _TooMuch
            packet = super()._read_packet(packet_type)
            bounds.count(_PACKET_BYTES)
            return packet

    return Counting


@dataclass(frozen=True, slots=True)
class Facts:
    """What a server says about itself.

    Parameters
    ----------
    version : str
        The result of VERSION().
    mariadb : bool
        Whether it is MariaDB.
    server_id : int
        Its server id.
    uuid : str or None
        MySQL's; MariaDB has none.
    checksum : str
        "CRC32" or "NONE", for the events that it writes now.
    gtids : bool
        Whether transactions have GTIDs: always on MariaDB, with gtid_mode=ON on MySQL.
    executed : str
        gtid_executed, or MariaDB's gtid_binlog_pos.
    by_gtids_only : bool
        Whether its log has no files and positions: MariaDB with binlog_storage_engine=innodb.
    """

    version: str
    mariadb: bool
    server_id: int
    uuid: str | None
    checksum: str
    gtids: bool
    executed: str
    by_gtids_only: bool = False

    @property
    def number(self) -> tuple[int, ...]:
        """The version as numbers: (8, 4, 3)."""
        text = self.version.split("-")[0]
        return tuple(int(part) for part in text.split(".") if part.isdecimal())


class Connection:
    """A connection to the first of an address's hosts that accepts it.

    Parameters
    ----------
    address : Address
        Where the server is, and how to log in.
    hosts : sequence of (str, int), optional
        Hosts to try, in this order; by default the address's own.

    Attributes
    ----------
    name : str
        ``mysql://host:port``, for errors.
    host : (str, int)
        The host that accepted the connection.
    thread_id : int
        The server's number of the connection.

    Raises
    ------
    UnreachableError
        None of the hosts answers.
    AuthenticationError
        A host refuses the user.
    ProtocolError
        What answers is not a server, or asks for something that no server may, such as a local file.
    MissingExtraError
        PyMySQL, or for some passwords cryptography, is not installed.
    """

    def __init__(self, address: Address, hosts: Any = None) -> None:
        self.address = address
        self._bounds = _Bounds(address.world.now)
        failed: list[UnreachableError] = []
        for host in hosts or address.hosts:
            self.host: tuple[str, int] = host
            self.name = f"mysql://{address.socket}" if address.socket else f"mysql://{host[0]}:{host[1]}"
            try:
                self._connection = self._connect(host)
                return
            except UnreachableError as error:
                failed.append(error)
        if len(failed) == 1:
            raise failed[0]
        none = UnreachableError("; ".join(str(error) for error in failed), path=address.name)
        none.lost = any(error.lost for error in failed)
        raise none

    def _connect(self, host: tuple[str, int]) -> Any:
        try:
            import pymysql
        except ImportError:
            raise MissingExtraError.of("PyMySQL", "live", "reading a server") from None
        if pymysql.VERSION[:3] < _SAFE:
            raise MissingExtraError.of("PyMySQL 1.2.1 or later", "live", "a login that is safe")
        address = self.address
        self._bounds.renew(address.connect_timeout, _HANDSHAKE_BYTES)
        connection = reached = None
        try:
            kind = _counting(pymysql.connections.Connection, self._bounds)
            if address.compression == "zstd":
                kind = compressed(kind, self._bounds.count)
            connect = guarded(kind, address, self._public_key())
            connection = connect(
                host=host[0],
                port=host[1],
                user=address.user,
                password=(address.password or "").encode("utf-8", "surrogateescape"),
                charset="utf8mb4",
                autocommit=True,
                init_command=_WHOLE,
                connect_timeout=max(address.connect_timeout, 0.001),
                local_infile=False,
                conv={},
                program_name="binlog_core",
                defer_connect=True,
                **self._tls(),
            )
            if getattr(connection, "ctx", None) is not None:
                connection.ctx.sslsocket_class = _bounded(ssl.SSLSocket, self._bounds)
            reached = self._socket(host)
            connection.connect(reached)
            return connection
        except Exception as exc:
            if connection is not None:
                connection._force_close()
            error = self._error(exc, "connecting")
            if isinstance(error, UnreachableError):
                # What takes a connection and says nothing may be something else than a server.
                greeted = hasattr(connection, "server_version")
                made = reached is not None or isinstance(exc, _RESET)
                error.lost = made and (greeted or not _timed_out(exc))
            raise error from None

    def _tls(self) -> dict[str, Any]:
        address = self.address
        if address.ssl_mode == "DISABLED":
            return {"ssl_disabled": True}
        if address.ssl_mode == "PREFERRED" and not address.ssl_cert:
            return {}
        if not address.ssl_mode.startswith("VERIFY"):
            context = unverified()
        else:
            with self._reading("ssl_ca", address.ssl_ca):
                context = ssl.create_default_context(cafile=address.ssl_ca)
        # The servers' own certificates, made at their first start, lack extensions that strictness wants.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        context.check_hostname = address.ssl_mode == "VERIFY_IDENTITY"
        if address.ssl_cert:
            with self._reading("ssl_cert and ssl_key", f"{address.ssl_cert}, {address.ssl_key}"):
                context.load_cert_chain(address.ssl_cert, address.ssl_key)
        return {"ssl": context}

    def _public_key(self) -> bytes | None:
        path = self.address.server_public_key
        if path is None:
            return None
        with self._reading("server_public_key", path), open(path, "rb") as file:
            return file.read(1 << 16)

    @contextmanager
    def _reading(self, option: str, value: str | None) -> Iterator[None]:
        """Name the option in the error if its file cannot be read."""
        try:
            yield
        except OSError as exc:
            why = exc.reason if isinstance(exc, ssl.SSLError) else exc.strerror
            raise AuthenticationError(f"{option} cannot be read ({value}): {why}", path=self.name) from None

    def _socket(self, host: tuple[str, int]) -> Any:
        """A connected socket that limits time and size."""
        address = self.address
        kind = _bounded(address.world.socket_class, self._bounds)
        return address.world.connect(kind, host, address.socket, address.connect_timeout)

    # ------------------------------------------------------------ queries

    @property
    def thread_id(self) -> int:
        return int(self._connection.thread_id())

    def query(
        self,
        sql: str,
        *columns: Convert,
        least: int = 0,
        most: int = _ANSWER_BYTES,
        right: str = "REPLICATION SLAVE",
        patience: float | None = None,
    ) -> Answer:
        """The rows of a statement, every value as the server prints it, or converted.

        Parameters
        ----------
        sql : str
            The statement.
        *columns : callable
            Convert the first columns: see `answers`.
        least : int
            How many rows there must be.
        most : int
            Bytes that the answer may have: `LIST_BYTES` for one that grows with the server's contents.
        right : str
            The privilege that the user needs for it, for the error.
        patience : float or None
            Seconds that the server may take; None: the address's timeout.

        Raises
        ------
        ServerError
            The server refuses, the connection is lost, or the answer is not what it has to be.
        """
        try:
            self._bounds.renew(patience or self.address.connect_timeout, most, len(columns))
            with self._connection.cursor() as cursor:
                cursor.execute(sql)
                rows = cursor.fetchall()
            with understood(sql):
                return converted(rows, columns, least)
        except Exception as exc:
            raise self._error(exc, "a query", right=right) from None

    def stream(self, sql: str, *, patience: float = 600.0, most: int = RECEIVED) -> Iterator[Rows]:
        """The rows of a statement as they come, many at a time.

        Until all rows are read, the connection cannot be used for anything else: to stop before, close it.

        Parameters
        ----------
        sql : str
            The statement.
        patience : float
            Seconds that the server may be silent.
        most : int
            Bytes that are received together, if no row is longer.

        Raises
        ------
        ServerError
            The server refuses, or the connection is lost.
        """
        frames, sock = self.frames, self._connection._sock

        def receive(room: memoryview) -> int:
            self._bounds.renew(patience, _ROW_BYTES)
            if frames is None:
                return int(sock.recv_into(room))
            while not (got := frames.take(room)):
                if not (count := sock.recv_into(frames.room())):
                    return 0
                frames.received(count)
            return got

        try:
            self._bounds.renew(patience, _ANSWER_BYTES)
            self._connection._execute_command(_COM_QUERY, sql)
            if frames is not None:
                frames.expect(1)
            yield from result_rows(receive, most=most, numbered=frames is None)
        except Exception as exc:
            raise self._error(exc, "a query", right="SELECT") from None

    def command(self, code: int, arguments: bytes) -> None:
        """Send a command of the protocol; the answer, if it has one, is the caller's."""
        try:
            self._renew()
            self._connection._execute_command(code, arguments)
        except Exception as exc:
            raise self._error(exc, "a command") from None

    def take_ok(self) -> None:
        """Read the answer of a command that has no rows."""
        try:
            self._connection._read_packet()
        except Exception as exc:
            raise self._error(exc, "a command") from None

    def _renew(self) -> None:
        self._bounds.renew(self.address.connect_timeout, _ANSWER_BYTES)

    def take_socket(self) -> socket.socket:
        """The socket itself, not blocking; from here on the caller handles everything received."""
        self._bounds.end = None
        taken: socket.socket = self._connection._sock
        taken.setblocking(False)
        return taken

    @property
    def frames(self) -> Frames | None:
        """The decompressor for the socket's bytes; None: they are not compressed."""
        found: Frames | None = getattr(self._connection, "frames", None)
        return found

    def facts(self) -> Facts:
        """Ask the server for its facts. This does not need a privilege."""
        version: str = self.query("SELECT VERSION()", as_version, least=1)[0][0]
        mariadb = "mariadb" in version.lower()
        gtids = "gtid_binlog_pos" if mariadb else "gtid_executed"
        names = ["server_id", "log_bin", "binlog_checksum", "server_uuid", "gtid_mode", gtids, _ENGINE]
        found = self.variables(names)
        if found.get("log_bin") not in ("1", "ON"):
            raise ServerError(
                f"the server does not write a binary log (log_bin is OFF): {_SET_LOG_BIN}", path=self.name
            )
        executed = "".join(found.get(gtids, "").split())
        with understood("SHOW VARIABLES"):
            if executed and isinstance(parse_gtid_set(executed), MariadbGtidSet) != mariadb:
                raise ValueError("expected GTIDs of the server's vendor")
            return Facts(
                version=version,
                mariadb=mariadb,
                server_id=whole(found.get("server_id")),
                uuid=None if mariadb else as_uuid(found.get("server_uuid")),
                checksum=found.get("binlog_checksum") or "NONE",
                gtids=mariadb or found.get("gtid_mode", "").upper() == "ON",
                executed=executed,
                by_gtids_only=found.get(_ENGINE, "").lower() == "innodb",
            )

    def variables(self, names: list[str]) -> dict[str, str]:
        """Global variables by name; those that the server does not have are left out."""
        wanted = ", ".join(f"'{name}'" for name in names)
        rows = self.query(
            f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({wanted})", text, maybe, most=LIST_BYTES
        )
        return {name.lower(): value for name, value, *_ in rows if value is not None}

    # ------------------------------------------------------------ life

    def close(self) -> None:
        """End it without telling the server; may be called again."""
        if (sock := self._connection._sock) is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)  # otherwise a thread that waits for an answer would wait on
        self._connection._force_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Connection {self.name}>"

    def _error(self, exc: Exception, doing: str, *, right: str = "REPLICATION SLAVE") -> Exception:
        """An exception as an error of binlog_core."""
        if isinstance(exc, ServerError | MissingExtraError):
            return exc.located(path=self.name)
        code, text = _code_and_text(exc)
        refused = code is not None and code >= 1000 and code not in _CLIENT_ERRORS and not is_passing(code)
        if doing != "connecting" and not refused:
            self.close()  # its next bytes may belong to this answer
        cause = _cause(exc)
        if isinstance(cause, _CUT) or getattr(cause, "reason", None) == "UNEXPECTED_EOF_WHILE_READING":
            return UnreachableError("the connection was lost in the TLS handshake", path=self.name)
        if isinstance(cause, ssl.SSLError):
            why = clean_text(getattr(cause, "verify_message", "") or cause.reason or "the handshake failed")
            return AuthenticationError(
                f"TLS with the server failed: {why}; ssl_mode is {self.address.ssl_mode}{_tls_cure(cause)}",
                path=self.name,
            )
        if isinstance(cause, _TooMuch):
            return ProtocolError("the server's answer is larger than any can be", path=self.name)
        if isinstance(cause, OSError):
            why = clean_text(cause.strerror or str(cause) or type(cause).__name__)
            return UnreachableError(f"the server does not answer: {why}: {_NO_ANSWER}", path=self.name)
        for library in ("cryptography", "PyNaCl"):
            if library.lower() in text:
                return MissingExtraError.of(library, "live", "this password's encryption", path=self.name)
        if code in _LOST or (code is not None and (code == 0 or is_passing(code))):
            return UnreachableError(f"the connection was lost: {clean_text(text)}", code=code, path=self.name)
        if code == _TLS_REFUSED:
            return AuthenticationError(
                f"TLS with the server failed: {clean_text(text)}: {_NO_TLS}", path=self.name
            )
        if code is not None and refused:
            return refusal(
                code,
                text,
                getattr(exc, "sqlstate", None),
                path=self.name,
                right=right,
                logged_in=doing != "connecting",
                texts=self.address.error_texts,
            )
        # Other errors: PyMySQL fails on unexpected bytes (struct.error, IndexError, AssertionError …).
        return ProtocolError(
            "the answer is not in MySQL's protocol, check host and port:"
            f" {clean_text(text) or type(exc).__name__}",
            code=code,
            path=self.name,
        )


def _timed_out(exc: Exception) -> bool:
    return any(isinstance(one, TimeoutError) for one in (exc, exc.__context__, _cause(exc)))


def _cause(exc: Exception) -> Any:
    """What PyMySQL made its error of, where it says so."""
    return getattr(exc, "original_exception", exc)


def _tls_cure(cause: ssl.SSLError) -> str:
    if not isinstance(cause, ssl.SSLCertVerificationError):
        return ""
    if cause.verify_code in _OTHER_NAME:
        return ": VERIFY_CA does not compare the name"
    return ": ssl_ca= names the certificates to trust, REQUIRED trusts any"


def _code_and_text(exc: Exception) -> tuple[int | None, str]:
    """Number and text of PyMySQL's errors, which are their arguments."""
    arguments = exc.args
    if len(arguments) >= 2 and isinstance(arguments[0], int):
        return arguments[0], str(arguments[1])
    return None, str(exc)
