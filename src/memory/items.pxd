# Arrays of structs that grow item by item and may move.

from libc.stddef cimport size_t
from libc.stdint cimport uint32_t
from libc.stdlib cimport realloc


cdef inline void* room_for_one(void* items, uint32_t count, uint32_t* capacity, uint32_t first,
                               size_t size) noexcept nogil:
    # Returns the items, with room for one more of `size` bytes; first: the initial capacity. NULL: no memory; the items
    # are unchanged.
    cdef uint32_t more = capacity[0] * 2 if capacity[0] else first
    if count < capacity[0]:
        return items
    items = realloc(items, more * size)
    if items != NULL:
        capacity[0] = more
    return items
