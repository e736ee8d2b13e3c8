"""The hot loop: events and rows of a buffer into structured arrays, without the GIL.

A Decoder walks one log. `run` comes back when a group of batches is full, a table is new, or
an event needs Python; between those it holds no Python object. What it gathers is taken over
by `take_group`.
"""

from os import urandom

import numpy as np

cimport cython
cimport numpy as cnp
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer, Py_buffer
from cpython.ref cimport Py_INCREF, PyObject
from libc.stdint cimport UINT64_MAX, int64_t, uint16_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

from batch.gathered cimport batch_t, invalid_date_t, json_diff_t, release_batch, span_t
from crc.checksum cimport binlog_crc32_best
from decode.group cimport new_transactions, note_transaction, release_chunks
from decode.loop cimport RUN_ERROR, RUN_TABLE, loop_t, next_position, window_t
from decode.plan cimport (
    OP_BIT, OP_COPY, OP_COPY1, OP_COPY8, OP_DATE, OP_DATETIME, OP_DATETIME2, OP_DECIMAL128, OP_DECIMAL256,
    OP_DECIMAL64, OP_INT24, OP_MARIA_DATETIME, OP_MARIA_TIME, OP_MARIA_TIMESTAMP, OP_NOTHING, OP_SKIP,
    OP_SKIP_VALUE, OP_SPAN, OP_SPAN1, OP_TIME, OP_TIME2, OP_TIMESTAMP, OP_TIMESTAMP2, OP_UINT24, OP_WIDEN,
    OP_YEAR, free_plan, op_t, plan_t,
)
from decode.row_image cimport IMAGE_LEN, image_t
from decode.table_cache cimport (
    NO_TABLE, add_definition, add_shape, content_t, definition_t, find_shape, forget_table_ids, free_cache,
    says, set_table_id, table_cache_t,
)
from decode.table_map_events cimport has_room
from decode.transaction_events cimport end_transaction
from decode.walk cimport set_handling, walk as walk_events
from memory.memory cimport append, give_back, lock_pool, memory_t, pool_t, release, unlock_pool
from types.decimal cimport digits_len
from wire.codes cimport (
    DECODE_BAD_VALUE, DECODE_CHECKSUM, DECODE_MALFORMED, DECODE_NO_MEMORY, DECODE_OK, DECODE_TRUNCATED,
    QUERY_EVENT,
)
from wire.cursor cimport Cursor, cursor_over, load_u16, remaining, skip
from wire.header cimport CHECKSUM_LEN, V4_MINIMUM_HEADER_LEN, event_header_t, is_header_len
from wire.transactions cimport OUTCOME_COMMITTED, begin_transaction, take_query_text, transaction_t

from .._tables.column_types import SPAN_DTYPE
from .._tables.side_dtypes import INVALID_DATE_DTYPE, JSON_DIFF_DTYPE, TRANSACTION_DTYPE

cdef extern from "numpy/arrayobject.h":
    # Takes over the reference to the dtype.
    object PyArray_NewFromDescr(type kind, cnp.dtype dtype, int ndim, cnp.npy_intp* shape, cnp.npy_intp* strides,
                                void* data, int flags, PyObject* like)

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        object (*tp_new)(type kind, object arguments, PyObject* keywords)

cnp.import_array()

# Twin of op_t.
OP_DTYPE = np.dtype([
    ("code", "u1"), ("a", "u1"), ("b", "u1"), ("c", "u1"), ("column", "<u2"), ("out_width", "<u2"),
    ("width", "<u4"), ("out", "<u4"),
])

# Twin of wire_op_t.
WIRE_OPS = {
    "NOTHING": OP_NOTHING, "SKIP": OP_SKIP, "SKIP_VALUE": OP_SKIP_VALUE, "COPY": OP_COPY,
    "INT24": OP_INT24, "UINT24": OP_UINT24, "WIDEN": OP_WIDEN, "BIT": OP_BIT, "YEAR": OP_YEAR,
    "DATE": OP_DATE, "TIME": OP_TIME, "DATETIME": OP_DATETIME, "TIMESTAMP": OP_TIMESTAMP,
    "TIME2": OP_TIME2, "DATETIME2": OP_DATETIME2, "TIMESTAMP2": OP_TIMESTAMP2,
    "MARIA_TIME": OP_MARIA_TIME, "MARIA_DATETIME": OP_MARIA_DATETIME,
    "MARIA_TIMESTAMP": OP_MARIA_TIMESTAMP, "DECIMAL64": OP_DECIMAL64,
    "DECIMAL128": OP_DECIMAL128, "DECIMAL256": OP_DECIMAL256, "SPAN": OP_SPAN,
}

