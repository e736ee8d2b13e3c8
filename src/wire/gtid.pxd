# GTID events of both vendors.
#
# Source: MySQL server documentation, "Gtid_event", "Gtid_log_event"; MariaDB Knowledge Base, "GTID_EVENT".

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from wire.codes cimport ANONYMOUS_GTID_EVENT, GTID_EVENT, GTID_TAGGED_EVENT, MARIADB_GTID_EVENT
from wire.cursor cimport Cursor, load_le, remaining, skip, take_u32, take_u64, take_u8

cdef enum gtid_kind_t:
    GTID_NONE = 0
    GTID_MYSQL = 1
    GTID_MARIADB = 2

cdef enum mariadb_gtid_flag_t:
    MARIADB_STANDALONE = 1        # one event follows, and no commit
    MARIADB_GROUP_COMMIT = 2      # a commit id follows
    MARIADB_PREPARED_XA = 64      # rows up to XA PREPARE follow
    MARIADB_COMPLETED_XA = 128    # XA COMMIT or XA ROLLBACK follows

cdef enum mariadb_gtid_extra_t:
    MARIADB_EXTRA_ENGINES = 1     # the number of engines follows
    MARIADB_EXTRA_END_ALTER = 4 | 8  # the sequence number of the ALTER's beginning follows
    MARIADB_EXTRA_THREAD = 16


cdef enum:
    GTID_LEN = 1 + 16 + 8           # flags, uuid, number
    LOGICAL_CLOCK_LEN = 1 + 8 + 8   # its type, last_committed, sequence_number
    LOGICAL_CLOCK = 2               # the only type
    COMMIT_TIME_LEN = 7
    MARIADB_GTID_LEN = 8 + 4 + 1    # sequence number, domain, flags
    XA_HEAD_LEN = 4 + 1 + 1         # format, lengths


cdef struct gtid_t:
    uint8_t[16] uuid          # MySQL: of the source. First, so that clearing and copying use the same words
    uint8_t[32] tag           # MySQL 8.3 and later; filled up with NUL
    uint8_t kind              # gtid_kind_t
    uint32_t domain_id        # MariaDB
    uint32_t server_id        # MariaDB: from the event's header
    uint64_t sequence_number
    int64_t commit_time       # microseconds since 1970 UTC; -1: not in the event
    uint32_t thread_id        # MariaDB 11.8 and later; 0: not in the event


# Each returns False if the event is too short. The caller has cleared `out`.

cdef inline bint decode_gtid(Cursor* cur, gtid_t* out) noexcept nogil:
    # GTID_EVENT: later versions added fields at the end, so read as far as there are bytes.
    if remaining(cur) < GTID_LEN:
        return False
    skip(cur, 1)                            # flags
    memcpy(out.uuid, cur.pos, sizeof(out.uuid))
    skip(cur, sizeof(out.uuid))
    out.sequence_number = take_u64(cur)
    out.kind = GTID_MYSQL
    if remaining(cur) < LOGICAL_CLOCK_LEN + COMMIT_TIME_LEN or take_u8(cur) != LOGICAL_CLOCK:
        return True
    skip(cur, 8)                            # last_committed
    skip(cur, 8)                            # sequence_number of the logical clock
    out.commit_time = <int64_t> (load_le(cur.pos, COMMIT_TIME_LEN) & ((<uint64_t> 1 << 55) - 1))
    return True                             # bit 55: the original commit's time follows


cdef inline bint take_varint(Cursor* cur, uint64_t* out) noexcept nogil:
    # The first byte has as many trailing ones as bytes follow it
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


cdef inline bint decode_gtid_tagged(Cursor* cur, gtid_t* out) noexcept nogil:
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
                out.uuid[i] = <uint8_t> v
            continue
        if not take_varint(&message, &v):
            return False
        if field == 2:                      # gno, signed: the lowest bit is the sign
            out.sequence_number = v >> 1
        elif field == 3:                    # tag: v is its length
            if v > 32 or v > remaining(&message):
                return False
            memcpy(out.tag, message.pos, v)
            skip(&message, v)
        elif field == 6:                    # immediate_commit_timestamp
            out.commit_time = <int64_t> v
        elif field >= 11:
            break                           # the fields after the commit group ticket are not used
    out.kind = GTID_MYSQL
    return True


cdef inline bint decode_mariadb_gtid(Cursor* cur, gtid_t* out, uint8_t* flags) noexcept nogil:
    if remaining(cur) < MARIADB_GTID_LEN:
        return False
    out.sequence_number = take_u64(cur)
    out.domain_id = take_u32(cur)
    out.kind = GTID_MARIADB
    flags[0] = take_u8(cur)
    take_mariadb_thread(cur, flags[0], out)
    return True


cdef inline void take_mariadb_thread(Cursor* cur, uint8_t flags, gtid_t* out) noexcept nogil:
    # The thread id lies after optional fields; an event that ends before it has none
    cdef uint32_t before = 8 if flags & MARIADB_GROUP_COMMIT else 0
    cdef uint8_t extra
    if flags & (MARIADB_PREPARED_XA | MARIADB_COMPLETED_XA):
        if remaining(cur) < before + XA_HEAD_LEN:
            return
        before += XA_HEAD_LEN + cur.pos[before + 4] + cur.pos[before + 5]   # lengths of gtrid and bqual
    if remaining(cur) < before + 1:
        return
    skip(cur, before)
    extra = take_u8(cur)
    before = (1 if extra & MARIADB_EXTRA_ENGINES else 0) + (8 if extra & MARIADB_EXTRA_END_ALTER else 0)
    if extra & MARIADB_EXTRA_THREAD and remaining(cur) >= before + 4:
        skip(cur, before)
        out.thread_id = take_u32(cur)


cdef inline bint is_gtid_event(uint8_t kind) noexcept nogil:
    return (kind == GTID_EVENT or kind == ANONYMOUS_GTID_EVENT or kind == GTID_TAGGED_EVENT
            or kind == MARIADB_GTID_EVENT)


cdef inline bint decode_gtid_event(uint8_t kind, uint32_t server_id, Cursor* body, gtid_t* out,
                                   uint8_t* flags) noexcept nogil:
    # Reads an event of any of these types; flags: MariaDB's. False: the event cannot be read.
    memset(out, 0, sizeof(gtid_t))
    out.commit_time = -1
    out.server_id = server_id
    flags[0] = 0
    if kind == MARIADB_GTID_EVENT:
        return decode_mariadb_gtid(body, out, flags)
    if kind == GTID_TAGGED_EVENT:
        return decode_gtid_tagged(body, out)
    if not decode_gtid(body, out):
        return False
    if kind == ANONYMOUS_GTID_EVENT:
        out.kind = GTID_NONE
    return True
