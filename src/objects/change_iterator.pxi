# The changes of several batches as one stream. Included by _values.pyx, so that it can call RowReader in C.

from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.mem cimport PyMem_Calloc, PyMem_Free


cdef struct place_t:                 # the place of a reader's next change; a heap has the least first
    uint64_t position
    uint32_t row
    uint32_t reader
    Py_ssize_t record


cdef inline bint comes_first(const place_t* a, const place_t* b) noexcept nogil:
    if a.position != b.position:
        return a.position < b.position
    if a.row != b.row:
        return a.row < b.row
    return a.reader < b.reader


cdef inline void sink(place_t* heap, Py_ssize_t count, Py_ssize_t at) noexcept nogil:
    # Moves an item down to where both below it come later
    cdef place_t moved = heap[at]
    cdef Py_ssize_t below = 2 * at + 1
    while below < count:
        if below + 1 < count and comes_first(&heap[below + 1], &heap[below]):
            below += 1
        if not comes_first(&heap[below], &moved):
            break
        heap[at] = heap[below]
        at = below
        below = 2 * at + 1
    heap[at] = moved


@cython.final
cdef class ChangeIterator:
    """Changes in log order.

    Parameters
    ----------
    readers : iterable of RowReader
        Readers of the batches of one group, each in log order; their changes are merged by position and row.

    An error in one value is raised once; the next call continues after that change.
    """

    cdef list readers
    cdef place_t* heap
    cdef Py_ssize_t left             # number of readers that still have changes

    def __cinit__(self, readers):
        cdef RowReader reader
        cdef Py_ssize_t i
        self.readers = list(readers)
        self.heap = <place_t*> PyMem_Calloc(len(self.readers) + 1, sizeof(place_t))
        if self.heap == NULL:
            raise MemoryError
        for i, reader in enumerate(self.readers):
            if reader is None:
                raise TypeError("readers: expected RowReader, not None")
            if reader.record_count:
                self.heap[self.left].reader = <uint32_t> i
                self.put(&self.heap[self.left], reader)
                self.left += 1
        for i in range(self.left // 2 - 1, -1, -1):
            sink(self.heap, self.left, i)

    def __dealloc__(self):
        PyMem_Free(self.heap)

    def __iter__(self):
        return self

    def __next__(self):
        cdef RowChange change = self.take()
        if change is None:
            raise StopIteration
        return change

    cdef inline void put(self, place_t* place, RowReader reader) noexcept:
        cdef const image_t* image = <const image_t*> reader.at(place.record)
        place.position = image.position
        place.row = image.row

    cdef RowChange take(self):
        # The next change; None at the end
        cdef place_t* first = self.heap
        cdef RowReader reader
        cdef Py_ssize_t record
        if not self.left:
            return None
        reader = <RowReader> self.readers[first.reader]
        record = first.record
        first.record += 2 if reader.is_pair(record) else 1
        if first.record < reader.record_count:
            self.put(first, reader)
        else:
            self.left -= 1
            first[0] = self.heap[self.left]
        sink(self.heap, self.left, 0)
        return reader.make_change(record)


@cython.final
cdef class Changes:
    """The changes of a pass.

    Parameters
    ----------
    groups : generator of lists of RowReader
    opened : OpenSources, optional
        The sources that are read; once they are closed, iteration ends with their error.

    An error ends the iteration.
    """

    cdef object groups
    cdef ChangeIterator group        # the current group
    cdef object opened
    cdef bytearray closed            # its flag

    def __cinit__(self, groups, opened=None):
        self.groups = groups
        self.opened = opened
        if opened is not None:
            flag = opened.flag
            if not isinstance(flag, bytearray):
                raise TypeError(f"opened: expected a flag in a bytearray, not {type(flag).__name__}")
            self.closed = flag

    def __iter__(self):
        return self

    def __next__(self):
        cdef RowChange change
        while True:
            if self.group is None:
                self.group = ChangeIterator(next(self.groups))
            try:
                if self.closed is not None and PyByteArray_AS_STRING(self.closed)[0]:
                    self.opened.check_still_open()
                change = self.group.take()
            except BaseException:
                self.close()
                raise
            if change is not None:
                return change
            self.group = None

    def close(self):
        """End the iteration: its sources are closed."""
        self.group = None
        self.groups.close()
