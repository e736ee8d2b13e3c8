# The pages of MariaDB's binary log in InnoDB: their checksums, and the records that lie in them one after the other.
# Header-only; _innodb_binlog.pyx has the classes.

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

cdef extern from "crc/crc32c.h" nogil:
    uint32_t binlog_crc32c(uint32_t crc, const uint8_t* p, size_t n) noexcept

cdef enum:
    CHECKSUM_LEN = 4
    CHUNK_HEAD_LEN = 3
    CONTINUES = 0x80
    LAST = 0x40
    REST_IS_FILLER = 0xFF
    COMMIT = 1
    GTID_STATE = 2
    OUT_OF_BAND = 3
    FILLER = 4
    LAST_KNOWN = 6


cdef struct pages_t:
    const uint8_t* data
    size_t size                     # bytes: whole pages
    size_t page_len                 # a power of two
    int shift                       # its logarithm
    uint8_t* checked                # a bit for each page: its checksum is right
    size_t in_order                 # up to here, all pages are checked before the records after them are taken


cdef inline bint is_checked(const pages_t* pages, size_t at) noexcept nogil:
    cdef size_t number = at >> pages.shift
    return pages.checked[number >> 3] >> (number & 7) & 1


cdef inline bint holds(pages_t* pages, size_t at) noexcept nogil:
    # Whether the checksum of the page of an offset is right. A page of nothing but zeros has none: it may be written
    # later.
    cdef size_t number = at >> pages.shift
    cdef size_t length = pages.page_len - CHECKSUM_LEN
    cdef const uint8_t* page = pages.data + (number << pages.shift)
    cdef uint32_t stored
    if is_checked(pages, at):
        return True
    memcpy(&stored, page + length, CHECKSUM_LEN)            # little-endian, as all that we compile for
    if binlog_crc32c(0, page, length) != stored:
        return page[0] == 0 and memcmp(page, page + 1, pages.page_len - 1) == 0
    pages.checked[number >> 3] |= <uint8_t> (1 << (number & 7))
    return True


cdef inline size_t page_after(const pages_t* pages, size_t at) noexcept nogil:
    return (at | (pages.page_len - 1)) + 1


cdef inline size_t chunk_len(const pages_t* pages, size_t at) noexcept nogil:
    return pages.data[at + 1] | <size_t> pages.data[at + 2] << 8


# ------------------------------------------------------------------ references


cdef struct place_t:
    uint64_t file
    uint64_t offset


cdef struct tree_t:                 # of out-of-band records
    uint64_t records
    place_t first
    place_t last


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


cdef inline bint take_place(const uint8_t** at, const uint8_t* end, place_t* place) noexcept nogil:
    return take_packed(at, end, &place.file) and take_packed(at, end, &place.offset)


# ------------------------------------------------------------------ records in their order


cdef struct run_t:                  # out-of-band records that were passed over
    size_t first                    # where the first begins
    uint64_t records                # how many
    bint unchecked                  # some of their pages have not been checked
    bint any                        # see taken_t, before them


cdef struct taken_t:
    size_t end                      # where the first record begins that was not taken
    size_t written                  # bytes
    bint any                        # whether a record was taken other than of GTID states and fillers
    bint full                       # the next record did not fit
    # of the record at `end`, if it is the commit record of one tree, whole in its page:
    tree_t tree                     # records = 0: it is not
    size_t events                   # where its own events begin
    size_t events_len


cdef inline bint pass_page(const pages_t* pages, size_t at, uint8_t* inside, run_t* run) noexcept nogil:
    # Passes over a page of nothing but out-of-band records without checking it, if its chunks look like that
    cdef size_t end = page_after(pages, at) - CHECKSUM_LEN
    cdef size_t length
    cdef uint8_t kind
    cdef uint8_t open = inside[0]
    cdef uint64_t records = run.records
    cdef size_t first = run.first
    while at + CHUNK_HEAD_LEN < end:
        kind = pages.data[at]
        length = chunk_len(pages, at)
        if (kind & ~(CONTINUES | LAST) != OUT_OF_BAND or length > end - at - CHUNK_HEAD_LEN
                or open != (OUT_OF_BAND if kind & CONTINUES else 0)):
            return False
        if not kind & CONTINUES:
            if records == 0:
                first = at
            records += 1
        open = 0 if kind & LAST else OUT_OF_BAND
        at += CHUNK_HEAD_LEN + length
    if records == 0:                # of a record that began before
        return False
    inside[0] = open
    run.records = records
    run.first = first
    run.unchecked = True
    return True