assert OP_DTYPE.itemsize == sizeof(op_t)
assert TRANSACTION_DTYPE.itemsize == sizeof(transaction_t)
assert INVALID_DATE_DTYPE.itemsize == sizeof(invalid_date_t)
assert JSON_DIFF_DTYPE.itemsize == sizeof(json_diff_t)
assert SPAN_DTYPE.itemsize == sizeof(span_t)

NO_INVALID_DATES = np.empty(0, INVALID_DATE_DTYPE)
NO_JSON_DIFFS = np.empty(0, JSON_DIFF_DTYPE)

MORE, GROUP, TABLE, EVENT, STOP, ERROR, PAUSE = range(7)
STATUS_NAMES = {
    DECODE_TRUNCATED: "truncated", DECODE_MALFORMED: "malformed", DECODE_CHECKSUM: "checksum",
    DECODE_NO_MEMORY: "no memory", DECODE_BAD_VALUE: "bad value",
}

assert sizeof(image_t) == IMAGE_LEN

cdef pool_t POOL


def hold_pool(bint on):
    """Hold the lock of the blocks that batches give back, as another thread might; or let go. For tests."""
    if on:
        lock_pool(&POOL)
    else:
        unlock_pool(&POOL)


@cython.no_gc_clear
cdef class Memory:
    """A block of the loop's memory, handed to Python: bytes-like, given back with its last view."""

    cdef uint8_t* data
    cdef Py_ssize_t length
    cdef size_t capacity

    def __dealloc__(self):
        give_back(&POOL, self.data, self.capacity)

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.data, self.length, 0, flags)

    def __len__(self):
        return self.length

    def __getitem__(self, key):
        return memoryview(self)[key]


cdef Memory take_memory(memory_t* memory):
    # Hands the block over; a copy, where little of it is used. Of more, fresh memory would cost too much.
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
    out.length = <Py_ssize_t> memory.length
    out.capacity = memory.capacity
    memory.data = NULL
    memory.length = 0
    memory.capacity = 0
    return out


@cython.final
@cython.no_gc       # nothing that it holds refers back to it
cdef class Definition:
    """What a TABLE_MAP event says of a table: its shape, the plan of its rows, and its names.

    Parameters
    ----------
    plan : Plan
    shape : Shape
        Makes a Table of names, by its `table_of`.
    names : bytes
        Both names, as the event has them.
    table : Table or None
        None: it is made when somebody asks for it.
    """

    cdef readonly object plan
    cdef object shape
    cdef bytes names
    cdef object made
    cdef object columns
    cdef cnp.dtype dtype

    def __cinit__(self, plan=None, shape=None, bytes names=b"", table=None):
        # Without arguments: definition_of fills it in
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
    # Of the same shape
    cdef Definition out = Definition.__new__(Definition)
    out.plan = like.plan
    out.shape = like.shape
    out.names = names
    out.columns = like.columns
    out.dtype = like.dtype
    return out


ARROW_BYTES = 2 << 30           # Limits.arrow_bytes, unless it is given


cdef class Records:
    """The attributes of a ChangeBatch. Its table and its array are made when they are first asked for, since
    a group of many tables has thousands of batches, of which few may be of interest."""

    cdef public object columns
    cdef public object buffer
    cdef public object transactions
    cdef public object invalid
    cdef public object json_diffs
    cdef public object path
    cdef public size_t arrow_bytes  # what its columns may take in Arrow
    cdef object own_table
    cdef object own_array
    cdef Definition definition      # from here on: of a batch that the loop has made
    cdef Memory memory
    cdef uint8_t* data              # in memory
    cdef cnp.npy_intp count

    def __cinit__(self):
        self.arrow_bytes = ARROW_BYTES

    @property
    def plan(self):
        """The plan that its records were decoded by; None of a batch that is made by hand."""
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
    def array(self):
        if self.own_array is None and self.memory is not None:
            Py_INCREF(self.definition.dtype)            # which the array takes over
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

    def __len__(self):
        """Number of records: row images, so an update counts twice."""
        return self.count if self.memory is not None else len(self.own_array)


