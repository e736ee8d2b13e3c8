"""Receiving ahead: the next events come while those before are written."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator

from .feed import Run

_RUNS = 4  # received and not yet written
_LARGEST_KEPT = 4 << 20  # bytes of a buffer that is used again


def received_ahead(runs: Iterator[Run], stop: threading.Event) -> Iterator[Run]:
    """The same runs, received in a thread of their own.

    Parameters
    ----------
    runs : iterator of Run
        Ends soon when `stop` is set.
    stop : threading.Event
        Set when nobody takes runs any more.

    Yields
    ------
    Run
        Its data are valid until the next is asked for.
    """
    ready: queue.Queue[Run | BaseException | None] = queue.Queue(_RUNS)
    free: queue.SimpleQueue[bytearray] = queue.SimpleQueue()

    def put(one: Run | BaseException | None) -> bool:
        while not stop.is_set():
            try:
                ready.put(one, timeout=0.2)
                return True
            except queue.Full:
                pass
        return False

    def receive() -> None:
        try:
            for run in runs:
                size = len(run.data)
                try:
                    buffer = free.get_nowait()
                except queue.Empty:
                    buffer = bytearray()
                if len(buffer) < size:
                    buffer = bytearray(max(size, 1 << 20))
                data = memoryview(buffer)[:size]
                data[:] = run.data
                if not put(run._replace(data=data)):
                    return
        except BaseException as error:
            put(error)
        else:
            put(None)

    thread = threading.Thread(target=receive, name="archive-receive", daemon=True)
    thread.start()
    try:
        while (one := ready.get()) is not None:
            if isinstance(one, BaseException):
                raise one
            yield one
            buffer = one.data.obj
            if isinstance(buffer, bytearray) and len(buffer) <= _LARGEST_KEPT:
                free.put(buffer)
    finally:
        stop.set()
        thread.join()
