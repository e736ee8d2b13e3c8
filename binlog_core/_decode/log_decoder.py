"""One log's rows, group by group: gives the compiled loop bytes and definitions, and handles its errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from .._core import _rows
from .._format.event_types import ROWS_EVENTS
from .._format.format_description import FormatDescription
from .._format.fragments import ENDS_BETWEEN_FRAGMENTS
from .._walk.track import Rules, Tail, Track, asked_from
from ..errors import (
    BinlogError,
    EncryptionError,
    MissingExtraError,
    StrictError,
    TruncatedError,
)
from ..position import Checkpoint
from .context import Context
from .executed import Executed
from .gathering import Gathering
from .group import Group
from .log_plans import Known, LogPlans, definitions_of_transaction
from .other_events import OtherEvents
from .selection import Selection

if TYPE_CHECKING:
    from .._sources.follow import Follower
    from .._sources.sources import Source
    from .._walk.salvage import Resumption
    from ..schema.definitions import Definitions

_ENDLESS = 2**64 - 1
_NOT_SKIPPED = (StrictError, MissingExtraError, TruncatedError, EncryptionError)


class LogDecoder:
    """Decodes one source.

    Parameters
    ----------
    source : Source
    selection : Selection
    rules : Rules
    definitions : Definitions or None
        Given table definitions, followed through DDL or not.
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
        selection: Selection,
        rules: Rules,
        definitions: Definitions | None = None,
        *,
        follower: Follower | None = None,
        executed: Executed | None = None,
        known: Known | None = None,
    ) -> None:
        self.track = Track(source, rules, in_parts=selection.in_parts, follower=follower)
        self.source = source
        self.path = source.path
        self.selection = selection
        self.report = rules.report
        self.skip_errors = rules.skip_errors
        self.stopped_at: int | None = None  # the event that `selection` says to stop at
        self.on_pause: Callable[[], None] = source.check_size  # now and then, where nothing is handed over
        known = known or Known(selection.where)
        limits = rules.limits
        self._loop = _rows.Decoder(
            group_rows=limits.group_rows,
            group_bytes=limits.group_bytes,
            group_memory=limits.group_memory,
            record_bytes=limits.record_bytes,
            arrow_bytes=limits.arrow_bytes,
            table_definitions=limits.table_definitions,
            table_definitions_of_transaction=definitions_of_transaction(limits),
            verify=rules.verify_checksum,
            wishes=known.wishes,
        )
        self._stop_at(selection.stop_position)
        self._own_anchors = 0 if selection.stop_position is None else selection.stop_anchor
        self._anchors = self._own_anchors
        self._executed = executed or Executed()
        before = source.gtids if source.gtids is not None else selection.done_gtids
        if before is not None:
            self._executed.begin(before)
        context = Context(self.track, self._loop, selection, self._executed, definitions)
        self._plans = LogPlans(context, known)
        self._gathering = Gathering(context, self._plans)
        self._asides = self._gathering.asides
        self._others = OtherEvents(context, self._plans, self._gathering)

    @property
    def format(self) -> FormatDescription | None:
        """The descriptor in force, once it has been read."""
        return self.track.format

    @property
    def is_mariadb(self) -> bool:
        """Whether a MariaDB server wrote the log; False until its descriptor has been read."""
        return self.track.is_mariadb

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
    def next_path(self) -> str | None:
        """The log that follows, once this one was followed to its end."""
        follower = self.track.follower
        return follower.next_path if follower is not None else None

    @property
    def position(self) -> int:
        """The position up to which everything was read."""
        return self._loop.position

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
            asides_to_python=bool(selection.asides),
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

    def within(
        self,
        before: Iterable[tuple[int, int]],
        own: tuple[int, int | None],
        ending: tuple[int, int] | None,
        anchors: int,
    ) -> Iterator[Group]:
        """Decode a part of a transaction, which may begin at any of its events.

        Parameters
        ----------
        before : iterable of (int, int)
            Events before the part that tell how to read it, each from a position up to another.
        own : (int, int or None)
            Where the part begins and ends; None: with the log.
        ending : (int, int) or None
            The event that ends the transaction after the part.
        anchors : int
            What counts as an anchor, if the part ends at the first one at or after its end; 0: it ends there.
        """
        if not self.begin():
            return
        for start, stop in before:
            yield from self._stretch(start, stop, 0)
            if self.stopped_at is None or self.stopped_at < stop:
                self.stopped_at = None  # not even these events are read: the selection ends before
                return
        yield from self._stretch(*own, anchors)
        stopped_at = self.stopped_at
        if ending is not None and stopped_at is not None and stopped_at == own[1]:
            yield from self._stretch(*ending, 0)
            self.stopped_at = stopped_at

    def _stretch(self, start: int, stop: int | None, anchors: int) -> Iterator[Group]:
        self._begin_at(start)
        self._anchors = anchors if stop is not None else 0
        self.track.read_to = stop
        self._stop_at(stop)
        yield from self._from(None)

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
        self._others.set_format(description)
        self._loop.check_positions(self.track.checks_positions)
        return True

    def _begin_at(self, start: int | None) -> None:
        before = self.format
        offset = self.track.begin(start)
        if self.format is not None and self.format is not before:
            self._others.set_format(self.format)
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
            if loop.fed:
                track.took(loop)
            if status == _rows.MORE:
                position = int(loop.position)
                try:
                    offset = track.more(self._offset, loop)
                except BinlogError as error:
                    found = track.leave_damage(self._offset, error)
                    self._asides.lose(position, f"damage: {error.message}")
                    self._go_on(found, position)
                    yield from self._others.leave_repeated()
                    continue
                if offset is not None:
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
                yield from self._gathering.make_room()
                self._plans.add(mariadb=self.track.is_mariadb)
            elif status == _rows.EVENT:
                try:
                    yield from self._others.handle()
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
                yield from self._others.leave_repeated()
            elif status == _rows.PAUSE:
                self.on_pause()
            elif status == _rows.INTERRUPTED:
                self._skip_or_raise(self._others.fragments_interrupted())
            elif status == _rows.STOP:
                self.stopped_at = loop.position
                if not self._anchors or self._stop is None or self.stopped_at < self._stop:
                    return
                # Only from here on, since it checks every event a second time.
                self._stop_at(self._stop, self._anchors)
                self._anchors, self.stopped_at = 0, None

    # ------------------------------------------------------------ bytes

    def _feed(self, offset: int) -> None:
        """Make the loop continue at an offset of the window."""
        track = self.track
        feed, to_come = track.feed()
        self._loop.feed(
            track.window,
            track.base,
            start=offset,
            keep=track.mapped or track.in_block,
            feed=feed,
            to_come=to_come,
        )

    @property
    def _offset(self) -> int:
        """Offset of the loop in the window."""
        return len(self.track.window) - int(self._loop.left)

    def _finish(self) -> bool:
        """No more bytes come. Whether the log continues after an event whose length is not valid."""
        broken_at = int(self._loop.position)
        found = self.track.finish(self._offset, self._loop.doubtful_position)
        if found is None:
            begin = self._others.fragments_begin
            if begin is not None:
                self.track.end_early(begin, ENDS_BETWEEN_FRAGMENTS)
            return False
        self._asides.lose(broken_at, "an incomplete event")
        self._go_on(found, broken_at)
        return True

    # ------------------------------------------------------------ errors

    def _skip_or_raise(self, error: BinlogError) -> None:
        """Handle an error in an event that was already passed: with on_error="skip" count it and continue."""
        if not self.skip_errors or isinstance(error, _NOT_SKIPPED):
            raise error
        self.report.add("skipped_events", path=self.path, offset=error.offset, detail=error.message)
        begin = int(self._loop.event_position) if error.offset is None else error.offset
        self.report.lose(self.path, begin, self._loop.position)
        self._asides.lose(begin, f"a damaged event: {error.message}")

    def _on_error(self) -> bool:
        """Raise, or count the error, skip the event and say whether to stop here."""
        info = self._loop.failure()
        error = self._plans.error_of(info, mariadb=self.track.is_mariadb)
        if info["fault"] == _rows.NO_MEMORY:
            raise MemoryError(str(error))
        position, length = int(info["position"]), int(self._loop.event_length)
        if self._may_be_torn(info) and self.track.is_torn(position, self.track.end):
            return True
        if not self.skip_errors:
            if info["fault"] == _rows.WRONG_POSITION and self.selection.in_parts:
                from .._walk.anchors import NOT_IN_PARTS

                error.message += NOT_IN_PARTS
            raise error
        self._asides.lose(position, f"a damaged event: {error.message}")
        found = self.track.pass_over(position, length, error.message, self._loop.doubtful_position)
        self._go_on(found, position)
        return found.offset is None

    def _go_on(self, found: Resumption, position: int) -> None:
        """Make the loop continue after an event that was skipped."""
        loop = self._loop
        if found.ahead:
            loop.check_positions(False)
        if not found.chained:
            loop.break_off()
            if self.selection.selects_gtids:
                self._others.select_transaction()
        elif loop.event_type not in ROWS_EVENTS and not found.begins_at(position):
            loop.forget_table_maps()  # the table that it would have mapped is not known
        if found.offset is not None:
            self._feed(found.offset)

    def _may_be_torn(self, info: dict[str, Any]) -> bool:
        """Whether a wrong CRC is in the last bytes read from a log in use."""
        end = self.track.end - int(self._loop.left)
        return info["fault"] == _rows.WRONG_CHECKSUM and self.track.may_be_torn(end)
