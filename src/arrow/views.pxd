# Views of values where they lie, as Arrow's types "string view" and "binary view" have them. Header-only.

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from arrow.arena cimport allot, arena_t, init_array
from arrow.c_data cimport ArrowArray
from arrow.gather_spans cimport locate_spans
from arrow.tile cimport (
    GATHER_BAD_NUMBER, GATHER_BAD_TEXT, GATHER_OK, GATHER_TOO_LARGE, LAYOUT_BYTES_VIEW, LAYOUT_UTF8_VIEW, bad_row,
    column_t, gather_status_t, tile_t,
)
from types.utf8 cimport is_utf8
from wire.cursor cimport load_le, load_u32, load_u64

cdef extern from "arrow/views.h" nogil:
    enum:
        BINLOG_VIEW
        BINLOG_INLINED
        BINLOG_STEP

    ctypedef struct binlog_views_t:
        const uint8_t** at
        uint32_t offset
        uint32_t width
        const uint32_t* lengths
        int count
        int part_bits
        bint text
        const uint8_t* base
        uint8_t* views
        uint64_t used
        uint64_t first
        uint64_t end
        uint64_t high

    void binlog_put_view(uint8_t* view, const uint8_t* value, uint32_t length, uint64_t place, int part_bits) noexcept
    void binlog_put_place(uint8_t* view, uint64_t place, int part_bits) noexcept
    int binlog_make_views(bint wide, binlog_views_t* views, int i) noexcept


cdef enum:
    PART_BITS = 30          # a place has 31 bits, and so has a length
    SPARSE = 8              # where the rows are less than 1/8 of what would have to be kept, values are copied


cdef inline gather_status_t view_values(
    column_t* c, tile_t* tile, int begin, const uint8_t** at, uint32_t offset, uint32_t width
) noexcept nogil:
    # The tile's values from number `begin` on, checked if they are text. BINLOG_STEP bytes after each are readable.
    # width 0: `at` are the values, tile.lengths their lengths
    cdef int i
    cdef uint32_t length
    cdef const uint8_t* value
    cdef binlog_views_t views
    views.at = at
    views.offset = offset
    views.width = width
    views.lengths = tile.lengths
    views.count = tile.count
    views.part_bits = c.part_bits
    views.text = c.layout == LAYOUT_UTF8_VIEW
    views.base = tile.base
    views.views = c.slots + tile.first * BINLOG_VIEW
    views.used = c.data_len
    views.first = c.first if width == 0 else 0
    views.end = c.end
    views.high = 0
    i = binlog_make_views(tile.wide, &views, begin)
    c.data_len = <size_t> views.used
    c.first = views.first
    c.end = views.end
    if i < tile.count:
        return bad_row(c, tile, i, GATHER_TOO_LARGE)
    if views.high and views.text:
        for i in range(begin, tile.count):
            value = at[i] + offset + width
            length = <uint32_t> load_le(at[i] + offset, width) if width else tile.lengths[i]
            if not is_utf8(value, length):
                return bad_row(c, tile, i, GATHER_BAD_TEXT)
    return GATHER_OK


cdef inline void view_near(column_t* c, const tile_t* tile, int i) noexcept nogil:
    # A value after which BINLOG_STEP bytes are not readable
    cdef uint8_t[BINLOG_STEP] near
    cdef uint32_t length = tile.lengths[i]
    cdef uint64_t place = <uint64_t> (tile.starts[i] - tile.base)
    memset(near, 0, BINLOG_STEP)
    if length:
        memcpy(near, tile.starts[i], length)
    binlog_put_view(c.slots + (tile.first + i) * BINLOG_VIEW, near, length, place, c.part_bits)
    c.data_len += length
    if length > BINLOG_INLINED:
        c.first = min(c.first, place)
        c.end = max(c.end, place + length)


cdef inline gather_status_t gather_views(column_t* c, tile_t* tile) noexcept nogil:
    # From records
    cdef int i = 0
    cdef int count = tile.count
    cdef uint64_t total
    cdef const uint8_t* end = tile.buffer + tile.buffer_len
    cdef gather_status_t status = locate_spans(c, tile, &total)
    while i < count and status == GATHER_OK:
        if end - tile.starts[i] < BINLOG_STEP:
            view_near(c, tile, i)
            if c.layout == LAYOUT_UTF8_VIEW and not is_utf8(tile.starts[i], tile.lengths[i]):
                status = bad_row(c, tile, i, GATHER_BAD_TEXT)
            i += 1
            continue
        tile.count = i + 1
        while tile.count < count and end - tile.starts[tile.count] >= BINLOG_STEP:
            tile.count += 1
        status = view_values(c, tile, i, tile.starts, 0, 0)
        i = tile.count
    tile.count = count
    return status


