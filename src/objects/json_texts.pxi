# The values of a RowReader as JSON. Included by _values.pyx, so that it can call RowReader in C.

from cpython.mem cimport PyMem_Free, PyMem_Malloc

from memory.memory cimport POOL_BYTES, append, reserve
from objects.json_values cimport (
    ENCODING_OTHER, ENCODING_TABLE, ENCODING_UTF16_BE, ENCODING_UTF16_LE, ENCODING_UTF32, JSON_COMPACT,
    JSON_DEBEZIUM, JSON_READABLE, json_field_t, json_plan_t, json_style_t, put_json_fixed,
    put_json_span, text_t,
)
from objects.value_objects cimport gtid_text, load_integer
from types.digits cimport DIGITS_MAX, append_unsigned, put_signed, put_unsigned

from .._tables import transcoding

cdef enum:
    LABEL_BLOCK = 32                  # bytes; a label is copied as one block, if it is not longer

cdef dict ENCODINGS = {
    "table": ENCODING_TABLE, "utf16be": ENCODING_UTF16_BE, "utf16le": ENCODING_UTF16_LE, "utf32be": ENCODING_UTF32,
}
cdef dict JSON_STYLES = {"readable": JSON_READABLE, "compact": JSON_COMPACT, "debezium": JSON_DEBEZIUM}


@cython.final
cdef class JsonPlan:
    # How the columns of a ValuePlan become JSON: names and members as JSON strings, tables of character sets.

    cdef json_plan_t plan
    cdef bytes texts
    cdef tuple encoders               # per column: what makes values of a style of Python's, or None
    cdef list held                    # owners of the tables that fields lead to

    def __cinit__(self, ValuePlan values, json_style_t style, encode, encoder_of):
        cdef json_field_t* fields
        cdef text_t* members
        cdef json_field_t* field
        cdef const uint32_t[::1] table
        cdef size_t member_count = 0
        cdef Py_ssize_t i
        compact = style != JSON_READABLE
        self.encoders = tuple([encoder_of and encoder_of(column) for column in values.columns])
        self.plan.style = style
        for names in values.helpers:
            member_count += len(names) if isinstance(names, tuple) else 0
        fields = <json_field_t*> PyMem_Malloc((values.count + 1) * sizeof(json_field_t))
        self.plan.fields = fields
        members = <text_t*> PyMem_Malloc((member_count + 1) * sizeof(text_t))
        self.plan.members = members
        if fields == NULL or members == NULL:
            raise MemoryError
        memset(fields, 0, (values.count + 1) * sizeof(json_field_t))
        texts = bytearray(b"," if compact else b", ")
        self.plan.separator_len = <size_t> len(texts)
        self.held = []
        member_count = 0
        for i in range(values.count):
            field = &fields[i]
            field.label = <size_t> len(texts)
            texts += texts[:self.plan.separator_len] + encode(values.names[i]) + (b":" if compact else b": ")
            field.label_len = <size_t> len(texts) - field.label
            field.is_geometry = values.columns[i].kind == KIND_GEOMETRY
            field.is_integer = style != JSON_DEBEZIUM and FORM_I8 <= values.fields[i].form <= FORM_U64
            field.bits = values.columns[i].length if values.columns[i].kind == KIND_BIT else 0
            names = values.helpers[i]
            if isinstance(names, tuple):
                field.has_members = True
                field.first_member = member_count
                field.member_count = <size_t> len(names)
                for name in names:
                    members[member_count].start = <size_t> len(texts)
                    texts += encode(name)
                    members[member_count].length = <size_t> len(texts) - members[member_count].start
                    member_count += 1
            elif names is not None:
                charset = values.columns[i].charset
                field.encoding = ENCODINGS.get(transcoding.encoding_of(charset), ENCODING_OTHER)
                if field.encoding == ENCODING_TABLE:
                    table, keeps_ascii = transcoding.utf8_table(charset)
                    self.held.append(table)
                    field.charset = &table[0]
                    field.keeps_ascii = keeps_ascii
        self.texts = bytes(texts) + bytes(LABEL_BLOCK)
        self.plan.texts = <const uint8_t*> self.texts
        self.plan.separator = self.plan.texts

    def __dealloc__(self):
        PyMem_Free(<void*> self.plan.fields)
        PyMem_Free(<void*> self.plan.members)


