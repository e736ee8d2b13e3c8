"""The growing log: complete events only, on disk before they count, cut back after a crash."""

from __future__ import annotations

import os
from concurrent.futures import Future, wait
from typing import NamedTuple

import numpy as np

from .._format.event_header import (
    FIRST_EVENT,
    FLAGS_AT,
    HEADER_LENGTH_V3,
    IN_USE_FLAG,
    NEXT_POSITION_AT,
    type_of,
)
from .._format.event_types import EventType
from .._format.magic import MAGIC
from ..errors import ArchiveError, DecodeError, FormatError, NotABinlogError, OtherHistory
from ..log.opening import open as open_log
from .files import Files, as_archive_error, write_all

_FLAGS = FIRST_EVENT + FLAGS_AT  # of the descriptor: the first event of a log
_PIECE = 1 << 20  # bytes compared at a time
# Cleared in a descriptor that is sent for a place inside its log; the checksum goes with them.
_SENT_OTHERWISE = (
    slice(NEXT_POSITION_AT, HEADER_LENGTH_V3),
    slice(HEADER_LENGTH_V3 + 52, HEADER_LENGTH_V3 + 56),
    slice(-4, None),
)


class Found(NamedTuple):
    """How much of a log on disk can be trusted.

    Parameters
    ----------
    size : int
        Where the last complete event ends; 0 if not even the descriptor is complete.
    closed : bool
        The log was finished: its descriptor is not marked as in use.
    checksummed : bool
        Whether its events have checksums, and all are right.
    """

    size: int
    closed: bool
    checksummed: bool


def whole_events(path: str) -> Found:
    """Walk a log up to the end of its last complete event.

    Raises
    ------
    BinlogError
        It cannot be read.
    """
    end = 0
    if os.path.getsize(path) <= FIRST_EVENT:
        return Found(0, False, False)
    try:
        log = open_log(path, mmap=False)
    except (DecodeError, FormatError, NotABinlogError):  # not even the descriptor is complete
        return Found(0, False, False)
    with log:
        try:
            for headers in log.header_chunks():
                last = headers[-1]
                end = int(last["position"]) + int(last["event_length"])
        except DecodeError:  # after what was given, events are torn
            pass
        if not end:
            return Found(0, False, False)
        return Found(end, not log.format.in_use, log.format.checksum != "none")


