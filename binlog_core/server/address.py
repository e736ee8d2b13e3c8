"""Where a server is and how to get in: ``mysql://user@host1:3306,host2/?ssl_mode=REQUIRED`` and options.

Source: MySQL Reference Manual, "Connecting to the Server Using URI-Like Strings", "Using Option Files".
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote
from uuid import UUID

from .._sources.places import is_server
from .world import REAL, World

COMPRESSIONS = ("none", "zstd")
SSL_MODES = ("PREFERRED", "DISABLED", "REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY")
_PORT = 3306
_MOST_SECONDS = 365 * 86400
_SWITCH = dict.fromkeys(("1", "true", "yes", "on"), True) | dict.fromkeys(("0", "false", "no", "off"), False)

_Number = TypeVar("_Number", int, float)


@dataclass(frozen=True, slots=True)
class Address:
    """One server, or several that are tried in turn.

    Parameters
    ----------
    hosts : tuple of (str, int)
        Host names or addresses, and ports.
    user : str or None
        The user's name.
    password : str or None
        Never shown, and not pickled: an unpickled address takes the password from MYSQL_PWD.
    server_id : int or None
        The server id to register as a replica with; None: a random one, above 2**31.
    ssl_mode : str
        "PREFERRED" (TLS where the server has it), "DISABLED", "REQUIRED", "VERIFY_CA" or
        "VERIFY_IDENTITY".
    ssl_ca, ssl_cert, ssl_key : str or None
        PEM files. With ssl_ca, "PREFERRED" and "REQUIRED" are "VERIFY_CA".
    cleartext : bool
        Give the password in clear text to a server that asks for it (PAM, LDAP), over TLS that is verified
        or a Unix socket.
    get_server_public_key : bool
        Without TLS, encrypt the password with the key that the server sends, whoever that is.
    server_public_key : str or None
        PEM file of the server's key, with which the password is encrypted without TLS.
    socket : str or None
        Path of a Unix socket, instead of the hosts.
    connect_timeout : float
        Seconds for a connection with its handshake, and for each query.
    heartbeat : float
        Seconds after which a server that has nothing to send sends a heartbeat. A connection that is silent
        for twice as long counts as lost.
    reconnect : float
        Seconds to keep trying after a connection was lost, also the first; 0: not at all. A read that does
        not follow also ends after as long without anything new.
    semi_sync : bool
        Register as a semi-synchronous replica: the server's commits wait for ``log.acknowledge``.
    compression : str
        "none", or "zstd": the server compresses what it sends (MySQL 8.0.18 and later).
    error_texts : bool
        Add the server's own text to errors as a note. It can quote values of rows, so they do not have it
        otherwise, except for errors whose texts have none.
    ignore_missing_gtids : tuple of str
        UUIDs (MySQL) or domains (MariaDB) of writers whose purged transactions are not needed: a start at
        GTIDs that lacks them is not refused. As an option also a text with commas.
    world : World
        Makes connections and tells the time; not an option of an address.
    """

    hosts: tuple[tuple[str, int], ...]
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    server_id: int | None = None
    ssl_mode: str = "PREFERRED"
    ssl_ca: str | None = None
    ssl_cert: str | None = None
    ssl_key: str | None = None
    socket: str | None = None
    connect_timeout: float = 10.0
    heartbeat: float = 15.0
    reconnect: float = 300.0
    semi_sync: bool = False
    compression: str = "none"
    cleartext: bool = False
    get_server_public_key: bool = False
    server_public_key: str | None = None
    error_texts: bool = False
    ignore_missing_gtids: tuple[str, ...] = ()
    world: World = field(default=REAL, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.ssl_ca is not None and self.ssl_mode in ("PREFERRED", "REQUIRED"):
            object.__setattr__(self, "ssl_mode", "VERIFY_CA")  # a CA that verifies nothing is never meant

    @classmethod
    def of(
        cls,
        url: str,
        server: Mapping[str, Any] | None = None,
        *,
        password_file: str | os.PathLike[str] | None = None,
        defaults_file: str | os.PathLike[str] | None = None,
    ) -> Address:
        """Read a server's address.

        Parameters
        ----------
        url : str
            ``mysql://user:password@host:port,host:port/?option=value``; ``mariadb://`` is the same.
        server : mapping, optional
            Options by name; they take precedence over those in the URL.
        password_file : path, optional
            The password is its first line.
        defaults_file : path, optional
            An option file, as the vendors' clients read it: user, password, host, port, socket, and the
            options of TLS and of the login, in its groups for clients. The URL and `server` take precedence.

        Raises
        ------
        TypeError
            `server` is not a mapping, or a file is not given by its path.
        ValueError
            The address or an option's value is not valid, or an option is unknown.
        BinlogError
            A file cannot be read.
        """
        _check_kind("server", server, "a dict", Mapping)
        _check_kind(
            "password_file", password_file, "a path", (str, os.PathLike)
        )  # open(1) would end standard output
        _check_kind("defaults_file", defaults_file, "a path", (str, os.PathLike))
        hosts, found = _parse_url(url)
        found |= {name: value for name, value in (server or {}).items() if value is not None}
        if password_file is not None:
            found["password"] = _first_line(password_file)
        if defaults_file is not None:
            from .option_files import read_options

            given = read_options(defaults_file)
            if not hosts and "host" in given:
                hosts = ((given["host"], _port(given.get("port", ""))),)
            found = {name: value for name, value in given.items() if name not in ("host", "port")} | found
        found.setdefault("password", os.environ.get("MYSQL_PWD"))
        address = cls(hosts or (("localhost", _PORT),))
        return replace(address, **{name: _value(name, value) for name, value in found.items()})

    @property
    def name(self) -> str:
        """The address as errors and reports show it: without user, password and options."""
        hosts = ",".join(f"{_bracketed(host)}:{port}" for host, port in self.hosts)
        return f"mysql://{self.socket or hosts}"

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        left_out = ("password", "world")
        kept = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in left_out}
        return _unpickled, (kept,)


def _unpickled(kept: dict[str, Any]) -> Address:
    return Address(**kept, password=os.environ.get("MYSQL_PWD"))


def has_password(url: str) -> bool:
    """Whether an address contains a password; if in doubt, True."""
    rest = url.partition("://")[2]
    query = parse_qsl(rest.partition("?")[2], keep_blank_values=True)
    return ":" in rest.rpartition("@")[0] or any(name == "password" for name, _ in query)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _parse_url(url: str) -> tuple[tuple[tuple[str, int], ...], dict[str, Any]]:
    if not is_server(url):
        # The text there may contain a password, so it is not shown.
        raise ValueError("a server's address begins with mysql:// or mariadb://")
    rest = url.split("://", 1)[1]
    rest, _, query = rest.partition("?")
    if "@" in query:
        # The text there may be the rest of a password, so it is not shown.
        raise ValueError(
            "an @ after the ? of a server's address: ? in a password is %3F, @ in an option is %40"
        )
    rest, _, path = rest.partition("/")
    if path.strip("/"):
        # The text there may be the rest of a password, so it is not shown.
        raise ValueError("a server's address has no path: tables= selects databases, / in a password is %2F")
    login, at, hosts = rest.rpartition("@")
    found: dict[str, Any] = {}
    if at:
        user, colon, password = login.partition(":")
        found["user"] = unquote(user)
        if colon:
            found["password"] = unquote(password)
    for name, value in parse_qsl(query, keep_blank_values=True):
        found[name.replace("-", "_")] = value
    return tuple(_host(item) for item in hosts.split(",") if item), found


def _host(item: str) -> tuple[str, int]:
    host, port = item, ""
    if item.startswith("["):
        host, _, port = item[1:].partition("]")
        port = port.removeprefix(":")
    elif item.count(":") == 1:
        host, _, port = item.partition(":")
    return unquote(host), _port(port)


def _port(text: str) -> int:
    if text and not (text.isdecimal() and 0 < int(text) < 65536):
        raise ValueError(
            "the port of a host is not a number from 1 to 65535; in a password : is %3A and ? is %3F"
        )
    return int(text) if text else _PORT


def _writers(value: Any) -> tuple[str, ...]:
    """UUIDs or domains, as their GTIDs are printed."""
    given = value.split(",") if isinstance(value, str) else value
    if isinstance(given, int) or not isinstance(given, Iterable):
        given = [value]
    out = []
    for one in given:
        text = str(one).strip().lower()
        try:
            out.append(str(int(text)) if text.isdecimal() else str(UUID(text)))
        except ValueError:
            raise ValueError(
                "ignore_missing_gtids: expected UUIDs (MySQL) or domains (MariaDB), with commas between them"
            ) from None
    return tuple(out)


def _number(value: Any, kind: type[_Number]) -> _Number | None:
    try:
        return kind(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _value(name: str, value: Any) -> Any:
    """An option's value as `Address` has it. Errors do not show it: it may be the rest of a password."""
    if name == "password":
        text = None if value is None else str(value)
        try:
            (text or "").encode(
                "utf-8", "surrogateescape"
            )  # which MYSQL_PWD has for bytes that are not UTF-8
        except UnicodeEncodeError:
            # Python's own message has the place, and the character there.
            raise ValueError("password: expected Unicode characters") from None
        return text
    if name in ("user", "ssl_ca", "ssl_cert", "ssl_key", "socket", "server_public_key"):
        text = os.fspath(value)
        if "\0" in text:
            raise ValueError(f"{name}: expected a text without NUL")
        return text
    if name == "ssl_mode":
        mode = str(value).upper()
        if mode not in SSL_MODES:
            raise ValueError(f"ssl_mode: expected one of {', '.join(SSL_MODES)}")
        return mode
    if name == "ignore_missing_gtids":
        return _writers(value)
    if name == "compression":
        if value not in COMPRESSIONS:
            raise ValueError(f"compression: expected one of {', '.join(COMPRESSIONS)}")
        return value
    if name == "server_id":
        number = _number(value, int)
        if number is None or not 0 < number < 2**32:
            raise ValueError(f"server_id: expected 1 to {2**32 - 1}")
        return number
    if name in ("connect_timeout", "heartbeat", "reconnect"):
        seconds = _number(value, float)
        least = 0 if name == "reconnect" else 0.001
        if seconds is None or not least <= seconds <= _MOST_SECONDS:
            raise ValueError(f"{name}: expected seconds, from {least} to {_MOST_SECONDS}")
        return seconds
    if name in ("semi_sync", "cleartext", "get_server_public_key", "error_texts"):
        if isinstance(value, str) and value.lower() in _SWITCH:
            return _SWITCH[value.lower()]
        if isinstance(value, bool):
            return value
        raise ValueError(f"{name}: expected true or false")
    if name == "world" and isinstance(value, World):
        return value
    known = ", ".join(f for f in Address.__slots__ if f not in ("hosts", "password", "world"))
    raise ValueError(f"an option of the server is not known: expected one of {known}; ? in a password is %3F")


def _check_kind(option: str, value: object, what: str, kinds: Any) -> None:
    if not (value is None or isinstance(value, kinds)):
        raise TypeError(f"{option}= takes {what}, not {type(value).__name__}")


def _first_line(path: str | os.PathLike[str]) -> str:
    from ..errors import BinlogError

    try:
        with open(path, encoding="utf-8") as file:
            return file.readline(4096).rstrip("\r\n")
    except (OSError, ValueError) as exc:
        reason = "not UTF-8" if isinstance(exc, UnicodeError) else getattr(exc, "strerror", "not a path")
        raise BinlogError(f"the password file cannot be read: {reason}", path=os.fspath(path)) from None
