"""QUERY and MariaDB's QUERY_COMPRESSED: a statement, and the session in which it ran.

Source: MySQL server documentation, "Query_event"; MariaDB, "QUERY_EVENT", "QUERY_COMPRESSED_EVENT".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .._format.compression import inflate_block
from .._format.cursor import Cursor, text_of
from .._format.event_types import EventType
from .._format.format_description import FormatDescription
from .._tables import charsets
from ..errors import DecodeError
from .base import Event, EventHeader

_OVER_MAX_DBS = 16  # more updated databases than that: the names are left out
_START_ALTER_FLAGS = 4 | 8  # COMMIT ALTER and ROLLBACK ALTER name the START ALTER that they end


@dataclass(frozen=True, slots=True)
class QueryStatus:
    """Status variables of a QUERY event; those that the log does not have are None.

    Parameters
    ----------
    flags2 : int
        Session options such as autocommit and foreign_key_checks.
    sql_mode : int
        The bits of sql_mode; above 2**31 they differ between MySQL and MariaDB.
    catalog : str
        The name of the catalog.
    auto_increment_increment, auto_increment_offset : int
        The session variables of these names.
    character_set_client, collation_connection, collation_server : int
        The session's character set and collations, as collation ids.
    time_zone : str
        The session's time zone.
    lc_time_names : int
        The number of the locale for names of days and months.
    collation_database : int
        The id of the default database's collation.
    table_map_for_update : int
        Bit mask of the tables in a multi-table update.
    master_data_written : int
        The length of the original event, as the server logged it.
    invoker_user, invoker_host : str
        User and host of the account that ran the statement.
    updated_db_names : tuple of str
        The databases that were changed; () if there were too many to list.
    microseconds : int
        The microseconds of the timestamp, from either vendor's variable.
    explicit_defaults_for_timestamp : bool
        The session variable of this name.
    ddl_xid : int
        The transaction number of an atomic DDL statement (MySQL 8), or of any statement (MariaDB).
    default_collation_for_utf8mb4 : int
        The id of the collation in the session variable of this name.
    sql_require_primary_key : int
        The session variable of this name.
    default_table_encryption : int
        The session variable of this name.
    enable_cascade_triggers : int
        The value that the server logged under this name.
    gtid_flags3 : int
        MariaDB: flags for START, COMMIT or ROLLBACK ALTER.
    start_alter_seq_no : int
        MariaDB: sequence number of the START ALTER that this statement ends.
    character_set_collations : tuple of (int, int)
        MariaDB 11: the default collation of a character set, and the one used in its place.
    unknown : bytes
        The bytes from the first unknown code on; the log has no lengths, so nothing after it can be read.
    """

    flags2: int | None = None
    sql_mode: int | None = None
    catalog: str | None = None
    auto_increment_increment: int | None = None
    auto_increment_offset: int | None = None
    character_set_client: int | None = None
    collation_connection: int | None = None
    collation_server: int | None = None
    time_zone: str | None = None
    lc_time_names: int | None = None
    collation_database: int | None = None
    table_map_for_update: int | None = None
    master_data_written: int | None = None
    invoker_user: str | None = None
    invoker_host: str | None = None
    updated_db_names: tuple[str, ...] | None = None
    microseconds: int | None = None
    explicit_defaults_for_timestamp: bool | None = None
    ddl_xid: int | None = None
    default_collation_for_utf8mb4: int | None = None
    sql_require_primary_key: int | None = None
    default_table_encryption: int | None = None
    enable_cascade_triggers: int | None = None
    gtid_flags3: int | None = None
    start_alter_seq_no: int | None = None
    character_set_collations: tuple[tuple[int, int], ...] | None = None
    unknown: bytes = b""


@dataclass(frozen=True, slots=True)
class QueryEvent(Event):
    """A statement.

    Parameters
    ----------
    thread_id : int
        The connection's thread.
    exec_time : int
        How long the statement took, in seconds.
    error_code : int
        The error that it ended with on the server; 0 is none.
    status : QueryStatus
        The status variables of the session.
    database : str
        The default database.
    query_bytes : bytes
        The statement in the client's character set, decompressed if the log has it compressed.
    """

    thread_id: int
    exec_time: int
    error_code: int
    status: QueryStatus
    database: str
    query_bytes: bytes = field(repr=False)

    @property
    def query(self) -> str:
        """The statement as text; bytes that are not valid in its character set become surrogate escapes."""
        return query_text(self.query_bytes, self.status.character_set_client)


def query_text(query: bytes, collation: int | None) -> str:
    """Text of a statement in the character set of a collation id, or in UTF-8 if that is not possible."""
    name = charsets.charset_of(collation) if collation is not None else None
    charset = charsets.get(name) if name is not None else None
    if charset is not None and charset.decodable:
        try:
            return charset.decode(query)
        except UnicodeDecodeError:
            pass  # a statement may hold a binary literal
    return text_of(query)


def decode_query(
    header: EventHeader, post: Cursor, cur: Cursor, description: FormatDescription
) -> QueryEvent:
    """QUERY and QUERY_COMPRESSED."""
    return QueryEvent(*header, *take_query(header, post, cur))


def take_query(
    header: EventHeader, post: Cursor, cur: Cursor
) -> tuple[int, int, int, QueryStatus, str, bytes]:
    """The fields of `QueryEvent`; leaves in `post` what comes after its 13 bytes."""
    thread_id, exec_time, database_len, error_code = (
        post.take_u32(),
        post.take_u32(),
        post.take_u8(),
        post.take_u16(),
    )
    # v1 and v3 end here: 11 bytes.
    status_len = post.take_u16() if post.remaining >= 2 else 0
    status = decode_status(cur.take_slice(status_len))
    database = cur.take_text(database_len)
    cur.skip(1)  # NUL, although the length came first
    query = cur.rest()
    if header.type_code == EventType.MARIADB_QUERY_COMPRESSED:
        query = inflate_block(query)
    return thread_id, exec_time, error_code, status, database, query


def decode_status(cur: Cursor) -> QueryStatus:
    """Status variables, up to the first unknown code."""
    found: dict[str, Any] = {}
    while cur.remaining:
        begin = cur.pos
        take = _STATUS_VARIABLES.get(cur.take_u8())
        if take is None:
            cur.pos = begin
            found["unknown"] = cur.rest()
        else:
            found.update(take(cur))
    return QueryStatus(**found)


_Variables = dict[str, Any]


def _one(name: str, take: Callable[[Cursor], Any]) -> Callable[[Cursor], _Variables]:
    return lambda cur: {name: take(cur)}


def _catalog_nul(cur: Cursor) -> _Variables:
    catalog = cur.take_text_u8()
    cur.skip(1)  # NUL; there even after an empty name
    return {"catalog": catalog}


def _auto_increment(cur: Cursor) -> _Variables:
    return {"auto_increment_increment": cur.take_u16(), "auto_increment_offset": cur.take_u16()}


def _charset(cur: Cursor) -> _Variables:
    return {
        "character_set_client": cur.take_u16(),
        "collation_connection": cur.take_u16(),
        "collation_server": cur.take_u16(),
    }


def _invoker(cur: Cursor) -> _Variables:
    return {"invoker_user": cur.take_text_u8(), "invoker_host": cur.take_text_u8()}


def _updated_db_names(cur: Cursor) -> _Variables:
    count = cur.take_u8()
    if count == 0:
        raise DecodeError("status variable UPDATED_DB_NAMES: expected at least 1 name, found 0")
    if count > _OVER_MAX_DBS:
        return {"updated_db_names": ()}
    return {"updated_db_names": tuple(text_of(cur.take_cstr()) for _ in range(count))}


def _gtid_flags3(cur: Cursor) -> _Variables:
    flags = cur.take_u8()
    if flags & _START_ALTER_FLAGS:
        return {"gtid_flags3": flags, "start_alter_seq_no": cur.take_u64()}
    return {"gtid_flags3": flags}


def _character_set_collations(cur: Cursor) -> _Variables:
    return {"character_set_collations": tuple((cur.take_u16(), cur.take_u16()) for _ in range(cur.take_u8()))}


# Codes 14 and 15 (commit timestamps) were never in a release.
_STATUS_VARIABLES: dict[int, Callable[[Cursor], _Variables]] = {
    0: _one("flags2", Cursor.take_u32),
    1: _one("sql_mode", Cursor.take_u64),
    2: _catalog_nul,
    3: _auto_increment,
    4: _charset,
    5: _one("time_zone", Cursor.take_text_u8),
    6: _one("catalog", Cursor.take_text_u8),
    7: _one("lc_time_names", Cursor.take_u16),
    8: _one("collation_database", Cursor.take_u16),
    9: _one("table_map_for_update", Cursor.take_u64),
    10: _one("master_data_written", Cursor.take_u32),
    11: _invoker,
    12: _updated_db_names,
    13: _one("microseconds", Cursor.take_u24),
    16: _one("explicit_defaults_for_timestamp", lambda cur: bool(cur.take_u8())),
    17: _one("ddl_xid", Cursor.take_u64),
    18: _one("default_collation_for_utf8mb4", Cursor.take_u16),
    19: _one("sql_require_primary_key", Cursor.take_u8),
    20: _one("default_table_encryption", Cursor.take_u8),  # one byte, whatever the server's comment says
    21: _one("enable_cascade_triggers", Cursor.take_u8),
    128: _one("microseconds", Cursor.take_u24),
    129: _one("ddl_xid", Cursor.take_u64),
    130: _gtid_flags3,
    131: _character_set_collations,
}