class GrowingLog:
    """One log of the archive, open for appending.

    Parameters
    ----------
    files : Files
    path : str
    found : Found or None
        The content of an existing log; None for a new one.

    Attributes
    ----------
    size : int
        Bytes written, all of complete events.
    synced : int
        Bytes that would survive a power failure.
    compared : int
        Up to here the bytes are known to equal the server's.
    """

    def __init__(self, files: Files, path: str, found: Found | None = None) -> None:
        self._files = files
        self.path = path
        self.name = os.path.basename(path)
        self.checksummed = found is not None and found.checksummed
        self._flags = b"\0"  # the first byte of the descriptor's flags, as the server's closed log has it
        with as_archive_error(path, "open the log"):
            self._descriptor = files.open(path, new=found is None)
        self.size = self.synced = 0
        self._may_be_torn = True
        self._behind: tuple[int, Future[None]] | None = None  # what is being put on disk beside the stream
        self.compared = FIRST_EVENT
        try:
            if found is not None:
                self._take_up(found)
            with as_archive_error(path, "make the log"):
                # Also of one that is there: the process that made it may have ended before this.
                files.sync_directory(os.path.dirname(path) or ".")
        except BaseException:
            self.close()
            raise

    def _take_up(self, found: Found) -> None:
        with as_archive_error(self.path, "write to the disk"):
            # Data written before a crash may be only in the system's cache.
            self._files.sync(self._descriptor)
        self.size = self.synced = found.size
        if found.size:
            self._flags = bytes([self.read(1, _FLAGS)[0] & ~IN_USE_FLAG])

    def _trim(self) -> None:
        """Cut off what a crash left after the last complete event, once the server has sent those bytes."""
        if self._may_be_torn:
            with as_archive_error(self.path, "cut the log back to its last complete event"):
                if self._files.size(self._descriptor) != self.size:
                    self._files.truncate(self._descriptor, self.size)
                    self._files.sync(self._descriptor)  # a cut of power would bring them back
            self._may_be_torn = False

    # ------------------------------------------------------------ growing

    @property
    def position(self) -> int:
        """Where the next event begins."""
        return max(self.size, FIRST_EVENT)

    def take(self, data: memoryview, position: int) -> int:
        """Append complete events; those that the log already has are compared.

        Parameters
        ----------
        data : memoryview
            Whole events as the server sent them.
        position : int
            Position of their first byte in the log; at most the log's own position.

        Returns
        -------
        int
            Bytes appended.

        Raises
        ------
        OtherHistory
            The server's log has different bytes.
        ArchiveError
            A disk operation fails. The log then ends at a complete event.
        """
        if position > self.position:
            raise ArchiveError(
                f"the server sent events from {position} on: expected from {self.position} on",
                path=self.path,
                offset=self.position,
            )
        known = min(self.size - position, len(data)) if self.size else 0
        if known > 0 and not self._is_same(data[:known], position):
            # Lost in a power failure, in a log without checksums: the server's bytes replace them.
            self.cut_back(position)
            known = 0
        if known > 0:
            data = data[known:]
            self.compared = max(self.compared, position + known)
        if data:
            self._append(data)
        return len(data)

    def _append(self, data: memoryview) -> None:
        self._trim()
        if self.size == 0:
            if type_of(data) != EventType.FORMAT_DESCRIPTION:
                raise ArchiveError("the server's log does not begin with its descriptor", path=self.path)
            self._flags = bytes([data[FLAGS_AT] & ~IN_USE_FLAG])
            head = bytearray(MAGIC + data[:HEADER_LENGTH_V3])
            head[_FLAGS] |= IN_USE_FLAG  # as the server's own file has it until it is closed
            data = memoryview(bytes(head) + data[HEADER_LENGTH_V3:])
        try:
            write_all(self._files, self._descriptor, data, self.size)
        except OSError as error:
            reason = error.strerror or str(error)
            # A part may have been written: leave complete events only.
            with as_archive_error(
                self.path, f"write ({reason}), nor cut the log back to its last complete event"
            ):
                self._files.truncate(self._descriptor, self.size)
            raise ArchiveError(f"cannot write: {reason}", path=self.path, offset=self.size) from error
        self.size += len(data)
        self.compared = self.size

    def _is_same(self, data: memoryview, position: int) -> bool:
        """Whether the log has these bytes; False: it lost some in a power failure."""
        same = True
        for at in range(0, len(data), _PIECE):
            same &= self._is_same_piece(data[at : at + _PIECE], position + at)
        return same

    def _is_same_piece(self, data: memoryview, position: int) -> bool:
        here = bytearray(self.read(len(data), position))
        if position <= _FLAGS < position + len(here):
            here[_FLAGS - position] = (
                here[_FLAGS - position] & ~IN_USE_FLAG | data[_FLAGS - position] & IN_USE_FLAG
            )
        if here == data:
            return True
        mine = np.frombuffer(here, np.uint8)
        differs = np.flatnonzero(mine != np.frombuffer(data, np.uint8)[: len(mine)])
        first = position + (int(differs[0]) if len(differs) else len(mine))
        if self.checksummed or mine[differs].any():
            raise OtherHistory(
                "the server's log of this name has other bytes than the archive's: it was started again"
                " (RESET, a restored server), or it is another server's",
                path=self.path,
                offset=first,
            )
        return False

    def cut_back(self, position: int) -> None:
        """Remove the events from a place on."""
        self._end_behind()
        self.size = self.synced = position if position > FIRST_EVENT else 0
        self._may_be_torn = True
        self._trim()

    def is_log_of(self, description: bytes | memoryview) -> bool:
        """Whether a descriptor that was sent for a place inside a log is that of this one."""
        if not self.size:
            return False
        here = bytearray(self.read(len(description), FIRST_EVENT))
        sent = bytearray(description)
        for part in _SENT_OTHERWISE:
            here[part] = sent[part] = bytes(len(sent[part]))
        return here == sent

    def read(self, size: int, position: int) -> bytes:
        """Bytes of the log."""
        parts = []
        with as_archive_error(self.path, "read the log"):
            while size and (part := self._files.read(self._descriptor, size, position)):
                parts.append(part)
                size -= len(part)
                position += len(part)
        return b"".join(parts)

    # ------------------------------------------------------------ ending

    def sync(self) -> None:
        """Return once everything appended would survive a power failure."""
        self._end_behind()
        if self.synced == self.size:
            return
        with as_archive_error(self.path, "write to the disk"):
            self._files.sync(self._descriptor)
        self.synced = self.size

    def sync_behind(self) -> None:
        """Start to sync the appended bytes, and note how far that is done; more can be appended meanwhile."""
        if self._behind is not None and self._behind[1].done():
            self._end_behind()
        if self._behind is None and self.synced != self.size:
            self._behind = self.size, self._files.sync_soon(self._descriptor)

    def _end_behind(self) -> None:
        behind, self._behind = self._behind, None
        if behind is not None:
            with as_archive_error(self.path, "write to the disk"):
                behind[1].result()
            self.synced = max(self.synced, behind[0])

    def leave(self) -> None:
        """Put it on disk without what a crash left after its last event: it goes on nowhere."""
        if self.size:
            self._trim()
        self.sync()

    def finish(self) -> None:
        """Close the log, which is complete and identical to the server's: the server has started another."""
        self._end_behind()
        if self.size:
            self._trim()
            with as_archive_error(self.path, "finish the log"):
                write_all(self._files, self._descriptor, self._flags, _FLAGS)
                self._files.sync(self._descriptor)
            self.synced = self.size
        self.close()

    def close(self) -> None:
        """Close the file; may be called again."""
        descriptor, self._descriptor = getattr(self, "_descriptor", -1), -1
        if descriptor >= 0:
            if self._behind is not None:
                wait([self._behind[1]])  # the descriptor is its own until then
            self._files.close(descriptor)
