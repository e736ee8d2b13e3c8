"""Option files, as the vendors' clients read them: the groups for clients, the last value of each option.

Source: MySQL Reference Manual, "Using Option Files"; MariaDB, "Configuring MariaDB with Option Files".
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import BinlogError

_GROUPS = frozenset(("client", "client-server", "client-mariadb", "mysql", "mariadb-client"))
# fmt: off
_NAMES = {
    "user": "user", "password": "password", "host": "host", "port": "port", "socket": "socket",
    "ssl-mode": "ssl_mode", "ssl-ca": "ssl_ca", "ssl-cert": "ssl_cert", "ssl-key": "ssl_key",
    "connect-timeout": "connect_timeout",
    "enable-cleartext-plugin": "cleartext", "get-server-public-key": "get_server_public_key",
    "server-public-key-path": "server_public_key",
}
_SWITCHES = ("enable-cleartext-plugin", "get-server-public-key", "ssl", "ssl-verify-server-cert")
_OF_TLS = tuple(before + kind for before in ("", "skip-", "disable-", "enable-") for kind in ("ssl", "tls"))
_OFF = ("0", "off", "false", "no")
_STRICTER = ("DISABLED", "PREFERRED", "REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY")
_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "r": "\r", "\\": "\\", "s": " "}
# fmt: on
_WRITABLE_FILE = stat.S_IFREG | stat.S_IWOTH
_DEEPEST, _MOST = 10, 256  # files that include each other, and in all


def read_options(path: str | os.PathLike[str]) -> dict[str, str]:
    """A client's options from an option file, by the names of `Address`.

    Parameters
    ----------
    path : path
        The file; ``!include`` and ``!includedir`` in it are followed.

    Raises
    ------
    BinlogError
        The file cannot be read, includes itself, everybody may write to it, or it has an option of TLS that
        is not supported.
    """
    found: dict[str, str] = {}
    _read(os.path.expanduser(os.fspath(path)), found, [], [])
    modes = [found[name].upper() for name in ("ssl_mode", "ssl", "ssl-verify-server-cert") if found.get(name)]
    found.pop("ssl", None)
    found.pop("ssl-verify-server-cert", None)
    if modes and set(modes) <= set(_STRICTER):
        found["ssl_mode"] = max(modes, key=_STRICTER.index)
    return found


def _read(path: str, found: dict[str, str], above: list[str], read: list[str]) -> None:
    if len(above) > _DEEPEST or path in above:
        raise BinlogError("the option file includes itself", path=path)
    if len(read) == _MOST:
        raise BinlogError(f"the option file includes more than {_MOST} others", path=path)
    read.append(path)
    above = [*above, path]
    with _opening(path), open(path, encoding="utf-8", opener=_included if above[1:] else None) as file:
        if os.fstat(file.fileno()).st_mode & _WRITABLE_FILE == _WRITABLE_FILE:
            raise BinlogError(
                "everybody may write to the option file, so the servers' own clients ignore it: chmod o-w",
                path=path,
            )
        lines = file.read(1 << 20).splitlines()
    group = ""
    for line in map(str.strip, lines):
        if line.startswith("!includedir"):
            folder = line.removeprefix("!includedir").strip()
            with _opening(folder):
                names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
            for name in names:
                if name.endswith(".cnf"):
                    _read(os.path.join(folder, name), found, above, read)
        elif line.startswith("!include"):
            _read(line.removeprefix("!include").strip(), found, above, read)
        elif line.startswith("["):
            group = line.strip("[]").strip().lower()
        elif group in _GROUPS and line and line[0] not in "#;":
            name, equals, value = line.partition("=")
            name = name.strip().replace("_", "-").lower().removeprefix("loose-")
            _take(name, _unquoted(value.strip()) if equals else None, found, path)


@contextmanager
def _opening(path: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as exc:
        why = "not UTF-8" if isinstance(exc, UnicodeError) else getattr(exc, "strerror", "not a path")
        raise BinlogError(f"the option file cannot be read: {why}", path=path) from None


def _included(path: str, flags: int) -> int:
    """Open a file that another names: a FIFO would wait for its other end."""
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file")
    return descriptor


def _take(name: str, value: str | None, found: dict[str, str], path: str) -> None:
    """Keep an option; None is one without a value."""
    for prefix in ("skip-", "disable-", "enable-"):
        if name.startswith(prefix) and name.removeprefix(prefix) in _SWITCHES:
            name = name.removeprefix(prefix)
            off = prefix != "enable-"
            value = "true" if off == ((value or "true").lower() in _OFF) else "false"
    if name in _SWITCHES:
        on = (value or "true").lower() not in _OFF
        if name == "ssl":
            found["ssl"] = "REQUIRED" if on else "DISABLED"
        elif name == "ssl-verify-server-cert":
            found[name] = "VERIFY_IDENTITY" if on else ""
        else:
            found[_NAMES[name]] = "true" if on else "false"
    elif name in _NAMES:
        if value is not None:
            found[_NAMES[name]] = value
    elif name.startswith(_OF_TLS) and value != "":
        # Passed over, it would leave the connection weaker than the file says.
        shown = name if re.fullmatch(r"[a-z0-9-]{1,60}", name) else "an option for TLS"
        raise BinlogError(
            f"{shown} in the option file is not supported: of those for TLS ssl, ssl-mode, ssl-ca, ssl-cert,"
            " ssl-key and ssl-verify-server-cert are",
            path=path,
        )


def _unquoted(value: str) -> str:
    """A value without its quotes, escapes and a comment after it."""
    if value[:1] in ("'", '"') and (end := value.find(value[0], 1)) > 0:
        value = value[1:end]
    else:
        value = re.split(r"\s#", value, maxsplit=1)[0].rstrip()
    return re.sub(r"\\([btnr\\s])", lambda escape: _ESCAPES[escape[1]], value)