@cython.final
cdef class JsonTexts:
    """Texts in JSON, made of records, one after another in one buffer, which is used again after `clear`.

    Parameters
    ----------
    style : "readable", "compact" or "debezium"
        readable: a space after each separator; dates and times as MySQL prints them, with six fraction digits if they
        have any, a TIMESTAMP with the offset of UTC; bytes as ``{"hex": …}``. compact: no spaces; dates in ISO 8601,
        TIME in microseconds, bytes in base64. In both DECIMAL is text with all digits of the scale, SET a list.
        debezium: no spaces; values as Debezium's connectors encode them by default. In all a JSON document is its
        text; numbers that JSON lacks are "NaN", "Infinity" and "-Infinity".
    encode : callable
        Makes JSON of names, and of the few values that only Python can make, as bytes; in the same style.
    encoder_of : callable, optional
        For a column, what is to be done with such a value before; None: nothing.

    The length is the number of texts. One thread only may use it.
    """

    cdef memory_t text
    cdef memory_t ends                # size_t: where each text ends
    cdef memory_t scratch
    cdef Py_ssize_t count
    cdef json_style_t style
    cdef object encode
    cdef object encoder_of

    def __cinit__(self, style, encode, encoder_of=None):
        if style not in JSON_STYLES:
            raise ValueError(f"style={style!r}: expected one of {', '.join(JSON_STYLES)}")
        self.style = JSON_STYLES[style]
        self.encode = encode
        self.encoder_of = encoder_of

    def __dealloc__(self):
        release(&self.text)
        release(&self.ends)
        release(&self.scratch)

    def __len__(self):
        return self.count

    def clear(self):
        """Begin anew. Much memory of which the last texts needed little is given back."""
        if self.text.capacity > POOL_BYTES and self.text.length < self.text.capacity // 4:
            release(&self.text)
        if self.scratch.capacity > POOL_BYTES:
            release(&self.scratch)
        self.count = 0
        self.text.length = self.ends.length = 0

    def add_objects(self, RowReader reader not None, const int64_t[::1] records not None,
                    const int64_t[::1] bases=None):
        """One object for each of some records, without absent columns.

        Parameters
        ----------
        reader : RowReader
        records : ndarray of int64
            Indexes in ``batch.array``; -1: an empty text.
        bases : ndarray of int64, optional
            For each of them another record, from which absent columns are taken, and after whose columns the others
            come; -1: none.

        Raises
        ------
        IndexError
            There is no such record.
        DecodeError
            A value cannot be decoded. Then no text is added.
        """
        cdef JsonPlan plan = self.plan_of(reader)
        cdef Py_ssize_t i
        cdef Py_ssize_t count = self.count
        if bases is not None and bases.shape[0] != records.shape[0]:
            raise ValueError(f"{bases.shape[0]} bases: expected {records.shape[0]}")
        try:
            for i in range(records.shape[0]):
                if records[i] != -1:
                    reader.check_record(records[i])
                    if bases is None or bases[i] == -1:
                        self.put_object(reader, plan, records[i], -1)
                    else:
                        reader.check_record(bases[i])
                        self.put_object(reader, plan, records[i], bases[i])
                self.end_text()
        except BaseException:
            self.cut(count)
            raise

    def add_changes(self, RowReader reader not None, bytes path not None):
        """One line for each changed row: op, database, table, before, after, timestamp, gtid, file and position.

        Parameters
        ----------
        reader : RowReader
        path : bytes
            The file as JSON.

        Raises
        ------
        DecodeError
            A value cannot be decoded, or records make no change. Then no line is added.
        """
        cdef JsonPlan plan = self.plan_of(reader)
        cdef Py_ssize_t record = 0
        cdef Py_ssize_t count = self.count
        cdef const image_t* image
        cdef uint32_t transaction = 0
        cdef uint32_t timestamp = 0
        cdef bint known = False
        cdef bytes table = b', "database": ' + self.encode(reader.database) + b', "table": ' \
            + self.encode(reader.table) + b', "before": '
        cdef bytes insert = b'{"op": "insert"' + table + b'null, "after": '
        cdef bytes delete = b'{"op": "delete"' + table
        cdef bytes update = b'{"op": "update"' + table
        cdef bytes position = b', "file": ' + path + b', "position": '
        cdef bytes gtid = None
        cdef bytes place = None           # of the change, up to its position
        try:
            while record < reader.record_count:
                image = <const image_t*> reader.at(record)
                if not known or transaction != image.transaction or timestamp != image.timestamp:
                    if not known or transaction != image.transaction:
                        transaction = image.transaction
                        gtid = self.gtid(reader, record, transaction)
                    known = True
                    timestamp = image.timestamp
                    place = b', "timestamp": %d' % timestamp + gtid + position
                if image.op == OP_INSERT:
                    self.put(insert)
                    self.put_object(reader, plan, record, -1)
                elif image.op == OP_DELETE:
                    self.put(delete)
                    self.put_object(reader, plan, record, -1)
                    self.put(b', "after": null')
                elif reader.is_pair(record):
                    self.put(update)
                    self.put_object(reader, plan, record, -1)
                    self.put(b', "after": ')
                    record += 1
                    self.put_object(reader, plan, record, -1)
                else:
                    raise reader.error(record, -1, f"record {record} does not begin a change")
                record += 1
                self.put(place)
                self.check(append_unsigned(&self.text, image.position))
                self.check(append(&self.text, b"}\n", 2))
                self.end_text()
        except BaseException:
            self.cut(count)
            raise

    def joined(self, const int64_t[::1] order=None):
        """The texts one after another.

        Parameters
        ----------
        order : ndarray of int64, optional
            Numbers of the texts, in the order in which they are wanted.

        Returns
        -------
        bytes

        Raises
        ------
        IndexError
            There is no such text.
        """
        cdef const size_t* ends = <const size_t*> self.ends.data
        cdef size_t start, length
        cdef size_t total = 0
        cdef Py_ssize_t i
        cdef bytes out
        cdef char* place
        if order is None:
            return PyBytes_FromStringAndSize(<const char*> self.text.data, <Py_ssize_t> self.text.length)
        for i in range(order.shape[0]):
            if not 0 <= order[i] < self.count:
                raise IndexError(f"text {order[i]} of {self.count}")
            total += ends[order[i]] - (ends[order[i] - 1] if order[i] else 0)
        out = PyBytes_FromStringAndSize(NULL, <Py_ssize_t> total)
        place = <char*> out
        for i in range(order.shape[0]):
            start = ends[order[i] - 1] if order[i] else 0
            length = ends[order[i]] - start
            memcpy(place, self.text.data + start, length)
            place += length
        return out

    def offsets(self):
        """Where each text begins in `joined`, and where the last one ends.

        Returns
        -------
        ndarray of int64
            One more than there are texts.
        """
        cdef cnp.npy_intp size = self.count + 1
        cdef cnp.ndarray out = cnp.PyArray_EMPTY(1, &size, cnp.NPY_INT64, 0)
        cdef int64_t* offsets = <int64_t*> cnp.PyArray_DATA(out)
        offsets[0] = 0
        if self.count:
            memcpy(offsets + 1, self.ends.data, <size_t> self.count * sizeof(int64_t))
        return out

    cdef JsonPlan plan_of(self, RowReader reader):
        cdef ValuePlan values = reader.plan
        plan = values.json_plans.get(self.style)
        if plan is None:
            plan = values.json_plans[self.style] = JsonPlan(values, self.style, self.encode, self.encoder_of)
        return plan

    cdef inline int check(self, int status) except -1:
        if status:
            raise MemoryError
        return 0

    cdef inline int put(self, bytes text) except -1:
        return self.check(append(&self.text, <const char*> text, <size_t> len(text)))

    cdef inline int put_label(self, const uint8_t* label, size_t length) except -1:
        # `label` lies in a plan's texts, which go on for a block after the last one.
        if length > LABEL_BLOCK:
            return self.check(append(&self.text, label, length))
        self.check(reserve(&self.text, LABEL_BLOCK))
        memcpy(self.text.data + self.text.length, label, LABEL_BLOCK)
        self.text.length += length
        return 0

    cdef inline int end_text(self) except -1:
        self.check(append(&self.ends, &self.text.length, sizeof(size_t)))
        self.count += 1
        return 0

    cdef void cut(self, Py_ssize_t count) noexcept:
        # Forgets the texts from a number on, and what follows the last one
        count = min(count, self.count)
        self.count = count
        self.ends.length = <size_t> count * sizeof(size_t)
        self.text.length = (<size_t*> self.ends.data)[count - 1] if count else 0

    cdef bytes gtid(self, RowReader reader, Py_ssize_t record, uint32_t transaction):
        if <Py_ssize_t> transaction >= reader.transaction_count:
            raise reader.error(record, -1, f"transaction {transaction} of {reader.transaction_count}")
        return b', "gtid": ' + self.encode(gtid_text(&reader.transactions[transaction]))

    cdef int put_object(self, RowReader reader, JsonPlan plan, Py_ssize_t record, Py_ssize_t base) except -1:
        # base: -1, or a record whose columns come first, also those that the other lacks
        cdef bint first = True
        cdef Py_ssize_t i
        self.check(append(&self.text, b"{", 1))
        if base != -1:
            for i in range(reader.plan.count):
                self.put_column(reader, plan, i, base, record, False, &first)
        for i in range(reader.plan.count):
            self.put_column(reader, plan, i, record, base, True, &first)
        return self.check(append(&self.text, b"}", 1))

    cdef int put_key(self, RowReader reader, JsonPlan plan, Py_ssize_t record, Py_ssize_t base,
                     const int64_t[::1] columns) except -1:
        # An object of some columns; nothing if there are none
        cdef bint first = True
        cdef Py_ssize_t i
        cdef size_t start = self.text.length
        self.put(b"{")
        if base != -1:
            for i in range(columns.shape[0]):
                self.put_column(reader, plan, columns[i], base, record, False, &first)
        for i in range(columns.shape[0]):
            self.put_column(reader, plan, columns[i], record, base, True, &first)
        self.put(b"}")
        if first:
            self.text.length = start
        return 0

    cdef inline int put_column(self, RowReader reader, JsonPlan plan, Py_ssize_t i, Py_ssize_t record,
                               Py_ssize_t other, bint owns, bint* first) except -1:
        # A column, if the record has it. other: -1, or another record; if it has the column, too, then its value is
        # taken, or nothing if the record owns what both have.
        cdef const field_t* field = &reader.plan.fields[i]
        cdef const json_field_t* more = &plan.plan.fields[i]
        cdef size_t skipped                  # bytes of the separator, before the first column
        if reader.is_absent(field, record):
            return 0
        if other != -1 and not reader.is_absent(field, other):
            if owns:
                return 0
            record = other
        skipped = plan.plan.separator_len if first[0] else 0
        first[0] = False
        self.put_label(plan.plan.texts + more.label + skipped, more.label_len - skipped)
        return self.put_field(reader, plan, i, record)

    cdef inline int put_field(self, RowReader reader, JsonPlan plan, Py_ssize_t i, Py_ssize_t record) except -1:
        cdef field_t* field = &reader.plan.fields[i]
        cdef const uint8_t* p = reader.at(record)
        cdef size_t before = self.text.length
        cdef put_status_t status
        cdef span_t span
        if (p + sizeof(image_t))[field.bitmap_byte] & field.bitmap_mask:
            return self.check(append(&self.text, b"null", 4))
        if plan.plan.fields[i].is_integer:        # without a call: a table may have nothing else
            self.check(reserve(&self.text, DIGITS_MAX))
            if field.form == FORM_U64:
                put_unsigned(&self.text, load_integer(field.form, p + field.offset))
            else:
                put_signed(&self.text, <int64_t> load_integer(field.form, p + field.offset))
            return 0
        if not field.is_span:
            status = put_json_fixed(&self.text, &plan.plan, field, &plan.plan.fields[i], p + field.offset)
        elif (field.form == FORM_JSON and reader.json_diffs is not None
                and (record, field.column) in reader.json_diffs):
            status = PUT_OTHER
        else:
            memcpy(&span, p + field.offset, sizeof(span))
            status = put_json_span(&self.text, &self.scratch, &plan.plan, field, &plan.plan.fields[i],
                                   <const uint8_t*> reader.span_data(record, i, &span), span.length)
        if status == PUT_DONE:
            return 0
        if status == PUT_NO_MEMORY:
            raise MemoryError
        self.text.length = before
        value = reader.value(field, i, record)
        encoder = plan.encoders[i]
        return self.put(self.encode(value if encoder is None else encoder(value)))
