# One row image: NULL bitmap and values into one record. This is the innermost loop.
#
# Bounds are checked once per image: the bytes of all fixed parts, lengths included, are set
# aside first; the rest is the budget for values of variable length. So a read of a fixed part
# can never pass the end, and a value costs one comparison.
#
# Loads and copies come in whole words, so they may touch ROOM bytes too many: after the event
# on the wire (decode_rows makes sure that they exist), and after the record in memory.
# Fields are written in the order of the record, so what spills over is overwritten.

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from batch.gathered cimport batch_t
from batch.records cimport image_t, invalid_date_t
from decode.plan cimport WIRE_BIT, image_set_t, plan_t, rows_t, step_t, wire_op_t
from decode.strips cimport bits_from, null_width, strip_joined, strip_span1, strip_span2
from wire.codes cimport DECODE_BAD_VALUE, DECODE_MALFORMED, DECODE_OK
from wire.cursor cimport load_u64


cdef inline void copy_over(uint8_t* to, const uint8_t* from_, size_t n) noexcept nogil:
    # n bytes in steps of 16: touches up to ROOM bytes more on both sides
    cdef size_t i = 0
    while i < n:
        memcpy(to + i, from_ + i, 16)
        i += 16


cdef inline void put_image(uint8_t* record, image_t image, uint8_t op, uint32_t row,
                           const plan_t* plan, const image_set_t* images) noexcept nogil:
    # `image` by value keeps its fields in registers: a block copy would wait for the stores that wrote it.
    cdef image_t* out = <image_t*> record
    out.op = op
    out.timestamp = image.timestamp
    out.server_id = image.server_id
    out.position = image.position
    out.row = row
    out.transaction = image.transaction
    memcpy(record + sizeof(image_t), images.bitmaps, 16)
    if plan.bitmap_len > 8:
        copy_over(record + sizeof(image_t) + 16, images.bitmaps + 16, 2 * plan.bitmap_len - 16)


cdef inline bint bit_at(const uint8_t* bitmap, uint32_t i) noexcept nogil:
    return bitmap[i >> 3] >> (i & 7) & 1


cdef inline bint any_null(const image_set_t* images, const uint8_t* nulls) noexcept nogil:
    cdef uint32_t left = images.null_len
    while left > 8:
        if load_u64(nulls):
            return True
        nulls += 8
        left -= 8
    return load_u64(nulls) & images.null_mask != 0


cdef inline void put_nulls(const image_set_t* images, const uint8_t* nulls, uint8_t* null_bitmap) noexcept nogil:
    # The row's NULLs by column index: copied if all columns are present, else spread over those that are
    cdef uint32_t at = 0
    cdef uint32_t column
    cdef uint32_t i
    cdef uint32_t k
    cdef uint64_t word
    if images.whole and images.null_len <= 8:
        # The zeros that spill over are right: the absent_bitmap of a whole image, then values not yet written.
        word = load_u64(nulls) & images.null_mask
        memcpy(null_bitmap, &word, 8)
        return
    if images.whole:
        memcpy(null_bitmap, nulls, images.null_len)
        if images.count & 7:
            null_bitmap[images.null_len - 1] &= <uint8_t> ((1 << (images.count & 7)) - 1)
        return
    for i in range(images.sparse_count):
        for k in range(images.sparse[i].count):
            column = images.sparse[i].column + k
            null_bitmap[column >> 3] |= <uint8_t> (bit_at(nulls, at) << (column & 7))
            at += 1


cdef inline int decode_dense(const image_set_t* images, uint8_t* record, rows_t* rows) noexcept nogil:
    # A row without NULLs
    cdef const step_t* step = images.dense
    cdef const step_t* last = step + images.dense_count
    cdef const uint8_t* pos = rows.pos
    while step < last:
        # The most frequent ones are inlined
        if step.strip == strip_joined:
            pos = strip_joined(step, pos, record + step.out, 0, rows)
        elif step.strip == strip_span1:
            pos = strip_span1(step, pos, record + step.out, 0, rows)
        elif step.strip == strip_span2:
            pos = strip_span2(step, pos, record + step.out, 0, rows)
        else:
            pos = step.strip(step, pos, record + step.out, 0, rows)
        if pos == NULL:
            return rows.status
        step += 1
    rows.pos = pos
    return DECODE_OK


cdef inline int decode_sparse(const image_set_t* images, uint8_t* record, rows_t* rows) noexcept nogil:
    # Any row. Slots of absent columns are not written.
    cdef const step_t* step = images.sparse
    cdef const step_t* last = step + images.sparse_count
    cdef const uint8_t* pos = rows.pos
    cdef uint32_t at = 0
    while step < last:
        pos = step.strip(step, pos, record + step.out, bits_from(rows.nulls, at), rows)
        if pos == NULL:
            return rows.status
        at += step.count
        step += 1
    rows.pos = pos
    return DECODE_OK


