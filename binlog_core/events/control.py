"""Begin, end and state of a log, of replication and of distributed transactions.

Source: MySQL server documentation, chapter "Binlog Event"; MariaDB, "START_ENCRYPTION_EVENT",
"BINLOG_CHECKPOINT_EVENT".
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .._format.cursor import Cursor, text_of
from .._format.event_header import FIRST_EVENT
from .._format.format_description import FormatDescription
from ..errors import DecodeError
from .base import Event, EventHeader

_XA_PART_LENGTH = 64
_HEARTBEAT_END, _HEARTBEAT_FILE_NAME, _HEARTBEAT_POSITION = 0, 1, 2


@dataclass(frozen=True, slots=True)
class FormatDescriptionEvent(Event):
    """FORMAT_DESCRIPTION and START_V3: how the events after it are laid out.

    Parameters
    ----------
    format : FormatDescription
        The description.
    """

    format: FormatDescription


@dataclass(frozen=True, slots=True)
class StopEvent(Event):
    """The server was shut down."""


@dataclass(frozen=True, slots=True)
class RotateEvent(Event):
    """The log continues in another file.

    Parameters
    ----------
    new_log_ident : str
        The next file's name.
    pos : int
        The position to begin at in it.
    """

    new_log_ident: str
    pos: int


@dataclass(frozen=True, slots=True)
class XidEvent(Event):
    """COMMIT of a transaction.

    Parameters
    ----------
    xid : int
        The server's own number of the transaction.
    """

    xid: int


@dataclass(frozen=True, slots=True)
class XaPrepareEvent(Event):
    """XA PREPARE, or XA COMMIT … ONE PHASE.

    Parameters
    ----------
    one_phase : bool
        Whether it is XA COMMIT … ONE PHASE.
    format_id : int
        The format of the transaction's identifier.
    gtrid, bqual : bytes
        The identifier: global transaction id and branch qualifier.
    """

    one_phase: bool
    format_id: int
    gtrid: bytes
    bqual: bytes


@dataclass(frozen=True, slots=True)
class IncidentEvent(Event):
    """Something happened on the server that may have lost events.

    Parameters
    ----------
    incident : int
        The kind of incident: 1 LOST_EVENTS.
    message : str
        The server's description of it.
    """

    incident: int
    message: str


@dataclass(frozen=True, slots=True)
class HeartbeatEvent(Event):
    """The source is alive; sent over the network only.

    Parameters
    ----------
    log_ident : str
        The source's current file.
    log_pos : int
        The source's position in that file.
    """

    log_ident: str
    log_pos: int


@dataclass(frozen=True, slots=True)
class TransactionContextEvent(Event):
    """Group replication: what a transaction read and wrote.

    Parameters
    ----------
    server_uuid : str
        UUID of the server on which it ran.
    thread_id : int
        The connection's thread.
    gtid_specified : bool
        Whether its GTID was set rather than generated.
    snapshot_version : bytes
        An encoded GTID set; `GtidSet.from_bytes` reads it.
    write_set, read_set : tuple of bytes
        The identifiers of what it wrote and read.
    """

    server_uuid: str
    thread_id: int
    gtid_specified: bool
    snapshot_version: bytes
    write_set: tuple[bytes, ...]
    read_set: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class ViewChangeEvent(Event):
    """Group replication: the members of the group changed.

    Parameters
    ----------
    view_id : str
        The identifier of the new view.
    seq_number : int
        The view's sequence number.
    certification_info : tuple of (bytes, bytes)
        Names and values.
    """

    view_id: str
    seq_number: int
    certification_info: tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True, slots=True)
class MariadbBinlogCheckpointEvent(Event):
    """MariaDB: no log before this file is needed for crash recovery.

    Parameters
    ----------
    file_name : str
        The file's name.
    """

    file_name: str


@dataclass(frozen=True, slots=True)
class MariadbStartEncryptionEvent(Event):
    """MariaDB: the events after it are encrypted in the file.

    Parameters
    ----------
    crypto_scheme : int
        The encryption scheme; always 1.
    key_version : int
        The version of the key.
    nonce : bytes
        The nonce, 12 bytes.
    """

    crypto_scheme: int
    key_version: int
    nonce: bytes = field(repr=False)


def decode_format_description(
    header: EventHeader, post: Cursor, cur: Cursor, description: FormatDescription
) -> FormatDescriptionEvent:
    """FORMAT_DESCRIPTION and START_V3; their bytes were read when they took force."""
    return FormatDescriptionEvent(*header, description)


def decode_stop(header: EventHeader, post: Cursor, cur: Cursor, description: FormatDescription) -> StopEvent:
    """STOP."""
    return StopEvent(*header)


def decode_rotate(
    header: EventHeader, post: Cursor, cur: Cursor, description: FormatDescription
) -> RotateEvent:
    """ROTATE; v1 has no position in it."""
    pos = FIRST_EVENT if description.binlog_version == 1 else cur.take_u64()
    return RotateEvent(*header, text_of(cur.rest()), pos)


def decode_xid(header: EventHeader, post: Cursor, cur: Cursor, description: FormatDescription) -> XidEvent:
    """XID."""
    return XidEvent(*header, cur.take_u64())


def decode_xa_prepare(
    header: EventHeader, post: Cursor, cur: Cursor, description: FormatDescription
) -> XaPrepareEvent:
    """XA_PREPARE."""
    one_phase, format_id = bool(cur.take_u8()), cur.take_i32()
    gtrid_len, bqual_len = cur.take_u32(), cur.take_u32()
    if max(gtrid_len, bqual_len) > _XA_PART_LENGTH:
        raise DecodeError(
            f"parts of an XA id have up to {_XA_PART_LENGTH} bytes, found {gtrid_len} and {bqual_len}"
        )
    return XaPrepareEvent(*header, one_phase, format_id, cur.take(gtrid_len), cur.take(bqual_len))


def decode_incident(
    header: EventHeader, post: Cursor, cur: Cursor, description: FormatDescription
) -> IncidentEvent:
    """INCIDENT."""
    return IncidentEvent(*header, post.take_u16(), cur.take_text_u8())


def decode_heartbeat(
    header: EventHeader, post: Cursor, cur: Cursor, description: FormatDescription
) -> HeartbeatEvent:
    """HEARTBEAT: the position is the header's; MariaDB puts it before the name where that has no room."""
    log_pos = header.next_position
    if description.is_mariadb and log_pos == 0:
        log_pos = cur.take_u64()
    return HeartbeatEvent(*header, text_of(cur.rest()), log_pos)


