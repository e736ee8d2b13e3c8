# What Python takes over from a group. Included by decode/_rows.pyx, whose Decoder fills it: objects of a type from
# another module could be made only through Python.

from cpython.buffer cimport Py_buffer, PyBuffer_FillInfo
from cpython.ref cimport Py_DECREF, Py_INCREF

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.stdlib cimport malloc

from arrow.sink cimport free_made, made_t
from batch.records cimport image_t
from batch.runs cimport run_t
from memory.memory cimport give_back

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject* one)     # cpython.object's takes an object, and would take a reference meanwhile

NO_INVALID_DATES = np.empty(0, INVALID_DATE_DTYPE)
NO_JSON_DIFFS = np.empty(0, JSON_DIFF_DTYPE)


@cython.no_gc_clear
cdef class Memory:
    """A block of the loop's memory, handed to Python: bytes-like; it goes back to the pool with its last view."""

    cdef uint8_t* data
    cdef Py_ssize_t length
    cdef size_t capacity
    cdef pool_t* pool

    def __dealloc__(self):
        give_back(self.pool, self.data, self.capacity)

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.data, self.length, 0, flags)

    def __len__(self):
        return self.length

    def __getitem__(self, key):
        return memoryview(self)[key]


cdef Memory take_memory(memory_t* memory):
    # Hands over the block, or a copy if little of it is used. A large copy would cost too much fresh memory.
    cdef Memory out = Memory.__new__(Memory)
    cdef uint8_t* data
    if memory.length < memory.capacity // 8:
        data = <uint8_t*> malloc(memory.length + 1)
        if data != NULL:
            memcpy(data, memory.data, memory.length)
            give_back(memory.pool, memory.data, memory.capacity)
            memory.data = data
            memory.capacity = memory.length + 1
    out.data = memory.data
    out.pool = memory.pool
    out.length = <Py_ssize_t> memory.length
    out.capacity = memory.capacity
    memory.data = NULL
    memory.length = 0
    memory.capacity = 0
    return out


@cython.final
@cython.no_gc       # nothing it holds refers back to it
cdef class Definition:
    """What a TABLE_MAP event says about a table: its shape, the plan of its rows, and its names.

    Parameters
    ----------
    plan : Plan
    shape : Shape
        Its `table_of` makes a Table from the names.
    names : bytes
        Database and table name, as the event has them.
    table : Table or None
        The table; None: it is made when it is first asked for.
    """

    cdef readonly object plan
    cdef object shape
    cdef bytes names
    cdef object made
    cdef object columns
    cdef cnp.dtype dtype

    def __cinit__(self, plan=None, shape=None, bytes names=b"", table=None):
        # Called without arguments, it is left to definition_of to fill in
        if plan is None:
            return
        self.plan = plan
        self.shape = shape
        self.names = names
        self.made = table
        self.columns = plan.columns
        self.dtype = plan.dtype

    @property
    def table(self):
        if self.made is None and self.shape is not None:
            self.made = self.shape.table_of(self.names)
        return self.made


cdef Definition definition_of(Definition like, bytes names):
    # Another definition of the same shape
    cdef Definition out = Definition.__new__(Definition)
    out.plan = like.plan
    out.shape = like.shape
    out.names = names
    out.columns = like.columns
    out.dtype = like.dtype
    return out


ARROW_BYTES = 2 << 30           # default of Limits.arrow_bytes


@cython.final
cdef class Wishes:
    """What users last asked the batches of each plan for: records, or columns of a Layout, which loops then make
    directly. Batches share it with their loop, and so do the loops of several threads that share their plans."""

    cdef dict layouts               # by the identity of the plan: plan and Layout; None: records
    cdef set refused                # identities of plans whose batches held columns, but were asked for records
    cdef set together               # identities of plans of which several batches were asked for Arrow
    cdef uint64_t version

    def __cinit__(self):
        self.layouts = {}
        self.refused = set()
        self.together = set()
        self.version = 1

    cdef int wish(self, object plan, object layout) except -1:
        cdef uintptr_t number = <uintptr_t> <PyObject*> plan
        if self.layout_of(plan) is not layout and number not in self.refused:
            self.layouts[number] = plan, layout
            self.version += 1
        return 0

    cdef int refuse(self, object plan) except -1:
        self.wish(plan, None)
        self.refused.add(<uintptr_t> <PyObject*> plan)
        return 0

    cdef object layout_of(self, object plan):
        known = self.layouts.get(<uintptr_t> <PyObject*> plan)
        return None if known is None else known[1]


