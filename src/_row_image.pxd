# One row image: NULL bitmap and values into one record. The innermost loop of all.
#
# Bounds are checked once per image: the bytes that all fixed parts take, lengths included, are
# set aside first; what is left is the budget that values behind lengths may use. So a read of
# a fixed part can never pass the end, and a value costs one comparison.
#
# Loads and copies come in whole words, so they may touch ROOM bytes behind what they are for:
# behind the event on the wire (decode_rows sees to it), and behind the record in memory.
# Fields are written in the order of the record, so what spills over is written again.
#
# Rows with NULLs take no branch for them: the bytes at hand are decoded whether a value is there or
# not, and `keep`, all ones or zero, decides what is stored and how far to go. Which columns
# are NULL is as good as random, and a branch that is mispredicted costs more than a decoded value.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memmove, memset

from _batch cimport add_invalid_date, append, batch_t, invalid_date_t, span_t
from _codes cimport DECODE_BAD_VALUE, DECODE_MALFORMED, DECODE_OK
from _cursor cimport Cursor, load_be_over, load_le, load_u16, load_u24, load_u32, load_u64, remaining
from _decimal cimport (
    decimal64_of, decimal64_t, decimal_layout_t, decode_decimal64, decode_decimal128, decode_decimal256,
)
from _plan cimport *
from _temporal cimport *


# The loop over the values is compiled twice: its first argument's type says for which rows.
cdef struct dense_t:
    const uint8_t* nulls            # not looked at: the row has none


cdef struct sparse_t:
    const uint8_t* nulls            # bitmap of the row, and ROOM


ctypedef fused nulls_t:
    dense_t
    sparse_t


cdef inline void copy_over(uint8_t* to, const uint8_t* from_, size_t n) noexcept nogil:
    # n bytes in steps of 16: touches up to ROOM bytes more on both sides
    cdef size_t i = 0
    while i < n:
        memcpy(to + i, from_ + i, 16)
        i += 16


cdef inline bint bit_at(const uint8_t* bitmap, uint32_t i) noexcept nogil:
    return bitmap[i >> 3] >> (i & 7) & 1


cdef inline uint64_t bits_from(const uint8_t* bitmap, uint32_t i) noexcept nogil:
    # Bit i and the RUN_MAX - 1 behind it, and some more
    return load_u64(bitmap + (i >> 3)) >> (i & 7)


cdef inline uint64_t take_keep(uint64_t* null_bits) noexcept nogil:
    cdef uint64_t keep = (null_bits[0] & 1) - 1
    null_bits[0] >>= 1
    return keep


cdef inline int64_t null_width(const image_set_t* images, const uint8_t* nulls) noexcept nogil:
    # Bytes that the fixed parts of NULL columns do not take in this row
    cdef int64_t width = 0
    cdef uint64_t bits
    cdef uint32_t at = 0
    cdef uint32_t i
    cdef uint32_t k
    for i in range(images.sparse_count):
        bits = bits_from(nulls, at)
        at += images.sparse[i].count
        for k in range(images.sparse[i].count):
            width += images.sparse[i].width & ~take_keep(&bits)
    return width


cdef inline bint any_null(const image_set_t* images, const uint8_t* nulls) noexcept nogil:
    cdef uint32_t left = images.null_len
    while left > 8:
        if load_u64(nulls):
            return True
        nulls += 8
        left -= 8
    return load_u64(nulls) & images.null_mask != 0


cdef inline void put_nulls(const image_set_t* images, const uint8_t* nulls, uint8_t* null_bitmap) noexcept nogil:
    # The row's NULLs by column index: as they come, or past the columns that are absent
    cdef uint32_t at = 0
    cdef uint32_t column
    cdef uint32_t i
    cdef uint32_t k
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


# What the rows of an event share, and where we are in them.
cdef struct rows_t:
    const uint8_t* pos
    const uint8_t* end
    const uint8_t* buffer           # where offsets of values count from
    batch_t* batch
    uint32_t failed_column


