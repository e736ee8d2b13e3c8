# From event to event, until Python must act.

from libc.stdint cimport SIZE_MAX, UINT64_MAX, uint8_t, uint32_t, uint64_t, uintptr_t

from crc.runs cimport RUN_LEN, crc_has_runs
from decode.fragments cimport PART_NEXT, PART_NONE, next_part
from decode.loop cimport (
    FAULT_CHECKSUM, FAULT_LENGTH, FAULT_NO_MEMORY, FAULT_POSITION, FAULT_ROWS, RUN_EVENT, RUN_INTERRUPTED, RUN_MORE,
    RUN_PAUSE, RUN_STOP, RUN_TABLE, descriptor_of, event_t, fail, loop_t, next_position, window_t,
)
from decode.rows_events cimport decode_rows_event
from decode.table_cache cimport NO_TABLE
from decode.table_map_events cimport map_table
from decode.transaction_events cimport note_event, note_gtid, note_xid
from find.anchor cimport is_anchor
from wire.codes cimport (
    DECODE_MALFORMED, DECODE_OK, DELETE_ROWS_EVENT, DELETE_ROWS_EVENT_V1, FORMAT_DESCRIPTION_EVENT, HEARTBEAT_EVENT,
    HEARTBEAT_EVENT_V2, IGNORABLE_EVENT, INTVAR_EVENT, MARIADB_ANNOTATE_ROWS_EVENT, MARIADB_BINLOG_CHECKPOINT_EVENT,
    MARIADB_ROWS_FRAGMENT_EVENT, PARTIAL_UPDATE_ROWS_EVENT, PRE_GA_UPDATE_ROWS_EVENT, PRE_GA_WRITE_ROWS_EVENT,
    QUERY_EVENT, RAND_EVENT, ROTATE_EVENT, ROWS_DELETE, ROWS_INSERT, ROWS_QUERY_EVENT, ROWS_UPDATE, START_EVENT_V3,
    STOP_EVENT, TABLE_MAP_EVENT, TRANSACTION_CONTEXT_EVENT, UNKNOWN_EVENT, UPDATE_ROWS_EVENT, UPDATE_ROWS_EVENT_V1,
    USER_VAR_EVENT, VIEW_CHANGE_EVENT, WRITE_ROWS_EVENT, WRITE_ROWS_EVENT_V1, XID_EVENT,
)
from wire.checksum_runs cimport LARGE_EVENT, check_run, checked_t
from wire.cursor cimport Cursor, prefetch, remaining, unlikely
from wire.gtid cimport is_gtid_event
from wire.header cimport (
    V1_HEADER_LEN, V4_MINIMUM_HEADER_LEN, checksum_holds_with, descriptor_t, event_header_t, length_of,
    next_position_of, position_agrees, take_event, type_of,
)
from wire.rows cimport is_rows_v0

cdef enum:
    PREFETCH = 1024                 # bytes ahead
    FETCHED = 1024                  # most bytes that are prefetched for coming checksums
    PAUSE_BYTES = 64 << 20          # bytes walked over between two chances for Ctrl-C


# What the loop does with events of a type.
cdef enum handling_t:
    HANDLE_OTHER = 0
    HANDLE_INSERT = 1               # as rows_op_t
    HANDLE_UPDATE = 2
    HANDLE_DELETE = 4
    HANDLE_TABLE_MAP = 5
    HANDLE_XID = 6
    HANDLE_GTID = 7
    HANDLE_NOTHING = 8              # events that do not concern rows
    HANDLE_ROTATE = 9               # this and all that follow have special rules for lengths
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
    if is_gtid_event(kind):
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


cdef inline uint32_t old_rows_op_of(const loop_t* loop, uint8_t kind) noexcept nogil:
    # The rows_op_t of a rows event of version 0 to decode, else 0
    if not (loop.selection.rows_v0 and is_rows_v0(kind)):
        return 0
    return (ROWS_INSERT if kind == PRE_GA_WRITE_ROWS_EVENT
            else ROWS_UPDATE if kind == PRE_GA_UPDATE_ROWS_EVENT else ROWS_DELETE)


cdef inline int handle(loop_t* loop, uint8_t handling, event_t event) noexcept nogil:
    cdef uint32_t op
    cdef int status
    if handling == HANDLE_TABLE_MAP:
        status = map_table(loop, event)
        if unlikely(loop.trx.headless and status == RUN_MORE):
            loop.trx.headless = False
            return RUN_EVENT
        return status
    if HANDLE_INSERT <= handling <= HANDLE_DELETE:
        return decode_rows_event(loop, event, handling)
    if handling == HANDLE_XID:
        return note_xid(loop, event)
    if handling == HANDLE_GTID:
        return note_gtid(loop, event)
    if handling == HANDLE_ROTATE:
        return RUN_MORE
    op = old_rows_op_of(loop, event.kind)
    return decode_rows_event(loop, event, op) if unlikely(op != 0) else note_event(loop, event)


