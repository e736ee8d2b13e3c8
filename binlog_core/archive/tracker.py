"""Follows the events of a growing log: their time, and the transactions in the archive."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core._headers import HEADER_DTYPE, walk_headers
from .._core._trail import Trail
from .._format.descriptors import parse_format_description
from .._format.event_header import FIRST_EVENT, HEADER_LENGTH_V3, length_of
from .._format.event_types import EventType
from .._format.format_description import FormatDescription
from .._sources.log_files import LogFile
from .._tables.side_dtypes import GTID_RUN_DTYPE
from ..errors import ArchiveError, ChecksumError
from ..events import EventHeader, MariadbGtidListEvent, PreviousGtidsEvent, parse_event
from ..gtids import AnyGtidSet, GtidSet, MariadbGtidSet, uuid_text

_OF_MYSQL = 1  # a run's kind
_PIECE = 1 << 20
_PLAIN = 19, np.arange(256, dtype=np.uint8), False, 0  # how a descriptor itself is read


class Tracker:
    """Follows the events of one log after another.

    Attributes
    ----------
    description : FormatDescription or None
        Format description of the log.
    previous : GtidSet, MariadbGtidSet or None
        GTIDs of earlier logs, as listed at its head.
    follows : bool
        Whether the head lists what was known at the end of the log before; also if nothing was.
    rotated_to : str or None
        The next log, once the last event has named it.
    damaged : int or None
        Position in the log of the first event whose checksum does not hold.
    """

    def __init__(self) -> None:
        self.description: FormatDescription | None = None
        self.previous: AnyGtidSet | None = None
        self.follows = True
        self.rotated_to: str | None = None
        self.damaged: int | None = None
        self._trail = Trail()
        self._layout = _PLAIN  # as the trail takes it
        self._gtids: AnyGtidSet | None = None

    @property
    def timestamp(self) -> int:
        """Timestamp of the last event that has one; seconds since 1970 UTC."""
        return self._trail.timestamp

    @property
    def events(self) -> int:
        """Number of events so far, over all logs."""
        return self._trail.events

    @property
    def gtids(self) -> AnyGtidSet | None:
        """All complete transactions of the server's logs up to here; None: the log does not have GTIDs."""
        mysql, mariadb = [], []
        for run in np.frombuffer(self._trail.take_gtids(), GTID_RUN_DTYPE).tolist():
            kind, uuid, tag, domain, server, first, last = run
            if kind == _OF_MYSQL:
                name = tag.rstrip(b"\0").decode("ascii", "replace")
                mysql.append(((uuid_text(uuid), name), (first, last)))
            else:
                mariadb.append(((domain, server), (1, last)))
        if mysql:
            before = self._gtids if isinstance(self._gtids, GtidSet) else GtidSet()
            self._gtids = before | GtidSet(mysql)
        if mariadb:
            last_of = self._gtids if isinstance(self._gtids, MariadbGtidSet) else MariadbGtidSet()
            self._gtids = last_of | MariadbGtidSet(mariadb)
        return self._gtids

    def begin(self) -> None:
        """Begin another log: an open transaction stays incomplete unless the log before was closed."""
        self._trail.forget_open()
        self.description = None
        self.previous = None
        self.rotated_to = self.damaged = None
        self._layout = _PLAIN

    def take(self, data: memoryview, position: int, path: str) -> None:
        """Process complete events.

        Parameters
        ----------
        data : memoryview
        position : int
            Position of its first byte in the log.
        path : str
            For errors.

        Raises
        ------
        ArchiveError
            The bytes are not complete events.
        BinlogError
            An event with GTIDs is not valid.
        """
        if (end := self._taken(data, position, path)) < len(data):
            raise ArchiveError("the server sent an event that is not valid", path=path, offset=position + end)

    def take_log(self, path: str) -> None:
        """Process a finished log, which may be compressed; what is not valid in it ends it.

        Raises
        ------
        BinlogError
            It cannot be read, or an event with GTIDs is not valid.
        """
        self.begin()
        rest, position = b"", FIRST_EVENT
        with LogFile(path, mmap=False).open() as source:
            source.seek(FIRST_EVENT)
            while piece := source.read(max(_PIECE, len(rest))):
                data = rest + piece
                end = self._taken(memoryview(data), position, path)
                rest, position = data[end:], position + end
                if len(rest) >= HEADER_LENGTH_V3 and len(rest) >= length_of(rest):
                    break
        self.begin()

    def _taken(self, data: memoryview, position: int, path: str) -> int:
        """Process events; where the first one begins that is not complete or not valid."""
        end = 0
        while end < len(data):
            end, good = self._trail.take(data, end, *self._layout)
            if not good:
                break
            if self._trail.damaged >= 0:
                self._note_damage(position + self._trail.damaged)
            self._look_at_last(data[self._trail.begin : end], position + self._trail.begin, path)
        return end

    def _look_at_last(self, event: memoryview, position: int, path: str) -> None:
        kind = self._trail.kind
        if kind == EventType.FORMAT_DESCRIPTION:
            try:
                self.description = parse_format_description(event, position, path, verify_checksum=True)
            except ChecksumError:
                self.description = parse_format_description(event, position, path, verify_checksum=False)
                self._note_damage(position)
            header_length, lengths, canonical, checksum = self.description.core_arrays()
            self._layout = header_length, canonical, bool(checksum), int(lengths[EventType.QUERY])
        elif kind in (EventType.PREVIOUS_GTIDS, EventType.MARIADB_GTID_LIST):
            self._restart(self._parsed(event, position, path))
        elif kind == EventType.ROTATE:
            self.rotated_to = self._parsed(event, position, path).new_log_ident

    def _note_damage(self, position: int) -> None:
        if self.damaged is None:
            self.damaged = position

    def _parsed(self, event: memoryview, position: int, path: str) -> Any:
        description = self.description
        assert description is not None
        header_length, canonical, checksum, _ = self._layout
        record = np.empty(1, HEADER_DTYPE)
        walk_headers(
            event,
            0,
            record,
            base=position,
            header_length=header_length,
            canonical=canonical,
            checksum=checksum,
            verify=False,
        )
        fields = EventHeader(*record[0].tolist())
        body = event[description.header_length_of(fields.type_code) :]
        if checksum_length := description.checksum_length_of(fields.type_code):
            body = body[:-checksum_length]
        return parse_event(fields, body, description, path)

    def _restart(self, event: Any) -> None:
        """Take the GTIDs that the head of a log lists."""
        before = self.gtids
        if isinstance(event, PreviousGtidsEvent):
            self._gtids = self.previous = event.gtid_set
        elif isinstance(event, MariadbGtidListEvent):
            self._gtids = self.previous = MariadbGtidSet(
                ((gtid.domain_id, gtid.server_id), (1, gtid.seq_no)) for gtid in event.gtids if gtid.seq_no
            )
        self.follows = before is None or before == self._gtids
