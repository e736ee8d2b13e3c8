# A column's buffers as node of an Arrow array. Header-only: used by _columns.pyx.

from libc.stdint cimport int64_t

from _arena cimport arena_t, init_array
from _arrow cimport ArrowArray
from _labels cimport fill_dictionary
from _tile cimport (
    LAYOUT_ENUM, LAYOUT_FIXED_BYTES, LAYOUT_GEOMETRY, LAYOUT_NULL, LAYOUT_SET, LAYOUT_VECTOR, column_t,
)


cdef inline int fill_node(arena_t* arena, ArrowArray* node, column_t* c, object field, int64_t rows) except -1:
    # Tell the column's buffers, which are the arena's, to its node.
    cdef ArrowArray* child
    if c.layout == LAYOUT_NULL:
        if not init_array(arena, node, rows, 0, 0):
            raise MemoryError
        node.null_count = rows
        return 0
    if c.layout == LAYOUT_SET or c.layout == LAYOUT_VECTOR:
        if not init_array(arena, node, rows, 2, 1):
            raise MemoryError
        node.buffers[1] = c.offsets
        child = node.children[0]
        if not init_array(arena, child, <int64_t> c.data_len // (1 if c.layout == LAYOUT_SET else 4), 2, 0):
            raise MemoryError
        child.buffers[1] = c.data
        if c.layout == LAYOUT_SET:
            fill_dictionary(arena, child, field.children[0].labels)
    elif c.layout == LAYOUT_GEOMETRY:
        if not init_array(arena, node, rows, 1, 2):
            raise MemoryError
        if not init_array(arena, node.children[0], rows, 2, 0) or not init_array(arena, node.children[1], rows, 3, 0):
            raise MemoryError
        node.children[0].buffers[1] = c.slots
        node.children[1].buffers[1] = c.offsets
        node.children[1].buffers[2] = c.data
    elif c.layout == LAYOUT_FIXED_BYTES and field.children:
        if not init_array(arena, node, rows, 1, 1):
            raise MemoryError
        if not init_array(arena, node.children[0], rows * (c.width // 4), 2, 0):
            raise MemoryError
        node.children[0].buffers[1] = c.slots
    elif c.offsets != NULL:
        if not init_array(arena, node, rows, 3, 0):
            raise MemoryError
        node.buffers[1] = c.offsets
        node.buffers[2] = c.data
    else:
        if not init_array(arena, node, rows, 2, 0):
            raise MemoryError
        node.buffers[1] = c.slots
        if c.layout == LAYOUT_ENUM:
            fill_dictionary(arena, node, field.labels)
    node.buffers[0] = c.validity
    node.null_count = c.null_count
    return 0
