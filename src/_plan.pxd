# A plan: how the rows of one table definition are taken off the wire, one operation per
# column. Made once per definition (binlog_core/plans.py), walked once per row.

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy, memset

from _codes cimport DECODE_NO_MEMORY, DECODE_OK

cdef enum wire_op_t:              # names in WIRE_OPS of _rows.pyx
    OP_NOTHING = 0                # MYSQL_TYPE_NULL: no bytes
    OP_SKIP = 1                   # a fixed-size column nobody asked for
    OP_SKIP_VALUE = 2             # the same with a length before it
    OP_COPY = 3                   # as it is; neighbours are merged
    OP_COPY1 = 4
    OP_COPY2 = 5
    OP_COPY4 = 6
    OP_COPY8 = 7
    OP_INT24 = 8
    OP_UINT24 = 9
    OP_WIDEN = 10                 # little-endian into a wider unsigned: ENUM, SET
    OP_BIT = 11                   # big-endian
    OP_YEAR = 12
    OP_DATE = 13
    OP_TIME = 14
    OP_DATETIME = 15
    OP_TIMESTAMP = 16
    OP_TIME2 = 17
    OP_DATETIME2 = 18
    OP_TIMESTAMP2 = 19
    OP_MARIA_TIME = 20
    OP_MARIA_DATETIME = 21
    OP_MARIA_TIMESTAMP = 22
    OP_DECIMAL64 = 23
    OP_DECIMAL128 = 24
    OP_DECIMAL256 = 25
    OP_SPAN1 = 26                 # length of 1 byte, then the value
    OP_SPAN2 = 27
    OP_SPAN = 28                  # length of 3 or 4 bytes


cdef enum:
    ROOM = 32                     # bytes behind a value, and behind a record, that whole words may touch
    RUN_MAX = 56                  # columns of a step: their NULL bits come in one load, from any bit of a byte


cdef packed struct op_t:          # twin of OP_DTYPE in _rows.pyx
    uint8_t code
    uint8_t a                     # temporal: fraction bytes or digits; decimal: head digits
    uint8_t b                     # decimal: full groups
    uint8_t c                     # decimal: tail digits
    uint16_t column               # index in the table
    uint16_t out_width            # bytes in the record
    uint32_t width                # bytes on the wire, or of the length before a value
    uint32_t out                  # offset in the record


# Neighbouring columns that are stored alike, on the wire and in the record.
cdef struct step_t:
    uint8_t code
    uint8_t a
    uint8_t b
    uint8_t c
    uint16_t column               # index of the first in the table; the others follow it
    uint16_t count
    uint32_t width                # of each, as in op_t
    uint32_t out                  # of the first
    uint32_t out_width            # of each


# The columns of one kind of image: those that its columns-present bitmap names.
cdef struct image_set_t:
    uint32_t count                # columns present
    uint32_t null_len             # bytes of the NULL bitmap
    uint64_t null_mask            # bits of its last one to eight bytes that mean something
    bint whole                    # all columns are present
    uint32_t fixed_len            # wire bytes of all present columns, values behind lengths apart
    step_t* sparse                # all present columns, up to RUN_MAX to a step
    step_t* dense                 # the same for rows without NULLs: copies joined, whatever their widths
    uint32_t sparse_count
    uint32_t dense_count
    uint8_t* present              # bitmap as on the wire
    uint8_t* bitmaps              # of a record without NULLs: null_bitmap, absent_bitmap
    uint8_t* no_nulls             # a NULL bitmap without NULLs


cdef struct plan_t:
    uint32_t column_count
    uint32_t bitmap_len
    uint32_t image_len
    uint32_t record_len
    bint wanted                   # False: rows are not decoded at all
    bint raw                      # rows cannot be decoded: one record per event, a span of its row area
    op_t* ops
    uint16_t* json_columns        # indexes of the table's JSON columns, in order
    uint32_t json_count
    uint8_t* nullable             # 1 byte per column, for rows of version 0
    image_set_t[2] images         # before and after, as the last event had them
    uint32_t last_count           # records of the last group: the first allocation of the next


cdef inline bint is_value(uint8_t code) noexcept nogil:
    return code == OP_SKIP_VALUE or code >= OP_SPAN1


cdef inline step_t step_of(const op_t* op) noexcept nogil:
    cdef step_t step
    step.code = op.code
    step.a = op.a
    step.b = op.b
    step.c = op.c
    step.column = op.column
    step.count = 1
    step.width = op.width
    step.out = op.out
    step.out_width = op.out_width
    return step


