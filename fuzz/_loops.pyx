"""Fuzz targets over the loops of the core that need no decoder, each by itself: millions of inputs a minute.

An input is a few bytes that choose, then data, which is put into blocks of exactly its size. A target aborts if
a promise is broken: text that differs from what Python's codec, or the C library, makes of the same bytes; an
event that is not one; a buffer that does not hold what its offsets say.
"""

import json

include "find/_resync.pyx"

from libc.stdlib cimport abort, calloc, free, malloc, realloc, strtod
from libc.stdint cimport int64_t, uintptr_t
from libc.string cimport memcmp, memset

from arrow.arena cimport drop_arena, new_arena
from arrow.copy_spans cimport binlog_has_wide
from arrow.gather cimport gather
from arrow.tile cimport (
    GATHER_OK, LABEL, LAYOUT_BYTES, LAYOUT_COMMIT_TIME, LAYOUT_COPY, LAYOUT_DECIMAL_TEXT, LAYOUT_ENUM,
    LAYOUT_FIXED_BYTES, LAYOUT_GEOMETRY, LAYOUT_JSON, LAYOUT_LABEL, LAYOUT_LABEL_VIEW, LAYOUT_OBJECT,
    LAYOUT_SECONDS, LAYOUT_SET, LAYOUT_TABLE, LAYOUT_UTF32, LAYOUT_UTF8, LAYOUT_UTF8_VIEW, LAYOUT_VECTOR,
    NULL_BYTES, allocate_slots, column_t, layout_t, mark_null, store_validity, tile_t,
)
from arrow.views cimport BINLOG_INLINED, BINLOG_VIEW, binlog_put_view, is_view, place_of
from crc.checksum cimport binlog_crc32_best, binlog_crc32_with
from memory.memory cimport append, memory_t, pool_t, release
from types.decimal_text cimport DECIMAL_TEXT_MAX, decimal_text
from types.double_text cimport append_double, append_double_repr
from types.json_string cimport append_json_string
from types.jsonb_text cimport append_jsonb_text
from types.utf8 cimport TRANSCODE_FAILED, UTF8_GROWTH, from_utf16, from_utf32, is_ascii, is_utf8
from wire.codes cimport DECODE_OK
from wire.cursor cimport load_u32, remaining, skip, take_lenenc, take_slice
from wire.query cimport query_kind, take_query

cdef enum:
    HEADER = 19


cdef void check(bint holds) noexcept nogil:
    if not holds:
        abort()


cdef uint8_t* exact(const uint8_t* data, size_t size) noexcept nogil:
    # A block of exactly that size, so that a read past its end is detected.
    cdef uint8_t* block = <uint8_t*> malloc(size if size else 1)
    if block == NULL:
        abort()
    memcpy(block, data, size)
    return block


# ---------------------------------------------------------------- JSON

cdef int jsonb(const uint8_t* data, size_t size) noexcept nogil:
    # Text of a document is UTF-8, and not larger than the budget of the printer allows.
    cdef memory_t out
    memset(&out, 0, sizeof(out))
    if append_jsonb_text(data, size, &out) == DECODE_OK:
        check(is_utf8(out.data, out.length))
    release(&out)
    return 0


cdef void check_reads_back(memory_t* out, double value) noexcept nogil:
    check(out.length < out.capacity)
    out.data[out.length] = 0
    check(strtod(<const char*> out.data, NULL) == value)


cdef int doubles(const uint8_t* data, size_t size) noexcept nogil:
    # The text of a number is read back as the same number.
    cdef memory_t out
    cdef double value
    cdef size_t at = 0
    memset(&out, 0, sizeof(out))
    while size - at >= 8:
        memcpy(&value, data + at, 8)
        at += 8
        out.length = 0
        if append_double(&out, value) == DECODE_OK:
            check_reads_back(&out, value)
            out.length = 0
            check(append_double_repr(&out, value) == DECODE_OK)
            check_reads_back(&out, value)
    release(&out)
    return 0


# ---------------------------------------------------------------- text

cdef bint decodes(bytes given, str codec) except -1:
    try:
        given.decode(codec)
    except UnicodeDecodeError:
        return False
    return True


