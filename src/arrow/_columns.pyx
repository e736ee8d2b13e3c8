"""From a structured array to column buffers in Arrow's layout, exported through the Arrow C data interface.

No Arrow library is used. Everything exported lies in an arena that its nodes keep alive, so it
outlives the batch that it was made from.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

cimport numpy as cnp

from arrow.arena cimport EXACT, add_block, arena_t, drop_arena, hold, init_array, new_arena
from arrow.c_data cimport ArrowArray
from arrow.copy_spans cimport binlog_has_wide
from arrow.gather cimport gather
from arrow.gather_spans cimport locate_spans
from arrow.labels cimport fill_change_column
from arrow.nodes cimport fill_node
from arrow.sink cimport made_t
from arrow.tile cimport (
    GATHER_BAD_JSON, GATHER_BAD_LENGTH, GATHER_BAD_NUMBER, GATHER_BAD_SPAN, GATHER_BAD_TEXT, GATHER_NO_MEMORY,
    GATHER_OK, GATHER_TOO_LARGE, LAYOUT_BYTES, LAYOUT_BYTES_VIEW, LAYOUT_COMMIT_TIME, LAYOUT_NULL, LAYOUT_OBJECT,
    LAYOUT_UTF8_VIEW, NULL_BYTES, TILE, all_null, allocate_slots, column_t, fixed_size, gather_nulls, is_null,
    mark_null, or_bytes, reserve_data, store_validity, tile_t,
)
from arrow.views cimport PART_BITS, is_view, settle_views
from batch.records cimport OP_UPDATE_POSTIMAGE, OP_UPDATE_PREIMAGE
from memory.memory cimport lock_pool, pool_t, release, unlock_pool
from wire.codes cimport KIND_GEOMETRY, KIND_VECTOR
from wire.cursor cimport prefetch

import numpy as np

from binlog_core._tables import transcoding
from binlog_core.errors import DecodeError

cnp.import_array()


cdef void destroy_array_capsule(object capsule) noexcept:
    cdef ArrowArray* node = <ArrowArray*> PyCapsule_GetPointer(capsule, "arrow_array")
    if node.release != NULL:
        node.release(node)
    free(node)


cdef bint wide = binlog_has_wide()


def use_wide(bint on):
    """Switch the loops for wide vectors on or off, where the processor has them; return the old setting. For tests."""
    global wide
    before = wide
    wide = on and binlog_has_wide()
    return before


cdef int part_bits = PART_BITS


def view_parts(int bits):
    """Set the size of the buffers that views are divided into, as a power of two; return the old one. For tests, and
    for layouts that are made later."""
    global part_bits
    before = part_bits
    part_bits = bits
    return before


# --- Memory ------------------------------------------------------------------------------------------

cdef pool_t column_pool                 # blocks of columns that their users have released


def hold_pool(bint on):
    """Take the lock of the columns' blocks, as another thread might, or release it. For tests."""
    if on:
        lock_pool(&column_pool)
    else:
        unlock_pool(&column_pool)


# --- Columns -----------------------------------------------------------------------------------------

# A part of this module, apart for its length: see decode/_rows.pyx.
include "arrow/layout.pxi"


