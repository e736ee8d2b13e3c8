"""What every event has, and the event of which nothing more is known."""

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
        Our own 64-bit offset of the event in its file; in a compressed transaction that of the
        TRANSACTION_PAYLOAD event.
    timestamp : int
        Seconds since 1970 UTC.
    type_code : int
        In today's numbering.
    server_id : int
        Of the server where the event came into being.
    event_length : int
        Bytes, header and checksum included.
    next_position : int
        As the log has it: end of the event modulo 2**32 (v4), its begin (v3), 0 (v1, events inside a
        compressed transaction, MariaDB 11.4 and later inside a transaction); in relay logs the source's.
    flags : int
        Of the header; 0 in v1.

    Attributes
    ----------
    path : str or None
        The file, or name of the source.
    commit_time : int or None
        When its transaction was committed, in microseconds since 1970 UTC; None where the log does not tell,
        and of an event of no transaction. Events that differ in nothing but these two are equal.
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
    """An event of a type that is unknown, a vendor's own, or has no content to take apart.

    Parameters
    ----------
    body : bytes
        All after the header, without the checksum.
    """

    body: bytes = field(repr=False)
