# What a batch gathers while its group fills: records, a heap for values whose buffer does not
# last, and two short side lists. All is plain memory that grows; Python takes it over at the end.

from libc.stdint cimport INT64_MAX, uint8_t, uint16_t, uint32_t, uint64_t

from arrow.sink cimport free_sink, sink_t
from batch.records cimport invalid_date_t
from memory.memory cimport append, memory_t, release
from types.temporal cimport datetime_fields_t


cdef struct batch_t:
    memory_t records                       # the fields up to `sink` are needed for each event: one cache line
    uint32_t count                         # of them
    bint copies                            # values go to the heap; else spans point into the buffer
    uint64_t limit                         # most bytes of records during the current event, less its side entries
    sink_t* sink                           # for rows that become columns directly; NULL: records
    memory_t heap
    memory_t invalid_dates
    memory_t json_diffs
    memory_t runs                          # of run_t, while its rows become columns
    uint32_t definition                    # its index
    uint32_t chunk                         # where its records are, while their memory is lent …
    uint32_t chunk_offset                  # … and where in it
    bint joined                            # few rows, of an event that is decoded in fragments


cdef inline void begin_event(batch_t* batch, uint64_t most) noexcept nogil:
    # most: bytes of the event's records and side entries together
    batch.limit = batch.records.length + min(most, <uint64_t> INT64_MAX)


cdef inline int add_side_entry(batch_t* batch, memory_t* entries, const void* entry, size_t size) noexcept nogil:
    batch.limit -= min(batch.limit, <uint64_t> size)
    return append(entries, entry, size)


cdef inline int add_invalid_date(batch_t* batch, uint16_t column, const datetime_fields_t* at) noexcept nogil:
    cdef invalid_date_t entry
    entry.record = batch.count
    entry.column = column
    entry.year = <uint16_t> at.year
    entry.month = <uint8_t> at.month
    entry.day = <uint8_t> at.day
    entry.hour = <uint8_t> at.hour
    entry.minute = <uint8_t> at.minute
    entry.second = <uint8_t> at.second
    entry.microsecond = at.microsecond
    return add_side_entry(batch, &batch.invalid_dates, &entry, sizeof(entry))


cdef inline void release_batch(batch_t* batch) noexcept nogil:
    release(&batch.records)
    release(&batch.heap)
    release(&batch.invalid_dates)
    release(&batch.json_diffs)
    release(&batch.runs)
    free_sink(batch.sink)
    batch.sink = NULL
    batch.count = 0