cdef class _Columns:
    # A batch as C sees it: where its records are, and one column_t per column.
    cdef Layout layout
    cdef column_t* items
    cdef int count
    cdef arena_t* arena               # the memory of the result
    cdef const uint8_t* base          # of the first record
    cdef int64_t stride
    cdef int64_t rows                 # of the result
    cdef const int64_t* selected      # rows of the result, or NULL: all
    cdef bint fill_absent
    cdef uint32_t record_len
    cdef uint32_t bitmap_len
    cdef uint32_t null_bitmap
    cdef uint32_t absent_bitmap
    cdef uint8_t* copies              # a tile's records, where they are not contiguous; else NULL
    cdef uint8_t* nulls               # of a tile: NULL_BYTES for each column, and as many for columns without NULLs
    cdef uint8_t* seen                # a tile's NULL bitmaps, ORed, and its absent bitmaps; then both of them
    cdef Py_buffer buffer
    cdef bint has_buffer
    cdef object records, chosen, transactions

    def __cinit__(self, Layout layout not None, cnp.ndarray records not None, buffer, rows, bint fill_absent,
                  transactions, size_t most):
        cdef size_t items_len = <size_t> layout.count * sizeof(column_t)
        cdef size_t nulls_len = (8 * <size_t> layout.bitmap_len + 1) * NULL_BYTES
        cdef size_t seen_len = 2 * <size_t> layout.bitmap_len + 1
        if records.ndim != 1:
            raise ValueError(f"records: expected 1 dimension, found {records.ndim}")
        if records.dtype is not layout.dtype and records.dtype != layout.dtype:
            raise ValueError(f"records of {records.dtype}: expected the layout's {layout.dtype}")
        self.layout = layout
        self.records = records
        self.base = <const uint8_t*> cnp.PyArray_DATA(records)
        self.stride = records.strides[0]
        self.rows = records.shape[0]
        self.fill_absent = fill_absent
        self.record_len = layout.record_len
        self.bitmap_len = layout.bitmap_len
        self.null_bitmap = layout.null_bitmap
        self.absent_bitmap = layout.absent_bitmap
        if rows is not None:
            self.choose(rows)
        PyObject_GetBuffer(buffer, &self.buffer, PyBUF_SIMPLE)
        self.has_buffer = True
        self.arena = new_arena(&column_pool, most)
        self.items = <column_t*> malloc(items_len + nulls_len + seen_len)
        if self.arena == NULL or self.items == NULL:
            raise MemoryError
        memcpy(self.items, layout.items, items_len)
        self.count = layout.count
        self.nulls = <uint8_t*> self.items + items_len
        self.seen = self.nulls + nulls_len
        memset(self.seen, 0, seen_len)
        if transactions is not None:
            self.refer_to(transactions)
        if self.selected != NULL or fill_absent:
            self.copies = <uint8_t*> malloc(TILE * <size_t> self.record_len)
            if self.copies == NULL:
                raise MemoryError

    cdef int choose(self, object rows) except -1:
        # The records that are exported: a copy, since they are used without the GIL after this check
        cdef const int64_t[::1] selected
        rows = np.array(rows, np.int64)
        if rows.size and (rows.min() < 0 or rows.max() >= self.rows):
            raise IndexError(f"rows: expected 0 to {self.rows - 1}")
        self.chosen = rows
        self.rows = rows.size
        selected = rows
        self.selected = &selected[0] if self.rows else NULL
        return 0

    cdef int refer_to(self, object transactions) except -1:
        # The transactions that this batch's transaction numbers refer to
        cdef int k
        cdef column_t* c
        for k in range(self.count):
            c = &self.items[k]
            if c.layout == LAYOUT_COMMIT_TIME:
                if transactions.dtype.itemsize != c.transaction_len:
                    raise ValueError("transactions: expected TRANSACTION_DTYPE")
                self.transactions = np.ascontiguousarray(transactions)
                c.transactions = <const uint8_t*> cnp.PyArray_DATA(self.transactions)
                c.code_count = len(transactions)
        return 0

    def __dealloc__(self):
        if self.arena != NULL:
            drop_arena(self.arena)
        free(self.items)
        free(self.copies)
        if self.has_buffer:
            PyBuffer_Release(&self.buffer)

    cdef void clear(self, column_t* c) noexcept nogil:
        c.validity = NULL
        c.slots = NULL
        c.offsets = NULL
        c.data = NULL
        c.null_count = 0
        c.data_len = 0
        c.data_capacity = 0
        c.status = GATHER_OK

    cdef void begin_tile(self, tile_t* tile, int64_t first, int begin, int end) noexcept nogil:
        # The records of a tile, and where columns begin to end are NULL in it
        cdef int i, k
        cdef uint32_t b
        cdef int64_t known = -1
        cdef uint8_t* copy
        cdef column_t* c
        tile.arena = self.arena
        tile.wide = wide
        tile.first = first
        tile.rows = self.rows
        tile.count = <int> min(<int64_t> TILE, self.rows - first)
        tile.buffer = <const uint8_t*> self.buffer.buf
        tile.buffer_len = <uint64_t> self.buffer.len
        tile.base = tile.buffer
        tile.records = self.base + first * self.stride
        tile.stride = self.stride
        if self.copies != NULL:
            tile.records = self.copies
            tile.stride = self.record_len
            for i in range(tile.count):
                copy = self.copies + i * tile.stride
                memcpy(copy, self.base + self.index(first + i) * self.stride, self.record_len)
                if self.fill_absent:
                    self.fill(copy, first + i, begin, end)
        else:
            self.prefetch_records(first + tile.count)
        or_bytes(tile, self.null_bitmap, 2 * self.bitmap_len, self.seen)
        for b in range(self.bitmap_len):
            self.seen[b] |= self.seen[self.bitmap_len + b]
        for k in range(begin, end):
            c = &self.items[k]
            if self.seen[c.bitmap_byte] & c.mask and c.bitmap_byte != known:
                known = c.bitmap_byte
                gather_nulls(
                    tile, self.null_bitmap + c.bitmap_byte, self.absent_bitmap + c.bitmap_byte,
                    self.nulls + 8 * <size_t> known * NULL_BYTES,
                )

    cdef inline void prefetch_records(self, int64_t first) noexcept nogil:
        # Prefetch the next tile's records while this one is processed
        cdef int64_t size = min(<int64_t> TILE, self.rows - first) * self.stride
        cdef int64_t at = 0
        while at < size:
            prefetch(self.base + first * self.stride + at)
            at += 64

    cdef inline int64_t index(self, int64_t row) noexcept nogil:
        return self.selected[row] if self.selected != NULL else row

    cdef inline int64_t preimage_of(self, int64_t row) noexcept nogil:
        # The record before it if both belong to one update, else -1
        cdef int64_t i = self.index(row)
        cdef const uint8_t* record = self.base + i * self.stride
        if i and record[0] == OP_UPDATE_POSTIMAGE and (record - self.stride)[0] == OP_UPDATE_PREIMAGE:
            return i - 1
        return -1

    cdef void fill(self, uint8_t* record, int64_t row, int begin, int end) noexcept nogil:
        # Copy what a postimage lacks from its preimage: the values, and whether they are null.
        cdef int64_t i = self.preimage_of(row)
        cdef const uint8_t* preimage = self.base + i * self.stride
        cdef uint8_t* absent
        cdef uint8_t* null
        cdef column_t* c
        cdef int k
        if i < 0:
            return
        for k in range(begin, end):
            c = &self.items[k]
            absent = record + self.absent_bitmap + c.bitmap_byte
            if absent[0] & c.mask:
                null = record + self.null_bitmap + c.bitmap_byte
                memcpy(record + c.field, preimage + c.field, c.stored)
                null[0] = (null[0] & ~c.mask) | (preimage[self.null_bitmap + c.bitmap_byte] & c.mask)
                absent[0] = (absent[0] & ~c.mask) | (preimage[self.absent_bitmap + c.bitmap_byte] & c.mask)

    cdef void begin_column(self, const column_t* c, tile_t* tile) noexcept nogil:
        # Find out which of the tile's values are not null
        cdef size_t place = 8 * <size_t> c.bitmap_byte + c.bit if c.mask else 8 * <size_t> self.bitmap_len
        tile.has_nulls = self.seen[c.bitmap_byte] & c.mask != 0
        tile.nulls = self.nulls + place * NULL_BYTES

    cdef void fill_columns(self, int begin, int end) noexcept nogil:
        # Gather columns begin to end from all records; each column notes its own failure.
        cdef tile_t tile
        cdef int64_t first
        cdef size_t size = 0
        cdef int k
        cdef column_t* c
        memset(&tile.text, 0, sizeof(tile.text))
        for k in range(begin, end):
            size += fixed_size(&self.items[k], self.rows)
        if not EXACT and self.arena.blocks == NULL:
            add_block(self.arena, size)     # if it fails, so does the allocation that needs it
        for k in range(begin, end):
            c = &self.items[k]
            if (not allocate_slots(self.arena, c, self.rows)
                    or (c.missing and not all_null(self.arena, c, self.rows))):
                c.status = GATHER_NO_MEMORY
        first = 0
        while first < self.rows:
            self.begin_tile(&tile, first, begin, end)
            for k in range(begin, end):
                c = &self.items[k]
                if c.status != GATHER_OK or c.missing or c.layout in (LAYOUT_OBJECT, LAYOUT_NULL):
                    continue
                self.begin_column(c, &tile)
                c.status = gather(c, &tile)
                if c.status == GATHER_OK and tile.has_nulls and not store_validity(c, &tile):
                    c.status = GATHER_NO_MEMORY
            first += tile.count
        release(&tile.text)

    cdef int fill_object(self, int k, object convert, object given) except -1:
        # Gather column k value by value: convert(bytes) gives UTF-8, or None for null;
        # given[record] is used instead where it exists.
        cdef tile_t tile
        cdef int64_t first = 0
        cdef int i
        cdef uint64_t total
        cdef column_t* c = &self.items[k]
        cdef bytes value
        cdef size_t size
        cdef int64_t record
        cdef uint8_t absent
        self.clear(c)
        c.width = 0
        if not allocate_slots(self.arena, c, self.rows):
            c.status = GATHER_NO_MEMORY
            return 0
        while first < self.rows:
            self.begin_tile(&tile, first, k, k + 1)
            self.begin_column(c, &tile)
            c.status = locate_spans(c, &tile, &total)
            if c.status != GATHER_OK:
                return 0
            for i in range(tile.count):
                record = self.index(first + i)
                absent = (self.base + record * self.stride)[self.absent_bitmap + c.bitmap_byte]
                if self.fill_absent and absent & c.mask:
                    record = self.preimage_of(first + i)
                if is_null(&tile, i):
                    value = None
                elif record in given:
                    value = given[record]
                else:
                    value = PyBytes_FromStringAndSize(<const char*> tile.starts[i], tile.lengths[i])
                    try:
                        value = convert(value)
                    except UnicodeDecodeError:
                        c.failed = first + i
                        c.status = GATHER_BAD_TEXT
                        return 0
                    except DecodeError as error:
                        error.offset = int(self.records[self.index(first + i)]["image"]["position"])
                        raise
                if value is None:
                    mark_null(&tile, i)
                else:
                    size = <size_t> PyBytes_GET_SIZE(value)
                    if c.data_len + size > <size_t> INT32_MAX:
                        c.failed = first + i
                        c.status = GATHER_TOO_LARGE
                        return 0
                    if not reserve_data(c, &tile, size):
                        c.status = GATHER_NO_MEMORY
                        return 0
                    memcpy(c.data + c.data_len, PyBytes_AS_STRING(value), size)
                    c.data_len += size
                c.offsets[first + i + 1] = <int32_t> c.data_len
            if tile.has_nulls and not store_validity(c, &tile):
                c.status = GATHER_NO_MEMORY
                return 0
            first += tile.count
        return 0

