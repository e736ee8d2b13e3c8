# Events around the rows: they begin and end transactions, or are ignored.

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from batch.gtid_runs cimport note_gtid_run
from batch.records cimport (
    OUTCOME_COMMITTED, OUTCOME_ROLLED_BACK, OUTCOME_UNKNOWN, OUTCOME_XA_PREPARED, transaction_t,
)
from decode.loop cimport (
    FAULT_GTID, FAULT_NO_MEMORY, FAULT_NO_POST_HEADER, FAULT_QUERY, FAULT_TAGGED_GTID, RUN_EVENT, RUN_MORE,
    event_t, fail, loop_t, next_position,
)
from decode.table_cache cimport NO_TABLE
from wire.codes cimport (
    DECODE_OK, FORMAT_DESCRIPTION_EVENT, GTID_TAGGED_EVENT, MARIADB_GTID_EVENT, QUERY_EVENT, START_EVENT_V3,
    XA_PREPARE_EVENT,
)
from wire.cursor cimport Cursor, load_u32, load_u64, remaining
from wire.gtid cimport GTID_NONE, MARIADB_PREPARED_XA, MARIADB_STANDALONE, decode_gtid_event, gtid_t
from wire.header cimport server_id_of, timestamp_of
from wire.query cimport (
    QUERY_BEGIN, QUERY_COMMIT, QUERY_OTHER, QUERY_ROLLBACK, QUERY_SAVEPOINT, QUERY_XA_COMMIT, QUERY_XA_PREPARE,
    QUERY_XA_ROLLBACK, QUERY_XA_START, query_kind, take_query,
)


cdef enum:
    XID_LEN = 8


cdef inline void begin_transaction(transaction_t* trx, uint64_t position, uint32_t timestamp,
                                   uint32_t server_id) noexcept nogil:
    # Field by field: for a memset of this length compilers use an instruction that takes longer than all the rest.
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
    trx.thread_id = 0


cdef inline void put_gtid(transaction_t* trx, const gtid_t* gtid) noexcept nogil:
    trx.gtid_kind = gtid.kind
    memcpy(trx.uuid, gtid.uuid, sizeof(gtid.uuid))
    memcpy(trx.tag, gtid.tag, sizeof(gtid.tag))
    trx.domain_id = gtid.domain_id
    trx.sequence_number = gtid.sequence_number
    trx.commit_time = gtid.commit_time
    trx.thread_id = gtid.thread_id


cdef inline void begin(loop_t* loop, event_t event, bint explicit) noexcept nogil:
    if explicit and loop.trx.open and not loop.trx.explicit and not (loop.trx.table_maps or loop.trx.has_rows):
        loop.trx.explicit = True            # BEGIN after its GTID; after rows it begins another
        return
    loop.trx.record = <transaction_t*> (loop.group.transactions.data + loop.group.transactions.length)
    begin_transaction(loop.trx.record, event.position, timestamp_of(event.start), server_id_of(event.start))
    loop.trx.open = True
    loop.trx.explicit = explicit
    loop.trx.index = -1
    loop.trx.has_rows = False
    loop.trx.table_maps = 0
    loop.trx.headless = False
    loop.trx.records_before = loop.group.records_taken + loop.group.records


cdef inline void end_transaction(loop_t* loop, int outcome) noexcept nogil:
    if loop.trx.open:
        loop.trx.record.outcome = <uint8_t> outcome
        # Inside a payload the outer cursor is already after the outer event.
        loop.trx.record.end_position = next_position(loop)
    loop.trx.open = False
    loop.trx.explicit = False
    loop.trx.index = -1


cdef inline int note_xid(loop_t* loop, event_t event) noexcept nogil:
    if loop.trx.open and remaining(&event.body) >= XID_LEN:
        loop.trx.record.xid = load_u64(event.body.pos)
    end_transaction(loop, OUTCOME_COMMITTED)
    return RUN_MORE


cdef inline int note_gtid(loop_t* loop, event_t event) noexcept nogil:
    cdef uint8_t flags
    cdef gtid_t gtid
    begin(loop, event, False)
    loop.tables.transaction += 1
    loop.trx.skipped = False
    if not decode_gtid_event(event.kind, server_id_of(event.start), &event.body, &gtid, &flags):
        return fail(loop, event.position, FAULT_TAGGED_GTID if event.kind == GTID_TAGGED_EVENT else FAULT_GTID,
                    NO_TABLE)
    loop.trx.explicit = event.kind == MARIADB_GTID_EVENT and not flags & MARIADB_STANDALONE   # it also serves as BEGIN
    put_gtid(loop.trx.record, &gtid)
    if note_gtid_run(&loop.gtid_runs, &gtid) != DECODE_OK:
        return fail(loop, event.position, FAULT_NO_MEMORY, NO_TABLE)
    if loop.selection.gtids_to_python or (loop.selection.asides_to_python and flags & MARIADB_PREPARED_XA):
        return RUN_EVENT
    return RUN_MORE


cdef inline int note_query(loop_t* loop, event_t event) noexcept nogil:
    cdef uint32_t post_header_len = loop.descriptor.post_header_len[<int> QUERY_EVENT]
    cdef Cursor database
    cdef Cursor text
    cdef uint32_t thread_id = load_u32(event.body.pos) if remaining(&event.body) >= 4 else 0
    cdef int kind
    if post_header_len == 0:
        return fail(loop, event.position, FAULT_NO_POST_HEADER, NO_TABLE)
    if not take_query(&event.body, post_header_len, &database, &text):
        return fail(loop, event.position, FAULT_QUERY, NO_TABLE)
    kind = query_kind(&text)
    if kind == QUERY_BEGIN or kind == QUERY_XA_START:
        begin(loop, event, True)
        loop.tables.transaction += 1
        loop.trx.record.thread_id = thread_id
    elif kind == QUERY_COMMIT or kind == QUERY_XA_COMMIT:
        end_transaction(loop, OUTCOME_COMMITTED)
    elif kind == QUERY_ROLLBACK or kind == QUERY_XA_ROLLBACK:
        end_transaction(loop, OUTCOME_ROLLED_BACK)
    elif kind == QUERY_XA_PREPARE:
        end_transaction(loop, OUTCOME_XA_PREPARED)
    elif kind == QUERY_OTHER:
        # CREATE TABLE … SELECT has no BEGIN. After rows it is too late: conditions have seen these without it.
        if loop.trx.open and not (loop.trx.record.thread_id or loop.trx.table_maps or loop.trx.has_rows):
            loop.trx.record.thread_id = thread_id
        if loop.trx.open and not loop.trx.explicit:
            end_transaction(loop, OUTCOME_COMMITTED)     # a statement that commits by itself
        return RUN_EVENT
    return RUN_EVENT if loop.selection.asides_to_python and kind >= QUERY_SAVEPOINT else RUN_MORE


cdef inline int note_event(loop_t* loop, event_t event) noexcept nogil:
    # Events that walk.pxd does not handle itself
    if event.kind == QUERY_EVENT:
        return note_query(loop, event)
    if event.kind == XA_PREPARE_EVENT:
        # one_phase comes first; format_id, gtrid_len, bqual_len and the identifier after it are left to Python
        end_transaction(
            loop, OUTCOME_COMMITTED if remaining(&event.body) and event.body.pos[0] else OUTCOME_XA_PREPARED
        )
        return RUN_EVENT if loop.selection.asides_to_python else RUN_MORE
    if event.kind == FORMAT_DESCRIPTION_EVENT or event.kind == START_EVENT_V3:
        # A server starts here: an open transaction never ends.
        loop.trx.open = False
        loop.trx.index = -1
    return RUN_EVENT
