"""The events of transactions, taken out of the pages of MariaDB's binary log in InnoDB.

A commit record that refers to no out-of-band records has all events of its transaction: these are copied here,
and records that are not of commits are passed over. The out-of-band records of the others are found by their
references and copied. Each page is checked just before its bytes are copied, so that they come from memory once.
Whatever else comes, or is not whole in the given pages, is left to Python.

Source: MariaDB server 12.3, Docs/replication/binlog.md.
"""

from libc.stdint cimport UINT64_MAX, uint8_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from memory.feed cimport feed_t, take_more_t
from wire.innodb_pages cimport (
    COPIED_NOT, COPIED_SOME, copy_record, fields_t, holds, pages_t, place_t, resume_t, take, take_fields, taken_t,
    tree_t,
)

cdef enum:
    LEAST_PAGE_LEN = 8
    MOST_LEVELS = 2 * 64 + 2        # of a tree
    MOST_VISITS = 3 * MOST_LEVELS + 6
    MOST_LOOKS = 1 << 16            # of one call: then Python can count them, or be interrupted


# ------------------------------------------------------------------ pages


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


# ------------------------------------------------------------------ out-of-band records


cdef inline bint is_nowhere(place_t place) noexcept nogil:
    return place.file == 0 and place.offset == 0


cdef inline bint is_before(place_t place, place_t other) noexcept nogil:
    return place.file < other.file or (place.file == other.file and place.offset < other.offset)


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

    cdef tree_t tree
    cdef uint64_t seen, first_number
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
        self.start(tree_t(records, place_t(first[0], first[1]), place_t(last[0], last[1])))

    cdef void start(self, tree_t tree) noexcept nogil:
        self.tree = tree
        self.leftmost = tree.last
        self.seen = self.taken = 0
        self.rooted = self.done = self.copying = False
        self.levels = self.depth = 0
        while self.levels < 64 and tree.records >> self.levels:
            self.levels += 1
        self.levels = self.levels_left = 2 * self.levels + 2
        self.push(tree.last)

    cdef inline void push(self, place_t place) noexcept nogil:
        self.visits[self.depth].place = place
        self.visits[self.depth].fields_len = 0
        self.depth += 1

    cdef inline place_t current(self) noexcept nogil:
        if self.depth == 0:
            return self.tree.last
        return self.visits[self.depth - 1].place if self.rooted else self.leftmost

    @property
    def place(self):
        """See above."""
        cdef place_t place = self.current()
        return place.file, place.offset

    def fault(self):
        """What is wrong with the trees, and file and offset of the record that shows it."""
        cdef visit_t* top = &self.visits[max(self.depth - 1, 0)]
        return {
            FAULT_ROOTS: f"more roots than {self.tree.records} out-of-band records have",
            FAULT_LEVELS: "too many levels of out-of-band records",
            FAULT_FORWARD: f"a reference to {(self.forward.file, self.forward.offset)}, which is not before it",
            FAULT_FIRST: f"the first out-of-band record is at {(self.tree.first.file, self.tree.first.offset)}",
            FAULT_NUMBER: f"out-of-band record {top.number}: expected {self.first_number + self.seen}",
            FAULT_MANY: f"more than {self.tree.records} out-of-band records",
            FAULT_FEW: f"{self.seen} out-of-band records: expected {self.tree.records}",
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
            if top.place.file != self.tree.first.file or top.place.offset != self.tree.first.offset:
                return self.fail(FAULT_FIRST, top.place)
        if top.number != self.first_number + self.seen:
            return self.fail(FAULT_NUMBER, top.place)
        if self.seen >= self.tree.records:
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
        copied = copy_record(pages, &record, out, room, written)
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
        if self.seen != self.tree.records:
            self.fail(FAULT_FEW, self.tree.last)
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
            Records whose fields were read, and chunks and pages gone through, since they were last told.
        """
        cdef size_t written = 0
        cdef int status
        cdef uint8_t* begin = NULL
        if out is not None:
            room = <size_t> out.shape[0]
            if room:
                begin = &out[0]
        with nogil:
            status = self.walk(&pages.pages, file, pages.begin, begin, room, &written)
        return status, written, self.tell()

    def tell(self):
        """The looks, as `go_on` returns them: a `Feed` has more of them each time."""
        cdef uint64_t looks = self.looks
        self.looks = 0
        return looks

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


cdef bint begin_tree(Feed feed, const taken_t* taken, uint8_t* out, size_t room, size_t* written) noexcept nogil:
    # Copies the events of the commit record at which `take` has ended, and goes on with its tree. False: they do not
    # fit, or there are none: who gets no bytes does not ask where the feed is
    feed.full = taken.events_len > room - written[0]
    if taken.events_len == 0 or feed.full:
        return False
    if out != NULL:
        memcpy(out + written[0], feed.pages.data + taken.events, taken.events_len)
    written[0] += taken.events_len
    feed.at = taken.events + taken.events_len
    feed.any = True
    feed.tree.start(taken.tree)
    feed.walking = True
    return True


cdef size_t take_until(Feed feed, size_t until, uint8_t* out, size_t room) noexcept nogil:
    # out: NULL: only count
    cdef size_t written = 0, before
    cdef taken_t taken
    cdef int status
    feed.full = False
    while True:
        if feed.walking:
            if feed.handed >= feed.most:
                return written
            before = written
            status = feed.tree.walk(feed.pages, feed.file, feed.begin, out, room, &written)
            feed.handed += written - before
            feed.walking = status != WALK_DONE
            feed.feed.next = <uintptr_t> feed.pages.data + feed.tree.record.at - feed.begin
            if feed.walking:
                return written
        if not feed.follows:
            return written
        taken = take(feed.pages, feed.file, feed.begin, feed.at, until, NULL if out == NULL else out + written,
                     room - written)
        feed.at = taken.end
        feed.any = feed.any or taken.any
        feed.full = taken.full
        written += taken.written
        feed.feed.next = <uintptr_t> feed.pages.data + taken.end
        if taken.tree.records == 0 or not begin_tree(feed, &taken, out, room, &written):
            return written


cdef size_t take_more(Feed feed, uint8_t* out, size_t room) noexcept nogil:
    return take_until(feed, feed.pages.size, out, room)


cdef class Feed:
    """Takes the events of transactions, for the decoding loop or for Python.

    It copies the rest of a tree, and then whole commit records with the trees that they refer to, and passes over
    records that are not of commits. It ends before the first record that is none of these, or is not whole in these
    pages; where a tree leaves them; and where no more fits.

    Parameters
    ----------
    pages : Pages
    offset : int or None
        Where a record begins, or where a page's last chunk ends. None: there is only the walk.
    walk : TreeWalk or None
        What comes first: the records of a tree.
    file : int
        The number of the pages' file.
    most : int
        Bytes of trees after which it ends, until they are told.

    Attributes
    ----------
    address : int
        For `Decoder.feed`; valid as long as this object.
    offset : int or None
        Of what was not taken.
    walk : TreeWalk or None
        The tree that has been begun; None: the next record is at the offset.
    any : bool
        Whether a record was taken that is not of GTID states or filler.
    full : bool
        Whether the next record did not fit, the last time.
    """

    cdef feed_t feed
    cdef Pages owner
    cdef pages_t* pages
    cdef TreeWalk tree
    cdef bint walking               # the tree
    cdef bint follows               # something comes after the tree
    cdef uint64_t file
    cdef uint64_t begin
    cdef uint64_t handed            # bytes of trees that were not told yet
    cdef uint64_t most
    cdef size_t at
    cdef readonly bint any, full

    def __cinit__(self, Pages pages not None, offset, TreeWalk walk=None, uint64_t file=0,
                  uint64_t most=UINT64_MAX):
        self.owner = pages
        self.pages = &pages.pages
        self.begin = pages.begin
        self.follows = offset is not None
        if self.follows:
            if not pages.has(offset):
                raise IndexError(f"no page at {offset}")
            self.at = <size_t> (<uint64_t> offset - pages.begin)
        self.walking = walk is not None
        self.tree = TreeWalk(0, (0, 0), (0, 0)) if walk is None else walk
        self.file = file
        self.most = most
        self.feed = feed_t(<take_more_t> take_more, <void*> self, 0)

    @property
    def address(self):
        """See above."""
        return <uintptr_t> &self.feed

    @property
    def offset(self):
        """See above."""
        return self.begin + self.at if self.follows else None

    @property
    def walk(self):
        """See above."""
        return self.tree if self.walking else None

    def copy(self, uint8_t[::1] out not None):
        """Copy events into a buffer; returns how many bytes. 0: none fit, or the rest needs care."""
        cdef size_t room = <size_t> out.shape[0]
        cdef size_t written
        if not room:
            return 0
        with nogil:
            written = take_more(self, &out[0], room)
        return written

    def skip(self, size_t room, uint64_t until):
        """Pass over what `copy` would copy.

        Parameters
        ----------
        room : int
            The buffer's bytes. 0 passes over all that is not of commits.
        until : int
            Offset from which on no commit record is passed over.

        Returns
        -------
        int
            Bytes.
        """
        cdef size_t passed
        until = until - self.begin if until > self.begin else 0
        with nogil:
            passed = take_until(self, <size_t> min(until, <uint64_t> self.pages.size), NULL, room)
        return passed

    def tell(self):
        """Bytes of trees that were copied or passed over, and `TreeWalk.go_on`'s looks, since they were last told."""
        cdef uint64_t handed = self.handed
        self.handed = 0
        self.most -= min(self.most, handed)
        return handed, self.tree.tell()
