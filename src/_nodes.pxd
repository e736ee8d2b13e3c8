# A column's buffers as node of an Arrow array. Header-only: used by _columns.pyx.

from libc.stdint cimport int64_t

from _arrow cimport ArrowArray, init_array
from _labels cimport fill_dictionary
from _memory cimport LARGE
from _tile cimport (
    LAYOUT_ENUM, LAYOUT_FIXED_BYTES, LAYOUT_GEOMETRY, LAYOUT_NULL, LAYOUT_SET, LAYOUT_VECTOR, column_t,
)


cdef inline void* take(void** place) noexcept nogil:
    cdef void* block = place[0]
    place[0] = NULL
    return block


ctypedef void (*release_t)(ArrowArray*) noexcept nogil


cdef inline void give_data(ArrowArray* node, column_t* c, release_t release_large) noexcept nogil:
    # The data of variable length is a node's last buffer.
    node.buffers[node.n_buffers - 1] = take(<void**> &c.data)
    if c.data_capacity >= LARGE:
        node.private_data = <void*> c.data_capacity
        node.release = release_large


cdef inline int fill_node(
    ArrowArray* node, column_t* c, object field, int64_t rows, release_t release_large
) except -1:
    # Give the column's buffers to its node; release_large: of a node whose data is a large block.
    cdef ArrowArray* child
    if c.layout == LAYOUT_NULL:
        if not init_array(node, rows, 0, 0):
            raise MemoryError
        node.null_count = rows
        return 0
    if c.layout == LAYOUT_SET or c.layout == LAYOUT_VECTOR:
        if not init_array(node, rows, 2, 1):
            raise MemoryError
        node.buffers[1] = take(<void**> &c.offsets)
        child = node.children[0]
        if not init_array(child, <int64_t> c.data_len // (1 if c.layout == LAYOUT_SET else 4), 2, 0):
            raise MemoryError
        give_data(child, c, release_large)
        if c.layout == LAYOUT_SET:
            fill_dictionary(child, field.children[0].labels)
    elif c.layout == LAYOUT_GEOMETRY:
        if not init_array(node, rows, 1, 2):
            raise MemoryError
        if not init_array(node.children[0], rows, 2, 0) or not init_array(node.children[1], rows, 3, 0):
            raise MemoryError
        node.children[0].buffers[1] = take(<void**> &c.slots)
        node.children[1].buffers[1] = take(<void**> &c.offsets)
        give_data(node.children[1], c, release_large)
    elif c.layout == LAYOUT_FIXED_BYTES and field.children:
        if not init_array(node, rows, 1, 1):
            raise MemoryError
        if not init_array(node.children[0], rows * (c.width // 4), 2, 0):
            raise MemoryError
        node.children[0].buffers[1] = take(<void**> &c.slots)
    elif c.offsets != NULL:
        if not init_array(node, rows, 3, 0):
            raise MemoryError
        node.buffers[1] = take(<void**> &c.offsets)
        give_data(node, c, release_large)
    else:
        if not init_array(node, rows, 2, 0):
            raise MemoryError
        node.buffers[1] = take(<void**> &c.slots)
        if c.layout == LAYOUT_ENUM:
            fill_dictionary(node, field.labels)
    node.buffers[0] = take(<void**> &c.validity)
    node.null_count = c.null_count
    return 0
