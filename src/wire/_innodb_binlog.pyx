"""The events of transactions, taken out of the pages of MariaDB's binary log in InnoDB.

A commit record that refers to no out-of-band records has all events of its transaction: these are copied here.
Records that are not of commits are passed over. Out-of-band records are parsed and copied one by one. Whatever
else comes, or is not whole in the given pages, is left to Python.

Source: MariaDB server 12.3, Docs/replication/binlog.md.
"""

from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcpy

cdef enum:
    CHECKSUM_LEN = 4
    CHUNK_HEAD_LEN = 3
    CONTINUES = 0x80
    LAST = 0x40
    REST_IS_FILLER = 0xFF
    COMMIT = 1
    GTID_STATE = 2
    OUT_OF_BAND = 3
    FILLER = 4
    LAST_KNOWN = 6


cdef struct Taken:
    size_t end      # where the first record begins that was not taken
    size_t written  # bytes
    bint any        # whether a record was taken other than of GTID states and fillers


cdef Taken take(
    const uint8_t* pages, size_t pages_len, size_t page_len, size_t at, size_t until, uint8_t* out, size_t out_len
) noexcept nogil:
    # until: no commit record from this place on is taken. out: NULL: only count.
    cdef Taken taken = Taken(at, 0, False)
    cdef size_t written = 0, page_end, begin, length
    cdef uint8_t kind, code
    cdef uint8_t inside = 0  # the type of a record that has not ended
    while at < pages_len:
        page_end = at - at % page_len + page_len - CHECKSUM_LEN
        # A chunk has at least one byte
        if at + CHUNK_HEAD_LEN >= page_end or pages[at] == REST_IS_FILLER:
            at = page_end + CHECKSUM_LEN
            continue
        kind = pages[at]
        code = kind & ~(CONTINUES | LAST)
        begin = at + CHUNK_HEAD_LEN
        length = pages[at + 1] | <size_t> pages[at + 2] << 8
        if not 0 < code <= LAST_KNOWN or length > page_end - begin:
            break
        if not kind & CONTINUES:
            if inside:
                if (code == GTID_STATE or code == FILLER) and kind & LAST:
                    at = begin + length
                    continue
                break
            inside = code
            if code == COMMIT:
                if at >= until or length == 0 or pages[begin] != 0:  # it has out-of-band records
                    break
                begin += 1
                length -= 1
        elif inside != code:
            break
        at = begin + length
        if code == COMMIT:
            if length > out_len - written:
                break
            if out != NULL:
                memcpy(out + written, pages + begin, length)
            written += length
        if kind & LAST:
            inside = 0
            taken.any = taken.any or not (code == GTID_STATE or code == FILLER)
            taken.end = at
            taken.written = written
    return taken


cdef inline void check_pages(const uint8_t[::1] pages, size_t page_len) except *:
    if page_len < CHECKSUM_LEN + CHUNK_HEAD_LEN + 1 or pages.shape[0] % page_len:
        raise ValueError(f"{pages.shape[0]} bytes: expected pages of {page_len}")


def short_transactions(
    const uint8_t[::1] pages not None, size_t page_len, size_t at, uint8_t[::1] out not None
):
    """Copy the events of commit records that are whole, and pass over records that are not of commits.

    Ends before the first record that is neither, that does not fit, or that is not whole in these pages.

    Parameters
    ----------
    pages : bytes-like, shape (n_bytes,), uint8
        Whole pages whose checksums are right.
    page_len : int
        Bytes of each, at least 8.
    at : int
        Offset in `pages` where a record begins, or where a page's last chunk ends.
    out : writable buffer, shape (n_bytes,), uint8
        Takes the events.

    Returns
    -------
    end : int
        Offset in `pages` of what was not taken.
    written : int
        Bytes in `out`.
    any : bool
        Whether a record was passed or copied that is not of GTID states or filler.
    """
    check_pages(pages, page_len)
    cdef size_t size = <size_t> pages.shape[0], room = <size_t> out.shape[0]
    cdef Taken taken
    if at >= size or room == 0:
        return at, 0, False
    with nogil:
        taken = take(&pages[0], size, page_len, at, size, &out[0], room)
    return taken.end, taken.written, taken.any


def pass_short_transactions(const uint8_t[::1] pages not None, size_t page_len, size_t at, size_t room, size_t until):
    """Pass over what `short_transactions` would copy into a buffer of a size.

    Parameters
    ----------
    pages, page_len, at
        As in `short_transactions`.
    room : int
        The buffer's bytes. 0 passes over all that is not of commits.
    until : int
        Offset in `pages` from which on no commit record is passed over.

    Returns
    -------
    end, passed, any : int, int, bool
        As `short_transactions` returns them.
    """
    check_pages(pages, page_len)
    cdef size_t size = <size_t> pages.shape[0]
    cdef Taken taken
    if at >= size:
        return at, 0, False
    with nogil:
        taken = take(&pages[0], size, page_len, at, until, NULL, room)
    return taken.end, taken.written, taken.any


