"""From the records of a batch to Python values and RowChange objects.

Each record takes one pass over a plan. Python code runs only for values that only Python can
make: Decimal, text in rare character sets, partial JSON updates.
"""

import decimal
from datetime import timezone


cimport cython
cimport numpy as cnp
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.datetime cimport import_datetime
from cpython.dict cimport PyDict_Copy, PyDict_SetItem
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF, PyObject
from cpython.tuple cimport PyTuple_GET_ITEM
from cpython.unicode cimport PyUnicode_DecodeASCII, PyUnicode_DecodeUTF8
from libc.stdint cimport INT64_MIN, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from batch.invalid_dates cimport find_invalid_date
from batch.records cimport (
    OP_DELETE, OP_INSERT, OP_UPDATE_POSTIMAGE, OP_UPDATE_PREIMAGE, image_t, invalid_date_t, span_t, transaction_t,
)
from memory.memory cimport memory_t, release
from objects.decimal_parts cimport DECIMAL_LIMBS, decimal_of, decimal_of_text, decimals_are_known
from objects.dict_slots cimport dict_block, find_slots, put_slot, slot_at
from objects.value_objects cimport (
    FORM_ASCII, FORM_BYTES, FORM_DATE, FORM_DECIMAL, FORM_DOUBLE, FORM_ENUM, FORM_FLOAT, FORM_I16, FORM_I32, FORM_I64,
    FORM_I8, FORM_JSON, FORM_NONE, FORM_SET, FORM_TEXT, FORM_TIME, FORM_U16, FORM_U32, FORM_U64, FORM_U8, FORM_UTF8,
    FORM_VECTOR, enum_value, field_t, form_t, invalid_date_text, is_day, padded_bytes, set_value, temporal_value,
    vector_value,
)
from types.jsonb_text cimport append_jsonb_text
from types.utf8 cimport is_ascii
from wire.codes cimport DECODE_NO_MEMORY
from wire.cursor cimport load_u16, load_u32, load_u64

from ._jsonb import apply_json_diffs, parse_json_diffs
from .._tables.side_dtypes import INVALID_DATE_DTYPE, TRANSACTION_DTYPE
from ..errors import DecodeError

cdef extern from "Python.h":
    # They return new references
    PyObject* long_of "PyLong_FromLong"(long value) except NULL
    PyObject* long_of_i64 "PyLong_FromLongLong"(long long value) except NULL
    PyObject* long_of_u64 "PyLong_FromUnsignedLongLong"(unsigned long long value) except NULL
    PyObject* float_of "PyFloat_FromDouble"(double value) except NULL
    PyObject* ascii_text "PyUnicode_New"(Py_ssize_t length, uint32_t highest) except NULL
    char* text_bytes "PyUnicode_1BYTE_DATA"(PyObject* text) noexcept
    Py_ssize_t text_length "PyUnicode_GET_LENGTH"(PyObject* text) noexcept
    bint is_text_object "PyUnicode_CheckExact"(PyObject* value) noexcept
    bint is_tracked "PyObject_GC_IsTracked"(object made) noexcept
    void track "PyObject_GC_Track"(object made) noexcept

import_datetime()
cnp.import_array()

cdef type Decimal = decimal.Decimal
cdef object ANY_DECIMAL = Decimal(0)     # the model for other decimals
cdef int known_limbs = DECIMAL_LIMBS if decimals_are_known(Decimal) else 0
cdef object UTC = timezone.utc


# The included files are parts of this module, apart for their length: see decode/_rows.pyx.
include "objects/row_change.pxi"
include "objects/kept_values.pxi"
include "objects/value_plan.pxi"
include "objects/held_memory.pxi"


def shortcuts():
    """Which of the interpreter's own structures are as expected, so that values can be written into them directly.

    Returns
    -------
    dict of str to bool
        "decimal": the structure of Decimal; "dict": the structure of dict.
    """
    cdef size_t[2] slots
    return {"decimal": known_limbs > 0, "dict": find_slots({"a": None, "b": None}, slots)}


cdef inline PyObject* new_reference(object value) noexcept:
    Py_INCREF(value)
    return <PyObject*> value


