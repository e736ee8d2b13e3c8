"""Reports of a thread and the GTIDs that it reads, noted until its groups are returned."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import TYPE_CHECKING, Any, NamedTuple

from .._decode.executed import Executed, Snapshot
from ..gtids import AnyGtidSet
from ..report import Report

if TYPE_CHECKING:
    from ..gtids import Gtid, MariadbGtid


class Note(NamedTuple):
    """A call to make later."""

    method: str
    arguments: tuple[Any, ...]
    more: dict[str, Any]


class NotedReport(Report):
    """A thread's reports. In strict mode it raises errors where the pass's own report would."""

    def __init__(self, strict: bool) -> None:
        super().__init__(strict, warn=False)
        self.notes: list[Note] = []

    def add(self, kind: str, **place: Any) -> None:
        super().add(kind, **place)
        self.notes.append(Note("add", (kind,), place))

    def add_each(self, of: Collection[Hashable], kind: str, **place: Any) -> None:
        super().add(kind, count=len(of), **place)
        self.notes.append(Note("add_each", (of, kind), place))

    def lose(self, path: str | None, start: int, end: int) -> None:
        self.notes.append(Note("lose", (path, start, end), {}))


class NotedExecuted(Executed):
    """The GTIDs that a thread reads; it does not know the earlier ones."""

    def __init__(self) -> None:
        super().__init__()
        self.notes: list[Note] = []

    def add(self, runs: bytes) -> None:
        if runs:
            self.notes.append(Note("add", (runs,), {}))

    def begin(self, before: AnyGtidSet) -> None:
        self.notes.append(Note("begin", (before,), {}))

    def contain(self, before: AnyGtidSet) -> None:
        self.notes.append(Note("contain", (before,), {}))

    def forget(self) -> None:
        self.notes.append(Note("forget", (), {}))

    def snapshot(self, running: Gtid | MariadbGtid | None = None) -> Snapshot:
        return Snapshot(None, [], 0, running)
