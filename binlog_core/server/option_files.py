"""Option files, as the vendors' clients read them: the groups for clients, the last value of each option.

Source: MySQL Reference Manual, "Using Option Files"; MariaDB, "Configuring MariaDB with Option Files".
"""

from __future__ import annotations

import os
import re

from ..errors import BinlogError

_GROUPS = frozenset(("client", "client-server", "client-mariadb", "mysql", "mariadb-client"))
# fmt: off
_NAMES = {
    "user": "user", "password": "password", "host": "host", "port": "port", "socket": "socket",
    "ssl-mode": "ssl_mode", "ssl-ca": "ssl_ca", "ssl-cert": "ssl_cert", "ssl-key": "ssl_key",
    "connect-timeout": "connect_timeout",
}
_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "r": "\r", "\\": "\\", "s": " "}
# fmt: on
_DEEPEST = 10


def read_options(path: str | os.PathLike[str]) -> dict[str, str]:
    """A client's options from an option file, by the names of `Address`.

    Parameters
    ----------
    path : path
        The file; ``!include`` and ``!includedir`` in it are followed.

    Raises
    ------
    BinlogError
        The file cannot be read, or includes itself.
    """
    found: dict[str, str] = {}
    _read(os.path.expanduser(os.fspath(path)), found, 0)
    return found


def _read(path: str, found: dict[str, str], depth: int) -> None:
    if depth > _DEEPEST:
        raise BinlogError("the option file includes itself", path=path)
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read(1 << 20).splitlines()
    except (OSError, UnicodeError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else "not UTF-8"
        raise BinlogError(f"the option file cannot be read: {why}", path=path) from None
    group = ""
    for line in map(str.strip, lines):
        if line.startswith("!includedir"):
            folder = line.removeprefix("!includedir").strip()
            for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
                if name.endswith(".cnf"):
                    _read(os.path.join(folder, name), found, depth + 1)
        elif line.startswith("!include"):
            _read(line.removeprefix("!include").strip(), found, depth + 1)
        elif line.startswith("["):
            group = line.strip("[]").strip().lower()
        elif group in _GROUPS and line and line[0] not in "#;":
            name, equals, value = line.partition("=")
            known = _NAMES.get(name.strip().replace("_", "-").lower())
            if known is not None and equals:
                found[known] = _unquoted(value.strip())


def _unquoted(value: str) -> str:
    """A value without its quotes, escapes and a comment after it."""
    if value[:1] in ("'", '"') and (end := value.find(value[0], 1)) > 0:
        value = value[1:end]
    else:
        value = re.split(r"\s#", value, maxsplit=1)[0].rstrip()
    return re.sub(r"\\([btnr\\s])", lambda escape: _ESCAPES[escape[1]], value)
