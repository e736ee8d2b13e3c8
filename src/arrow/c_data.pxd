# The Arrow C data interface: its structs, and the nodes of schemas, which own malloc'ed memory; the nodes of arrays
# are in arena.pxd. A node's release frees all that it owns, so exported data outlives every Python object here.
# Header-only: used by _columns.pyx and _capsules.pyx.
# Source: Apache Arrow documentation, "The Arrow C data interface" and "The Arrow C stream interface".

from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

cdef enum:
    ARROW_FLAG_NULLABLE = 2

cdef struct ArrowSchema:
    const char* format
    const char* name
    const char* metadata
    int64_t flags
    int64_t n_children
    ArrowSchema** children
    ArrowSchema* dictionary
    void (*release)(ArrowSchema*) noexcept nogil
    void* private_data

cdef struct ArrowArray:
    int64_t length
    int64_t null_count
    int64_t offset
    int64_t n_buffers
    int64_t n_children
    const void** buffers
    ArrowArray** children
    ArrowArray* dictionary
    void (*release)(ArrowArray*) noexcept nogil
    void* private_data

cdef struct ArrowArrayStream:
    int (*get_schema)(ArrowArrayStream*, ArrowSchema*) noexcept
    int (*get_next)(ArrowArrayStream*, ArrowArray*) noexcept
    const char* (*get_last_error)(ArrowArrayStream*) noexcept
    void (*release)(ArrowArrayStream*) noexcept
    void* private_data


cdef inline void release_schema(ArrowSchema* schema) noexcept nogil:
    cdef int64_t i
    for i in range(schema.n_children):
        # A consumer may have moved a child out: its release is then NULL, but its struct is still ours.
        if schema.children[i] != NULL:
            if schema.children[i].release != NULL:
                schema.children[i].release(schema.children[i])
            free(schema.children[i])
    free(schema.children)
    if schema.dictionary != NULL:
        if schema.dictionary.release != NULL:
            schema.dictionary.release(schema.dictionary)
        free(schema.dictionary)
    free(<void*> schema.format)
    free(<void*> schema.name)
    free(<void*> schema.metadata)
    schema.release = NULL


cdef inline bint init_schema(ArrowSchema* schema, int64_t n_children) noexcept nogil:
    # An empty node with room for its children. False: no memory, but the node can be released.
    cdef int64_t i
    memset(schema, 0, sizeof(ArrowSchema))
    schema.release = release_schema
    if n_children:
        schema.children = <ArrowSchema**> calloc(<size_t> n_children, sizeof(ArrowSchema*))
        if schema.children == NULL:
            return False
        schema.n_children = n_children
        for i in range(n_children):
            schema.children[i] = <ArrowSchema*> calloc(1, sizeof(ArrowSchema))
            if schema.children[i] == NULL:
                return False
    return True
