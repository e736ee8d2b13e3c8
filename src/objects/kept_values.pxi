# Values that recur and are expensive to make: dates, short decimals, short text. Included by _values.pyx.

from cpython.mem cimport PyMem_Calloc, PyMem_Free


cdef enum:
    KEPT_SHIFT = 51                  # keeps the top 13 bits of a product: 8192 entries of each kind
    KEPT = 1 << (64 - KEPT_SHIFT)
    KEPT_FROM = 256                  # records; for fewer it is not worth its memory
    KEPT_TEXT = 32                   # bytes; longer text does not recur as often
    WORTH_OF_A_HIT = 8               # in misses, each of which costs a look-up
    WORTH_MOST = 512                 # either way; 8192 equally frequent values recur before this is used up

# A multiplication by 2**64 over the golden ratio spreads what lies close together.
cdef uint64_t SPREAD = 0x9E3779B97F4A7C15u


cdef struct kept_t:
    int64_t key                      # what the record holds
    int64_t kind                     # distinguishes values of the same key
    PyObject* value


@cython.final
cdef class Kept:
    """Values of many batches that are used again, shared by the plans of a reader's tables.

    A column whose values rarely recur stops looking here (`field_t.keeps`).
    """

    cdef kept_t* numbers
    cdef PyObject** texts
    cdef Py_ssize_t records          # number met so far

    cdef bint awake(self, Py_ssize_t records) noexcept:
        # Whether keeping values is worth it, after this many more records.
        self.records += records
        if self.texts == NULL and self.records >= KEPT_FROM:
            self.numbers = <kept_t*> PyMem_Calloc(KEPT, sizeof(kept_t))
            self.texts = <PyObject**> PyMem_Calloc(KEPT, sizeof(PyObject*))
        return self.numbers != NULL and self.texts != NULL

    def __dealloc__(self):
        cdef Py_ssize_t i
        for i in range(KEPT):
            if self.numbers != NULL:
                Py_XDECREF(self.numbers[i].value)
            if self.texts != NULL:
                Py_XDECREF(self.texts[i])
        PyMem_Free(self.numbers)
        PyMem_Free(self.texts)


cdef inline kept_t* number_entry(Kept kept, int64_t key, int64_t kind) noexcept:
    return &kept.numbers[(<uint64_t> key + <uint64_t> kind) * SPREAD >> KEPT_SHIFT]


cdef inline PyObject** text_entry(Kept kept, const char* data, size_t length) noexcept:
    # A key for two bytes or more
    cdef uint64_t first = 0
    cdef uint64_t last = 0
    if length >= 8:
        memcpy(&first, data, 8)
        memcpy(&last, data + length - 8, 8)
    elif length >= 4:
        memcpy(&first, data, 4)
        memcpy(&last, data + length - 4, 4)
    else:
        memcpy(&first, data, 2)
        memcpy(&last, data + length - 2, 2)
    return &kept.texts[((first * SPREAD ^ last) + length) * SPREAD >> KEPT_SHIFT]


cdef inline void weigh(field_t* field, bint hit) noexcept:
    # A column with too few hits keeps nothing any more.
    if hit:
        if field.worth < WORTH_MOST:
            field.worth += WORTH_OF_A_HIT
    elif field.worth > -WORTH_MOST:
        field.worth -= 1
    else:
        field.keeps = False
