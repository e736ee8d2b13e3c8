# Days and microseconds since 1970 to calendar fields, and the text of dates. Header-only.

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from types.digits cimport put_digits

cdef enum:
    DATE_TEXT_MAX = 32

cdef extern from *:
    """
    static const int binlog_month_start[2][14] = {
        {0, 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365},
        {0, 0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335, 366},
    };
    """
    const int[2][14] month_start "binlog_month_start"


cdef struct calendar_t:
    int64_t year
    int month
    int day
    int hour
    int minute
    int second
    int microsecond


cdef inline int64_t floor_div(int64_t value, int64_t by) noexcept nogil:
    return value // by - (value % by < 0)


cdef inline void calendar_of_days(int64_t days, calendar_t* out) noexcept nogil:
    # Proleptic Gregorian. Counts from 0001-01-01 in cycles of 400, 100, 4 and 1 years; the last
    # of each kind is a day longer than the others.
    cdef int64_t n = days + 719162
    cdef int64_t cycles = floor_div(n, 146097)
    cdef int rest = <int> (n - cycles * 146097)
    cdef int centuries = rest // 36524
    cdef int fours, years, leap, month
    centuries -= centuries == 4
    rest -= centuries * 36524
    fours = rest // 1461
    rest -= fours * 1461
    years = rest // 365
    years -= years == 4
    rest -= years * 365
    out.year = cycles * 400 + centuries * 100 + fours * 4 + years + 1
    leap = years == 3 and (fours != 24 or centuries == 3)
    month = rest // 29 + 1                 # never too small
    month = 12 if month > 12 else month
    while month_start[leap][month] > rest:
        month -= 1
    out.month = month
    out.day = rest - month_start[leap][month] + 1
    out.hour = out.minute = out.second = out.microsecond = 0


cdef inline void calendar_of_us(int64_t us, calendar_t* out) noexcept nogil:
    cdef int64_t seconds = floor_div(us, 1000000)
    cdef int64_t days = floor_div(seconds, 86400)
    cdef int rest = <int> (seconds - days * 86400)
    calendar_of_days(days, out)
    out.hour = rest // 3600
    out.minute = rest // 60 % 60
    out.second = rest % 60
    out.microsecond = <int> (us - seconds * 1000000)


cdef inline size_t put_date(const calendar_t* at, char* out) noexcept nogil:
    # YYYY-MM-DD; years with more digits take more.
    cdef int year_digits = 4
    cdef size_t length = 0
    cdef uint64_t year = <uint64_t> at.year
    if at.year < 0:
        out[0] = c'-'
        length = 1
        year = 0 - year
    if year > 9999:
        year_digits = 6
    put_digits(out + length, year, year_digits)
    length += <size_t> year_digits
    memcpy(out + length, b"-00-00", 6)
    put_digits(out + length + 1, <uint64_t> at.month, 2)
    put_digits(out + length + 4, <uint64_t> at.day, 2)
    return length + 6


cdef inline size_t put_time(const calendar_t* at, int fsp, char* out) noexcept nogil:
    # hh:mm:ss and fsp digits of a fraction
    cdef char[6] fraction
    put_digits(out, <uint64_t> at.hour, 2)
    put_digits(out + 3, <uint64_t> at.minute, 2)
    put_digits(out + 6, <uint64_t> at.second, 2)
    out[2] = out[5] = c':'
    if fsp <= 0:
        return 8
    fsp = 6 if fsp > 6 else fsp
    put_digits(fraction, <uint64_t> at.microsecond, 6)
    out[8] = c'.'
    memcpy(out + 9, fraction, <size_t> fsp)
    return 9 + <size_t> fsp
