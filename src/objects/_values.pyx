"""From the records of a batch to Python values and RowChange objects.

One pass over a plan per record: no Python code runs per value, except for what only Python can
make (Decimal, text in rare character sets, partial JSON updates).
"""

import decimal
import sys
from datetime import timezone

import numpy as np

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.datetime cimport date_new, datetime_new, import_datetime, timedelta_new
from cpython.dict cimport PyDict_Copy, PyDict_SetItem
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.tuple cimport PyTuple_GET_ITEM
from cpython.unicode cimport PyUnicode_DecodeASCII, PyUnicode_DecodeUTF8
from libc.stdint cimport (
    INT64_MIN, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
)
from libc.string cimport memcpy, memset

from batch.records cimport (
    OP_DELETE, OP_INSERT, OP_UPDATE_POSTIMAGE, OP_UPDATE_PREIMAGE, image_t, invalid_date_t, span_t, transaction_t,
)
from memory.memory cimport append, memory_t, release, reserve
from objects.value_objects cimport (
    FORM_ASCII, FORM_BYTES, FORM_DATE, FORM_DATETIME, FORM_DECIMAL, FORM_DOUBLE, FORM_ENUM, FORM_FLOAT, FORM_I16,
    FORM_I32, FORM_I64, FORM_I8, FORM_JSON, FORM_NONE, FORM_SET, FORM_TEXT, FORM_TIME, FORM_TIMESTAMP, FORM_U16,
    FORM_U32, FORM_U64, FORM_U8, FORM_UTF8, FORM_VECTOR, date_text, decimal_value, enum_value, field_t, form_t,
    gtid_text, padded_bytes, set_value, vector_value,
)
from types.calendar cimport calendar_of_days, calendar_of_us, calendar_t, floor_div, put_date, put_time
from types.decimal_text cimport DECIMAL_TEXT_MAX, decimal_text
from types.digits cimport append_signed, append_unsigned
from types.jsonb_text cimport append_jsonb_text
from types.utf8 cimport is_ascii, is_utf8
from wire.codes cimport (
    DECODE_NO_MEMORY, DECODE_OK, KIND_BINARY, KIND_BIT, KIND_DATE, KIND_DATETIME, KIND_DECIMAL, KIND_DOUBLE,
    KIND_ENUM, KIND_FLOAT, KIND_GEOMETRY, KIND_INT, KIND_JSON, KIND_NULL, KIND_SET, KIND_TEXT, KIND_TIME,
    KIND_TIMESTAMP, KIND_VECTOR, KIND_YEAR,
)

from .._tables import charsets
from ._jsonb import apply_json_diffs, parse_json_diffs
from .._tables.side_dtypes import INVALID_DATE_DTYPE, TRANSACTION_DTYPE
from ..errors import DecodeError
from .._tables.tables import record_dtype

import_datetime()

cdef object Decimal = decimal.Decimal
cdef object UTC = timezone.utc


# -- RowChange -------------------------------------------------------------------------------

@cython.final
@cython.freelist(256)
cdef class RowChange:
    """One changed row, as ``log.rows()`` yields them.

    Parameters
    ----------
    op : str
        "insert", "update" or "delete".
    database, table : str
    before, after : dict of str to value, or None
        The row before and after the change: column name to Python value, in table order. None
        where there is none; a column that is absent from the image is no key.
    position : int
        Offset in bytes of the event (the outermost) in its file.
    timestamp : int
        Of the event's header, seconds since 1970 UTC.
    gtid : str or None
        As the server prints it; None without one, or an anonymous one.
    commit_time : int or None
        Of the transaction's commit where it was made, microseconds since 1970 UTC; None where the log does
        not tell.
    path : str or None
        The file, or name of the source. Changes that differ in nothing else are equal.

    All of them are attributes.
    """

    cdef readonly str op
    cdef readonly str database
    cdef readonly str table
    cdef readonly object before
    cdef readonly object after
    cdef readonly object position
    cdef readonly object timestamp
    cdef readonly object gtid
    cdef readonly object commit_time
    cdef readonly object path

    __match_args__ = (
        "op", "database", "table", "before", "after", "position", "timestamp", "gtid", "commit_time", "path",
    )

    def __init__(self, op, database, table, before=None, after=None, position=0, timestamp=0, gtid=None,
                 commit_time=None, path=None):
        self.op = op
        self.database = database
        self.table = table
        self.before = before
        self.after = after
        self.position = position
        self.timestamp = timestamp
        self.gtid = gtid
        self.commit_time = commit_time
        self.path = path

    cdef tuple fields(self):
        return (
            self.op, self.database, self.table, self.before, self.after,
            self.position, self.timestamp, self.gtid, self.commit_time,
        )

    def __repr__(self):
        named = zip(self.__match_args__, (*self.fields(), self.path), strict=True)
        return f"RowChange({', '.join([f'{name}={value!r}' for name, value in named])})"

    def __eq__(self, other):
        if not isinstance(other, RowChange):
            return NotImplemented
        return self.fields() == (<RowChange> other).fields()

    def __reduce__(self):
        return RowChange, (*self.fields(), self.path)


