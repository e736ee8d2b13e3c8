"""The events of transactions, taken out of the pages of MariaDB's binary log in InnoDB.

A commit record that refers to no out-of-band records has all events of its transaction: these are copied here,
and records that are not of commits are passed over. The out-of-band records of the others are found by their
references and copied. Each page is checked when it is first looked at, just before its bytes are copied, so that
they come from memory once. Whatever else comes, or is not whole in the given pages, is left to Python.

Source: MariaDB server 12.3, Docs/replication/binlog.md.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy

from memory.feed cimport feed_t, take_more_t

cdef extern from "crc/crc32c.h" nogil:
    uint32_t binlog_crc32c(uint32_t crc, const uint8_t* p, size_t n) noexcept

cdef enum:
    CHECKSUM_LEN = 4
    CHUNK_HEAD_LEN = 3
    LEAST_PAGE_LEN = 8
    CONTINUES = 0x80
    LAST = 0x40
    REST_IS_FILLER = 0xFF
    COMMIT = 1
    GTID_STATE = 2
    OUT_OF_BAND = 3
    FILLER = 4
    LAST_KNOWN = 6
    MOST_LEVELS = 2 * 64 + 2        # of a tree
    MOST_VISITS = 3 * MOST_LEVELS + 6
    MOST_LOOKS = 1 << 16            # of one call: then Python can count them, or be interrupted


# ------------------------------------------------------------------ pages


cdef struct pages_t:
    const uint8_t* data
    size_t size                     # bytes: whole pages
    size_t page_len                 # a power of two
    int shift                       # its logarithm
    uint8_t* checked                # a bit for each page: its checksum is right


cdef bint holds(pages_t* pages, size_t at) noexcept nogil:
    # Whether the checksum of the page of an offset is right. A page of nothing but zeros has none: it may be written
    # later.
    cdef size_t number = at >> pages.shift
    cdef size_t length = pages.page_len - CHECKSUM_LEN
    cdef uint8_t* checked = pages.checked + (number >> 3)
    cdef const uint8_t* page = pages.data + (number << pages.shift)
    cdef uint32_t stored
    if checked[0] >> (number & 7) & 1:
        return True
    memcpy(&stored, page + length, CHECKSUM_LEN)            # little-endian, as all that we compile for
    if binlog_crc32c(0, page, length) != stored:
        return page[0] == 0 and memcmp(page, page + 1, pages.page_len - 1) == 0
    checked[0] |= <uint8_t> (1 << (number & 7))
    return True


cdef inline size_t page_after(const pages_t* pages, size_t at) noexcept nogil:
    return (at | (pages.page_len - 1)) + 1


cdef class Pages:
    """Whole pages of a file, which lie one after the other.

    Parameters
    ----------
    buffer : bytes-like, shape (n_bytes,), uint8
        Not copied.
    page_len : int
        Bytes of a page, a power of two of at least 8.
    begin : int
        Offset of the first one in the file. All other offsets are those in the file, too.
    """

    cdef const uint8_t[::1] data
    cdef object buffer              # the same
    cdef pages_t pages
    cdef uint64_t begin

    def __cinit__(self, buffer, size_t page_len, uint64_t begin=0):
        self.buffer = memoryview(buffer)
        cdef const uint8_t[::1] data = self.buffer
        cdef size_t size = <size_t> data.shape[0]
        if page_len < LEAST_PAGE_LEN or page_len & (page_len - 1) or size & (page_len - 1):
            raise ValueError(f"{size} bytes: expected pages of {page_len}")
        self.data = data
        self.begin = begin
        self.pages.data = &data[0] if size else NULL
        self.pages.size = size
        self.pages.page_len = page_len
        while <size_t> 1 << self.pages.shift < page_len:
            self.pages.shift += 1
        self.pages.checked = <uint8_t*> calloc((size >> self.pages.shift) // 8 + 1, 1)
        if self.pages.checked == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.pages.checked)

    cdef inline bint has(self, uint64_t offset) noexcept nogil:
        return offset >= self.begin and offset - self.begin < self.pages.size

    def __contains__(self, uint64_t offset):
        return self.has(offset)

    def page(self, uint64_t offset):
        """The page of an offset.

        Returns
        -------
        memoryview or None
            None: its checksum is wrong.

        Raises
        ------
        IndexError
            It is not one of these.
        """
        if not self.has(offset):
            raise IndexError(f"no page at {offset}")
        cdef size_t at = <size_t> (offset - self.begin)
        if not holds(&self.pages, at):
            return None
        at &= ~(self.pages.page_len - 1)
        return self.buffer[at : at + self.pages.page_len]

    def short_transactions(self, uint64_t offset, uint8_t[::1] out not None):
        """Copy the events of commit records that are whole, and pass over records that are not of commits.

        Ends before the first record that is neither, that does not fit, or that is not whole in these pages.

        Parameters
        ----------
        offset : int
            Where a record begins, or where a page's last chunk ends.
        out : writable buffer, shape (n_bytes,), uint8
            Takes the events.

        Returns
        -------
        end : int
            Offset of what was not taken.
        written : int
            Bytes in `out`.
        any : bool
            Whether a record was passed or copied that is not of GTID states or filler.
        full : bool
            Whether the next record did not fit.
        """
        cdef size_t room = <size_t> out.shape[0]
        cdef taken_t taken
        if not room or not self.has(offset):
            return offset, 0, False, False
        with nogil:
            taken = take(&self.pages, <size_t> (offset - self.begin), self.pages.size, &out[0], room)
        return self.begin + taken.end, taken.written, taken.any, taken.full

    def pass_short_transactions(self, uint64_t offset, size_t room, uint64_t until):
        """Pass over what `short_transactions` would copy into a buffer of a size.

        Parameters
        ----------
        offset : int
            As in `short_transactions`.
        room : int
            The buffer's bytes. 0 passes over all that is not of commits.
        until : int
            Offset from which on no commit record is passed over.

        Returns
        -------
        end, passed, any, full : int, int, bool, bool
            As `short_transactions` returns them.
        """
        cdef taken_t taken
        if not self.has(offset):
            return offset, 0, False, False
        until = until - self.begin if until > self.begin else 0
        with nogil:
            taken = take(&self.pages, <size_t> (offset - self.begin), min(until, self.pages.size), NULL, room)
        return self.begin + taken.end, taken.written, taken.any, taken.full


# ------------------------------------------------------------------ short transactions


cdef struct taken_t:
    size_t end      # where the first record begins that was not taken
    size_t written  # bytes
    bint any        # whether a record was taken other than of GTID states and fillers
    bint full       # the next record did not fit


cdef taken_t take(pages_t* pages, size_t at, size_t until, uint8_t* out, size_t out_len) noexcept nogil:
    # until: no commit record from this place on is taken. out: NULL: only count.
    cdef taken_t taken = taken_t(at, 0, False, False)
    cdef const uint8_t* data = pages.data
    cdef size_t written = 0, begin, length
    cdef size_t page_end = 0        # of the chunks of the page that was checked last
    cdef uint8_t kind, code
    cdef uint8_t inside = 0         # the type of a record that has not ended
    while at < pages.size:
        if at >= page_end + CHECKSUM_LEN or page_end == 0:
            if not holds(pages, at):
                break
            page_end = page_after(pages, at) - CHECKSUM_LEN
        # A chunk has at least one byte
        if at + CHUNK_HEAD_LEN >= page_end or data[at] == REST_IS_FILLER:
            at = page_end + CHECKSUM_LEN
            continue
        kind = data[at]
        code = kind & ~(CONTINUES | LAST)
        begin = at + CHUNK_HEAD_LEN
        length = data[at + 1] | <size_t> data[at + 2] << 8
        if not 0 < code <= LAST_KNOWN or length > page_end - begin:
            break
        if not kind & CONTINUES:
            if inside:
                if (code == GTID_STATE or code == FILLER) and kind & LAST:
                    at = begin + length
                    continue
                break
            inside = code
            if code == COMMIT:
                if at >= until or length == 0 or data[begin] != 0:  # it has out-of-band records
                    break
                begin += 1
                length -= 1
        elif inside != code:
            break
        at = begin + length
        if code == COMMIT:
            if length > out_len - written:
                taken.full = True
                break
            if out != NULL:
                memcpy(out + written, data + begin, length)
            written += length
        if kind & LAST:
            inside = 0
            taken.any = taken.any or not (code == GTID_STATE or code == FILLER)
            taken.end = at
            taken.written = written
    return taken


# ------------------------------------------------------------------ out-of-band records


cdef struct place_t:
    uint64_t file
    uint64_t offset


cdef struct fields_t:
    uint64_t number
    place_t left
    place_t right
    uint8_t length                  # bytes of these fields


cdef inline bint is_nowhere(place_t place) noexcept nogil:
    return place.file == 0 and place.offset == 0


cdef inline bint is_before(place_t place, place_t other) noexcept nogil:
    return place.file < other.file or (place.file == other.file and place.offset < other.offset)


cdef inline bint take_packed(const uint8_t** at, const uint8_t* end, uint64_t* value) noexcept nogil:
    # The next packed integer; False: the bytes end inside it, or it has more than 64 bits
    cdef const uint8_t* p = at[0]
    cdef size_t length, i
    cdef uint64_t low = 0
    if p >= end:
        return False
    length = (p[0] & 7) + 1
    if length == 8:
        length = 9
    if length > <size_t> (end - p):
        return False
    for i in range(min(length, <size_t> 8)):
        low |= <uint64_t> p[i] << (8 * i)
    low >>= 3
    if length == 9:
        if p[8] >> 3:
            return False
        low |= <uint64_t> p[8] << 61
    value[0] = low
    at[0] = p + length
    return True


cdef bint take_fields(pages_t* pages, size_t at, fields_t* fields) noexcept nogil:
    # The fields of the out-of-band record at a place; False: its first chunk does not have them
    cdef size_t page_end = page_after(pages, at) - CHECKSUM_LEN
    cdef size_t length
    cdef const uint8_t* begin = pages.data + at + CHUNK_HEAD_LEN
    cdef const uint8_t* p = begin
    cdef const uint8_t* end
    if at + CHUNK_HEAD_LEN >= page_end or not holds(pages, at) or pages.data[at] & ~LAST != OUT_OF_BAND:
        return False
    length = pages.data[at + 1] | <size_t> pages.data[at + 2] << 8
    if length > page_end - at - CHUNK_HEAD_LEN:
        return False
    end = begin + length
    if not (take_packed(&p, end, &fields.number)
            and take_packed(&p, end, &fields.left.file) and take_packed(&p, end, &fields.left.offset)
            and take_packed(&p, end, &fields.right.file) and take_packed(&p, end, &fields.right.offset)):
        return False
    fields.length = <uint8_t> (p - begin)
    return True


cdef struct resume_t:               # where copying a record goes on
    size_t at                       # its next chunk
    size_t skip                     # bytes not to copy: the record's fields, and what has been copied of the chunk
    bint begun                      # it is not the first chunk
    uint64_t looks                  # chunks and pages left behind


cdef enum copied_t:
    COPIED_ALL
    COPIED_SOME                     # no more fits
    COPIED_NOT                      # the rest is left to Python


cdef int copy(pages_t* pages, resume_t* record, uint8_t* out, size_t room, size_t* written) noexcept nogil:
    # The bytes of an out-of-band record. out: NULL: only count.
    cdef const uint8_t* data = pages.data
    cdef size_t begin, length, first, count
    cdef size_t page_end = 0        # of the chunks of the page that was checked last
    cdef uint8_t kind, code
    while record.at < pages.size:
        if record.at >= page_end + CHECKSUM_LEN or page_end == 0:
            if not holds(pages, record.at):
                return COPIED_NOT
            page_end = page_after(pages, record.at) - CHECKSUM_LEN
        if record.at + CHUNK_HEAD_LEN >= page_end or data[record.at] == REST_IS_FILLER:
            if not record.begun:
                return COPIED_NOT
            record.at = page_end + CHECKSUM_LEN
            record.looks += 1
            continue
        kind = data[record.at]
        code = kind & ~(CONTINUES | LAST)
        begin = record.at + CHUNK_HEAD_LEN
        length = data[record.at + 1] | <size_t> data[record.at + 2] << 8
        if length > page_end - begin:
            return COPIED_NOT
        if record.begun and not kind & CONTINUES:
            if (code == GTID_STATE or code == FILLER) and kind & LAST:
                record.at = begin + length
                record.looks += 1
                continue
            return COPIED_NOT
        if code != OUT_OF_BAND or (kind & CONTINUES and not record.begun):
            return COPIED_NOT
        first = min(record.skip, length)
        count = min(length - first, room - written[0])
        if count and out != NULL:
            memcpy(out + written[0], data + begin + first, count)
        written[0] += count
        if first + count < length:
            record.skip += count
            return COPIED_SOME
        record.skip -= first
        record.at = begin + length
        record.looks += 1
        record.begun = True
        if kind & LAST:
            return COPIED_ALL
    return COPIED_NOT


cdef enum walk_status_t:
    WALK_DONE                       # all records have been taken
    WALK_ELSEWHERE                  # the next record is not in these pages, or this was enough for one call
    WALK_FIELDS                     # its fields are left to Python: see `give`
    WALK_FULL                       # no more of its bytes fit
    WALK_BYTES                      # the rest of its bytes is left to Python: see `skip`
    WALK_WRONG                      # see `fault`

DONE, ELSEWHERE, FIELDS, FULL = WALK_DONE, WALK_ELSEWHERE, WALK_FIELDS, WALK_FULL
BYTES, WRONG = WALK_BYTES, WALK_WRONG

cdef enum fault_t:
    FAULT_ROOTS
    FAULT_LEVELS
    FAULT_FORWARD
    FAULT_FIRST
    FAULT_NUMBER
    FAULT_MANY
    FAULT_FEW


cdef struct visit_t:
    place_t place
    uint64_t number                 # of the record
    uint8_t fields_len              # 0: its fields were not read yet; else its children have been taken


cdef class TreeWalk:
    """Goes through the out-of-band records of a transaction in the order in which they were written.

    They make trees: left, right, self. Each root is followed by the one before it, through the right reference of
    its leftmost leaf.

    Parameters
    ----------
    records : int
    first, last : tuple of int
        File and offset of the first record, and of the last one.

    Attributes
    ----------
    place : tuple of int
        File and offset of the record that is looked at.
    taken : int
        Bytes of its fields, and those that have been copied; 0 while the fields are not known.
    done : bool
        All records have been taken.
    """

    cdef uint64_t records, seen, first_number
    cdef place_t first, last
    cdef place_t leftmost           # while roots are looked for: the way to the leftmost leaf of the last one found
    cdef int levels                 # that trees of so many records have at most: twice those of balanced ones
    cdef int levels_left
    cdef bint rooted                # all roots are on the stack
    cdef readonly bint done
    cdef bint copying               # the record that is looked at
    cdef resume_t record            # … and where in it; `at` is its offset in the file
    cdef readonly uint64_t taken
    cdef uint64_t looks             # fields read, chunks and pages gone through, since they were last told
    cdef int depth
    cdef visit_t[MOST_VISITS] visits
    cdef int why                    # a fault_t
    cdef place_t wrong, forward

    def __cinit__(self, uint64_t records, (uint64_t, uint64_t) first, (uint64_t, uint64_t) last):
        self.records = records
        self.first = place_t(first[0], first[1])
        self.last = self.leftmost = place_t(last[0], last[1])
        while self.levels < 64 and records >> self.levels:
            self.levels += 1
        self.levels = self.levels_left = 2 * self.levels + 2
        self.push(self.last)

    cdef inline void push(self, place_t place) noexcept nogil:
        self.visits[self.depth].place = place
        self.visits[self.depth].fields_len = 0
        self.depth += 1

    cdef inline place_t current(self) noexcept nogil:
        return self.last if self.depth == 0 else self.visits[self.depth - 1].place if self.rooted else self.leftmost

    @property
    def place(self):
        """See above."""
        cdef place_t place = self.current()
        return place.file, place.offset

    def fault(self):
        """What is wrong with the trees, and file and offset of the record that shows it."""
        cdef visit_t* top = &self.visits[max(self.depth - 1, 0)]
        return {
            FAULT_ROOTS: f"more roots than {self.records} out-of-band records have",
            FAULT_LEVELS: "too many levels of out-of-band records",
            FAULT_FORWARD: f"a reference to {(self.forward.file, self.forward.offset)}, which is not before it",
            FAULT_FIRST: f"the first out-of-band record is at {(self.first.file, self.first.offset)}",
            FAULT_NUMBER: f"out-of-band record {top.number}: expected {self.first_number + self.seen}",
            FAULT_MANY: f"more than {self.records} out-of-band records",
            FAULT_FEW: f"{self.seen} out-of-band records: expected {self.records}",
        }[self.why], (self.wrong.file, self.wrong.offset)

    cdef inline bint fail(self, int why, place_t place) noexcept nogil:
        self.why = why
        self.wrong = place
        return False

    cdef inline bint is_backward(self, place_t child, place_t parent) noexcept nogil:
        # Refuses circles: what a record refers to was written before it
        if is_before(child, parent):
            return True
        self.forward = child
        return self.fail(FAULT_FORWARD, parent)

    cdef bint use(self, const fields_t* fields) noexcept nogil:
        # The fields of the current record; False: they are wrong
        cdef visit_t* top = &self.visits[self.depth - 1]
        self.looks += 1
        if self.rooted:
            if not is_nowhere(fields.left):
                if not (self.is_backward(fields.left, top.place) and self.is_backward(fields.right, top.place)):
                    return False
                if self.depth > 3 * self.levels + 2:
                    return self.fail(FAULT_LEVELS, top.place)
                self.push(fields.right)
                self.push(fields.left)
            top.number = fields.number
            top.fields_len = fields.length
        elif not is_nowhere(fields.left):
            if not self.is_backward(fields.left, self.leftmost):
                return False
            if self.levels_left <= 1:
                return self.fail(FAULT_LEVELS, self.leftmost)
            self.levels_left -= 1
            self.leftmost = fields.left
        elif is_nowhere(fields.right):
            self.rooted = True
        else:
            if not self.is_backward(fields.right, top.place):
                return False
            if self.depth > self.levels:
                return self.fail(FAULT_ROOTS, fields.right)
            self.push(fields.right)
            self.leftmost = fields.right
            self.levels_left = self.levels
        return True

    cdef bint begin(self) noexcept nogil:
        # The bytes of the current record come next; False: it is not the one that must come
        cdef const visit_t* top = &self.visits[self.depth - 1]
        if self.seen == 0:
            self.first_number = top.number
            if top.place.file != self.first.file or top.place.offset != self.first.offset:
                return self.fail(FAULT_FIRST, top.place)
        if top.number != self.first_number + self.seen:
            return self.fail(FAULT_NUMBER, top.place)
        if self.seen >= self.records:
            return self.fail(FAULT_MANY, top.place)
        self.copying = True
        self.taken = top.fields_len
        self.record = resume_t(<size_t> top.place.offset, top.fields_len, False, 0)
        return True

    cdef inline int copy(self, pages_t* pages, uint64_t begin, uint8_t* out, size_t room,
                         size_t* written) noexcept nogil:
        cdef resume_t record = self.record
        cdef size_t before = written[0]
        cdef int copied
        record.at -= begin
        copied = copy(pages, &record, out, room, written)
        record.at += begin
        self.looks += record.looks
        record.looks = 0
        self.record = record
        self.taken += written[0] - before
        return copied

    cdef inline void leave(self) noexcept nogil:
        self.copying = False
        self.taken = 0
        self.depth -= 1
        self.seen += 1

    cdef int walk(self, pages_t* pages, uint64_t file, uint64_t begin, uint8_t* out, size_t room,
                  size_t* written) noexcept nogil:
        cdef place_t place
        cdef fields_t fields
        cdef size_t at
        cdef int copied
        while self.depth:
            if self.looks >= MOST_LOOKS:
                return WALK_ELSEWHERE
            place = self.current()
            if place.file != file or place.offset < begin or place.offset - begin >= pages.size:
                return WALK_ELSEWHERE
            at = <size_t> (place.offset - begin)
            if not self.rooted or self.visits[self.depth - 1].fields_len == 0:
                if place.offset < pages.page_len or not take_fields(pages, at, &fields):     # the file's header
                    return WALK_FIELDS
                if not self.use(&fields):
                    return WALK_WRONG
                continue
            if not self.copying and not self.begin():
                return WALK_WRONG
            copied = self.copy(pages, begin, out, room, written)
            if copied == COPIED_SOME:
                return WALK_FULL
            if copied == COPIED_NOT:
                return WALK_BYTES
            self.leave()
        if self.seen != self.records:
            self.fail(FAULT_FEW, self.last)
            return WALK_WRONG
        self.done = True
        return WALK_DONE

    def go_on(self, Pages pages not None, uint64_t file, uint8_t[::1] out, size_t room=0):
        """Copy the bytes of the next records.

        Parameters
        ----------
        pages : Pages
        file : int
            Their file's number.
        out : writable buffer, shape (n_bytes,), uint8, or None
            None: pass over the records.
        room : int
            Most bytes to pass over.

        Returns
        -------
        status : int
            Why it came back: DONE, ELSEWHERE, FIELDS, FULL, BYTES or WRONG.
        written : int
            Bytes in `out`, or passed over.
        looks : int
            Records whose fields were read, and chunks and pages gone through, since the last call.
        """
        cdef size_t written = 0
        cdef uint64_t looks
        cdef int status
        cdef uint8_t* begin = NULL
        if out is not None:
            room = <size_t> out.shape[0]
            if room:
                begin = &out[0]
        with nogil:
            status = self.walk(&pages.pages, file, pages.begin, begin, room, &written)
        looks, self.looks = self.looks, 0
        return status, written, looks

    def give(self, uint64_t number, (uint64_t, uint64_t) left, (uint64_t, uint64_t) right, uint8_t length):
        """The fields of the record that is looked at: number, left and right reference, and their bytes.

        Returns
        -------
        bool
            False: see `fault`.
        """
        cdef fields_t fields
        if not self.depth or not length:
            raise ValueError("no fields are missing")
        fields.number = number
        fields.left = place_t(left[0], left[1])
        fields.right = place_t(right[0], right[1])
        fields.length = length
        return self.use(&fields)

    def skip(self):
        """Go on behind the record that is looked at: its bytes were taken otherwise."""
        if not self.copying:
            raise ValueError("no record is looked at")
        self.leave()


# ------------------------------------------------------------------ for the decoding loop


cdef size_t take_more(Feed feed, uint8_t* out, size_t room) noexcept nogil:
    cdef size_t written = 0
    cdef taken_t taken
    if feed.walk is not None:
        feed.walk.walk(feed.pages, feed.file, feed.begin, out, room, &written)
        feed.feed.next = <uintptr_t> feed.pages.data + feed.walk.record.at - feed.begin
        return written
    taken = take(feed.pages, feed.at, feed.pages.size, out, room)
    feed.at = taken.end
    feed.feed.next = <uintptr_t> feed.pages.data + taken.end
    feed.any = feed.any or taken.any
    return taken.written


cdef class Feed:
    """Lets the decoding loop take events itself: what `short_transactions` or `TreeWalk.go_on` would copy next.

    Parameters
    ----------
    pages : Pages
    offset : int
        As in `short_transactions`.
    walk : TreeWalk or None
        Instead: the records that are copied.
    file : int
        The number of the pages' file.

    Attributes
    ----------
    address : int
        For `Decoder.feed`; valid as long as this object.
    offset : int
        Of what was not taken.
    any : bool
        Whether a record was taken that is not of GTID states or filler.
    """

    cdef feed_t feed
    cdef Pages owner
    cdef pages_t* pages
    cdef readonly TreeWalk walk
    cdef readonly uint64_t file
    cdef uint64_t begin
    cdef size_t at
    cdef readonly bint any

    def __cinit__(self, Pages pages not None, uint64_t offset, TreeWalk walk=None, uint64_t file=0):
        if not pages.has(offset):
            raise IndexError(f"no page at {offset}")
        self.owner = pages
        self.pages = &pages.pages
        self.begin = pages.begin
        self.at = <size_t> (offset - pages.begin)
        self.walk = walk
        self.file = file
        self.feed = feed_t(<take_more_t> take_more, <void*> self, 0)

    @property
    def address(self):
        """See above."""
        return <uintptr_t> &self.feed

    @property
    def offset(self):
        """See above."""
        return self.begin + self.at
