# A condition on the changes of a table, as Python gives it (binlog_core/_decode/compiled_conditions.py): tests of what
# a record has, and a program that joins what they say. It is run over the records of the condition's columns alone,
# many at a time; src/decode/matching.pxd decodes what matches.
#
# States are ordered, so that AND is the least of two and OR the greatest.

from libc.stdint cimport INT64_MAX, INT64_MIN, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy, memset

from batch.gathered cimport batch_t
from batch.records cimport (
    OP_DELETE, OP_INSERT, OP_UPDATE_POSTIMAGE, OP_UPDATE_PREIMAGE, image_t, invalid_date_t, span_t,
)

cdef enum:
    STATE_FALSE = 0
    STATE_UNKNOWN = 1
    STATE_TRUE = 2
    TILE = 256                      # records that are looked at together: an even number
    STATES_MOST = 24                # of them at once
    LIMBS = 4


cdef enum test_code_t:              # names in TESTS of _rows.pyx
    TEST_RANGE = 0                  # a number from `low` to `high`
    TEST_SET = 1                    # one of `count` sorted numbers
    TEST_WIDE = 2                   # a DECIMAL of several limbs, between two in the pool
    TEST_STATES = 3                 # ENUM: the state of each of `count` numbers
    TEST_TEXT = 4                   # from one text in the pool (`count` bytes) to another (`count2` bytes)
    TEST_TEXTS = 5                  # one of `count` sorted texts in the pool
    TEST_LIKE = 6                   # a pattern of `count` bytes, then a pattern_t for each
    TEST_NULL = 7
    TEST_CHANGED = 8
    TEST_OP = 9                     # the state of each op
    TEST_SERVER = 10                # server_id from `low` to `high`
    TEST_COMMIT = 11                # microseconds of the commit from `low` to `high`
    TEST_THREAD = 12                # thread_id from `low` to `high`; 0 is not known
    TEST_CONSTANT = 13              # `low` is the state
    TEST_CODES = 14


cdef enum form_t:                   # of a value in its record; names in FORMS of _rows.pyx
    FORM_NONE = 0
    FORM_I1 = 1
    FORM_I2 = 2
    FORM_I4 = 3
    FORM_I8 = 4
    FORM_U1 = 5
    FORM_U2 = 6
    FORM_U4 = 7
    FORM_U8 = 8                     # as int64 with its highest bit turned round
    FORM_F4 = 9                     # as whole numbers in the same order
    FORM_F8 = 10
    FORM_DATE = 11                  # not a number of days or microseconds: see invalid_dates
    FORM_SPAN = 12
    FORM_PADDED = 13                # a span of bytes that zeros follow
    FORM_LIMBS2 = 14
    FORM_LIMBS4 = 15
    FORM_CODES = 16


cdef enum test_flag_t:
    HAS_LOW = 1
    HAS_HIGH = 2
    OPEN_LOW = 4
    OPEN_HIGH = 8
    UTF8 = 16                       # a character may be several bytes


cdef enum test_side_t:
    SIDE_OWN = 0
    SIDE_BEFORE = 1
    SIDE_AFTER = 2


cdef enum pattern_t:
    PATTERN_BYTE = 0
    PATTERN_ONE = 1
    PATTERN_ANY = 2


cdef enum program_t:                # a byte each; TESTS and above: the state of test number byte - TESTS
    PROGRAM_NOT = 0
    PROGRAM_AND = 1
    PROGRAM_OR = 2
    PROGRAM_TESTS = 3
    TESTS_MOST = 250


cdef packed struct test_t:          # packed by compiled_conditions.py
    uint8_t code
    uint8_t side
    uint8_t form
    uint8_t flags
    uint32_t column                 # index in the table
    uint32_t out                    # of the value in the record
    uint32_t at                     # in the pool
    uint32_t count
    uint32_t count2
    int64_t low
    int64_t high
    uint64_t fields_low             # of dates that no calendar has
    uint64_t fields_high


cdef struct condition_t:
    test_t* tests
    uint32_t test_count
    uint8_t* program
    uint32_t program_len
    uint8_t* pool
    uint32_t pool_len


# The records that are looked at, and what they share.
cdef struct looked_at_t:
    const batch_t* batch
    const uint8_t* buffer           # that spans count from
    const uint8_t* records
    uint32_t first                  # in the batch
    uint32_t count
    uint32_t record_len
    uint32_t nulls                  # of the bitmaps in a record
    uint32_t bitmap_len
    uint8_t op                      # of the first
    bint whole                      # no column is absent
    int64_t commit_time
    uint32_t thread_id


