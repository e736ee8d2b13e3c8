# Tiles: few enough records to stay in the nearest caches while every column is gathered from them.
# Also what a column has gathered so far, and which of a tile's values are null. Header-only: used by _columns.pyx.

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport UINT64_MAX, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from arrow.arena cimport ALIGNED, allot, arena_t
from memory.memory cimport memory_t
from wire.cursor cimport load_u64

cdef enum:
    TILE = 512            # records; a multiple of 8, so that each tile begins a byte of the validity bitmap
    NULL_BYTES = TILE // 8
    GUESSED = 16 << 20    # most bytes that are reserved on the evidence of a few values
    SLACK = 64            # bytes after the end of a growing buffer, for copies of fixed size
    LABEL = 32            # bytes of a short text

cdef enum layout_t:
    LAYOUT_NULL
    LAYOUT_COPY           # 1, 2, 4, 8, 16 or 32 bytes, unchanged
    LAYOUT_DAYS           # int64 days to int32
    LAYOUT_MICROS         # int64; the smallest is NaT, which becomes null
    LAYOUT_DECIMAL64      # int64 to int128
    LAYOUT_ENUM           # number to place in the dictionary, 16 or 32 bits
    LAYOUT_SECONDS        # uint32 to microseconds
    LAYOUT_COMMIT_TIME    # number of a transaction to microseconds of its commit
    LAYOUT_SET
    LAYOUT_FIXED_BYTES    # MariaDB's UUID, VECTOR as fixed-size list
    LAYOUT_BYTES_VIEW     # where the value lies: see views.h
    LAYOUT_UTF8_VIEW
    LAYOUT_LABEL_VIEW     # as LAYOUT_LABEL
    LAYOUT_BYTES          # this and all that follow have offsets
    LAYOUT_LABEL          # uint8 number to one of a few short texts
    LAYOUT_DECIMAL_TEXT   # four limbs to text
    LAYOUT_GEOMETRY
    LAYOUT_EWKB
    LAYOUT_VECTOR
    LAYOUT_UTF8
    LAYOUT_TABLE          # one-byte character set
    LAYOUT_UTF16_BE
    LAYOUT_UTF16_LE
    LAYOUT_UTF32
    LAYOUT_JSON           # binary JSON to text
    LAYOUT_OBJECT         # made by Python, value by value

cdef enum gather_status_t:
    GATHER_OK = 0
    GATHER_NO_MEMORY
    GATHER_BAD_SPAN       # a span outside the buffer
    GATHER_BAD_TEXT
    GATHER_BAD_JSON
    GATHER_BAD_LENGTH     # of a value whose length is fixed
    GATHER_BAD_NUMBER     # of an ENUM or SET, or a date out of range
    GATHER_TOO_LARGE      # offsets are 32 bits wide

cdef struct column_t:
    layout_t layout
    uint32_t field            # offset of the value in a record
    uint32_t stored           # bytes of the value there
    uint32_t bitmap_byte      # the byte of either bitmap that has its bit
    uint8_t bit               # the number of the bit in that byte
    uint8_t mask              # the bit itself; 0: the column has no bit and is never null
    uint32_t width            # bytes of one slot
    int scale                 # of DECIMAL
    uint64_t pad              # BINARY(n): shorter values get zero bytes up to it
    const uint32_t* codes     # ENUM, SET: number or bit to place in the dictionary
    uint32_t code_count       # of codes; LAYOUT_LABEL: of labels; LAYOUT_COMMIT_TIME: of transactions
    const uint8_t* members    # ENUM, SET: the dictionary's texts, one after the other
    const int32_t* ends       # where each begins, and where the last ends
    uint32_t member_count     # how many there are
    bint nested               # LAYOUT_FIXED_BYTES: a list
    bint missing              # the records do not have it
    const uint32_t* table     # one-byte character set, see from_table
    bint keeps_ascii
    const uint8_t* labels     # LABEL bytes each, the last of which is the label's length
    const uint8_t* label_views
    bint view                 # its node has views; where it has offsets, they are made of these
    int part_bits             # a buffer of views begins at each multiple of 1 << part_bits
    const uint8_t* transactions
    uint32_t transaction_len  # bytes of one of them
    uint32_t commit_time      # offset of an int64 in it, below 0 if unknown
    uint32_t begin_time       # offset of the uint32 that is then used
    uint8_t* validity         # NULL until the first null
    int64_t null_count
    uint8_t* slots
    int32_t* offsets
    uint8_t* data
    size_t data_len
    size_t data_capacity
    uint64_t first            # views, of which data_len counts the bytes: from tile.base to the first that lies there …
    uint64_t end              # … and to the end of the last; 0: none does
    gather_status_t status
    int64_t failed            # the row that status is about

