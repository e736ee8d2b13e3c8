"""TABLE_MAP_EVENT: the body and the optional metadata after it, as the event has them.

Here bytes become lists. The two vendors have different rules for what the counts mean: see
binlog_core/_tables/tables.py.
"""

from libc.stdint cimport uint8_t, uint64_t

from wire.cursor cimport Cursor, cursor_over, remaining, take_lenenc, take_slice, take_u8

from .._tables.column_types import COLUMN_TYPES, MYSQL_TYPE_TYPED_ARRAY
from ..errors import DecodeError

cdef enum:
    MAX_COLUMN_COUNT = 4096         # the servers' own limit

# Optional metadata field types
cdef enum:
    SIGNEDNESS = 1
    DEFAULT_CHARSET = 2
    COLUMN_CHARSET = 3
    COLUMN_NAME = 4
    SET_STR_VALUE = 5
    ENUM_STR_VALUE = 6
    GEOMETRY_TYPE = 7
    SIMPLE_PRIMARY_KEY = 8
    PRIMARY_KEY_WITH_PREFIX = 9
    ENUM_AND_SET_DEFAULT_CHARSET = 10
    ENUM_AND_SET_COLUMN_CHARSET = 11
    COLUMN_VISIBILITY = 12
    VECTOR_DIMENSIONALITY = 13

cdef object METADATA_LEN = {code: t.metadata_len for code, t in COLUMN_TYPES.items()}


cdef class TableMap:
    """One TABLE_MAP_EVENT, not interpreted.

    Attributes are named after the fields in the server's documentation; those that the
    event lacks are None. Lists of the optional metadata are ordered and counted as in
    the event: see ``binlog_core._tables.table_map.shape_of``.
    """

    cdef readonly bytes database
    cdef readonly bytes table
    cdef readonly bytes column_types
    cdef readonly list column_metadata          # one bytes object per column
    cdef readonly object null_bits              # bytes, LSB first, or None
    cdef readonly object signedness             # bytes, MSB first
    cdef readonly object default_charset        # (collation, {index: collation})
    cdef readonly object column_charset         # list of collations
    cdef readonly object column_names           # list of bytes
    cdef readonly object set_members            # list of lists of bytes
    cdef readonly object enum_members
    cdef readonly object geometry_types         # list of int
    cdef readonly object primary_key            # list of (column index, prefix length)
    cdef readonly object enum_and_set_default_charset
    cdef readonly object enum_and_set_column_charset
    cdef readonly object column_visibility      # bytes, MSB first
    cdef readonly object vector_dimensionality  # list of int
    cdef readonly list unknown_fields           # types of unknown fields


cdef uint64_t take_length(Cursor* cur, str what) except? 0xFFFFFFFFFFFFFFFF:
    cdef uint64_t value
    if not take_lenenc(cur, &value):
        raise DecodeError(f"{what}: expected a packed integer")
    return value


cdef bytes take_bytes(Cursor* cur, uint64_t length, str what):
    cdef Cursor part
    if not take_slice(cur, length, &part):
        raise DecodeError(f"{what}: expected {length} bytes, {remaining(cur)} are left")
    return part.pos[:remaining(&part)]


cdef bytes take_name(Cursor* cur, str what):
    # The length comes first, and still a NUL follows.
    cdef bytes name = take_bytes(cur, take_length(cur, what), what)
    if remaining(cur) < 1 or take_u8(cur) != 0:
        raise DecodeError(f"{what}: expected a NUL after the name")
    return name


cdef list take_integers(Cursor* cur, str what):
    cdef list out = []
    while remaining(cur):
        out.append(take_length(cur, what))
    return out


cdef tuple take_default_charset(Cursor* cur, str what):
    cdef uint64_t default = take_length(cur, what)
    cdef dict others = {}
    while remaining(cur):
        index = take_length(cur, what)
        others[index] = take_length(cur, what)
    return default, others


cdef list take_strings(Cursor* cur, str what):
    cdef list out = []
    while remaining(cur):
        out.append(take_bytes(cur, take_length(cur, what), what))
    return out


cdef list take_members(Cursor* cur, str what):
    cdef list out = []
    cdef list members
    cdef uint64_t count
    while remaining(cur):
        count = take_length(cur, what)
        if count > remaining(cur):          # a member takes at least its length byte
            raise DecodeError(f"{what}: {count} members in {remaining(cur)} bytes")
        members = []
        while count:
            members.append(take_bytes(cur, take_length(cur, what), what))
            count -= 1
        out.append(members)
    return out


cdef list take_primary_key(Cursor* cur, bint with_prefix, str what):
    cdef list out = []
    while remaining(cur):
        index = take_length(cur, what)
        out.append((index, take_length(cur, what) if with_prefix else 0))
    return out


