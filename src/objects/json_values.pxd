# One field of a record as JSON, if its bytes are enough for that. Header-only, without the GIL.

from libc.stdint cimport INT64_MIN, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from memory.memory cimport append, memory_t, reserve
from objects.field_texts cimport PUT_DONE, PUT_NO_MEMORY, PUT_OTHER, TEXT_ISO, TEXT_JSON, put_fixed, put_status_t
from objects.value_objects cimport (
    FORM_ASCII, FORM_BYTES, FORM_DATE, FORM_DATETIME, FORM_DECIMAL, FORM_DOUBLE, FORM_ENUM, FORM_FLOAT, FORM_JSON,
    FORM_NONE, FORM_SET, FORM_TEXT, FORM_TIME, FORM_U64, FORM_UTF8, FORM_VECTOR, field_t, form_t, load_integer,
)
from types.calendar cimport calendar_of_us, calendar_t, floor_div, put_date, put_time
from types.double_text cimport append_double_repr
from types.digits cimport append_signed, append_unsigned
from types.json_string cimport append_json_string
from types.jsonb_text cimport append_jsonb_text
from types.utf8 cimport UTF8_GROWTH, from_table, from_utf16, from_utf32, is_ascii
from wire.codes cimport DECODE_NO_MEMORY, DECODE_OK


cdef enum:
    FIRST_DAY = -719162       # 0001-01-01, from 1970-01-01
    LAST_DAY = 2932896        # 9999-12-31

cdef extern from *:
    const int64_t DAY_US "86400000000LL"


cdef enum json_style_t:
    JSON_READABLE = 1         # spaces after the separators, dates as MySQL prints them, bytes as {"hex": …}
    JSON_COMPACT = 2          # no spaces, dates as ISO 8601, TIME as microseconds, bytes in base64
    JSON_DEBEZIUM = 3         # as Debezium's connectors encode values by their defaults


cdef enum encoding_t:
    ENCODING_OTHER            # only Python can convert it
    ENCODING_TABLE
    ENCODING_UTF16_BE
    ENCODING_UTF16_LE
    ENCODING_UTF32


cdef struct json_field_t:     # what a field_t does not say
    size_t label              # where `, "name": ` is in the plan's texts
    size_t label_len
    encoding_t encoding       # of text that is neither UTF-8 nor ASCII
    const uint32_t* charset   # ENCODING_TABLE: UTF-8 of each byte
    bint keeps_ascii
    size_t first_member       # its number among the plan's members
    size_t member_count
    bint has_members
    bint is_geometry
    bint is_integer           # its digits are the text
    size_t bits               # of a BIT; otherwise 0


cdef struct text_t:           # a part of the plan's texts
    size_t start
    size_t length


cdef struct json_plan_t:
    json_style_t style
    const uint8_t* texts
    const text_t* members     # names of ENUM and SET as JSON strings
    const json_field_t* fields
    const uint8_t* separator
    size_t separator_len


cdef inline put_status_t done(int status) noexcept nogil:
    # The status of text that cannot be wrong unless its bytes are
    return PUT_DONE if status == DECODE_OK else PUT_NO_MEMORY if status == DECODE_NO_MEMORY else PUT_OTHER


cdef inline put_status_t put_json_fixed(memory_t* out, const json_plan_t* plan, const field_t* field,
                                        const json_field_t* more, const uint8_t* p) noexcept nogil:
    # p: the field in the record
    cdef form_t form = field.form
    cdef float f32
    cdef double f64
    cdef int64_t i64
    cdef uint16_t u16
    cdef uint64_t u64
    if form == FORM_FLOAT:
        memcpy(&f32, p, 4)
        return put_double(out, f32)
    if form == FORM_DOUBLE:
        memcpy(&f64, p, 8)
        return put_double(out, f64)
    if form == FORM_ENUM:
        memcpy(&u16, p, 2)
        if not more.has_members or u16 > more.member_count:
            return done(append_signed(out, u16))
        if u16 == 0:
            return done(append(out, b'""', 2))      # the server stores 0 for a value that is not a member
        return put_member(out, plan, more, u16 - 1u)
    if form == FORM_SET:
        memcpy(&u64, p, 8)
        return put_set(out, plan, more, u64)
    if form == FORM_NONE:
        return done(append(out, b"null", 4))
    if form == FORM_TIME and plan.style != JSON_READABLE:
        memcpy(&i64, p, 8)
        return PUT_OTHER if i64 == INT64_MIN else done(append_signed(out, i64))
    if plan.style == JSON_DEBEZIUM:
        return put_debezium(out, field, more, p)
    return put_fixed(out, field, p, TEXT_ISO if plan.style == JSON_COMPACT else TEXT_JSON)


