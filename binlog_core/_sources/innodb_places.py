"""Where transactions begin in an .ibb file, and in the log that is made of it.

A position in that log is the number of bytes before it, so it is found by counting from the file's beginning.
Some places are kept, so that nothing is counted twice.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from typing import NamedTuple

_STEP = 256 << 10  # bytes of the file or the log between two places that are kept


class Place(NamedTuple):
    """A place between two transactions.

    Parameters
    ----------
    offset : int
        In the file, where a record begins or a page's last chunk ends.
    position : int
        In the log.
    """

    offset: int
    position: int


BEGIN = Place(0, 0)


class Places:
    """Places in one file, shared by all that read it.

    Attributes
    ----------
    lock : Lock
        Held by the one who counts: the others would count the same bytes.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._offsets: list[int] = []
        self._positions: list[int] = []

    def add(self, offset: int, position: int) -> None:
        """Note a place, if it is behind all others by some distance."""
        if self._offsets and (
            offset < self._offsets[-1]
            or (offset < self._offsets[-1] + _STEP and position < self._positions[-1] + _STEP)
        ):
            return
        self._offsets.append(offset)
        self._positions.append(position)

    def last(self, position: int) -> Place:
        """The last known place at or before a position."""
        return self._at(bisect_right(self._positions, position))

    def last_in_file(self, offset: int) -> Place:
        """The last known place at or before an offset in the file."""
        return self._at(bisect_right(self._offsets, offset))

    def _at(self, count: int) -> Place:
        return Place(self._offsets[count - 1], self._positions[count - 1]) if count else BEGIN
