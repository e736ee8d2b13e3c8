"""One log while it is read: the current bytes, and how reading continues where they end or are damaged.

Headers, events, `verify` and rows all follow these rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Self

from .._core import _rows
from .._format.descriptors import LogState, detect, parse_next_descriptor
from .._format.event_header import FIRST_EVENT, HEADER_LENGTH_V1, length_of, type_of
from .._format.event_types import DESCRIPTORS, EventType
from .._format.format_description import FormatDescription
from ..errors import BinlogError, DecodeError, TruncatedError
from ..limits import DEFAULT_LIMITS, Limits
from .resync import READ_LEN, Boundaries, Window

if TYPE_CHECKING:
    from .._core._innodb_binlog import Feed
    from .._sources.follow import Follower
    from .._sources.sources import Source
    from ..report import Report
    from .salvage import Resumption

_HEAD_LEN = 4096  # of a log: enough for every descriptor that a server has written
_BLOCK_LEN = 1280 << 10  # of the first block: a group of one table has 1 MiB of rows events, and others
_LONGEST_BLOCK = 32 << 20
_PIECE_LEN = 128 << 10  # read at once if it is not known how much is wanted
_SLACK = 32 << 10  # a group is some events longer, or shorter, than the one before it
_ENDLESS = 1 << 63
_TORN_WAIT = 0.2  # seconds, before an event with a wrong checksum at the end of a growing log is read again

# What can come before the first transaction of a log.
_HEAD_EVENTS = DESCRIPTORS | {
    EventType.ROTATE,
    EventType.STOP,
    EventType.HEARTBEAT,
    EventType.HEARTBEAT_V2,
    EventType.PREVIOUS_GTIDS,
    EventType.MARIADB_GTID_LIST,
    EventType.MARIADB_BINLOG_CHECKPOINT,
    EventType.MARIADB_START_ENCRYPTION,
}

# As the loop says it
DAMAGED_LENGTH = _rows.FAULTS[_rows.WRONG_LENGTH]
DAMAGED_END = _rows.FAULTS[_rows.WRONG_POSITION]
WRONG_CHECKSUM = _rows.FAULTS[_rows.WRONG_CHECKSUM]


def asked_from(error: BinlogError, start: int | None) -> BinlogError:
    """The error, which names ``start=`` if that is its place."""
    if error.offset is not None and error.offset == start:
        error.message += f"; does an event begin at start={start}?"
    return error


class Rules(NamedTuple):
    """How a pass reads all of its logs.

    Parameters
    ----------
    report : Report
        Counts what is skipped or missing.
    limits : Limits
    verify_checksum : bool
    skip_errors : bool
        Skip damaged events.
    """

    report: Report
    limits: Limits = DEFAULT_LIMITS
    verify_checksum: bool = True
    skip_errors: bool = False

    @classmethod
    def lenient(cls, report: Report) -> Self:
        """Those of a pass beside the one that returns the rows, which verifies and reports damage."""
        return cls(report, verify_checksum=False, skip_errors=True)


@dataclass(frozen=True, slots=True)
class Tail:
    """Where and why reading ended before the end of the file.

    Parameters
    ----------
    path : str
        The path of the file, or the name of the source.
    offset : int
        The offset of the incomplete event.
    reason : str
        Why the event is incomplete.
    """

    path: str
    offset: int
    reason: str


class Track:
    """One log, read from its first event to its last.

    Parameters
    ----------
    source : Source
    rules : Rules
    in_parts : bool
        Whether others read other parts of the log, and find no events that do not end where they say.
    follower : Follower or None
        Waits at the end of a growing log.

    Attributes
    ----------
    format : FormatDescription or None
        The format in force.
    window : bytes-like
        The current bytes; for a mapped log, all of it.
    base : int
        Position in the log of window[0].
    tail : Tail or None
        Where the log ended inside an event.
    lacks_bytes : bool
        Positions run ahead of the log: they are no longer trusted.
    read_to : int or None
        Where reading will end: few bytes after it are read.
    """

    def __init__(
        self,
        source: Source,
        rules: Rules,
        *,
        in_parts: bool = False,
        follower: Follower | None = None,
    ) -> None:
        self.source = source
        self.path = source.path
        self.report = rules.report
        self.limits = rules.limits
        self.verify = rules.verify_checksum
        self.skip_errors = rules.skip_errors
        self.in_parts = in_parts
        self.follower = follower
        self.format: FormatDescription | None = None
        self.tail: Tail | None = None
        self.lacks_bytes = False
        self._borrowed = False
        self._block: memoryview | None = None  # the window is its front
        self._wanted = 0  # … and is to be so long
        self._feed: Feed | None = None  # of the window, which grows by it
        self._group_begin = 0
        self._group_len = 0  # of the last group
        self.read_to: int | None = None
        self._read_again_at: int | None = None
        self._view = source.view()
        self.window: Window = b"" if self._view is None else self._view
        self.base = 0
        self._head = b""
        self._descriptors: list[tuple[int, FormatDescription]] = []  # at the log's head
        self._head_walked_to = FIRST_EVENT
        self._boundaries: Boundaries | None = None

    @property
    def is_mariadb(self) -> bool:
        """Whether the format in force is that of a MariaDB server; False until it is known."""
        return self.format is not None and self.format.is_mariadb

    @property
    def mapped(self) -> bool:
        """Whether the window is the whole log."""
        return self._view is not None

    @property
    def in_block(self) -> bool:
        """Whether the window stays unchanged as long as it is held."""
        return self._block is not None

    @property
    def end(self) -> int:
        """Position in the log where the window ends."""
        return self.base + len(self.window)

    # ------------------------------------------------------------ what the log is

    def read_format(self) -> FormatDescription | None:
        """Recognize the log; None if it ends before its format description."""
        head = bytes(self._view[:_HEAD_LEN]) if self._view is not None else self.source.peek(_HEAD_LEN)
        found = detect(head, self.path, verify_checksum=self.verify)
        self._head = head
        self.format = found.format
        self._descriptors = [] if found.format is None else [(FIRST_EVENT, found.format)]
        for note in found.format.notes if found.format else ():
            self.report.add("format_notes", path=self.path, offset=4, detail=note)
        if found.state is LogState.CUT:
            self.end_early(4, "the file ends inside its first event")
            return None
        return found.format

    def wait_for_format(self) -> FormatDescription | None:
        """The same; if the log is followed, wait for its beginning."""
        while (found := self.read_format()) is None:
            if not self.waits():
                return None
        return found

    def next_descriptor(self, offset: int) -> FormatDescription | None:
        """The descriptor at an offset of the window; None if the window ends inside it.

        Raises
        ------
        BinlogError
            The descriptor is not valid.
        """
        assert self.format is not None
        length = length_of(self.window, offset)
        event = self.window[offset : offset + length]
        if len(event) < length:
            return None
        return parse_next_descriptor(
            event, self.base + offset, self.path, self.format, verify_checksum=self.verify
        )

    @property
    def boundaries(self) -> Boundaries:
        """What distinguishes the log's events from random bytes."""
        assert self.format is not None
        if self._boundaries is None or self._boundaries.description is not self.format:
            self._boundaries = Boundaries.of(self._head, self.format)
            if self.lacks_bytes:
                self._boundaries = self._boundaries.ahead()
        return self._boundaries

    @property
    def checks_positions(self) -> bool:
        """Whether each event must end where it says."""
        if self.source.finds_transactions:  # its positions are not the server's
            return False
        return (self.skip_errors or self.in_parts) and self.boundaries.splittable

    def believe_no_positions(self) -> None:
        """Note that, from here on, the log lacks events or bytes."""
        self.lacks_bytes = True
        self._boundaries = None

    # ------------------------------------------------------------ more bytes

    def begin(self, start: int | None = None) -> int:
        """Go to where reading begins: a position, or the source's first event. Returns the offset there.

        `format` becomes that of the last descriptor before the position at the log's head.

        Raises
        ------
        DecodeError
            The position is after the end of a file whose size is known.
        BinlogError
            A descriptor at the head is not valid, and errors are not skipped.
        """
        position = max(start or 0, self.source.begin)
        if self._view is not None and position > self.end:
            raise DecodeError(f"start={position} is beyond the file's {self.end} bytes", path=self.path)
        if self.source.begin == FIRST_EVENT < position and self._descriptors:
            self._walk_head(position)
            self.format = [found for at, found in self._descriptors if at < position][-1]
        return self.go_to(position)

    def _walk_head(self, end: int) -> None:
        """Find the descriptors before the log's first transaction, up to a position.

        A relay log begins with the replica's, and continues with the source's. Each event is looked at once,
        and never one after `end`: the source may be a stream.
        """
        while (position := self._head_walked_to) < end:
            offset = self._look_at(position, HEADER_LENGTH_V1)
            in_force = self._descriptors[-1][1]
            if len(self.window) - offset < HEADER_LENGTH_V1:
                return
            kind = in_force.canonical(type_of(self.window, offset))
            length = length_of(self.window, offset)
            if kind not in _HEAD_EVENTS or length < HEADER_LENGTH_V1:
                self._head_walked_to = _ENDLESS
                return
            if kind in DESCRIPTORS and position > FIRST_EVENT:
                offset = self._look_at(position, min(length, _HEAD_LEN))
                self.format = in_force
                try:
                    following = self.next_descriptor(offset)
                except BinlogError:
                    if not self.skip_errors:
                        raise
                else:
                    if following is None:
                        return
                    self._descriptors.append((position, following))
            self._head_walked_to = position + length

    def _look_at(self, position: int, size: int) -> int:
        """Go to a position, with this many bytes in the window if the log has them; return the offset in it.

        What was read to recognize the log is not fetched again.
        """
        offset = self.go_to(position)
        if self._view is None:
            try:
                self.window = self.source.peek(size)
            except BinlogError:  # whoever reads there says so, and can go on behind it
                if not self.skip_errors:
                    raise
        return offset

    def go_to(self, position: int) -> int:
        """Make the window begin at a position, or contain it; return the offset in it."""
        if self._view is None:
            while True:
                try:
                    self.source.seek(position)
                    break
                except BinlogError:
                    if not self.skip_errors or not self.source.pass_damage():
                        raise
                    position = max(position, self.source.position)
            self._restart(position)
        return position - self.base

    def _restart(self, position: int) -> None:
        """Make the window empty, at a position where the source is."""
        self.window, self.base, self._block = b"", position, None
        self._group_begin = position

    def more(self, offset: int, loop: _rows.Decoder | None = None) -> int | None:
        """Keep the window's bytes from an offset on, and read more after them.

        Parameters
        ----------
        offset : int
        loop : Decoder or None
            The decoder that owns the window: see `in_block`, and ``Source.borrow``.

        Returns
        -------
        int or None
            The new place of the offset in the window. None: there are no more bytes (for now).

        Raises
        ------
        DecodeError
            The event there is larger than `Limits.event_bytes`.
        """
        if self._view is not None or self._ends_inside(offset):
            return None
        left = len(self.window) - offset
        if loop is not None and not self.source.lends and left <= _LONGEST_BLOCK // 2:
            return self._fill(offset, loop)
        # Growing with what is already waiting keeps the copies of one large event linear.
        size = self._within(max(READ_LEN, left))
        if self._borrowed and left:
            self.window, self.base, offset = bytes(self.window[offset:]), self.base + offset, 0
        self._borrowed = loop is not None and self.source.lends and not left
        data = self.source.borrow(size) if self._borrowed else self.source.read(size)
        if not data:
            return None
        # A server leaves out transactions that the client has, between two events.
        self.base = self.source.position - len(data) - left
        self.window = bytes(self.window[offset:]) + data if left else data
        self._block = None
        return 0

    def _within(self, size: int) -> int:
        """This many bytes, or as many as are wanted: after them only the next event's header is needed."""
        left = 0 if self.read_to is None else self.read_to + _HEAD_LEN - self.source.position
        return min(size, left) if left > 0 else size

    def _fill(self, offset: int, loop: _rows.Decoder) -> int | None:
        """The same in a block of the loop, which the batches keep, so that their values are not copied."""
        used = len(self.window)
        if self._block is None or len(self._block) - used < _PIECE_LEN // 2:
            # If the batches use little of it, they copy their values, so that it can be freed.
            stays = self._block is not None and 2 * used <= _LONGEST_BLOCK and 2 * loop.wire > used
            first = 0 if stays else offset
            self._move(first, loop, max(2 * (used - first), _BLOCK_LEN, self._group_len + _SLACK))
            offset, used = offset - first, used - first
        assert self._block is not None
        # What the loop can take by itself, it takes when it needs it.
        size = self._within(_PIECE_LEN if self.source.feeds else max(self._wanted - used, _PIECE_LEN))
        count = self.source.fill(self._block[used : used + size])
        if not count:
            return None
        self.window = self._block[: used + count].toreadonly()
        return offset

    def feed(self) -> tuple[Feed | None, int]:
        """What the loop takes by itself behind the window, and how many bytes at most."""
        to_come = 0 if self._block is None else self._within(max(self._wanted - len(self.window), 0))
        self._feed = self.source.feed() if to_come else None
        return self._feed, to_come

    def took(self, loop: _rows.Decoder) -> None:
        """Let the window be as long as the loop has made it."""
        assert self._block is not None
        assert self._feed is not None
        count = loop.fed
        self.window = self._block[: len(self.window) + count].toreadonly()
        self.source.took(self._feed, count)
        loop.hold(self.window)

    def _move(self, first: int, loop: _rows.Decoder, size: int) -> None:
        """Move the window's bytes from an offset on to another block."""
        used = len(self.window) - first
        block = memoryview(loop.block(size + 2 * _PIECE_LEN))
        block[:used] = memoryview(self.window)[first:]
        self.window, self.base, self._block, self._wanted = (
            block[:used].toreadonly(),
            self.base + first,
            block,
            size,
        )

    def turn(self, offset: int, loop: _rows.Decoder) -> bool:
        """After a group: whether the window now begins at the offset, in a block for the next group."""
        begin, self._group_begin = self._group_begin, self.base + offset
        if self._block is None:
            return False
        self._group_len = min(self._group_begin - begin, _LONGEST_BLOCK // 2)
        self._wanted = offset + self._group_len + _SLACK
        if self._wanted <= len(self._block):
            return False
        self._move(offset, loop, self._group_len + _SLACK)
        return True

    def waits(self) -> bool:
        """Wait for more bytes if the log is followed; False: no more will come."""
        return self.follower is not None and self.follower.wait() == "more"

    def _ends_inside(self, offset: int) -> bool:
        """Whether the log ends inside the event that begins here, so that reading further is useless."""
        length = length_of(self.window, offset)
        if len(self.window) - offset < HEADER_LENGTH_V1 or length <= self.limits.event_bytes:
            return False
        size, position = self.source.size, self.base + offset
        if size is not None and self.follower is None and position + length > size:
            return True
        raise self.limits.event_too_large(length, self.path, position)

    # ------------------------------------------------------------ torn tails

    def finish(self, offset: int, doubtful: int | None = None) -> Resumption | None:
        """No more bytes come, and at an offset of the window may be an incomplete event.

        Returns
        -------
        Resumption or None
            How the log continues after it. None: it has ended; `tail` says where it did so inside an event.

        Raises
        ------
        DecodeError
            The event is not cut off but damaged.
        TruncatedError
            The event is cut off, in strict mode.
        """
        left, position = len(self.window) - offset, self.base + offset
        reason = f"the file ends inside an event, after {left} bytes of it"
        # A follower can be stopped in the middle of what a server writes.
        if left and (self.follower is None or self.follower.next_path is not None):
            if self.skip_errors:
                found = self._resume(position, 0, doubtful)
                if found.offset is not None:
                    if not found.begins_at(position):
                        self.report.add("skipped_events", path=self.path, offset=position, detail=reason)
                    return found
            else:
                from .salvage import check_tail

                check_tail(self.boundaries, self.window, self.base, offset, self.path)
        if left or self.source.withheld:
            self.end_early(position, reason)
        return None

    def end_early(self, offset: int, reason: str) -> None:
        """Note that the log ends inside an event; in strict mode raise."""
        self.tail = Tail(self.path, offset, reason)
        if self.report.strict:
            raise TruncatedError(reason, path=self.path, offset=offset)

    def may_be_torn(self, end: int) -> bool:
        """Whether a server may still be writing an event with a wrong checksum that ends at a position."""
        return self.format is not None and self.format.in_use and end == self.end

    def read_again(self, position: int) -> bool:
        """Wait, then go back to an event that may be torn; False: it is final."""
        if self.follower is None or not self.source.seekable:
            return False
        said = self.follower.wait(_TORN_WAIT)
        # There are bytes after the event: it was complete before them, so its present content is final.
        if said in ("next", "stopped") or (said == "more" and self._read_again_at == position):
            return False
        self._read_again_at = position if said == "more" else None
        self.go_to(position)
        return True

    def is_torn(self, position: int, end: int) -> bool:
        """Whether an event with a wrong checksum is the torn end of a log in use; if so it is reported."""
        if not self.may_be_torn(end) or (self._view is None and self.source.peek(1)):
            return False
        self.report.add("wrong_in_use_checksum", path=self.path, offset=position)
        self.end_early(position, "wrong checksum in the last event of a log in use")
        return True

    # ------------------------------------------------------------ damage

    def leave_damage(self, offset: int, error: BinlogError) -> Resumption:
        """Continue where the source can be read again, after its error about what follows an offset.

        The beginning of an event at the offset is lost.

        Raises
        ------
        BinlogError
            The error, if errors are not skipped, or the source has nothing after it.
        """
        position = self.base + offset
        if not self.skip_errors or not self.source.pass_damage():
            raise error
        self.report.add(
            "skipped_events", path=error.path or self.path, offset=error.offset, detail=error.message
        )
        from .salvage import Resumption

        self._restart(self.source.position)
        self.report.lose(self.path, position, self.base)
        return Resumption(self.window, self.base, 0, False)

    def pass_over(self, position: int, length: int, reason: str, doubtful: int | None = None) -> Resumption:
        """Continue at the next real event after a damaged one; skipped bytes are reported.

        Parameters
        ----------
        position, length : int
            Place of the damaged event, as far as its header can be trusted.
        reason : str
        doubtful : int or None
            Position of the event before it, if that had no next position: its length may be wrong.

        Returns
        -------
        Resumption
            Without an offset: the rest of the log is lost.
        """
        found = self._resume(position, length, doubtful)
        if not found.begins_at(position):
            self.report.add("skipped_events", path=self.path, offset=position, detail=reason)
        if found.offset is None:
            self.report.lose(self.path, position, self.end)
        return found

    def _resume(self, position: int, length: int, doubtful: int | None) -> Resumption:
        from .salvage import resume

        try:
            found = resume(
                self.boundaries,
                self.source,
                self.window,
                self.base,
                position,
                length,
                doubtful=doubtful,
                in_parts=self.in_parts,
                report=self.report,
            )
        except BinlogError as error:  # the source is damaged before there is a next event
            return self.leave_damage(position - self.base, error)
        if found.ahead:
            self.believe_no_positions()
        if self._view is None:
            if found.window is not self.window:
                self._block = None
            self.window, self.base = found.window, found.base
        return found
