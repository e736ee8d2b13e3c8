"""Names of logs on a server and in an archive, without folder; in an archive possibly compressed by zstd."""

from __future__ import annotations

from .._sources.log_names import LogName, is_servers_name


def logs_among(names: list[str]) -> list[str]:
    """Names of logs, by number; the plain one if there is a compressed copy, too."""
    found: dict[tuple[int, str], str] = {}
    for text in sorted(names):
        if name := _name(text):
            found.setdefault((name.number, name.base), text)
    return [found[key] for key in sorted(found)]


def number_of(name: str) -> int:
    """The number of a log."""
    found = LogName.of(name)
    return found.number if found is not None else -1


def next_name(name: str) -> str:
    """The server's name for the next log."""
    found = LogName.of(name)
    assert found is not None
    return f"{found.base}.{found.number + 1:0{len(found.digits)}}"


def is_log_name(name: str) -> bool:
    """Whether a server's name for a log can be a file name: a base and a number, no folder, not hidden."""
    found = _name(name)
    return found is not None and not found.packed and len(name) <= 240 and is_servers_name(name)


def _name(text: str) -> LogName | None:
    found = LogName.of(text)
    if found is None or found.packed not in ("", ".zst") or not found.base or found.base[0] == ".":
        return None
    return None if set("/\\\0") & set(found.base) else found