cdef void destroy_columns(object capsule) noexcept:
    cdef made_t* made = <made_t*> PyCapsule_GetPointer(capsule, "binlog_columns")
    free_made(made)
    free(made)


cdef class Records


cdef enum:
    SHELVED = 64                    # batches on a shelf
    SHELVED_ROWS = 256              # most rows of each: importing a larger one costs less than its rows


@cython.final
@cython.no_gc       # it refers to nothing that refers back
cdef class Shelf:
    """Small batches of one plan and one group. They become Arrow together, each as a slice, since importing one alone
    costs more than its rows. The shelf does not keep them alive."""

    cdef void* batches[SHELVED]         # NULL: gone
    cdef int count
    cdef size_t arrow_bytes
    cdef bint asked                     # one of them was asked for its columns
    cdef bint made                      # they were made, cannot be made, or are being made
    cdef object slice                   # the method `slice` of the result; None: each is made by itself

    cdef int put(self, Records records) except -1:
        records.shelf = <PyObject*> self
        records.shelf_place = self.count
        Py_INCREF(self)                 # the batch holds the shelf
        self.arrow_bytes = records.arrow_bytes
        self.batches[self.count] = <void*> records
        self.count += 1
        return 0

    cdef int make(self, object make) except -1:
        # make(batch, records) gives an array of the records of all batches that have not been changed
        cdef list together = []
        cdef Records records
        cdef cnp.npy_intp rows = 0
        cdef int i
        self.made = True
        for i in range(self.count):
            # A batch that is being deallocated (its weakref callbacks may be running) must not be revived.
            if self.batches[i] != NULL and Py_REFCNT(<PyObject*> self.batches[i]) > 0:
                records = <Records> self.batches[i]
                if records.is_shelved():
                    together.append(records)
                    rows += records.count
        if len(together) < 2:
            return 0
        out = np.empty(rows, (<Records> together[0]).definition.dtype)
        rows = 0
        for records in together:
            memcpy(<uint8_t*> cnp.PyArray_DATA(out) + rows * records.definition.dtype.itemsize, records.data,
                   <size_t> (records.count * records.definition.dtype.itemsize))
            records.shelf_first = rows
            rows += records.count
        shared = make(together[0], out)
        if shared is not None:
            self.slice = shared.slice
        return 0