cdef struct taken_t:
    int status                      # RUN_MORE: see body, or the event is incomplete
    Cursor body


cdef inline taken_t take_carefully(loop_t* loop, const descriptor_t* descriptor, const uint8_t* start,
                                   uint64_t position) noexcept nogil:
    # An event of rare length or meaning, or one for which more than usual is checked. The cursor does
    # not move if the event is incomplete, or if reading stops before it.
    cdef Cursor* cur = &loop.windows[loop.depth].cur
    cdef bint inside = loop.depth != 0
    cdef taken_t out
    cdef event_header_t header
    cdef int status
    out.body.pos = out.body.end = start
    out.status = RUN_MORE
    status = take_event(cur, descriptor, &header, &out.body)
    if (loop.selection.check_positions and not inside and status != DECODE_MALFORMED
            and not position_agrees(&header, position)):
        out.status = fail(loop, position, FAULT_POSITION, NO_TABLE)
    elif status == DECODE_MALFORMED:
        out.status = fail(loop, position, FAULT_LENGTH, NO_TABLE)
    elif status == DECODE_OK and not inside and is_stop(loop, descriptor, &header, position, out.body):
        cur.pos = start
        out.status = RUN_STOP
    return out


cdef inline bint is_stop(const loop_t* loop, const descriptor_t* descriptor, const event_header_t* header,
                         uint64_t position, Cursor body) noexcept nogil:
    # Whether reading ends before this event
    if header.timestamp >= loop.selection.stop_timestamp and header.type_code != FORMAT_DESCRIPTION_EVENT:
        return True
    return (loop.selection.stop_anchor and position >= loop.selection.stop_position
            and is_anchor(loop.selection.stop_anchor, header.type_code, body,
                          descriptor.post_header_len[<int> QUERY_EVENT]))


cdef inline const uint8_t* limit_of(const loop_t* loop, const window_t* window) noexcept nogil:
    # Where to stop or pause, if not at the window's end
    cdef const uint8_t* limit = window.cur.end
    cdef uint64_t stop = loop.selection.stop_position
    if remaining(&window.cur) > PAUSE_BYTES:
        limit = window.cur.pos + PAUSE_BYTES
    if not loop.depth and not loop.selection.stop_anchor:
        stop = stop - window.base if stop > window.base else 0
        if stop < <uint64_t> (limit - window.data):
            limit = window.data + stop
    return limit


cdef inline void tell_event(loop_t* loop, const descriptor_t* descriptor, event_t event,
                            const uint8_t* before) noexcept nogil:
    # Describes the current event for Python. before: the event before it, if it was met in the same call.
    cdef Cursor cur
    cdef Cursor body
    cdef bint told = loop.told
    cdef uint64_t doubtful = loop.event.position
    cur.pos = event.start
    cur.end = loop.windows[loop.depth].cur.end
    loop.told = remaining(&cur) < V1_HEADER_LEN     # too little of it is there to give a position
    take_event(&cur, descriptor, &loop.header, &body)
    loop.failure.type_code = loop.header.type_code
    loop.event = event
    loop.told |= loop.header.next_position != 0
    if loop.depth:
        return
    if before != NULL:
        told = descriptor.header_len >= V4_MINIMUM_HEADER_LEN and next_position_of(before) != 0
        doubtful = event.position - <uint64_t> (event.start - before)
    loop.doubtful_position = event.position if told else doubtful


cdef inline void fetch(const uint8_t* pos, size_t length) noexcept nogil:
    # While an event is decoded, later bytes come from memory: the coming checksums wait for nothing else.
    cdef size_t i
    for i in range(0, length, 64):
        prefetch(pos + i)


cdef inline bint feed_more(window_t* window, size_t most) noexcept nogil:
    # Lets the window grow by itself. False: it cannot
    cdef size_t count
    if window.feed == NULL or window.to_come == 0:
        return False
    count = window.feed.take_more(window.feed.source, <uint8_t*> window.cur.end, min(most, window.to_come))
    window.ahead = window.feed.next - <uintptr_t> window.cur.end
    window.cur.end += count
    window.room -= count
    window.to_come -= count
    window.fed += count
    if count == 0:
        window.feed = NULL                      # Python goes on, and the feed would not know of it
    return count != 0


cdef inline int walk_parts(loop_t* loop) noexcept nogil:
    # The inner window again and again, once for each part of a rows event in fragments
    cdef int status = RUN_MORE
    cdef int part
    while status == RUN_MORE:
        part = next_part(loop)
        if part == PART_NONE:
            break
        if part != PART_NEXT:
            return fail(loop, loop.event.position, FAULT_NO_MEMORY, NO_TABLE)
        status = walk_window(loop)
        if status == RUN_TABLE or status == RUN_EVENT:      # the event's table was known before its first part
            status = fail(loop, loop.event.position, FAULT_ROWS, NO_TABLE)
    return status


