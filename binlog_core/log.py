"""`open`, and the Log that it gives."""

from __future__ import annotations

import datetime as dt
import html
import os
import threading
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

import numpy as np

from ._core._headers import HEADER_DTYPE
from ._core._values import RowChange
from ._decode.executed import Executed
from ._decode.group import Group
from ._decode.gtid_selection import GtidArgument, check_vendor, gtid_set, union
from ._decode.log_decoder import LogDecoder
from ._decode.merge import ChangeReader
from ._decode.selection import (
    Columns,
    Place,
    Selection,
    check_arguments,
    check_columns,
    columns_by_pattern,
    names,
    ops_mask,
    timestamp_of,
)
from ._format.event_types import EventType
from ._format.format_description import FormatDescription
from ._format.statements import may_change_definitions
from ._sources.archives import check_share
from ._sources.follow import Follower
from ._sources.log_files import LogFile, LogFiles, resolve
from ._sources.log_names import name_within
from ._sources.places import is_server
from ._sources.sources import READ_ONCE
from ._tables.given_names import NamesMet, report_unmet
from ._tables.tables import Table
from ._walk.event_walk import HeaderFilter, events_of, headers_of
from ._walk.track import Tail
from .batch import ChangeBatch
from .batches import Batches
from .errors import BinlogError, NotABinlogError
from .events import QueryEvent
from .gtids import parse_gtid_set
from .limits import Limits
from .passes import Pass, Reading
from .position import Position
from .report import Report
from .schema.definitions import Definitions, load

if TYPE_CHECKING:
    from ._sources.sources import Source
    from .events import Event
    from .server.source import ServerFollower

T = TypeVar("T")

_STATEMENTS = frozenset((EventType.QUERY, EventType.MARIADB_QUERY_COMPRESSED))


