# Dates and times: from wire bytes to days or microseconds since 1970, one inline decoder per layout.
#
# An invalid date (zero, partial, year 0, 31 February) is legal data in MySQL. Decoders then
# return False and leave the fields in `at`, so that the caller can keep them.
# Any bytes are safe: fields are masked to their width before they are used. Loads may read up
# to 8 bytes from the start of a value: the caller provides the room (see ROOM in decode/plan.pxd).
#
# Source: MySQL server documentation, "Date and Time Data Type Representation";
# MariaDB for the layouts of its own fractional types.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from types.digits cimport power_of_ten
from wire.cursor cimport load_be, load_be_over, load_u24, load_u24_over, load_u32, load_u64, unlikely

cdef enum:
    DAYS_TO_1970 = 719528               # from 0000-01-01, proleptic Gregorian
    SECONDS_PER_DAY = 86400
    CYCLE_MONTHS = 400 * 13             # the period after which the calendar repeats
    CYCLE_DAYS = 146097                 # the days in it
    TABLE_CYCLE = 4                     # the table covers the years 1600 to 2399
    TABLE_MONTHS = 2 * CYCLE_MONTHS
    FIRST_MONTH = 1 * 13                # of year 1; year 0 is not valid, although it would be a leap year
    END_MONTH = 10000 * 13

cdef extern from *:
    """
    /* Indexed by year * 13 + month, for the years 1600 to 2399: days from 0000-01-01 to the first of the month, times
       32, plus the month's number of days. 0 if there is no such month: then every day is out of range. */
    #define BINLOG_LEAP(y) ((y) % 4 == 0 && ((y) % 100 != 0 || (y) % 400 == 0))
    #define BINLOG_YEAR(y) (365 * (y) + ((y) + 3) / 4 - ((y) + 99) / 100 + ((y) + 399) / 400)
    #define BINLOG_MONTH(y, before, length) (BINLOG_YEAR(y) + (before)) << 5 | (length)
    #define BINLOG_MONTHS(y, leap) 0, \
        BINLOG_MONTH(y, 0, 31), BINLOG_MONTH(y, 31, 28 + leap), BINLOG_MONTH(y, 59 + leap, 31), \
        BINLOG_MONTH(y, 90 + leap, 30), BINLOG_MONTH(y, 120 + leap, 31), BINLOG_MONTH(y, 151 + leap, 30), \
        BINLOG_MONTH(y, 181 + leap, 31), BINLOG_MONTH(y, 212 + leap, 31), BINLOG_MONTH(y, 243 + leap, 30), \
        BINLOG_MONTH(y, 273 + leap, 31), BINLOG_MONTH(y, 304 + leap, 30), BINLOG_MONTH(y, 334 + leap, 31)
    #define BINLOG_ONE(y) BINLOG_MONTHS(y, BINLOG_LEAP(y))
    #define BINLOG_FIVE(y) BINLOG_ONE(y), BINLOG_ONE(y + 1), BINLOG_ONE(y + 2), BINLOG_ONE(y + 3), BINLOG_ONE(y + 4)
    #define BINLOG_TWENTY(y) BINLOG_FIVE(y), BINLOG_FIVE(y + 5), BINLOG_FIVE(y + 10), BINLOG_FIVE(y + 15)
    #define BINLOG_HUNDRED(y) BINLOG_TWENTY(y), BINLOG_TWENTY(y + 20), BINLOG_TWENTY(y + 40), \
        BINLOG_TWENTY(y + 60), BINLOG_TWENTY(y + 80)
    static const uint32_t binlog_calendar[2 * 400 * 13] = {
        BINLOG_HUNDRED(1600), BINLOG_HUNDRED(1700), BINLOG_HUNDRED(1800), BINLOG_HUNDRED(1900),
        BINLOG_HUNDRED(2000), BINLOG_HUNDRED(2100), BINLOG_HUNDRED(2200), BINLOG_HUNDRED(2300),
    };
    static const uint32_t binlog_fraction_unit[4] = {0u, 10000u, 100u, 1u};     /* microseconds, by length in bytes */
    #define BINLOG_NAT INT64_MIN        /* NumPy's "not a time" */
    """
    const uint32_t[10400] calendar "binlog_calendar"
    const uint32_t[4] fraction_unit "binlog_fraction_unit"
    const int64_t NOT_A_TIME "BINLOG_NAT"


cdef struct datetime_fields_t:
    uint32_t year
    uint32_t month
    uint32_t day
    uint32_t hour
    uint32_t minute
    uint32_t second
    uint32_t microsecond


cdef inline bint days_of_date(uint32_t year_month, uint32_t day, int64_t* out) noexcept nogil:
    # False if the calendar does not have the day. Year 0 is not valid: Python's date types do not have it.
    cdef uint32_t place = year_month - TABLE_CYCLE * CYCLE_MONTHS
    cdef uint32_t month
    if unlikely(place >= TABLE_MONTHS):
        return days_of_rare_date(year_month, day, out)
    month = calendar[place]
    out[0] = <int64_t> (month >> 5) + day - (DAYS_TO_1970 + 1)
    return day - 1 < month & 31             # unsigned, so day 0 is out of range


