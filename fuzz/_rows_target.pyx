"""The fuzz target over the hot loop, run at the speed of C; _loops.pyx has those over the smaller loops.

The whole loop is included, so that its cdef methods can be called. An input becomes events and
plans, is walked, and the results are checked. The target returns 0, or aborts if a promise of the
core is broken; the sanitizers check memory and arithmetic.

An input of `rows` is a small language, so that no byte is wasted on lengths that must agree:

    options u8, rows of a group u8, then events: type u8, table id u8, length u16, body

The body of a table map is its flags and a list of (operation, first, second) bytes for each column; the body of a rows
event begins after its table id. With the first bit of options, the rest is taken as the bytes of a log. One flag of a
table map decodes its rows straight into columns (_rows_columns.pxi); another gives a condition for them
(_rows_conditions.pxi).
"""

include "decode/_rows.pyx"
include "_rows_columns.pxi"
include "_rows_conditions.pxi"

from libc.stdint cimport uintptr_t
from libc.stdlib cimport abort, realloc

from batch.records cimport image_t, invalid_date_t, json_diff_t
from decode.plan cimport ROOM, WIRE_COPY1, WIRE_COPY8, WIRE_SPAN1, WIRE_SPAN2
from decode.walk cimport walk as walk_loop
from memory.memory cimport append
from wire.codes cimport (
    DELETE_ROWS_EVENT, DELETE_ROWS_EVENT_V1, PARTIAL_UPDATE_ROWS_EVENT, TABLE_MAP_EVENT, WRITE_ROWS_EVENT,
)
from wire.cursor cimport take_slice

cdef enum:
    MAX_COLUMNS = 200
    HEADER = 19

cdef enum option_t:
    OPTION_RAW = 1              # the rest is a log as it is
    OPTION_COPIES = 2           # values are copied to the heap
    OPTION_IN_TWO = 4           # fed as two windows, as a stream is
    OPTION_ROWS_V0 = 8
    OPTION_SHORT_IDS = 16       # post-headers of the first 5.1 versions
    OPTION_DROP = 32            # plans are dropped between groups
    OPTION_NESTED = 64          # as events inside a payload
    OPTION_VERIFY = 128

cdef enum map_flag_t:
    MAP_UNWANTED = 1
    MAP_RAW = 2
    MAP_SHARED = 4
    MAP_COLUMNS = 8
    MAP_CONDITION = 16          # where MAP_COLUMNS is: instead of them
    MAP_NULLABLE = 4            # this bit and those above it

cdef uint8_t[3][6] MARIA_LENGTHS
MARIA_LENGTHS[0] = [5, 5, 6, 6, 7, 7]       # TIMESTAMP
MARIA_LENGTHS[1] = [4, 4, 5, 5, 5, 6]       # TIME
MARIA_LENGTHS[2] = [6, 6, 7, 7, 7, 8]       # DATETIME
cdef uint8_t[10] DIGITS_LEN
DIGITS_LEN = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4]
cdef uint8_t[9] WHOLE                       # bytes of an integer that holds so many
WHOLE = [0, 1, 2, 4, 4, 8, 8, 8, 8]
cdef uint8_t[256] POST_HEADERS
cdef uint8_t[256] SHORT_POST_HEADERS
for _i in range(256):
    POST_HEADERS[_i] = SHORT_POST_HEADERS[_i] = 0
for _i, _n in {1: 56, 2: 13, 15: 98, 19: 8, 20: 8, 21: 8, 22: 8, 23: 8, 24: 8, 25: 8, 30: 10, 31: 10, 32: 10,
               33: 42, 34: 42, 39: 10, 40: 40}.items():
    POST_HEADERS[_i] = _n
    SHORT_POST_HEADERS[_i] = 6 if 19 <= _i <= 25 else _n


