# The state of the decoding loop, as plain C: what Python gave it, the group that fills, the transaction
# and the event at hand. The Decoder of _rows.pyx owns one; the rooms around it work on it:
#
#   walk.pxd                 from event to event
#   transaction_events.pxd   where transactions begin and end
#   table_map_events.pxd     which definition a table id means
#   rows_events.pxd          rows events into records; fixed_rows.pxd many rows at once
#   group.pxd                what is gathered until Python takes it

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t

from cpython.buffer cimport Py_buffer

from batch.gathered cimport batch_t
from batch.records cimport transaction_t
from crc.checksum cimport binlog_crc_t
from decode.plan cimport plan_t
from decode.table_cache cimport NO_TABLE, content_t, table_cache_t
from memory.memory cimport memory_t, pool_t
from wire.codes cimport WRITE_ROWS_EVENT
from wire.cursor cimport Cursor
from wire.header cimport descriptor_t, event_header_t
from wire.rows cimport ROWS_V2_POST_HEADER_LEN, TABLE_MAP_POST_HEADER_LEN

cdef enum:
    MAPS_AHEAD = 4

# Why run() came back.
cdef enum run_status_t:
    RUN_MORE = 0            # the window ends, maybe inside an event: feed more
    RUN_GROUP = 1           # a group is full: take it
    RUN_TABLE = 2           # a definition not seen before, of no shape that is known: add it, run again
    RUN_EVENT = 3           # an event for Python; it is consumed
    RUN_STOP = 4            # the stop position or time is reached
    RUN_ERROR = 5           # see failure
    RUN_PAUSE = 6           # nothing: a chance for signals


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


cdef struct window_t:               # the bytes at hand
    Py_buffer view
    bint held
    const uint8_t* data
    Cursor cur
    size_t room                     # bytes after it that may be touched
    uint64_t base                   # position in the file of data[0]
    bint copies                     # data goes before the batches do
    const uint8_t* checked          # the checksums of the events before here hold


# One event. By value from function to function: read back from memory, it would wait for the stores that made it.
cdef struct event_t:
    const uint8_t* start            # its header, of which V1_HEADER_LEN bytes are available
    Cursor body                     # without header and checksum
    uint8_t kind                    # in today's numbering
    uint64_t position               # in the file; inside a payload that of the outer event


cdef struct selection_t:            # what Python asks for
    bint verify                     # compare checksums
    bint check_positions            # an event that does not end where it says is an error
    bint gtids_to_python
    bint asides_to_python           # savepoints and XA statements
    bint rows_v0                    # decode them as far as the format allows
    uint64_t stop_position
    int stop_anchor                 # anchor_t: stop at the first of these at or after stop_position; 0: any event
    uint64_t stop_timestamp
    bint leaves_out                 # one of these three does
    uint64_t start_timestamp
    int64_t server_id               # -1: all
    uint32_t op_mask                # of rows_op_t


cdef struct group_t:                # what is gathered until Python takes it
    pool_t* pool
    batch_t* batches
    uint32_t batch_count
    uint32_t batch_capacity
    memory_t* chunks                # that small batches have their records in
    uint32_t chunk_count
    uint32_t chunk_capacity
    memory_t transactions           # of transaction_t
    size_t transactions_before      # bytes that the last group had of them
    uint64_t records
    uint64_t records_taken          # with the groups before this one
    uint64_t wire                   # bytes of rows events
    uint64_t wire_unused            # of these, what no row matched
    uint64_t wire_before            # that the last group had, if it was of one batch; else 0
    uint64_t memory                 # bytes of records
    uint64_t max_records
    uint64_t max_wire
    uint64_t max_memory
    uint64_t max_event_memory       # of records out of one event


cdef struct current_t:              # the transaction that events now belong to
    transaction_t* record           # in the group's, the last one or the free place after it
    int64_t index                   # of it; -1: it has no rows in this group
    bint open
    bint explicit                   # BEGIN was seen: only COMMIT, ROLLBACK, XID or XA end it
    bint has_rows
    bint skipped                    # its rows are stepped over
    bint headless                   # what began it was not read, which Python wants to know
    uint32_t table_maps             # so far
    uint64_t records_before         # it, of the groups before and this one
    uint64_t boundary               # the last place between two transactions


cdef struct loop_t:
    descriptor_t descriptor
    descriptor_t plain              # of events inside a compressed payload
    window_t[2] windows             # [1]: inside an event of [0]
    int depth
    binlog_crc_t crc
    selection_t selection
    group_t group
    current_t trx
    memory_t gtid_runs              # of the transactions begun since they were taken (batch/gtid_runs.pxd)
    table_cache_t tables
    uint64_t max_definitions        # by weight
    uint64_t max_definitions_of_transaction
    plan_t** plans
    uint32_t plan_count
    uint32_t plan_capacity
    uint64_t pending_id
    content_t pending               # the definition that Python is asked for
    const uint8_t* looked_at        # the event after the last table map that was looked at ahead
    uint32_t[MAPS_AHEAD] ahead      # slots of ids of the table maps to come, the farthest first
    uint32_t row_in_event           # of the outer event
    batch_t scanned                 # of the rows of an event the columns of a condition
    memory_t row_ends               # … and where each of them ends
    memory_t tail                   # a copy of rows at the end of a buffer
    size_t arrow_bytes              # that the columns of a batch may take
    uint32_t worth_columns          # records of a batch, from which on columns are made of rows at once
    bint wide                       # what binlog_has_wide said
    # what walk() tells when it comes back
    event_t event                   # the event at hand
    event_header_t header           # and what its header says
    bint told                       # it tells its position, or there is none at hand
    uint64_t doubtful_position      # of the event before, if it told no position; else of this one
    bint without_map                # the event is a rows event whose table map was not seen
    error_t failure
    uint64_t wire_walked
    uint64_t rows_at_once           # that were decoded many at a time


cdef inline uint64_t next_position(const loop_t* loop) noexcept nogil:
    # In the file, of the next event; of the one after the outer one inside a payload, whose cursor stands there.
    return loop.windows[0].base + <uint64_t> (loop.windows[0].cur.pos - loop.windows[0].data)


cdef inline const descriptor_t* descriptor_of(const loop_t* loop) noexcept nogil:
    # Of the events in the window at hand
    return &loop.plain if loop.depth else &loop.descriptor


cdef inline int fail(loop_t* loop, uint64_t position, int fault, uint32_t definition) noexcept nogil:
    loop.failure.fault = fault
    loop.failure.position = position
    loop.failure.definition = definition
    loop.failure.column = NO_TABLE
    loop.failure.row = loop.row_in_event
    return RUN_ERROR


cdef inline uint32_t post_header_len_of(const loop_t* loop, uint8_t kind) noexcept nogil:
    # Some servers advertise 0 for what they do not write themselves; the layout is known.
    cdef uint32_t n = loop.descriptor.post_header_len[kind]
    if n == 0:
        n = ROWS_V2_POST_HEADER_LEN if kind >= WRITE_ROWS_EVENT else TABLE_MAP_POST_HEADER_LEN
    return n