cdef inline bint days_of_rare_date(uint32_t year_month, uint32_t day, int64_t* out) noexcept nogil:
    # The same for years outside the table, by the corresponding years in it
    cdef uint32_t cycle = year_month // CYCLE_MONTHS
    cdef uint32_t month = calendar[year_month - cycle * CYCLE_MONTHS]
    out[0] = <int64_t> (month >> 5) + (<int64_t> cycle - TABLE_CYCLE) * CYCLE_DAYS + day - (DAYS_TO_1970 + 1)
    return (day - 1 < month & 31) & (year_month - FIRST_MONTH < END_MONTH - FIRST_MONTH)


cdef inline uint32_t year_month_of(uint32_t year, uint32_t month) noexcept nogil:
    # Index into the calendar; 0, which is not a month, for anything outside
    return year * 13 + month if month <= 12 and year <= 9999 else 0


cdef inline bint us_of_datetime(const datetime_fields_t* at, int64_t* out) noexcept nogil:
    cdef int64_t days
    cdef bint valid = days_of_date(year_month_of(at.year, at.month), at.day, &days)
    out[0] = ((days * SECONDS_PER_DAY + at.hour * 3600 + at.minute * 60 + at.second) * 1000000
              + at.microsecond)
    return valid and at.hour < 24 and at.minute < 60 and at.second < 60


cdef inline void split_packed_datetime(uint64_t v, datetime_fields_t* at) noexcept nogil:
    # year * 13 + month (17 bits), day (5), hour (5), minute (6), second (6)
    cdef uint32_t year_month = <uint32_t> (v >> 22) & 0x1FFFF
    at.year = year_month // 13
    at.month = year_month % 13
    at.day = <uint32_t> (v >> 17) & 31
    at.hour = <uint32_t> (v >> 12) & 31
    at.minute = <uint32_t> (v >> 6) & 63
    at.second = <uint32_t> v & 63


cdef inline uint32_t us_of_fraction(uint64_t bytes_, uint32_t fraction_len) noexcept nogil:
    # bytes_: three, of which the first `fraction_len` are big-endian hundredths, ten-thousandths or microseconds.
    # Damaged values become the largest fraction.
    cdef uint32_t us = <uint32_t> ((bytes_ & 0xFFFFFF) >> (24 - 8 * fraction_len)) * fraction_unit[fraction_len]
    return us if us <= 999999 else 999999


# ---------------------------------------------------------------- types of 5.6 and later

cdef inline bint decode_datetime2(const uint8_t* p, uint32_t fraction_len, datetime_fields_t* at,
                                  int64_t* out) noexcept nogil:
    # 2**39 is the bias of the sign; servers do not write negative values
    cdef uint64_t all_bytes = load_be_over(p, 8)
    cdef uint64_t v = all_bytes >> 24
    cdef uint32_t hms = <uint32_t> v & 0x1FFFF
    cdef int64_t days
    cdef uint32_t us = us_of_fraction(all_bytes, fraction_len)
    cdef uint32_t seconds = (hms >> 12) * 3600 + (hms >> 6 & 63) * 60 + (hms & 63)
    if ((v >> 39) == 1 and days_of_date(<uint32_t> (v >> 22) & 0x1FFFF, <uint32_t> (v >> 17) & 31, &days)
            and hms < 24 << 12 and (hms & 63) < 60 and (hms >> 6 & 63) < 60):
        out[0] = (days * SECONDS_PER_DAY + seconds) * 1000000 + us
        return True
    split_packed_datetime(v & ((<uint64_t> 1 << 39) - 1), at)
    at.microsecond = us
    return False


cdef inline bint decode_timestamp2(const uint8_t* p, uint32_t fraction_len, datetime_fields_t* at,
                                   int64_t* out) noexcept nogil:
    # Seconds since 1970 in UTC. 0 is the zero date; a part of the first second is a time, which MariaDB can hold.
    cdef uint64_t all_bytes = load_be_over(p, 8)
    out[0] = <int64_t> (all_bytes >> 32) * 1000000 + us_of_fraction(all_bytes >> 8, fraction_len)
    if out[0] == 0:
        at.year = at.month = at.day = at.hour = at.minute = at.second = at.microsecond = 0
        return False
    return True


cdef inline int64_t us_of_packed_time(int64_t packed) noexcept nogil:
    # hours (10 bits), minutes (6), seconds (6), then 24 bits of microseconds; the sign is separate
    cdef uint64_t t = <uint64_t> (-packed if packed < 0 else packed)
    cdef uint64_t hms = t >> 24
    cdef int64_t us = <int64_t> (((hms >> 12 & 1023) * 3600 + (hms >> 6 & 63) * 60 + (hms & 63)) * 1000000
                                 + (t & 0xFFFFFF))
    return -us if packed < 0 else us


