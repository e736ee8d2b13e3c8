"""`open`, and the Log that it gives."""

from __future__ import annotations

import datetime as dt
import os
import threading
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ._core._headers import HEADER_DTYPE
from ._core._values import RowChange
from ._decode.given_names import NamesMet, report_unmet
from ._decode.group import Group, Tail
from ._decode.gtid_selection import GtidArgument, check_vendor, gtid_set
from ._decode.log_decoder import LogDecoder
from ._decode.merge import ChangeReader
from ._decode.selection import (
    Columns,
    Limits,
    Place,
    Selection,
    check_arguments,
    check_columns,
    columns_by_pattern,
    names,
    ops_mask,
    timestamp_of,
)
from ._format.format_description import FormatDescription
from ._sources.follow import Follower
from ._sources.log_files import LogFile, LogFiles, next_log_after, resolve
from ._walk.event_walk import HeaderFilter, events_of, headers_of
from .batch import ChangeBatch
from .batches import Batches
from .errors import BinlogError, NotABinlogError
from .report import Report
from .schema.definitions import Definitions, load

if TYPE_CHECKING:
    from .events import Event
    from .schema.definitions import Definitions


def open(
    target: Any,
    *,
    schema: Any = None,
    keys: Any = None,
    verify_checksum: bool = True,
    on_error: str = "raise",
    strict: bool = False,
    start: Place | None = None,
    stop: Place | None = None,
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
    limits: Limits | None = None,
) -> Log:
    """Open MySQL or MariaDB binary logs.

    Parameters
    ----------
    target : str, path, file object, bytes-like, or a list of them
        A log (plain, gzip, zstd or xz; encrypted by its server with ``keys``), ``"-"`` for standard
        input, a URL that fsspec knows, a directory of logs, or an index file.
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
    start, stop : int, (file name, int) or datetime, optional
        Positions in bytes of the first event, and of the first event no more read; or the time of the
        event headers (naive datetimes are UTC).
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
    limits : Limits, optional
        Rows and bytes of a group, and how much may come out of compressed data.

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
    BinlogError
        The target does not exist or cannot be read.
    TypeError, ValueError
        An argument has a type or value that is not among those named here.
    """
    if on_error not in ("raise", "skip"):
        raise ValueError(f"on_error={on_error!r}: 'raise' or 'skip'")
    check_arguments(start, stop, server_id, limits, schema, schema_start)
    if schema is not None:
        schema = load(schema)
    if schema_start is not None:
        schema_start = load(schema_start)
    if follow and isinstance(target, bytes | bytearray | memoryview):
        raise ValueError("follow=True is for logs that grow; bytes do not")
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
        verify_checksum=verify_checksum,
        skip_errors=on_error == "skip",
        strict=strict,
        limits=limits or Limits(),
        follow=follow,
    )


