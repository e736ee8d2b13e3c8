"""A disk of the world: it loses power, runs full, and fails, each at a call that the history names."""

from __future__ import annotations

import errno
import os
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future
from random import Random

from support.archive import DroppingFiles

POWER, KILLED, FULL, BROKEN = "power", "killed", "full", "broken"


class Disk(DroppingFiles):
    """A disk behind a cache; see `DroppingFiles` for what a cut of power leaves.

    Parameters
    ----------
    chance : Random
        Decides how much a write takes at once, and what of unsynced bytes is left.
    time : callable
        The machine's clock.

    Attributes
    ----------
    fault : str
        What is planned.
    refused : bool
        Whether a call failed since `plan`.
    """

    def __init__(self, chance: Random, time: Callable[[], float]) -> None:
        super().__init__(ragged=chance)
        self._time = time
        began = time()
        self._changed: dict[int, float] = defaultdict(lambda: began)  # by inode
        self.refused = False
        self._fails_at = 0
        self.fault = ""

    def plan(self, calls: int, fault: str) -> None:
        """Have something happen at the n-th call from now on.

        `POWER`: the machine ends there; `KILLED`: the process alone. `FULL`: that call and all that take
        space after it fail; `BROKEN`: that call alone.
        """
        self.calls, self.refused = 0, False
        self._fails_at, self.fault = calls, fault
        self.stop_at = calls if fault in (POWER, KILLED) else None

    def step(self) -> None:
        """The process does something else that others can see."""
        self._step()

    @property
    def alive(self) -> bool:
        """Whether the process goes on."""
        return self.stop_at is None or self.calls < self.stop_at

    def _step(self) -> None:
        super()._step()
        if self.fault == BROKEN and self.calls == self._fails_at:
            self._refuse(errno.EIO)

    def _refuse(self, number: int) -> None:
        self.refused = True
        raise OSError(number, os.strerror(number))

    def _take_space(self) -> None:
        if self.fault == FULL and self.calls >= self._fails_at:
            self._refuse(errno.ENOSPC)

    def open(self, path: str, *, new: bool = False) -> int:
        """See `Files.open`."""
        if new:
            self._take_space()
        return super().open(path, new=new)

    def write(self, descriptor: int, data: bytes | memoryview, position: int) -> int:
        """See `Files.write`; a part of it may still find room."""
        if self.fault == FULL and self.calls >= self._fails_at and (self.refused or len(data) < 2):
            self._refuse(errno.ENOSPC)
        written = super().write(descriptor, data, position)
        self._changed[self._paths[descriptor]] = self._time()
        if self.fault == FULL and self.calls >= self._fails_at:
            self.refused = True  # the next one finds none
        return written

    def changed_at(self, path: str) -> float:
        """See `Files.changed_at`; of a file of before: when the machine or the process began."""
        return self._changed[os.stat(path).st_ino]

    def sync_soon(self, descriptor: int) -> Future[None]:
        """See `Files.sync_soon`; here it is done at once, since a thread would make its own order."""
        done: Future[None] = Future()
        try:
            self.sync(descriptor)
        except BaseException as error:
            done.set_exception(error)
        else:
            done.set_result(None)
        return done
