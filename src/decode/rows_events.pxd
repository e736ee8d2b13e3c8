# Rows events into records.

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memchr, memcpy, memset

from batch.gathered cimport batch_t, begin_event
from batch.records cimport OP_DELETE, OP_INSERT, OP_UPDATE_PREIMAGE, image_t, span_t, transaction_t
from decode.columns_or_records cimport leave_buffer, leave_columns, take_event_rows
from decode.condition cimport run_condition
from decode.condition_words cimport TILE, looked_at_t
from decode.event_rows cimport forget_side_entries, strip_event
from decode.group cimport batch_for, group_is_full, note_transaction
from decode.image_set cimport fill_image_set, has_columns, refill_image_set
from decode.loop cimport (
    FAULT_BITMAPS, FAULT_COLUMN_COUNT, FAULT_EXTRA_INFO, FAULT_NO_COLUMN_COUNT, FAULT_NO_MEMORY, FAULT_RECORDS,
    FAULT_ROW, FAULT_ROWS, FAULT_VALUE, RUN_ERROR, RUN_EVENT, RUN_GROUP, RUN_MORE, descriptor_of, event_t,
    fail, fragments_t, loop_t, post_header_len_of, window_t,
)
from decode.plan cimport ROOM, image_set_t, plan_t, rows_t
from decode.row_image cimport put_image
from decode.table_cache cimport NO_TABLE, definition_t, mapped_definition
from decode.transaction_events cimport begin
from memory.memory cimport append, release, reserve
from wire.codes cimport DECODE_MALFORMED, DECODE_NO_MEMORY, DECODE_OK, DECODE_TOO_LARGE, ROWS_INSERT, ROWS_UPDATE
from wire.cursor cimport Cursor, remaining, skip, take_lenenc, unlikely
from wire.header cimport server_id_of, timestamp_of
from wire.rows cimport DUMMY_TABLE_ID, is_rows_v0, skip_extra_info, take_rows_post_header


cdef enum:
    SCANNED_KEPT = 4 << 20          # bytes of memory for the columns of conditions


cdef inline bint is_selected(const loop_t* loop, const uint8_t* event, uint32_t op) noexcept nogil:
    return (loop.selection.op_mask & op and timestamp_of(event) >= loop.selection.start_timestamp
            and (loop.selection.server_id < 0 or server_id_of(event) == <uint64_t> loop.selection.server_id))


cdef inline int decode_rows_event(loop_t* loop, event_t event, uint32_t op) noexcept nogil:
    # op: a rows_op_t. Reads up to the first columns-present bitmap.
    cdef uint32_t post_header_len = post_header_len_of(loop, event.kind)
    cdef uint32_t definition
    cdef uint32_t bitmaps = 2 if op == ROWS_UPDATE and not is_rows_v0(event.kind) else 1
    cdef plan_t* plan
    cdef uint64_t id
    cdef uint32_t extra_info_len
    cdef uint64_t width
    cdef Cursor body = event.body
    if not take_rows_post_header(&body, post_header_len, &id, &extra_info_len):
        return fail(loop, event.position, FAULT_ROWS, NO_TABLE)
    definition = mapped_definition(&loop.tables, id)
    if definition == NO_TABLE:
        if id == DUMMY_TABLE_ID:
            return RUN_MORE
        loop.without_map = True
        return RUN_EVENT
    plan = loop.plans[loop.tables.definitions[definition].plan]
    if (not plan.wanted or loop.trx.skipped
            or (loop.selection.leaves_out and not is_selected(loop, event.start, op))):
        return RUN_MORE
    if not skip_extra_info(&body, extra_info_len):
        return fail(loop, event.position, FAULT_EXTRA_INFO, definition)
    if not take_lenenc(&body, &width):
        return fail(loop, event.position, FAULT_NO_COLUMN_COUNT, definition)
    if width != plan.column_count:
        return fail(loop, event.position, FAULT_COLUMN_COUNT, definition)
    if remaining(&body) < <size_t> plan.bitmap_len * bitmaps:
        return fail(loop, event.position, FAULT_BITMAPS, definition)
    loop.group.wire += <uint64_t> (body.end - event.start)
    event.body = body
    return decode_rows(loop, event, definition, plan, op)


