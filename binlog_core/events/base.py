"""What every event has, and events about which nothing more is known."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from .._format.event_types import event_name


class EventHeader(NamedTuple):
    """The common header of one event, as `parse_event` takes it; see `Event`."""

    position: int
    timestamp: int
    type_code: int
    server_id: int
    event_length: int
    next_position: int
    flags: int


@dataclass(frozen=True, slots=True)
class Event:
    """The fields that every event has.

    Parameters
    ----------
    position : int
        The real 64-bit offset of the event in its file; in a compressed transaction, the offset of the
        TRANSACTION_PAYLOAD event.
    timestamp : int
        The time in the header, in seconds since 1970 UTC.
    type_code : int
        The event type in today's numbering.
    server_id : int
        The id of the server on which the event originated.
    event_length : int
        The event's bytes, including header and checksum.
    next_position : int
        The position as logged: the event's end modulo 2**32 (v4), its beginning (v3), or 0 (v1, events inside
        a compressed transaction, and inside a transaction of MariaDB 11.4 and later). In relay logs it is the
        source's.
    flags : int
        The flags in the header; 0 in v1.

    Attributes
    ----------
    path : str or None
        The path of the file, or the name of the source.
    commit_time : int or None
        When its transaction was committed, in microseconds since 1970 UTC; None if the log does not have it,
        or the event is not in a transaction. Events that differ only in `path` and this are equal.
    """

    position: int
    timestamp: int
    type_code: int
    server_id: int
    event_length: int
    next_position: int
    flags: int
    path: str | None = field(default=None, init=False, repr=False, compare=False)
    commit_time: int | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def name(self) -> str:
        """The type as SHOW BINLOG EVENTS prints it, such as "Write_rows"."""
        return event_name(self.type_code)


@dataclass(frozen=True, slots=True)
class OpaqueEvent(Event):
    """An event whose type is unknown, a vendor's own, or has no content to parse.

    Parameters
    ----------
    body : bytes
        Everything after the header, without the checksum.
    """

    body: bytes = field(repr=False)
