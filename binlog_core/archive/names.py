"""Names of logs as a server gives them, and as an archive has them: no folder, and zstd or nothing around."""

from __future__ import annotations

from .._sources.log_names import LogName


def logs_among(names: list[str]) -> list[str]:
    """Names of logs, by number; of a plain log and its compressed copy the plain one."""
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
    """What the server calls the log after this one."""
    found = LogName.of(name)
    assert found is not None
    return f"{found.base}.{found.number + 1:0{len(found.digits)}}"


def is_log_name(name: str) -> bool:
    """Whether a name that a server gives can be a file's: a base and a number, no folder, not hidden."""
    found = _name(name)
    return found is not None and not found.packed and len(name) <= 240


def _name(text: str) -> LogName | None:
    found = LogName.of(text)
    if found is None or found.packed not in ("", ".zst") or not found.base or found.base[0] == ".":
        return None
    return None if set("/\\\0") & set(found.base) else found
