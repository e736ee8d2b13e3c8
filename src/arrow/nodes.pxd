# A column's buffers as a node of an Arrow array. Header-only: used by _columns.pyx.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from arrow.arena cimport add_dictionary, allot, arena_t, init_array
from arrow.c_data cimport ArrowArray
from arrow.tile cimport (
    LABEL, LAYOUT_ENUM, LAYOUT_FIXED_BYTES, LAYOUT_GEOMETRY, LAYOUT_LABEL_VIEW, LAYOUT_NULL, LAYOUT_SET, LAYOUT_VECTOR,
    column_t,
)
from arrow.views cimport fill_views, is_view, view_offsets


cdef inline bint fill_dictionary(arena_t* arena, ArrowArray* node, const column_t* c) noexcept nogil:
    cdef ArrowArray* dictionary = add_dictionary(arena, node)
    cdef size_t ends = (<size_t> c.member_count + 1) * sizeof(int32_t)
    cdef size_t size = <size_t> c.ends[c.member_count]
    if dictionary == NULL or not init_array(arena, dictionary, c.member_count, 3, 0):
        return False
    dictionary.buffers[1] = allot(arena, ends)
    dictionary.buffers[2] = allot(arena, size)
    if dictionary.buffers[1] == NULL or dictionary.buffers[2] == NULL:
        return False
    memcpy(<void*> dictionary.buffers[1], c.ends, ends)
    memcpy(<void*> dictionary.buffers[2], c.members, size)
    return True


cdef inline bint fill_node(arena_t* arena, ArrowArray* node, const column_t* c, int64_t rows) noexcept nogil:
    # Point the column's node at its buffers, which belong to the arena. False: no memory.
    cdef ArrowArray* child
    cdef uint8_t* labels
    if c.layout == LAYOUT_NULL:
        if not init_array(arena, node, rows, 0, 0):
            return False
        node.null_count = rows
        return True
    if c.layout == LAYOUT_SET or c.layout == LAYOUT_VECTOR:
        if not init_array(arena, node, rows, 2, 1):
            return False
        node.buffers[1] = c.offsets
        child = node.children[0]
        if not init_array(arena, child, <int64_t> c.data_len // (1 if c.layout == LAYOUT_SET else 4), 2, 0):
            return False
        child.buffers[1] = c.data
        if c.layout == LAYOUT_SET and not fill_dictionary(arena, child, c):
            return False
    elif c.layout == LAYOUT_GEOMETRY:
        if (not init_array(arena, node, rows, 1, 2) or not init_array(arena, node.children[0], rows, 2, 0)
                or not init_array(arena, node.children[1], rows, 3, 0)):
            return False
        node.children[0].buffers[1] = c.slots
        node.children[1].buffers[1] = c.offsets
        node.children[1].buffers[2] = c.data
    elif c.layout == LAYOUT_FIXED_BYTES and c.nested:
        if (not init_array(arena, node, rows, 1, 1)
                or not init_array(arena, node.children[0], rows * (c.width // 4), 2, 0)):
            return False
        node.children[0].buffers[1] = c.slots
    elif c.layout == LAYOUT_LABEL_VIEW:
        labels = <uint8_t*> allot(arena, LABEL * <size_t> c.code_count)
        if labels == NULL:
            return False
        memcpy(labels, c.labels, LABEL * <size_t> c.code_count)
        if not fill_views(arena, node, c.slots, labels, LABEL * <uint64_t> c.code_count, rows, c.part_bits):
            return False
    elif is_view(c):
        if not fill_views(arena, node, c.slots, c.data, c.end, rows, c.part_bits):
            return False
    elif c.view:
        if not view_offsets(arena, node, c.offsets, c.data, rows):
            return False
    elif c.offsets != NULL:
        if not init_array(arena, node, rows, 3, 0):
            return False
        node.buffers[1] = c.offsets
        node.buffers[2] = c.data
    else:
        if not init_array(arena, node, rows, 2, 0):
            return False
        node.buffers[1] = c.slots
        if c.layout == LAYOUT_ENUM and not fill_dictionary(arena, node, c):
            return False
    node.buffers[0] = c.validity
    node.null_count = c.null_count
    return True
