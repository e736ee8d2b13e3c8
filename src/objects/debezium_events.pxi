# Debezium's change events of records, as JSON. Included by _values.pyx, so that it can call RowReader in C.

from memory.memory cimport append
from types.digits cimport append_signed, append_unsigned


@cython.final
cdef class EventTable:
    """A batch whose records become events.

    Parameters
    ----------
    reader : RowReader
    key : ndarray of int64
        Indexes of the decoded columns of the primary key among the decoded ones, in the key's order.
    name : str
        The table's full name, by which events are counted.
    """

    cdef RowReader reader
    cdef const int64_t[::1] key
    cdef object name
    cdef bytes database_part          # of each event
    cdef bytes table_part

    def __cinit__(self, RowReader reader not None, const int64_t[::1] key not None, name):
        cdef Py_ssize_t i
        for i in range(key.shape[0]):
            if not 0 <= key[i] < reader.plan.count:
                raise IndexError(f"column {key[i]} of {reader.plan.count}")
        self.reader = reader
        self.key = key
        self.name = name


@cython.final
cdef class DebeziumEvents:
    """Events in JSON, numbered within their transactions.

    Parameters
    ----------
    encode, encoder_of : callable
        As for `JsonTexts`.
    source : bytes
        The beginning of each event's source, up to the value of ts_ms.
    end : bytes
        What is written after each event.

    Attributes
    ----------
    keys : JsonTexts
        Of each event the primary key; an empty text if the log does not have it.
    values : JsonTexts
        The envelopes.
    """

    cdef readonly JsonTexts keys
    cdef readonly JsonTexts values
    cdef memory_t records             # int64_t: of each event
    cdef bytes source
    cdef bytes end
    cdef object file
    cdef bint begun                   # a transaction has been met
    cdef uint64_t begin               # its place
    cdef uint64_t total               # its events so far
    cdef dict counts                  # those of each table but the one that is being added
    cdef bytes gtid_part              # of its events
    cdef bytes id_part

    def __cinit__(self, encode, encoder_of, bytes source not None, bytes end not None):
        self.keys = JsonTexts("debezium", encode, encoder_of)
        self.values = JsonTexts("debezium", encode, encoder_of)
        self.source = source
        self.end = end
        self.counts = {}

    def __dealloc__(self):
        release(&self.records)

    def clear(self):
        """Forget the events; the numbering goes on."""
        self.keys.clear()
        self.values.clear()
        self.records.length = 0

    def add(self, EventTable table not None, const int64_t[::1] records not None, file, int64_t now):
        """The events of some records; an update that changes the primary key has two.

        Parameters
        ----------
        table : EventTable
        records : ndarray of int64
            Where changes begin, in log order.
        file : str
            The name of the log.
        now : int
            Nanoseconds since 1970 UTC: the time of processing.

        Raises
        ------
        IndexError
            There is no such record.
        DecodeError
            A value cannot be decoded, or no change begins at a record. Then whole events may have been added.
        """
        cdef RowReader reader = table.reader
        cdef JsonTexts values = self.values
        cdef const image_t* image
        cdef const transaction_t* transaction
        cdef uint64_t count
        cdef Py_ssize_t i, record
        cdef bytes tail = b',"ts_ms":%d,"ts_us":%d,"ts_ns":%d}' % (now // 1000000, now // 1000, now) + self.end
        if table.database_part is None:
            table.database_part = b',"snapshot":"false","db":' + values.encode(reader.database) \
                + b',"sequence":null,"ts_us":'
            table.table_part = b',"table":' + values.encode(reader.table) + b',"server_id":'
        if file != self.file:
            self.begun = False
        count = self.counts.get(table.name, 0)
        try:
            for i in range(records.shape[0]):
                record = records[i]
                reader.check_record(record)
                image = <const image_t*> reader.at(record)
                if <Py_ssize_t> image.transaction >= reader.transaction_count:
                    raise reader.error(record, -1, f"transaction {image.transaction} of {reader.transaction_count}")
                transaction = &reader.transactions[image.transaction]
                if not self.begun or transaction.begin_position != self.begin:
                    self.next_transaction(transaction, file)
                    count = 0
                if image.op == OP_INSERT:
                    count += 1
                    self.put_event(table, record, count, b"c", -1, record, -1, record, -1, tail)
                elif image.op == OP_DELETE:
                    count += 1
                    self.put_event(table, record, count, b"d", record, -1, -1, record, -1, tail)
                elif not reader.is_pair(record):
                    raise reader.error(record, -1, f"record {record} does not begin a change")
                elif self.is_moved(table, record):
                    count += 1
                    self.put_event(table, record, count, b"d", record, -1, -1, record, -1, tail)
                    count += 1
                    self.put_event(table, record, count, b"c", -1, record + 1, record, record + 1, record, tail)
                else:
                    count += 1
                    self.put_event(table, record, count, b"u", record, record + 1, -1, record, record + 1, tail)
        except BaseException:
            self.cut()
            raise
        self.counts[table.name] = count

    def places(self):
        """The record of each event, as ndarray of int64."""
        cdef cnp.npy_intp size = <cnp.npy_intp> (self.records.length // sizeof(int64_t))
        cdef cnp.ndarray out = cnp.PyArray_EMPTY(1, &size, cnp.NPY_INT64, 0)
        if size:
            memcpy(cnp.PyArray_DATA(out), self.records.data, self.records.length)
        return out

    cdef void cut(self) noexcept:
        # Forgets an event that is not whole
        cdef Py_ssize_t count = min(self.values.count, self.keys.count,
                                    <Py_ssize_t> (self.records.length // sizeof(int64_t)))
        self.values.cut(count)
        self.keys.cut(count)
        self.records.length = <size_t> count * sizeof(int64_t)

    cdef int next_transaction(self, const transaction_t* transaction, file) except -1:
        gtid = gtid_text(transaction)
        encode = self.values.encode
        name = encode(gtid or f"file={file},pos={transaction.begin_position}")
        self.gtid_part = b',"gtid":' + encode(gtid) + b',"file":' + encode(file) + b',"pos":'
        self.id_part = b',"thread":null,"query":null},"transaction":{"id":' + name + b',"total_order":'
        self.begun = True
        self.begin = transaction.begin_position
        self.file = file
        self.total = 0
        self.counts.clear()
        return 0

    cdef bint is_moved(self, EventTable table, Py_ssize_t record) except -1:
        # Whether the image after an update has another primary key
        cdef JsonTexts values = self.values
        cdef RowReader reader = table.reader
        cdef JsonPlan plan = values.plan_of(reader)
        cdef size_t start = values.text.length
        cdef size_t middle, length
        cdef const field_t* field
        cdef Py_ssize_t i
        cdef bint moved = False
        for i in range(table.key.shape[0]):
            field = &reader.plan.fields[table.key[i]]
            if reader.is_absent(field, record + 1):
                continue
            values.put_field(reader, plan, table.key[i], record + 1)
            middle = values.text.length
            if reader.is_absent(field, record):
                values.put(b"null")
            else:
                values.put_field(reader, plan, table.key[i], record)
            length = middle - start
            moved = (middle < start or values.text.length - middle != length
                     or memcmp(values.text.data + start, values.text.data + middle, length) != 0)
            values.cut(values.count)
            if moved:
                return True
        return False

    cdef int put_event(self, EventTable table, Py_ssize_t record, uint64_t count, bytes op, Py_ssize_t before,
                       Py_ssize_t after, Py_ssize_t after_base, Py_ssize_t key, Py_ssize_t key_base,
                       bytes tail) except -1:
        # before, after, key: records, or -1; …_base: as in JsonTexts.put_object
        cdef RowReader reader = table.reader
        cdef JsonTexts out = self.values
        cdef JsonPlan plan = out.plan_of(reader)
        cdef const image_t* image = <const image_t*> reader.at(record)
        cdef int64_t moment = reader.transactions[image.transaction].commit_time
        cdef int64_t place = record
        if moment < 0:
            moment = <int64_t> image.timestamp * 1000000
        self.total += 1
        out.put(b'{"before":')
        self.put_side(reader, plan, before, -1)
        out.put(b',"after":')
        self.put_side(reader, plan, after, after_base)
        out.put(b',"source":')
        out.put(self.source)
        out.check(append_signed(&out.text, moment // 1000))
        out.put(table.database_part)
        out.check(append_signed(&out.text, moment))
        out.put(b',"ts_ns":')
        out.check(append_signed(&out.text, moment))
        if moment:
            out.put(b"000")
        out.put(table.table_part)
        out.check(append_unsigned(&out.text, image.server_id))
        out.put(self.gtid_part)
        out.check(append_unsigned(&out.text, image.position))
        out.put(b',"row":')
        out.check(append_unsigned(&out.text, image.row))
        out.put(self.id_part)
        out.check(append_unsigned(&out.text, self.total))
        out.put(b',"data_collection_order":')
        out.check(append_unsigned(&out.text, count))
        out.put(b'},"op":"')
        out.put(op)
        out.put(b'"')
        out.put(tail)
        out.end_text()
        self.keys.put_key(reader, plan, key, key_base, table.key)
        self.keys.end_text()
        out.check(append(&self.records, &place, sizeof(place)))
        return 0

    cdef int put_side(self, RowReader reader, JsonPlan plan, Py_ssize_t record, Py_ssize_t base) except -1:
        if record == -1:
            return self.values.put(b"null")
        return self.values.put_object(reader, plan, record, base)
