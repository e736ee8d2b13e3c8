# Arrow arrays made from columns that NumPy already holds: numbers, text from a few labels, and text with its offsets.
# Header-only: used by _columns.pyx.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from arrow.arena cimport allot, arena_t, init_array
from arrow.c_data cimport ArrowArray
from arrow.tile cimport SLACK
from arrow.views cimport view_offsets


cdef inline int fill_labels(
    arena_t* arena, ArrowArray* node, object texts, const uint32_t* codes, int64_t count
) except -1:
    # An array of text: texts[codes[i]] for each i. 0: no memory in the arena
    cdef int32_t* offsets
    cdef uint8_t* data
    cdef const char** starts
    cdef size_t* lengths
    cdef int64_t i
    cdef uint64_t total = 0
    cdef uint32_t code
    cdef list labels = [text.encode("utf-8", "replace") for text in texts]
    cdef Py_ssize_t k, label_count = len(labels)
    # Each has room after it, so that most are copied as one block of fixed size.
    cdef list padded = [label + bytes(SLACK) for label in labels]
    if not init_array(arena, node, count, 3, 0):
        return 0
    starts = <const char**> malloc(<size_t> (label_count + 1) * (sizeof(char*) + sizeof(size_t)))
    if starts == NULL:
        raise MemoryError
    try:
        lengths = <size_t*> (starts + label_count + 1)
        for k in range(label_count):
            starts[k] = PyBytes_AS_STRING(padded[k])
            lengths[k] = <size_t> PyBytes_GET_SIZE(labels[k])
        for i in range(count):
            if codes[i] >= <size_t> label_count:
                raise IndexError(f"code {codes[i]} of {label_count} labels")
            total += lengths[codes[i]]
        if total > <uint64_t> INT32_MAX:
            raise too_much_text(total)
        offsets = <int32_t*> allot(arena, (<size_t> count + 1) * sizeof(int32_t))
        node.buffers[1] = offsets
        data = <uint8_t*> allot(arena, total + SLACK)
        node.buffers[2] = data
        if offsets == NULL or data == NULL:
            return 0
        offsets[0] = 0
        for i in range(count):
            code = codes[i]
            if lengths[code] <= SLACK:
                memcpy(data, starts[code], SLACK)
            else:
                memcpy(data, starts[code], lengths[code])
            data += lengths[code]
            offsets[i + 1] = offsets[i] + <int32_t> lengths[code]
    finally:
        free(starts)
    return 1


cdef inline int fill_text(
    arena_t* arena, ArrowArray* node, bytes text, const int64_t* places, int64_t count
) except -1:
    # An array of text: from each place to the next. A ChangeColumn has checked them, but its caller's array may have
    # been changed since. 0: no memory in the arena
    cdef int32_t* offsets
    cdef int64_t place
    cdef int64_t last = 0
    cdef uint8_t* data
    cdef int64_t i
    cdef size_t total = <size_t> PyBytes_GET_SIZE(text)
    if total > <size_t> INT32_MAX:
        raise too_much_text(total)
    if not init_array(arena, node, count, 3, 0):
        return 0
    offsets = <int32_t*> allot(arena, (<size_t> count + 1) * sizeof(int32_t))
    node.buffers[1] = offsets
    data = <uint8_t*> allot(arena, total + SLACK)
    node.buffers[2] = data
    if offsets == NULL or data == NULL:
        return 0
    for i in range(count + 1):
        place = places[i]
        if not last <= place <= <int64_t> total:
            raise IndexError(f"place {place} of {total} bytes of text")
        last = place
        offsets[i] = <int32_t> place
    memcpy(data, PyBytes_AS_STRING(text), total)
    return 1


cdef inline object too_much_text(uint64_t size):
    from binlog_core.errors import DecodeError

    return DecodeError(f"{size} bytes of text in one batch: at most {INT32_MAX}")


cdef inline int fill_change_column(arena_t* arena, ArrowArray* node, object extra, int64_t count,
                                   bint view) except -1:
    # As below; view: text becomes views
    if not fill_change(arena, node, extra, count):
        return 0
    if view and (extra.labels is not None or extra.text is not None):
        # The node of offsets holds the arena once; that of views takes its place
        arena.holders -= 1
        node.release = NULL
        return view_offsets(arena, node, <const int32_t*> node.buffers[1], <const uint8_t*> node.buffers[2], count)
    return 1


cdef inline int fill_change(arena_t* arena, ArrowArray* node, object extra, int64_t count) except -1:
    # A ChangeColumn, which has seen to its values being contiguous, its codes being uint32 within range, and its places
    # being int64 that ascend from 0 to the end of its text.
    # 0: the arena gave no memory
    cdef const uint32_t[::1] codes
    cdef const int64_t[::1] places
    cdef const uint8_t[::1] values
    cdef void* copy
    if len(extra.values) - (extra.text is not None) != count:
        raise ValueError(f"change column {extra.name!r}: {len(extra.values)} values, expected {count}")
    if extra.text is not None:
        places = extra.values
        return fill_text(arena, node, extra.text, &places[0], count)
    if extra.labels is not None:
        codes = extra.values
        return fill_labels(arena, node, extra.labels, &codes[0] if count else NULL, count)
    if not init_array(arena, node, count, 2, 0):
        return 0
    values = extra.values.view("u1")
    copy = allot(arena, <size_t> values.shape[0])
    if copy == NULL:
        return 0
    if count:
        memcpy(copy, &values[0], <size_t> values.shape[0])
    node.buffers[1] = copy
    return 1