cdef inline int decode_values(nulls_t row, const image_set_t* images, int64_t budget, bint exact,
                              uint8_t* record, rows_t* rows) noexcept nogil:
    # budget: what values behind lengths may take; exact: NULL columns are counted off already
    cdef const step_t* step
    cdef const step_t* last
    cdef const uint8_t* pos = rows.pos
    cdef const uint8_t* buffer = rows.buffer
    cdef batch_t* batch = rows.batch
    cdef uint8_t* out
    cdef uint64_t null_bits = 0
    cdef uint64_t keep = <uint64_t> -1
    cdef uint64_t u64
    cdef uint32_t u32
    cdef uint16_t u16
    cdef int64_t i64 = 0
    cdef uint32_t k
    cdef uint32_t width
    cdef uint32_t at = 0
    cdef uint64_t[4] limbs
    cdef span_t span
    cdef datetime_fields_t fields
    cdef decimal_layout_t layout
    cdef decimal64_t layout64
    cdef uint8_t code
    cdef bint valid = True
    cdef int status
    if nulls_t is sparse_t:
        step = images.sparse
        last = step + images.sparse_count
    else:
        step = images.dense
        last = step + images.dense_count
    while step < last:
        width = step.width
        out = record + step.out
        code = step.code
        if nulls_t is sparse_t:
            null_bits = bits_from(row.nulls, at)
            at += step.count
        if code == OP_COPY4:
            for k in range(step.count):
                if nulls_t is sparse_t:
                    keep = take_keep(&null_bits)
                u32 = load_u32(pos) & <uint32_t> keep
                memcpy(out, &u32, 4)
                pos += 4 & keep
                out += 4
        elif code == OP_COPY8:
            for k in range(step.count):
                if nulls_t is sparse_t:
                    keep = take_keep(&null_bits)
                u64 = load_u64(pos) & keep
                memcpy(out, &u64, 8)
                pos += 8 & keep
                out += 8
        elif code == OP_COPY2:
            for k in range(step.count):
                if nulls_t is sparse_t:
                    keep = take_keep(&null_bits)
                u16 = <uint16_t> (load_u16(pos) & keep)
                memcpy(out, &u16, 2)
                pos += 2 & keep
                out += 2
        elif code == OP_COPY1:
            for k in range(step.count):
                if nulls_t is sparse_t:
                    keep = take_keep(&null_bits)
                out[0] = <uint8_t> (pos[0] & keep)
                pos += 1 & keep
                out += 1
        elif code == OP_COPY:
            for k in range(step.count):
                if nulls_t is sparse_t:
                    keep = take_keep(&null_bits)
                    if keep:
                        memcpy(out, pos, width)
                    else:
                        memset(out, 0, width)
                else:
                    copy_over(out, pos, width)
                pos += width & keep
                out += step.out_width
        elif code == OP_SPAN1 or code == OP_SPAN2 or code == OP_SPAN or code == OP_SKIP_VALUE:
            for k in range(step.count):
                if nulls_t is sparse_t:
                    keep = take_keep(&null_bits)
                if code == OP_SPAN1:
                    u64 = pos[0] & keep
                elif code == OP_SPAN2:
                    u64 = load_u16(pos) & keep
                else:
                    u64 = load_le(pos, width) & keep
                if <int64_t> u64 > budget:
                    if nulls_t is sparse_t:
                        if not exact:
                            budget += null_width(images, row.nulls)
                            exact = True
                    if <int64_t> u64 > budget:
                        rows.failed_column = step.column + k
                        return DECODE_MALFORMED
                budget -= <int64_t> u64
                pos += width & keep
                if code != OP_SKIP_VALUE:
                    span.length = <uint32_t> u64
                    if batch.copies:
                        span.offset = batch.heap.length & keep
                        status = append(&batch.heap, pos, <size_t> u64)
                        if status != DECODE_OK:
                            rows.failed_column = step.column + k
                            return status
                    else:
                        span.offset = <uint64_t> (pos - buffer) & keep
                    memcpy(out, &span, sizeof(span))
                    out += sizeof(span)
                pos += u64
        elif code == OP_DECIMAL64:
            layout.head_digits = step.a
            layout.full_groups = step.b
            layout.tail_digits = step.c
            if width <= 8:
                layout64 = decimal64_of(layout, width)
                for k in range(step.count):
                    if nulls_t is sparse_t:
                        keep = take_keep(&null_bits)
                    valid = decode_decimal64(pos, &layout64, &i64)
                    if not valid and keep:
                        rows.failed_column = step.column + k
                        return DECODE_BAD_VALUE
                    i64 &= keep
                    memcpy(out, &i64, 8)
                    pos += width & keep
                    out += 8
            else:
                for k in range(step.count):
                    if nulls_t is sparse_t:
                        keep = take_keep(&null_bits)
                    valid = decode_decimal128(pos, layout, limbs)
                    if not valid and keep:
                        rows.failed_column = step.column + k
                        return DECODE_BAD_VALUE
                    limbs[0] &= keep
                    memcpy(out, limbs, 8)
                    pos += width & keep
                    out += 8
        elif code == OP_DECIMAL128:
            layout.head_digits = step.a
            layout.full_groups = step.b
            layout.tail_digits = step.c
            for k in range(step.count):
                if nulls_t is sparse_t:
                    keep = take_keep(&null_bits)
                valid = decode_decimal128(pos, layout, limbs)
                if not valid and keep:
                    rows.failed_column = step.column + k
                    return DECODE_BAD_VALUE
                limbs[0] &= keep
                limbs[1] &= keep
                memcpy(out, limbs, 16)
                pos += width & keep
                out += 16
        elif code == OP_DECIMAL256:
            layout.head_digits = step.a
            layout.full_groups = step.b
            layout.tail_digits = step.c
            for k in range(step.count):
                if nulls_t is sparse_t:
                    keep = take_keep(&null_bits)
                valid = decode_decimal256(pos, layout, limbs)
                if not valid and keep:
                    rows.failed_column = step.column + k
                    return DECODE_BAD_VALUE
                limbs[0] &= keep
                limbs[1] &= keep
                limbs[2] &= keep
                limbs[3] &= keep
                memcpy(out, limbs, 32)
                pos += width & keep
                out += 32
        elif code == OP_SKIP or code == OP_NOTHING:
            for k in range(step.count):
                if nulls_t is sparse_t:
                    keep = take_keep(&null_bits)
                pos += width & keep
        else:
            for k in range(step.count):
                if nulls_t is sparse_t:
                    keep = take_keep(&null_bits)
                valid = True
                if code == OP_DATE:
                    valid = decode_date(pos, &fields, &i64)
                elif code == OP_DATETIME2:
                    valid = decode_datetime2(pos, step.a, &fields, &i64)
                elif code == OP_TIMESTAMP2:
                    valid = decode_timestamp2(pos, step.a, &fields, &i64)
                elif code == OP_TIME2:
                    i64 = decode_time2(pos, step.a)
                elif code == OP_WIDEN:
                    i64 = <int64_t> load_le(pos, width)
                elif code == OP_INT24:
                    i64 = <int32_t> (load_u24(pos) << 8) >> 8
                elif code == OP_UINT24:
                    i64 = load_u24(pos)
                elif code == OP_YEAR:
                    i64 = 1900 + pos[0] if pos[0] else 0
                elif code == OP_BIT:
                    i64 = <int64_t> load_be_over(pos, width)
                elif code == OP_TIME:
                    i64 = decode_time(pos)
                elif code == OP_MARIA_TIME:
                    i64 = decode_maria_time(pos, width, step.a)
                elif code == OP_DATETIME:
                    valid = decode_datetime(pos, &fields, &i64)
                elif code == OP_TIMESTAMP:
                    valid = decode_timestamp(pos, &fields, &i64)
                elif code == OP_MARIA_DATETIME:
                    valid = decode_maria_datetime(pos, width, step.a, &fields, &i64)
                else:
                    valid = decode_maria_timestamp(pos, width, step.a, &fields, &i64)
                if not valid and keep:
                    i64 = NOT_A_TIME
                    status = add_invalid_date(batch, <uint16_t> (step.column + k), &fields)
                    if status != DECODE_OK:
                        rows.failed_column = step.column + k
                        return status
                i64 &= keep
                if step.out_width == 8:
                    memcpy(out, &i64, 8)
                elif step.out_width == 4:
                    memcpy(out, &i64, 4)
                elif step.out_width == 2:
                    memcpy(out, &i64, 2)
                else:
                    memcpy(out, &i64, step.out_width)
                pos += width & keep
                out += step.out_width
        step += 1
    rows.pos = pos
    return DECODE_OK


