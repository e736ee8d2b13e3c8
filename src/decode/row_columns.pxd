# Rows with NULLs into columns, row by row. Where a value lies depends on each NULL before it, so it is decoded as soon
# as it is found, by the same functions as for records. Values that the column stores as they are decoded go straight to
# their place; other values go to a lane, from which gather() takes them when the tile is full. Text is only located.

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport malloc
from libc.string cimport memcpy

from arrow.sink cimport LANE, sink_t
from arrow.tile cimport LAYOUT_BYTES, LAYOUT_COPY, LAYOUT_MICROS, LAYOUT_UTF8, column_t
from arrow.views cimport is_view
from decode.plan cimport STRIP_MAX, columnar_t, image_set_t, rows_t, step_t, strip_t, wire_column_t
from decode.row_image cimport begin_sparse
from decode.strips cimport (
    bits_from, failed, pays, strip_skip, strip_skip_value, strip_span1, strip_span2, take_keep,
)
from wire.codes cimport DECODE_MALFORMED
from wire.cursor cimport load_le, unlikely

cdef extern from "arrow/copy_spans.h" nogil:
    """
    /* An empty value after its length, and the bytes after it that a copy reads */
    static const uint8_t binlog_empty[4 + BINLOG_STEP] = {0};
    """
    const uint8_t* empty "binlog_empty"


# The destination of neighbouring columns that are stored alike: `out` in the tile's first row, `step.apart` from column
# to column, `stride` from row to row.
cdef struct aim_t:
    step_t step
    uint8_t* out
    size_t stride


cdef struct aims_t:
    aim_t* items                    # one for each column of the table, at most
    uint32_t count
    uint8_t* lanes


cdef inline bint is_text(const column_t* c) noexcept nogil:
    return is_view(c) or ((c.layout == LAYOUT_UTF8 or c.layout == LAYOUT_BYTES) and not c.pad)


cdef inline bint is_direct(const column_t* c) noexcept nogil:
    return c.layout == LAYOUT_COPY or c.layout == LAYOUT_MICROS


cdef inline const uint8_t* strip_texts(const step_t* step, const uint8_t* pos, uint8_t* out, uint64_t nulls,
                                       rows_t* rows, size_t width) noexcept nogil:
    # Locates text by its length, of this width. NULL is located as an empty value
    cdef int64_t budget = rows.budget
    cdef size_t apart = step.apart
    cdef size_t keep
    cdef size_t place
    cdef uint64_t length
    cdef uint32_t k
    for k in range(step.count):
        keep = take_keep(&nulls)
        place = <size_t> pos & keep | <size_t> empty & ~keep
        memcpy(out, &place, sizeof(place))
        length = load_le(pos, width) & keep
        if unlikely(not pays(&budget, length, rows)):
            return failed(rows, step, k, DECODE_MALFORMED)
        pos += (width & keep) + length
        out += apart
    rows.budget = budget
    return pos


cdef inline const uint8_t* strip_text1(const step_t* step, const uint8_t* pos, uint8_t* out, uint64_t nulls,
                                       rows_t* rows) noexcept nogil:
    return strip_texts(step, pos, out, nulls, rows, 1)


cdef inline const uint8_t* strip_text2(const step_t* step, const uint8_t* pos, uint8_t* out, uint64_t nulls,
                                       rows_t* rows) noexcept nogil:
    return strip_texts(step, pos, out, nulls, rows, 2)


cdef inline const uint8_t* strip_text(const step_t* step, const uint8_t* pos, uint8_t* out, uint64_t nulls,
                                      rows_t* rows) noexcept nogil:
    return strip_texts(step, pos, out, nulls, rows, step.width)


cdef inline strip_t strip_of_text(strip_t span) noexcept nogil:
    return strip_text1 if span == strip_span1 else strip_text2 if span == strip_span2 else strip_text


# ---------------------------------------------------------------- aims

cdef inline bint has_aims(const columnar_t* plan, sink_t* sink) noexcept nogil:
    # False: no memory
    cdef size_t n = plan.column_count
    cdef aims_t* aims = <aims_t*> sink.aims
    if aims != NULL:
        return True
    aims = <aims_t*> malloc(sizeof(aims_t) + n * sizeof(aim_t) + plan.lanes_len)
    if aims == NULL:
        return False
    aims.items = <aim_t*> (aims + 1)
    aims.lanes = <uint8_t*> (aims.items + n)
    sink.aims = aims
    return True


cdef inline bint goes_on(const aim_t* aim, const step_t* step, const uint8_t* out, size_t stride) noexcept nogil:
    # Whether the next column is one more of the aim's
    cdef const step_t* own = &aim.step
    return (own.strip == step.strip and own.code == step.code and own.a == step.a and own.b == step.b
            and own.c == step.c and own.width == step.width and own.out_width == step.out_width
            and own.count < STRIP_MAX and aim.stride == stride
            and (own.count == 1 or out == aim.out + own.count * own.apart))


cdef inline void take_aim(const columnar_t* plan, sink_t* sink) noexcept nogil:
    # Aims at the next tile
    cdef aims_t* aims = <aims_t*> sink.aims
    cdef aim_t* aim = aims.items - 1
    cdef const wire_column_t* column = plan.columns
    cdef const wire_column_t* last = column + plan.column_count
    cdef int64_t first = sink.made.rows
    cdef column_t* c
    cdef step_t step
    cdef uint8_t* out
    cdef size_t stride
    aims.count = 0
    while column < last:
        step = column.step
        out = NULL
        stride = 0
        if column.target < 0:
            step.strip = strip_skip_value if column.has_length else strip_skip
        else:
            c = &sink.made.items[column.target]
            if is_text(c):
                step.strip = strip_of_text(step.strip)
                out = <uint8_t*> (sink.places + LANE * <size_t> plan.targets[column.target].segment)
                stride = sizeof(void*)
            elif is_direct(c):
                out = c.slots + first * c.width
                stride = c.width
            else:
                out = aims.lanes + column.lane
                stride = step.out_width
        if aims.count and goes_on(aim, &step, out, stride):
            if aim.step.count == 1:
                aim.step.apart = <size_t> (out - aim.out)
            aim.step.count += 1
        else:
            aim += 1
            aims.count += 1
            aim.step = step
            aim.out = out
            aim.stride = stride
        column += 1


cdef inline const uint8_t* strip_columns(const columnar_t* plan, const image_set_t* images, sink_t* sink,
                                         const uint8_t* pos, const uint8_t* end, rows_t* rows) noexcept nogil:
    # Decodes a row image, from its bitmap, as the tile's next row. NULL: it is not valid, or no memory
    cdef const aims_t* aims = <const aims_t*> sink.aims
    cdef const aim_t* aim = aims.items
    cdef const aim_t* last = aim + aims.count
    cdef size_t row = <size_t> sink.pending
    cdef uint32_t at = 0
    if not begin_sparse(images, pos, (end - pos - <ptrdiff_t> plan.null_len) - <int64_t> images.fixed_len, rows):
        return NULL
    pos += plan.null_len
    while aim < last:
        pos = aim.step.strip(&aim.step, pos, aim.out + row * aim.stride, bits_from(rows.nulls, at), rows)
        if pos == NULL:
            return NULL
        at += aim.step.count
        aim += 1
    return pos