cdef struct tile_t:
    const uint8_t* records    # the first one
    ptrdiff_t stride
    int64_t first             # its row
    int count
    int64_t rows              # of all tiles
    const uint8_t* buffer     # what spans refer to
    uint64_t buffer_len
    const uint8_t* base       # what views refer to
    bint wide                 # what binlog_has_wide said
    arena_t* arena
    memory_t text             # for values that are printed first
    bint has_nulls            # of the current column; without them `nulls` is not set
    uint8_t* nulls            # one bit per record, set: null
    const uint8_t* starts[TILE]
    uint32_t lengths[TILE]


# --- Memory ------------------------------------------------------------------------------------------

cdef inline bint grow_data(column_t* c, const tile_t* tile, size_t needed) noexcept nogil:
    # For all rows to come, if they are like those so far; but not without bounds, since one large value
    # says little about the others.
    cdef size_t seen = <size_t> (tile.first + tile.count) if tile.count else 1
    cdef size_t wanted = needed // seen * <size_t> tile.rows
    cdef uint8_t* data
    wanted += wanted // 16
    wanted = max(min(wanted, max(8 * needed, <size_t> GUESSED)), needed + needed // 2)
    data = <uint8_t*> allot(tile.arena, wanted)
    if data == NULL:
        return False
    if c.data_len:
        memcpy(data, c.data, c.data_len)
    c.data = data
    c.data_capacity = wanted
    return True


cdef inline bint reserve_data(column_t* c, const tile_t* tile, size_t more) noexcept nogil:
    # Room for this many bytes after those used
    cdef size_t needed = c.data_len + more + SLACK
    return needed <= c.data_capacity or grow_data(c, tile, needed)


cdef inline bint has_offsets(const column_t* c) noexcept nogil:
    return c.layout >= LAYOUT_BYTES or c.layout == LAYOUT_SET


cdef inline size_t fixed_size(const column_t* c, int64_t rows) noexcept nogil:
    # Bytes that allocate_slots takes, and the column's node
    return <size_t> rows * (c.width + (sizeof(int32_t) if has_offsets(c) else 0)) + 6 * <size_t> ALIGNED


cdef inline bint allocate_slots(arena_t* arena, column_t* c, int64_t rows) noexcept nogil:
    # Slots and offsets of all rows, which the gathering loops all write; data grows tile by tile.
    cdef size_t size = <size_t> rows * c.width
    if c.width:
        c.slots = <uint8_t*> allot(arena, size + SLACK)
        if c.slots == NULL:
            return False
        memset(c.slots + size, 0, SLACK)
    c.first = UINT64_MAX
    c.end = 0
    if has_offsets(c):
        c.offsets = <int32_t*> allot(arena, (<size_t> rows + 1) * sizeof(int32_t))
        c.data = <uint8_t*> allot(arena, SLACK)
        if c.offsets == NULL or c.data == NULL:
            return False
        c.offsets[0] = 0
        c.data_capacity = SLACK
    return True


cdef inline bint all_null(arena_t* arena, column_t* c, int64_t rows) noexcept nogil:
    # A column that the records do not have
    cdef size_t size = <size_t> rows // 8 + 1
    c.validity = <uint8_t*> allot(arena, size)
    if c.validity == NULL:
        return False
    memset(c.validity, 0, size)
    c.null_count = rows
    if c.slots != NULL:
        memset(c.slots, 0, <size_t> rows * c.width)
    if c.offsets != NULL:
        memset(c.offsets, 0, (<size_t> rows + 1) * sizeof(int32_t))
    return True


# --- Nulls -------------------------------------------------------------------------------------------

cdef inline uint64_t transpose_bits(uint64_t x) noexcept nogil:
    # Bit k of byte r becomes bit r of byte k: 2x2 blocks of bits, then 4x4, then 8x8.
    cdef uint64_t swap = (x ^ (x >> 7)) & <uint64_t> 0x00AA00AA00AA00AA
    x ^= swap ^ (swap << 7)
    swap = (x ^ (x >> 14)) & <uint64_t> 0x0000CCCC0000CCCC
    x ^= swap ^ (swap << 14)
    swap = (x ^ (x >> 28)) & <uint64_t> 0x00000000F0F0F0F0
    return x ^ swap ^ (swap << 28)


ctypedef fused word_t:
    uint8_t
    uint16_t
    uint32_t
    uint64_t


cdef inline void or_words(const tile_t* tile, uint32_t at, word_t* out) noexcept nogil:
    # One word of all records, ORed
    cdef int _i, count = tile.count
    cdef ptrdiff_t stride = tile.stride
    cdef const uint8_t* record = tile.records + at
    cdef word_t word, all_words = 0
    for _i in range(count):
        memcpy(&word, record, sizeof(word_t))
        all_words |= word
        record += stride
    out[0] = all_words


cdef inline void or_bytes(const tile_t* tile, uint32_t at, uint32_t size, uint8_t* out) noexcept nogil:
    # `size` bytes of all records, ORed; by words, of which the last two may overlap.
    cdef uint32_t k = 0
    cdef uint64_t eight
    cdef uint32_t four
    cdef uint16_t two
    while size >= 8:
        k = min(k, size - 8)
        or_words(tile, at + k, &eight)
        memcpy(out + k, &eight, 8)
        k += 8
        if k >= size:
            return
    while size >= 4:
        k = min(k, size - 4)
        or_words(tile, at + k, &four)
        memcpy(out + k, &four, 4)
        k += 4
        if k >= size:
            return
    while k + 2 <= size:
        or_words(tile, at + k, &two)
        memcpy(out + k, &two, 2)
        k += 2
    if k < size:
        or_words(tile, at + k, out + k)


cdef inline void gather_nulls(
    const tile_t* tile, uint32_t null_byte, uint32_t absent_byte, uint8_t* out
) noexcept nogil:
    # The nulls of the eight columns that share a byte of the bitmaps: eight rows of NULL_BYTES, one bit per record.
    cdef uint8_t[TILE] either
    cdef const uint8_t* record = tile.records
    cdef int i, k, count = tile.count, groups = (tile.count + 7) // 8
    cdef ptrdiff_t stride = tile.stride
    cdef uint64_t bits
    for i in range(count):
        either[i] = record[null_byte] | record[absent_byte]
        record += stride
    for i in range(count, 8 * groups):
        either[i] = 0
    for i in range(groups):
        bits = transpose_bits(load_u64(either + 8 * i))
        for k in range(8):
            out[k * NULL_BYTES + i] = <uint8_t> (bits >> (8 * k))


cdef inline bint is_null(const tile_t* tile, int i) noexcept nogil:
    return tile.has_nulls and tile.nulls[i >> 3] >> (i & 7) & 1


cdef inline void mark_null(tile_t* tile, int i) noexcept nogil:
    if not tile.has_nulls:
        memset(tile.nulls, 0, <size_t> (tile.count + 7) // 8)
        tile.has_nulls = True
    tile.nulls[i >> 3] |= <uint8_t> (1 << (i & 7))


cdef inline int count_bits(uint64_t x) noexcept nogil:
    # Counts bits in parallel: in pairs, nibbles and bytes; then sums the bytes
    x -= (x >> 1) & <uint64_t> 0x5555555555555555
    x = (x & <uint64_t> 0x3333333333333333) + ((x >> 2) & <uint64_t> 0x3333333333333333)
    x = (x + (x >> 4)) & <uint64_t> 0x0F0F0F0F0F0F0F0F
    return <int> ((x * <uint64_t> 0x0101010101010101) >> 56)


cdef inline bint store_validity(column_t* c, const tile_t* tile) noexcept nogil:
    # Called only for tiles with a null: before the first, the bitmap is all ones.
    cdef size_t size = <size_t> (tile.rows + 7) // 8 + 8
    cdef uint64_t nulls
    cdef uint8_t* out
    cdef int i, part, left = (tile.count + 7) // 8
    if c.validity == NULL:
        c.validity = <uint8_t*> allot(tile.arena, size)
        if c.validity == NULL:
            return False
        memset(c.validity, 0xFF, size)
    out = c.validity + tile.first // 8
    for i in range(0, left, 8):
        part = min(left - i, 8)
        nulls = 0
        memcpy(&nulls, tile.nulls + i, <size_t> part)
        c.null_count += count_bits(nulls)
        nulls = ~nulls
        memcpy(out + i, &nulls, <size_t> part)
    return True


cdef inline gather_status_t bad_row(
    column_t* c, const tile_t* tile, int i, gather_status_t status
) noexcept nogil:
    c.failed = tile.first + i
    return status
