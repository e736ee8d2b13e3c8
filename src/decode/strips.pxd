# Decodes values of neighbouring columns that are stored alike, from the wire into a record: one function per
# wire operation, called through the step for these columns. The take_ functions hold what several of them have
# in common; where those differ, they get an argument that is a constant once inlined.
#
# NULLs take no branch: the next bytes are decoded whether a value is there or not, and `keep`, all
# ones or zero, decides what is stored and how far to advance. Which columns are NULL is as good as
# random, and a mispredicted branch costs more than a decoded value.
#
# Loads come in whole words: they may touch ROOM bytes after the row. Stores keep to their field,
# except for copies of rows without NULLs.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from batch.gathered cimport add_invalid_date, batch_t
from batch.records cimport span_t
from decode.plan cimport (
    WIRE_BIT, WIRE_COPY1, WIRE_COPY2, WIRE_COPY4, WIRE_COPY8, WIRE_DATE, WIRE_DATETIME, WIRE_DATETIME2,
    WIRE_DECIMAL128, WIRE_DECIMAL256, WIRE_DECIMAL64, WIRE_INT24, WIRE_MARIA_DATETIME, WIRE_MARIA_TIME,
    WIRE_MARIA_TIMESTAMP, WIRE_NOTHING, WIRE_SKIP, WIRE_SKIP_VALUE, WIRE_SPAN, WIRE_SPAN1, WIRE_SPAN2, WIRE_TIME,
    WIRE_TIME2, WIRE_TIMESTAMP, WIRE_TIMESTAMP2, WIRE_UINT24, WIRE_YEAR, image_set_t, rows_t, step_t, strip_t,
)
from memory.memory cimport append
from types.decimal cimport decimal_layout_t, decode_decimal128, decode_decimal256, decode_decimal64
from types.temporal cimport (
    NOT_A_TIME, datetime_fields_t, decode_date, decode_datetime, decode_datetime2, decode_maria_datetime,
    decode_maria_time, decode_maria_timestamp, decode_time, decode_time2, decode_timestamp, decode_timestamp2,
)
from wire.codes cimport DECODE_BAD_VALUE, DECODE_MALFORMED, DECODE_NO_MEMORY, DECODE_OK
from wire.cursor cimport load_be_over, load_le, load_u24_over, load_u64, unlikely


cdef inline uint64_t bits_from(const uint8_t* bitmap, uint32_t i) noexcept nogil:
    # At least bit i and the STRIP_MAX - 1 bits after it
    return load_u64(bitmap + (i >> 3)) >> (i & 7)


cdef inline uint64_t take_keep(uint64_t* nulls) noexcept nogil:
    cdef uint64_t keep = (nulls[0] & 1) - 1
    nulls[0] >>= 1
    return keep


cdef inline int64_t null_width(const image_set_t* images, const uint8_t* nulls) noexcept nogil:
    # Bytes of fixed parts that this row does not have, since the columns are NULL
    cdef int64_t width = 0
    cdef uint64_t bits
    cdef uint32_t at = 0
    cdef uint32_t i
    cdef uint32_t _k
    for i in range(images.sparse_count):
        bits = bits_from(nulls, at)
        at += images.sparse[i].count
        for _k in range(images.sparse[i].count):
            width += images.sparse[i].width & ~take_keep(&bits)
    return width


cdef inline const uint8_t* failed(rows_t* rows, const step_t* step, uint32_t k, int status) noexcept nogil:
    rows.status = status
    rows.failed_column = step.column + k
    return NULL


# ---------------------------------------------------------------- copies

cdef inline const uint8_t* strip_copies(const step_t* step, const uint8_t* pos, uint8_t* out, uint64_t nulls,
                                        size_t width) noexcept nogil:
    cdef size_t apart = step.apart
    cdef uint64_t keep
    cdef uint64_t v = 0
    cdef uint32_t _k
    for _k in range(step.count):
        keep = take_keep(&nulls)
        memcpy(&v, pos, width)
        v &= keep
        memcpy(out, &v, width)
        pos += width & keep
        out += apart
    return pos


cdef inline const uint8_t* strip_copy1(const step_t* step, const uint8_t* pos, uint8_t* out, uint64_t nulls,
                                       rows_t* rows) noexcept nogil:
    return strip_copies(step, pos, out, nulls, 1)


cdef inline const uint8_t* strip_copy2(const step_t* step, const uint8_t* pos, uint8_t* out, uint64_t nulls,
                                       rows_t* rows) noexcept nogil:
    return strip_copies(step, pos, out, nulls, 2)