# -- The plan --------------------------------------------------------------------------------

cdef dict INT_FORMS = {
    "i1": FORM_I8, "i2": FORM_I16, "i4": FORM_I32, "i8": FORM_I64,
    "u1": FORM_U8, "u2": FORM_U16, "u4": FORM_U32, "u8": FORM_U64,
}

cdef dict FORMS = {
    KIND_NULL: FORM_NONE,
    KIND_FLOAT: FORM_FLOAT,
    KIND_DOUBLE: FORM_DOUBLE,
    KIND_YEAR: FORM_U16,
    KIND_DECIMAL: FORM_DECIMAL,
    KIND_DATE: FORM_DATE,
    KIND_DATETIME: FORM_DATETIME,
    KIND_TIMESTAMP: FORM_TIMESTAMP,
    KIND_TIME: FORM_TIME,
    KIND_TEXT: FORM_TEXT,
    KIND_BINARY: FORM_BYTES,
    KIND_ENUM: FORM_ENUM,
    KIND_SET: FORM_SET,
    KIND_JSON: FORM_JSON,
    KIND_GEOMETRY: FORM_BYTES,
    KIND_VECTOR: FORM_VECTOR,
}


# Bytes of a field of the record; of those that are not here a span's.
cdef dict FORM_SIZES = {
    FORM_NONE: (0, 1),
    FORM_FLOAT: (4,),
    FORM_DOUBLE: (8,),
    FORM_U16: (2,),
    FORM_DECIMAL: (8, 16, 32),
    FORM_DATE: (8,),
    FORM_DATETIME: (8,),
    FORM_TIMESTAMP: (8,),
    FORM_TIME: (8,),
    FORM_ENUM: (2,),
    FORM_SET: (8,),
}


@cython.final
cdef class ValuePlan:
    """How the records of one table definition become Python values; made once, used by many readers.

    Parameters
    ----------
    table : Table
    columns : tuple of Column
        The decoded ones, in table order.
    """

    cdef readonly object table
    cdef readonly tuple columns
    cdef readonly object dtype
    cdef tuple names
    cdef tuple helpers        # per column: members (a tuple) of ENUM and SET, the decoder of text, or None
    cdef dict template        # every name with None: copied, it is cheaper than a dict that grows
    cdef field_t* fields
    cdef Py_ssize_t count
    cdef size_t bitmap_len
    cdef size_t record_len

    def __cinit__(self, table, columns):
        self.table = table
        self.columns = tuple(columns)
        self.dtype = record_dtype(len(table.columns), self.columns)
        self.count = len(self.columns)
        self.bitmap_len = <size_t> (len(table.columns) + 7) // 8
        self.record_len = <size_t> self.dtype.itemsize
        self.names = tuple([sys.intern(column.name) for column in self.columns])
        self.template = dict.fromkeys(self.names)
        self.fields = <field_t*> PyMem_Malloc((self.count + 1) * sizeof(field_t))
        if self.fields == NULL:
            raise MemoryError
        row_offset = self.dtype.fields["row"][1]
        row = self.dtype["row"]
        helpers = []
        for i, column in enumerate(self.columns):
            dtype, offset = row.fields[column.name]
            if not 0 <= column.index < len(table.columns):
                raise ValueError(
                    f"column {column.name!r} has index {column.index}: the table has {len(table.columns)} columns"
                )
            helpers.append(fill_field(&self.fields[i], column, dtype, row_offset + offset))
        self.helpers = tuple(helpers)

    def __dealloc__(self):
        PyMem_Free(self.fields)


cdef object fill_field(field_t* field, column, dtype, offset):
    # Returns what the column's values need from Python.
    memset(field, 0, sizeof(field_t))
    field.offset = offset
    field.column = column.index
    field.bitmap_byte = <size_t> column.index // 8
    field.bitmap_mask = <uint8_t> (1 << (column.index % 8))
    field.scale = column.fsp
    kind = int(column.kind)
    if kind == KIND_INT or kind == KIND_BIT:
        field.form = INT_FORMS[dtype.str[1:]]
        return None
    field.form = FORMS[kind]
    if dtype.itemsize not in FORM_SIZES.get(field.form, (sizeof(span_t),)):
        raise ValueError(f"column {column.name!r}: {dtype} is not what {column.kind!r} is stored as")
    if kind == KIND_DECIMAL:
        field.scale = column.scale
        field.limb_count = dtype.itemsize // 8
        if not 0 <= field.scale <= 40:
            raise ValueError(f"DECIMAL scale {column.scale}")
    elif kind == KIND_BINARY:
        field.pad_to = column.pad_to
    elif kind == KIND_ENUM or kind == KIND_SET:
        return None if column.members is None else tuple(column.members)
    elif kind == KIND_TEXT:
        if column.charset in ("utf8mb4", "utf8mb3", "utf8"):
            field.form = FORM_UTF8
        elif column.charset == "ascii":
            field.form = FORM_ASCII
        else:
            charset = charsets.get(column.charset or "")
            if charset is None or not charset.decodable:
                field.form = FORM_BYTES
                return None
            field.ascii_alike = is_ascii_alike(charset)
            return charset.decode
    return None


