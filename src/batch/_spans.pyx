"""Values of variable length, moved together into a heap of their own."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

cimport numpy as cnp

from wire.cursor cimport load_u32, load_u64

from binlog_core._tables.column_types import SPAN_DTYPE, SPAN_KINDS
from binlog_core.errors import DecodeError

cnp.import_array()


def compact_spans(cnp.ndarray records not None, columns, buffer):
    """Copy the bytes that spans refer to, and let the spans refer to the copy.

    Parameters
    ----------
    records : ndarray, shape (n,), of record_dtype(…, columns)
        Its spans are changed.
    columns : sequence of Column
    buffer : bytes-like

    Returns
    -------
    bytes
        The values, one behind the other.

    Raises
    ------
    DecodeError
        A span reaches outside the buffer.
    """
    cdef int64_t i, count = records.shape[0], stride = records.strides[0]
    cdef uint8_t* base = <uint8_t*> cnp.PyArray_DATA(records)
    cdef uint8_t* span
    cdef uint64_t offset, total = 0, size
    cdef uint32_t length, field
    cdef const uint8_t* source
    cdef Py_buffer view
    cdef char* out
    row, row_offset = records.dtype.fields["row"][:2]
    spans = [column for column in columns if column.kind in SPAN_KINDS]
    if records.ndim != 1 or not records.flags.writeable:
        raise ValueError("records: one dimension expected, and that they can be written to")
    for column in spans:
        if row.fields[column.name][0] != SPAN_DTYPE:
            raise ValueError(f"column {column.name!r}: {row.fields[column.name][0]} is not a span")
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        source = <const uint8_t*> view.buf
        size = <uint64_t> view.len
        for column in spans:
            field = row_offset + row.fields[column.name][1]
            for i in range(count):
                span = base + i * stride + field
                length = load_u32(span + 8)
                offset = load_u64(span)
                if length and (length > size or offset > size - length):
                    raise DecodeError(
                        f"record {i}: the value's span reaches outside the batch's buffer",
                        column=column.name,
                    )
                total += length
        heap = PyBytes_FromStringAndSize(NULL, <Py_ssize_t> total)
        out = PyBytes_AS_STRING(heap)
        total = 0
        for column in spans:
            field = row_offset + row.fields[column.name][1]
            for i in range(count):
                span = base + i * stride + field
                length = load_u32(span + 8)
                if length:
                    memcpy(out + total, source + load_u64(span), length)
                memcpy(span, &total, 8)
                total += length
    finally:
        PyBuffer_Release(&view)
    return heap
