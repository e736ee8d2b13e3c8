"""Reports what a mirror is doing to a process that will kill it."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

_WIDTH = 64
_COMMITS = ("exchange", "replace", "empty")
IDLE = "between"


def tell(path: str) -> None:
    """From now on, write to this place what the mirror in this process is doing."""
    from binlog_core.lake.tables.delta import DeltaLakeTable
    from binlog_core.lake.tables.iceberg import IcebergLakeTable
    from binlog_core.mirror import copies, copying, history, lake, mirroring

    file = os.open(path, os.O_WRONLY | os.O_CREAT)
    doing: list[str] = []

    def write() -> None:
        os.pwrite(file, (" ".join(dict.fromkeys(doing)) or IDLE).encode().ljust(_WIDTH), 0)

    def told(what: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            doing.append(what)
            write()
            try:
                return function(*arguments, **named)
            finally:
                doing.pop()
                write()

        return call

    watched: list[tuple[Any, str, str]] = [
        (copies.Copier, "_copy", "copy"),
        (copying, "commit_copy", "copy"),
        (mirroring, "decode", "decode"),
        (mirroring, "apply_round", "fold"),
        (mirroring, "compact", "compaction"),
        (mirroring.Mirroring, "archive", "archive"),
        (history.History, "append", "history"),
        (history.History, "begin", "history"),
        (lake.Lake, "save", "note"),
        (lake.Lake, "begin_round", "note"),
        *((table, name, "commit") for table in (DeltaLakeTable, IcebergLakeTable) for name in _COMMITS),
    ]
    for owner, name, what in watched:
        setattr(owner, name, told(what, getattr(owner, name)))
    write()


def phase(path: Path) -> str:
    """What the process that writes there was last doing."""
    return path.read_text().rstrip() if path.exists() else IDLE
