# From records to columns: the loops that take one column's values of fixed size out of a tile of records.
# Header-only: used by _columns.pyx.

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport INT32_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from arrow.gather_spans cimport (
    gather_bytes, gather_decimal_text, gather_ewkb, gather_fixed_bytes, gather_geometry, gather_json, gather_label,
    gather_text, gather_vector,
)
from arrow.tile cimport (
    GATHER_BAD_NUMBER, GATHER_NO_MEMORY, GATHER_OK, GATHER_TOO_LARGE, LAYOUT_BYTES, LAYOUT_COMMIT_TIME,
    LAYOUT_COPY, LAYOUT_DAYS, LAYOUT_DECIMAL64, LAYOUT_DECIMAL_TEXT, LAYOUT_ENUM, LAYOUT_EWKB, LAYOUT_FIXED_BYTES,
    LAYOUT_GEOMETRY, LAYOUT_JSON, LAYOUT_LABEL, LAYOUT_LABEL_VIEW, LAYOUT_MICROS, LAYOUT_SECONDS, LAYOUT_SET,
    LAYOUT_UTF8, LAYOUT_VECTOR, bad_row, column_t, gather_status_t, is_null, mark_null, reserve_data, tile_t,
)
from arrow.views cimport gather_label_views, gather_views, is_view
from wire.cursor cimport load_u16, load_u32, load_u64

cdef struct two_words_t:
    uint64_t[2] words


cdef struct four_words_t:
    uint64_t[4] words


ctypedef fused slot_t:
    uint8_t
    uint16_t
    uint32_t
    uint64_t
    two_words_t
    four_words_t


cdef inline void copy_slots(slot_t* out, const uint8_t* value, ptrdiff_t stride, int count) noexcept nogil:
    # Each width has its own loop of four values a turn, in which a copy is one load and one store.
    cdef int i = 0
    while i + 4 <= count:
        memcpy(out + i, value, sizeof(slot_t))
        memcpy(out + i + 1, value + stride, sizeof(slot_t))
        memcpy(out + i + 2, value + 2 * stride, sizeof(slot_t))
        memcpy(out + i + 3, value + 3 * stride, sizeof(slot_t))
        value += 4 * stride
        i += 4
    while i < count:
        memcpy(out + i, value, sizeof(slot_t))
        value += stride
        i += 1


cdef inline gather_status_t copy_values(column_t* c, const tile_t* tile) noexcept nogil:
    cdef const uint8_t* value = tile.records + c.field
    if c.width == 1:
        copy_slots(c.slots + tile.first, value, tile.stride, tile.count)
    elif c.width == 2:
        copy_slots(<uint16_t*> c.slots + tile.first, value, tile.stride, tile.count)
    elif c.width == 4:
        copy_slots(<uint32_t*> c.slots + tile.first, value, tile.stride, tile.count)
    elif c.width == 8:
        copy_slots(<uint64_t*> c.slots + tile.first, value, tile.stride, tile.count)
    elif c.width == 16:
        copy_slots(<two_words_t*> c.slots + tile.first, value, tile.stride, tile.count)
    else:
        copy_slots(<four_words_t*> c.slots + tile.first, value, tile.stride, tile.count)
    return GATHER_OK


cdef inline gather_status_t gather_days(column_t* c, tile_t* tile) noexcept nogil:
    cdef int i, count = tile.count
    cdef ptrdiff_t stride = tile.stride
    cdef int64_t days
    cdef bint odd = False
    cdef const uint8_t* value = tile.records + c.field
    cdef int32_t* out = <int32_t*> c.slots + tile.first
    for i in range(count):
        days = <int64_t> load_u64(value)
        out[i] = <int32_t> days
        odd |= out[i] != days
        value += stride
    if not odd:
        return GATHER_OK
    for i in range(count):
        days = <int64_t> load_u64(tile.records + i * stride + c.field)
        if out[i] != days:
            out[i] = 0
            if days == INT64_MIN:
                mark_null(tile, i)
            elif not is_null(tile, i):
                return bad_row(c, tile, i, GATHER_BAD_NUMBER)
    return GATHER_OK


cdef inline gather_status_t gather_micros(column_t* c, tile_t* tile) noexcept nogil:
    cdef int i
    cdef int64_t* out = <int64_t*> c.slots + tile.first
    cdef bint odd = False
    copy_values(c, tile)
    for i in range(tile.count):
        odd |= out[i] == INT64_MIN
    if odd:
        for i in range(tile.count):
            if out[i] == INT64_MIN:
                out[i] = 0
                mark_null(tile, i)
    return GATHER_OK


cdef inline gather_status_t gather_decimal64(column_t* c, const tile_t* tile) noexcept nogil:
    cdef int i, count = tile.count
    cdef ptrdiff_t stride = tile.stride
    cdef int64_t number
    cdef const uint8_t* value = tile.records + c.field
    cdef int64_t* out = <int64_t*> c.slots + 2 * tile.first
    for i in range(count):
        number = <int64_t> load_u64(value)
        out[2 * i] = number
        out[2 * i + 1] = number >> 63
        value += stride
    return GATHER_OK


