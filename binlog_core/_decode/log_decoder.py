"""One log's rows, group by group: drives the compiled loop and handles what it leaves to Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from .._core import _rows
from .._format.compression import payload_chunks
from .._format.descriptors import parse_next_descriptor
from .._format.event_header import FIRST_EVENT, IGNORABLE_FLAG
from .._format.event_types import COMPRESSED_ROWS_EVENTS, GTID_EVENTS, ROWS_EVENTS, ROWS_EVENTS_V0, EventType
from .._format.format_description import FormatDescription
from .._format.rows_events import inflate_rows_event
from .._format.statements import changes_rows, may_change_definitions
from .._gtid_fields import gtid_of
from .._walk.anchors import NOT_IN_PARTS
from .._walk.packed import PackedEvents
from .._walk.salvage import Resumption
from .._walk.track import Tail, Track, asked_from
from ..errors import (
    BinlogError,
    DecodeError,
    EncryptionError,
    MissingExtraError,
    StrictError,
    TruncatedError,
)
from ..gtids import GtidSet
from ..limits import DEFAULT_LIMITS, Limits
from ..report import Report
from .at_hand import parse_at_hand, query_body
from .executed import Executed, last_of_domains
from .gathering import Checkpoint, Gathering
from .group import Group
from .gtid_selection import is_selected
from .log_plans import Known, LogPlans, definitions_of_transaction
from .selection import Selection

if TYPE_CHECKING:
    from .._sources.follow import Follower
    from .._sources.sources import Source
    from ..events import QueryEvent, XaPrepareEvent
    from ..schema.definitions import Definitions
    from ..server.source import ServerFollower

_ENDLESS = 2**64 - 1

_LOAD_EVENTS = frozenset(
    (EventType.LOAD, EventType.NEW_LOAD, EventType.EXECUTE_LOAD_QUERY, EventType.EXEC_LOAD)
)
_QUIET_EVENTS = frozenset(  # nothing of theirs concerns rows
    (
        EventType.SLAVE,
        EventType.CREATE_FILE,
        EventType.APPEND_BLOCK,
        EventType.DELETE_FILE,
        EventType.BEGIN_LOAD_QUERY,
    )
)
_PREPARED_XA = 64  # flag of MariaDB's GTID event
_NOT_SKIPPED = (StrictError, MissingExtraError, TruncatedError, EncryptionError)


class LogDecoder:
    """Decodes one source.

    Parameters
    ----------
    source : Source
    selection : Selection
    report : Report
    definitions : Definitions or None
        Given table definitions, followed through DDL or not.
    limits : Limits
    verify_checksum, skip_errors : bool
    follower : Follower or None
        Waits at the end of a growing log.
    executed : Executed or None
        The GTIDs of the pass so far; continues with those of this log.
    known : Known or None
        Shared by the readers of parts of this log.
    """

    def __init__(
        self,
        source: Source,
        *,
        selection: Selection,
        report: Report,
        definitions: Definitions | None = None,
        limits: Limits = DEFAULT_LIMITS,
        verify_checksum: bool = True,
        skip_errors: bool = False,
        follower: Follower | ServerFollower | None = None,
        executed: Executed | None = None,
        known: Known | None = None,
    ) -> None:
        self.track = Track(
            source,
            report,
            limits=limits,
            verify_checksum=verify_checksum,
            skip_errors=skip_errors,
            in_parts=selection.in_parts,
            follower=follower,
        )
        self.source = source
        self.path = source.path
        self.selection = selection
        self.report = report
        self.definitions = definitions
        self.limits = limits
        self.verify = verify_checksum
        self.skip_errors = skip_errors
        self.stopped_at: int | None = None  # the event that `selection` says to stop at
        self.on_pause: Callable[[], None] = source.check_size  # now and then, where nothing is handed over
        known = known or Known(selection.where)
        self._loop = _rows.Decoder(
            group_rows=limits.group_rows,
            group_bytes=limits.group_bytes,
            group_memory=limits.group_memory,
            record_bytes=limits.record_bytes,
            arrow_bytes=limits.arrow_bytes,
            table_definitions=limits.table_definitions,
            table_definitions_of_transaction=definitions_of_transaction(limits),
            verify=verify_checksum,
            wishes=known.wishes,
        )
        loop = self._loop
        self._plans = LogPlans(
            self.path,
            loop,
            selection=selection,
            limits=limits,
            report=report,
            definitions=definitions,
            skip_errors=skip_errors,
            known=known,
        )
        self._stop_at(selection.stop_position)
        self._own_anchors = 0 if selection.stop_position is None else selection.stop_anchor
        self._anchors = self._own_anchors
        self._executed = executed or Executed()
        if source.gtids is not None:
            self._executed.contain(source.gtids)
        self._gathering = Gathering(
            source,
            loop,
            self._plans,
            selection=selection,
            executed=self._executed,
            limits=limits,
            report=report,
            skip_errors=skip_errors,
        )
        self._asides = self._gathering.asides

    @property
    def format(self) -> FormatDescription | None:
        """The descriptor in force, once it has been read."""
        return self.track.format

    @property
    def tail(self) -> Tail | None:
        """Where the log ended inside an event."""
        return self.track.tail

    @property
    def resume_position(self) -> int:
        """The last transaction boundary."""
        return int(self._loop.resume_position)

    def checkpoint(self) -> Checkpoint:
        """Which of the transactions read so far have ended, and which has not."""
        return self._gathering.checkpoint()

    @property
    def position(self) -> int:
        """The position up to which everything was read."""
        return self._loop.position

    @property
    def _is_mariadb(self) -> bool:
        return self.format is not None and self.format.is_mariadb

    def read_format(self) -> FormatDescription | None:
        """Recognize the log; None if it ends before its format description."""
        return self.track.read_format()

    def _stop_at(self, position: int | None, anchors: int = 0) -> None:
        selection, self._stop = self.selection, position
        self._loop.select(
            ops=selection.ops,
            server_id=-1 if selection.server_id is None else selection.server_id,
            rows_v0=selection.rows_v0,
            stop_position=_ENDLESS if position is None else position,
            stop_anchor=anchors,
            start_timestamp=selection.start_timestamp or 0,
            stop_timestamp=_ENDLESS if selection.stop_timestamp is None else selection.stop_timestamp,
            gtids_to_python=selection.selects_gtids,
            asides_to_python=selection.asides,
        )

    # ------------------------------------------------------------ groups

    def groups(self) -> Iterator[Group]:
        """Decode to the end, or to where `selection` says.

        Yields
        ------
        Group

        Raises
        ------
        BinlogError
            Something cannot be decoded; the groups before it have been yielded.
        """
        start = self.selection.start_position
        if self.begin():
            self._begin_at(start)
            yield from self._from(start)

    def part(self, start: int | None, stop: int | None, anchors: int) -> Iterator[Group]:
        """Decode the transactions that begin in a part of the log, which begins after the parts read before.

        Decoding continues to the end, and `stopped_at` stays None, if the rest depends on what was read: a
        transaction is open, or the log has changed its format since its beginning.

        Parameters
        ----------
        start : int or None
            Position of the anchor at which the part begins; None: where `selection` says.
        stop : int or None
            Read up to the first anchor at or after it; None: to where `selection` says.
        anchors : int
            What counts as an anchor.
        """
        if self.format is None:
            return
        asked = self.selection.start_position if start is None else None
        if start is not None:
            self._loop.break_off()  # independent of what was read before
        self._begin_at(asked if start is None else start)
        self._anchors = anchors if stop is not None else self._own_anchors
        self.track.read_to = stop
        self._stop_at(self.selection.stop_position if stop is None else stop)
        yield from self._from(asked)
        if stop is not None and self.stopped_at is not None:
            self._executed.add(self._loop.take_gtids())
            if self.stopped_at >= stop and self._goes_on:
                self._anchors = self._own_anchors
                self._stop_at(self.selection.stop_position)
                yield from self._from(asked)
                self.stopped_at = None

    @property
    def _goes_on(self) -> bool:
        return (
            self._loop.in_transaction
            or self.track.lacks_bytes
            or self._gathering.done_records > 0
            or self.format is not self._first_format
        )

    def begin(self) -> bool:
        """Read the log's descriptor, for `part`; False: the log ends before it."""
        description = self.track.wait_for_format()
        if description is None:
            return False
        self._first_format = description
        self._set_format(description)
        self._loop.check_positions(self.track.checks_positions)
        return True

    def _begin_at(self, start: int | None) -> None:
        before = self.format
        offset = self.track.begin(start)
        if self.format is not None and self.format is not before:
            self._set_format(self.format)
        self._feed(offset)

    def _from(self, asked: int | None) -> Iterator[Group]:
        """Walk on. `asked`: where the user asked to start."""
        self.stopped_at = None
        try:
            yield from self._walk()
        except BinlogError as error:
            # No valid rows are lost: those gathered so far come before the error.
            self._plans.count_silence()
            if self._gathering.has_rows or self._asides:
                yield from self._gathering.take()
            raise asked_from(error, asked).located(path=self.path) from error.__cause__
        # A group says how far a followed log was read, even if nothing in it was wanted:
        # logs before an old position are purged at some time.
        if self._loop.has_news or self._asides or self.track.follower is not None:
            yield from self._gathering.take()
        self._plans.count_silence()

    def _walk(self) -> Iterator[Group]:
        loop, track = self._loop, self.track
        while True:
            status = loop.run()
            if status == _rows.MORE:
                if (offset := track.more(self._offset, loop)) is not None:
                    self._feed(offset)
                    continue
                if track.follower is not None:
                    if self._gathering.has_to_tell:
                        yield from self._gathering.take()  # rows are returned before this waits for bytes
                    if track.waits():
                        continue
                if not self._finish():
                    return
            elif status == _rows.GROUP:
                yield from self._gathering.take_some()
                if track.turn(self._offset, loop):
                    self._feed(0)
            elif status == _rows.TABLE:
                yield from self._make_room_for_a_plan()
                self._plans.add(mariadb=self._is_mariadb)
            elif status == _rows.EVENT:
                try:
                    yield from self._on_event()
                except BinlogError as error:
                    self._skip_or_raise(error)
                if self._asides.many:
                    yield from self._gathering.take()
            elif status == _rows.ERROR:
                if track.follower is not None and self._may_be_torn(loop.failure()):
                    if self._gathering.has_to_tell:
                        yield from self._gathering.take()
                    torn = int(loop.failure()["position"])
                    if track.read_again(torn):
                        self._feed(torn - track.base)
                        continue
                if self._on_error():
                    return
            elif status == _rows.PAUSE:
                self.on_pause()
            elif status == _rows.STOP:
                self.stopped_at = loop.position
                if not self._anchors or self._stop is None or self.stopped_at < self._stop:
                    return
                # Only from here on, since it checks every event a second time.
                self._stop_at(self._stop, self._anchors)
                self._anchors, self.stopped_at = 0, None

    def _make_room_for_a_plan(self) -> Iterator[Group]:
        if not self._plans.has_room():
            if self._gathering.has_rows:
                yield from self._gathering.take()
            self._plans.clear()

    # ------------------------------------------------------------ bytes

    def _feed(self, offset: int) -> None:
        """Make the loop continue at an offset of the window."""
        track = self.track
        self._loop.feed(track.window, track.base, start=offset, keep=track.mapped or track.in_block)

    @property
    def _offset(self) -> int:
        """Offset of the loop in the window."""
        return len(self.track.window) - int(self._loop.left)

    def _finish(self) -> bool:
        """No more bytes come. Whether the log continues after an event whose length is not valid."""
        broken_at = int(self._loop.position)
        found = self.track.finish(self._offset, self._loop.doubtful_position)
        if found is None:
            return False
        self._asides.lose(broken_at, "an incomplete event")
        self._go_on(found, broken_at)
        return True

    # ------------------------------------------------------------ left to Python by the loop

    def _set_format(self, description: FormatDescription) -> None:
        self.track.format = description
        header_length, lengths, canonical, checksum = description.core_arrays()
        self._loop.set_format(header_length, lengths, canonical, bool(checksum))

    def _on_event(self) -> Iterator[Group]:
        loop = self._loop
        kind, offset = int(loop.event_type), int(loop.event_position)
        if kind == EventType.QUERY:
            database, statement = loop.query()
            self._asides.note_statement(statement, database)
            yield from self._on_statement(statement, offset, lambda: self._query_event(database, statement))
        elif loop.without_map:
            self.report.add("rows_without_table_map", path=self.path, offset=offset)
            self._asides.lose(offset, "rows of a table without its table map")
        elif kind in (EventType.PREVIOUS_GTIDS, EventType.MARIADB_GTID_LIST):
            self._note_gtids_before(kind)
        elif kind == EventType.XA_PREPARE:
            self._note_xa_prepare()
        elif kind == EventType.TABLE_MAP:
            self._asides.note("lost", "the beginning of a transaction was not read")
        elif kind == EventType.TRANSACTION_PAYLOAD:
            chunks = payload_chunks(
                loop.event_body(), limit=self.limits.payload_bytes, path=self.path, offset=offset
            )
            yield from self._walk_inside(chunks)
        elif kind in COMPRESSED_ROWS_EVENTS:
            assert self.format is not None
            inflated = inflate_rows_event(
                loop.event_bytes(),
                loop.event_body(),
                kind,
                self.format,
                limit=self.limits.decompressed_bytes,
                path=self.path,
                offset=offset,
            )
            yield from self._walk_inside(iter((inflated,)))
        elif kind in (EventType.FORMAT_DESCRIPTION, EventType.START_V3):
            yield from self._on_descriptor(offset)
        elif kind in GTID_EVENTS:
            if self.selection.selects_gtids:
                self._select_transaction()
            if (
                self.selection.asides
                and kind == EventType.MARIADB_GTID
                and loop.event_body()[12] & _PREPARED_XA
            ):
                self._asides.note("xa start")
        elif kind == EventType.MARIADB_QUERY_COMPRESSED:
            event: QueryEvent = self._parse()
            loop.end_statement()
            self._asides.note_statement(event.query_bytes, event.database.encode("utf-8", "surrogateescape"))
            yield from self._on_statement(event.query_bytes, offset, lambda: event)
        elif kind in _LOAD_EVENTS:
            loop.end_statement()
            self.report.add("statement_changes", path=self.path, offset=offset, detail="LOAD DATA")
            self._asides.note("statement", "LOAD DATA")
        elif kind in ROWS_EVENTS_V0:
            self.report.add("rows_v0", path=self.path, offset=offset)
            self._asides.lose(offset, "rows events of version 0")
        elif kind == EventType.MARIADB_START_ENCRYPTION:
            self._on_start_encryption(offset)
        elif kind == EventType.INCIDENT:
            self.report.add("incidents", path=self.path, offset=offset)
            self._asides.lose(offset, "an incident: the server says that events are missing")
        elif kind not in _QUIET_EVENTS and not loop.event_flags & IGNORABLE_FLAG:
            self.report.add("unknown_events", path=self.path, offset=offset, detail=f"type {kind}")
            self._asides.lose(offset, f"an event of unknown type {kind}")

    def _on_statement(
        self, statement: bytes, offset: int, whole: Callable[[], QueryEvent]
    ) -> Iterator[Group]:
        definitions = self.definitions
        if changed := changes_rows(statement):
            self.report.add("statement_changes", path=self.path, offset=offset)
        if definitions is not None and (
            definitions.notes_changes
            if changed
            else definitions.follows and may_change_definitions(statement) and not self._is_repeated()
        ):
            event = whole()  # before the group is taken: it is still the loop's current event
            transaction = int(self._loop.transaction_position)
            if self._gathering.has_rows:
                yield from self._gathering.take()
            assert self.format is not None
            definitions.follow(
                event,
                self.report,
                mariadb=self.format.is_mariadb,
                path=self.path,
                transaction=transaction,
            )
            self._plans.clear()

    def _parse(self, body: bytes | memoryview | None = None) -> Any:
        assert self.format is not None
        return parse_at_hand(self._loop, self.format, self.path, body)

    def _query_event(self, database: bytes, statement: bytes) -> QueryEvent:
        """The current QUERY event with its status variables."""
        assert self.format is not None
        event: QueryEvent = self._parse(query_body(self._loop, self.format, database, statement))
        return event

    def _note_xa_prepare(self) -> None:
        event: XaPrepareEvent = self._parse()
        text = f"X'{event.gtrid.hex()}',X'{event.bqual.hex()}',{event.format_id}"
        self._asides.note("xa prepare", text)

    def _note_gtids_before(self, kind: int) -> None:
        self._executed.add(self._loop.take_gtids())
        try:
            if kind == EventType.PREVIOUS_GTIDS:  # not as a typed event: almost every log begins with one
                self._executed.contain(GtidSet.from_bytes(self._loop.event_body()))
            else:
                self._executed.contain(last_of_domains(self._parse().gtids))
        except BinlogError:  # only positions need it
            self._executed.forget()

    def _on_start_encryption(self, offset: int) -> None:
        # A copy that a server sent to a client keeps this event, with the flag, and is in clear.
        sent_in_clear = self._loop.event_flags & IGNORABLE_FLAG
        if not sent_in_clear and not self.source.decrypted:
            raise EncryptionError(
                "encrypted from here on: give keys= (MariaDB's key file, key number 1)",
                path=self.path,
                offset=offset,
                type_code=EventType.MARIADB_START_ENCRYPTION,
            )

    def _on_descriptor(self, offset: int) -> Iterator[Group]:
        if offset <= FIRST_EVENT:
            return  # read by read_format
        assert self.format is not None
        description = parse_next_descriptor(
            self._loop.event_bytes(), offset, self.path, self.format, verify_checksum=self.verify
        )
        if self._gathering.has_rows:
            yield from self._gathering.take()
        if description.is_mariadb != self.format.is_mariadb:
            self._plans.clear()  # the vendors count metadata differently
        self._set_format(description)

    def _walk_inside(self, chunks: Iterator[bytes]) -> Iterator[Group]:
        """Walk over the events inside the current one."""
        loop = self._loop
        offset, kind = int(loop.event_position), int(loop.event_type)
        packed = PackedEvents(chunks, self.limits, self.path, offset, kind)
        entered = False
        try:
            for window in packed:
                loop.enter(window)
                entered = True
                yield from self._walk_window()
                packed.left = int(loop.left)
        except BinlogError as error:
            raise error.located(path=self.path, offset=offset, type_code=kind) from error.__cause__
        finally:
            if entered:
                loop.leave()

    def _walk_window(self) -> Iterator[Group]:
        """Like `_walk`, up to the end of the inner window."""
        loop = self._loop
        while True:
            status = loop.run()
            if status == _rows.MORE or status == _rows.STOP:
                return
            if status == _rows.GROUP:
                yield from self._gathering.take_some()
            elif status == _rows.TABLE:
                yield from self._make_room_for_a_plan()
                self._plans.add(mariadb=self._is_mariadb)
            elif status == _rows.EVENT:
                if int(loop.event_type) == EventType.TRANSACTION_PAYLOAD:
                    raise DecodeError("a compressed transaction inside a compressed transaction")
                yield from self._on_event()
            elif status == _rows.ERROR:
                self._on_inner_error()

    def _is_repeated(self) -> bool:
        """Whether the current transaction was already in an earlier segment of the archive."""
        repeated = self.selection.repeated
        return repeated is not None and not is_selected(gtid_of(self._loop.gtid()), None, repeated)

    def _select_transaction(self) -> None:
        selection = self.selection
        selected = is_selected(gtid_of(self._loop.gtid()), selection.gtids, selection.exclude_gtids)
        selection.met.gtids |= selected
        self._loop.skip_transaction(not selected)

    # ------------------------------------------------------------ errors

    def _skip_or_raise(self, error: BinlogError) -> None:
        """Handle an error in an event that was already passed: with on_error="skip" count it and continue."""
        if not self.skip_errors or isinstance(error, _NOT_SKIPPED):
            raise error
        self.report.add("skipped_events", path=self.path, offset=error.offset, detail=error.message)
        self.report.lose(self.path, self._loop.event_position, self._loop.position)
        self._asides.lose(int(self._loop.event_position), f"a damaged event: {error.message}")

    def _on_error(self) -> bool:
        """Raise, or count the error, skip the event and say whether to stop here."""
        info = self._loop.failure()
        error = self._plans.error_of(info, mariadb=self._is_mariadb)
        if info["fault"] == _rows.NO_MEMORY:
            raise MemoryError(str(error))
        position, length = int(info["position"]), int(self._loop.event_length)
        if self._may_be_torn(info) and self.track.is_torn(position, self.track.end):
            return True
        if not self.skip_errors:
            if info["fault"] == _rows.WRONG_POSITION and self.selection.in_parts:
                error.message += NOT_IN_PARTS
            raise error
        self._asides.lose(position, f"a damaged event: {error.message}")
        found = self.track.pass_over(position, length, error.message, self._loop.doubtful_position)
        self._go_on(found, position)
        return found.offset is None

    def _on_inner_error(self) -> None:
        """The same for an event inside another: the next one is where this one says, or nowhere."""
        info = self._loop.failure()
        error = self._plans.error_of(info, mariadb=self._is_mariadb)
        if info["fault"] == _rows.NO_MEMORY:
            raise MemoryError(str(error))
        if not self.skip_errors or info["fault"] == _rows.WRONG_LENGTH:
            raise error
        self.report.add("skipped_events", path=self.path, offset=info["position"], detail=error.message)
        self._asides.lose(int(self._loop.event_position), f"a damaged event: {error.message}")

    def _go_on(self, found: Resumption, position: int) -> None:
        """Make the loop continue after an event that was skipped."""
        loop = self._loop
        if found.ahead:
            loop.check_positions(False)
        if not found.chained:
            loop.break_off()
            if self.selection.selects_gtids:
                self._select_transaction()
        elif loop.event_type not in ROWS_EVENTS and not found.begins_at(position):
            loop.forget_table_maps()  # the table that it would have mapped is not known
        if found.offset is not None:
            self._feed(found.offset)

    def _may_be_torn(self, info: dict[str, Any]) -> bool:
        """Whether a wrong CRC is in the last bytes read from a log in use."""
        end = self.track.end - int(self._loop.left)
        return info["fault"] == _rows.WRONG_CHECKSUM and self.track.may_be_torn(end)