cdef inline const uint8_t* strip_copy4(const step_t* step, const uint8_t* pos, uint8_t* out, uint64_t nulls,
                                       rows_t* rows) noexcept nogil:
    return strip_copies(step, pos, out, nulls, 4)


cdef inline const uint8_t* strip_copy8(const step_t* step, const uint8_t* pos, uint8_t* out, uint64_t nulls,
                                       rows_t* rows) noexcept nogil:
    return strip_copies(step, pos, out, nulls, 8)


cdef inline const uint8_t* strip_joined(const step_t* step, const uint8_t* pos, uint8_t* out, uint64_t nulls,
                                        rows_t* rows) noexcept nogil:
    # Columns of a row without NULLs, whatever their widths; what spills over is overwritten
    cdef uint32_t i = 0
    while i < step.width:
        memcpy(out + i, pos + i, 16)
        i += 16
    return pos + step.width


cdef inline const uint8_t* strip_skip(const step_t* step, const uint8_t* pos, uint8_t* out, uint64_t nulls,
                                      rows_t* rows) noexcept nogil:
    cdef uint32_t _k
    for _k in range(step.count):
        pos += step.width & take_keep(&nulls)
    return pos


# ---------------------------------------------------------------- values after a length

cdef inline int64_t take_spare(rows_t* rows) noexcept nogil:
    # Bytes to give back to the budget, which counts the fixed parts of NULL columns until it would run out
    if rows.exact:
        return 0
    rows.exact = True
    return null_width(rows.images, rows.nulls)


cdef inline bint pays(int64_t* budget, uint64_t length, rows_t* rows) noexcept nogil:
    # Takes a value's bytes out of the budget; False: less is left
    budget[0] -= <int64_t> length
    if unlikely(budget[0] < 0):
        budget[0] += take_spare(rows)
    return budget[0] >= 0


cdef inline bint copy_value(batch_t* batch, const uint8_t* value, uint64_t length, uint64_t keep,
                            span_t* span) noexcept nogil:
    span.offset = batch.heap.length & keep
    return append(&batch.heap, value, <size_t> length) == DECODE_OK


cdef inline const uint8_t* strip_spans(const step_t* step, const uint8_t* pos, uint8_t* out, uint64_t nulls,
                                       rows_t* rows, size_t width) noexcept nogil:
    # width: of the length before a value
    cdef span_t* span = <span_t*> out
    cdef int64_t budget = rows.budget
    cdef const uint8_t* buffer = rows.buffer
    cdef bint copies = rows.batch.copies
    cdef uint64_t keep
    cdef uint64_t length
    cdef uint32_t k
    for k in range(step.count):
        keep = take_keep(&nulls)
        length = load_le(pos, width) & keep
        pos += width & keep
        if unlikely(not pays(&budget, length, rows)):
            return failed(rows, step, k, DECODE_MALFORMED)
        span.offset = <uint64_t> (pos - buffer) & keep
        span.length = <uint32_t> length
        if unlikely(copies) and not copy_value(rows.batch, pos, length, keep, span):
            return failed(rows, step, k, DECODE_NO_MEMORY)
        pos += length
        out += step.apart
        span = <span_t*> out
    rows.budget = budget
    return pos


cdef inline const uint8_t* strip_span1(const step_t* step, const uint8_t* pos, uint8_t* out, uint64_t nulls,
                                       rows_t* rows) noexcept nogil:
    return strip_spans(step, pos, out, nulls, rows, 1)


cdef inline const uint8_t* strip_span2(const step_t* step, const uint8_t* pos, uint8_t* out, uint64_t nulls,
                                       rows_t* rows) noexcept nogil:
    return strip_spans(step, pos, out, nulls, rows, 2)


cdef inline const uint8_t* strip_span(const step_t* step, const uint8_t* pos, uint8_t* out, uint64_t nulls,
                                      rows_t* rows) noexcept nogil:
    return strip_spans(step, pos, out, nulls, rows, step.width)


cdef inline const uint8_t* strip_skip_value(const step_t* step, const uint8_t* pos, uint8_t* out, uint64_t nulls,
                                            rows_t* rows) noexcept nogil:
    cdef uint64_t keep
    cdef uint64_t length
    cdef uint32_t k
    for k in range(step.count):
        keep = take_keep(&nulls)
        length = load_le(pos, step.width) & keep
        if unlikely(not pays(&rows.budget, length, rows)):
            return failed(rows, step, k, DECODE_MALFORMED)
        pos += (step.width & keep) + length
    return pos


