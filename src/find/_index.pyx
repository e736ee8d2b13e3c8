"""What an index says about a range of transactions. Headers, transactions and keys take one pass each."""

from libc.stdint cimport INT64_MAX, INT64_MIN, UINT32_MAX, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

import numpy as np

from batch.records cimport OP_DELETE, OP_INSERT, OP_UPDATE_POSTIMAGE, header_record_t, span_t, transaction_t
from wire.codes cimport TRANSACTION_PAYLOAD_EVENT
from wire.gtid cimport GTID_MARIADB, GTID_NONE

cdef enum:
    PARTS_SHIFT = 60            # the bits of a hash above these select its part of a filter
    WORDS = 4                   # this many words of 8 bytes of a text are hashed


# ---------------------------------------------------------------- headers and transactions


def summarize_headers(const header_record_t[::1] headers):
    """Summarize event headers.

    Parameters
    ----------
    headers : ndarray, HEADER_DTYPE

    Returns
    -------
    (first, last, packed, servers) : int, int, bool, set of int
        Least and greatest timestamp; whether any events are compressed payloads; the server ids.
    """
    cdef uint32_t least = UINT32_MAX, most = 0, server = 0
    cdef bint packed = False
    cdef Py_ssize_t i
    servers = set()
    for i in range(headers.shape[0]):
        least = min(least, headers[i].timestamp)
        most = max(most, headers[i].timestamp)
        packed |= headers[i].type_code == TRANSACTION_PAYLOAD_EVENT
        if not i or headers[i].server_id != server:
            server = headers[i].server_id
            servers.add(server)
    return least, most, packed, servers


def find_header(const header_record_t[::1] headers, const uint8_t[::1] wanted, Py_ssize_t first, uint64_t least):
    """Index of the first header of wanted types at or after a position; the number of headers if there is none.

    Parameters
    ----------
    headers : ndarray, HEADER_DTYPE
    wanted : uint8[256]
        For each type code, whether it is wanted.
    first : int
        Index of the header to begin with.
    least : int
        The position.
    """
    cdef Py_ssize_t i
    if wanted.shape[0] != 256 or first < 0:
        raise ValueError("expected 256 types, and a place in the headers")
    with nogil:
        for i in range(first, headers.shape[0]):
            if wanted[headers[i].type_code] and headers[i].position >= least:
                break
        else:
            i = headers.shape[0]
    return i


cdef inline bint goes_on(const transaction_t* before, const transaction_t* here) noexcept nogil:
    if here.sequence_number != before.sequence_number + 1:
        return False
    if here.gtid_kind == GTID_MARIADB:
        return here.domain_id == before.domain_id and here.server_id == before.server_id
    return memcmp(here.uuid, before.uuid, 16) == 0 and memcmp(here.tag, before.tag, 32) == 0


def summarize_transactions(const uint8_t[::1] records, size_t most_runs):
    """Summarize transactions.

    Parameters
    ----------
    records : ndarray, uint8
        Bytes of an array of TRANSACTION_DTYPE: at least one.
    most_runs : int

    Returns
    -------
    (first, last, threads, runs) : int, int, set of int, list of int or None
        Least and greatest commit time, in microseconds; thread ids; where the GTIDs do not continue from the
        one before, or None: one has no GTID, they are of two vendors, or there are more runs.
    """
    cdef int64_t least = INT64_MAX, most = INT64_MIN, time
    cdef uint32_t thread = 0
    cdef size_t i, count = <size_t> records.shape[0] // sizeof(transaction_t)
    if not count:
        raise ValueError("expected at least one transaction")
    cdef const transaction_t* all_ = <const transaction_t*> &records[0]
    cdef const transaction_t* one
    cdef bint known = all_.gtid_kind != GTID_NONE
    threads = set()
    runs = []
    for i in range(count):
        one = all_ + i
        time = one.commit_time if one.commit_time >= 0 else <int64_t> one.timestamp * 1_000_000
        least = min(least, time)
        most = max(most, time)
        if not i or one.thread_id != thread:
            thread = one.thread_id
            threads.add(thread)
        if known and one.gtid_kind != all_.gtid_kind:
            known = False
        if known and (not i or not goes_on(one - 1, one)):
            runs.append(i)
            known = <size_t> len(runs) <= most_runs
    return least, most, threads, runs if known else None


# ---------------------------------------------------------------- keys


def any_bits(const uint8_t[:, ::1] records, size_t first, size_t second, uint8_t mask):
    """Whether any record has a bit of a mask in its first byte, and whether any has one in its second.

    Parameters
    ----------
    records : ndarray, shape (n_records, record_len), uint8
    first, second : int
        Offsets of the two bytes in each record.
    mask : int
    """
    cdef uint8_t ones = 0, others = 0
    cdef Py_ssize_t i
    if records.shape[0] and max(first, second) >= <size_t> records.shape[1]:
        raise IndexError("a byte beyond the record")
    with nogil:
        for i in range(records.shape[0]):
            ones |= records[i, first]
            others |= records[i, second]
    return (ones & mask) != 0, (others & mask) != 0


def count_changes(const uint8_t[::1] ops):
    """Count the inserts, updates and deletes among records.

    Parameters
    ----------
    ops : ndarray, uint8

    Returns
    -------
    (inserts, updates, deletes) : int, int, int
    """
    cdef size_t inserts = 0, updates = 0, deletes = 0
    cdef Py_ssize_t i
    with nogil:
        for i in range(ops.shape[0]):
            inserts += ops[i] == OP_INSERT
            updates += ops[i] == OP_UPDATE_POSTIMAGE
            deletes += ops[i] == OP_DELETE
    return inserts, updates, deletes


