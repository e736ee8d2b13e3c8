"""The rows of a statement, from the packets of the text protocol into columns, without the GIL.

A server sends the number of columns, their definitions, and each row as one packet, or as several of 16 MiB - 1
bytes and a last, shorter one. Bytes are received into one buffer. `take` notes where the fields of complete rows lie
there; `column` lays out one column in Arrow's format:

    0      rows that were taken        unread        fill
    |  packets, pieces joined in place  |  a part of one  |

Source: MySQL server documentation, "Text Resultset", "Packets".
"""

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memmove

cimport numpy as cnp

from arrow.copy_spans cimport (
    BINLOG_STEP, binlog_are_ascii, binlog_copy_spans, binlog_has_wide, binlog_spans_t,
)
from memory.memory cimport memory_t, release, reserve
from types.decimal cimport uint128_t
from types.printed cimport read_date, read_datetime, read_decimal, read_signed, read_time, read_unsigned
from types.utf8 cimport TRANSCODE_FAILED, UTF8_GROWTH, from_table
from wire.codes cimport DECODE_OK
from wire.cursor cimport Cursor, load_u24, remaining, take_lenenc

import numpy as np

cnp.import_array()

cdef enum:
    PACKET_HEADER_LEN = 4
    LONGEST_PIECE = 0xFFFFFF
    EOF_MAX = 8                         # most bytes of an EOF packet; a row with the same first byte is longer
    EOF_MARK = 0xFE
    ERROR_MARK = 0xFF
    NULL_MARK = 0xFB                    # a NULL field; in place of a column count, the server asks for a file
    MAX_COLUMNS = 4096
    MOST_FIELDS_LEN = 16 << 20          # bytes of fields after which rows are handed out: short ones have many

cdef enum take_status_t:
    TAKE_MORE = 0
    TAKE_FULL
    TAKE_ENDED
    TAKE_REFUSED
    TAKE_OUT_OF_ORDER
    TAKE_MALFORMED
    TAKE_NO_MEMORY

# What `take` comes back with.
MORE = TAKE_MORE                        # receive more
FULL = TAKE_FULL                        # the rows must be cleared before more are taken; bytes are left after them
ENDED = TAKE_ENDED                      # that was the last row
REFUSED = TAKE_REFUSED                  # an error packet ends before unread: see `refusal_len`
OUT_OF_ORDER = TAKE_OUT_OF_ORDER        # a sequence number is not the next one
MALFORMED = TAKE_MALFORMED              # a packet is not what is expected there

cdef enum format_t:
    FORMAT_BYTES = 0
    FORMAT_SIGNED
    FORMAT_UNSIGNED
    FORMAT_DECIMAL
    FORMAT_DATE
    FORMAT_DATETIME
    FORMAT_TIME

# What `column` converts texts to.
BYTES = FORMAT_BYTES                    # unchanged: offsets (int32) and bytes
SIGNED = FORMAT_SIGNED                  # int64
UNSIGNED = FORMAT_UNSIGNED              # uint64
DECIMAL = FORMAT_DECIMAL                # 128 bits
DATE = FORMAT_DATE                      # int32 days since 1970; NULL for an invalid date
DATETIME = FORMAT_DATETIME              # int64 microseconds since 1970; NULL for an invalid date
TIME = FORMAT_TIME                      # int64 microseconds

cdef struct field_t:
    uint64_t at                         # offset in the buffer; 0, where no field can be: NULL
    uint32_t length

cdef bint wide = binlog_has_wide()


