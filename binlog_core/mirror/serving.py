"""A running mirror answers what others ask of it: compares, copies again, pauses, takes tables in and out."""

from __future__ import annotations

import threading
from dataclasses import asdict
from typing import Any

from ..server.world import REAL, World
from .comparing import compare, message_of
from .lake import Lake
from .mirroring import Mirroring
from .reporting import statuses
from .requests import ADD, DROP, PAUSE, RESUME, VERIFY, Request, Requests
from .state import MirrorState


def change(state: MirrorState, kind: str, tables: tuple[str, ...]) -> None:
    """Do what a request of any kind but `VERIFY` says, in a mirror's state.

    Raises
    ------
    MirrorError
        The mirror does not have these tables.
    """
    chosen = state.chosen(tables) if kind != ADD else []
    if kind in (ADD, DROP):
        for pattern in tables:
            state.amend(pattern, wanted=kind == ADD)
        return
    for one in chosen:
        if kind == PAUSE:
            one.pause()
        elif kind == RESUME:
            one.resume()
        elif tables or one.stage == "parked" or one.suspect is not None:
            one.copy_anew()
            if tables:  # asked for by name: columns that it had may be gone
                one.forget_rules()
    if not tables and kind in (PAUSE, RESUME):
        state.paused = kind == PAUSE


class Serving:
    """Looks for requests while a mirror runs, and has them answered between its steps.

    Parameters
    ----------
    lake : Lake
        The lake.
    stop : threading.Event
        Ends the mirror when set.
    world : World
        Whose clock it goes by.

    Attributes
    ----------
    due : threading.Event
        Set while there are requests, and when the mirror is stopped: a long step then ends early.
    """

    def __init__(self, lake: Lake, stop: threading.Event, world: World = REAL) -> None:
        self._lake, self._stop, self._world = lake, stop, world
        self._requests = Requests(lake)
        self._at_it, self._lock = False, threading.Lock()
        self._ended = threading.Event()
        self.due = threading.Event()

    def __enter__(self) -> Serving:
        self._requests.forget()
        self._lake.held.answers()
        self._world.start(self._watch, "mirror-requests")
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()

    def _watch(self) -> None:
        seen: set[str] = set()
        while not self._world.wait(self._stop, self._requests.pause) and not self._ended.is_set():
            try:
                found = set(self._requests.waiting())
            except Exception:  # of a store: the mirror's own steps raise it
                continue
            with self._lock:  # it stays unset during an answer, whose steps are not to be cut short
                if not self._at_it:
                    if found - seen:
                        self.due.set()
                    seen = found
        self.due.set()

    def __call__(self, work: Mirroring) -> None:
        """Answer what is asked, unless this is one of the steps of an answer."""
        if self._at_it or not self.due.is_set() or self._stop.is_set():
            return
        with self._lock:
            self._at_it = True
            self.due.clear()
        try:
            for id in self._requests.waiting():
                if not self._stop.is_set():
                    self._serve(work, id)
            self._requests.forget_unfetched()
        finally:
            self._at_it = False

    def _serve(self, work: Mirroring, id: str) -> None:
        request, answer, error = self._requests.read(id), list[Any](), None
        if request is not None:
            try:
                answer = self._answer(work, request)
            except Exception as failed:  # who asked is told, and the mirror goes on
                error = message_of(failed)
        self._requests.answer(id, answer, error)

    def _answer(self, work: Mirroring, request: Request) -> list[Any]:
        if request.kind == VERIFY:
            work.state.chosen(request.tables)
            return [asdict(one) for one in compare(work, self._lake, request.tables, heal=True)]
        change(work.state, request.kind, request.tables)
        work.amended(look=request.kind == ADD)
        return [asdict(one) for one in statuses(self._lake, work.state, quick=True)]
