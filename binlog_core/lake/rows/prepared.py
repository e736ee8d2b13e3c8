"""What became of prepared XA transactions, for the reader of the part that has their rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Prepared(NamedTuple):
    """A transaction that ends with XA PREPARE in its log.

    Parameters
    ----------
    begin : int
        The position in its log where it begins.
    version : int or None
        The `_commit_version` of its rows, that of XA COMMIT; None if they are not to be read.
    microseconds : int
        When it was committed, in microseconds since 1970 UTC.
    """

    begin: int
    version: int | None
    microseconds: int


class XaRows:
    """The outcome for rows of prepared transactions.

    Parameters
    ----------
    prepared : sequence of Prepared
        The transactions, in the order in which they begin.
    """

    def __init__(self, prepared: Sequence[Prepared]) -> None:
        self._begin = np.array([one.begin for one in prepared], np.uint64)
        self._version = np.array([-1 if one.version is None else one.version for one in prepared], np.int64)
        self._time = np.array([one.microseconds for one in prepared], "M8[us]")

    def __bool__(self) -> bool:
        return len(self._begin) > 0

    def _places(self, begin: NDArray[np.uint64]) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
        places = np.minimum(np.searchsorted(self._begin, begin), max(len(self._begin) - 1, 0))
        return self._begin[places] == begin, places

    def kept(self, begin: NDArray[np.uint64]) -> NDArray[np.bool_] | None:
        """Whether each row is read, by where its transaction begins; None: all are."""
        if not len(self._begin) or not len(begin):
            return None
        there, places = self._places(begin)
        keep = ~there | (self._version[places] >= 0)
        return None if keep.all() else keep

    def change(
        self, begin: NDArray[np.uint64], versions: NDArray[np.int64], times: NDArray[np.datetime64]
    ) -> tuple[NDArray[np.int64], NDArray[np.datetime64]]:
        """The versions and times of rows, with those of XA COMMIT where they belong to these transactions."""
        if not len(self._begin) or not len(begin):
            return versions, times
        there, places = self._places(begin)
        return np.where(there, self._version[places], versions), np.where(there, self._time[places], times)
