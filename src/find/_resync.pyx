"""Find an event boundary from any offset of a log, and the transaction that begins next.

A v4 header says where its event ends. So a real header differs from random bytes in that its length,
type and position agree; its checksum and the events that follow then confirm it.

Source: MySQL server documentation, "Binlog Event Header".
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from find.anchor cimport ANCHOR_BEGIN, ANCHOR_GTID, is_anchor
from wire.codes cimport (
    DECODE_MALFORMED, DECODE_TRUNCATED, GTID_TAGGED_EVENT, MARIADB_ANNOTATE_ROWS_EVENT,
    MARIADB_ROWS_FRAGMENT_EVENT, QUERY_EVENT, ROTATE_EVENT, START_EVENT_V3,
)
from wire.cursor cimport Cursor, cursor_over
from wire.header cimport (
    CHECKSUM_LEN, V1_HEADER_LEN, V4_MINIMUM_HEADER_LEN, checksum_holds, descriptor_t, event_header_t,
    header_len_of, is_descriptor, is_header_len, length_of, next_position_of, position_agrees, take_event, type_of,
)

cdef extern from "find/resync_scan.h" nogil:
    enum:
        BINLOG_SCAN_BLOCK
        BINLOG_SCAN_ROOM
    int binlog_scan_block(const uint8_t* p, uint32_t position, uint32_t least, uint32_t most) noexcept

cdef enum rule_t:
    RULE_END
    RULE_START
    RULE_ELSEWHERE
    RULE_NONE
    RULE_AHEAD

cdef enum search_end_t:
    SEARCH_FOUND
    SEARCH_NOTHING
    SEARCH_OPEN

cdef enum anchor_end_t:
    ANCHOR_FOUND
    ANCHOR_LIMIT
    ANCHOR_MORE
    ANCHOR_BROKEN

# What next_position says.
POSITION_END = RULE_END                 # v4: where the event ends, modulo 2**32; 0 says nothing
POSITION_START = RULE_START             # v3: where it begins
POSITION_ELSEWHERE = RULE_ELSEWHERE     # relay logs: where it ends in the source's log
POSITION_NONE = RULE_NONE               # v1: there is none
POSITION_AHEAD = RULE_AHEAD             # logs that lack events or bytes: where it ended in the complete log

# How a search ended.
FOUND = SEARCH_FOUND
NOTHING = SEARCH_NOTHING                # no event up to the limit, or to the last bytes that could hold a header
OPEN = SEARCH_OPEN                      # the event found agrees as far as it is there, but more data is needed

# How a walk to an anchor ended.
WALK_FOUND = ANCHOR_FOUND
WALK_LIMIT = ANCHOR_LIMIT               # no anchor before the limit
WALK_MORE = ANCHOR_MORE                 # the data ends, perhaps inside an event
WALK_BROKEN = ANCHOR_BROKEN             # no event is here

cdef enum verdict_t:
    IS_EVENT = 0
    IS_NONE = 1
    IS_OPEN = 2

cdef enum:
    PROOFS = 3                  # a position that agrees, or a checksum that holds, counts as one
    PROOFS_AT_END = 1           # if the last event ends exactly with the data, which counts, too
    CHAIN_AT_END = 3            # events up to there that prove nothing but do not disagree
    CHAIN_WITHOUT_POSITIONS = 8
    CHAIN_MOST = 65536          # this many events without a position are a chain, too
    CHECKSUMS = 3               # a chain's first events have their checksums compared
    CHECKSUM_MOST = 16 << 20    # longer events are confirmed by those after them
    HOP_COST = 64               # cost of looking at a distant header, in bytes
    # What confirming may cost in total: a fixed part, and one per byte searched. Without it, forged headers
    # that share their end would make the cost quadratic.
    BUDGET = 256 << 20
    BUDGET_PER_BYTE = 8
    ZERO_MOST = 1 << 28         # largest length that is trusted without a position
    AHEAD_MOST = 0x7FFFFFFF     # most bytes that a log may lack


cdef struct search_t:
    const uint8_t* data
    const uint8_t* end
    uint64_t base                   # position in the file of data[0]
    descriptor_t descriptor
    int rule
    bint zeros                      # the first event may be one without a position
    bint more                       # the file continues after the data
    uint64_t budget


cdef struct look_t:                 # one header
    uint32_t length
    bint proves                     # its position agrees, and is not zero
    bint has_checksum


cdef inline bint is_known(uint8_t type_code) noexcept nogil:
    return (START_EVENT_V3 <= type_code <= GTID_TAGGED_EVENT
            or MARIADB_ANNOTATE_ROWS_EVENT <= type_code <= MARIADB_ROWS_FRAGMENT_EVENT)


cdef inline int look_at(const search_t* search, const uint8_t* p, bint* has_shift, uint32_t* shift,
                        look_t* look) noexcept nogil:
    # Could an event begin at p? shift: distance to positions in the source's log, once known
    cdef uint32_t least = V1_HEADER_LEN if search.rule == RULE_NONE else V4_MINIMUM_HEADER_LEN
    cdef uint32_t next_position
    cdef uint32_t position = <uint32_t> (search.base + <uint64_t> (p - search.data))
    cdef uint8_t type_code
    cdef bint descriptor
    if <size_t> (search.end - p) < least:
        return IS_OPEN
    type_code = search.descriptor.canonical[type_of(p)]
    look.length = length_of(p)
    descriptor = is_descriptor(type_code)
    look.has_checksum = search.descriptor.checksum_len and not descriptor
    look.proves = False
    if look.length < header_len_of(&search.descriptor, type_code) + (CHECKSUM_LEN if look.has_checksum else 0):
        return IS_NONE
    if search.rule != RULE_NONE:
        next_position = next_position_of(p)
        if search.rule == RULE_START:
            look.proves = next_position == position
            if not look.proves and type_code != START_EVENT_V3:
                return IS_NONE
        elif next_position:
            next_position -= position + look.length
            if search.rule == RULE_END:
                look.proves = next_position == 0
                if not look.proves:
                    return IS_NONE
            elif search.rule == RULE_AHEAD:
                look.proves = has_shift[0] and next_position == shift[0]
                if next_position > <uint32_t> AHEAD_MOST or (has_shift[0] and next_position < shift[0]):
                    return IS_NONE          # bytes missing before an event are also missing before the next
                has_shift[0] = True
                shift[0] = next_position
            elif has_shift[0]:
                look.proves = next_position == shift[0]
                if not look.proves:
                    return IS_NONE
            elif not descriptor and type_code != ROTATE_EVENT:      # the replica writes these itself
                has_shift[0] = True
                shift[0] = next_position
    return IS_EVENT if look.proves or is_known(type_code) else IS_NONE


cdef int confirm(search_t* search, const uint8_t* p) noexcept nogil:
    # Is p the beginning of an event? The chain from there must give enough proofs.
    cdef const uint8_t* q = p
    cdef look_t look
    cdef bint has_shift = False
    cdef uint32_t shift = 0
    cdef uint32_t hops = 0
    cdef uint32_t proofs = 0
    cdef bint own_position = False
    cdef bint own_checksum = False
    cdef bint agrees = False
    cdef int verdict
    while True:
        if q == search.end:
            if search.more:
                return IS_OPEN
            if hops >= CHAIN_AT_END and search.rule != RULE_AHEAD:
                return IS_EVENT
            return IS_EVENT if proofs >= PROOFS_AT_END else IS_NONE
        verdict = look_at(search, q, &has_shift, &shift, &look)
        if verdict == IS_OPEN and search.more:
            return IS_OPEN
        if verdict != IS_EVENT:
            break
        if look.length > <size_t> (search.end - q):
            if search.more:
                return IS_OPEN
            if hops:
                proofs += look.proves
                agrees |= look.proves
            break
        if search.budget < HOP_COST:
            break
        search.budget -= HOP_COST
        if look.has_checksum and hops < CHECKSUMS and look.length <= CHECKSUM_MOST:
            if look.length > search.budget:
                break
            search.budget -= look.length
            if not checksum_holds(q, look.length):
                break
            proofs += 1
            own_checksum |= hops == 0
        proofs += look.proves
        agrees |= look.proves
        own_position |= hops == 0 and look.proves
        hops += 1
        q += look.length
        if hops >= 2 and proofs >= PROOFS and agrees:
            return IS_EVENT
        if search.rule == RULE_NONE and hops >= CHAIN_WITHOUT_POSITIONS or hops >= CHAIN_MOST:
            return IS_EVENT
    # The bytes that follow are not an event, or not a complete one: damage, or the end of a log that was cut off.
    return IS_EVENT if own_position and own_checksum or hops and agrees and proofs >= PROOFS else IS_NONE


cdef const uint8_t* next_candidate(const search_t* search, const uint8_t* p, const uint8_t* last) noexcept nogil:
    # The first place in [p, last) that could be a header, judged by its position; last: none.
    # This loop sees every byte that is skipped.
    cdef uint32_t position = <uint32_t> (search.base + <uint64_t> (p - search.data))
    cdef uint32_t next_position
    cdef uint32_t length
    cdef uint32_t least = V4_MINIMUM_HEADER_LEN + search.descriptor.checksum_len
    cdef uint32_t most = ZERO_MOST if search.zeros else 0
    if search.rule == RULE_END:
        while p < last:
            if last - p >= BINLOG_SCAN_BLOCK + BINLOG_SCAN_ROOM and not binlog_scan_block(p, position, least, most):
                p += BINLOG_SCAN_BLOCK
                position += BINLOG_SCAN_BLOCK
                continue
            for _ in range(min(<ssize_t> BINLOG_SCAN_BLOCK, last - p)):
                length = length_of(p)
                next_position = next_position_of(p)
                if next_position - length == position or (
                    next_position == 0 and length - least < most and is_known(search.descriptor.canonical[type_of(p)])
                ):
                    return p
                p += 1
                position += 1
    elif search.rule == RULE_START:
        while p < last and next_position_of(p) != position:
            p += 1
            position += 1
    return p


cdef int set_descriptor(descriptor_t* descriptor, uint32_t header_length, const uint8_t[::1] lengths,
                        const uint8_t[::1] canonical, bint checksum) except -1:
    if canonical.shape[0] != 256 or lengths.shape[0] != 256:
        raise ValueError("expected 256 entries")
    if not is_header_len(header_length):
        raise ValueError(f"header_length={header_length}: expected 13, or 19 to 255")
    descriptor.header_len = header_length
    descriptor.checksum_len = CHECKSUM_LEN if checksum else 0
    memcpy(descriptor.post_header_len, &lengths[0], 256)
    memcpy(descriptor.canonical, &canonical[0], 256)
    return 0


def find_event(
    const uint8_t[::1] data,
    size_t start,
    size_t limit,
    *,
    uint64_t base,
    bint more,
    uint32_t header_length,
    const uint8_t[::1] lengths,
    const uint8_t[::1] canonical,
    bint checksum,
    int rule,
    bint zeros,
):
    """Find the first real event that begins in ``data[start:limit]``.

    Parameters
    ----------
    data : bytes-like, shape (n_bytes,), uint8
        The bytes to search; not copied.
    start, limit : int
        Offsets in data between which the event begins, the last excluded.
    base : int
        Position in the file of data[0].
    more : bool
        The file continues after the data.
    header_length, lengths, canonical, checksum
        Of the descriptor in force: `FormatDescription.core_arrays`.
    rule : int
        POSITION_*: what next_position says.
    zeros : bool
        Also look for events whose next_position is 0, which takes longer. In the chain after an event they
        are always accepted.

    Returns
    -------
    (offset, status) : int, int
        FOUND: offset of the event. OPEN: offset of what may be one, if more data agrees. NOTHING: offset
        from which on nothing was searched.
    """
    cdef search_t search
    cdef const uint8_t* p
    cdef const uint8_t* last
    cdef const uint8_t* looked_from
    cdef uint32_t least = V1_HEADER_LEN if rule == RULE_NONE else V4_MINIMUM_HEADER_LEN
    cdef size_t size = <size_t> data.shape[0]
    cdef int verdict
    if not RULE_END <= rule <= RULE_AHEAD:
        raise ValueError("unknown rule")
    set_descriptor(&search.descriptor, header_length, lengths, canonical, checksum)
    if size < least or start > size - least or start >= limit:
        return start, SEARCH_NOTHING
    search.data = &data[0]
    search.end = search.data + size
    search.base = base
    search.rule = rule
    search.zeros = zeros
    search.more = more
    search.budget = BUDGET
    limit = min(limit, size - least + 1)
    with nogil:
        p = search.data + start
        last = search.data + limit
        while True:
            looked_from = p
            p = next_candidate(&search, p, last)
            if p == last:
                break
            search.budget = min(search.budget + BUDGET_PER_BYTE * <uint64_t> (p - looked_from + 1), <uint64_t> BUDGET)
            verdict = confirm(&search, p)
            if verdict != IS_NONE:
                break
            p += 1
    if p == last:
        return limit, SEARCH_NOTHING
    return <size_t> (p - search.data), SEARCH_FOUND if verdict == IS_EVENT else SEARCH_OPEN


def find_anchor(
    const uint8_t[::1] data,
    size_t start,
    size_t least,
    size_t limit,
    *,
    uint64_t base,
    uint32_t header_length,
    const uint8_t[::1] lengths,
    const uint8_t[::1] canonical,
    bint checksum,
    int anchors,
):
    """Walk from one event on to the first that begins a transaction.

    Parameters
    ----------
    data, base, header_length, lengths, canonical, checksum
        As in `find_event`. Only the bodies of QUERY events are read.
    start : int
        Offset of an event.
    least, limit : int
        Offsets between which the anchor is, the last excluded.
    anchors : int
        1: GTID events begin transactions; 2: QUERY BEGIN and XA START do.

    Returns
    -------
    (offset, status) : int, int
        Offset of the event, and a WALK_* status.
    """
    cdef descriptor_t descriptor
    cdef event_header_t header
    cdef Cursor cur
    cdef Cursor body
    cdef const uint8_t* event
    cdef const uint8_t* first = &data[0] if data.shape[0] else NULL
    cdef int status
    cdef anchor_end_t ended
    if anchors != ANCHOR_GTID and anchors != ANCHOR_BEGIN:
        raise ValueError("unknown anchors")
    if start > <size_t> data.shape[0]:
        raise ValueError("start is beyond the data")
    set_descriptor(&descriptor, header_length, lengths, canonical, checksum)
    cur = cursor_over(first, <size_t> data.shape[0])
    cur.pos += start
    with nogil:
        while True:
            event = cur.pos
            if <size_t> (event - first) >= limit:
                ended = ANCHOR_LIMIT
                break
            status = take_event(&cur, &descriptor, &header, &body)
            if status == DECODE_MALFORMED:
                ended = ANCHOR_BROKEN
                break
            if status == DECODE_TRUNCATED:
                ended = (ANCHOR_MORE if position_agrees(&header, base + <uint64_t> (event - first))
                         else ANCHOR_BROKEN)
                break
            if not position_agrees(&header, base + <uint64_t> (event - first)):
                ended = ANCHOR_BROKEN
                break
            if event >= first + least and is_anchor(
                    anchors, header.type_code, body, descriptor.post_header_len[<int> QUERY_EVENT]):
                ended = ANCHOR_FOUND
                break
    return <size_t> (event - first), <int> ended
