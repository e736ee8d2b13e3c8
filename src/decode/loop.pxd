# The state of the decoding loop, as plain C: what Python gave it, the group that fills, the transaction
# and the event at hand. The Decoder of _rows.pyx owns one; the rooms around it work on it:
#
#   _walk.pxd                 from event to event
#   _transaction_events.pxd   where transactions begin and end
#   _table_map_events.pxd     which definition a table id means
#   _rows_events.pxd          rows events into records; _fixed_rows.pxd many rows at once
#   _group.pxd                what is gathered until Python takes it

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t

from cpython.buffer cimport Py_buffer

from batch.gathered cimport batch_t
from crc.checksum cimport binlog_crc_t
from decode.plan cimport plan_t
from decode.table_cache cimport NO_TABLE, content_t, table_cache_t
from memory.memory cimport memory_t, pool_t
from wire.codes cimport WRITE_ROWS_EVENT
from wire.cursor cimport Cursor
from wire.header cimport descriptor_t, event_header_t
from wire.transactions cimport transaction_t

# Why run() came back.
cdef enum run_status_t:
    RUN_MORE = 0            # the window ends, maybe inside an event: feed more
    RUN_GROUP = 1           # a group is full: take it
    RUN_TABLE = 2           # a definition not seen before, of no shape that is known: add it, run again
    RUN_EVENT = 3           # an event for Python; it is consumed
    RUN_STOP = 4            # the stop position or time is reached
    RUN_ERROR = 5           # see failure
    RUN_PAUSE = 6           # nothing: a chance for signals


cdef struct error_t:
    int status
    uint64_t position
    uint8_t type_code
    uint32_t definition
    uint32_t column
    uint64_t row
    const char* what


cdef struct window_t:               # the bytes at hand
    Py_buffer view
    bint held
    const uint8_t* data
    Cursor cur
    uint64_t base                   # position in the file of data[0]
    bint copies                     # data goes before the batches do


cdef struct loop_t:
    descriptor_t descriptor
    descriptor_t plain              # of events inside a compressed payload
    window_t[2] windows             # [1]: inside an event of [0]
    int depth
    bint verify
    binlog_crc_t crc
    table_cache_t tables
    uint64_t max_definitions        # by weight
    uint64_t max_definitions_of_transaction
    plan_t** plans
    uint32_t plan_count
    uint32_t plan_capacity
    # the group
    pool_t* pool
    batch_t* batches
    uint32_t batch_count
    uint32_t batch_capacity
    memory_t* chunks                # that small batches have their records in
    uint32_t chunk_count
    uint32_t chunk_capacity
    uint64_t group_records
    uint64_t group_wire
    uint64_t group_memory
    uint64_t max_group_records
    uint64_t max_group_wire
    uint64_t max_group_memory
    uint64_t max_event_memory       # of records out of one event
    memory_t transactions
    size_t transactions_before      # bytes that the last group had of them
    uint64_t wire_walked
    uint64_t rows_at_once           # that were decoded many at a time
    # the transaction that events now belong to
    transaction_t* trx              # in transactions, the last one or the free place behind it
    bint trx_open
    bint trx_explicit               # BEGIN was seen: only COMMIT, ROLLBACK, XID or XA end it
    int64_t trx_index               # in transactions; -1: has no row in this group
    bint trx_has_rows
    bint headless                   # what began it was not read, which Python wants to know
    uint32_t table_maps             # in this transaction so far
    bint skip_transaction           # rows are stepped over until the next transaction
    uint64_t boundary               # the last place between two transactions
    # what a position is made of
    uint64_t records_taken          # with the groups before this one
    uint64_t records_before         # of those and this group's: before the transaction
    memory_t gtid_runs              # of the transactions begun since they were taken (wire/gtid_runs.pxd)
    # what to leave out
    bint gtids_to_python
    bint asides_to_python           # savepoints and XA statements
    uint64_t stop_position
    int stop_anchor                 # anchor_t: stop at the first of these at or behind stop_position; 0: any event
    bint check_positions            # an event that does not end where it says is an error
    uint64_t start_timestamp
    uint64_t stop_timestamp
    int64_t server_id               # -1: all
    bint rows_v0                    # decode them as far as the format allows
    uint32_t op_mask                # bit 1 insert, 2 update, 4 delete
    bint selects                    # one of start_timestamp, server_id and op_mask leaves something out
    # the event at hand
    event_header_t header
    const uint8_t* event
    Cursor body
    uint64_t event_position
    uint64_t doubtful_position      # of the event before, if it told no position; else of this one
    bint without_map                # the event is a rows event whose table map was not seen
    uint32_t slot_ahead             # of the next table map's id; 0: not looked for
    uint64_t pending_id
    content_t pending               # the definition that is asked for
    uint32_t row_in_event           # of the outer event
    error_t failure
    memory_t tail                   # a copy of rows at the end of a buffer


cdef inline uint64_t next_position(const loop_t* loop) noexcept nogil:
    # In the file, of the next event; of the one behind the outer one inside a payload, whose cursor stands there.
    return loop.windows[0].base + <uint64_t> (loop.windows[0].cur.pos - loop.windows[0].data)


cdef inline int fail(loop_t* loop, int status, uint32_t definition, const char* what) noexcept nogil:
    loop.failure.status = status
    loop.failure.position = loop.event_position
    loop.failure.definition = definition
    loop.failure.column = NO_TABLE
    loop.failure.row = loop.row_in_event
    loop.failure.what = what
    return RUN_ERROR


cdef inline uint32_t post_header_len_of(const loop_t* loop, uint8_t kind) noexcept nogil:
    # Some servers advertise 0 for what they do not write themselves; the layout is known.
    cdef uint32_t n = loop.descriptor.post_header_len[kind]
    if n == 0:
        n = 10 if kind >= WRITE_ROWS_EVENT else 8
    return n
