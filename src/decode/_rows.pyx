"""The hot loop: events and rows of a buffer into structured arrays, without the GIL.

A Decoder walks one log. `run` comes back when a group of batches is full, a table is new, or
an event needs Python; between these it touches no Python object. `take_group` takes over what
it has gathered.
"""

from os import urandom

import numpy as np

cimport cython
cimport numpy as cnp
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.ref cimport PyObject
from libc.stdint cimport UINT64_MAX, int64_t, uint32_t, uint64_t, uint8_t, uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from arrow.tile cimport column_t
from arrow.views cimport has_views
from batch.gathered cimport batch_t, release_batch
from batch.records cimport OUTCOME_COMMITTED, transaction_t
from crc.checksum cimport binlog_crc32_best
from decode.columnar cimport columnar_of
from decode.columns_or_records cimport add_changes, finish_columns as finish_batch, leave_buffer
from decode.fragments cimport begin_fragments, leave_fragments
from decode.group cimport new_transactions, note_transaction, release_chunks
from decode.loop cimport (
    RUN_ERROR, RUN_EVENT, RUN_MORE, error_t, fragments_t, group_t, next_position, window_t,
)
from decode.plan cimport free_columnar, free_plan, plan_t
from decode.table_cache cimport NO_TABLE, definition_t, forget_table_ids, free_cache
from decode.transaction_events cimport begin_transaction, end_transaction
from decode.walk cimport set_handling, walk as walk_events
from memory.feed cimport feed_t
from memory.memory cimport fresh_block, leave_pool, memory_t, release, take_block
from wire.codes cimport DECODE_OK, ROWS_DELETE, ROWS_INSERT, ROWS_UPDATE
from wire.cursor cimport cursor_over, skip
from wire.header cimport CHECKSUM_LEN, V4_MINIMUM_HEADER_LEN, is_header_len

from .._tables.side_dtypes import INVALID_DATE_DTYPE, JSON_DIFF_DTYPE, TRANSACTION_DTYPE

cdef extern from "numpy/arrayobject.h":
    # It takes over the reference to the dtype.
    object PyArray_NewFromDescr(type kind, cnp.dtype dtype, int ndim, cnp.npy_intp* shape, cnp.npy_intp* strides,
                                void* data, int flags, PyObject* like)

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        object (*tp_new)(type kind, object arguments, PyObject* keywords)
    bint PyMemoryView_Check(object)
    PyObject* PyMemoryView_GET_BASE(object)

cnp.import_array()

# The included files are parts of this module, apart for their length: its classes read each other's C fields and
# call each other in C. From another module they would be called through pointers, which compilers cannot inline, and
# the fields of each class would have to be written a second time, in a .pxd.
include "decode/words.pxi"
include "decode/switches.pxi"
include "batch/records.pxi"


cdef enum:
    ALL_OPS = ROWS_INSERT | ROWS_UPDATE | ROWS_DELETE
    BLOCK_ROOM = 64                     # bytes after a buffer that may be touched
    KEPT_PART = 8                       # if less than 1/8 of a block is used, its values are copied


include "decode/place.pxi"
include "decode/definitions.pxi"


cdef Memory block_of(buffer):
    # The block that the buffer is a part of; None: it is not part of one
    cdef PyObject* base
    if PyMemoryView_Check(buffer):
        base = PyMemoryView_GET_BASE(buffer)
        if base != NULL and isinstance(<object> base, Memory):
            return <Memory> base
    return None


cdef size_t room_behind(buffer, const Py_buffer* view) except? 0:
    # How many bytes of its bytearray or block lie after the buffer; they stay there while the buffer is held
    cdef const char* end = <const char*> view.buf + view.len
    cdef Memory block = block_of(buffer)
    cdef PyObject* base
    if block is not None:
        return <size_t> (<const char*> block.data + block.capacity - end)
    if PyMemoryView_Check(buffer):
        base = PyMemoryView_GET_BASE(buffer)
        if base != NULL and isinstance(<object> base, bytearray):
            return <size_t> (PyByteArray_AS_STRING(<object> base) + PyByteArray_GET_SIZE(<object> base) - end)
    return 0


