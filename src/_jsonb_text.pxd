# MySQL's binary JSON to text, as the server prints it, to the byte.
# Header-only; no Python object is made per value. For other modules:
#
#   TextBuffer                                   growable bytes: data, length, capacity; zero it first
#   append_jsonb_text(data, length, &buffer)     one document; nogil; returns a status_t:
#                                                DECODE_OK, DECODE_BAD_VALUE, DECODE_NO_MEMORY
#   free_text(&buffer)                           when done; buffer.length = 0 starts anew without a malloc
#
# After a failure the buffer may hold a part of the document: cut it back to the length before.
# The text is always valid UTF-8.

from libc.math cimport signbit
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from _codes cimport DECODE_BAD_VALUE, DECODE_NO_MEMORY, DECODE_OK
from _cursor cimport load_be, load_u16, load_u32, load_u64

cdef extern from "Python.h":
    char* PyOS_double_to_string(double value, char format_code, int precision, int flags, int* type) except NULL
    void PyMem_Free(void* p)


cdef struct TextBuffer:
    char* data
    size_t length
    size_t capacity


cdef inline bint reserve_text(TextBuffer* out, size_t more) noexcept nogil:
    # Room for so many bytes after the present ones. False: no memory.
    cdef size_t capacity = out.capacity
    cdef char* data
    if more <= out.capacity - out.length:
        return True
    if more > (<size_t> -1) // 4 - out.length:
        return False
    if capacity < 64:
        capacity = 64
    while capacity - out.length < more:
        capacity *= 2
    data = <char*> realloc(out.data, capacity)
    if data == NULL:
        return False
    out.data = data
    out.capacity = capacity
    return True


cdef inline void free_text(TextBuffer* out) noexcept nogil:
    free(out.data)
    memset(out, 0, sizeof(TextBuffer))


cdef inline int append_text(TextBuffer* out, const char* text, size_t length) noexcept nogil:
    if not reserve_text(out, length):
        return DECODE_NO_MEMORY
    if length:
        memcpy(out.data + out.length, text, length)
        out.length += length
    return DECODE_OK


cdef inline void put_digits(char* place, uint64_t value, int digits) noexcept nogil:
    # The last so many decimal digits of value, with leading zeros.
    cdef int i
    for i in range(digits - 1, -1, -1):
        place[i] = <char> (c'0' + value % 10)
        value //= 10


cdef inline int digit_count(uint64_t value) noexcept nogil:
    cdef int count = 1
    while value >= 10:
        value //= 10
        count += 1
    return count


# -- Types -----------------------------------------------------------------------------------

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
    TextBuffer* out
    int depth                 # containers around the value
    # Bytes of the document not yet printed. A damaged document can point many entries at one
    # value; without this a few kilobytes could ask for exabytes of text.
    size_t budget


cdef inline bint spend(JsonbPrinter* printer, size_t n) noexcept nogil:
    if n > printer.budget:
        return False
    printer.budget -= n
    return True


# -- Containers ------------------------------------------------------------------------------

cdef struct Container:
    const uint8_t* start      # of `count`: offsets are relative to it
    size_t size               # no key and no value reaches beyond
    size_t count
    size_t value_entries      # offset of the first value entry
    size_t entries_end        # offset after the last one
    uint8_t width             # bytes of an offset: 2 small, 4 large
    bint is_object


cdef struct Element:
    uint8_t type
    const uint8_t* data
    size_t length             # bytes that the value may use


cdef inline size_t load_offset(const uint8_t* p, uint8_t width) noexcept nogil:
    return load_u16(p) if width == 2 else load_u32(p)


cdef inline int open_container(uint8_t type, const uint8_t* data, size_t length, Container* out) noexcept nogil:
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


