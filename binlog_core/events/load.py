"""LOAD DATA INFILE logged as statements: a file in blocks, and what to do with it.

Source: MySQL server documentation, "Load Data Events"; the older layouts from the servers'
``Load_log_event`` and ``Create_file_log_event``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .._format.cursor import Cursor, text_of
from .._format.event_types import EventType
from .._format.format_description import FormatDescription
from .base import Event, EventHeader
from .query import QueryEvent, take_query


@dataclass(frozen=True, slots=True)
class SqlEx:
    """How the fields and lines of the file are separated.

    Parameters
    ----------
    field_term, enclosed, line_term, line_start, escaped : bytes
        The separators and marks; b"" for those that are not used.
    opt_flags : int
        1 DUMPFILE, 2 OPTIONALLY ENCLOSED, 4 REPLACE, 8 IGNORE.
    """

    field_term: bytes
    enclosed: bytes
    line_term: bytes
    line_start: bytes
    escaped: bytes
    opt_flags: int


@dataclass(frozen=True, slots=True)
class LoadEvent(Event):
    """LOAD and NEW_LOAD (3.23 to 4.1).

    Parameters
    ----------
    thread_id : int
        The connection's thread.
    exec_time : int
        How long the statement took, in seconds.
    skip_lines : int
        The number of lines to skip at the beginning of the file.
    sql_ex : SqlEx
        How its fields and lines are separated.
    fields : tuple of str
        The names of the columns.
    table, database : str
        The names of the table and the database.
    file_name : str
        The name of the file.
    """

    thread_id: int
    exec_time: int
    skip_lines: int
    sql_ex: SqlEx
    fields: tuple[str, ...]
    table: str
    database: str
    file_name: str


@dataclass(frozen=True, slots=True)
class CreateFileEvent(LoadEvent):
    """LOAD, and the first block of the file.

    Parameters
    ----------
    file_id : int or None
        The number that later events refer to the file by; None in v1.
    block : bytes
        The block's data.
    """

    file_id: int | None
    block: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class AppendBlockEvent(Event):
    """APPEND_BLOCK and BEGIN_LOAD_QUERY: a block of the file; the latter has the first one.

    Parameters
    ----------
    file_id : int
        The number of the file.
    block : bytes
        The block's data.
    """

    file_id: int
    block: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class FileEvent(Event):
    """EXEC_LOAD and DELETE_FILE: load the file, or discard it.

    Parameters
    ----------
    file_id : int
        The number of the file.
    """

    file_id: int


@dataclass(frozen=True, slots=True)
class ExecuteLoadQueryEvent(QueryEvent):
    """A LOAD DATA statement, whose file is in the events before it.

    Parameters
    ----------
    file_id : int
        The number of the file.
    fn_pos_start, fn_pos_end : int
        Byte offsets in `query_bytes` of the part from INFILE (or LOCAL) to INTO, which a client that replays
        the statement replaces to name its own file.
    dup_handling : int
        What to do with duplicates: 0 error, 1 ignore, 2 replace.
    """

    file_id: int
    fn_pos_start: int
    fn_pos_end: int
    dup_handling: int


def decode_load(header: EventHeader, post: Cursor, cur: Cursor, description: FormatDescription) -> LoadEvent:
    """LOAD, NEW_LOAD and CREATE_FILE."""
    thread_id, exec_time, skip_lines = post.take_u32(), post.take_u32(), post.take_u32()
    post.skip(2)  # lengths of the names of table and database, which end in NUL too
    field_count = post.take_u32()
    sql_ex = _take_old_sql_ex(cur) if header.type_code == EventType.LOAD else _take_sql_ex(cur)
    lengths = cur.take(cur.check_count(field_count, 2))
    fields = []
    for length in lengths:
        fields.append(cur.take_text(length))
        cur.skip(1)
    table, database = text_of(cur.take_cstr()), text_of(cur.take_cstr())
    load = (thread_id, exec_time, skip_lines, sql_ex, tuple(fields), table, database)
    if header.type_code != EventType.CREATE_FILE:
        return LoadEvent(*header, *load, text_of(cur.rest()))
    if description.binlog_version == 1:
        return CreateFileEvent(*header, *load, text_of(cur.rest().rstrip(b"\0")), None, b"")
    own = _own_post_header(post, description)
    return CreateFileEvent(*header, *load, text_of(cur.take_cstr()), own.take_u32(), cur.rest())


def _own_post_header(post: Cursor, description: FormatDescription) -> Cursor:
    # CREATE_FILE: LOAD's post-header, as long as the log lists it, then its own.
    own = Cursor(post.data)
    own.skip(description.post_header_length(EventType.LOAD) or 0)
    return own


def _take_old_sql_ex(cur: Cursor) -> SqlEx:
    characters = [cur.take(1) for _ in range(5)]
    opt_flags, empty_flags = cur.take_u8(), cur.take_u8()
    field_term, enclosed, line_term, line_start, escaped = (
        b"" if empty_flags >> bit & 1 else character for bit, character in enumerate(characters)
    )
    return SqlEx(field_term, enclosed, line_term, line_start, escaped, opt_flags)


def _take_sql_ex(cur: Cursor) -> SqlEx:
    field_term, enclosed, line_term, line_start, escaped = (cur.take(cur.take_u8()) for _ in range(5))
    return SqlEx(field_term, enclosed, line_term, line_start, escaped, cur.take_u8())


def decode_append_block(
    header: EventHeader, post: Cursor, cur: Cursor, description: FormatDescription
) -> AppendBlockEvent:
    """APPEND_BLOCK and BEGIN_LOAD_QUERY."""
    return AppendBlockEvent(*header, post.take_u32(), cur.rest())


def decode_file(header: EventHeader, post: Cursor, cur: Cursor, description: FormatDescription) -> FileEvent:
    """EXEC_LOAD and DELETE_FILE."""
    return FileEvent(*header, post.take_u32())


def decode_execute_load_query(
    header: EventHeader, post: Cursor, cur: Cursor, description: FormatDescription
) -> ExecuteLoadQueryEvent:
    """EXECUTE_LOAD_QUERY: QUERY's post-header of 13 bytes, then 13 more."""
    query = take_query(header, post, cur)
    return ExecuteLoadQueryEvent(
        *header, *query, post.take_u32(), post.take_u32(), post.take_u32(), post.take_u8()
    )
