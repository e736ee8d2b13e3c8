# Parses numbers, dates and times as a server prints them. Header-only.
# Each function reads all n bytes, or returns False.
# Source: MySQL server documentation, "Date and Time Literals", "Text Resultset Row".

from libc.stdint cimport INT64_MAX, UINT64_MAX, int64_t, uint8_t, uint32_t, uint64_t

from types.decimal cimport uint128_t
from types.temporal cimport (
    SECONDS_PER_DAY, days_of_date, power_of_ten, year_month_of,
)

cdef enum:
    DIGITS64 = 19                   # decimal digits that always fit 64 bits
    DATE_LEN = 10                   # 2026-11-22
    DATETIME_LEN = 19               # 2026-11-22 10:11:12, and from 20 on its fraction


cdef inline bint read_digits(const uint8_t* p, size_t n, uint64_t* out) noexcept nogil:
    # At most DIGITS64 digits; without any, the value is 0
    cdef size_t i
    cdef uint8_t digit
    out[0] = 0
    for i in range(n):
        digit = <uint8_t> (p[i] - c'0')
        if digit > 9:
            return False
        out[0] = out[0] * 10 + digit
    return True


cdef inline bint read_unsigned(const uint8_t* p, size_t n, uint64_t* out) noexcept nogil:
    cdef uint64_t last
    if n == 0 or n > DIGITS64 + 1 or not read_digits(p, min(n, <size_t> DIGITS64), out):
        return False
    if n <= DIGITS64:
        return True
    if not read_digits(p + DIGITS64, 1, &last) or out[0] > (UINT64_MAX - last) // 10:
        return False
    out[0] = out[0] * 10 + last
    return True


cdef inline bint read_signed(const uint8_t* p, size_t n, int64_t* out) noexcept nogil:
    cdef bint negative = n > 0 and p[0] == c'-'
    cdef uint64_t value
    if not read_unsigned(p + negative, n - negative, &value) or value > <uint64_t> INT64_MAX + negative:
        return False
    out[0] = <int64_t> (0 - value if negative else value)
    return True


cdef inline bint read_decimal(const uint8_t* p, size_t n, uint32_t precision, uint32_t scale,
                              uint128_t* out) noexcept nogil:
    # The value in units of the last digit. The text has `scale` digits after its point; precision: up to 38
    cdef bint negative = n > 0 and p[0] == c'-'
    cdef uint32_t point = scale + 1 if scale else 0
    cdef uint32_t step
    cdef uint64_t group
    cdef size_t whole, left
    cdef uint128_t value = 0
    p += negative
    n -= negative
    if n <= point or (scale and p[n - point] != c'.'):
        return False
    whole = n - point
    while whole and p[0] == c'0':
        p += 1
        whole -= 1
    if whole + scale > precision:
        return False
    left = whole
    while left or scale:
        if not left:                # after the point
            p += 1
            left = scale
            scale = 0
        step = <uint32_t> min(left, <size_t> 9)
        if not read_digits(p, step, &group):
            return False
        value = value * power_of_ten[step] + group
        p += step
        left -= step
    out[0] = 0 - value if negative else value
    return True


cdef inline uint32_t read_two(const uint8_t* p) noexcept nogil:
    # Two digits; a result above 99 means that they are not digits
    cdef uint32_t tens = <uint32_t> p[0] - c'0'
    cdef uint32_t ones = <uint32_t> p[1] - c'0'
    return tens * 10 + ones if tens <= 9 and ones <= 9 else 100


cdef inline bint read_fraction(const uint8_t* p, size_t n, uint32_t* us) noexcept nogil:
    # A point and one to six digits, or nothing
    cdef uint64_t digits
    us[0] = 0
    if n == 0:
        return True
    if n < 2 or n > 7 or p[0] != c'.' or not read_digits(p + 1, n - 1, &digits):
        return False
    us[0] = <uint32_t> digits * power_of_ten[7 - n]
    return True


cdef inline bint read_date(const uint8_t* p, size_t n, int64_t* days, bint* known) noexcept nogil:
    # known: whether the calendar has the date
    cdef uint32_t century, year, month, day
    if n != DATE_LEN or p[4] != c'-' or p[7] != c'-':
        return False
    century, year, month, day = read_two(p), read_two(p + 2), read_two(p + 5), read_two(p + 8)
    known[0] = days_of_date(year_month_of(century * 100 + year, month), day, days)
    return century < 100 and year < 100 and month < 100 and day < 100


cdef inline bint read_datetime(const uint8_t* p, size_t n, int64_t* us, bint* known) noexcept nogil:
    cdef uint32_t hour, minute, second, fraction = 0
    cdef int64_t days = 0
    if n < DATETIME_LEN or p[10] != c' ' or p[13] != c':' or p[16] != c':':
        return False
    hour, minute, second = read_two(p + 11), read_two(p + 14), read_two(p + 17)
    if (hour > 23 or minute > 59 or second > 59 or not read_date(p, DATE_LEN, &days, known)
            or not read_fraction(p + DATETIME_LEN, n - DATETIME_LEN, &fraction)):
        return False
    us[0] = (days * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second) * 1000000 + fraction
    return True


cdef inline bint read_time(const uint8_t* p, size_t n, int64_t* us) noexcept nogil:
    # Hours have two or three digits
    cdef bint negative = n > 0 and p[0] == c'-'
    cdef uint64_t hours = 0
    cdef uint32_t minute, second, fraction = 0
    cdef size_t digits
    p += negative
    n -= negative
    digits = 3 if n > 3 and p[2] != c':' else 2
    if n < digits + 6 or p[digits] != c':' or p[digits + 3] != c':':
        return False
    minute, second = read_two(p + digits + 1), read_two(p + digits + 4)
    if (minute > 59 or second > 59 or not read_digits(p, digits, &hours)
            or not read_fraction(p + digits + 6, n - digits - 6, &fraction)):
        return False
    us[0] = (<int64_t> hours * 3600 + minute * 60 + second) * 1000000 + fraction
    if negative:
        us[0] = -us[0]
    return True
