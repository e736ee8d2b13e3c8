# A batch's memory in Arrow's layout: a few blocks that all of its buffers and nodes are cut from. The nodes hold it,
# and with the last of them that is released the blocks go back to their pool, in whatever thread that is.
# Header-only: used by _columns.pyx.
# Source: Apache Arrow documentation, "The Arrow C data interface".

from libc.stdint cimport int64_t, uint8_t, uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from _arrow cimport ArrowArray
from _memory cimport POOLED, fresh_block, give_back, memory_t, pool_t, take_block

cdef extern from *:
    """
    #define BINLOG_DROP(count) __atomic_sub_fetch((count), 1, __ATOMIC_ACQ_REL)
    """
    int drop_one "BINLOG_DROP"(int* count) noexcept nogil

cdef enum:
    ALIGNED = 64                # what Arrow recommends, and a line of the cache
    ARENA_BLOCKS = 64           # each at least half of those before it: more than any memory has


cdef struct block_t:
    uint8_t* data
    size_t capacity


cdef struct arena_t:
    pool_t* pool
    int holders
    int count
    size_t used                 # of the last block
    size_t total
    block_t[ARENA_BLOCKS] blocks


cdef inline arena_t* new_arena(pool_t* pool) noexcept nogil:
    # With one holder, the caller; NULL: no memory
    cdef arena_t* arena = <arena_t*> malloc(sizeof(arena_t))
    if arena != NULL:
        arena.pool = pool
        arena.holders = 1
        arena.count = 0
        arena.used = 0
        arena.total = 0
    return arena


cdef inline void drop_arena(arena_t* arena) noexcept nogil:
    # One holder less
    cdef int i
    if drop_one(&arena.holders) == 0:
        for i in range(arena.count):
            give_back(arena.pool, arena.blocks[i].data, arena.blocks[i].capacity)
        free(arena)


cdef inline bint add_block(arena_t* arena, size_t least) noexcept nogil:
    cdef memory_t block
    cdef block_t* place = &arena.blocks[arena.count]
    if arena.count == ARENA_BLOCKS:
        return False
    # Large enough for what else comes, so that there are few; none of many times the size, which would be kept for it.
    least = max(least, arena.total // 2)
    if least < POOLED or not take_block(arena.pool, least, 4 * least, &block):
        if not fresh_block(least, &block):
            return False
    place.data = block.data
    place.capacity = block.capacity
    arena.count += 1
    arena.used = 0
    arena.total += block.capacity
    return True


cdef inline void* take(arena_t* arena, size_t size) noexcept nogil:
    # So many bytes, aligned, of any content; NULL: no memory
    cdef block_t* block
    cdef uint8_t* place
    size = (size + ALIGNED - 1) // ALIGNED * ALIGNED
    if not arena.count or size > arena.blocks[arena.count - 1].capacity - arena.used:
        # malloc aligns to 16 bytes
        if not add_block(arena, size + ALIGNED):
            return NULL
        arena.used = (ALIGNED - <uintptr_t> arena.blocks[arena.count - 1].data % ALIGNED) % ALIGNED
    block = &arena.blocks[arena.count - 1]
    place = block.data + arena.used
    arena.used += size
    return place


# --- Nodes -------------------------------------------------------------------------------------------

cdef inline void release_node(ArrowArray* array) noexcept nogil:
    # A consumer may have moved a child out: its release is NULL then.
    cdef arena_t* arena = <arena_t*> array.private_data
    cdef int64_t i
    for i in range(array.n_children):
        if array.children[i].release != NULL:
            array.children[i].release(array.children[i])
    if array.dictionary != NULL and array.dictionary.release != NULL:
        array.dictionary.release(array.dictionary)
    array.release = NULL
    drop_arena(arena)


cdef inline ArrowArray* add_dictionary(arena_t* arena, ArrowArray* array) noexcept nogil:
    # To be made by init_array
    array.dictionary = <ArrowArray*> take(arena, sizeof(ArrowArray))
    if array.dictionary != NULL:
        array.dictionary.release = NULL
    return array.dictionary


cdef inline bint init_array(
    arena_t* arena, ArrowArray* array, int64_t length, int64_t n_buffers, int64_t n_children
) noexcept nogil:
    # An empty node, with children that are to be made alike; its buffers are NULL until blocks of the arena are
    # given to it. False: no memory, nothing to release.
    cdef size_t pointers = <size_t> (n_buffers + n_children) * sizeof(void*)
    cdef uint8_t* place = <uint8_t*> take(arena, pointers + <size_t> n_children * sizeof(ArrowArray))
    cdef int64_t i
    memset(array, 0, sizeof(ArrowArray))
    if place == NULL:
        return False
    memset(place, 0, pointers + <size_t> n_children * sizeof(ArrowArray))
    array.length = length
    array.n_buffers = n_buffers
    array.buffers = <const void**> place
    array.n_children = n_children
    array.children = <ArrowArray**> place + n_buffers
    for i in range(n_children):
        array.children[i] = <ArrowArray*> (place + pointers) + i
    array.private_data = arena
    array.release = release_node
    arena.holders += 1          # by plain addition, since nobody else knows the arena yet
    return True
