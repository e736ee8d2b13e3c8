# From records to columns: the loops that take one column's values out of a tile of records.
# A tile's records stay in the L2 cache while every column is taken out of them.
# Header-only: used by _columns.pyx.

from libc.stdint cimport (
    INT32_MAX, INT32_MIN, INT64_MIN, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
)
from libc.stdlib cimport calloc, malloc, realloc
from libc.string cimport memcpy, memset

from _codes cimport DECODE_NO_MEMORY, DECODE_OK
from _cursor cimport load_u16, load_u32, load_u64
from _decimal_text cimport DECIMAL_TEXT_MAX, decimal_text
from _jsonb_text cimport append_jsonb_text
from _text_buffer cimport TextBuffer
from _utf8 cimport TRANSCODE_FAILED, UTF8_GROWTH, from_table, from_utf16, from_utf32, is_ascii, is_utf8

cdef enum:
    TILE = 512            # records; a multiple of 8, so that each begins a byte of the validity bitmap
    SLACK = 32            # bytes that a growing buffer has behind its end, for copies of fixed size

cdef enum layout_t:
    LAYOUT_NULL
    LAYOUT_COPY           # 1, 2, 4, 8, 16 or 32 bytes as they are
    LAYOUT_DAYS           # int64 days to int32
    LAYOUT_MICROS         # int64; its smallest is NaT, null here
    LAYOUT_DECIMAL64      # int64 to int128
    LAYOUT_ENUM           # number to place in the dictionary, 16 or 32 bits
    LAYOUT_SET
    LAYOUT_FIXED_BYTES    # MariaDB's UUID, VECTOR as fixed-size list
    LAYOUT_BYTES          # from here on with offsets
    LAYOUT_DECIMAL_TEXT   # four limbs to text
    LAYOUT_GEOMETRY
    LAYOUT_EWKB
    LAYOUT_VECTOR
    LAYOUT_UTF8
    LAYOUT_TABLE          # one-byte character set
    LAYOUT_UTF16_BE
    LAYOUT_UTF16_LE
    LAYOUT_UTF32
    LAYOUT_JSON           # binary JSON to text
    LAYOUT_OBJECT         # made by Python, value by value

cdef enum gather_status_t:
    GATHER_OK = 0
    GATHER_NO_MEMORY
    GATHER_BAD_SPAN       # a span outside the buffer
    GATHER_BAD_TEXT
    GATHER_BAD_JSON
    GATHER_BAD_LENGTH     # of a value whose length is fixed
    GATHER_BAD_NUMBER     # of an ENUM or SET, or a date out of range
    GATHER_TOO_LARGE      # offsets are 32 bits wide

cdef struct column_t:
    layout_t layout
    uint32_t field            # where in a record: the value,
    uint32_t null_byte        # the byte of the NULL bitmap that has its bit,
    uint32_t absent_byte      # and of the absent bitmap
    uint8_t mask
    uint32_t width            # bytes of one slot
    int scale                 # of DECIMAL
    uint64_t pad              # BINARY(n): shorter values get zero bytes up to it
    const uint32_t* codes     # ENUM, SET: number or bit to place in the dictionary
    uint32_t code_count
    bint missing              # the records do not have it
    const uint32_t* table     # one-byte character set, see from_table
    bint keeps_ascii
    uint8_t* validity         # NULL until the first null
    int64_t null_count
    uint8_t* slots
    int32_t* offsets
    uint8_t* data
    size_t data_len
    size_t data_capacity
    gather_status_t status
    int64_t failed            # the row that status is about

cdef struct tile_t:
    const uint8_t* records[TILE]
    uint8_t valid[TILE]
    bint has_nulls            # valid is filled in; else all are
    const uint8_t* starts[TILE]
    uint32_t lengths[TILE]
    int64_t first             # row of the tile's first record
    int count
    int64_t rows              # of all tiles
    const uint8_t* buffer     # that spans refer to
    uint64_t buffer_len


cdef inline bint reserve(column_t* c, size_t more) noexcept nogil:
    cdef size_t needed = c.data_len + more + SLACK
    cdef void* grown
    if needed <= c.data_capacity:
        return True
    needed += needed >> 1
    grown = realloc(c.data, needed)
    if grown == NULL:
        return False
    c.data = <uint8_t*> grown
    c.data_capacity = needed
    return True