cdef inline void free_condition(condition_t* condition) noexcept nogil:
    if condition != NULL:
        free(condition.tests)
        free(condition.program)
        free(condition.pool)
        free(condition)


# ---------------------------------------------------------------- values

cdef inline int64_t key_of_double(double value) noexcept nogil:
    # In the order of the values; both zeros are one.
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
    # Of LIMBS each, the lowest first
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
    # In the order of dates; `_packed_fields` in compiled_conditions.py
    return (((((((<uint64_t> date.year << 4 | date.month) << 5 | date.day) << 5 | date.hour) << 6 | date.minute) << 6
              | date.second) << 21) + date.microsecond + 1)


cdef inline const invalid_date_t* find_invalid_date(const batch_t* batch, uint32_t record,
                                                    uint32_t column) noexcept nogil:
    cdef const invalid_date_t* entry = <const invalid_date_t*> batch.invalid_dates.data
    cdef size_t count = batch.invalid_dates.length // sizeof(invalid_date_t)
    cdef size_t i
    for i in range(count):
        if entry[i].record == record and entry[i].column == column:
            return &entry[i]
    return NULL


cdef inline uint8_t state_of_invalid_date(const looked_at_t* at, const test_t* test, uint32_t i) noexcept nogil:
    cdef const invalid_date_t* date = find_invalid_date(at.batch, at.first + i, test.column)
    cdef uint64_t fields
    if date == NULL:
        return STATE_UNKNOWN
    fields = fields_of(date)
    return STATE_TRUE if test.fields_low <= fields <= test.fields_high else STATE_FALSE


# ---------------------------------------------------------------- texts

cdef inline int compare_bytes(const uint8_t* a, size_t a_len, const uint8_t* b, size_t b_len) noexcept nogil:
    cdef int order = memcmp(a, b, min(a_len, b_len))
    if order:
        return order
    return (a_len > b_len) - (a_len < b_len)


cdef inline bint in_texts(const test_t* test, const uint8_t* pool, const uint8_t* text, size_t length) noexcept nogil:
    # The pool has where each text begins, and where the last one ends, then the texts.
    cdef uint32_t low = 0
    cdef uint32_t high = test.count
    cdef uint32_t middle
    cdef uint32_t[2] ends
    cdef const uint8_t* texts = pool + 4 * (<size_t> test.count + 1)
    cdef int order
    while low < high:
        middle = low + (high - low) // 2
        memcpy(ends, pool + 4 * <size_t> middle, 8)
        order = compare_bytes(texts + ends[0], ends[1] - ends[0], text, length)
        if order == 0:
            return True
        if order < 0:
            low = middle + 1
        else:
            high = middle
    return False


cdef inline size_t character_end(const uint8_t* text, size_t i, size_t length, bint utf8) noexcept nogil:
    i += 1
    while utf8 and i < length and text[i] & 0xc0 == 0x80:
        i += 1
    return i


cdef inline bint is_like(const test_t* test, const uint8_t* pool, const uint8_t* text, size_t length) noexcept nogil:
    # What stands between two % is taken where it comes first, and not tried again further on.
    cdef const uint8_t* kinds = pool + test.count
    cdef bint utf8 = test.flags & UTF8
    cdef size_t i = 0
    cdef uint32_t k = 0
    cdef size_t again = 0           # where in the text the part behind the last % is tried next
    cdef uint32_t any_at = test.count
    while i < length:
        if k < test.count and kinds[k] == PATTERN_ANY:
            any_at = k
            again = i
            k += 1
        elif k < test.count and kinds[k] == PATTERN_ONE:
            i = character_end(text, i, length, utf8)
            k += 1
        elif k < test.count and pool[k] == text[i]:
            i += 1
            k += 1
        elif any_at < test.count:
            again = character_end(text, again, length, utf8)
            i = again
            k = any_at + 1
        else:
            return False
    while k < test.count and kinds[k] == PATTERN_ANY:
        k += 1
    return k == test.count


cdef inline bint accepts_text(const test_t* test, const uint8_t* pool, const uint8_t* text,
                              size_t length) noexcept nogil:
    cdef int order
    if test.form == FORM_PADDED:
        while length and not text[length - 1]:
            length -= 1
    if test.code == TEST_TEXTS:
        return in_texts(test, pool, text, length)
    if test.code == TEST_LIKE:
        return is_like(test, pool, text, length)
    if test.flags & HAS_LOW:
        order = compare_bytes(text, length, pool, test.count)
        if order < 0 or (order == 0 and test.flags & OPEN_LOW):
            return False
    if test.flags & HAS_HIGH:
        order = compare_bytes(text, length, pool + test.count, test.count2)
        if order > 0 or (order == 0 and test.flags & OPEN_HIGH):
            return False
    return True


