# The checksums of many events at once: of a run of ordinary events, read ahead of the walk. If one does not hold, the
# walk checks each event by itself, and so finds the first wrong one.

from libc.stdint cimport uint8_t, uint16_t, uint32_t

from crc.checksum cimport binlog_crc_t
from crc.runs cimport RUN_LEN, crc_bare, crc_run_holds
from wire.header cimport CHECKSUM_LEN, V4_MINIMUM_HEADER_LEN, descriptor_t, length_of, type_of

cdef enum:
    RUN_EVENTS = 1024               # even a run of the shortest events has fewer
    LARGE_EVENT = 2048              # from this size on, an event's own checksum is as fast
    NEAR = 1024                     # bytes whose headers are looked at before a run is read
    FEW = 4                         # fewer events than this are checked faster one by one


cdef struct checked_t:
    const uint8_t* good             # the checksums of the events before this place hold
    const uint8_t* doubtful         # the events before this place are to be checked one by one


# Events in a row: where each ends, and where the last does
cdef struct run_of_events_t:
    uint16_t[RUN_EVENTS] ends
    size_t count
    const uint8_t* pos


cdef inline bint take_events(const descriptor_t* descriptor, uint8_t first_special, const uint8_t* start,
                             const uint8_t* near, const uint8_t* end, run_of_events_t* run) noexcept nogil:
    # Takes the events that begin before `near`. False: a special event, one that is not valid, or not there as a whole
    cdef size_t least = descriptor.header_len + CHECKSUM_LEN
    cdef const uint8_t* pos = run.pos       # locals: the compiler knows that no store changes them
    cdef size_t count = run.count
    cdef size_t length
    while pos < near:
        if <size_t> (end - pos) < V4_MINIMUM_HEADER_LEN or descriptor.handling[type_of(pos)] >= first_special:
            break
        length = length_of(pos)
        if length < least or length > <size_t> (end - pos):
            break
        pos += length
        run.ends[count] = <uint16_t> (pos - start)
        count += 1
    run.pos = pos
    run.count = count
    return pos >= near


cdef inline checked_t check_run(binlog_crc_t crc, const descriptor_t* descriptor, uint8_t first_special,
                                const uint8_t* start, const uint8_t* end) noexcept nogil:
    # Checks the events from start on. first_special: the lowest handling of events that have special rules.
    cdef run_of_events_t run
    cdef checked_t out
    cdef size_t read
    cdef uint32_t register
    out.good = out.doubtful = start
    if <size_t> (end - start) > RUN_LEN:
        end = start + RUN_LEN
    if <size_t> (end - start) < V4_MINIMUM_HEADER_LEN or length_of(start) >= LARGE_EVENT:
        return out
    run.count = 0
    run.pos = start
    if not take_events(descriptor, first_special, start, min(start + NEAR, end), end, &run):
        end = run.pos               # the events behind it may be of no use
        if run.count < FEW:
            out.doubtful = run.pos
            return out
    # All bytes first, since a processor prefetches a sequential read; a walk over headers would wait for each.
    read = <size_t> (end - start)
    register = crc_bare(crc, start, read)
    take_events(descriptor, first_special, start, end, end, &run)
    if crc_run_holds(crc, start, register, read, run.ends, run.count):
        out.good = run.pos
    else:
        out.doubtful = run.pos
    return out
