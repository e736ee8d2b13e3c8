"""Event headers of a buffer into a structured array."""

import numpy as np

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from crc.checksum cimport binlog_crc32_best, binlog_crc_t
from wire.codes cimport DECODE_MALFORMED, DECODE_TRUNCATED, FORMAT_DESCRIPTION_EVENT, START_EVENT_V3
from wire.cursor cimport Cursor, cursor_over, remaining
from wire.header cimport (
    CHECKSUM_LEN, checksum_holds_with, descriptor_t, event_header_t, is_header_len, position_agrees, take_event,
)

# Twin of header_record_t.
HEADER_DTYPE = np.dtype([
    ("position", "<u8"),
    ("timestamp", "<u4"),
    ("type_code", "u1"),
    ("server_id", "<u4"),
    ("event_length", "<u4"),
    ("next_position", "<u4"),
    ("flags", "<u2"),
])

cdef packed struct header_record_t:
    uint64_t position
    uint32_t timestamp
    uint8_t type_code
    uint32_t server_id
    uint32_t event_length
    uint32_t next_position
    uint16_t flags

assert HEADER_DTYPE.itemsize == sizeof(header_record_t)

# How a walk ended.
WALK_END = 0            # at the last byte of the data
WALK_TRUNCATED = 1      # inside an event
WALK_MALFORMED = 2      # an event_length that cannot be
WALK_CHECKSUM = 3       # a CRC32 that does not match
WALK_DESCRIPTOR = 4     # before a new descriptor, whose lengths and checksums then hold
WALK_FULL = 5           # out is full
WALK_BROKEN = 6         # at an event that does not end where it says


def walk_headers(
    const uint8_t[::1] data,
    size_t start,
    out,
    *,
    uint64_t base,
    uint32_t header_length,
    const uint8_t[::1] canonical,
    bint checksum,
    bint verify,
    bint positions=False,
):
    """Decode event headers until the data, or ``out``, ends, or a new descriptor begins.

    Parameters
    ----------
    data : bytes-like, shape (n_bytes,), uint8
        Not copied.
    start : int
        Offset in data of the first event. A descriptor there is taken as the one in force.
    out : ndarray, shape (n,), HEADER_DTYPE
        Filled from its beginning.
    base : int
        Position in the file of data[0].
    header_length : int
        13 or 19, or more if the descriptor says so.
    canonical : uint8[256]
        Type code in the file to today's type code.
    checksum, verify : bool
        Events end with a CRC32; compare it. Without verify only headers are touched.
    positions : bool
        Stop where next_position is neither 0 nor where the event ends.

    Returns
    -------
    (count, offset, status) : int, int, int
        Headers written, offset in data of the event not walked over, and a WALK_* status.

    Source: MySQL server documentation, "Binlog Event Header".
    """
    cdef header_record_t[::1] records = out
    cdef size_t capacity = <size_t> records.shape[0]
    cdef size_t count = 0
    cdef descriptor_t descriptor
    cdef Cursor cur
    cdef Cursor body
    cdef event_header_t header
    cdef header_record_t* record
    cdef const uint8_t* event
    cdef const uint8_t* first = &data[0] if data.shape[0] else NULL
    cdef int status
    cdef binlog_crc_t crc = binlog_crc32_best()
    cdef int ended = WALK_END
    if canonical.shape[0] != 256:
        raise ValueError("canonical needs 256 entries")
    if not is_header_len(header_length):
        raise ValueError(f"header_length={header_length}: 13, or 19 to 255 expected")
    if start > <size_t> data.shape[0]:
        raise ValueError("start lies behind the data")
    descriptor.header_len = header_length
    descriptor.checksum_len = CHECKSUM_LEN if checksum else 0
    memcpy(descriptor.canonical, &canonical[0], 256)
    cur = cursor_over(first, <size_t> data.shape[0])
    cur.pos += start
    with nogil:
        while remaining(&cur):
            if count == capacity:
                ended = 5
                break
            event = cur.pos
            status = take_event(&cur, &descriptor, &header, &body)
            if status == DECODE_TRUNCATED:
                ended = 1
                if positions and not position_agrees(&header, base + <uint64_t> (event - first)):
                    ended = 6       # the length cannot be believed
                break
            if status == DECODE_MALFORMED:
                ended = 2
                break
            if positions and not position_agrees(&header, base + <uint64_t> (event - first)):
                cur.pos = event
                ended = 6
                break
            if header.type_code == FORMAT_DESCRIPTION_EVENT or header.type_code == START_EVENT_V3:
                if event != first + start:
                    cur.pos = event
                    ended = 4
                    break
            elif verify and checksum and not checksum_holds_with(crc, event, header.event_length):
                cur.pos = event
                ended = 3
                break
            record = &records[count]
            record.position = base + <uint64_t> (event - first)
            record.timestamp = header.timestamp
            record.type_code = header.type_code
            record.server_id = header.server_id
            record.event_length = header.event_length
            record.next_position = header.next_position
            record.flags = header.flags
            count += 1
    return count, <size_t> (cur.pos - first), ended