# --- Called from Python ------------------------------------------------------------------------------

cdef object no_memory(_Columns gathered, str name):
    # The error for a column that the arena had no memory for
    if not gathered.arena.full:
        return MemoryError()
    record = gathered.index(0)
    return DecodeError(
        f"{gathered.rows} rows take more memory in Arrow than Limits.arrow_bytes={gathered.arena.most} allows",
        offset=int(gathered.records[record]["image"]["position"]) if gathered.rows else None,
        column=name,
    )


cdef object failure(_Columns gathered, int k, object column):
    # The error of column k, with the position in the file where its row was logged.
    cdef column_t* c = &gathered.items[k]
    cdef int64_t record
    if c.status == GATHER_NO_MEMORY:
        return no_memory(gathered, column.name)
    record = gathered.index(c.failed)
    charset, kind = getattr(column, "charset", None), getattr(column, "kind", None)
    name = column.name if kind is None else kind.name
    message = {
        GATHER_BAD_SPAN: f"record {record}: the value's span reaches outside the batch's buffer",
        GATHER_BAD_TEXT: f"record {record}: invalid {charset} text; "
        "text_errors='replace' or 'binary' accepts it",
        GATHER_BAD_JSON: f"record {record}: a binary JSON document that is not valid; "
        "text_errors='binary' accepts it",
        GATHER_BAD_LENGTH: f"record {record}: a value of a length that {name} cannot have",
        GATHER_BAD_NUMBER: f"record {record}: a number that {name} cannot have",
        GATHER_TOO_LARGE: f"more than {INT32_MAX} bytes of values in one batch; read in smaller groups",
    }[c.status]
    if c.status == GATHER_BAD_LENGTH and kind == KIND_VECTOR and column.dimensions is not None:
        message += f" with {column.dimensions} dimensions; vectors='list' takes shorter ones"
    return DecodeError(
        message,
        offset=int(gathered.records[record]["image"]["position"]),
        column=column.name,
    )