@cython.final
cdef class Decoder(Definitions):
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
        Most bytes of records from one event.
    table_definitions : int
        Most definitions that are kept; a wide one counts as several …
    table_definitions_of_transaction : int
        … and most within one transaction.
    arrow_bytes : int
        Most bytes that the columns of one batch may take in Arrow.
    verify : bool
        Compare the CRC32 of every event, where the log has them.
    wishes : Wishes or None
        Shared with other loops that decode by the same plans.

    The caller (binlog_core/log/log.py) gives the descriptor with `set_format`, bytes with `feed`,
    plans with `add_plan` and definitions with `add_definition`, and acts on what `run` returns.
    """

    cdef size_t arrow_bytes
    cdef object buffer              # the outer window
    cdef object feeding             # what writes more bytes behind it
    cdef object inner               # the window of an event's payload that batches keep

    def __cinit__(self, *, uint64_t group_rows=65536, uint64_t group_bytes=16 << 20,
                  uint64_t group_memory=4 << 20, uint64_t record_bytes=1 << 30,
                  uint64_t table_definitions=16384, uint64_t table_definitions_of_transaction=65536,
                  size_t arrow_bytes=ARROW_BYTES, bint verify=True, Wishes wishes=None):
        cdef bytes keys
        self.loop.group.pool = join_pool()
        self.shapes = []
        self.definitions = []
        keys = urandom(sizeof(self.loop.tables.keys))
        memcpy(self.loop.tables.keys, <const char*> keys, sizeof(self.loop.tables.keys))
        self.loop.tables.keys[1] |= 1
        self.loop.group.max_records = group_rows
        self.loop.group.max_wire = group_bytes
        self.loop.group.max_memory = group_memory
        self.loop.group.max_event_memory = record_bytes
        self.loop.max_definitions = table_definitions
        self.loop.max_definitions_of_transaction = table_definitions_of_transaction
        self.loop.selection.verify = verify
        self.arrow_bytes = self.loop.arrow_bytes = arrow_bytes
        self.loop.wide = wide
        self.loop.worth_columns = least
        self.loop.fed_len = fed
        self.wishes = Wishes() if wishes is None else wishes
        self.plans = []
        self.layouts = []
        self.loop.trx.index = -1
        self.loop.selection.server_id = -1
        self.loop.selection.op_mask = ALL_OPS
        self.loop.selection.stop_position = UINT64_MAX
        self.loop.selection.stop_timestamp = UINT64_MAX
        self.loop.told = True
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
        for i in range(self.loop.group.batch_count):
            release_batch(&self.loop.group.batches[i])
        free(self.loop.group.batches)
        release_chunks(&self.loop)
        free(self.loop.group.chunks)
        release(&self.loop.group.transactions)
        release(&self.loop.tail)
        release_batch(&self.loop.scanned)
        release(&self.loop.row_ends)
        release(&self.loop.gtid_runs)
        if self.loop.group.pool != NULL:        # it is NULL if the arguments were refused
            leave_pool(self.loop.group.pool)

    # ------------------------------------------------------------ from Python

    def set_format(self, uint32_t header_length, const uint8_t[::1] post_header_lengths,
                   const uint8_t[::1] canonical, bint checksum):
        """Take a descriptor's lengths and numbering. Table ids seen before are no longer valid."""
        if post_header_lengths.shape[0] != 256 or canonical.shape[0] != 256:
            raise ValueError("expected 256 entries")
        if not is_header_len(header_length):
            raise ValueError(f"header_length={header_length}: expected 13, or 19 to 255")
        self.loop.descriptor.header_len = header_length
        self.loop.descriptor.checksum_len = CHECKSUM_LEN if checksum else 0
        memcpy(self.loop.descriptor.post_header_len, &post_header_lengths[0], 256)
        memcpy(self.loop.descriptor.canonical, &canonical[0], 256)
        set_handling(&self.loop.descriptor)
        memcpy(self.loop.plain.post_header_len, &post_header_lengths[0], 256)
        forget_table_ids(&self.loop.tables)

    def select(self, *, uint32_t ops=ALL_OPS, int64_t server_id=-1, bint rows_v0=False,
               uint64_t stop_position=UINT64_MAX, int stop_anchor=0, uint64_t start_timestamp=0,
               uint64_t stop_timestamp=UINT64_MAX, bint gtids_to_python=False, bint asides_to_python=False):
        """What to leave out, and where to stop.

        Parameters
        ----------
        ops : int
            Bits of rows_op_t: 1 insert, 2 update, 4 delete.
        server_id : int
            Decode only rows events of this server; -1: of all servers.
        rows_v0 : bool
            Decode rows events from before 5.1.18 as far as the format allows.
        stop_position, stop_anchor : int
            Stop at this position or, with an anchor_t, at the first place from there on where a transaction can begin.
        start_timestamp, stop_timestamp : int
            Seconds since 1970 UTC. Rows of events before the start are left out; the first event at or after the stop
            ends reading.
        gtids_to_python : bool
            Come back at every GTID event.
        asides_to_python : bool
            Come back at savepoints, at XA statements, and at MariaDB's GTID event of an XA transaction.
        """
        self.loop.selection.op_mask = ops
        self.loop.selection.server_id = server_id
        self.loop.selection.rows_v0 = rows_v0
        self.loop.selection.stop_position = stop_position
        self.loop.selection.stop_anchor = stop_anchor
        self.loop.selection.start_timestamp = start_timestamp
        self.loop.selection.stop_timestamp = stop_timestamp
        self.loop.selection.gtids_to_python = gtids_to_python
        self.loop.selection.asides_to_python = asides_to_python
        self.loop.selection.leaves_out = ops != ALL_OPS or server_id >= 0 or start_timestamp != 0

    def check_positions(self, bint on):
        """Whether an event that does not end where it says is an error."""
        self.loop.selection.check_positions = on

    def skip_transaction(self, bint on):
        """Whether the rows of the current transaction are skipped."""
        self.loop.trx.skipped = on

    def feed(self, buffer, uint64_t base, *, size_t start=0, bint keep, feed=None, size_t to_come=0):
        """Continue in another buffer.

        Parameters
        ----------
        buffer : bytes-like
        base : int
            Position in the file of its first byte.
        start : int
            Offset in buffer of the next event.
        keep : bool
            The batches may keep the buffer: spans point into it. Otherwise values are copied. They are also copied
            when another buffer follows, unless that begins with the same bytes, at the same base.
        feed : Feed or None
            Writes more bytes behind the buffer, in its block.
        to_come : int
            How many at most.
        """
        cdef const window_t* window = &self.loop.windows[0]
        self.settle()
        self.finish_columns()
        if window.held and not (keep and base == window.base and len(buffer) >= window.view.len):
            self.copy_values()
        self.drop_windows()
        self.open_window(0, buffer, base, start, not keep)
        self.buffer = buffer
        self.feeding = feed
        if feed is not None:
            if self.loop.windows[0].room < to_come + BLOCK_ROOM:
                raise ValueError("to_come is more than the block has room for")
            self.loop.windows[0].feed = <const feed_t*> <uintptr_t> feed.address
            self.loop.windows[0].to_come = to_come
        # A window that begins inside a transaction continues one that a stream left open.
        if self.loop.trx.boundary < base + start and not self.loop.trx.open:
            self.loop.trx.boundary = base + start

    def hold(self, buffer):
        """Take note of the window as it is now: it has grown by `fed` bytes."""
        cdef window_t* window = &self.loop.windows[0]
        if len(buffer) != window.cur.end - window.data:
            raise ValueError("the window has another length")
        window.fed = 0
        self.buffer = buffer

    def enter(self, buffer, uint64_t position):
        """Walk the events inside the outer ones from a position up to here; they have that position."""
        self.settle()
        self.loop.event.position = position
        if not self.loop.depth and not self.loop.trx.open:      # its GTID was not read: the walk has passed it already
            self.loop.trx.boundary = self.loop.event.position
        if self.loop.windows[1].held:
            PyBuffer_Release(&self.loop.windows[1].view)
            self.loop.windows[1].held = False
        self.open_window(1, buffer, self.loop.event.position, 0, True)
        self.loop.depth = 1

    def enter_fragments(self, list pieces, uint64_t position):
        """Decode a rows event in fragments where they lie.

        Parameters
        ----------
        pieces : list of bytes-like
            The bytes of each fragment, parts of the window.
        position : int
            Of the first.

        Returns
        -------
        bool
            False: the event must be joined; nothing was done.
        """
        cdef const window_t* outer = &self.loop.windows[0]
        cdef fragments_t* fragments = &self.loop.fragments
        cdef Py_buffer view
        cdef uintptr_t begin
        cdef uintptr_t data = <uintptr_t> outer.data
        cdef size_t i
        cdef int status = RUN_EVENT
        if self.loop.depth or not outer.held or outer.copies or len(pieces) < 2:
            return False
        leave_fragments(fragments)
        fragments.ends = <size_t*> malloc(2 * len(pieces) * sizeof(size_t))
        if fragments.ends == NULL:
            raise MemoryError
        for i in range(<size_t> len(pieces)):
            PyObject_GetBuffer(pieces[i], &view, PyBUF_SIMPLE)
            begin = <uintptr_t> view.buf
            fragments.ends[2 * i] = begin - data
            fragments.ends[2 * i + 1] = begin - data + <size_t> view.len
            if not (data <= begin and begin + <size_t> view.len <= <uintptr_t> outer.cur.pos
                    and (i + 1 == <size_t> len(pieces) or <size_t> view.len >= least_fragment)):
                status = RUN_MORE
            PyBuffer_Release(&view)
        if status == RUN_EVENT:
            fragments.count = <size_t> len(pieces)
            status = begin_fragments(&self.loop)
        if status != RUN_EVENT:
            leave_fragments(fragments)
            if status == RUN_ERROR:
                raise MemoryError
            return False
        self.settle()
        self.loop.event.position = position
        if not self.loop.trx.open:
            self.loop.trx.boundary = position
        if self.loop.windows[1].held:
            PyBuffer_Release(&self.loop.windows[1].view)
        memset(&self.loop.windows[1], 0, sizeof(window_t))
        self.loop.windows[1].data = self.loop.windows[1].checked = fragments.head.data
        self.loop.windows[1].cur = cursor_over(fragments.head.data, fragments.head.length)
        self.loop.depth = 1
        return True

    def keep(self, buffer):
        """Let the batches keep the inner buffer, which was entered just now, as `feed` does; there are none yet."""
        if not self.loop.depth or self.loop.group.records:
            raise ValueError("the group must be taken inside the event, before its rows")
        self.loop.windows[1].copies = False
        self.loop.home = 1
        self.inner = buffer

    cdef int settle(self) except -1:
        # Batches keep the inner buffer no longer; their values are copied
        if self.loop.home:
            self.finish_columns()
            self.copy_values()
            self.loop.home = 0
            self.inner = None
        return 0

    def leave(self):
        """Back to the outer log."""
        self.settle()
        leave_fragments(&self.loop.fragments)
        if self.loop.windows[1].held:
            PyBuffer_Release(&self.loop.windows[1].view)
            self.loop.windows[1].held = False
        self.loop.depth = 0
        if not self.loop.trx.open:
            self.loop.trx.boundary = next_position(&self.loop)

    cdef int open_window(self, int depth, buffer, uint64_t base, size_t start, bint copies) except -1:
        cdef window_t* window = &self.loop.windows[depth]
        PyObject_GetBuffer(buffer, &window.view, PyBUF_SIMPLE)
        window.held = True
        window.data = <const uint8_t*> window.view.buf
        window.base = base
        window.copies = copies
        window.checked = window.data
        window.feed = NULL
        window.ahead = window.to_come = window.fed = 0
        window.cur = cursor_over(window.data, <size_t> window.view.len)
        window.room = room_behind(buffer, &window.view)
        if start > <size_t> window.view.len:
            raise ValueError("start is beyond the buffer")
        skip(&window.cur, start)
        return 0

    def block(self, size_t size):
        """Memory for a buffer of at least this many bytes: bytes-like; it goes back to the pool with its last view."""
        cdef memory_t memory
        memset(&memory, 0, sizeof(memory))
        memory.pool = self.loop.group.pool
        size += BLOCK_ROOM
        if not take_block(memory.pool, size, 2 * size, &memory) and not fresh_block(size, &memory):
            raise MemoryError
        memory.length = memory.capacity - BLOCK_ROOM
        return take_memory(&memory)

    cdef int copy_values(self, bint records=False) except -1:
        # Afterwards no batch (with `records`: no batch of records or views) has values in the window that it may keep
        cdef uint32_t i
        cdef batch_t* batch
        cdef int status = DECODE_OK
        for i in range(self.loop.group.batch_count):
            batch = &self.loop.group.batches[i]
            if batch.count and not batch.copies and status == DECODE_OK and not (
                    records and batch.sink != NULL and not has_views(batch.sink.made.items, batch.sink.made.count)):
                status = leave_buffer(&self.loop, batch)
        if status != DECODE_OK:
            raise MemoryError
        return 0

    cdef void drop_windows(self) noexcept:
        cdef int i
        for i in range(2):
            if self.loop.windows[i].held:
                PyBuffer_Release(&self.loop.windows[i].view)
                self.loop.windows[i].held = False
        self.loop.depth = self.loop.home = 0
        self.inner = None
        leave_fragments(&self.loop.fragments)

    # ------------------------------------------------------------ decided by Python

    def end_statement(self):
        """The current event was a statement by itself: outside a transaction, it ends one."""
        if self.loop.trx.open and not self.loop.trx.explicit:
            end_transaction(&self.loop, OUTCOME_COMMITTED)
            if not self.loop.depth:
                self.loop.trx.boundary = next_position(&self.loop)

    def await_fragment(self, bint on):
        """Whether the next event must be another fragment of a rows event; if it is not: INTERRUPTED."""
        self.loop.in_fragments = on

    def break_off(self):
        """Bytes are lost here: the open transaction never ends, and table ids may mean other tables."""
        self.loop.trx.open = False
        self.loop.trx.index = -1
        self.loop.trx.record = <transaction_t*> (
            self.loop.group.transactions.data + self.loop.group.transactions.length
        )
        begin_transaction(self.loop.trx.record, self.loop.event.position, self.loop.header.timestamp,
                          self.loop.header.server_id)
        self.loop.told = True           # there is no event before the next one
        forget_table_ids(&self.loop.tables)

    def forget_table_maps(self):
        """Forget table ids: the rows that follow need their TABLE_MAP again."""
        forget_table_ids(&self.loop.tables)

    # ------------------------------------------------------------ results

    def failure(self):
        """What went wrong when `run` came back with RUN_ERROR: a dict for errors.py, with a fault from FAULTS."""
        cdef const error_t* failure = &self.loop.failure
        return {
            "fault": failure.fault,
            "position": failure.position,
            "type_code": failure.type_code,
            "definition": None if failure.definition == NO_TABLE else self.definition(failure.definition),
            "column": failure.column,
            "row": failure.row,
        }

    cdef Definition definition(self, uint32_t index):
        # The Definition as it was added, or one made like the first of its shape
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

    def take_group(self, type kind not None, path):
        """Hand over what was gathered, and begin a new group.

        Parameters
        ----------
        kind : type
            A subclass of Records.
        path : str

        Returns
        -------
        (batches, special, transactions)
            batches: list of `kind`; special: indexes of those that have invalid dates or partial JSON updates, or
            are of a plan with compressed columns; transactions: array of TRANSACTION_DTYPE.
        """
        cdef uint32_t i
        cdef Records records
        cdef Memory block
        cdef batch_t* batch
        cdef list out = []
        cdef list special = []
        cdef list chunks = []
        cdef list shelves = [None] * self.loop.plan_count
        cdef group_t* group = &self.loop.group
        cdef uint32_t batch_count = group.batch_count
        buffer = self.inner if self.loop.home else self.buffer
        if not issubclass(kind, Records):
            raise TypeError(f"{kind.__name__} is not a subclass of Records")
        self.finish_columns(True)
        block = block_of(buffer)
        if block is not None and self.wire < block.capacity // KEPT_PART:
            self.copy_values(True)
        transactions = self.take_transactions()
        for i in range(group.chunk_count):
            chunks.append(take_memory(&group.chunks[i]))
        group.chunk_count = 0
        group.batch_count = 0
        group.records_taken += group.records
        group.records = 0
        group.wire_before = group.wire if batch_count == 1 else 0
        group.wire = group.wire_unused = 0
        group.memory = 0
        for i in range(batch_count):
            batch = &group.batches[i]
            if batch.count:
                records = self.take_batch(kind, batch, chunks)
                records.buffer = take_memory(&batch.heap) if batch.copies else buffer
                records.wire = records.buffer
                records.transactions = records.told = transactions
                records.path = path
                if batch.count <= SHELVED_ROWS and batch.sink == NULL and not batch.copies:
                    self.put_on_shelf(records, self.loop.tables.definitions[batch.definition].plan, shelves)
                out.append(records)
                if len(<cnp.ndarray> records.invalid) or records.json_diffs is not NO_JSON_DIFFS or self.loop.plans[
                        self.loop.tables.definitions[batch.definition].plan].compressed:
                    special.append(len(out) - 1)
            self.loop.tables.definitions[batch.definition].batch = -1
            if not batch.joined:
                self.loop.tables.definitions[batch.definition].last_count = batch.count
            release_batch(batch)
        return out, special, transactions

    cdef int put_on_shelf(self, Records records, uint32_t plan, list shelves) except -1:
        cdef Shelf shelf = <Shelf> shelves[plan]
        if shelf is None or shelf.count == SHELVED:
            shelf = Shelf.__new__(Shelf)
            shelves[plan] = shelf
        return shelf.put(records)

    cdef object take_transactions(self):
        # The group's transactions. The one that is open continues in the next group.
        cdef memory_t* memory = &self.loop.group.transactions
        cdef transaction_t trx = self.loop.trx.record[0]
        self.loop.group.transactions_before = memory.length + memory.length // 8
        transactions = np.frombuffer(take_memory(memory), TRANSACTION_DTYPE)
        self.loop.trx.index = -1
        if new_transactions(&self.loop) != DECODE_OK:
            raise MemoryError
        self.loop.trx.record[0] = trx
        if self.loop.trx.open and self.loop.trx.has_rows:
            # A later group reports its end, whether more rows follow or not.
            if note_transaction(&self.loop) != DECODE_OK:
                raise MemoryError
        return transactions

    cdef Records take_batch(self, type kind, batch_t* batch, list chunks):
        # chunks: memory that small batches share for their records
        cdef Records records = <Records> (<PyTypeObject*> kind).tp_new(kind, (), NULL)
        records.definition = self.definition(batch.definition)
        records.columns = records.definition.columns
        records.arrow_bytes = self.arrow_bytes
        records.count = batch.count
        records.wishes = self.wishes
        if batch.sink != NULL:
            records.runs = take_memory(&batch.runs)
            records.layout = self.layouts[self.loop.tables.definitions[batch.definition].plan]
            records.made = take_columns(batch)
        elif batch.records.lent:
            records.memory = <Memory> chunks[batch.chunk]
            records.data = records.memory.data + batch.chunk_offset
        else:
            records.memory = take_memory(&batch.records)
            records.data = records.memory.data
        records.invalid = NO_INVALID_DATES
        records.json_diffs = NO_JSON_DIFFS
        if batch.invalid_dates.length:
            records.invalid = np.frombuffer(take_memory(&batch.invalid_dates), INVALID_DATE_DTYPE)
            if batch.sink != NULL:          # they were noted tile by tile and column by column
                records.invalid = records.invalid[np.lexsort((records.invalid["column"], records.invalid["record"]))]
        if batch.json_diffs.length:
            records.json_diffs = np.frombuffer(take_memory(&batch.json_diffs), JSON_DIFF_DTYPE)
        return records

    def run(self):
        """Walk on until Python must act: MORE, GROUP, TABLE, EVENT, STOP, ERROR, PAUSE or INTERRUPTED."""
        cdef int status
        if self.followed != self.wishes.version and not self.loop.group.batch_count:
            self.follow_wishes()
        with nogil:
            status = self.walk()
        return status

    cdef int follow_wishes(self) except -1:
        # Set what batches of each plan are decoded into from now on
        cdef uint32_t i
        cdef plan_t* plan
        self.followed = self.wishes.version
        self.layouts.extend([None] * (<Py_ssize_t> len(self.plans) - len(self.layouts)))
        for i in range(<uint32_t> len(self.plans)):
            layout = self.wishes.layout_of(self.plans[i])
            if self.layouts[i] is layout:
                continue
            plan = self.loop.plans[i]
            free_columnar(plan.columnar)
            plan.columnar = NULL
            self.layouts[i] = layout
            if layout is not None and not (plan.raw or plan.compressed) and plan.column_count:
                plan.columnar = columnar_of(
                    plan, <const column_t*> <uintptr_t> layout.address, layout.table_columns,
                    layout.count - layout.table_columns)
        return 0

    cdef int finish_columns(self, bint changes=False) except -1:
        # Finish the columns of all batches while the buffer is there. changes: add the columns about the changes, too
        cdef uint32_t i
        cdef int status = DECODE_OK
        cdef bint any_columns = False
        for i in range(self.loop.group.batch_count):
            any_columns = any_columns or self.loop.group.batches[i].sink != NULL
        if not any_columns:         # releasing the GIL for nothing could make this thread wait for it
            return 0
        with nogil:
            for i in range(self.loop.group.batch_count):
                if self.loop.group.batches[i].sink != NULL and status == DECODE_OK:
                    status = finish_batch(&self.loop, &self.loop.group.batches[i])
                if changes and self.loop.group.batches[i].sink != NULL and status == DECODE_OK:
                    status = add_changes(&self.loop, &self.loop.group.batches[i])
        if status != DECODE_OK:
            raise MemoryError
        return 0

    cdef int walk(self) noexcept nogil:
        return walk_events(&self.loop)


include "decode/columns_taken.pxi"
