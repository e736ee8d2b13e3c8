# A group: batches and transactions that are gathered until one of its bounds is reached.

from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdlib cimport realloc
from libc.string cimport memset

from _batch cimport batch_t
from _codes cimport *
from _cursor cimport unlikely
from _loop cimport *
from _memory cimport reserve
from _plan cimport ROOM
from _transactions cimport transaction_t


cdef enum:
    # Bytes of rows events to a batch: values of text are read again when columns are made of it, and should be in
    # the processor's caches still. Not so where many tables share a group, since each batch has its price, too.
    BATCH_WIRE = 1 << 20


cdef inline bint group_is_full(const loop_t* loop) noexcept nogil:
    cdef uint64_t enough = min(loop.max_group_wire, <uint64_t> max(loop.batch_count, 1) * BATCH_WIRE)
    return (loop.group_records >= loop.max_group_records or loop.group_memory >= loop.max_group_memory
            or (loop.group_wire >= enough and (loop.group_records != 0 or loop.transactions.length != 0)))


cdef inline batch_t* new_batch(loop_t* loop, uint32_t plan_index, bint copies) noexcept nogil:
    cdef batch_t* batch
    cdef uint32_t capacity
    cdef size_t guess
    if loop.batch_count == loop.batch_capacity:
        capacity = loop.batch_capacity * 2 if loop.batch_capacity else 32
        batch = <batch_t*> realloc(loop.batches, capacity * sizeof(batch_t))
        if batch == NULL:
            return NULL
        loop.batches = batch
        loop.batch_capacity = capacity
    batch = &loop.batches[loop.batch_count]
    memset(batch, 0, sizeof(batch_t))
    batch.plan = plan_index
    batch.copies = copies
    batch.records.pool = loop.pool
    batch.heap.pool = loop.pool
    loop.batch_of_plan[2 * plan_index + copies] = <int32_t> loop.batch_count
    loop.batch_count += 1
    # What the group before had is the best guess; a wrong one costs a realloc.
    guess = loop.plans[plan_index].last_count
    guess += guess // 8 + 2
    if reserve(&batch.records, guess * loop.plans[plan_index].record_len + ROOM) != DECODE_OK:
        return NULL
    return batch


cdef inline batch_t* batch_for(loop_t* loop, uint32_t plan_index, bint copies) noexcept nogil:
    cdef int32_t index = loop.batch_of_plan[2 * plan_index + copies]
    if unlikely(index < 0):
        return new_batch(loop, plan_index, copies)
    return &loop.batches[index]


cdef inline int new_transactions(loop_t* loop) noexcept nogil:
    loop.transactions.pool = loop.pool
    if reserve(&loop.transactions, loop.transactions_before + sizeof(transaction_t)) != DECODE_OK:
        return DECODE_NO_MEMORY
    loop.trx = <transaction_t*> loop.transactions.data
    return DECODE_OK


cdef inline int note_transaction(loop_t* loop) noexcept nogil:
    # The open transaction has rows: it stays where it is, and there is room for the next
    cdef size_t at = loop.transactions.length
    loop.transactions.length += sizeof(transaction_t)
    if reserve(&loop.transactions, sizeof(transaction_t)) != DECODE_OK:
        loop.transactions.length = at
        return DECODE_NO_MEMORY
    loop.trx = <transaction_t*> (loop.transactions.data + at)
    loop.trx_index = <int64_t> (at // sizeof(transaction_t))
    return DECODE_OK
