# The state of the decoding loop in plain C: what Python gave it, the group that fills, the current transaction
# and the current event. The Decoder of _rows.pyx owns one; these files work on it:
#
#   walk.pxd                 from event to event
#   transaction_events.pxd   where transactions begin and end
#   table_map_events.pxd     which definition a table id means
#   rows_events.pxd          rows events into records; fixed_rows.pxd does many rows at once
#   fragments.pxd            the same for MariaDB's rows events in fragments
#   group.pxd                what is gathered before Python takes it

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t

from cpython.buffer cimport Py_buffer

from batch.gathered cimport batch_t
from batch.records cimport transaction_t
from crc.checksum cimport binlog_crc_t
from decode.plan cimport plan_t
from decode.table_cache cimport NO_TABLE, content_t, table_cache_t
from memory.feed cimport feed_t
from memory.memory cimport memory_t, pool_t
from wire.codes cimport WRITE_ROWS_EVENT
from wire.cursor cimport Cursor
from wire.header cimport descriptor_t, event_header_t
from wire.rows cimport ROWS_V2_POST_HEADER_LEN, TABLE_MAP_POST_HEADER_LEN

# Why run() came back.
cdef enum run_status_t:
    RUN_MORE = 0            # the window ends, perhaps inside an event: feed more
    RUN_GROUP = 1           # a group is full: take it
    RUN_TABLE = 2           # a definition not seen before, of a new shape: add it and run again
    RUN_EVENT = 3           # an event for Python; it is consumed
    RUN_STOP = 4            # the stop position or time is reached
    RUN_ERROR = 5           # see failure
    RUN_PAUSE = 6           # nothing happened: a chance to handle signals
    RUN_INTERRUPTED = 7     # the next event, not consumed, is not the fragment that must follow


# What is wrong with an event; the texts are in words.pxi.
cdef enum fault_t:
    FAULT_NO_MEMORY = 0
    FAULT_CHECKSUM
    FAULT_POSITION          # it does not end where it says
    FAULT_LENGTH            # it is shorter than its header
    FAULT_TABLE_MAP
    FAULT_TABLE_IDS
    FAULT_ROWS
    FAULT_EXTRA_INFO
    FAULT_NO_COLUMN_COUNT
    FAULT_COLUMN_COUNT
    FAULT_BITMAPS
    FAULT_RECORDS
    FAULT_ROW
    FAULT_VALUE
    FAULT_GTID
    FAULT_TAGGED_GTID
    FAULT_QUERY
    FAULT_NO_POST_HEADER


cdef struct error_t:
    int fault
    uint64_t position
    uint8_t type_code
    uint32_t definition
    uint32_t column
    uint64_t row


cdef struct window_t:               # the bytes that are being read
    Py_buffer view
    bint held
    const uint8_t* data
    Cursor cur
    size_t room                     # bytes after it that may be touched
    uint64_t base                   # position in the file of data[0]
    bint copies                     # the data is released before the batches are
    const uint8_t* checked          # the events before this place have valid checksums
    const feed_t* feed              # of bytes that come next; NULL: none
    uintptr_t ahead                 # distance from a row to the feed's bytes that are read soon; 0: not known
    size_t to_come                  # most bytes to take from it
    size_t fed                      # bytes taken from it that Python does not know yet


# One event. It is passed by value: a read from memory would wait for the stores that wrote it.
cdef struct event_t:
    const uint8_t* start            # its header, of which V1_HEADER_LEN bytes are available
    Cursor body                     # without header and checksum
    uint8_t kind                    # in today's numbering
    uint64_t position               # in the file; inside a payload, of the outer event


cdef struct selection_t:            # what Python asks for
    bint verify                     # compare checksums
    bint check_positions            # an event that does not end where it says is an error
    bint gtids_to_python
    bint asides_to_python           # savepoints and XA statements
    bint rows_v0                    # decode them as far as the format allows
    uint64_t stop_position
    int stop_anchor                 # anchor_t: stop at the first of these at or after stop_position; 0: any event
    uint64_t stop_timestamp
    bint leaves_out                 # one of the next three leaves rows out
    uint64_t start_timestamp
    int64_t server_id               # -1: all
    uint32_t op_mask                # of rows_op_t


cdef struct group_t:                # what is gathered before Python takes it
    pool_t* pool
    batch_t* batches
    uint32_t batch_count
    uint32_t batch_capacity
    memory_t* chunks                # memory that small batches share for their records
    uint32_t chunk_count
    uint32_t chunk_capacity
    memory_t transactions           # of transaction_t
    size_t transactions_before      # bytes of the last group's transactions
    uint64_t records
    uint64_t records_taken          # records of the groups before this one
    uint64_t wire                   # bytes of rows events
    uint64_t wire_unused            # the part of these whose rows did not match
    uint64_t wire_before            # bytes of the last group, if it had one batch; else 0
    uint64_t memory                 # bytes of records and their side entries
    uint64_t max_records
    uint64_t max_wire
    uint64_t max_memory
    uint64_t max_event_memory       # the same, from one event


