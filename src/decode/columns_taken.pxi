# The columns of a batch that was decoded into columns directly, and its records if they are asked for after all.
# Included by _rows.pyx.

from decode.columns_or_records cimport into_records
from wire.codes cimport DECODE_NO_MEMORY

from binlog_core.errors import DecodeError


cdef object take_columns(batch_t* batch):
    # The batch keeps the rest of the sink.
    cdef made_t* made = <made_t*> malloc(sizeof(made_t))
    if made == NULL:
        raise MemoryError
    made[0] = batch.sink.made
    batch.sink.made.arena = NULL
    batch.sink.made.items = NULL
    return PyCapsule_New(made, "binlog_columns", destroy_columns)


cdef Memory records_of(Records records):
    # The records of a batch that has only columns: its rows are decoded again. All of them were valid: see columnar_of
    cdef Decoder decoder = Decoder()
    cdef object plan = records.definition.plan
    cdef uint32_t number = decoder.add_plan(
        plan.ops, image_len=plan.image_len, record_len=plan.dtype.itemsize, json_columns=plan.json_columns)
    cdef batch_t batch
    cdef Py_buffer wire
    cdef int status
    memset(&batch, 0, sizeof(batch))
    batch.records.pool = decoder.loop.group.pool
    PyObject_GetBuffer(records.wire, &wire, PyBUF_SIMPLE)
    try:
        with nogil:
            status = into_records(
                &decoder.loop, decoder.loop.plans[number], &batch, <const run_t*> records.runs.data,
                <size_t> records.runs.length // sizeof(run_t), <const uint8_t*> wire.buf)
        if status == DECODE_NO_MEMORY:
            raise MemoryError
        if status != DECODE_OK or batch.count != <uint32_t> records.count:
            raise DecodeError(
                "the rows are not those that were decoded before: the bytes of the log have changed since",
                path=records.path, offset=records.position_of(0), table=records.table.full_name)
        return take_memory(&batch.records)
    finally:
        release_batch(&batch)
        PyBuffer_Release(&wire)
