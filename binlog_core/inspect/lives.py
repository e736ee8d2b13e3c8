"""Whose changes are whose: among the changes of some keys, those of the rows that had the wanted key."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from .._core._values import RowChange

_Key = tuple[Any, ...]


class _Changed(Protocol):
    @property
    def change(self) -> RowChange: ...


_Version = TypeVar("_Version", bound=_Changed)


@dataclass(slots=True)
class _Life(Generic[_Version]):
    """One row, while its key changes: its last changes, and how many it had."""

    changes: deque[tuple[int, _Version]]
    count: int = 0
    wanted: bool = False


class Lives(Generic[_Version]):
    """The changes of rows that had a key.

    Parameters
    ----------
    key_of : callable of image or None
        The key of a row.
    is_wanted : callable of key
        Whether a key is the wanted one.
    most : int or None
        How many changes are kept, the last ones. None: all.
    """

    def __init__(
        self,
        key_of: Callable[[Mapping[str, Any] | None], _Key],
        is_wanted: Callable[[_Key], bool],
        most: int | None,
    ) -> None:
        self._key_of, self._is_wanted, self._most = key_of, is_wanted, most
        self._rows: dict[_Key, _Life[_Version]] = {}  # which row has a key now
        self._ended: list[tuple[int, _Version]] = []  # changes of rows that had the wanted key
        self._ended_count = 0
        self.read = 0

    def add(self, version: _Version) -> None:
        """Take the next change."""
        before, after = version.change.before, version.change.after
        old = self._key_of(before)
        new = self._key_of(after if before is None or after is None else before | after)
        life = None if before is None else self._rows.pop(old, None)
        if life is None:
            life = _Life[_Version](deque(maxlen=self._most))
        life.changes.append((self.read, version))
        life.count += 1
        life.wanted |= (before is not None and self._is_wanted(old)) or (
            after is not None and self._is_wanted(new)
        )
        self.read += 1
        if after is None:
            self._end(life)
        else:
            self._end(self._rows.get(new))
            self._rows[new] = life

    def _end(self, life: _Life[_Version] | None) -> None:
        if life is None or not life.wanted:
            return
        self._ended += life.changes
        self._ended_count += life.count
        if self._most is not None and len(self._ended) > 2 * self._most:
            self._ended = self._last(self._ended)

    def _last(self, changes: list[tuple[int, _Version]]) -> list[tuple[int, _Version]]:
        changes.sort(key=lambda one: one[0])
        return changes if self._most is None else changes[-self._most :]

    def chosen(self) -> tuple[list[_Version], int]:
        """The last changes of the wanted rows in log order, and the number of those before them."""
        lives = [life for life in self._rows.values() if life.wanted]
        found = self._last([*self._ended, *(one for life in lives for one in life.changes)])
        count = self._ended_count + sum(life.count for life in lives)
        return [version for _, version in found], count - len(found)

    def kept(self, begin: int) -> list[_Version]:
        """The changes from a number on, in log order, also of rows that may have the wanted key later."""
        changes = [*self._ended, *(one for life in self._rows.values() for one in life.changes)]
        changes.sort(key=lambda one: one[0])
        return [version for i, version in changes if i >= begin]
