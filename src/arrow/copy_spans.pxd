# Values of variable length, copied out of a tile of records. Header-only, like all of src/*.pxd.
# Callers ask binlog_has_wide() once and pass the answer to the loops.

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

cdef extern from "arrow/copy_spans.h" nogil:
    enum:
        BINLOG_STEP
        BINLOG_SHORT

    ctypedef struct binlog_spans_t:
        const uint8_t* span
        ptrdiff_t stride
        int count
        const uint8_t* nulls
        const uint8_t* buffer
        uint64_t buffer_len
        uint8_t* data
        size_t room
        size_t at
        int32_t* offsets

    ctypedef struct binlog_values_t:
        const uint8_t** at
        uint32_t offset
        uint32_t width
        int count
        uint8_t* data
        size_t room
        size_t used
        int32_t* offsets

    bint binlog_has_wide() noexcept
    void binlog_step(uint8_t* to, const uint8_t* from_) noexcept
    int binlog_copy_spans(bint wide, binlog_spans_t* spans, int i) noexcept
    int binlog_copy_values(bint wide, binlog_values_t* values, int i) noexcept
    bint binlog_are_ascii(bint wide, const uint8_t* p, size_t n) noexcept