cdef inline window_t* window_of_rows(loop_t* loop, uint32_t definition) noexcept nogil:
    # The window with the rows of the current event, which are to go into a batch of the definition
    cdef definition_t* its = &loop.tables.definitions[definition]
    if not unlikely(loop.fragments.count != 0):
        return &loop.windows[loop.depth]
    # Rows that were put together are a batch of their own: their values are not in the buffer of the others
    if its.batch >= 0 and loop.group.batches[its.batch].copies != loop.fragments.window.copies:
        its.batch = -1
    return &loop.fragments.window


cdef inline int end_part(loop_t* loop, batch_t* batch, int status, const rows_t* rows, uint32_t count,
                         uint64_t entries) noexcept nogil:
    # After a part of an event in fragments: its status. count: of the batch before it; entries: bytes of side entries
    cdef fragments_t* part = &loop.fragments
    cdef uint64_t record_len = loop.plans[loop.tables.definitions[batch.definition].plan].record_len
    cdef uint64_t used = (batch.count - count) * record_len + entries
    part.cut = 0
    if part.open and status == DECODE_MALFORMED and rows.incomplete != NULL:
        forget_side_entries(batch)
        part.cut = <size_t> (rows.end - rows.incomplete)
        status = DECODE_OK
    if status == DECODE_OK and used > part.memory and part.left > part.length - part.cut:
        status = DECODE_TOO_LARGE       # as before the next row of a whole event, which is in another part here
    part.memory -= min(part.memory, used)
    part.done = status == DECODE_OK
    loop.group.wire += part.length - part.cut
    return status


cdef inline int decode_rows(loop_t* loop, event_t event, uint32_t definition, plan_t* plan,
                            uint32_t op) noexcept nogil:
    # event.body: from the first columns-present bitmap to the end of the event
    cdef bint update = op == ROWS_UPDATE
    cdef bint v0 = is_rows_v0(event.kind)
    cdef bint in_fragments = loop.fragments.count != 0
    cdef window_t* window = window_of_rows(loop, definition)
    cdef batch_t* batch = batch_for(loop, definition, window.copies)
    cdef image_set_t* images = &plan.images[0]
    cdef image_set_t* after = images if v0 else images + 1      # in v0 one bitmap describes both images
    cdef Cursor body = event.body
    cdef image_t image
    cdef rows_t rows
    cdef uint32_t count
    cdef uint32_t read
    cdef uint64_t limit
    cdef int status
    cdef int fault = FAULT_VALUE
    if batch != NULL and unlikely(window.copies and not batch.copies) and leave_buffer(loop, batch) != DECODE_OK:
        batch = NULL
    # Columns were asked for after the event began: those of a part would not lie in the window
    if batch != NULL and unlikely(in_fragments) and batch.sink != NULL and leave_columns(loop, batch) != DECODE_OK:
        batch = NULL
    # As fill_image_set, but without a call: that takes 0.8 % of the instructions of short transactions
    if batch == NULL or (unlikely(not has_columns(images, plan, body.pos))
                         and refill_image_set(plan, body.pos, images) != DECODE_OK):
        return fail(loop, event.position, FAULT_NO_MEMORY, definition)
    skip(&body, plan.bitmap_len)
    if update and not v0:
        if (unlikely(not has_columns(after, plan, body.pos))
                and refill_image_set(plan, body.pos, after) != DECODE_OK):
            return fail(loop, event.position, FAULT_NO_MEMORY, definition)
        skip(&body, plan.bitmap_len)
    if unlikely(in_fragments):
        body = loop.fragments.rows
    if loop.trx.index < 0:
        if not loop.trx.open:
            begin(loop, event, True)
        if note_transaction(loop) != DECODE_OK:
            return fail(loop, event.position, FAULT_NO_MEMORY, definition)
    loop.trx.has_rows = True
    image.op = OP_UPDATE_PREIMAGE if update else OP_INSERT if op == ROWS_INSERT else OP_DELETE
    image.timestamp = timestamp_of(event.start)
    image.server_id = server_id_of(event.start)
    image.position = event.position
    image.row = loop.row_in_event
    image.transaction = <uint32_t> loop.trx.index
    if unlikely(plan.raw):
        return add_raw_rows(loop, definition, plan, batch, image, &body)
    rows.pos = body.pos
    rows.end = body.end
    rows.buffer = window.data
    rows.batch = batch
    rows.failed_column = plan.column_count
    # What was checked is in the cache already
    rows.ahead = 0 if loop.selection.verify and descriptor_of(loop).checksum_len else window.ahead
    if (unlikely(<size_t> (window.cur.end - body.end) + window.room < ROOM)
            and move_to_tail(loop, &rows) != DECODE_OK):
        return fail(loop, event.position, FAULT_NO_MEMORY, definition)
    count = batch.count
    rows.ends = NULL
    rows.incomplete = NULL
    status = DECODE_MALFORMED
    begin_event(batch, loop.fragments.memory if unlikely(in_fragments) else loop.group.max_event_memory)
    limit = batch.limit
    if batch.sink != NULL:
        status = take_event_rows(loop, plan, batch, images, after if update else NULL, &image, event, &body)
        if status == DECODE_NO_MEMORY:
            return fail(loop, event.position, FAULT_NO_MEMORY, definition)
        if status != DECODE_OK:
            begin_event(batch, loop.group.max_event_memory)
            limit = batch.limit
    if status != DECODE_OK:
        status = (strip_event(loop, plan, images, after if update else NULL, &image, event.kind, &rows)
                  if plan.condition == NULL
                  else strip_matching(loop, plan, images, after if update else NULL, image, event.kind, &rows))
    if unlikely(status == DECODE_TOO_LARGE):
        # Drop the event's records
        batch.records.length -= (batch.count - count) * <size_t> plan.record_len
        batch.count = count
    if unlikely(in_fragments):
        status = end_part(loop, batch, status, &rows, count, limit - batch.limit)
    loop.group.records += batch.count - count
    loop.group.memory += (batch.count - count) * <uint64_t> plan.record_len + (limit - batch.limit)
    if plan.condition != NULL and loop.row_in_event != image.row:
        read = (loop.row_in_event - image.row) * (2 if update else 1)
        loop.group.wire_unused += <uint64_t> (body.end - event.start) * (read - (batch.count - count)) // read
    if unlikely(status != DECODE_OK):
        forget_side_entries(batch)
        if status == DECODE_MALFORMED:
            fault = FAULT_ROW
        elif status == DECODE_NO_MEMORY:
            fault = FAULT_NO_MEMORY
        elif status == DECODE_TOO_LARGE:
            fault = FAULT_RECORDS
        fail(loop, event.position, fault, definition)
        if status != DECODE_TOO_LARGE:
            loop.failure.column = rows.failed_column
        return RUN_ERROR
    return RUN_GROUP if group_is_full(loop) else RUN_MORE


