# Where transactions begin and end, from the events around the rows: GTID events of both
# vendors, QUERY BEGIN … COMMIT, XID, XA.

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from wire.cursor cimport (
    Cursor, cursor_over, load_le, load_u16, remaining, skip, take_slice, take_u32, take_u64, take_u8,
)

cdef enum gtid_kind_t:
    GTID_NONE = 0
    GTID_MYSQL = 1
    GTID_MARIADB = 2

cdef enum outcome_t:              # names in binlog_core.batch.OUTCOMES
    OUTCOME_UNKNOWN = 0
    OUTCOME_COMMITTED = 1
    OUTCOME_ROLLED_BACK = 2
    OUTCOME_XA_PREPARED = 3

cdef enum mariadb_gtid_flag_t:
    MARIADB_STANDALONE = 1        # one event follows, and no commit
    MARIADB_PREPARED_XA = 64      # rows up to XA PREPARE follow

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


cdef packed struct transaction_t:          # twin of TRANSACTION_DTYPE
    uint64_t begin_position
    uint64_t end_position
    uint32_t timestamp
    int64_t commit_time
    uint8_t gtid_kind
    uint8_t[16] uuid
    uint32_t domain_id
    uint32_t server_id
    uint64_t sequence_number
    uint8_t[32] tag
    uint64_t xid
    uint8_t outcome


cdef inline void begin_transaction(transaction_t* trx, uint64_t position, uint32_t timestamp,
                                   uint32_t server_id) noexcept nogil:
    # Field by field: of a memset of this length compilers make an instruction that takes longer than the rest.
    trx.begin_position = position
    trx.end_position = 0
    trx.timestamp = timestamp
    trx.commit_time = -1
    trx.gtid_kind = GTID_NONE
    memset(trx.uuid, 0, 16)
    trx.domain_id = 0
    trx.server_id = server_id
    trx.sequence_number = 0
    memset(trx.tag, 0, 32)
    trx.xid = 0
    trx.outcome = OUTCOME_UNKNOWN


cdef inline bint decode_gtid(Cursor* cur, transaction_t* trx) noexcept nogil:
    # GTID_EVENT: fields were added at the end over the versions, so read while bytes last.
    cdef uint64_t us
    if remaining(cur) < 25:
        return False
    skip(cur, 1)                            # flags
    memcpy(trx.uuid, cur.pos, 16)
    skip(cur, 16)
    trx.sequence_number = take_u64(cur)
    trx.gtid_kind = GTID_MYSQL
    if remaining(cur) < 1 + 16 + 7 or take_u8(cur) != 2:      # logical timestamps: type 2
        return True
    skip(cur, 16)                           # last_committed, sequence_number
    us = load_le(cur.pos, 7)
    trx.commit_time = <int64_t> (us & ((<uint64_t> 1 << 55) - 1))       # bit 55: original time follows
    return True


cdef inline bint take_varint(Cursor* cur, uint64_t* out) noexcept nogil:
    # As many bytes more as the first has trailing ones
    cdef uint32_t ones = 0
    cdef uint8_t first
    if remaining(cur) < 1:
        return False
    first = cur.pos[0]
    while ones < 8 and first >> ones & 1:
        ones += 1
    if remaining(cur) < ones + 1:
        return False
    out[0] = load_le(cur.pos + 1, 8) if ones == 8 else load_le(cur.pos, ones + 1) >> (ones + 1)
    skip(cur, ones + 1)
    return True


cdef inline bint decode_gtid_tagged(Cursor* cur, transaction_t* trx) noexcept nogil:
    cdef uint64_t v = 0
    cdef uint64_t size = 0
    cdef uint64_t field = 0
    cdef uint32_t i
    cdef Cursor message
    cdef Cursor whole = cur[0]
    if not (take_varint(cur, &v) and take_varint(cur, &size) and size <= remaining(&whole)):
        return False
    message.pos = cur.pos
    message.end = whole.pos + size
    if message.end < message.pos or not take_varint(&message, &v):
        return False
    while remaining(&message):
        if not take_varint(&message, &field):
            return False
        if field == 1:                      # uuid: 16 integers
            for i in range(16):
                if not take_varint(&message, &v):
                    return False
                trx.uuid[i] = <uint8_t> v
            continue
        if not take_varint(&message, &v):
            return False
        if field == 2:                      # gno, signed: the lowest bit is the sign
            trx.sequence_number = v >> 1
        elif field == 3:                    # tag: v is its length
            if v > 32 or v > remaining(&message):
                return False
            memcpy(trx.tag, message.pos, v)
            skip(&message, v)
        elif field == 6:                    # immediate_commit_timestamp
            trx.commit_time = <int64_t> v
        elif field >= 11:
            break                           # nothing of ours behind the commit group ticket
    trx.gtid_kind = GTID_MYSQL
    return True


cdef inline bint decode_mariadb_gtid(Cursor* cur, transaction_t* trx, uint8_t* flags) noexcept nogil:
    if remaining(cur) < 13:
        return False
    trx.sequence_number = take_u64(cur)
    trx.domain_id = take_u32(cur)
    trx.gtid_kind = GTID_MARIADB
    flags[0] = take_u8(cur)
    return True


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


cdef inline bint take_query_text(Cursor* body, uint32_t post_header_len, Cursor* text) noexcept nogil:
    # The statement of a QUERY_EVENT: behind the post-header, the status variables, and the
    # database's name with its NUL.
    cdef uint64_t before
    if post_header_len < 11 or remaining(body) < post_header_len:
        return False
    before = <uint64_t> body.pos[8] + 1                     # db_len
    if post_header_len >= 13:                               # v4: status_vars_len
        before += load_u16(body.pos + 11)
    skip(body, post_header_len)
    if before > remaining(body):
        return False
    skip(body, before)
    text[0] = body[0]
    return True
