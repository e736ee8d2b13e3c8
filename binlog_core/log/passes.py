"""One pass over a log: an iterator with its own report, tail and sources, so that passes never mix."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

from .._decode.executed import Executed
from ..report import Report

if TYPE_CHECKING:
    from .._sources.log_files import LogFile
    from .._tables.tables import Column, Table
    from .._walk.track import Tail
    from ..batch.change_batch import ChangeBatch
    from ..gtids import AnyGtidSet

R = TypeVar("R")
T = TypeVar("T", covariant=True)


class Reading:
    """The state of a pass, separate from its iterator, so that nothing refers back to the iterator.

    Parameters
    ----------
    report : Report
        What the pass finds missing or lost, or skips.
    stop : threading.Event
        Ends the waiting for more, once set.

    Attributes
    ----------
    tail : Tail or None
        Where and why the pass ended inside an event.
    next_file : LogFile or None
        The log that the server began next, if the pass followed the last one to its end.
    over : bool
        Whether the pass was read to its end.
    executed : Executed
        The GTIDs that the pass has read.
    mariadb : bool
        Whether a MariaDB server wrote the latest log.
    prepare : callable or None
        What the decoding threads do with each batch.
    defined : callable
        Gives the selected tables of ``schema=`` once the pass is over, each with its selected columns.
    """

    def __init__(self, report: Report, stop: threading.Event, done: AnyGtidSet | None = None) -> None:
        self.report = report
        self.stop = stop
        self.tail: Tail | None = None
        self.next_file: LogFile | None = None
        self.over = False
        self.executed = Executed(done=done)
        self.mariadb = False
        self.prepare: Callable[[ChangeBatch], None] | None = None
        self.defined: Callable[[], Iterable[tuple[Table, tuple[Column, ...]]]] = tuple

    def continue_in(self, file: LogFile) -> None:
        """Go on with the next log; count what is not proved about the beginning of a new history.

        Raises
        ------
        BinlogError
            Its archive has a gap there.
        """
        file.check_share()
        if file.begins_history:
            self.report.add("unproved_seams", path=file.path)
            self.executed.renew()


class Prepared(Generic[R]):
    """What is made of each batch, by the thread that decoded it if there are several threads.

    Parameters
    ----------
    make : callable
        Takes a batch and returns the result. An error is raised when `of` is called for the batch.
    """

    def __init__(self, make: Callable[[ChangeBatch], R]) -> None:
        self._make = make
        self._made: dict[int, tuple[ChangeBatch, R]] = {}

    def prepare(self, batch: ChangeBatch) -> None:
        """Make the result of a batch; any thread may call this."""
        with suppress(Exception):
            self._made[id(batch)] = batch, self._make(batch)

    def of(self, batch: ChangeBatch) -> R:
        """The prepared result, or else one made now."""
        made = self._made.pop(id(batch), None)
        return self._make(batch) if made is None else made[1]


class _Items(Iterator[T], Protocol):
    """The items of a pass: a generator, or the like."""

    def close(self) -> object: ...


class Pass(Iterator[T]):
    """One pass over a log, which reads as you iterate; ``log.events()``, ``log.rows()`` and others make it.

    Every pass opens the log separately, so several can be read at the same time. A pass ends when the log is
    closed, with `close`, or when nothing refers to it any more.

    Attributes
    ----------
    report : Report
        What this pass has found missing or lost, or has skipped, so far.
    tail : Tail or None
        Where and why this pass ended inside an event; None if it did not.
    """

    def __init__(self, reading: Reading, items: _Items[T]) -> None:
        self._reading = reading
        self._items = items

    @property
    def report(self) -> Report:
        """What this pass has found missing or lost, or has skipped, so far."""
        return self._reading.report

    @property
    def tail(self) -> Tail | None:
        """Where and why this pass ended inside an event; None if it did not."""
        return self._reading.tail

    def defined(self) -> Iterable[tuple[Table, tuple[Column, ...]]]:
        """At the end, the selected tables of ``schema=``, each with its selected columns."""
        return self._reading.defined()

    def prepare(self, prepared: Prepared[Any]) -> None:
        """Let the threads that decode batches from now on also prepare what is made from them."""
        self._reading.prepare = prepared.prepare

    def __iter__(self) -> Iterator[T]:
        return self._items  # the generator itself: nothing of ours is called for each item

    def __next__(self) -> T:
        return next(self._items)

    def close(self) -> None:
        """End the pass early. What it returned stays valid."""
        self._items.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