cdef inline int container_key(const Container* c, size_t index, const uint8_t** key, size_t* length) noexcept nogil:
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
    status = append_text(printer.out, b"{" if c.is_object else b"[", 1)
    for i in range(c.count):
        if i and not status:
            status = append_text(printer.out, b", ", 2)
        if c.is_object and not status:
            status = container_key(&c, i, &key, &key_length)
            if not status:
                status = append_quoted(printer, key, key_length)
            if not status:
                status = append_text(printer.out, b": ", 2)
        if not status:
            status = container_value(&c, i, &element)
        if not status:
            status = append_jsonb_value(printer, element.type, element.data, element.length)
        if status:
            return status
    printer.depth -= 1
    return status or append_text(printer.out, b"}" if c.is_object else b"]", 1)


# -- Strings ---------------------------------------------------------------------------------

cdef inline size_t utf8_char_len(const uint8_t* p, size_t left) noexcept nogil:
    # Bytes of the multi-byte character at p; 0: none that UTF-8 has (RFC 3629).
    cdef uint8_t first = p[0]
    cdef uint8_t low = 0x80
    cdef uint8_t high = 0xBF
    cdef size_t length, i
    if first < 0xC2:
        return 0
    elif first < 0xE0:
        length = 2
    elif first < 0xF0:
        length = 3
        if first == 0xE0:
            low = 0xA0
        elif first == 0xED:
            high = 0x9F        # surrogates
    elif first < 0xF5:
        length = 4
        if first == 0xF0:
            low = 0x90
        elif first == 0xF4:
            high = 0x8F        # beyond U+10FFFF
    else:
        return 0
    if length > left or p[1] < low or p[1] > high:
        return 0
    for i in range(2, length):
        if p[i] & 0xC0 != 0x80:
            return 0
    return length


cdef inline size_t plain_run(const uint8_t* p, size_t left) noexcept nogil:
    # Bytes from p on that stand for themselves: ASCII but for controls, quote and backslash.
    # Eight at a time; each term sets the high bit of a byte that it finds. A borrow can also
    # set that of a later byte, which only sends the rest to the loop below.
    cdef const uint8_t* start = p
    cdef uint64_t ones = 0x0101010101010101u
    cdef uint64_t w, quote, backslash
    while left >= 8:
        w = load_u64(p)
        quote = w ^ (ones * 0x22)
        backslash = w ^ (ones * 0x5C)
        if (w | (w - ones * 0x20) | (quote - ones) | (backslash - ones)) & (ones * 0x80):
            break
        p += 8
        left -= 8
    while left and 0x20 <= p[0] < 0x80 and p[0] != c'"' and p[0] != c'\\':
        p += 1
        left -= 1
    return <size_t> (p - start)


cdef inline int append_escaped(JsonbPrinter* printer, const uint8_t* text, size_t length) noexcept nogil:
    # The content of a JSON string, without its quotes.
    cdef TextBuffer* out = printer.out
    cdef const char* hexadecimal = b"0123456789abcdef"
    cdef size_t run
    cdef uint8_t byte
    cdef char* place
    if not spend(printer, length):
        return DECODE_BAD_VALUE
    while True:
        # Most strings end here in the first turn.
        run = plain_run(text, length)
        if not reserve_text(out, run + 6):
            return DECODE_NO_MEMORY
        memcpy(out.data + out.length, text, run)
        out.length += run
        text += run
        length -= run
        if not length:
            return DECODE_OK
        byte = text[0]
        place = out.data + out.length
        if byte >= 0x80:
            run = utf8_char_len(text, length)
            if not run:
                return DECODE_BAD_VALUE
            memcpy(place, text, run)
            out.length += run
            text += run
            length -= run
            continue
        place[0] = c'\\'
        out.length += 2
        if byte == c'"' or byte == c'\\':
            place[1] = <char> byte
        elif byte == 0x08:
            place[1] = c'b'
        elif byte == 0x0C:
            place[1] = c'f'
        elif byte == 0x0A:
            place[1] = c'n'
        elif byte == 0x0D:
            place[1] = c'r'
        elif byte == 0x09:
            place[1] = c't'
        else:
            memcpy(place + 1, b"u00", 3)
            place[4] = hexadecimal[byte >> 4]
            place[5] = hexadecimal[byte & 15]
            out.length += 4
        text += 1
        length -= 1


