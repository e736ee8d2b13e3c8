# Memory that grows while a group fills, and the blocks that batches have given back.
#
# Fresh memory costs more in the kernel than decoding into it costs here. So large blocks are used again,
# and ask for huge pages where the system has them, which cost a tenth.
#
# No thread waits for the pool: one that finds it in use does without. So a fork while another thread holds the lock
# does no harm: the child merely never uses the pool again.

from libc.stdint cimport uint8_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memmove

from wire.codes cimport DECODE_NO_MEMORY, DECODE_OK
from wire.cursor cimport unlikely

cdef extern from *:
    """
    #define BINLOG_TRY_LOCK(flag) (__atomic_exchange_n((flag), 1, __ATOMIC_ACQUIRE) == 0)
    #define BINLOG_UNLOCK(flag) __atomic_store_n((flag), 0, __ATOMIC_RELEASE)
    #define BINLOG_ANY ((size_t) -1)
    #define BINLOG_LARGE ((size_t) 2 << 20)         /* a huge page on x86-64 and usually on aarch64 */
    #if defined(__linux__)
    #include <stdlib.h>
    #include <sys/mman.h>
    static void* binlog_large_block(size_t size) {  /* size: a multiple of BINLOG_LARGE */
        void* block = aligned_alloc(BINLOG_LARGE, size);
    #ifdef MADV_HUGEPAGE
        if (block != NULL) {
            (void) madvise(block, size, MADV_HUGEPAGE);
        }
    #endif
        return block;
    }
    #else
    #include <stdlib.h>
    static void* binlog_large_block(size_t size) {
        return malloc(size);
    }
    #endif
    """
    bint try_lock "BINLOG_TRY_LOCK"(int* flag) noexcept nogil
    void unlock "BINLOG_UNLOCK"(int* flag) noexcept nogil
    const size_t ANY "BINLOG_ANY"
    const size_t LARGE "BINLOG_LARGE"
    void* large_block "binlog_large_block"(size_t size) nogil

cdef enum:
    POOL_BLOCKS = 64
    POOL_BYTES = 16 << 20               # kept for later loops, and the largest block; four times as much within a loop
    # Smaller blocks are left to malloc. It would give larger ones back to the system, at once or, worse, whenever they
    # happen to lie on top of its heap, so that each would be fresh memory again.
    POOLED = 1 << 16


cdef struct memory_t:
    uint8_t* data
    size_t length
    size_t capacity
    pool_t* pool                        # NULL: none
    bint lent                           # data is part of another owner's block


cdef struct pool_t:
    int locked                          # batches may be freed in any thread, while loops run in others
    memory_t[POOL_BLOCKS] blocks        # of POOLED bytes and more each, the longest idle first
    int count
    size_t bytes
    int users                           # number of loops that use it


cdef inline void remove_block(pool_t* pool, int i) noexcept nogil:
    pool.count -= 1
    pool.bytes -= pool.blocks[i].capacity
    memmove(&pool.blocks[i], &pool.blocks[i + 1], <size_t> (pool.count - i) * sizeof(memory_t))


cdef inline bint lock_pool(pool_t* pool) noexcept nogil:
    # False: another thread holds it
    return try_lock(&pool.locked)


cdef inline void unlock_pool(pool_t* pool) noexcept nogil:
    unlock(&pool.locked)


cdef inline size_t most_of(const pool_t* pool) noexcept nogil:
    return 4 * POOL_BYTES if pool.users else POOL_BYTES


cdef inline int make_way(pool_t* pool, size_t bytes, memory_t* idle) noexcept nogil:
    # Makes room for this many bytes; `idle` receives blocks to free after unlocking, since that may take long
    cdef int count = 0
    while pool.count == POOL_BLOCKS or (pool.count and pool.bytes + bytes > most_of(pool)):
        idle[count] = pool.blocks[0]
        count += 1
        remove_block(pool, 0)
    return count


cdef inline void give_back(pool_t* pool, uint8_t* data, size_t capacity) noexcept nogil:
    cdef memory_t[POOL_BLOCKS] idle
    cdef int idle_count
    cdef int i
    if pool == NULL or not POOLED <= capacity <= POOL_BYTES or not lock_pool(pool):
        free(data)
        return
    idle_count = make_way(pool, capacity, idle)
    pool.blocks[pool.count].data = data
    pool.blocks[pool.count].capacity = capacity
    pool.count += 1
    pool.bytes += capacity
    unlock_pool(pool)
    for i in range(idle_count):
        free(idle[i].data)


