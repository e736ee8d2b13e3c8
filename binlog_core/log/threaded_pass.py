"""The groups of some logs, decoded by several threads and returned in order."""

from __future__ import annotations

import _thread
import atexit
import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterator
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING
from weakref import WeakSet

from .._decode.log_plans import Known
from .._walk.anchors import first_anchor
from ..errors import BinlogError
from .notes import Found, Lost
from .parts import Item, PartReader, ThreadPart, parts_of

if TYPE_CHECKING:
    from .._decode.group import Group
    from .._decode.selection import Selection
    from .._sources.sources import Source
    from ..position import Position
    from .open_logs import OpenLogs
    from .passes import Reading

_WAITING = 8  # groups of a part that wait to be handed over; their thread waits with them
_MANY_BATCHES = 100  # of a group: they cost time, and there are fewer if a log is not divided
_MOST_SAID = 65536  # reports about definitions that are remembered, so that each is made once

_running: WeakSet[ThreadedPass] = WeakSet()


class _Dropped(Exception):
    """The rest of a part is no longer needed."""


class _Helper:
    """A thread whose start is not awaited, unlike ``threading.Thread``: that takes as long as a group.

    Parameters
    ----------
    work : callable
    """

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._busy = _thread.allocate_lock()
        self._started = False
        self.ident: int | None = None

    def start(self) -> None:
        self._busy.acquire()
        _thread.start_new_thread(self._run, ())
        self._started = True

    def _run(self) -> None:
        self.ident = _thread.get_ident()
        try:
            self._work()
        finally:
            self._busy.release()
            self.ident = None  # which a thread to come may have

    def join(self) -> None:
        """Wait for its end, unless Ctrl-C interrupted its start."""
        if self._started:
            with self._busy:
                pass