cdef inline bint repeats(const step_t* step, const op_t* op) noexcept nogil:
    # op is the step's columns once more
    return (step.code == op.code and step.a == op.a and step.b == op.b and step.c == op.c
            and step.width == op.width and step.out_width == op.out_width and step.count < RUN_MAX
            and step.column + step.count == op.column and step.out + step.count * step.out_width == op.out)


cdef inline bint joins(const step_t* step, const op_t* op) noexcept nogil:
    # The step's bytes and op's follow each other on the wire: do they in the record, too?
    if step.code == OP_SKIP and op.code == OP_SKIP:
        return True
    return (OP_COPY <= step.code <= OP_COPY8 and OP_COPY <= op.code <= OP_COPY8
            and step.out + step.width == op.out)


cdef inline uint8_t copy_code(uint32_t width) noexcept nogil:
    return (OP_COPY1 if width == 1 else OP_COPY2 if width == 2 else OP_COPY4 if width == 4
            else OP_COPY8 if width == 8 else OP_COPY)


cdef inline bint same_bytes(const uint8_t* a, const uint8_t* b, size_t n) noexcept nogil:
    # For bitmaps, most of which are too short for a call
    cdef size_t i
    if n > 8:
        return memcmp(a, b, n) == 0
    for i in range(n):
        if a[i] != b[i]:
            return False
    return True


cdef inline void free_image_set(image_set_t* images) noexcept nogil:
    free(images.sparse)         # one block holds all arrays
    images.sparse = NULL


cdef inline int fill_image_set(const plan_t* plan, const uint8_t* present, image_set_t* out) noexcept nogil:
    # out takes the columns that `present` names; nothing to do where it has them already
    if out.sparse != NULL and same_bytes(out.present, present, plan.bitmap_len):
        return DECODE_OK
    return refill_image_set(plan, present, out)


cdef inline int refill_image_set(const plan_t* plan, const uint8_t* present, image_set_t* out) noexcept nogil:
    cdef uint32_t n = plan.column_count
    cdef uint32_t i
    cdef const op_t* op
    cdef step_t* last
    cdef uint8_t* absent
    if out.sparse == NULL:
        out.sparse = <step_t*> malloc(2 * <size_t> n * sizeof(step_t) + 4 * <size_t> plan.bitmap_len + 2 * ROOM)
        if out.sparse == NULL:
            return DECODE_NO_MEMORY
    out.dense = out.sparse + n
    out.present = <uint8_t*> (out.dense + n)
    out.bitmaps = out.present + plan.bitmap_len             # ROOM behind: copied in whole words
    out.no_nulls = out.bitmaps + 2 * plan.bitmap_len + ROOM
    memcpy(out.present, present, plan.bitmap_len)
    memset(out.bitmaps, 0, 3 * <size_t> plan.bitmap_len + 2 * ROOM)
    absent = out.bitmaps + plan.bitmap_len
    out.count = 0
    out.fixed_len = 0
    out.sparse_count = 0
    out.dense_count = 0
    for i in range(n):
        if not present[i >> 3] >> (i & 7) & 1:
            absent[i >> 3] |= <uint8_t> (1 << (i & 7))
            continue
        op = &plan.ops[i]
        out.count += 1
        out.fixed_len += op.width
        if out.sparse_count and repeats(&out.sparse[out.sparse_count - 1], op):
            out.sparse[out.sparse_count - 1].count += 1
        else:
            out.sparse[out.sparse_count] = step_of(op)
            out.sparse_count += 1
        last = &out.dense[out.dense_count - 1] if out.dense_count else NULL
        if last != NULL and joins(last, op):
            last.width += op.width
            if last.code != OP_SKIP:
                last.code = copy_code(last.width)
        elif last != NULL and repeats(last, op):
            last.count += 1
        else:
            out.dense[out.dense_count] = step_of(op)
            out.dense_count += 1
    out.whole = out.count == n
    out.null_len = (out.count + 7) // 8
    out.null_mask = ((<uint64_t> 1 << ((out.count - 1) & 63)) << 1) - 1 if out.count else 0
    return DECODE_OK


cdef inline void free_plan(plan_t* plan) noexcept nogil:
    if plan != NULL:
        free_image_set(&plan.images[0])
        free_image_set(&plan.images[1])
        free(plan.ops)
        free(plan.json_columns)
        free(plan.nullable)
        free(plan)