cdef inline int append_quoted(JsonbPrinter* printer, const uint8_t* text, size_t length) noexcept nogil:
    return (
        append_text(printer.out, b'"', 1)
        or append_escaped(printer, text, length)
        or append_text(printer.out, b'"', 1)
    )


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


# -- Numbers ---------------------------------------------------------------------------------

cdef inline int append_unsigned(TextBuffer* out, uint64_t value) noexcept nogil:
    cdef int digits = digit_count(value)
    if not reserve_text(out, 20):
        return DECODE_NO_MEMORY
    put_digits(out.data + out.length, value, digits)
    out.length += <size_t> digits
    return DECODE_OK


cdef inline int append_signed(TextBuffer* out, int64_t value) noexcept nogil:
    if value >= 0:
        return append_unsigned(out, <uint64_t> value)
    return append_text(out, b"-", 1) or append_unsigned(out, 0 - <uint64_t> value)


cdef inline int shortest_digits(double value, char* digits, int* count, int* point) noexcept nogil:
    # The fewest digits that read back as the same double, so that value = 0.d1d2... * 10^point.
    # They are those of Python's repr, which is made from the same algorithm as the server's.
    cdef char* text
    cdef char* p
    cdef int exponent = 0
    cdef int n = 0
    cdef int zeros = 0            # between the point and the first digit
    cdef int before_point = -1    # digits before the point
    cdef bint negative = False
    with gil:
        try:
            text = PyOS_double_to_string(value, c'r', 0, 0, NULL)
        except MemoryError:
            return DECODE_NO_MEMORY
        p = text
        while p[0] and p[0] != c'e':
            if p[0] == c'.':
                before_point = n
            elif n == 0 and p[0] == c'0':
                zeros += before_point >= 0
            elif c'0' <= p[0] <= c'9' and n < 20:
                digits[n] = p[0]
                n += 1
            p += 1
        if before_point < 0:
            before_point = n
        if p[0] == c'e':
            p += 1
            negative = p[0] == c'-'
            p += 1
            while p[0]:
                exponent = exponent * 10 + (p[0] - c'0')
                p += 1
            if negative:
                exponent = -exponent
        PyMem_Free(text)
    point[0] = before_point - zeros + exponent
    while n > 1 and digits[n - 1] == c'0':
        n -= 1
    if n == 0:
        digits[0] = c'0'
        n = 1
        point[0] = 1
    count[0] = n
    return DECODE_OK


cdef inline int append_double(TextBuffer* out, double value) noexcept nogil:
    cdef char[24] digits
    cdef char* place
    cdef char* start
    cdef int count = 0
    cdef int point = 0
    cdef int status
    if value - value != 0:
        return DECODE_BAD_VALUE      # JSON has no NaN and no infinity
    status = shortest_digits(value, digits, &count, &point)
    if status:
        return status
    if not reserve_text(out, 48):
        return DECODE_NO_MEMORY
    start = place = out.data + out.length
    if signbit(value):                # also -0.0
        place[0] = c'-'
        place += 1
    if point < -14 or point > 15:
        place[0] = digits[0]
        place += 1
        if count > 1:
            place[0] = c'.'
            memcpy(place + 1, digits + 1, count - 1)
            place += count
        place[0] = c'e'
        place += 1
        out.length += <size_t> (place - start)
        return append_signed(out, point - 1)
    if point <= 0:
        memcpy(place, b"0.", 2)
        memset(place + 2, c'0', -point)
        memcpy(place + 2 - point, digits, count)
        place += 2 - point + count
    elif count <= point:
        memcpy(place, digits, count)
        memset(place + count, c'0', point - count)
        memcpy(place + point, b".0", 2)
        place += point + 2
    else:
        memcpy(place, digits, point)
        place[point] = c'.'
        memcpy(place + point + 1, digits + point, count - point)
        place += count + 1
    out.length += <size_t> (place - start)
    return DECODE_OK


