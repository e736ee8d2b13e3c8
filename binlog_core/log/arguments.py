"""What is refused of the arguments of `open` as soon as they are given."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping
from operator import index
from typing import Any, SupportsIndex, cast, get_args

import numpy as np

from .._base.options import OPTIONS, check_choice
from .._base.times import as_utc
from .._decode.selection import MAX_POSITION
from .._sources.places import is_server
from .._tables import charsets
from ..gtids import GtidSet, MariadbGtidSet
from ..limits import Limits
from ..position import CommitRecord, Position

_VALUES = {name: get_args(one.values) for name, one in OPTIONS.items()}
_SWITCHES = {name: None in values for name, values in _VALUES.items() if bool in map(type, values)}
_CHOICES = [name for name, values in _VALUES.items() if isinstance(values[0], str)]
_TAKE: dict[str, tuple[str, Any]] = {  # what options take besides None
    "keys": ("a path or a dict", str | os.PathLike | Mapping),
    "storage_options": ("a dict", Mapping),
    "limits": ("binlog_core.Limits", Limits),
    "charset": ("a character set's name", str),
}


def check(target: object, given: Mapping[str, Any]) -> None:
    """Refuse arguments of `binlog_core.open` that make no sense, alone or together.

    Parameters
    ----------
    target : object
    given : mapping
        All options by their names.

    Raises
    ------
    TypeError, ValueError
    """
    for name, may_lack in _SWITCHES.items():  # "no" would turn something on
        value = given[name]
        if not (isinstance(value, bool | np.bool_) or (may_lack and value is None)):
            raise TypeError(f"{name}={value!r}: expected True or False")
    for name in _CHOICES:
        if name in given:
            check_choice(name, given[name])
    for name, (what, kinds) in _TAKE.items():
        if not (given[name] is None or isinstance(given[name], kinds)):
            raise TypeError(f"{name}= takes {what}, not {type(given[name]).__name__}")
    _check_numbers(given["server_id"], given["threads"])
    if is_server(target):
        _check_for_server(given)
    else:
        _check_for_files(target, given)
    charset, schema = given["charset"], given["schema"]
    if given["schema_start"] is not None and not (isinstance(schema, str) and schema == "ddl"):
        raise ValueError(
            'schema_start= needs schema="ddl": it gives the definitions before the first statement'
        )
    if charset is not None and not charsets.is_text(charset):
        raise ValueError(f"charset={charset!r} is not a character set of text: expected utf8mb4, latin1 …")


def _check_numbers(server_id: Any, threads: Any) -> None:
    for name, value in (("server_id", server_id), ("threads", threads)):
        if not _is_number(value) and not (value is None and name == "server_id"):
            raise TypeError(f"{name}= takes an int, not {type(value).__name__}")
    if server_id is not None and not 0 <= index(server_id) < 1 << 32:
        raise ValueError(f"server_id={server_id}: expected 0 to {(1 << 32) - 1}")
    if threads < 0:
        raise ValueError(f"threads={threads}: expected at least 1, or 0 for all processors")


def _is_number(value: object) -> bool:
    if isinstance(value, bool):
        return False
    try:
        index(cast(SupportsIndex, value))  # arrays have __index__ and refuse it
    except TypeError:
        return False
    return True


def _check_for_server(given: Mapping[str, Any]) -> None:
    if any(given[name] is not None for name in ("keys", "mmap", "storage_options")):
        raise ValueError("keys=, mmap= and storage_options= are for files: a server sends its logs itself")
    if isinstance(start := given["start"], CommitRecord):
        raise ValueError(f"start={start!r}: expected GTIDs, a datetime or a Position, since this is a server")


def _check_for_files(target: object, given: Mapping[str, Any]) -> None:
    if isinstance(target, list | tuple) and any(map(is_server, target)):
        raise ValueError("a server cannot be read together with other logs")
    if any(given[name] is not None for name in ("server", "password_file", "defaults_file")):
        raise ValueError(
            "server=, password_file= and defaults_file= are for servers: mysql://… or mariadb://…"
        )
    if isinstance(schema := given["schema"], str) and schema == "server":
        raise ValueError('schema="server" is for servers: for files expected schema="mysql://…" or "ddl"')
    if given["follow"] and isinstance(target, bytes | bytearray | memoryview):
        raise ValueError("follow=True is for logs that grow; bytes do not")
    start, stop = given["start"], given["stop"]
    for name, place in (("start", start), ("stop", stop)):
        _check_place(name, place)
    if isinstance(start, dt.datetime) and isinstance(stop, dt.datetime) and as_utc(start) > as_utc(stop):
        raise ValueError(f"start={start} is after stop={stop}")


def _check_place(argument: str, place: object) -> None:
    if place is None or isinstance(place, dt.datetime | Position):
        return
    if argument == "start" and isinstance(place, CommitRecord | GtidSet | MariadbGtidSet):
        return
    position: Any = place
    if isinstance(place, tuple) and len(place) == 2 and isinstance(place[0], str | os.PathLike):
        position = place[1]
    if not _is_number(position):
        more = "a datetime, a Position or a GTID set" if argument == "start" else "a datetime or a Position"
        raise TypeError(f"{argument}={place!r}: expected a position, (file name, position), {more}")
    if index(position) < 0:
        raise ValueError(f"{argument}={place!r}: expected a position of 0 or more")
    if index(position) > MAX_POSITION:
        raise ValueError(f"{argument}={place!r}: expected a position below 2**63")
