# Tests of numbers, DECIMALs and dates in their records.

from libc.stdint cimport INT64_MAX, int16_t, int32_t, int64_t, int8_t, uint16_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memcpy

from batch.gathered cimport batch_t
from batch.invalid_dates cimport find_invalid_date
from batch.records cimport invalid_date_t
from decode.condition_words cimport (
    FORM_DATE, FORM_F4, FORM_I1, FORM_I2, FORM_I4, FORM_I8, FORM_LIMBS4, FORM_U1, FORM_U2, FORM_U4, FORM_U8, HAS_HIGH,
    HAS_LOW, LIMBS, STATE_FALSE, STATE_TRUE, STATE_UNKNOWN, looked_at_t, test_t,
)


cdef inline int64_t key_of_double(double value) noexcept nogil:
    # Keys in the order of the values; both zeros have the same key.
    cdef int64_t bits
    memcpy(&bits, &value, 8)
    return -(bits & INT64_MAX) if bits < 0 else bits


cdef inline int64_t key_of(const uint8_t* value, uint8_t form) noexcept nogil:
    cdef int8_t i1
    cdef int16_t i2
    cdef int32_t i4
    cdef int64_t i8
    cdef uint16_t u2
    cdef uint32_t u4
    cdef uint64_t u8
    cdef float f4
    cdef double f8
    if form == FORM_I4:
        memcpy(&i4, value, 4)
        return i4
    if form == FORM_I8 or form == FORM_DATE:
        memcpy(&i8, value, 8)
        return i8
    if form == FORM_U4:
        memcpy(&u4, value, 4)
        return u4
    if form == FORM_U8:
        memcpy(&u8, value, 8)
        return <int64_t> (u8 ^ (<uint64_t> 1 << 63))
    if form == FORM_I2:
        memcpy(&i2, value, 2)
        return i2
    if form == FORM_U2:
        memcpy(&u2, value, 2)
        return u2
    if form == FORM_I1:
        memcpy(&i1, value, 1)
        return i1
    if form == FORM_U1:
        return value[0]
    if form == FORM_F4:
        memcpy(&f4, value, 4)
        return key_of_double(f4)
    memcpy(&f8, value, 8)
    return key_of_double(f8)


cdef inline bint in_set(const uint8_t* pool, uint32_t count, int64_t key) noexcept nogil:
    cdef uint32_t low = 0
    cdef uint32_t high = count
    cdef uint32_t middle
    cdef int64_t one
    while low < high:
        middle = low + (high - low) // 2
        memcpy(&one, pool + 8 * <size_t> middle, 8)
        if one == key:
            return True
        if one < key:
            low = middle + 1
        else:
            high = middle
    return False


cdef inline int compare_limbs(const uint8_t* a, const uint8_t* b) noexcept nogil:
    # Each has LIMBS limbs, the lowest first
    cdef uint64_t[LIMBS] x
    cdef uint64_t[LIMBS] y
    cdef int i = LIMBS - 1
    memcpy(x, a, sizeof(x))
    memcpy(y, b, sizeof(y))
    if x[i] != y[i]:
        return -1 if <int64_t> x[i] < <int64_t> y[i] else 1
    while i:
        i -= 1
        if x[i] != y[i]:
            return -1 if x[i] < y[i] else 1
    return 0


cdef inline bint is_between(const uint8_t* value, const test_t* test, const uint8_t* pool) noexcept nogil:
    cdef uint64_t[LIMBS] limbs
    memcpy(limbs, value, 16)
    if test.form == FORM_LIMBS4:
        memcpy(&limbs[2], value + 16, 16)
    else:
        limbs[2] = limbs[3] = <uint64_t> (<int64_t> limbs[1] >> 63)
    if test.flags & HAS_LOW and compare_limbs(<uint8_t*> limbs, pool) < 0:
        return False
    return not test.flags & HAS_HIGH or compare_limbs(<uint8_t*> limbs, pool + 8 * LIMBS) <= 0


cdef inline uint64_t fields_of(const invalid_date_t* date) noexcept nogil:
    # Numbers in the order of the dates, like `_packed_fields` in compiled_conditions.py
    return (((((((<uint64_t> date.year << 4 | date.month) << 5 | date.day) << 5 | date.hour) << 6 | date.minute) << 6
              | date.second) << 21) + date.microsecond + 1)


cdef inline const invalid_date_t* invalid_date_of(const batch_t* batch, uint32_t record,
                                                  uint32_t column) noexcept nogil:
    return find_invalid_date(
        <const invalid_date_t*> batch.invalid_dates.data, batch.invalid_dates.length // sizeof(invalid_date_t),
        record, <uint16_t> column)


cdef inline uint8_t state_of_invalid_date(const looked_at_t* at, const test_t* test, uint32_t i) noexcept nogil:
    cdef const invalid_date_t* date = invalid_date_of(at.batch, at.first + i, test.column)
    cdef uint64_t fields
    if date == NULL:
        return STATE_UNKNOWN
    fields = fields_of(date)
    return STATE_TRUE if test.fields_low <= fields <= test.fields_high else STATE_FALSE