cdef inline int64_t decode_time2(const uint8_t* p, uint32_t fraction_len) noexcept nogil:
    # The bias is subtracted from the whole value, so a negative fraction borrows from the integer part.
    cdef int64_t whole
    cdef int64_t fraction
    if fraction_len == 3:
        return us_of_packed_time(<int64_t> load_be_over(p, 6) - (<int64_t> 1 << 47))
    whole = <int64_t> load_be_over(p, 3) - 0x800000
    fraction = <int64_t> (load_be_over(p + 3, fraction_len) if fraction_len else 0)
    if whole < 0 and fraction != 0:
        whole += 1
        fraction -= 256 if fraction_len == 1 else 65536
    return us_of_packed_time(whole * (1 << 24) + fraction * (10000 if fraction_len == 1 else 100))


# ---------------------------------------------------------------- types before 5.6

cdef inline bint decode_date(const uint8_t* p, datetime_fields_t* at, int64_t* out) noexcept nogil:
    cdef uint32_t v = load_u24_over(p)
    if days_of_date(year_month_of(v >> 9, v >> 5 & 15), v & 31, out):
        return True
    at.day = v & 31
    at.month = v >> 5 & 15
    at.year = v >> 9
    at.hour = at.minute = at.second = at.microsecond = 0
    return False


cdef inline bint decode_timestamp(const uint8_t* p, datetime_fields_t* at, int64_t* out) noexcept nogil:
    cdef uint32_t seconds = load_u32(p)
    out[0] = <int64_t> seconds * 1000000
    if seconds == 0:
        at.year = at.month = at.day = at.hour = at.minute = at.second = at.microsecond = 0
        return False
    return True


cdef inline int64_t decode_time(const uint8_t* p) noexcept nogil:
    # Decimal HHHMMSS, signed, in 3 bytes
    cdef int32_t v = <int32_t> (load_u24(p) << 8) >> 8
    cdef int32_t t = -v if v < 0 else v
    cdef int64_t us = <int64_t> (t // 10000 * 3600 + t // 100 % 100 * 60 + t % 100) * 1000000
    return -us if v < 0 else us


cdef inline bint decode_datetime(const uint8_t* p, datetime_fields_t* at, int64_t* out) noexcept nogil:
    # Decimal YYYYMMDDhhmmss
    cdef uint64_t v = load_u64(p)
    cdef uint64_t date = v // 1000000
    cdef uint32_t time = <uint32_t> (v % 1000000)
    at.year = <uint32_t> (date // 10000 % 65536)
    at.month = <uint32_t> (date // 100 % 100)
    at.day = <uint32_t> (date % 100)
    at.hour = time // 10000
    at.minute = time // 100 % 100
    at.second = time % 100
    at.microsecond = 0
    return date <= 99991231 and us_of_datetime(at, out)


# ---------------------------------------------------------------- MariaDB's own fractions
# Types 7, 11 and 12 with n > 0 digits (mysql56_temporal_format=OFF): unsigned, big-endian,
# in units of the last digit. Only a schema gives n.

cdef inline bint decode_maria_timestamp(const uint8_t* p, uint32_t width, uint32_t digits,
                                        datetime_fields_t* at, int64_t* out) noexcept nogil:
    cdef uint32_t seconds = <uint32_t> load_be(p, 4)
    cdef uint32_t fraction = <uint32_t> load_be(p + 4, width - 4) % <uint32_t> power_of_ten[digits]
    out[0] = <int64_t> seconds * 1000000 + <int64_t> fraction * <int64_t> power_of_ten[6 - digits]
    if out[0] == 0:
        at.year = at.month = at.day = at.hour = at.minute = at.second = at.microsecond = 0
        return False
    return True


cdef inline int64_t decode_maria_time(const uint8_t* p, uint32_t width, uint32_t digits) noexcept nogil:
    # The bias is 839 hours
    cdef int64_t v = <int64_t> load_be(p, width) - <int64_t> 3020400 * <int64_t> power_of_ten[digits]
    return v * <int64_t> power_of_ten[6 - digits]


cdef inline bint decode_maria_datetime(const uint8_t* p, uint32_t width, uint32_t digits,
                                       datetime_fields_t* at, int64_t* out) noexcept nogil:
    cdef uint64_t v = load_be(p, width)
    cdef uint32_t unit = <uint32_t> power_of_ten[6 - digits]
    cdef uint64_t seconds = v // power_of_ten[digits]
    at.microsecond = <uint32_t> (v % power_of_ten[digits]) * unit
    at.second = <uint32_t> (seconds % 60)
    seconds //= 60
    at.minute = <uint32_t> (seconds % 60)
    seconds //= 60
    at.hour = <uint32_t> (seconds % 24)
    seconds //= 24
    at.day = <uint32_t> (seconds % 32)
    seconds //= 32
    at.month = <uint32_t> (seconds % 13)
    at.year = <uint32_t> (seconds // 13 % 65536)
    return us_of_datetime(at, out)