def spread(parts):
    """Least and greatest number, and whether each is greater than the one before.

    Parameters
    ----------
    parts : sequence of ndarray, int64
        At least one number in total.
    """
    cdef const int64_t[::1] numbers
    cdef int64_t least = INT64_MAX, most = INT64_MIN, last = INT64_MIN
    cdef bint ascending = True
    cdef Py_ssize_t i
    for numbers in parts:
        with nogil:
            for i in range(numbers.shape[0]):
                least = min(least, numbers[i])
                most = max(most, numbers[i])
            for i in range(1, numbers.shape[0]):
                ascending &= numbers[i] > numbers[i - 1]
        if numbers.shape[0]:
            ascending &= last == INT64_MIN or numbers[0] > last
            last = numbers[numbers.shape[0] - 1]
    return least, most, ascending


cdef inline uint64_t mixed(uint64_t x) noexcept nogil:
    x ^= x >> 33
    x *= <uint64_t> 0xFF51AFD7ED558CCD
    x ^= x >> 33
    x *= <uint64_t> 0xC4CEB9FE1A85EC53
    return x ^ (x >> 33)


def hashes_of_numbers(const uint64_t[::1] numbers, uint64_t salt):
    """Hashes of numbers.

    Parameters
    ----------
    numbers : ndarray, shape (n,), uint64
    salt : int
        Added to each number.

    Returns
    -------
    ndarray, shape (n,), uint64
    """
    found = np.empty(numbers.shape[0], np.uint64)
    cdef uint64_t[::1] hashes = found
    cdef Py_ssize_t i
    with nogil:
        for i in range(numbers.shape[0]):
            hashes[i] = mixed(numbers[i] + salt)
    return found


def hashes_of_texts(const uint8_t[::1] data, const span_t[:] spans, bint padded, uint64_t salt):
    """Hashes of texts, made of 32 bytes and the length; padded texts without the zeros at their end.

    Parameters
    ----------
    data : bytes-like, uint8
    spans : ndarray, SPAN_DTYPE
        Where the texts lie in data; bytes outside data are not used.
    padded : bool
    salt : int

    Returns
    -------
    ndarray, shape (n,), uint64
    """
    found = np.empty(spans.shape[0], np.uint64)
    cdef uint64_t[::1] hashes = found
    cdef const uint8_t* first = &data[0] if data.shape[0] else NULL
    cdef uint64_t size = <uint64_t> data.shape[0]
    cdef uint64_t offset, left, word, hashed
    cdef Py_ssize_t i
    cdef int _n
    with nogil:
        for i in range(spans.shape[0]):
            offset = min(<uint64_t> spans[i].offset, size)
            left = min(<uint64_t> spans[i].length, size - offset)
            if padded:
                while left and first[offset + left - 1] == 0:
                    left -= 1
            hashed = mixed((0 if padded else left) + salt)
            for _n in range(WORDS):
                if not left:
                    break
                word = 0
                memcpy(&word, first + offset, min(left, <uint64_t> 8))
                hashed = mixed(hashed ^ word)
                offset += min(left, <uint64_t> 8)
                left -= min(left, <uint64_t> 8)
            hashes[i] = hashed
    return found


def joined(const uint64_t[::1] hashes, const uint64_t[::1] more):
    """Combine the hashes of columns with those of the next column.

    Parameters
    ----------
    hashes, more : ndarray, shape (n,), uint64

    Returns
    -------
    ndarray, shape (n,), uint64
    """
    if hashes.shape[0] != more.shape[0]:
        raise ValueError("expected as many hashes of each column")
    found = np.empty(hashes.shape[0], np.uint64)
    cdef uint64_t[::1] out = found
    cdef Py_ssize_t i
    with nogil:
        for i in range(hashes.shape[0]):
            out[i] = mixed(hashes[i] + more[i])
    return found


def count_marks(const uint64_t[::1] hashes, int bits):
    """Count the different leading bits of hashes.

    Parameters
    ----------
    hashes : ndarray, uint64
    bits : int
        Number of leading bits: 3 to 40.
    """
    if not 3 <= bits <= 40:
        raise ValueError(f"bits={bits}: expected 3 to 40")
    cdef uint8_t[::1] marks = np.zeros(1 << (bits - 3), np.uint8)
    cdef size_t count = 0
    cdef uint64_t place
    cdef uint8_t bit
    cdef Py_ssize_t i
    with nogil:
        for i in range(hashes.shape[0]):
            place = hashes[i] >> (64 - bits)
            bit = 1 << (place & 7)
            count += not marks[place >> 3] & bit
            marks[place >> 3] |= bit
    return count


def made_filter(const uint64_t[::1] hashes, size_t part_len, int probes):
    """A Bloom filter in consecutive parts; the highest bits of a hash select its part.

    Parameters
    ----------
    hashes : ndarray, uint64
    part_len : int
        Bytes of each part.
    probes : int
        Bits that each hash sets.

    Returns
    -------
    bytes
    """
    if not 0 < part_len < 1 << 28:
        raise ValueError(f"part_len={part_len}: expected 1 to 2**28 - 1")
    filled = bytearray(part_len << (64 - PARTS_SHIFT))
    cdef uint8_t[::1] bits = filled
    cdef uint64_t size = 8 * part_len, bit, begin
    cdef uint32_t place, step
    cdef Py_ssize_t i
    cdef int _n
    with nogil:
        for i in range(hashes.shape[0]):
            begin = (hashes[i] >> PARTS_SHIFT) * part_len
            place = <uint32_t> hashes[i]
            step = <uint32_t> (hashes[i] >> 28) | 1
            for _n in range(probes):
                bit = place * size >> 32
                bits[begin + (bit >> 3)] |= <uint8_t> (1 << (bit & 7))
                place += step
    return bytes(filled)