cdef inline gather_status_t gather_label_views(column_t* c, const tile_t* tile) noexcept nogil:
    cdef int i
    cdef const uint8_t* value = tile.records + c.field
    cdef uint8_t* out = c.slots + tile.first * BINLOG_VIEW
    for i in range(tile.count):
        if value[0] >= c.code_count:
            return bad_row(c, tile, i, GATHER_BAD_NUMBER)
        memcpy(out, c.label_views + BINLOG_VIEW * value[0], BINLOG_VIEW)
        out += BINLOG_VIEW
        value += tile.stride
    return GATHER_OK


# ---------------------------------------------------------------- where long values lie

cdef inline uint64_t place_of(const uint8_t* view, int part_bits) noexcept nogil:
    return (<uint64_t> load_u32(view + 8) << part_bits) + load_u32(view + 12)


cdef inline bint copy_long_values(arena_t* arena, column_t* c, int64_t rows, const uint8_t* base) noexcept nogil:
    # Into one buffer of the column's own. False: no memory
    cdef uint8_t* copy = <uint8_t*> allot(arena, c.data_len)
    cdef uint8_t* view = c.slots
    cdef uint64_t at = 0
    cdef uint32_t length
    cdef int64_t _i
    if copy == NULL:
        return False
    for _i in range(rows):
        length = load_u32(view)
        if length > BINLOG_INLINED:
            memcpy(copy + at, base + place_of(view, c.part_bits), length)
            binlog_put_place(view, at, c.part_bits)
            at += length
        view += BINLOG_VIEW
    c.data = copy
    c.end = at
    return True


cdef inline bint is_view(const column_t* c) noexcept nogil:
    return c.layout == LAYOUT_UTF8_VIEW or c.layout == LAYOUT_BYTES_VIEW


cdef inline bint has_views(const column_t* items, int count) noexcept nogil:
    cdef int k
    for k in range(count):
        if is_view(&items[k]):
            return True
    return False


cdef inline int settle_views(arena_t* arena, column_t* items, int count, int64_t rows, uint32_t record_len,
                             const uint8_t* base) noexcept nogil:
    # Decide where the columns' long values lie: where they were found, or in a copy. 1: what is there must be kept.
    # -1: no memory
    cdef uint64_t used = <uint64_t> rows * record_len       # about as much as the rows had in the log, together with …
    cdef column_t* c
    cdef uint8_t* view
    cdef int64_t _i
    cdef int k, kept = 0
    for k in range(count):
        if is_view(&items[k]):
            used += items[k].data_len                       # … the text
    for k in range(count):
        c = &items[k]
        if not is_view(c) or c.end == 0:
            continue
        c.first = min(c.first, c.end)
        if c.end - c.first > SPARSE * used:
            if not copy_long_values(arena, c, rows, base):
                return -1
            continue
        c.data = <uint8_t*> base
        if c.first > c.end // SPARSE:                       # much lies before it
            for _i in range(rows):
                view = c.slots + _i * BINLOG_VIEW
                if load_u32(view) > BINLOG_INLINED:
                    binlog_put_place(view, place_of(view, c.part_bits) - c.first, c.part_bits)
            c.data += c.first
            c.end -= c.first
        kept = 1
    return kept


# ---------------------------------------------------------------- nodes

cdef inline bint fill_views(arena_t* arena, ArrowArray* node, void* slots, const uint8_t* data, uint64_t size,
                            int64_t rows, int part_bits) noexcept nogil:
    # A node of views into `size` bytes of data, in as many buffers as that needs. They overlap, so that no value is
    # divided. False: no memory
    cdef int64_t parts = <int64_t> ((size + (<uint64_t> 1 << part_bits) - 1) >> part_bits)
    cdef int64_t* sizes = <int64_t*> allot(arena, (<size_t> parts + 1) * sizeof(int64_t))
    cdef uint64_t at = 0
    cdef int64_t k
    if sizes == NULL or not init_array(arena, node, rows, 3 + parts, 0):
        return False
    node.buffers[1] = slots
    for k in range(parts):
        node.buffers[2 + k] = data + at
        sizes[k] = <int64_t> min(size - at, (<uint64_t> 1 << part_bits) + <uint64_t> INT32_MAX)
        at += <uint64_t> 1 << part_bits
    node.buffers[2 + parts] = sizes
    return True


cdef inline bint view_offsets(arena_t* arena, ArrowArray* node, const int32_t* offsets, const uint8_t* data,
                              int64_t rows) noexcept nogil:
    # A node of views of values that lie one after the other, with SLACK bytes after them. False: no memory
    cdef uint8_t* slots = <uint8_t*> allot(arena, <size_t> rows * BINLOG_VIEW + 1)
    cdef int64_t i
    if slots == NULL:
        return False
    for i in range(rows):
        binlog_put_view(slots + i * BINLOG_VIEW, data + offsets[i], <uint32_t> (offsets[i + 1] - offsets[i]),
                        <uint64_t> offsets[i], PART_BITS)
    return fill_views(arena, node, slots, data, <uint64_t> offsets[rows], rows, PART_BITS)
