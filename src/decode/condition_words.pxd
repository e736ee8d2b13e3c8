# The parts of a condition: tests, and a program that combines their results.

from libc.stdint cimport int64_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport free

from batch.gathered cimport batch_t

cdef enum:
    STATE_FALSE = 0
    STATE_UNKNOWN = 1
    STATE_TRUE = 2
    TILE = 256                      # records that are tested together: an even number
    STATES_MOST = 24                # most states on the stack
    LIMBS = 4


cdef enum test_code_t:              # names in TESTS of _rows.pyx
    TEST_RANGE = 0                  # a number from `low` to `high`
    TEST_SET = 1                    # one of `count` sorted numbers
    TEST_WIDE = 2                   # a DECIMAL of several limbs, between two in the pool
    TEST_STATES = 3                 # ENUM: the state of each of `count` numbers; others are false
    TEST_TEXT = 4                   # from one text in the pool (`count` bytes) to another (`count2` bytes)
    TEST_TEXTS = 5                  # one of `count` sorted texts in the pool
    TEST_LIKE = 6                   # a pattern of `count` bytes, then a pattern_t for each
    TEST_NULL = 7
    TEST_CHANGED = 8
    TEST_OP = 9                     # the state of each op
    TEST_SERVER = 10                # server_id from `low` to `high`
    TEST_COMMIT = 11                # microseconds of the commit from `low` to `high`
    TEST_THREAD = 12                # thread_id from `low` to `high`; 0: not known
    TEST_CONSTANT = 13              # `low` is the state
    TEST_CODES = 14


cdef enum form_t:                   # form of a value in its record; names in FORMS of _rows.pyx
    FORM_NONE = 0
    FORM_I1 = 1
    FORM_I2 = 2
    FORM_I4 = 3
    FORM_I8 = 4
    FORM_U1 = 5
    FORM_U2 = 6
    FORM_U4 = 7
    FORM_U8 = 8                     # compared as int64 with the highest bit flipped
    FORM_F4 = 9                     # compared as whole numbers in the same order
    FORM_F8 = 10
    FORM_DATE = 11                  # days or microseconds; NaT: see invalid_dates
    FORM_SPAN = 12
    FORM_PADDED = 13                # a span of bytes, padded with zeros
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


cdef enum program_t:                # one byte each; from PROGRAM_TESTS on: the state of test (byte - PROGRAM_TESTS)
    PROGRAM_NOT = 0
    PROGRAM_AND = 1
    PROGRAM_OR = 2
    PROGRAM_TESTS = 3


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
    uint64_t fields_low             # bounds of invalid dates
    uint64_t fields_high


cdef struct condition_t:
    test_t* tests
    uint32_t test_count
    uint8_t* program
    uint32_t program_len
    uint8_t* pool
    uint32_t pool_len


# The records that are tested, and what they share.
cdef struct looked_at_t:
    const batch_t* batch
    const uint8_t* buffer           # where spans count from
    const uint8_t* records
    uint32_t first                  # number of the first in the batch
    uint32_t count
    uint32_t record_len
    uint32_t nulls                  # offset of the bitmaps in a record
    uint32_t bitmap_len
    uint8_t op                      # of the first record
    bint whole                      # no column is absent
    int64_t commit_time
    uint32_t thread_id


cdef inline void free_condition(condition_t* condition) noexcept nogil:
    if condition != NULL:
        free(condition.tests)
        free(condition.program)
        free(condition.pool)
        free(condition)
