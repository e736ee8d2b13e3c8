"""Unpacks a replication stream in place, without the GIL: strips the packets' headers and joins their pieces.

A server sends each event as one packet, or as several of 16 MiB - 1 bytes and a last, shorter one. Bytes are
received into one buffer at `fill`. `strip` moves the contents of the packets to the front of the buffer, so that
complete events lie there one after the other, as in the log's file:

    0        whole      written       unread       fill
    |  events  |  a piece  |  (free)    |  packets  |

Source: MySQL server documentation, "Packets", "COM_BINLOG_DUMP"; semi-synchronous replication,
``plugin/semisync``.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memmove

from memory.memory cimport memory_t, release
from wire.codes cimport (
    FORMAT_DESCRIPTION_EVENT, HEARTBEAT_EVENT, HEARTBEAT_EVENT_V2, MARIADB_GTID_LIST_EVENT, PREVIOUS_GTIDS_EVENT,
    ROTATE_EVENT, TRANSACTION_PAYLOAD_EVENT, XA_PREPARE_EVENT, XID_EVENT,
)
from wire.cursor cimport Cursor, load_u24
from wire.gtid cimport decode_gtid_event, gtid_t, is_gtid_event
from batch.gtid_runs cimport note_gtid_run
from wire.header cimport V4_MINIMUM_HEADER_LEN, flags_of, length_of, next_position_of, server_id_of, type_of

cdef enum:
    PACKET_HEADER_LEN = 4
    LONGEST_PIECE = 0xFFFFFF
    FIRST_EVENT = 4                 # position of a log's descriptor
    ARTIFICIAL = 0x20               # flag of an event that is not in the log
    SEMI_SYNC_MAGIC = 0xEF

cdef enum strip_status_t:
    STRIP_MORE = 0
    STRIP_SPECIAL
    STRIP_HOLE
    STRIP_REFUSED
    STRIP_OUT_OF_ORDER
    STRIP_NOT_AN_EVENT
    STRIP_TOO_LARGE

# What `strip` comes back with.
MORE = STRIP_MORE                   # receive more
SPECIAL = STRIP_SPECIAL             # an event that is not in the log lies between whole and written: take it, then drop
HOLE = STRIP_HOLE                   # the event there does not begin where the one before it ends: see `gap`
REFUSED = STRIP_REFUSED             # an error or EOF packet lies there: the dump is over
OUT_OF_ORDER = STRIP_OUT_OF_ORDER   # a sequence number is not the next one
NOT_AN_EVENT = STRIP_NOT_AN_EVENT   # a packet is not an event, or its length is not that of its event
TOO_LARGE = STRIP_TOO_LARGE         # an event of more than event_bytes: see `event_length`


cdef class Packets:
    """Strips one dump's packets.

    Parameters
    ----------
    event_bytes : int
        Most bytes of an event.
    semi_sync : bool
        The client has asked to be a semi-synchronous replica. If the server agrees, which its first packet shows,
        two bytes before each event say whether to acknowledge it.
    numbered : bool
        Whether packets are numbered consecutively. In the compressed protocol their frames are numbered instead.

    Attributes
    ----------
    position : int
        Position in the server's file of the byte after the complete events.
    whole, written, unread, fill : int
        Offsets in the buffer; see above.
    event_length : int
        The length that the current event gives; 0 if its header is not complete yet.
    gap : int
        With HOLE: the position where the event begins.
    acknowledge : bool
        The server waits for the acknowledgement of one of the complete events.
    """

    cdef readonly uint64_t position
    cdef readonly size_t whole
    cdef readonly size_t written
    cdef readonly size_t unread
    cdef public size_t fill
    cdef readonly uint32_t event_length
    cdef readonly uint64_t gap
    cdef public bint acknowledge
    cdef uint64_t event_bytes
    cdef bint semi_sync
    cdef bint numbered
    cdef uint8_t sequence           # of the next packet
    cdef uint32_t left              # bytes left of the current packet
    cdef bint joined                # the next packet continues the same event
    cdef bint inside                # inside an event, or an error or EOF packet
    cdef uint8_t kind               # its first byte; 0: an event
    cdef bint asked                 # the server asks to acknowledge it
    cdef bint counts_anew           # the next packet may be number 1
    cdef bint looks                 # look whether the first packet has the semi-sync bytes
    cdef memory_t gtid_runs
    cdef gtid_t running             # the transaction that began last
    cdef readonly int begun         # 1: it may continue; 0: it has ended; -1: neither was seen
    cdef readonly size_t state_at   # offset of a complete event that lists the GTIDs before its log …
    cdef readonly size_t state_len  # … and its length, 0 if there is none

    def __cinit__(self, uint64_t event_bytes, *, bint semi_sync=False, bint numbered=True):
        self.numbered = numbered
        self.event_bytes = event_bytes
        self.semi_sync = self.looks = semi_sync
        self.sequence = 1           # the command was packet 0
        self.begun = -1

    def __dealloc__(self):
        release(&self.gtid_runs)

    def take_gtids(self):
        """The GTIDs of the transactions begun since the last call, as runs (gtid_run_t), as bytes."""
        cdef bytes out = self.gtid_runs.data[:self.gtid_runs.length]
        self.gtid_runs.length = 0
        return out

    def running_gtid(self):
        """(gtid_kind, uuid, tag, domain_id, server_id, sequence_number) of the transaction that began last."""
        return (self.running.kind, (<uint8_t*> self.running.uuid)[:16], (<uint8_t*> self.running.tag)[:32],
                self.running.domain_id, self.running.server_id, self.running.sequence_number)

    def strip(self, uint8_t[::1] buffer not None):
        """Process the bytes that were received.

        Parameters
        ----------
        buffer : writable bytes-like
            The same buffer since the last `compact`.

        Returns
        -------
        int
            MORE, SPECIAL, HOLE, REFUSED, or one of the errors.
        """
        cdef int status
        if self.fill > <size_t> buffer.shape[0] or not self.whole <= self.written <= self.unread <= self.fill:
            raise ValueError("fill is outside the buffer")
        if self.fill == 0:
            return MORE
        with nogil:
            status = self.walk(&buffer[0])
        return status

    def accept(self, uint8_t[::1] buffer not None, uint64_t position):
        """Accept the event between whole and written as part of the log, at this position."""
        if self.written > <size_t> buffer.shape[0] or self.written - self.whole < V4_MINIMUM_HEADER_LEN:
            raise ValueError("there is no event")
        self.position = position
        self.take_over(&buffer[0])

    def drop(self):
        """Drop the event between whole and written."""
        self.written = self.whole

    def go_to(self, uint64_t position):
        """Set the position of the next event."""
        self.position = position

    def compact(self, uint8_t[::1] source not None, uint8_t[::1] target not None):
        """Forget the complete events: move what follows them to the front of a buffer, which may be the same one."""
        cdef size_t piece = self.written - self.whole
        cdef size_t rest = self.fill - self.unread
        if self.fill > <size_t> source.shape[0] or piece + rest > <size_t> target.shape[0]:
            raise ValueError("the buffer is too small")
        if piece and &target[0] != &source[self.whole]:
            memmove(&target[0], &source[self.whole], piece)
        if rest:
            memmove(&target[piece], &source[self.unread], rest)
        self.whole = 0
        self.written = self.unread = piece
        self.fill = piece + rest
        self.acknowledge = False
        self.state_len = 0

    cdef int walk(self, uint8_t* data) noexcept nogil:
        cdef const uint8_t* at
        cdef uint32_t n
        cdef uint32_t before
        cdef int status
        while True:
            if not self.left:
                if self.inside and not self.joined:
                    self.inside = False
                    self.counts_anew = self.asked
                    status = self.end_event(data)
                    if status != STRIP_MORE:
                        return status
                    continue
                if self.fill - self.unread < PACKET_HEADER_LEN:
                    return STRIP_MORE
                at = data + self.unread
                n = load_u24(at)
                if self.counts_anew:
                    # After an event that must be acknowledged, a server counts from the reply, which is packet 0.
                    self.counts_anew = False
                    if at[3] == 1:
                        self.sequence = 1
                if self.numbered and at[3] != self.sequence:
                    return STRIP_OUT_OF_ORDER
                before = 0
                if not self.inside:
                    # The first byte of an event's first packet, and the semi-sync bytes after it, are not part of it.
                    if n == 0:
                        return STRIP_NOT_AN_EVENT
                    if self.fill - self.unread < PACKET_HEADER_LEN + 1:
                        return STRIP_MORE
                    self.kind = at[4]
                    self.asked = False
                    if self.kind == 0:
                        before = 1
                        if self.semi_sync:
                            if n < 3:
                                return STRIP_NOT_AN_EVENT
                            if self.fill - self.unread < PACKET_HEADER_LEN + 3:
                                return STRIP_MORE
                            if self.looks:      # the first event's timestamp is 0: it cannot be mistaken for the mark
                                self.looks = False
                                self.semi_sync = at[5] == SEMI_SYNC_MAGIC
                        if self.semi_sync:
                            if at[5] != SEMI_SYNC_MAGIC:
                                return STRIP_NOT_AN_EVENT
                            self.asked = at[6] & 1
                            before = 3
                    self.event_length = 0
                    self.inside = True
                self.sequence += 1
                self.joined = n == LONGEST_PIECE
                self.left = n - before
                self.unread += PACKET_HEADER_LEN + before
                continue
            n = <uint32_t> min(<size_t> self.left, self.fill - self.unread)
            if n == 0:
                return STRIP_MORE
            if self.written != self.unread:
                memmove(data + self.written, data + self.unread, n)
            self.written += n
            self.unread += n
            self.left -= n
            if self.kind != 0:
                if self.written - self.whole > 4096:            # an error's text has at most 512 bytes
                    return STRIP_NOT_AN_EVENT
                continue
            if self.event_length == 0 and self.written - self.whole >= V4_MINIMUM_HEADER_LEN:
                self.event_length = length_of(data + self.whole)
                if self.event_length < V4_MINIMUM_HEADER_LEN:
                    return STRIP_NOT_AN_EVENT
                if self.event_length > self.event_bytes:
                    return STRIP_TOO_LARGE
            if self.event_length and self.written - self.whole > self.event_length:
                return STRIP_NOT_AN_EVENT

    cdef int end_event(self, const uint8_t* data) noexcept nogil:
        cdef const uint8_t* event = data + self.whole
        cdef uint32_t length = self.event_length
        cdef uint32_t log_pos
        cdef uint8_t kind
        if self.kind != 0:
            return STRIP_REFUSED
        if length == 0 or self.written - self.whole != length:
            return STRIP_NOT_AN_EVENT
        kind = type_of(event)
        log_pos = next_position_of(event)
        if (flags_of(event) & ARTIFICIAL or kind == HEARTBEAT_EVENT or kind == HEARTBEAT_EVENT_V2
                or (log_pos == 0 and (kind == FORMAT_DESCRIPTION_EVENT or kind == ROTATE_EVENT))):
            return STRIP_SPECIAL
        if kind == FORMAT_DESCRIPTION_EVENT and self.position != FIRST_EVENT:
            return STRIP_SPECIAL        # to a reader with GTIDs MySQL sends it as it is in the log, wherever it begins
        if log_pos != 0 and log_pos != <uint32_t> (self.position + length):
            # It begins after the end of the event before it; the low half of the position says how far.
            self.gap = self.position + <uint32_t> (log_pos - <uint32_t> (self.position + length))
            return STRIP_HOLE
        self.take_over(data)
        return STRIP_MORE

    cdef void take_over(self, const uint8_t* data) noexcept nogil:
        # The event between whole and written is part of the log
        cdef const uint8_t* event = data + self.whole
        cdef uint8_t kind = type_of(event)
        cdef Cursor body
        cdef uint8_t flags
        if is_gtid_event(kind):
            body.pos = event + V4_MINIMUM_HEADER_LEN
            body.end = data + self.written
            if decode_gtid_event(kind, server_id_of(event), &body, &self.running, &flags):
                note_gtid_run(&self.gtid_runs, &self.running)   # if there is no memory, a failover would be refused
            self.begun = 1
        elif (kind == XID_EVENT or kind == XA_PREPARE_EVENT or kind == TRANSACTION_PAYLOAD_EVENT
                or kind == ROTATE_EVENT):
            self.begun = 0
        elif kind == PREVIOUS_GTIDS_EVENT or kind == MARIADB_GTID_LIST_EVENT:
            self.state_at = self.whole
            self.state_len = self.written - self.whole
        self.position += self.written - self.whole
        self.whole = self.written
        if self.asked:
            self.acknowledge = True
