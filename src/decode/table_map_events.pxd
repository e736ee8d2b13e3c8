# TABLE_MAP events: which definition a table id means from here on.

from libc.stdint cimport uint32_t, uint64_t

from decode.loop cimport RUN_MORE, RUN_TABLE, fail, loop_t, post_header_len_of
from decode.table_cache cimport (
    NO_TABLE, add_definition, content_t, definition_of_id, find_definition, find_shape, forget_table_ids,
    hash_content, says, set_table_id, table_cache_t,
)
from decode.transaction_events cimport begin
from wire.codes cimport DECODE_MALFORMED, DECODE_NO_MEMORY, DECODE_OK, TABLE_MAP_EVENT
from wire.cursor cimport Cursor, load_u32, load_u48, prefetch, remaining, skip, take_lenenc, take_u8

cdef enum:
    MAX_TABLE_IDS = 1 << 20         # kept; one transaction has room for half as many at least


cdef inline bint skip_name(Cursor* cur) noexcept nogil:
    # The length comes first, and yet a NUL follows.
    cdef uint64_t length
    if not take_lenenc(cur, &length) or length >= remaining(cur):
        return False
    skip(cur, <size_t> length)
    return take_u8(cur) == 0


cdef inline void content_of(const table_cache_t* tables, const Cursor* body, uint32_t before,
                            content_t* out) noexcept nogil:
    # body: behind the table id
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
    # For one more definition. Between transactions all can be dropped, since no table id is needed any
    # more; inside one they are, so that it may have more.
    return (loop.tables.weight < loop.max_definitions
            or (loop.table_maps > 1 and loop.tables.weight < loop.max_definitions_of_transaction))


cdef inline int map_table(loop_t* loop, Cursor body) noexcept nogil:
    cdef uint32_t post_header_len = post_header_len_of(loop, TABLE_MAP_EVENT)
    cdef uint32_t id_len = 4 if post_header_len < 8 else 6
    cdef content_t content
    cdef uint64_t id
    cdef uint32_t shape
    cdef uint32_t found
    if remaining(&body) < post_header_len or post_header_len < id_len + 2:
        return fail(loop, DECODE_MALFORMED, NO_TABLE, b"table map event too short")
    if not loop.trx_open:
        begin(loop, True)               # the log, or our reading, starts inside a transaction
        loop.headless = loop.asides_to_python
    loop.table_maps += 1
    if loop.table_maps == 1 and loop.tables.id_count >= MAX_TABLE_IDS // 2:
        forget_table_ids(&loop.tables)      # a new transaction says anew which tables it means
    id = load_u32(body.pos) if id_len == 4 else load_u48(body.pos)
    skip(&body, id_len)
    found = definition_of_id(&loop.tables, id)
    if found != NO_TABLE and loop.tables.definitions[found].batch[loop.windows[loop.depth].copies] >= 0:
        prefetch(&loop.batches[loop.tables.definitions[found].batch[loop.windows[loop.depth].copies]])
    if found != NO_TABLE and says(&loop.tables, &loop.tables.definitions[found], body.pos,
                                  <uint32_t> remaining(&body)):
        return RUN_MORE
    content_of(&loop.tables, &body, post_header_len - id_len, &content)
    shape = find_shape(&loop.tables, &content)
    found = NO_TABLE
    if shape != NO_TABLE:
        found = find_definition(&loop.tables, &content, shape)
        if found == NO_TABLE and loop.tables.shapes[shape].plan != NO_TABLE and has_room(loop):
            found = add_definition(&loop.tables, &content, shape, loop.tables.shapes[shape].plan,
                                   loop.plans[loop.tables.shapes[shape].plan].column_count)
            if found == NO_TABLE:
                return fail(loop, DECODE_NO_MEMORY, NO_TABLE, b"no memory")
    if found == NO_TABLE:
        loop.pending = content
        loop.pending_id = id
        return RUN_TABLE
    if loop.tables.id_count >= MAX_TABLE_IDS:
        return fail(loop, DECODE_MALFORMED, NO_TABLE, b"more table ids than one transaction can have")
    if set_table_id(&loop.tables, id, found) != DECODE_OK:
        return fail(loop, DECODE_NO_MEMORY, NO_TABLE, b"no memory")
    return RUN_MORE