cdef int take_optional_metadata(TableMap map, Cursor* cur) except -1:
    cdef uint8_t kind
    cdef Cursor field
    cdef uint64_t length
    while remaining(cur):
        kind = take_u8(cur)
        what = f"optional metadata {kind}"
        length = take_length(cur, what)
        if not take_slice(cur, length, &field):
            raise DecodeError(f"{what}: expected {length} bytes, {remaining(cur)} are left")
        if kind == SIGNEDNESS:
            map.signedness = field.pos[:length]
        elif kind == DEFAULT_CHARSET:
            map.default_charset = take_default_charset(&field, what)
        elif kind == COLUMN_CHARSET:
            map.column_charset = take_integers(&field, what)
        elif kind == COLUMN_NAME:
            map.column_names = take_strings(&field, what)
        elif kind == SET_STR_VALUE:
            map.set_members = take_members(&field, what)
        elif kind == ENUM_STR_VALUE:
            map.enum_members = take_members(&field, what)
        elif kind == GEOMETRY_TYPE:
            map.geometry_types = take_integers(&field, what)
        elif kind == SIMPLE_PRIMARY_KEY:
            map.primary_key = take_primary_key(&field, False, what)
        elif kind == PRIMARY_KEY_WITH_PREFIX:
            map.primary_key = take_primary_key(&field, True, what)
        elif kind == ENUM_AND_SET_DEFAULT_CHARSET:
            map.enum_and_set_default_charset = take_default_charset(&field, what)
        elif kind == ENUM_AND_SET_COLUMN_CHARSET:
            map.enum_and_set_column_charset = take_integers(&field, what)
        elif kind == COLUMN_VISIBILITY:
            map.column_visibility = field.pos[:length]
        elif kind == VECTOR_DIMENSIONALITY:
            map.vector_dimensionality = take_integers(&field, what)
        else:
            map.unknown_fields.append(kind)     # later servers may add more
    return 0


def decode_table_name(const uint8_t[::1] data):
    """The names at the head of a TABLE_MAP_EVENT's body, and the rest.

    Parameters
    ----------
    data : bytes-like, shape (n_bytes,), uint8
        The same bytes as for :func:`decode_table_map`.

    Returns
    -------
    (database, table, rest) : tuple of bytes

    Raises
    ------
    DecodeError
        A length reaches past the event.
    """
    cdef Cursor cur = cursor_over(&data[0] if data.shape[0] else NULL, <size_t> data.shape[0])
    database = take_name(&cur, "database name")
    return database, take_name(&cur, "table name"), cur.pos[:remaining(&cur)]


def decode_table_map(const uint8_t[::1] data):
    """Decode what follows the post-header of a TABLE_MAP_EVENT.

    Parameters
    ----------
    data : bytes-like, shape (n_bytes,), uint8
        From the database name to the end of the event, without its checksum.

    Returns
    -------
    TableMap

    Raises
    ------
    DecodeError
        A length reaches past the event, or there are more than 4096 columns.

    Source: MySQL server documentation, "Table_map_event"; MariaDB Knowledge Base,
    "TABLE_MAP_EVENT".
    """
    cdef TableMap map = TableMap()
    cdef Cursor cur = cursor_over(&data[0] if data.shape[0] else NULL, <size_t> data.shape[0])
    cdef Cursor metadata
    cdef uint64_t column_count
    cdef uint64_t length
    cdef uint8_t code
    map.unknown_fields = []
    map.database = take_name(&cur, "database name")
    map.table = take_name(&cur, "table name")
    column_count = take_length(&cur, "column count")
    if column_count > MAX_COLUMN_COUNT:
        raise DecodeError(f"{column_count} columns: expected at most {MAX_COLUMN_COUNT}")
    map.column_types = take_bytes(&cur, column_count, "column types")
    if not remaining(&cur):
        # The oldest 5.1 servers end here: no metadata, nullability unknown.
        map.column_metadata = [b""] * <Py_ssize_t> column_count
        return map
    length = take_length(&cur, "metadata length")
    if not take_slice(&cur, length, &metadata):
        raise DecodeError(f"column metadata: expected {length} bytes, {remaining(&cur)} are left")
    map.column_metadata = []
    for code in map.column_types:
        if code not in METADATA_LEN:
            # The size of this type's metadata is not known, so nothing after it can be read.
            map.column_metadata.extend([b""] * (<Py_ssize_t> column_count - len(map.column_metadata)))
            metadata.pos = metadata.end
            break
        length = METADATA_LEN[code]
        if code == MYSQL_TYPE_TYPED_ARRAY and remaining(&metadata):
            # The element's type, and that type's own metadata after it.
            length += METADATA_LEN.get(metadata.pos[0], 0)
        map.column_metadata.append(take_bytes(&metadata, length, "column metadata"))
    if remaining(&metadata):
        raise DecodeError(f"column metadata: {remaining(&metadata)} bytes more than the columns need")
    map.null_bits = take_bytes(&cur, (column_count + 7) // 8, "nullability")
    take_optional_metadata(map, &cur)
    return map