cdef inline int walk(loop_t* loop) noexcept nogil:
    cdef int status
    if unlikely(loop.fragments.count != 0):
        return walk_parts(loop)
    status = walk_window(loop)
    while status == RUN_MORE and loop.depth == 0 and feed_more(&loop.windows[0], loop.fed_len):
        status = walk_window(loop)
    return status


cdef inline int walk_window(loop_t* loop) noexcept nogil:
    # What the events share is in locals: the compiler knows that no store into a record changes them.
    cdef window_t* window = &loop.windows[loop.depth]
    cdef const descriptor_t* descriptor = descriptor_of(loop)
    cdef bint inside = loop.depth != 0
    cdef bint verify = loop.selection.verify and descriptor.checksum_len != 0
    cdef uint32_t header_len = descriptor.header_len
    cdef uint32_t checksum_len = descriptor.checksum_len
    cdef bint careful = header_len < V4_MINIMUM_HEADER_LEN or (not inside and (
        loop.selection.check_positions or loop.selection.stop_anchor != 0
        or loop.selection.stop_timestamp != UINT64_MAX))
    cdef uint64_t base = window.base - <uint64_t> <uintptr_t> window.data   # address + base = position
    cdef const uint8_t* first = window.cur.pos
    cdef const uint8_t* end = window.cur.end
    cdef const uint8_t* limit = limit_of(loop, window)
    cdef const uint8_t* pos = first
    cdef const uint8_t* before = NULL
    cdef event_t event
    cdef taken_t taken
    cdef checked_t checked
    cdef bint by_runs = verify and crc_has_runs(loop.crc)
    # Of an event that needs no care, header and checksum
    cdef size_t least = SIZE_MAX if careful else <size_t> header_len + checksum_len
    cdef uint8_t handling
    cdef size_t room
    cdef size_t length
    cdef int status = RUN_MORE
    checked.good = checked.doubtful = window.checked
    event.start = NULL
    event.position = loop.event.position
    event.body.pos = event.body.end = NULL
    event.kind = UNKNOWN_EVENT
    loop.without_map = False
    if unlikely(loop.in_fragments and not inside and <size_t> (end - pos) >= V4_MINIMUM_HEADER_LEN
                and descriptor.canonical[type_of(pos)] != MARIADB_ROWS_FRAGMENT_EVENT):
        status = RUN_INTERRUPTED
    while status == RUN_MORE:
        if pos >= limit:
            if pos != end:
                status = (RUN_STOP if not inside and base + <uintptr_t> pos >= loop.selection.stop_position
                          else RUN_PAUSE)
            break
        before = event.start
        event.start = pos
        if not inside:
            event.position = base + <uintptr_t> pos
            loop.row_in_event = 0
        prefetch(pos + PREFETCH)                # with many small events, each would wait for the next header
        room = <size_t> (end - pos)
        handling = HANDLE_DESCRIPTOR
        length = 0
        if room >= least:
            handling = descriptor.handling[type_of(pos)]
            length = length_of(pos)
        if unlikely(handling >= HANDLE_ROTATE or length - least > room - least):    # the first wraps if it is less
            taken = take_carefully(loop, descriptor, pos, event.position)
            status = taken.status
            pos = window.cur.pos
            if status != RUN_MORE or pos == event.start:
                break
            length = length_of(event.start)
            handling = descriptor.handling[type_of(event.start)]
            event.body = taken.body
        else:
            event.body.pos = pos + header_len
            pos += length
            event.body.end = pos - checksum_len
            window.cur.pos = pos
        if verify:
            if by_runs and event.start >= checked.good and event.start >= checked.doubtful:
                checked = check_run(loop.crc, descriptor, HANDLE_ROTATE, event.start, end)
                window.checked = checked.good
            if (pos > checked.good and handling != HANDLE_DESCRIPTOR
                    and not checksum_holds_with(loop.crc, event.start, <uint32_t> length)):
                status = fail(loop, event.position, FAULT_CHECKSUM, NO_TABLE)
                break
            if by_runs:
                # The processor itself fetches the rest of a long event, faster than on request
                fetch(event.start + RUN_LEN if length < LARGE_EVENT else pos, min(length, <size_t> FETCHED))
        if handling != HANDLE_NOTHING:
            event.kind = descriptor.canonical[type_of(event.start)]
            status = handle(loop, handling, event)
        if status == RUN_TABLE:
            window.cur.pos = event.start        # walked again once its plan is there
            break
        if not loop.trx.open and not inside:
            loop.trx.boundary = base + <uintptr_t> pos
    if event.start != NULL:
        tell_event(loop, descriptor, event, before)
    if not inside:
        loop.wire_walked += <uint64_t> (window.cur.pos - first)
    return status