cdef inline int append_packed_decimal(
    TextBuffer* out, const uint8_t* data, size_t length, int precision, int scale
) noexcept nogil:
    # NEWDECIMAL straight to text. The server computes with up to 81 digits, more than the 65 of
    # a column; as text any count will do.
    cdef const uint8_t* group_bytes = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4]
    cdef uint32_t* powers = [1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000]
    cdef int whole = precision - scale
    cdef size_t expected, n
    cdef char* start
    cdef char* place
    cdef int digits
    cdef int left = precision
    cdef bint negative
    cdef uint32_t group
    cdef bint first = True
    if precision < 1 or whole < 0:
        return DECODE_BAD_VALUE
    expected = (
        4u * <size_t> (whole // 9) + group_bytes[whole % 9] + 4u * <size_t> (scale // 9) + group_bytes[scale % 9]
    )
    if length != expected:
        return DECODE_BAD_VALUE
    if not reserve_text(out, <size_t> precision + 4):
        return DECODE_NO_MEMORY
    start = place = out.data + out.length
    negative = not data[0] & 0x80
    if negative:
        place[0] = c'-'
        place += 1
    if whole == 0:
        place[0] = c'0'
        place += 1
    while left:
        # Whole digits are grouped from the point to the left, fraction digits to the right.
        if left > scale:
            digits = (left - scale) % 9 or 9
        else:
            if left == scale:
                place[0] = c'.'
                place += 1
            digits = 9 if left >= 9 else left
        n = group_bytes[digits]
        group = <uint32_t> load_be(data, n)
        if first:
            group ^= <uint32_t> 0x80 << (8 * (n - 1))
            first = False
        if negative:
            group ^= 0xFFFFFFFFu >> (32 - 8 * n)
        if group >= powers[digits]:
            return DECODE_BAD_VALUE
        put_digits(place, group, digits)
        place += digits
        data += n
        left -= digits
        if left == scale and whole:
            place = start + negative + drop_leading_zeros(start + negative, place - start - negative)
    out.length += <size_t> (place - start)
    return DECODE_OK


cdef inline Py_ssize_t drop_leading_zeros(char* digits, Py_ssize_t count) noexcept nogil:
    # All but the last digit; returns how many digits stay.
    cdef Py_ssize_t zeros = 0
    cdef Py_ssize_t i
    while zeros < count - 1 and digits[zeros] == c'0':
        zeros += 1
    if zeros:
        for i in range(count - zeros):
            digits[i] = digits[i + zeros]
    return count - zeros


# -- Opaque values ---------------------------------------------------------------------------

cdef inline int append_packed_datetime(TextBuffer* out, uint64_t packed, bint with_time) noexcept nogil:
    cdef uint32_t microsecond = packed & 0xFFFFFF
    cdef uint32_t second = (packed >> 24) & 63
    cdef uint32_t minute = (packed >> 30) & 63
    cdef uint32_t hour = (packed >> 36) & 31
    cdef uint32_t day = (packed >> 41) & 31
    cdef uint64_t month_count = packed >> 46
    cdef char* place
    if month_count > 9999u * 13 + 12 or hour > 23 or minute > 59 or second > 59 or microsecond > 999999:
        return DECODE_BAD_VALUE
    if not reserve_text(out, 28):
        return DECODE_NO_MEMORY
    place = out.data + out.length
    memcpy(place, b'"0000-00-00 00:00:00.000000"', 28)
    put_digits(place + 1, month_count // 13, 4)
    put_digits(place + 6, month_count % 13, 2)
    put_digits(place + 9, day, 2)
    if not with_time:
        place[11] = c'"'
        out.length += 12
        return DECODE_OK
    put_digits(place + 12, hour, 2)
    put_digits(place + 15, minute, 2)
    put_digits(place + 18, second, 2)
    put_digits(place + 21, microsecond, 6)
    out.length += 28
    return DECODE_OK


cdef inline int append_packed_time(TextBuffer* out, int64_t packed) noexcept nogil:
    cdef uint64_t size = 0 - <uint64_t> packed if packed < 0 else <uint64_t> packed
    cdef uint32_t microsecond = size & 0xFFFFFF
    cdef uint32_t second = (size >> 24) & 63
    cdef uint32_t minute = (size >> 30) & 63
    cdef uint64_t hour = size >> 36
    cdef int hour_digits = 3 if hour > 99 else 2
    cdef char* place
    if hour > 838 or minute > 59 or second > 59 or microsecond > 999999:
        return DECODE_BAD_VALUE
    if not reserve_text(out, 20):
        return DECODE_NO_MEMORY
    place = out.data + out.length
    memcpy(place, b'"-', 2)
    place += 1 + (packed < 0)
    put_digits(place, hour, hour_digits)
    place += hour_digits
    memcpy(place, b':00:00.000000"', 14)
    put_digits(place + 1, minute, 2)
    put_digits(place + 4, second, 2)
    put_digits(place + 7, microsecond, 6)
    out.length = <size_t> (place + 14 - out.data)
    return DECODE_OK


cdef inline int append_base64(TextBuffer* out, const uint8_t* data, size_t length) noexcept nogil:
    cdef const char* alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    cdef size_t i
    cdef uint32_t three
    cdef char* place
    # 4 characters for each 3 bytes, and 2 more for each line.
    if not reserve_text(out, length // 3 * 4 + 4 + length // 57 * 2):
        return DECODE_NO_MEMORY
    place = out.data + out.length
    for i in range(0, length, 3):
        if i and i % 57 == 0:
            memcpy(place, b"\\n", 2)      # the server's encoder breaks its lines after 76 characters
            place += 2
        three = <uint32_t> data[i] << 16
        if i + 1 < length:
            three |= <uint32_t> data[i + 1] << 8
        if i + 2 < length:
            three |= data[i + 2]
        place[0] = alphabet[three >> 18]
        place[1] = alphabet[(three >> 12) & 63]
        place[2] = alphabet[(three >> 6) & 63] if i + 1 < length else c'='
        place[3] = alphabet[three & 63] if i + 2 < length else c'='
        place += 4
    out.length = <size_t> (place - out.data)
    return DECODE_OK


cdef inline int append_opaque(JsonbPrinter* printer, const uint8_t* data, size_t length) noexcept nogil:
    cdef TextBuffer* out = printer.out
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
        append_text(out, b'"base64:type', 12)
        or append_unsigned(out, type)
        or append_text(out, b":", 1)
        or append_base64(out, data, length)
        or append_text(out, b'"', 1)
    )


# -- Values ----------------------------------------------------------------------------------

cdef inline int append_literal(TextBuffer* out, uint8_t literal) noexcept nogil:
    if literal == 0:
        return append_text(out, b"null", 4)
    if literal == 1:
        return append_text(out, b"true", 4)
    if literal == 2:
        return append_text(out, b"false", 5)
    return DECODE_BAD_VALUE


cdef inline size_t number_len(uint8_t type) noexcept nogil:
    # Bytes of a value of fixed length; 0: of another type.
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
    cdef TextBuffer* out = printer.out
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


cdef inline int append_jsonb_text(const uint8_t* data, size_t length, TextBuffer* out) noexcept nogil:
    cdef JsonbPrinter printer
    if length == 0:
        return append_text(out, b"null", 4)
    printer.out = out
    printer.depth = 0
    printer.budget = length
    return append_jsonb_value(&printer, data[0], data + 1, length - 1)
