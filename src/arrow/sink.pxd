# A sink of columns: rows are decoded into it when only columns are wanted, not records. The columns of a batch grow in
# an arena of their own. Values that are located on the wire, but not decoded yet, wait until there is a tile of them.

from libc.stdint cimport UINT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from arrow.arena cimport allot, arena_t, drop_arena, new_arena
from arrow.tile cimport SLACK, allocate_slots, column_t, count_bits, tile_t, transpose_bits
from memory.memory cimport pool_t, release
from wire.cursor cimport load_u64

cdef enum:
    ROWS = 128                          # at most this many rows are located at once
    ROW_BYTES = ROWS // 8
    LANE = ROWS + 8                     # not a power of two, or the lanes of a row would collide in the cache
    WIDEST = 32                         # bytes of a decoded value


# The finished columns of a batch.
cdef struct made_t:
    arena_t* arena
    column_t* items
    int count
    int64_t rows
    uint64_t begin                      # of the first row in the buffer: places in views count from it


cdef struct sink_t:
    made_t made
    int64_t capacity                    # rows that the columns have room for
    int pending                         # rows of the tile so far
    bint by_row                         # they are decoded, except for what the lanes hold; else only located
    int null_rows                       # how many of them have NULLs
    size_t dates                        # invalid dates before the tile
    void* aims                          # see decode/row_columns.pxd; NULL: no row has had a NULL so far
    const uint8_t** places              # LANE for each segment
    const uint8_t* nulls_at[ROWS]       # the NULL bitmap of each row
    uint8_t* nulls                      # ROW_BYTES for each column
    uint8_t values[ROWS * WIDEST]       # one column's decoded values, on their way to the arena
    uint8_t no_nulls[ROW_BYTES]
    tile_t tile


cdef inline void free_made(made_t* made) noexcept nogil:
    if made.arena != NULL:
        drop_arena(made.arena)
    free(made.items)
    made.arena = NULL
    made.items = NULL


cdef inline void free_sink(sink_t* sink) noexcept nogil:
    if sink != NULL:
        free_made(&sink.made)
        release(&sink.tile.text)
        free(sink.aims)
        free(sink)


cdef inline sink_t* new_sink(pool_t* pool, size_t most, const column_t* layout, int count, uint32_t segments,
                             uint32_t null_len, int64_t rows, bint wide) noexcept nogil:
    # For about this many rows; NULL: no memory, or more than the columns may have
    cdef size_t places = LANE * <size_t> segments * sizeof(void*)
    cdef sink_t* sink = <sink_t*> malloc(sizeof(sink_t) + places + 8 * <size_t> null_len * ROW_BYTES)
    cdef int k
    if sink == NULL:
        return NULL
    sink.places = <const uint8_t**> (sink + 1)
    sink.nulls = <uint8_t*> sink.places + places
    sink.made.count = count
    sink.made.rows = 0
    sink.made.begin = 0
    sink.made.items = <column_t*> malloc((<size_t> count + 1) * sizeof(column_t))
    sink.made.arena = new_arena(pool, most)
    rows += ROWS                # for a last tile that is not full
    sink.capacity = rows
    sink.pending = 0
    sink.by_row = False
    sink.null_rows = 0
    sink.aims = NULL
    memset(&sink.tile.text, 0, sizeof(sink.tile.text))
    if sink.made.items == NULL or sink.made.arena == NULL:
        free_sink(sink)
        return NULL
    sink.tile.arena = sink.made.arena
    sink.tile.wide = wide
    for k in range(count):
        sink.made.items[k] = layout[k]
        if not allocate_slots(sink.made.arena, &sink.made.items[k], rows):
            free_sink(sink)
            return NULL
    return sink


cdef inline bint moved(arena_t* arena, void** data, size_t used, size_t size) noexcept nogil:
    cdef void* larger = allot(arena, size)
    if larger == NULL:
        return False
    if used:
        memcpy(larger, data[0], used)
    data[0] = larger
    return True


cdef inline bint make_room(sink_t* sink, int more) noexcept nogil:
    # Room for this many rows more. False: no memory
    cdef size_t rows = <size_t> sink.made.rows
    cdef size_t capacity
    cdef column_t* c
    cdef uint8_t* validity
    cdef int k
    if sink.made.rows + more <= sink.capacity:
        return True
    capacity = 2 * (rows + <size_t> more)
    for k in range(sink.made.count):
        c = &sink.made.items[k]
        if c.slots != NULL and not moved(
                sink.made.arena, <void**> &c.slots, rows * c.width, capacity * c.width + SLACK):
            return False
        if c.offsets != NULL and not moved(
                sink.made.arena, <void**> &c.offsets, (rows + 1) * sizeof(int32_t), (capacity + 1) * sizeof(int32_t)):
            return False
        if c.validity != NULL:
            validity = c.validity
            if not moved(sink.made.arena, <void**> &c.validity, 0, capacity // 8 + 24):
                return False
            memset(c.validity, 0xFF, capacity // 8 + 24)
            memcpy(c.validity, validity, rows // 8 + 1)
    sink.capacity = <int64_t> capacity
    return True


cdef inline bint keep_nulls(sink_t* sink, column_t* c) noexcept nogil:
    # Append the nulls of the tile, after any number of rows. False: no memory
    cdef tile_t* tile = &sink.tile
    cdef size_t size = <size_t> sink.capacity // 8 + 24
    cdef uint64_t nulls
    cdef uint64_t word
    cdef int64_t at
    cdef int i
    cdef int shift
    if c.validity == NULL:
        c.validity = <uint8_t*> allot(sink.made.arena, size)
        if c.validity == NULL:
            return False
        memset(c.validity, 0xFF, size)
    for i in range(0, tile.count, 64):
        nulls = 0
        memcpy(&nulls, tile.nulls + i // 8, 8)
        if tile.count - i < 64:
            nulls &= (<uint64_t> 1 << (tile.count - i)) - 1
        c.null_count += count_bits(nulls)
        at = tile.first + i
        shift = at & 7
        word = load_u64(c.validity + at // 8) & ~(nulls << shift)
        memcpy(c.validity + at // 8, &word, 8)
        if shift:
            c.validity[at // 8 + 8] &= <uint8_t> ~(nulls >> (64 - shift))
    return True


cdef inline void spread_nulls(sink_t* sink, uint32_t null_len) noexcept nogil:
    # From the rows' bitmaps: a bit for each row, ROW_BYTES for each column of the table
    cdef uint8_t[ROWS] byte
    cdef uint64_t bits
    cdef uint32_t b
    cdef int i
    cdef int k
    cdef int eights = (sink.pending + 7) // 8
    cdef uint8_t* out = sink.nulls
    for b in range(null_len):
        for i in range(sink.pending):
            byte[i] = sink.nulls_at[i][b]
        for i in range(sink.pending, 8 * eights):
            byte[i] = 0
        memset(out, 0, 8 * ROW_BYTES)
        for i in range(eights):
            bits = transpose_bits(load_u64(byte + 8 * i))
            for k in range(8):
                out[k * ROW_BYTES + i] = <uint8_t> (bits >> (8 * k))
        out += 8 * ROW_BYTES
