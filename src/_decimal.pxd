# NEWDECIMAL: groups of nine digits, big-endian, outward from the point, into an unscaled
# little-endian integer of one, two or four 64-bit limbs.
#
# Source: MySQL server documentation, "Precision Math: DECIMAL Data Type Characteristics".

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from _cursor cimport load_be_over
from _temporal cimport power_of_ten

cdef extern from *:
    """
    typedef unsigned __int128 binlog_u128;
    /* bytes of a group of 0 to 9 digits */
    static const uint8_t binlog_digits_len[10] = {0, 1, 1, 2, 2, 3, 3, 4, 4, 4};
    """
    ctypedef unsigned long long uint128_t "binlog_u128"
    const uint8_t[10] digits_len "binlog_digits_len"


cdef struct decimal_layout_t:
    uint8_t head_digits      # integer digits before the first full group
    uint8_t full_groups      # groups of nine, integer and fraction alike
    uint8_t tail_digits      # fraction digits after the last full group


cdef inline uint32_t load_group(const uint8_t* p, uint32_t length, uint32_t flip) noexcept nogil:
    # length bytes, big-endian; flip is 0xFF.. for negative numbers, whose bytes are inverted
    cdef uint32_t v = 0
    cdef uint32_t i
    for i in range(length):
        v = v << 8 | (p[i] ^ (flip & 0xFF))
    return v


cdef inline uint32_t head_group(const uint8_t* p, uint32_t length, uint32_t flip) noexcept nogil:
    # The first group of the number holds the sign in its top bit.
    return load_group(p, length, flip) ^ (<uint32_t> 1 << (8 * length - 1))


cdef inline bint decode_decimal64(const uint8_t* p, uint32_t width, decimal_layout_t layout,
                                  int64_t* out) noexcept nogil:
    # At most 18 digits in at most 8 bytes, by one load (p[7] must be readable).
    # False where a group holds more than its digits can.
    cdef uint64_t v = load_be_over(p, width)
    cdef uint64_t sign_bit = <uint64_t> 1 << (8 * width - 1)
    cdef bint negative = not v & sign_bit
    cdef uint32_t tail_bits = 8 * digits_len[layout.tail_digits]
    cdef uint64_t tail
    cdef uint64_t group
    cdef uint64_t value
    cdef bint fits
    if negative:
        v = ~v & (sign_bit | (sign_bit - 1))        # all bytes were inverted
    v ^= sign_bit
    tail = v & ((<uint64_t> 1 << tail_bits) - 1)
    v >>= tail_bits
    fits = tail < power_of_ten[layout.tail_digits]
    if layout.full_groups == 0:
        value = v
        fits &= v < power_of_ten[layout.head_digits]
    elif layout.full_groups == 1:
        group = v & 0xFFFFFFFFu
        v >>= 32
        fits &= (group < 1000000000u) & (v < power_of_ten[layout.head_digits])
        value = v * 1000000000u + group
    else:                                           # two groups fill all 8 bytes
        group = v & 0xFFFFFFFFu
        v >>= 32
        fits &= (group < 1000000000u) & (v < 1000000000u)
        value = v * 1000000000u + group
    value = value * power_of_ten[layout.tail_digits] + tail
    out[0] = <int64_t> (-value if negative else value)
    return fits


cdef inline bint decode_decimal_limbs(const uint8_t* p, decimal_layout_t layout, uint64_t* limbs,
                                      uint32_t limb_count) noexcept nogil:
    # 2 limbs: at most 38 digits; 4 limbs: at most 76. Two's complement, least limb first.
    cdef uint32_t flip = 0 if p[0] & 0x80 else 0xFFFFFFFFu
    cdef uint32_t group
    cdef uint32_t scale
    cdef bint fits = True
    cdef uint32_t n = digits_len[layout.head_digits]
    cdef uint32_t step
    cdef uint32_t steps = layout.full_groups + (1 if layout.tail_digits else 0)
    cdef uint32_t i
    cdef uint128_t carry
    cdef uint32_t sign_bit = 1
    for i in range(limb_count):
        limbs[i] = 0
    if n:
        limbs[0] = head_group(p, n, flip)
        fits = limbs[0] < power_of_ten[layout.head_digits]
        p += n
        sign_bit = 0
    for step in range(steps):
        if step < layout.full_groups:
            n = 4
            scale = 1000000000u
        else:
            n = digits_len[layout.tail_digits]
            scale = power_of_ten[layout.tail_digits]
        group = load_group(p, n, flip)
        if sign_bit:
            group ^= <uint32_t> 1 << (8 * n - 1)
            sign_bit = 0
        fits &= group < scale
        p += n
        carry = group
        for i in range(limb_count):
            carry += <uint128_t> limbs[i] * scale
            limbs[i] = <uint64_t> carry
            carry >>= 64
    if flip:
        carry = 1
        for i in range(limb_count):
            carry += <uint64_t> ~limbs[i]
            limbs[i] = <uint64_t> carry
            carry >>= 64
    return fits
