# Bytes of a log that the decoding loop takes by itself, a little at a time: they are still in the nearest cache when
# they are decoded, and Python runs only once a group.

from libc.stdint cimport uint8_t, uintptr_t

cdef enum:
    FED_LEN = 64 << 10              # bytes at once

# Writes the next bytes, at most `room`, and returns how many. 0: Python must go on.
ctypedef size_t (*take_more_t)(void* source, uint8_t* out, size_t room) noexcept nogil

cdef struct feed_t:
    take_more_t take_more
    void* source
    uintptr_t next                  # about where the bytes after these lie, for prefetching
