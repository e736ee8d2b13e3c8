"""Names of logs: a base and a number, as the server counts them."""

from __future__ import annotations

import re

_LOG_NAME = re.compile(r"(?P<base>[^./\\\0][^/\\\0]*)\.(?P<number>[0-9]{1,19})(?P<packed>\.zst)?")


def logs_among(names: list[str]) -> list[str]:
    """Names of logs, by number; of a plain log and its compressed copy the plain one."""
    found: dict[tuple[str, int], str] = {}
    for name in sorted(names):
        match = _LOG_NAME.fullmatch(name)
        if match:
            found.setdefault((match["base"], int(match["number"])), name)
    return [found[key] for key in sorted(found, key=lambda key: (key[1], key[0]))]


def number_of(name: str) -> int:
    """The number of a log."""
    match = _LOG_NAME.fullmatch(name)
    return int(match["number"]) if match else -1


def next_name(name: str) -> str:
    """What the server calls the log after this one."""
    base, _, number = name.rpartition(".")
    return f"{base}.{int(number) + 1:0{len(number)}}"


def is_log_name(name: str) -> bool:
    """Whether a name that a server gives can be a file's: a base and a number, no folder, not hidden."""
    match = _LOG_NAME.fullmatch(name)
    return match is not None and not match["packed"] and len(name) <= 240
