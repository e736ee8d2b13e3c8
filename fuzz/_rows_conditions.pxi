# Conditions, and what is promised of them: what is kept meets its condition, and what a walk without conditions finds
# to meet it is as much. Included by _rows_target.pyx.
#
# In a table map whose flags have both bits, behind them: length u8, then a program. A byte below 0x40 is NOT, AND or
# OR; any other a test, followed by column, options, place in the pool, two counts.

from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t

from batch.records cimport OP_UPDATE_PREIMAGE
from decode.condition cimport run_condition
from decode.condition_words cimport (
    FORM_DATE, FORM_F4, FORM_F8, FORM_I1, FORM_I2, FORM_I4, FORM_I8, FORM_LIMBS2, FORM_LIMBS4, FORM_NONE, FORM_PADDED,
    FORM_SPAN, FORM_U1, FORM_U2, FORM_U4, FORM_U8, PROGRAM_TESTS, TEST_CHANGED, TEST_CODES, TEST_CONSTANT, TEST_LIKE,
    TEST_NULL, TEST_OP, TEST_RANGE, TEST_SET, TEST_STATES, TEST_TEXT, TEST_TEXTS, TEST_WIDE, condition_t,
    free_condition, looked_at_t, test_t,
)

cdef enum:
    NUMBERS = 16
    STATES = 8 * NUMBERS                    # where the pool has them: 64 states,
    WIDE = STATES + 64                      # limbs of two numbers, twice,
    TEXTS = WIDE + 128                      # three texts with their ends,
    GIVEN = TEXTS + 32                      # and what the input has

cdef int64_t[NUMBERS] KEYS
KEYS = [INT64_MIN, INT64_MIN + 1, -2147483648, -32768, -129, -1, 0, 1, 2, 7, 127, 255, 65535, 2147483647, 4294967295,
        INT64_MAX]
POOL_HEAD = (
    b"".join([(<object> KEYS[_i]).to_bytes(8, "little", signed=True) for _i in range(NUMBERS)])
    + bytes(_i % 3 for _i in range(64))
    + b"".join(_n.to_bytes(32, "little", signed=True) for _n in (-5, 10 ** 20, -10 ** 30, 0))
    + b"".join(_n.to_bytes(4, "little") for _n in (0, 1, 3, 6)) + b"aabxyz".ljust(16, b"x")
)
cdef memory_t judges                        # condition_t*, by plan: of its own records
cdef bint keep_all = False                  # decode without conditions
cdef uint64_t met = 0                       # changes so far that met theirs
cdef bint failed = False                    # an event could not be taken


