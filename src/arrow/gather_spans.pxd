# From spans to columns: the loops that take values of variable length out of a tile of records.
# Header-only: used by gather.pxd.

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport INT32_MAX, int32_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from arrow.copy_spans cimport (
    binlog_are_ascii, binlog_copy_spans, binlog_copy_values, binlog_spans_t, binlog_values_t,
)
from arrow.tile cimport (
    GATHER_BAD_JSON, GATHER_BAD_LENGTH, GATHER_BAD_NUMBER, GATHER_BAD_SPAN, GATHER_BAD_TEXT, GATHER_NO_MEMORY,
    GATHER_OK, GATHER_TOO_LARGE, LABEL, LAYOUT_TABLE, LAYOUT_UTF16_BE, LAYOUT_UTF32, LAYOUT_UTF8, SLACK, bad_row,
    column_t, gather_status_t, is_null, reserve_data, tile_t,
)
from memory.memory cimport memory_t
from types.decimal_text cimport DECIMAL_TEXT_MAX, decimal_text
from types.jsonb_text cimport append_jsonb_text
from types.utf8 cimport TRANSCODE_FAILED, UTF8_GROWTH, from_table, from_utf16, from_utf32, is_utf8
from wire.codes cimport DECODE_NO_MEMORY, DECODE_OK
from wire.cursor cimport load_le, load_u32, load_u64, prefetch

cdef enum:
    SHORT = 256           # up to this many bytes, calling memcpy costs more than a loop; a multiple of SLACK


cdef inline gather_status_t locate_spans_of(
    column_t* c, tile_t* tile, bint has_nulls, uint64_t* total
) noexcept nogil:
    # has_nulls is a constant at each call, so the compiler makes a loop for either.
    cdef int i, count = tile.count
    cdef ptrdiff_t stride = tile.stride
    cdef const uint8_t* buffer = tile.buffer
    cdef uint64_t offset, keep, buffer_len = tile.buffer_len, bytes_ = 0
    cdef uint32_t length
    cdef const uint8_t* span = tile.records + c.field
    for i in range(count):
        offset = load_u64(span)
        length = load_u32(span + 8)
        if has_nulls:
            keep = <uint64_t> (tile.nulls[i >> 3] >> (i & 7) & 1) - 1     # no branch: it could not be predicted
            offset &= keep
            length &= <uint32_t> keep
        if length > buffer_len or offset > buffer_len - length:
            if length:
                return bad_row(c, tile, i, GATHER_BAD_SPAN)
            offset = 0      # an empty value reads nothing, so its offset may be anything
        prefetch(buffer + offset)
        tile.starts[i] = buffer + offset
        tile.lengths[i] = length
        bytes_ += length
        span += stride
    total[0] = bytes_
    return GATHER_OK


cdef inline gather_status_t locate_spans(column_t* c, tile_t* tile, uint64_t* total) noexcept nogil:
    # The tile's spans, checked against the buffer; total: the sum of their lengths. A null has length 0.
    if tile.has_nulls:
        return locate_spans_of(c, tile, True, total)
    return locate_spans_of(c, tile, False, total)


cdef inline uint8_t* put_bytes(
    uint8_t* out, const uint8_t* start, uint32_t length, const uint8_t* end
) noexcept nogil:
    # The caller has reserved the room and SLACK more. Most values are short: they take copies of a fixed size, where
    # the buffer continues that far. The first copy is unconditional, which saves a branch.
    cdef uint32_t at = SLACK
    if length <= SHORT and end - start >= SHORT:
        memcpy(out, start, SLACK)
        while at < length:
            memcpy(out + at, start + at, SLACK)
            at += SLACK
    elif length:
        memcpy(out, start, length)
    return out + length


cdef inline void append_bytes(
    column_t* c, const uint8_t* start, uint32_t length, const uint8_t* end
) noexcept nogil:
    put_bytes(c.data + c.data_len, start, length, end)
    c.data_len += length


cdef inline gather_status_t begin_values(
    column_t* c, tile_t* tile, uint64_t growth, uint64_t more
) noexcept nogil:
    # The tile's spans, with room for `growth` bytes for each byte of theirs, and for `more`.
    cdef uint64_t total
    cdef gather_status_t status = locate_spans(c, tile, &total)
    if status != GATHER_OK:
        return status
    if c.data_len + total + more > <uint64_t> INT32_MAX:
        return bad_row(c, tile, 0, GATHER_TOO_LARGE)
    return GATHER_OK if reserve_data(c, tile, growth * total + more) else GATHER_NO_MEMORY


