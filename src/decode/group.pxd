# A group: batches and transactions that are gathered until one of the group's limits is reached.

from libc.stdint cimport UINT64_MAX, int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memset

from arrow.sink cimport new_sink
from batch.gathered cimport batch_t
from batch.records cimport transaction_t
from decode.loop cimport group_t, loop_t, next_position
from decode.plan cimport ROOM, plan_t
from decode.table_cache cimport definition_t
from memory.items cimport room_for_one
from memory.memory cimport memory_t, release, reserve
from wire.codes cimport DECODE_NO_MEMORY, DECODE_OK
from wire.cursor cimport unlikely


cdef enum:
    # Bytes of rows events for each batch. Text is read again when it becomes columns, and should then still be in the
    # processor's caches. Where many tables share a group more is better, since each batch has a cost of its own.
    BATCH_WIRE = 1 << 20
    # From this many batches on, a group may have SCALED times as much of everything, since each batch has a cost
    MANY_BATCHES = 1024
    SCALED = 4
    # Bytes. A chunk lives as long as any of its batches: it is small, so that one batch that is kept holds little else.
    CHUNK = 32 << 10
    LENT_MOST = 2 << 10
    JOINED_ROWS = 16                # about as many are put together between two fragments


cdef inline bint is_over(const group_t* group, uint64_t has, uint64_t most) noexcept nogil:
    return has >= most and (group.batch_count < MANY_BATCHES or has // SCALED >= most)


cdef inline bint group_is_full(const loop_t* loop) noexcept nogil:
    cdef const group_t* group = &loop.group
    cdef uint64_t enough = min(group.max_wire, <uint64_t> max(group.batch_count, 1) * BATCH_WIRE)
    if is_over(group, group.records, group.max_records) or is_over(group, group.memory, group.max_memory):
        return True
    if not is_over(group, group.wire, enough) or not (group.records != 0 or group.transactions.length != 0):
        return False
    # A small rest of a part is taken along
    return (next_position(loop) + enough // 2 <= loop.selection.stop_position or group.wire >= 2 * enough
            or group.wire >= group.max_wire)


cdef inline int lend(loop_t* loop, batch_t* batch, size_t size) noexcept nogil:
    # Gives a small batch room for its records in a chunk that it shares with others
    cdef memory_t* chunk
    cdef memory_t* chunks
    if not loop.group.chunk_count or loop.group.chunks[loop.group.chunk_count - 1].length + size > CHUNK:
        chunks = <memory_t*> room_for_one(
            loop.group.chunks, loop.group.chunk_count, &loop.group.chunk_capacity, 32, sizeof(memory_t))
        if chunks == NULL:
            return DECODE_NO_MEMORY
        loop.group.chunks = chunks
        chunk = &loop.group.chunks[loop.group.chunk_count]
        memset(chunk, 0, sizeof(memory_t))
        if reserve(chunk, CHUNK) != DECODE_OK:
            return DECODE_NO_MEMORY
        loop.group.chunk_count += 1
    chunk = &loop.group.chunks[loop.group.chunk_count - 1]
    batch.chunk = loop.group.chunk_count - 1
    batch.chunk_offset = <uint32_t> chunk.length
    batch.records.lent = True
    batch.records.data = chunk.data + chunk.length
    batch.records.capacity = size
    chunk.length += size
    return DECODE_OK


cdef inline uint64_t wire_to_come(const loop_t* loop) noexcept nogil:
    # Bytes that a group of one batch will have, up to the end of the part of the log
    cdef uint64_t position = next_position(loop)
    cdef uint64_t stop = loop.selection.stop_position
    cdef uint64_t left = stop - position if stop > position else 0
    return left if BATCH_WIRE // 2 <= left < BATCH_WIRE + BATCH_WIRE // 2 else BATCH_WIRE


cdef inline size_t records_to_come(const loop_t* loop, uint32_t before, uint32_t record_len) noexcept nogil:
    # The size of the previous group is the best guess; a wrong guess costs a copy.
    cdef uint64_t count = before
    if loop.selection.stop_position != UINT64_MAX and loop.group.wire_before and loop.group.batch_count == 1:
        count = count * wire_to_come(loop) // loop.group.wire_before
        count = min(count, min(loop.group.max_records, loop.group.max_memory // max(record_len, 1)))
    return <size_t> (count + count // 8 + 2)


cdef inline batch_t* new_batch(loop_t* loop, uint32_t index, bint copies) noexcept nogil:
    # index: of its definition
    cdef definition_t* definition = &loop.tables.definitions[index]
    cdef batch_t* batch
    cdef plan_t* plan
    cdef size_t size
    cdef batch_t* batches = <batch_t*> room_for_one(
        loop.group.batches, loop.group.batch_count, &loop.group.batch_capacity, 32, sizeof(batch_t))
    if batches == NULL:
        return NULL
    loop.group.batches = batches
    batch = &loop.group.batches[loop.group.batch_count]
    memset(batch, 0, sizeof(batch_t))
    batch.definition = index
    batch.copies = copies
    batch.joined = copies and loop.fragments.count != 0
    batch.records.pool = loop.group.pool
    batch.heap.pool = loop.group.pool
    definition.batch = <int32_t> loop.group.batch_count
    loop.group.batch_count += 1
    plan = loop.plans[definition.plan]
    size = (records_to_come(loop, definition.last_count, plan.record_len)
            if not (copies and loop.fragments.count) else <size_t> JOINED_ROWS)
    if (plan.columnar != NULL and plan.condition == NULL and not copies and size >= loop.worth_columns):
        batch.runs.pool = loop.group.pool
        batch.sink = new_sink(
            loop.group.pool, loop.arrow_bytes, plan.columnar.layout, plan.columnar.count, plan.columnar.gap_count + 1,
            plan.columnar.null_len, <int64_t> size, loop.wide)
        if batch.sink != NULL:
            return batch
    size = (size * plan.record_len + ROOM + 15) // 16 * 16
    if (lend(loop, batch, size) if size <= LENT_MOST else reserve(&batch.records, size)) != DECODE_OK:
        return NULL
    return batch


cdef inline batch_t* batch_for(loop_t* loop, uint32_t definition, bint copies) noexcept nogil:
    # One batch for all rows of the definition, so that they stay in order; `copies` applies to a new batch
    cdef int32_t index = loop.tables.definitions[definition].batch
    if unlikely(index < 0):
        return new_batch(loop, definition, copies)
    return &loop.group.batches[index]


cdef inline void release_chunks(loop_t* loop) noexcept nogil:
    cdef uint32_t i
    for i in range(loop.group.chunk_count):
        release(&loop.group.chunks[i])
    loop.group.chunk_count = 0


cdef inline int new_transactions(loop_t* loop) noexcept nogil:
    loop.group.transactions.pool = loop.group.pool
    if reserve(&loop.group.transactions, loop.group.transactions_before + sizeof(transaction_t)) != DECODE_OK:
        return DECODE_NO_MEMORY
    loop.trx.record = <transaction_t*> loop.group.transactions.data
    return DECODE_OK


cdef inline int note_transaction(loop_t* loop) noexcept nogil:
    # The open transaction has rows: its record stays, and there is room for the next one
    cdef size_t at = loop.group.transactions.length
    loop.group.transactions.length += sizeof(transaction_t)
    if reserve(&loop.group.transactions, sizeof(transaction_t)) != DECODE_OK:
        loop.group.transactions.length = at
        return DECODE_NO_MEMORY
    loop.trx.record = <transaction_t*> (loop.group.transactions.data + at)
    loop.trx.index = <int64_t> (at // sizeof(transaction_t))
    return DECODE_OK
