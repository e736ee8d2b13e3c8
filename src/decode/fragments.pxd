# MariaDB's fragments of a rows event, decoded where they lie in the outer window.
#
# Only a row that goes on in the next fragment is put together, with some bytes after it: nothing says how long it is,
# so that more are taken while they end inside the row. Small fragments are joined instead, by Python.

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from decode.loop cimport RUN_ERROR, RUN_EVENT, RUN_MORE, fragments_t, loop_t, post_header_len_of, window_t
from decode.plan cimport ROOM, plan_t
from decode.table_cache cimport NO_TABLE, mapped_definition
from memory.memory cimport append, release, reserve
from wire.codes cimport (
    DECODE_OK, DELETE_ROWS_EVENT, DELETE_ROWS_EVENT_V1, PARTIAL_UPDATE_ROWS_EVENT, UPDATE_ROWS_EVENT,
    UPDATE_ROWS_EVENT_V1, WRITE_ROWS_EVENT, WRITE_ROWS_EVENT_V1,
)
from wire.cursor cimport Cursor, cursor_over, remaining, skip, take_lenenc
from wire.header cimport V4_MINIMUM_HEADER_LEN, type_of
from wire.rows cimport DUMMY_TABLE_ID, skip_extra_info, take_rows_post_header

cdef enum:
    LENGTH_AT = 9                   # in the header
    LEAST_FRAGMENT = 64 << 10       # bytes: smaller ones are joined faster than decoded in parts
    JOINED = 512                    # bytes that are put together beyond a fragment's end, at first


cdef enum part_t:
    PART_NEXT
    PART_NONE                       # the event's end, or its rows cannot be decoded
    PART_NO_MEMORY


cdef inline size_t begin_of(const fragments_t* self, size_t i) noexcept nogil:
    return self.ends[2 * i]


cdef inline size_t length_at(const fragments_t* self, size_t i) noexcept nogil:
    return self.ends[2 * i + 1] - self.ends[2 * i]


cdef inline void leave_fragments(fragments_t* self) noexcept nogil:
    free(self.ends)
    self.ends = NULL
    self.count = self.length = 0
    release(&self.head)
    release(&self.joined)


cdef inline void pass_bytes(fragments_t* self, size_t length) noexcept nogil:
    self.left -= length
    self.taken += length
    while self.at < self.count and self.taken >= length_at(self, self.at):
        self.taken -= length_at(self, self.at)
        self.at += 1


cdef inline bint join(fragments_t* self, const window_t* outer, size_t length) noexcept nogil:
    # Puts together the next bytes. False: no memory
    cdef size_t at = self.at
    cdef size_t taken = self.taken
    cdef size_t count
    self.joined.length = 0
    if reserve(&self.joined, length + ROOM) != DECODE_OK:
        return False
    while length:
        count = min(length, length_at(self, at) - taken)
        memcpy(self.joined.data + self.joined.length, outer.data + begin_of(self, at) + taken, count)
        self.joined.length += count
        length -= count
        at += 1
        taken = 0
    memset(self.joined.data + self.joined.length, 0, ROOM)
    return True


cdef inline int next_part(loop_t* loop) noexcept nogil:
    # Lets the inner window be walked once more, for the rows of the next part; a part_t
    cdef fragments_t* self = &loop.fragments
    cdef const window_t* outer = &loop.windows[0]
    cdef window_t* window = &self.window
    cdef size_t length = 0          # of bytes to put together
    if self.length:
        if not self.done:           # an error, or nobody wants the rows
            return PART_NONE
        pass_bytes(self, self.length - self.cut)
        if self.cut and not window.copies:
            length = self.cut + JOINED
        elif self.cut == self.length:
            length = 4 * self.length
        length = min(length, self.left)
    if self.left == 0:
        return PART_NONE
    self.done = False
    window[0] = outer[0]
    window.held = False
    window.feed = NULL
    window.ahead = 0
    if length:
        if not join(self, outer, length):
            return PART_NO_MEMORY
        window.data = self.joined.data
        window.cur = cursor_over(window.data, length)
        window.room = ROOM
        window.copies = True
        self.rows = window.cur
    else:
        length = length_at(self, self.at) - self.taken
        self.rows = cursor_over(outer.data + begin_of(self, self.at) + self.taken, length)
    self.length = length
    self.open = length < self.left
    loop.windows[1].cur = cursor_over(self.head.data, self.head.length)
    return PART_NEXT


cdef inline uint32_t bitmaps_of(uint8_t kind) noexcept nogil:
    # Columns-present bitmaps of a rows event; 0: it is not one that is decoded here
    if kind == UPDATE_ROWS_EVENT_V1 or kind == UPDATE_ROWS_EVENT or kind == PARTIAL_UPDATE_ROWS_EVENT:
        return 2
    if (kind == WRITE_ROWS_EVENT_V1 or kind == WRITE_ROWS_EVENT
            or kind == DELETE_ROWS_EVENT_V1 or kind == DELETE_ROWS_EVENT):
        return 1
    return 0


cdef inline size_t head_len_of(loop_t* loop, const uint8_t* event, size_t length) noexcept nogil:
    # Bytes of a rows event before its rows; 0: these rows are not decoded in parts, or it is not valid.
    # length: of its first fragment
    cdef uint8_t kind = type_of(event)
    cdef uint32_t definition
    cdef uint32_t extra_info_len
    cdef uint64_t id
    cdef uint64_t width
    cdef const plan_t* plan
    cdef Cursor body = cursor_over(event, length)
    if length < V4_MINIMUM_HEADER_LEN or bitmaps_of(kind) == 0 or loop.trx.skipped or loop.selection.leaves_out:
        return 0
    skip(&body, V4_MINIMUM_HEADER_LEN)
    if not take_rows_post_header(&body, post_header_len_of(loop, kind), &id, &extra_info_len):
        return 0
    definition = mapped_definition(&loop.tables, id)
    if definition == NO_TABLE or id == DUMMY_TABLE_ID:
        return 0
    plan = loop.plans[loop.tables.definitions[definition].plan]
    # Columns need all rows of an event in one buffer, and conditions look at all of them first
    if not plan.wanted or plan.raw or plan.condition != NULL or plan.columnar != NULL:
        return 0
    if not (skip_extra_info(&body, extra_info_len) and take_lenenc(&body, &width)) or width != plan.column_count:
        return 0
    if remaining(&body) < <size_t> plan.bitmap_len * bitmaps_of(kind):
        return 0
    return <size_t> (body.pos - event) + <size_t> plan.bitmap_len * bitmaps_of(kind)


cdef inline int begin_fragments(loop_t* loop) noexcept nogil:
    # Begins the event whose fragments are in `ends`. RUN_MORE: its rows are not decoded in parts
    cdef fragments_t* self = &loop.fragments
    cdef const uint8_t* event = loop.windows[0].data + begin_of(self, 0)
    cdef size_t head_len = head_len_of(loop, event, length_at(self, 0))
    cdef uint32_t length = <uint32_t> head_len
    cdef size_t i
    if head_len == 0:
        return RUN_MORE
    self.head.length = 0
    if reserve(&self.head, head_len + ROOM) != DECODE_OK or append(&self.head, event, head_len) != DECODE_OK:
        return RUN_ERROR
    memset(self.head.data + head_len, 0, ROOM)
    memcpy(self.head.data + LENGTH_AT, &length, sizeof(length))     # little-endian, as all that we compile for
    self.left = self.at = self.taken = self.length = 0
    for i in range(self.count):
        self.left += length_at(self, i)
    pass_bytes(self, head_len)
    self.memory = loop.group.max_event_memory
    return RUN_EVENT
