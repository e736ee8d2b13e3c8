"""What a piece of code does outside of itself, by Python's audit events."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import binlog_core

_CODE = (".py", ".pyc", ".so", ".pyi", ".json.gz")
_OWN = (sys.prefix, sys.base_prefix, str(Path(binlog_core.__file__).parent), "/proc/", "/sys/", "/dev/")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_CHANGES = (
    "os.remove",
    "os.rename",
    "os.mkdir",
    "os.rmdir",
    "os.link",
    "os.symlink",
    "os.truncate",
    "os.chmod",
)
_RUNS = (
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "os.startfile",
    "ctypes.dlopen",
)
_UNPICKLES = ("pickle.find_class",)


@dataclass
class Acts:
    """What was done.

    Parameters
    ----------
    reads, changes : set of str
        Files that were read; those that were written, made, renamed or removed.
    runs, connections, unpickled : list of str
    """

    reads: set[str] = field(default_factory=set)
    changes: set[str] = field(default_factory=set)
    runs: list[str] = field(default_factory=list)
    connections: list[str] = field(default_factory=list)
    unpickled: list[str] = field(default_factory=list)

    @property
    def only_reads(self) -> bool:
        """Whether nothing was changed, run, connected to or unpickled."""
        return not (self.changes or self.runs or self.connections or self.unpickled)


_watching: list[Acts] = []


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watching:
        return
    acts = _watching[-1]
    if event == "open":
        path, _, flags = arguments
        if isinstance(path, int):
            return
        text = os.fsdecode(path)
        if isinstance(flags, int) and flags & _WRITES:
            acts.changes.add(text)
        elif not text.endswith(_CODE) and not text.startswith(_OWN):
            acts.reads.add(text)
    elif event in _CHANGES:
        acts.changes.add(str(arguments[0]))
    elif event in _RUNS:
        acts.runs.append(str(arguments[0]))
    elif event == "socket.connect":
        acts.connections.append(str(arguments[1]))
    elif event in _UNPICKLES:
        acts.unpickled.append(".".join(map(str, arguments)))


sys.addaudithook(_note)


@contextmanager
def watched() -> Iterator[Acts]:
    """What is done inside of it, in all threads."""
    acts = Acts()
    _watching.append(acts)
    try:
        yield acts
    finally:
        _watching.remove(acts)
