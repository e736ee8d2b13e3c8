# The checksums of many events at once: of a run of ordinary events, read ahead of the walk. If one does not hold, the
# walk checks each event by itself, and so finds the first wrong one.

from libc.stdint cimport uint8_t, uint16_t, uint32_t

from crc.checksum cimport binlog_crc_t
from crc.runs cimport RUN_LEN, crc_bare, crc_run_holds
from wire.header cimport CHECKSUM_LEN, V4_MINIMUM_HEADER_LEN, descriptor_t, length_of, type_of

cdef enum:
    RUN_EVENTS = 1024               # even a run of the shortest events has fewer
    LARGE_EVENT = 2048              # from this size on, an event's own checksum is as fast


cdef struct checked_t:
    const uint8_t* good             # the checksums of the events before this place hold
    const uint8_t* doubtful         # among the events before this place, one checksum does not hold


cdef inline checked_t check_run(binlog_crc_t crc, const descriptor_t* descriptor, uint8_t first_special,
                                const uint8_t* start, const uint8_t* end) noexcept nogil:
    # Checks the events from start on. first_special: the lowest handling of events that have special rules.
    cdef uint16_t[RUN_EVENTS] ends
    cdef size_t least = descriptor.header_len + CHECKSUM_LEN
    cdef size_t count = 0
    cdef size_t length
    cdef const uint8_t* pos = start
    cdef checked_t out
    cdef uint32_t run
    out.good = out.doubtful = start
    if <size_t> (end - start) > RUN_LEN:
        end = start + RUN_LEN
    if <size_t> (end - start) < V4_MINIMUM_HEADER_LEN or length_of(start) >= LARGE_EVENT:
        return out
    # All bytes first, since a processor prefetches a sequential read; a walk over headers would wait for each.
    run = crc_bare(crc, start, <size_t> (end - start))
    while <size_t> (end - pos) >= V4_MINIMUM_HEADER_LEN and descriptor.handling[type_of(pos)] < first_special:
        length = length_of(pos)
        if length < least or length > <size_t> (end - pos):
            break
        pos += length
        ends[count] = <uint16_t> (pos - start)
        count += 1
    if count and crc_run_holds(crc, start, run, <size_t> (end - start), ends, count):
        out.good = pos
    elif count:
        out.doubtful = pos
    return out
