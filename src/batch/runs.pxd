# Runs: rows of an event that are columns already, or will be. What all of them share is kept once, and where they lie
# on the wire, so that records can be made of them after all.

from libc.stdint cimport uint32_t, uint64_t

from batch.records cimport image_t


cdef struct run_t:
    image_t image                       # as of its first record
    uint32_t first                      # the number of that in its batch
    uint32_t length                     # of its bytes, …
    uint64_t offset                     # … which begin there in the buffer, with the columns-present bitmaps