# ---------------------------------------------------------------- tests

cdef inline uint8_t bit_of(const looked_at_t* at, const uint8_t* record, uint32_t column, bint absent) noexcept nogil:
    return record[at.nulls + (at.bitmap_len if absent else 0) + (column >> 3)] >> (column & 7) & 1


cdef inline bint differs(const looked_at_t* at, const test_t* test, const uint8_t* before, const uint8_t* after,
                         uint32_t i) noexcept nogil:
    # Two values that are there; i: of the record before
    cdef const invalid_date_t* a
    cdef const invalid_date_t* b
    cdef span_t[2] spans
    cdef size_t width = 8
    if test.form == FORM_SPAN or test.form == FORM_PADDED:
        memcpy(&spans[0], before + test.out, sizeof(span_t))
        memcpy(&spans[1], after + test.out, sizeof(span_t))
        return (spans[0].length != spans[1].length
                or memcmp(at.buffer + spans[0].offset, at.buffer + spans[1].offset, spans[0].length) != 0)
    if test.form == FORM_LIMBS2 or test.form == FORM_LIMBS4:
        width = 16 if test.form == FORM_LIMBS2 else 32
        return memcmp(before + test.out, after + test.out, width) != 0
    if key_of(before + test.out, test.form) != key_of(after + test.out, test.form):
        return True
    if test.form != FORM_DATE or key_of(before + test.out, test.form) != INT64_MIN:
        return False
    a = find_invalid_date(at.batch, at.first + i, test.column)
    b = find_invalid_date(at.batch, at.first + i + 1, test.column)
    return (a == NULL) != (b == NULL) or (a != NULL and fields_of(a) != fields_of(b))


cdef inline uint8_t state_of_change(const looked_at_t* at, const test_t* test, const uint8_t* before,
                                    uint32_t i) noexcept nogil:
    cdef const uint8_t* after = before + at.record_len
    cdef uint8_t null
    if bit_of(at, after, test.column, True):
        return STATE_FALSE          # it was not logged since it stayed what it was
    if bit_of(at, before, test.column, True):
        return STATE_UNKNOWN
    null = bit_of(at, before, test.column, False)
    if null != bit_of(at, after, test.column, False):
        return STATE_TRUE
    return STATE_TRUE if not null and differs(at, test, before, after, i) else STATE_FALSE


cdef inline void run_range(const looked_at_t* at, const test_t* test, uint8_t form, uint8_t* states) noexcept nogil:
    # form: as a constant, once inlined
    cdef const uint8_t* record = at.records
    cdef uint32_t at_null = at.nulls + (test.column >> 3)
    cdef uint8_t mask = <uint8_t> (1 << (test.column & 7))
    cdef uint32_t out = test.out
    cdef size_t record_len = at.record_len
    cdef int64_t low = test.low
    cdef uint64_t width = <uint64_t> test.high - <uint64_t> low       # one comparison for both ends
    cdef uint32_t i
    for i in range(at.count):
        states[i] = (STATE_UNKNOWN if record[at_null] & mask
                     else <uint8_t> (<uint64_t> key_of(record + out, form) - <uint64_t> low <= width) << 1)
        record += record_len


cdef inline uint8_t state_of_value(const looked_at_t* at, const test_t* test, const uint8_t* pool,
                                   const uint8_t* record, uint32_t i) noexcept nogil:
    cdef span_t span
    cdef int64_t key
    cdef bint accepted
    if test.code == TEST_RANGE or test.code == TEST_SET:
        key = key_of(record + test.out, test.form)
        if test.form == FORM_DATE and key == INT64_MIN:
            return state_of_invalid_date(at, test, i)
        accepted = test.low <= key <= test.high if test.code == TEST_RANGE else in_set(pool, test.count, key)
    elif test.code == TEST_WIDE:
        accepted = is_between(record + test.out, test, pool)
    elif test.code == TEST_STATES:
        key = key_of(record + test.out, test.form)
        return pool[key] if 0 <= key < test.count else STATE_UNKNOWN
    else:
        memcpy(&span, record + test.out, sizeof(span))
        accepted = accepts_text(test, pool, at.buffer + span.offset, span.length)
    return STATE_TRUE if accepted else STATE_FALSE


cdef inline void fill_from_before(const looked_at_t* at, const test_t* test, uint8_t* states) noexcept nogil:
    # A column that an image lacks is unknown; what was not logged after an update is what it was before.
    cdef const uint8_t* record = at.records
    cdef uint32_t i
    for i in range(at.count):
        if bit_of(at, record, test.column, True):
            states[i] = states[i - 1] if (<const image_t*> record).op == OP_UPDATE_POSTIMAGE else STATE_UNKNOWN
        record += at.record_len


