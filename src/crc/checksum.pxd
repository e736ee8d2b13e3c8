# CRC-32 of events, as zlib computes it. Header-only, like all of src/*.pxd.
# A loop asks for binlog_crc32_best() once and calls binlog_crc32_with().

from libc.stdint cimport uint8_t, uint32_t

cdef extern from "crc/crc32.h" nogil:
    ctypedef enum binlog_crc_t:
        BINLOG_CRC_PORTABLE
        BINLOG_CRC_PCLMUL
        BINLOG_CRC_VPCLMUL
        BINLOG_CRC_ARMV8

    uint32_t binlog_crc32(uint32_t crc, const uint8_t* p, size_t n) noexcept
    uint32_t binlog_crc32_with(binlog_crc_t which, uint32_t crc, const uint8_t* p, size_t n) noexcept
    binlog_crc_t binlog_crc32_best() noexcept
    int binlog_crc32_has(binlog_crc_t which) noexcept
    const char* binlog_crc32_name(binlog_crc_t which) noexcept
