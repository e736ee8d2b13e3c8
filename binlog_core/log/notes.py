"""What a thread has found, as values for the pass: what it reports, and the GTIDs that it reads."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import TYPE_CHECKING, Any, NamedTuple

from .._decode.executed import Executed, GtidsBefore, Snapshot
from ..gtids import AnyGtidSet
from ..report import Report

if TYPE_CHECKING:
    from ..gtids import Gtid, MariadbGtid


class Found(NamedTuple):
    """What is added to a report so many times; `place` is as in `Report.add`, `of` as in `add_each`."""

    kind: str
    times: int
    place: dict[str, Any]
    of: tuple[Hashable, ...] = ()


class Lost(NamedTuple):
    """A range of bytes that could not be read."""

    path: str | None
    start: int
    end: int


class ThreadReport(Report):
    """A thread's report. In strict mode it raises errors where the pass's own report would."""

    def __init__(self, strict: bool) -> None:
        super().__init__(strict, warn=False)
        self.found: list[Found | Lost] = []

    def add(self, kind: str, *, count: int = 1, **place: Any) -> None:
        super().add(kind, count=count, **place)
        self.found.append(Found(kind, count, place))

    def add_each(self, of: Collection[Hashable], kind: str, **place: Any) -> None:
        super().add(kind, count=len(of), **place)
        self.found.append(Found(kind, len(of), place, tuple(of)))

    def lose(self, path: str | None, start: int, end: int) -> None:
        self.found.append(Lost(path, start, end))


class ThreadExecuted(Executed):
    """The GTIDs that a thread reads; it does not know the earlier ones."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[bytes | GtidsBefore] = []

    def add(self, runs: bytes) -> None:
        if runs:
            self.steps.append(runs)

    def begin(self, before: AnyGtidSet) -> None:
        self.steps.append(GtidsBefore(before))

    def contain(self, before: AnyGtidSet) -> None:
        self.steps.append(GtidsBefore(before, added=True))

    def forget(self) -> None:
        self.steps.append(GtidsBefore(None))

    def snapshot(self, running: Gtid | MariadbGtid | None = None) -> Snapshot:
        return Snapshot(None, [], 0, running)
