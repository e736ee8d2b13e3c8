"""Transactions' identifiers: MySQL's GTID events, plain and tagged, MariaDB's, and sets of them.

Source: MySQL server documentation, "Gtid_event", "Previous_gtids_event" and its serialization
library; MariaDB, "GTID_EVENT", "GTID_LIST_EVENT".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .._format.cursor import Cursor
from .._format.format_description import FormatDescription
from ..errors import DecodeError
from ..gtids import MOST_SOURCES, Gtid, GtidSet, MariadbGtid, uuid_text
from .base import Event, EventHeader

_LOGICAL_TIMESTAMP = 2
_SECOND_TIMESTAMP = 1 << 55  # in the first of two 7-byte timestamps: the other follows
_SECOND_VERSION = 1 << 31

_TAGGED_FIELDS = 12
_TAG_LENGTH = 32

_FL_GROUP_COMMIT_ID = 2
_FL_XA = 64 | 128  # prepared, completed
_FL_EXTRA_MULTI_ENGINE = 1
_FL_EXTRA_END_ALTER = 4 | 8  # commit, rollback
_FL_EXTRA_THREAD_ID = 16


@dataclass(frozen=True, slots=True)
class GtidEvent(Event):
    """GTID, ANONYMOUS_GTID and GTID_TAGGED: begins a transaction. Fields that its version lacks are None.

    Parameters
    ----------
    gtid_flags : int
        Bit 0 means that the transaction may have changes logged as statements.
    uuid : str
        The source's UUID; zeros if the transaction is anonymous.
    tag : str
        The GTID's tag; "" if it has none.
    gno : int
        The transaction's number; 0 if it is anonymous.
    last_committed, sequence_number : int or None
        The source's logical clock, within this file.
    immediate_commit_timestamp, original_commit_timestamp : int or None
        When it was committed on the server that wrote this log, and on the first one; microseconds since 1970
        UTC.
    transaction_length : int or None
        The transaction's bytes, including this event.
    immediate_server_version, original_server_version : int or None
        The versions of those two servers, such as 80045.
    commit_group_ticket : int or None
        The ticket of its commit group.
    """

    gtid_flags: int
    uuid: str
    tag: str
    gno: int
    last_committed: int | None = None
    sequence_number: int | None = None
    immediate_commit_timestamp: int | None = None
    original_commit_timestamp: int | None = None
    transaction_length: int | None = None
    immediate_server_version: int | None = None
    original_server_version: int | None = None
    commit_group_ticket: int | None = None

    @property
    def gtid(self) -> Gtid | None:
        """The GTID; None if the transaction is anonymous."""
        return Gtid(self.uuid, self.tag, self.gno) if self.gno else None


@dataclass(frozen=True, slots=True)
class PreviousGtidsEvent(Event):
    """All GTIDs of the logs before this one.

    Parameters
    ----------
    gtid_set : GtidSet
        The set.
    """

    gtid_set: GtidSet


@dataclass(frozen=True, slots=True)
class MariadbGtidEvent(Event):
    """MariaDB's GTID: begins a transaction, in place of BEGIN.

    Parameters
    ----------
    seq_no : int
        The GTID's sequence number.
    domain_id : int
        The GTID's domain.
    flags2 : int
        1 STANDALONE, 2 GROUP_COMMIT_ID, 4 TRANSACTIONAL, 8 ALLOW_PARALLEL, 16 WAITED, 32 DDL,
        64 PREPARED_XA, 128 COMPLETED_XA.
    commit_id : int or None
        A number that transactions committed together share.
    xid : (int, bytes, bytes) or None
        The XA identifier: format, gtrid, bqual.
    flags_extra : int
        1 MULTI_ENGINE, 2 START_ALTER, 4 COMMIT_ALTER, 8 ROLLBACK_ALTER, 16 THREAD_ID.
    extra_engines : int or None
        The number of further storage engines in the transaction.
    start_alter_seq_no : int or None
        The sequence number of the START ALTER that this one ends.
    thread_id : int or None
        The connection's thread.
    """

    seq_no: int
    domain_id: int
    flags2: int
    commit_id: int | None = None
    xid: tuple[int, bytes, bytes] | None = None
    flags_extra: int = 0
    extra_engines: int | None = None
    start_alter_seq_no: int | None = None
    thread_id: int | None = None

    @property
    def gtid(self) -> MariadbGtid:
        """The GTID; its server id is the one in the header."""
        return MariadbGtid(self.domain_id, self.server_id, self.seq_no)

    @property
    def standalone(self) -> bool:
        """Whether the transaction is a single event after this one, without COMMIT."""
        return bool(self.flags2 & 1)


@dataclass(frozen=True, slots=True)
class MariadbGtidListEvent(Event):
    """The last GTID of each domain and server in the logs before this one.

    Parameters
    ----------
    gtids : tuple of MariadbGtid
        The GTIDs.
    list_flags : int
        The list's flags, 4 bits.
    """

    gtids: tuple[MariadbGtid, ...]
    list_flags: int


def decode_gtid(header: EventHeader, post: Cursor, cur: Cursor, description: FormatDescription) -> GtidEvent:
    """GTID and ANONYMOUS_GTID: fields came version by version, the log ends with the last it has."""
    gtid_flags, uuid, gno = cur.take_u8(), uuid_text(cur.take(16)), cur.take_i64()
    known = (gtid_flags, uuid, "", gno)
    if not cur.remaining or cur.take_u8() != _LOGICAL_TIMESTAMP:
        return GtidEvent(*header, *known)
    last_committed, sequence_number = cur.take_i64(), cur.take_i64()
    immediate = original = length = immediate_version = original_version = ticket = None
    if cur.remaining >= 7:
        immediate = original = cur.take_u56()
        if immediate & _SECOND_TIMESTAMP:
            immediate, original = immediate ^ _SECOND_TIMESTAMP, cur.take_u56()
        if cur.remaining:
            length = cur.take_lenenc()
        if cur.remaining >= 4:
            immediate_version = original_version = cur.take_u32()
            if immediate_version & _SECOND_VERSION:
                immediate_version, original_version = immediate_version ^ _SECOND_VERSION, cur.take_u32()
            if cur.remaining >= 8:
                ticket = cur.take_u64()
    return GtidEvent(
        *header,
        *known,
        last_committed,
        sequence_number,
        immediate,
        original,
        length,
        immediate_version,
        original_version,
        ticket,
    )


def decode_gtid_tagged(
    header: EventHeader, post: Cursor, cur: Cursor, description: FormatDescription
) -> GtidEvent:
    """GTID_TAGGED: one message of MySQL's serialization library, fields by ascending id."""
    begin = cur.pos
    version, size, last_needed = cur.take_varint(), cur.take_varint(), cur.take_varint()
    if version != 1:
        raise DecodeError(f"tagged GTID: expected version 1, found {version}")
    if last_needed > _TAGGED_FIELDS:
        raise DecodeError(f"tagged GTID: fields up to {last_needed} are needed, {_TAGGED_FIELDS} are known")
    left = size - (cur.pos - begin)
    if left < 0:
        raise DecodeError(f"tagged GTID: a message of {size} bytes is shorter than its header")
    message = cur.take_slice(left)
    fields: dict[int, object] = {}
    last_id = -1
    while message.remaining:
        field_id = message.take_varint()
        if field_id <= last_id:
            raise DecodeError(
                f"tagged GTID: field {field_id} follows field {last_id}: expected ascending numbers"
            )
        if field_id >= _TAGGED_FIELDS:
            break  # one that may be ignored, and whose length is unknown
        last_id = field_id
        fields[field_id] = _take_tagged_field(message, field_id)
    missing = [str(field_id) for field_id in range(4) if field_id not in fields]
    if missing:
        raise DecodeError(f"tagged GTID: field {', '.join(missing)} is missing")
    fields.setdefault(7, fields.get(6))
    fields.setdefault(10, fields.get(9))
    # By id, but the event has the tag before the number.
    in_order = (0, 1, 3, 2, *range(4, _TAGGED_FIELDS))
    return GtidEvent(*header, *(fields.get(field_id) for field_id in in_order))  # type: ignore[arg-type]


