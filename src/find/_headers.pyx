"""Decodes the event headers of a buffer into a structured array."""

import numpy as np

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from batch.records cimport header_record_t
from crc.checksum cimport binlog_crc32_best, binlog_crc_t
from crc.runs cimport crc_has_runs
from wire.checksum_runs cimport check_run, checked_t
from wire.codes cimport DECODE_MALFORMED, DECODE_TRUNCATED, ROTATE_EVENT
from wire.cursor cimport Cursor, cursor_over, prefetch, remaining
from wire.header cimport (
    CHECKSUM_LEN, checksum_holds_with, descriptor_t, event_header_t, is_descriptor, is_header_len, position_agrees,
    take_event,
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

assert HEADER_DTYPE.itemsize == sizeof(header_record_t)

cdef enum:
    PREFETCH = 1024             # bytes ahead: a walk that only reads headers would wait for each
    SPECIAL = 1                 # handling of events that have special rules for lengths or checksums


cdef enum walk_end_t:
    ENDED_AT_END
    ENDED_TRUNCATED
    ENDED_MALFORMED
    ENDED_CHECKSUM
    ENDED_DESCRIPTOR
    ENDED_FULL
    ENDED_BROKEN

# How a walk ended.
WALK_END = ENDED_AT_END                 # at the last byte of the data
WALK_TRUNCATED = ENDED_TRUNCATED        # inside an event
WALK_MALFORMED = ENDED_MALFORMED        # an event_length that is not valid
WALK_CHECKSUM = ENDED_CHECKSUM          # a CRC32 that does not match
WALK_DESCRIPTOR = ENDED_DESCRIPTOR      # before a new descriptor, whose lengths and checksums then apply
WALK_FULL = ENDED_FULL                  # out is full
WALK_BROKEN = ENDED_BROKEN              # at an event that does not end where it says


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
        The bytes of events; not copied.
    start : int
        Offset in data of the first event. A descriptor there is taken to be the one in force.
    out : ndarray, shape (n,), HEADER_DTYPE
        Filled from its beginning.
    base : int
        Position in the file of data[0].
    header_length : int
        Bytes of a header: 13 or 19, or more if the descriptor says so.
    canonical : uint8[256]
        Maps a type code in the file to today's type code.
    checksum, verify : bool
        Whether events end with a CRC32, and whether to compare it. Without verify only headers are touched.
    positions : bool
        Stop at an event whose next_position is neither 0 nor the event's end.

    Returns
    -------
    (count, offset, status) : int, int, int
        Headers written, offset in data of the first event not walked over, and a WALK_* status.

    Source: MySQL server documentation, "Binlog Event Header".
    """
    cdef header_record_t[::1] records = out
    cdef size_t capacity = <size_t> records.shape[0]
    cdef size_t count = 0
    cdef descriptor_t descriptor
    cdef Cursor cur
    cdef event_header_t header
    cdef const uint8_t* event
    cdef const uint8_t* first = &data[0] if data.shape[0] else NULL
    cdef binlog_crc_t crc = binlog_crc32_best()
    cdef bint by_runs = verify and checksum and crc_has_runs(crc)
    cdef checked_t checked
    cdef walk_end_t ended = ENDED_AT_END
    cdef int i
    if canonical.shape[0] != 256:
        raise ValueError("canonical: expected 256 entries")
    if not is_header_len(header_length):
        raise ValueError(f"header_length={header_length}: expected 13, or 19 to 255")
    if start > <size_t> data.shape[0]:
        raise ValueError("start is beyond the data")
    descriptor.header_len = header_length
    descriptor.checksum_len = CHECKSUM_LEN if checksum else 0
    memcpy(descriptor.canonical, &canonical[0], 256)
    for i in range(256):
        descriptor.handling[i] = SPECIAL if is_descriptor(canonical[i]) or canonical[i] == ROTATE_EVENT else 0
    cur = cursor_over(first, <size_t> data.shape[0])
    cur.pos += start
    checked.good = checked.doubtful = cur.pos
    with nogil:
        while remaining(&cur):
            if count == capacity:
                ended = ENDED_FULL
                break
            event = cur.pos
            prefetch(event + PREFETCH)
            if by_runs and event >= checked.good and event >= checked.doubtful:
                checked = check_run(crc, &descriptor, SPECIAL, event, cur.end)
            ended = take_header(&cur, &descriptor, &header, base + <uint64_t> (event - first), positions,
                                verify and event >= checked.good, crc)
            if ended == ENDED_AT_END and event != first + start and is_descriptor(header.type_code):
                ended = ENDED_DESCRIPTOR
            if ended != ENDED_AT_END:
                cur.pos = event
                break
            put_header(&records[count], &header, base + <uint64_t> (event - first))
            count += 1
    return count, <size_t> (cur.pos - first), <int> ended


cdef inline walk_end_t take_header(Cursor* cur, const descriptor_t* descriptor, event_header_t* header,
                                   uint64_t position, bint positions, bint verify,
                                   binlog_crc_t crc) noexcept nogil:
    # ENDED_AT_END: the header is good, and the cursor is after its event. A descriptor's checksum is not compared.
    cdef Cursor body
    cdef const uint8_t* event = cur.pos
    cdef int status = take_event(cur, descriptor, header, &body)
    if status == DECODE_MALFORMED:
        return ENDED_MALFORMED
    if positions and not position_agrees(header, position):
        return ENDED_BROKEN                     # if the event is cut, its length cannot be trusted either
    if status == DECODE_TRUNCATED:
        return ENDED_TRUNCATED
    if (verify and descriptor.checksum_len and not is_descriptor(header.type_code)
            and not checksum_holds_with(crc, event, header.event_length)):
        return ENDED_CHECKSUM
    return ENDED_AT_END


cdef inline void put_header(header_record_t* record, const event_header_t* header, uint64_t position) noexcept nogil:
    record.position = position
    record.timestamp = header.timestamp
    record.type_code = header.type_code
    record.server_id = header.server_id
    record.event_length = header.event_length
    record.next_position = header.next_position
    record.flags = header.flags