cdef int same_text(bytes given, str codec, const uint8_t* out, Py_ssize_t written) except -1:
    if written == TRANSCODE_FAILED:
        check(not decodes(given, codec))
    else:
        check(decodes(given, codec) and given.decode(codec).encode() == out[:written])
    return 0


cdef int same_json(bytes value, const uint8_t* given, size_t size) except -1:
    # A JSON string as Python makes it of the same text
    cdef memory_t out
    memset(&out, 0, sizeof(out))
    try:
        if append_json_string(&out, given, size) == DECODE_OK:
            check(json.dumps(value.decode(), ensure_ascii=False).encode() == out.data[:out.length])
        else:
            check(not decodes(value, "utf-8"))
    finally:
        release(&out)
    return 0


cdef int from_decimal(const uint8_t* data, size_t size) except -1:
    cdef uint64_t[4] limbs
    cdef char[DECIMAL_TEXT_MAX] out
    cdef int count, scale
    cdef size_t length
    if size < 34:
        return 0
    count = 1 + data[0] % 4
    scale = data[1] % 41
    memcpy(limbs, data + 2, 32)
    length = decimal_text(limbs, count, scale, out)
    check(length <= DECIMAL_TEXT_MAX)
    number = int.from_bytes((<uint8_t*> limbs)[:8 * count], "little", signed=True)
    digits = str(abs(number)).zfill(scale + 1)
    whole = digits[:len(digits) - scale] + ("." + digits[len(digits) - scale:] if scale else "")
    check((("-" if number < 0 else "") + whole).encode() == out[:length])
    return 0


cdef int text(const uint8_t* data, size_t size) except -1:
    # The first byte selects the encoding; each is compared with Python's own codec.
    cdef uint8_t* given
    cdef uint8_t* out = NULL
    cdef Py_ssize_t written
    cdef uint8_t kind
    cdef bytes value
    if size < 1:
        return 0
    kind = data[0] % 6
    size -= 1
    if kind == 4:
        return from_decimal(data + 1, size)
    value = data[1:size + 1]
    given = exact(data + 1, size)
    try:
        if kind == 0:
            check(is_utf8(given, size) == decodes(value, "utf-8"))
            check(is_ascii(given, size) == value.isascii())
            return 0
        if kind == 5:
            same_json(value, given, size)
            return 0
        out = <uint8_t*> malloc(UTF8_GROWTH * size + 1)
        if kind == 3:
            written = from_utf32(given, size, out)
            same_text(value, "utf-32-be", out, written)
        else:
            written = from_utf16(given, size, out, kind == 1)
            same_text(value, "utf-16-be" if kind == 1 else "utf-16-le", out, written)
    finally:
        free(given)
        free(out)
    return 0


# ---------------------------------------------------------------- events, splits and the search after damage
#
# options u8, base u8, then pieces of a log: type u8, flags u8, length u8, body.

cdef enum piece_t:
    PIECE_GARBAGE = 1           # the body as it is, without a header
    PIECE_POSITION = 6          # next_position: right, 0, wrong, where the event begins
    PIECE_BAD_CHECKSUM = 8
    PIECE_LONGER = 16           # than it is
    PIECE_HUGE = 32
    PIECE_FILLED = 64           # a few hundred bytes more of it

cdef uint64_t[4] BASES
BASES = [4, 0xFFFFFF00, 0x12345678, 0xFFFFFFFFFF]


