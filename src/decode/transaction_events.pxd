# Events around the rows: they begin and end transactions, or concern nobody here.

from libc.stdint cimport uint8_t, uint16_t, uint64_t

from decode.loop cimport RUN_EVENT, RUN_MORE, fail, loop_t, next_position
from decode.table_cache cimport NO_TABLE
from wire.codes cimport (
    ANONYMOUS_GTID_EVENT, DECODE_MALFORMED, DECODE_NO_MEMORY, DECODE_OK, FORMAT_DESCRIPTION_EVENT, GTID_TAGGED_EVENT,
    MARIADB_GTID_EVENT, QUERY_EVENT, START_EVENT_V3, XA_PREPARE_EVENT,
)
from wire.cursor cimport Cursor, load_u64, remaining
from wire.gtid_runs cimport note_gtid_run
from wire.header cimport server_id_of, timestamp_of
from wire.transactions cimport (
    GTID_NONE, MARIADB_PREPARED_XA, MARIADB_STANDALONE, OUTCOME_COMMITTED, OUTCOME_ROLLED_BACK,
    OUTCOME_XA_PREPARED, QUERY_BEGIN, QUERY_COMMIT, QUERY_OTHER, QUERY_ROLLBACK, QUERY_SAVEPOINT,
    QUERY_XA_COMMIT, QUERY_XA_PREPARE, QUERY_XA_ROLLBACK, QUERY_XA_START, begin_transaction, decode_gtid,
    decode_gtid_tagged, decode_mariadb_gtid, query_kind, take_query_text, transaction_t,
)


cdef inline void begin(loop_t* loop, bint explicit) noexcept nogil:
    if explicit and loop.trx_open and not loop.trx_explicit:
        loop.trx_explicit = True            # BEGIN behind its GTID
        return
    loop.trx = <transaction_t*> (loop.transactions.data + loop.transactions.length)
    begin_transaction(loop.trx, loop.event_position, timestamp_of(loop.event), server_id_of(loop.event))
    loop.trx_open = True
    loop.trx_explicit = explicit
    loop.trx_index = -1
    loop.trx_has_rows = False
    loop.table_maps = 0
    loop.records_before = loop.records_taken + loop.group_records


cdef inline void end_transaction(loop_t* loop, int outcome) noexcept nogil:
    if loop.trx_open:
        loop.trx.outcome = <uint8_t> outcome
        # Inside a payload the outer cursor already stands behind the outer event.
        loop.trx.end_position = next_position(loop)
    loop.trx_open = False
    loop.trx_explicit = False
    loop.trx_index = -1


cdef inline int note_xid(loop_t* loop, Cursor body) noexcept nogil:
    if loop.trx_open and remaining(&body) >= 8:
        loop.trx.xid = load_u64(body.pos)
    end_transaction(loop, OUTCOME_COMMITTED)
    return RUN_MORE


cdef inline int note_gtid(loop_t* loop, uint8_t kind, Cursor body) noexcept nogil:
    cdef uint8_t flags = 0
    begin(loop, False)
    loop.skip_transaction = False
    if kind == MARIADB_GTID_EVENT:
        if not decode_mariadb_gtid(&body, loop.trx, &flags):
            return fail(loop, DECODE_MALFORMED, NO_TABLE, b"GTID event too short")
        loop.trx_explicit = not flags & MARIADB_STANDALONE      # it stands for BEGIN
    elif kind == GTID_TAGGED_EVENT:
        if not decode_gtid_tagged(&body, loop.trx):
            return fail(loop, DECODE_MALFORMED, NO_TABLE, b"tagged GTID event cannot be read")
    elif not decode_gtid(&body, loop.trx):
        return fail(loop, DECODE_MALFORMED, NO_TABLE, b"GTID event too short")
    if kind == ANONYMOUS_GTID_EVENT:
        loop.trx.gtid_kind = GTID_NONE
    if note_gtid_run(&loop.gtid_runs, loop.trx) != DECODE_OK:
        return fail(loop, DECODE_NO_MEMORY, NO_TABLE, b"no memory")
    if loop.gtids_to_python or (loop.asides_to_python and flags & MARIADB_PREPARED_XA):
        return RUN_EVENT
    return RUN_MORE


cdef inline int note_query(loop_t* loop, Cursor body) noexcept nogil:
    cdef Cursor text
    cdef int kind
    if loop.descriptor.post_header_len[<int> QUERY_EVENT] == 0:
        return fail(loop, DECODE_MALFORMED, NO_TABLE,
                    b"the format description lists no post-header length for this event type")
    if not take_query_text(&body, loop.descriptor.post_header_len[<int> QUERY_EVENT], &text):
        return fail(loop, DECODE_MALFORMED, NO_TABLE, b"query event too short for its lengths")
    kind = query_kind(&text)
    if kind == QUERY_BEGIN or kind == QUERY_XA_START:
        begin(loop, True)
    elif kind == QUERY_COMMIT or kind == QUERY_XA_COMMIT:
        end_transaction(loop, OUTCOME_COMMITTED)
    elif kind == QUERY_ROLLBACK or kind == QUERY_XA_ROLLBACK:
        end_transaction(loop, OUTCOME_ROLLED_BACK)
    elif kind == QUERY_XA_PREPARE:
        end_transaction(loop, OUTCOME_XA_PREPARED)
    elif kind == QUERY_OTHER:
        if loop.trx_open and not loop.trx_explicit:
            end_transaction(loop, OUTCOME_COMMITTED)     # a statement by itself
        return RUN_EVENT
    return RUN_EVENT if loop.asides_to_python and kind >= QUERY_SAVEPOINT else RUN_MORE


cdef inline int note_event(loop_t* loop, uint8_t kind, Cursor body) noexcept nogil:
    # What _walk.pxd has no handling of its own for
    if kind == QUERY_EVENT:
        return note_query(loop, body)
    if kind == XA_PREPARE_EVENT:
        end_transaction(
            loop, OUTCOME_COMMITTED if remaining(&body) and body.pos[0] else OUTCOME_XA_PREPARED
        )
        return RUN_EVENT if loop.asides_to_python else RUN_MORE
    if kind == FORMAT_DESCRIPTION_EVENT or kind == START_EVENT_V3:
        # A server starts here: what was open before will never end.
        loop.trx_open = False
        loop.trx_index = -1
    return RUN_EVENT
