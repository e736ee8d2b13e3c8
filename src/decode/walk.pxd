# From event to event, until something is to be told.

from libc.stdint cimport UINT64_MAX, uint8_t, uint32_t, uint64_t, uintptr_t

from decode.loop cimport (
    RUN_EVENT, RUN_MORE, RUN_PAUSE, RUN_STOP, RUN_TABLE, fail, loop_t, next_position, window_t,
)
from decode.rows_events cimport decode_rows_event, is_rows_v0
from decode.table_cache cimport NO_TABLE
from decode.table_map_events cimport map_table
from decode.transaction_events cimport end_transaction, note_event, note_gtid, note_xid
from find.anchor cimport is_anchor
from wire.codes cimport (
    ANONYMOUS_GTID_EVENT, DECODE_CHECKSUM, DECODE_MALFORMED, DECODE_OK, DECODE_TRUNCATED, DELETE_ROWS_EVENT,
    DELETE_ROWS_EVENT_V1, FORMAT_DESCRIPTION_EVENT, GTID_EVENT, GTID_TAGGED_EVENT, HEARTBEAT_EVENT,
    HEARTBEAT_EVENT_V2, IGNORABLE_EVENT, INTVAR_EVENT, MARIADB_ANNOTATE_ROWS_EVENT,
    MARIADB_BINLOG_CHECKPOINT_EVENT, MARIADB_GTID_EVENT, MARIADB_GTID_LIST_EVENT, PARTIAL_UPDATE_ROWS_EVENT,
    PREVIOUS_GTIDS_EVENT, PRE_GA_UPDATE_ROWS_EVENT, PRE_GA_WRITE_ROWS_EVENT, QUERY_EVENT, RAND_EVENT,
    ROTATE_EVENT, ROWS_QUERY_EVENT, START_EVENT_V3, STOP_EVENT, TABLE_MAP_EVENT, TRANSACTION_CONTEXT_EVENT,
    UPDATE_ROWS_EVENT, UPDATE_ROWS_EVENT_V1, USER_VAR_EVENT, VIEW_CHANGE_EVENT, WRITE_ROWS_EVENT,
    WRITE_ROWS_EVENT_V1, XID_EVENT,
)
from wire.cursor cimport Cursor, prefetch, unlikely
from wire.header cimport (
    V4_MINIMUM_HEADER_LEN, checksum_holds_with, descriptor_t, length_of, next_position_of, position_agrees,
    take_event, type_of,
)

cdef enum:
    PREFETCH = 1024                 # bytes ahead
    PAUSE_BYTES = 64 << 20          # of log walked over between two chances for Ctrl-C


# What the loop does with events of a type.
cdef enum handling_t:
    HANDLE_OTHER = 0
    HANDLE_INSERT = 1               # these three are the rows events' op
    HANDLE_UPDATE = 2
    HANDLE_DELETE = 4
    HANDLE_TABLE_MAP = 5
    HANDLE_XID = 6
    HANDLE_GTID = 7
    HANDLE_NOTHING = 8              # nothing of theirs concerns rows
    HANDLE_ROTATE = 9               # from here on their lengths follow rules of their own
    HANDLE_DESCRIPTOR = 10


