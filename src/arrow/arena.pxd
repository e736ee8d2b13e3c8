# A batch's memory in Arrow's layout: a few blocks that all of its buffers and nodes are cut from. The nodes keep it
# alive; when the last of them is released, in whatever thread, the blocks go back to their pool.
# Header-only: used by _columns.pyx.
# Source: Apache Arrow documentation, "The Arrow C data interface".

from cpython.buffer cimport PyBUF_SIMPLE, PyObject_GetBuffer
from libc.stdint cimport int64_t, uint8_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

from arrow.c_data cimport ArrowArray
from memory.memory cimport POOLED, fresh_block, give_back, memory_t, pool_t, take_block

cdef extern from *:
    """
    #define BINLOG_DROP(count) __atomic_sub_fetch((count), 1, __ATOMIC_ACQ_REL)
    #define BINLOG_EXACT 0
    #if defined(__SANITIZE_ADDRESS__)
    #undef BINLOG_EXACT
    #define BINLOG_EXACT 1
    #elif defined(__has_feature)
    #if __has_feature(address_sanitizer)
    #undef BINLOG_EXACT
    #define BINLOG_EXACT 1
    #endif
    #endif
    """
    int drop_one "BINLOG_DROP"(int* count) noexcept nogil
    # Under the sanitizer each buffer is a block of exactly its size, so a write past its end is detected.
    const bint EXACT "BINLOG_EXACT"

cdef extern from *:
    """
    /* In whatever thread; at the interpreter's end what was held is left to the system. */
    static void binlog_let_go(Py_buffer* view) {
        PyGILState_STATE state;
    #if PY_VERSION_HEX >= 0x030D0000
        if (!Py_IsInitialized() || Py_IsFinalizing())
    #else
        if (!Py_IsInitialized() || _Py_IsFinalizing())
    #endif
            return;
        state = PyGILState_Ensure();
        PyBuffer_Release(view);
        PyGILState_Release(state);
    }
    """
    void let_go "binlog_let_go"(Py_buffer* view) noexcept nogil

cdef enum:
    ALIGNED = 64                # what Arrow recommends; also a cache line


cdef struct block_t:            # at the beginning of its memory
    block_t* next
    size_t capacity             # 0: not for the pool


cdef struct arena_t:
    pool_t* pool
    int holders
    block_t* blocks             # the newest first
    uint8_t* free               # what is left of the newest
    size_t left
    size_t total
    size_t most                 # the limit of `total`
    bint full                   # an allocation was refused: it would have exceeded `most`
    bint holds                  # views refer to what is in …
    Py_buffer held


cdef inline arena_t* new_arena(pool_t* pool, size_t most) noexcept nogil:
    # The caller is its first holder; NULL: no memory
    cdef arena_t* arena = <arena_t*> calloc(1, sizeof(arena_t))
    if arena != NULL:
        arena.pool = pool
        arena.most = most
        arena.holders = 1
    return arena


cdef inline void drop_arena(arena_t* arena) noexcept nogil:
    # One holder less
    cdef block_t* block
    if drop_one(&arena.holders) == 0:
        while arena.blocks != NULL:
            block = arena.blocks
            arena.blocks = block.next
            give_back(arena.pool, <uint8_t*> block, block.capacity)
        if arena.holds:
            let_go(&arena.held)
        free(arena)


cdef inline int hold(arena_t* arena, object buffer) except -1:
    # The arena keeps the buffer alive. No other thread knows it yet
    if not arena.holds:
        PyObject_GetBuffer(buffer, &arena.held, PyBUF_SIMPLE)
        arena.holds = True
    return 0


cdef inline bint add_block(arena_t* arena, size_t least) noexcept nogil:
    cdef memory_t memory
    cdef block_t* block
    cdef size_t before = sizeof(block_t)
    if least > arena.most - min(arena.total, arena.most):
        arena.full = True
        return False
    if EXACT:
        memory.data = <uint8_t*> malloc(before + least)
        memory.capacity = 0
        if memory.data == NULL:
            return False
        arena.left = least
    else:
        # Large enough for later requests, so that blocks are few; but not many times the size, since it would be kept.
        least = max(least + 2 * <size_t> ALIGNED, arena.total // 2)
        if ((least < POOLED or not take_block(arena.pool, least, 4 * least, &memory))
                and not fresh_block(least, &memory)):
            return False
        before += (ALIGNED - <uintptr_t> (memory.data + before) % ALIGNED) % ALIGNED
        arena.left = memory.capacity - before
    block = <block_t*> memory.data
    block.next = arena.blocks
    block.capacity = memory.capacity
    arena.blocks = block
    arena.free = memory.data + before
    arena.total += arena.left
    return True


cdef inline void* allot(arena_t* arena, size_t size) noexcept nogil:
    # This many uninitialized bytes, aligned; NULL: no memory, or more than the arena may have
    cdef uint8_t* place
    if not EXACT:
        size = (size + ALIGNED - 1) // ALIGNED * ALIGNED
    if (EXACT or size > arena.left) and not add_block(arena, size):
        return NULL
    place = arena.free
    arena.free += size
    arena.left -= size
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
    # init_array fills it in
    array.dictionary = <ArrowArray*> allot(arena, sizeof(ArrowArray))
    if array.dictionary != NULL:
        array.dictionary.release = NULL
    return array.dictionary


cdef inline bint init_array(
    arena_t* arena, ArrowArray* array, int64_t length, int64_t n_buffers, int64_t n_children
) noexcept nogil:
    # An empty node, with children for init_array to fill in; its buffers are NULL until it gets memory of the arena.
    # False: no memory, nothing to release.
    cdef size_t pointers = <size_t> (n_buffers + n_children) * sizeof(void*)
    cdef uint8_t* place = <uint8_t*> allot(arena, pointers + <size_t> n_children * sizeof(ArrowArray))
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
    arena.holders += 1          # no atomic addition: no other thread knows the arena yet
    return True