def is_ascii_alike(charset):
    try:
        return charset.decode(bytes(range(128))) == bytes(range(128)).decode("ascii")
    except UnicodeDecodeError:
        return False


# -- Structured memory -----------------------------------------------------------------------

@cython.final
cdef class Memory:
    # The bytes of a contiguous bytes-like, held for as long as this lives.
    cdef Py_buffer view
    cdef const uint8_t* data
    cdef size_t length

    def __cinit__(self, source):
        PyObject_GetBuffer(source, &self.view, PyBUF_SIMPLE)
        self.data = <const uint8_t*> self.view.buf
        self.length = <size_t> self.view.len

    def __dealloc__(self):
        PyBuffer_Release(&self.view)


cdef Memory memory_of(array, dtype):
    # dates and nested fields cannot be exported by the buffer protocol: as plain bytes they can
    if array.dtype != dtype:
        raise ValueError(f"an array of dtype {array.dtype}, {dtype} is needed")
    return Memory(np.ascontiguousarray(array).view(np.uint8))


# -- Texts of formats ------------------------------------------------------------------------

cdef enum text_form_t:
    TEXT_CSV = 1
    TEXT_JSON = 2
    TEXT_SQL = 4

cdef dict TEXT_FORMS = {"csv": TEXT_CSV, "json": TEXT_JSON, "sql": TEXT_SQL}


cdef inline void put_quote(memory_t* out, text_form_t form) noexcept nogil:
    # There is room for it.
    if form != TEXT_CSV:
        out.data[out.length] = c'"' if form == TEXT_JSON else c"'"
        out.length += 1


cdef int put_bytes(memory_t* out, bytes text) except -1:
    if append(out, <const char*> text, <size_t> len(text)):
        raise MemoryError
    return 0


cdef inline bint is_space(uint8_t c) noexcept nogil:
    return c == c' ' or 9 <= c <= 13 or 28 <= c <= 31


cdef bint needs_no_escape(const char* data, size_t length, text_form_t form, bint utf8) noexcept nogil:
    # Of ASCII, or of what may be UTF-8
    cdef const uint8_t* p = <const uint8_t*> data
    cdef size_t i
    cdef uint8_t c
    if form == TEXT_CSV:
        if not length or is_space(p[0]) or is_space(p[length - 1]) or p[0] > 126 or p[length - 1] > 126:
            return False
        for i in range(length):
            c = p[i]
            if c == c',' or c == c'"' or c == 10 or c == 13 or (c > 127 and not utf8):
                return False
        return True
    if form == TEXT_JSON:
        for i in range(length):
            c = p[i]
            if c < 32 or c == c'"' or c == c'\\' or (c > 127 and not utf8):
                return False
        return True
    for i in range(length):
        c = p[i]
        if c < 32 or c > 126 or c == c"'" or c == c'\\':
            return False
    return True


# -- The reader ------------------------------------------------------------------------------