cdef object take_out(_Columns gathered, object fields, object text_errors, object documents):
    # Fill every column. Returns the fields given, except that text_errors="binary" may have turned text into bytes.
    cdef int k, count = gathered.count
    cdef column_t* c
    if documents:
        for k in range(count):
            if gathered.layout.columns[k].name in documents:
                gathered.items[k].layout = LAYOUT_OBJECT
    with nogil:
        gathered.fill_columns(0, count)
    for k in range(count):
        c = &gathered.items[k]
        if c.status == GATHER_OK and (c.layout != LAYOUT_OBJECT or c.missing):
            continue
        column = gathered.layout.columns[k]
        if c.layout == LAYOUT_OBJECT and not c.missing:
            try:
                gathered.fill_object(
                    k, transcoding.converter(column, "raise"), documents.get(column.name, {})
                )
            except DecodeError as error:
                error.column = column.name
                raise
        if c.status in (GATHER_BAD_TEXT, GATHER_BAD_JSON) and text_errors == "binary":
            gathered.clear(c)
            c.layout = LAYOUT_BYTES_VIEW if c.layout == LAYOUT_UTF8_VIEW else LAYOUT_BYTES
            fields = (*fields[:k], fields[k].as_binary(), *fields[k + 1:])
            gathered.fill_columns(k, k + 1)
        elif c.status == GATHER_BAD_TEXT:
            # Once more, value by value: to replace what is invalid, or to find its row.
            c.layout = LAYOUT_OBJECT
            gathered.fill_object(k, transcoding.converter(column, text_errors), {})
        if c.status != GATHER_OK:
            raise failure(gathered, k, column)
    return fields