cdef bint writes_field(const op_t* op) noexcept:
    # Whether the operation loads no more than the room behind a value, and writes just its field
    if op.code == OP_NOTHING or op.code == OP_SKIP:
        return True
    if op.code == OP_SKIP_VALUE:
        return 1 <= op.width <= 4
    if OP_COPY1 <= op.code <= OP_COPY8:
        return op.width == <uint32_t> 1 << (op.code - OP_COPY1) and op.out_width == op.width
    if op.code <= OP_YEAR:                      # copies of other widths, and what becomes a number
        return 1 <= op.width <= 8 and op.out_width in (1, 2, 4, 8)
    if op.code <= OP_MARIA_TIMESTAMP:
        if op.code >= OP_MARIA_TIME:
            return op.out_width == 8 and op.a <= 6 and 4 <= op.width <= 8
        return op.out_width == 8 and op.a <= 3 and 3 <= op.width <= 8
    if op.code <= OP_DECIMAL256:
        return (op.out_width == 8 << (op.code - OP_DECIMAL64) and op.a <= 9 and op.c <= 9
                and op.width == digits_len[op.a] + 4u * op.b + digits_len[op.c] and 1 <= op.width <= 32)
    if op.code <= OP_SPAN:
        return op.out_width == sizeof(span_t) and 1 <= op.width <= 4 and (
            op.code == OP_SPAN or op.width == 1u + op.code - OP_SPAN1)
    return False