cdef void release_judges() noexcept nogil:
    cdef size_t i
    for i in range(judges.length // sizeof(condition_t*)):
        free_condition((<condition_t**> judges.data)[i])
    judges.length = 0


cdef condition_t* judge_of(uint32_t plan) noexcept nogil:
    return (<condition_t**> judges.data)[plan] if plan < judges.length // sizeof(condition_t*) else NULL


cdef uint8_t form_of(const wire_op_t* op, uint8_t choice) noexcept nogil:
    if op.code >= WIRE_SPAN1:
        return FORM_PADDED if choice & 1 else FORM_SPAN
    if op.out_width == 32:
        return FORM_LIMBS4
    if op.out_width == 16:
        return FORM_LIMBS2
    if WIRE_DATE <= op.code <= WIRE_MARIA_TIMESTAMP:
        return FORM_DATE
    if op.out_width == 8:
        return FORM_F8 if choice % 3 == 2 else FORM_U8 if choice % 3 else FORM_I8
    if op.out_width == 4:
        return FORM_F4 if choice % 3 == 2 else FORM_U4 if choice % 3 else FORM_I4
    if op.out_width == 2:
        return FORM_U2 if choice & 1 else FORM_I2
    if op.out_width == 1:
        return FORM_U1 if choice & 1 else FORM_I1
    return FORM_NONE


cdef test_t test_of(const uint8_t* p, const wire_op_t* ops, uint32_t count) noexcept nogil:
    cdef test_t test
    cdef uint8_t a = p[4]
    cdef uint8_t b = p[5]
    memset(&test, 0, sizeof(test))
    test.code = p[0] % TEST_CODES
    test.column = p[1] % count
    test.side = p[2] % 3
    test.flags = p[2] >> 3
    test.out = ops[test.column].out
    test.form = form_of(&ops[test.column], p[2] // 3 % 3)
    test.low = KEYS[a % NUMBERS]
    test.high = KEYS[b % NUMBERS]
    test.fields_low = <uint64_t> a << 40
    test.fields_high = <uint64_t> b << 48
    if test.code == TEST_SET:
        test.at = 8 * (p[3] % NUMBERS)
        test.count = a % (NUMBERS + 1 - p[3] % NUMBERS)
    elif test.code == TEST_WIDE:
        test.at = WIDE + 64 * (p[3] & 1)
    elif test.code == TEST_STATES or test.code == TEST_OP:
        test.at = STATES + p[3] % 32
        test.count = a % 33
    elif test.code == TEST_TEXTS:
        test.at = TEXTS
        test.count = 3
    elif test.code == TEST_TEXT or test.code == TEST_LIKE:
        test.at = GIVEN + p[3]
        test.count = a
        test.count2 = b
    elif test.code == TEST_CONSTANT:
        test.low = a % 3
    return test


cdef int decode_with_condition(Decoder decoder, uint32_t index, const wire_op_t* ops, Cursor given,
                               list json_columns, uint16_t flags) except -1:
    # What it looks at is decoded by a plan of these columns alone.
    cdef plan_t* plan = decoder.loop.plans[index]
    cdef uint32_t count = plan.column_count
    cdef uint32_t image_len = plan.image_len
    cdef test_t test
    cdef wire_op_t[MAX_COLUMNS] seen
    cdef bint[MAX_COLUMNS] used
    cdef condition_t* judge = NULL
    cdef bytearray tests = bytearray()
    cdef bytearray scanned = bytearray()
    cdef bytearray program = bytearray()
    cdef bytes pool = POOL_HEAD + given.pos[:remaining(&given)]
    cdef uint32_t i, scan, number = 0
    cdef uint32_t at = image_len
    memset(used, 0, sizeof(used))
    while remaining(&given):
        if given.pos[0] < 0x40:
            program.append(given.pos[0] % PROGRAM_TESTS)
            skip(&given, 1)
            continue
        if remaining(&given) < 6:
            break
        test = test_of(given.pos, ops, count)
        skip(&given, 6)
        program.append(PROGRAM_TESTS + number)
        number += 1
        tests += (<uint8_t*> &test)[:sizeof(test_t)]
        used[test.column] |= test.code <= TEST_CHANGED
    for i in range(count):
        seen[i] = ops[i]
        if not used[i] and ops[i].out_width:
            seen[i].code = WIRE_SKIP_VALUE if ops[i].code >= WIRE_SPAN1 else WIRE_SKIP
            seen[i].out_width = 0
            seen[i].a = seen[i].b = seen[i].c = 0
        seen[i].out = at if seen[i].out_width else 0
        at += seen[i].out_width
    for i in range(number):
        memcpy(&test, <const char*> tests + i * sizeof(test_t), sizeof(test_t))
        test.out = seen[test.column].out
        if not seen[test.column].out_width:
            test.form = FORM_NONE
        scanned += (<uint8_t*> &test)[:sizeof(test_t)]
    try:
        judge = condition_of(bytes(tests), bytes(program), pool, count, image_len, plan.record_len)
        if not keep_all:
            scan = new_plan(decoder, seen, count, image_len, at, json_columns, flags)
            plan.condition = condition_of(bytes(scanned), bytes(program), pool, count, image_len, at)
            plan.scan = decoder.loop.plans[scan]
    except ValueError:                      # it says what cannot be
        free_condition(judge)
        return 0
    while judges.length < index * sizeof(condition_t*):
        if append(&judges, &no_judge, sizeof(no_judge)) != DECODE_OK:
            raise MemoryError
    if append(&judges, &judge, sizeof(judge)) != DECODE_OK:
        raise MemoryError
    return 0


cdef condition_t* no_judge = NULL


cdef void judge_records(Decoder decoder, const batch_t* batch, const plan_t* plan,
                        const condition_t* judge) noexcept nogil:
    # Change by change, as if each were an event
    global met
    cdef const transaction_t* trx
    cdef looked_at_t at
    cdef uint8_t[2] kept
    at.batch = batch
    at.buffer = decoder.loop.windows[0].data
    if batch.copies:
        at.buffer = batch.heap.data
    at.record_len = plan.record_len
    at.nulls = plan.image_len - 2 * plan.bitmap_len
    at.bitmap_len = plan.bitmap_len
    at.whole = False
    at.first = 0
    while at.first < batch.count:
        at.records = batch.records.data + <size_t> at.first * plan.record_len
        at.op = (<const image_t*> at.records).op
        at.count = 2 if at.op == OP_UPDATE_PREIMAGE else 1
        check(at.first + at.count <= batch.count)
        trx = <const transaction_t*> decoder.loop.group.transactions.data + (<const image_t*> at.records).transaction
        at.commit_time = trx.commit_time if trx.commit_time >= 0 else <int64_t> trx.timestamp * 1000000
        at.thread_id = trx.thread_id
        run_condition(judge, &at, kept)
        check(keep_all or kept[0])
        met += kept[0]
        at.first += at.count