cdef inline int decode_row_image(const plan_t* plan, const image_set_t* images, uint8_t* record,
                                 rows_t* rows) noexcept nogil:
    # record: its image part is written already, with an empty null_bitmap. On an error the
    # column it happened in is told (column_count: none in particular).
    cdef const uint8_t* nulls = rows.pos
    cdef dense_t dense
    cdef sparse_t sparse
    cdef int64_t budget
    cdef bint exact = False
    rows.failed_column = plan.column_count
    if <size_t> (rows.end - nulls) < images.null_len:
        return DECODE_MALFORMED
    rows.pos = nulls + images.null_len
    budget = <int64_t> (rows.end - rows.pos) - images.fixed_len
    if images.whole and not any_null(images, nulls):
        if budget < 0:
            return DECODE_MALFORMED
        dense.nulls = NULL
        return decode_values(dense, images, budget, True, record, rows)

    # Fixed parts of NULL columns are not there. They are counted off only where the
    # budget would not do without them, which is near the end of the event.
    if budget < 0:
        budget += null_width(images, nulls)
        exact = True
        if budget < 0:
            return DECODE_MALFORMED
    if not images.whole:
        memset(record + plan.image_len, 0, plan.record_len - plan.image_len)
    put_nulls(images, nulls, record + plan.image_len - 2 * plan.bitmap_len)
    sparse.nulls = nulls
    return decode_values(sparse, images, budget, exact, record, rows)


