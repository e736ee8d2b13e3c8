# Rows into columns, without records in between. Two passes over a tile of rows that stays in the nearest cache: the
# first locates the values row by row, which reads all lengths and compares them with the event's; the second takes the
# values column by column, each into its Arrow buffer.
#
# Between values of variable length a row's columns lie at fixed distances, so only these segments are located. If a
# tile has NULLs, its rows are decoded one by one: see row_columns.pxd.
#
# It takes whole images of a mapped file. Rows that it cannot take (`False`) go into records, together with those that
# the batch already has: see columns_or_records.pxd.

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport calloc, malloc
from libc.string cimport memset

from arrow.gather cimport gather
from arrow.gather_spans cimport check_utf8, copy_values
from arrow.sink cimport LANE, ROW_BYTES, ROWS, WIDEST, keep_nulls, make_room, sink_t, spread_nulls
from arrow.tile cimport (
    GATHER_OK, LAYOUT_MICROS, LAYOUT_NULL, LAYOUT_OBJECT, LAYOUT_UTF8, column_t, mark_null, tile_t,
)
from arrow.views cimport is_view, view_values
from batch.gathered cimport batch_t
from decode.image_set cimport step_of
from decode.plan cimport (
    WIRE_DECIMAL256, WIRE_DECIMAL64, WIRE_NOTHING, WIRE_SKIP, WIRE_SKIP_VALUE, WIRE_SPAN, WIRE_SPAN1, columnar_t,
    free_columnar, gap_t, image_set_t, plan_t, rows_t, step_t, strip_column_t, strip_t, target_t, wire_column_t,
    wire_op_t,
)
from decode.row_columns cimport (
    aims_t, has_aims, is_direct, is_text, strip_columns, take_aim,
)
from decode.row_image cimport any_null
from decode.strips cimport (
    strip_copy1, strip_copy2, strip_copy4, strip_copy8, strip_date, strip_datetime2, strip_decimal128,
    strip_decimal64, strip_number, strip_timestamp2,
)
from wire.cursor cimport load_le, load_u64, prefetch, unlikely

cdef enum:
    AHEAD = 1024                    # bytes of the wire that are prefetched
    EIGHT = 8                       # rows whose NULL bitmaps are looked at together
    FEW = 16                        # a tile with fewer rows waits for those of the next event


# ---------------------------------------------------------------- locating values

cdef inline const uint8_t* locate_segments(const columnar_t* plan, const uint8_t** places, const uint8_t* pos,
                                           const uint8_t* end) noexcept nogil:
    # Locates a row image without NULLs, from after its bitmap; returns the next one's place. NULL: it is past the end.
    cdef const gap_t* gap = plan.gaps
    cdef const gap_t* last = gap + plan.gap_count
    places[0] = pos
    while gap < last:
        pos += gap.gap
        if end - pos < <ptrdiff_t> gap.width:
            return NULL
        pos += gap.width + (pos[0] if gap.width == 1 else load_le(pos, gap.width))
        places += LANE
        places[0] = pos
        gap += 1
    pos += plan.last_gap
    return pos if pos <= end else NULL


cdef inline int without_nulls(const image_set_t* images, const uint8_t* pos, ptrdiff_t length, int most) noexcept nogil:
    # How many of the next row images, each of this length, come before one with a NULL
    cdef uint64_t bits
    cdef int count = 0
    cdef int i
    if images.null_len <= 8:
        while count + EIGHT <= most:
            bits = 0
            for i in range(EIGHT):
                bits |= load_u64(pos + i * length)
            if bits & images.null_mask:
                break
            pos += EIGHT * length
            count += EIGHT
    while count < most and not any_null(images, pos):
        pos += length
        count += 1
    return count


