"""Who works on a mirror, and since when: noted in the lake, so that others can say it."""

from __future__ import annotations

import datetime as dt
import json
import os
import socket
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from typing import Any

from .._base import own_files
from .._sources.object_stores import load_json
from ..lake.exports.manifests import MIRROR

_HOLDER = "holder.json"
_EVERY, _EVERY_IN_STORE = 1.0, 10.0  # seconds between two notes
_BEAT = 5.0  # seconds between two looks at whether a long step leaves a note out
_SILENT = 60.0  # seconds without a note, after which a process elsewhere no longer works
_LAST = 253402300800.0  # of the times that can be shown


@dataclass
class Holder:
    """A process that works on a mirror.

    Parameters
    ----------
    host : str
        The name of its machine.
    pid : int
        Its process id.
    since : float
        When it began, in seconds since 1970 UTC.
    seen : float
        When it wrote this.
    ended : bool
        Whether it ended then, and was not killed later.
    asked : float or None
        The tables that follow had everything that the server had committed by then.
    place : int or None
        The place of these tables in the log.
    answers : bool
        Whether it answers requests of others: see `requests`.
    """

    host: str
    pid: int
    since: float
    seen: float
    ended: bool = False
    asked: float | None = None
    place: int | None = None
    answers: bool = False

    @classmethod
    def here(cls) -> Holder:
        """This process."""
        now = time.time()
        return cls(socket.gethostname(), os.getpid(), now, now)

    @classmethod
    def of_json(cls, found: Any) -> Holder:
        """The process from what `Held` wrote.

        Raises
        ------
        ValueError, TypeError, KeyError
            It is something else.
        """
        one = cls(**{field.name: found[field.name] for field in fields(cls) if field.name in found})
        times = [one.since, one.seen, *(() if one.asked is None else (one.asked,))]
        numbers = [one.pid, *(() if one.place is None else (one.place,))]
        if not (
            isinstance(one.host, str)
            and one.host.isprintable()
            and all(isinstance(told, bool) for told in (one.ended, one.answers))
            and all(type(number) is int for number in numbers)
            and all(type(moment) in (int, float) and 0 <= moment < _LAST for moment in times)
        ):
            raise ValueError("not a process that works on a mirror")
        return one

    def __str__(self) -> str:
        since = dt.datetime.fromtimestamp(self.since, dt.UTC)
        return f"process {self.pid} on {self.host}, since {since:%Y-%m-%d %H:%M:%S} UTC"


class Held:
    """The note of the process that works on a mirror.

    Parameters
    ----------
    filesystem, path
        The lake.
    """

    def __init__(self, filesystem: Any, path: str) -> None:
        self._filesystem, self._path = filesystem, f"{path}/{MIRROR}/{_HOLDER}"
        self._local = filesystem.type_name == "local"
        self.holder: Holder | None = None  # this process
        self._next = 0.0
        self._writing = threading.Lock()
        self._ended = threading.Event()

    def begin(self) -> None:
        """Note that this process works on it, now and again until `end`: a copy may take hours."""
        self.holder = Holder.here()
        self._write()
        self._ended = threading.Event()
        threading.Thread(target=self._beat, args=(self._ended,), name="mirror-holder", daemon=True).start()

    def note(self, asked: float | None, place: int | None) -> None:
        """Note that it does; `asked`, `place`: see `Holder`."""
        holder = self.holder
        if holder is None:
            return
        with self._writing:
            if asked is not None:
                holder.asked, holder.place = asked, place
            if time.monotonic() >= self._next:
                self._write()

    def answers(self) -> None:
        """Note that it answers requests from now on."""
        with self._writing:
            if self.holder is not None:
                self.holder.answers = True
                self._write()

    def end(self) -> None:
        """Note that it has ended."""
        self._ended.set()
        with self._writing:
            holder = self.holder
            try:
                if holder is not None:
                    holder.ended = True
                    self._write()
            finally:
                self.holder = None

    def _beat(self, ended: threading.Event) -> None:
        while not ended.wait(_BEAT):
            with self._writing, suppress(Exception):  # of a store: the mirror's own steps raise it
                if not ended.is_set() and time.monotonic() >= self._next:
                    self._write()

    def read(self) -> Holder | None:
        """Who works on it, or did last; None: nobody ever did, or that cannot be read."""
        if self.holder is not None:
            return self.holder
        try:
            return Holder.of_json(load_json(self._filesystem, self._path))
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return None

    def is_at_work(self, holder: Holder, *, locked: bool | None) -> bool:
        """Whether a process still works; `locked`: whether the lake is locked here, None: it has no lock."""
        if holder is self.holder:
            return True
        if holder.ended:
            return False
        if locked is not None and holder.host == socket.gethostname():
            return locked
        return time.time() - holder.seen < _SILENT

    def _write(self) -> None:
        assert self.holder is not None
        self.holder.seen = time.time()
        self._next = time.monotonic() + (_EVERY if self._local else _EVERY_IN_STORE)
        data = json.dumps(asdict(self.holder)).encode()
        if self._local:  # it is worth nothing after a power failure
            hidden, root = f"{self._path}.new", self._filesystem.root
            with own_files.create(hidden, root) as file:
                file.write(data)
            own_files.rename(hidden, self._path, root)
            return
        with self._filesystem.open_output_stream(self._path) as sink:
            sink.write(data)
