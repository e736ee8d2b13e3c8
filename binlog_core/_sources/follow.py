"""Waiting for what a running server writes next: more of a log, or the log after it."""

from __future__ import annotations

import threading
import time
from typing import Literal

from .log_files import next_log_after
from .sources import Source


class Follower:
    """Waits at the end of one local log.

    Parameters
    ----------
    source : Source
        Opened with ``mmap=False``: a mapping does not grow with its file.
    poll : float
        Seconds between two looks.
    stop : threading.Event or None
        Ends the waiting when set, from another thread or a signal handler.

    Attributes
    ----------
    next_path : str or None
        The log that follows, once `wait` said "next".
    """

    def __init__(self, source: Source, *, poll: float = 0.2, stop: threading.Event | None = None) -> None:
        self.next_path: str | None = None
        self._source = source
        self._poll = poll
        self._stop = stop or threading.Event()

    def wait(self, timeout: float | None = None) -> Literal["more", "next", "stopped", "timeout"]:
        """Wait until something can be read.

        Parameters
        ----------
        timeout : float or None
            Seconds; None waits for ever.

        Returns
        -------
        str
            "more": `read` of the source gives bytes. "next": this log is finished, `next_path` follows.
            "stopped": the stop event is set. "timeout".
        """
        end = None if timeout is None else time.monotonic() + timeout
        while not self._source.peek(1):
            following = next_log_after(self._source.path)
            if following is not None:
                # The server ends a log before it begins the next: look once more.
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
