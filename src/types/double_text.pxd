# A double as the shortest text that reads back as the same double. Header-only; no Python.

from libc.math cimport signbit
from libc.stdint cimport uint64_t
from libc.string cimport memcpy, memset

from memory.memory cimport memory_t, reserve
from types.digits cimport digit_count, put_digits
from types.shortest_double cimport shortest_double
from wire.codes cimport DECODE_BAD_VALUE, DECODE_NO_MEMORY, DECODE_OK


cdef inline int append_double(memory_t* out, double value) noexcept nogil:
    # As the server prints it
    return append_double_within(out, value, -14, 15, False)


cdef inline int append_double_repr(memory_t* out, double value) noexcept nogil:
    # As Python prints it
    return append_double_within(out, value, -3, 16, True)


cdef inline int append_double_within(memory_t* out, double value, int least, int most,
                                     bint long_exponent) noexcept nogil:
    # With value = 0.d1d2... * 10^point, points from `least` to `most` are written without an exponent.
    # long_exponent: with its sign, and at least two digits
    cdef char[20] digits
    cdef char* place
    cdef uint64_t significand
    cdef int exponent, count, point
    if value - value != 0:
        return DECODE_BAD_VALUE      # NaN and infinity: JSON has neither
    significand = shortest_double(value, &exponent)
    count = digit_count(significand)
    point = count + exponent
    put_digits(digits, significand, count)
    if reserve(out, 48) != DECODE_OK:
        return DECODE_NO_MEMORY
    place = <char*> out.data + out.length
    if signbit(value):                # true for -0.0, too
        place[0] = c'-'
        place += 1
    if point < least or point > most:
        place[0] = digits[0]
        place += 1
        if count > 1:
            place[0] = c'.'
            memcpy(place + 1, digits + 1, count - 1)
            place += count
        place[0] = c'e'
        place += 1
        exponent = point - 1
        if exponent < 0 or long_exponent:
            place[0] = c'-' if exponent < 0 else c'+'
            place += 1
        exponent = -exponent if exponent < 0 else exponent
        count = max(digit_count(exponent), 2 if long_exponent else 1)
        put_digits(place, exponent, count)
        place += count
    elif point <= 0:
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
    out.length = <size_t> (place - <char*> out.data)
    return DECODE_OK