cdef class ResultRows:
    """Rows of one result set that were received together.

    Parameters
    ----------
    numbered : bool
        Whether packets are numbered consecutively. In the compressed protocol their frames are numbered instead.

    Attributes
    ----------
    columns, rows : int
    unread : int
        Offset in the buffer after the packets that were taken.
    refusal_len : int
        With REFUSED: the length of the error packet, which ends at `unread`.
    """

    cdef readonly int columns
    cdef readonly int64_t rows
    cdef readonly size_t unread
    cdef readonly size_t refusal_len
    cdef int to_come                    # packets of definitions and their end still to come; -1: the count comes first
    cdef bint numbered
    cdef uint8_t sequence               # of the next packet
    cdef memory_t fields                # a field_t for each field, row by row
    cdef size_t reach                   # offset after the last field

    def __cinit__(self, *, bint numbered=True):
        self.numbered = numbered
        self.sequence = 1               # the command was packet 0
        self.to_come = -1

    def __dealloc__(self):
        release(&self.fields)

    def take(self, uint8_t[::1] buffer not None, size_t fill):
        """Process the bytes that were received.

        Parameters
        ----------
        buffer : writable bytes-like
            The same buffer since the last `clear`, at most 2 GiB.
        fill : int
            Where the received bytes end in it.

        Returns
        -------
        int
            MORE, FULL, ENDED, REFUSED, or one of the errors.
        """
        cdef int status = TAKE_MORE
        if fill > <size_t> buffer.shape[0] or fill > INT32_MAX or self.unread > fill:
            raise ValueError("fill is outside the buffer")
        if fill:
            with nogil:
                status = self.walk(&buffer[0], fill)
        if status == TAKE_NO_MEMORY:
            raise MemoryError
        return status

    def clear(self):
        """Forget the rows. From now on, the bytes after `unread` are expected at the front of the buffer."""
        self.rows = 0
        self.unread = self.reach = 0
        self.fields.length = 0

    def column(self, const uint8_t[::1] buffer not None, int number, int format, *, uint32_t precision=0,
               uint32_t scale=0, const uint32_t[::1] charset=None, bint keeps_ascii=False):
        """One column of the rows.

        Parameters
        ----------
        buffer : bytes-like
            The buffer that `take` was given.
        number : int
        format : int
            BYTES, SIGNED, …
        precision, scale : int
            For DECIMAL.
        charset : ndarray of uint32, shape (256,), optional
            For BYTES: a one-byte character set, to convert from to UTF-8; see ``arrow.text.utf8_table``.
        keeps_ascii : bool
            Whether ASCII is the same in that character set.

        Returns
        -------
        tuple of (int, ndarray or None, ndarray or None, ndarray)
            The number of NULLs, and Arrow's buffers: validity (None without NULLs), offsets (for BYTES), values.

        Raises
        ------
        ValueError
            A text cannot be converted.
        """
        cdef int64_t rows = self.rows
        cdef cnp.ndarray nulls = np.zeros((rows + 7) // 8, np.uint8)
        cdef cnp.ndarray offsets = None
        cdef cnp.ndarray values
        cdef const field_t* fields
        cdef int64_t null_count = 0
        cdef int64_t size
        cdef bint ok
        if not 0 <= number < self.columns or not 0 <= format <= FORMAT_TIME or precision > 38 or scale > precision:
            raise ValueError("there is no such column")
        if self.reach > <size_t> buffer.shape[0]:
            raise ValueError("expected the buffer that was taken from")
        if charset is not None and (charset.shape[0] != 256 or widest_of(&charset[0]) > UTF8_GROWTH):
            raise ValueError(f"charset: expected 256 entries of at most {UTF8_GROWTH} bytes each")
        fields = <const field_t*> self.fields.data + number
        size = 16 if format == FORMAT_DECIMAL else 4 if format == FORMAT_DATE else 8
        if format == FORMAT_BYTES:
            offsets = np.zeros(rows + 1, np.int32)
            size = <int64_t> self.bytes_of(fields)
            values = np.empty(size + BINLOG_STEP, np.uint8)
        else:
            values = np.zeros(rows * size, np.uint8)
        if rows == 0:
            return 0, None, offsets, values[:0]
        with nogil:
            null_count = self.note_nulls(fields, <uint8_t*> cnp.PyArray_DATA(nulls))
            if format == FORMAT_BYTES:
                ok = self.copy_bytes(fields, &buffer[0], <uint64_t> buffer.shape[0],
                                     <uint8_t*> cnp.PyArray_DATA(values), <size_t> size + BINLOG_STEP,
                                     <int32_t*> cnp.PyArray_DATA(offsets) + 1)
            else:
                ok = self.read_all(fields, &buffer[0], format, precision, scale, <uint8_t*> cnp.PyArray_DATA(values),
                                   <uint8_t*> cnp.PyArray_DATA(nulls), &null_count)
        if ok and charset is not None and not (
                keeps_ascii and binlog_are_ascii(wide, <const uint8_t*> cnp.PyArray_DATA(values), <size_t> size)):
            if size > (INT32_MAX - 4) // UTF8_GROWTH:
                raise ValueError("more text than a column can hold")
            values = np.empty(size * UTF8_GROWTH + 4, np.uint8)
            with nogil:
                size = self.transcode(fields, &buffer[0], &charset[0], keeps_ascii,
                                      <uint8_t*> cnp.PyArray_DATA(values), <int32_t*> cnp.PyArray_DATA(offsets) + 1)
            ok = size != TRANSCODE_FAILED
        if not ok:
            raise ValueError("a text does not fit its column's type")
        return null_count, np.invert(nulls) if null_count else None, offsets, values[:size] if offsets is not None \
            else values

    # --- Packets -------------------------------------------------------------------------------------

    cdef int walk(self, uint8_t* data, size_t fill) noexcept nogil:
        cdef Cursor packet
        cdef uint64_t count
        cdef size_t before
        cdef int status
        while True:
            before = self.unread
            status = self.next_packet(data, fill, &packet)
            if status != TAKE_MORE or self.unread == before:
                return status
            if remaining(&packet) == 0:
                return TAKE_MALFORMED
            if packet.pos[0] == ERROR_MARK:
                self.refusal_len = remaining(&packet)
                return TAKE_REFUSED
            if self.to_come > 0:
                self.to_come -= 1
                if self.to_come == 0 and not is_end(&packet):
                    return TAKE_MALFORMED
            elif self.to_come < 0:
                if (not take_lenenc(&packet, &count) or remaining(&packet) or not 0 < count <= MAX_COLUMNS):
                    return TAKE_MALFORMED
                self.columns = <int> count
                self.to_come = self.columns + 1
            elif is_end(&packet):
                return TAKE_ENDED
            else:
                status = self.take_row(data, &packet)
                if status != TAKE_MORE:
                    return status
                if self.fields.length >= MOST_FIELDS_LEN:
                    return TAKE_FULL

    cdef int next_packet(self, uint8_t* data, size_t fill, Cursor* out) noexcept nogil:
        # If the next packet is complete, joins its pieces and moves `unread` after it
        cdef size_t at = self.unread
        cdef size_t end = at + PACKET_HEADER_LEN
        cdef uint8_t sequence = self.sequence
        cdef uint32_t n = LONGEST_PIECE
        while n == LONGEST_PIECE:
            if fill - at < PACKET_HEADER_LEN:
                return TAKE_MORE
            n = load_u24(data + at)
            if self.numbered and data[at + 3] != sequence:
                return TAKE_OUT_OF_ORDER
            sequence += 1
            at += PACKET_HEADER_LEN
            if fill - at < n:
                return TAKE_MORE
            at += n
        out.pos = data + end
        at = self.unread
        while True:
            n = load_u24(data + at)
            at += PACKET_HEADER_LEN
            if end != at:
                memmove(data + end, data + at, n)
            end += n
            at += n
            if n != LONGEST_PIECE:
                break
        out.end = data + end
        self.sequence = sequence
        self.unread = at
        return TAKE_MORE

    cdef int take_row(self, const uint8_t* data, Cursor* row) noexcept nogil:
        cdef field_t* field
        cdef uint64_t length
        cdef int _k
        if reserve(&self.fields, <size_t> self.columns * sizeof(field_t)) != DECODE_OK:
            return TAKE_NO_MEMORY
        field = <field_t*> (self.fields.data + self.fields.length)
        for _k in range(self.columns):
            if remaining(row) == 0:
                return TAKE_MALFORMED
            if row.pos[0] == NULL_MARK:
                row.pos += 1
                field.at = field.length = 0
            else:
                if not take_lenenc(row, &length) or length > remaining(row):
                    return TAKE_MALFORMED
                field.at = <uint64_t> (row.pos - data)
                field.length = <uint32_t> length
                row.pos += length
            field += 1
        if remaining(row):
            return TAKE_MALFORMED
        self.fields.length += <size_t> self.columns * sizeof(field_t)
        self.reach = <size_t> (row.end - data)
        self.rows += 1
        return TAKE_MORE

    # --- Columns -------------------------------------------------------------------------------------

    cdef uint64_t bytes_of(self, const field_t* field) noexcept nogil:
        cdef uint64_t total = 0
        cdef int64_t _i
        for _i in range(self.rows):
            total += field.length
            field += self.columns
        return total

    cdef int64_t note_nulls(self, const field_t* field, uint8_t* nulls) noexcept nogil:
        cdef int64_t i, count = 0
        for i in range(self.rows):
            if field.at == 0:
                nulls[i >> 3] |= <uint8_t> (1 << (i & 7))
                count += 1
            field += self.columns
        return count

    cdef bint copy_bytes(self, const field_t* fields, const uint8_t* buffer, uint64_t buffer_len, uint8_t* values,
                         size_t room, int32_t* offsets) noexcept nogil:
        cdef binlog_spans_t spans
        spans.span = <const uint8_t*> fields
        spans.stride = <int64_t> sizeof(field_t) * self.columns
        spans.nulls = NULL
        spans.buffer = buffer
        spans.buffer_len = buffer_len
        spans.data = values
        spans.room = room
        spans.at = 0
        spans.offsets = offsets
        spans.count = <int> self.rows       # it fits: rows are fewer than bytes in the buffer
        return binlog_copy_spans(wide, &spans, 0) == spans.count

    cdef int64_t transcode(self, const field_t* field, const uint8_t* buffer, const uint32_t* charset,
                           bint keeps_ascii, uint8_t* values, int32_t* offsets) noexcept nogil:
        cdef int64_t i
        cdef int64_t size = 0
        cdef Py_ssize_t written
        for i in range(self.rows):
            written = from_table(buffer + field.at, field.length, values + size, charset, keeps_ascii)
            if written == TRANSCODE_FAILED:
                return TRANSCODE_FAILED
            size += written
            offsets[i] = <int32_t> size
            field += self.columns
        return size

    cdef bint read_all(self, const field_t* field, const uint8_t* buffer, int format, uint32_t precision,
                       uint32_t scale, uint8_t* values, uint8_t* nulls, int64_t* null_count) noexcept nogil:
        cdef int64_t i
        cdef int64_t number
        cdef uint128_t decimal
        cdef bint ok
        cdef bint known = True
        cdef const uint8_t* text
        for i in range(self.rows):
            if field.at:
                text = buffer + field.at
                if format == FORMAT_SIGNED:
                    ok = read_signed(text, field.length, &number)
                elif format == FORMAT_UNSIGNED:
                    ok = read_unsigned(text, field.length, <uint64_t*> &number)
                elif format == FORMAT_DECIMAL:
                    ok = read_decimal(text, field.length, precision, scale, &decimal)
                elif format == FORMAT_TIME:
                    ok = read_time(text, field.length, &number)
                elif format == FORMAT_DATE:
                    ok = read_date(text, field.length, &number, &known)
                else:
                    ok = read_datetime(text, field.length, &number, &known)
                if not ok:
                    return False
                if format == FORMAT_DECIMAL:
                    memcpy(values + 16 * i, &decimal, 16)
                elif format == FORMAT_DATE:
                    memcpy(values + 4 * i, &number, 4)      # little-endian: the low half
                else:
                    memcpy(values + 8 * i, &number, 8)
                if not known:
                    nulls[i >> 3] |= <uint8_t> (1 << (i & 7))
                    null_count[0] += 1
                    known = True
            field += self.columns
        return True


cdef inline uint32_t widest_of(const uint32_t* charset) noexcept nogil:
    # Most bytes of UTF-8 per character
    cdef uint32_t most = 0
    cdef int k
    for k in range(256):
        most = max(most, charset[k] >> 24)
    return most


cdef inline bint is_end(const Cursor* packet) noexcept nogil:
    return packet.pos[0] == EOF_MARK and remaining(packet) <= EOF_MAX
