# The fewest decimal digits that read back as the same double; of several, the nearest to it.
# Header-only; no Python, no allocation.
#
# Source: R. Giulietti, "The Schubfach way to render doubles". The digits are those of Python's
# repr and of the server, both of which use D. Gay's (slower) algorithm.

from libc.math cimport fabs
from libc.stdint cimport int32_t, uint64_t
from libc.string cimport memcpy

cdef extern from *:
    """
    #include "types/powers_of_ten.h"

    typedef unsigned __int128 binlog_product;

    /* The leading 64 bits of the 192-bit product power * x. The lowest is set if any bit was cut off:
       rounding to odd keeps comparisons with whole and half units exact. */
    static inline uint64_t binlog_scaled(int power, uint64_t x)
    {
        const uint64_t *bits = binlog_power_of_ten_bits[power - BINLOG_POWER_OF_TEN_MIN];
        binlog_product low = (binlog_product) bits[1] * x;
        binlog_product sum = (binlog_product) bits[0] * x + (uint64_t) (low >> 64);
        return (uint64_t) (sum >> 64) | ((uint64_t) sum > 1);
    }

    /* floor(log10(2**q)), or of 3/4 * 2**q, and floor(log2(10**p)): exact for exponents of doubles */
    static inline int binlog_log10_of_power2(int q) { return (q * 1262611) >> 22; }
    static inline int binlog_log10_of_power2_less(int q) { return (q * 1262611 - 524031) >> 22; }
    static inline int binlog_log2_of_power10(int p) { return (p * 1741647) >> 19; }
    """
    uint64_t scaled "binlog_scaled"(int power, uint64_t x) noexcept nogil
    int log10_of_power2 "binlog_log10_of_power2"(int q) noexcept nogil
    int log10_of_power2_less "binlog_log10_of_power2_less"(int q) noexcept nogil
    int log2_of_power10 "binlog_log2_of_power10"(int p) noexcept nogil


cdef inline uint64_t shortest_double(double value, int* exponent) noexcept nogil:
    # A finite value is result * 10^exponent except for its sign; the result has no trailing zeros.
    cdef uint64_t bits, c, lower, upper, middle, unit, digits
    cdef int32_t q
    cdef int k, shift
    cdef bint power_of_two, odd, below, above
    value = fabs(value)
    memcpy(&bits, &value, 8)
    c = bits & 0xFFFFFFFFFFFFFu
    q = <int32_t> (bits >> 52)
    exponent[0] = 0
    if bits == 0:
        return 0
    # Just below a power of two doubles are twice as dense: its lower neighbour is nearer.
    power_of_two = c == 0 and q > 1
    if q:
        c |= <uint64_t> 1 << 52
        q -= 1075
    else:
        q = -1074                # subnormal
    if -53 < q <= 0 and c & ((<uint64_t> 1 << -q) - 1) == 0:
        digits = c >> -q         # a whole number below 2^53
        k = 0
    else:
        # In units of 10^k / 4: the value, and the bounds of what reads back as it. An even c
        # owns its bounds, since readers round half to even.
        k = log10_of_power2_less(q) if power_of_two else log10_of_power2(q)
        shift = q + log2_of_power10(-k) + 1
        odd = c & 1
        middle = scaled(-k, (4 * c) << shift)
        lower = scaled(-k, (4 * c - 2 + power_of_two) << shift) + odd
        upper = scaled(-k, (4 * c + 2) << shift) - odd
        unit = middle // 4
        digits = unit // 10
        below = unit >= 10 and lower <= 40 * digits
        above = unit >= 10 and 40 * digits + 40 <= upper
        if below != above:
            digits += above      # one digit fewer is enough
            k += 1
        else:
            below = lower <= 4 * unit
            above = 4 * unit + 4 <= upper
            if below == above:   # take the nearer, or the even one of two equally near
                above = middle > 4 * unit + 2 or (middle == 4 * unit + 2 and unit & 1)
            digits = unit + above
    while digits % 10 == 0:
        digits //= 10
        k += 1
    exponent[0] = k
    return digits
