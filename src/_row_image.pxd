# One row image: NULL bitmap and values into one record. The innermost loop of all.
#
# Bounds are checked once per image: the bytes that all fixed parts take, lengths included, are
# set aside first; what is left is the budget that values behind lengths may use. So a read of
# a fixed part can never pass the end, and a value costs one comparison.
#
# Loads and copies come in whole words, so they may touch ROOM bytes behind what they are for:
# behind the event on the wire (decode_rows sees to it), and behind the record in memory.
# Fields are written in the order of the record, so what spills over is written again.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memmove, memset

from _batch cimport add_invalid_date, append, batch_t, invalid_date_t, span_t
from _codes cimport DECODE_BAD_VALUE, DECODE_MALFORMED, DECODE_OK
from _cursor cimport Cursor, load_be, load_be_over, load_le, load_u16, load_u24, load_u32, remaining
from _decimal cimport decimal_layout_t, decode_decimal64, decode_decimal_limbs
from _plan cimport *
from _temporal cimport *

cdef enum:
    ROOM = 16


cdef inline void copy_over(uint8_t* to, const uint8_t* from_, size_t n) noexcept nogil:
    # n bytes in steps of 16: touches up to ROOM bytes more on both sides
    cdef size_t i = 0
    while i < n:
        memcpy(to + i, from_ + i, 16)
        i += 16


cdef inline bint bit_at(const uint8_t* bitmap, uint32_t i) noexcept nogil:
    return bitmap[i >> 3] >> (i & 7) & 1


cdef inline int64_t null_width(const image_set_t* images, const uint8_t* nulls) noexcept nogil:
    # Bytes that the fixed parts of NULL columns do not take in this row
    cdef int64_t width = 0
    cdef uint32_t i
    for i in range(images.count):
        if bit_at(nulls, i):
            width += images.ops[i].width
    return width


cdef inline bint any_null(const image_set_t* images, const uint8_t* nulls) noexcept nogil:
    cdef uint32_t i
    if images.null_len == 0:
        return False
    for i in range(images.null_len - 1):
        if nulls[i]:
            return True
    return nulls[images.null_len - 1] & images.null_mask


