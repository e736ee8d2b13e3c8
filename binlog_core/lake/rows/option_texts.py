"""What the text of an option stands for: the fields of options name these parsers."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable
from typing import Any, TypeVar, get_args

from ..._base.change_columns import LAKE_METADATA
from ..._sources.places import is_server
from ...errors import GtidError
from ...gtids import AnyGtidSet, parse_gtid_set
from ...schema.tokens import is_number

_UNITS = {
    "": 1,
    "b": 1,
    "k": 1 << 10,
    "kb": 1 << 10,
    "m": 1 << 20,
    "mb": 1 << 20,
    "g": 1 << 30,
    "gb": 1 << 30,
}
_SIZE = re.compile(r"(\d+)\s*([a-z]*)", re.IGNORECASE)
_T = TypeVar("_T")


def given_as(parse: Callable[[str], Any]) -> dict[str, Any]:
    """The metadata of a field: what the option's text stands for."""
    return {"parse": parse}


def one_of(kind: Any) -> dict[str, Any]:
    """The same, for an option that has one of a few values: those of a Literal."""
    values = get_args(kind)
    return {"parse": choice(*values), "values": values}


def choice(*known: _T) -> Callable[[str], _T]:
    """One of these values, in letters of either case."""

    def parse(text: str) -> _T:
        for value in known:
            if text.lower() == str(value).lower():
                return value
        raise ValueError(f"expected one of {', '.join(map(str, known))}")

    return parse


def boolean(text: str) -> bool:
    """true or false."""
    return choice("true", "false")(text) == "true"


def absence(text: str) -> bool | None:
    """true, false or auto, which is None."""
    return None if text.lower() == "auto" else choice("auto", "true", "false")(text) == "true"


def plain_address(text: str) -> str:
    """Refuse an address with a password: Spark shows its plan, and writes it to its logs."""
    from ...server.address import has_password

    if is_server(text) and has_password(text):
        raise ValueError(
            "a password would be in Spark's plan: give it as MYSQL_PWD, or a server's in passwordFile or"
            " defaultsFile"
        )
    return text


def server_address(text: str) -> str:
    """A server's URL without a password."""
    if not is_server(text):
        raise ValueError("expected mysql://user@host:port or mariadb://…")
    return plain_address(text)


def names(text: str) -> tuple[str, ...]:
    """Names separated by commas."""
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    if not found:
        raise ValueError("expected names separated by commas")
    return found


def metadata_columns(text: str) -> tuple[str, ...]:
    """full, none, or names of columns about the change."""
    if text.lower() == "full":
        return LAKE_METADATA
    if text.lower() == "none":
        return ()
    return tuple(choice(*LAKE_METADATA)(name) for name in names(text))


def moment(text: str) -> int:
    """ISO 8601 or seconds since 1970."""
    if is_number(text):
        return int(text)
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("expected ISO 8601, such as 2026-11-21T08:00:00, or seconds since 1970") from None
    if found.tzinfo is None:
        found = found.replace(tzinfo=dt.UTC)
    return max(int(found.timestamp()), 0)


def offset(text: str) -> tuple[str, int] | AnyGtidSet:
    """FILE:POSITION, or the same as JSON; or GTIDs."""
    if text.lstrip().startswith("{"):
        try:
            found = json.loads(text)
            return str(found["file"]), int(found["position"])
        except (KeyError, TypeError, ValueError):
            raise ValueError('expected {"file": …, "position": …}') from None
    try:
        if gtids := parse_gtid_set(text):
            return gtids
    except GtidError:
        pass
    file, _, position = text.rpartition(":")
    if not file or not is_number(position):
        raise ValueError("expected FILE:POSITION or GTIDs")
    return file, int(position)


def size(text: str) -> int:
    """Bytes, also with a unit."""
    found = _SIZE.fullmatch(text.strip())
    if not found or found[2].lower() not in _UNITS or not int(found[1]):
        raise ValueError("expected a number of bytes above 0, such as 134217728 or 128m")
    return int(found[1]) * _UNITS[found[2].lower()]


def size_or_none(text: str) -> int | None:
    """Bytes from an option's text; None for 0: no limit.

    Raises
    ------
    ValueError
        The text is not such a number.
    """
    return None if text.strip() == "0" else size(text)


def number(most: int) -> Callable[[str], int]:
    """A number from 0 to this one."""

    def parse(text: str) -> int:
        if not is_number(text) or int(text) > most:
            raise ValueError(f"expected a number from 0 to {most}")
        return int(text)

    return parse