def open(
    target: Any,
    *,
    schema: Any = None,
    keys: Any = None,
    verify_checksum: bool = True,
    on_error: str = "raise",
    strict: bool = False,
    start: Any = None,
    stop: Any = None,
    tables: str | Iterable[str] | None = None,
    columns: Columns | None = None,
    gtids: GtidArgument | None = None,
    exclude_gtids: GtidArgument | None = None,
    server_id: int | None = None,
    ops: str | Iterable[str] | None = None,
    rows_v0: bool = False,
    follow: bool = False,
    mmap: bool | None = None,
    storage_options: dict[str, Any] | None = None,
    schema_start: Any = None,
    charset: str | None = None,
    limits: Limits | None = None,
    server: Mapping[str, Any] | None = None,
    password_file: str | os.PathLike[str] | None = None,
    defaults_file: str | os.PathLike[str] | None = None,
) -> Log:
    """Open MySQL or MariaDB binary logs.

    Parameters
    ----------
    target : str, path, file object, bytes-like, or a list of them
        A log (plain, gzip, zstd or xz; encrypted by its server with ``keys``), ``"-"`` for standard
        input, a URL that fsspec knows, a directory of logs, or an index file. Or a running server:
        ``mysql://user@host:port,host:port`` or ``mariadb://…``, which is read as its replicas do.
    schema : dict, str or path, optional
        Names, signs, character sets and members for logs that lack them: "db.table" to CREATE TABLE
        text, a .sql file, or ``mysql://user:password@host:port/database`` of a server that is asked
        once. "ddl" follows the CREATE, ALTER, DROP and RENAME statements in the log itself, from the
        definitions of ``schema_start``.
    keys : path or dict, optional
        MySQL's keyring file or MariaDB's key file of an encrypted log.
    verify_checksum : bool
        Compare each event's CRC32, where the log has them.
    on_error : "raise" or "skip"
        With "skip" a damaged event is counted in ``log.report`` and passed over.
    strict : bool
        Raise where the log does not tell: a cut tail, unknown signs, unnamed columns, changes logged
        as statements.
    start, stop : int, (file name, int), datetime or Position, optional
        Positions in bytes of the first event, and of the first event no more read; or the time of the
        event headers (naive datetimes are UTC); or the ``position`` of a group. Of a server ``start`` can
        also be "now", or a GTID set: all that is not in it. None there is the oldest log that it has.
    tables : str or iterable of str, optional
        Names or glob patterns, "shop.orders" or "shop.*"; others are not decoded.
    columns : mapping or iterable of str, optional
        Table name or pattern to the names of the columns to decode; or just names, for all tables.
    gtids, exclude_gtids : str, GTID, GTID set or iterable of them, optional
        Transactions to read, or to leave out.
    server_id : int, optional
        Only events of that server.
    ops : str or iterable of str, optional
        Of "insert", "update", "delete".
    rows_v0 : bool
        Decode rows events of version 0 (5.1 before 5.1.18) too. How NULLs are stored then depended on
        table options that no log tells: right for tables without BIT columns and with the usual row
        format; ``events()`` has the raw rows.
    follow : bool
        At the end `rows`, `batches`, `groups` and `events` wait for more bytes, and for the log that the
        server begins next (local files with numbered names), until ``log.stop()``. A group is handed over
        whenever nothing more is there; ``start=(path, group.resume_position)`` goes on after a restart.
    mmap : bool, optional
        False reads by pread and cannot fault when the file shrinks: the default for logs in use and
        for network mounts.
    storage_options : dict, optional
        For fsspec.
    charset : str, optional
        Character set (MySQL's name, such as "latin1") of text for which neither the log nor the schema tells
        one. A log without character sets and without a schema does not tell BLOB from TEXT, either: then
        both are text.
    limits : Limits, optional
        Rows and bytes of a group, and how much may come out of compressed data.
    server : mapping, optional
        Of a server: ``server_id``, ``ssl_mode``, ``ssl_ca``, ``ssl_cert``, ``ssl_key``, ``socket``,
        ``connect_timeout``, ``heartbeat``, ``reconnect``, ``semi_sync`` (see "Live servers"). The URL's query
        takes them, too.
    password_file, defaults_file : path, optional
        Of a server: a file that holds the password, and an option file as the vendors' clients have them.
        Without a password in either or in the URL it is taken from the environment's MYSQL_PWD.

    Returns
    -------
    Log

    Raises
    ------
    NotABinlogError, FormatError
        The first log is none, or its descriptor cannot be.
    EncryptionError, MissingExtraError
        A key or a library is missing.
    GtidError
        A text is not a GTID set, or a set is of the other vendor than the (first) log.
    SchemaError
        A given definition cannot be read.
    ServerError
        A server cannot be reached, or refuses: `UnreachableError`, `AuthenticationError`,
        `PrivilegeError`, `PurgedError`, `PositionError`, `DivergedError`, `IdentityError`,
        `ProtocolError`. The first four come here, all of them also while the log is read.
    BinlogError
        The target does not exist or cannot be read.
    TypeError, ValueError
        An argument has a type or value that is not among those named here.
    """
    if on_error not in ("raise", "skip"):
        raise ValueError(f"on_error={on_error!r}: 'raise' or 'skip'")
    if isinstance(target, list | tuple) and len(target) == 1:
        target = target[0]
    live = is_server(target)
    if not live and (server, password_file, defaults_file) != (None, None, None):
        raise ValueError(
            "server=, password_file= and defaults_file= are for servers: mysql://… or mariadb://…"
        )
    if live and (keys, mmap, storage_options) != (None, None, None):
        raise ValueError("keys=, mmap= and storage_options= are for files: a server sends its logs itself")
    checked = (None, None) if live else (start, stop)
    check_arguments(checked[0], checked[1], server_id, limits, schema, schema_start, charset)
    if schema is not None:
        schema = load(schema)
    if schema_start is not None:
        schema_start = load(schema_start)
    if follow and isinstance(target, bytes | bytearray | memoryview):
        raise ValueError("follow=True is for logs that grow; bytes do not")
    if live:
        from .server.target import server_logs

        files, start, stop = server_logs(
            target,
            server,
            start=start,
            stop=stop,
            follow=follow,
            limits=limits or Limits(),
            password_file=password_file,
            defaults_file=defaults_file,
        )
    else:
        files = resolve(target, keys=keys, mmap=False if follow else mmap, storage_options=storage_options)
    selection = Selection(
        tables=names(tables),
        columns=columns_by_pattern(columns),
        ops=ops_mask(ops),
        server_id=server_id,
        rows_v0=rows_v0,
        gtids=gtid_set(gtids, "gtids"),
        exclude_gtids=gtid_set(exclude_gtids, "exclude_gtids"),
    )
    return Log(
        files,
        selection=selection,
        start=start,
        stop=stop,
        schema=schema,
        schema_start=schema_start,
        charset=charset,
        verify_checksum=verify_checksum,
        skip_errors=on_error == "skip",
        strict=strict,
        limits=limits or Limits(),
        follow=follow,
    )