cdef inline void leave_pool(pool_t* pool) noexcept nogil:
    # One loop less
    cdef memory_t[POOL_BLOCKS] idle
    cdef int idle_count
    cdef int i
    pool.users -= 1
    if not lock_pool(pool):
        return
    idle_count = make_way(pool, 0, idle)
    unlock_pool(pool)
    for i in range(idle_count):
        free(idle[i].data)


cdef inline bint take_block(pool_t* pool, size_t least, size_t most, memory_t* out) noexcept nogil:
    # Takes the smallest block that is large enough or, if any will do (most: ANY), the largest, so that growing data
    # need not move again. Of equal blocks it takes the latest, which is still in the caches. False: there is none.
    cdef int i
    cdef int best = -1
    cdef size_t capacity
    if not lock_pool(pool):
        return False
    for i in range(pool.count):
        capacity = pool.blocks[i].capacity
        if least <= capacity <= most and (
            best < 0 or (capacity >= pool.blocks[best].capacity if most == ANY
                         else capacity <= pool.blocks[best].capacity)
        ):
            best = i
    if best >= 0:
        out.data = pool.blocks[best].data
        out.capacity = pool.blocks[best].capacity
        remove_block(pool, best)
    unlock_pool(pool)
    return best >= 0


cdef inline bint fresh_block(size_t least, memory_t* out) noexcept nogil:
    if least < LARGE:
        out.capacity = least if least < POOLED else (least + POOLED - 1) // POOLED * POOLED
        out.data = <uint8_t*> malloc(out.capacity)
    else:
        out.capacity = (least + LARGE - 1) // LARGE * LARGE
        out.data = <uint8_t*> large_block(out.capacity)
    return out.data != NULL


cdef inline void leave_block(memory_t* memory) noexcept nogil:
    if not memory.lent:
        give_back(memory.pool, memory.data, memory.capacity)
    memory.lent = False
    memory.data = NULL
    memory.capacity = 0


cdef inline void move_to_block(memory_t* memory, const memory_t* block) noexcept nogil:
    if memory.length:
        memcpy(block.data, memory.data, memory.length)
    leave_block(memory)
    memory.data = block.data
    memory.capacity = block.capacity


cdef inline int grow(memory_t* memory, size_t least) noexcept nogil:
    cdef memory_t block
    cdef size_t capacity = memory.capacity if memory.capacity else 256
    cdef uint8_t* data
    if least > (<size_t> -1) // 4:
        return DECODE_NO_MEMORY
    while capacity < least:
        capacity *= 2
    if capacity >= POOLED and memory.pool != NULL and take_block(memory.pool, least, ANY, &block):
        move_to_block(memory, &block)
        return DECODE_OK
    if capacity >= LARGE and memory.pool != NULL:
        if not fresh_block(least if memory.data == NULL else capacity, &block):
            return DECODE_NO_MEMORY
        move_to_block(memory, &block)
        return DECODE_OK
    if memory.lent:
        block.data = <uint8_t*> malloc(capacity)
        block.capacity = capacity
        if block.data == NULL:
            return DECODE_NO_MEMORY
        move_to_block(memory, &block)
        return DECODE_OK
    data = <uint8_t*> realloc(memory.data, capacity)
    if data == NULL:
        return DECODE_NO_MEMORY
    memory.data = data
    memory.capacity = capacity
    return DECODE_OK


cdef inline int reserve(memory_t* memory, size_t more) noexcept nogil:
    # Makes room for `more` bytes after those used
    if unlikely(memory.capacity - memory.length < more):
        return grow(memory, memory.length + more)
    return DECODE_OK


cdef inline int append(memory_t* memory, const void* data, size_t length) noexcept nogil:
    cdef int status = reserve(memory, length)
    if status == DECODE_OK and length:
        memcpy(memory.data + memory.length, data, length)
        memory.length += length
    return status


cdef inline void release(memory_t* memory) noexcept nogil:
    leave_block(memory)
    memory.length = 0
