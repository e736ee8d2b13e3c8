# Checks UTF-8, and converts other encodings to it.
# Transcoders write at most three bytes for each byte that they read; the caller has reserved the room.
# Header-only.

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from wire.cursor cimport load_u64

cdef enum:
    UTF8_GROWTH = 3               # most bytes of output for one byte of input
    TRANSCODE_FAILED = -1

cdef extern from *:
    """
    #define HIGH_BITS 0x8080808080808080ULL
    """
    const uint64_t HIGH_BITS


cdef extern from "types/ascii.h" nogil:
    bint is_ascii "binlog_is_ascii"(const uint8_t* p, size_t n) noexcept


cdef inline size_t ascii_prefix(const uint8_t* p, size_t length) noexcept nogil:
    # A number of leading bytes that are ASCII; up to 7 more may be.
    cdef size_t i = 0
    while length - i >= 32:
        if (load_u64(p + i) | load_u64(p + i + 8) | load_u64(p + i + 16) | load_u64(p + i + 24)) & HIGH_BITS:
            break
        i += 32
    while length - i >= 8:
        if load_u64(p + i) & HIGH_BITS:
            break
        i += 8
    return i


cdef inline size_t utf8_char_len(const uint8_t* p, size_t left) noexcept nogil:
    # Length in bytes of the multi-byte character at p; 0: not valid in UTF-8 (RFC 3629).
    cdef uint8_t first = p[0]
    cdef uint8_t low = 0x80
    cdef uint8_t high = 0xBF
    cdef size_t length, i
    if first < 0xC2:
        return 0
    elif first < 0xE0:
        length = 2
    elif first < 0xF0:
        length = 3
        if first == 0xE0:
            low = 0xA0
        elif first == 0xED:
            high = 0x9F        # surrogates
    elif first < 0xF5:
        length = 4
        if first == 0xF0:
            low = 0x90
        elif first == 0xF4:
            high = 0x8F        # beyond U+10FFFF
    else:
        return 0
    if length > left or p[1] < low or p[1] > high:
        return 0
    for i in range(2, length):
        if p[i] & 0xC0 != 0x80:
            return 0
    return length


cdef inline bint is_utf8(const uint8_t* p, size_t length) noexcept nogil:
    # Strict: no surrogates, no overlong forms, nothing above U+10FFFF.
    cdef size_t i = 0
    cdef size_t char_len
    while i < length:
        if p[i] < 0x80:
            i += ascii_prefix(p + i, length - i)
            while i < length and p[i] < 0x80:
                i += 1
            continue
        char_len = utf8_char_len(p + i, length - i)
        if char_len == 0:
            return False
        i += char_len
    return True


cdef inline uint8_t* put_utf8(uint8_t* out, uint32_t code) noexcept nogil:
    if code < 0x80:
        out[0] = <uint8_t> code
        return out + 1
    if code < 0x800:
        out[0] = <uint8_t> (0xC0 | (code >> 6))
        out[1] = <uint8_t> (0x80 | (code & 0x3F))
        return out + 2
    if code < 0x10000:
        out[0] = <uint8_t> (0xE0 | (code >> 12))
        out[1] = <uint8_t> (0x80 | ((code >> 6) & 0x3F))
        out[2] = <uint8_t> (0x80 | (code & 0x3F))
        return out + 3
    out[0] = <uint8_t> (0xF0 | (code >> 18))
    out[1] = <uint8_t> (0x80 | ((code >> 12) & 0x3F))
    out[2] = <uint8_t> (0x80 | ((code >> 6) & 0x3F))
    out[3] = <uint8_t> (0x80 | (code & 0x3F))
    return out + 4


# Each returns the number of bytes written, or TRANSCODE_FAILED if the input is not valid in its encoding.

cdef inline Py_ssize_t from_table(
    const uint8_t* p, size_t length, uint8_t* out, const uint32_t* table, bint keeps_ascii
) noexcept nogil:
    # table: for each byte, its UTF-8 in the low three bytes and their number in the top one; 0: undefined.
    cdef uint8_t* start = out
    cdef size_t i = 0, n
    cdef uint32_t entry
    while i < length:
        if keeps_ascii:
            n = ascii_prefix(p + i, length - i)
            if n:
                memcpy(out, p + i, n)
                out += n
                i += n
                if i == length:
                    break
        entry = table[p[i]]
        if entry == 0:
            return TRANSCODE_FAILED
        # Four bytes are written, of which up to three count: the caller reserves one more.
        memcpy(out, &entry, 4)
        out += entry >> 24
        i += 1
    return out - start


cdef inline Py_ssize_t from_utf16(
    const uint8_t* p, size_t length, uint8_t* out, bint big_endian
) noexcept nogil:
    cdef uint8_t* start = out
    cdef size_t i = 0
    cdef int hi = 0 if big_endian else 1
    cdef uint32_t code, low
    if length & 1:
        return TRANSCODE_FAILED
    while i < length:
        code = (<uint32_t> p[i + hi] << 8) | p[i + 1 - hi]
        i += 2
        if code & 0xFC00 == 0xDC00:
            return TRANSCODE_FAILED
        if code & 0xFC00 == 0xD800:
            if length - i < 2:
                return TRANSCODE_FAILED
            low = (<uint32_t> p[i + hi] << 8) | p[i + 1 - hi]
            if low & 0xFC00 != 0xDC00:
                return TRANSCODE_FAILED
            i += 2
            code = 0x10000 + ((code & 0x3FF) << 10) + (low & 0x3FF)
        out = put_utf8(out, code)
    return out - start


cdef inline Py_ssize_t from_utf32(const uint8_t* p, size_t length, uint8_t* out) noexcept nogil:
    cdef uint8_t* start = out
    cdef size_t i
    cdef uint32_t code
    if length & 3:
        return TRANSCODE_FAILED
    for i in range(0, length, 4):
        code = (<uint32_t> p[i] << 24) | (<uint32_t> p[i + 1] << 16) | (<uint32_t> p[i + 2] << 8) | p[i + 3]
        if code > 0x10FFFF or code >> 11 == 0x1B:
            return TRANSCODE_FAILED
        out = put_utf8(out, code)
    return out - start