cdef object array_capsule(_Columns gathered, object buffer, object extras, object views):
    cdef int64_t k
    cdef ArrowArray* node = <ArrowArray*> calloc(1, sizeof(ArrowArray))
    if node == NULL:
        raise MemoryError
    capsule = PyCapsule_New(node, "arrow_array", destroy_array_capsule)
    settled = settle_views(gathered.arena, gathered.items, gathered.count, gathered.rows, gathered.record_len,
                           <const uint8_t*> gathered.buffer.buf)
    if settled < 0:
        raise no_memory(gathered, None)
    if settled:
        hold(gathered.arena, buffer)
    if not init_array(gathered.arena, node, gathered.rows, 1, gathered.count + len(extras)):
        raise no_memory(gathered, None)
    for k in range(gathered.count):
        if not fill_node(gathered.arena, node.children[k], &gathered.items[k], gathered.rows):
            raise no_memory(gathered, gathered.layout.columns[k].name)
    for k, extra in enumerate(extras, gathered.count):
        if not fill_change_column(gathered.arena, node.children[k], extra, gathered.rows, extra.name in views):
            raise no_memory(gathered, extra.name)
    return capsule


def export_batch(
    Layout layout not None,
    cnp.ndarray records not None,
    buffer,
    *,
    rows=None,
    bint fill_absent=False,
    text_errors="raise",
    documents=None,
    extras=(),
    views=(),
    transactions=None,
    size_t most,
):
    """Records as one Arrow struct array, in a capsule named "arrow_array".

    Parameters
    ----------
    layout : Layout
        The layout for the dtype of `records`.
    records : ndarray, shape (n,)
    buffer : bytes-like
        The bytes that the spans of the records refer to.
    rows : ndarray of int64, shape (m,), or None
        The records to export, in this order; None: all.
    fill_absent : bool
        Take a column that an update's postimage lacks from the preimage, the record before it.
    text_errors : "raise", "replace" or "binary"
        What to do with bytes that are not text in the column's character set.
    documents : dict of str to dict of int to (bytes or None), or None
        For each JSON column name and record the text that is used instead of its span.
    extras : sequence of ChangeColumn
        Columns to append, of m (or n) values each.
    views : container of str
        The names of those whose text becomes views.
    transactions : ndarray of TRANSACTION_DTYPE, or None
        The transactions that the records' transaction numbers refer to, where the layout needs them.
    most : int
        The most bytes that all columns together may take.

    Returns
    -------
    fields : tuple of ArrowField
        Those of the layout, except where "binary" changed one, and those of the extras.
    array : PyCapsule

    Raises
    ------
    DecodeError
        A span reaches outside the buffer, text is invalid, a value is not possible for its type, or the columns
        are larger than `most`. The error names neither table nor file.
    """
    if text_errors not in ("raise", "replace", "binary"):
        raise ValueError(f"text_errors={text_errors!r}: expected raise, replace or binary")
    gathered = _Columns(layout, records, buffer, rows, fill_absent, transactions, most)
    fields = take_out(gathered, layout.fields, text_errors, documents or {})
    if extras:
        fields = (*fields, *[extra.field.as_view() if extra.name in views else extra.field for extra in extras])
    return fields, array_capsule(gathered, buffer, extras, views)


