# Memory of Python objects, held while values are made of it. Included by _values.pyx.

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.ref cimport Py_INCREF


@cython.final
cdef class Memory:
    # The bytes of a contiguous bytes-like object, held for as long as this lives.
    cdef Py_buffer view
    cdef const uint8_t* data
    cdef size_t length

    def __cinit__(self, source):
        PyObject_GetBuffer(source, &self.view, PyBUF_SIMPLE)
        self.data = <const uint8_t*> self.view.buf
        self.length = <size_t> self.view.len

    def __dealloc__(self):
        PyBuffer_Release(&self.view)


cdef cnp.ndarray records_in(object array, object dtype):
    # The array, or a contiguous copy; its data may be read for as long as a reference to it is held.
    if array.dtype is not dtype and array.dtype != dtype:
        raise ValueError(f"an array of dtype {array.dtype}: expected {dtype}")
    return cnp.PyArray_GETCONTIGUOUS(array)
