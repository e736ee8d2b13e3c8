# How one field of a record becomes one Python value, where that takes no more than its bytes.
# Header-only; everything here needs the GIL.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeASCII, PyUnicode_DecodeUTF8
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from batch.records cimport transaction_t
from types.calendar cimport DATE_TEXT_MAX, calendar_t, put_date, put_time
from types.decimal_text cimport DECIMAL_TEXT_MAX, decimal_text
from wire.gtid cimport GTID_MARIADB, GTID_MYSQL


cdef enum form_t:             # how a field of the record becomes a Python value
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
    size_t offset             # in the record
    size_t bitmap_byte
    uint8_t bitmap_mask
    uint16_t column           # Column.index
    bint ascii_alike          # bytes below 0x80 are ASCII in the character set
    int scale                 # of DECIMAL; fraction digits of temporal types
    int limb_count
    Py_ssize_t pad_to


cdef inline object decimal_value(object Decimal, const uint8_t* p, int limb_count, int scale):
    # Decimal reads text exactly, whatever the context's precision.
    cdef uint64_t[4] limbs
    cdef char[DECIMAL_TEXT_MAX] text
    cdef size_t length
    memcpy(limbs, p, 8 * <size_t> limb_count)
    length = decimal_text(limbs, limb_count, scale, text)
    return Decimal(PyUnicode_DecodeASCII(text, <Py_ssize_t> length, NULL))


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


cdef inline object enum_value(uint16_t number, tuple members):
    # 0 is '', what the server stores for a value that is no member.
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
