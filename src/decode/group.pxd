# A group: batches and transactions that are gathered until one of its bounds is reached.

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport realloc
from libc.string cimport memset

from batch.gathered cimport batch_t
from decode.loop cimport loop_t
from decode.plan cimport ROOM
from decode.table_cache cimport definition_t
from memory.memory cimport memory_t, release, reserve
from wire.codes cimport DECODE_NO_MEMORY, DECODE_OK
from wire.cursor cimport unlikely
from wire.transactions cimport transaction_t


cdef enum:
    # Bytes of rows events to a batch: values of text are read again when columns are made of it, and should be in
    # the processor's caches still. Not so where many tables share a group, since each batch has its price, too.
    BATCH_WIRE = 1 << 20
    # Bytes. A chunk lives as long as one of its batches does: few, so that little is held for one that is kept.
    CHUNK = 32 << 10
    LENT_MOST = 2 << 10


cdef inline bint group_is_full(const loop_t* loop) noexcept nogil:
    cdef uint64_t enough = min(loop.max_group_wire, <uint64_t> max(loop.batch_count, 1) * BATCH_WIRE)
    return (loop.group_records >= loop.max_group_records or loop.group_memory >= loop.max_group_memory
            or (loop.group_wire >= enough and (loop.group_records != 0 or loop.transactions.length != 0)))


cdef inline int lend(loop_t* loop, batch_t* batch, size_t size) noexcept nogil:
    # A small batch has its records in a chunk that it shares with others
    cdef uint32_t capacity
    cdef memory_t* chunk
    cdef memory_t* chunks
    if not loop.chunk_count or loop.chunks[loop.chunk_count - 1].length + size > CHUNK:
        if loop.chunk_count == loop.chunk_capacity:
            capacity = loop.chunk_capacity * 2 if loop.chunk_capacity else 32
            chunks = <memory_t*> realloc(loop.chunks, capacity * sizeof(memory_t))
            if chunks == NULL:
                return DECODE_NO_MEMORY
            loop.chunks = chunks
            loop.chunk_capacity = capacity
        chunk = &loop.chunks[loop.chunk_count]
        memset(chunk, 0, sizeof(memory_t))
        if reserve(chunk, CHUNK) != DECODE_OK:
            return DECODE_NO_MEMORY
        loop.chunk_count += 1
    chunk = &loop.chunks[loop.chunk_count - 1]
    batch.chunk = loop.chunk_count - 1
    batch.chunk_offset = <uint32_t> chunk.length
    batch.records.lent = True
    batch.records.data = chunk.data + chunk.length
    batch.records.capacity = size
    chunk.length += size
    return DECODE_OK


cdef inline batch_t* new_batch(loop_t* loop, uint32_t index, bint copies) noexcept nogil:
    # index: of its definition
    cdef definition_t* definition = &loop.tables.definitions[index]
    cdef batch_t* batch
    cdef batch_t* batches
    cdef uint32_t capacity
    cdef size_t size
    if loop.batch_count == loop.batch_capacity:
        capacity = loop.batch_capacity * 2 if loop.batch_capacity else 32
        batches = <batch_t*> realloc(loop.batches, capacity * sizeof(batch_t))
        if batches == NULL:
            return NULL
        loop.batches = batches
        loop.batch_capacity = capacity
    batch = &loop.batches[loop.batch_count]
    memset(batch, 0, sizeof(batch_t))
    batch.definition = index
    batch.copies = copies
    batch.records.pool = loop.pool
    batch.heap.pool = loop.pool
    definition.batch[copies] = <int32_t> loop.batch_count
    loop.batch_count += 1
    # What the group before had is the best guess; a wrong one costs a copy.
    size = definition.last_count
    size += size // 8 + 2
    size = (size * loop.plans[definition.plan].record_len + ROOM + 15) // 16 * 16
    if (lend(loop, batch, size) if size <= LENT_MOST else reserve(&batch.records, size)) != DECODE_OK:
        return NULL
    return batch


cdef inline batch_t* batch_for(loop_t* loop, uint32_t definition, bint copies) noexcept nogil:
    cdef int32_t index = loop.tables.definitions[definition].batch[copies]
    if unlikely(index < 0):
        return new_batch(loop, definition, copies)
    return &loop.batches[index]


cdef inline void release_chunks(loop_t* loop) noexcept nogil:
    cdef uint32_t i
    for i in range(loop.chunk_count):
        release(&loop.chunks[i])
    loop.chunk_count = 0


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