cdef struct current_t:              # the transaction that events now belong to
    transaction_t* record           # the last one of the group, or the free place after it
    int64_t index                   # its index; -1: it has no rows in this group
    bint open
    bint explicit                   # BEGIN was seen: only COMMIT, ROLLBACK, XID or XA end it
    bint has_rows
    bint skipped                    # its rows are skipped
    bint headless                   # its beginning was not read, which Python wants to know
    uint32_t table_maps             # how many so far
    uint64_t records_before         # records before it, of this and earlier groups
    uint64_t boundary               # the last place between two transactions


# A rows event in fragments, decoded where they lie in the outer window, part by part: a part is what is left of a
# fragment, or a few rows whose bytes are put together, since the first of them goes on in the next fragment. Meanwhile
# the inner window is the event without rows. See fragments.pxd.
cdef struct fragments_t:
    size_t* ends                    # where each begins and ends in the outer window; two for each
    size_t count                    # 0: there is no such event
    size_t at                       # the fragment with the next byte …
    size_t taken                    # … and how many bytes come before that
    size_t left                     # bytes of the event from there on
    uint64_t memory                 # most bytes of records that these may become
    memory_t head                   # the event up to its rows
    memory_t joined
    # the part
    size_t length                   # 0: none yet
    window_t window                 # its bytes, and those around them
    Cursor rows
    bint open                       # it may end inside a row
    size_t cut                      # bytes of that row, which are not decoded
    bint done                       # it has been decoded


cdef struct loop_t:
    descriptor_t descriptor
    descriptor_t plain              # of events inside a compressed payload
    window_t[2] windows             # [1]: the payload of an event of [0]
    int depth
    int home                        # the window that the values of batches are in, unless these have copies
    binlog_crc_t crc
    selection_t selection
    group_t group
    current_t trx
    memory_t gtid_runs              # transactions begun since the runs were last taken (batch/gtid_runs.pxd)
    table_cache_t tables
    uint64_t max_definitions        # by weight
    uint64_t max_definitions_of_transaction
    plan_t** plans
    uint32_t plan_count
    uint32_t plan_capacity
    uint64_t pending_id
    content_t pending               # the definition that Python must add
    uint32_t row_in_event           # number of the next row in the outer event
    bint in_fragments               # the next event must be another fragment of a rows event
    fragments_t fragments
    batch_t scanned                 # an event's rows, but only the columns of a condition
    memory_t row_ends               # where each of these rows ends
    memory_t tail                   # a copy of rows at the end of a buffer
    size_t arrow_bytes              # most bytes that the columns of a batch may take
    size_t fed_len                  # most bytes to take from a feed at once
    uint32_t worth_columns          # from this many records of a batch on, rows are decoded into columns directly
    bint wide                       # the result of binlog_has_wide
    # set when walk() comes back
    event_t event                   # the current event
    event_header_t header           # its header
    bint told                       # the event gives its position, or there is no current event
    uint64_t doubtful_position      # of the previous event if it gave no position; else of this one
    bint without_map                # the event is a rows event whose table map was not seen
    error_t failure
    uint64_t wire_walked
    uint64_t rows_at_once           # rows that were decoded many at a time


cdef inline uint64_t next_position(const loop_t* loop) noexcept nogil:
    # Position in the file of the next event; inside a payload, of the event after the outer one, where its cursor is.
    return loop.windows[0].base + <uint64_t> (loop.windows[0].cur.pos - loop.windows[0].data)


cdef inline const descriptor_t* descriptor_of(const loop_t* loop) noexcept nogil:
    # The descriptor for the events in the current window
    return &loop.plain if loop.depth else &loop.descriptor


cdef inline int fail(loop_t* loop, uint64_t position, int fault, uint32_t definition) noexcept nogil:
    loop.failure.fault = fault
    loop.failure.position = position
    loop.failure.definition = definition
    loop.failure.column = NO_TABLE
    loop.failure.row = loop.row_in_event
    return RUN_ERROR


cdef inline uint32_t post_header_len_of(const loop_t* loop, uint8_t kind) noexcept nogil:
    # Some servers advertise 0 for events that they do not write themselves; their layout is known.
    cdef uint32_t n = loop.descriptor.post_header_len[kind]
    if n == 0:
        n = ROWS_V2_POST_HEADER_LEN if kind >= WRITE_ROWS_EVENT else TABLE_MAP_POST_HEADER_LEN
    return n