cdef class Records:
    """The attributes of a ChangeBatch. Its table and its array are made when they are first asked for: a group of
    many tables has thousands of batches, and few of them may be of interest."""

    cdef public object columns
    cdef public object buffer
    cdef public object transactions
    cdef public object invalid
    cdef public object json_diffs
    cdef public object path
    cdef public size_t arrow_bytes  # what its columns may take in Arrow
    cdef object own_table
    cdef object own_array
    cdef Definition definition      # from here on: only in batches that the loop has made
    cdef Wishes wishes              # tells later batches what this one is asked for
    cdef Memory runs                # where its rows lie in `wire`, if it has no records yet
    cdef object wire
    cdef object told                # the value of `transactions` then
    cdef object made                # its columns, which are given away once
    cdef object layout              # the Layout of these columns
    cdef Memory memory
    cdef uint8_t* data              # in memory
    cdef cnp.npy_intp count
    cdef PyObject* shelf            # a Shelf, or NULL; unknown to the garbage collector, which might clear it early
    cdef int shelf_place
    cdef cnp.npy_intp shelf_first   # its first record in what the shelf made; -1: it is not part of that

    def __cinit__(self):
        self.arrow_bytes = ARROW_BYTES
        self.shelf_first = -1

    def __dealloc__(self):
        if self.shelf != NULL:
            (<Shelf> self.shelf).batches[self.shelf_place] = NULL
            Py_DECREF(<Shelf> self.shelf)

    cdef bint is_as_taken(self) noexcept:
        return self.own_array is None and self.buffer is self.wire and self.transactions is self.told

    cdef bint is_shelved(self) noexcept:
        # Whether it cannot have been changed since it was put there
        return (self.memory is not None and self.is_as_taken() and self.columns is self.definition.columns
                and self.json_diffs is NO_JSON_DIFFS and self.arrow_bytes == (<Shelf> self.shelf).arrow_bytes)

    def from_shelf(self, make):
        """Its columns in Arrow, without options, as a slice of what several batches became together.

        Parameters
        ----------
        make : callable
            Makes a ``pyarrow.RecordBatch`` in a batch's form from that batch and an array of records, or returns None.

        Returns
        -------
        pyarrow.RecordBatch or None
            None: the batch must be converted by itself.
        """
        cdef Shelf shelf
        cdef uintptr_t plan
        if self.shelf == NULL or not self.is_shelved():
            return None
        shelf = <Shelf> self.shelf
        if not shelf.made:
            plan = <uintptr_t> <PyObject*> self.definition.plan
            if not shelf.asked and plan not in self.wishes.together:
                shelf.asked = True      # it may be the only one of interest
                return None
            self.wishes.together.add(plan)
            shelf.make(make)
        if shelf.slice is None or self.shelf_first < 0:
            return None
        return shelf.slice(self.shelf_first, self.count)

    @property
    def plan(self):
        """The plan that its records were decoded by; None for a batch that was made by hand."""
        return None if self.definition is None else self.definition.plan

    @property
    def table(self):
        if self.own_table is None and self.definition is not None:
            self.own_table = self.definition.table
        return self.own_table

    @table.setter
    def table(self, table):
        self.own_table = table

    @property
    def dtype(self):
        """Of `array`."""
        if self.own_array is None and self.definition is not None:
            return self.definition.dtype
        return self.own_array.dtype

    def take_columns(self, layout):
        """The columns of a Layout, if the loop has made them, as a capsule; None: they must be made from `array`.

        Later batches are decoded into columns directly, as long as nobody asks for their records, or has asked for
        this one's before.
        """
        if self.wishes is not None and self.own_array is None:
            self.wishes.wish(self.definition.plan, layout)
        if self.made is None or self.layout is not layout or not self.is_as_taken():
            return None
        made = self.made
        self.made = None
        return made

    @property
    def run_list(self):
        """The run_t of the rows of a batch of columns, bytes-like."""
        return self.runs

    def position_of(self, uint32_t record):
        """Position in the file of the event that a record comes from."""
        cdef const run_t* runs
        cdef Py_ssize_t low = 0, high, middle
        if record >= <size_t> len(self):
            raise IndexError(f"record {record} of {len(self)}")
        if self.own_array is None and self.memory is not None:      # without making `array`: see take_columns
            return (<const image_t*> (self.data + record * <size_t> self.definition.dtype.itemsize)).position
        if self.runs is None or self.own_array is not None:
            return int(self.array["image"]["position"][record])
        runs = <const run_t*> self.runs.data
        high = self.runs.length // <Py_ssize_t> sizeof(run_t)
        while high - low > 1:
            middle = (low + high) // 2
            if runs[middle].first <= record:
                low = middle
            else:
                high = middle
        return runs[low].image.position

    @property
    def array(self):
        if self.own_array is None and self.memory is None and self.runs is not None:
            self.wishes.refuse(self.definition.plan)
            self.memory = records_of(self)
            self.data = self.memory.data
        if self.own_array is None and self.memory is not None:
            Py_INCREF(self.definition.dtype)            # the array takes over this reference
            self.own_array = PyArray_NewFromDescr(
                cnp.ndarray, self.definition.dtype, 1, &self.count, NULL, self.data,
                cnp.NPY_ARRAY_CARRAY, NULL
            )
            cnp.set_array_base(self.own_array, self.memory)
        return self.own_array

    @array.setter
    def array(self, array):
        self.own_array = array
        self.memory = None
        self.made = None

    def __len__(self):
        """Number of records: row images, so an update counts twice."""
        return len(self.own_array) if self.own_array is not None else self.count