cdef memory_t pieces_of(Cursor cur, uint64_t base, bint checksums) noexcept nogil:
    cdef memory_t out
    cdef uint8_t[HEADER] header
    cdef uint8_t[320] filling
    cdef uint8_t kind, flags
    cdef uint32_t length, filled, total, next_position, crc
    cdef size_t begin
    memset(&out, 0, sizeof(out))
    while remaining(&cur) >= 3 and out.length < 1 << 16:
        kind = cur.pos[0]
        flags = cur.pos[1]
        length = cur.pos[2]
        skip(&cur, 3)
        if length > remaining(&cur):
            length = <uint32_t> remaining(&cur)
        filled = 320 if flags & PIECE_FILLED else 0
        memset(filling, kind, 320)
        begin = out.length
        if not flags & PIECE_GARBAGE:
            total = HEADER + length + filled + (4 if checksums else 0)
            total += flags >> 7 if flags & PIECE_LONGER else 0x7FFFFF00 if flags & PIECE_HUGE else 0
            next_position = <uint32_t> (base + begin + total)
            if flags & PIECE_POSITION == 2:
                next_position = 0
            elif flags & PIECE_POSITION == 4:
                next_position += 1
            elif flags & PIECE_POSITION == 6:
                next_position -= total
            memset(header, 0, HEADER)
            header[4] = kind
            memcpy(header + 9, &total, 4)
            memcpy(header + 13, &next_position, 4)
            append(&out, header, HEADER)
        append(&out, cur.pos, length)
        append(&out, filling, filled)
        if checksums and not flags & PIECE_GARBAGE:
            crc = binlog_crc32_with(binlog_crc32_best(), 0, out.data + begin, out.length - begin)
            crc ^= flags & PIECE_BAD_CHECKSUM
            append(&out, &crc, 4)
        skip(&cur, length)
    return out


cdef const uint8_t* plain_candidate(const search_t* search, const uint8_t* p, const uint8_t* last) noexcept nogil:
    # next_candidate, byte by byte
    cdef uint32_t position, next_position, length
    cdef uint32_t least = V4_MINIMUM_HEADER_LEN + search.descriptor.checksum_len
    while p < last:
        position = <uint32_t> (search.base + <uint64_t> (p - search.data))
        length = load_u32(p + 9)
        next_position = load_u32(p + 13)
        if next_position == <uint32_t> (position + length):
            break
        if search.zeros and next_position == 0 and is_known(search.descriptor.canonical[p[4]]):
            if length >= least and length - least < ZERO_MOST:
                break
        p += 1
    return p


cdef int resync(const uint8_t* data, size_t size) noexcept nogil:
    cdef Cursor cur = cursor_over(data, size)
    cdef search_t search
    cdef memory_t log
    cdef const uint8_t* p
    cdef const uint8_t* found
    cdef const uint8_t* last
    cdef look_t look
    cdef bint has_shift = False
    cdef uint32_t shift = 0, least
    cdef int i, options, verdict = IS_NONE
    if size < 6:
        return 0
    options = data[0]
    skip(&cur, 2)
    memset(&search, 0, sizeof(search))
    search.base = BASES[data[1] & 3]
    search.rule = RULE_AHEAD if options & 64 else options & 3
    search.zeros = options >> 2 & 1
    search.more = options >> 3 & 1
    search.budget = <uint64_t> 1 << (data[1] >> 2 & 31)
    search.descriptor.header_len = V1_HEADER_LEN if search.rule == RULE_NONE else HEADER + (options >> 4 & 1)
    search.descriptor.checksum_len = CHECKSUM_LEN if options & 32 else 0
    for i in range(256):
        search.descriptor.canonical[i] = <uint8_t> i
    search.descriptor.post_header_len[<int> QUERY_EVENT] = 13
    log = pieces_of(cur, search.base, bool(options & 32))
    least = V1_HEADER_LEN if search.rule == RULE_NONE else V4_MINIMUM_HEADER_LEN
    if log.length >= least:
        log.data = <uint8_t*> realloc(log.data, log.length)
        search.data = p = log.data
        search.end = p + log.length
        last = search.end - least + 1
        while p < last:
            found = next_candidate(&search, p, last)
            if search.rule == RULE_END:
                check(found == plain_candidate(&search, p, last))
            check(p <= found <= last)
            p = found
            if p == last:
                break
            verdict = confirm(&search, p)
            if verdict != IS_NONE:
                break
            p += 1
        if p < last and verdict == IS_EVENT:
            check(look_at(&search, p, &has_shift, &shift, &look) == IS_EVENT)
            check(look.length >= least and look.length <= log.length - <size_t> (p - log.data))
            walk_events(&search.descriptor, p, search.end)
        walk_events(&search.descriptor, log.data, search.end)
    free(log.data)
    return 0


