"""The open sources of a Log's passes, and which of its files cannot be opened again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from ..errors import BinlogError
from .sources import READ_ONCE

if TYPE_CHECKING:
    from ..position import Position
    from .log_files import LogFiles
    from .sources import Source


class _Opened(Protocol):
    def close(self) -> None: ...
    def acknowledge(self, position: Position) -> None: ...


class OpenSources:
    """The sources of some files, which are closed together.

    Parameters
    ----------
    files : LogFiles
    first : Source, optional
        The first file, if it is already open.

    Attributes
    ----------
    closed : bool
        Whether they are closed; then nothing is opened any more.
    """

    def __init__(self, files: LogFiles, first: Source | None = None) -> None:
        self.files = files
        self.flag = bytearray(1)  # not 0: closed. For the core, which checks it before each row.
        self._open: dict[int, _Opened] = {}  # by id
        self._read_once: set[int] = set()
        if first is not None:
            self._note(0, first)
        self._waiting: Source | None = None
        # The first is opened now, so that an unreadable file fails early; the first pass reads it.
        self.first = self._waiting = first if first is not None else self.open(0)
        self._open[id(self.first)] = self.first

    @property
    def closed(self) -> bool:
        """Whether the log was closed, which the core sees in `flag`, too."""
        return bool(self.flag[0])

    @closed.setter
    def closed(self, closed: bool) -> None:
        self.flag[0] = closed

    def take(self, i: int) -> Source:
        """The i-th file for one pass; for the first, the source that is already open, if there is one."""
        if i == 0 and (source := self._waiting) is not None:
            self._waiting = None
            self._open.pop(id(source), None)
            return source
        return self.open(i)

    def open(self, i: int) -> Source:
        """The i-th file, opened again for each call.

        Raises
        ------
        BinlogError
            It cannot be opened, or not a second time; or the log is closed.
        """
        self.check_open()
        file = self.files[i]
        if i in self._read_once:
            raise BinlogError(READ_ONCE, path=file.path)
        source = file.open()
        self._note(i, source)
        return source

    def _note(self, i: int, source: Source) -> None:
        if source.read_once:
            self._read_once.add(i)

    def is_read_once(self, i: int) -> bool:
        """Whether the i-th file was opened and cannot be opened again."""
        return i in self._read_once

    @contextmanager
    def kept(self, one: _Opened) -> Iterator[None]:
        """Close a source together with the others, for as long as this context lasts."""
        self._open[id(one)] = one
        try:
            yield
        finally:
            self._open.pop(id(one), None)

    def check_open(self) -> None:
        """Refuse to continue reading once `closed`."""
        if self.closed:
            raise BinlogError("the log is closed", path=self.files[0].path)

    def check_still_open(self, path: str | None = None) -> None:
        """The same in the middle of a pass."""
        if self.closed:
            raise BinlogError("the log was closed while it was read", path=path or self.files[0].path)

    def acknowledge(self, position: Position) -> None:
        """Let every open source know that what lies before a position is done with."""
        for opened in list(self._open.values()):
            opened.acknowledge(position)

    def close(self) -> None:
        """Close all."""
        self.closed = True
        for opened in list(self._open.values()):
            opened.close()
