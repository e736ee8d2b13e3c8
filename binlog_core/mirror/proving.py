"""A running mirror compares its tables with the server's, one after the other, beside its rounds.

A view of the server is opened between two steps of the mirror, and the lake brought to exactly its place.
From there on a thread reads both: the rounds that follow leave the files of that moment as they are.
"""

from __future__ import annotations

import threading
import warnings
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field

from ..errors import BinlogError, MirrorError, ServerError, UnreachableError
from ..lake.apply.jobs import Folder
from ..lake.runner import HERE, GivenUp, LocalRunner
from ..report import BinlogWarning
from ..server.connection import Connection
from ..server.world import Started
from .comparing import MEANWHILE, Compared, Standing, bring_to, compared, message_of, planned, standing
from .copying import CHANGED, GONE
from .lake import Lake
from .mirroring import Mirroring
from .state import TableState
from .values import set_for_reading
from .viewing import Viewed, Viewer

_FOLDER = "proofs"
_EVERY = 3600.0  # seconds between two comparisons of a table
_AGAIN, _SOON = 600.0, 60.0  # seconds before another try with a table that could not be, or has changed
_LOOK = 10.0  # seconds between two looks for tables whose turn it is
_TOGETHER, _SECONDS = 64, 10.0  # tables in one view, and how long reading them may take, unless it is one
_LONGEST = 300.0  # seconds for a table on MariaDB, where others cannot alter it before a view ends
_LOCK_WAIT = 1  # seconds: the mirror waits as long, and so do writers
_ENDING = 30.0
_NAMED = 3  # keys of each kind, in a warning


@dataclass(frozen=True)
class _Job:
    """Tables that are compared in one view."""

    viewer: Viewer
    opened: ExitStack
    viewing: Connection
    asked: float
    parts: list[tuple[TableState, int, Standing, Viewed]]
    done: list[Compared] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)