cdef inline bint allocate_slots(column_t* c, int64_t rows) noexcept nogil:
    # Slots and offsets of all rows; data grows tile by tile.
    if c.width:
        c.slots = <uint8_t*> calloc(<size_t> rows * c.width + SLACK, 1)
        if c.slots == NULL:
            return False
    if c.layout >= LAYOUT_BYTES or c.layout == LAYOUT_SET:
        c.offsets = <int32_t*> malloc((<size_t> rows + 1) * sizeof(int32_t))
        if c.offsets == NULL:
            return False
        c.offsets[0] = 0
        return reserve(c, 0)
    return True


cdef inline bint all_null(column_t* c, int64_t rows) noexcept nogil:
    # A column that the records do not have; its slots are zero already.
    c.validity = <uint8_t*> calloc(<size_t> rows // 8 + 1, 1)
    c.null_count = rows
    if c.offsets != NULL:
        memset(c.offsets, 0, (<size_t> rows + 1) * sizeof(int32_t))
    return c.validity != NULL


cdef inline bint store_validity(column_t* c, tile_t* tile) noexcept nogil:
    # Only tiles that hold a null come here: the bitmap begins as all ones.
    cdef size_t size = <size_t> (tile.rows + 7) // 8 + 8
    cdef uint8_t* out
    cdef int i, nulls = 0
    if c.validity == NULL:
        c.validity = <uint8_t*> malloc(size)
        if c.validity == NULL:
            return False
        memset(c.validity, 0xFF, size)
    for i in range(tile.count):
        nulls += 1 - tile.valid[i]
    for i in range(tile.count, (tile.count + 7) & ~7):
        tile.valid[i] = 1
    out = c.validity + tile.first // 8
    for i in range(0, tile.count, 8):
        # Eight bytes of 0 or 1 to eight bits, the first the lowest.
        out[i >> 3] = <uint8_t> ((load_u64(tile.valid + i) * <uint64_t> 0x0102040810204080) >> 56)
    c.null_count += nulls
    return True


cdef inline void mark_null(tile_t* tile, int i) noexcept nogil:
    if not tile.has_nulls:
        memset(tile.valid, 1, TILE)
        tile.has_nulls = True
    tile.valid[i] = 0


cdef inline gather_status_t fail(column_t* c, tile_t* tile, int i, gather_status_t status) noexcept nogil:
    c.failed = tile.first + i
    return status


cdef inline gather_status_t copy_values(column_t* c, tile_t* tile) noexcept nogil:
    cdef int i, count = tile.count
    cdef const uint8_t** records = tile.records
    cdef size_t field = c.field
    cdef uint8_t* out = c.slots + tile.first * c.width
    # A loop for each width: the copy is one load and one store.
    if c.width == 1:
        for i in range(count):
            out[i] = records[i][field]
    elif c.width == 2:
        for i in range(count):
            memcpy(out + 2 * i, records[i] + field, 2)
    elif c.width == 4:
        for i in range(count):
            memcpy(out + 4 * i, records[i] + field, 4)
    elif c.width == 8:
        for i in range(count):
            memcpy(out + 8 * i, records[i] + field, 8)
    elif c.width == 16:
        for i in range(count):
            memcpy(out + 16 * i, records[i] + field, 16)
    else:
        for i in range(count):
            memcpy(out + 32 * i, records[i] + field, 32)
    return GATHER_OK


cdef inline gather_status_t gather_days(column_t* c, tile_t* tile) noexcept nogil:
    cdef int i
    cdef int64_t days
    cdef int32_t* out = <int32_t*> c.slots + tile.first
    for i in range(tile.count):
        days = <int64_t> load_u64(tile.records[i] + c.field)
        out[i] = <int32_t> days
        if days < INT32_MIN or days > INT32_MAX:
            out[i] = 0
            if days == INT64_MIN:
                mark_null(tile, i)
            elif not tile.has_nulls or tile.valid[i]:
                return fail(c, tile, i, GATHER_BAD_NUMBER)
    return GATHER_OK


cdef inline gather_status_t gather_micros(column_t* c, tile_t* tile) noexcept nogil:
    cdef int i
    cdef int64_t value
    cdef int64_t* out = <int64_t*> c.slots + tile.first
    for i in range(tile.count):
        value = <int64_t> load_u64(tile.records[i] + c.field)
        out[i] = value
        if value == INT64_MIN:
            out[i] = 0
            mark_null(tile, i)
    return GATHER_OK


cdef inline gather_status_t gather_decimal64(column_t* c, tile_t* tile) noexcept nogil:
    cdef int i
    cdef int64_t value
    cdef int64_t* out = <int64_t*> c.slots + 2 * tile.first
    for i in range(tile.count):
        value = <int64_t> load_u64(tile.records[i] + c.field)
        out[2 * i] = value
        out[2 * i + 1] = -1 if value < 0 else 0
    return GATHER_OK


cdef inline gather_status_t gather_enum(column_t* c, tile_t* tile) noexcept nogil:
    cdef int i
    cdef uint16_t number
    cdef uint32_t code
    for i in range(tile.count):
        number = load_u16(tile.records[i] + c.field)
        if number >= c.code_count:
            if not tile.has_nulls or tile.valid[i]:
                return fail(c, tile, i, GATHER_BAD_NUMBER)
            number = 0
        code = c.codes[number]
        if c.width == 2:
            (<uint16_t*> c.slots)[tile.first + i] = <uint16_t> code
        else:
            (<uint32_t*> c.slots)[tile.first + i] = code
    return GATHER_OK


cdef inline gather_status_t gather_set(column_t* c, tile_t* tile) noexcept nogil:
    cdef int i
    cdef uint32_t bit
    cdef uint64_t bits
    cdef uint64_t known = <uint64_t> -1 if c.code_count >= 64 else ((<uint64_t> 1) << c.code_count) - 1
    if not reserve(c, 64 * TILE):
        return GATHER_NO_MEMORY
    for i in range(tile.count):
        bits = load_u64(tile.records[i] + c.field)
        if tile.has_nulls and not tile.valid[i]:
            bits = 0
        if bits & ~known:
            return fail(c, tile, i, GATHER_BAD_NUMBER)
        bit = 0
        while bits:
            if bits & 1:
                c.data[c.data_len] = <uint8_t> c.codes[bit]
                c.data_len += 1
            bits >>= 1
            bit += 1
        if c.data_len > <size_t> INT32_MAX:
            return fail(c, tile, i, GATHER_TOO_LARGE)
        c.offsets[tile.first + i + 1] = <int32_t> c.data_len
    return GATHER_OK


cdef inline gather_status_t take_spans(column_t* c, tile_t* tile, uint64_t* total) noexcept nogil:
    # The tile's spans, checked against the buffer; total: the sum of their lengths.
    cdef int i
    cdef uint64_t offset, bytes_ = 0
    cdef uint32_t length
    cdef const uint8_t* span
    for i in range(tile.count):
        if tile.has_nulls and not tile.valid[i]:
            tile.starts[i] = tile.buffer
            tile.lengths[i] = 0
            continue
        span = tile.records[i] + c.field
        offset = load_u64(span)
        length = load_u32(span + 8)
        if length > tile.buffer_len or offset > tile.buffer_len - length:
            if length:
                return fail(c, tile, i, GATHER_BAD_SPAN)
            offset = 0      # nothing to read, wherever it may stand
        tile.starts[i] = tile.buffer + offset
        tile.lengths[i] = length
        bytes_ += length
    total[0] = bytes_
    return GATHER_OK


cdef inline void append_bytes(
    column_t* c, const uint8_t* start, uint32_t length, const uint8_t* end
) noexcept nogil:
    # Room is reserved. Most values are short: a copy of fixed size, where the buffer goes on that far.
    cdef uint8_t* out = c.data + c.data_len
    if length <= SLACK and end - start >= SLACK:
        memcpy(out, start, SLACK)
    elif length:
        memcpy(out, start, length)
    c.data_len += length


cdef inline gather_status_t gather_bytes(column_t* c, tile_t* tile) noexcept nogil:
    cdef int i
    cdef uint64_t total
    cdef uint64_t pad
    cdef size_t begin = c.data_len
    cdef gather_status_t status = take_spans(c, tile, &total)
    cdef const uint8_t* end = tile.buffer + tile.buffer_len
    if status != GATHER_OK:
        return status
    if begin + total + c.pad * TILE > <uint64_t> INT32_MAX:
        return fail(c, tile, 0, GATHER_TOO_LARGE)
    if not reserve(c, total + c.pad * TILE):
        return GATHER_NO_MEMORY
    for i in range(tile.count):
        append_bytes(c, tile.starts[i], tile.lengths[i], end)
        if tile.lengths[i] < c.pad and not (tile.has_nulls and not tile.valid[i]):
            pad = c.pad - tile.lengths[i]
            memset(c.data + c.data_len, 0, pad)
            c.data_len += pad
        c.offsets[tile.first + i + 1] = <int32_t> c.data_len
    if c.layout == LAYOUT_UTF8 and not is_ascii(c.data + begin, c.data_len - begin):
        if not is_utf8(c.data + begin, c.data_len - begin):
            return GATHER_BAD_TEXT
        # Valid as a whole, yet a character could be cut between two values.
        for i in range(tile.count):
            if tile.lengths[i] and tile.starts[i][0] & 0xC0 == 0x80:
                return GATHER_BAD_TEXT
    return GATHER_OK


cdef inline gather_status_t gather_text(column_t* c, tile_t* tile) noexcept nogil:
    cdef int i
    cdef uint64_t total
    cdef Py_ssize_t written
    cdef uint8_t* out
    cdef gather_status_t status = take_spans(c, tile, &total)
    if status != GATHER_OK:
        return status
    if c.data_len + total > <uint64_t> INT32_MAX:
        return fail(c, tile, 0, GATHER_TOO_LARGE)
    if not reserve(c, UTF8_GROWTH * total):
        return GATHER_NO_MEMORY
    for i in range(tile.count):
        out = c.data + c.data_len
        if c.layout == LAYOUT_TABLE:
            written = from_table(tile.starts[i], tile.lengths[i], out, c.table, c.keeps_ascii)
        elif c.layout == LAYOUT_UTF32:
            written = from_utf32(tile.starts[i], tile.lengths[i], out)
        else:
            written = from_utf16(tile.starts[i], tile.lengths[i], out, c.layout == LAYOUT_UTF16_BE)
        if written == TRANSCODE_FAILED:
            return fail(c, tile, i, GATHER_BAD_TEXT)
        c.data_len += written
        if c.data_len > <size_t> INT32_MAX:
            return fail(c, tile, i, GATHER_TOO_LARGE)
        c.offsets[tile.first + i + 1] = <int32_t> c.data_len
    return GATHER_OK


cdef inline gather_status_t gather_json(column_t* c, tile_t* tile) noexcept nogil:
    cdef int i, printed
    cdef uint64_t total
    cdef TextBuffer text
    cdef gather_status_t status = take_spans(c, tile, &total)
    if status != GATHER_OK:
        return status
    text.data = <char*> c.data
    text.length = c.data_len
    text.capacity = c.data_capacity
    for i in range(tile.count):
        if not tile.has_nulls or tile.valid[i]:
            printed = append_jsonb_text(tile.starts[i], tile.lengths[i], &text)
            if printed != DECODE_OK:
                status = GATHER_NO_MEMORY if printed == DECODE_NO_MEMORY else GATHER_BAD_JSON
            elif text.length > <size_t> INT32_MAX:
                status = GATHER_TOO_LARGE
            if status != GATHER_OK:
                fail(c, tile, i, status)
                break
        c.offsets[tile.first + i + 1] = <int32_t> text.length
    # The printer may have moved the data.
    c.data = <uint8_t*> text.data
    c.data_len = text.length
    c.data_capacity = text.capacity
    return status


cdef inline gather_status_t gather_decimal_text(column_t* c, tile_t* tile) noexcept nogil:
    cdef int i
    cdef uint64_t[4] limbs
    if c.data_len + DECIMAL_TEXT_MAX * TILE > <size_t> INT32_MAX:
        return fail(c, tile, 0, GATHER_TOO_LARGE)
    if not reserve(c, DECIMAL_TEXT_MAX * TILE):
        return GATHER_NO_MEMORY
    for i in range(tile.count):
        if not tile.has_nulls or tile.valid[i]:
            memcpy(limbs, tile.records[i] + c.field, sizeof(limbs))
            c.data_len += decimal_text(limbs, 4, c.scale, <char*> c.data + c.data_len)
        c.offsets[tile.first + i + 1] = <int32_t> c.data_len
    return GATHER_OK


cdef inline gather_status_t gather_fixed_bytes(column_t* c, tile_t* tile) noexcept nogil:
    # pad: shorter values are filled up with zero bytes (UUID), else they must have the width.
    cdef int i
    cdef uint64_t total
    cdef gather_status_t status = take_spans(c, tile, &total)
    if status != GATHER_OK:
        return status
    for i in range(tile.count):
        if tile.has_nulls and not tile.valid[i]:
            continue
        if tile.lengths[i] != c.width and (tile.lengths[i] > c.width or not c.pad):
            return fail(c, tile, i, GATHER_BAD_LENGTH)
        memcpy(c.slots + (tile.first + i) * c.width, tile.starts[i], tile.lengths[i])
    return GATHER_OK


cdef inline gather_status_t gather_geometry(column_t* c, tile_t* tile) noexcept nogil:
    # SRID, then WKB. A lenient server can hold '' in a geometry column: SRID 0, empty WKB.
    cdef int i
    cdef uint64_t total
    cdef gather_status_t status = take_spans(c, tile, &total)
    cdef const uint8_t* end = tile.buffer + tile.buffer_len
    if status != GATHER_OK:
        return status
    if c.data_len + total > <uint64_t> INT32_MAX:
        return fail(c, tile, 0, GATHER_TOO_LARGE)
    if not reserve(c, total):
        return GATHER_NO_MEMORY
    for i in range(tile.count):
        if tile.lengths[i]:
            if tile.lengths[i] < 4:
                return fail(c, tile, i, GATHER_BAD_LENGTH)
            memcpy(c.slots + 4 * (tile.first + i), tile.starts[i], 4)
            append_bytes(c, tile.starts[i] + 4, tile.lengths[i] - 4, end)
        c.offsets[tile.first + i + 1] = <int32_t> c.data_len
    return GATHER_OK


cdef inline gather_status_t gather_ewkb(column_t* c, tile_t* tile) noexcept nogil:
    # PostGIS's form: the SRID stands within the WKB, told by a bit of the type; SRID 0 is left out.
    cdef int i
    cdef uint64_t total
    cdef gather_status_t status = take_spans(c, tile, &total)
    cdef const uint8_t* end = tile.buffer + tile.buffer_len
    cdef const uint8_t* wkb
    cdef uint8_t* out
    cdef uint32_t srid
    cdef uint32_t k
    if status != GATHER_OK:
        return status
    if c.data_len + total > <uint64_t> INT32_MAX:
        return fail(c, tile, 0, GATHER_TOO_LARGE)
    if not reserve(c, total):
        return GATHER_NO_MEMORY
    for i in range(tile.count):
        if tile.lengths[i]:
            if tile.lengths[i] < 9:     # SRID, byte order, type
                return fail(c, tile, i, GATHER_BAD_LENGTH)
            srid = load_u32(tile.starts[i])
            wkb = tile.starts[i] + 4
            if wkb[0] > 1:
                return fail(c, tile, i, GATHER_BAD_NUMBER)
            if srid:
                out = c.data + c.data_len
                memcpy(out, wkb, 5)
                out[4 if wkb[0] else 1] |= 0x20
                for k in range(4):      # in the byte order of the rest
                    out[5 + k] = <uint8_t> (srid >> (8 * k if wkb[0] else 24 - 8 * k))
                c.data_len += 9
                wkb += 5
            append_bytes(c, wkb, tile.lengths[i] - <uint32_t> (wkb - tile.starts[i]), end)
        c.offsets[tile.first + i + 1] = <int32_t> c.data_len
    return GATHER_OK


cdef inline gather_status_t gather_vector(column_t* c, tile_t* tile) noexcept nogil:
    # Offsets count floats.
    cdef int i
    cdef uint64_t total
    cdef gather_status_t status = take_spans(c, tile, &total)
    cdef const uint8_t* end = tile.buffer + tile.buffer_len
    if status != GATHER_OK:
        return status
    if (c.data_len + total) // 4 > <uint64_t> INT32_MAX:
        return fail(c, tile, 0, GATHER_TOO_LARGE)
    if not reserve(c, total):
        return GATHER_NO_MEMORY
    for i in range(tile.count):
        if tile.lengths[i] & 3:
            return fail(c, tile, i, GATHER_BAD_LENGTH)
        append_bytes(c, tile.starts[i], tile.lengths[i], end)
        c.offsets[tile.first + i + 1] = <int32_t> (c.data_len // 4)
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
    if c.layout == LAYOUT_ENUM:
        return gather_enum(c, tile)
    if c.layout == LAYOUT_SET:
        return gather_set(c, tile)
    if c.layout == LAYOUT_FIXED_BYTES:
        return gather_fixed_bytes(c, tile)
    if c.layout == LAYOUT_BYTES or c.layout == LAYOUT_UTF8:
        return gather_bytes(c, tile)
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
