"""Copies values of variable length into one heap."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

cimport numpy as cnp

from batch.records cimport (
    gtid_run_t, header_record_t, image_t, invalid_date_t, json_diff_t, span_t, transaction_t,
)
from wire.cursor cimport load_u32, load_u64

from binlog_core._tables.column_types import KINDS, SPAN_DTYPE
from binlog_core.errors import DecodeError

cnp.import_array()


def compact_spans(cnp.ndarray records not None, columns, buffer):
    """Copy the bytes that spans refer to, and make the spans refer to the copy.

    Parameters
    ----------
    records : ndarray, shape (n,), of record_dtype(…, columns)
        The records, whose spans are changed in place.
    columns : sequence of Column
    buffer : bytes-like

    Returns
    -------
    bytes
        The values, one after the other.

    Raises
    ------
    DecodeError
        A span reaches outside the buffer.
    """
    cdef int64_t i, count, stride
    cdef uint8_t* base = <uint8_t*> cnp.PyArray_DATA(records)
    cdef uint8_t* span
    cdef uint64_t offset, total = 0, size
    cdef uint32_t length, field
    cdef const uint8_t* source
    cdef Py_buffer view
    cdef char* out
    if records.ndim != 1 or not records.flags.writeable:
        raise ValueError("records: expected one dimension, writable")
    count = records.shape[0]
    stride = records.strides[0]
    row, row_offset = records.dtype.fields["row"][:2]
    spans = [column for column in columns if KINDS[column.kind].stored == "span"]
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


def twins():
    """Sizes and fields of the C structs that NumPy reads in place, for the tests.

    Returns
    -------
    dict of str to (int, dict of str to int)
        For each struct by its name: its size in bytes, and the offset of each field.
    """
    cdef image_t image
    cdef span_t span
    cdef transaction_t trx
    cdef invalid_date_t date
    cdef json_diff_t diff
    cdef header_record_t header
    cdef gtid_run_t run
    return {
        "image_t": (sizeof(image_t), {
            "op": <size_t> &image.op - <size_t> &image,
            "timestamp": <size_t> &image.timestamp - <size_t> &image,
            "server_id": <size_t> &image.server_id - <size_t> &image,
            "position": <size_t> &image.position - <size_t> &image,
            "row": <size_t> &image.row - <size_t> &image,
            "transaction": <size_t> &image.transaction - <size_t> &image,
        }),
        "span_t": (sizeof(span_t), {
            "offset": <size_t> &span.offset - <size_t> &span,
            "length": <size_t> &span.length - <size_t> &span,
        }),
        "transaction_t": (sizeof(transaction_t), {
            "begin_position": <size_t> &trx.begin_position - <size_t> &trx,
            "end_position": <size_t> &trx.end_position - <size_t> &trx,
            "timestamp": <size_t> &trx.timestamp - <size_t> &trx,
            "commit_time": <size_t> &trx.commit_time - <size_t> &trx,
            "gtid_kind": <size_t> &trx.gtid_kind - <size_t> &trx,
            "uuid": <size_t> &trx.uuid - <size_t> &trx,
            "domain_id": <size_t> &trx.domain_id - <size_t> &trx,
            "server_id": <size_t> &trx.server_id - <size_t> &trx,
            "sequence_number": <size_t> &trx.sequence_number - <size_t> &trx,
            "tag": <size_t> &trx.tag - <size_t> &trx,
            "xid": <size_t> &trx.xid - <size_t> &trx,
            "outcome": <size_t> &trx.outcome - <size_t> &trx,
            "thread_id": <size_t> &trx.thread_id - <size_t> &trx,
        }),
        "invalid_date_t": (sizeof(invalid_date_t), {
            "record": <size_t> &date.record - <size_t> &date,
            "column": <size_t> &date.column - <size_t> &date,
            "year": <size_t> &date.year - <size_t> &date,
            "month": <size_t> &date.month - <size_t> &date,
            "day": <size_t> &date.day - <size_t> &date,
            "hour": <size_t> &date.hour - <size_t> &date,
            "minute": <size_t> &date.minute - <size_t> &date,
            "second": <size_t> &date.second - <size_t> &date,
            "microsecond": <size_t> &date.microsecond - <size_t> &date,
        }),
        "json_diff_t": (sizeof(json_diff_t), {
            "record": <size_t> &diff.record - <size_t> &diff,
            "column": <size_t> &diff.column - <size_t> &diff,
        }),
        "header_record_t": (sizeof(header_record_t), {
            "position": <size_t> &header.position - <size_t> &header,
            "timestamp": <size_t> &header.timestamp - <size_t> &header,
            "type_code": <size_t> &header.type_code - <size_t> &header,
            "server_id": <size_t> &header.server_id - <size_t> &header,
            "event_length": <size_t> &header.event_length - <size_t> &header,
            "next_position": <size_t> &header.next_position - <size_t> &header,
            "flags": <size_t> &header.flags - <size_t> &header,
        }),
        "gtid_run_t": (sizeof(gtid_run_t), {
            "kind": <size_t> &run.kind - <size_t> &run,
            "uuid": <size_t> &run.uuid - <size_t> &run,
            "tag": <size_t> &run.tag - <size_t> &run,
            "domain_id": <size_t> &run.domain_id - <size_t> &run,
            "server_id": <size_t> &run.server_id - <size_t> &run,
            "first": <size_t> &run.first - <size_t> &run,
            "last": <size_t> &run.last - <size_t> &run,
        }),
    }
