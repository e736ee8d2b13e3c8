# Columns about the changes, made of runs: what an event's rows share is repeated for each row.

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from arrow.arena cimport allot, arena_t
from arrow.gather_spans cimport repeat_label
from arrow.tile cimport (
    LABEL, LAYOUT_COMMIT_TIME, LAYOUT_COPY, LAYOUT_LABEL, LAYOUT_LABEL_VIEW, LAYOUT_SECONDS, SLACK, allocate_slots,
    column_t,
)
from arrow.views cimport BINLOG_VIEW
from batch.records cimport OP_UPDATE_POSTIMAGE, OP_UPDATE_PREIMAGE, image_t
from batch.runs cimport run_t
from wire.cursor cimport load_u32, load_u64

ctypedef fused number_t:
    uint32_t
    uint64_t


cdef inline int64_t end_of(const run_t* runs, size_t count, size_t i, int64_t rows) noexcept nogil:
    return runs[i + 1].first if i + 1 < count else rows


cdef inline void repeat(number_t* out, int64_t at, int64_t end, number_t value) noexcept nogil:
    while at < end:
        out[at] = value
        at += 1


cdef inline void spread_numbers(const column_t* c, const run_t* runs, size_t count, int64_t rows,
                                number_t* out) noexcept nogil:
    # A field of the image, unchanged
    cdef number_t value
    cdef size_t i
    for i in range(count):
        memcpy(&value, <const uint8_t*> &runs[i].image + c.field, sizeof(number_t))
        repeat(out, runs[i].first, end_of(runs, count, i, rows), value)


