"""The hot loop: events and rows of a buffer into structured arrays, without the GIL.

A Decoder walks one log. `run` comes back when a group of batches is full, a table is new, or
an event needs Python; between those it holds no Python object. What it gathers is taken over
by `take_group`.
"""

import numpy as np

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.pythread cimport PyThread_allocate_lock
from libc.stdint cimport UINT64_MAX, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy, memset

from _anchor cimport is_anchor
from _batch cimport *
from _checksum cimport binlog_crc32_best, binlog_crc_t
from _codes cimport *
from _cursor cimport (
    Cursor, cursor_over, load_u16, load_u32, load_u48, prefetch, remaining, skip, take_lenenc,
)
from _event_header cimport checksum_holds_with, descriptor_t, event_header_t, position_agrees, take_event
from _image_set cimport fill_image_set
from _memory cimport *
from _plan cimport *
from _row_image cimport copy_over, decode_row_image, decode_row_image_v0
from _table_cache cimport *
from _temporal cimport fill_calendar
from _transactions cimport *

from .batch import INVALID_DATE_DTYPE, JSON_DIFF_DTYPE, TRANSACTION_DTYPE
from .column_types import SPAN_DTYPE

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

fill_calendar()

assert OP_DTYPE.itemsize == sizeof(op_t)
assert TRANSACTION_DTYPE.itemsize == sizeof(transaction_t)
assert INVALID_DATE_DTYPE.itemsize == sizeof(invalid_date_t)
assert JSON_DIFF_DTYPE.itemsize == sizeof(json_diff_t)
assert SPAN_DTYPE.itemsize == sizeof(span_t)

# Why run() came back.
cdef enum run_status_t:
    RUN_MORE = 0            # the window ends, maybe inside an event: feed more
    RUN_GROUP = 1           # a group is full: take it
    RUN_TABLE = 2           # a table definition not seen before: add its plan, run again
    RUN_EVENT = 3           # an event for Python; it is consumed
    RUN_STOP = 4            # the stop position or time is reached
    RUN_ERROR = 5           # see error()
    RUN_PAUSE = 6           # nothing: a chance for signals

MORE, GROUP, TABLE, EVENT, STOP, ERROR, PAUSE = range(7)
STATUS_NAMES = {
    DECODE_TRUNCATED: "truncated", DECODE_MALFORMED: "malformed", DECODE_CHECKSUM: "checksum",
    DECODE_NO_MEMORY: "no memory", DECODE_BAD_VALUE: "bad value",
}

cdef enum:
    PREFETCH = 1024                 # bytes ahead
    MAX_TABLE_IDS = 1 << 20         # kept; one transaction has room for half as many at least
    PAUSE_BYTES = 64 << 20          # of log walked over between two chances for Ctrl-C
    DUMMY_TABLE_ID = 0x00FFFFFF     # ends a statement that changed no row
    IMAGE_LEN = 25                  # up to the NULL bitmap
    PARTIAL_JSON_UPDATES = 1        # bit of value_options


cdef packed struct image_t:         # twin of the fixed part of image_dtype
    uint8_t op
    uint32_t timestamp
    uint32_t server_id
    uint64_t position
    uint32_t row
    uint32_t transaction

assert sizeof(image_t) == IMAGE_LEN


cdef inline void put_image(uint8_t* record, const image_t* image, uint8_t op, uint32_t row,
                           const plan_t* plan, const image_set_t* images) noexcept nogil:
    # Field by field: a copy of the whole would wait for the stores that made it.
    cdef image_t* out = <image_t*> record
    out.op = op
    out.timestamp = image.timestamp
    out.server_id = image.server_id
    out.position = image.position
    out.row = row
    out.transaction = image.transaction
    memcpy(record + IMAGE_LEN, images.bitmaps, 16)
    if plan.bitmap_len > 8:
        copy_over(record + IMAGE_LEN + 16, images.bitmaps + 16, 2 * plan.bitmap_len - 16)


cdef struct error_t:
    int status
    uint64_t position
    uint8_t type_code
    uint32_t plan
    uint32_t column
    uint64_t row
    const char* what


cdef inline bint is_rows_v0(uint8_t kind) noexcept nogil:
    return PRE_GA_WRITE_ROWS_EVENT <= kind <= PRE_GA_DELETE_ROWS_EVENT


cdef inline bint is_rows_event(uint8_t kind) noexcept nogil:
    return (WRITE_ROWS_EVENT_V1 <= kind <= DELETE_ROWS_EVENT_V1 or WRITE_ROWS_EVENT <= kind <= DELETE_ROWS_EVENT
            or kind == PARTIAL_UPDATE_ROWS_EVENT)


cdef pool_t POOL
POOL.lock = PyThread_allocate_lock()
if POOL.lock == NULL:
    raise MemoryError


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
    # Hands the block over, or a copy where less than half of it is used.
    cdef Memory out = Memory.__new__(Memory)
    cdef uint8_t* data
    if memory.length < memory.capacity // 2:
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


