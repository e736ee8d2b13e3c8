# The changes of several batches as one stream. Included by _values.pyx: it calls RowReader in C.

import numpy as np


@cython.final
cdef class ChangeIterator:
    """Changes in log order.

    Parameters
    ----------
    readers : iterable of RowReader
        Of the batches of one group: their changes are merged by position and row.
    opened : OpenSources, optional
        What they were read from: once it is closed, changes end with its error.

    An error of one value is raised once; the next call goes on after that change.
    """

    cdef list readers
    cdef Memory order_memory
    cdef const int64_t* order          # reader << 32 | record
    cdef Py_ssize_t count
    cdef Py_ssize_t next
    cdef object opened

    def __cinit__(self, readers, opened=None):
        cdef RowReader reader
        cdef list keys = []
        cdef list positions = []
        cdef list rows = []
        self.readers = list(readers)
        self.opened = opened
        for number, reader in enumerate(self.readers):
            image = reader.array["image"]
            op = image["op"]
            # A postimage belongs to the preimage before it; one without begins a change, which fails.
            after_preimage = np.concatenate(([False], op == OP_UPDATE_PREIMAGE))[:len(op)]
            records = np.flatnonzero((op != OP_UPDATE_POSTIMAGE) | ~after_preimage)
            keys.append(records + (number << 32))
            positions.append(image["position"][records])
            rows.append(image["row"][records])
        order = np.concatenate(keys).astype(np.int64, copy=False) if keys else np.empty(0, np.int64)
        if len(self.readers) > 1:
            order = order[np.lexsort((np.concatenate(rows), np.concatenate(positions)))]
        self.count = len(order)
        self.order_memory = Memory(np.ascontiguousarray(order))
        self.order = <const int64_t*> self.order_memory.data

    def __iter__(self):
        return self

    def __next__(self):
        cdef int64_t key
        if self.next >= self.count:
            raise StopIteration
        if self.opened is not None and self.opened.closed:
            self.opened.check_still_open()
        key = self.order[self.next]
        self.next += 1
        return (<RowReader> self.readers[key >> 32]).make_change(<Py_ssize_t> <uint32_t> key)
