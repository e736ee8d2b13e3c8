"""The events that the compiled loop leaves to Python: those that are not rows, or that contain others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from .._core import _rows
from .._format.compression import payload_chunks
from .._format.descriptors import parse_next_descriptor
from .._format.event_header import FIRST_EVENT, HEADER_LENGTH_V3, IGNORABLE_FLAG, type_of
from .._format.event_types import COMPRESSED_ROWS_EVENTS, GTID_EVENTS, ROWS_EVENTS_V0, EventType
from .._format.fragments import Fragments
from .._format.rows_events import inflate_rows_event
from .._walk.packed import PackedEvents
from ..errors import BinlogError, DecodeError, EncryptionError
from ..gtids import GtidSet, gtid_of
from .current_event import parse_current, query_body
from .executed import last_of_domains
from .gtid_selection import is_selected

if TYPE_CHECKING:
    from .._format.event_header import Bytes
    from .._format.format_description import FormatDescription
    from ..events import QueryEvent, XaPrepareEvent
    from .context import Context
    from .gathering import Gathering
    from .group import Group
    from .log_plans import LogPlans

_LOAD_EVENTS = frozenset((EventType.LOAD, EventType.NEW_LOAD, EventType.EXEC_LOAD))
_QUIET_EVENTS = frozenset(  # nothing of theirs concerns rows
    (
        EventType.SLAVE,
        EventType.CREATE_FILE,
        EventType.APPEND_BLOCK,
        EventType.DELETE_FILE,
        EventType.BEGIN_LOAD_QUERY,
    )
)
_NOT_INSIDE = (EventType.TRANSACTION_PAYLOAD, EventType.MARIADB_ROWS_FRAGMENT)  # these hold events
_PREPARED_XA = 64  # flag of MariaDB's GTID event
_KEPT_LEN = 1 << 20  # bytes of a joined event from which on its rows are a group of their own


class OtherEvents:
    """Handles these events of one log, for its `LogDecoder`.

    Parameters
    ----------
    context : Context
    plans : LogPlans
    gathering : Gathering
    """

    def __init__(self, context: Context, plans: LogPlans, gathering: Gathering) -> None:
        self._track = track = context.track
        self._path, self._limits, self._report = track.path, track.limits, track.report
        self._loop, self._selection = context.loop, context.selection
        self._executed, self._definitions = context.executed, context.definitions
        self._plans, self._gathering, self._asides = plans, gathering, gathering.asides
        self._fragments = Fragments(track.limits.event_bytes, track.path, self._loop.block)

    @property
    def _format(self) -> FormatDescription:
        assert self._track.format is not None  # no event comes before it
        return self._track.format

    def set_format(self, description: FormatDescription) -> None:
        """Let a descriptor apply from here on."""
        self._track.format = description
        header_length, lengths, canonical, checksum = description.core_arrays()
        self._loop.set_format(header_length, lengths, canonical, bool(checksum))

    def handle(self) -> Iterator[Group]:
        """Do what the event at which the loop has stopped asks for.

        Yields
        ------
        Group
            What was gathered before the event, if that must be taken first, and of the events inside it.

        Raises
        ------
        BinlogError
            The event is not valid; the loop has already passed it.
        """
        loop = self._loop
        kind, offset = int(loop.event_type), int(loop.event_position)
        if kind == EventType.QUERY:
            database, statement = loop.query()
            yield from self._on_statement(
                statement, database, offset, lambda: self._query_event(database, statement)
            )
        elif loop.without_map:
            self._report.add("rows_without_table_map", path=self._path, offset=offset)
            self._asides.lose(offset, "rows of a table without its table map")
        elif kind in (EventType.PREVIOUS_GTIDS, EventType.MARIADB_GTID_LIST):
            self._note_gtids_before(kind)
        elif kind == EventType.XA_PREPARE:
            self._note_xa_prepare()
        elif kind == EventType.TABLE_MAP:
            self._asides.note("lost", "the beginning of a transaction was not read")
        elif kind == EventType.TRANSACTION_PAYLOAD:
            chunks = payload_chunks(
                loop.event_body(), limit=self._limits.payload_bytes, path=self._path, offset=offset
            )
            yield from self._walk_inside(chunks)
        elif kind in COMPRESSED_ROWS_EVENTS:
            yield from self._walk_inside(iter((self._inflated(loop.event_bytes(), loop.event_body()),)))
        elif kind == EventType.MARIADB_ROWS_FRAGMENT:
            yield from self._on_fragment(offset)
        elif kind in (EventType.FORMAT_DESCRIPTION, EventType.START_V3):
            yield from self._on_descriptor(offset)
        elif kind in GTID_EVENTS:
            if self._selection.selects_gtids:
                self.select_transaction()
                yield from self.leave_repeated()
            if (
                self._selection.asides
                and kind == EventType.MARIADB_GTID
                and loop.event_body()[12] & _PREPARED_XA
            ):
                self._asides.note("xa start")
        elif kind in (EventType.MARIADB_QUERY_COMPRESSED, EventType.EXECUTE_LOAD_QUERY):
            event: QueryEvent = self._parse()
            loop.end_statement()
            database = event.database.encode("utf-8", "surrogateescape")
            yield from self._on_statement(event.query_bytes, database, offset, lambda: event)
        elif kind in _LOAD_EVENTS:
            loop.end_statement()
            self._report.add("statement_changes", path=self._path, offset=offset, detail="LOAD DATA")
            self._asides.note("statement", "LOAD DATA")
        elif kind in ROWS_EVENTS_V0:
            self._report.add("rows_v0", path=self._path, offset=offset)
            self._asides.lose(offset, "rows events of version 0")
        elif kind == EventType.MARIADB_START_ENCRYPTION:
            self._on_start_encryption(offset)
        elif kind == EventType.INCIDENT:
            self._report.add("incidents", path=self._path, offset=offset)
            self._asides.lose(offset, "an incident: the server says that events are missing")
        elif kind not in _QUIET_EVENTS and not loop.event_flags & IGNORABLE_FLAG:
            raise DecodeError(
                f"an event of unknown type {kind}, not marked as ignorable: it may hold rows",
                path=self._path,
                offset=offset,
                type_code=kind,
            )

    # ------------------------------------------------------------ fragments of rows events

    def _on_fragment(self, offset: int) -> Iterator[Group]:
        if self._fragments.begin is None and not self._loop.in_transaction:
            # Reading began inside the transaction, perhaps inside the series, as for rows without their map.
            self._report.add("rows_without_table_map", path=self._path, offset=offset)
            self._asides.lose(offset, "a fragment of a rows event without its table map")
            return
        begin = offset if self._fragments.begin is None else self._fragments.begin
        try:
            pieces = self._fragments.add_apart(self._event_view(), offset, lasts=self._track.mapped)
        finally:
            self._loop.await_fragment(self._fragments.begin is not None)
        if pieces is None:
            return
        # A whole event with too many rows is skipped with all of them; of parts some would be handed out.
        if not self._track.skip_errors and self._loop.enter_fragments(pieces, begin):
            yield from self._walk_fragments(begin)
            return
        event: Bytes = self._fragments.join(pieces)
        if type_of(event) in COMPRESSED_ROWS_EVENTS:
            event = self._inflated(bytes(event), bytes(event[HEADER_LENGTH_V3:]))
        yield from self._walk_inside(iter((event,)), begin, keep=len(event) >= _KEPT_LEN)

    def _walk_fragments(self, begin: int) -> Iterator[Group]:
        kind = int(self._loop.event_type)
        try:
            yield from self._walk_window()
        except BinlogError as error:
            raise error.located(path=self._path, offset=begin, type_code=kind) from error.__cause__
        finally:
            self._loop.leave()

    def _event_view(self) -> memoryview:
        """The body of the current event in its window, not copied: a fragment may be of any size."""
        track, offset = self._track, int(self._loop.event_position)
        kind, length = int(self._loop.event_type), int(self._loop.event_length)
        event = memoryview(track.window)[offset - track.base :][:length]
        return event[self._format.header_length_of(kind) : length - self._format.checksum_length_of(kind)]

    def fragments_interrupted(self) -> BinlogError:
        """The error for a series of fragments that the next event ends early."""
        self._loop.await_fragment(False)
        return self._fragments.incomplete(int(self._loop.position))

    @property
    def fragments_begin(self) -> int | None:
        """Where a series of fragments begins that has not ended."""
        return self._fragments.begin

    def _inflated(self, event: bytes, body: bytes) -> bytes:
        """A compressed rows event, plain."""
        return inflate_rows_event(
            event,
            body,
            type_of(event),
            self._format,
            limit=self._limits.decompressed_bytes,
            path=self._path,
            offset=int(self._loop.event_position),
        )

    def _on_statement(
        self, statement: bytes, database: bytes, offset: int, whole: Callable[[], QueryEvent]
    ) -> Iterator[Group]:
        from .._format.statements import changes_rows, may_change_definitions

        definitions, changed = self._definitions, changes_rows(statement)
        if self._is_repeated() and (changed or may_change_definitions(statement)):
            return
        self._asides.note_statement(statement, database, whole)
        if changed:
            self._report.add("statement_changes", path=self._path, offset=offset)
        if definitions is not None and (
            definitions.notes_changes
            if changed
            else definitions.follows and may_change_definitions(statement)
        ):
            event = whole()  # before the group is taken: it is still the loop's current event
            transaction = int(self._loop.transaction_position)
            if self._gathering.has_rows:
                yield from self._gathering.take()
            definitions.follow(
                event,
                self._report,
                mariadb=self._format.is_mariadb,
                path=self._path,
                transaction=transaction,
            )
            self._plans.clear()

    def _parse(self, body: bytes | memoryview | None = None) -> Any:
        return parse_current(self._loop, self._format, self._path, body)

    def _query_event(self, database: bytes, statement: bytes) -> QueryEvent:
        """The current QUERY event with its status variables."""
        event: QueryEvent = self._parse(query_body(self._loop, self._format, database, statement))
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
                from ..events.gtid import gtids_of_list  # its classes take as long as all of a small log

                self._executed.contain(last_of_domains(gtids_of_list(self._loop.event_body())))
        except BinlogError:  # only positions need it
            self._executed.forget()

    def _on_start_encryption(self, offset: int) -> None:
        # A copy that a server sent to a client keeps this event, with the flag, and is in clear.
        sent_in_clear = self._loop.event_flags & IGNORABLE_FLAG
        if not sent_in_clear and not self._track.source.decrypted:
            raise EncryptionError(
                "encrypted from here on: give keys= (MariaDB's key file, key number 1)",
                path=self._path,
                offset=offset,
                type_code=EventType.MARIADB_START_ENCRYPTION,
            )

    def _on_descriptor(self, offset: int) -> Iterator[Group]:
        if offset <= FIRST_EVENT:
            return  # read by read_format
        description = parse_next_descriptor(
            self._loop.event_bytes(), offset, self._path, self._format, verify_checksum=self._track.verify
        )
        if self._gathering.has_rows:
            yield from self._gathering.take()
        if description.is_mariadb != self._format.is_mariadb:
            self._plans.clear()  # the vendors count metadata differently
        self.set_format(description)

    def _walk_inside(
        self, chunks: Iterator[Bytes], position: int | None = None, *, keep: bool = False
    ) -> Iterator[Group]:
        """Walk over the events inside the current one, or inside the events from a position up to it.

        Parameters
        ----------
        chunks : iterator of bytes
        position : int or None
        keep : bool
            The batches keep the only chunk, instead of copies of its values.
        """
        loop, gathering = self._loop, self._gathering
        kind = int(loop.event_type)
        offset = int(loop.event_position) if position is None else position
        packed = PackedEvents(chunks, self._limits, self._path, offset, kind)
        entered = False
        try:
            for window in packed:
                loop.enter(window, offset)
                entered = True
                if keep:
                    if gathering.has_rows:
                        yield from gathering.take()
                    loop.keep(window)
                yield from self._walk_window()
                if keep and gathering.has_rows:
                    yield from gathering.take()
                packed.left = int(loop.left)
        except BinlogError as error:
            raise error.located(path=self._path, offset=offset, type_code=kind) from error.__cause__
        finally:
            if entered:
                loop.leave()

    def _walk_window(self) -> Iterator[Group]:
        """Let the loop run to the end of a window of inner events."""
        loop = self._loop
        while True:
            status = loop.run()
            if status == _rows.MORE or status == _rows.STOP:
                return
            if status == _rows.GROUP:
                yield from self._gathering.take_some()
            elif status == _rows.TABLE:
                yield from self._gathering.make_room()
                self._plans.add(mariadb=self._track.is_mariadb)
            elif status == _rows.EVENT:
                if (inner := int(loop.event_type)) in _NOT_INSIDE:
                    raise DecodeError(f"an event of type {inner} inside another event")
                yield from self.handle()
            elif status == _rows.ERROR:
                self._on_inner_error()

    def _is_repeated(self) -> bool:
        """Whether the current transaction was already in an earlier segment of the archive."""
        repeated = self._selection.repeated
        return repeated is not None and not is_selected(gtid_of(self._loop.gtid()), None, repeated)

    def select_transaction(self) -> None:
        """Let the loop step over the transaction that begins, unless its GTID is selected."""
        selection = self._selection
        selected = is_selected(gtid_of(self._loop.gtid()), selection.gtids, selection.exclude_gtids)
        self._plans.repeats = self._is_repeated()
        selection.met.gtids |= selected
        self._loop.skip_transaction(not selected)

    def leave_repeated(self) -> Iterator[Group]:
        """Drop the plans that step over the rows of repeated transactions, where another one begins."""
        if self._plans.are_of_repeated and not self._plans.repeats:
            if self._gathering.has_rows:
                yield from self._gathering.take()
            self._plans.clear()

    def _on_inner_error(self) -> None:
        """Raise, or count the error: the next event is where this one says, or nowhere."""
        info = self._loop.failure()
        error = self._plans.error_of(info, mariadb=self._track.is_mariadb)
        if info["fault"] == _rows.NO_MEMORY:
            raise MemoryError(str(error))
        if not self._track.skip_errors or info["fault"] == _rows.WRONG_LENGTH:
            raise error
        self._report.add("skipped_events", path=self._path, offset=info["position"], detail=error.message)
        self._asides.lose(int(self._loop.event_position), f"a damaged event: {error.message}")