def decode_heartbeat_v2(
    header: EventHeader, post: Cursor, cur: Cursor, description: FormatDescription
) -> HeartbeatEvent:
    """HEARTBEAT_V2: fields of type, length and value, up to type 0."""
    log_ident, log_pos = "", 0
    while (field_type := cur.take_lenenc()) != _HEARTBEAT_END:
        value = cur.take_slice(cur.take_lenenc())
        if field_type == _HEARTBEAT_FILE_NAME:
            log_ident = text_of(value.rest())
        elif field_type == _HEARTBEAT_POSITION:
            log_pos = value.take_lenenc()
    return HeartbeatEvent(*header, log_ident, log_pos)


def decode_transaction_context(
    header: EventHeader, post: Cursor, cur: Cursor, description: FormatDescription
) -> TransactionContextEvent:
    """TRANSACTION_CONTEXT."""
    uuid_len, thread_id, gtid_specified = post.take_u8(), post.take_u32(), bool(post.take_u8())
    snapshot_len, write_count, read_count = post.take_u32(), post.take_u32(), post.take_u32()
    return TransactionContextEvent(
        *header,
        cur.take_text(uuid_len),
        thread_id,
        gtid_specified,
        cur.take(snapshot_len),
        _take_items(cur, write_count),
        _take_items(cur, read_count),
    )


def _take_items(cur: Cursor, count: int) -> tuple[bytes, ...]:
    return tuple(cur.take(cur.take_u16()) for _ in range(cur.check_count(count, 2)))


def decode_view_change(
    header: EventHeader, post: Cursor, cur: Cursor, description: FormatDescription
) -> ViewChangeEvent:
    """VIEW_CHANGE."""
    view_id = text_of(post.take(40).split(b"\0", 1)[0])
    seq_number, count = post.take_u64(), post.take_u32()
    cur.check_count(count, 6)
    return ViewChangeEvent(
        *header,
        view_id,
        seq_number,
        tuple((cur.take(cur.take_u16()), cur.take(cur.take_u32())) for _ in range(count)),
    )


def decode_binlog_checkpoint(
    header: EventHeader, post: Cursor, cur: Cursor, description: FormatDescription
) -> MariadbBinlogCheckpointEvent:
    """MariaDB's BINLOG_CHECKPOINT."""
    return MariadbBinlogCheckpointEvent(*header, cur.take_text(post.take_u32()))


def decode_start_encryption(
    header: EventHeader, post: Cursor, cur: Cursor, description: FormatDescription
) -> MariadbStartEncryptionEvent:
    """MariaDB's START_ENCRYPTION."""
    return MariadbStartEncryptionEvent(*header, cur.take_u8(), cur.take_u32(), cur.take(12))
