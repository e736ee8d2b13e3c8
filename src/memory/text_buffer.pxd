# A growable byte buffer for text, and integers printed into it. Header-only.
# Zero a TextBuffer before its first use and free_text it at the end; length = 0 starts anew.

from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from wire.codes cimport DECODE_NO_MEMORY, DECODE_OK


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
