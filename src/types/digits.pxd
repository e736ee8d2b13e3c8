# Integers as decimal digits.

from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy

from memory.memory cimport memory_t, reserve
from wire.codes cimport DECODE_NO_MEMORY, DECODE_OK


cdef extern from *:
    """
    static const char binlog_digit_pairs[] =
        "00010203040506070809101112131415161718192021222324"
        "25262728293031323334353637383940414243444546474849"
        "50515253545556575859606162636465666768697071727374"
        "75767778798081828384858687888990919293949596979899";
    static const uint64_t binlog_power_of_ten[20] = {
        1u, 10u, 100u, 1000u, 10000u, 100000u, 1000000u, 10000000u, 100000000u, 1000000000u, 10000000000u,
        100000000000u, 1000000000000u, 10000000000000u, 100000000000000u, 1000000000000000u, 10000000000000000u,
        100000000000000000u, 1000000000000000000u, 10000000000000000000u
    };
    """
    const char* digit_pairs "binlog_digit_pairs"
    const uint64_t* power_of_ten "binlog_power_of_ten"     # those that 64 bits can hold
    int leading_zeros "__builtin_clzll"(unsigned long long value) noexcept nogil   # of any but 0

cdef enum:
    DIGITS_MAX = 20               # of an integer of 64 bits; also of one with its sign


cdef inline void put_digits(char* place, uint64_t value, int digits) noexcept nogil:
    # The last `digits` decimal digits of value, with leading zeros.
    while digits >= 2:
        digits -= 2
        memcpy(place + digits, digit_pairs + 2 * (value % 100), 2)
        value //= 100
    if digits > 0:
        place[0] = <char> (c'0' + value % 10)


cdef inline int digit_count(uint64_t value) noexcept nogil:
    cdef int most = (64 - leading_zeros(value | 1)) * 1233 >> 12       # log10(2) is about 1233 / 4096
    return most + ((value | 1) >= power_of_ten[most])          # 0 has a digit, too


cdef inline void put_unsigned(memory_t* out, uint64_t value) noexcept nogil:
    # The caller has reserved room for DIGITS_MAX.
    cdef int digits = digit_count(value)
    put_digits(<char*> out.data + out.length, value, digits)
    out.length += <size_t> digits


cdef inline void put_signed(memory_t* out, int64_t value) noexcept nogil:
    # As put_unsigned
    out.data[out.length] = c'-'
    out.length += value < 0
    put_unsigned(out, <uint64_t> value if value >= 0 else 0 - <uint64_t> value)


cdef inline int append_unsigned(memory_t* out, uint64_t value) noexcept nogil:
    if reserve(out, DIGITS_MAX) != DECODE_OK:
        return DECODE_NO_MEMORY
    put_unsigned(out, value)
    return DECODE_OK


cdef inline int append_signed(memory_t* out, int64_t value) noexcept nogil:
    if reserve(out, DIGITS_MAX) != DECODE_OK:
        return DECODE_NO_MEMORY
    put_signed(out, value)
    return DECODE_OK
