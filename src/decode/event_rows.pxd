# Decodes all rows of an event into records.

from libc.stdint cimport UINTPTR_MAX, uint16_t, uint32_t, uint64_t, uint8_t, uintptr_t

from batch.gathered cimport add_side_entry, batch_t
from batch.records cimport OP_UPDATE_POSTIMAGE, copy_image, image_t, invalid_date_t, json_diff_t
from decode.fixed_rows cimport FEW_ROWS, decode_fixed_rows
from decode.loop cimport loop_t
from decode.plan cimport ROOM, WIRE_SKIP_VALUE, image_set_t, plan_t, rows_t
from decode.row_image cimport decode_row_image, decode_row_image_v0, put_image
from decode.table_cache cimport NO_TABLE
from memory.memory cimport append, memory_t, reserve
from wire.codes cimport (
    DECODE_MALFORMED, DECODE_NO_MEMORY, DECODE_OK, DECODE_TOO_LARGE, PARTIAL_UPDATE_ROWS_EVENT,
)
from wire.cursor cimport Cursor, prefetch, remaining, skip, take_lenenc, unlikely
from wire.rows cimport is_rows_v0

cdef enum:
    PARTIAL_JSON_UPDATES = 1        # bit of value_options
    NEAR = 1024                     # a longer value is not prefetched


cdef inline int take_json_bits(const plan_t* plan, rows_t* rows, const uint8_t** bits) noexcept nogil:
    # Before its after image a partial update says which JSON columns hold diffs
    cdef uint64_t options
    cdef uint32_t length = (plan.json_count + 7) // 8
    cdef Cursor cur
    cur.pos = rows.pos
    cur.end = rows.end
    if not take_lenenc(&cur, &options):
        return DECODE_MALFORMED
    if options & PARTIAL_JSON_UPDATES:
        if remaining(&cur) < length:
            return DECODE_MALFORMED
        bits[0] = cur.pos
        skip(&cur, length)
    rows.pos = cur.pos
    return DECODE_OK


cdef inline int note_json_diffs(const plan_t* plan, const image_set_t* after, const uint8_t* record,
                                const uint8_t* bits, batch_t* batch) noexcept nogil:
    cdef const uint8_t* nulls = record + plan.image_len - 2 * plan.bitmap_len
    cdef json_diff_t entry
    cdef uint32_t i
    cdef uint32_t column
    cdef int status
    for i in range(plan.json_count):
        column = plan.json_columns[i]
        if (not bits[i >> 3] >> (i & 7) & 1 or not after.present[column >> 3] >> (column & 7) & 1
                or nulls[column >> 3] >> (column & 7) & 1
                or plan.ops[column].code == WIRE_SKIP_VALUE):
            continue
        entry.record = batch.count
        entry.column = <uint16_t> column
        status = add_side_entry(batch, &batch.json_diffs, &entry, sizeof(entry))
        if status != DECODE_OK:
            return status
    return DECODE_OK


cdef inline void forget_side_entries(batch_t* batch) noexcept nogil:
    # Removes the entries of a row that was not finished
    while batch.invalid_dates.length and (<invalid_date_t*> (
            batch.invalid_dates.data + batch.invalid_dates.length - sizeof(invalid_date_t))).record >= batch.count:
        batch.invalid_dates.length -= sizeof(invalid_date_t)
    while batch.json_diffs.length and (<json_diff_t*> (
            batch.json_diffs.data + batch.json_diffs.length - sizeof(json_diff_t))).record >= batch.count:
        batch.json_diffs.length -= sizeof(json_diff_t)


cdef inline int note_ends(rows_t* rows, const uint8_t* pos, uint32_t count) noexcept nogil:
    # Notes where rows end that were decoded together: all have the same length
    cdef size_t length = <size_t> (rows.pos - pos) // count
    cdef uint32_t _i
    for _i in range(count):
        pos += length
        if append(rows.ends, &pos, sizeof(pos)) != DECODE_OK:
            return DECODE_NO_MEMORY
    return DECODE_OK