cdef inline gather_status_t pad_bytes(column_t* c, tile_t* tile) noexcept nogil:
    # BINARY(n): the log leaves out the zero bytes at the end of a value.
    cdef int i
    cdef gather_status_t status = begin_values(c, tile, 1, c.pad * <uint64_t> tile.count)
    cdef const uint8_t* end = tile.buffer + tile.buffer_len
    cdef uint64_t pad
    if status != GATHER_OK:
        return status
    for i in range(tile.count):
        append_bytes(c, tile.starts[i], tile.lengths[i], end)
        if tile.lengths[i] < c.pad and not is_null(tile, i):
            pad = c.pad - tile.lengths[i]
            memset(c.data + c.data_len, 0, pad)
            c.data_len += pad
        c.offsets[tile.first + i + 1] = <int32_t> c.data_len
    return GATHER_OK


cdef inline gather_status_t make_room(column_t* c, tile_t* tile, int i) noexcept nogil:
    # Room for the values from number i on, up to the first that does not lie in the buffer
    cdef const uint8_t* span = tile.records + i * tile.stride + c.field
    cdef uint64_t offset, length, total = 0
    cdef int k = i
    while k < tile.count:
        offset = load_u64(span)
        length = 0 if is_null(tile, k) else load_u32(span + 8)
        if length > tile.buffer_len or (length and offset > tile.buffer_len - length):
            break
        total += length
        span += tile.stride
        k += 1
    if k == i:
        return bad_row(c, tile, i, GATHER_BAD_SPAN)
    if c.data_len + total > <uint64_t> INT32_MAX:
        return bad_row(c, tile, i, GATHER_TOO_LARGE)
    return GATHER_OK if reserve_data(c, tile, total) else GATHER_NO_MEMORY


cdef inline gather_status_t copy_bytes(column_t* c, tile_t* tile) noexcept nogil:
    cdef int i = 0
    cdef binlog_spans_t spans
    cdef gather_status_t status
    spans.span = tile.records + c.field
    spans.stride = tile.stride
    spans.count = tile.count
    spans.nulls = tile.nulls if tile.has_nulls else NULL
    spans.buffer = tile.buffer
    spans.buffer_len = tile.buffer_len
    spans.offsets = c.offsets + tile.first + 1
    while True:
        spans.data = c.data
        spans.at = c.data_len
        spans.room = min(c.data_capacity, <size_t> INT32_MAX + SLACK)
        i = binlog_copy_spans(tile.wide, &spans, i)
        c.data_len = spans.at
        if i == tile.count:
            return GATHER_OK
        status = make_room(c, tile, i)
        if status != GATHER_OK:
            return status


cdef inline gather_status_t copy_values(
    column_t* c, tile_t* tile, const uint8_t** at, uint32_t offset, uint32_t width
) noexcept nogil:
    # From the wire, where lengths of `width` bytes lie `offset` bytes after `at`; no value is NULL
    cdef int i = 0
    cdef int k
    cdef uint64_t more
    cdef binlog_values_t values
    values.at = at
    values.offset = offset
    values.width = width
    values.count = tile.count
    values.offsets = c.offsets + tile.first + 1
    while True:
        values.data = c.data
        values.used = c.data_len
        values.room = min(c.data_capacity, <size_t> INT32_MAX + SLACK)
        i = binlog_copy_values(tile.wide, &values, i)
        c.data_len = values.used
        if i == tile.count:
            return GATHER_OK
        more = 0
        for k in range(i, tile.count):
            more += load_le(at[k] + offset, width)
        if c.data_len + more > <uint64_t> INT32_MAX:
            return bad_row(c, tile, i, GATHER_TOO_LARGE)
        if not reserve_data(c, tile, more):
            return GATHER_NO_MEMORY


cdef inline gather_status_t gather_utf8(column_t* c, tile_t* tile) noexcept nogil:
    cdef size_t begin = c.data_len
    cdef gather_status_t status = copy_bytes(c, tile)
    return status if status != GATHER_OK else check_utf8(c, tile, begin)


cdef inline gather_status_t check_utf8(column_t* c, const tile_t* tile, size_t begin) noexcept nogil:
    # Whether the tile's values, which begin at `begin` in the column's data, are valid
    cdef int i
    cdef const int32_t* offsets = c.offsets + tile.first
    if binlog_are_ascii(tile.wide, c.data + begin, c.data_len - begin):
        return GATHER_OK
    if not is_utf8(c.data + begin, c.data_len - begin):
        return GATHER_BAD_TEXT
    # The whole is valid, but a character could be split between two values.
    for i in range(tile.count):
        if offsets[i] < offsets[i + 1] and c.data[offsets[i]] & 0xC0 == 0x80:
            return GATHER_BAD_TEXT
    return GATHER_OK