cdef inline void forget_invalid_date(batch_t* batch, uint16_t column) noexcept nogil:
    # The newest record's entry for a column, should it have one
    cdef size_t at = batch.invalid_dates.length
    cdef invalid_date_t* entry
    while at >= sizeof(invalid_date_t):
        at -= sizeof(invalid_date_t)
        entry = <invalid_date_t*> (batch.invalid_dates.data + at)
        if entry.record != batch.count:
            return
        if entry.column == column:
            memmove(entry, entry + 1, batch.invalid_dates.length - at - sizeof(invalid_date_t))
            batch.invalid_dates.length -= sizeof(invalid_date_t)
            return


cdef inline int decode_row_image_v0(const plan_t* plan, const image_set_t* images, uint8_t* record,
                                    rows_t* rows) noexcept nogil:
    # Before 5.1.18 a row began with the storage record's null bytes: a bit per nullable column,
    # behind one that is reserved; and NULL columns have a value too. Which table options change
    # that, the log does not tell: this is the layout of tables without BIT columns.
    cdef const uint8_t* nulls = rows.pos
    cdef const op_t* op
    cdef uint8_t* bitmaps = record + plan.image_len - 2 * plan.bitmap_len     # null, absent
    cdef uint32_t bits = 1
    cdef uint32_t i
    cdef int64_t budget
    cdef int status
    cdef sparse_t sparse
    rows.failed_column = plan.column_count
    for i in range(plan.column_count):
        bits += plan.nullable[i]
        if plan.ops[i].code == OP_BIT:
            rows.failed_column = i
            return DECODE_BAD_VALUE
    if <size_t> (rows.end - nulls) < (bits + 7) // 8:
        return DECODE_MALFORMED
    rows.pos = nulls + (bits + 7) // 8
    budget = <int64_t> (rows.end - rows.pos) - images.fixed_len
    if budget < 0:
        return DECODE_MALFORMED
    memset(record + plan.image_len, 0, plan.record_len - plan.image_len)
    sparse.nulls = images.no_nulls
    status = decode_values(sparse, images, budget, True, record, rows)
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
            forget_invalid_date(rows.batch, <uint16_t> i)
        bits += 1
    return DECODE_OK
