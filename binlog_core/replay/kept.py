"""Statements that wait for the events after them."""

from __future__ import annotations

import os
import tempfile
from array import array
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ..errors import BinlogError


class Kept:
    """Statements in a temporary file, by number.

    Parameters
    ----------
    most : int
        The most bytes of the file.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._file = tempfile.TemporaryFile(prefix="binlog-core-")  # noqa: SIM115  (closed in close)
        self._ends = array("Q", [0])
        self._written = 0

    def __len__(self) -> int:
        return len(self._ends) - 1

    def add(self, statement: str) -> None:
        """Append a statement, which is ASCII.

        Raises
        ------
        BinlogError
            The file would be larger than allowed, or cannot be written.
        """
        data = statement.encode("ascii")
        with _writing():
            self._file.write(data)
        end = self._ends[-1] + len(statement)
        if end > self._most:
            raise BinlogError(
                f"the statements that have to be kept take more than Limits.spool_bytes={self._most}:"
                " choose a smaller range"
            )
        self._ends.append(end)

    def __getitem__(self, i: int) -> str:
        """The statement of a number, from 0."""
        if self._written < self._ends[-1]:
            with _writing():
                self._file.flush()
            self._written = self._ends[-1]
        begin, end = self._ends[i], self._ends[i + 1]
        parts = []
        while begin < end:
            part = os.pread(self._file.fileno(), end - begin, begin)
            if not part:
                raise OSError("the temporary file is shorter than what was written to it")
            parts.append(part)
            begin += len(part)
        return b"".join(parts).decode("ascii")

    def close(self) -> None:
        """Delete the file."""
        with suppress(OSError):  # what it still buffers no longer matters
            self._file.close()


@contextmanager
def _writing() -> Iterator[None]:
    """An OSError as an error that says which file it is about."""
    try:
        yield
    except OSError as error:
        raise BinlogError(
            f"the temporary file for statements cannot be written: {error.strerror}: choose a smaller range,"
            " or name a directory with more room in TMPDIR",
            path=tempfile.gettempdir(),
        ) from error