cdef inline void take_side(const looked_at_t* at, uint8_t side, uint8_t* states) noexcept nogil:
    cdef uint32_t i
    if at.op == OP_UPDATE_PREIMAGE:
        for i in range(0, at.count, 2):
            if side == SIDE_BEFORE:
                states[i + 1] = states[i]
            else:
                states[i] = states[i + 1]
    elif at.op == (OP_INSERT if side == SIDE_BEFORE else OP_DELETE):
        memset(states, STATE_UNKNOWN, at.count)


cdef inline void run_test(const looked_at_t* at, const test_t* test, const uint8_t* pool,
                          uint8_t* states) noexcept nogil:
    cdef const uint8_t* record = at.records
    cdef uint32_t i
    cdef uint8_t code = test.code
    pool += test.at
    if code >= TEST_OP:
        for i in range(at.count):
            if code == TEST_OP:
                states[i] = pool[(<const image_t*> record).op]
            elif code == TEST_SERVER:
                states[i] = (STATE_TRUE if test.low <= <int64_t> (<const image_t*> record).server_id <= test.high
                             else STATE_FALSE)
            elif code == TEST_THREAD:
                states[i] = (STATE_TRUE if test.low <= <int64_t> at.thread_id <= test.high
                             else STATE_FALSE if at.thread_id else STATE_UNKNOWN)
            elif code == TEST_COMMIT:
                states[i] = STATE_TRUE if test.low <= at.commit_time <= test.high else STATE_FALSE
            else:
                states[i] = <uint8_t> test.low
            record += at.record_len
        return
    if code == TEST_CHANGED:
        memset(states, STATE_FALSE, at.count)
        if at.op == OP_UPDATE_PREIMAGE:
            for i in range(0, at.count, 2):
                states[i] = states[i + 1] = state_of_change(at, test, record, i)
                record += 2 * <size_t> at.record_len
        return
    if code == TEST_RANGE and test.form == FORM_I4:
        run_range(at, test, FORM_I4, states)
    elif code == TEST_RANGE and test.form == FORM_I8:
        run_range(at, test, FORM_I8, states)
    elif code == TEST_RANGE and test.form == FORM_U4:
        run_range(at, test, FORM_U4, states)
    elif code == TEST_RANGE and test.form == FORM_U8:
        run_range(at, test, FORM_U8, states)
    elif code == TEST_NULL:
        for i in range(at.count):
            states[i] = STATE_TRUE if bit_of(at, record, test.column, False) else STATE_FALSE
            record += at.record_len
    else:
        for i in range(at.count):
            states[i] = (STATE_UNKNOWN if bit_of(at, record, test.column, False)
                         else state_of_value(at, test, pool, record, i))
            record += at.record_len
    if not at.whole:
        fill_from_before(at, test, states)
    if test.side != SIDE_OWN:
        take_side(at, test.side, states)


cdef inline void run_condition(const condition_t* condition, const looked_at_t* at, uint8_t* kept) noexcept nogil:
    # kept: 1 for each record of a change that matches
    cdef uint8_t[STATES_MOST][TILE] stack
    cdef uint8_t* top = NULL
    cdef uint8_t* below
    cdef uint32_t depth = 0
    cdef uint32_t step
    cdef uint32_t i
    cdef uint8_t code
    for step in range(condition.program_len):
        code = condition.program[step]
        if code >= PROGRAM_TESTS:
            run_test(at, &condition.tests[code - PROGRAM_TESTS], condition.pool, stack[depth])
            depth += 1
            continue
        top = stack[depth - 1]
        if code == PROGRAM_NOT:
            for i in range(at.count):
                top[i] = <uint8_t> (STATE_TRUE - top[i])
            continue
        depth -= 1
        below = stack[depth - 1]
        if code == PROGRAM_AND:
            for i in range(at.count):
                below[i] = min(below[i], top[i])
        else:
            for i in range(at.count):
                below[i] = max(below[i], top[i])
    top = stack[0]
    if at.op == OP_UPDATE_PREIMAGE:
        for i in range(0, at.count, 2):
            kept[i] = kept[i + 1] = top[i] == STATE_TRUE or top[i + 1] == STATE_TRUE
    else:
        for i in range(at.count):
            kept[i] = top[i] == STATE_TRUE


# ---------------------------------------------------------------- what Python gives