cdef inline put_status_t put_debezium(memory_t* out, const field_t* field, const json_field_t* more,
                                      const uint8_t* p) noexcept nogil:
    # An integer, BIT, DECIMAL or date
    cdef form_t form = field.form
    cdef int64_t value
    cdef uint64_t bits
    cdef uint64_t[4] limbs
    if more.bits:
        bits = load_integer(form, p)
        if more.bits == 1:
            return done(append(out, b"true", 4) if bits else append(out, b"false", 5))
        return put_base64(out, <const uint8_t*> &bits, (more.bits + 7) // 8, (more.bits + 7) // 8)
    if form <= FORM_U64:
        return done(append_signed(out, <int64_t> load_integer(form, p)))     # also of an unsigned one
    if form == FORM_DECIMAL:
        memcpy(limbs, p, 8 * <size_t> field.limb_count)
        return put_big_endian(out, <const uint8_t*> limbs, 8 * <size_t> field.limb_count)
    memcpy(&value, p, 8)
    if form == FORM_DATE:
        if not FIRST_DAY <= value <= LAST_DAY:
            return PUT_OTHER
        return done(append_signed(out, value))
    if not FIRST_DAY * DAY_US <= value < (LAST_DAY + 1) * DAY_US:
        return PUT_OTHER
    if form == FORM_DATETIME:
        return done(append_signed(out, floor_div(value, 1000) if field.scale <= 3 else value))
    return put_zoned(out, value, field.scale)


cdef inline put_status_t put_zoned(memory_t* out, int64_t us, int fsp) noexcept nogil:
    # ISO 8601 with Z, and with the column's fraction digits
    cdef calendar_t at
    cdef char* place
    if reserve(out, 40) != DECODE_OK:
        return PUT_NO_MEMORY
    calendar_of_us(us, &at)
    place = <char*> out.data + out.length
    place[0] = c'"'
    place += 1
    place += put_date(&at, place)
    place[0] = c'T'
    place += 1
    place += put_time(&at, fsp, place)
    memcpy(place, b'Z"', 2)
    out.length = <size_t> (place + 2 - <char*> out.data)
    return PUT_DONE


cdef inline put_status_t put_big_endian(memory_t* out, const uint8_t* limbs, size_t length) noexcept nogil:
    # The fewest bytes of a two's complement, at most 32
    cdef uint8_t[32] big
    cdef uint8_t fill = 0xFF if limbs[length - 1] & 0x80 else 0
    cdef size_t i
    while length > 1 and limbs[length - 1] == fill and not (limbs[length - 2] ^ fill) & 0x80:
        length -= 1
    for i in range(length):
        big[i] = limbs[length - 1 - i]
    return put_base64(out, big, length, length)


cdef inline put_status_t put_double(memory_t* out, double value) noexcept nogil:
    if value != value:
        return done(append(out, b'"NaN"', 5))
    if value - value != 0:
        return done(append(out, b'"Infinity"', 10) if value > 0 else append(out, b'"-Infinity"', 11))
    return done(append_double_repr(out, value))


cdef inline put_status_t put_member(memory_t* out, const json_plan_t* plan, const json_field_t* more,
                                    size_t number) noexcept nogil:
    cdef const text_t* text = &plan.members[more.first_member + number]
    return done(append(out, plan.texts + text.start, text.length))


cdef inline put_status_t put_set(memory_t* out, const json_plan_t* plan, const json_field_t* more,
                                 uint64_t mask) noexcept nogil:
    cdef size_t count = min(more.member_count, <size_t> 64)
    cdef size_t bit
    cdef const text_t* text
    cdef bint joined = plan.style == JSON_DEBEZIUM
    cdef bint first = True
    if not more.has_members or (count < 64 and mask >> count):
        return PUT_OTHER
    if append(out, b'"' if joined else b"[", 1) != DECODE_OK:
        return PUT_NO_MEMORY
    for bit in range(count):
        if mask >> bit & 1:
            if not first and append(out, plan.separator, plan.separator_len) != DECODE_OK:
                return PUT_NO_MEMORY
            text = &plan.members[more.first_member + bit]
            # Names that are joined lose their quotes
            if append(out, plan.texts + text.start + joined, text.length - 2u * joined) != DECODE_OK:
                return PUT_NO_MEMORY
            first = False
    return done(append(out, b'"' if joined else b"]", 1))


cdef inline put_status_t put_json_span(memory_t* out, memory_t* scratch, const json_plan_t* plan,
                                       const field_t* field, const json_field_t* more, const uint8_t* data,
                                       uint32_t length) noexcept nogil:
    # PUT_OTHER may leave a part of a text in `out`.
    cdef form_t form = field.form
    if form == FORM_UTF8:
        return done(append_json_string(out, data, length))
    if form == FORM_ASCII or form == FORM_TEXT:
        return put_charset(out, scratch, field, more, data, length)
    if form == FORM_BYTES:
        if more.is_geometry and plan.style == JSON_DEBEZIUM:
            return put_geometry(out, data, length)
        return put_binary(out, plan, data, length, <size_t> max(field.pad_to, 0))
    if form == FORM_JSON:
        scratch.length = 0
        if append_jsonb_text(data, length, scratch) != DECODE_OK:
            return PUT_OTHER         # damaged; Python's way to it finds out, also that there is no memory
        return done(append_json_string(out, scratch.data, scratch.length))
    if form == FORM_VECTOR and length % 4 == 0:
        return put_vector(out, plan, data, length // 4)
    return PUT_OTHER


cdef inline put_status_t put_charset(memory_t* out, memory_t* scratch, const field_t* field,
                                     const json_field_t* more, const uint8_t* data, uint32_t length) noexcept nogil:
    cdef Py_ssize_t written
    if (field.form == FORM_ASCII or field.ascii_alike) and is_ascii(data, length):
        return done(append_json_string(out, data, length))
    if more.encoding == ENCODING_OTHER:
        return PUT_OTHER
    scratch.length = 0
    if reserve(scratch, UTF8_GROWTH * <size_t> length + 1) != DECODE_OK:
        return PUT_NO_MEMORY
    if more.encoding == ENCODING_TABLE:
        written = from_table(data, length, scratch.data, more.charset, more.keeps_ascii)
    elif more.encoding == ENCODING_UTF32:
        written = from_utf32(data, length, scratch.data)
    else:
        written = from_utf16(data, length, scratch.data, more.encoding == ENCODING_UTF16_BE)
    if written < 0:
        return PUT_OTHER
    return done(append_json_string(out, scratch.data, <size_t> written))


cdef inline put_status_t put_binary(memory_t* out, const json_plan_t* plan, const uint8_t* data, size_t length,
                                    size_t pad_to) noexcept nogil:
    # pad_to: zeros at the end are not logged
    cdef const char* hexadecimal = b"0123456789abcdef"
    cdef size_t whole = max(length, pad_to)
    cdef size_t i
    cdef uint8_t* place
    if plan.style != JSON_READABLE:
        return put_base64(out, data, length, whole)
    if reserve(out, 2 * whole + 16) != DECODE_OK:
        return PUT_NO_MEMORY
    append(out, b'{"hex": "', 9)
    place = out.data + out.length
    for i in range(length):
        place[2 * i] = hexadecimal[data[i] >> 4]
        place[2 * i + 1] = hexadecimal[data[i] & 15]
    memset(place + 2 * length, c'0', 2 * (whole - length))
    out.length += 2 * whole
    return done(append(out, b'"}', 2))


cdef inline put_status_t put_base64(memory_t* out, const uint8_t* data, size_t length, size_t whole) noexcept nogil:
    # RFC 4648, in quotes; zeros from `length` to `whole`
    cdef const char* alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    cdef size_t i, k
    cdef uint32_t three
    cdef uint8_t* place
    if reserve(out, (whole + 2) // 3 * 4 + 2) != DECODE_OK:
        return PUT_NO_MEMORY
    place = out.data + out.length
    place[0] = c'"'
    place += 1
    for i in range(0, whole, 3):
        three = 0
        if i + 3 <= length:
            three = <uint32_t> data[i] << 16 | <uint32_t> data[i + 1] << 8 | data[i + 2]
        else:
            for k in range(3):
                if i + k < length:
                    three |= <uint32_t> data[i + k] << (16 - 8 * k)
        place[0] = alphabet[three >> 18]
        place[1] = alphabet[(three >> 12) & 63]
        place[2] = alphabet[(three >> 6) & 63] if i + 1 < whole else c'='
        place[3] = alphabet[three & 63] if i + 2 < whole else c'='
        place += 4
    place[0] = c'"'
    out.length = <size_t> (place + 1 - out.data)
    return PUT_DONE


cdef inline put_status_t put_geometry(memory_t* out, const uint8_t* data, size_t length) noexcept nogil:
    cdef size_t srid_len = min(length, <size_t> 4)
    cdef uint32_t srid = 0
    memcpy(&srid, data, srid_len)
    if append(out, b'{"wkb":', 7) != DECODE_OK:
        return PUT_NO_MEMORY
    if put_base64(out, data + srid_len, length - srid_len, length - srid_len) != PUT_DONE:
        return PUT_NO_MEMORY
    if append(out, b',"srid":', 8) != DECODE_OK or append_unsigned(out, srid) != DECODE_OK:
        return PUT_NO_MEMORY
    return done(append(out, b"}", 1))


cdef inline put_status_t put_vector(memory_t* out, const json_plan_t* plan, const uint8_t* data,
                                    size_t count) noexcept nogil:
    cdef float value
    cdef size_t i
    if append(out, b"[", 1) != DECODE_OK:
        return PUT_NO_MEMORY
    for i in range(count):
        memcpy(&value, data + 4 * i, 4)
        if i and append(out, plan.separator, plan.separator_len) != DECODE_OK:
            return PUT_NO_MEMORY
        if put_double(out, value) != PUT_DONE:
            return PUT_NO_MEMORY
    return done(append(out, b"]", 1))
