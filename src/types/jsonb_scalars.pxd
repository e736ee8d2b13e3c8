# Decimals, dates, times and bytes inside binary JSON, printed as the server prints them.
# Header-only. Each function appends to a memory_t and returns a status_t.

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from memory.memory cimport memory_t, reserve
from types.decimal cimport digits_len, take_digits
from types.digits cimport power_of_ten, put_digits
from wire.codes cimport DECODE_BAD_VALUE, DECODE_NO_MEMORY, DECODE_OK


cdef enum:
    PACKED_DECIMAL_MAX = 120  # bytes of 255 digits, the most that a byte can count


cdef inline int append_packed_decimal(
    memory_t* out, const uint8_t* data, size_t length, int precision, int scale
) noexcept nogil:
    # NEWDECIMAL straight to text. The server computes with up to 81 digits, more than the 65 of
    # a column; as text, any number will do.
    cdef uint8_t[PACKED_DECIMAL_MAX + 8] packed      # with room after it: groups are loaded in whole words
    cdef const uint8_t* pos = packed
    cdef int whole = precision - scale
    cdef size_t expected
    cdef char* start
    cdef char* place
    cdef int digits
    cdef int left = precision
    cdef bint negative
    cdef uint32_t flip
    cdef uint32_t sign = 1
    cdef uint32_t group
    if precision < 1 or whole < 0:
        return DECODE_BAD_VALUE
    expected = 4u * <size_t> (whole // 9 + scale // 9) + digits_len[whole % 9] + digits_len[scale % 9]
    if length != expected:
        return DECODE_BAD_VALUE
    if reserve(out, <size_t> precision + 4) != DECODE_OK:
        return DECODE_NO_MEMORY
    start = place = <char*> out.data + out.length
    memset(packed, 0, sizeof(packed))
    memcpy(packed, data, length)
    negative = not data[0] & 0x80
    flip = 0xFFFFFFFFu if negative else 0
    if negative:
        place[0] = c'-'
        place += 1
    if whole == 0:
        place[0] = c'0'
        place += 1
    while left:
        # Integer digits are grouped from the point to the left, fraction digits to the right.
        if left > scale:
            digits = (left - scale) % 9 or 9
        else:
            if left == scale:
                place[0] = c'.'
                place += 1
            digits = 9 if left >= 9 else left
        group = take_digits(&pos, digits_len[digits], flip, &sign)
        if group >= power_of_ten[digits]:
            return DECODE_BAD_VALUE
        put_digits(place, group, digits)
        place += digits
        left -= digits
        if left == scale and whole:
            place = start + negative + drop_leading_zeros(start + negative, place - start - negative)
    out.length += <size_t> (place - start)
    return DECODE_OK


cdef inline Py_ssize_t drop_leading_zeros(char* digits, Py_ssize_t count) noexcept nogil:
    # Removes leading zeros, except the last digit; returns how many digits stay.
    cdef Py_ssize_t zeros = 0
    cdef Py_ssize_t i
    while zeros < count - 1 and digits[zeros] == c'0':
        zeros += 1
    if zeros:
        for i in range(count - zeros):
            digits[i] = digits[i + zeros]
    return count - zeros


cdef inline int append_packed_datetime(memory_t* out, uint64_t packed, bint with_time) noexcept nogil:
    cdef uint32_t microsecond = packed & 0xFFFFFF
    cdef uint32_t second = (packed >> 24) & 63
    cdef uint32_t minute = (packed >> 30) & 63
    cdef uint32_t hour = (packed >> 36) & 31
    cdef uint32_t day = (packed >> 41) & 31
    cdef uint64_t month_count = packed >> 46
    cdef char* place
    if month_count > 9999u * 13 + 12 or hour > 23 or minute > 59 or second > 59 or microsecond > 999999:
        return DECODE_BAD_VALUE
    if reserve(out, 28) != DECODE_OK:
        return DECODE_NO_MEMORY
    place = <char*> out.data + out.length
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


cdef inline int append_packed_time(memory_t* out, int64_t packed) noexcept nogil:
    cdef uint64_t size = 0 - <uint64_t> packed if packed < 0 else <uint64_t> packed
    cdef uint32_t microsecond = size & 0xFFFFFF
    cdef uint32_t second = (size >> 24) & 63
    cdef uint32_t minute = (size >> 30) & 63
    cdef uint64_t hour = size >> 36
    cdef int hour_digits = 3 if hour > 99 else 2
    cdef char* place
    if hour > 838 or minute > 59 or second > 59 or microsecond > 999999:
        return DECODE_BAD_VALUE
    if reserve(out, 20) != DECODE_OK:
        return DECODE_NO_MEMORY
    place = <char*> out.data + out.length
    memcpy(place, b'"-', 2)
    place += 1 + (packed < 0)
    put_digits(place, hour, hour_digits)
    place += hour_digits
    memcpy(place, b':00:00.000000"', 14)
    put_digits(place + 1, minute, 2)
    put_digits(place + 4, second, 2)
    put_digits(place + 7, microsecond, 6)
    out.length = <size_t> (place + 14 - <char*> out.data)
    return DECODE_OK


cdef inline int append_base64(memory_t* out, const uint8_t* data, size_t length) noexcept nogil:
    cdef const char* alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    cdef size_t i
    cdef uint32_t three
    cdef char* place
    # 4 characters for every 3 bytes, and 2 more for each line.
    if reserve(out, length // 3 * 4 + 4 + length // 57 * 2) != DECODE_OK:
        return DECODE_NO_MEMORY
    place = <char*> out.data + out.length
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
    out.length = <size_t> (place - <char*> out.data)
    return DECODE_OK
