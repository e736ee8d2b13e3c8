# Looks up an invalid date. Entries are sorted by record and column, as they were decoded.

from libc.stddef cimport size_t
from libc.stdint cimport uint16_t, uint64_t

from batch.records cimport invalid_date_t


cdef inline const invalid_date_t* find_invalid_date(const invalid_date_t* entries, size_t count, uint64_t record,
                                                    uint16_t column) noexcept nogil:
    # NULL: there is none
    cdef size_t low = 0
    cdef size_t high = count
    cdef size_t middle
    cdef uint64_t wanted = record << 16 | column
    while low < high:
        middle = low + (high - low) // 2
        if (<uint64_t> entries[middle].record << 16 | entries[middle].column) < wanted:
            low = middle + 1
        else:
            high = middle
    if low == count or entries[low].record != record or entries[low].column != column:
        return NULL
    return &entries[low]