cdef int walk_events(const descriptor_t* descriptor, const uint8_t* first, const uint8_t* end) noexcept nogil:
    # From event to event, as every walk does; each body must lie within its event.
    cdef Cursor cur, body, query
    cdef Cursor database
    cdef event_header_t header
    cdef const uint8_t* event
    cur.pos = first
    cur.end = end
    while remaining(&cur):
        event = cur.pos
        if take_event(&cur, descriptor, &header, &body) != DECODE_OK:
            check(cur.pos == event)
            return 0
        check(event < body.pos <= body.end <= cur.pos <= end)
        check(<size_t> (cur.pos - event) == header.event_length)
        is_anchor(ANCHOR_GTID, header.type_code, body, 13)
        is_anchor(ANCHOR_BEGIN, header.type_code, body, 13)
        if descriptor.checksum_len and header.event_length >= CHECKSUM_LEN:
            checksum_holds(event, header.event_length)
        if take_query(&body, 13, &database, &query):
            check(body.pos <= query.pos <= query.end <= body.end)
            query_kind(&query)
    return 0


cdef int packed_integers(const uint8_t* data, size_t size) noexcept nogil:
    # Lengths and slices of these lengths: none reaches past the end, none is lost.
    cdef uint8_t* block = exact(data, size)
    cdef Cursor cur = cursor_over(block, size)
    cdef Cursor part
    cdef uint64_t length
    cdef size_t left
    while remaining(&cur):
        left = remaining(&cur)
        if not take_lenenc(&cur, &length):
            check(remaining(&cur) == left)
            break
        check(remaining(&cur) < left)
        left = remaining(&cur)
        if not take_slice(&cur, length, &part):
            check(length > left and remaining(&cur) == left)
            break
        check(remaining(&part) == length and remaining(&cur) == left - length)
    free(block)
    return 0


# ---------------------------------------------------------------- columns
#
# layout u8, records u8, options u8, then fields of 12 or 32 bytes, then the bytes that their spans refer to.

include "_code_tables.pxi"
cdef uint8_t[64 * LABEL] LABELS          # of 0 to 31 bytes
cdef uint8_t[64 * BINLOG_VIEW] LABEL_VIEWS
cdef int64_t[2 * 64] TRANSACTIONS        # commit time, known of every other one; time of the first event
for _i in range(64):
    LABELS[_i * LABEL + LABEL - 1] = _i % LABEL
    TRANSACTIONS[2 * _i] = -1 if _i % 2 else _i
    TRANSACTIONS[2 * _i + 1] = _i
    binlog_put_view(&LABEL_VIEWS[_i * BINLOG_VIEW], &LABELS[_i * LABEL], _i % LABEL, _i * LABEL, 30)
cdef pool_t POOL


cdef void check_views(const column_t* c, int count, const uint8_t* buffer, size_t size) noexcept nogil:
    # Views refer to the buffer, and those of text to text.
    cdef const uint8_t* view = c.slots
    cdef const uint8_t* value
    cdef uint32_t length
    cdef uint64_t place
    cdef int _i
    for _i in range(count):
        length = load_u32(view)
        value = view + 4
        if length > BINLOG_INLINED:
            place = place_of(view, c.part_bits)
            check(c.first <= place <= c.end <= size and length <= c.end - place)
            value = buffer + place
            check(memcmp(view + 4, value, 4) == 0)
        if c.layout == LAYOUT_UTF8_VIEW:
            check(is_utf8(value, length))
        view += BINLOG_VIEW


