# MySQL's binary JSON to text, byte for byte as the server prints it.
# Header-only; no Python object is made per value. For other modules:
#
#   memory_t                                     growable bytes; zero it first
#   append_jsonb_text(data, length, &buffer)     one document; nogil; returns a status_t:
#                                                DECODE_OK, DECODE_BAD_VALUE, DECODE_NO_MEMORY
#   release(&buffer)                             when done; buffer.length = 0 reuses the memory
#
# After a failure the buffer may hold a part of the document: restore its previous length.
# The text is always valid UTF-8.
#
# Source: MySQL server documentation, "JSON binary format".

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from memory.memory cimport append, memory_t
from types.digits cimport append_signed, append_unsigned
from types.double_text cimport append_double
from types.json_string cimport append_json_string
from types.jsonb_scalars cimport append_base64, append_packed_datetime, append_packed_decimal, append_packed_time
from wire.codes cimport DECODE_BAD_VALUE, DECODE_OK
from wire.cursor cimport load_u16, load_u32, load_u64


cdef enum jsonb_type:
    JSONB_SMALL_OBJECT = 0
    JSONB_LARGE_OBJECT = 1
    JSONB_SMALL_ARRAY = 2
    JSONB_LARGE_ARRAY = 3
    JSONB_LITERAL = 4
    JSONB_INT16 = 5
    JSONB_UINT16 = 6
    JSONB_INT32 = 7
    JSONB_UINT32 = 8
    JSONB_INT64 = 9
    JSONB_UINT64 = 10
    JSONB_DOUBLE = 11
    JSONB_STRING = 12
    JSONB_OPAQUE = 15

cdef enum:
    JSONB_MAX_DEPTH = 100     # the server's own limit
    OPAQUE_TIMESTAMP = 7
    OPAQUE_DATE = 10
    OPAQUE_TIME = 11
    OPAQUE_DATETIME = 12
    OPAQUE_NEWDECIMAL = 246


cdef struct JsonbPrinter:
    memory_t* out
    int depth                 # containers around the value
    # Bytes of the document not printed yet. In a damaged document many entries can point at one
    # value; without this limit a few kilobytes could ask for exabytes of text.
    size_t budget


cdef inline bint spend(JsonbPrinter* printer, size_t n) noexcept nogil:
    if n > printer.budget:
        return False
    printer.budget -= n
    return True


# -- Containers ------------------------------------------------------------------------------

cdef struct Container:
    const uint8_t* start      # where `count` is; offsets are relative to it
    size_t size               # no key or value reaches beyond it
    size_t count
    size_t value_entries      # offset of the first value entry
    size_t entries_end        # offset after the last one
    uint8_t width             # bytes of an offset: 2 in a small container, 4 in a large one
    bint is_object


cdef struct Element:
    uint8_t type
    const uint8_t* data
    size_t length             # bytes that the value may use


cdef inline size_t load_offset(const uint8_t* p, uint8_t width) noexcept nogil:
    return load_u16(p) if width == 2 else load_u32(p)


cdef inline int open_container(
    uint8_t type, const uint8_t* data, size_t length, Container* out
) noexcept nogil:
    cdef size_t key_len
    memset(out, 0, sizeof(Container))
    out.start = data
    out.is_object = type == JSONB_SMALL_OBJECT or type == JSONB_LARGE_OBJECT
    out.width = 2 if type == JSONB_SMALL_OBJECT or type == JSONB_SMALL_ARRAY else 4
    if length < 2u * out.width:
        return DECODE_BAD_VALUE
    out.count = load_offset(data, out.width)
    out.size = load_offset(data + out.width, out.width)
    if out.size > length or out.size < 2u * out.width:
        return DECODE_BAD_VALUE
    key_len = out.width + 2u if out.is_object else 0
    if out.count > (out.size - 2u * out.width) // (key_len + 1 + out.width):
        return DECODE_BAD_VALUE
    out.value_entries = 2u * out.width + out.count * key_len
    out.entries_end = out.value_entries + out.count * (1 + out.width)
    return DECODE_OK


cdef inline int container_key(
    const Container* c, size_t index, const uint8_t** key, size_t* length
) noexcept nogil:
    cdef const uint8_t* entry = c.start + 2u * c.width + index * (c.width + 2u)
    cdef size_t offset = load_offset(entry, c.width)
    length[0] = load_u16(entry + c.width)
    if offset < c.entries_end or offset > c.size or length[0] > c.size - offset:
        return DECODE_BAD_VALUE
    key[0] = c.start + offset
    return DECODE_OK


cdef inline int container_value(const Container* c, size_t index, Element* out) noexcept nogil:
    cdef const uint8_t* entry = c.start + c.value_entries + index * (1u + c.width)
    cdef size_t offset
    memset(out, 0, sizeof(Element))
    out.type = entry[0]
    if (
        out.type == JSONB_LITERAL or out.type == JSONB_INT16 or out.type == JSONB_UINT16
        or (c.width == 4 and (out.type == JSONB_INT32 or out.type == JSONB_UINT32))
    ):
        out.data = entry + 1
        out.length = c.width
        return DECODE_OK
    offset = load_offset(entry + 1, c.width)
    if offset < c.entries_end or offset > c.size:
        return DECODE_BAD_VALUE
    out.data = c.start + offset
    out.length = c.size - offset
    return DECODE_OK


