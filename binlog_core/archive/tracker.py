"""What the events of a growing log tell: the time, and which transactions are in the archive."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core._headers import HEADER_DTYPE, WALK_DESCRIPTOR, WALK_END, WALK_FULL, walk_headers
from .._decode.gtid_selection import AnyGtidSet
from .._format.event_types import EventType
from .._format.format_description import FormatDescription, parse_format_description
from ..errors import ArchiveError, BinlogError
from ..events import EventHeader, GtidEvent, MariadbGtidListEvent, PreviousGtidsEvent, QueryEvent, parse_event
from ..gtids import Gtid, GtidSet, MariadbGtid, MariadbGtidSet, uuid_text

_MOST = 65536  # headers looked at in one step
_LAST_EVENTS = frozenset((EventType.XID, EventType.XA_PREPARE, EventType.TRANSACTION_PAYLOAD))
_BEGINS = ("BEGIN", "XA START", "SAVEPOINT", "ROLLBACK TO")


class Tracker:
    """Follows the events of one log after another.

    Attributes
    ----------
    description : FormatDescription or None
        Of the log.
    gtids : GtidSet, MariadbGtidSet or None
        Every transaction of the server's logs up to here that is complete; None: the log tells none.
    previous : GtidSet, MariadbGtidSet or None
        Of the logs before the one at hand, as its head tells.
    last_gtid : Gtid, MariadbGtid or None
    timestamp : int
        Of the last event that has one; seconds since 1970 UTC.
    events : int
        Seen so far, over all logs.
    rotated_to : str or None
        The log that follows, once the last event tells its name.
    """

    def __init__(self) -> None:
        self.description: FormatDescription | None = None
        self.gtids: AnyGtidSet | None = None
        self.previous: AnyGtidSet | None = None
        self.last_gtid: Gtid | MariadbGtid | None = None
        self.timestamp = 0
        self.events = 0
        self.rotated_to: str | None = None
        self._layout: tuple[int, Any, Any, int] = (0, None, None, 0)  # as the walk takes it
        self._open: Gtid | MariadbGtid | None = None  # its transaction is not complete
        self._headers = np.empty(_MOST, HEADER_DTYPE)

    def begin(self) -> None:
        """Another log begins: what was open in the one before stays incomplete unless that log was closed."""
        if self.rotated_to is not None:
            self._complete()
        self.description = None
        self.previous = None
        self.rotated_to = None
        self._open = None

    def take(self, data: memoryview, position: int, path: str) -> None:
        """Look at whole events.

        Parameters
        ----------
        data : memoryview
        position : int
            Of its first byte in the log.
        path : str
            For errors.

        Raises
        ------
        ArchiveError
            The bytes are not whole events.
        BinlogError
            An event that tells GTIDs is not valid.
        """
        offset = 0
        while offset < len(data):
            if self.description is None or data[offset + 4] == EventType.FORMAT_DESCRIPTION:
                length = int.from_bytes(data[offset + 9 : offset + 13], "little")
                description = data[offset : offset + length]
                self.description = parse_format_description(
                    description, position + offset, path, verify_checksum=False
                )
                self._layout = self.description.core_arrays()
            header_length, _, canonical, checksum = self._layout
            count, after, status = walk_headers(
                data,
                offset,
                self._headers,
                base=position,
                header_length=header_length,
                canonical=canonical,
                checksum=bool(checksum),
                verify=False,
            )
            if after <= offset or status not in (WALK_END, WALK_FULL, WALK_DESCRIPTOR):
                raise ArchiveError(
                    "the server sent an event whose length is not valid", path=path, offset=position + after
                )
            self._look(self._headers[:count], data, position, path)
            offset = after

    def _look(self, headers: NDArray[np.void], data: memoryview, position: int, path: str) -> None:
        self.events += len(headers)
        times = headers["timestamp"]
        if last := int(times[-1]) or int(times.max()):
            self.timestamp = last
        types = headers["type_code"]
        for kind in (EventType.PREVIOUS_GTIDS, EventType.MARIADB_GTID_LIST):
            for header in headers[types == kind]:
                self._restart(self._parsed(header, data, position, path))
        if (types == EventType.GTID_TAGGED).any():
            for header in headers[np.isin(types, (EventType.GTID, EventType.GTID_TAGGED))]:
                event = self._parsed(header, data, position, path)
                if isinstance(event, GtidEvent) and event.gtid is not None:
                    self._complete()
                    self._open = event.gtid
        elif (mysql := types == EventType.GTID).any():
            self._take_mysql(headers[mysql], data, position)
        elif (mariadb := types == EventType.MARIADB_GTID).any():
            self._take_mariadb(headers[mariadb], data, position)
        self._look_at_last(headers[-1], data, position, path)

    def _look_at_last(self, header: Any, data: memoryview, position: int, path: str) -> None:
        kind = int(header["type_code"])
        if kind == EventType.ROTATE:
            event = self._parsed(header, data, position, path)
            self.rotated_to = event.new_log_ident
            self._complete()
        elif kind == EventType.STOP or kind in _LAST_EVENTS:
            self._complete()
        elif kind == EventType.QUERY and self._open is not None:
            event = self._parsed(header, data, position, path)
            if isinstance(event, QueryEvent) and not event.query.lstrip().upper().startswith(_BEGINS):
                self._complete()

    def _parsed(self, header: Any, data: memoryview, position: int, path: str) -> Any:
        fields = EventHeader(*header.tolist())
        description = self.description
        assert description is not None
        begin = fields.position - position
        end = begin + fields.event_length - description.checksum_length_of(fields.type_code)
        body = data[begin + description.header_length_of(fields.type_code) : end]
        return parse_event(fields, body, description, path)

    # ------------------------------------------------------------ GTIDs

    def _restart(self, event: Any) -> None:
        """The head of a log tells all that came before it."""
        if isinstance(event, PreviousGtidsEvent):
            self.gtids = self.previous = event.gtid_set
        elif isinstance(event, MariadbGtidListEvent):
            self.gtids = self.previous = MariadbGtidSet(
                ((gtid.domain_id, gtid.server_id), (1, gtid.seq_no)) for gtid in event.gtids if gtid.seq_no
            )

    def _complete(self) -> None:
        gtid, self._open = self._open, None
        if gtid is None:
            return
        self.last_gtid = gtid
        if isinstance(gtid, Gtid):
            self._add_mysql([((gtid.uuid, gtid.tag), (gtid.gno, gtid.gno))])
        else:
            self._add_mariadb({(gtid.domain_id, gtid.server_id): gtid.seq_no})

    def _add_mysql(self, intervals: list[tuple[tuple[str, str], tuple[int, int]]]) -> None:
        before = self.gtids if isinstance(self.gtids, GtidSet) else GtidSet()
        self.gtids = before | GtidSet(intervals)

    def _add_mariadb(self, last: dict[tuple[int, int], int]) -> None:
        before = self.gtids if isinstance(self.gtids, MariadbGtidSet) else MariadbGtidSet()
        self.gtids = before | MariadbGtidSet((source, (1, number)) for source, number in last.items())

    def _take_mysql(self, headers: NDArray[np.void], data: memoryview, position: int) -> None:
        self._complete()
        fields = _bodies(headers, data, position, 1, 24)
        self._open = Gtid(uuid_text(fields[-1, :16].tobytes()), "", int.from_bytes(fields[-1, 16:], "little"))
        fields = fields[:-1]  # each of these is complete: another follows
        if not len(fields):
            return
        uuids = np.ascontiguousarray(fields[:, :16]).view("<u8")
        numbers = np.ascontiguousarray(fields[:, 16:]).view("<i8")[:, 0]
        # Runs of one server's numbers without a hole.
        breaks = (uuids[1:] != uuids[:-1]).any(axis=1) | (numbers[1:] != numbers[:-1] + 1)
        edges = [0, *(np.flatnonzero(breaks) + 1).tolist(), len(numbers)]
        self._add_mysql(
            [
                ((uuid_text(fields[first, :16].tobytes()), ""), (int(numbers[first]), int(numbers[end - 1])))
                for first, end in pairwise(edges)
            ]
        )

    def _take_mariadb(self, headers: NDArray[np.void], data: memoryview, position: int) -> None:
        self._complete()
        fields = _bodies(headers, data, position, 0, 12)
        numbers = np.ascontiguousarray(fields[:, :8]).view("<u8")[:, 0]
        domains = np.ascontiguousarray(fields[:, 8:]).view("<u4")[:, 0].astype(np.uint64)
        sources = domains << np.uint64(32) | headers["server_id"]
        domain, server = divmod(int(sources[-1]), 1 << 32)
        self._open = MariadbGtid(domain, server, int(numbers[-1]))
        numbers, sources = numbers[:-1], sources[:-1]  # each of these is complete: another follows
        if not len(numbers):
            return
        # Mostly all are of one source: to sort them would take longer than all else.
        several = np.unique(sources).tolist() if (sources != sources[0]).any() else [int(sources[0])]
        self._add_mariadb(
            {divmod(source, 1 << 32): int(numbers[sources == source].max()) for source in several}
        )


def _bodies(
    headers: NDArray[np.void], data: memoryview, position: int, skip: int, length: int
) -> NDArray[np.uint8]:
    """So many bytes of each event's body, as the rows of an array."""
    starts = (headers["position"] - np.uint64(position)).astype(np.int64) + 19 + skip
    short = headers["event_length"] < 19 + skip + length
    if short.any():
        raise BinlogError(
            "a GTID event is shorter than its fields", offset=int(headers["position"][short][0])
        )
    bytes_of = np.frombuffer(data, np.uint8)
    found: NDArray[np.uint8] = bytes_of[starts[:, None] + np.arange(length)]
    return found
