# Which columns an event's rows have, and the steps that decode them. A set is made again only when an event names
# other columns than the event before it of the same table, which is rare.

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport malloc
from libc.string cimport memcmp, memcpy, memset

from decode.plan cimport (
    ROOM, STRIP_MAX, WIRE_COPY, WIRE_COPY8, WIRE_DECIMAL64, WIRE_NOTHING, WIRE_SKIP, WIRE_SKIP_VALUE, WIRE_SPAN,
    WIRE_SPAN1, image_set_t, plan_t, step_t, wire_op_t,
)
from decode.strips cimport decimal_layout_of, strip_joined, strip_of
from types.decimal cimport decimal64_of
from wire.codes cimport DECODE_NO_MEMORY, DECODE_OK
from wire.cursor cimport unlikely


cdef inline step_t step_of(const wire_op_t* op) noexcept nogil:
    cdef step_t step
    memset(&step, 0, sizeof(step))
    step.code = op.code
    step.a = op.a
    step.b = op.b
    step.c = op.c
    step.column = op.column
    step.count = 1
    step.width = op.width
    step.out = op.out
    step.out_width = op.out_width
    step.apart = op.out_width
    step.strip = strip_of(&step)
    if op.code == WIRE_DECIMAL64 and op.width <= 8:
        step.decimal64 = decimal64_of(decimal_layout_of(&step), op.width)
    return step


cdef inline bint repeats(const step_t* step, const wire_op_t* op) noexcept nogil:
    # Whether op is one more column of the step's kind
    return (step.code == op.code and step.a == op.a and step.b == op.b and step.c == op.c
            and step.width == op.width and step.out_width == op.out_width and step.count < STRIP_MAX
            and step.column + step.count == op.column and step.out + step.count * step.out_width == op.out)


cdef inline bint joins(const step_t* step, const wire_op_t* op) noexcept nogil:
    # The step's bytes and op's are adjacent on the wire: are they adjacent in the record, too?
    if step.code == WIRE_SKIP and op.code == WIRE_SKIP:
        return True
    return (WIRE_COPY <= step.code <= WIRE_COPY8 and WIRE_COPY <= op.code <= WIRE_COPY8
            and step.out + step.width == op.out)


cdef inline int refill_image_set(const plan_t* plan, const uint8_t* present, image_set_t* out) noexcept nogil:
    cdef uint32_t n = plan.column_count
    cdef uint32_t i
    cdef const wire_op_t* op
    cdef step_t* last
    cdef uint8_t* absent
    cdef bint any_nothing = False
    if out.sparse == NULL:
        out.sparse = <step_t*> malloc(2 * <size_t> n * sizeof(step_t) + 4 * <size_t> plan.bitmap_len + 2 * ROOM)
        if out.sparse == NULL:
            return DECODE_NO_MEMORY
    out.dense = out.sparse + n
    out.present = <uint8_t*> (out.dense + n)
    out.bitmaps = out.present + plan.bitmap_len             # with ROOM after it: copied in whole words
    out.no_nulls = out.bitmaps + 2 * plan.bitmap_len + ROOM
    memcpy(out.present, present, plan.bitmap_len)
    memset(out.bitmaps, 0, 3 * <size_t> plan.bitmap_len + 2 * ROOM)
    absent = out.bitmaps + plan.bitmap_len
    out.count = 0
    out.fixed_len = 0
    out.sparse_count = 0
    out.dense_count = 0
    out.fixed = True
    for i in range(n):
        if not present[i >> 3] >> (i & 7) & 1:
            absent[i >> 3] |= <uint8_t> (1 << (i & 7))
            continue
        op = &plan.ops[i]
        out.count += 1
        out.fixed_len += op.width
        if op.code == WIRE_NOTHING:                         # NULL, whatever the row's bitmap says
            out.bitmaps[i >> 3] |= <uint8_t> (1 << (i & 7))
            any_nothing = True
        if WIRE_SPAN1 <= op.code <= WIRE_SPAN or op.code == WIRE_SKIP_VALUE:
            out.fixed = False
        if out.sparse_count and repeats(&out.sparse[out.sparse_count - 1], op):
            out.sparse[out.sparse_count - 1].count += 1
        else:
            out.sparse[out.sparse_count] = step_of(op)
            out.sparse_count += 1
        last = &out.dense[out.dense_count - 1] if out.dense_count else NULL
        if last != NULL and joins(last, op):
            last.width += op.width
            if last.code != WIRE_SKIP:
                last.code = WIRE_COPY
                last.strip = strip_joined
        elif last != NULL and repeats(last, op):
            last.count += 1
        else:
            out.dense[out.dense_count] = step_of(op)
            out.dense_count += 1
    out.whole = out.count == n and not any_nothing          # the row's bitmap is added to that of the set
    out.fixed = out.fixed and out.whole and n != 0
    out.null_len = (out.count + 7) // 8
    out.null_mask = ((<uint64_t> 1 << ((out.count - 1) & 63)) << 1) - 1 if out.count else 0
    return DECODE_OK


cdef inline bint has_columns(const image_set_t* images, const plan_t* plan, const uint8_t* present) noexcept nogil:
    # Whether it is already for the columns that `present` names. For one byte a call takes longer than the comparison.
    if images.sparse == NULL:
        return False
    if plan.bitmap_len == 1:
        return images.present[0] == present[0]
    return memcmp(images.present, present, plan.bitmap_len) == 0


cdef inline int fill_image_set(const plan_t* plan, const uint8_t* present, image_set_t* out) noexcept nogil:
    # Fills `out` for the columns that `present` names, unless it has them already
    if unlikely(not has_columns(out, plan, present)):
        return refill_image_set(plan, present, out)
    return DECODE_OK