cdef inline bint take_packed(const uint8_t** at, const uint8_t* end, uint64_t* value) noexcept nogil:
    """The next packed integer; False: the bytes end inside it, or it has more than 64 bits."""
    cdef const uint8_t* p = at[0]
    cdef size_t length, i
    cdef uint64_t low = 0
    if p >= end:
        return False
    length = (p[0] & 7) + 1
    if length == 8:
        length = 9
    if length > <size_t> (end - p):
        return False
    for i in range(min(length, 8)):
        low |= <uint64_t> p[i] << (8 * i)
    low >>= 3
    if length == 9:
        if p[8] >> 3:
            return False
        low |= <uint64_t> p[8] << 61
    value[0] = low
    at[0] = p + length
    return True


def out_of_band(const uint8_t[::1] pages not None, size_t page_len, size_t at):
    """The fields of the out-of-band record at a place, if its first chunk has them.

    Parameters
    ----------
    pages : bytes-like, shape (n_bytes,), uint8
        Whole pages whose checksums are right.
    page_len : int
        Bytes of each, at least 8.
    at : int
        Offset in `pages` of the record's first byte.

    Returns
    -------
    tuple of int or None
        The record's number; file and offset of its left child, and of its right one; bytes of these fields.
        None: this is left to Python.
    """
    check_pages(pages, page_len)
    cdef size_t size = <size_t> pages.shape[0]
    if at >= size:
        return None
    cdef size_t page_end = at - at % page_len + page_len - CHECKSUM_LEN
    if at + CHUNK_HEAD_LEN >= page_end or pages[at] & ~LAST != OUT_OF_BAND:
        return None
    cdef size_t length = pages[at + 1] | <size_t> pages[at + 2] << 8
    if length > page_end - at - CHUNK_HEAD_LEN:
        return None
    cdef const uint8_t* begin = &pages[0] + at + CHUNK_HEAD_LEN
    cdef const uint8_t* p = begin
    cdef uint64_t fields[5]
    cdef int i
    for i in range(5):
        if not take_packed(&p, begin + length, &fields[i]):
            return None
    return fields[0], fields[1], fields[2], fields[3], fields[4], <size_t> (p - begin)


cdef ssize_t copy(
    const uint8_t* pages, size_t pages_len, size_t page_len, size_t at, size_t skip, uint8_t* out, size_t room
) noexcept nogil:
    cdef size_t written = 0, page_end, begin, length, first
    cdef uint8_t kind, code
    cdef bint begun = False
    while at < pages_len:
        page_end = at - at % page_len + page_len - CHECKSUM_LEN
        if begun and (at + CHUNK_HEAD_LEN >= page_end or pages[at] == REST_IS_FILLER):
            at = page_end + CHECKSUM_LEN
            continue
        if at + CHUNK_HEAD_LEN >= page_end:
            return -1
        kind = pages[at]
        code = kind & ~(CONTINUES | LAST)
        begin = at + CHUNK_HEAD_LEN
        length = pages[at + 1] | <size_t> pages[at + 2] << 8
        if length > page_end - begin:
            return -1
        at = begin + length
        if begun and not kind & CONTINUES:
            if (code == GTID_STATE or code == FILLER) and kind & LAST:
                continue
            return -1
        if code != OUT_OF_BAND or (kind & CONTINUES and not begun):
            return -1
        begun = True
        first = min(skip, length)
        skip -= first
        length -= first
        if length > room - written:
            return -1
        if length and out != NULL:
            memcpy(out + written, pages + begin + first, length)
        written += length
        if kind & LAST:
            return <ssize_t> written
    return -1


def copy_out_of_band(
    const uint8_t[::1] pages not None, size_t page_len, size_t at, size_t skip, uint8_t[::1] out not None
):
    """Copy the bytes of an out-of-band record that is whole in these pages.

    Parameters
    ----------
    pages, page_len, at
        As in `out_of_band`.
    skip : int
        Bytes of its fields, which are not copied.
    out : writable buffer, shape (n_bytes,), uint8

    Returns
    -------
    int
        Bytes in `out`; -1: they do not fit, or this is left to Python.
    """
    check_pages(pages, page_len)
    cdef size_t size = <size_t> pages.shape[0], room = <size_t> out.shape[0]
    cdef ssize_t written
    if at >= size or room == 0:
        return -1
    with nogil:
        written = copy(&pages[0], size, page_len, at, skip, &out[0], room)
    return written


def out_of_band_length(const uint8_t[::1] pages not None, size_t page_len, size_t at, size_t skip):
    """The bytes that `copy_out_of_band` would copy into a buffer that is large enough; -1: left to Python."""
    check_pages(pages, page_len)
    cdef size_t size = <size_t> pages.shape[0]
    cdef ssize_t length
    if at >= size:
        return -1
    with nogil:
        length = copy(&pages[0], size, page_len, at, skip, NULL, size)
    return length