cdef inline int strip_matching(loop_t* loop, plan_t* plan, image_set_t* images, image_set_t* after, image_t image,
                               uint8_t kind, rows_t* rows) noexcept nogil:
    # Like strip_event, for the rows that meet the plan's condition: decodes the condition's columns of all rows first,
    # then the rows that match
    cdef plan_t* scan = plan.scan
    cdef image_set_t* before = &scan.images[0]
    cdef image_set_t* behind = NULL if after == NULL else before if after == images else &scan.images[1]
    cdef batch_t* seen = &loop.scanned
    cdef transaction_t* trx = loop.trx.record
    cdef uint32_t per_row = 1 if after == NULL else 2
    cdef rows_t look = rows[0]
    cdef looked_at_t at
    cdef uint8_t[TILE] kept
    cdef uint32_t first_row = image.row
    cdef uint32_t end_row
    cdef uint32_t wanted = 0                    # rows from here to `row` match and are still to be decoded
    cdef uint32_t row = 0
    cdef uint32_t i
    cdef int status
    cdef int found = DECODE_OK
    if fill_image_set(scan, images.present, before) != DECODE_OK:
        return DECODE_NO_MEMORY
    if after != NULL and after != images and fill_image_set(scan, after.present, behind) != DECODE_OK:
        return DECODE_NO_MEMORY
    seen.count = 0
    seen.records.length = seen.invalid_dates.length = seen.json_diffs.length = loop.row_ends.length = 0
    begin_event(seen, loop.group.max_event_memory)
    look.batch = seen
    look.ends = &loop.row_ends
    status = strip_event(loop, scan, before, behind, &image, kind, &look)
    rows.failed_column = look.failed_column
    rows.ahead = 0
    if status == DECODE_TOO_LARGE:
        return status
    end_row = loop.row_in_event
    at.batch = seen
    at.buffer = look.buffer
    at.record_len = scan.record_len
    at.nulls = scan.image_len - 2 * scan.bitmap_len
    at.bitmap_len = scan.bitmap_len
    at.op = image.op
    at.whole = before.whole and (behind == NULL or behind.whole)
    at.commit_time = trx.commit_time if trx.commit_time >= 0 else <int64_t> trx.timestamp * 1000000
    at.thread_id = trx.thread_id
    at.first = 0
    while at.first < seen.count and found == DECODE_OK:
        at.records = seen.records.data + <size_t> at.first * scan.record_len
        at.count = min(seen.count - at.first, <uint32_t> TILE)
        run_condition(plan.condition, &at, kept)
        if wanted == row and memchr(kept, 1, at.count) == NULL:
            row += at.count // per_row
            wanted = row
        else:
            i = 0
            while i < at.count:
                if not kept[i]:
                    if wanted < row and found == DECODE_OK:
                        image.row = first_row + wanted
                        found = strip_some(loop, plan, images, after, image, kind, rows, wanted, row)
                    wanted = row + 1
                row += 1
                i += per_row
        at.first += at.count
    if wanted < row and found == DECODE_OK:
        image.row = first_row + wanted
        found = strip_some(loop, plan, images, after, image, kind, rows, wanted, row)
    loop.row_in_event = end_row
    if seen.records.capacity > SCANNED_KEPT:
        release(&seen.records)
    return status if found == DECODE_OK else found


