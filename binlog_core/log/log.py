"""The Log that `binlog_core.open` gives."""

from __future__ import annotations

import datetime as dt
import os
import threading
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

from .._core._headers import HEADER_DTYPE
from .._core._values import RowChange
from .._decode.group import Group
from .._decode.merge import ChangeReader
from .._decode.selection import Columns, Selection, check_columns, check_condition, check_vendor
from .._format.format_description import FormatDescription
from .._sources.log_files import LogFile, LogFiles
from .._tables.given_names import NamesMet
from .._tables.tables import Table
from .._walk.event_walk import EventRange, EventRun, HeaderFilter, headers_of
from .._walk.track import Tail
from ..batch.change_batch import ChangeBatch
from ..errors import NotABinlogError
from ..limits import Limits
from ..position import Position
from ..report import Report
from .open_logs import OpenLogs
from .passes import Pass, Reading

if TYPE_CHECKING:
    from .._sources.sources import Source
    from ..conditions.language import Condition
    from ..events import Event
    from ..index.finding import Indexes
    from ..schema.definitions import Definitions
    from .batches import Batches
    from .settings import Settings

T = TypeVar("T")


class Log:
    """One binary log, or several in order; `open` makes it. It is a context manager.

    Every pass (`headers`, `events`, `groups`, `batches`, `rows`) opens the log separately and has its own
    report and tail, so several passes, even in several threads, never disturb each other. A source that can
    be read only once (a pipe, standard input) gives one pass, and raises an error at the second.

    Attributes
    ----------
    files : LogFiles
        The logs to read, in order.
    """

    def __init__(
        self,
        files: LogFiles,
        settings: Settings,
        *,
        within: threading.Event | None = None,
        first: Source | None = None,
        indexes: Indexes | None = None,
        met: NamesMet | None = None,
        defined: Definitions | None = None,
    ) -> None:
        # With `within` this is one file of another Log: `within` is what stops that one's pass, `first` the
        # file's source, `met` the given names that matched in the files before it, and `defined` the
        # definitions that follow from these files' statements.
        self.files = files
        self.settings = settings  # for the package
        self.opened = OpenLogs(files, settings, first, alone=within is not None)  # for the package
        self._indexes, self._owns_indexes = indexes, indexes is None
        self._within, self._met, self._defined = within, met, defined
        self._defined_at_end: Definitions | None = None  # once a pass has read all rows
        self._stopping = within if within is not None else threading.Event()
        self._latest = Reading(settings.report(), self._stopping)
        self._passed = False  # whether a pass has begun
        self._asked: Selection | None = None  # of the last pass over rows that was read to its end
        source = self.opened.first
        try:
            self._format = settings.decoder(source, settings.selection, self._latest.report).read_format()
            self._size: int | None = source.size
            if self._format is not None:
                check_vendor(settings.selection, mariadb=self._format.is_mariadb, path=source.path)
        except BaseException:
            source.close()
            raise

    # ------------------------------------------------------------ the files

    @property
    def format(self) -> FormatDescription:
        """The descriptor of the (first) log.

        Raises
        ------
        NotABinlogError
            The log ends before its descriptor.
        """
        if self._format is None:
            raise NotABinlogError("the log ends before its format description", path=self.files[0].path)
        return self._format

    @property
    def report(self) -> Report:
        """What the latest pass found missing or lost, or skipped; each pass has its own report."""
        return self._latest.report

    @property
    def limits(self) -> Limits:
        """The limits on memory and time for its passes, as given to `open`."""
        return self.settings.limits

    @property
    def tail(self) -> Tail | None:
        """Where and why the latest pass ended inside an event; each pass has its own tail."""
        return self._latest.tail

    @property
    def size(self) -> int | None:
        """The current size of the (first) log in bytes, decrypted and decompressed; None if not known."""
        if self._size is not None and not self.opened.closed and not self.opened.is_read_once(0):
            with self.files[0].open() as source:
                self._size = source.size
        return self._size

    @property
    def total_size(self) -> int | None:
        """The stored bytes of all files together; None if one is not a local file."""
        try:
            return sum(os.path.getsize(file.path) for file in self.files)
        except OSError:
            return None

    def headers(self) -> np.ndarray:
        """Every event header of the file(s), except for events inside compressed transactions.

        Only the range and `server_id` of the selection given to `open` apply.

        Returns
        -------
        ndarray, shape (n_events,), HEADER_DTYPE
            Fields position u8 (the real 64-bit offset), timestamp u4, type_code u1 (today's numbering),
            server_id u4, event_length u4, next_position u4 (as logged) and flags u2.

        Raises
        ------
        DecodeError
            A length is not valid, or (`ChecksumError`) a checksum is wrong.
        """
        # Part by part: each reuses the memory of the one before it, which is still in the processor's cache.
        out = bytearray()
        for part in self.header_chunks():
            out += part.view(np.uint8).data
        return np.frombuffer(out, HEADER_DTYPE)

    def header_chunks(self) -> Pass[np.ndarray]:
        """`headers` piece by piece, so that memory does not grow with the log.

        Yields
        ------
        ndarray, HEADER_DTYPE
            At most 65536 headers, all of one file.
        """
        return self._pass(self._header_chunks)

    def _header_chunks(self, reading: Reading) -> Iterator[np.ndarray]:
        for decoder in self.opened.decoders(reading, self.settings.selection):
            yield from headers_of(decoder.track, decoder.selection.part)

    def events(
        self, types: Collection[int] | None = None, *, where: HeaderFilter | None = None
    ) -> Pass[Event]:
        """Every event, typed, in file order; events inside a compressed transaction follow it.

        The range and `server_id` given to `open` apply; events inside a compressed transaction are selected
        together with it.

        Parameters
        ----------
        types : collection of int, optional
            Type codes (`EventType`): only these are parsed and returned.
        where : callable, optional
            Takes an array of headers (as `headers` gives) and returns a boolean mask of those to parse.

        Yields
        ------
        Event
            See `binlog_core.events`; unknown types are `OpaqueEvent`.

        Raises
        ------
        DecodeError
            An event is not valid for its type, or (`ChecksumError`) its checksum is wrong.
        TypeError, ValueError
            `types` are not type codes.
        """
        for code in types or ():
            if not isinstance(code, int | np.integer):
                raise TypeError(f"types= takes type codes, not {type(code).__name__}")
            if not 0 <= code < 256:
                raise ValueError(f"types={code}: expected 0 to 255")

        from .._walk.typed_events import events_of

        wanted = None if where is None else lambda run: where(run.headers)

        def read(reading: Reading) -> Iterator[Event]:
            settings = self.settings
            for decoder in self.opened.decoders(reading, settings.selection, follow=settings.follow):
                yield from events_of(decoder.track, types, wanted, decoder.selection.part)

        return self._pass(read)

    def events_between(
        self, spans: Iterable[tuple[int, int]], types: Collection[int] | None = None
    ) -> Pass[Event]:
        """For the package: events of the only file between positions, in order; the rest need not be read.

        `spans` has at least one pair of positions: of the first event, and of the event to stop at.
        """

        from .._walk.typed_events import events_of

        places = np.array(list(spans), np.uint64).reshape(-1, 2)

        def inside(run: EventRun) -> np.ndarray:
            position = run.headers["position"]
            at = np.searchsorted(places[:, 0], position, side="right")
            found: np.ndarray = (at > 0) & (position < places[np.maximum(at, 1) - 1, 1])
            return found

        def read(reading: Reading) -> Iterator[Event]:
            for decoder in self.opened.decoders(reading, self.settings.selection):
                if not decoder.source.seekable:  # a server, or compressed: all of it comes anyway
                    yield from events_of(decoder.track, types, inside)
                    continue
                for start, stop in places.tolist():
                    yield from events_of(decoder.track, types, part=EventRange(start, stop))

        return self._pass(read)

    def each_file(self) -> Iterator[Log]:
        """One Log for each file, with the options of this one: its `format`, events, rows and `report`.

        With ``follow=True`` the last one waits for more, and is followed by the logs that the server begins.

        Yields
        ------
        Log
            One log, open until you take the next.

        Raises
        ------
        BinlogError
            A file cannot be opened, or is not a log; or an archive has a gap before it.
        """
        return self._each_file(self._stop_of_pass())

    def _each_file(self, stop: threading.Event) -> Iterator[Log]:
        settings, follow = self.settings, self.settings.follow
        if len(self.files) == 1 and not follow and not self.files[0].chained:
            yield self
            return
        first, last = self.opened.file_range
        met, defined = NamesMet(), self._defined_before(first)
        self._latest = reading = Reading(settings.report(), stop)  # about the files; each has its own besides
        self.files.tell(reading.report)
        for i in range(first, last + 1):
            if i > first:
                reading.continue_in(self.files[i])
                settings = settings.behind(self.files[i])
            met.last = i == last and not (follow or self.files[last].chained)
            here = settings.in_file(first=i == first, last=i == last, follow=follow and i == last)
            file, source = self.files[i], self.opened.take(i)
            if file.chained:
                file = replace(file, path=source.path)
            with self._alone_in(file, source, stop, here, met, defined) as log:
                yield log
                log._read_to_its_end()
            if i < last:
                defined = _defined_after(log, defined)
        while (follow or self.files[last].chained) and not stop.is_set():
            following = log._latest.next_file or log.files[0].following()
            if following is None:
                met.last = True
                if log._asked is not None:
                    log._check_names(log._latest.report, log._asked, None)
                return
            defined = _defined_after(log, defined)
            file = following
            reading.continue_in(file)
            settings = settings.behind(file)
            here = settings.in_file(first=False, last=False, follow=follow)  # times hold in every log
            with self._alone_in(file, file.open(), stop, here, met, defined) as log:
                yield log
                log._read_to_its_end()

    def _defined_before(self, first: int) -> Definitions | None:
        """For `each_file`: the definitions that the statements of the files before one lead to."""
        if self.settings.asks_server:
            return None
        defined = self.settings.definitions()
        if defined is None or not defined.follows:
            return None
        for i in range(first):
            self.opened.follow(i, defined)
        return defined

    def _check_names(self, report: Report, selection: Selection, definitions: Definitions | None) -> None:
        """Check at the end of the last file that given names matched: one file may lack what the next has."""
        if selection.met.last:
            check_columns(selection)
            check_condition(selection)
        from .._decode.unmet import report_unmet

        report_unmet(report, selection, definitions, path=self.files[0].path)

    def _read_to_its_end(self) -> None:
        """Read what the user has left unread of a server's log: only its end says which log comes next."""
        if self.files[0].chained and not self._latest.over:
            for _ in self.header_chunks():
                pass

    @contextmanager
    def _alone_in(
        self,
        file: LogFile,
        source: Source,
        stopping: threading.Event,
        settings: Settings,
        met: NamesMet,
        defined: Definitions | None,
    ) -> Iterator[Log]:
        indexes = self.indexes if settings.selection.narrows else None
        alone = Log(
            LogFiles([file]),
            settings,
            within=stopping,
            first=source,
            indexes=indexes,
            met=met,
            defined=defined,
        )
        with alone as log, self.opened.kept(log):
            yield log

    @property
    def indexes(self) -> Indexes:
        """For the package: the indexes beside the logs."""
        if self._indexes is None:
            from ..index.finding import Indexes

            self._indexes = Indexes()
        return self._indexes

    # ------------------------------------------------------------ rows

    def groups(
        self,
        tables: str | Iterable[str] | None = None,
        columns: Columns | None = None,
        where: str | Condition | None = None,
        *,
        asides: bool = False,
    ) -> Pass[Group]:
        """Row changes as groups of batches, each with the position for a checkpoint.

        Parameters
        ----------
        tables, columns, where
            As in `open`, for this pass; ``where=""`` removes the condition given to `open`.
        asides : bool
            Collect in ``group.asides`` everything in the log besides rows: statements, savepoints, damage.

        Yields
        ------
        Group

        Raises
        ------
        DecodeError
            A length, count, type or value is not valid; what was decoded before has been yielded.
        SchemaError
            A given definition does not fit, or, at the end, no definition had a selected column.
        ConditionError
            ``where`` is not a condition, or, at the end, its columns are in no table or in no definition of a
            table given by name.
        StrictError, TruncatedError
            With ``strict=True``.
        """
        selection = self.settings.selected(tables, columns, where, asides=asides)
        return self._pass(lambda reading: self._groups(reading, selection))

    def indexed_groups(self, columns: Columns | None = None) -> Pass[Group]:
        """For the package: `groups`, leaving out transactions in which an index shows no wanted change."""
        selection = self.settings.selected(None, columns, None)
        return self._pass(lambda reading: self._groups(reading, selection, indexed=True))

    def _groups(self, reading: Reading, selection: Selection, *, indexed: bool = False) -> Iterator[Group]:
        settings = self.settings
        if settings.asks_server:
            from ..server.target import ServerLog

            assert isinstance(self.files[0], ServerLog)
            definitions: Definitions | None = self.files[0].definitions(settings.limits, settings.charset)
        elif self._defined is not None:
            definitions = self._defined.copied()
            self.opened.follow_up_to_start(definitions, reading.report)
        elif (definitions := settings.definitions()) is not None and definitions.follows:
            self.opened.follow_up_to_start(definitions, reading.report)
        selection = replace(selection, met=NamesMet() if self._met is None else self._met)
        for group in self._decoded(reading, selection, definitions, indexed=indexed):
            selection.met.rows |= bool(group.batches)
            yield group
            del group  # only the user decides how long a group is kept
        self._asked = selection
        if self._defined is not None and settings.stop is None:
            self._defined_at_end = definitions
        self._check_names(reading.report, selection, definitions)
        if definitions is not None:
            reading.defined = lambda: selection.of_tables(definitions.tables(mariadb=reading.mariadb))
        elif selection.where is not None:  # tables that have rows, but maybe none that match
            reading.defined = lambda: selection.of_tables(selection.met.fitting.values())

    def _leaves_most_out(self, selection: Selection) -> bool:
        first, last = self.opened.file_range
        logs = ((self.files[i], self.opened.selection_in(i, selection)) for i in range(first, last + 1))
        return self.indexes.leave_most_out(logs, self.settings.definitions, self._format)

    def _decoded(
        self, reading: Reading, selection: Selection, definitions: Definitions | None, *, indexed: bool
    ) -> Iterator[Group]:
        settings = self.settings
        narrows = selection.narrows or isinstance(settings.start, dt.datetime)
        indexed = indexed and settings.indexed and narrows and not (settings.follow or settings.strict)
        if self._divides(selection, definitions) and not (indexed and self._leaves_most_out(selection)):
            from .threaded_pass import ThreadedPass

            threaded = ThreadedPass(self.opened, selection, reading)
            with self.opened.kept(threaded):
                yield from threaded.groups()
            return
        for decoder in self.opened.decoders(reading, selection, definitions, follow=self.settings.follow):
            if indexed:
                file = next((file for file in self.files if file.path == decoder.path), None)
                yield from self.indexes.groups(decoder, file, definitions)
            else:
                yield from decoder.groups()
            reading.mariadb = decoder.is_mariadb

    def _divides(self, selection: Selection, definitions: Definitions | None) -> bool:
        """Whether several threads can divide the pass."""
        settings, follows = self.settings, definitions is not None and definitions.follows
        if settings.threads == 1 or settings.follow or selection.asides or follows:
            return False
        from .parts import LEAST_PARTS, PART_BYTES

        first, last = self.opened.file_range
        files = self.files[first : last + 1]
        if len(files) == 1 and (self._size or 0) < LEAST_PARTS * PART_BYTES:
            return False
        return all(file.divisible for file in files)

    def tables(self) -> dict[str, Table]:
        """The tables that have row changes in the log; no value is decoded.

        ``where=`` makes no difference to the result.

        Returns
        -------
        dict of str to Table
            The latest definition of each table by "database.table", in the order in which tables first occur.

        Raises
        ------
        BinlogError
            As for `groups`.
        """
        return {table.full_name: table for table in self.definitions_met()}

    def definitions_met(self) -> Pass[Table]:
        """For the package: the tables of all batches in their order; a table from an index occurs once."""
        indexed: list[Table] = []
        selection = replace(self.settings.selected(None, {"*": ()}, ""), tables_from_index=indexed)

        def read(reading: Reading) -> Iterator[Table]:
            for group in self._groups(reading, selection, indexed=True):
                tables = [*indexed, *(batch.table for batch in group.batches)]
                indexed.clear()
                del group
                yield from tables
            yield from indexed

        return self._pass(read)

    def batches(
        self,
        tables: str | Iterable[str] | None = None,
        columns: Columns | None = None,
        where: str | Condition | None = None,
    ) -> Batches:
        """Row changes as structured arrays, at least one batch per table definition and group (see `Group`).

        The batches of one table are also an Arrow stream: ``polars.DataFrame(log.batches("shop.orders"))``.

        Parameters
        ----------
        tables : str or iterable of str, optional
            Names or glob patterns; other tables are not decoded.
        columns : mapping, optional
            Table name or pattern to the names of the columns to decode.
        where : str or Condition, optional
            Only changes that match: see `binlog_core.conditions`. It raises the same errors as for `groups`.

        Returns
        -------
        Batches
            An iterator of ChangeBatch; it raises the same errors as `groups`.
        """
        from .batches import Batches

        selection = self.settings.selected(tables, columns, where)
        wanted = "all tables" if selection.tables is None else ", ".join(selection.tables)
        return Batches(
            lambda: self._pass(lambda reading: self._batches(reading, selection)),
            of=f"{wanted} in {self._named()}",
        )

    def _batches(self, reading: Reading, selection: Selection) -> Iterator[ChangeBatch]:
        for group in self._groups(reading, selection, indexed=True):
            batches = group.batches
            batches.reverse()
            del group  # a batch lives no longer than its user wants
            while batches:
                yield batches.pop()

    def rows(
        self,
        tables: str | Iterable[str] | None = None,
        columns: Columns | None = None,
        where: str | Condition | None = None,
    ) -> Pass[RowChange]:
        """One RowChange per changed row, in log order across tables.

        Rows are those of the log: a few of them may not have stayed, because a ROLLBACK is logged after them
        (see "What a log does not contain" in the documentation of formats).

        Parameters
        ----------
        tables, columns, where
            As in `batches`.

        Yields
        ------
        RowChange

        Raises
        ------
        DecodeError
            As for `groups`; also text that is not valid in its character set.
        """
        selection = self.settings.selected(tables, columns, where)
        reading = self._reading()
        groups = self._items(reading, lambda reading: self._groups(reading, selection, indexed=True))
        reader = ChangeReader(reading.report, skip_errors=self.settings.skip_errors)
        return Pass(reading, reader.changes(groups, self.opened))

    # ------------------------------------------------------------ life

    def acknowledge(self, position: Position) -> None:
        """Tell a semi-synchronous server that everything before a position is stored safely.

        With ``server={"semi_sync": True}`` the server's commits wait for this; otherwise this does nothing.

        Parameters
        ----------
        position : Position
            The position of a group whose batches are stored.
        """
        self.opened.acknowledge(position)

    def stop(self) -> None:
        """Stop all passes that wait for a growing log, from another thread or a signal handler.

        Passes started later wait again. Called before the first pass, it keeps that pass from waiting.
        """
        self._stopping.set()
        if self._passed:
            self._stopping = threading.Event()

    def close(self) -> None:
        """Stop reading and end all passes. Batches stay valid: each keeps the bytes it refers to."""
        self.opened.closed = True
        if self._within is None:
            self._stopping.set()
        if self._owns_indexes and self._indexes is not None:
            self._indexes.close()
        self.opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError("a Log cannot be pickled: open it where it is needed, or send its batches or changes")

    def __repr__(self) -> str:
        return f"<binlog_core.Log {self._named()}{''.join(f', {fact}' for fact in self._facts())}>"

    def _named(self) -> str:
        more = f" and {len(self.files) - 1} more" if len(self.files) > 1 else ""
        return f"{self.files[0].name}{more}"

    def _facts(self) -> list[str]:
        """What is known without reading more."""
        facts = ["closed"] if self.opened.closed else []
        if self._format is not None:
            facts += [self._format.server_version, f"v{self._format.binlog_version}"]
            facts += [f"checksums {self._format.checksum}"]
        if self._size is not None:
            facts.append(f"{self._size:,} bytes")
        return facts

    def _repr_html_(self) -> str:
        import html

        facts = "<br>".join(map(html.escape, self._facts()))
        return f"<p><b>binlog_core.Log</b> {html.escape(self._named())}<br><small>{facts}</small></p>"

    # ------------------------------------------------------------ one pass

    def _pass(self, read: Callable[[Reading], Iterator[T]]) -> Pass[T]:
        reading = self._reading()
        return Pass(reading, self._items(reading, read))

    def _reading(self) -> Reading:
        """The state of a new pass."""
        return Reading(self.settings.report(), self._stop_of_pass(), self.settings.done)

    def _stop_of_pass(self) -> threading.Event:
        """The event that ends the waiting of a new pass."""
        stopping, self._passed = self._stopping, True
        if stopping.is_set() and self._within is None:  # `stop` was called for this pass
            self._stopping = threading.Event()
        return stopping

    def _items(self, reading: Reading, read: Callable[[Reading], Iterator[T]]) -> Generator[T, None, None]:
        self.opened.check_open()
        self._latest = reading
        self.files.tell(reading.report)
        for item in read(reading):
            yield item
            del item  # it lives no longer than its user wants
            self.opened.check_still_open()


def _defined_after(log: Log, defined: Definitions | None) -> Definitions | None:
    """The definitions after a file, given those before it: its pass has them if it read all rows."""
    if defined is None or log._defined_at_end is not None:
        return log._defined_at_end
    defined = defined.copied()
    log.opened.follow(0, defined)
    return defined