cdef inline int strip_event(loop_t* loop, plan_t* plan, image_set_t* images, image_set_t* after,
                            const image_t* given, uint8_t kind, rows_t* rows) noexcept nogil:
    # Decodes all rows of an event, up to the batch's limit. after: for an update's second image, else NULL; given: the
    # first row's image
    cdef bint v0 = is_rows_v0(kind)
    cdef batch_t* batch = rows.batch
    cdef memory_t* records = &batch.records
    cdef size_t record_len = plan.record_len
    cdef size_t row_len = record_len if after == NULL else 2 * record_len       # bytes of the records of a row
    cdef uint32_t count = batch.count
    cdef image_t image
    cdef const image_set_t* current
    cdef uint8_t op
    cdef uint32_t row = given.row
    cdef uint32_t one_by_one = NO_TABLE         # rows to decode singly before trying many at once again
    cdef uint32_t many
    cdef uint8_t* record
    cdef const uint8_t* row_start = NULL
    cdef const uint8_t* json_bits
    cdef uintptr_t shift = rows.ahead
    cdef uintptr_t next_line = <uintptr_t> rows.pos if shift else UINTPTR_MAX
    cdef int status = DECODE_OK
    copy_image(&image, given)
    if images.fixed and (after == NULL or after.fixed) and not v0 and kind != PARTIAL_UPDATE_ROWS_EVENT:
        one_by_one = 0
    while True:
        if one_by_one == 0:
            row_start = rows.pos
            many = decode_fixed_rows(plan, images, after, given, row, rows)
            if many < FEW_ROWS:
                one_by_one = many + 1
                if rows.failed_column != plan.column_count:
                    # Decoded one by one, they show which is not valid.
                    one_by_one = NO_TABLE
                    rows.failed_column = plan.column_count
                continue
            row += many
            loop.rows_at_once += many
            if rows.ends != NULL and note_ends(rows, row_start, many) != DECODE_OK:
                status = DECODE_NO_MEMORY
                break
            if rows.pos == rows.end:
                break
            continue
        one_by_one -= 1
        row_start = rows.pos
        while unlikely(next_line <= <uintptr_t> row_start):
            prefetch(<const void*> (next_line + shift))
            next_line += 64
            if next_line + NEAR < <uintptr_t> row_start:
                next_line = <uintptr_t> row_start
        if row_start == rows.end and (images.count or (after != NULL and after.count) or batch.count != count):
            # Rows without columns take no bytes, so their number is not known; one is made.
            break
        if unlikely(records.length > batch.limit):
            # A byte of wire can stand for a wide record of NULLs or absent columns, three for an invalid date.
            status = DECODE_TOO_LARGE
            break
        if reserve(records, row_len + ROOM) != DECODE_OK:
            status = DECODE_NO_MEMORY
            break
        record = records.data + records.length
        # The one or two images in a loop of their own, so that what decodes them is inlined
        current = images
        op = image.op
        json_bits = NULL
        while True:
            put_image(record, image, op, row, plan, current)
            status = (decode_row_image_v0(plan, current, record, rows) if unlikely(v0)
                      else decode_row_image(plan, current, record, rows))
            if status != DECODE_OK or after == NULL or op == OP_UPDATE_POSTIMAGE:
                break
            if unlikely(kind == PARTIAL_UPDATE_ROWS_EVENT):
                status = take_json_bits(plan, rows, &json_bits)
                if status != DECODE_OK:
                    break
            record += record_len
            batch.count += 1
            current = after
            op = OP_UPDATE_POSTIMAGE
        if unlikely(status == DECODE_OK and json_bits != NULL):
            status = note_json_diffs(plan, after, record, json_bits, batch)
        if status != DECODE_OK:
            if op == OP_UPDATE_POSTIMAGE:
                batch.count -= 1
            break
        if rows.ends != NULL and append(rows.ends, &rows.pos, sizeof(rows.pos)) != DECODE_OK:
            if after != NULL:
                batch.count -= 1
            status = DECODE_NO_MEMORY
            break
        batch.count += 1
        records.length += row_len
        row += 1
        if rows.pos == row_start:
            if rows.pos != rows.end:
                status = DECODE_MALFORMED
            break
    if unlikely(status == DECODE_MALFORMED) and (images.count or (after != NULL and after.count)):
        rows.incomplete = row_start         # or not valid: only more bytes would tell
    loop.row_in_event = row
    return status
