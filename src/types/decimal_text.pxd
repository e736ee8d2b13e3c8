# The text of a decimal, made of its unscaled limbs, with all digits of the scale. Header-only.

from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy, memset

from types.digits cimport digit_count, power_of_ten, put_digits

cdef enum:
    DECIMAL_TEXT_MAX = 128    # sign, 78 digits of 256 bits, scale up to 40 with its leading zeros, point


cdef inline void negate(uint32_t* words, int count) noexcept nogil:
    cdef uint64_t sum = 1
    cdef int i
    for i in range(count):
        sum += <uint32_t> ~words[i]
        words[i] = <uint32_t> sum
        sum >>= 32


cdef inline size_t small_decimal_text(uint64_t value, int scale, char* out) noexcept nogil:
    # The same for one limb; scale: up to 19
    cdef bint negative = value >> 63
    cdef char* place = out
    cdef uint64_t whole
    cdef int digits
    if negative:
        value = 0 - value
    place[0] = c'-'
    place += negative
    whole = value // power_of_ten[scale]
    digits = digit_count(whole)
    put_digits(place, whole, digits)
    place += digits
    if scale:
        place[0] = c'.'
        put_digits(place + 1, value - whole * power_of_ten[scale], scale)
        place += 1 + scale
    return <size_t> (place - out)


cdef inline size_t decimal_text(const uint64_t* limbs, int limb_count, int scale, char* out) noexcept nogil:
    # Writes into `out`, DECIMAL_TEXT_MAX long; returns the length.
    # Limbs: two's complement, least first, 1 to 4 of them. scale: 0 to 40.
    cdef char[DECIMAL_TEXT_MAX] digits        # filled from the right
    cdef uint32_t[8] words
    cdef uint64_t rest
    cdef bint negative = limbs[limb_count - 1] >> 63
    cdef int word_count = 2 * limb_count
    cdef int at = DECIMAL_TEXT_MAX
    cdef int whole, i
    cdef char* place = out
    i = 1
    while i < limb_count and limbs[i] == 0 - (limbs[0] >> 63):
        i += 1
    if i == limb_count and scale < 20:
        return small_decimal_text(limbs[0], scale, out)
    memcpy(words, limbs, 8 * <size_t> limb_count)
    if negative:
        negate(words, word_count)
    while word_count and not words[word_count - 1]:
        word_count -= 1
    while word_count:
        # Nine digits per division. If the highest word is below the divisor, it becomes 0.
        rest = 0
        for i in range(word_count - 1, -1, -1):
            rest = rest << 32 | words[i]
            words[i] = <uint32_t> (rest // 1000000000)
            rest %= 1000000000
        if not words[word_count - 1]:
            word_count -= 1
        at -= 9
        put_digits(digits + at, rest, 9)
    while at < DECIMAL_TEXT_MAX and digits[at] == c'0':
        at += 1
    if DECIMAL_TEXT_MAX - at <= scale:        # at least one digit before the point
        whole = scale + 1 - (DECIMAL_TEXT_MAX - at)
        at -= whole
        memset(digits + at, c'0', <size_t> whole)
    if negative:
        place[0] = c'-'
        place += 1
    whole = DECIMAL_TEXT_MAX - at - scale
    memcpy(place, digits + at, <size_t> whole)
    place += whole
    if scale:
        place[0] = c'.'
        memcpy(place + 1, digits + at + whole, <size_t> scale)
        place += 1 + scale
    return <size_t> (place - out)
