# Integers as decimal digits.

from libc.stdint cimport int64_t, uint64_t

from memory.memory cimport append, memory_t, reserve
from wire.codes cimport DECODE_NO_MEMORY, DECODE_OK


cdef inline void put_digits(char* place, uint64_t value, int digits) noexcept nogil:
    # The last `count` decimal digits of value, with leading zeros.
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


cdef inline int append_unsigned(memory_t* out, uint64_t value) noexcept nogil:
    cdef int digits = digit_count(value)
    if reserve(out, 20) != DECODE_OK:
        return DECODE_NO_MEMORY
    put_digits(<char*> out.data + out.length, value, digits)
    out.length += <size_t> digits
    return DECODE_OK


cdef inline int append_signed(memory_t* out, int64_t value) noexcept nogil:
    if value >= 0:
        return append_unsigned(out, <uint64_t> value)
    return append(out, b"-", 1) or append_unsigned(out, 0 - <uint64_t> value)
