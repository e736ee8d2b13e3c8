"""The events of short transactions, taken out of the pages of MariaDB's binary log in InnoDB.

A commit record that refers to no out-of-band records has all events of its transaction: these are copied here.
Records that are not of commits are passed over. Whatever else comes is left to Python.

Source: MariaDB server 12.3, Docs/replication/binlog.md.
"""

from libc.stdint cimport uint8_t
from libc.string cimport memcpy

cdef enum:
    CHECKSUM_LEN = 4
    CHUNK_HEAD_LEN = 3
    CONTINUES = 0x80
    LAST = 0x40
    REST_IS_FILLER = 0xFF
    COMMIT = 1
    GTID_STATE = 2
    FILLER = 4
    LAST_KNOWN = 6


cdef struct Taken:
    size_t end      # where the first record begins that was not taken
    size_t written  # bytes
    bint any        # whether a record was taken other than of GTID states and fillers


cdef Taken take(
    const uint8_t* pages, size_t pages_len, size_t page_len, size_t at, uint8_t* out, size_t out_len
) noexcept nogil:
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
        at = begin + length
        if not kind & CONTINUES:
            if inside:
                if (code == GTID_STATE or code == FILLER) and kind & LAST:
                    continue
                break
            inside = code
            if code == COMMIT:
                if length == 0 or pages[begin] != 0:  # it has out-of-band records
                    break
                begin += 1
                length -= 1
        elif inside != code:
            break
        if code == COMMIT:
            if length > out_len - written:
                break
            memcpy(out + written, pages + begin, length)
            written += length
        if kind & LAST:
            inside = 0
            taken.any = taken.any or not (code == GTID_STATE or code == FILLER)
            taken.end = at
            taken.written = written
    return taken


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
    if page_len < CHECKSUM_LEN + CHUNK_HEAD_LEN + 1 or pages.shape[0] % page_len:
        raise ValueError(f"{pages.shape[0]} bytes: expected pages of {page_len}")
    cdef size_t size = <size_t> pages.shape[0], room = <size_t> out.shape[0]
    cdef Taken taken
    if at >= size or room == 0:
        return at, 0, False
    with nogil:
        taken = take(&pages[0], size, page_len, at, &out[0], room)
    return taken.end, taken.written, taken.any
