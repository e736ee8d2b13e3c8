# QUERY events: where the statement is, and what it does to transactions.
#
# Source: MySQL server documentation, "Query_event".

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from wire.cursor cimport Cursor, cursor_over, remaining, skip, take_slice, take_u16, take_u8

cdef enum query_kind_t:
    QUERY_OTHER = 0
    QUERY_BEGIN = 1
    QUERY_COMMIT = 2
    QUERY_ROLLBACK = 3
    QUERY_SAVEPOINT = 4           # SAVEPOINT, RELEASE, ROLLBACK TO: inside a transaction
    QUERY_XA_START = 5
    QUERY_XA_END = 6
    QUERY_XA_COMMIT = 7
    QUERY_XA_ROLLBACK = 8
    QUERY_XA_PREPARE = 9


cdef inline bint begins_with(const Cursor* text, const char* word, size_t length) noexcept nogil:
    # word in capitals
    cdef size_t i
    if remaining(text) < length:
        return False
    for i in range(length):
        if (text.pos[i] & 0xDF if 97 <= text.pos[i] <= 122 else text.pos[i]) != <uint8_t> word[i]:
            return False
    return True


cdef inline bint is_word(const Cursor* text, const char* word, size_t length) noexcept nogil:
    return remaining(text) == length and begins_with(text, word, length)


cdef inline int query_kind(const Cursor* text) noexcept nogil:
    if is_word(text, b"BEGIN", 5):
        return QUERY_BEGIN
    if is_word(text, b"COMMIT", 6):
        return QUERY_COMMIT
    if (begins_with(text, b"ROLLBACK TO", 11) or begins_with(text, b"SAVEPOINT ", 10)
            or begins_with(text, b"RELEASE SAVEPOINT", 17)):
        return QUERY_SAVEPOINT
    if begins_with(text, b"ROLLBACK", 8):
        return QUERY_ROLLBACK
    if begins_with(text, b"XA ", 3):
        if begins_with(text, b"XA START", 8) or begins_with(text, b"XA BEGIN", 8):
            return QUERY_XA_START
        if begins_with(text, b"XA END", 6):
            return QUERY_XA_END
        if begins_with(text, b"XA PREPARE", 10):
            return QUERY_XA_PREPARE
        if begins_with(text, b"XA COMMIT", 9):
            return QUERY_XA_COMMIT
        if begins_with(text, b"XA ROLLBACK", 11):
            return QUERY_XA_ROLLBACK
    if begins_with(text, b"START TRANSACTION", 17):
        return QUERY_BEGIN
    return QUERY_OTHER


cdef enum:
    QUERY_POST_HEADER_LEN = 11      # before v4
    QUERY_V4_POST_HEADER_LEN = 13   # status_vars_len after it


cdef inline bint take_query(Cursor* body, uint32_t post_header_len, Cursor* database, Cursor* text) noexcept nogil:
    # False: the event is too short for its lengths
    cdef Cursor post_header
    cdef uint32_t database_len
    cdef uint32_t status_vars_len = 0
    if post_header_len < QUERY_POST_HEADER_LEN or not take_slice(body, post_header_len, &post_header):
        return False
    skip(&post_header, 4)               # thread_id
    skip(&post_header, 4)               # exec_time
    database_len = take_u8(&post_header)
    skip(&post_header, 2)               # error_code
    if post_header_len >= QUERY_V4_POST_HEADER_LEN:
        status_vars_len = take_u16(&post_header)
    if status_vars_len + database_len + 1 > remaining(body):
        return False
    skip(body, status_vars_len)
    database[0] = cursor_over(body.pos, database_len)
    skip(body, database_len + 1)        # and a NUL
    text[0] = body[0]
    return True