cdef int columns(const uint8_t* data, size_t size) noexcept nogil:
    cdef column_t c
    cdef uint8_t[NULL_BYTES] nulls
    cdef tile_t tile
    cdef uint8_t* records
    cdef uint8_t* buffer
    cdef uint32_t field_len, k
    cdef int i, count, options
    cdef size_t begin
    if size < 4:
        return 0
    memset(&c, 0, sizeof(c))
    c.layout = <layout_t> (LAYOUT_COPY + data[0] % (LAYOUT_OBJECT - LAYOUT_COPY))
    count = 1 + data[1] % 40
    options = data[2]
    data += 3
    size -= 3
    if c.layout == LAYOUT_TABLE:
        c.table = WORDS
        c.keeps_ascii = options >> 3 & 1
    c.codes = CODES
    c.code_count = 1 + (options & 63)
    c.scale = options % 41
    c.pad = 0
    if c.layout < LAYOUT_FIXED_BYTES:
        c.width = 0 if c.layout == LAYOUT_SET else 2 << (options & 1) if c.layout == LAYOUT_ENUM else 16
    c.labels = LABELS
    c.transactions = <const uint8_t*> TRANSACTIONS
    c.transaction_len = 16
    c.begin_time = 8
    if c.layout == LAYOUT_COPY:
        c.width = 1 << options % 6
    elif c.layout == LAYOUT_SECONDS or c.layout == LAYOUT_COMMIT_TIME:
        c.width = 8
    elif c.layout == LAYOUT_FIXED_BYTES:
        c.width = 4 + (options & 12)
        c.pad = c.width if options & 1 else 0
    elif is_view(&c) or c.layout == LAYOUT_LABEL_VIEW:
        c.width = BINLOG_VIEW
        c.part_bits = 4 + (options & 31) % 27
        c.label_views = LABEL_VIEWS
    elif c.layout == LAYOUT_BYTES:
        c.pad = options & 31
    elif c.layout == LAYOUT_GEOMETRY:
        c.width = 4                                 # the SRID's slots
    field_len = 12
    if (c.layout < LAYOUT_FIXED_BYTES or c.layout == LAYOUT_DECIMAL_TEXT or c.layout == LAYOUT_LABEL
            or c.layout == LAYOUT_LABEL_VIEW):
        field_len = 32
    # Spans are given in four bytes each: offset u16, length u8, whether it is there.
    records = <uint8_t*> calloc(count, field_len)
    tile.records = records
    tile.stride = field_len
    tile.count = count
    tile.nulls = nulls
    tile.has_nulls = False
    tile.wide = options >> 6 & 1 and binlog_has_wide()
    tile.arena = new_arena(&POOL, <size_t> -1)
    check(tile.arena != NULL)
    memset(&tile.text, 0, sizeof(tile.text))
    for i in range(count):
        if field_len == 12 and size >= 4:
            memcpy(records + i * 12, data, 2)
            records[i * 12 + 8] = data[2]
            records[i * 12 + 7] = records[i * 12 + 11] = data[3] >> 7
            if options >> 7 and not data[3] & 1:
                mark_null(&tile, i)
            data += 4
            size -= 4
        elif field_len == 32 and size >= 8:
            k = 32 if size >= 32 else 8
            memcpy(records + i * 32, data, k)
            if options >> 7 and not data[0] & 1:
                mark_null(&tile, i)
            data += k
            size -= k
    buffer = exact(data, size)
    tile.first = 0
    tile.rows = count
    tile.buffer = buffer
    tile.base = buffer
    tile.buffer_len = size
    check(allocate_slots(tile.arena, &c, count))
    c.status = gather(&c, &tile)
    check(tile.count == count)
    if c.status == GATHER_OK:
        if is_view(&c):
            check_views(&c, count, buffer, size)
        if tile.has_nulls:
            check(store_validity(&c, &tile))
            check(0 <= c.null_count <= count)
        if c.offsets != NULL:
            for i in range(count):
                check(0 <= c.offsets[i] <= c.offsets[i + 1])
            check(c.data_len <= c.data_capacity)
            check(<size_t> c.offsets[count] * (4 if c.layout == LAYOUT_VECTOR else 1) == c.data_len)
        if c.layout == LAYOUT_UTF8 or c.layout == LAYOUT_JSON or LAYOUT_TABLE <= c.layout <= LAYOUT_UTF32:
            for i in range(count):
                begin = <size_t> c.offsets[i]
                check(is_utf8(c.data + begin, <size_t> c.offsets[i + 1] - begin))
    else:
        check(0 <= c.failed < count)
    release(&tile.text)
    drop_arena(tile.arena)
    free(records)
    free(buffer)
    return 0


cdef int run_text(const uint8_t* data, size_t size) noexcept with gil:
    try:
        text(data, size)
    except BaseException:
        import traceback
        traceback.print_exc()
        abort()
    return 0


TARGETS = {
    "jsonb": <uintptr_t> &jsonb,
    "doubles": <uintptr_t> &doubles,
    "text": <uintptr_t> &run_text,
    "resync": <uintptr_t> &resync,
    "packed_integers": <uintptr_t> &packed_integers,
    "columns": <uintptr_t> &columns,
}