cdef inline gather_status_t gather_bytes(column_t* c, tile_t* tile) noexcept nogil:
    if c.layout == LAYOUT_UTF8:
        return gather_utf8(c, tile)
    return pad_bytes(c, tile) if c.pad else copy_bytes(c, tile)


cdef inline bint labels_agree(const column_t* c, const tile_t* tile) noexcept nogil:
    # Whether all of the tile's records have the number of the first
    cdef int _i, count = tile.count
    cdef ptrdiff_t stride = tile.stride
    cdef const uint8_t* value = tile.records + c.field
    cdef uint8_t first = value[0], other = 0
    for _i in range(count):
        other |= value[0] ^ first
        value += stride
    return other == 0


cdef inline void repeat_label(const uint8_t* label, int length, int count, uint8_t* out) noexcept nogil:
    # Writes eight at a time: up to seven too many, and SLACK bytes of anything
    cdef uint8_t[9 * LABEL + SLACK] eight
    cdef int i, _eights, at, size = 8 * length
    for i in range(8):
        memcpy(eight + i * length, label, LABEL)
    for _eights in range((count + 7) // 8):
        at = 0
        while at < size:
            memcpy(out + at, eight + at, SLACK)
            at += SLACK
        out += size


cdef inline gather_status_t gather_label(column_t* c, tile_t* tile) noexcept nogil:
    # Texts shorter than LABEL: each copy takes the room after the text along
    cdef int i, count = tile.count
    cdef ptrdiff_t stride = tile.stride
    cdef const uint8_t* value = tile.records + c.field
    cdef const uint8_t* label
    cdef int32_t end = <int32_t> c.data_len, length
    cdef int32_t* offsets = c.offsets + tile.first + 1
    if c.data_len + LABEL * <size_t> (count + 8) > <size_t> INT32_MAX:
        return bad_row(c, tile, 0, GATHER_TOO_LARGE)
    if not reserve_data(c, tile, LABEL * <size_t> (count + 8)):
        return GATHER_NO_MEMORY
    if value[0] < c.code_count and labels_agree(c, tile):
        length = c.labels[LABEL * value[0] + LABEL - 1]
        repeat_label(c.labels + LABEL * value[0], length, count, c.data + c.data_len)
        for i in range(count):
            offsets[i] = end + (i + 1) * length
        c.data_len += <size_t> (count * length)
        return GATHER_OK
    for i in range(count):
        if value[0] >= c.code_count:
            return bad_row(c, tile, i, GATHER_BAD_NUMBER)
        label = c.labels + LABEL * value[0]
        memcpy(c.data + end, label, LABEL)
        end += label[LABEL - 1]
        offsets[i] = end
        value += stride
    c.data_len = <size_t> end
    return GATHER_OK


cdef inline gather_status_t gather_text(column_t* c, tile_t* tile) noexcept nogil:
    cdef int i
    cdef Py_ssize_t written
    cdef uint8_t* out
    cdef gather_status_t status = begin_values(c, tile, UTF8_GROWTH, 0)
    if status != GATHER_OK:
        return status
    for i in range(tile.count):
        out = c.data + c.data_len
        if c.layout == LAYOUT_TABLE:
            written = from_table(tile.starts[i], tile.lengths[i], out, c.table, c.keeps_ascii)
        elif c.layout == LAYOUT_UTF32:
            written = from_utf32(tile.starts[i], tile.lengths[i], out)
        else:
            written = from_utf16(tile.starts[i], tile.lengths[i], out, c.layout == LAYOUT_UTF16_BE)
        if written == TRANSCODE_FAILED:
            return bad_row(c, tile, i, GATHER_BAD_TEXT)
        c.data_len += written
        if c.data_len > <size_t> INT32_MAX:
            return bad_row(c, tile, i, GATHER_TOO_LARGE)
        c.offsets[tile.first + i + 1] = <int32_t> c.data_len
    return GATHER_OK


cdef inline gather_status_t gather_json(column_t* c, tile_t* tile) noexcept nogil:
    cdef int i, printed
    cdef uint64_t total
    cdef memory_t* text = &tile.text
    cdef gather_status_t status = locate_spans(c, tile, &total)
    if status != GATHER_OK:
        return status
    text.length = 0
    for i in range(tile.count):
        if not is_null(tile, i):
            printed = append_jsonb_text(tile.starts[i], tile.lengths[i], text)
            if printed != DECODE_OK:
                return bad_row(c, tile, i, GATHER_NO_MEMORY if printed == DECODE_NO_MEMORY else GATHER_BAD_JSON)
            if c.data_len + text.length > <size_t> INT32_MAX:
                return bad_row(c, tile, i, GATHER_TOO_LARGE)
        c.offsets[tile.first + i + 1] = <int32_t> (c.data_len + text.length)
    if not reserve_data(c, tile, text.length):
        return GATHER_NO_MEMORY
    if text.length:
        memcpy(c.data + c.data_len, text.data, text.length)
    c.data_len += text.length
    return GATHER_OK


cdef inline gather_status_t gather_decimal_text(column_t* c, tile_t* tile) noexcept nogil:
    cdef int i
    cdef uint64_t[4] limbs
    cdef size_t most = DECIMAL_TEXT_MAX * <size_t> tile.count
    if c.data_len + most > <size_t> INT32_MAX:
        return bad_row(c, tile, 0, GATHER_TOO_LARGE)
    if not reserve_data(c, tile, most):
        return GATHER_NO_MEMORY
    for i in range(tile.count):
        if not is_null(tile, i):
            memcpy(limbs, tile.records + i * tile.stride + c.field, sizeof(limbs))
            c.data_len += decimal_text(limbs, 4, c.scale, <char*> c.data + c.data_len)
        c.offsets[tile.first + i + 1] = <int32_t> c.data_len
    return GATHER_OK


cdef inline gather_status_t gather_fixed_bytes(column_t* c, tile_t* tile) noexcept nogil:
    # pad: shorter values are filled up with zero bytes (UUID); otherwise each must have the full width.
    cdef int i
    cdef uint64_t total
    cdef uint8_t* out = c.slots + tile.first * c.width
    cdef gather_status_t status = locate_spans(c, tile, &total)
    if status != GATHER_OK:
        return status
    for i in range(tile.count):
        if tile.lengths[i] != c.width and not is_null(tile, i) and (tile.lengths[i] > c.width or not c.pad):
            return bad_row(c, tile, i, GATHER_BAD_LENGTH)
        if tile.lengths[i]:
            memcpy(out, tile.starts[i], tile.lengths[i])
        memset(out + tile.lengths[i], 0, c.width - tile.lengths[i])
        out += c.width
    return GATHER_OK


cdef inline gather_status_t gather_geometry(column_t* c, tile_t* tile) noexcept nogil:
    # SRID, then WKB. A lenient server can store '' in a geometry column: SRID 0, empty WKB.
    cdef int i
    cdef gather_status_t status = begin_values(c, tile, 1, 0)
    cdef const uint8_t* end = tile.buffer + tile.buffer_len
    if status != GATHER_OK:
        return status
    for i in range(tile.count):
        memset(c.slots + 4 * (tile.first + i), 0, 4)
        if tile.lengths[i]:
            if tile.lengths[i] < 4:
                return bad_row(c, tile, i, GATHER_BAD_LENGTH)
            memcpy(c.slots + 4 * (tile.first + i), tile.starts[i], 4)
            append_bytes(c, tile.starts[i] + 4, tile.lengths[i] - 4, end)
        c.offsets[tile.first + i + 1] = <int32_t> c.data_len
    return GATHER_OK


cdef inline gather_status_t gather_ewkb(column_t* c, tile_t* tile) noexcept nogil:
    # PostGIS's form: the SRID lies inside the WKB, announced by a bit of the type; SRID 0 is left out.
    cdef int i
    cdef gather_status_t status = begin_values(c, tile, 1, 0)
    cdef const uint8_t* end = tile.buffer + tile.buffer_len
    cdef const uint8_t* wkb
    cdef uint8_t* out
    cdef uint32_t srid
    cdef uint32_t k
    if status != GATHER_OK:
        return status
    for i in range(tile.count):
        if tile.lengths[i]:
            if tile.lengths[i] < 9:     # SRID, byte order, type
                return bad_row(c, tile, i, GATHER_BAD_LENGTH)
            srid = load_u32(tile.starts[i])
            wkb = tile.starts[i] + 4
            if wkb[0] > 1:
                return bad_row(c, tile, i, GATHER_BAD_NUMBER)
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
    # Offsets count floats, not bytes.
    cdef int i
    cdef gather_status_t status = begin_values(c, tile, 1, 0)
    cdef const uint8_t* end = tile.buffer + tile.buffer_len
    if status != GATHER_OK:
        return status
    for i in range(tile.count):
        if tile.lengths[i] & 3:
            return bad_row(c, tile, i, GATHER_BAD_LENGTH)
        append_bytes(c, tile.starts[i], tile.lengths[i], end)
        c.offsets[tile.first + i + 1] = <int32_t> (c.data_len // 4)
    return GATHER_OK