def export_columns(Layout layout not None, capsule not None, buffer, *, extras=(), views=()):
    """Like :func:`export_batch`, for a batch that was decoded into columns of the layout (`Records.take_columns`).

    Parameters
    ----------
    capsule : PyCapsule
        The columns; the call uses them up.
    buffer : bytes-like
        Where they were decoded from.

    Returns
    -------
    PyCapsule or None
        The array; None if the memory limit is too low for it.
    """
    cdef made_t* made = <made_t*> PyCapsule_GetPointer(capsule, "binlog_columns")
    cdef int64_t k
    cdef int settled
    cdef Py_buffer held
    cdef ArrowArray* node
    if made.count != layout.count:
        raise ValueError(f"layout: expected that of the {made.count} columns, not one of {layout.count}")
    node = <ArrowArray*> calloc(1, sizeof(ArrowArray))
    if node == NULL:
        raise MemoryError
    array = PyCapsule_New(node, "arrow_array", destroy_array_capsule)
    for k in range(layout.count):
        if is_view(&made.items[k]) and made.items[k].end:
            PyObject_GetBuffer(buffer, &held, PyBUF_SIMPLE)
            settled = settle_views(made.arena, made.items, made.count, made.rows, layout.record_len,
                                   <const uint8_t*> held.buf + made.begin)
            PyBuffer_Release(&held)
            if settled < 0:
                return None
            if settled:
                hold(made.arena, buffer)
            break
    if not init_array(made.arena, node, made.rows, 1, layout.count + len(extras)):
        return None
    for k in range(layout.count):
        if not fill_node(made.arena, node.children[k], &made.items[k], made.rows):
            return None
    for k, extra in enumerate(extras, layout.count):
        if not fill_change_column(made.arena, node.children[k], extra, made.rows, extra.name in views):
            return None
    return array


def array_address(capsule):
    """Address of the ArrowArray in a capsule named "arrow_array"; whoever moves it out marks it as released."""
    return <uintptr_t> PyCapsule_GetPointer(capsule, "arrow_array")


def span_values(
    cnp.ndarray records not None, column, field, buffer, *, text_errors="raise", documents=None, size_t most
):
    """One column's values of variable length as Python objects.

    Parameters
    ----------
    records, buffer, text_errors, documents, most
        As in :func:`export_batch`.
    column : Column
        A column that is a span in the records.
    field : ArrowField
        A string ("u") gives str, binary ("z") bytes.

    Returns
    -------
    list of (str, bytes or None), length n

    Raises
    ------
    DecodeError
        As in :func:`export_batch`.
    """
    cdef int64_t i
    cdef column_t* c
    cdef bint as_text
    gathered = _Columns(Layout(records.dtype, (column,), (field,)), records, buffer, None, False, None, most)
    if column.kind == KIND_GEOMETRY:
        gathered.items[0].layout = LAYOUT_BYTES     # as logged: SRID and WKB
    fields = take_out(gathered, (field,), text_errors, documents or {})
    c = &gathered.items[0]
    as_text = fields[0].format == "u"
    values = []
    for i in range(gathered.rows):
        if c.validity != NULL and not (c.validity[i >> 3] >> (i & 7)) & 1:
            values.append(None)
        else:
            value = PyBytes_FromStringAndSize(
                <const char*> c.data + c.offsets[i], c.offsets[i + 1] - c.offsets[i]
            )
            values.append(value.decode() if as_text else value)
    return values
