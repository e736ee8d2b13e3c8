# Decodes the rows of an event into the columns of its batch or, where that is impossible, turns the whole batch into
# records.

from libc.stdint cimport UINT64_MAX, int64_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport realloc
from libc.string cimport memcpy

from arrow.copy_spans cimport BINLOG_STEP
from arrow.sink cimport free_sink, made_t
from arrow.spread cimport spread
from arrow.tile cimport LAYOUT_COMMIT_TIME, column_t
from batch.gathered cimport batch_t, begin_event
from batch.records cimport OP_UPDATE_PREIMAGE, copy_image, image_t, span_t, transaction_t
from batch.runs cimport run_t
from decode.columnar cimport rows_for_columns, take_images, take_tile
from decode.event_rows cimport strip_event
from decode.image_set cimport fill_image_set
from decode.loop cimport event_t, loop_t, window_t
from decode.plan cimport WIRE_SPAN, WIRE_SPAN1, columnar_t, image_set_t, plan_t, rows_t
from memory.memory cimport append, reserve
from wire.codes cimport DECODE_MALFORMED, DECODE_NO_MEMORY, DECODE_OK, PARTIAL_UPDATE_ROWS_EVENT, WRITE_ROWS_EVENT
from wire.cursor cimport Cursor
from wire.rows cimport is_rows_v0


cdef inline int strip_run(loop_t* loop, plan_t* plan, batch_t* batch, const run_t* run,
                          const uint8_t* buffer) noexcept nogil:
    # Decodes the rows of a run into records. Its memory was counted when it was read first
    cdef const uint8_t* bitmaps = buffer + run.offset
    cdef image_set_t* images = &plan.images[0]
    cdef image_set_t* after = images + 1 if run.image.op == OP_UPDATE_PREIMAGE else NULL
    cdef rows_t rows
    if fill_image_set(plan, bitmaps, images) != DECODE_OK:
        return DECODE_NO_MEMORY
    rows.pos = bitmaps + plan.bitmap_len
    if after != NULL:
        if fill_image_set(plan, rows.pos, after) != DECODE_OK:
            return DECODE_NO_MEMORY
        rows.pos += plan.bitmap_len
    rows.end = bitmaps + run.length
    rows.buffer = buffer
    rows.batch = batch
    rows.failed_column = plan.column_count
    rows.ends = NULL
    rows.incomplete = NULL
    rows.ahead = 0
    begin_event(batch, UINT64_MAX)
    return strip_event(loop, plan, images, after, &run.image, WRITE_ROWS_EVENT, &rows)


cdef inline int into_records(loop_t* loop, plan_t* plan, batch_t* batch, const run_t* runs, size_t count,
                             const uint8_t* buffer) noexcept nogil:
    # Decodes all runs so far. Each was read once already, so only lack of memory can make it fail.
    cdef int status = DECODE_OK
    cdef uint32_t row = loop.row_in_event
    cdef size_t i
    batch.count = 0
    batch.invalid_dates.length = 0
    for i in range(count):
        status = strip_run(loop, plan, batch, &runs[i], buffer)
        if status != DECODE_OK:
            break
    loop.row_in_event = row
    return status


cdef inline int leave_columns(loop_t* loop, batch_t* batch) noexcept nogil:
    # Turns the batch's columns into records; it continues in records
    cdef plan_t* plan = loop.plans[loop.tables.definitions[batch.definition].plan]
    cdef int status
    free_sink(batch.sink)
    batch.sink = NULL
    status = into_records(loop, plan, batch, <const run_t*> batch.runs.data, batch.runs.length // sizeof(run_t),
                          loop.windows[loop.home].data)
    batch.runs.length = 0
    return status


cdef inline int leave_buffer(loop_t* loop, batch_t* batch) noexcept nogil:
    # The batch continues with values that do not last, such as those of a compressed event: all values go to its heap
    cdef const plan_t* plan = loop.plans[loop.tables.definitions[batch.definition].plan]
    cdef uint8_t* record
    cdef uint32_t k, _i
    cdef int status = DECODE_OK
    if batch.sink != NULL and leave_columns(loop, batch) != DECODE_OK:
        return DECODE_NO_MEMORY
    record = batch.records.data
    for _i in range(batch.count):
        if plan.raw:
            status = move_to_heap(loop, batch, record + plan.image_len)
        else:
            for k in range(plan.column_count):
                if WIRE_SPAN1 <= plan.ops[k].code <= WIRE_SPAN and status == DECODE_OK:
                    status = move_to_heap(loop, batch, record + plan.ops[k].out)
        if status != DECODE_OK:
            return status
        record += plan.record_len
    batch.copies = True
    return DECODE_OK


