# What a loop says about its place in the log and the current event. Included by decode/_rows.pyx.

from decode.loop cimport loop_t
from decode.table_cache cimport content_t, table_cache_t
from decode.table_map_events cimport has_room
from wire.codes cimport QUERY_EVENT
from wire.cursor cimport Cursor, load_u16, remaining
from wire.header cimport event_header_t
from wire.query cimport take_query


cdef bytes bytes_of(const Cursor* cur):
    return cur.pos[:remaining(cur)]


cdef class Place:
    """Where a loop is in its log: the current group, transaction and event, for Python to ask."""

    cdef loop_t loop

    @property
    def position(self):
        """Position in the file of the next event (of the outer one inside a payload)."""
        return next_position(&self.loop) if not self.loop.depth else self.loop.event.position

    @property
    def wire_walked(self):
        """Bytes of the outer log that were walked over."""
        return self.loop.wire_walked

    @property
    def rows_at_once(self):
        """Rows decoded many at a time so far, since all rows of their event had the same length. For tests."""
        return self.loop.rows_at_once

    @property
    def event_position(self):
        """Position of the current event, or of the event that contains it."""
        return self.loop.event.position

    @property
    def doubtful_position(self):
        """Position of the event before the current one if that gave no position; else of the current one."""
        return self.loop.doubtful_position

    @property
    def without_map(self):
        """Whether the current event is a rows event whose table map was not seen."""
        return self.loop.without_map

    @property
    def table_maps(self):
        """Number of table maps in this transaction so far."""
        return self.loop.trx.table_maps

    @property
    def has_room(self):
        """Whether one more definition may be added."""
        return has_room(&self.loop)

    @property
    def definition_count(self):
        """Number of definitions that are kept."""
        return self.loop.tables.definition_count

    def definitions_of(self, uint32_t shape):
        """Number of kept definitions that have a shape."""
        if shape >= self.loop.tables.shape_count:
            raise IndexError(shape)
        return self.loop.tables.shapes[shape].count

    def names_of(self, uint32_t shape, uint32_t first):
        """Database and table name of these definitions, from a number on, as table maps have them."""
        cdef const table_cache_t* tables = &self.loop.tables
        cdef const definition_t* known
        cdef const uint8_t* head
        cdef uint32_t before
        cdef uint32_t i
        cdef list out = []
        if shape >= tables.shape_count:
            raise IndexError(shape)
        before = tables.shapes[shape].before
        for i in range(tables.definition_count):
            known = &tables.definitions[i]
            if known.shape != shape:
                continue
            if first:
                first -= 1
                continue
            head = tables.texts.data + known.at
            out.append(head[before:known.head_len])
        return out

    @property
    def left(self):
        """Bytes not walked over yet of the inner window if there is one, else of the outer one."""
        return remaining(&self.loop.windows[self.loop.depth].cur)

    @property
    def fed(self):
        """Bytes by which the outer window has grown by itself, since the last `feed` or `hold`."""
        return self.loop.windows[0].fed

    @property
    def resume_position(self):
        """Position of the last transaction boundary: nothing before it is needed again."""
        return self.loop.trx.boundary

    @property
    def open_records(self):
        """Records so far of the current transaction, in this group and earlier ones; 0 between transactions."""
        if not self.loop.trx.open:
            return 0
        return self.loop.group.records_taken + self.loop.group.records - self.loop.trx.records_before

    def take_gtids(self):
        """The GTIDs of the transactions begun since the last call, as runs (gtid_run_t), as bytes."""
        cdef bytes out = self.loop.gtid_runs.data[:self.loop.gtid_runs.length]
        self.loop.gtid_runs.length = 0
        return out

    @property
    def in_transaction(self):
        return self.loop.trx.open

    @property
    def transaction_position(self):
        """Where the current event's transaction begins, even if the event ended it; else where the event begins."""
        if self.loop.trx.open or self.loop.trx.record.end_position == next_position(&self.loop):
            return self.loop.trx.record.begin_position
        return self.loop.event.position

    @property
    def has_news(self):
        """Whether there are records, or the end of a transaction whose last records were in an earlier group."""
        return self.loop.group.records > 0 or (self.loop.group.transactions.length > 0 and not self.loop.trx.open)

    @property
    def records(self):
        """Records in the current group."""
        return self.loop.group.records

    @property
    def wire(self):
        """Bytes of the rows events that these records come from."""
        return self.loop.group.wire - self.loop.group.wire_unused

    @property
    def is_selected(self):
        """Whether rows of the current event would be decoded, judged by its header and its transaction."""
        cdef const event_header_t* header = &self.loop.header
        return not self.loop.trx.skipped and header.timestamp >= self.loop.selection.start_timestamp and (
            self.loop.selection.server_id < 0 or header.server_id == <uint32_t> self.loop.selection.server_id)

    @property
    def row_in_event(self):
        """Number of the next row within the outer event."""
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
        """The whole current event, checksum included, as bytes."""
        return self.loop.event.start[:self.loop.header.event_length]

    def event_body(self):
        """The current event without its header and checksum, as bytes."""
        return bytes_of(&self.loop.event.body)

    def query(self):
        """(database, statement) of the current QUERY_EVENT, as bytes."""
        cdef Cursor body = self.loop.event.body
        cdef Cursor database
        cdef Cursor text
        if not take_query(&body, self.loop.descriptor.post_header_len[<int> QUERY_EVENT], &database, &text):
            return b"", b""
        return bytes_of(&database), bytes_of(&text)

    def gtid(self):
        """(gtid_kind, uuid, tag, domain_id, server_id, sequence_number) of the current transaction."""
        cdef transaction_t* trx = self.loop.trx.record
        return (trx.gtid_kind, (<uint8_t*> trx.uuid)[:sizeof(trx.uuid)], (<uint8_t*> trx.tag)[:sizeof(trx.tag)],
                trx.domain_id, trx.server_id, trx.sequence_number)

    def table_map(self):
        """(flags, body) of the table definition that `run` came back with."""
        cdef const content_t* content = &self.loop.pending
        return load_u16(content.data), content.data[content.before:content.length]
