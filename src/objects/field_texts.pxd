# One field of a record as text of a format, if the text can be made directly; everything else goes through Python. Text
# and other values of variable length in JSON: json_values. Header-only, without the GIL.

from libc.stdint cimport INT64_MIN, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from memory.memory cimport append, memory_t, reserve
from objects.value_objects cimport (
    FORM_ASCII, FORM_BYTES, FORM_DATE, FORM_DATETIME, FORM_DECIMAL, FORM_I8, FORM_TEXT, FORM_TIME, FORM_TIMESTAMP,
    FORM_U64, FORM_UTF8, field_t, form_t, load_integer,
)
from types.calendar cimport calendar_of_days, calendar_of_us, calendar_t, put_date, put_time
from types.decimal_text cimport DECIMAL_TEXT_MAX, decimal_text
from types.digits cimport append_signed, append_unsigned
from types.utf8 cimport is_utf8
from wire.codes cimport DECODE_OK


cdef enum text_form_t:
    TEXT_CSV = 1
    TEXT_JSON = 2
    TEXT_SQL = 4
    TEXT_ISO = 8              # JSON with dates as ISO 8601


cdef enum put_status_t:
    PUT_DONE
    PUT_OTHER                 # a value whose text cannot be made directly, or needs an escape
    PUT_NO_MEMORY


cdef inline bint is_text(const field_t* field, bint bytes_are_text) noexcept nogil:
    # If so, put_text writes it, else put_fixed
    return (field.form == FORM_UTF8 or field.form == FORM_ASCII or field.form == FORM_TEXT
            or (field.form == FORM_BYTES and bytes_are_text))


cdef inline void put_quote(memory_t* out, text_form_t wanted) noexcept nogil:
    # The caller has reserved room for it.
    if wanted != TEXT_CSV:
        out.data[out.length] = c"'" if wanted == TEXT_SQL else c'"'
        out.length += 1


cdef inline bint is_space(uint8_t c) noexcept nogil:
    return c == c' ' or 9 <= c <= 13 or 28 <= c <= 31


cdef inline bint needs_no_escape(const uint8_t* p, size_t length, text_form_t wanted, bint utf8) noexcept nogil:
    # utf8: bytes above ASCII are UTF-8; otherwise they need an escape
    cdef size_t i
    cdef uint8_t c
    if wanted == TEXT_CSV:
        if not length or is_space(p[0]) or is_space(p[length - 1]) or p[0] > 126 or p[length - 1] > 126:
            return False
        for i in range(length):
            c = p[i]
            if c == c',' or c == c'"' or c == 10 or c == 13 or (c > 127 and not utf8):
                return False
        return True
    for i in range(length):
        c = p[i]
        if c < 32 or c > 126 or c == c"'" or c == c'\\':
            return False
    return True


cdef inline put_status_t put_text(memory_t* out, const field_t* field, const uint8_t* data, uint32_t length,
                                  text_form_t wanted) noexcept nogil:
    if field.form == FORM_TEXT and not field.ascii_alike:
        return PUT_OTHER
    if not needs_no_escape(data, length, wanted, field.form == FORM_UTF8):
        return PUT_OTHER
    if field.form == FORM_UTF8 and not is_utf8(data, length):
        return PUT_OTHER
    if reserve(out, <size_t> length + 2) != DECODE_OK:
        return PUT_NO_MEMORY
    put_quote(out, wanted)
    append(out, data, length)
    put_quote(out, wanted)
    return PUT_DONE


cdef inline put_status_t put_fixed(memory_t* out, const field_t* field, const uint8_t* p,
                                   text_form_t wanted) noexcept nogil:
    # p: the field in the record
    cdef form_t form = field.form
    cdef uint64_t[4] limbs
    cdef uint64_t number
    if reserve(out, DECIMAL_TEXT_MAX + 2) != DECODE_OK:
        return PUT_NO_MEMORY
    if FORM_I8 <= form <= FORM_U64:
        number = load_integer(form, p)
        if form == FORM_U64:
            append_unsigned(out, number)
        else:
            append_signed(out, <int64_t> number)
        return PUT_DONE
    if form == FORM_DECIMAL:
        memcpy(limbs, p, 8 * <size_t> field.limb_count)
        if wanted == TEXT_JSON or wanted == TEXT_ISO:
            put_quote(out, wanted)
        out.length += decimal_text(limbs, field.limb_count, field.scale, <char*> out.data + out.length)
        if wanted == TEXT_JSON or wanted == TEXT_ISO:
            put_quote(out, wanted)
        return PUT_DONE
    if FORM_DATE <= form <= FORM_TIME:
        memcpy(&number, p, 8)
        return put_temporal(out, form, <int64_t> number, wanted)
    return PUT_OTHER


cdef inline put_status_t put_temporal(memory_t* out, form_t form, int64_t value, text_form_t wanted) noexcept nogil:
    # The caller has reserved room for it.
    cdef calendar_t at
    cdef uint64_t size
    if value == INT64_MIN:           # NaT
        return PUT_OTHER
    if form == FORM_TIME:
        size = <uint64_t> value if value >= 0 else 0 - <uint64_t> value
        at.microsecond = <int> (size % 1000000)
        size = size // 1000000
        at.second = <int> (size % 60)
        at.minute = <int> (size // 60 % 60)
        at.hour = <int> (size // 3600 % 100)
        put_quote(out, wanted)
        if value < 0:
            append(out, b"-", 1)
        if size >= 360000:                  # hundreds of hours
            append_unsigned(out, size // 360000)
        out.length += put_time(&at, 6 if at.microsecond else 0, <char*> out.data + out.length)
        put_quote(out, wanted)
        return PUT_DONE
    if form != FORM_DATE:
        calendar_of_us(value, &at)
    elif -100000000 < value < 100000000:
        calendar_of_days(value, &at)
    else:
        return PUT_OTHER
    if not 0 < at.year < 10000:
        return PUT_OTHER
    put_quote(out, wanted)
    out.length += put_date(&at, <char*> out.data + out.length)
    if form != FORM_DATE:
        append(out, b"T" if wanted == TEXT_ISO else b" ", 1)
        out.length += put_time(&at, 6 if at.microsecond else 0, <char*> out.data + out.length)
        if form == FORM_TIMESTAMP and wanted != TEXT_SQL:
            append(out, b"+00:00", 6)
    put_quote(out, wanted)
    return PUT_DONE