cdef inline int move_to_heap(const loop_t* loop, batch_t* batch, uint8_t* field) noexcept nogil:
    cdef span_t span
    cdef const uint8_t* value
    memcpy(&span, field, sizeof(span))
    value = loop.windows[loop.home].data + span.offset
    span.offset = batch.heap.length if span.length else 0
    memcpy(field, &span, sizeof(span))
    return append(&batch.heap, value, span.length)


cdef inline int finish_columns(loop_t* loop, batch_t* batch) noexcept nogil:
    # Takes the values that are only located so far. Then the buffer may be released.
    cdef const window_t* window = &loop.windows[loop.home]
    cdef plan_t* plan = loop.plans[loop.tables.definitions[batch.definition].plan]
    cdef rows_t rows = rows_for_columns(batch, window.data, <uint64_t> (window.cur.end - window.data))
    if take_tile(plan.columnar, batch.sink, &rows):
        return DECODE_OK
    return leave_columns(loop, batch)


cdef inline int add_changes(loop_t* loop, batch_t* batch) noexcept nogil:
    # Adds the columns about the changes. Done in this thread, since memory that another thread wrote is slow to write.
    cdef const columnar_t* plan = loop.plans[loop.tables.definitions[batch.definition].plan].columnar
    cdef made_t* made = &batch.sink.made
    cdef column_t* items = <column_t*> realloc(
        made.items, <size_t> (plan.count + plan.changes + 1) * sizeof(column_t))
    cdef column_t* c
    cdef int k
    if items == NULL:
        return leave_columns(loop, batch)
    made.items = items
    for k in range(plan.count, plan.count + plan.changes):
        c = &items[k]
        c[0] = plan.layout[k]
        if c.layout == LAYOUT_COMMIT_TIME:
            c.transactions = loop.group.transactions.data
            c.code_count = <uint32_t> (loop.group.transactions.length // sizeof(transaction_t))
        if not spread(c, <const run_t*> batch.runs.data, batch.runs.length // sizeof(run_t), made.rows, made.arena):
            return leave_columns(loop, batch)
    made.count = plan.count + plan.changes
    return DECODE_OK


cdef inline int take_event_rows(loop_t* loop, plan_t* plan, batch_t* batch, image_set_t* images, image_set_t* after,
                                const image_t* image, event_t event, const Cursor* body) noexcept nogil:
    # DECODE_MALFORMED: nothing was taken, and the batch holds records from now on
    cdef const window_t* window = &loop.windows[loop.home]
    cdef rows_t rows
    cdef run_t* run
    cdef int64_t count = -1
    cdef const uint8_t* bitmaps = body.pos - plan.bitmap_len * (1 if after == NULL else 2)
    if (images.whole and (after == NULL or after.whole) and not is_rows_v0(event.kind)
            and event.kind != PARTIAL_UPDATE_ROWS_EVENT
            and <size_t> (window.cur.end - body.end) + window.room >= BINLOG_STEP):
        if batch.count == 0:
            batch.sink.made.begin = <uint64_t> (body.pos - window.data)
        rows = rows_for_columns(batch, window.data, <uint64_t> (window.cur.end - window.data))
        count = take_images(plan.columnar, images, batch.sink, body.pos, body.end, plan.record_len, &rows)
    if count >= 0 and not (after != NULL and count & 1):
        if count == 0:
            return DECODE_OK
        if reserve(&batch.runs, sizeof(run_t)) == DECODE_OK:
            run = <run_t*> (batch.runs.data + batch.runs.length)
            copy_image(&run.image, image)
            run.first = batch.count
            run.offset = <uint64_t> (bitmaps - window.data)
            run.length = <uint32_t> (body.end - bitmaps)
            batch.runs.length += sizeof(run_t)
            batch.count += <uint32_t> count
            loop.row_in_event += <uint32_t> (count if after == NULL else count // 2)
            return DECODE_OK
    if leave_columns(loop, batch) != DECODE_OK or fill_image_set(plan, bitmaps, images) != DECODE_OK or (
            after != NULL and fill_image_set(plan, bitmaps + plan.bitmap_len, after) != DECODE_OK):
        return DECODE_NO_MEMORY
    return DECODE_MALFORMED
