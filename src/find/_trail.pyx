"""Follows complete events as they pass: counts them, and notes times, ended transactions and CRCs that do not hold."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from batch.gtid_runs cimport note_gtid_run
from crc.checksum cimport binlog_crc32_best, binlog_crc_t
from crc.runs cimport crc_has_runs
from memory.memory cimport memory_t, release
from wire.checksum_runs cimport check_run, checked_t
from wire.codes cimport (
    DECODE_MALFORMED, DECODE_NO_MEMORY, DECODE_OK, MARIADB_GTID_EVENT, MARIADB_GTID_LIST_EVENT,
    MARIADB_QUERY_COMPRESSED_EVENT, PREVIOUS_GTIDS_EVENT, QUERY_EVENT, ROTATE_EVENT, STOP_EVENT,
    TRANSACTION_PAYLOAD_EVENT, XA_PREPARE_EVENT, XID_EVENT,
)
from wire.cursor cimport Cursor, cursor_over, prefetch, remaining
from wire.gtid cimport GTID_NONE, MARIADB_STANDALONE, decode_gtid_event, gtid_t, is_gtid_event
from wire.header cimport (
    CHECKSUM_LEN, checksum_holds_with, descriptor_t, event_header_t, is_descriptor, is_header_len, take_event,
)
from wire.query cimport (
    QUERY_BEGIN, QUERY_OTHER, QUERY_SAVEPOINT, QUERY_XA_END, QUERY_XA_START, query_kind, take_query,
)

cdef enum:
    PREFETCH = 1024             # bytes ahead: a walk that only reads headers would wait for each
    SPECIAL = 1                 # handling of events that have special rules for lengths or checksums


cdef class Trail:
    """Follows the events of logs.

    A transaction has passed when the event that ends it has passed, or the next GTID.

    Attributes
    ----------
    events : int
        Number of events that have passed.
    timestamp : int
        Timestamp of the last event that has one, in seconds since 1970 UTC.
    kind : int
        Type code of the last event, in today's numbering.
    begin : int
        Offset of the last event in the data of the last call.
    open : bool
        Whether a transaction with a GTID has begun and not ended.
    damaged : int
        Offset, in the data of the last call, of the first event whose CRC32 does not hold; -1: there is none. The
        caller must check a descriptor's CRC32.
    """

    cdef readonly uint64_t events
    cdef readonly uint32_t timestamp
    cdef readonly uint8_t kind
    cdef readonly size_t begin
    cdef readonly bint open
    cdef readonly Py_ssize_t damaged
    cdef bint explicit          # after BEGIN or what serves as one: a statement does not end the transaction
    cdef gtid_t running
    cdef memory_t runs

    def __dealloc__(self):
        release(&self.runs)

    def take(self, const uint8_t[::1] data not None, size_t start, uint32_t header_length,
             const uint8_t[::1] canonical not None, bint checksum, uint8_t query_post_header_len):
        """Look at complete events, up to the end of the data or up to an event that the caller must read.

        Parameters
        ----------
        data : bytes-like
        start : int
            Offset of the first event.
        header_length, canonical, checksum
            As `walk_headers` takes them.
        query_post_header_len : int
            Post-header bytes of a QUERY event.

        Returns
        -------
        (int, bool)
            Offset after the last event, and True; or offset of an event that is not valid, and False. The last event
            may be a descriptor, a PREVIOUS_GTIDS or a GTID_LIST event, which the caller must read.
        """
        cdef descriptor_t descriptor
        cdef Cursor cur
        cdef const uint8_t* first = &data[0] if data.shape[0] else NULL
        cdef const uint8_t* event
        cdef binlog_crc_t crc = binlog_crc32_best()
        cdef bint by_runs = checksum and crc_has_runs(crc)
        cdef checked_t checked
        cdef int i, status = DECODE_OK
        if canonical.shape[0] != 256:
            raise ValueError("canonical: expected 256 entries")
        if not is_header_len(header_length):
            raise ValueError(f"header_length={header_length}: expected 13, or 19 to 255")
        if start > <size_t> data.shape[0]:
            raise ValueError("start is beyond the data")
        descriptor.header_len = header_length
        descriptor.checksum_len = CHECKSUM_LEN if checksum else 0
        memcpy(descriptor.canonical, &canonical[0], 256)
        for i in range(256):
            descriptor.handling[i] = SPECIAL if is_descriptor(canonical[i]) or canonical[i] == ROTATE_EVENT else 0
        self.damaged = -1
        cur = cursor_over(first, <size_t> data.shape[0])
        cur.pos += start
        checked.good = checked.doubtful = cur.pos
        with nogil:
            while remaining(&cur):
                event = cur.pos
                self.begin = <size_t> (event - first)
                prefetch(event + PREFETCH)
                if by_runs and event >= checked.good and event >= checked.doubtful:
                    checked = check_run(crc, &descriptor, SPECIAL, event, cur.end)
                status = self.look(&cur, &descriptor, query_post_header_len)
                if status != DECODE_OK:
                    break
                if (checksum and event >= checked.good and self.damaged < 0 and not is_descriptor(self.kind)
                        and not checksum_holds_with(crc, event, <uint32_t> (cur.pos - event))):
                    self.damaged = event - first
                if (is_descriptor(self.kind) or self.kind == PREVIOUS_GTIDS_EVENT
                        or self.kind == MARIADB_GTID_LIST_EVENT):
                    break
        if status == DECODE_NO_MEMORY:
            raise MemoryError
        return <size_t> (cur.pos - first), status == DECODE_OK

    def forget_open(self):
        """Note that the open transaction never ends."""
        self.open = False

    def take_gtids(self):
        """The GTIDs of the transactions passed since the last call, as runs (gtid_run_t), as bytes."""
        cdef bytes out = self.runs.data[:self.runs.length]
        self.runs.length = 0
        return out

    cdef int look(self, Cursor* cur, const descriptor_t* descriptor, uint32_t query_post_header_len) noexcept nogil:
        # The cursor does not move if the event is not valid
        cdef event_header_t header
        cdef Cursor body
        cdef Cursor behind = cur[0]
        cdef uint8_t flags
        cdef uint8_t kind
        cdef int status = take_event(&behind, descriptor, &header, &body)
        if status != DECODE_OK:
            return status
        self.kind = kind = header.type_code
        if is_gtid_event(kind):
            status = self.end_open()
            if status != DECODE_OK:
                return status
            if not decode_gtid_event(kind, header.server_id, &body, &self.running, &flags):
                return DECODE_MALFORMED
            self.open = self.running.kind != GTID_NONE
            self.explicit = kind == MARIADB_GTID_EVENT and not flags & MARIADB_STANDALONE
        elif (kind == QUERY_EVENT or kind == MARIADB_QUERY_COMPRESSED_EVENT) and self.open:
            status = self.look_at_query(kind, &body, query_post_header_len)
            if status != DECODE_OK:
                return status
        elif (kind == XID_EVENT or kind == XA_PREPARE_EVENT or kind == TRANSACTION_PAYLOAD_EVENT
                or kind == ROTATE_EVENT or kind == STOP_EVENT):
            status = self.end_open()
            if status != DECODE_OK:
                return status
        self.events += 1
        if header.timestamp:
            self.timestamp = header.timestamp
        cur[0] = behind
        return DECODE_OK

    cdef int look_at_query(self, uint8_t kind, Cursor* body, uint32_t post_header_len) noexcept nogil:
        cdef Cursor database
        cdef Cursor text
        cdef int what = QUERY_OTHER         # a compressed statement is too long to be another
        if kind == QUERY_EVENT:
            if not take_query(body, post_header_len, &database, &text):
                return DECODE_MALFORMED
            what = query_kind(&text)
        if what == QUERY_BEGIN or what == QUERY_XA_START:
            self.explicit = True
        elif what != QUERY_SAVEPOINT and what != QUERY_XA_END and not (what == QUERY_OTHER and self.explicit):
            return self.end_open()
        return DECODE_OK

    cdef int end_open(self) noexcept nogil:
        if not self.open:
            return DECODE_OK
        self.open = False
        return note_gtid_run(&self.runs, &self.running)