cdef inline gather_status_t gather_seconds(column_t* c, const tile_t* tile) noexcept nogil:
    cdef int i
    cdef const uint8_t* value = tile.records + c.field
    cdef int64_t* out = <int64_t*> c.slots + tile.first
    for i in range(tile.count):
        out[i] = load_u32(value) * <int64_t> 1000000
        value += tile.stride
    return GATHER_OK


cdef inline gather_status_t gather_commit_time(column_t* c, const tile_t* tile) noexcept nogil:
    # The commit's time where the log has it, else the time of the transaction's first event
    cdef int i, count = tile.count
    cdef ptrdiff_t stride = tile.stride
    cdef uint64_t number, last = <uint64_t> -1
    cdef int64_t time = 0
    cdef const uint8_t* value = tile.records + c.field
    cdef const uint8_t* transaction
    cdef int64_t* out = <int64_t*> c.slots + tile.first
    for i in range(count):
        number = load_u32(value)
        if number != last:
            if number >= c.code_count:
                return bad_row(c, tile, i, GATHER_BAD_NUMBER)
            transaction = c.transactions + number * c.transaction_len
            time = <int64_t> load_u64(transaction + c.commit_time)
            if time < 0:
                time = load_u32(transaction + c.begin_time) * <int64_t> 1000000
            last = number
        out[i] = time
        value += stride
    return GATHER_OK


ctypedef fused code_t:
    uint16_t
    uint32_t


cdef inline gather_status_t map_numbers(column_t* c, const tile_t* tile, code_t* out) noexcept nogil:
    cdef int i
    cdef uint32_t number
    cdef const uint8_t* value = tile.records + c.field
    for i in range(tile.count):
        number = load_u16(value)
        if number >= c.code_count:
            if not is_null(tile, i):
                return bad_row(c, tile, i, GATHER_BAD_NUMBER)
            number = 0
        out[i] = <code_t> c.codes[number]
        value += tile.stride
    return GATHER_OK


cdef inline gather_status_t gather_enum(column_t* c, const tile_t* tile) noexcept nogil:
    if c.width == 2:
        return map_numbers(c, tile, <uint16_t*> c.slots + tile.first)
    return map_numbers(c, tile, <uint32_t*> c.slots + tile.first)


cdef inline gather_status_t gather_set(column_t* c, const tile_t* tile) noexcept nogil:
    cdef int i
    cdef const uint32_t* code
    cdef uint64_t bits
    cdef uint64_t known = <uint64_t> -1 if c.code_count >= 64 else ((<uint64_t> 1) << c.code_count) - 1
    cdef const uint8_t* value = tile.records + c.field
    if not reserve_data(c, tile, 64 * <size_t> tile.count):
        return GATHER_NO_MEMORY
    for i in range(tile.count):
        bits = 0 if is_null(tile, i) else load_u64(value)
        if bits & ~known:
            return bad_row(c, tile, i, GATHER_BAD_NUMBER)
        code = c.codes
        while bits:
            # No branch on the bit, which could not be predicted: always written, kept only if the bit is set.
            c.data[c.data_len] = <uint8_t> code[0]
            c.data_len += bits & 1
            bits >>= 1
            code += 1
        if c.data_len > <size_t> INT32_MAX:
            return bad_row(c, tile, i, GATHER_TOO_LARGE)
        c.offsets[tile.first + i + 1] = <int32_t> c.data_len
        value += tile.stride
    return GATHER_OK


cdef inline gather_status_t gather(column_t* c, tile_t* tile) noexcept nogil:
    if c.layout == LAYOUT_COPY:
        return copy_values(c, tile)
    if c.layout == LAYOUT_DAYS:
        return gather_days(c, tile)
    if c.layout == LAYOUT_MICROS:
        return gather_micros(c, tile)
    if c.layout == LAYOUT_DECIMAL64:
        return gather_decimal64(c, tile)
    if c.layout == LAYOUT_SECONDS:
        return gather_seconds(c, tile)
    if c.layout == LAYOUT_COMMIT_TIME:
        return gather_commit_time(c, tile)
    if c.layout == LAYOUT_LABEL:
        return gather_label(c, tile)
    if c.layout == LAYOUT_ENUM:
        return gather_enum(c, tile)
    if c.layout == LAYOUT_SET:
        return gather_set(c, tile)
    if c.layout == LAYOUT_FIXED_BYTES:
        return gather_fixed_bytes(c, tile)
    if c.layout == LAYOUT_BYTES or c.layout == LAYOUT_UTF8:
        return gather_bytes(c, tile)
    if is_view(c):
        return gather_views(c, tile)
    if c.layout == LAYOUT_LABEL_VIEW:
        return gather_label_views(c, tile)
    if c.layout == LAYOUT_GEOMETRY:
        return gather_geometry(c, tile)
    if c.layout == LAYOUT_EWKB:
        return gather_ewkb(c, tile)
    if c.layout == LAYOUT_VECTOR:
        return gather_vector(c, tile)
    if c.layout == LAYOUT_DECIMAL_TEXT:
        return gather_decimal_text(c, tile)
    if c.layout == LAYOUT_JSON:
        return gather_json(c, tile)
    return gather_text(c, tile)