cdef inline int decode_values(const image_set_t* images, const op_t* ops, uint32_t op_count, bint has_nulls,
                              const uint8_t* nulls, Cursor* rows, const uint8_t* pos, int64_t budget,
                              bint exact, uint8_t* record, uint8_t* null_bitmap, batch_t* batch,
                              const uint8_t* buffer, uint32_t* failed_column) noexcept nogil:
    # has_nulls is a constant at both calls, so that each gets a loop of its own.
    cdef const op_t* op
    cdef const uint8_t* p
    cdef uint8_t* out
    cdef uint32_t i
    cdef int64_t i64 = 0
    cdef uint64_t u64
    cdef uint32_t u32
    cdef int32_t i32
    cdef uint16_t u16
    cdef uint64_t[4] limbs
    cdef span_t span
    cdef datetime_fields_t at
    cdef decimal_layout_t layout
    cdef uint8_t code
    cdef bint valid = True
    cdef int status = DECODE_OK
    for i in range(op_count):
        op = &ops[i]
        if has_nulls and bit_at(nulls, i):
            null_bitmap[op.column >> 3] |= <uint8_t> (1 << (op.column & 7))
            continue
        p = pos
        pos += op.width
        out = record + op.out
        code = op.code
        if code == OP_COPY4:
            memcpy(out, p, 4)
        elif code == OP_COPY8:
            memcpy(out, p, 8)
        elif code == OP_COPY1:
            out[0] = p[0]
        elif code == OP_COPY2:
            memcpy(out, p, 2)
        elif code == OP_COPY:
            if has_nulls:
                memcpy(out, p, op.width)        # a spill would reach a NULL's zeros
            else:
                copy_over(out, p, op.width)
        elif code == OP_SPAN1 or code == OP_SPAN2 or code == OP_SPAN or code == OP_SKIP_VALUE:
            if op.width == 1:
                u64 = p[0]
            elif op.width == 2:
                u64 = load_u16(p)
            else:
                u64 = load_le(p, op.width)
            if <int64_t> u64 > budget:
                if has_nulls and not exact:
                    budget += null_width(images, nulls)
                    exact = True
                if <int64_t> u64 > budget:
                    status = DECODE_MALFORMED
                    break
            budget -= <int64_t> u64
            p = pos
            pos += u64
            if code != OP_SKIP_VALUE:
                span.length = <uint32_t> u64
                if batch.copies:
                    span.offset = batch.heap.length
                    memcpy(out, &span, sizeof(span))
                    status = append(&batch.heap, p, <size_t> u64)
                    if status != DECODE_OK:
                        break
                else:
                    span.offset = <uint64_t> (p - buffer)
                    memcpy(out, &span, sizeof(span))
        elif code == OP_DECIMAL64:
            layout.head_digits = op.a
            layout.full_groups = op.b
            layout.tail_digits = op.c
            if op.width <= 8:
                valid = decode_decimal64(p, op.width, layout, &i64)
            else:
                valid = decode_decimal_limbs(p, layout, limbs, 2)
                i64 = <int64_t> limbs[0]
            memcpy(out, &i64, 8)
            if not valid:
                status = DECODE_BAD_VALUE
                break
        elif code == OP_DECIMAL128 or code == OP_DECIMAL256:
            layout.head_digits = op.a
            layout.full_groups = op.b
            layout.tail_digits = op.c
            valid = decode_decimal_limbs(p, layout, limbs, 2 if code == OP_DECIMAL128 else 4)
            memcpy(out, limbs, op.out_width)
            if not valid:
                status = DECODE_BAD_VALUE
                break
        elif code == OP_WIDEN:
            u64 = load_le(p, op.width)
            memcpy(out, &u64, op.out_width)
        elif code == OP_INT24:
            i32 = <int32_t> (load_u24(p) << 8) >> 8
            memcpy(out, &i32, 4)
        elif code == OP_UINT24:
            u32 = load_u24(p)
            memcpy(out, &u32, 4)
        elif code == OP_YEAR:
            u16 = <uint16_t> (1900 + p[0] if p[0] else 0)
            memcpy(out, &u16, 2)
        elif code == OP_BIT:
            u64 = load_be_over(p, op.width)
            memcpy(out, &u64, op.out_width)
        elif code == OP_TIME2:
            i64 = decode_time2(p, op.a)
            memcpy(out, &i64, 8)
        elif code == OP_TIME:
            i64 = decode_time(p)
            memcpy(out, &i64, 8)
        elif code == OP_MARIA_TIME:
            i64 = decode_maria_time(p, op.width, op.a)
            memcpy(out, &i64, 8)
        elif code == OP_SKIP or code == OP_NOTHING:
            pass
        else:
            if code == OP_DATETIME2:
                valid = decode_datetime2(p, op.a, &at, &i64)
            elif code == OP_TIMESTAMP2:
                valid = decode_timestamp2(p, op.a, &at, &i64)
            elif code == OP_DATE:
                valid = decode_date(p, &at, &i64)
            elif code == OP_DATETIME:
                valid = decode_datetime(p, &at, &i64)
            elif code == OP_TIMESTAMP:
                valid = decode_timestamp(p, &at, &i64)
            elif code == OP_MARIA_DATETIME:
                valid = decode_maria_datetime(p, op.width, op.a, &at, &i64)
            else:
                valid = decode_maria_timestamp(p, op.width, op.a, &at, &i64)
            if not valid:
                i64 = NOT_A_TIME
                status = add_invalid_date(batch, op.column, &at)
                if status != DECODE_OK:
                    break
            memcpy(out, &i64, 8)
    if status != DECODE_OK:
        failed_column[0] = op.column
    else:
        rows.pos = pos
    return status


