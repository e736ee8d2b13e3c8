# Memory of Python objects, held while values are made of it. Included by _values.pyx.

import numpy as np

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer


@cython.final
cdef class Memory:
    # The bytes of a contiguous bytes-like, held for as long as this lives.
    cdef Py_buffer view
    cdef const uint8_t* data
    cdef size_t length

    def __cinit__(self, source):
        PyObject_GetBuffer(source, &self.view, PyBUF_SIMPLE)
        self.data = <const uint8_t*> self.view.buf
        self.length = <size_t> self.view.len

    def __dealloc__(self):
        PyBuffer_Release(&self.view)


cdef Memory memory_of(array, dtype):
    # dates and nested fields cannot be exported by the buffer protocol: as plain bytes they can
    if array.dtype != dtype:
        raise ValueError(f"an array of dtype {array.dtype}, {dtype} is needed")
    return Memory(np.ascontiguousarray(array).view(np.uint8))