cdef void op_of(const uint8_t* p, uint32_t column, uint32_t* at, wire_op_t* op, bint* json) noexcept nogil:
    # Twin of plans.wire_op: what every plan fulfils, whatever the table map.
    cdef uint32_t code = p[0] & 0x1F
    cdef uint32_t digits, scale, groups
    memset(op, 0, sizeof(wire_op_t))
    op.column = <uint16_t> column
    op.code = <uint8_t> code
    json[0] = False
    if WIRE_COPY1 <= code <= WIRE_COPY8:
        op.width = op.out_width = <uint16_t> (1 << (code - WIRE_COPY1))
    elif code == WIRE_INT24 or code == WIRE_UINT24:
        op.width = 3
        op.out_width = 4
    elif code == WIRE_WIDEN:
        op.width = 1 + p[1] % 4
        op.out_width = 2 if op.width == 1 and p[2] & 1 else 8
    elif code == WIRE_BIT:
        op.width = 1 + p[1] % 8
        op.out_width = WHOLE[op.width]
    elif code == WIRE_YEAR:
        op.width = 1
        op.out_width = 2
    elif code == WIRE_DATE or code == WIRE_TIME:
        op.width = 3
        op.out_width = 8
    elif code == WIRE_DATETIME:
        op.width = op.out_width = 8
    elif code == WIRE_TIMESTAMP:
        op.width = 4
        op.out_width = 8
    elif WIRE_TIME2 <= code <= WIRE_TIMESTAMP2:
        op.a = p[1] % 4
        op.width = (3 if code == WIRE_TIME2 else 5 if code == WIRE_DATETIME2 else 4) + op.a
        op.out_width = 8
    elif WIRE_MARIA_TIME <= code <= WIRE_MARIA_TIMESTAMP:
        op.a = 1 + p[1] % 6
        op.width = MARIA_LENGTHS[1 if code == WIRE_MARIA_TIME else 2 if code == WIRE_MARIA_DATETIME else 0][op.a - 1]
        op.out_width = 8
    elif WIRE_DECIMAL64 <= code <= WIRE_DECIMAL256:
        digits = 1 + p[1] % 65
        scale = p[2] % ((digits if digits < 38 else 38) + 1)
        op.a = <uint8_t> ((digits - scale) % 9)
        op.c = <uint8_t> (scale % 9)
        groups = (digits - scale) // 9 + scale // 9
        op.b = <uint8_t> groups
        op.width = DIGITS_LEN[op.a] + 4 * groups + DIGITS_LEN[op.c]
        op.code = WIRE_DECIMAL64 if digits <= 18 else WIRE_DECIMAL128 if digits <= 38 else WIRE_DECIMAL256
        op.out_width = 8 if digits <= 18 else 16 if digits <= 38 else 32
    elif code >= WIRE_SPAN1:
        op.width = 1 + p[1] % 4
        op.code = WIRE_SPAN1 if op.width == 1 else WIRE_SPAN2 if op.width == 2 else WIRE_SPAN
        op.out_width = sizeof(span_t)
        json[0] = op.width == 4 and p[2] & 1
    else:
        op.code = WIRE_NOTHING
    if p[0] & 0x80:                                         # a column nobody asked for
        op.code = WIRE_SKIP_VALUE if op.code >= WIRE_SPAN1 else WIRE_SKIP if op.width else WIRE_NOTHING
        op.out_width = 0
        op.a = op.b = op.c = 0
    op.out = at[0] if op.out_width else 0
    at[0] += op.out_width