def _take_tagged_field(message: Cursor, field_id: int) -> object:
    if field_id == 1:
        octets = [message.take_varint() for _ in range(16)]
        if max(octets) > 255:
            raise DecodeError("tagged GTID: a byte of the UUID is over 255")
        return uuid_text(bytes(octets))
    if field_id == 3:
        length = message.take_varint()
        if length > _TAG_LENGTH:
            raise DecodeError(f"tagged GTID: a tag has up to {_TAG_LENGTH} bytes, found {length}")
        return message.take_text(length)
    if field_id in (2, 4, 5):
        return message.take_signed_varint()
    return message.take_varint()


def decode_previous_gtids(
    header: EventHeader, post: Cursor, cur: Cursor, description: FormatDescription
) -> PreviousGtidsEvent:
    """PREVIOUS_GTIDS."""
    return PreviousGtidsEvent(*header, GtidSet.from_bytes(cur.rest_view()))


def decode_mariadb_gtid(
    header: EventHeader, post: Cursor, cur: Cursor, description: FormatDescription
) -> MariadbGtidEvent:
    """MariaDB's GTID: optional fields run on over the end of the post-header, zeros fill it up."""
    seq_no, domain_id, flags2 = cur.take_u64(), cur.take_u32(), cur.take_u8()
    commit_id = cur.take_u64() if flags2 & _FL_GROUP_COMMIT_ID else None
    xid = None
    if flags2 & _FL_XA:
        format_id, gtrid_len, bqual_len = cur.take_u32(), cur.take_u8(), cur.take_u8()
        xid = (format_id, cur.take(gtrid_len), cur.take(bqual_len))
    # Up to 10.11 only written when it is not 0.
    flags_extra = cur.take_u8() if cur.remaining else 0
    extra_engines = cur.take_u8() if flags_extra & _FL_EXTRA_MULTI_ENGINE else None
    start_alter_seq_no = cur.take_u64() if flags_extra & _FL_EXTRA_END_ALTER else None
    thread_id = cur.take_u32() if flags_extra & _FL_EXTRA_THREAD_ID else None
    return MariadbGtidEvent(
        *header,
        seq_no,
        domain_id,
        flags2,
        commit_id,
        xid,
        flags_extra,
        extra_engines,
        start_alter_seq_no,
        thread_id,
    )


def decode_mariadb_gtid_list(
    header: EventHeader, post: Cursor, cur: Cursor, description: FormatDescription
) -> MariadbGtidListEvent:
    """MariaDB's GTID_LIST; an empty one may be padded."""
    head = post.take_u32()
    return MariadbGtidListEvent(*header, tuple(_listed(head, cur)), head >> 28)


def gtids_of_list(body: bytes | memoryview) -> Iterator[MariadbGtid]:
    """The GTIDs of a GTID_LIST, one after the other.

    Raises
    ------
    DecodeError
        There are more than `MOST_SOURCES`, or fewer than the event says.
    """
    cur = Cursor(body)
    return _listed(cur.take_u32(), cur)


def _listed(head: int, cur: Cursor) -> Iterator[MariadbGtid]:
    count = cur.check_count(head & 0x0FFF_FFFF, 16)
    if count > MOST_SOURCES:
        raise DecodeError(f"a list of {count} GTIDs: expected at most {MOST_SOURCES}")
    return (MariadbGtid(cur.take_u32(), cur.take_u32(), cur.take_u64()) for _ in range(count))
