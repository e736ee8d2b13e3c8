# A condition on the changes of a table, compiled by binlog_core/conditions/compiled.py: tests of a record's
# fields, and a program that combines their results. It runs over records that hold only the condition's columns, many
# at a time; rows_events.pxd decodes the rows that match.
#
# The states are ordered, so that AND is the lesser of two and OR the greater.

from libc.stdint cimport INT64_MIN, int64_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memcmp, memcpy, memset

from batch.records cimport (
    OP_DELETE, OP_INSERT, OP_UPDATE_POSTIMAGE, OP_UPDATE_PREIMAGE, image_t, invalid_date_t, span_t,
)
from decode.condition_texts cimport accepts_text, compare_bytes
from decode.condition_values cimport fields_of, in_set, invalid_date_of, is_between, key_of, state_of_invalid_date
from decode.condition_words cimport (
    FORM_DATE, FORM_I4, FORM_I8, FORM_LIMBS2, FORM_LIMBS4, FORM_PADDED, FORM_SPAN, FORM_U4, FORM_U8, PROGRAM_AND,
    PROGRAM_NOT, PROGRAM_TESTS, SIDE_BEFORE, SIDE_OWN, STATES_MOST, STATE_FALSE, STATE_TRUE, STATE_UNKNOWN,
    TEST_CHANGED, TEST_COMMIT, TEST_NULL, TEST_OP, TEST_RANGE, TEST_SERVER, TEST_SET, TEST_STATES, TEST_THREAD,
    TEST_WIDE, TILE, condition_t, looked_at_t, test_t,
)


cdef inline uint8_t bit_of(const looked_at_t* at, const uint8_t* record, uint32_t column, bint absent) noexcept nogil:
    return record[at.nulls + (at.bitmap_len if absent else 0) + (column >> 3)] >> (column & 7) & 1


cdef inline bint differs(const looked_at_t* at, const test_t* test, const uint8_t* before, const uint8_t* after,
                         uint32_t i) noexcept nogil:
    # Whether two values differ, neither of them NULL; i: the number of the first record
    cdef const invalid_date_t* a
    cdef const invalid_date_t* b
    cdef span_t[2] spans
    cdef size_t width = 8
    if test.form == FORM_SPAN or test.form == FORM_PADDED:
        memcpy(&spans[0], before + test.out, sizeof(span_t))
        memcpy(&spans[1], after + test.out, sizeof(span_t))
        return compare_bytes(at.buffer + spans[0].offset, spans[0].length,
                             at.buffer + spans[1].offset, spans[1].length) != 0
    if test.form == FORM_LIMBS2 or test.form == FORM_LIMBS4:
        width = 16 if test.form == FORM_LIMBS2 else 32
        return memcmp(before + test.out, after + test.out, width) != 0
    if key_of(before + test.out, test.form) != key_of(after + test.out, test.form):
        return True
    if test.form != FORM_DATE or key_of(before + test.out, test.form) != INT64_MIN:
        return False
    a = invalid_date_of(at.batch, at.first + i, test.column)
    b = invalid_date_of(at.batch, at.first + i + 1, test.column)
    return (a == NULL) != (b == NULL) or (a != NULL and fields_of(a) != fields_of(b))


cdef inline uint8_t state_of_change(const looked_at_t* at, const test_t* test, const uint8_t* before,
                                    uint32_t i) noexcept nogil:
    cdef const uint8_t* after = before + at.record_len
    cdef uint8_t null
    if bit_of(at, after, test.column, True):
        return STATE_FALSE          # it was not logged because it did not change
    if bit_of(at, before, test.column, True):
        return STATE_UNKNOWN
    null = bit_of(at, before, test.column, False)
    if null != bit_of(at, after, test.column, False):
        return STATE_TRUE
    return STATE_TRUE if not null and differs(at, test, before, after, i) else STATE_FALSE


cdef inline void run_range(const looked_at_t* at, const test_t* test, uint8_t form, uint8_t* states) noexcept nogil:
    # form: a constant, once inlined
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
        return pool[key] if 0 <= key < test.count else STATE_FALSE
    else:
        memcpy(&span, record + test.out, sizeof(span))
        accepted = accepts_text(test, pool, at.buffer + span.offset, span.length)
    return STATE_TRUE if accepted else STATE_FALSE


cdef inline void fill_from_before(const looked_at_t* at, const test_t* test, uint8_t* states) noexcept nogil:
    # A column that an image lacks is unknown, except in the after image of an update: there it did not change.
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
