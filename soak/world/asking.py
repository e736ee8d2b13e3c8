"""Somebody asks a mirror of the world: to compare, copy again, pause, go on, take tables in and out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from binlog_core.errors import MirrorError, UnreachableError
from binlog_core.mirror import add, drop, pause, requests, resume, resync, verify

from .history import Wrong
from .world import SimulatedWorld, Task

KINDS = ("verify", "resync", "pause", "drop")
_NOT_NOW = (  # answers of a mirror that does not do it
    "ended before it answered",
    "another process is working on this mirror",
    "has no mirror",
    "the mirror has no table",
)
_LOST = "the server does not answer", "the connection was lost"  # it went down, or a line failed, meanwhile
_LOCKED = "could not be locked"  # by an XA transaction


@dataclass(frozen=True)
class Ask:
    """What somebody asks.

    Parameters
    ----------
    at : float
        Seconds after the world's beginning.
    what : str
        One of `KINDS`.
    table : str
        The table, or a pattern of several.
    seconds : float
        After which it goes on, or is taken in again.
    """

    at: float
    what: str
    table: str
    seconds: float


def asks_of(chance: Random, last: float) -> tuple[Ask, ...]:
    """What is asked in a history, whose last step comes so many seconds after the world's beginning."""
    names = ("shop.orders", "shop.items", "stock.levels", "shop.*")
    found = [
        Ask(
            chance.uniform(0.0, last + 30),
            chance.choice(KINDS),
            chance.choice(names),
            chance.choice((0.5, 5.0)),
        )
        for _ in range(chance.choice((1, 2, 4)))
    ]
    return tuple(sorted(found, key=lambda one: one.at))


class Asker:
    """A process that asks, one thing after the other; one that dies with the mirror goes on with the next.

    Parameters
    ----------
    world : SimulatedWorld
    lake : Path
    asks : tuple of Ask
    until : float
        When tables that are paused or taken out go on.
    options : dict
        Of connections.
    runner : Runner
    patterns : tuple of str
        The tables of the mirror.
    """

    def __init__(
        self,
        world: SimulatedWorld,
        lake: Path,
        asks: tuple[Ask, ...],
        until: float,
        options: dict[str, Any],
        runner: Any,
        patterns: tuple[str, ...],
    ) -> None:
        self._world, self._lake, self._options, self._runner = world, lake, options, runner
        self._patterns = patterns
        self._asks, self._until = list(asks), until
        self._task: Task | None = None
        self.wrong: Exception | None = None
        self.done: list[str] = []  # what was done
        self.over = not asks

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Ask while a mirror works."""
        world = self._world
        clock = SimpleNamespace(
            time=world.time,
            time_ns=lambda: int(world.time() * 1e9),
            sleep=lambda seconds: world.let(_never, seconds),
        )
        with patch.object(requests, "time", clock):
            if not self.over and (self._task is None or self._task.over):
                self._task = world.start(self._ask_all, "asker")
            yield

    def _ask_all(self) -> None:
        try:
            while self._asks:
                one = self._asks[0]
                self._world.let(_never, max(0.0, min(one.at, self._until) - self._world.now()))
                if self._world.now() >= self._until:
                    break
                del self._asks[0]
                self._ask(one)
            self._world.let(_never, max(0.0, self._until - self._world.now()))
            self._go_on()
            self.over = True
        except Exception as error:
            self.wrong = error

    def _ask(self, one: Ask) -> None:
        """Ask for one thing, and see that it is done."""
        login = {"runner": self._runner, "options": self._options}
        if one.what == "verify":
            for compared in self._tried(lambda: verify(self._lake, one.table, **login)) or ():
                if compared.differ or compared.columns:
                    raise Wrong(f"verify, asked at {one.at}: {compared}")
        elif one.what == "resync":
            self._tried(lambda: resync(self._lake, one.table, **login))
        else:
            begin, end = (pause, resume) if one.what == "pause" else (drop, add)
            if (told := self._tried(lambda: begin(self._lake, one.table))) is None:
                return
            stages = {table.stage for table in told if fnmatchcase(table.table, one.table)}
            if stages - ({"paused", "parked", "dropped"} if one.what == "pause" else set()):
                raise Wrong(f"{one.what} {one.table} was answered by {told}")
            gone = {table.table for table in told if table.stage == "dropped"}  # taken in if it is made again
            before = self._rows(one.table, gone)
            self._world.let(_never, one.seconds)
            if (after := self._rows(one.table, gone)) != before:
                raise Wrong(f"{one.what} {one.table}, asked at {one.at}: {before} became {after}")
            self._tried(lambda: end(self._lake, one.table))
        self.done.append(one.what)

    def _go_on(self) -> None:
        """Whatever was asked, all tables go on."""
        while self._tried(lambda: resume(self._lake)) is None:
            self._world.let(_never, 1.0)
        while self._tried(lambda: add(self._lake, *self._patterns)) is None:
            self._world.let(_never, 1.0)

    def _tried(self, work: Callable[[], Any]) -> Any:
        """What is answered; None: it cannot be done now."""
        since = self._world.now()
        try:
            return work()
        except (MirrorError, UnreachableError) as error:
            text = str(error)
            if isinstance(error, UnreachableError) or any(one in text for one in _LOST):
                is_so = self._world.failed(since)
            elif _LOCKED in text:
                tables = (server.tables for server in self._world.hosts.values())
                is_so = any(one is not None and one.refused >= since for one in tables)
            else:
                is_so = any(one in text for one in _NOT_NOW)
            if not is_so:
                raise
            return None

    def _rows(self, pattern: str, gone: set[str]) -> dict[str, list[str]]:
        """The rows of some tables in the lake, without those that the server does not have."""
        import pyarrow as pa
        from deltalake import DeltaTable

        found = {}
        for log in sorted(self._lake.glob("*.*/_delta_log")):
            name = log.parent.name
            if fnmatchcase(name, pattern) and name not in gone and DeltaTable.is_deltatable(str(log.parent)):
                rows = pa.table(DeltaTable(str(log.parent)).scan().read_all()).to_pylist()
                found[name] = sorted(map(repr, rows))
        return found


def _never() -> bool:
    return False
