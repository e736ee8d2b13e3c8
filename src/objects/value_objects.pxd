# How one field of a record becomes one Python value, if its bytes are enough for that.
# Header-only; everything here needs the GIL.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.datetime cimport date_new, datetime_new, timedelta_new
from cpython.unicode cimport PyUnicode_DecodeASCII, PyUnicode_DecodeUTF8
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from batch.records cimport invalid_date_t, transaction_t
from types.calendar cimport (
    DATE_TEXT_MAX, calendar_of_days, calendar_of_us, calendar_t, floor_div, put_date, put_time,
)
from wire.cursor cimport load_u16, load_u32, load_u64
from wire.gtid cimport GTID_MARIADB, GTID_MYSQL


cdef enum form_t:             # how a field becomes a Python value
    FORM_NONE
    FORM_I8
    FORM_I16
    FORM_I32
    FORM_I64
    FORM_U8
    FORM_U16
    FORM_U32
    FORM_U64
    FORM_FLOAT
    FORM_DOUBLE
    FORM_DECIMAL
    FORM_DATE
    FORM_DATETIME
    FORM_TIMESTAMP
    FORM_TIME
    FORM_UTF8
    FORM_ASCII
    FORM_TEXT                 # any other character set
    FORM_BYTES
    FORM_ENUM
    FORM_SET
    FORM_JSON
    FORM_VECTOR


cdef struct field_t:
    form_t form
    size_t offset             # of the field in the record
    size_t bitmap_byte
    uint8_t bitmap_mask
    uint16_t column           # Column.index
    bint ascii_alike          # bytes below 0x80 are ASCII in the character set
    int scale                 # scale of DECIMAL; fraction digits of temporal types
    int limb_count
    Py_ssize_t pad_to
    size_t slot               # of the value in the block of a dict of all columns
    uint8_t alike             # if this many bytes are the same, so is the (immutable) object; 0: never
    bint is_span              # these bytes lie elsewhere, as many as the span says
    bint keeps                # values are expensive to make, so they are kept
    int worth                 # how much keeping them has paid so far


cdef inline uint64_t load_integer(form_t form, const uint8_t* p) noexcept nogil:
    # FORM_I8 to FORM_U64; signed ones are sign-extended to 64 bits. Fields of records are not aligned.
    if form == FORM_I8:
        return <uint64_t> (<const int8_t*> p)[0]
    if form == FORM_I16:
        return <uint64_t> <int16_t> load_u16(p)
    if form == FORM_I32:
        return <uint64_t> <int32_t> load_u32(p)
    if form == FORM_U8:
        return p[0]
    if form == FORM_U16:
        return load_u16(p)
    if form == FORM_U32:
        return load_u32(p)
    return load_u64(p)


cdef inline str date_text(const field_t* field, const calendar_t* at):
    cdef char[2 * DATE_TEXT_MAX] text
    cdef size_t length = 0
    if field.form != FORM_TIME:
        length = put_date(at, text)
    if field.form == FORM_DATETIME or field.form == FORM_TIMESTAMP:
        text[length] = c' '
        length += 1
    if field.form != FORM_DATE:
        length += put_time(at, field.scale, text + length)
    return PyUnicode_DecodeASCII(text, <Py_ssize_t> length, NULL)


cdef inline bint is_day(int64_t days) noexcept nogil:
    # Within the range that calendar arithmetic can handle
    return -100000000 < days < 100000000


cdef inline object temporal_value(const field_t* field, int64_t value, object utc):
    # The value is not NaT; for a DATE, is_day holds.
    cdef calendar_t at
    cdef int64_t seconds
    if field.form == FORM_TIME:
        seconds = floor_div(value, 1000000)
        return timedelta_new(
            <int> floor_div(seconds, 86400),
            <int> (seconds - floor_div(seconds, 86400) * 86400),
            <int> (value - seconds * 1000000),
        )
    if field.form == FORM_DATE:
        calendar_of_days(value, &at)
        if 0 < at.year < 10000:
            return date_new(<int> at.year, at.month, at.day)
    else:
        calendar_of_us(value, &at)
        if 0 < at.year < 10000:
            return datetime_new(
                <int> at.year, at.month, at.day, at.hour, at.minute, at.second, at.microsecond,
                utc if field.form == FORM_TIMESTAMP else None,
            )
    return date_text(field, &at)     # outside the range of Python's dates


cdef inline str invalid_date_text(const field_t* field, const invalid_date_t* date):
    cdef calendar_t at
    at.year = date.year
    at.month = date.month
    at.day = date.day
    at.hour = date.hour
    at.minute = date.minute
    at.second = date.second
    at.microsecond = <int> date.microsecond
    return date_text(field, &at)


cdef inline object enum_value(uint16_t number, tuple members):
    # 0 is '', which the server stores for a value that is not a member.
    if members is None:
        return number
    if number == 0:
        return ""
    if number > len(members):
        return number
    return members[number - 1]


cdef inline object set_value(uint64_t mask, tuple members):
    cdef list names = []
    cdef Py_ssize_t bit
    if members is None or (len(members) < 64 and mask >> len(members)):
        return mask
    for bit in range(min(len(members), 64)):
        if mask >> bit & 1:
            names.append(members[bit])
    return names


cdef inline list vector_value(const char* data, Py_ssize_t count):
    cdef list out = []
    cdef Py_ssize_t i
    cdef float value
    for i in range(count):
        memcpy(&value, data + 4 * i, 4)
        out.append(<double> value)
    return out


cdef inline bytes padded_bytes(const char* data, Py_ssize_t length, Py_ssize_t pad_to):
    cdef bytes out = PyBytes_FromStringAndSize(NULL, pad_to)
    cdef char* place = PyBytes_AS_STRING(out)
    memcpy(place, data, length)
    memset(place + length, 0, pad_to - length)
    return out


cdef inline object gtid_text(const transaction_t* transaction):
    # MySQL: uuid:number or uuid:tag:number; MariaDB: domain-server-number
    cdef const char* hexadecimal = b"0123456789abcdef"
    cdef char[36] uuid
    cdef int i
    cdef int at = 0
    cdef Py_ssize_t tag_len = 0
    if transaction.gtid_kind == GTID_MARIADB:
        return f"{transaction.domain_id}-{transaction.server_id}-{transaction.sequence_number}"
    if transaction.gtid_kind != GTID_MYSQL:
        return None
    for i in range(16):
        if i == 4 or i == 6 or i == 8 or i == 10:
            uuid[at] = c'-'
            at += 1
        uuid[at] = hexadecimal[transaction.uuid[i] >> 4]
        uuid[at + 1] = hexadecimal[transaction.uuid[i] & 15]
        at += 2
    source = PyUnicode_DecodeASCII(uuid, 36, NULL)
    while tag_len < 32 and transaction.tag[tag_len]:
        tag_len += 1
    tag = PyUnicode_DecodeUTF8(<const char*> transaction.tag, tag_len, b"backslashreplace")
    if tag:
        return f"{source}:{tag}:{transaction.sequence_number}"
    return f"{source}:{transaction.sequence_number}"