cdef inline uint32_t width_of_form(uint8_t form) noexcept:
    if form in (FORM_I1, FORM_U1):
        return 1
    if form in (FORM_I2, FORM_U2):
        return 2
    if form in (FORM_I4, FORM_U4, FORM_F4):
        return 4
    if form in (FORM_SPAN, FORM_PADDED):
        return sizeof(span_t)
    return 32 if form == FORM_LIMBS4 else 16 if form == FORM_LIMBS2 else 0 if form == FORM_NONE else 8


cdef inline bint fits(const test_t* test, const uint8_t* pool, size_t pool_len, uint32_t column_count,
                      uint32_t image_len, uint32_t record_len) noexcept:
    # Whether a test reads nothing outside of its record and the pool
    cdef size_t room
    cdef size_t texts
    cdef uint32_t end
    cdef uint32_t before = 0
    cdef uint32_t i
    cdef bint text = test.form in (FORM_SPAN, FORM_PADDED)
    cdef bint wide = test.form in (FORM_LIMBS2, FORM_LIMBS4)
    if (test.code >= TEST_CODES or test.form >= FORM_CODES or test.side > SIDE_AFTER or test.at > pool_len
            or test.column >= max(column_count, 1u)):
        return False
    if test.form != FORM_NONE and not image_len <= test.out <= record_len - width_of_form(test.form):
        return False
    room = pool_len - test.at
    pool += test.at
    if test.code in (TEST_RANGE, TEST_SET):
        if text or wide or test.form == FORM_NONE:
            return False
        if test.code == TEST_RANGE:
            return test.low <= test.high or test.form == FORM_DATE
        return 8 * <size_t> test.count <= room and test.form != FORM_DATE
    if test.code == TEST_WIDE:
        return wide and room >= 16 * LIMBS
    if test.code == TEST_STATES:
        return test.form == FORM_U2 and test.count <= room
    if test.code == TEST_TEXT:
        return text and <size_t> test.count + test.count2 <= room
    if test.code == TEST_TEXTS:
        texts = 4 * (<size_t> test.count + 1)
        if not text or texts > room:
            return False
        for i in range(test.count + 1):
            memcpy(&end, pool + 4 * <size_t> i, 4)
            if end < before or end > room - texts:
                return False
            before = end
        return True
    if test.code == TEST_LIKE:
        return text and 2 * <size_t> test.count <= room
    if test.code == TEST_CHANGED:
        return test.form != FORM_NONE
    if test.code == TEST_OP:
        return room > OP_DELETE
    return test.code != TEST_CONSTANT or STATE_FALSE <= test.low <= STATE_TRUE


cdef inline condition_t* condition_of(bytes tests, bytes program, bytes pool, uint32_t column_count,
                                      uint32_t image_len, uint32_t record_len) except NULL:
    cdef condition_t* made
    cdef uint32_t count = <uint32_t> (len(tests) // sizeof(test_t))
    cdef const test_t* given = <const test_t*> <const char*> tests
    cdef int depth = 0
    cdef uint8_t code
    cdef uint32_t i
    if <size_t> len(tests) != count * sizeof(test_t) or record_len < image_len:
        raise ValueError(f"{len(tests)} bytes of tests")
    for i in range(count):
        if not fits(&given[i], <const uint8_t*> <const char*> pool, <size_t> len(pool), column_count, image_len,
                    record_len):
            raise ValueError(f"test {i} of a condition cannot be: code {given[i].code}, form {given[i].form}")
    for code in program:
        if code >= PROGRAM_TESTS + count:
            raise ValueError(f"a condition of {count} tests uses number {code - PROGRAM_TESTS}")
        depth += 1 if code >= PROGRAM_TESTS else 0 if code == PROGRAM_NOT else -1
        if depth < 1 or depth > STATES_MOST:
            raise ValueError(f"a condition with {depth} states at once: 1 to {STATES_MOST} expected")
    if depth != 1:
        raise ValueError("the program of a condition does not come to one state")
    made = <condition_t*> malloc(sizeof(condition_t))
    if made == NULL:
        raise MemoryError
    made.test_count = count
    made.program_len = <uint32_t> len(program)
    made.pool_len = <uint32_t> len(pool)
    made.tests = <test_t*> malloc(<size_t> len(tests) + 1)
    made.program = <uint8_t*> malloc(<size_t> len(program) + 1)
    made.pool = <uint8_t*> malloc(<size_t> len(pool) + 1)
    if made.tests == NULL or made.program == NULL or made.pool == NULL:
        free_condition(made)
        raise MemoryError
    memcpy(made.tests, <const char*> tests, <size_t> len(tests))
    memcpy(made.program, <const char*> program, <size_t> len(program))
    memcpy(made.pool, <const char*> pool, <size_t> len(pool))
    return made