cdef inline uint8_t handling_of(uint8_t kind) noexcept nogil:
    if kind == WRITE_ROWS_EVENT_V1 or kind == WRITE_ROWS_EVENT:
        return HANDLE_INSERT
    if kind == UPDATE_ROWS_EVENT_V1 or kind == UPDATE_ROWS_EVENT or kind == PARTIAL_UPDATE_ROWS_EVENT:
        return HANDLE_UPDATE
    if kind == DELETE_ROWS_EVENT_V1 or kind == DELETE_ROWS_EVENT:
        return HANDLE_DELETE
    if kind == TABLE_MAP_EVENT:
        return HANDLE_TABLE_MAP
    if kind == XID_EVENT:
        return HANDLE_XID
    if (kind == GTID_EVENT or kind == ANONYMOUS_GTID_EVENT or kind == GTID_TAGGED_EVENT
            or kind == MARIADB_GTID_EVENT):
        return HANDLE_GTID
    if kind == ROTATE_EVENT:
        return HANDLE_ROTATE
    if kind == FORMAT_DESCRIPTION_EVENT or kind == START_EVENT_V3:
        return HANDLE_DESCRIPTOR
    if (kind == MARIADB_ANNOTATE_ROWS_EVENT or kind == ROWS_QUERY_EVENT or kind == INTVAR_EVENT
            or kind == RAND_EVENT or kind == USER_VAR_EVENT or kind == STOP_EVENT
            or kind == MARIADB_BINLOG_CHECKPOINT_EVENT or kind == HEARTBEAT_EVENT or kind == HEARTBEAT_EVENT_V2
            or kind == TRANSACTION_CONTEXT_EVENT or kind == VIEW_CHANGE_EVENT or kind == IGNORABLE_EVENT):
        return HANDLE_NOTHING
    return HANDLE_OTHER


cdef inline void set_handling(descriptor_t* descriptor) noexcept nogil:
    # By the type code in the file, once its numbering is known
    cdef int i
    for i in range(256):
        descriptor.handling[i] = handling_of(descriptor.canonical[i])


cdef inline int handle_other(loop_t* loop, uint8_t kind, Cursor body) noexcept nogil:
    if loop.rows_v0 and is_rows_v0(kind):
        return decode_rows_event(loop, kind, HANDLE_INSERT if kind == PRE_GA_WRITE_ROWS_EVENT
                                 else HANDLE_UPDATE if kind == PRE_GA_UPDATE_ROWS_EVENT else HANDLE_DELETE, body)
    return note_event(loop, kind, body)


cdef inline int take_carefully(loop_t* loop, const descriptor_t* descriptor) noexcept nogil:
    # An event of rare length or meaning, or where more is to be checked than usual. The cursor stays
    # where it is when the event is not whole, or one to stop at.
    cdef Cursor* cur = &loop.windows[loop.depth].cur
    cdef bint inside = loop.depth != 0
    cdef int status = take_event(cur, descriptor, &loop.header, &loop.body)
    cdef uint8_t kind = loop.header.type_code
    if (loop.check_positions and not inside and status != DECODE_MALFORMED
            and not position_agrees(&loop.header, loop.event_position)):
        return fail(loop, DECODE_MALFORMED, NO_TABLE, b"the event does not end where it says")
    if status == DECODE_TRUNCATED:
        return RUN_MORE
    if status != DECODE_OK:
        return fail(loop, status, NO_TABLE, b"event_length is less than its header")
    if not inside and (
            (loop.header.timestamp >= loop.stop_timestamp and kind != FORMAT_DESCRIPTION_EVENT)
            or (loop.stop_anchor and loop.event_position >= loop.stop_position
                and is_anchor(loop.stop_anchor, kind, loop.body,
                              descriptor.post_header_len[<int> QUERY_EVENT]))):
        cur.pos = loop.event
        return RUN_STOP
    return RUN_MORE


cdef inline void note_header(loop_t* loop, const descriptor_t* descriptor, const uint8_t* event,
                             const uint8_t* end) noexcept nogil:
    # Of the event at hand, for Python: the loop itself reads only what it needs of it
    cdef Cursor cur
    cdef Cursor body
    cur.pos = event
    cur.end = end
    take_event(&cur, descriptor, &loop.header, &body)


cdef inline int handle(loop_t* loop, uint8_t handling, uint8_t kind, Cursor body) noexcept nogil:
    cdef int status
    # body by value, here and below: read back from loop.body as one, it would wait for the two stores that made it
    if handling == HANDLE_NOTHING or handling == HANDLE_ROTATE:
        return RUN_MORE
    if handling == HANDLE_TABLE_MAP:
        status = map_table(loop, body)
        if unlikely(loop.headless and status == RUN_MORE):
            loop.headless = False
            return RUN_EVENT
        return status
    if handling <= HANDLE_DELETE and handling != HANDLE_OTHER:
        return decode_rows_event(loop, kind, handling, body)
    if handling == HANDLE_XID:
        return note_xid(loop, body)
    if handling == HANDLE_GTID:
        return note_gtid(loop, kind, body)
    return handle_other(loop, kind, body)