cdef inline int append_container(
    JsonbPrinter* printer, uint8_t type, const uint8_t* data, size_t length
) noexcept nogil:
    cdef Container c
    cdef Element element
    cdef const uint8_t* key
    cdef size_t key_length, i
    cdef int status = open_container(type, data, length, &c)
    if status:
        return status
    if printer.depth >= JSONB_MAX_DEPTH or not spend(printer, c.entries_end):
        return DECODE_BAD_VALUE
    printer.depth += 1
    status = append(printer.out, b"{" if c.is_object else b"[", 1)
    for i in range(c.count):
        if i and not status:
            status = append(printer.out, b", ", 2)
        if c.is_object and not status:
            status = container_key(&c, i, &key, &key_length)
            if not status:
                status = append_quoted(printer, key, key_length)
            if not status:
                status = append(printer.out, b": ", 2)
        if not status:
            status = container_value(&c, i, &element)
        if not status:
            status = append_jsonb_value(printer, element.type, element.data, element.length)
        if status:
            return status
    printer.depth -= 1
    return status or append(printer.out, b"}" if c.is_object else b"]", 1)


# -- Strings ---------------------------------------------------------------------------------

cdef inline int append_quoted(JsonbPrinter* printer, const uint8_t* text, size_t length) noexcept nogil:
    if not spend(printer, length):
        return DECODE_BAD_VALUE
    return append_json_string(printer.out, text, length)


cdef inline int take_data_length(const uint8_t** data, size_t* left, size_t* length) noexcept nogil:
    # 7 bits per byte, low group first; the high bit says that more follow. At most 5 bytes.
    cdef uint64_t value = 0
    cdef size_t i
    for i in range(5):
        if i >= left[0]:
            return DECODE_BAD_VALUE
        value |= <uint64_t> (data[0][i] & 0x7F) << (7 * i)
        if not data[0][i] & 0x80:
            data[0] += i + 1
            left[0] -= i + 1
            if value > left[0]:
                return DECODE_BAD_VALUE
            length[0] = <size_t> value
            return DECODE_OK
    return DECODE_BAD_VALUE


# -- Values ---------------------------------------------------------------------------------

cdef inline int append_opaque(JsonbPrinter* printer, const uint8_t* data, size_t length) noexcept nogil:
    cdef memory_t* out = printer.out
    cdef uint8_t type
    cdef size_t left
    cdef int status
    if length < 2:
        return DECODE_BAD_VALUE
    type = data[0]
    data += 1
    left = length - 1
    status = take_data_length(&data, &left, &length)
    if status:
        return status
    if not spend(printer, length):
        return DECODE_BAD_VALUE
    if type == OPAQUE_NEWDECIMAL:
        if length < 2:
            return DECODE_BAD_VALUE
        return append_packed_decimal(out, data + 2, length - 2, data[0], data[1])
    if type == OPAQUE_DATE or type == OPAQUE_DATETIME or type == OPAQUE_TIMESTAMP:
        if length != 8:
            return DECODE_BAD_VALUE
        return append_packed_datetime(out, load_u64(data), type != OPAQUE_DATE)
    if type == OPAQUE_TIME:
        if length != 8:
            return DECODE_BAD_VALUE
        return append_packed_time(out, <int64_t> load_u64(data))
    return (
        append(out, b'"base64:type', 12)
        or append_unsigned(out, type)
        or append(out, b":", 1)
        or append_base64(out, data, length)
        or append(out, b'"', 1)
    )


cdef inline int append_literal(memory_t* out, uint8_t literal) noexcept nogil:
    if literal == 0:
        return append(out, b"null", 4)
    if literal == 1:
        return append(out, b"true", 4)
    if literal == 2:
        return append(out, b"false", 5)
    return DECODE_BAD_VALUE


cdef inline size_t number_len(uint8_t type) noexcept nogil:
    # Bytes of a value of a type of fixed length; 0 for other types.
    if type == JSONB_LITERAL:
        return 1
    if type == JSONB_INT16 or type == JSONB_UINT16:
        return 2
    if type == JSONB_INT32 or type == JSONB_UINT32:
        return 4
    if type == JSONB_INT64 or type == JSONB_UINT64 or type == JSONB_DOUBLE:
        return 8
    return 0


cdef inline int append_jsonb_value(
    JsonbPrinter* printer, uint8_t type, const uint8_t* data, size_t length
) noexcept nogil:
    cdef memory_t* out = printer.out
    cdef double number
    cdef size_t text_length = 0
    cdef int status
    if type <= JSONB_LARGE_ARRAY:
        return append_container(printer, type, data, length)
    if type == JSONB_STRING:
        status = take_data_length(&data, &length, &text_length)
        return status or append_quoted(printer, data, text_length)
    if type == JSONB_OPAQUE:
        return append_opaque(printer, data, length)
    if length < number_len(type):
        return DECODE_BAD_VALUE
    if type == JSONB_LITERAL:
        return append_literal(out, data[0])
    if type == JSONB_INT16:
        return append_signed(out, <int16_t> load_u16(data))
    if type == JSONB_UINT16:
        return append_unsigned(out, load_u16(data))
    if type == JSONB_INT32:
        return append_signed(out, <int32_t> load_u32(data))
    if type == JSONB_UINT32:
        return append_unsigned(out, load_u32(data))
    if type == JSONB_INT64:
        return append_signed(out, <int64_t> load_u64(data))
    if type == JSONB_UINT64:
        return append_unsigned(out, load_u64(data))
    if type == JSONB_DOUBLE:
        memcpy(&number, data, 8)
        return append_double(out, number)
    return DECODE_BAD_VALUE


cdef inline int append_jsonb_text(const uint8_t* data, size_t length, memory_t* out) noexcept nogil:
    cdef JsonbPrinter printer
    if length == 0:
        return append(out, b"null", 4)
    printer.out = out
    printer.depth = 0
    printer.budget = length
    return append_jsonb_value(&printer, data[0], data + 1, length - 1)
