# Where a transaction can begin, so that a log can be cut there: at its GTID where the log has
# them, otherwise at its BEGIN; never at both, for then a transaction could lose its GTID.

from libc.stdint cimport uint8_t, uint32_t

from wire.codes cimport ANONYMOUS_GTID_EVENT, GTID_EVENT, GTID_TAGGED_EVENT, MARIADB_GTID_EVENT, QUERY_EVENT
from wire.cursor cimport Cursor
from wire.transactions cimport QUERY_BEGIN, QUERY_XA_START, query_kind, take_query_text

cdef enum anchor_t:                 # names in binlog_core.splits
    ANCHOR_NONE = 0
    ANCHOR_GTID = 1
    ANCHOR_BEGIN = 2


cdef inline bint is_anchor(int anchors, uint8_t type_code, Cursor body, uint32_t query_len) noexcept nogil:
    # body: without header and checksum; query_len: post-header length of QUERY_EVENT
    cdef Cursor text
    cdef int kind
    if anchors == ANCHOR_GTID:
        return (type_code == GTID_EVENT or type_code == ANONYMOUS_GTID_EVENT or type_code == GTID_TAGGED_EVENT
                or type_code == MARIADB_GTID_EVENT)
    if type_code != QUERY_EVENT or not take_query_text(&body, query_len, &text):
        return False
    kind = query_kind(&text)
    return kind == QUERY_BEGIN or kind == QUERY_XA_START
