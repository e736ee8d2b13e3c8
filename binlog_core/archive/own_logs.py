"""Logs of our own: a stream without files (MariaDB, ``binlog_storage_engine=innodb``) cut into classic logs.

Each one begins with the server's descriptor and a list of the GTIDs before it, and a finished one ends with
the name of the next. In between are the server's events, byte for byte: their headers give no positions.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .._core._headers import HEADER_DTYPE, WALK_CHECKSUM, WALK_END, WALK_FULL, walk_headers
from .._decode.boundaries import last_checkpoint
from .._format.descriptors import parse_format_description
from .._format.event_header import (
    CHECKSUM_LENGTH,
    FIRST_EVENT,
    FLAGS_AT,
    HEADER,
    HEADER_LENGTH_V3,
    IN_USE_FLAG,
    LENGTH_AT,
    NEXT_POSITION_AT,
    SERVER_ID_AT,
    flags_of,
    length_of,
    timestamp_of,
    type_of,
)
from .._format.event_types import EventType
from .._sources.log_files import LogFile
from .._tables.side_dtypes import GTID_RUN_DTYPE
from ..errors import ChecksumError, OtherHistory, ProtocolError
from ..gtids import MariadbGtidSet
from .feed import FeedRun, LineLost
from .names import next_name

FIRST_LOG = "stream.000001"
LOG_BYTES = 1 << 28  # a log ends with the first transaction that ends behind this
_ARTIFICIAL = 0x20
_GTID = struct.Struct("<QIB")  # of a GTID event: sequence number, domain, flags
_AT_HEADS = [  # of logs or at their ends: inside ours a reader would take them at their word
    EventType.FORMAT_DESCRIPTION,
    EventType.ROTATE,
    EventType.PREVIOUS_GTIDS,
    EventType.MARIADB_GTID_LIST,
    EventType.MARIADB_START_ENCRYPTION,
]
_WALKED = 4096  # events that are checked at a time
_CREATED_AT = HEADER_LENGTH_V3 + 52  # when the server was started, in a descriptor
_NO_TIME = bytes(4)
_DAMAGED = "an event was damaged on its way: its checksum does not match"


class OwnLogs:
    """Cuts the events of a stream into logs.

    Parameters
    ----------
    file, position : str, int
        Where the archive goes on: between two transactions, or at the beginning of a log.
    before : MariadbGtidSet
        The last GTID of each domain before it.
    description : bytes or None
        The descriptor of that log, as it is there; None: it has none.
    goal : MariadbGtidSet
        The last GTID of each domain up to some place further on.
    """

    def __init__(
        self,
        file: str,
        position: int,
        before: MariadbGtidSet,
        description: bytes | None,
        goal: MariadbGtidSet,
    ) -> None:
        self.file, self._position = file, position
        self._description = description
        self._canonical: np.ndarray | None = None  # of the descriptor that was sent: the types of events
        self._last = {domain: (server, number) for (domain, server), (_, number) in before.intervals()}
        there = dict(before.intervals())
        self._ahead = {source: span[1] for source, span in goal.intervals() if there.get(source) != span}
        self._timestamp = 0

    @property
    def at_goal(self) -> bool:
        """Whether the last transaction up to `goal` has begun."""
        return not self._ahead

    def describe(self, sent: memoryview) -> FeedRun | None:
        """Take the descriptor that the server sends before its events.

        Returns
        -------
        FeedRun or None
            The head of the log, if one begins here: it has the place, even if no transaction comes.

        Raises
        ------
        OtherHistory
            The log that goes on has another: its events are of another form.
        ProtocolError
            It is not a descriptor.
        FormatError
            It is not valid.
        LineLost
            It was damaged on its way.
        """
        if len(sent) < _CREATED_AT + len(_NO_TIME) + 2 + CHECKSUM_LENGTH:
            raise ProtocolError("the server's descriptor is too short", path=self.file)
        try:
            form = parse_format_description(sent, FIRST_EVENT, self.file, verify_checksum=True)
        except ChecksumError as error:
            raise LineLost(_DAMAGED) from error
        header_length, _, self._canonical, _ = form.core_arrays()
        if header_length != HEADER_LENGTH_V3:
            raise ProtocolError(
                f"the server's descriptor gives events a header of {header_length} bytes: expected"
                f" {HEADER_LENGTH_V3}",
                path=self.file,
            )
        description = bytearray(sent)
        description[:4] = _NO_TIME
        flags = flags_of(sent) & ~(_ARTIFICIAL | IN_USE_FLAG)
        description[FLAGS_AT:HEADER_LENGTH_V3] = flags.to_bytes(2, "little")
        description[_CREATED_AT : _CREATED_AT + 4] = _NO_TIME
        known, self._description = self._description, bytes(description)
        if known is not None and self._position > FIRST_EVENT and not _is_same(known, self._description):
            raise OtherHistory("the server's descriptor has changed", path=self.file, offset=FIRST_EVENT)
        return self._begin(sent) if self._position == FIRST_EVENT else None

    def runs(self, events: memoryview, gtids: bytes) -> Iterator[FeedRun]:
        """The runs for a run of the stream.

        Parameters
        ----------
        events : memoryview
            Complete events.
        gtids : bytes
            The GTIDs of the transactions that begin in them (gtid_run_t).

        Raises
        ------
        ProtocolError
            They came before a descriptor, or are not valid.
        LineLost
            One was damaged on its way.
        """
        self._check(events)
        if self._position + len(events) <= LOG_BYTES:
            yield self._run(events)
            for _, _, _, domain, server, first, last in np.frombuffer(gtids, GTID_RUN_DTYPE).tolist():
                self._note((domain, server), first, last)
            return
        begin = at = 0
        while at < len(events):
            if type_of(events, at) == EventType.MARIADB_GTID:
                if self._position + at - begin >= LOG_BYTES:
                    if begin < at:
                        yield self._run(events[begin:at])
                    following = next_name(self.file)
                    self._timestamp = timestamp_of(events, at)
                    yield self._run(memoryview(self._rotation(following)))
                    self.file, self._position, begin = following, FIRST_EVENT, at
                    yield self._begin(events[at:])
                number, domain, _ = _GTID.unpack_from(events, at + HEADER_LENGTH_V3)
                server = int.from_bytes(events[at + SERVER_ID_AT : at + LENGTH_AT], "little")
                self._note((domain, server), number, number)
            at += length_of(events, at)
        yield self._run(events[begin:])

    def _note(self, source: tuple[int, int], first: int, last: int) -> None:
        self._last[source[0]] = source[1], last
        if first <= self._ahead.get(source, -1) <= last:
            del self._ahead[source]

    def _check(self, events: memoryview) -> None:
        """Check events before they are on disk: an archive could not go on behind one that is not valid."""
        if self._canonical is None:
            raise ProtocolError("the server sent events before their descriptor", path=self.file)
        checksum = self._checksum_length
        records = np.empty(_WALKED, HEADER_DTYPE)
        at, status = 0, WALK_FULL
        while status == WALK_FULL:
            count, at, status = walk_headers(
                events,
                at,
                records,
                base=0,
                header_length=HEADER_LENGTH_V3,
                canonical=self._canonical,
                checksum=checksum > 0,
                verify=True,
            )
            kinds, lengths = records["type_code"][:count], records["event_length"][:count]
            if len(wrong := kinds[np.isin(kinds, _AT_HEADS)]):
                raise ProtocolError(
                    f"the server sent an event of type {wrong[0]} inside its stream: expected none there",
                    path=self.file,
                )
            if (lengths[kinds == EventType.MARIADB_GTID] < HEADER_LENGTH_V3 + _GTID.size + checksum).any():
                raise ProtocolError("a GTID event is too short", path=self.file)
        if status == WALK_CHECKSUM:
            raise LineLost(_DAMAGED)
        if status != WALK_END:
            raise ProtocolError("the server sent an event that is not valid", path=self.file)

    def _begin(self, events: memoryview) -> FeedRun:
        """The head of the log that begins with these events, and with their time."""
        self._timestamp = timestamp_of(events)
        return self._run(memoryview(self._head()))

    def _run(self, data: memoryview) -> FeedRun:
        position = self._position
        self._position += len(data)
        return FeedRun(self.file, position, data)

    def _head(self) -> bytes:
        """A log's descriptor and GTID list."""
        assert self._description is not None
        event = bytearray(self._description)
        event[:4] = struct.pack("<I", self._timestamp)
        end = FIRST_EVENT + len(event)
        event[NEXT_POSITION_AT:FLAGS_AT] = struct.pack("<I", end)
        event[-CHECKSUM_LENGTH:] = struct.pack("<I", zlib.crc32(event[:-CHECKSUM_LENGTH]))
        body = struct.pack("<I", len(self._last)) + b"".join(
            struct.pack("<IIQ", domain, server, number) for domain, (server, number) in self._last.items()
        )
        return bytes(event) + self._event(EventType.MARIADB_GTID_LIST, body, end)

    def _rotation(self, following: str) -> bytes:
        return self._event(
            EventType.ROTATE, struct.pack("<Q", FIRST_EVENT) + following.encode(), self._position
        )

    @property
    def _checksum_length(self) -> int:
        assert self._description is not None
        return CHECKSUM_LENGTH * (self._description[-CHECKSUM_LENGTH - 1] == 1)

    def _event(self, kind: EventType, body: bytes, position: int) -> bytes:
        """An event of ours, by the server of the descriptor, with a checksum if its events have one."""
        assert self._description is not None
        checksum = self._checksum_length
        server = int.from_bytes(self._description[SERVER_ID_AT : SERVER_ID_AT + 4], "little")
        length = HEADER_LENGTH_V3 + len(body) + checksum
        event = HEADER.pack(self._timestamp, kind, server, length, (position + length) % 2**32, 0) + body
        return event + struct.pack("<I", zlib.crc32(event)) if checksum else event


def _is_same(one: bytes, other: bytes) -> bool:
    """Whether two descriptors say the same of the events that follow."""
    return one[HEADER_LENGTH_V3:-CHECKSUM_LENGTH] == other[HEADER_LENGTH_V3:-CHECKSUM_LENGTH]


class End(NamedTuple):
    """Where the last complete transaction of a log ends, and the last GTID of each domain up to there."""

    position: int
    gtids: MariadbGtidSet


def end_of(path: str, size: int | None = None) -> End:
    """The end of a log of ours, whose head is complete.

    Parameters
    ----------
    path : str
    size : int or None
        Bytes of complete events; None: all.
    """
    with LogFile(path, mmap=False).open() as source:
        position, gtids = last_checkpoint(source, FIRST_EVENT, None, size)
    return End(position, gtids if isinstance(gtids, MariadbGtidSet) else MariadbGtidSet())
