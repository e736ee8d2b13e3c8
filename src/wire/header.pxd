# The common event header, and what the descriptor in force says about it: v1 has 13 bytes,
# v3 19, v4 as many as the FORMAT_DESCRIPTION_EVENT says. Every walk over events uses
# take_event, so that nothing else depends on these numbers.
#
# Source: MySQL server documentation, "Binlog Event Header".

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from crc.checksum cimport binlog_crc32_best, binlog_crc32_with, binlog_crc_t
from wire.codes cimport (
    DECODE_MALFORMED, DECODE_OK, DECODE_TRUNCATED, FORMAT_DESCRIPTION_EVENT, ROTATE_EVENT, START_EVENT_V3,
)
from wire.cursor cimport Cursor, load_u16, load_u32, remaining, skip, take_u16, take_u32, take_u8

cdef enum:
    V1_HEADER_LEN = 13
    V4_MINIMUM_HEADER_LEN = 19
    CHECKSUM_LEN = 4


cdef struct descriptor_t:
    uint32_t header_len
    uint32_t checksum_len                # 4 where events end with a CRC32, else 0
    uint8_t[256] post_header_len         # by today's type code
    uint8_t[256] canonical               # type code in the file to today's
    uint8_t[256] handling                # type code in the file to what the decoding loop does (decode/walk.pxd)


cdef struct event_header_t:
    uint32_t timestamp
    uint8_t type_code                    # today's numbering
    uint32_t server_id
    uint32_t event_length                # header and checksum included
    uint32_t next_position               # as in the file; never trusted for finding the next event
    uint16_t flags


# Fields of the header that begins at p. The caller knows that this many bytes are available: V1_HEADER_LEN, and
# V4_MINIMUM_HEADER_LEN for next_position_of and flags_of.

cdef inline uint32_t timestamp_of(const uint8_t* p) noexcept nogil:
    return load_u32(p)


cdef inline uint8_t type_of(const uint8_t* p) noexcept nogil:
    # In the file's own numbering
    return p[4]


cdef inline uint32_t server_id_of(const uint8_t* p) noexcept nogil:
    return load_u32(p + 5)


cdef inline uint32_t length_of(const uint8_t* p) noexcept nogil:
    # Length of the whole event
    return load_u32(p + 9)


cdef inline uint32_t next_position_of(const uint8_t* p) noexcept nogil:
    return load_u32(p + 13)


cdef inline uint16_t flags_of(const uint8_t* p) noexcept nogil:
    return load_u16(p + 17)


cdef inline bint is_header_len(uint32_t length) noexcept nogil:
    # The length of v1, or one that is possible in v4: lengths in between have no room for the fields of v4.
    return length == V1_HEADER_LEN or V4_MINIMUM_HEADER_LEN <= length <= 255


cdef inline bint is_descriptor(uint8_t type_code) noexcept nogil:
    return type_code == FORMAT_DESCRIPTION_EVENT or type_code == START_EVENT_V3


cdef inline uint32_t header_len_of(const descriptor_t* descriptor, uint8_t type_code) noexcept nogil:
    # These three event types are read without regard to the header length that a descriptor gives.
    if descriptor.header_len > V4_MINIMUM_HEADER_LEN and (is_descriptor(type_code) or type_code == ROTATE_EVENT):
        return V4_MINIMUM_HEADER_LEN
    return descriptor.header_len


cdef inline int take_event(Cursor* cur, const descriptor_t* descriptor, event_header_t* header,
                           Cursor* body) noexcept nogil:
    # One complete event: reads the header, sets body without its checksum, moves the cursor to the next event.
    # Truncated: the cursor stays; of header, next_position and event_length are set, or 0. Malformed: header is
    # filled, and the cursor stays.
    cdef Cursor at = cur[0]
    cdef const uint8_t* start = cur.pos
    cdef uint32_t header_len
    cdef uint32_t checksum_len = descriptor.checksum_len
    header.next_position = 0
    header.event_length = 0
    if remaining(&at) < V1_HEADER_LEN:
        return DECODE_TRUNCATED
    header.timestamp = take_u32(&at)
    header.type_code = descriptor.canonical[take_u8(&at)]
    header.server_id = take_u32(&at)
    header.event_length = take_u32(&at)
    header.flags = 0
    header_len = header_len_of(descriptor, header.type_code)
    if header_len > V1_HEADER_LEN:
        if remaining(cur) < header_len:
            return DECODE_TRUNCATED
        header.next_position = take_u32(&at)
        header.flags = take_u16(&at)
        skip(&at, header_len - V4_MINIMUM_HEADER_LEN)      # extra header bytes
    if is_descriptor(header.type_code):
        checksum_len = 0            # descriptors say themselves whether they end with one
    if header.event_length < header_len + checksum_len:
        return DECODE_MALFORMED
    if header.event_length > remaining(cur):
        return DECODE_TRUNCATED
    body.pos = at.pos
    body.end = start + header.event_length - checksum_len
    cur.pos = start + header.event_length
    return DECODE_OK


cdef inline bint position_agrees(const event_header_t* header, uint64_t position) noexcept nogil:
    # v4: next_position is where the event ends, modulo 2**32; inside transactions MariaDB 11.4 and later write 0.
    return header.next_position == 0 or header.next_position == <uint32_t> (position + header.event_length)


cdef inline bint checksum_holds_with(binlog_crc_t crc, const uint8_t* start, uint32_t event_length) noexcept nogil:
    # CRC32 of all bytes of the event but its last four
    cdef const uint8_t* stored = start + event_length - CHECKSUM_LEN
    return binlog_crc32_with(crc, 0, start, event_length - CHECKSUM_LEN) == load_u32(stored)


cdef inline bint checksum_holds(const uint8_t* start, uint32_t event_length) noexcept nogil:
    return checksum_holds_with(binlog_crc32_best(), start, event_length)
