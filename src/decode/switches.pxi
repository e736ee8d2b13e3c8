# Shared by all loops of the process: blocks that batches gave back, and switches for tests. Included by _rows.pyx.

from arrow.copy_spans cimport binlog_has_wide
from decode.fragments cimport LEAST_FRAGMENT
from memory.feed cimport FED_LEN
from memory.memory cimport lock_pool, pool_t, unlock_pool

cdef enum:
    POOLS = 8

# Memory that another thread has written is fetched at a quarter of the speed. So each loop has a pool to itself, as
# long as there are enough.
cdef pool_t[POOLS] pools


cdef pool_t* join_pool():
    # The first of the pools with the fewest loops
    cdef int best = 0
    cdef int i
    for i in range(1, POOLS):
        if pools[i].users < pools[best].users:
            best = i
    pools[best].users += 1
    return &pools[best]


def hold_pool(bint on):
    """Take the lock of the blocks that batches give back, as another thread might, or release it. For tests."""
    for i in range(POOLS):
        if on:
            lock_pool(&pools[i])
        else:
            unlock_pool(&pools[i])


cdef bint wide = binlog_has_wide()


def use_wide(bint on):
    """Like `_columns.use_wide`, for loops that begin later. For tests."""
    global wide
    before = wide
    wide = on and binlog_has_wide()
    return before


cdef uint32_t least = 256


def columns_from(uint32_t rows):
    """Set from how many records of a batch on the next one is decoded into columns directly; return the old number.
    For tests, and for loops that begin later."""
    global least
    before = least
    least = rows
    return before


cdef size_t fed = FED_LEN


def feed_at_once(size_t most):
    """Set how many bytes a loop takes from a feed at once; return the old number. For tests, and for loops that begin
    later."""
    global fed
    before = fed
    fed = most
    return before


cdef size_t least_fragment = LEAST_FRAGMENT


def fragments_from(size_t size):
    """Set from how many bytes on fragments of a rows event are decoded where they lie; return the old number. For
    tests."""
    global least_fragment
    before = least_fragment
    least_fragment = size
    return before