@cython.final
cdef class RowReader:
    """Python values of one batch's records.

    Parameters
    ----------
    batch : ChangeBatch
    plan : ValuePlan or None
        A plan of the same table definition and columns, so that it need not be made again.
    on_error : "raise" or "skip"
        For a value whose bytes cannot be decoded (damaged JSON, a list of diffs that does not fit
        its document, a VECTOR that is not a whole number of floats): raise, or give its bytes and count it.

    Attributes
    ----------
    plan : ValuePlan
    invalid_text : int
        Number of values so far whose bytes are not text in their character set; they come as bytes.
    damaged_values : int
        Number of values so far that came as bytes because they cannot be decoded.
    first_invalid_text, first_damaged_value : DecodeError or None
        The first of each, with path, offset, table and column.

    A reader may be used by one thread only.
    """

    cdef readonly ValuePlan plan
    cdef readonly Py_ssize_t invalid_text
    cdef readonly Py_ssize_t damaged_values
    cdef readonly object first_invalid_text
    cdef readonly object first_damaged_value
    cdef object path
    cdef object database
    cdef object table
    cdef bint skips
    cdef Memory heap
    cdef tuple held                   # the owners of the memory that the pointers lead to
    cdef const uint8_t* records
    cdef Py_ssize_t record_count
    cdef const transaction_t* transactions
    cdef Py_ssize_t transaction_count
    cdef const invalid_date_t* invalid
    cdef Py_ssize_t invalid_count
    cdef set json_diffs
    cdef Kept kept                    # None: values are made again each time
    cdef Origin origin                # of the changes of transaction `origin_of`
    cdef uint32_t origin_of

    def __cinit__(self, batch, ValuePlan plan=None, on_error="raise"):
        if on_error not in ("raise", "skip"):
            raise ValueError(f"on_error={on_error!r}: expected raise or skip")
        self.plan = ValuePlan(batch.table, batch.columns) if plan is None else plan
        self.skips = on_error == "skip"
        self.path = batch.path
        self.database = batch.table.database
        self.table = batch.table.name
        self.heap = Memory(batch.buffer)
        records = records_in(batch.array, self.plan.dtype)
        transactions = records_in(batch.transactions, TRANSACTION_DTYPE)
        invalid = records_in(batch.invalid, INVALID_DATE_DTYPE)
        self.held = (records, transactions, invalid)
        self.records = <const uint8_t*> cnp.PyArray_DATA(records)
        self.record_count = cnp.PyArray_SIZE(records)
        self.transactions = <const transaction_t*> cnp.PyArray_DATA(transactions)
        self.transaction_count = cnp.PyArray_SIZE(transactions)
        self.invalid = <const invalid_date_t*> cnp.PyArray_DATA(invalid)
        self.invalid_count = cnp.PyArray_SIZE(invalid)
        if self.plan.kept.awake(self.record_count):
            self.kept = self.plan.kept
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
            In table order. NULL is None; an absent column is not a key.

        Raises
        ------
        IndexError
            There is no such record.
        DecodeError
            A value's bytes cannot be decoded.
        """
        self.check_record(record)
        return self.row(record, None)

    def change(self, Py_ssize_t record):
        """The change that begins at a record: an insert, a delete, or the first image of an update.

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
            A value cannot be decoded, or no change begins at the record.
        """
        self.check_record(record)
        return self.make_change(record)

    def column_values(self, column):
        """One column's values in every record; None for NULL and for absent.

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
        cdef list out = []
        i = self.plan.index_of(column)
        field = &self.plan.fields[i]
        for record in range(self.record_count):
            if self.is_missing(field, record):
                out.append(None)
            else:
                out.append(self.value(field, i, record))
        return out

    cdef int check_record(self, Py_ssize_t record) except -1:
        if not 0 <= record < self.record_count:
            raise IndexError(f"record {record} of {self.record_count}")
        return 0

    cdef inline const uint8_t* at(self, Py_ssize_t record) noexcept:
        return self.records + <size_t> record * self.plan.record_len

    cdef inline bint is_missing(self, const field_t* field, Py_ssize_t record) noexcept:
        # NULL or absent
        cdef const uint8_t* bitmaps = self.at(record) + sizeof(image_t) + field.bitmap_byte
        return ((bitmaps[0] | bitmaps[self.plan.bitmap_len]) & field.bitmap_mask) != 0

    cdef inline bint is_absent(self, const field_t* field, Py_ssize_t record) noexcept:
        cdef const uint8_t* absent = self.at(record) + sizeof(image_t) + self.plan.bitmap_len
        return (absent[field.bitmap_byte] & field.bitmap_mask) != 0

    cdef inline bint is_pair(self, Py_ssize_t record) noexcept:
        # Whether two records are the images of one update
        return (
            (<const image_t*> self.at(record)).op == OP_UPDATE_PREIMAGE
            and record + 1 < self.record_count
            and (<const image_t*> self.at(record + 1)).op == OP_UPDATE_POSTIMAGE
        )

    cdef RowChange make_change(self, Py_ssize_t record):
        cdef const image_t* image = <const image_t*> self.at(record)
        cdef RowChange change = RowChange.__new__(RowChange)
        if image.op == OP_INSERT:
            change.after = self.row(record, None)
        elif image.op == OP_DELETE:
            change.before = self.row(record, None)
        elif self.is_pair(record):
            change.before = self.row(record, None)
            change.after = self.row(record + 1, change.before)
        else:
            raise self.error(record, -1, f"record {record} does not begin a change")
        change.op = <object> PyTuple_GET_ITEM(OP_NAMES, image.op)
        change.position = image.position
        change.timestamp = image.timestamp
        if self.origin is None or self.origin_of != image.transaction:
            self.find_origin(record, image.transaction)
        change.origin = self.origin
        return change

    cdef int find_origin(self, Py_ssize_t record, uint32_t transaction) except -1:
        cdef Origin origin = Origin.__new__(Origin)
        if <Py_ssize_t> transaction >= self.transaction_count:
            raise self.error(record, -1, f"transaction {transaction} of {self.transaction_count}")
        origin.database = self.database
        origin.table = self.table
        origin.path = self.path
        origin.transaction = self.transactions[transaction]
        if origin.transaction.commit_time >= 0:
            origin.commit_time = origin.transaction.commit_time
        self.origin = origin
        self.origin_of = transaction
        return 0

    cdef dict row(self, Py_ssize_t record, dict before):
        # before: values of the record before, if this is the other image of the update
        cdef ValuePlan plan = self.plan
        cdef const uint8_t* p = self.at(record)
        cdef const uint8_t* nulls = p + sizeof(image_t)
        cdef char* block
        cdef char* block_before = NULL
        cdef Py_ssize_t i
        cdef field_t* field
        cdef PyObject* value
        cdef dict out
        if not plan.placed or not self.is_whole(p):
            return self.row_by_keys(nulls, record)
        out = PyDict_Copy(plan.template)
        block = dict_block(out)
        if before is not None and self.json_diffs is None and self.is_whole(p - plan.record_len):
            block_before = dict_block(before)
        for i in range(plan.count):
            field = &plan.fields[i]
            if nulls[field.bitmap_byte] & field.bitmap_mask:
                continue
            value = NULL
            if block_before != NULL and field.alike:
                value = self.same_value(field, p, slot_at(block_before, field.slot)[0])
            if value == NULL:
                value = self.new_value(field, i, record, p)
            put_slot(block, field.slot, value)
        if plan.has_lists and not is_tracked(out):
            track(out)
        return out

    cdef inline bint is_whole(self, const uint8_t* p) noexcept:
        # Whether no column is absent from the record at p
        cdef const uint8_t* absent = p + sizeof(image_t) + self.plan.bitmap_len
        cdef size_t byte
        for byte in range(self.plan.bitmap_len):
            if absent[byte]:
                return False
        return True

    cdef dict row_by_keys(self, const uint8_t* nulls, Py_ssize_t record):
        cdef ValuePlan plan = self.plan
        cdef const uint8_t* absent = nulls + plan.bitmap_len
        cdef Py_ssize_t i
        cdef field_t* field
        cdef dict out = {}
        for i in range(plan.count):
            field = &plan.fields[i]
            if absent[field.bitmap_byte] & field.bitmap_mask:
                continue
            name = <object> PyTuple_GET_ITEM(plan.names, i)
            if nulls[field.bitmap_byte] & field.bitmap_mask:
                PyDict_SetItem(out, name, None)
            else:
                PyDict_SetItem(out, name, self.value(field, i, record))
        return out

    cdef inline PyObject* same_value(self, const field_t* field, const uint8_t* p, PyObject* before) noexcept:
        # A new reference to the previous record's object, if this record's bytes are the same; else NULL.
        cdef const uint8_t* q = p - self.plan.record_len + field.offset
        cdef span_t one, other
        p += field.offset
        if before == <PyObject*> None:
            return NULL
        if field.is_span:
            memcpy(&one, p, sizeof(one))
            memcpy(&other, q, sizeof(other))        # its bytes have been checked already
            if one.length != other.length or (field.form != FORM_BYTES and not is_text_object(before)):
                return NULL                          # bytes that are not text are counted each time
            if one.offset > self.heap.length or one.length > self.heap.length - one.offset:
                return NULL
            if one.length and memcmp(self.heap.data + one.offset, self.heap.data + other.offset, one.length):
                return NULL
        elif field.alike == 4:
            if load_u32(p) != load_u32(q):
                return NULL
        elif field.alike == 8:
            if load_u64(p) != load_u64(q):
                return NULL
            if FORM_DATE <= field.form <= FORM_TIME and load_u64(p) == <uint64_t> INT64_MIN:
                return NULL                          # an invalid date: it has its own entry
        elif memcmp(p, q, field.alike):
            return NULL
        Py_INCREF(<object> before)
        return before

    cdef object value(self, field_t* field, Py_ssize_t i, Py_ssize_t record):
        # One value that is neither NULL nor absent
        cdef PyObject* made = self.new_value(field, i, record, self.at(record))
        value = <object> made
        Py_DECREF(value)
        return value

    cdef inline PyObject* new_value(self, field_t* field, Py_ssize_t i, Py_ssize_t record,
                                    const uint8_t* p) except NULL:
        # A new reference. p: the record, whose fields are not aligned.
        cdef form_t form = field.form
        cdef float f32
        cdef double f64
        p += field.offset
        if form == FORM_I8:
            return long_of((<const int8_t*> p)[0])
        elif form == FORM_I16:
            return long_of(<int16_t> load_u16(p))
        elif form == FORM_I32:
            return long_of(<int32_t> load_u32(p))
        elif form == FORM_I64:
            return long_of_i64(<int64_t> load_u64(p))
        elif form == FORM_U8:
            return long_of(p[0])
        elif form == FORM_U16:
            return long_of(load_u16(p))
        elif form == FORM_U32:
            return long_of_i64(load_u32(p))
        elif form == FORM_U64:
            return long_of_u64(load_u64(p))
        elif form == FORM_FLOAT:
            memcpy(&f32, p, 4)
            return float_of(f32)
        elif form == FORM_DOUBLE:
            memcpy(&f64, p, 8)
            return float_of(f64)
        elif form == FORM_UTF8 or form == FORM_ASCII or form == FORM_TEXT:
            return self.new_text(field, i, record, <const span_t*> p)
        elif field.keeps and self.kept is not None and <int64_t> load_u64(p) != INT64_MIN:
            return self.kept_number(field, i, record, p)
        return new_reference(self.other_value(field, i, record, p))

    cdef PyObject* kept_number(self, field_t* field, Py_ssize_t i, Py_ssize_t record, const uint8_t* p) except NULL:
        cdef int64_t key = <int64_t> load_u64(p)
        cdef int64_t kind = <int64_t> field.form << 8 | field.scale
        cdef kept_t* entry = number_entry(self.kept, key, kind)
        cdef PyObject* before = entry.value
        cdef bint hit = before != NULL and entry.key == key and entry.kind == kind
        weigh(field, hit)
        if not hit:
            value = self.other_value(field, i, record, p)
            before = entry.value
            entry.key = key
            entry.kind = kind
            entry.value = new_reference(value)
            Py_XDECREF(before)
        return new_reference(<object> entry.value)

    cdef PyObject* new_text(self, field_t* field, Py_ssize_t i, Py_ssize_t record, const span_t* place) except NULL:
        cdef span_t span
        cdef const char* data
        cdef PyObject** entry = NULL
        cdef PyObject* made
        memcpy(&span, place, sizeof(span))
        data = self.span_data(record, i, &span)
        if (
            span.length < 2                          # Python has these objects already
            or (field.form == FORM_TEXT and not field.ascii_alike)
            or not is_ascii(<const uint8_t*> data, span.length)
        ):
            return new_reference(self.text(field, i, record, data, span.length))
        if field.keeps and span.length <= KEPT_TEXT and self.kept is not None:
            entry = text_entry(self.kept, data, span.length)
            made = entry[0]
            if made != NULL and text_length(made) == span.length and not memcmp(text_bytes(made), data, span.length):
                weigh(field, True)
                return new_reference(<object> made)
            weigh(field, False)
        made = ascii_text(span.length, 127)
        memcpy(text_bytes(made), data, span.length)
        if entry != NULL:
            Py_XDECREF(entry[0])
            entry[0] = new_reference(<object> made)
        return made

    cdef object other_value(self, field_t* field, Py_ssize_t i, Py_ssize_t record, const uint8_t* p):
        cdef form_t form = field.form
        cdef int64_t i64
        cdef uint16_t u16
        cdef uint64_t u64
        cdef uint64_t[4] limbs
        if form == FORM_DECIMAL:
            memcpy(limbs, p, 8 * <size_t> field.limb_count)
            if field.limb_count <= known_limbs:
                return decimal_of(ANY_DECIMAL, limbs, field.limb_count, field.scale)
            return decimal_of_text(Decimal, limbs, field.limb_count, field.scale)
        elif FORM_DATE <= form <= FORM_TIME:
            memcpy(&i64, p, 8)
            if i64 == INT64_MIN:
                return self.invalid_date(field, i, record)
            if form == FORM_DATE and not is_day(i64):
                raise self.error(record, i, f"DATE is {i64} days from 1970")
            return temporal_value(field, i64, UTC)
        elif form == FORM_ENUM:
            memcpy(&u16, p, 2)
            return enum_value(u16, self.plan.helpers[i])
        elif form == FORM_SET:
            memcpy(&u64, p, 8)
            return set_value(u64, self.plan.helpers[i])
        elif form == FORM_NONE:
            return None
        return self.span_value(field, i, record, <const span_t*> p)

    cdef object invalid_date(self, field_t* field, Py_ssize_t i, Py_ssize_t record):
        # NaT in a value that is not NULL
        cdef const invalid_date_t* entry = find_invalid_date(
            self.invalid, <size_t> self.invalid_count, <uint64_t> record, field.column)
        if entry == NULL:
            raise self.error(record, i, "an invalid date lacks its entry in batch.invalid")
        return invalid_date_text(field, entry)

    # -- Values of variable length

    cdef const char* span_data(self, Py_ssize_t record, Py_ssize_t i, const span_t* span) except NULL:
        if span.offset > self.heap.length or span.length > self.heap.length - span.offset:
            message = f"{span.length} bytes at {span.offset} of a buffer of {self.heap.length}"
            raise self.error(record, i, message)
        if self.heap.length == 0:
            return b""               # the heap's address may be NULL
        return <const char*> self.heap.data + span.offset

    cdef object span_value(self, field_t* field, Py_ssize_t i, Py_ssize_t record, const span_t* span):
        cdef const char* data = self.span_data(record, i, span)
        cdef uint32_t length = span.length
        cdef form_t form = field.form
        if form == FORM_JSON:
            return self.json(field, i, record, data, length)
        elif form == FORM_VECTOR:
            if length % 4:
                message = f"a VECTOR of {length} bytes is not a whole number of floats"
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
                    record, i, f"bytes that are not text in {self.plan.columns[i].charset}"
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
        # The whole document if the before image holds it, else the diffs.
        cdef bytes changes = PyBytes_FromStringAndSize(data, length)
        cdef span_t document
        cdef const char* before
        try:
            if record and (<const image_t*> self.at(record - 1)).op == OP_UPDATE_PREIMAGE:
                if not self.is_missing(field, record - 1):
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


include "objects/change_iterator.pxi"
include "objects/json_texts.pxi"
include "objects/column_texts.pxi"
include "objects/debezium_events.pxi"
