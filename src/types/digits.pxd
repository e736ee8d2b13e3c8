# Integers as decimal digits.

from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy

from memory.memory cimport append, memory_t, reserve
from wire.codes cimport DECODE_NO_MEMORY, DECODE_OK


cdef extern from *:
    """
    static const char binlog_digit_pairs[] =
        "00010203040506070809101112131415161718192021222324"
        "25262728293031323334353637383940414243444546474849"
        "50515253545556575859606162636465666768697071727374"
        "75767778798081828384858687888990919293949596979899";
    """
    const char* digit_pairs "binlog_digit_pairs"


cdef inline void put_digits(char* place, uint64_t value, int digits) noexcept nogil:
    # The last `digits` decimal digits of value, with leading zeros.
    while digits >= 2:
        digits -= 2
        memcpy(place + digits, digit_pairs + 2 * (value % 100), 2)
        value //= 100
    if digits > 0:
        place[0] = <char> (c'0' + value % 10)


cdef inline int digit_count(uint64_t value) noexcept nogil:
    cdef int count = 1
    while value >= 10000:
        value //= 10000
        count += 4
    return count + (value >= 10) + (value >= 100) + (value >= 1000)


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