cdef inline int strip_some(loop_t* loop, plan_t* plan, image_set_t* images, image_set_t* after, image_t image,
                           uint8_t kind, rows_t* rows, uint32_t first, uint32_t end) noexcept nogil:
    # Decodes some neighbouring rows of an event, whose ends are known
    cdef const uint8_t** ends = <const uint8_t**> loop.row_ends.data
    cdef rows_t some = rows[0]
    cdef int status
    if first:
        some.pos = ends[first - 1]
    some.end = ends[end - 1]
    status = strip_event(loop, plan, images, after, &image, kind, &some)
    rows.failed_column = some.failed_column
    if status == DECODE_OK and rows.batch.records.length > rows.batch.limit:
        return DECODE_TOO_LARGE
    return status


cdef inline int move_to_tail(loop_t* loop, rows_t* rows) noexcept nogil:
    # The loop loads whole words, so rows at the end of the buffer are decoded from a copy with
    # room after it. Offsets of values still refer to the buffer.
    cdef size_t length = <size_t> (rows.end - rows.pos)
    loop.tail.length = 0
    if reserve(&loop.tail, length + ROOM) != DECODE_OK:
        return DECODE_NO_MEMORY
    memcpy(loop.tail.data, rows.pos, length)
    memset(loop.tail.data + length, 0, ROOM)
    rows.buffer = <const uint8_t*> (<uintptr_t> loop.tail.data - <uintptr_t> (rows.pos - rows.buffer))
    rows.pos = loop.tail.data
    rows.ahead = 0
    rows.end = loop.tail.data + length
    return DECODE_OK


cdef inline int add_raw_rows(loop_t* loop, uint32_t definition, const plan_t* plan, batch_t* batch,
                             image_t image, Cursor* rows) noexcept nogil:
    # One record per event; its only field is a span of the event's rows
    cdef span_t span
    cdef uint8_t* record
    if reserve(&batch.records, plan.record_len + ROOM) != DECODE_OK:
        return fail(loop, image.position, FAULT_NO_MEMORY, definition)
    record = batch.records.data + batch.records.length
    put_image(record, image, image.op, image.row, plan, &plan.images[0])
    span.length = <uint32_t> remaining(rows)
    span.offset = <uint64_t> (rows.pos - loop.windows[loop.depth].data)
    if batch.copies:
        span.offset = batch.heap.length
        if append(&batch.heap, rows.pos, span.length) != DECODE_OK:
            return fail(loop, image.position, FAULT_NO_MEMORY, definition)
    memcpy(record + plan.image_len, &span, sizeof(span))
    batch.records.length += plan.record_len
    batch.count += 1
    loop.group.records += 1
    loop.group.memory += plan.record_len
    loop.row_in_event += 1
    return RUN_GROUP if group_is_full(loop) else RUN_MORE