class Log:
    """One binary log, or several in order. Made by `open`; a context manager.

    Attributes
    ----------
    files : LogFiles
        What is read, in order.
    report : Report
        What the last pass did not find told, skipped or lost.
    tail : Tail or None
        Where and why the last pass ended inside an event.
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
        verify_checksum: bool,
        skip_errors: bool,
        strict: bool,
        limits: Limits,
        follow: bool,
    ) -> None:
        self.files = files
        self.report = Report(strict)
        self.tail: Tail | None = None
        self._selection = selection
        self._start = start
        self._stop = stop
        self._schema = schema
        self._schema_start = schema_start
        self._verify = verify_checksum
        self._skip = skip_errors
        self._limits = limits
        self._options: dict[str, Any] = {
            "selection": selection,
            "schema": schema,
            "schema_start": schema_start,
            "verify_checksum": verify_checksum,
            "skip_errors": skip_errors,
            "strict": strict,
            "limits": limits,
        }
        self._follow = follow
        self._alone = False  # the log after this one is not read too
        self._stop_following = threading.Event()
        self._closed = False
        # The first log is opened at once, so that what cannot be read says so here.
        self._source: Any = files[0].open()
        try:
            self._format = self._decoder(self._source, selection, None).read_format()
            if self._format is not None:
                for argument in ("gtids", "exclude_gtids"):
                    gtids, path = getattr(selection, argument), self._source.path
                    check_vendor(gtids, argument, mariadb=self._format.is_mariadb, path=path)
        except BaseException:
            self._source.close()
            raise

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
    def size(self) -> int | None:
        """Bytes of the (first) log as of now, decrypted and decompressed; None where that is not known."""
        size: int | None = self._source.size
        return size

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

    def header_chunks(self) -> Iterator[np.ndarray]:
        """`headers` piece by piece: memory does not grow with the log.

        Yields
        ------
        ndarray, HEADER_DTYPE
            At most 65536 headers, all of one file.
        """
        self._begin_pass()
        for source in self._sources():
            yield from headers_of(self._decoder(source, self._selection, None))

    def events(
        self, types: Collection[int] | None = None, *, where: HeaderFilter | None = None
    ) -> Iterator[Event]:
        """Every event, typed, in file order; those inside a compressed transaction follow theirs.

        Parameters
        ----------
        types : collection of int, optional
            Type codes (`binlog_core._format.event_types.EventType`): only these are parsed and given.
        where : callable, optional
            Takes an array of headers (as `headers` gives) and returns a boolean mask of those to parse.
            Events inside a compressed transaction go with the event that holds them.

        Yields
        ------
        Event
            See `binlog_core.events`; unknown types are `OpaqueEvent`.

        Raises
        ------
        DecodeError
            An event cannot be what its type says, or (`ChecksumError`) its checksum is wrong.
        """
        self._begin_pass()
        for source in self._sources(self._follow):
            decoder = self._decoder(source, self._selection, None)
            self._wait_with(decoder)
            yield from events_of(decoder, types, where)

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
        first, last = self._file_range()
        if len(self.files) == 1 and not self._follow:  # maybe a stream, which cannot be opened twice
            yield self
            return
        for i in range(first, last + 1):
            start, stop = _in_file(self._start, i == first), _in_file(self._stop, i == last)
            with self._alone_in(self.files[i], start, stop, follow=self._follow and i == last) as log:
                yield log
        if self._follow:
            for file in self._files_after(self.files[last]):
                with self._alone_in(file, None, None, follow=True) as log:
                    yield log

    def _alone_in(self, file: LogFile, start: Place | None, stop: Place | None, *, follow: bool) -> Log:
        log = Log(LogFiles([file]), start=start, stop=stop, **(self._options | {"follow": follow}))
        log._alone, log._stop_following = True, self._stop_following
        return log

    # ------------------------------------------------------------ rows

    def groups(
        self,
        tables: str | Iterable[str] | None = None,
        columns: Columns | None = None,
        *,
        asides: bool = False,
    ) -> Iterator[Group]:
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
        selection = replace(self._selection, met=NamesMet(), asides=asides)
        if tables is not None:
            selection.tables = names(tables)
        if columns is not None:
            selection.columns = columns_by_pattern(columns)
        self._begin_pass()
        definitions = self._definitions()
        any_rows = False
        for i, source in enumerate(self._sources(self._follow)):
            decoder = self._decoder(source, self._ranged(selection, i), definitions)
            self._wait_with(decoder)
            try:
                for group in decoder.groups():
                    any_rows = any_rows or bool(group.batches)
                    yield group
                    del group  # what its user keeps is the user's
            finally:
                self.tail = decoder.tail or self.tail
        check_columns(selection)
        path = self.files[0].path
        report_unmet(self.report, selection, definitions, path=path, any_rows=any_rows)

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
        return Batches(lambda: self._batches(tables, columns))

    def _batches(self, tables: str | Iterable[str] | None, columns: Columns | None) -> Iterator[ChangeBatch]:
        for group in self.groups(tables, columns):
            batches = group.batches
            batches.reverse()
            del group  # a batch lives no longer than its user wants
            while batches:
                yield batches.pop()

    def rows(
        self,
        tables: str | Iterable[str] | None = None,
        columns: Columns | None = None,
    ) -> Iterator[RowChange]:
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
        reader = None
        for group in self.groups(tables, columns):
            if reader is None:
                reader = ChangeReader(self.report, skip_errors=self._skip)
            yield from reader.changes(group)

    # ------------------------------------------------------------ life

    def stop(self) -> None:
        """End a pass that follows a growing log, from another thread or a signal handler."""
        self._stop_following.set()

    def close(self) -> None:
        """End reading. Batches stay valid: each holds on to the bytes it refers to."""
        self._closed = True
        if not self._alone:
            self._stop_following.set()
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError("a Log cannot be pickled: open it where it is needed, or send its batches or changes")

    def __repr__(self) -> str:
        return f"<binlog_core.Log {self.files[0].name}{' …' if len(self.files) > 1 else ''}>"

    # ------------------------------------------------------------ one pass

    def _begin_pass(self) -> None:
        if self._closed:
            raise BinlogError("the log is closed", path=self.files[0].path)
        self.report = Report(self.report.strict)
        self.tail = None
        for gap in self.files.gaps:
            self.report.add(
                "file_gaps", path=self.files[0].path, detail=f"{gap.base} {gap.first} to {gap.last}"
            )

    def _sources(self, follow: bool = False) -> Iterator[Any]:
        first, last = self._file_range()
        for i in range(first, last + 1):
            file = self.files[i]
            if i == 0:
                if self._source.position:
                    self._source.seek(0)
                yield self._source
            else:
                with file.open() as source:
                    yield source
            if self._closed:
                raise BinlogError("the log was closed while it was read", path=file.path)
        if follow and not self._alone:
            for file in self._files_after(self.files[last]):
                with file.open() as source:
                    yield source

    def _files_after(self, file: LogFile) -> Iterator[LogFile]:
        """The logs that the server has begun since, while somebody wants them."""
        while not self._stop_following.is_set() and (path := next_log_after(file.path)) is not None:
            file = replace(file, path=path)
            yield file

    def _wait_with(self, decoder: LogDecoder) -> None:
        """Where the log is followed, its decoder waits for more."""
        if self._follow:
            decoder.follower = Follower(decoder.source, stop=self._stop_following)

    def _decoder(self, source: Any, selection: Selection, definitions: Definitions | None) -> LogDecoder:
        return LogDecoder(
            source,
            selection=selection,
            report=self.report,
            definitions=definitions,
            limits=self._limits,
            verify_checksum=self._verify,
            skip_errors=self._skip,
        )

    def _split_decoder(
        self, *, start: int | None, stop: int | None, anchors: int, in_parts: bool
    ) -> LogDecoder:
        """A decoder of part of the first log, for `splits`.

        Parameters
        ----------
        start : int or None
            Position of the first event.
        stop : int or None
            Read up to the first anchor at or behind it.
        anchors : int
            What an anchor is: see ``splits.Head``.
        in_parts : bool
            The rest of the log is read by others.
        """
        self._begin_pass()
        selection = self._ranged(replace(self._selection, met=NamesMet()), 0)
        selection = replace(
            selection,
            start_position=start,
            stop_position=stop,
            stop_anchor=anchors,
            in_parts=in_parts,
        )
        if self._source.position:
            self._source.seek(0)
        return self._decoder(self._source, selection, self._definitions())

    def _definitions(self) -> Definitions | None:
        if self._schema is None:
            return None
        return Definitions(self._schema, start=self._schema_start, limits=self._limits)

    def _file_range(self) -> tuple[int, int]:
        def index(place: Place | None, default: int) -> int:
            if not isinstance(place, tuple):
                return default
            found = [i for i, f in enumerate(self.files) if _same_name(f, place[0])]
            if not found:
                raise BinlogError(f"no file {place[0]!r} among those given", path=self.files[0].path)
            return found[0]

        return index(self._start, 0), index(self._stop, len(self.files) - 1)

    def _ranged(self, selection: Selection, i: int) -> Selection:
        """The selection for the i-th file read of this pass."""
        first, last = self._file_range()
        i += first
        changes: dict[str, Any] = {}
        for place, at, kind in ((self._start, first, "start"), (self._stop, last, "stop")):
            if isinstance(place, dt.datetime):
                changes[f"{kind}_timestamp"] = timestamp_of(place)
            elif place is not None and i == at:
                changes[f"{kind}_position"] = place[1] if isinstance(place, tuple) else place
        return replace(selection, **changes)


def _in_file(place: Place | None, at_edge: bool) -> int | dt.datetime | None:
    """A place as the file at the edge of the range sees it; positions mean nothing in the other files."""
    if isinstance(place, dt.datetime) or place is None:
        return place
    if not at_edge:
        return None
    return place[1] if isinstance(place, tuple) else place


def _same_name(file: LogFile, name: str) -> bool:
    return file.path == name or os.path.basename(file.path) == name
