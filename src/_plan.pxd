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


cdef packed struct op_t:          # twin of OP_DTYPE in _rows.pyx
    uint8_t code
    uint8_t a                     # temporal: fraction bytes or digits; decimal: head digits
    uint8_t b                     # decimal: full groups
    uint8_t c                     # decimal: tail digits
    uint16_t column               # index in the table
    uint16_t out_width            # bytes in the record
    uint32_t width                # bytes on the wire, or of the length before a value
    uint32_t out                  # offset in the record


# The columns of one kind of image: those that its columns-present bitmap names.
cdef struct image_set_t:
    uint32_t count                # columns present
    uint32_t null_len             # bytes of the NULL bitmap
    uint8_t null_mask             # bits of its last byte that mean something
    bint whole                    # all columns are present
    uint32_t fixed_len            # wire bytes of all present columns, values behind lengths apart
    op_t* ops                     # one per present column
    op_t* merged                  # the same for rows without NULLs, neighbours joined
    uint32_t merged_count
    uint8_t* present              # bitmap as on the wire
    uint8_t* absent               # its complement, for the record
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


cdef inline bint mergeable(const op_t* a, const op_t* b) noexcept nogil:
    # a and b follow each other on the wire: do they in the record, too?
    if a.code == OP_SKIP and b.code == OP_SKIP:
        return True
    return (OP_COPY <= a.code <= OP_COPY8 and OP_COPY <= b.code <= OP_COPY8
            and a.out + a.width == b.out)


cdef inline uint8_t copy_code(uint32_t width) noexcept nogil:
    return (OP_COPY1 if width == 1 else OP_COPY2 if width == 2 else OP_COPY4 if width == 4
            else OP_COPY8 if width == 8 else OP_COPY)


cdef inline void free_image_set(image_set_t* images) noexcept nogil:
    free(images.ops)            # one block holds all four arrays
    images.ops = NULL


cdef inline int fill_image_set(const plan_t* plan, const uint8_t* present, image_set_t* out) noexcept nogil:
    # out takes the columns that `present` names; nothing to do where it has them already
    cdef uint32_t n = plan.column_count
    cdef uint32_t i
    cdef op_t* op
    cdef op_t* last
    if out.ops != NULL and memcmp(out.present, present, plan.bitmap_len) == 0:
        return DECODE_OK
    if out.ops == NULL:
        out.ops = <op_t*> malloc(2 * <size_t> n * sizeof(op_t) + 3 * plan.bitmap_len + 1)
        if out.ops == NULL:
            return DECODE_NO_MEMORY
    out.merged = out.ops + n
    out.present = <uint8_t*> (out.merged + n)
    out.absent = out.present + plan.bitmap_len
    memcpy(out.present, present, plan.bitmap_len)
    out.no_nulls = out.absent + plan.bitmap_len
    memset(out.absent, 0, 2 * plan.bitmap_len)
    out.count = 0
    out.fixed_len = 0
    out.merged_count = 0
    for i in range(n):
        if not present[i >> 3] >> (i & 7) & 1:
            out.absent[i >> 3] |= <uint8_t> (1 << (i & 7))
            continue
        op = &out.ops[out.count]
        op[0] = plan.ops[i]
        out.count += 1
        out.fixed_len += op.width
        last = &out.merged[out.merged_count - 1] if out.merged_count else NULL
        if last != NULL and mergeable(last, op):
            last.width += op.width
            if last.code != OP_SKIP:
                last.code = copy_code(last.width)
        else:
            out.merged[out.merged_count] = op[0]
            out.merged_count += 1
    out.whole = out.count == n
    out.null_len = (out.count + 7) // 8
    out.null_mask = <uint8_t> ((1 << (out.count & 7)) - 1) if out.count & 7 else 0xFF
    return DECODE_OK


cdef inline void free_plan(plan_t* plan) noexcept nogil:
    if plan != NULL:
        free_image_set(&plan.images[0])
        free_image_set(&plan.images[1])
        free(plan.ops)
        free(plan.json_columns)
        free(plan.nullable)
        free(plan)