# ---------------------------------------------------------------- decimals

cdef inline decimal_layout_t decimal_layout_of(const step_t* step) noexcept nogil:
    cdef decimal_layout_t layout
    layout.head_digits = step.a
    layout.full_groups = step.b
    layout.tail_digits = step.c
    return layout


cdef inline const uint8_t* strip_decimal64(const step_t* step, const uint8_t* pos, uint8_t* out, uint64_t nulls,
                                           rows_t* rows) noexcept nogil:
    # Decimals of at most 8 bytes
    cdef uint64_t keep
    cdef int64_t v = 0
    cdef uint32_t k
    for k in range(step.count):
        keep = take_keep(&nulls)
        if not decode_decimal64(pos, &step.decimal64, &v) and keep:
            return failed(rows, step, k, DECODE_BAD_VALUE)
        v &= keep
        memcpy(out, &v, 8)
        pos += step.width & keep
        out += step.apart
    return pos


cdef inline const uint8_t* strip_decimal128(const step_t* step, const uint8_t* pos, uint8_t* out, uint64_t nulls,
                                            rows_t* rows) noexcept nogil:
    # Decimals of at most 38 digits; those of up to 18 are stored in 8 bytes
    cdef decimal_layout_t layout = decimal_layout_of(step)
    cdef uint64_t[2] limbs
    cdef uint64_t keep
    cdef uint32_t k
    for k in range(step.count):
        keep = take_keep(&nulls)
        if unlikely((not decode_decimal128(pos, layout, limbs)) & keep):
            return failed(rows, step, k, DECODE_BAD_VALUE)
        limbs[0] &= keep
        limbs[1] &= keep
        memcpy(out, limbs, 8)
        if step.out_width == 16:
            memcpy(out + 8, &limbs[1], 8)
        pos += step.width & keep
        out += step.apart
    return pos


cdef inline const uint8_t* strip_decimal256(const step_t* step, const uint8_t* pos, uint8_t* out, uint64_t nulls,
                                            rows_t* rows) noexcept nogil:
    cdef decimal_layout_t layout = decimal_layout_of(step)
    cdef uint64_t[4] limbs
    cdef uint64_t keep
    cdef uint32_t k
    cdef uint32_t i
    for k in range(step.count):
        keep = take_keep(&nulls)
        if not decode_decimal256(pos, layout, limbs) and keep:
            return failed(rows, step, k, DECODE_BAD_VALUE)
        for i in range(4):
            limbs[i] &= keep
        memcpy(out, limbs, 32)
        pos += step.width & keep
        out += step.apart
    return pos


# ---------------------------------------------------------------- dates and times

ctypedef bint (*read_time_t)(const step_t* step, const uint8_t* pos, datetime_fields_t* at, int64_t* v) noexcept nogil


cdef inline bint read_date(const step_t* step, const uint8_t* pos, datetime_fields_t* at, int64_t* v) noexcept nogil:
    return decode_date(pos, at, v)


cdef inline bint read_datetime2(const step_t* step, const uint8_t* pos, datetime_fields_t* at,
                                int64_t* v) noexcept nogil:
    return decode_datetime2(pos, step.a, at, v)


cdef inline bint read_timestamp2(const step_t* step, const uint8_t* pos, datetime_fields_t* at,
                                 int64_t* v) noexcept nogil:
    return decode_timestamp2(pos, step.a, at, v)


cdef inline bint read_old_time(const step_t* step, const uint8_t* pos, datetime_fields_t* at,
                               int64_t* v) noexcept nogil:
    # DATETIME and TIMESTAMP before 5.6, and MariaDB's own
    if step.code == WIRE_DATETIME:
        return decode_datetime(pos, at, v)
    if step.code == WIRE_TIMESTAMP:
        return decode_timestamp(pos, at, v)
    if step.code == WIRE_MARIA_DATETIME:
        return decode_maria_datetime(pos, step.width, step.a, at, v)
    return decode_maria_timestamp(pos, step.width, step.a, at, v)


