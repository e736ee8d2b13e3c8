# TABLE_MAP events: which definition a table id means from here on.

from libc.stdint cimport uint32_t, uint64_t

from decode.loop cimport (
    FAULT_NO_MEMORY, FAULT_TABLE_IDS, FAULT_TABLE_MAP, RUN_MORE, RUN_TABLE, event_t, fail, loop_t,
    post_header_len_of,
)
from decode.table_cache cimport (
    NO_TABLE, add_definition, content_t, definition_of_id, find_definition, find_shape, forget_table_ids,
    hash_content, says, set_table_id, table_cache_t,
)
from decode.transaction_events cimport begin
from wire.codes cimport DECODE_OK, TABLE_MAP_EVENT
from wire.cursor cimport Cursor, prefetch, remaining, skip, take_lenenc, take_u8
from wire.rows cimport table_id_len_of, take_table_map_post_header

cdef enum:
    MAX_TABLE_IDS = 1 << 20         # most that are kept; one transaction has room for at least half as many


cdef inline bint skip_name(Cursor* cur) noexcept nogil:
    # The length comes first, and still a NUL follows.
    cdef uint64_t length
    if not take_lenenc(cur, &length) or length >= remaining(cur):
        return False
    skip(cur, <size_t> length)
    return take_u8(cur) == 0


cdef inline void content_of(const table_cache_t* tables, const Cursor* body, uint32_t before,
                            content_t* out) noexcept nogil:
    # body: after the table id
    cdef Cursor cur = body[0]
    out.data = cur.pos
    out.length = <uint32_t> remaining(&cur)
    out.before = before
    out.head_len = out.length
    skip(&cur, before)
    if skip_name(&cur) and skip_name(&cur):
        out.head_len = <uint32_t> (cur.pos - out.data)
    hash_content(tables, out)


cdef inline bint has_room(const loop_t* loop) noexcept nogil:
    # Room for one more definition. Between transactions all definitions can be dropped, since no table id is needed
    # any more; inside a transaction they are needed, so that the limit is higher there.
    return (loop.tables.weight < loop.max_definitions
            or (loop.trx.table_maps > 1 and loop.tables.weight < loop.max_definitions_of_transaction))


cdef inline int map_table(loop_t* loop, event_t event) noexcept nogil:
    cdef Cursor body = event.body
    cdef uint32_t post_header_len = post_header_len_of(loop, TABLE_MAP_EVENT)
    cdef content_t content
    cdef uint64_t id
    cdef uint32_t shape
    cdef uint32_t found
    if not take_table_map_post_header(&body, post_header_len, &id):
        return fail(loop, event.position, FAULT_TABLE_MAP, NO_TABLE)
    if not loop.trx.open:
        begin(loop, event, True)        # the log, or reading, starts inside a transaction
        loop.trx.headless = loop.selection.asides_to_python
    loop.trx.table_maps += 1
    if loop.trx.table_maps == 1 and loop.tables.id_count >= MAX_TABLE_IDS // 2:
        forget_table_ids(&loop.tables)      # a new transaction announces its tables again
    found = definition_of_id(&loop.tables, id)
    if found != NO_TABLE and loop.tables.definitions[found].batch >= 0:
        prefetch(&loop.group.batches[loop.tables.definitions[found].batch])
    if found != NO_TABLE and says(&loop.tables, &loop.tables.definitions[found], body.pos,
                                  <uint32_t> remaining(&body)):
        loop.tables.ids[loop.tables.last_slot].transaction = loop.tables.transaction
        return RUN_MORE
    content_of(&loop.tables, &body, post_header_len - table_id_len_of(post_header_len), &content)
    shape = find_shape(&loop.tables, &content)
    found = NO_TABLE
    if shape != NO_TABLE:
        found = find_definition(&loop.tables, &content, shape)
        if found == NO_TABLE and loop.tables.shapes[shape].plan != NO_TABLE and has_room(loop):
            found = add_definition(&loop.tables, &content, shape, loop.tables.shapes[shape].plan,
                                   loop.plans[loop.tables.shapes[shape].plan].column_count)
            if found == NO_TABLE:
                return fail(loop, event.position, FAULT_NO_MEMORY, NO_TABLE)
    if found == NO_TABLE:
        loop.pending = content
        loop.pending_id = id
        return RUN_TABLE
    if loop.tables.id_count >= MAX_TABLE_IDS:
        return fail(loop, event.position, FAULT_TABLE_IDS, NO_TABLE)
    if set_table_id(&loop.tables, id, found) != DECODE_OK:
        return fail(loop, event.position, FAULT_NO_MEMORY, NO_TABLE)
    return RUN_MORE