class _Within(NamedTuple):
    """Of a log that is one file of another, and is read without the log that follows it.

    Parameters
    ----------
    stop : threading.Event
        Of the pass over the files.
    first : Source
        The log, just opened.
    """

    stop: threading.Event
    first: Source


class Log:
    """One binary log, or several in order. Made by `open`; a context manager.

    Every pass (`headers`, `events`, `groups`, `batches`, `rows`) opens the log for itself and has a report
    and a tail of its own, so that several passes, also of several threads, never disturb each other. What can
    be read only once (a pipe, standard input) gives one pass, and says so at the second.

    Attributes
    ----------
    files : LogFiles
        What is read, in order.
    """

    def __init__(
        self,
        files: LogFiles,
        *,
        selection: Selection,
        start: Place | None,
        stop: Place | None,
        schema: Any,
        schema_start: Any,
        charset: str | None,
        verify_checksum: bool,
        skip_errors: bool,
        strict: bool,
        limits: Limits,
        follow: bool,
        within: _Within | None = None,
    ) -> None:
        self.files = files
        self._selection = selection
        self._start = start
        self._stop = stop
        self._schema = schema
        self._schema_start = schema_start
        self._charset = charset
        self._verify = verify_checksum
        self._skip = skip_errors
        self._strict = strict
        self._limits = limits
        self._options: dict[str, Any] = {
            "selection": selection,
            "schema": schema,
            "schema_start": schema_start,
            "charset": charset,
            "verify_checksum": verify_checksum,
            "skip_errors": skip_errors,
            "strict": strict,
            "limits": limits,
        }
        self._follow = follow
        self._within = within
        self._stopping = within.stop if within is not None else threading.Event()
        self._closed = False
        self._open: dict[int, Source | Log] = {}  # by id: what is closed with the log
        self._read_once: set[int] = set()  # files that cannot be opened again
        self._latest = Reading(Report(strict), self._stopping)
        # The first log is opened at once, so that what cannot be read says so here; the first pass reads it.
        if within is None:
            source = self._opened(0)
        else:
            source = within.first
            if source.read_once:
                self._read_once.add(0)
        self._open[id(source)] = source
        try:
            self._format = self._decoder(source, selection, self._latest.report).read_format()
            self._size: int | None = source.size
            if self._format is not None:
                for argument in ("gtids", "exclude_gtids"):
                    gtids, path = getattr(selection, argument), source.path
                    check_vendor(gtids, argument, mariadb=self._format.is_mariadb, path=path)
        except BaseException:
            source.close()
            raise
        self._waiting: list[Source] = [source]

    # ------------------------------------------------------------ what it is

    @property
    def format(self) -> FormatDescription:
        """The descriptor of the (first) log.

        Raises
        ------
        NotABinlogError
            The log ends before it says what it is.
        """
        if self._format is None:
            raise NotABinlogError("the log ends before it says what it is", path=self.files[0].path)
        return self._format

    @property
    def report(self) -> Report:
        """What the latest pass did not find told, skipped or lost; each pass has its own."""
        return self._latest.report

    @property
    def limits(self) -> Limits:
        """What bounds memory and time of its passes, as given to `open`."""
        return self._limits

    @property
    def tail(self) -> Tail | None:
        """Where and why the latest pass ended inside an event; each pass has its own."""
        return self._latest.tail

    @property
    def size(self) -> int | None:
        """Bytes of the (first) log as of now, decrypted and decompressed; None where that is not known."""
        if self._size is not None and not self._closed and 0 not in self._read_once:
            with self.files[0].open() as source:
                self._size = source.size
        return self._size

    @property
    def file_count(self) -> int:
        """Files from the one that holds `start` to the one that holds `stop`."""
        first, last = self._file_range()
        return last - first + 1

    @property
    def total_size(self) -> int | None:
        """Bytes of all local files as they are stored; None where one is not such a file."""
        try:
            return sum(os.path.getsize(file.path) for file in self.files)
        except OSError:
            return None

    def headers(self) -> np.ndarray:
        """Every event header of the file(s); events inside compressed transactions are not among them.

        Of what `open` was told to select, the range and `server_id` hold for headers and events.

        Returns
        -------
        ndarray, shape (n_events,), HEADER_DTYPE
            position u8 (our own 64-bit offset), timestamp u4, type_code u1 (today's numbering),
            server_id u4, event_length u4, next_position u4 (as the log has it), flags u2.

        Raises
        ------
        DecodeError
            A length cannot be, or (`ChecksumError`) a checksum is wrong.
        """
        parts = list(self.header_chunks())
        return np.concatenate(parts) if parts else np.empty(0, HEADER_DTYPE)

    def header_chunks(self) -> Pass[np.ndarray]:
        """`headers` piece by piece: memory does not grow with the log.

        Yields
        ------
        ndarray, HEADER_DTYPE
            At most 65536 headers, all of one file.
        """
        return self._pass(self._header_chunks)

    def _header_chunks(self, reading: Reading) -> Iterator[np.ndarray]:
        for decoder in self._decoders(reading, self._selection):
            yield from headers_of(decoder.track, decoder.selection.part)

    def events(
        self, types: Collection[int] | None = None, *, where: HeaderFilter | None = None
    ) -> Pass[Event]:
        """Every event, typed, in file order; those inside a compressed transaction follow theirs.

        Of what `open` was told to select, the range and `server_id` hold; events inside a compressed
        transaction go with the event that holds them.

        Parameters
        ----------
        types : collection of int, optional
            Type codes (`binlog_core._format.event_types.EventType`): only these are parsed and given.
        where : callable, optional
            Takes an array of headers (as `headers` gives) and returns a boolean mask of those to parse.

        Yields
        ------
        Event
            See `binlog_core.events`; unknown types are `OpaqueEvent`.

        Raises
        ------
        DecodeError
            An event cannot be what its type says, or (`ChecksumError`) its checksum is wrong.
        """

        def read(reading: Reading) -> Iterator[Event]:
            for decoder in self._decoders(reading, self._selection, follow=self._follow):
                yield from events_of(decoder.track, types, where, decoder.selection.part)

        return self._pass(read)

    def each_file(self) -> Iterator[Log]:
        """One Log for each file, with the options of this one: its `format`, events, rows and `report`.

        With ``follow=True`` the last one waits for more, and the logs that the server begins come after it.

        Yields
        ------
        Log
            Open until the next is asked for.

        Raises
        ------
        BinlogError
            A file cannot be opened, or is no log.
        """
        return self._each_file(self._stopping)

    def _each_file(self, stop: threading.Event) -> Iterator[Log]:
        if len(self.files) == 1 and not self._follow and not self.files[0].chained:
            yield self
            return
        first, last = self._file_range()
        for i in range(first, last + 1):
            here = _in_file(self._start, i == first), _in_file(self._stop, i == last)
            source, follow = self._taken(i), self._follow and i == last
            with self._alone_in(self.files[i], source, stop, *here, follow=follow) as log:
                yield log
        while (self._follow or self.files[last].chained) and not stop.is_set():
            file = log._latest.next_file or log.files[0].following()
            if file is None:
                return
            with self._alone_in(file, file.open(), stop, follow=self._follow) as log:
                yield log

    @contextmanager
    def _alone_in(
        self,
        file: LogFile,
        source: Source,
        stopping: threading.Event,
        start: Place | None = None,
        stop: Place | None = None,
        *,
        follow: bool,
    ) -> Iterator[Log]:
        within = _Within(stopping, source)
        options = self._options | {"follow": follow, "within": within}
        with Log(LogFiles([file]), start=start, stop=stop, **options) as log:
            self._open[id(log)] = log
            try:
                yield log
            finally:
                self._open.pop(id(log), None)

    def _unselected(self) -> Log:
        """The same logs whole: without range or selection, not followed."""
        options = self._options | {"follow": False, "selection": Selection()}
        return Log(self.files, start=None, stop=None, **options)

    # ------------------------------------------------------------ rows

    def groups(
        self,
        tables: str | Iterable[str] | None = None,
        columns: Columns | None = None,
        *,
        asides: bool = False,
    ) -> Pass[Group]:
        """Row changes as groups of batches; what a checkpoint needs is in each.

        Parameters
        ----------
        tables, columns
            As in `open`, for this pass.
        asides : bool
            Gather in ``group.asides`` what the log has besides rows: statements, savepoints, damage.

        Yields
        ------
        Group

        Raises
        ------
        DecodeError
            A length, count, type or value cannot be; what was decoded before has been yielded.
        SchemaError
            A given definition does not fit; at the end, a wanted column that no definition had.
        StrictError, TruncatedError
            With ``strict=True``.
        """
        selection = self._selected(tables, columns, asides=asides)
        return self._pass(lambda reading: self._groups(reading, selection))

    def _selected(
        self, tables: str | Iterable[str] | None, columns: Columns | None, *, asides: bool = False
    ) -> Selection:
        selection = replace(self._selection, asides=asides)
        if tables is not None:
            selection.tables = names(tables)
        if columns is not None:
            selection.columns = columns_by_pattern(columns)
        return selection

    def _groups(self, reading: Reading, selection: Selection) -> Iterator[Group]:
        definitions = self._definitions()
        if definitions is not None and definitions.follows:
            self._follow_up_to_start(definitions, reading)
        selection = replace(selection, met=NamesMet())
        any_rows = mariadb = False
        for decoder in self._decoders(reading, selection, definitions, follow=self._follow):
            for group in decoder.groups():
                any_rows = any_rows or bool(group.batches)
                yield group
                del group  # what its user keeps is the user's
            mariadb = decoder.format is not None and decoder.format.is_mariadb
        check_columns(selection)
        path = self.files[0].path
        report_unmet(reading.report, selection, definitions, path=path, any_rows=any_rows)
        if definitions is not None:
            reading.defined = lambda: selection.of_tables(definitions.tables(mariadb=mariadb))

    def tables(self) -> dict[str, Table]:
        """The tables that have row changes, as far as the log is read; no value is decoded.

        Returns
        -------
        dict of str to Table
            By "database.table", in the order in which they come; the latest definition of each.

        Raises
        ------
        BinlogError
            As `groups`.
        """
        found: dict[str, Table] = {}
        for group in self.groups(columns={"*": ()}):
            found.update((batch.table.full_name, batch.table) for batch in group.batches)
        return found

    def batches(
        self,
        tables: str | Iterable[str] | None = None,
        columns: Columns | None = None,
    ) -> Batches:
        """Row changes as structured arrays, one batch per table definition and group.

        Those of one table are an Arrow stream too: ``polars.DataFrame(log.batches("shop.orders"))``.

        Parameters
        ----------
        tables : str or iterable of str, optional
            Names or glob patterns; others are not decoded at all.
        columns : mapping, optional
            Table name or pattern to the names of the columns to decode.

        Returns
        -------
        Batches
            An iterator of ChangeBatch; errors while it is read are those of `groups`.
        """
        selection = self._selected(tables, columns)
        wanted = "all tables" if selection.tables is None else ", ".join(selection.tables)
        return Batches(
            lambda: self._pass(lambda reading: self._batches(reading, selection)),
            of=f"{wanted} in {self._named()}",
        )

    def _batches(self, reading: Reading, selection: Selection) -> Iterator[ChangeBatch]:
        for group in self._groups(reading, selection):
            batches = group.batches
            batches.reverse()
            del group  # a batch lives no longer than its user wants
            while batches:
                yield batches.pop()

    def rows(
        self,
        tables: str | Iterable[str] | None = None,
        columns: Columns | None = None,
    ) -> Pass[RowChange]:
        """One RowChange per changed row, in log order across tables.

        Parameters
        ----------
        tables, columns
            As in `batches`.

        Yields
        ------
        RowChange

        Raises
        ------
        DecodeError
            As `groups`; also text that its character set does not have.
        """
        selection = self._selected(tables, columns)
        return self._pass(lambda reading: self._rows(reading, selection))

    def _rows(self, reading: Reading, selection: Selection) -> Iterator[RowChange]:
        reader = ChangeReader(reading.report, skip_errors=self._skip)
        for group in self._groups(reading, selection):
            yield from reader.changes(group)

    # ------------------------------------------------------------ life

    def acknowledge(self, position: Position) -> None:
        """Tell a semi-synchronous server that everything before a position is stored safely.

        With ``server={"semi_sync": True}`` the server's commits wait for this. Else it does nothing.

        Parameters
        ----------
        position : Position
            Of a group whose batches are stored.
        """
        for opened in list(self._open.values()):
            opened.acknowledge(position)

    def stop(self) -> None:
        """End the waiting of all passes that follow a growing log, from another thread or a signal handler.

        Passes that are begun later follow it again.
        """
        stopping, self._stopping = self._stopping, threading.Event()
        stopping.set()

    def close(self) -> None:
        """End reading, and all passes. Batches stay valid: each holds on to the bytes it refers to."""
        self._closed = True
        if self._within is None:
            self._stopping.set()
        for opened in list(self._open.values()):
            opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError("a Log cannot be pickled: open it where it is needed, or send its batches or changes")

    def __repr__(self) -> str:
        return f"<binlog_core.Log {self._named()}{''.join(f', {told}' for told in self._told())}>"

    def _named(self) -> str:
        more = f" and {len(self.files) - 1} more" if len(self.files) > 1 else ""
        return f"{self.files[0].name}{more}"

    def _told(self) -> list[str]:
        """What is known without reading on."""
        told = ["closed"] if self._closed else []
        if self._format is not None:
            told += [self._format.server_version, f"v{self._format.binlog_version}"]
            told += [f"checksums {self._format.checksum}"]
        if self._size is not None:
            told.append(f"{self._size:,} bytes")
        return told

    def _repr_html_(self) -> str:
        told = "<br>".join(html.escape(one) for one in self._told())
        return f"<p><b>binlog_core.Log</b> {html.escape(self._named())}<br><small>{told}</small></p>"

    # ------------------------------------------------------------ one pass

    def _check_open(self) -> None:
        if self._closed:
            raise BinlogError("the log is closed", path=self.files[0].path)

    def _pass(self, read: Callable[[Reading], Iterator[T]]) -> Pass[T]:
        reading = Reading(Report(self._strict), self._stopping)
        return Pass(reading, self._items(reading, read))

    def _items(self, reading: Reading, read: Callable[[Reading], Iterator[T]]) -> Generator[T, None, None]:
        self._check_open()
        self._latest = reading
        self.files.tell(reading.report)
        for item in read(reading):
            yield item
            del item  # it lives no longer than its user wants
            if self._closed:
                raise BinlogError("the log was closed while it was read", path=self.files[0].path)

    def _taken(self, i: int) -> Source:
        """The i-th log for one pass: of the first the source that waits for it, if it does."""
        if i == 0:
            with suppress(IndexError):
                source = self._waiting.pop()
                self._open.pop(id(source), None)
                return source
        return self._opened(i)

    def _opened(self, i: int) -> Source:
        self._check_open()
        file = self.files[i]
        if i in self._read_once:
            raise BinlogError(READ_ONCE, path=file.path)
        source = file.open()
        if source.read_once:
            self._read_once.add(i)
        return source

    def _follow_up_to_start(self, definitions: Definitions, reading: Reading) -> None:
        """Apply the statements in front of a position to start at: the rows are of those definitions."""
        if self._start is None or isinstance(self._start, dt.datetime):
            return  # the logs are read from their beginning
        start = self._start
        if isinstance(start, Position):
            start = start.file, start.offset
        position = start[1] if isinstance(start, tuple) else start
        first, _ = self._file_range()
        if position <= 4 and not first:
            return
        for i in range(first + 1):
            if i in self._read_once or self.files[i].chained:  # a stream, of a server maybe
                reading.report.add(
                    "ddl_not_followed",
                    path=self.files[i].path,
                    detail="statements before the start: the log can be read only once",
                )
                continue
            with self.files[i].open() as source:
                # Who reads the rows verifies; what is damaged here is not asked for.
                selection = Selection()
                decoder = LogDecoder(
                    source, selection=selection, report=Report(), verify_checksum=False, skip_errors=True
                )
                for event in events_of(decoder.track, _STATEMENTS):
                    if i == first and event.position >= position:
                        break
                    if isinstance(event, QueryEvent) and may_change_definitions(event.query_bytes):
                        mariadb = decoder.format is not None and decoder.format.is_mariadb
                        definitions.follow(
                            event,
                            reading.report,
                            mariadb=mariadb,
                            path=source.path,
                            transaction=event.position,
                        )

    def _decoders(
        self,
        reading: Reading,
        selection: Selection,
        definitions: Definitions | None = None,
        *,
        follow: bool = False,
    ) -> Iterator[LogDecoder]:
        """A decoder for each log of a pass, which is open until the next is asked for."""
        first, last = self._file_range()
        for i in range(first, last + 1):
            if i > first:
                check_share(self.files[i])
                if (share := self.files[i].share) is not None and share.unproved:
                    reading.report.add("unproved_seams", path=self.files[i].path)
            source, follower = self._taken(i), None
            if (follow or self.files[i].chained) and i == last:
                follower = self.files[i].follower(source, reading.stop, reading.report)
            ranged = self._ranged(selection, i)
            decoder = self._decoder(source, ranged, reading.report, definitions, follower, reading.executed)
            yield from self._while_open(decoder, reading)
        file: LogFile | None = self.files[last]
        while file is not None and (file := file.after(decoder)) is not None:
            reading.next_file = file
            if self._within is not None:  # the log after this one is not read too
                return
            source = file.open()
            follower = file.follower(source, reading.stop, reading.report)
            ranged = self._ranged(selection, last + 1)
            decoder = self._decoder(source, ranged, reading.report, definitions, follower, reading.executed)
            yield from self._while_open(decoder, reading)

    def _while_open(self, decoder: LogDecoder, reading: Reading) -> Iterator[LogDecoder]:
        source = decoder.source
        self._open[id(source)] = source
        try:
            with source:
                yield decoder
        finally:
            self._open.pop(id(source), None)
            reading.tail = decoder.tail or reading.tail
        if self._closed:
            raise BinlogError("the log was closed while it was read", path=source.path)

    def _decoder(
        self,
        source: Source,
        selection: Selection,
        report: Report,
        definitions: Definitions | None = None,
        follower: Follower | ServerFollower | None = None,
        executed: Executed | None = None,
    ) -> LogDecoder:
        return LogDecoder(
            source,
            selection=selection,
            report=report,
            definitions=definitions,
            limits=self._limits,
            verify_checksum=self._verify,
            skip_errors=self._skip,
            follower=follower,
            executed=executed,
        )

    def _split_decoder(
        self, source: Source, *, start: int | None, stop: int | None, anchors: int, in_parts: bool
    ) -> LogDecoder:
        """A decoder of part of the first log, for `splits`.

        Parameters
        ----------
        source : Source
            The log, at its beginning.
        start : int or None
            Position of the first event.
        stop : int or None
            Read up to the first anchor at or behind it.
        anchors : int
            What an anchor is: see ``splits.Head``.
        in_parts : bool
            The rest of the log is read by others.
        """
        selection = self._ranged(replace(self._selection, met=NamesMet()), 0)
        selection = replace(
            selection,
            start_position=start,
            stop_position=stop,
            stop_anchor=anchors,
            in_parts=in_parts,
        )
        self._latest = Reading(Report(self._strict), self._stopping)
        self.files.tell(self._latest.report)
        return self._decoder(source, selection, self._latest.report, self._definitions())

    def _definitions(self) -> Definitions | None:
        if self._schema is None and self._charset is None:
            return None
        schema = {} if self._schema is None else self._schema
        return Definitions(schema, start=self._schema_start, limits=self._limits, charset=self._charset)

    def _file_range(self) -> tuple[int, int]:
        def index(place: Place | None, default: int) -> int:
            if isinstance(place, Position):
                place = place.file, place.offset
            if not isinstance(place, tuple):
                return default
            found = [i for i, f in enumerate(self.files) if place[0] in (f.path, name_within(f.path))]
            found = found or [i for i, f in enumerate(self.files) if os.path.basename(f.path) == place[0]]
            if not found:
                raise BinlogError(f"no file {place[0]!r} among those given", path=self.files[0].path)
            return found[0]

        return index(self._start, 0), index(self._stop, len(self.files) - 1)

    def _ranged(self, selection: Selection, i: int) -> Selection:
        """The selection for the i-th file."""
        first, last = self._file_range()
        changes: dict[str, Any] = {}
        for place, at, kind in ((self._start, first, "start"), (self._stop, last, "stop")):
            if isinstance(place, dt.datetime):
                changes[f"{kind}_timestamp"] = timestamp_of(place)
            elif isinstance(place, Position) and i == at:
                changes[f"{kind}_position"] = place.offset
                if kind == "start":
                    changes["done_records"] = place.records
            elif place is not None and i == at:
                changes[f"{kind}_position"] = place[1] if isinstance(place, tuple) else place
        share = self.files[min(i, len(self.files) - 1)].share
        if share is not None:
            if share.before is not None:
                changes["exclude_gtids"] = union(parse_gtid_set(share.before), selection.exclude_gtids)
            if share.until is not None:
                changes["stop_position"] = min(share.until, changes.get("stop_position", share.until))
        return replace(selection, **changes)


def _in_file(place: Place | None, at_edge: bool) -> int | dt.datetime | Position | None:
    """A place as the file at the edge of the range sees it; positions mean nothing in the other files."""
    if isinstance(place, dt.datetime) or place is None:
        return place
    if not at_edge:
        return None
    if isinstance(place, Position):
        return place
    return place[1] if isinstance(place, tuple) else place