cdef inline int walk(loop_t* loop) noexcept nogil:
    cdef window_t* window = &loop.windows[loop.depth]
    cdef const descriptor_t* descriptor = &loop.plain if loop.depth else &loop.descriptor
    cdef const uint8_t* start = window.cur.pos
    cdef const uint8_t* end = window.cur.end
    cdef const uint8_t* pos = start
    cdef const uint8_t* limit = end                 # where to stop or to pause
    cdef const uint8_t* event = NULL
    cdef const uint8_t* before = NULL               # the event before it, if this call met it
    cdef uint64_t base = window.base - <uint64_t> <uintptr_t> window.data   # of positions, from addresses
    cdef uint64_t doubtful = loop.event_position    # of the event before this call
    cdef bint told = loop.header.next_position != 0 or loop.header.event_length == 0
    cdef bint inside = loop.depth != 0
    cdef bint verify = loop.verify and descriptor.checksum_len != 0
    cdef uint32_t header_len = descriptor.header_len
    cdef uint32_t checksum_len = descriptor.checksum_len
    cdef bint careful = header_len < V4_MINIMUM_HEADER_LEN or (not inside and (
        loop.check_positions or loop.stop_anchor != 0 or loop.stop_timestamp != UINT64_MAX))
    cdef int status = RUN_MORE
    cdef uint8_t handling
    cdef uint8_t kind
    cdef size_t length
    cdef Cursor body
    if <size_t> (end - start) > PAUSE_BYTES:
        limit = start + PAUSE_BYTES
    if not inside and not loop.stop_anchor and loop.stop_position < base + <uintptr_t> limit:
        limit = window.data + (loop.stop_position - window.base if loop.stop_position > window.base else 0)
    loop.without_map = False
    while status == RUN_MORE:
        if pos >= limit:
            if pos != end:
                status = RUN_STOP if not inside and base + <uintptr_t> pos >= loop.stop_position else RUN_PAUSE
            break
        before = event
        event = pos
        loop.event = event
        if not inside:
            loop.event_position = base + <uintptr_t> event
            loop.row_in_event = 0
        prefetch(event + PREFETCH)              # of many small events the next header is what we wait for
        length = <size_t> (end - event)
        handling = HANDLE_DESCRIPTOR
        if length >= V4_MINIMUM_HEADER_LEN:
            handling = descriptor.handling[type_of(event)]
            length = length_of(event)
        if unlikely(careful or handling >= HANDLE_ROTATE or length > <size_t> (end - event)
                    or length < header_len + checksum_len):
            status = take_carefully(loop, descriptor)
            pos = window.cur.pos
            if status != RUN_MORE or pos == event:
                break
            length = loop.header.event_length
            handling = descriptor.handling[type_of(event)]
            body = loop.body
        else:
            pos = event + length
            body.pos = event + header_len
            body.end = pos - checksum_len
            loop.body.pos = body.pos
            loop.body.end = body.end
            window.cur.pos = pos
        if verify and handling != HANDLE_DESCRIPTOR and not checksum_holds_with(loop.crc, event, <uint32_t> length):
            status = fail(loop, DECODE_CHECKSUM, NO_TABLE, b"wrong checksum")
            break
        kind = descriptor.canonical[type_of(event)]
        status = handle(loop, handling, kind, body)
        if status == RUN_TABLE:
            window.cur.pos = event              # again, once its plan is there
            break
        if not loop.trx_open and not inside:
            loop.boundary = base + <uintptr_t> pos
    if event != NULL:
        note_header(loop, descriptor, event, end)
        if not inside:
            if before != NULL:
                doubtful = base + <uintptr_t> before
                told = header_len >= V4_MINIMUM_HEADER_LEN and next_position_of(before) != 0
            loop.doubtful_position = loop.event_position if told else doubtful
    loop.failure.type_code = loop.header.type_code
    if not inside:
        loop.wire_walked += <uint64_t> (window.cur.pos - start)
    return status
