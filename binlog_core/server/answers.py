"""What a server's answers to statements may hold: converters for the columns of their rows.

Each takes a value as the server prints it, None for NULL. ValueError: it is not what is expected.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .._sources.log_names import is_servers_name
from ..errors import GtidError, ProtocolError

Answer = list[tuple[Any, ...]]
Convert = Callable[[str | None], Any]

_UUID = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_NUMBER = re.compile(r"[0-9]{1,20}", re.ASCII)
_LONGEST_VERSION = 255


def maybe(value: str | None) -> str | None:
    """A text or NULL."""
    return value


def text(value: str | None) -> str:
    """A text."""
    if value is None:
        raise ValueError("NULL: expected a text")
    return value


def whole(value: str | None) -> int:
    """A number from 0 below 2**63; NULL is 0."""
    if value is None:
        return 0
    if not _NUMBER.fullmatch(value) or int(value) >= 1 << 63:
        raise ValueError("expected a number from 0, below 2**63")
    return int(value)


def version(value: str | None) -> str:
    """The server's version."""
    if value is None or not 0 < len(value) <= _LONGEST_VERSION or not value.isprintable():
        raise ValueError("expected a server's version")
    return value


def uuid(value: str | None) -> str | None:
    """The server's UUID; NULL: it has none."""
    if value is not None and not _UUID.fullmatch(value):
        raise ValueError("expected a server's UUID")
    return value


def log_name(value: str | None) -> str:
    """The name of a log."""
    if value is None or not is_servers_name(value):
        raise ValueError("expected the name of a log: printable, without / and not with - at its beginning")
    return value


def converted(rows: Sequence[Sequence[str | None]], columns: Sequence[Convert], least: int) -> Answer:
    """The rows of an answer, their first columns converted.

    Raises
    ------
    ValueError
        A value is not what it has to be, or there are fewer columns or rows.
    """
    if len(rows) < least:
        raise ValueError(f"{len(rows)} rows: expected {least} or more")
    out = []
    for row in rows:
        if len(row) < len(columns):
            raise ValueError(f"{len(row)} columns: expected {len(columns)} or more")
        begin = tuple(convert(value) for convert, value in zip(columns, row, strict=False))
        out.append((*begin, *row[len(columns) :]))
    return out


@contextmanager
def understood(statement: str) -> Iterator[None]:
    """What is not understood in the answer to a statement, or about a setting, is a `ProtocolError`."""
    try:
        yield
    except (ValueError, GtidError) as error:
        asked = " ".join(statement.split()[:2])[:60]  # what follows may be values
        why = error.message if isinstance(error, GtidError) else str(error)
        raise ProtocolError(f"the server's answer to {asked} is not valid: {why}") from None
