# One row image: NULL bitmap and values into one record. The innermost loop of all.
#
# Bounds are checked once per image: the bytes that all fixed parts take, lengths included, are
# set aside first; what is left is the budget that values behind lengths may use. So a read of
# a fixed part can never pass the end, and a value costs one comparison.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from _batch cimport add_invalid_date, append, batch_t, span_t
from _codes cimport DECODE_BAD_VALUE, DECODE_MALFORMED, DECODE_OK
from _cursor cimport Cursor, load_be, load_le, load_u16, load_u24, remaining
from _decimal cimport decimal_layout_t, decode_decimal64, decode_decimal_limbs
from _plan cimport *
from _temporal cimport *


cdef inline int store_datetime(bint valid, int64_t us, const datetime_fields_t* at, const op_t* op,
                               uint8_t* out, batch_t* batch) noexcept nogil:
    cdef int64_t value = us if valid else NOT_A_TIME
    memcpy(out, &value, 8)
    return DECODE_OK if valid else add_invalid_date(batch, op.column, at)


cdef inline int store_span(const uint8_t* value, uint64_t length, const uint8_t* buffer, uint8_t* out,
                           batch_t* batch) noexcept nogil:
    cdef span_t span
    span.length = <uint32_t> length
    if batch.copies:
        span.offset = batch.heap.length
        memcpy(out, &span, sizeof(span))
        return append(&batch.heap, value, <size_t> length)
    span.offset = <uint64_t> (value - buffer)
    memcpy(out, &span, sizeof(span))
    return DECODE_OK


cdef inline int decode_column(const op_t* op, const uint8_t** pos, int64_t* budget, uint8_t* record,
                              batch_t* batch, const uint8_t* buffer) noexcept nogil:
    # One value that is there. The fixed part of op.width bytes is known to be in bounds.
    cdef const uint8_t* p = pos[0]
    cdef uint8_t* out = record + op.out
    cdef uint8_t code = op.code
    cdef int64_t i64 = 0
    cdef uint64_t u64
    cdef uint32_t u32
    cdef int32_t i32
    cdef uint16_t u16
    cdef uint64_t[4] limbs
    cdef bint valid
    cdef datetime_fields_t at
    cdef decimal_layout_t layout
    pos[0] = p + op.width
    if code == OP_COPY4:
        memcpy(out, p, 4)
    elif code == OP_COPY8:
        memcpy(out, p, 8)
    elif code == OP_COPY1:
        out[0] = p[0]
    elif code == OP_COPY2:
        memcpy(out, p, 2)
    elif code == OP_COPY:
        memcpy(out, p, op.width)
    elif code >= OP_SPAN1 or code == OP_SKIP_VALUE:
        if code == OP_SPAN1:
            u64 = p[0]
        elif code == OP_SPAN2:
            u64 = load_u16(p)
        else:
            u64 = load_le(p, op.width)
        if <int64_t> u64 > budget[0]:
            return DECODE_MALFORMED
        budget[0] -= <int64_t> u64
        pos[0] += u64
        if code != OP_SKIP_VALUE:
            return store_span(p + op.width, u64, buffer, out, batch)
    elif code == OP_DECIMAL64:
        layout.head_digits = op.a
        layout.full_groups = op.b
        layout.tail_digits = op.c
        valid = decode_decimal64(p, layout, &i64)
        memcpy(out, &i64, 8)
        return DECODE_OK if valid else DECODE_BAD_VALUE
    elif code == OP_DATETIME2:
        valid = decode_datetime2(p, op.a, &at, &i64)
        return store_datetime(valid, i64, &at, op, out, batch)
    elif code == OP_TIMESTAMP2:
        valid = decode_timestamp2(p, op.a, &at, &i64)
        return store_datetime(valid, i64, &at, op, out, batch)
    elif code == OP_DATE:
        valid = decode_date(p, &at, &i64)
        return store_datetime(valid, i64, &at, op, out, batch)
    elif code == OP_TIME2:
        i64 = decode_time2(p, op.a)
        memcpy(out, &i64, 8)
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
        u64 = load_be(p, op.width)
        memcpy(out, &u64, op.out_width)
    elif code == OP_DECIMAL128 or code == OP_DECIMAL256:
        layout.head_digits = op.a
        layout.full_groups = op.b
        layout.tail_digits = op.c
        valid = decode_decimal_limbs(p, layout, limbs, 2 if code == OP_DECIMAL128 else 4)
        memcpy(out, limbs, op.out_width)
        return DECODE_OK if valid else DECODE_BAD_VALUE
    elif code == OP_DATETIME:
        valid = decode_datetime(p, &at, &i64)
        return store_datetime(valid, i64, &at, op, out, batch)
    elif code == OP_TIMESTAMP:
        valid = decode_timestamp(p, &at, &i64)
        return store_datetime(valid, i64, &at, op, out, batch)
    elif code == OP_TIME:
        i64 = decode_time(p)
        memcpy(out, &i64, 8)
    elif code == OP_MARIA_DATETIME:
        valid = decode_maria_datetime(p, op.width, op.a, &at, &i64)
        return store_datetime(valid, i64, &at, op, out, batch)
    elif code == OP_MARIA_TIMESTAMP:
        valid = decode_maria_timestamp(p, op.width, op.a, &at, &i64)
        return store_datetime(valid, i64, &at, op, out, batch)
    elif code == OP_MARIA_TIME:
        i64 = decode_maria_time(p, op.width, op.a)
        memcpy(out, &i64, 8)
    return DECODE_OK


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


cdef inline int decode_row_image(const plan_t* plan, const image_set_t* images, Cursor* rows,
                                 uint8_t* record, batch_t* batch, const uint8_t* buffer,
                                 uint32_t* failed_column) noexcept nogil:
    # record: its image part is written already, with an empty null_bitmap. On an error the
    # column it happened in is told (column_count: none in particular).
    cdef const uint8_t* nulls = rows.pos
    cdef const uint8_t* pos
    cdef int64_t budget
    cdef uint8_t* null_bitmap
    cdef const op_t* op
    cdef uint32_t i
    cdef int status
    cdef bint exact = True
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
        for i in range(images.merged_count):
            op = &images.merged[i]
            status = decode_column(op, &pos, &budget, record, batch, buffer)
            if status != DECODE_OK:
                failed_column[0] = op.column
                return status
        rows.pos = pos
        return DECODE_OK

    # Fixed parts of NULL columns are not there. They are counted off only where the
    # budget would not do without them, which is near the end of the event.
    if budget < 0:
        budget += null_width(images, nulls)
        if budget < 0:
            return DECODE_MALFORMED
    else:
        exact = False
    memset(record + plan.image_len, 0, plan.record_len - plan.image_len)
    null_bitmap = record + plan.image_len - 2 * plan.bitmap_len
    for i in range(images.count):
        op = &images.ops[i]
        if bit_at(nulls, i):
            null_bitmap[op.column >> 3] |= <uint8_t> (1 << (op.column & 7))
            continue
        status = decode_column(op, &pos, &budget, record, batch, buffer)
        if status == DECODE_MALFORMED and not exact:
            budget += null_width(images, nulls)
            exact = True
            pos -= op.width
            status = decode_column(op, &pos, &budget, record, batch, buffer)
        if status != DECODE_OK:
            failed_column[0] = op.column
            return status
    rows.pos = pos
    return DECODE_OK
