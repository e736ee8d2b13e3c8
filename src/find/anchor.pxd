# Where a transaction can begin, so that a log can be cut there: at its GTID if the log has
# them, otherwise at its BEGIN. Never at both: then a transaction could lose its GTID.

from libc.stdint cimport uint8_t, uint32_t

from wire.codes cimport QUERY_EVENT
from wire.cursor cimport Cursor
from wire.gtid cimport is_gtid_event
from wire.query cimport QUERY_BEGIN, QUERY_XA_START, query_kind, take_query

cdef enum anchor_t:                 # names in binlog_core.splits
    ANCHOR_NONE = 0
    ANCHOR_GTID = 1
    ANCHOR_BEGIN = 2


cdef inline bint is_anchor(int anchors, uint8_t type_code, Cursor body, uint32_t query_len) noexcept nogil:
    # body: without header and checksum; query_len: post-header length of QUERY_EVENT
    cdef Cursor database
    cdef Cursor text
    cdef int kind
    if anchors == ANCHOR_GTID:
        return is_gtid_event(type_code)
    if type_code != QUERY_EVENT or not take_query(&body, query_len, &database, &text):
        return False
    kind = query_kind(&text)
    return kind == QUERY_BEGIN or kind == QUERY_XA_START