cdef inline bint begin_sparse(const image_set_t* images, const uint8_t* nulls, int64_t budget,
                              rows_t* rows) noexcept nogil:
    # budget: what the fixed parts leave. It counts those of NULL columns, too, although they are not there; they are
    # given back only if the budget would not suffice, which is near the end of the event. False: it does not suffice
    rows.nulls = nulls
    rows.images = images
    rows.exact = budget < 0
    if rows.exact:
        budget += null_width(images, nulls)
    rows.budget = budget
    return budget >= 0


cdef inline int decode_row_image(const plan_t* plan, const image_set_t* images, uint8_t* record,
                                 rows_t* rows) noexcept nogil:
    # record: its image part is written already, with an empty null_bitmap. After an error,
    # rows.failed_column says in which column it was, if in one.
    cdef const uint8_t* nulls = rows.pos
    cdef int64_t budget
    if <size_t> (rows.end - nulls) < images.null_len:
        return DECODE_MALFORMED
    rows.pos = nulls + images.null_len
    budget = <int64_t> (rows.end - rows.pos) - images.fixed_len
    if images.whole and not any_null(images, nulls):
        rows.exact = True
        rows.budget = budget
        return decode_dense(images, record, rows) if budget >= 0 else DECODE_MALFORMED

    if not begin_sparse(images, nulls, budget, rows):
        return DECODE_MALFORMED
    if not images.whole:
        memset(record + plan.image_len, 0, plan.record_len - plan.image_len)
    put_nulls(images, nulls, record + plan.image_len - 2 * plan.bitmap_len)
    return decode_sparse(images, record, rows)


cdef inline void forget_null_dates(batch_t* batch, size_t first, const uint8_t* null_bitmap) noexcept nogil:
    # Removes the entries from byte `first` on, all of the newest record, that are of NULL columns
    cdef const uint8_t* end = batch.invalid_dates.data + batch.invalid_dates.length
    cdef const invalid_date_t* entry = <const invalid_date_t*> (batch.invalid_dates.data + first)
    cdef invalid_date_t* kept = <invalid_date_t*> entry
    while <const uint8_t*> entry < end:
        if not bit_at(null_bitmap, entry.column):
            kept[0] = entry[0]
            kept += 1
        entry += 1
    batch.limit += <uint64_t> (end - <const uint8_t*> kept)
    batch.invalid_dates.length = <size_t> (<const uint8_t*> kept - batch.invalid_dates.data)


cdef inline int decode_row_image_v0(const plan_t* plan, const image_set_t* images, uint8_t* record,
                                    rows_t* rows) noexcept nogil:
    # Before 5.1.18 a row began with the null bytes of the storage record: a reserved bit, then
    # one per nullable column; NULL columns have a value, too. Table options can change this,
    # and the log does not say so: this is the layout of tables without BIT columns.
    cdef const uint8_t* nulls = rows.pos
    cdef const wire_op_t* op
    cdef uint8_t* bitmaps = record + plan.image_len - 2 * plan.bitmap_len     # null, absent
    cdef size_t dates = rows.batch.invalid_dates.length
    cdef uint32_t bits = 1
    cdef uint32_t i
    cdef int status
    rows.failed_column = plan.column_count
    for i in range(plan.column_count):
        bits += plan.nullable[i]
        if plan.ops[i].code == WIRE_BIT:
            rows.failed_column = i
            return DECODE_BAD_VALUE
    if <size_t> (rows.end - nulls) < (bits + 7) // 8:
        return DECODE_MALFORMED
    rows.pos = nulls + (bits + 7) // 8
    rows.budget = <int64_t> (rows.end - rows.pos) - images.fixed_len
    rows.exact = True
    rows.images = images
    rows.nulls = images.no_nulls
    if rows.budget < 0:
        return DECODE_MALFORMED
    memset(record + plan.image_len, 0, plan.record_len - plan.image_len)
    status = decode_sparse(images, record, rows)
    if status != DECODE_OK:
        return status
    bits = 1
    for i in range(plan.column_count):
        if not plan.nullable[i]:
            continue
        op = &plan.ops[i]
        if bit_at(nulls, bits) and not bit_at(bitmaps + plan.bitmap_len, i):
            bitmaps[i >> 3] |= <uint8_t> (1 << (i & 7))
            memset(record + op.out, 0, op.out_width)
        bits += 1
    if rows.batch.invalid_dates.length != dates:
        forget_null_dates(rows.batch, dates, bitmaps)
    return DECODE_OK