cdef struct window_t:               # the bytes at hand
    Py_buffer view
    bint held
    const uint8_t* data
    Cursor cur
    uint64_t base                   # position in the file of data[0]
    bint copies                     # data goes before the batches do


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
    verify : bool
        Compare the CRC32 of every event, where the log has them.

    The caller (binlog_core/reader.py) gives the descriptor with `set_format`, bytes with `feed`,
    and plans with `add_plan`, and turns what `run` says into Python.
    """

    cdef descriptor_t descriptor
    cdef descriptor_t plain             # of events inside a compressed payload
    cdef window_t[2] windows            # [1]: inside an event of [0]
    cdef int depth
    cdef bint verify
    cdef binlog_crc_t crc
    cdef table_cache_t tables
    cdef plan_t** plans
    cdef uint32_t plan_count
    cdef uint32_t plan_capacity
    # the group
    cdef batch_t* batches
    cdef uint32_t batch_count
    cdef uint32_t batch_capacity
    cdef int32_t* batch_of_plan         # [2 * plan + copies], -1 none
    cdef uint64_t group_records
    cdef uint64_t group_wire
    cdef uint64_t group_memory
    cdef uint64_t max_group_records
    cdef uint64_t max_group_wire
    cdef uint64_t max_group_memory
    cdef uint64_t max_event_memory      # of records out of one event
    cdef memory_t transactions
    cdef readonly uint64_t wire_walked
    # the transaction that events now belong to
    cdef transaction_t* trx             # in transactions, the last one or the free place behind it
    cdef bint trx_open
    cdef bint trx_explicit              # BEGIN was seen: only COMMIT, ROLLBACK, XID or XA end it
    cdef int64_t trx_index              # in transactions; -1: has no row in this group
    cdef bint trx_has_rows
    cdef readonly uint32_t table_maps   # in this transaction so far
    cdef public bint skip_transaction   # rows are stepped over until the next transaction
    # what to leave out
    cdef public bint gtids_to_python
    cdef public bint queries_to_python
    cdef public uint64_t stop_position
    cdef public int stop_anchor         # anchor_t: stop at the first of these at or behind stop_position; 0: any event
    cdef public bint check_positions    # an event that does not end where it says is an error
    cdef public uint64_t start_timestamp
    cdef public uint64_t stop_timestamp
    cdef public int64_t server_id       # -1: all
    cdef public bint rows_v0            # decode them as far as the format allows
    cdef public uint32_t op_mask        # bit 1 insert, 2 update, 4 delete
    # the event at hand
    cdef event_header_t header
    cdef const uint8_t* event
    cdef Cursor body
    cdef Cursor query_body
    cdef readonly uint64_t event_position
    cdef readonly uint64_t doubtful_position    # of the event before, if it told no position; else of this one
    cdef readonly bint without_map      # the event is a rows event whose table map was not seen
    cdef uint64_t pending_id
    cdef Cursor pending
    cdef uint32_t row_in_event          # of the outer event
    cdef uint64_t boundary
    cdef error_t failure
    cdef size_t transactions_before     # bytes that the last group had of them
    cdef memory_t tail                  # a copy of rows at the end of a buffer

    def __cinit__(self, *, uint64_t group_rows=65536, uint64_t group_bytes=16 << 20,
                  uint64_t group_memory=4 << 20, uint64_t record_bytes=1 << 30, bint verify=True):
        self.max_group_records = group_rows
        self.max_group_wire = group_bytes
        self.max_group_memory = group_memory
        self.max_event_memory = record_bytes
        self.verify = verify
        self.trx_index = -1
        self.server_id = -1
        self.op_mask = 7
        self.stop_position = UINT64_MAX
        self.stop_timestamp = UINT64_MAX
        self.queries_to_python = True
        self.plain.header_len = 19
        for i in range(256):
            self.plain.canonical[i] = <uint8_t> i
        self.crc = binlog_crc32_best()
        if self.new_transactions() != DECODE_OK:
            raise MemoryError

    def __dealloc__(self):
        cdef uint32_t i
        self.drop_windows()
        free_cache(&self.tables)
        for i in range(self.plan_count):
            free_plan(self.plans[i])
        free(self.plans)
        for i in range(self.batch_count):
            release_batch(&self.batches[i])
        free(self.batches)
        free(self.batch_of_plan)
        release(&self.transactions)
        release(&self.tail)

    # ------------------------------------------------------------ what Python gives

    def set_format(self, uint32_t header_length, const uint8_t[::1] post_header_lengths,
                   const uint8_t[::1] canonical, bint checksum):
        """Take a descriptor's lengths and numbering; table ids seen before mean nothing now."""
        if post_header_lengths.shape[0] != 256 or canonical.shape[0] != 256:
            raise ValueError("256 entries expected")
        self.descriptor.header_len = header_length
        self.descriptor.checksum_len = 4 if checksum else 0
        memcpy(self.descriptor.post_header_len, &post_header_lengths[0], 256)
        memcpy(self.descriptor.canonical, &canonical[0], 256)
        memcpy(self.plain.post_header_len, &post_header_lengths[0], 256)
        forget_table_ids(&self.tables)

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
        if self.boundary < base + start and not self.trx_open:
            self.boundary = base + start

    def enter(self, buffer):
        """Walk the events of an unpacked event; they keep the outer event's position."""
        if self.windows[1].held:
            PyBuffer_Release(&self.windows[1].view)
            self.windows[1].held = False
        self.open_window(1, buffer, self.event_position, 0, True)
        self.depth = 1

    def leave(self):
        """Back to the outer log."""
        if self.windows[1].held:
            PyBuffer_Release(&self.windows[1].view)
            self.windows[1].held = False
        self.depth = 0
        if not self.trx_open:
            self.boundary = self.next_position()

    cdef int open_window(self, int depth, buffer, uint64_t base, size_t start, bint copies) except -1:
        cdef window_t* window = &self.windows[depth]
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
            if self.windows[i].held:
                PyBuffer_Release(&self.windows[i].view)
                self.windows[i].held = False
        self.depth = 0

    def add_plan(self, bytes ops not None, *, uint32_t image_len, uint32_t record_len, json_columns=(),
                 bint wanted=True, bint raw=False, bytes nullable=None):
        """The plan of the table definition that `run` came back with RUN_TABLE for.

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

        Returns
        -------
        int
            Index of the plan.
        """
        cdef uint32_t n = <uint32_t> (len(ops) // sizeof(op_t))
        cdef plan_t* plan
        cdef plan_t** plans
        cdef int32_t* slots
        cdef uint32_t capacity
        cdef uint32_t i
        if len(ops) != n * sizeof(op_t) or (nullable is not None and len(nullable) != n):
            raise ValueError(f"{len(ops)} bytes of operations")
        if self.plan_count == self.plan_capacity:
            capacity = self.plan_capacity * 2 if self.plan_capacity else 32
            plans = <plan_t**> realloc(self.plans, capacity * sizeof(plan_t*))
            if plans == NULL:
                raise MemoryError
            self.plans = plans
            slots = <int32_t*> realloc(self.batch_of_plan, 2 * <size_t> capacity * sizeof(int32_t))
            if slots == NULL:
                raise MemoryError
            self.batch_of_plan = slots
            self.plan_capacity = capacity
        plan = <plan_t*> calloc(1, sizeof(plan_t))
        if plan == NULL:
            raise MemoryError
        plan.column_count = n
        plan.bitmap_len = (n + 7) // 8
        plan.image_len = image_len
        plan.record_len = record_len
        plan.wanted = wanted
        plan.raw = raw
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
        self.plans[self.plan_count] = plan
        self.batch_of_plan[2 * self.plan_count] = -1
        self.batch_of_plan[2 * self.plan_count + 1] = -1
        self.plan_count += 1
        if self.pending.pos != NULL:
            length = <uint32_t> remaining(&self.pending)
            if (add_content(&self.tables, hash_bytes(self.pending.pos, length), self.pending.pos, length,
                            self.plan_count - 1) != DECODE_OK
                    or set_table_id(&self.tables, self.pending_id, self.tables.content_count - 1) != DECODE_OK):
                raise MemoryError
            self.pending.pos = NULL
        return self.plan_count - 1

    def drop_plans(self):
        """Forget every plan and table id: definitions changed, or too many are idle. Take the group first."""
        cdef uint32_t i
        if self.group_records:
            raise ValueError("the group must be taken before")
        for i in range(self.batch_count):       # of rows that could not be decoded
            release_batch(&self.batches[i])
        self.batch_count = 0
        free_cache(&self.tables)
        for i in range(self.plan_count):
            free_plan(self.plans[i])
        self.plan_count = 0

    # ------------------------------------------------------------ what Python asks

    @property
    def position(self):
        """Position in the file of the next event (of the outer one inside a payload)."""
        return self.next_position() if not self.depth else self.event_position

    cdef uint64_t next_position(self) noexcept nogil:
        return self.windows[0].base + <uint64_t> (self.windows[0].cur.pos - self.windows[0].data)

    @property
    def left(self):
        """Bytes of the inner window not walked over, or of the outer one."""
        return remaining(&self.windows[self.depth].cur)

    @property
    def resume_position(self):
        """The last transaction boundary: nothing before it is needed again."""
        return self.boundary

    @property
    def in_transaction(self):
        return self.trx_open

    @property
    def transaction_position(self):
        """Where the transaction of the event at hand begins, which the event may have ended; else the event."""
        if self.trx_open or self.trx.end_position == self.next_position():
            return self.trx.begin_position
        return self.event_position

    @property
    def has_news(self):
        """There are records, or the end of a transaction whose last records went with an earlier group."""
        return self.group_records > 0 or (self.transactions.length > 0 and not self.trx_open)

    @property
    def records(self):
        """Records in the group that now fills."""
        return self.group_records

    @property
    def event_type(self):
        return self.header.type_code

    @property
    def event_flags(self):
        return self.header.flags

    @property
    def event_length(self):
        return self.header.event_length

    @property
    def event_timestamp(self):
        return self.header.timestamp

    def event_bytes(self):
        """The whole event at hand, checksum included, as bytes."""
        return self.event[:self.header.event_length]

    def event_body(self):
        """The event at hand without its header and checksum, as bytes."""
        return self.body.pos[:remaining(&self.body)]

    def query(self):
        """(database, statement) of the QUERY_EVENT at hand, as bytes."""
        cdef Cursor text
        cdef Cursor body
        cdef uint32_t post_header_len = self.descriptor.post_header_len[<int> QUERY_EVENT]
        cdef uint32_t before = post_header_len
        body = self.query_body
        if not take_query_text(&body, post_header_len, &text):
            return b"", b""
        if post_header_len >= 13:
            before += load_u16(self.query_body.pos + 11)
        return self.query_body.pos[before:before + self.query_body.pos[8]], text.pos[:remaining(&text)]

    def gtid(self):
        """(gtid_kind, uuid, tag, domain_id, server_id, sequence_number) of the transaction at hand."""
        return (self.trx.gtid_kind, (<uint8_t*> self.trx.uuid)[:16], (<uint8_t*> self.trx.tag)[:32],
                self.trx.domain_id, self.trx.server_id, self.trx.sequence_number)

    def end_statement(self):
        """The event at hand was a statement by itself: unless in a transaction, it ends one."""
        if self.trx_open and not self.trx_explicit:
            self.end_transaction(OUTCOME_COMMITTED)
            if not self.depth:
                self.boundary = self.next_position()

    def break_off(self):
        """Bytes are lost here: what was open will never end, and table ids may mean other tables."""
        self.trx_open = False
        self.trx_index = -1
        self.trx = <transaction_t*> (self.transactions.data + self.transactions.length)
        begin_transaction(self.trx, self.event_position, self.header.timestamp, self.header.server_id)
        self.header.event_length = 0        # of no event before the next
        forget_table_ids(&self.tables)

    def forget_table_maps(self):
        """Rows that follow need their TABLE_MAP again."""
        forget_table_ids(&self.tables)

    def table_map(self):
        """(flags, body) of the table definition that `run` came back with."""
        cdef uint32_t n = self.post_header_len(TABLE_MAP_EVENT)
        cdef uint32_t before = n - (4 if n < 8 else 6)         # flags, and what we do not know
        return load_u16(self.pending.pos), self.pending.pos[before:remaining(&self.pending)]

    def failure_info(self):
        """What went wrong when `run` came back with RUN_ERROR: a dict for errors.py."""
        return {
            "status": STATUS_NAMES.get(self.failure.status, "malformed"),
            "what": (<bytes> self.failure.what).decode() if self.failure.what != NULL else "",
            "position": self.failure.position,
            "type_code": self.failure.type_code,
            "plan": None if self.failure.plan == NO_TABLE else self.failure.plan,
            "column": self.failure.column,
            "row": self.failure.row,
        }

    def take_group(self):
        """Hand over what was gathered, and begin anew.

        Returns
        -------
        (batches, transactions)
            batches: list of (plan index, count, records, heap or None, invalid dates, JSON diffs), where
            records is bytes-like and the last two are arrays or None; transactions: array of TRANSACTION_DTYPE.
        """
        cdef batch_t* batch
        cdef uint32_t i
        cdef list out = []
        for i in range(self.batch_count):
            batch = &self.batches[i]
            self.batch_of_plan[2 * batch.plan + batch.copies] = -1
            self.plans[batch.plan].last_count = batch.count
            if batch.count:
                out.append((
                    batch.plan,
                    batch.count,
                    take_memory(&batch.records),
                    take_memory(&batch.heap) if batch.copies else None,
                    self.side_list(&batch.invalid_dates, INVALID_DATE_DTYPE),
                    self.side_list(&batch.json_diffs, JSON_DIFF_DTYPE),
                ))
            release_batch(batch)
        self.batch_count = 0
        self.group_records = 0
        self.group_wire = 0
        self.group_memory = 0
        self.transactions_before = self.transactions.length + self.transactions.length // 8
        cdef transaction_t trx = self.trx[0]
        transactions = np.frombuffer(take_memory(&self.transactions), TRANSACTION_DTYPE)
        self.trx_index = -1
        if self.new_transactions() != DECODE_OK:
            raise MemoryError
        self.trx[0] = trx
        if self.trx_open and self.trx_has_rows:
            # Its end will be told in a later group, whether more rows come or not.
            if self.note_transaction() != DECODE_OK:
                raise MemoryError
        return out, transactions

    cdef object side_list(self, memory_t* memory, object dtype):
        # Mostly empty, and then nothing is allocated for it.
        return np.frombuffer(take_memory(memory), dtype) if memory.length else None

    def run(self):
        """Walk on until something is to be told: MORE, GROUP, TABLE, EVENT, STOP, ERROR or PAUSE."""
        cdef int status
        with nogil:
            status = self.walk()
        return status

    # ------------------------------------------------------------ the loop

    cdef int walk(self) noexcept nogil:
        cdef window_t* window = &self.windows[self.depth]
        cdef const descriptor_t* descriptor = &self.plain if self.depth else &self.descriptor
        cdef Cursor* cur = &window.cur
        cdef const uint8_t* start = cur.pos
        cdef const uint8_t* limit = cur.end         # where to stop or to pause
        cdef event_header_t header = self.header    # at first of the event before
        cdef bint inside = self.depth != 0
        cdef bint verify = self.verify and descriptor.checksum_len != 0
        cdef bint check_positions = self.check_positions and not inside
        cdef int anchor = 0 if inside else self.stop_anchor
        cdef uint64_t stop_timestamp = UINT64_MAX if inside else self.stop_timestamp
        cdef int status = RUN_MORE
        cdef uint8_t kind
        if remaining(cur) > PAUSE_BYTES:
            limit = cur.pos + PAUSE_BYTES
        if not inside and not anchor and self.stop_position < window.base + <uint64_t> (limit - window.data):
            limit = window.data + (self.stop_position - window.base if self.stop_position > window.base else 0)
        while status == RUN_MORE and remaining(cur):
            self.event = cur.pos
            self.without_map = False
            if not inside:
                self.doubtful_position = self.event_position
                self.event_position = window.base + <uint64_t> (cur.pos - window.data)
                if header.next_position or not header.event_length:
                    self.doubtful_position = self.event_position
                self.row_in_event = 0
            if cur.pos >= limit:
                status = RUN_STOP if not inside and self.event_position >= self.stop_position else RUN_PAUSE
                break
            prefetch(cur.pos + PREFETCH)            # of many small events the next header is what we wait for
            status = take_event(cur, descriptor, &header, &self.body)
            kind = header.type_code
            if (check_positions and status != DECODE_MALFORMED
                    and not position_agrees(&header, self.event_position)):
                status = self.fail(DECODE_MALFORMED, NO_TABLE, b"the event does not end where it says")
                break
            if status != DECODE_OK:
                status = (RUN_MORE if status == DECODE_TRUNCATED
                          else self.fail(status, NO_TABLE, b"event_length is less than its header"))
                break
            if (anchor and self.event_position >= self.stop_position
                    and is_anchor(anchor, kind, self.body, descriptor.post_header_len[<int> QUERY_EVENT])):
                cur.pos = self.event
                status = RUN_STOP
                break
            if header.timestamp >= stop_timestamp and kind != FORMAT_DESCRIPTION_EVENT:
                cur.pos = self.event
                status = RUN_STOP
                break
            if (verify and kind != FORMAT_DESCRIPTION_EVENT and kind != START_EVENT_V3
                    and not checksum_holds_with(self.crc, self.event, header.event_length)):
                status = self.fail(DECODE_CHECKSUM, NO_TABLE, b"wrong checksum")
                break
            if kind == TABLE_MAP_EVENT:
                status = self.map_table()
                if status == RUN_TABLE:
                    cur.pos = self.event            # again, once its plan is there
                    break
            elif is_rows_event(kind) or (self.rows_v0 and is_rows_v0(kind)):
                status = self.decode_rows_event(kind, header.timestamp, header.server_id)
            else:
                status = self.note_event(kind)
            if not self.trx_open and not inside:
                self.boundary = self.next_position()
        self.header = header
        self.failure.type_code = header.type_code
        if not inside:
            self.wire_walked += <uint64_t> (cur.pos - start)
        return status

    cdef bint group_is_full(self) noexcept nogil:
        return (self.group_records >= self.max_group_records or self.group_memory >= self.max_group_memory
                or (self.group_wire >= self.max_group_wire
                    and (self.group_records != 0 or self.transactions.length != 0)))

    cdef int fail(self, int status, uint32_t plan, const char* what) noexcept nogil:
        self.failure.status = status
        self.failure.position = self.event_position
        self.failure.plan = plan
        self.failure.column = NO_TABLE
        self.failure.row = self.row_in_event
        self.failure.what = what
        return RUN_ERROR

    cdef uint32_t post_header_len(self, uint8_t kind) noexcept nogil:
        # Some servers advertise 0 for what they do not write themselves; the layout is known.
        cdef uint32_t n = self.descriptor.post_header_len[kind]
        if n == 0:
            n = 10 if kind >= WRITE_ROWS_EVENT else 8
        return n

    # ------------------------------------------------------------ events around rows

    cdef int note_event(self, uint8_t kind) noexcept nogil:
        cdef bint standalone = False
        if kind == XID_EVENT:
            if self.trx_open and remaining(&self.body) >= 8:
                self.trx.xid = load_u48(self.body.pos) | <uint64_t> load_u16(self.body.pos + 6) << 48
            self.end_transaction(OUTCOME_COMMITTED)
        elif (kind == GTID_EVENT or kind == ANONYMOUS_GTID_EVENT or kind == GTID_TAGGED_EVENT
              or kind == MARIADB_GTID_EVENT):
            self.begin(False)
            self.skip_transaction = False
            if kind == MARIADB_GTID_EVENT:
                if not decode_mariadb_gtid(&self.body, self.trx, &standalone):
                    return self.fail(DECODE_MALFORMED, NO_TABLE, b"GTID event too short")
                self.trx_explicit = not standalone      # it stands for BEGIN
            elif kind == GTID_TAGGED_EVENT:
                if not decode_gtid_tagged(&self.body, self.trx):
                    return self.fail(DECODE_MALFORMED, NO_TABLE, b"tagged GTID event cannot be read")
            elif not decode_gtid(&self.body, self.trx):
                return self.fail(DECODE_MALFORMED, NO_TABLE, b"GTID event too short")
            if kind == ANONYMOUS_GTID_EVENT:
                self.trx.gtid_kind = GTID_NONE
            if self.gtids_to_python:
                return RUN_EVENT
        elif kind == QUERY_EVENT:
            return self.note_query()
        elif kind == XA_PREPARE_EVENT:
            self.end_transaction(
                OUTCOME_COMMITTED if remaining(&self.body) and self.body.pos[0] else OUTCOME_XA_PREPARED
            )
        elif (kind == MARIADB_ANNOTATE_ROWS_EVENT or kind == ROWS_QUERY_EVENT or kind == INTVAR_EVENT
              or kind == RAND_EVENT or kind == USER_VAR_EVENT or kind == STOP_EVENT
              or kind == PREVIOUS_GTIDS_EVENT or kind == MARIADB_GTID_LIST_EVENT
              or kind == MARIADB_BINLOG_CHECKPOINT_EVENT or kind == HEARTBEAT_EVENT or kind == HEARTBEAT_EVENT_V2
              or kind == TRANSACTION_CONTEXT_EVENT or kind == VIEW_CHANGE_EVENT or kind == IGNORABLE_EVENT
              or kind == ROTATE_EVENT):
            pass
        else:
            if kind == FORMAT_DESCRIPTION_EVENT or kind == START_EVENT_V3:
                # A server starts here: what was open before will never end.
                self.trx_open = False
                self.trx_index = -1
            return RUN_EVENT
        return RUN_MORE

    cdef int note_query(self) noexcept nogil:
        cdef Cursor text
        cdef int kind
        self.query_body = self.body
        if self.descriptor.post_header_len[<int> QUERY_EVENT] == 0:
            return self.fail(DECODE_MALFORMED, NO_TABLE,
                             b"the format description lists no post-header length for this event type")
        if not take_query_text(&self.body, self.descriptor.post_header_len[<int> QUERY_EVENT], &text):
            return self.fail(DECODE_MALFORMED, NO_TABLE, b"query event too short for its lengths")
        kind = query_kind(&text)
        if kind == QUERY_BEGIN or kind == QUERY_XA_START:
            self.begin(True)
        elif kind == QUERY_COMMIT or kind == QUERY_XA_COMMIT:
            self.end_transaction(OUTCOME_COMMITTED)
        elif kind == QUERY_ROLLBACK or kind == QUERY_XA_ROLLBACK:
            self.end_transaction(OUTCOME_ROLLED_BACK)
        elif kind == QUERY_XA_PREPARE:
            self.end_transaction(OUTCOME_XA_PREPARED)
        elif kind == QUERY_OTHER:
            if self.trx_open and not self.trx_explicit:
                self.end_transaction(OUTCOME_COMMITTED)     # a statement by itself
            if self.queries_to_python:
                return RUN_EVENT
        return RUN_MORE

    cdef void begin(self, bint explicit) noexcept nogil:
        if explicit and self.trx_open and not self.trx_explicit:
            self.trx_explicit = True            # BEGIN behind its GTID
            return
        self.trx = <transaction_t*> (self.transactions.data + self.transactions.length)
        begin_transaction(self.trx, self.event_position, load_u32(self.event), load_u32(self.event + 5))
        self.trx_open = True
        self.trx_explicit = explicit
        self.trx_index = -1
        self.trx_has_rows = False
        self.table_maps = 0

    cdef void end_transaction(self, int outcome) noexcept nogil:
        if self.trx_open:
            self.trx.outcome = <uint8_t> outcome
            # Inside a payload the outer cursor already stands behind the outer event.
            self.trx.end_position = self.next_position()
        self.trx_open = False
        self.trx_explicit = False
        self.trx_index = -1

    cdef int new_transactions(self) noexcept nogil:
        self.transactions.pool = &POOL
        if reserve(&self.transactions, self.transactions_before + sizeof(transaction_t)) != DECODE_OK:
            return DECODE_NO_MEMORY
        self.trx = <transaction_t*> self.transactions.data
        return DECODE_OK

    cdef int note_transaction(self) noexcept nogil:
        # The open transaction has rows: it stays where it is, and there is room for the next
        cdef size_t at = self.transactions.length
        self.transactions.length += sizeof(transaction_t)
        if reserve(&self.transactions, sizeof(transaction_t)) != DECODE_OK:
            self.transactions.length = at
            return DECODE_NO_MEMORY
        self.trx = <transaction_t*> (self.transactions.data + at)
        self.trx_index = <int64_t> (at // sizeof(transaction_t))
        return DECODE_OK

    # ------------------------------------------------------------ tables and rows

    cdef int map_table(self) noexcept nogil:
        cdef uint32_t post_header_len = self.post_header_len(TABLE_MAP_EVENT)
        cdef uint32_t id_len = 4 if post_header_len < 8 else 6
        cdef content_t* known
        cdef uint64_t id
        cdef uint64_t hash
        cdef uint32_t length
        cdef uint32_t found
        if remaining(&self.body) < post_header_len or post_header_len < id_len + 2:
            return self.fail(DECODE_MALFORMED, NO_TABLE, b"table map event too short")
        if not self.trx_open:
            self.begin(True)            # the log, or our reading, starts inside a transaction
        self.table_maps += 1
        if self.table_maps == 1 and self.tables.id_count >= MAX_TABLE_IDS // 2:
            forget_table_ids(&self.tables)      # a new transaction says anew which tables it means
        id = load_u32(self.body.pos) if id_len == 4 else load_u48(self.body.pos)
        skip(&self.body, id_len)
        length = <uint32_t> remaining(&self.body)
        known = content_of_id(&self.tables, id)
        if known != NULL and known.length == length and memcmp(known.data, self.body.pos, length) == 0:
            return RUN_MORE
        hash = hash_bytes(self.body.pos, length)
        found = find_content(&self.tables, hash, self.body.pos, length)
        if found == NO_TABLE:
            self.pending = self.body
            self.pending_id = id
            return RUN_TABLE
        if self.tables.id_count >= MAX_TABLE_IDS:
            return self.fail(DECODE_MALFORMED, NO_TABLE, b"more table ids than one transaction can have")
        if set_table_id(&self.tables, id, found) != DECODE_OK:
            return self.fail(DECODE_NO_MEMORY, NO_TABLE, b"no memory")
        return RUN_MORE

    cdef batch_t* batch_for(self, uint32_t plan_index, bint copies) noexcept nogil:
        cdef int32_t index = self.batch_of_plan[2 * plan_index + copies]
        cdef batch_t* batches
        cdef uint32_t capacity
        cdef size_t guess
        if index >= 0:
            return &self.batches[index]
        if self.batch_count == self.batch_capacity:
            capacity = self.batch_capacity * 2 if self.batch_capacity else 32
            batches = <batch_t*> realloc(self.batches, capacity * sizeof(batch_t))
            if batches == NULL:
                return NULL
            self.batches = batches
            self.batch_capacity = capacity
        batches = &self.batches[self.batch_count]
        memset(batches, 0, sizeof(batch_t))
        batches.plan = plan_index
        batches.copies = copies
        batches.records.pool = &POOL
        batches.heap.pool = &POOL
        self.batch_of_plan[2 * plan_index + copies] = <int32_t> self.batch_count
        self.batch_count += 1
        # What the group before had is the best guess; a wrong one costs a realloc.
        guess = self.plans[plan_index].last_count
        guess += guess // 8 + 2
        if reserve(&batches.records, guess * self.plans[plan_index].record_len + ROOM) != DECODE_OK:
            return NULL
        return batches

    cdef int decode_rows_event(self, uint8_t kind, uint32_t timestamp, uint32_t server_id) noexcept nogil:
        cdef uint32_t post_header_len = self.post_header_len(kind)
        cdef Cursor body = self.body
        cdef content_t* content
        cdef plan_t* plan
        cdef uint64_t id
        cdef uint64_t width
        cdef uint32_t op
        cdef uint32_t extra_len
        cdef bint update = (kind == UPDATE_ROWS_EVENT_V1 or kind == UPDATE_ROWS_EVENT
                            or kind == PARTIAL_UPDATE_ROWS_EVENT or kind == PRE_GA_UPDATE_ROWS_EVENT)
        self.without_map = False
        if remaining(&body) < post_header_len or post_header_len < 6:
            return self.fail(DECODE_MALFORMED, NO_TABLE, b"rows event too short")
        id = load_u32(body.pos) if post_header_len < 8 else load_u48(body.pos)
        content = content_of_id(&self.tables, id)
        if content == NULL:
            if id == DUMMY_TABLE_ID:
                return RUN_MORE
            self.without_map = True
            return RUN_EVENT
        plan = self.plans[content.plan]
        if update:
            op = 2
        elif kind == WRITE_ROWS_EVENT_V1 or kind == WRITE_ROWS_EVENT or kind == PRE_GA_WRITE_ROWS_EVENT:
            op = 1
        else:
            op = 4
        if (not plan.wanted or self.skip_transaction or not self.op_mask & op
                or timestamp < self.start_timestamp
                or (self.server_id >= 0 and server_id != <uint64_t> self.server_id)):
            return RUN_MORE
        if post_header_len >= 10:
            extra_len = load_u16(body.pos + 8)          # its own two bytes included
            skip(&body, post_header_len)
            if extra_len < 2 or extra_len - 2 > remaining(&body):
                return self.fail(DECODE_MALFORMED, content.plan, b"extra row info runs past the event")
            skip(&body, extra_len - 2)
        else:
            skip(&body, post_header_len)
        if not take_lenenc(&body, &width):
            return self.fail(DECODE_MALFORMED, content.plan, b"no column count")
        if width != plan.column_count:
            return self.fail(DECODE_MALFORMED, content.plan, b"column count is not that of the table map")
        if remaining(&body) < <size_t> plan.bitmap_len * (2 if update and not is_rows_v0(kind) else 1):
            return self.fail(DECODE_MALFORMED, content.plan, b"columns-present bitmaps run past the event")
        self.group_wire += <uint64_t> (self.body.end - self.event)
        return self.decode_rows(kind, content.plan, plan, op, timestamp, server_id, &body)

    cdef int decode_rows(self, uint8_t kind, uint32_t plan_index, plan_t* plan, uint32_t op,
                         uint32_t timestamp, uint32_t server_id, Cursor* body) noexcept nogil:
        # body: from the first columns-present bitmap to the end of the event
        cdef bint update = op == 2
        cdef bint v0 = is_rows_v0(kind)
        cdef window_t* window = &self.windows[self.depth]
        cdef batch_t* batch = self.batch_for(plan_index, window.copies)
        cdef image_set_t* images = &plan.images[0]
        cdef image_t image
        cdef rows_t rows
        cdef memory_t* records
        cdef size_t record_len = plan.record_len
        cdef size_t row_len = 2 * record_len if update else record_len      # of the records of a row
        cdef size_t length
        cdef size_t before_event
        cdef uint8_t* record
        cdef const uint8_t* row_start
        cdef const uint8_t* json_bits
        cdef uint32_t count
        cdef uint32_t row = self.row_in_event
        cdef uint8_t first_op = OP_UPDATE_PREIMAGE if update else OP_INSERT if op == 1 else OP_DELETE
        cdef int status = DECODE_OK
        if batch == NULL or fill_image_set(plan, body.pos, images) != DECODE_OK:
            return self.fail(DECODE_NO_MEMORY, plan_index, b"no memory")
        skip(body, plan.bitmap_len)
        if update and not v0:                   # in v0 one bitmap describes both images
            if fill_image_set(plan, body.pos, images + 1) != DECODE_OK:
                return self.fail(DECODE_NO_MEMORY, plan_index, b"no memory")
            skip(body, plan.bitmap_len)
        if self.trx_index < 0:
            if not self.trx_open:
                self.begin(True)
            if self.note_transaction() != DECODE_OK:
                return self.fail(DECODE_NO_MEMORY, plan_index, b"no memory")
        self.trx_has_rows = True
        image.op = first_op
        image.timestamp = timestamp
        image.server_id = server_id
        image.position = self.event_position
        image.row = row
        image.transaction = <uint32_t> self.trx_index
        if plan.raw:
            return self.add_raw_rows(plan_index, plan, batch, &image, body)
        rows.pos = body.pos
        rows.end = body.end
        rows.buffer = window.data
        rows.batch = batch
        rows.failed_column = plan.column_count
        if <size_t> (window.cur.end - body.end) < ROOM and self.move_to_tail(&rows) != DECODE_OK:
            return self.fail(DECODE_NO_MEMORY, plan_index, b"no memory")
        records = &batch.records
        before_event = records.length
        count = batch.count
        while True:
            row_start = rows.pos
            if row_start == rows.end and (images.count or (update and images[not v0].count) or batch.count != count):
                # Rows without any column take no bytes; how many there are cannot be told, but one.
                break
            length = records.length
            if length - before_event > self.max_event_memory:
                # A byte of wire can stand for a wide record of NULLs or absent columns: what the event made goes.
                batch.count = count
                records.length = before_event
                self.forget_side_entries(batch)
                return self.fail(DECODE_MALFORMED, plan_index, b"more records than Limits.record_bytes allows")
            if reserve(records, row_len + ROOM) != DECODE_OK:
                status = DECODE_NO_MEMORY
                break
            record = records.data + length
            put_image(record, &image, first_op, row, plan, images)
            status = (decode_row_image_v0(plan, images, record, &rows) if v0
                      else decode_row_image(plan, images, record, &rows))
            if status != DECODE_OK:
                break
            if update:
                json_bits = NULL
                if kind == PARTIAL_UPDATE_ROWS_EVENT:
                    status = self.take_json_bits(plan, &rows, &json_bits)
                    if status != DECODE_OK:
                        break
                record += record_len
                batch.count += 1
                put_image(record, &image, OP_UPDATE_POSTIMAGE, row, plan, images + (not v0))
                status = (decode_row_image_v0(plan, images, record, &rows) if v0
                          else decode_row_image(plan, images + 1, record, &rows))
                if status == DECODE_OK and json_bits != NULL:
                    status = self.note_json_diffs(plan, images + 1, record, json_bits, batch)
                if status != DECODE_OK:
                    batch.count -= 1
                    break
            batch.count += 1
            records.length = length + row_len
            row += 1
            if rows.pos == row_start:
                if rows.pos != rows.end:
                    status = DECODE_MALFORMED
                break
        self.row_in_event = row
        self.group_records += batch.count - count
        self.group_memory += (batch.count - count) * <uint64_t> record_len
        if status != DECODE_OK:
            self.forget_side_entries(batch)
            self.fail(status, plan_index, b"row runs past its event" if status == DECODE_MALFORMED
                      else b"no memory" if status == DECODE_NO_MEMORY else b"bytes that no value of this type has")
            self.failure.column = rows.failed_column
            return RUN_ERROR
        return RUN_GROUP if self.group_is_full() else RUN_MORE

    cdef int move_to_tail(self, rows_t* rows) noexcept nogil:
        # The loop loads whole words: rows at the end of the buffer are decoded from a copy with
        # room behind it. Offsets of values stay those of the buffer.
        cdef size_t length = <size_t> (rows.end - rows.pos)
        self.tail.length = 0
        if reserve(&self.tail, length + ROOM) != DECODE_OK:
            return DECODE_NO_MEMORY
        memcpy(self.tail.data, rows.pos, length)
        memset(self.tail.data + length, 0, ROOM)
        rows.buffer = <const uint8_t*> (<uintptr_t> self.tail.data - <uintptr_t> (rows.pos - rows.buffer))
        rows.pos = self.tail.data
        rows.end = self.tail.data + length
        return DECODE_OK

    cdef int take_json_bits(self, const plan_t* plan, rows_t* rows, const uint8_t** bits) noexcept nogil:
        # What a partial update says before its after-image: which JSON columns hold diffs
        cdef uint64_t options
        cdef uint32_t length = (plan.json_count + 7) // 8
        cdef Cursor cur
        cur.pos = rows.pos
        cur.end = rows.end
        if not take_lenenc(&cur, &options):
            return DECODE_MALFORMED
        if options & PARTIAL_JSON_UPDATES:
            if remaining(&cur) < length:
                return DECODE_MALFORMED
            bits[0] = cur.pos
            skip(&cur, length)
        rows.pos = cur.pos
        return DECODE_OK

    cdef int note_json_diffs(self, const plan_t* plan, const image_set_t* after, const uint8_t* record,
                             const uint8_t* bits, batch_t* batch) noexcept nogil:
        cdef const uint8_t* nulls = record + plan.image_len - 2 * plan.bitmap_len
        cdef json_diff_t entry
        cdef uint32_t i
        cdef uint32_t column
        cdef int status
        for i in range(plan.json_count):
            column = plan.json_columns[i]
            if (not bits[i >> 3] >> (i & 7) & 1 or not after.present[column >> 3] >> (column & 7) & 1
                    or nulls[column >> 3] >> (column & 7) & 1
                    or plan.ops[column].code == OP_SKIP_VALUE):
                continue
            entry.record = batch.count
            entry.column = <uint16_t> column
            status = append(&batch.json_diffs, &entry, sizeof(entry))
            if status != DECODE_OK:
                return status
        return DECODE_OK

    cdef void forget_side_entries(self, batch_t* batch) noexcept nogil:
        # Entries of a row that was not finished
        while batch.invalid_dates.length and (<invalid_date_t*> (
                batch.invalid_dates.data + batch.invalid_dates.length - sizeof(invalid_date_t))).record >= batch.count:
            batch.invalid_dates.length -= sizeof(invalid_date_t)
        while batch.json_diffs.length and (<json_diff_t*> (
                batch.json_diffs.data + batch.json_diffs.length - sizeof(json_diff_t))).record >= batch.count:
            batch.json_diffs.length -= sizeof(json_diff_t)

    cdef int add_raw_rows(self, uint32_t plan_index, const plan_t* plan, batch_t* batch,
                          const image_t* image, Cursor* rows) noexcept nogil:
        # One record per event, its only field a span of the row area
        cdef span_t span
        cdef uint8_t* record
        if reserve(&batch.records, plan.record_len + ROOM) != DECODE_OK:
            return self.fail(DECODE_NO_MEMORY, plan_index, b"no memory")
        record = batch.records.data + batch.records.length
        put_image(record, image, image.op, image.row, plan, &plan.images[0])
        span.length = <uint32_t> remaining(rows)
        span.offset = <uint64_t> (rows.pos - self.windows[self.depth].data)
        if batch.copies:
            span.offset = batch.heap.length
            if append(&batch.heap, rows.pos, span.length) != DECODE_OK:
                return self.fail(DECODE_NO_MEMORY, plan_index, b"no memory")
        memcpy(record + plan.image_len, &span, sizeof(span))
        batch.records.length += plan.record_len
        batch.count += 1
        self.group_records += 1
        self.group_memory += plan.record_len
        self.row_in_event += 1
        return RUN_GROUP if self.group_is_full() else RUN_MORE
