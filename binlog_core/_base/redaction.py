"""Addresses, statements and texts for display: without passwords, signatures, keys and control characters.

Errors, reports, names of sources, output and manifests all use this, so that there is one place to check. The
addresses and statements that are used are not changed.
"""

from __future__ import annotations

import re
from functools import cache

HIDDEN = "***"
SQL_MODE_NO_BACKSLASH_ESCAPES = 1 << 20

_SCHEME = r"[A-Za-z][A-Za-z0-9+.\-]*://"
_IN_TEXT = rf"{_SCHEME}[^\s'\"<>`]+"
_SERVERS = ("mysql://", "mariadb://")
_WEB = ("http://", "https://")
_CONTAINERS = ("abfs://", "abfss://", "wasb://", "wasbs://")  # container@account
_SECRET_VALUE = r"([?&;#][^=&;#]*(?:sig|token|secret|pass|pwd|key|credential|auth|account)[^=&;#]*=)[^&;#]*"


@cache
def _pieces(backslash_escapes: bool) -> re.Pattern[str]:
    """Matches strings, anything that can hide a quote, and words after which a string may be a secret."""
    stop, escaped = (r"\\", r"\\(?:.|\Z)|") if backslash_escapes else ("", "")
    return re.compile(
        rf"""
          (?P<string> '(?:[^'{stop}]|{escaped}'')*+(?:'|\Z)
                    | "(?:[^"{stop}]|{escaped}"")*+(?:"|\Z)
                    | \b0x[0-9a-f]+ )
        | `[^`]*+`? | /\*(?!M?!).*?(?:\*/|\Z) | --\s[^\n]*+ | \#[^\n]*+
        | (?P<secret> IDENTIFIED\b | \w*PASSWORD | AUTHENTICATION_STRING | CONNECTION\b | ENCRYPTION_KEY
                    | \w+_(?:EN|DE)CRYPT\b )
        | \w++
        """,
        re.VERBOSE | re.IGNORECASE | re.DOTALL,
    )


def printable(text: str, *, keep: str = "") -> str:
    """Text that is safe for a terminal; other characters are escaped as in JSON.

    These are control characters, characters that change the direction of text, and bytes that are not text.

    Parameters
    ----------
    text : str
    keep : str
        Characters that stay.
    """
    if text.isprintable():
        return text
    import json

    return "".join(c if c.isprintable() or c in keep else json.dumps(c)[1:-1] for c in text)


def shown_url(address: str) -> str:
    """A URL without its user, password and signature; a path that is not a URL stays unchanged."""
    if "://" not in address:
        return address
    # fsspec chains: cache::https://…
    return "::".join(map(_one_url, address.split("::")))


def shown_text(text: str) -> str:
    """A message that may contain URLs, without their users, passwords and signatures."""
    return re.sub(_IN_TEXT, lambda found: shown_url(found[0]), text) if "://" in text else text


def shown_statement(sql: str, sql_mode: int | None = None) -> str:
    """A statement without its passwords: no string after a word such as IDENTIFIED is shown.

    Parameters
    ----------
    sql : str
    sql_mode : int or None
        The server's bit mask; NO_BACKSLASH_ESCAPES matters here.
    """
    secret = False

    def shown(found: re.Match[str]) -> str:
        nonlocal secret
        secret = secret or found["secret"] is not None
        return f"'{HIDDEN}'" if secret and found["string"] is not None else found[0]

    return shown_text(_pieces(not (sql_mode or 0) & SQL_MODE_NO_BACKSLASH_ESCAPES).sub(shown, sql))


def shown_cause(error: Exception) -> Exception | None:
    """The cause of an error, if it may be shown; None if its text reveals a secret."""
    return error if shown_text(str(error)) == str(error) else None


def split_login(address: str) -> tuple[str, str]:
    """User and password, and the rest, of the text after ``scheme://``; both may have ``/``, ``?`` and ``#``.

    They end at an @ in the host's part if there is one, otherwise at the last @, unless a port comes first.
    """
    authority = re.split(r"[/?#]", address, maxsplit=1)[0]
    if "@" in authority:
        login = authority.rpartition("@")[0]
        return login, address[len(login) + 1 :]
    _, colon, port = authority.partition(":")
    if colon and not authority.startswith("[") and not re.fullmatch(r"\d*", port) and "@" in address:
        login, _, place = address.rpartition("@")
        return login, place
    return "", address


def _one_url(url: str) -> str:
    found = re.fullmatch(rf"({_SCHEME})(.*)", url, re.DOTALL)
    if found is None:
        return url
    scheme, rest = found[1], found[2]
    kind = scheme.lower()
    if kind in _SERVERS:
        login, _, place = rest.rpartition("@")  # whatever a password holds
    else:
        login, place = split_login(rest)
    if kind in _WEB or kind in _SERVERS:
        # Any of its values may be the signature.
        place = re.sub(r"([?#]).*", rf"\1{HIDDEN}", place, count=1, flags=re.DOTALL)
    else:
        place = re.sub(_SECRET_VALUE, rf"\1{HIDDEN}", place, flags=re.IGNORECASE)
    if kind in _CONTAINERS and ":" not in login:
        return f"{scheme}{login}{'@' if login else ''}{place}"
    return f"{scheme}{f'{HIDDEN}@' if login else ''}{place}"