cdef inline int decode_row_image(const plan_t* plan, const image_set_t* images, Cursor* rows,
                                 uint8_t* record, batch_t* batch, const uint8_t* buffer,
                                 uint32_t* failed_column) noexcept nogil:
    # record: its image part is written already, with an empty null_bitmap. On an error the
    # column it happened in is told (column_count: none in particular).
    cdef const uint8_t* nulls = rows.pos
    cdef const uint8_t* pos
    cdef int64_t budget
    cdef bint exact = False
    failed_column[0] = plan.column_count
    if remaining(rows) < images.null_len:
        return DECODE_MALFORMED
    pos = nulls + images.null_len
    budget = <int64_t> (rows.end - pos) - images.fixed_len
    if not any_null(images, nulls):
        if budget < 0:
            return DECODE_MALFORMED
        if not images.whole:
            memset(record + plan.image_len, 0, plan.record_len - plan.image_len)
            return decode_values(images, images.ops, images.count, True, images.no_nulls, rows, pos, budget,
                                 True, record, record, batch, buffer, failed_column)
        return decode_values(images, images.merged, images.merged_count, False, nulls, rows, pos, budget,
                             True, record, record, batch, buffer, failed_column)

    # Fixed parts of NULL columns are not there. They are counted off only where the
    # budget would not do without them, which is near the end of the event.
    if budget < 0:
        budget += null_width(images, nulls)
        exact = True
        if budget < 0:
            return DECODE_MALFORMED
    memset(record + plan.image_len, 0, plan.record_len - plan.image_len)
    return decode_values(images, images.ops, images.count, True, nulls, rows, pos, budget, exact, record,
                         record + plan.image_len - 2 * plan.bitmap_len, batch, buffer, failed_column)


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


cdef inline int decode_row_image_v0(const plan_t* plan, const image_set_t* images, Cursor* rows,
                                    uint8_t* record, batch_t* batch, const uint8_t* buffer,
                                    uint32_t* failed_column) noexcept nogil:
    # Before 5.1.18 a row began with the storage record's null bytes: a bit per nullable column,
    # behind one that is reserved; and NULL columns have a value too. Which table options change
    # that, the log does not tell: this is the layout of tables without BIT columns.
    cdef const uint8_t* nulls = rows.pos
    cdef const uint8_t* pos
    cdef const op_t* op
    cdef uint8_t* null_bitmap = record + plan.image_len - 2 * plan.bitmap_len
    cdef uint32_t bits = 1
    cdef uint32_t i
    cdef int64_t budget
    cdef int status
    failed_column[0] = plan.column_count
    for i in range(plan.column_count):
        bits += plan.nullable[i]
        if plan.ops[i].code == OP_BIT:
            failed_column[0] = i
            return DECODE_BAD_VALUE
    if remaining(rows) < (bits + 7) // 8:
        return DECODE_MALFORMED
    pos = nulls + (bits + 7) // 8
    budget = <int64_t> (rows.end - pos) - images.fixed_len
    if budget < 0:
        return DECODE_MALFORMED
    memset(record + plan.image_len, 0, plan.record_len - plan.image_len)
    status = decode_values(images, images.ops, images.count, True, images.no_nulls, rows, pos, budget, True,
                           record, record, batch, buffer, failed_column)
    if status != DECODE_OK:
        return status
    bits = 1
    for i in range(plan.column_count):
        if not plan.nullable[i]:
            continue
        op = &plan.ops[i]
        if bit_at(nulls, bits) and not bit_at(images.absent, i):
            null_bitmap[i >> 3] |= <uint8_t> (1 << (i & 7))
            memset(record + op.out, 0, op.out_width)
            forget_invalid_date(batch, <uint16_t> i)
        bits += 1
    return DECODE_OK