cdef inline const uint8_t* strip_times(const step_t* step, const uint8_t* pos, uint8_t* out, uint64_t nulls,
                                       rows_t* rows, read_time_t read_time) noexcept nogil:
    cdef datetime_fields_t at
    cdef uint64_t keep
    cdef int64_t v = 0
    cdef bint valid
    cdef uint32_t k
    for k in range(step.count):
        keep = take_keep(&nulls)
        valid = read_time(step, pos, &at, &v)
        if unlikely(not valid and keep):
            v = NOT_A_TIME
            if add_invalid_date(rows.batch, <uint16_t> (step.column + k), &at) != DECODE_OK:
                return failed(rows, step, k, DECODE_NO_MEMORY)
        v &= keep
        memcpy(out, &v, 8)
        pos += step.width & keep
        out += step.apart
    return pos


cdef inline const uint8_t* strip_date(const step_t* step, const uint8_t* pos, uint8_t* out, uint64_t nulls,
                                      rows_t* rows) noexcept nogil:
    return strip_times(step, pos, out, nulls, rows, read_date)


cdef inline const uint8_t* strip_datetime2(const step_t* step, const uint8_t* pos, uint8_t* out, uint64_t nulls,
                                           rows_t* rows) noexcept nogil:
    return strip_times(step, pos, out, nulls, rows, read_datetime2)


cdef inline const uint8_t* strip_timestamp2(const step_t* step, const uint8_t* pos, uint8_t* out, uint64_t nulls,
                                            rows_t* rows) noexcept nogil:
    return strip_times(step, pos, out, nulls, rows, read_timestamp2)


cdef inline const uint8_t* strip_old_time(const step_t* step, const uint8_t* pos, uint8_t* out, uint64_t nulls,
                                          rows_t* rows) noexcept nogil:
    return strip_times(step, pos, out, nulls, rows, read_old_time)


cdef inline const uint8_t* strip_number(const step_t* step, const uint8_t* pos, uint8_t* out, uint64_t nulls,
                                        rows_t* rows) noexcept nogil:
    # Operations of at most 8 bytes for which every value is valid
    cdef uint64_t keep
    cdef int64_t v = 0
    cdef uint32_t _k
    for _k in range(step.count):
        keep = take_keep(&nulls)
        if step.code == WIRE_INT24:
            v = <int32_t> (load_u24_over(pos) << 8) >> 8
        elif step.code == WIRE_UINT24:
            v = load_u24_over(pos)
        elif step.code == WIRE_YEAR:
            v = 1900 + pos[0] if pos[0] else 0
        elif step.code == WIRE_BIT:
            v = <int64_t> load_be_over(pos, step.width)
        elif step.code == WIRE_TIME2:
            v = decode_time2(pos, step.a)
        elif step.code == WIRE_TIME:
            v = decode_time(pos)
        elif step.code == WIRE_MARIA_TIME:
            v = decode_maria_time(pos, step.width, step.a)
        else:                                   # WIDEN, and copies of no common width
            v = <int64_t> load_le(pos, step.width)
        v &= keep
        if step.out_width == 8:
            memcpy(out, &v, 8)
        elif step.out_width == 4:
            memcpy(out, &v, 4)
        elif step.out_width == 2:
            memcpy(out, &v, 2)
        else:
            out[0] = <uint8_t> v
        pos += step.width & keep
        out += step.apart
    return pos


cdef inline strip_t strip_of(const step_t* step) noexcept nogil:
    cdef uint8_t code = step.code
    if code == WIRE_COPY1:
        return strip_copy1
    if code == WIRE_COPY2:
        return strip_copy2
    if code == WIRE_COPY4:
        return strip_copy4
    if code == WIRE_COPY8:
        return strip_copy8
    if code == WIRE_SKIP or code == WIRE_NOTHING:
        return strip_skip
    if code == WIRE_SPAN1:
        return strip_span1
    if code == WIRE_SPAN2:
        return strip_span2
    if code == WIRE_SPAN:
        return strip_span
    if code == WIRE_SKIP_VALUE:
        return strip_skip_value
    if code == WIRE_DECIMAL64:
        return strip_decimal64 if step.width <= 8 else strip_decimal128
    if code == WIRE_DECIMAL128:
        return strip_decimal128
    if code == WIRE_DECIMAL256:
        return strip_decimal256
    if code == WIRE_DATE:
        return strip_date
    if code == WIRE_DATETIME2:
        return strip_datetime2
    if code == WIRE_TIMESTAMP2:
        return strip_timestamp2
    if code == WIRE_DATETIME or code == WIRE_TIMESTAMP or code == WIRE_MARIA_DATETIME or code == WIRE_MARIA_TIMESTAMP:
        return strip_old_time
    return strip_number
