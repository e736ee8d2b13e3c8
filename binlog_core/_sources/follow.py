"""Waits for what a running server writes next: more of a log, or the log after it."""

from __future__ import annotations

import os
import threading
import time
from typing import Literal, Protocol

from .._format.event_header import CHECKSUM_LENGTH, FIRST_EVENT, HEADER, ends_with_checksum
from .._format.event_types import EventType
from .._format.magic import ENCRYPTED_MAGIC
from ..errors import BinlogError
from ..report import Report
from .log_names import Gap, LogName
from .places import LocalFiles, is_log
from .sources import Source

_ROTATE_POSITION_LEN = 8
_ENCRYPTED_HEAD_LEN = 512  # the bytes that show how to read an encrypted log
_TAIL_LEN = 1024  # longer than a ROTATE event, which holds a file's name


class Follower(Protocol):
    """Waits at the end of a log for what is written next."""

    @property
    def next_path(self) -> str | None:
        """The log that follows, once `wait` has returned "next"."""

    def wait(self, timeout: float | None = None) -> Literal["more", "next", "stopped", "timeout"]:
        """Wait until something can be read; None waits forever, otherwise seconds."""


class FileFollower:
    """Waits at the end of one local log.

    Parameters
    ----------
    source : Source
        Opened with ``mmap=False``: a mapping does not grow with its file.
    poll : float
        Seconds between two looks.
    stop : threading.Event or None
        Ends the waiting when set, from another thread or a signal handler.
    report : Report or None
        Counts numbers that are missing after this log.

    Attributes
    ----------
    next_path : str or None
        The log that follows, once `wait` has returned "next".
    """

    def __init__(
        self,
        source: Source,
        *,
        poll: float = 0.2,
        stop: threading.Event | None = None,
        report: Report | None = None,
    ) -> None:
        self.next_path: str | None = None
        self._source = source
        self._poll = poll
        self._stop = stop or threading.Event()
        self._report = report or Report()
        self._name = LogName.of(source.path)
        self._looked_at = -1  # where the log ended when its last event was looked at
        self._rotates_to: int | None = None
        self._missed = self._told = False

    def wait(self, timeout: float | None = None) -> Literal["more", "next", "stopped", "timeout"]:
        """Wait until something can be read.

        Parameters
        ----------
        timeout : float or None
            Seconds; None waits forever.

        Returns
        -------
        str
            "more": `read` of the source gives bytes. "next": this log is finished, `next_path` follows.
            "stopped": the stop event is set. "timeout".

        Raises
        ------
        BinlogError
            The log ends with the name of the next one, which does not exist although a later one does: it was
            removed before it was read.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while not self._source.peek(1):
            following = self._following()
            if following is not None:
                # The server ends a log before it begins the next: check once more.
                if self._source.peek(1):
                    return "more"
                self.next_path = following
                return "next"
            pause = self._poll if end is None else min(self._poll, end - time.monotonic())
            if pause <= 0:
                return "timeout"
            if self._stop.wait(pause):
                return "stopped"
        return "more"

    def _following(self) -> str | None:
        """The log that the last event names, or else the one with the next number, once it exists."""
        name = self._name
        if name is None or not self._source.may_have_ended:
            return None
        if self._looked_at != self._source.position:
            self._looked_at = self._source.position
            self._rotates_to = _rotates_to(self._source, name)
        number = name.number + 1
        wanted = self._rotates_to or number
        later = logs_after(self._source.path)
        if wanted in later:
            if wanted > number:
                self._tell(Gap(name.base, number, wanted - 1))
            return later[wanted]
        beyond = min((other for other in later if other > wanted), default=None)
        if self._rotates_to is None:
            if beyond is not None:  # this log may still grow, and the later one be a stray file
                self._tell(Gap(name.base, number, beyond - 1))
            return None
        if not self._missed:  # the server may be just creating it
            self._missed = True
            return None
        if number in later:  # renamed copies: the event has the name on the server
            return later[number]
        if beyond is not None:
            raise BinlogError(
                f"the next log, number {wanted}, is missing, but"
                f" {os.path.basename(later[beyond])} exists: it was removed before it was read",
                path=self._source.path,
            )
        return None

    def _tell(self, gap: Gap) -> None:
        if not self._told:
            self._told = True
            self._report.add("file_gaps", path=self._source.path, detail=str(gap))


def next_log_after(path: str) -> str | None:
    """The log that follows a local one: the next number of the same base name in its directory.

    Parameters
    ----------
    path : str

    Returns
    -------
    str or None
        None: it does not exist, or the bytes that show how to read it are not written yet.
    """
    name = LogName.of(path)
    return logs_after(path).get(name.number + 1) if name else None


def logs_after(path: str) -> dict[int, str]:
    """Logs with the same base name and a greater number in a local log's directory; one for each number."""
    name = LogName.of(path)
    if name is None:
        return {}
    place, folder = LocalFiles(), os.path.dirname(path)
    found: dict[int, list[tuple[tuple[bool, bool], str]]] = {}
    for file in place.files(folder or ".") or ():
        other = os.path.join(folder, os.path.basename(file))
        known = LogName.of(other)
        if known and known.base == name.base and known.number > name.number:
            found.setdefault(known.number, []).append((known.doubt, other))
    begun = {
        number: next((one for _, one in sorted(files) if _is_begun(place, one)), None)
        for number, files in found.items()
    }
    return {number: one for number, one in begun.items() if one is not None}


def _is_begun(place: LocalFiles, path: str) -> bool:
    try:
        head = place.head(path, _ENCRYPTED_HEAD_LEN) or b""
        return len(head) == _ENCRYPTED_HEAD_LEN if head[:4] == ENCRYPTED_MAGIC else is_log(place, path)
    except BinlogError:  # removed between listing and looking
        return False


def _rotates_to(source: Source, name: LogName) -> int | None:
    """The number of the next log, if the last event is a ROTATE that names it."""
    end = source.position
    begin = max(end - _TAIL_LEN, FIRST_EVENT)
    if not source.seekable or begin >= end:
        return None
    tail = b""
    try:
        source.seek(begin)
        while len(tail) < end - begin and (part := source.read(end - begin - len(tail))):
            tail += part
        source.seek(end)
    except BinlogError:  # it shrank: reading on will show it
        return None
    for at in range(len(tail) - HEADER.size - _ROTATE_POSITION_LEN):
        _, kind, _, length, next_position, _ = HEADER.unpack_from(tail, at)
        if kind != EventType.ROTATE or length != len(tail) - at or next_position != end & 0xFFFFFFFF:
            continue
        stop = -CHECKSUM_LENGTH if ends_with_checksum(tail[at:]) else None
        named = LogName.of(os.fsdecode(tail[at + HEADER.size + _ROTATE_POSITION_LEN : stop]))
        # A relay log also holds its source's ROTATE events, which name the source's logs.
        if named and os.path.basename(named.base) == os.path.basename(name.base):
            return named.number
    return None