cdef int add_plan_of(Decoder decoder) except -1:
    # From the table map that run came back for, to a plan.
    cdef Cursor body = cursor_over(decoder.loop.pending.data, decoder.loop.pending.length)
    cdef Cursor condition
    cdef uint32_t count, i, at, image_len, plan
    cdef bint json = False
    cdef wire_op_t[MAX_COLUMNS] ops
    cdef list json_columns = []
    cdef uint16_t flags = load_u16(body.pos)
    cdef bint drive = flags & MAP_COLUMNS and not flags & MAP_RAW
    skip(&body, 2)
    condition.pos = condition.end = body.pos
    if drive and flags & MAP_CONDITION and remaining(&body):
        i = body.pos[0]
        skip(&body, 1)
        take_slice(&body, min(i, <uint32_t> remaining(&body)), &condition)
    count = <uint32_t> remaining(&body) // 3
    if count > MAX_COLUMNS:
        count = MAX_COLUMNS
    image_len = sizeof(image_t) + 2 * ((count + 7) // 8)
    if flags & MAP_UNWANTED or not count:
        plan = decoder.add_plan(EMPTY, image_len=0, record_len=0, wanted=False)
        decoder.add_definition(plan, None, shared=bool(flags & MAP_SHARED))
        return 0
    at = image_len
    for i in range(count):
        op_of(body.pos + 3 * i, i, &at, &ops[i], &json)
        if json:
            json_columns.append(i)
    if flags & MAP_RAW:
        at = image_len + sizeof(span_t)
    plan = new_plan(decoder, ops, count, image_len, at, json_columns, flags)
    if drive and flags & MAP_CONDITION:
        decode_with_condition(decoder, plan, ops, condition, json_columns, flags)
    elif drive:
        decode_into_columns(decoder.loop.plans[plan], body.pos + 2)
    decoder.add_definition(plan, definition_with(at), shared=bool(flags & MAP_SHARED))
    return 0


cdef uint32_t new_plan(Decoder decoder, const wire_op_t* ops, uint32_t count, uint32_t image_len, uint32_t record_len,
                       list json_columns, uint16_t flags) except? 0:
    cdef plan_t* plan
    cdef uint32_t i
    # The decoder manages memory and ids; the plan's own fields are set in between.
    cdef uint32_t index = decoder.add_plan(EMPTY, image_len=image_len, record_len=record_len,
                                           raw=bool(flags & MAP_RAW), wanted=False)
    plan = decoder.loop.plans[index]
    free(plan.ops)
    free(plan.nullable)
    free(plan.json_columns)
    plan.wanted = True
    plan.column_count = count
    plan.bitmap_len = (count + 7) // 8
    plan.ops = <wire_op_t*> malloc(count * sizeof(wire_op_t))
    plan.nullable = <uint8_t*> malloc(count + 1)
    plan.json_count = <uint32_t> len(json_columns)
    plan.json_columns = <uint16_t*> malloc((plan.json_count + 1) * sizeof(uint16_t))
    memcpy(plan.ops, ops, count * sizeof(wire_op_t))
    for i in range(count):
        plan.nullable[i] = flags >> (i % 12 + MAP_NULLABLE) & 1
    for i in range(plan.json_count):
        plan.json_columns[i] = json_columns[i]
    while <uint32_t> len(decoder.layouts) <= index:
        decoder.layouts.append(None)
    return index


class NoColumns:
    columns = ()

    def __init__(self, record_len):
        self.dtype = np.dtype((np.void, record_len))


EMPTY = b""
cdef dict DEFINITIONS = {}                                  # by the length of their records


cdef Definition definition_with(uint32_t record_len):
    if record_len not in DEFINITIONS:
        DEFINITIONS[record_len] = Definition(NoColumns(record_len), None, EMPTY)
    return DEFINITIONS[record_len]


cdef extern from *:
    """
    #include <stdio.h>
    #include <stdlib.h>
    /* A macro: the compiler joins the aborts of a function, so that the stack does not say which check failed. */
    #define check(holds) ((holds) ? (void) 0 : (fprintf(stderr, "check of line %d\\n", __LINE__), abort()))
    """
    void check(bint holds) noexcept nogil


cdef void check_batches(Decoder decoder) noexcept nogil:
    # Checks what every reader of a group relies on.
    cdef batch_t* batch
    cdef uint32_t i, plan
    cdef uint64_t total = 0
    for i in range(decoder.loop.group.batch_count):
        batch = &decoder.loop.group.batches[i]
        plan = decoder.loop.tables.definitions[batch.definition].plan
        total += batch.count
        if batch.sink != NULL:
            check_columns(decoder, batch)
            continue
        check_records(decoder, batch)
        if judge_of(plan) != NULL:
            judge_records(decoder, batch, decoder.loop.plans[plan], judge_of(plan))
    check(total == decoder.loop.group.records)


cdef void check_records(Decoder decoder, batch_t* batch) noexcept nogil:
    cdef plan_t* plan = decoder.loop.plans[decoder.loop.tables.definitions[batch.definition].plan]
    cdef uint8_t* record
    cdef image_t image
    cdef span_t span
    cdef invalid_date_t invalid
    cdef json_diff_t diff
    cdef uint64_t limit = batch.heap.length if batch.copies else <uint64_t> decoder.loop.windows[0].view.len
    cdef uint64_t before = 0
    cdef uint32_t j, k, n
    cdef size_t transactions = decoder.loop.group.transactions.length // sizeof(transaction_t)
    check(batch.records.length == <size_t> batch.count * plan.record_len)
    check(batch.records.length + ROOM <= batch.records.capacity or not batch.count or plan.raw)
    for j in range(batch.count):
        record = batch.records.data + <size_t> j * plan.record_len
        memcpy(&image, record, sizeof(image))
        check(1 <= image.op <= 4 and image.transaction < transactions)
        for k in range(plan.column_count):
            if plan.raw or plan.ops[k].code < WIRE_SPAN1:
                continue
            memcpy(&span, record + plan.ops[k].out, sizeof(span))
            check(span.length <= limit and span.offset <= limit - span.length)
    n = <uint32_t> (batch.invalid_dates.length // sizeof(invalid_date_t))
    for j in range(n):
        memcpy(&invalid, batch.invalid_dates.data + j * sizeof(invalid), sizeof(invalid))
        check(invalid.record < batch.count and invalid.column < plan.column_count)
        check(not j or before < (<uint64_t> invalid.record << 16 | invalid.column))
        before = <uint64_t> invalid.record << 16 | invalid.column
    n = <uint32_t> (batch.json_diffs.length // sizeof(json_diff_t))
    for j in range(n):
        memcpy(&diff, batch.json_diffs.data + j * sizeof(diff), sizeof(diff))
        check(0 < diff.record < batch.count and diff.column < plan.column_count)


cdef int open_over(Decoder decoder, int depth, const uint8_t* data, size_t length, uint64_t base,
                   bint copies) noexcept nogil:
    cdef window_t* window = &decoder.loop.windows[depth]
    window.data = data
    window.view.len = <Py_ssize_t> length
    window.base = base
    window.copies = copies
    window.cur = cursor_over(data, length)
    decoder.loop.depth = depth
    return 0


cdef memory_t events_of_input(Cursor cur, bint short_ids) noexcept nogil:
    # The bytes of a log from the small language.
    cdef memory_t out
    cdef uint8_t[HEADER] header
    cdef uint8_t[8] table
    cdef uint8_t kind
    cdef uint32_t length, id_len, total
    cdef Cursor body
    memset(&out, 0, sizeof(out))
    while remaining(&cur) >= 4:
        kind = cur.pos[0]
        memset(table, 0, 8)
        table[0] = cur.pos[1]
        if table[0] == 255:
            memset(table, 255, 3)                           # the dummy id
        length = load_u16(cur.pos + 2)
        skip(&cur, 4)
        if length > remaining(&cur):
            length = <uint32_t> remaining(&cur)
        if not take_slice(&cur, length, &body):
            break
        id_len = 0
        if TABLE_MAP_EVENT <= kind <= DELETE_ROWS_EVENT_V1:
            id_len = 4 if short_ids else 6
        elif WRITE_ROWS_EVENT <= kind <= DELETE_ROWS_EVENT or kind == PARTIAL_UPDATE_ROWS_EVENT:
            id_len = 6
        total = HEADER + id_len + length
        memset(header, 0, HEADER)
        memcpy(header, &length, 4)
        header[4] = kind
        header[5] = 1
        memcpy(header + 9, &total, 4)
        if (append(&out, header, HEADER) != DECODE_OK or append(&out, table, id_len) != DECODE_OK
                or append(&out, body.pos, length) != DECODE_OK):
            break
    return out


cdef int walk_to_end(Decoder decoder, int options) except -1:
    # False: an event whose length cannot be
    global failed
    cdef int status
    while True:
        status = walk_loop(&decoder.loop)
        if status == RUN_MORE:
            return 1
        elif status == RUN_TABLE:
            add_plan_of(decoder)
        elif status == RUN_GROUP:
            take_checked(decoder, options)
        elif status == RUN_EVENT:
            if decoder.loop.event.kind == QUERY_EVENT:
                decoder.query()
                decoder.end_statement()
        elif status == RUN_ERROR:
            failed = True
            if decoder.loop.event.start == decoder.loop.windows[decoder.loop.depth].cur.pos:
                return 0
        elif status == RUN_STOP:
            return 0


cdef int take_checked(Decoder decoder, int options) except -1:
    cdef uint32_t i
    cdef transaction_t trx
    cdef definition_t* definition
    decoder.finish_columns(True)
    check_batches(decoder)
    if decoder.loop.group.max_records & 1:
        decoder.take_group(Records, "")
    else:
        # The same without the arrays, which take longer than all the rest.
        for i in range(decoder.loop.group.batch_count):
            definition = &decoder.loop.tables.definitions[decoder.loop.group.batches[i].definition]
            definition.batch = -1
            definition.last_count = decoder.loop.group.batches[i].count
            release_batch(&decoder.loop.group.batches[i])
        release_chunks(&decoder.loop)
        decoder.loop.group.batch_count = 0
        decoder.loop.group.records = decoder.loop.group.wire = decoder.loop.group.memory = 0
        trx = decoder.loop.trx.record[0]
        release(&decoder.loop.group.transactions)
        decoder.loop.trx.index = -1
        if new_transactions(&decoder.loop) != DECODE_OK:
            raise MemoryError
        decoder.loop.trx.record[0] = trx
        if decoder.loop.trx.open and decoder.loop.trx.has_rows:
            note_transaction(&decoder.loop)
    if options & OPTION_DROP and not decoder.loop.depth:
        decoder.drop_plans()
        release_judges()                                # they are kept by the number of their plan
    return 0


cdef Decoder reused = None


cdef Decoder fresh(int options, uint32_t group_rows):
    # One decoder, emptied each time, serves all inputs: making one takes longer than most inputs.
    global reused
    cdef uint32_t i
    if reused is None:
        reused = Decoder()
        reused.loop.descriptor.header_len = reused.loop.plain.header_len = HEADER
        memcpy(reused.loop.descriptor.canonical, reused.loop.plain.canonical, 256)
        set_handling(&reused.loop.descriptor)
        reused.loop.group.max_wire = 4096
        reused.loop.worth_columns = 0
    cdef Decoder decoder = reused
    for i in range(decoder.loop.group.batch_count):
        release_batch(&decoder.loop.group.batches[i])
    decoder.loop.group.batch_count = 0
    release_chunks(&decoder.loop)
    free_cache(&decoder.loop.tables)
    decoder.shapes.clear()
    decoder.definitions.clear()
    for i in range(decoder.loop.plan_count):
        free_plan(decoder.loop.plans[i])
    decoder.loop.plan_count = 0
    decoder.layouts.clear()
    release_layouts()
    release_judges()
    release(&decoder.loop.group.transactions)
    release(&decoder.loop.tail)
    if new_transactions(&decoder.loop) != DECODE_OK:
        raise MemoryError
    memset(&decoder.loop.failure, 0, sizeof(error_t))
    decoder.loop.depth = 0
    decoder.loop.group.records = decoder.loop.group.wire = decoder.loop.group.memory = 0
    decoder.loop.trx.boundary = decoder.loop.trx.table_maps = 0
    decoder.loop.trx.open = decoder.loop.trx.explicit = decoder.loop.trx.has_rows = decoder.loop.trx.skipped = False
    decoder.loop.trx.index = -1
    decoder.loop.pending.data = NULL
    decoder.loop.group.transactions_before = 0
    decoder.loop.group.max_records = group_rows
    decoder.loop.selection.verify = bool(options & OPTION_VERIFY)
    decoder.loop.descriptor.checksum_len = 4 if options & OPTION_VERIFY else 0
    if options & OPTION_SHORT_IDS:
        memcpy(decoder.loop.descriptor.post_header_len, SHORT_POST_HEADERS, 256)
    else:
        memcpy(decoder.loop.descriptor.post_header_len, POST_HEADERS, 256)
    memcpy(decoder.loop.plain.post_header_len, decoder.loop.descriptor.post_header_len, 256)
    decoder.loop.selection.rows_v0 = bool(options & OPTION_ROWS_V0)
    return decoder


cdef int rows(const uint8_t* data, size_t size) except -1:
    global keep_all, met, failed
    cdef uint64_t kept
    keep_all = failed = False
    met = 0
    walk_input(data, size)
    # Without conditions groups end elsewhere, and with them what OPTION_DROP drops.
    if judges.length and not failed and not data[0] & OPTION_DROP:
        kept = met
        met = 0
        keep_all = True
        walk_input(data, size)
        check(failed or met == kept)
    return 0


cdef int walk_input(const uint8_t* data, size_t size) except -1:
    cdef Cursor cur = cursor_over(data, size)
    cdef memory_t log
    cdef memory_t part
    cdef int options
    cdef int depth
    cdef size_t first, left
    cdef Decoder decoder
    if size < 6:
        return 0
    options = cur.pos[0]
    decoder = fresh(options, 1 + cur.pos[1])
    skip(&cur, 2)
    memset(&log, 0, sizeof(log))
    memset(&part, 0, sizeof(part))
    if options & OPTION_RAW:
        append(&log, cur.pos, remaining(&cur))
    else:
        log = events_of_input(cur, bool(options & OPTION_SHORT_IDS))
    depth = 1 if options & OPTION_NESTED else 0
    try:
        # A block of exactly that size, so that a read past its end is detected.
        if log.length:
            log.data = <uint8_t*> realloc(log.data, log.length)
        if options & OPTION_IN_TWO:
            first = log.length // 2
            part.data = <uint8_t*> malloc(first if first else 1)
            memcpy(part.data, log.data, first)
            open_over(decoder, depth, part.data, first, 4, True)
            if not walk_to_end(decoder, options):
                return 0
            left = remaining(&decoder.loop.windows[depth].cur)
            first -= left
            free(part.data)
            part.data = <uint8_t*> malloc(log.length - first if log.length > first else 1)
            memcpy(part.data, log.data + first, log.length - first)
            open_over(decoder, depth, part.data, log.length - first, 4 + first, True)
        else:
            open_over(decoder, depth, log.data, log.length, 4, depth or bool(options & OPTION_COPIES))
        walk_to_end(decoder, options)
        take_checked(decoder, 0)
    finally:
        decoder.loop.depth = 0
        memset(&decoder.loop.windows[0].cur, 0, sizeof(Cursor))
        memset(&decoder.loop.windows[1].cur, 0, sizeof(Cursor))
        release(&log)
        free(part.data)
    return 0


cdef int run_rows(const uint8_t* data, size_t size) noexcept with gil:
    try:
        rows(data, size)
    except BaseException:
        import traceback
        traceback.print_exc()
        abort()
    return 0


TARGETS = {"rows": <uintptr_t> &run_rows}
