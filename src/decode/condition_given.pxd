# Checks a condition that Python gives: whatever its bytes are, running it reads no memory that is not its own.

from libc.stdint cimport uint32_t, uint8_t
from libc.stdlib cimport malloc
from libc.string cimport memcpy

from batch.records cimport OP_DELETE, span_t
from decode.condition_words cimport (
    FORM_CODES, FORM_DATE, FORM_F4, FORM_I1, FORM_I2, FORM_I4, FORM_LIMBS2, FORM_LIMBS4, FORM_NONE, FORM_PADDED,
    FORM_SPAN, FORM_U1, FORM_U2, FORM_U4, LIMBS, PROGRAM_NOT, PROGRAM_TESTS, SIDE_AFTER, STATES_MOST, STATE_FALSE,
    STATE_TRUE, TEST_CHANGED, TEST_CODES, TEST_CONSTANT, TEST_LIKE, TEST_OP, TEST_RANGE, TEST_SET, TEST_STATES,
    TEST_TEXT, TEST_TEXTS, TEST_WIDE, condition_t, free_condition, test_t,
)


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
    # Whether a test reads nothing outside its record and the pool
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
            raise ValueError(f"test {i} of a condition is not valid: code {given[i].code}, form {given[i].form}")
    for code in program:
        if code >= PROGRAM_TESTS + count:
            raise ValueError(f"a condition of {count} tests uses number {code - PROGRAM_TESTS}")
        depth += 1 if code >= PROGRAM_TESTS else 0 if code == PROGRAM_NOT else -1
        if depth < 1 or depth > STATES_MOST:
            raise ValueError(f"a condition with {depth} states at once: expected 1 to {STATES_MOST}")
    if depth != 1:
        raise ValueError("the program of a condition does not end with one state")
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
