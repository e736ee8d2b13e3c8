# Runs: rows of an event that are columns already, or will be. A run keeps once what its rows share, and where they lie
# on the wire, so that records can still be made of them.

from libc.stdint cimport uint32_t, uint64_t

from batch.records cimport image_t


cdef struct run_t:
    image_t image                       # of its first record
    uint32_t first                      # the number of that record in its batch
    uint32_t length                     # its bytes on the wire
    uint64_t offset                     # where they begin in the buffer, with the columns-present bitmaps
