# Post-headers of rows events and their TABLE_MAP events: the fields in wire order.
#
# Source: MySQL server documentation, "Rows_event", "Table_map_event".

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from wire.codes cimport PRE_GA_DELETE_ROWS_EVENT, PRE_GA_WRITE_ROWS_EVENT
from wire.cursor cimport Cursor, load_u32, load_u48, remaining, skip, take_u16

cdef enum:
    SHORT_TABLE_ID_LEN = 4          # in the first 5.1 versions
    TABLE_ID_LEN = 6
    FLAGS_LEN = 2
    SHORT_POST_HEADER_LEN = 6       # with a short table id
    TABLE_MAP_POST_HEADER_LEN = 8   # also of rows events of version 1
    ROWS_V2_POST_HEADER_LEN = 10    # with extra_row_info_len at the end
    EXTRA_INFO_LEN_LEN = 2          # the length counts itself

    DUMMY_TABLE_ID = 0x00FFFFFF     # ends a statement that changed no row


cdef inline uint32_t table_id_len_of(uint32_t post_header_len) noexcept nogil:
    return SHORT_TABLE_ID_LEN if post_header_len < TABLE_MAP_POST_HEADER_LEN else TABLE_ID_LEN


cdef inline uint64_t load_table_id(const uint8_t* p, uint32_t table_id_len) noexcept nogil:
    return load_u32(p) if table_id_len == SHORT_TABLE_ID_LEN else load_u48(p)


cdef inline bint is_rows_v0(uint8_t kind) noexcept nogil:
    return PRE_GA_WRITE_ROWS_EVENT <= kind <= PRE_GA_DELETE_ROWS_EVENT


cdef inline bint take_table_map_post_header(Cursor* body, uint32_t length, uint64_t* table_id) noexcept nogil:
    # Reads up to the flags, which belong to the table's description. False: the event is too short.
    cdef uint32_t id_len = table_id_len_of(length)
    if remaining(body) < length or length < id_len + FLAGS_LEN:
        return False
    table_id[0] = load_table_id(body.pos, id_len)
    skip(body, id_len)
    return True


cdef inline bint take_rows_post_header(Cursor* body, uint32_t length, uint64_t* table_id,
                                       uint32_t* extra_info_len) noexcept nogil:
    # Reads a post-header of any version; bytes that a later version may add are skipped. False: it is too short.
    cdef Cursor cur = body[0]
    cdef uint32_t id_len = table_id_len_of(length)
    if remaining(body) < length or length < SHORT_POST_HEADER_LEN:
        return False
    table_id[0] = load_table_id(cur.pos, id_len)
    skip(&cur, id_len)
    skip(&cur, FLAGS_LEN)                       # end of statement, no foreign key checks …
    extra_info_len[0] = take_u16(&cur) if length >= ROWS_V2_POST_HEADER_LEN else EXTRA_INFO_LEN_LEN
    skip(body, length)
    return True


cdef inline bint skip_extra_info(Cursor* body, uint32_t extra_info_len) noexcept nogil:
    # Skips from after the post-header to the column count. False: it runs past the event.
    if extra_info_len < EXTRA_INFO_LEN_LEN or extra_info_len - EXTRA_INFO_LEN_LEN > remaining(body):
        return False
    skip(body, extra_info_len - EXTRA_INFO_LEN_LEN)
    return True
