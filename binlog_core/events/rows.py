"""Row-based logging: the table, the rows' bytes, the statement's text, and compressed transactions.

The rows themselves are decoded by the compiled core; here are the parts that say what they are.

Source: MySQL server documentation, "Table_map_event", "Rows_event", "Transaction_payload_event";
MariaDB, "Rows_event", "ANNOTATE_ROWS_EVENT", "Partial_rows_log_event".
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .._format.compression import inflate_block, parse_payload_header
from .._format.cursor import Cursor, text_of
from .._format.event_types import EventType
from .._format.format_description import FormatDescription
from ..errors import DecodeError
from .base import Event, EventHeader

DUMMY_TABLE_ID = 0x00FFFFFF  # a rows event without rows, which ends its statement

_MOST_COLUMNS = 4096
_LONG_POST_HEADER = 10  # from here on the post-header has the length of extra data
_EXTRA_NDB, _EXTRA_PARTITION = 0, 1

_UPDATES = frozenset(
    (
        EventType.UPDATE_ROWS_V1,
        EventType.UPDATE_ROWS,
        EventType.PARTIAL_UPDATE_ROWS,
        EventType.MARIADB_UPDATE_ROWS_COMPRESSED_V1,
        EventType.MARIADB_UPDATE_ROWS_COMPRESSED,
    )
)
_FIRST_COMPRESSED = EventType.MARIADB_WRITE_ROWS_COMPRESSED_V1
_LAST_COMPRESSED = EventType.MARIADB_DELETE_ROWS_COMPRESSED

_FRAGMENT_HAS_SIZE = 1


@dataclass(frozen=True, slots=True)
class TableMapEvent(Event):
    """The definition of a table, which describes the rows events after it.

    Parameters
    ----------
    table_id : int
        The number by which rows events refer to it.
    table_flags : int
        1 BIT lengths are exact, 2 referenced by a foreign key of another database, 4 generated
        invisible primary key, 0x4000 has triggers (MariaDB).
    database, table : str
        The names of the database and the table.
    column_types : bytes
        The MYSQL_TYPE_* of each column.
    column_metadata : bytes
        For each column as many bytes as its type has; b"" in the oldest 5.1 logs.
    null_bits : bytes or None
        Bit i (least significant first) says whether column i may be NULL; None in the oldest 5.1 logs.
    optional_metadata : bytes
        Names, signs, character sets …, encoded as they are in the log.
    """

    table_id: int
    table_flags: int
    database: str
    table: str
    column_types: bytes
    column_metadata: bytes
    null_bits: bytes | None
    optional_metadata: bytes

    @property
    def column_count(self) -> int:
        """The number of columns of the table."""
        return len(self.column_types)


@dataclass(frozen=True, slots=True)
class RowsEvent(Event):
    """Rows that were inserted, updated or deleted; the event's type says which.

    Parameters
    ----------
    table_id : int
        The number in the TABLE_MAP event before it; an event with `DUMMY_TABLE_ID` only ends a statement.
    rows_flags : int
        1 STMT_END, 2 NO_FOREIGN_KEY_CHECKS, 4 RELAXED_UNIQUE_CHECKS, 8 COMPLETE_ROWS,
        16 USE_SQL_FOREIGN_KEY, 128 NO_CHECK_CONSTRAINT_CHECKS (MariaDB).
    width : int
        The number of columns of the table.
    columns_present : bytes
        Bit i (least significant first) says whether column i is in the (first) image.
    columns_present_update : bytes or None
        The same for the second image; None if the event has no second bitmap.
    extra_data : bytes
        The extra data of a v2 event, as logged.
    ndb_info : (int, bytes) or None
        Format and content of NDB Cluster's information.
    partition_id, source_partition_id : int or None
        The row's partition, and the one that an update moved it from.
    rows : bytes
        The row images, decompressed if the log has them compressed.
    """

    table_id: int
    rows_flags: int
    width: int
    columns_present: bytes
    columns_present_update: bytes | None
    extra_data: bytes
    ndb_info: tuple[int, bytes] | None
    partition_id: int | None
    source_partition_id: int | None
    rows: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class RowsFragmentEvent(Event):
    """MariaDB 12.3: a piece of a rows event that was too large for one event.

    Parameters
    ----------
    total_fragments : int
        The number of pieces.
    seq_no : int
        The number of this piece, from 1.
    fragment_flags : int
        The piece's flags.
    original_size : int or None
        Bytes of the whole event.
    fragment : bytes
        The piece's data.
    """

    total_fragments: int
    seq_no: int
    fragment_flags: int
    original_size: int | None
    fragment: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class RowsQueryEvent(Event):
    """ROWS_QUERY and MariaDB's ANNOTATE_ROWS: the statement that the rows after it come from.

    Parameters
    ----------
    query_bytes : bytes
        The statement as logged.
    """

    query_bytes: bytes = field(repr=False)

    @property
    def query(self) -> str:
        """The statement as UTF-8 text; bytes that are not valid UTF-8 become surrogate escapes."""
        return text_of(self.query_bytes)


@dataclass(frozen=True, slots=True)
class TransactionPayloadEvent(Event):
    """A transaction's events, compressed.

    Parameters
    ----------
    compression_type : int
        The compression: 0 zstd, 255 none.
    payload_size : int
        Its bytes in the log.
    uncompressed_size : int or None
        Its decompressed bytes as logged; do not rely on it.
    payload : memoryview
        The compressed data. It is not copied, so it keeps the source's bytes alive.
    """

    compression_type: int
    payload_size: int
    uncompressed_size: int | None
    payload: memoryview = field(repr=False)


def decode_table_map(
    header: EventHeader, post: Cursor, cur: Cursor, description: FormatDescription
) -> TableMapEvent:
    """TABLE_MAP, up to the optional metadata."""
    table_id, table_flags = _take_table_id(post), post.take_u16()
    database = _take_name(cur)
    table = _take_name(cur)
    count = _take_column_count(cur)
    types = cur.take(count)
    if cur.remaining:
        metadata = cur.take(cur.take_lenenc())
        null_bits = cur.take((count + 7) // 8)
    else:
        metadata, null_bits = b"", None  # 5.1.15, 5.1.17, 5.2.2
    return TableMapEvent(
        *header, table_id, table_flags, database, table, types, metadata, null_bits, cur.rest()
    )


def _take_table_id(post: Cursor) -> int:
    return post.take_u32() if post.end == 6 else post.take_u48()


def _take_name(cur: Cursor) -> str:
    name = cur.take_text(cur.take_lenenc())
    cur.skip(1)  # NUL, although the length came first
    return name


def _take_column_count(cur: Cursor) -> int:
    count = cur.take_lenenc()
    if not 1 <= count <= _MOST_COLUMNS:
        raise DecodeError(f"a table has 1 to {_MOST_COLUMNS} columns, found {count}")
    return count


def decode_rows(header: EventHeader, post: Cursor, cur: Cursor, description: FormatDescription) -> RowsEvent:
    """Rows events of all versions, by the length of their post-header, not by their type."""
    table_id, rows_flags = _take_table_id(post), post.take_u16()
    update = header.type_code in _UPDATES
    extra = b""
    if post.end >= _LONG_POST_HEADER:
        extra_len = post.take_u16()  # counts itself
        if extra_len < 2:
            raise DecodeError(f"the length of extra row data is at least 2, found {extra_len}")
        extra = cur.take(extra_len - 2)
    ndb_info, partition_id, source_partition_id = _extra_data(extra, update)
    if table_id == DUMMY_TABLE_ID and not cur.remaining:
        width, present, present_update = 0, b"", None
    else:
        width = _take_column_count(cur)
        present = cur.take((width + 7) // 8)
        present_update = cur.take((width + 7) // 8) if update else None
    rows = cur.rest()
    if _FIRST_COMPRESSED <= header.type_code <= _LAST_COMPRESSED:
        rows = inflate_block(rows)
    return RowsEvent(
        *header,
        table_id,
        rows_flags,
        width,
        present,
        present_update,
        extra,
        ndb_info,
        partition_id,
        source_partition_id,
        rows,
    )


def _extra_data(extra: bytes, update: bool) -> tuple[tuple[int, bytes] | None, int | None, int | None]:
    cur = Cursor(extra)
    ndb_info = partition_id = source_partition_id = None
    while cur.remaining:
        tag = cur.take_u8()
        if tag == _EXTRA_NDB:
            length, ndb_format = cur.take_u8(), cur.take_u8()
            if length < 2:
                raise DecodeError(f"NDB info has at least 2 bytes, found {length}")
            ndb_info = ndb_format, cur.take(length - 2)
        elif tag == _EXTRA_PARTITION:
            partition_id = cur.take_u16()
            source_partition_id = cur.take_u16() if update else None
        else:
            break  # unknown, and so is its length
    return ndb_info, partition_id, source_partition_id


def decode_rows_fragment(
    header: EventHeader, post: Cursor, cur: Cursor, description: FormatDescription
) -> RowsFragmentEvent:
    """MariaDB's fragment of a rows event."""
    total, seq_no, flags = cur.take_u32(), cur.take_u32(), cur.take_u8()
    original_size = cur.take_u64() if flags & _FRAGMENT_HAS_SIZE else None
    return RowsFragmentEvent(*header, total, seq_no, flags, original_size, cur.rest())


def decode_rows_query(
    header: EventHeader, post: Cursor, cur: Cursor, description: FormatDescription
) -> RowsQueryEvent:
    """ROWS_QUERY and ANNOTATE_ROWS."""
    if header.type_code == EventType.ROWS_QUERY:
        cur.skip(1)  # a length that stops at 255
    return RowsQueryEvent(*header, cur.rest())


def decode_transaction_payload(
    header: EventHeader, post: Cursor, cur: Cursor, description: FormatDescription
) -> TransactionPayloadEvent:
    """TRANSACTION_PAYLOAD."""
    compression_type, payload, uncompressed_size = parse_payload_header(cur.rest_view())
    return TransactionPayloadEvent(*header, compression_type, len(payload), uncompressed_size, payload)