cdef int check_ops(const op_t* ops, uint32_t count, uint32_t image_len, uint32_t record_len) except -1:
    cdef uint32_t i
    if image_len != IMAGE_LEN + 2 * ((count + 7) // 8) or image_len > record_len:
        raise ValueError(f"an image part of {image_len} bytes for {count} columns and records of {record_len}")
    for i in range(count):
        if (ops[i].column != i or ops[i].out > record_len or ops[i].out_width > record_len - ops[i].out
                or not writes_field(&ops[i])):
            raise ValueError(f"column {i}: operation {ops[i].code} of {ops[i].width} bytes cannot be")
    return 0


@cython.final
cdef class Decoder:
    """Decodes the rows of one log, group by group.

    Parameters
    ----------
    group_rows : int
        A group is full at this many records …
    group_bytes : int
        … or this many bytes of rows events …
    group_memory : int
        … or this many bytes of records.
    record_bytes : int
        Most bytes of records out of one event.
    table_definitions : int
        Most that are kept, wide ones counted as several …
    table_definitions_of_transaction : int
        … but of one transaction.
    arrow_bytes : int
        What the columns of one batch may take in Arrow.
    verify : bool
        Compare the CRC32 of every event, where the log has them.

    The caller (binlog_core/log.py) gives the descriptor with `set_format`, bytes with `feed`,
    plans with `add_plan` and definitions with `add_definition`, and turns what `run` says into Python.
    """

    cdef loop_t loop
    cdef size_t arrow_bytes
    cdef list shapes                # of each shape: a Definition, None where its rows are not wanted
    cdef list definitions           # … and of each definition that a batch was of

    def __cinit__(self, *, uint64_t group_rows=65536, uint64_t group_bytes=16 << 20,
                  uint64_t group_memory=4 << 20, uint64_t record_bytes=1 << 30,
                  uint64_t table_definitions=16384, uint64_t table_definitions_of_transaction=65536,
                  size_t arrow_bytes=ARROW_BYTES, bint verify=True):
        cdef bytes keys = urandom(sizeof(self.loop.tables.keys))
        self.shapes = []
        self.definitions = []
        memcpy(self.loop.tables.keys, <const char*> keys, sizeof(self.loop.tables.keys))
        self.loop.tables.keys[1] |= 1
        self.loop.max_group_records = group_rows
        self.loop.max_group_wire = group_bytes
        self.loop.max_group_memory = group_memory
        self.loop.max_event_memory = record_bytes
        self.loop.max_definitions = table_definitions
        self.loop.max_definitions_of_transaction = table_definitions_of_transaction
        self.loop.verify = verify
        self.arrow_bytes = arrow_bytes
        self.loop.trx_index = -1
        self.loop.pool = &POOL
        self.loop.server_id = -1
        self.loop.op_mask = 7
        self.loop.stop_position = UINT64_MAX
        self.loop.stop_timestamp = UINT64_MAX
        self.loop.plain.header_len = V4_MINIMUM_HEADER_LEN
        for i in range(256):
            self.loop.plain.canonical[i] = <uint8_t> i
        set_handling(&self.loop.plain)
        self.loop.crc = binlog_crc32_best()
        if new_transactions(&self.loop) != DECODE_OK:
            raise MemoryError

    def __dealloc__(self):
        cdef uint32_t i
        self.drop_windows()
        free_cache(&self.loop.tables)
        for i in range(self.loop.plan_count):
            free_plan(self.loop.plans[i])
        free(self.loop.plans)
        for i in range(self.loop.batch_count):
            release_batch(&self.loop.batches[i])
        free(self.loop.batches)
        release_chunks(&self.loop)
        free(self.loop.chunks)
        release(&self.loop.transactions)
        release(&self.loop.tail)
        release(&self.loop.gtid_runs)

    # ------------------------------------------------------------ what Python gives

    def set_format(self, uint32_t header_length, const uint8_t[::1] post_header_lengths,
                   const uint8_t[::1] canonical, bint checksum):
        """Take a descriptor's lengths and numbering; table ids seen before mean nothing now."""
        if post_header_lengths.shape[0] != 256 or canonical.shape[0] != 256:
            raise ValueError("256 entries expected")
        if not is_header_len(header_length):
            raise ValueError(f"header_length={header_length}: 13, or 19 to 255 expected")
        self.loop.descriptor.header_len = header_length
        self.loop.descriptor.checksum_len = CHECKSUM_LEN if checksum else 0
        memcpy(self.loop.descriptor.post_header_len, &post_header_lengths[0], 256)
        memcpy(self.loop.descriptor.canonical, &canonical[0], 256)
        set_handling(&self.loop.descriptor)
        memcpy(self.loop.plain.post_header_len, &post_header_lengths[0], 256)
        forget_table_ids(&self.loop.tables)

    def select(self, *, uint32_t ops=7, int64_t server_id=-1, bint rows_v0=False,
               uint64_t stop_position=UINT64_MAX, int stop_anchor=0, uint64_t start_timestamp=0,
               uint64_t stop_timestamp=UINT64_MAX, bint gtids_to_python=False, bint asides_to_python=False):
        """What to leave out, and where to stop.

        Parameters
        ----------
        ops : int
            Bit 0 insert, 1 update, 2 delete.
        server_id : int
            Of the events whose rows are decoded; -1: of all.
        rows_v0 : bool
            Decode rows events from before 5.1.18 as far as the format allows.
        stop_position, stop_anchor : int
            Stop there, or (an anchor_t) at the first place behind it where a transaction can begin.
        start_timestamp, stop_timestamp : int
            Seconds since 1970 UTC. Rows of earlier events are left out; the first later event is stopped at.
        gtids_to_python : bool
            Come back at every GTID event.
        asides_to_python : bool
            Come back at savepoints, at statements of XA, and at MariaDB's GTID event of an XA transaction.
        """
        self.loop.op_mask = ops
        self.loop.server_id = server_id
        self.loop.rows_v0 = rows_v0
        self.loop.stop_position = stop_position
        self.loop.stop_anchor = stop_anchor
        self.loop.start_timestamp = start_timestamp
        self.loop.stop_timestamp = stop_timestamp
        self.loop.gtids_to_python = gtids_to_python
        self.loop.asides_to_python = asides_to_python
        self.loop.selects = ops != 7 or server_id >= 0 or start_timestamp != 0

    def check_positions(self, bint on):
        """Whether an event that does not end where it says is an error."""
        self.loop.check_positions = on

    def skip_transaction(self, bint on):
        """Whether the rows of the transaction at hand are stepped over."""
        self.loop.skip_transaction = on

    def feed(self, buffer, uint64_t base, *, size_t start=0, bint keep):
        """Go on in another buffer.

        Parameters
        ----------
        buffer : bytes-like
        base : int
            Position in the file of its first byte.
        start : int
            Offset in buffer of the next event.
        keep : bool
            The buffer outlives the batches: spans point into it. Otherwise values are copied.
        """
        self.drop_windows()
        self.open_window(0, buffer, base, start, not keep)
        # A window that begins inside a transaction goes on with what a stream had left.
        if self.loop.boundary < base + start and not self.loop.trx_open:
            self.loop.boundary = base + start

    def enter(self, buffer):
        """Walk the events of an unpacked event; they keep the outer event's position."""
        if self.loop.windows[1].held:
            PyBuffer_Release(&self.loop.windows[1].view)
            self.loop.windows[1].held = False
        self.open_window(1, buffer, self.loop.event_position, 0, True)
        self.loop.depth = 1

    def leave(self):
        """Back to the outer log."""
        if self.loop.windows[1].held:
            PyBuffer_Release(&self.loop.windows[1].view)
            self.loop.windows[1].held = False
        self.loop.depth = 0
        if not self.loop.trx_open:
            self.loop.boundary = next_position(&self.loop)

    cdef int open_window(self, int depth, buffer, uint64_t base, size_t start, bint copies) except -1:
        cdef window_t* window = &self.loop.windows[depth]
        PyObject_GetBuffer(buffer, &window.view, PyBUF_SIMPLE)
        window.held = True
        window.data = <const uint8_t*> window.view.buf
        window.base = base
        window.copies = copies
        window.cur = cursor_over(window.data, <size_t> window.view.len)
        if start > <size_t> window.view.len:
            raise ValueError("start lies behind the buffer")
        skip(&window.cur, start)
        return 0

    cdef void drop_windows(self) noexcept:
        cdef int i
        for i in range(2):
            if self.loop.windows[i].held:
                PyBuffer_Release(&self.loop.windows[i].view)
                self.loop.windows[i].held = False
        self.loop.depth = 0

    def add_plan(self, bytes ops not None, *, uint32_t image_len, uint32_t record_len, json_columns=(),
                 bint wanted=True, bint raw=False, bytes nullable=None, bint compressed=False):
        """A plan, for definitions to be added.

        Parameters
        ----------
        ops : bytes
            One item of OP_DTYPE per column.
        image_len, record_len : int
            Bytes of the record's image group, and of the whole record.
        json_columns : sequence of int
            Indexes of the table's JSON columns.
        wanted, raw : bool
            Rows are decoded at all; rows are given as spans of undecoded bytes.
        nullable : bytes or None
            Not zero for each column that can be NULL, for rows of version 0; None: all.
        compressed : bool
            Some values are: `take_group` tells its batches apart.

        Returns
        -------
        int
            Index of the plan.
        """
        cdef uint32_t n = <uint32_t> (len(ops) // sizeof(op_t))
        cdef plan_t* plan
        cdef plan_t** plans
        cdef uint32_t capacity
        cdef uint32_t i
        if <size_t> len(ops) != n * sizeof(op_t) or (nullable is not None and len(nullable) != n):
            raise ValueError(f"{len(ops)} bytes of operations")
        if self.loop.plan_count == self.loop.plan_capacity:
            capacity = self.loop.plan_capacity * 2 if self.loop.plan_capacity else 32
            plans = <plan_t**> realloc(self.loop.plans, capacity * sizeof(plan_t*))
            if plans == NULL:
                raise MemoryError
            self.loop.plans = plans
            self.loop.plan_capacity = capacity
        if raw and record_len != image_len + sizeof(span_t):
            raise ValueError(f"records of {record_len} bytes of a table that cannot be decoded")
        if wanted and not raw:
            check_ops(<const op_t*> <const char*> ops, n, image_len, record_len)
        if any([not 0 <= column < n for column in json_columns]):
            raise ValueError(f"JSON columns {json_columns} of {n}")
        plan = <plan_t*> calloc(1, sizeof(plan_t))
        if plan == NULL:
            raise MemoryError
        plan.column_count = n
        plan.bitmap_len = (n + 7) // 8
        plan.image_len = image_len
        plan.record_len = record_len
        plan.wanted = wanted
        plan.raw = raw
        plan.compressed = compressed
        plan.ops = <op_t*> malloc((n if n else 1) * sizeof(op_t))
        plan.nullable = <uint8_t*> malloc(n + 1)
        plan.json_count = <uint32_t> len(json_columns)
        plan.json_columns = <uint16_t*> malloc((plan.json_count + 1) * sizeof(uint16_t))
        if plan.ops == NULL or plan.json_columns == NULL or plan.nullable == NULL:
            free_plan(plan)
            raise MemoryError
        memcpy(plan.ops, <const char*> ops, n * sizeof(op_t))
        if nullable is None:
            memset(plan.nullable, 1, n)
        else:
            memcpy(plan.nullable, <const char*> nullable, n)
        for i in range(plan.json_count):
            plan.json_columns[i] = json_columns[i]
        self.loop.plans[self.loop.plan_count] = plan
        self.loop.plan_count += 1
        return self.loop.plan_count - 1

    def add_definition(self, uint32_t plan, Definition definition=None, *, bint shared=False):
        """The definition that `run` came back with RUN_TABLE for.

        Parameters
        ----------
        plan : int
            Index of its plan.
        definition : Definition or None
            What batches of it are given as theirs; None: there will be none.
        shared : bool
            Whatever comes with the same shape has the same plan, too, and need not be asked for.

        Returns
        -------
        int
            Index of its shape.
        """
        cdef table_cache_t* tables = &self.loop.tables
        cdef content_t* content = &self.loop.pending
        cdef uint32_t shape
        cdef uint32_t index
        if plan >= self.loop.plan_count or content.data == NULL:
            raise ValueError("no plan, or no definition was asked for")
        if definition is not None and definition.dtype.itemsize != self.loop.plans[plan].record_len:
            raise ValueError(
                f"records of {definition.dtype.itemsize} bytes: the plan makes {self.loop.plans[plan].record_len}"
            )
        shape = find_shape(tables, content)
        if shape == NO_TABLE:
            shape = add_shape(tables, content, NO_TABLE)
            if shape == NO_TABLE:
                raise MemoryError
            self.shapes.append(definition)
        if shared:
            tables.shapes[shape].plan = plan
        index = add_definition(tables, content, shape, plan, self.loop.plans[plan].column_count)
        if index == NO_TABLE or set_table_id(tables, self.loop.pending_id, index) != DECODE_OK:
            raise MemoryError
        self.definitions.extend([None] * (<Py_ssize_t> index - len(self.definitions)))
        self.definitions.append(definition)
        content.data = NULL
        return shape

    def drop_plans(self):
        """Forget every plan and table id: definitions changed, or too many are idle. Take the group first."""
        cdef uint32_t i
        if self.loop.group_records:
            raise ValueError("the group must be taken before")
        for i in range(self.loop.batch_count):       # of rows that could not be decoded
            release_batch(&self.loop.batches[i])
        self.loop.batch_count = 0
        release_chunks(&self.loop)
        free_cache(&self.loop.tables)
        self.shapes.clear()
        self.definitions.clear()
        for i in range(self.loop.plan_count):
            free_plan(self.loop.plans[i])
        self.loop.plan_count = 0

    # ------------------------------------------------------------ what Python asks

    @property
    def position(self):
        """Position in the file of the next event (of the outer one inside a payload)."""
        return next_position(&self.loop) if not self.loop.depth else self.loop.event_position

    @property
    def wire_walked(self):
        """Bytes of the outer log that were walked over."""
        return self.loop.wire_walked

    @property
    def rows_at_once(self):
        """Rows so far that were decoded many at a time, since all of an event had the same length: for tests."""
        return self.loop.rows_at_once

    @property
    def event_position(self):
        """Of the event at hand, or of the one that it is packed in."""
        return self.loop.event_position

    @property
    def doubtful_position(self):
        """Of the event before the one at hand, if it told no position; else of this one."""
        return self.loop.doubtful_position

    @property
    def without_map(self):
        """The event at hand is a rows event whose table map was not seen."""
        return self.loop.without_map

    @property
    def table_maps(self):
        """Table maps in this transaction so far."""
        return self.loop.table_maps

    @property
    def has_room(self):
        """One more definition may be added."""
        return has_room(&self.loop)

    @property
    def definition_count(self):
        """Definitions that are kept."""
        return self.loop.tables.definition_count

    def definitions_of(self, uint32_t shape):
        """How many of the definitions kept are of a shape."""
        if shape >= self.loop.tables.shape_count:
            raise IndexError(shape)
        return self.loop.tables.shapes[shape].count

    @property
    def left(self):
        """Bytes of the inner window not walked over, or of the outer one."""
        return remaining(&self.loop.windows[self.loop.depth].cur)

    @property
    def resume_position(self):
        """The last transaction boundary: nothing before it is needed again."""
        return self.loop.boundary

    @property
    def open_records(self):
        """Records so far of the transaction at hand, in this group and those before; 0 between two."""
        return self.loop.records_taken + self.loop.group_records - self.loop.records_before if self.loop.trx_open else 0

    def take_gtids(self):
        """The GTIDs of the transactions begun since the last call, as runs (gtid_run_t), as bytes."""
        cdef bytes out = self.loop.gtid_runs.data[:self.loop.gtid_runs.length]
        self.loop.gtid_runs.length = 0
        return out

    @property
    def in_transaction(self):
        return self.loop.trx_open

    @property
    def transaction_position(self):
        """Where the transaction of the event at hand begins, which the event may have ended; else the event."""
        if self.loop.trx_open or self.loop.trx.end_position == next_position(&self.loop):
            return self.loop.trx.begin_position
        return self.loop.event_position

    @property
    def has_news(self):
        """There are records, or the end of a transaction whose last records went with an earlier group."""
        return self.loop.group_records > 0 or (self.loop.transactions.length > 0 and not self.loop.trx_open)

    @property
    def records(self):
        """Records in the group that now fills."""
        return self.loop.group_records

    @property
    def is_selected(self):
        """Whether rows of the event at hand would be read, as far as its header and its transaction tell."""
        cdef const event_header_t* header = &self.loop.header
        return not self.loop.skip_transaction and header.timestamp >= self.loop.start_timestamp and (
            self.loop.server_id < 0 or header.server_id == <uint32_t> self.loop.server_id)

    @property
    def row_in_event(self):
        """Number, within the outer event, of the next row."""
        return self.loop.row_in_event

    @property
    def event_type(self):
        return self.loop.header.type_code

    @property
    def event_flags(self):
        return self.loop.header.flags

    @property
    def event_length(self):
        return self.loop.header.event_length

    @property
    def event_timestamp(self):
        return self.loop.header.timestamp

    def event_bytes(self):
        """The whole event at hand, checksum included, as bytes."""
        return self.loop.event[:self.loop.header.event_length]

    def event_body(self):
        """The event at hand without its header and checksum, as bytes."""
        return self.loop.body.pos[:remaining(&self.loop.body)]

    def query(self):
        """(database, statement) of the QUERY_EVENT at hand, as bytes."""
        cdef Cursor text
        cdef Cursor body
        cdef uint32_t post_header_len = self.loop.descriptor.post_header_len[<int> QUERY_EVENT]
        cdef uint32_t before = post_header_len
        body = self.loop.body
        if not take_query_text(&body, post_header_len, &text):
            return b"", b""
        if post_header_len >= 13:
            before += load_u16(self.loop.body.pos + 11)
        body = self.loop.body
        return body.pos[before:before + body.pos[8]], text.pos[:remaining(&text)]

    def gtid(self):
        """(gtid_kind, uuid, tag, domain_id, server_id, sequence_number) of the transaction at hand."""
        return (self.loop.trx.gtid_kind, (<uint8_t*> self.loop.trx.uuid)[:16], (<uint8_t*> self.loop.trx.tag)[:32],
                self.loop.trx.domain_id, self.loop.trx.server_id, self.loop.trx.sequence_number)

    def end_statement(self):
        """The event at hand was a statement by itself: unless in a transaction, it ends one."""
        if self.loop.trx_open and not self.loop.trx_explicit:
            end_transaction(&self.loop, OUTCOME_COMMITTED)
            if not self.loop.depth:
                self.loop.boundary = next_position(&self.loop)

    def break_off(self):
        """Bytes are lost here: what was open will never end, and table ids may mean other tables."""
        self.loop.trx_open = False
        self.loop.trx_index = -1
        self.loop.trx = <transaction_t*> (self.loop.transactions.data + self.loop.transactions.length)
        begin_transaction(self.loop.trx, self.loop.event_position, self.loop.header.timestamp,
                          self.loop.header.server_id)
        self.loop.header.event_length = 0        # of no event before the next
        forget_table_ids(&self.loop.tables)

    def forget_table_maps(self):
        """Rows that follow need their TABLE_MAP again."""
        forget_table_ids(&self.loop.tables)

    def table_map(self):
        """(flags, body) of the table definition that `run` came back with."""
        cdef const content_t* content = &self.loop.pending
        return load_u16(content.data), content.data[content.before:content.length]

    def failure_info(self):
        """What went wrong when `run` came back with RUN_ERROR: a dict for errors.py."""
        return {
            "status": STATUS_NAMES.get(self.loop.failure.status, "malformed"),
            "what": (<bytes> self.loop.failure.what).decode() if self.loop.failure.what != NULL else "",
            "position": self.loop.failure.position,
            "type_code": self.loop.failure.type_code,
            "definition": (None if self.loop.failure.definition == NO_TABLE
                           else self.definition(self.loop.failure.definition)),
            "column": self.loop.failure.column,
            "row": self.loop.failure.row,
        }

    cdef Definition definition(self, uint32_t index):
        # As it was added, or made like the first of its shape
        cdef const definition_t* known = &self.loop.tables.definitions[index]
        cdef uint32_t before = self.loop.tables.shapes[known.shape].before
        cdef const uint8_t* head = self.loop.tables.texts.data + known.at
        cdef Definition out = None
        if <Py_ssize_t> index < len(self.definitions):
            out = <Definition> self.definitions[index]
        else:
            self.definitions.extend([None] * (self.loop.tables.definition_count - len(self.definitions)))
        if out is None and self.shapes[known.shape] is not None:
            out = definition_of(<Definition> self.shapes[known.shape], head[before:known.head_len])
            self.definitions[index] = out
        return out

    def take_group(self, type kind not None, buffer, path):
        """Hand over what was gathered, and begin anew.

        Parameters
        ----------
        kind : type
            A subclass of Records.
        buffer : bytes-like
            What spans point into that were not copied.
        path : str

        Returns
        -------
        (batches, special, transactions)
            batches: list of `kind`; special: indexes of those that have invalid dates or are of a plan with
            compressed columns; transactions: array of TRANSACTION_DTYPE.
        """
        cdef batch_t* batch
        cdef definition_t* definition
        cdef Records records
        cdef uint32_t i
        cdef list out = []
        cdef list special = []
        cdef list chunks = []
        cdef uint32_t batch_count = self.loop.batch_count
        cdef transaction_t trx = self.loop.trx[0]
        if not issubclass(kind, Records):
            raise TypeError(f"{kind.__name__} is not a subclass of Records")
        self.loop.transactions_before = self.loop.transactions.length + self.loop.transactions.length // 8
        transactions = np.frombuffer(take_memory(&self.loop.transactions), TRANSACTION_DTYPE)
        self.loop.trx_index = -1
        if new_transactions(&self.loop) != DECODE_OK:
            raise MemoryError
        self.loop.trx[0] = trx
        if self.loop.trx_open and self.loop.trx_has_rows:
            # Its end will be told in a later group, whether more rows come or not.
            if note_transaction(&self.loop) != DECODE_OK:
                raise MemoryError
        for i in range(self.loop.chunk_count):
            chunks.append(take_memory(&self.loop.chunks[i]))
        self.loop.chunk_count = 0
        self.loop.batch_count = 0
        self.loop.records_taken += self.loop.group_records
        self.loop.group_records = 0
        self.loop.group_wire = 0
        self.loop.group_memory = 0
        for i in range(batch_count):
            batch = &self.loop.batches[i]
            definition = &self.loop.tables.definitions[batch.definition]
            definition.batch[batch.copies] = -1
            definition.last_count = batch.count
            if batch.count:
                records = <Records> (<PyTypeObject*> kind).tp_new(kind, (), NULL)
                records.definition = self.definition(batch.definition)
                records.columns = records.definition.columns
                records.buffer = take_memory(&batch.heap) if batch.copies else buffer
                records.transactions = transactions
                records.path = path
                records.arrow_bytes = self.arrow_bytes
                records.count = batch.count
                if batch.records.lent:
                    records.memory = <Memory> chunks[batch.chunk]
                    records.data = records.memory.data + batch.chunk_offset
                else:
                    records.memory = take_memory(&batch.records)
                    records.data = records.memory.data
                records.invalid = NO_INVALID_DATES
                records.json_diffs = NO_JSON_DIFFS
                if batch.invalid_dates.length:
                    records.invalid = np.frombuffer(take_memory(&batch.invalid_dates), INVALID_DATE_DTYPE)
                if batch.json_diffs.length:
                    records.json_diffs = np.frombuffer(take_memory(&batch.json_diffs), JSON_DIFF_DTYPE)
                out.append(records)
                if len(<cnp.ndarray> records.invalid) or self.loop.plans[definition.plan].compressed:
                    special.append(len(out) - 1)
            release_batch(batch)
        return out, special, transactions

    def run(self):
        """Walk on until something is to be told: MORE, GROUP, TABLE, EVENT, STOP, ERROR or PAUSE."""
        cdef int status
        with nogil:
            status = self.walk()
        return status

    cdef int walk(self) noexcept nogil:
        return walk_events(&self.loop)