class ThreadedPass:
    """The groups of some logs, decoded by several threads.

    Parameters
    ----------
    opened : OpenLogs
        Regular files, or bytes.
    selection : Selection
    reading : Reading
        How the pass reads.
    """

    def __init__(self, opened: OpenLogs, selection: Selection, reading: Reading) -> None:
        self._opened = opened
        self._files = opened.files
        self._settings = opened.settings
        self._selection = selection
        self._reading = reading
        self._file_range = opened.file_range
        self._process = os.getpid()
        # Reentrant, since garbage collection in this thread may close the pass.
        self._lock = threading.RLock()
        self._ready = threading.Condition(self._lock)  # for the thread that returns groups
        self._room = threading.Condition(self._lock)  # for the threads that decode
        self._planned = self._plan()
        self._parts: deque[ThreadPart] = deque()  # started, and not returned yet
        self._own = self._work(lambda has_room: has_room())  # the part that this thread reads
        self._known = -1, Known()  # of which log
        self._all_begun = self._stopping = False
        self._in_one = -1  # the log whose rest one thread reads
        self._left_out: int | None = None  # the log whose other parts are no longer wanted
        self._said: set[Hashable] = set()
        self._helpers: list[_Helper] = []

    # ------------------------------------------------------------ planning

    def _plan(self) -> Iterator[ThreadPart]:
        """The parts in order; a log is opened when its turn comes."""
        first, last = self._file_range
        for i in range(first, last + 1):
            whole = ThreadPart(i)
            try:
                if i > first:
                    self._files[i].check_share()
                whole.source = self._opened.take(i)
                selection = self._opened.selection_in(i, self._selection)
                parts = parts_of(whole, selection, self._settings.threads)
            except BaseException as error:
                whole.error, parts = error, [whole]
            for part in parts:
                if self._left_out == i:
                    break
                yield part

    # ------------------------------------------------------------ decoding

    def _help(self) -> None:
        """The work of a thread."""

        def wait(has_room: Callable[[], bool]) -> bool:
            with self._lock:
                while not has_room():
                    self._room.wait()
            return True

        for _ in self._work(wait):
            pass

    def _work(self, has_room: Callable[[Callable[[], bool]], bool]) -> Generator[bool, None, None]:
        """Read part after part.

        Parameters
        ----------
        has_room : callable
            Whether more may be begun or gathered, depending on its argument; it may wait until then.

        Yields
        ------
        bool
            Whether there is something new; False: there is no room for more.
        """
        reader: PartReader | None = None
        file = -1
        try:
            while True:
                while not has_room(self._may_begin):
                    yield False
                if (part := self._begun()) is None:
                    return
                try:
                    if part.error is None:
                        if reader is None or file != part.file:
                            if reader is not None:
                                reader.source.close()
                            reader = None
                            reader, file = self._reader(part), part.file
                        for item in self._read(part, reader):
                            while not has_room(partial(self._may_grow, part)):
                                yield False
                            self._put(part, item)
                            del item
                            yield True
                except Exception as error:
                    if not isinstance(error, _Dropped):
                        part.error = error
                    if reader is not None:  # a decoder that was stopped inside a part is no longer useful
                        reader.source.close()
                    reader = None
                with self._lock:
                    part.found = part.done = True
                    self._ready.notify_all()
                del part
                yield True
        finally:
            if reader is not None:
                reader.source.close()

    def _may_begin(self) -> bool:
        return self._stopping or len(self._parts) <= self._settings.threads

    def _may_grow(self, part: ThreadPart) -> bool:
        return self._stopping or part.dropped or len(part.items) < _WAITING

    def _begun(self) -> ThreadPart | None:
        """The next part to read; None if there is none."""
        with self._lock:
            part = None if self._stopping or self._all_begun else next(self._planned, None)
            if part is None:
                self._all_begun = True
                self._ready.notify_all()
            else:
                self._parts.append(part)
                if len(self._parts) == 1:
                    self._ready.notify_all()
            return part

    def _reader(self, part: ThreadPart) -> PartReader:
        source, part.source = part.source, None
        if source is None:
            source = self._files[part.file].open()
        try:
            first = part.start is None
            return self._reader_of(part.file, source, first=first, on_pause=self._check_wanted)
        except BaseException:
            source.close()
            raise

    def _reader_of(self, i: int, source: Source, *, first: bool, on_pause: Callable[[], None]) -> PartReader:
        selection = self._opened.selection_in(i, self._selection)
        with self._lock:
            if self._known[0] != i:
                self._known = i, Known(selection.where)
            known = self._known[1]
        return PartReader(self._settings, selection, source, known, first=first, on_pause=on_pause)

    def _read(self, part: ThreadPart, reader: PartReader) -> Iterator[Item]:
        if part.start is not None:
            assert part.head is not None
            stop = 1 << 63 if part.stop is None else part.stop
            part.anchor = first_anchor(reader.source, part.head, part.start, stop)
        with self._lock:
            part.found = True
            self._tell_of(part)
        if part.start is None or part.anchor is not None:
            for item in reader.items(part):
                if item.group is not None and (prepare := self._reading.prepare) is not None:
                    for batch in item.group.batches:
                        prepare(batch)
                        del batch
                yield item
                del item

    def _put(self, part: ThreadPart, item: Item) -> None:
        with self._lock:
            if part.dropped or self._stopping:
                raise _Dropped
            part.items.append(item)
            if item.group is not None and len(item.group.batches) >= _MANY_BATCHES:
                self._in_one = part.file
            self._tell_of(part)

    def _tell_of(self, part: ThreadPart) -> None:
        if self._parts and part is self._parts[0]:  # nothing waits for the other threads
            self._ready.notify_all()

    def _check_wanted(self) -> None:
        if self._stopping:
            raise _Dropped

    # ------------------------------------------------------------ returning groups

    def groups(self) -> Iterator[Group]:
        """The groups of all logs, in log order, together with the pass's reports.

        Raises
        ------
        BinlogError
            As with one thread, at the same place.
        """
        try:
            self._start()
            file = -1
            here: int | None = None  # where the next part's events begin; None: the log is over
            while (part := self._next()) is not None:
                if part.file != file:
                    file = part.file
                    self._begin_log(file)
                elif here is None or (part.stop is not None and here >= part.stop):
                    self._leave(part, keep_names=here is not None)
                    continue
                elif file == self._in_one or self._anchor_of(part) != here:
                    self._left_out = file
                    self._leave(part)
                    yield from self._rest(file, here)
                    here = None
                    continue
                while items := self._take_items(part):
                    while items:
                        if (group := self._hand_over(items.popleft())) is not None:
                            yield group
                            del group
                self._leave(part)
                self._end(part)
                here = part.stopped_at
                if here is not None and (part.stop is None or here < part.stop):
                    here = None  # the pass stops there
        finally:
            self._own.close()
            self.close()

    def _start(self) -> None:
        atexit.register(_close_all)  # which may be called more than once
        _running.add(self)
        # Plan while no other thread needs the GIL.
        self._planned = chain(list(islice(self._planned, 1)), self._planned)
        for _ in range(1, self._settings.threads):
            helper = _Helper(self._help)
            self._helpers.append(helper)
            helper.start()

    def _until(self, ready: Callable[[], object]) -> None:
        """Wait for the next item to return; but as long as there is room, read parts."""
        self._check_process()
        while not ready():
            self._check_open()
            if not next(self._own, False):
                with self._lock:
                    while not ready():
                        self._check_open()
                        self._ready.wait()

    def _check_open(self) -> None:
        if self._stopping:
            raise BinlogError("the log was closed while it was read", path=self._files[0].path)

    def _check_process(self) -> None:
        # Before the lock is taken, which may be held for ever.
        if os.getpid() != self._process:
            raise BinlogError("the pass began before this process was forked: start a new one")

    def _next(self) -> ThreadPart | None:
        self._until(lambda: self._parts or self._all_begun)
        with self._lock:
            self._check_open()
            return self._parts[0] if self._parts else None

    def _anchor_of(self, part: ThreadPart) -> int | None:
        self._until(lambda: part.found)
        return part.anchor

    def _take_items(self, part: ThreadPart) -> deque[Item]:
        self._until(lambda: part.items or part.done)
        with self._lock:
            self._check_open()  # a thread that was stopped has not read all of its part
            if len(part.items) == _WAITING:
                self._room.notify_all()
            items, part.items = part.items, deque()
            return items

    def _leave(self, part: ThreadPart, *, keep_names: bool = False) -> None:
        """Done with a part. `keep_names`: its reader goes on in a later part, and finds each name once."""
        self._check_process()
        with self._lock:
            self._check_open()
            self._parts.popleft()
            part.dropped = True
            for item in part.items if keep_names else ():
                self._selection.met.add(item.met)
            part.items.clear()
            self._room.notify_all()

    def _rest(self, i: int, start: int) -> Iterator[Group]:
        """The rest of a log, read by this thread."""
        part = ThreadPart(i, start=start, anchor=start)
        with self._files[i].open() as source:
            reader = self._reader_of(i, source, first=False, on_pause=self._check_open)
            for item in reader.items(part):
                group = self._hand_over(item)
                del item
                if group is not None:
                    yield group
                    del group
        self._end(part)

    def _begin_log(self, i: int) -> None:
        if i > self._file_range[0]:
            self._reading.continue_in(self._files[i])

    def _end(self, part: ThreadPart) -> None:
        self._reading.tail = part.tail or self._reading.tail
        self._reading.mariadb = part.mariadb
        if part.error is not None:
            raise part.error

    def _hand_over(self, item: Item) -> Group | None:
        report, executed, group = self._reading.report, self._reading.executed, item.group
        for one in item.found:
            if isinstance(one, Lost):
                report.lose(*one)
            else:
                report.add(one.kind, count=self._unsaid(one) if one.of else one.times, **one.place)
        self._selection.met.add(item.met)
        executed.follow(item.executed)
        if group is not None and group._executed is not None:
            group._executed = executed.snapshot(group._executed.running)
        return group

    def _unsaid(self, found: Found) -> int:
        """For how many definitions it has not been reported: every thread finds most of them."""
        what = found.kind, *map(found.place.get, ("path", "column", "detail"))
        if len(self._said) > _MOST_SAID:
            self._said.clear()
        unsaid = [one for one in found.of if (what, one) not in self._said]
        self._said.update((what, one) for one in unsaid)
        return len(unsaid)

    # ------------------------------------------------------------ life

    def acknowledge(self, position: Position) -> None:
        """Only servers wait for acknowledgements."""

    def close(self) -> None:
        """End all threads."""
        if os.getpid() != self._process:
            return
        with self._lock:
            self._stopping = True
            self._ready.notify_all()
            self._room.notify_all()
        if all(helper.ident != threading.get_ident() for helper in self._helpers):
            for helper in self._helpers:
                helper.join()
        for part in self._parts:
            if part.source is not None:
                part.source.close()
        self._parts.clear()
        _running.discard(self)


def _close_all() -> None:
    for one in list(_running):
        one.close()