cdef inline int locate_fixed(const columnar_t* plan, const image_set_t* images, sink_t* sink, const uint8_t* pos,
                             const uint8_t* end) noexcept nogil:
    # Locates consecutive row images without NULLs, of a table without lengths; returns how many
    cdef const uint8_t** places = sink.places + sink.pending
    cdef ptrdiff_t length = plan.null_len + plan.last_gap
    cdef int most = <int> min(<ptrdiff_t> (ROWS - sink.pending), (end - pos) // length)
    cdef int count = without_nulls(images, pos, length, most)
    cdef int i
    pos += plan.null_len
    for i in range(count):
        places[i] = pos
        pos += length
    sink.pending += count
    return count


# ---------------------------------------------------------------- taking values

cdef inline bint strip_each(const step_t* step, const uint8_t** at, uint32_t offset, int count, uint8_t* out,
                            size_t stride, rows_t* rows, strip_t strip) noexcept nogil:
    cdef step_t own = step[0]       # a local copy: the compiler knows that no store changes it
    cdef int i
    own.count = 1
    for i in range(count):
        if strip(&own, at[i] + offset, out, 0, rows) == NULL:
            return False
        out += stride
    return True


# One function for each kind, called through the target, so that the compiler does not have to inline them all into one.

cdef inline bint column_copy1(const step_t* step, const uint8_t** at, uint32_t offset, int count, uint8_t* out,
                              size_t stride, rows_t* rows) noexcept nogil:
    return strip_each(step, at, offset, count, out, stride, rows, strip_copy1)


cdef inline bint column_copy2(const step_t* step, const uint8_t** at, uint32_t offset, int count, uint8_t* out,
                              size_t stride, rows_t* rows) noexcept nogil:
    return strip_each(step, at, offset, count, out, stride, rows, strip_copy2)


cdef inline bint column_copy4(const step_t* step, const uint8_t** at, uint32_t offset, int count, uint8_t* out,
                              size_t stride, rows_t* rows) noexcept nogil:
    return strip_each(step, at, offset, count, out, stride, rows, strip_copy4)


cdef inline bint column_copy8(const step_t* step, const uint8_t** at, uint32_t offset, int count, uint8_t* out,
                              size_t stride, rows_t* rows) noexcept nogil:
    return strip_each(step, at, offset, count, out, stride, rows, strip_copy8)


cdef inline bint column_decimal64(const step_t* step, const uint8_t** at, uint32_t offset, int count, uint8_t* out,
                                  size_t stride, rows_t* rows) noexcept nogil:
    return strip_each(step, at, offset, count, out, stride, rows, strip_decimal64)


cdef inline bint column_decimal128(const step_t* step, const uint8_t** at, uint32_t offset, int count, uint8_t* out,
                                   size_t stride, rows_t* rows) noexcept nogil:
    return strip_each(step, at, offset, count, out, stride, rows, strip_decimal128)


cdef inline bint column_date(const step_t* step, const uint8_t** at, uint32_t offset, int count, uint8_t* out,
                             size_t stride, rows_t* rows) noexcept nogil:
    return strip_each(step, at, offset, count, out, stride, rows, strip_date)


cdef inline bint column_datetime2(const step_t* step, const uint8_t** at, uint32_t offset, int count, uint8_t* out,
                                  size_t stride, rows_t* rows) noexcept nogil:
    return strip_each(step, at, offset, count, out, stride, rows, strip_datetime2)


cdef inline bint column_timestamp2(const step_t* step, const uint8_t** at, uint32_t offset, int count, uint8_t* out,
                                   size_t stride, rows_t* rows) noexcept nogil:
    return strip_each(step, at, offset, count, out, stride, rows, strip_timestamp2)


cdef inline bint column_number(const step_t* step, const uint8_t** at, uint32_t offset, int count, uint8_t* out,
                               size_t stride, rows_t* rows) noexcept nogil:
    return strip_each(step, at, offset, count, out, stride, rows, strip_number)


cdef inline bint column_other(const step_t* step, const uint8_t** at, uint32_t offset, int count, uint8_t* out,
                              size_t stride, rows_t* rows) noexcept nogil:
    return strip_each(step, at, offset, count, out, stride, rows, step.strip)


cdef inline strip_column_t column_function(strip_t strip) noexcept nogil:
    if strip == strip_copy1:
        return column_copy1
    if strip == strip_copy2:
        return column_copy2
    if strip == strip_copy4:
        return column_copy4
    if strip == strip_copy8:
        return column_copy8
    if strip == strip_decimal64:
        return column_decimal64
    if strip == strip_decimal128:
        return column_decimal128
    if strip == strip_date:
        return column_date
    if strip == strip_datetime2:
        return column_datetime2
    if strip == strip_timestamp2:
        return column_timestamp2
    if strip == strip_number:
        return column_number
    return column_other


cdef inline void note_dates(const step_t* step, const uint8_t** at, uint32_t offset, uint8_t* out, sink_t* sink,
                            rows_t* rows) noexcept nogil:
    # Invalid dates were noted without record numbers: decode once more, with each record's number
    cdef batch_t* batch = rows.batch
    cdef const tile_t* tile = &sink.tile
    cdef uint32_t count = batch.count
    cdef int i
    for i in range(tile.count):
        if <int64_t> load_u64(out) == INT64_MIN:
            batch.count = <uint32_t> (tile.first + i)
            step.strip(step, at[i] + offset, out, 0, rows)
        out += 8
    batch.count = count


cdef inline void drop_times(column_t* c, tile_t* tile) noexcept nogil:
    # NaT becomes null
    cdef int64_t* out = <int64_t*> c.slots + tile.first
    cdef int i
    for i in range(tile.count):
        if out[i] == INT64_MIN:
            out[i] = 0
            mark_null(tile, i)


cdef inline bint gathered(sink_t* sink, column_t* c, const uint8_t* values, size_t stride) noexcept nogil:
    # Converts values that are not stored as they are decoded. False: a value is not valid, or no memory
    sink.tile.records = values - c.field
    sink.tile.stride = <ptrdiff_t> stride
    return gather(c, &sink.tile) == GATHER_OK


cdef inline bint take_texts(column_t* c, tile_t* tile, const uint8_t** at, uint32_t offset,
                            const step_t* step) noexcept nogil:
    # Copies located text, or makes views of it, and checks it
    cdef size_t begin = c.data_len
    if is_view(c):
        return view_values(c, tile, 0, at, offset, step.width) == GATHER_OK
    return copy_values(c, tile, at, offset, step.width) == GATHER_OK and (
        c.layout != LAYOUT_UTF8 or check_utf8(c, tile, begin) == GATHER_OK)


cdef inline bint take_column(const columnar_t* plan, sink_t* sink, int k, rows_t* rows) noexcept nogil:
    # Takes the tile's values of one column. False: one is not valid, or no memory.
    cdef const target_t* target = &plan.targets[k]
    cdef const step_t* step = &target.step
    cdef column_t* c = &sink.made.items[k]
    cdef tile_t* tile = &sink.tile
    cdef const uint8_t** at = sink.places + LANE * <size_t> target.segment
    cdef uint32_t offset = target.offset
    cdef size_t dates = rows.batch.invalid_dates.length
    cdef uint64_t limit = rows.batch.limit
    cdef bint direct = is_direct(c)
    cdef uint8_t* out = c.slots + tile.first * c.width if direct else sink.values
    tile.has_nulls = False
    tile.nulls = sink.no_nulls
    if is_text(c):
        return take_texts(c, tile, at, offset, step)
    if not target.strip(step, at, offset, tile.count, out, step.out_width, rows):
        return False
    if unlikely(rows.batch.invalid_dates.length != dates):
        rows.batch.invalid_dates.length = dates
        rows.batch.limit = limit
        note_dates(step, at, offset, out, sink, rows)
        if direct:
            drop_times(c, tile)
    return (direct or gathered(sink, c, sink.values, step.out_width)) and (
        not tile.has_nulls or keep_nulls(sink, c))


cdef inline bint finish_column(const columnar_t* plan, sink_t* sink, int k, bint dates) noexcept nogil:
    # The same for a tile whose rows were decoded one by one. dates: some dates are invalid
    cdef const target_t* target = &plan.targets[k]
    cdef const wire_column_t* column = &plan.columns[target.step.column]
    cdef column_t* c = &sink.made.items[k]
    cdef tile_t* tile = &sink.tile
    tile.nulls = sink.nulls + ROW_BYTES * <size_t> column.step.column
    tile.has_nulls = sink.null_rows and load_u64(tile.nulls) | load_u64(tile.nulls + 8) != 0
    if is_text(c):
        if not take_texts(c, tile, sink.places + LANE * <size_t> target.segment, 0, &target.step):
            return False
    elif is_direct(c):
        if dates and c.layout == LAYOUT_MICROS:
            drop_times(c, tile)
    elif not gathered(sink, c, (<aims_t*> sink.aims).lanes + column.lane, column.step.out_width):
        return False
    return not tile.has_nulls or keep_nulls(sink, c)


cdef inline bint take_tile(columnar_t* plan, sink_t* sink, rows_t* rows) noexcept nogil:
    # Takes all located values. False: not possible, and the columns are useless.
    cdef int k
    cdef tile_t* tile = &sink.tile
    cdef bint dates = rows.batch.invalid_dates.length != sink.dates
    if sink.pending == 0:
        return True
    if not sink.by_row and not make_room(sink, sink.pending):
        return False
    tile.first = sink.made.rows
    tile.rows = sink.capacity
    tile.count = sink.pending
    if sink.by_row and sink.null_rows:
        spread_nulls(sink, plan.null_len)
    for k in range(plan.count):
        if not (finish_column(plan, sink, k, dates) if sink.by_row else take_column(plan, sink, k, rows)):
            return False
    sink.made.rows += sink.pending
    sink.pending = 0
    if not sink.null_rows:
        sink.by_row = False
    sink.null_rows = 0
    return True


cdef inline bint begin_rows(const columnar_t* plan, sink_t* sink, const rows_t* rows) noexcept nogil:
    # Begins a tile whose rows are decoded one by one. False: no memory
    if not has_aims(plan, sink) or not make_room(sink, ROWS):
        return False
    sink.tile.first = sink.made.rows
    sink.tile.rows = sink.capacity
    take_aim(plan, sink)
    sink.by_row = True
    sink.dates = rows.batch.invalid_dates.length
    return True


cdef inline rows_t rows_for_columns(batch_t* batch, const uint8_t* buffer, uint64_t length) noexcept nogil:
    # The argument of the steps' functions; every length has been checked already
    cdef rows_t rows
    memset(&rows, 0, sizeof(rows))
    rows.buffer = buffer
    rows.batch = batch
    rows.budget = INT64_MAX
    rows.exact = True
    batch.sink.tile.buffer = buffer
    batch.sink.tile.base = buffer + batch.sink.made.begin
    batch.sink.tile.buffer_len = length
    return rows


cdef inline bint are_valid(const columnar_t* plan, sink_t* sink, int count, rows_t* rows) noexcept nogil:
    # Whether the last rows can be decoded. Later it would be too late to report: the walk has left their event by then.
    cdef const target_t* target
    cdef const uint8_t** at
    cdef uint8_t[WIDEST] unused
    cdef int i
    cdef int k
    for k in range(plan.count):
        target = &plan.targets[k]
        if WIRE_DECIMAL64 <= target.step.code <= WIRE_DECIMAL256:
            at = sink.places + LANE * <size_t> target.segment
            for i in range(max(sink.pending - count, 0), sink.pending):
                if target.step.strip(&target.step, at[i] + target.offset, unused, 0, rows) == NULL:
                    return False
    return True


cdef inline const uint8_t* take_row(columnar_t* plan, const image_set_t* images, sink_t* sink, const uint8_t* pos,
                                    const uint8_t* end, bint null, rows_t* rows) noexcept nogil:
    # Decodes a row; returns where the next image begins. NULL: the row is not valid, or cannot become columns
    cdef uint32_t count = rows.batch.count
    if sink.pending == 0 and not begin_rows(plan, sink, rows):
        return NULL
    sink.nulls_at[sink.pending] = pos
    sink.null_rows += null
    rows.batch.count = <uint32_t> sink.made.rows + <uint32_t> sink.pending      # for invalid dates
    pos = strip_columns(plan, images, sink, pos, end, rows)
    rows.batch.count = count
    return pos


cdef inline int64_t take_images(columnar_t* plan, const image_set_t* images, sink_t* sink, const uint8_t* pos,
                                const uint8_t* end, uint32_t record_len, rows_t* rows) noexcept nogil:
    # Takes an event's row images; returns how many there are. -1: one is not valid or cannot become columns, or they
    # would be more than the batch's limit allows as records of record_len bytes, in which form all may be asked for
    cdef int64_t count = 0
    cdef int many
    cdef const uint8_t* ahead = pos
    cdef bint null
    while pos != end:
        if sink.pending >= ROWS and (
                <uint64_t> count * record_len > rows.batch.limit or not take_tile(plan, sink, rows)):
            return -1
        if end - pos < <ptrdiff_t> plan.null_len:
            return -1
        if plan.gap_count == 0 and not sink.by_row:
            many = locate_fixed(plan, images, sink, pos, end)
            count += many
            pos += many * <ptrdiff_t> (plan.null_len + plan.last_gap)
            if many:
                continue
        null = any_null(images, pos)
        if null and not sink.by_row:
            if not take_tile(plan, sink, rows):
                return -1
            sink.by_row = True
        if sink.by_row:
            pos = take_row(plan, images, sink, pos, end, null, rows)
        else:
            pos = locate_segments(plan, sink.places + sink.pending, pos + plan.null_len, end)
        if pos == NULL:
            return -1
        sink.pending += 1
        count += 1
        while ahead < pos + AHEAD:
            prefetch(ahead)
            ahead += 64
    if plan.fallible and not sink.by_row and (
            not take_tile(plan, sink, rows) if sink.pending >= FEW else not are_valid(plan, sink, <int> count, rows)):
        return -1
    return count if <uint64_t> count * record_len <= rows.batch.limit else -1


# ---------------------------------------------------------------- the plan

cdef inline bint is_decoded(const wire_op_t* op) noexcept nogil:
    return op.code != WIRE_SKIP and op.code != WIRE_SKIP_VALUE and op.code != WIRE_NOTHING


cdef inline columnar_t* columnar_of(const plan_t* plan, const column_t* layout, int count, int changes) noexcept nogil:
    # changes: the number of columns about the changes, after those of the table. NULL: no memory, a column that cannot
    # be made from the wire, or a decoded column that the layout leaves out. Nobody would look at the values of such a
    # column now: its invalid dates would be lost, and its damage found only when the records are asked for, too late
    # to skip the event.
    cdef columnar_t* made = <columnar_t*> calloc(1, sizeof(columnar_t))
    cdef size_t n = plan.column_count
    cdef uint32_t offset = 0
    cdef const wire_op_t* op
    cdef int k
    cdef uint32_t i
    if made == NULL:
        return NULL
    made.layout = layout
    made.count = count
    made.changes = changes
    made.column_count = plan.column_count
    made.null_len = plan.bitmap_len
    made.targets = <target_t*> malloc((<size_t> count + 1) * sizeof(target_t))
    made.columns = <wire_column_t*> malloc((n + 1) * sizeof(wire_column_t))
    made.gaps = <gap_t*> malloc((n + 1) * sizeof(gap_t))
    if made.targets == NULL or made.columns == NULL or made.gaps == NULL:
        free_columnar(made)
        return NULL
    for i in range(plan.column_count):
        made.columns[i].target = -1
    for k in range(count):
        i = 8 * layout[k].bitmap_byte + layout[k].bit
        if (layout[k].missing or not layout[k].mask or i >= plan.column_count or made.columns[i].target >= 0
                or layout[k].layout == LAYOUT_OBJECT or layout[k].layout == LAYOUT_NULL
                or plan.ops[i].out_width != layout[k].stored or plan.ops[i].out != layout[k].field
                or layout[k].stored > WIDEST):
            free_columnar(made)
            return NULL
        made.columns[i].target = k
    for i in range(plan.column_count):
        op = &plan.ops[i]
        if made.columns[i].target < 0 and is_decoded(op):
            free_columnar(made)
            return NULL
        made.columns[i].step = step_of(op)
        made.columns[i].has_length = WIRE_SPAN1 <= op.code <= WIRE_SPAN or op.code == WIRE_SKIP_VALUE
        made.fallible = made.fallible or WIRE_DECIMAL64 <= op.code <= WIRE_DECIMAL256
        k = made.columns[i].target
        if k >= 0:
            made.columns[i].lane = <uint32_t> made.lanes_len
            if not is_direct(&layout[k]) and not is_text(&layout[k]):
                made.lanes_len += ROWS * <size_t> op.out_width
            made.targets[k].step = made.columns[i].step
            made.targets[k].strip = column_function(made.targets[k].step.strip)
            made.targets[k].segment = made.gap_count
            made.targets[k].offset = offset
        if made.columns[i].has_length:
            made.gaps[made.gap_count].gap = offset
            made.gaps[made.gap_count].width = op.width
            made.gap_count += 1
            offset = 0
        else:
            offset += op.width
    made.last_gap = offset
    return made