@cython.final
cdef class RowReader:
    """Python values of one batch's records.

    Parameters
    ----------
    batch : ChangeBatch
    plan : ValuePlan or None
        Of the same table definition and columns, to save making it again.
    on_error : "raise" or "skip"
        A value whose bytes cannot be decoded (damaged JSON, a list of changes that does not fit
        its document, a VECTOR that is no row of floats): raise, or give its bytes and count it.

    Attributes
    ----------
    plan : ValuePlan
    invalid_text : int
        Values met so far whose bytes are no text in their character set; they come as bytes.
    damaged_values : int
        Values met so far that came as bytes because they cannot be decoded.
    first_invalid_text, first_damaged_value : DecodeError or None
        The first of each, with path, offset, table and column.

    A reader is for one thread.
    """

    cdef readonly ValuePlan plan
    cdef readonly Py_ssize_t invalid_text
    cdef readonly Py_ssize_t damaged_values
    cdef readonly object first_invalid_text
    cdef readonly object first_damaged_value
    cdef object array
    cdef object path
    cdef object database
    cdef object table
    cdef bint skips
    cdef Memory records_memory
    cdef Memory heap
    cdef Memory transactions_memory
    cdef Memory invalid_memory
    cdef const uint8_t* records
    cdef Py_ssize_t record_count
    cdef const transaction_t* transactions
    cdef Py_ssize_t transaction_count
    cdef const invalid_date_t* invalid
    cdef Py_ssize_t invalid_count
    cdef set json_diffs
    cdef Py_ssize_t gtid_of           # the transaction whose GTID and commit time are in the two below
    cdef object gtid
    cdef object commit_time

    def __cinit__(self, batch, ValuePlan plan=None, on_error="raise"):
        if on_error not in ("raise", "skip"):
            raise ValueError(f"on_error={on_error!r}: raise and skip are known")
        self.plan = ValuePlan(batch.table, batch.columns) if plan is None else plan
        self.skips = on_error == "skip"
        self.array = batch.array
        self.path = batch.path
        self.database = batch.table.database
        self.table = batch.table.name
        self.records_memory = memory_of(batch.array, self.plan.dtype)
        self.records = self.records_memory.data
        self.record_count = <Py_ssize_t> (self.records_memory.length // self.plan.record_len)
        self.heap = Memory(batch.buffer)
        self.transactions_memory = memory_of(batch.transactions, TRANSACTION_DTYPE)
        self.transactions = <const transaction_t*> self.transactions_memory.data
        self.transaction_count = <Py_ssize_t> (self.transactions_memory.length // sizeof(transaction_t))
        self.invalid_memory = memory_of(batch.invalid, INVALID_DATE_DTYPE)
        self.invalid = <const invalid_date_t*> self.invalid_memory.data
        self.invalid_count = <Py_ssize_t> (self.invalid_memory.length // sizeof(invalid_date_t))
        self.gtid_of = -1
        if len(batch.json_diffs):
            diffs = batch.json_diffs
            self.json_diffs = set(zip(diffs["record"].tolist(), diffs["column"].tolist(), strict=True))

    def __len__(self):
        """Number of records."""
        return self.record_count

    def __iter__(self):
        """The batch's changes, one RowChange per changed row."""
        return ChangeIterator([self])

    def values(self, Py_ssize_t record):
        """One record's values.

        Parameters
        ----------
        record : int
            Index in ``batch.array``.

        Returns
        -------
        dict of str to value
            In table order. NULL is None; an absent column is no key.

        Raises
        ------
        IndexError
            There is no such record.
        DecodeError
            A value's bytes cannot be decoded.
        """
        self.check_record(record)
        return self.row(record)

    def change(self, Py_ssize_t record):
        """The change that begins at a record: an insert, a delete, or the first of an update's two.

        Parameters
        ----------
        record : int
            Index in ``batch.array``.

        Returns
        -------
        RowChange

        Raises
        ------
        IndexError
            There is no such record.
        DecodeError
            A value cannot be decoded, or the record begins no change.
        """
        self.check_record(record)
        return self.make_change(record)

    def column_values(self, column):
        """One column's values in every record, None for NULL and for absent.

        Parameters
        ----------
        column : str
            Name of a decoded column.

        Returns
        -------
        list
            As long as the batch.

        Raises
        ------
        KeyError
            No decoded column has this name.
        DecodeError
            A value cannot be decoded.
        """
        cdef Py_ssize_t i, record
        cdef field_t* field
        cdef const uint8_t* bitmaps
        cdef list out = []
        try:
            i = self.plan.names.index(column)
        except ValueError:
            raise KeyError(column) from None
        field = &self.plan.fields[i]
        for record in range(self.record_count):
            bitmaps = self.at(record) + sizeof(image_t) + field.bitmap_byte
            if (bitmaps[0] | bitmaps[self.plan.bitmap_len]) & field.bitmap_mask:
                out.append(None)
            else:
                out.append(self.value(field, i, record))
        return out

    def column_texts(self, column, form, other, *, bint bytes_are_text=False):
        """One column's values in every record as text of a format.

        Parameters
        ----------
        column : str
            Name of a decoded column.
        form : "json", "csv" or "sql"
            Whole numbers and DECIMAL (with all digits of the scale) come as they are, in JSON only the former;
            DECIMAL, dates and times (with six digits of a fraction, where there is one, and outside of SQL with
            the offset of UTC behind a TIMESTAMP) and text that needs no escape between the format's quotes.
        other : callable
            Makes text of every other value, None for NULL and absent among them.
        bytes_are_text : bool
            Bytes that are printable ASCII are quoted as text is.

        Returns
        -------
        list of str
            As long as the batch.

        Raises
        ------
        KeyError, DecodeError
            As `column_values`.
        """
        cdef Py_ssize_t i, record
        cdef field_t* field
        cdef const uint8_t* bitmaps
        cdef memory_t text
        cdef text_form_t wanted = TEXT_FORMS[form]
        cdef list out = []
        try:
            i = self.plan.names.index(column)
        except ValueError:
            raise KeyError(column) from None
        field = &self.plan.fields[i]
        nothing = other(None)
        memset(&text, 0, sizeof(text))
        try:
            for record in range(self.record_count):
                bitmaps = self.at(record) + sizeof(image_t) + field.bitmap_byte
                if (bitmaps[0] | bitmaps[self.plan.bitmap_len]) & field.bitmap_mask:
                    out.append(nothing)
                    continue
                text.length = 0
                if not self.put_value(&text, field, i, record, wanted, bytes_are_text):
                    out.append(other(self.value(field, i, record)))
                    continue
                out.append(PyUnicode_DecodeUTF8(<const char*> text.data, <Py_ssize_t> text.length, NULL))
        finally:
            release(&text)
        return out

    def row_texts(self, form, list labels, bytes separator, other, *, bint gaps=True):
        """Every record as one line of a format.

        Parameters
        ----------
        form : "json" or "csv"
            As `column_texts` has it.
        labels : list of bytes
            What stands before the value of each decoded column.
        separator : bytes
            What stands between two values.
        other : callable
            Makes bytes of every other value, None for NULL among them.
        gaps : bool
            An absent column is written like NULL; False: it is left out.

        Returns
        -------
        list of bytes
            As long as the batch.

        Raises
        ------
        DecodeError
            As `column_values`.
        """
        cdef Py_ssize_t i, record
        cdef field_t* field
        cdef const uint8_t* bitmaps
        cdef memory_t text
        cdef text_form_t wanted = TEXT_FORMS[form]
        cdef bytes nothing = other(None)
        cdef bytes part
        cdef bint absent
        cdef list out = []
        if len(labels) != self.plan.count:
            raise ValueError(f"{len(labels)} labels: expected one for each of the {self.plan.count} columns")
        memset(&text, 0, sizeof(text))
        try:
            for record in range(self.record_count):
                text.length = 0
                for i in range(self.plan.count):
                    field = &self.plan.fields[i]
                    bitmaps = self.at(record) + sizeof(image_t) + field.bitmap_byte
                    absent = (bitmaps[self.plan.bitmap_len] & field.bitmap_mask) != 0
                    if absent and not gaps:
                        continue
                    if text.length or (gaps and i):
                        put_bytes(&text, separator)
                    put_bytes(&text, <bytes> labels[i])
                    if absent or bitmaps[0] & field.bitmap_mask:
                        put_bytes(&text, nothing)
                    elif not self.put_value(&text, field, i, record, wanted, False):
                        part = other(self.value(field, i, record))
                        put_bytes(&text, part)
                out.append(PyBytes_FromStringAndSize(<const char*> text.data, <Py_ssize_t> text.length))
        finally:
            release(&text)
        return out

    cdef bint put_value(self, memory_t* out, field_t* field, Py_ssize_t i, Py_ssize_t record,
                        text_form_t wanted, bint bytes_are_text) except -1:
        # False: not a value that is its own text, or one that needs an escape
        cdef const uint8_t* p = self.at(record) + field.offset
        cdef form_t form = field.form
        cdef int64_t number
        cdef uint64_t unsigned
        cdef uint64_t[4] limbs
        cdef calendar_t at
        cdef span_t span
        cdef const char* data
        if form == FORM_UTF8 or form == FORM_ASCII or form == FORM_TEXT or (form == FORM_BYTES and bytes_are_text):
            memcpy(&span, p, sizeof(span))
            data = self.span_data(record, i, &span)
            if form == FORM_TEXT and not field.ascii_alike:
                return False
            if not needs_no_escape(data, span.length, wanted, form == FORM_UTF8):
                return False
            if form == FORM_UTF8 and not is_utf8(<const uint8_t*> data, span.length):
                return False
            if reserve(out, <size_t> span.length + 2) != DECODE_OK:
                raise MemoryError
            put_quote(out, wanted)
            append(out, data, span.length)
            put_quote(out, wanted)
            return True
        if reserve(out, DECIMAL_TEXT_MAX + 2) != DECODE_OK:
            raise MemoryError
        if FORM_I8 <= form <= FORM_U64:
            if form == FORM_U64:
                memcpy(&unsigned, p, 8)
                append_unsigned(out, unsigned)
            else:
                number = <int64_t> self.value(field, i, record)
                append_signed(out, number)
            return True
        if form == FORM_DECIMAL:
            memcpy(limbs, p, 8 * <size_t> field.limb_count)
            if wanted == TEXT_JSON:
                put_quote(out, wanted)
            out.length += decimal_text(limbs, field.limb_count, field.scale, <char*> out.data + out.length)
            if wanted == TEXT_JSON:
                put_quote(out, wanted)
            return True
        if form != FORM_DATE and form != FORM_DATETIME and form != FORM_TIMESTAMP and form != FORM_TIME:
            return False
        memcpy(&number, p, 8)
        if number == INT64_MIN:
            return False
        if form == FORM_TIME:
            unsigned = <uint64_t> number if number >= 0 else 0 - <uint64_t> number
            at.hour = <int> (unsigned // 3600000000 % 100)
            at.minute = <int> (unsigned // 60000000 % 60)
            at.second = <int> (unsigned // 1000000 % 60)
            at.microsecond = <int> (unsigned % 1000000)
            unsigned //= 360000000000            # hundreds of hours
            put_quote(out, wanted)
            if number < 0:
                append(out, b"-", 1)
            if unsigned:
                append_unsigned(out, unsigned)
            out.length += put_time(&at, 6 if at.microsecond else 0, <char*> out.data + out.length)
            put_quote(out, wanted)
            return True
        if form != FORM_DATE:
            calendar_of_us(number, &at)
        elif -100000000 < number < 100000000:
            calendar_of_days(number, &at)
        else:
            return False
        if not 0 < at.year < 10000:
            return False
        put_quote(out, wanted)
        out.length += put_date(&at, <char*> out.data + out.length)
        if form != FORM_DATE:
            append(out, b" ", 1)
            out.length += put_time(&at, 6 if at.microsecond else 0, <char*> out.data + out.length)
            if form == FORM_TIMESTAMP and wanted != TEXT_SQL:
                append(out, b"+00:00", 6)
        put_quote(out, wanted)
        return True

    cdef int check_record(self, Py_ssize_t record) except -1:
        if not 0 <= record < self.record_count:
            raise IndexError(f"record {record} of {self.record_count}")
        return 0

    cdef inline const uint8_t* at(self, Py_ssize_t record) noexcept:
        return self.records + <size_t> record * self.plan.record_len

    cdef RowChange make_change(self, Py_ssize_t record):
        cdef const image_t* image = <const image_t*> self.at(record)
        cdef RowChange change = RowChange.__new__(RowChange)
        if image.op == OP_INSERT:
            change.op = "insert"
            change.after = self.row(record)
        elif image.op == OP_DELETE:
            change.op = "delete"
            change.before = self.row(record)
        elif (
            image.op == OP_UPDATE_PREIMAGE
            and record + 1 < self.record_count
            and (<const image_t*> self.at(record + 1)).op == OP_UPDATE_POSTIMAGE
        ):
            change.op = "update"
            change.before = self.row(record)
            change.after = self.row(record + 1)
        else:
            raise self.error(record, -1, f"record {record} begins no change")
        change.database = self.database
        change.table = self.table
        change.position = image.position
        change.timestamp = image.timestamp
        if self.gtid_of != <Py_ssize_t> image.transaction:
            if <Py_ssize_t> image.transaction >= self.transaction_count:
                raise self.error(
                    record, -1, f"transaction {image.transaction} of {self.transaction_count}"
                )
            self.gtid = gtid_text(&self.transactions[image.transaction])
            committed = self.transactions[image.transaction].commit_time
            self.commit_time = committed if committed >= 0 else None
            self.gtid_of = <Py_ssize_t> image.transaction
        change.gtid = self.gtid
        change.commit_time = self.commit_time
        change.path = self.path
        return change

    cdef dict row(self, Py_ssize_t record):
        cdef ValuePlan plan = self.plan
        cdef const uint8_t* nulls = self.at(record) + sizeof(image_t)
        cdef const uint8_t* absent = nulls + plan.bitmap_len
        cdef bint whole = True
        cdef Py_ssize_t i
        cdef size_t byte
        cdef field_t* field
        cdef dict out
        for byte in range(plan.bitmap_len):
            if absent[byte]:
                whole = False
        if whole:
            out = PyDict_Copy(plan.template)
            for i in range(plan.count):
                field = &plan.fields[i]
                if not nulls[field.bitmap_byte] & field.bitmap_mask:
                    name = <object> PyTuple_GET_ITEM(plan.names, i)
                    PyDict_SetItem(out, name, self.value(field, i, record))
            return out
        out = {}
        for i in range(plan.count):
            field = &plan.fields[i]
            if absent[field.bitmap_byte] & field.bitmap_mask:
                continue
            if nulls[field.bitmap_byte] & field.bitmap_mask:
                out[plan.names[i]] = None
            else:
                out[plan.names[i]] = self.value(field, i, record)
        return out

    cdef object value(self, field_t* field, Py_ssize_t i, Py_ssize_t record):
        # One value that is neither NULL nor absent. Record fields are not aligned: memcpy.
        cdef const uint8_t* p = self.at(record) + field.offset
        cdef form_t form = field.form
        cdef int16_t i16
        cdef int32_t i32
        cdef int64_t i64
        cdef uint16_t u16
        cdef uint32_t u32
        cdef uint64_t u64
        cdef float f32
        cdef double f64
        if form == FORM_I8:
            return (<const int8_t*> p)[0]
        elif form == FORM_I16:
            memcpy(&i16, p, 2)
            return i16
        elif form == FORM_I32:
            memcpy(&i32, p, 4)
            return i32
        elif form == FORM_I64:
            memcpy(&i64, p, 8)
            return i64
        elif form == FORM_U8:
            return p[0]
        elif form == FORM_U16:
            memcpy(&u16, p, 2)
            return u16
        elif form == FORM_U32:
            memcpy(&u32, p, 4)
            return u32
        elif form == FORM_U64:
            memcpy(&u64, p, 8)
            return u64
        elif form == FORM_FLOAT:
            memcpy(&f32, p, 4)
            return <double> f32
        elif form == FORM_DOUBLE:
            memcpy(&f64, p, 8)
            return f64
        elif form == FORM_DECIMAL:
            return decimal_value(Decimal, p, field.limb_count, field.scale)
        elif form == FORM_DATE or form == FORM_DATETIME or form == FORM_TIMESTAMP or form == FORM_TIME:
            memcpy(&i64, p, 8)
            return self.temporal(field, i, record, i64)
        elif form == FORM_ENUM:
            memcpy(&u16, p, 2)
            return enum_value(u16, self.plan.helpers[i])
        elif form == FORM_SET:
            memcpy(&u64, p, 8)
            return set_value(u64, self.plan.helpers[i])
        elif form == FORM_NONE:
            return None
        return self.span_value(field, i, record, <const span_t*> p)

    # -- Dates and times

    cdef object temporal(self, field_t* field, Py_ssize_t i, Py_ssize_t record, int64_t value):
        cdef calendar_t at
        cdef int64_t seconds
        if value == INT64_MIN:           # NaT
            return self.invalid_date(field, i, record)
        if field.form == FORM_TIME:
            seconds = floor_div(value, 1000000)
            return timedelta_new(
                <int> floor_div(seconds, 86400),
                <int> (seconds - floor_div(seconds, 86400) * 86400),
                <int> (value - seconds * 1000000),
            )
        if field.form == FORM_DATE:
            if not -100000000 < value < 100000000:
                raise self.error(record, i, f"DATE is {value} days from 1970")
            calendar_of_days(value, &at)
            if 0 < at.year < 10000:
                return date_new(<int> at.year, at.month, at.day)
        else:
            calendar_of_us(value, &at)
            if 0 < at.year < 10000:
                return datetime_new(
                    <int> at.year, at.month, at.day, at.hour, at.minute, at.second, at.microsecond,
                    UTC if field.form == FORM_TIMESTAMP else None,
                )
        return date_text(field, &at)     # no date of Python's is so far away

    cdef object invalid_date(self, field_t* field, Py_ssize_t i, Py_ssize_t record):
        # NaT that is not NULL: `invalid` has the fields. It is sorted by record and column.
        cdef Py_ssize_t low = 0
        cdef Py_ssize_t high = self.invalid_count
        cdef Py_ssize_t middle
        cdef const invalid_date_t* entry
        cdef uint64_t wanted = <uint64_t> record << 16 | field.column
        cdef calendar_t at
        while low < high:
            middle = (low + high) // 2
            entry = &self.invalid[middle]
            if (<uint64_t> entry.record << 16 | entry.column) < wanted:
                low = middle + 1
            else:
                high = middle
        if low < self.invalid_count:
            entry = &self.invalid[low]
            if entry.record == record and entry.column == field.column:
                at.year = entry.year
                at.month = entry.month
                at.day = entry.day
                at.hour = entry.hour
                at.minute = entry.minute
                at.second = entry.second
                at.microsecond = <int> entry.microsecond
                return date_text(field, &at)
        raise self.error(record, i, "a date that is no date lacks its entry in batch.invalid")

    # -- Values of variable length

    cdef const char* span_data(self, Py_ssize_t record, Py_ssize_t i, const span_t* span) except NULL:
        if span.offset > self.heap.length or span.length > self.heap.length - span.offset:
            message = f"{span.length} bytes at {span.offset} of a buffer of {self.heap.length}"
            raise self.error(record, i, message)
        if self.heap.length == 0:
            return b""               # its address may be NULL
        return <const char*> self.heap.data + span.offset

    cdef object span_value(self, field_t* field, Py_ssize_t i, Py_ssize_t record, const span_t* span):
        cdef const char* data = self.span_data(record, i, span)
        cdef uint32_t length = span.length
        cdef form_t form = field.form
        if form == FORM_UTF8 or form == FORM_ASCII or form == FORM_TEXT:
            return self.text(field, i, record, data, length)
        elif form == FORM_JSON:
            return self.json(field, i, record, data, length)
        elif form == FORM_VECTOR:
            if length % 4:
                message = f"a VECTOR of {length} bytes is no row of floats"
                return self.damaged(record, i, message, data, length)
            return vector_value(data, length // 4)
        elif length < field.pad_to:
            return padded_bytes(data, length, field.pad_to)
        return PyBytes_FromStringAndSize(data, length)

    cdef object text(
        self, field_t* field, Py_ssize_t i, Py_ssize_t record, const char* data, uint32_t length
    ):
        try:
            if field.form == FORM_UTF8:
                return PyUnicode_DecodeUTF8(data, length, NULL)
            if field.form == FORM_ASCII or (field.ascii_alike and is_ascii(<const uint8_t*> data, length)):
                return PyUnicode_DecodeASCII(data, length, NULL)
            return self.plan.helpers[i](PyBytes_FromStringAndSize(data, length))
        except UnicodeDecodeError:
            self.invalid_text += 1
            if self.first_invalid_text is None:
                self.first_invalid_text = self.error(
                    record, i, f"bytes that are no text in {self.plan.columns[i].charset}"
                )
            return PyBytes_FromStringAndSize(data, length)

    cdef object json(
        self, field_t* field, Py_ssize_t i, Py_ssize_t record, const char* data, uint32_t length
    ):
        cdef memory_t out
        cdef int status
        if self.json_diffs is not None and (record, field.column) in self.json_diffs:
            return self.partial_json(field, i, record, data, length)
        memset(&out, 0, sizeof(out))
        try:
            status = append_jsonb_text(<const uint8_t*> data, length, &out)
            if status == DECODE_NO_MEMORY:
                raise MemoryError
            if status:
                message = f"a binary JSON value of {length} bytes is damaged"
                return self.damaged(record, i, message, data, length)
            return PyUnicode_DecodeUTF8(<const char*> out.data, <Py_ssize_t> out.length, NULL)
        finally:
            release(&out)

    cdef object partial_json(
        self, field_t* field, Py_ssize_t i, Py_ssize_t record, const char* data, uint32_t length
    ):
        # The whole document where the before image holds it, else the changes.
        cdef bytes changes = PyBytes_FromStringAndSize(data, length)
        cdef const uint8_t* bitmaps
        cdef span_t document
        cdef const char* before
        try:
            if record and (<const image_t*> self.at(record - 1)).op == OP_UPDATE_PREIMAGE:
                bitmaps = self.at(record - 1) + sizeof(image_t) + field.bitmap_byte
                if not (bitmaps[0] | bitmaps[self.plan.bitmap_len]) & field.bitmap_mask:
                    memcpy(&document, self.at(record - 1) + field.offset, sizeof(span_t))
                    before = self.span_data(record - 1, i, &document)
                    return apply_json_diffs(
                        PyBytes_FromStringAndSize(before, document.length), changes
                    ).decode("utf-8")
            return parse_json_diffs(changes)
        except DecodeError as error:
            return self.damaged(record, i, error.message, data, length)

    cdef object damaged(self, Py_ssize_t record, Py_ssize_t i, message, const char* data, uint32_t length):
        error = self.error(record, i, message)
        if not self.skips:
            raise error
        self.damaged_values += 1
        if self.first_damaged_value is None:
            self.first_damaged_value = error
        return PyBytes_FromStringAndSize(data, length)

    cdef object error(self, Py_ssize_t record, Py_ssize_t i, message):
        return DecodeError(
            message,
            path=self.path,
            offset=(<const image_t*> self.at(record)).position,
            table=f"{self.database}.{self.table}",
            column=None if i < 0 else self.plan.names[i],
        )


# -- Changes of one or more batches ----------------------------------------------------------

@cython.final
cdef class ChangeIterator:
    """Changes in log order.

    Parameters
    ----------
    readers : iterable of RowReader
        Of the batches of one group: their changes are merged by position and row.

    An error of one value is raised once; the next call goes on after that change.
    """

    cdef list readers
    cdef Memory order_memory
    cdef const int64_t* order          # reader << 32 | record
    cdef Py_ssize_t count
    cdef Py_ssize_t next

    def __cinit__(self, readers):
        cdef RowReader reader
        cdef list keys = []
        cdef list positions = []
        cdef list rows = []
        self.readers = list(readers)
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
        key = self.order[self.next]
        self.next += 1
        return (<RowReader> self.readers[key >> 32]).make_change(<Py_ssize_t> (key & 0xFFFFFFFF))