cdef inline void spread_rows(const run_t* runs, size_t count, int64_t rows, uint32_t* out) noexcept nogil:
    # Numbers of the changed rows; both images of an update have the same number
    cdef size_t i
    cdef int64_t at
    cdef int64_t first
    cdef uint32_t row
    for i in range(count):
        first = runs[i].first
        row = runs[i].image.row
        if runs[i].image.op == OP_UPDATE_PREIMAGE:
            for at in range(first, end_of(runs, count, i, rows)):
                out[at] = row + <uint32_t> ((at - first) // 2)
        else:
            for at in range(first, end_of(runs, count, i, rows)):
                out[at] = row + <uint32_t> (at - first)


cdef inline bint spread_times(const column_t* c, const run_t* runs, size_t count, int64_t rows,
                              int64_t* out) noexcept nogil:
    # The commit's time where the log has it, else the time of the transaction's first event
    cdef const uint8_t* transaction
    cdef int64_t time
    cdef size_t i
    for i in range(count):
        if runs[i].image.transaction >= c.code_count:
            return False
        transaction = c.transactions + runs[i].image.transaction * <size_t> c.transaction_len
        time = <int64_t> load_u64(transaction + c.commit_time)
        if time < 0:
            time = load_u32(transaction + c.begin_time) * <int64_t> 1000000
        repeat(<uint64_t*> out, runs[i].first, end_of(runs, count, i, rows), <uint64_t> time)
    return True


cdef inline bint spread_labels(column_t* c, const run_t* runs, size_t count, int64_t rows,
                               arena_t* arena) noexcept nogil:
    # Texts by the image's op
    cdef const uint8_t* label
    cdef const uint8_t* other
    cdef int32_t* offsets = c.offsets
    cdef int64_t at
    cdef int64_t end
    cdef int64_t before
    cdef uint64_t total = 0
    cdef int32_t used = 0
    cdef int length
    cdef size_t i
    cdef uint8_t op
    for i in range(count):
        op = runs[i].image.op
        if op >= c.code_count or OP_UPDATE_POSTIMAGE >= c.code_count:
            return False
        end = end_of(runs, count, i, rows) - runs[i].first
        if op == OP_UPDATE_PREIMAGE:
            total += <uint64_t> end // 2 * c.labels[LABEL * OP_UPDATE_POSTIMAGE + LABEL - 1]
            end = end // 2
        total += <uint64_t> end * c.labels[LABEL * op + LABEL - 1]
    if total > <uint64_t> INT32_MAX - 9 * LABEL - SLACK:
        return False
    c.data = <uint8_t*> allot(arena, total + 9 * LABEL + SLACK)
    if c.data == NULL:
        return False
    for i in range(count):
        op = runs[i].image.op
        label = c.labels + LABEL * op
        at = before = runs[i].first
        end = end_of(runs, count, i, rows)
        length = label[LABEL - 1]
        if op == OP_UPDATE_PREIMAGE:
            other = c.labels + LABEL * OP_UPDATE_POSTIMAGE
            while at < end:
                memcpy(c.data + used, label, LABEL)
                used += length
                offsets[at + 1] = used
                memcpy(c.data + used, other, LABEL)
                used += other[LABEL - 1]
                offsets[at + 2] = used
                at += 2
        elif end - at < 8:
            while at < end:
                memcpy(c.data + used, label, LABEL)
                used += length
                at += 1
                offsets[at] = used
        else:
            repeat_label(label, length, <int> (end - at), c.data + used)
            while at < end:
                at += 1
                offsets[at] = used + <int32_t> (at - before) * length
            used += <int32_t> (end - before) * length
    c.data_len = <size_t> used
    return True


cdef inline bint spread_label_views(const column_t* c, const run_t* runs, size_t count, int64_t rows) noexcept nogil:
    cdef const uint8_t* view
    cdef uint8_t* out = c.slots
    cdef size_t other, i
    cdef int64_t _at
    cdef uint8_t op
    for i in range(count):
        op = runs[i].image.op
        if op >= c.code_count or OP_UPDATE_POSTIMAGE >= c.code_count:
            return False
        view = c.label_views + BINLOG_VIEW * op
        # An update's images alternate: the second label lies this far after the first
        other = BINLOG_VIEW * (OP_UPDATE_POSTIMAGE - OP_UPDATE_PREIMAGE) if op == OP_UPDATE_PREIMAGE else 0
        for _at in range(runs[i].first, end_of(runs, count, i, rows)):
            memcpy(out, view, BINLOG_VIEW)
            view += other
            other = 0 - other
            out += BINLOG_VIEW
    return True


cdef inline bint spread_seconds(const column_t* c, const run_t* runs, size_t count, int64_t rows,
                                uint64_t* out) noexcept nogil:
    cdef size_t i
    for i in range(count):
        repeat(out, runs[i].first, end_of(runs, count, i, rows),
               load_u32(<const uint8_t*> &runs[i].image + c.field) * <uint64_t> 1000000)
    return True


cdef inline bint spread(column_t* c, const run_t* runs, size_t count, int64_t rows, arena_t* arena) noexcept nogil:
    # False: no memory, or a number that is not valid
    cdef image_t image
    cdef size_t row = <size_t> (<uint8_t*> &image.row - <uint8_t*> &image)
    if not allocate_slots(arena, c, rows):
        return False
    if c.layout == LAYOUT_LABEL:
        return spread_labels(c, runs, count, rows, arena)
    if c.layout == LAYOUT_LABEL_VIEW:
        return spread_label_views(c, runs, count, rows)
    if c.layout == LAYOUT_COMMIT_TIME:
        return spread_times(c, runs, count, rows, <int64_t*> c.slots)
    if c.layout == LAYOUT_SECONDS:
        return spread_seconds(c, runs, count, rows, <uint64_t*> c.slots)
    if c.layout != LAYOUT_COPY:
        return False
    if c.field == row:
        spread_rows(runs, count, rows, <uint32_t*> c.slots)
    elif c.width == 8:
        spread_numbers(c, runs, count, rows, <uint64_t*> c.slots)
    elif c.width == 4:
        spread_numbers(c, runs, count, rows, <uint32_t*> c.slots)
    else:
        return False
    return True
