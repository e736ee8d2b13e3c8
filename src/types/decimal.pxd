# NEWDECIMAL: groups of nine digits, big-endian, outward from the point, into an unscaled
# little-endian integer of one, two or four 64-bit limbs.
#
# Source: MySQL server documentation, "Precision Math: DECIMAL Data Type Characteristics".

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from types.temporal cimport power_of_ten
from wire.cursor cimport load_be_over

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


# At most 18 digits in at most 8 bytes: a head of up to nine digits, at most one full group, a tail.
cdef struct decimal64_t:
    uint32_t shift           # right shift of a load of 8 bytes, down to the value's bytes
    uint64_t sign_bit
    uint32_t tail_bits
    uint32_t tail_scale
    uint32_t group_bits      # 0 or 32
    uint32_t group_scale
    uint32_t head_scale


cdef inline decimal64_t decimal64_of(decimal_layout_t layout, uint32_t width) noexcept nogil:
    cdef decimal64_t out
    cdef uint32_t groups = layout.full_groups
    out.shift = 64 - 8 * width
    out.sign_bit = <uint64_t> 1 << (8 * width - 1)
    out.tail_bits = 8 * digits_len[layout.tail_digits]
    out.tail_scale = power_of_ten[layout.tail_digits]
    out.head_scale = power_of_ten[layout.head_digits]
    if groups == 2:                     # they fill all 8 bytes: the first is the head
        out.head_scale = 1000000000u
        groups = 1
    out.group_bits = 32 * groups
    out.group_scale = 1000000000u if groups else 1
    return out


cdef inline bint decode_decimal64(const uint8_t* p, const decimal64_t* layout, int64_t* out) noexcept nogil:
    # One load (p[7] must be readable). False if a group is larger than its digits allow.
    cdef uint64_t v = load_be_over(p, 8) >> layout.shift
    cdef uint64_t flip = 0 if v & layout.sign_bit else <uint64_t> -1        # negative: all bytes inverted
    cdef uint64_t tail
    cdef uint64_t group
    v = (v ^ flip) & (layout.sign_bit - 1)
    tail = v & ((<uint64_t> 1 << layout.tail_bits) - 1)
    v >>= layout.tail_bits
    group = v & ((<uint64_t> 1 << layout.group_bits) - 1)
    v >>= layout.group_bits
    out[0] = <int64_t> ((((v * layout.group_scale + group) * layout.tail_scale + tail) ^ flip) - flip)
    return (tail < layout.tail_scale) & (group < layout.group_scale) & (v < layout.head_scale)


cdef inline uint32_t take_digits(const uint8_t** p, uint32_t length, uint32_t flip, uint32_t* sign) noexcept nogil:
    # Takes 1 to 4 bytes, big-endian, by one load of 8. The first group of a number has the sign in
    # its top bit: sign is then 1.
    cdef uint32_t v = <uint32_t> (load_be_over(p[0], length)
                                  ^ (flip & (((<uint64_t> 1) << (8 * length)) - 1))) ^ sign[0] << (8 * length - 1)
    sign[0] = 0
    p[0] += length
    return v


cdef inline uint64_t load_group(const uint8_t* p, uint64_t flip, uint32_t* fits) noexcept nogil:
    cdef uint32_t group = <uint32_t> (load_be_over(p, 4) ^ flip)
    fits[0] &= group < 1000000000u
    return group


cdef inline bint decode_decimal128(const uint8_t* p, decimal_layout_t layout, uint64_t* limbs) noexcept nogil:
    # At most 38 digits: a head, which may be a full group too, and one to four full groups. In few multiplications,
    # each of which waits for the one before, and without a branch on the sign, which nobody could predict.
    cdef uint32_t digits = layout.head_digits if layout.head_digits else 9
    cdef uint32_t groups = layout.full_groups if layout.head_digits else layout.full_groups - 1
    cdef uint32_t length = digits_len[digits]
    cdef uint64_t part = load_be_over(p, length)
    cdef uint64_t sign_bit = <uint64_t> 1 << (8 * length - 1)
    cdef uint64_t flip = 0 if part & sign_bit else <uint64_t> -1            # negative: all bytes inverted
    cdef uint64_t scale = 1
    cdef uint64_t tail
    cdef uint32_t fits
    cdef uint128_t value
    cdef uint128_t negative = flip
    part = (part ^ flip) & (sign_bit - 1)
    fits = part < power_of_ten[digits]
    p += length
    value = part * 1000000000u + load_group(p, flip, &fits)
    p += 4
    if groups > 2:
        part = load_group(p, flip, &fits) * 1000000000u
        value = value * 1000000000000000000u + (part + load_group(p + 4, flip, &fits))
        p += 8
    part = 0
    if groups == 2 or groups == 4:
        part = load_group(p, flip, &fits)
        scale = 1000000000u
        p += 4
    if layout.tail_digits:
        length = digits_len[layout.tail_digits]
        tail = (load_be_over(p, length) ^ flip) & ((<uint64_t> 1 << (8 * length)) - 1)
        fits &= tail < power_of_ten[layout.tail_digits]
        scale *= power_of_ten[layout.tail_digits]
        part = part * power_of_ten[layout.tail_digits] + tail
    value = value * scale + part
    negative |= negative << 64
    value = (value ^ negative) - negative
    limbs[0] = <uint64_t> value
    limbs[1] = <uint64_t> (value >> 64)
    return fits


cdef inline bint decode_decimal256(const uint8_t* p, decimal_layout_t layout, uint64_t* limbs) noexcept nogil:
    # At most 76 digits: two's complement, least limb first
    cdef uint32_t flip = 0 if p[0] & 0x80 else 0xFFFFFFFFu
    cdef uint32_t sign = 1
    cdef uint32_t group
    cdef uint32_t digits
    cdef uint32_t step
    cdef uint32_t i
    cdef bint fits = True
    cdef uint128_t carry
    for i in range(4):
        limbs[i] = 0
    for step in range(layout.full_groups + 2):
        digits = (layout.head_digits if step == 0 else 9 if step <= layout.full_groups else layout.tail_digits)
        if digits == 0:
            continue
        group = take_digits(&p, digits_len[digits], flip, &sign)
        fits &= group < power_of_ten[digits]
        carry = group
        for i in range(4):
            carry += <uint128_t> limbs[i] * power_of_ten[digits]
            limbs[i] = <uint64_t> carry
            carry >>= 64
    if flip:
        carry = 1
        for i in range(4):
            carry += <uint64_t> ~limbs[i]
            limbs[i] = <uint64_t> carry
            carry >>= 64
    return fits