cdef inline void take_tree(const pages_t* pages, uint8_t kind, size_t begin, size_t length,
                           taken_t* taken) noexcept nogil:
    # The fields of a commit record
    cdef const uint8_t* p = pages.data + begin
    cdef const uint8_t* end = p + length
    cdef tree_t tree
    cdef uint64_t second
    if (kind == COMMIT | LAST and take_packed(&p, end, &tree.records) and take_place(&p, end, &tree.first)
            and take_place(&p, end, &tree.last) and take_packed(&p, end, &second) and second == 0):
        taken.tree = tree
        taken.events = <size_t> (p - pages.data)
        taken.events_len = <size_t> (end - p)


cdef inline bint checks_all(const taken_t* taken, const run_t* run, uint64_t file, uint64_t begin) noexcept nogil:
    # Whether all pages of a run are checked by whoever follows the tree's references: no other record is in them.
    # Then its records are as many. A page without any of them would begin with one more, since the record in
    # the page before it has ended.
    return (taken.tree.records == run.records
            and taken.tree.first.file == file and taken.tree.last.file == file
            and taken.tree.first.offset == begin + run.first and taken.tree.last.offset < begin + taken.end)


cdef inline taken_t take(pages_t* pages, uint64_t file, uint64_t begins, size_t at, size_t until, uint8_t* out,
                         size_t out_len) noexcept nogil:
    # until: no commit record from this place on is taken. out: NULL: only count. file, begins: number of the pages'
    # file, and their offset in it.
    #
    # Pages of nothing but out-of-band records come from memory when the references to them are followed, and are
    # checked then. Where it turns out that not all of them will be, these are gone through once more and checked.
    cdef taken_t taken
    cdef run_t run
    cdef const uint8_t* data = pages.data
    cdef size_t written = 0, begin, length
    cdef size_t page_end = 0        # of the chunks of the page that was checked last
    cdef uint8_t kind, code
    cdef uint8_t inside = 0         # the type of a record that has not ended
    taken.end = at
    taken.written = taken.tree.records = taken.events = taken.events_len = 0
    taken.any = taken.full = False
    run.records = run.first = 0
    run.unchecked = run.any = False
    while True:
        while at < pages.size:
            if at >= page_end + CHECKSUM_LEN or page_end == 0:
                if run.records == 0:
                    run.any = taken.any
                if (at & (pages.page_len - 1) == 0 and at >= pages.in_order and not is_checked(pages, at)
                        and pass_page(pages, at, &inside, &run)):
                    at += pages.page_len
                    if inside == 0:
                        taken.end = at
                        taken.any = True
                    continue
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
            length = chunk_len(pages, at)
            if not 0 < code <= LAST_KNOWN or length > page_end - begin:
                break
            if not kind & CONTINUES:
                if inside:
                    if (code == GTID_STATE or code == FILLER) and kind & LAST:
                        at = begin + length
                        continue
                    break
                if code == OUT_OF_BAND:
                    if run.records == 0:
                        run.first = at
                        run.any = taken.any
                    run.records += 1
                elif code == COMMIT:
                    if at >= until or length == 0:
                        break
                    if data[begin] != 0:        # it has out-of-band records
                        take_tree(pages, kind, begin, length, &taken)
                        break
                    if run.unchecked:
                        break
                    run.records = 0
                    begin += 1
                    length -= 1
                inside = code
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
        if not run.unchecked or (out_len > written and checks_all(&taken, &run, file, begins)):
            return taken
        pages.in_order = max(at, page_end)
        at = taken.end = run.first
        taken.any = run.any
        taken.full = False
        taken.tree.records = 0
        run.records = 0
        run.unchecked = False
        inside = 0
        page_end = 0


# ------------------------------------------------------------------ out-of-band records


cdef struct fields_t:
    uint64_t number
    place_t left
    place_t right
    uint8_t length                  # bytes of these fields


cdef inline bint take_fields(pages_t* pages, size_t at, fields_t* fields) noexcept nogil:
    # The fields of the out-of-band record at a place; False: its first chunk does not have them
    cdef size_t page_end = page_after(pages, at) - CHECKSUM_LEN
    cdef size_t length
    cdef const uint8_t* begin = pages.data + at + CHUNK_HEAD_LEN
    cdef const uint8_t* p = begin
    cdef const uint8_t* end
    if at + CHUNK_HEAD_LEN >= page_end or not holds(pages, at) or pages.data[at] & ~LAST != OUT_OF_BAND:
        return False
    length = chunk_len(pages, at)
    if length > page_end - at - CHUNK_HEAD_LEN:
        return False
    end = begin + length
    if not (take_packed(&p, end, &fields.number)
            and take_place(&p, end, &fields.left) and take_place(&p, end, &fields.right)):
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


cdef inline int copy_record(pages_t* pages, resume_t* record, uint8_t* out, size_t room,
                            size_t* written) noexcept nogil:
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
        length = chunk_len(pages, record.at)
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
