"""Structured array to Arrow-layout column buffers, handed out through the Arrow C data interface.

No Arrow library takes part. Everything exported is malloc'ed and owned by its node, so it
outlives the batch that it was made from.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

cimport numpy as cnp

from _arrow cimport ArrowArray, init_array
from _codes cimport (
    KIND_BINARY, KIND_DATE, KIND_DATETIME, KIND_DECIMAL, KIND_ENUM, KIND_GEOMETRY, KIND_JSON, KIND_NULL, KIND_SET,
    KIND_TEXT, KIND_TIME, KIND_TIMESTAMP, KIND_VECTOR, OP_UPDATE_POSTIMAGE, OP_UPDATE_PREIMAGE,
)
from _gather cimport (
    GATHER_BAD_JSON, GATHER_BAD_LENGTH, GATHER_BAD_NUMBER, GATHER_BAD_SPAN, GATHER_BAD_TEXT,
    GATHER_NO_MEMORY, GATHER_OK, GATHER_TOO_LARGE, LAYOUT_BYTES, LAYOUT_COPY, LAYOUT_DAYS,
    LAYOUT_DECIMAL64, LAYOUT_DECIMAL_TEXT, LAYOUT_ENUM, LAYOUT_EWKB, LAYOUT_FIXED_BYTES, LAYOUT_GEOMETRY,
    LAYOUT_JSON, LAYOUT_MICROS, LAYOUT_NULL, LAYOUT_OBJECT, LAYOUT_SET, LAYOUT_TABLE, LAYOUT_UTF8,
    LAYOUT_UTF16_BE, LAYOUT_UTF16_LE, LAYOUT_UTF32, LAYOUT_VECTOR, TILE, all_null, allocate_slots,
    column_t, gather, mark_null, reserve, store_validity, take_spans, tile_t,
)
from _labels cimport fill_change_column, fill_dictionary

import numpy as np

from binlog_core import transcoding
from binlog_core.errors import DecodeError

cnp.import_array()


cdef void destroy_array_capsule(object capsule) noexcept:
    cdef ArrowArray* node = <ArrowArray*> PyCapsule_GetPointer(capsule, "arrow_array")
    if node.release != NULL:
        node.release(node)
    free(node)


# --- Columns -----------------------------------------------------------------------------------------

cdef class _Columns:
    # The C side of a batch: where its records are, and one column_t per column.
    cdef column_t* items
    cdef int count
    cdef const uint8_t* base          # of the first record
    cdef int64_t stride
    cdef int64_t record_count
    cdef int64_t rows                 # of the result
    cdef const int64_t* selected      # rows of the result, or NULL: all
    cdef bint fill_absent
    cdef uint32_t bitmaps             # where in a record: NULL bitmap, absent bitmap right behind it
    cdef uint32_t bitmap_len
    cdef uint8_t* seen                # OR of a tile's bitmaps
    cdef Py_buffer buffer
    cdef bint has_buffer
    cdef object records, keep

    def __cinit__(self, cnp.ndarray records, columns, fields, buffer, rows, bint fill_absent):
        self.keep = []
        self.records = records
        self.base = <const uint8_t*> cnp.PyArray_DATA(records)
        self.record_count = records.shape[0]
        self.stride = records.strides[0]
        self.rows = self.record_count
        self.fill_absent = fill_absent
        cdef const int64_t[::1] selected
        if rows is not None:
            rows = np.ascontiguousarray(rows, np.int64)
            if rows.size and (rows.min() < 0 or rows.max() >= self.record_count):
                raise IndexError(f"rows: outside of 0 to {self.record_count - 1}")
            self.keep.append(rows)
            self.rows = rows.size
            selected = rows
            self.selected = &selected[0] if self.rows else NULL
        PyObject_GetBuffer(buffer, &self.buffer, PyBUF_SIMPLE)
        self.has_buffer = True
        image, image_offset = records.dtype.fields["image"][:2]
        null_bitmap, null_offset = image.fields["null_bitmap"][:2]
        absent_offset = image.fields["absent_bitmap"][1]
        self.bitmaps = image_offset + null_offset
        self.bitmap_len = null_bitmap.itemsize
        if absent_offset != null_offset + self.bitmap_len:
            raise ValueError("records whose absent bitmap does not follow the NULL bitmap")
        self.seen = <uint8_t*> malloc(2 * self.bitmap_len + 1)
        self.items = <column_t*> calloc(len(columns) + 1, sizeof(column_t))
        if self.seen == NULL or self.items == NULL:
            raise MemoryError
        row, row_offset = records.dtype.fields["row"][:2]
        places = row.fields or {}
        for column, field in zip(columns, fields, strict=True):
            if column.name not in places:
                self.plan(&self.items[self.count], column, field, column.dtype.itemsize)
                self.items[self.count].missing = True
                self.count += 1
                continue
            dtype, offset = places[column.name][:2]
            if dtype != column.dtype:
                raise ValueError(f"column {column.name!r}: {column.dtype}, the records hold {dtype}")
            if column.index // 8 >= self.bitmap_len:
                raise ValueError(f"column {column.name!r}: no place {column.index} in the NULL bitmap")
            self.plan(&self.items[self.count], column, field, dtype.itemsize)
            self.items[self.count].field = row_offset + offset
            if column.index < 0:
                # No column of the table (RAW_COLUMN): always there, and no bit is its own.
                self.items[self.count].null_byte = self.items[self.count].absent_byte = self.bitmaps
                self.count += 1
                continue
            self.items[self.count].null_byte = self.bitmaps + column.index // 8
            self.items[self.count].absent_byte = self.bitmaps + self.bitmap_len + column.index // 8
            self.items[self.count].mask = 1 << (column.index % 8)
            self.count += 1

    def __dealloc__(self):
        cdef int i
        for i in range(self.count):
            self.clear(&self.items[i])
        free(self.items)
        free(self.seen)
        if self.has_buffer:
            PyBuffer_Release(&self.buffer)

    cdef void clear(self, column_t* c) noexcept nogil:
        free(c.validity)
        free(c.slots)
        free(c.offsets)
        free(c.data)
        c.validity = NULL
        c.slots = NULL
        c.offsets = NULL
        c.data = NULL
        c.null_count = 0
        c.data_len = 0
        c.data_capacity = 0
        c.status = GATHER_OK

    cdef int plan(self, column_t* c, object column, object field, uint32_t itemsize) except -1:
        # Which loop takes the column out, and what that loop needs.
        cdef int kind = column.kind
        c.width = itemsize
        c.layout = LAYOUT_COPY
        if kind == KIND_NULL:
            c.layout = LAYOUT_NULL
            c.width = 0
        elif kind == KIND_DATE:
            c.layout = LAYOUT_DAYS
            c.width = 4
        elif kind in (KIND_DATETIME, KIND_TIMESTAMP, KIND_TIME):
            c.layout = LAYOUT_MICROS
        elif kind == KIND_DECIMAL and itemsize == 8:
            c.layout = LAYOUT_DECIMAL64
            c.width = 16
        elif kind == KIND_DECIMAL and field.format == "u":
            if itemsize != 32 or not 0 <= column.scale <= 40:
                raise DecodeError(
                    f"no text of DECIMAL({column.precision},{column.scale})", column=column.name
                )
            c.layout = LAYOUT_DECIMAL_TEXT
            c.width = 0
            c.scale = column.scale
        elif kind == KIND_ENUM and field.dictionary is not None:
            c.layout = LAYOUT_ENUM
            c.width = 2 if field.format == "s" else 4
            self.plan_codes(c, field.codes)
        elif kind == KIND_SET and field.children:
            c.layout = LAYOUT_SET
            c.width = 0
            self.plan_codes(c, field.children[0].codes)
        elif kind in (KIND_TEXT, KIND_BINARY, KIND_JSON, KIND_GEOMETRY, KIND_VECTOR):
            c.width = 0
            self.plan_span(c, column, field)
        return 0

    cdef int plan_codes(self, column_t* c, object codes) except -1:
        cdef const uint32_t[::1] words = self.kept(np.array(codes, np.uint32))
        c.codes = &words[0] if len(codes) else NULL
        c.code_count = len(codes)
        return 0

    cdef object kept(self, array):
        self.keep.append(array)
        return array

    cdef int plan_span(self, column_t* c, object column, object field) except -1:
        cdef const uint32_t[::1] table
        cdef int kind = column.kind
        if field.format.startswith("w:"):
            c.layout = LAYOUT_FIXED_BYTES
            c.width = c.pad = int(field.format[2:])
        elif field.format.startswith("+w:"):
            c.layout = LAYOUT_FIXED_BYTES
            c.width = 4 * <uint32_t> int(field.format[3:])
        elif field.format == "z":
            c.layout = LAYOUT_EWKB if kind == KIND_GEOMETRY else LAYOUT_BYTES
            c.pad = column.pad_to if kind == KIND_BINARY else 0
        elif kind == KIND_GEOMETRY:
            c.layout = LAYOUT_GEOMETRY
            c.width = 4
        elif kind == KIND_VECTOR:
            c.layout = LAYOUT_VECTOR
        elif kind == KIND_JSON:
            c.layout = LAYOUT_JSON
        else:
            encoding = transcoding.encoding_of(column.charset)
            if encoding == "utf8":
                c.layout = LAYOUT_UTF8
            elif encoding == "utf16be":
                c.layout = LAYOUT_UTF16_BE
            elif encoding == "utf16le":
                c.layout = LAYOUT_UTF16_LE
            elif encoding == "utf32be":
                c.layout = LAYOUT_UTF32
            elif encoding == "table":
                c.layout = LAYOUT_TABLE
                words, c.keeps_ascii = transcoding.utf8_table(column.charset)
                table = self.kept(words)
                c.table = &table[0]
            else:
                c.layout = LAYOUT_OBJECT
        return 0

    cdef void begin_tile(self, tile_t* tile, int64_t first) noexcept nogil:
        cdef int i
        cdef uint32_t b, bitmaps_len = 2 * self.bitmap_len
        cdef const uint8_t* record
        tile.first = first
        tile.rows = self.rows
        tile.count = <int> min(<int64_t> TILE, self.rows - first)
        tile.buffer = <const uint8_t*> self.buffer.buf
        tile.buffer_len = <uint64_t> self.buffer.len
        for i in range(tile.count):
            tile.records[i] = self.base + self.index(first + i) * self.stride
        memset(self.seen, 0, bitmaps_len)
        for i in range(tile.count):
            record = tile.records[i] + self.bitmaps
            for b in range(bitmaps_len):
                self.seen[b] |= record[b]

    cdef inline int64_t index(self, int64_t row) noexcept nogil:
        return self.selected[row] if self.selected != NULL else row

    cdef void begin_column(self, column_t* c, tile_t* tile) noexcept nogil:
        # Which of the tile's values are there. Most tiles hold no null: one look tells.
        cdef int i
        cdef uint8_t nulls = self.seen[c.null_byte - self.bitmaps]
        cdef uint8_t absents = self.seen[c.absent_byte - self.bitmaps]
        tile.has_nulls = (nulls | absents) & c.mask != 0
        if not tile.has_nulls:
            return
        if self.fill_absent and absents & c.mask:
            for i in range(tile.count):
                tile.records[i] = self.record_with(c, tile.first + i)
        for i in range(tile.count):
            tile.valid[i] = (tile.records[i][c.null_byte] | tile.records[i][c.absent_byte]) & c.mask == 0

    cdef inline const uint8_t* record_with(self, column_t* c, int64_t row) noexcept nogil:
        # The record itself, or its preimage (the record before) where the postimage lacks the column.
        cdef int64_t i = self.index(row)
        cdef const uint8_t* record = self.base + i * self.stride
        if record[c.absent_byte] & c.mask and record[0] == OP_UPDATE_POSTIMAGE and i > 0:
            if (record - self.stride)[0] == OP_UPDATE_PREIMAGE:
                return record - self.stride
        return record

    cdef void end_column(self, tile_t* tile) noexcept nogil:
        cdef int i
        if self.fill_absent and tile.has_nulls:
            for i in range(tile.count):
                tile.records[i] = self.base + self.index(tile.first + i) * self.stride

    cdef void run(self, int begin, int end) noexcept nogil:
        # Take columns begin to end out of all records; what fails is noted in its column.
        cdef tile_t tile
        cdef int64_t first
        cdef int k
        cdef column_t* c
        for k in range(begin, end):
            c = &self.items[k]
            if not allocate_slots(c, self.rows) or (c.missing and not all_null(c, self.rows)):
                c.status = GATHER_NO_MEMORY
        first = 0
        while first < self.rows:
            self.begin_tile(&tile, first)
            for k in range(begin, end):
                c = &self.items[k]
                if c.status != GATHER_OK or c.missing or c.layout in (LAYOUT_OBJECT, LAYOUT_NULL):
                    continue
                self.begin_column(c, &tile)
                c.status = gather(c, &tile)
                if c.status == GATHER_OK and tile.has_nulls and not store_validity(c, &tile):
                    c.status = GATHER_NO_MEMORY
                self.end_column(&tile)
            first += TILE

    cdef int run_object(self, int k, object convert, object given) except -1:
        # Take column k out value by value: convert(bytes) gives UTF-8 or None for null;
        # given[record] is used instead where it is there.
        cdef tile_t tile
        cdef int64_t first = 0
        cdef int i
        cdef uint64_t total
        cdef column_t* c = &self.items[k]
        cdef bytes value
        cdef size_t size
        self.clear(c)
        if not allocate_slots(c, self.rows):
            raise MemoryError
        while first < self.rows:
            self.begin_tile(&tile, first)
            self.begin_column(c, &tile)
            c.status = take_spans(c, &tile, &total)
            if c.status != GATHER_OK:
                return 0
            for i in range(tile.count):
                record = self.index(first + i)
                if self.fill_absent and tile.records[i] != self.base + record * self.stride:
                    record -= 1     # its preimage stands in
                if tile.has_nulls and not tile.valid[i]:
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
                    if not reserve(c, size):
                        raise MemoryError
                    memcpy(c.data + c.data_len, PyBytes_AS_STRING(value), size)
                    c.data_len += size
                c.offsets[first + i + 1] = <int32_t> c.data_len
            if tile.has_nulls and not store_validity(c, &tile):
                raise MemoryError
            self.end_column(&tile)
            first += TILE
        return 0

    cdef int move(self, column_t* c, object field, ArrowArray* node) except -1:
        # Give the column's buffers to its node.
        cdef int64_t rows = self.rows
        cdef ArrowArray* child
        if c.layout == LAYOUT_NULL:
            if not init_array(node, rows, 0, 0):
                raise MemoryError
            node.null_count = rows
            return 0
        if c.layout == LAYOUT_SET or c.layout == LAYOUT_VECTOR:
            if not init_array(node, rows, 2, 1):
                raise MemoryError
            node.buffers[1] = take(<void**> &c.offsets)
            child = node.children[0]
            if not init_array(child, <int64_t> c.data_len // (1 if c.layout == LAYOUT_SET else 4), 2, 0):
                raise MemoryError
            child.buffers[1] = take(<void**> &c.data)
            if c.layout == LAYOUT_SET:
                fill_dictionary(child, field.children[0].labels)
        elif c.layout == LAYOUT_GEOMETRY:
            if not init_array(node, rows, 1, 2):
                raise MemoryError
            if not init_array(node.children[0], rows, 2, 0) or not init_array(node.children[1], rows, 3, 0):
                raise MemoryError
            node.children[0].buffers[1] = take(<void**> &c.slots)
            node.children[1].buffers[1] = take(<void**> &c.offsets)
            node.children[1].buffers[2] = take(<void**> &c.data)
        elif c.layout == LAYOUT_FIXED_BYTES and field.children:
            if not init_array(node, rows, 1, 1):
                raise MemoryError
            if not init_array(node.children[0], rows * (c.width // 4), 2, 0):
                raise MemoryError
            node.children[0].buffers[1] = take(<void**> &c.slots)
        elif c.offsets != NULL:
            if not init_array(node, rows, 3, 0):
                raise MemoryError
            node.buffers[1] = take(<void**> &c.offsets)
            node.buffers[2] = take(<void**> &c.data)
        else:
            if not init_array(node, rows, 2, 0):
                raise MemoryError
            node.buffers[1] = take(<void**> &c.slots)
            if c.layout == LAYOUT_ENUM:
                fill_dictionary(node, field.labels)
        node.buffers[0] = take(<void**> &c.validity)
        node.null_count = c.null_count
        return 0


cdef void* take(void** place) noexcept nogil:
    cdef void* block = place[0]
    place[0] = NULL
    return block


# --- What Python calls -------------------------------------------------------------------------------

cdef object failure(_Columns gathered, int k, object column, object where):
    # The error of column k, told with the place in the file where its row was logged.
    cdef column_t* c = &gathered.items[k]
    cdef int64_t record
    if c.status == GATHER_NO_MEMORY:
        return MemoryError()
    record = gathered.index(c.failed)
    message = {
        GATHER_BAD_SPAN: f"record {record}: the value's span reaches outside the batch's buffer",
        GATHER_BAD_TEXT: f"record {record}: invalid {column.charset} text; "
        "text_errors='replace' or 'binary' lets it pass",
        GATHER_BAD_JSON: f"record {record}: a binary JSON document that cannot be; "
        "text_errors='binary' lets it pass",
        GATHER_BAD_LENGTH: f"record {record}: a value of a length that {column.kind.name} cannot have",
        GATHER_BAD_NUMBER: f"record {record}: a number that {column.kind.name} cannot have",
        GATHER_TOO_LARGE: f"more than {INT32_MAX} bytes of values in one batch; read in smaller groups",
    }[c.status]
    if c.status == GATHER_BAD_LENGTH and column.kind == KIND_VECTOR and column.dimensions is not None:
        message += f" with {column.dimensions} dimensions; vectors='list' takes shorter ones"
    return DecodeError(
        message,
        offset=int(gathered.records[record]["image"]["position"]),
        table=where[0],
        path=where[1],
        column=column.name,
    )


cdef int take_out(
    _Columns gathered, object columns, list fields, object text_errors, object documents, object where
) except -1:
    # Fill every column; fields change where text_errors="binary" makes bytes of text.
    cdef int k, count = gathered.count
    cdef column_t* c
    for k in range(count):
        if columns[k].name in documents:
            gathered.items[k].layout = LAYOUT_OBJECT
    with nogil:
        gathered.run(0, count)
    for k in range(count):
        c = &gathered.items[k]
        column = columns[k]
        if c.layout == LAYOUT_OBJECT and not c.missing:
            try:
                gathered.run_object(
                    k, transcoding.converter(column, "raise"), documents.get(column.name, {})
                )
            except DecodeError as error:
                error.table, error.path = where
                error.column = column.name
                raise
        if c.status in (GATHER_BAD_TEXT, GATHER_BAD_JSON) and text_errors == "binary":
            gathered.clear(c)
            c.layout = LAYOUT_BYTES
            fields[k] = fields[k].as_binary()
            gathered.run(k, k + 1)
        elif c.status == GATHER_BAD_TEXT:
            # Again, value by value: to replace what is invalid, or to find the row it is in.
            c.layout = LAYOUT_OBJECT
            gathered.run_object(k, transcoding.converter(column, text_errors), {})
        if c.status != GATHER_OK:
            raise failure(gathered, k, column, where)
    return 0


def export_batch(
    cnp.ndarray records not None,
    columns,
    fields,
    buffer,
    *,
    table=None,
    path=None,
    rows=None,
    bint fill_absent=False,
    text_errors="raise",
    documents=None,
    extras=(),
):
    """Records as one Arrow struct array, in a capsule named "arrow_array".

    Parameters
    ----------
    records : ndarray, shape (n,), of record_dtype(…, columns)
    columns : sequence of Column
        The columns to export; each is a field of ``records["row"]``. None: a column that the records do not
        have, exported as nulls.
    fields : sequence of ArrowField
        One for each column, from ``arrow_field``.
    buffer : bytes-like
        What the spans of the records refer to.
    table, path : str or None
        For errors.
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

    Returns
    -------
    fields : tuple of ArrowField
        Those given, except where "binary" changed one, and those of the extras.
    array : PyCapsule

    Raises
    ------
    DecodeError
        A span reaches outside the buffer, text is invalid, a value cannot be of its type.
    """
    cdef ArrowArray* node
    cdef int k
    if records.ndim != 1:
        raise ValueError(f"records: {records.ndim} dimensions, expected 1")
    if text_errors not in ("raise", "replace", "binary"):
        raise ValueError(f"text_errors={text_errors!r}: raise, replace and binary are known")
    used = list(fields)
    gathered = _Columns(records, columns, used, buffer, rows, fill_absent)
    take_out(gathered, columns, used, text_errors, documents or {}, (table, path))
    node = <ArrowArray*> calloc(1, sizeof(ArrowArray))
    if node == NULL:
        raise MemoryError
    capsule = PyCapsule_New(node, "arrow_array", destroy_array_capsule)
    if not init_array(node, gathered.rows, 1, gathered.count + len(extras)):
        raise MemoryError
    for k in range(gathered.count):
        gathered.move(&gathered.items[k], used[k], node.children[k])
    for k, extra in enumerate(extras, gathered.count):
        fill_change_column(node.children[k], extra, gathered.rows)
        used.append(extra.field)
    return tuple(used), capsule


def span_values(cnp.ndarray records not None, column, field, buffer, *, table=None, path=None,
                text_errors="raise", documents=None):
    """One column's values of variable length as Python objects.

    Parameters
    ----------
    records, buffer, table, path, text_errors, documents
        As in :func:`export_batch`.
    column : Column
        With a span in the records.
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
    used = [field]
    gathered = _Columns(records, (column,), used, buffer, None, False)
    if column.kind == KIND_GEOMETRY:
        gathered.items[0].layout = LAYOUT_BYTES     # as logged: SRID and WKB
    take_out(gathered, (column,), used, text_errors, documents or {}, (table, path))
    c = &gathered.items[0]
    as_text = used[0].format == "u"
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
