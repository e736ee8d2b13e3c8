# TABLE_MAP events: which plan a table id means from here on.

from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcmp

from _codes cimport *
from _cursor cimport Cursor, load_u32, load_u48, remaining, skip
from _loop cimport *
from _table_cache cimport *
from _transaction_events cimport begin

cdef enum:
    MAX_TABLE_IDS = 1 << 20         # kept; one transaction has room for half as many at least


cdef inline int map_table(loop_t* loop, Cursor body) noexcept nogil:
    cdef uint32_t post_header_len = post_header_len_of(loop, TABLE_MAP_EVENT)
    cdef uint32_t id_len = 4 if post_header_len < 8 else 6
    cdef content_t* known
    cdef uint64_t id
    cdef uint64_t hash
    cdef uint32_t length
    cdef uint32_t found
    if remaining(&body) < post_header_len or post_header_len < id_len + 2:
        return fail(loop, DECODE_MALFORMED, NO_TABLE, b"table map event too short")
    if not loop.trx_open:
        begin(loop, True)               # the log, or our reading, starts inside a transaction
    loop.table_maps += 1
    if loop.table_maps == 1 and loop.tables.id_count >= MAX_TABLE_IDS // 2:
        forget_table_ids(&loop.tables)      # a new transaction says anew which tables it means
    id = load_u32(body.pos) if id_len == 4 else load_u48(body.pos)
    skip(&body, id_len)
    length = <uint32_t> remaining(&body)
    known = content_of_id(&loop.tables, id)
    if known != NULL and known.length == length and memcmp(known.data, body.pos, length) == 0:
        return RUN_MORE
    hash = hash_bytes(body.pos, length)
    found = find_content(&loop.tables, hash, body.pos, length)
    if found == NO_TABLE:
        loop.pending = body
        loop.pending_id = id
        return RUN_TABLE
    if loop.tables.id_count >= MAX_TABLE_IDS:
        return fail(loop, DECODE_MALFORMED, NO_TABLE, b"more table ids than one transaction can have")
    if set_table_id(&loop.tables, id, found) != DECODE_OK:
        return fail(loop, DECODE_NO_MEMORY, NO_TABLE, b"no memory")
    return RUN_MORE
