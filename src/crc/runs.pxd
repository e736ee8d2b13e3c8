# The CRC-32 of many events at once. Not part of crc/checksum.pxd, since its tables are filled when a module is loaded.

from libc.stdint cimport uint8_t, uint16_t, uint32_t

from crc.checksum cimport binlog_crc_t

cdef extern from "crc/crc32_run.h" nogil:
    const size_t RUN_LEN "BINLOG_CRC_RUN_LEN"
    bint crc_has_runs "binlog_crc_has_runs"(binlog_crc_t which) noexcept
    uint32_t crc_bare "binlog_crc_bare"(binlog_crc_t which, const uint8_t* p, size_t n) noexcept
    bint crc_run_holds "binlog_crc_run_holds"(binlog_crc_t which, const uint8_t* p, uint32_t run, size_t read,
                                              const uint16_t* ends, size_t count) noexcept
