# The bounded cursor: everything read from a binlog goes through it.
# take_ reads and advances, skip_ advances; neither checks. Check a fixed-size block
# once with remaining(), then take its fields in wire order.
# Header-only, so that it inlines into every module.

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy


cdef struct Cursor:
    const uint8_t* pos
    const uint8_t* end


cdef inline Cursor cursor_over(const uint8_t* data, size_t length) noexcept nogil:
    cdef Cursor cur
    cur.pos = data
    cur.end = data + length
    return cur


cdef inline size_t remaining(const Cursor* cur) noexcept nogil:
    # Subtracts: pos + n could wrap.
    return <size_t> (cur.end - cur.pos)


cdef inline void skip(Cursor* cur, size_t n) noexcept nogil:
    cur.pos += n


# Little-endian loads. Wire data is not aligned, so they use a memcpy of fixed size, which
# compilers turn into one load. Every supported platform is little-endian (setup.py refuses others).

cdef inline uint16_t load_u16(const uint8_t* p) noexcept nogil:
    cdef uint16_t v
    memcpy(&v, p, 2)
    return v


cdef inline uint32_t load_u24(const uint8_t* p) noexcept nogil:
    return p[0] | (<uint32_t> p[1] << 8) | (<uint32_t> p[2] << 16)


cdef inline uint32_t load_u32(const uint8_t* p) noexcept nogil:
    cdef uint32_t v
    memcpy(&v, p, 4)
    return v


cdef inline uint32_t load_u24_over(const uint8_t* p) noexcept nogil:
    # One load of 4 bytes: p[3] must be readable
    return load_u32(p) & 0xFFFFFF


cdef inline uint64_t load_u48(const uint8_t* p) noexcept nogil:
    return load_u32(p) | (<uint64_t> load_u16(p + 4) << 32)


cdef inline uint64_t load_u64(const uint8_t* p) noexcept nogil:
    cdef uint64_t v
    memcpy(&v, p, 8)
    return v


cdef inline uint64_t load_le(const uint8_t* p, size_t n) noexcept nogil:
    # n bytes, 0 to 8
    cdef uint64_t v = 0
    cdef size_t i
    for i in range(n):
        v |= <uint64_t> p[i] << (8 * i)
    return v


cdef inline uint64_t load_be(const uint8_t* p, size_t n) noexcept nogil:
    # n bytes, 0 to 8
    cdef uint64_t v = 0
    cdef size_t i
    for i in range(n):
        v = (v << 8) | p[i]
    return v


cdef extern from *:
    void prefetch "__builtin_prefetch"(const void* p) nogil     # any address will do
    uint64_t swap64 "__builtin_bswap64"(uint64_t v) nogil
    # Cython's macro. A function that is called only behind it is not inlined, which keeps the loops short.
    bint unlikely(bint condition) nogil


cdef inline uint64_t load_be_over(const uint8_t* p, size_t n) noexcept nogil:
    # n bytes, 1 to 8, in one load of 8: p[7] must be readable
    return swap64(load_u64(p)) >> (64 - 8 * n)


cdef inline uint8_t take_u8(Cursor* cur) noexcept nogil:
    cdef uint8_t v = cur.pos[0]
    cur.pos += 1
    return v


cdef inline uint16_t take_u16(Cursor* cur) noexcept nogil:
    cdef uint16_t v = load_u16(cur.pos)
    cur.pos += 2
    return v


cdef inline uint32_t take_u32(Cursor* cur) noexcept nogil:
    cdef uint32_t v = load_u32(cur.pos)
    cur.pos += 4
    return v


cdef inline uint64_t take_u64(Cursor* cur) noexcept nogil:
    cdef uint64_t v = load_u64(cur.pos)
    cur.pos += 8
    return v


# Checked reads: return False, and leave the cursor where it is, when the bytes are not there.

cdef inline bint take_slice(Cursor* cur, uint64_t length, Cursor* out) noexcept nogil:
    if length > remaining(cur):
        return False
    out.pos = cur.pos
    out.end = cur.pos + length
    cur.pos = out.end
    return True


cdef inline bint take_lenenc(Cursor* cur, uint64_t* out) noexcept nogil:
    # MySQL's packed integer. 251 means NULL in the client protocol and 255 is not used:
    # in a binlog both are corrupt. Encodings longer than needed are accepted.
    cdef size_t n
    cdef uint8_t first
    if remaining(cur) < 1:
        return False
    first = cur.pos[0]
    if first < 251:
        out[0] = first
        cur.pos += 1
        return True
    if first == 252:
        n = 2
    elif first == 253:
        n = 3
    elif first == 254:
        n = 8
    else:
        return False
    if remaining(cur) < 1 + n:
        return False
    out[0] = load_le(cur.pos + 1, n)
    cur.pos += 1 + n
    return True