class Proving:
    """Compares the tables of a running mirror.

    Parameters
    ----------
    lake : Lake
        The lake.
    rate : float or None
        The most bytes that it reads from the server in a second; None: it does nothing.
    """

    def __init__(self, lake: Lake, rate: float | None) -> None:
        self._lake, self._rate = lake, rate
        self._job: _Job | None = None
        self._thread: Started | None = None
        self._stop = threading.Event()
        self._next = 0.0
        self._waits: dict[str, float] = {}  # until when tables wait that could not be compared
        self._told: set[str] = set()

    def __enter__(self) -> Proving:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_ENDING)
        self._clear()

    def _clear(self) -> None:
        with suppress(MirrorError):  # what is left is removed by the next one
            self._lake.remove(_FOLDER)

    def __call__(self, work: Mirroring) -> None:
        """Take what was found, and begin with the tables whose last proof is the oldest.

        Raises
        ------
        UnreachableError
            The server is lost.
        """
        now = work.address.world.now()
        if self._rate is None or now < self._next:
            return
        if self._job is not None:
            if not self._job.ended.is_set():
                return
            job, self._job, self._thread = self._job, None, None
            self._take(work, job)
        if tables := self._due(work, self._rate):
            self._begin(work, tables, self._rate)
        if self._job is None:
            self._next = now + _LOOK

    def _due(self, work: Mirroring, rate: float) -> list[TableState]:
        """The tables to compare next: one, or some that are small."""
        world = work.address.world
        now, before = world.now(), world.time() - _EVERY
        waiting = [
            one
            for one in work.state.tables.values()
            if one.stage == "following" and one.suspect is None and (one.proved or 0) <= before
        ]
        waiting = [one for one in waiting if self._waits.get(one.full_name, 0) <= now]
        found: list[TableState] = []
        size = 0
        for one in sorted(waiting, key=lambda one: one.proved or 0)[:_TOGETHER]:
            try:
                own = sum(file.bytes for file in self._lake.opened(one).files())
            except Exception as error:  # of the format's library, the catalog and the stores below them
                self._leave_out(work, one, message_of(error))
                continue
            if work.mariadb and own / rate > _LONGEST:
                took = f"would take about {own / rate:,.0f} seconds, in which an ALTER TABLE of it waits"
                self._leave_out(work, one, f"that {took}: raise verify_rate, or run verify")
                continue
            if found and size + own > rate * _SECONDS:
                break
            size += own
            found.append(one)
        return found

    def _begin(self, work: Mirroring, tables: list[TableState], rate: float) -> None:
        with ExitStack() as opened:
            why = MEANWHILE
            try:
                viewed = self._planned(work, tables)
                tables = [one for one in tables if one.full_name in viewed]
                if not tables:
                    return
                viewer = self._viewer(work, tuple(viewed.values()))
                asked = work.address.world.time()
                viewing, mark = viewer.alone(opened)
                place = bring_to(work, mark, tables, asked)
            except UnreachableError:
                raise
            except BinlogError as error:
                place, why = None, message_of(error)
            if place is None:
                for one in tables:
                    self._leave_out(work, one, why)
                return
            parts = []
            for one in tables:
                try:
                    stands = standing(work, self._lake, one, place)
                except Exception as error:  # of the format's library, the catalog and the stores below them
                    self._leave_out(work, one, message_of(error))
                    continue
                parts.append((one, one.exact_from, stands, viewed[one.full_name]))
            self._job = _Job(viewer, opened.pop_all(), viewing, asked, parts)
        job = self._job
        self._thread = work.address.world.start(lambda: self._run(job, rate), "binlog_core mirror's proofs")

    def _planned(self, work: Mirroring, tables: list[TableState]) -> dict[str, Viewed]:
        found = {}
        with Connection(work.address) as connection:
            set_for_reading(connection)
            for one in tables:
                try:
                    viewed = planned(connection, self._lake, one, work, divided=False)
                except UnreachableError:
                    raise
                except Exception as error:  # also of the format's library, the catalog and the stores
                    self._leave_out(work, one, message_of(error))
                    continue
                if not viewed.has_snapshots:
                    self._leave_out(work, one, f"its engine, {viewed.engine or 'unknown'}, has no snapshots")
                    continue
                found[one.full_name] = viewed
        return found

    def _viewer(self, work: Mirroring, viewed: tuple[Viewed, ...]) -> Viewer:
        self._lake.make(_FOLDER)
        return Viewer(
            work.address,
            work.address.password,
            Folder(self._lake.own(_FOLDER), self._lake.storage_options),
            viewed,
            work.server,
            1,
            work.old,
            work.by_gtids,
            work.columns.key,
            work.placed,
            tries=1,
            lock_wait=_LOCK_WAIT,
        )

    # ------------------------------------------------------------ beside the rounds

    def _run(self, job: _Job, rate: float) -> None:
        def compare(part: tuple[TableState, int, Standing, Viewed]) -> Compared:
            _, _, stands, viewed = part
            try:
                seen = job.viewer.whole(job.viewing, viewed, rate)
                return compared(HERE, stands, viewed, job.viewer.into, seen)
            except Exception as error:  # also of Arrow and the stores
                if not isinstance(error, ServerError) or isinstance(error, UnreachableError):
                    job.viewing.close()  # rows may still be on their way
                changed = isinstance(error, ServerError) and error.code in GONE | CHANGED
                return Compared(stands.name, reason=MEANWHILE if changed else message_of(error))

        try:
            job.done.extend(LocalRunner(1).each(compare, job.parts, self._stop))
        except GivenUp:
            pass
        finally:
            job.opened.close()
            job.ended.set()

    # ------------------------------------------------------------ what was found

    def _take(self, work: Mirroring, job: _Job) -> None:
        self._clear()
        found = {one.table: one for one in job.done}
        for state, exact_from, *_ in job.parts:
            one = found.get(state.full_name)
            held = work.state.tables.get(state.full_name)
            if one is None or held is not state or state.stage != "following":
                continue
            if state.exact_from != exact_from:  # it was copied again since
                continue
            if one.agrees:
                state.proved = job.asked
            elif one.reason is not None:
                self._leave_out(work, state, one.reason)
            elif (reason := one.difference) is not None:
                _warn(f"{one.table}: {reason}: {_keys(one)}")
                work.suspect(state, reason)
        work.save(soon=True)

    def _leave_out(self, work: Mirroring, state: TableState, reason: str) -> None:
        wait = _SOON if reason == MEANWHILE else _AGAIN
        self._waits[state.full_name] = work.address.world.now() + wait
        text = f"{state.full_name} is not compared with the server's: {reason}"
        if reason != MEANWHILE and text not in self._told:
            self._told.add(text)
            _warn(text)


def _keys(one: Compared) -> str:
    """Some of the keys of rows that differ."""
    kinds = (("changed", one.changed), ("missing", one.missing), ("extra", one.extra))
    named = [f"{kind} {key!r}" for kind, keys in kinds for key in keys[:_NAMED]]
    return ", ".join(named) or "no rows"


def _warn(text: str) -> None:
    warnings.warn(text, BinlogWarning, stacklevel=2)
