# What all loops of the process share: blocks that batches gave back, and switches for tests. Included by _rows.pyx.

from arrow.copy_spans cimport binlog_has_wide
from memory.memory cimport lock_pool, pool_t, unlock_pool

cdef enum:
    POOLS = 8

# What one thread has written another one has to fetch, at a quarter of the speed: so loops have pools of their own, as
# far as they go round.
cdef pool_t[POOLS] pools


cdef pool_t* join_pool():
    # The first of those that the fewest loops use
    cdef int best = 0
    cdef int i
    for i in range(1, POOLS):
        if pools[i].users < pools[best].users:
            best = i
    pools[best].users += 1
    return &pools[best]


def hold_pool(bint on):
    """Hold the lock of the blocks that batches give back, as another thread might; or let go. For tests."""
    for i in range(POOLS):
        if on:
            lock_pool(&pools[i])
        else:
            unlock_pool(&pools[i])


cdef bint wide = binlog_has_wide()


def use_wide(bint on):
    """As `_columns.use_wide`, of the loops that begin then. For tests."""
    global wide
    before = wide
    wide = on and binlog_has_wide()
    return before


cdef uint32_t least = 256


def columns_from(uint32_t rows):
    """Records of a batch, from which on it is worth while to decode the next one into columns at once; what it was
    before. For tests, of the loops that begin then."""
    global least
    before = least
    least = rows
    return before
