# Rows into columns, without records in between. Two passes over a tile of rows that stays in the nearest cache: where
# the values are, row by row, for which all lengths are read and compared with the event's; then the values, column
# by column, each into its Arrow buffer.
#
# Between values of variable length a row's columns stand at fixed distances: only these segments are located. A tile
# with NULLs has every value located by itself.
#
# It takes whole images of a mapped file. What it cannot take (`False`) goes into records, and so does what the batch
# has before: see columns_or_records.pxd.

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport calloc, malloc
from libc.string cimport memset

from arrow.gather cimport gather
from arrow.gather_spans cimport check_utf8, copy_values
from arrow.sink cimport LANE, PLACES, ROW_BYTES, ROWS, WIDEST, keep_nulls, make_room, sink_t, spread_nulls
from arrow.tile cimport (
    GATHER_OK, LAYOUT_BYTES, LAYOUT_COPY, LAYOUT_MICROS, LAYOUT_NULL, LAYOUT_OBJECT, LAYOUT_UTF8, column_t,
    gather_status_t, mark_null, tile_t,
)
from batch.gathered cimport batch_t
from decode.image_set cimport step_of
from decode.plan cimport (
    WIRE_DECIMAL256, WIRE_DECIMAL64, WIRE_SKIP_VALUE, WIRE_SPAN, WIRE_SPAN1, columnar_t, free_columnar, gap_t,
    image_set_t, plan_t, rows_t, step_t, strip_column_t, strip_t, target_t, wire_column_t, wire_op_t,
)
from decode.row_image cimport any_null, bit_at
from decode.strips cimport (
    strip_copy1, strip_copy2, strip_copy4, strip_copy8, strip_date, strip_datetime2, strip_decimal128,
    strip_decimal64, strip_number, strip_timestamp2,
)
from wire.cursor cimport load_le, load_u32, load_u64, prefetch, unlikely

cdef enum:
    AHEAD = 1024                    # bytes of the wire that are asked for before they are looked at
    MANY_COLUMNS = 32               # from which on many NULLs take longer than the way through records
    FEW = 16                        # rows of an event that wait for those of others


# ---------------------------------------------------------------- where the values are

cdef inline const uint8_t* locate_segments(const columnar_t* plan, const uint8_t** places, const uint8_t* pos,
                                           const uint8_t* end) noexcept nogil:
    # Of a row image without NULLs, from behind its bitmap; the next one's place. NULL: it runs past the end.
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


cdef inline int locate_fixed(const columnar_t* plan, const image_set_t* images, sink_t* sink, const uint8_t* pos,
                             const uint8_t* end) noexcept nogil:
    # How many row images without NULLs follow each other, of a table without lengths
    cdef const uint8_t** places = sink.places + sink.pending
    cdef ptrdiff_t length = plan.null_len + plan.last_gap
    cdef int most = <int> min(<ptrdiff_t> (sink.most - sink.pending), (end - pos) // length)
    cdef int count = 0
    while count < most and not any_null(images, pos):
        places[count] = pos + plan.null_len
        pos += length
        count += 1
    sink.pending += count
    return count


cdef inline const uint8_t* locate_columns(const columnar_t* plan, const uint8_t** places, const uint8_t* nulls,
                                          const uint8_t* end) noexcept nogil:
    # Of a row image, from its bitmap
    cdef const wire_column_t* column = plan.columns
    cdef const uint8_t* pos = nulls + plan.null_len
    cdef uint64_t bits = 0
    cdef uint64_t keep
    cdef uint32_t i
    for i in range(plan.column_count):
        if i & 7 == 0:
            bits = nulls[i >> 3]
        keep = (bits & 1) - 1
        bits >>= 1
        if column.target >= 0:
            places[column.target * LANE] = pos
        if column.length_mask:
            if end - pos < <ptrdiff_t> (column.width & keep):
                return NULL
            pos += load_u32(pos) & column.length_mask & keep
        pos += column.width & keep
        column += 1
    return pos if pos <= end else NULL


# ---------------------------------------------------------------- the values

cdef inline bint strip_each(const step_t* step, const uint8_t** at, uint32_t offset, int count, uint8_t* out,
                            size_t stride, const uint8_t* nulls, rows_t* rows, strip_t strip) noexcept nogil:
    cdef step_t own = step[0]       # which no store can change, as the compiler sees it
    cdef int i
    own.count = 1
    for i in range(count):
        if strip(&own, at[i] + offset, out, nulls[i >> 3] >> (i & 7) & 1 if nulls != NULL else 0, rows) == NULL:
            return False
        out += stride
    return True


cdef inline bint strip_either(const step_t* step, const uint8_t** at, uint32_t offset, int count, uint8_t* out,
                              size_t stride, const uint8_t* nulls, rows_t* rows, strip_t strip) noexcept nogil:
    if nulls == NULL:
        return strip_each(step, at, offset, count, out, stride, NULL, rows, strip)
    return strip_each(step, at, offset, count, out, stride, nulls, rows, strip)


# One function for each, called through the target: so that what is inlined into it is not too much for the compiler.

cdef inline bint column_copy1(const step_t* step, const uint8_t** at, uint32_t offset, int count, uint8_t* out,
                              size_t stride, const uint8_t* nulls, rows_t* rows) noexcept nogil:
    return strip_either(step, at, offset, count, out, stride, nulls, rows, strip_copy1)


cdef inline bint column_copy2(const step_t* step, const uint8_t** at, uint32_t offset, int count, uint8_t* out,
                              size_t stride, const uint8_t* nulls, rows_t* rows) noexcept nogil:
    return strip_either(step, at, offset, count, out, stride, nulls, rows, strip_copy2)


cdef inline bint column_copy4(const step_t* step, const uint8_t** at, uint32_t offset, int count, uint8_t* out,
                              size_t stride, const uint8_t* nulls, rows_t* rows) noexcept nogil:
    return strip_either(step, at, offset, count, out, stride, nulls, rows, strip_copy4)


cdef inline bint column_copy8(const step_t* step, const uint8_t** at, uint32_t offset, int count, uint8_t* out,
                              size_t stride, const uint8_t* nulls, rows_t* rows) noexcept nogil:
    return strip_either(step, at, offset, count, out, stride, nulls, rows, strip_copy8)


cdef inline bint column_decimal64(const step_t* step, const uint8_t** at, uint32_t offset, int count, uint8_t* out,
                                  size_t stride, const uint8_t* nulls, rows_t* rows) noexcept nogil:
    return strip_either(step, at, offset, count, out, stride, nulls, rows, strip_decimal64)


cdef inline bint column_decimal128(const step_t* step, const uint8_t** at, uint32_t offset, int count, uint8_t* out,
                                   size_t stride, const uint8_t* nulls, rows_t* rows) noexcept nogil:
    return strip_either(step, at, offset, count, out, stride, nulls, rows, strip_decimal128)


cdef inline bint column_date(const step_t* step, const uint8_t** at, uint32_t offset, int count, uint8_t* out,
                             size_t stride, const uint8_t* nulls, rows_t* rows) noexcept nogil:
    return strip_either(step, at, offset, count, out, stride, nulls, rows, strip_date)


cdef inline bint column_datetime2(const step_t* step, const uint8_t** at, uint32_t offset, int count, uint8_t* out,
                                  size_t stride, const uint8_t* nulls, rows_t* rows) noexcept nogil:
    return strip_either(step, at, offset, count, out, stride, nulls, rows, strip_datetime2)


cdef inline bint column_timestamp2(const step_t* step, const uint8_t** at, uint32_t offset, int count, uint8_t* out,
                                   size_t stride, const uint8_t* nulls, rows_t* rows) noexcept nogil:
    return strip_either(step, at, offset, count, out, stride, nulls, rows, strip_timestamp2)


cdef inline bint column_number(const step_t* step, const uint8_t** at, uint32_t offset, int count, uint8_t* out,
                               size_t stride, const uint8_t* nulls, rows_t* rows) noexcept nogil:
    return strip_either(step, at, offset, count, out, stride, nulls, rows, strip_number)


cdef inline bint column_other(const step_t* step, const uint8_t** at, uint32_t offset, int count, uint8_t* out,
                              size_t stride, const uint8_t* nulls, rows_t* rows) noexcept nogil:
    return strip_either(step, at, offset, count, out, stride, nulls, rows, step.strip)


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


cdef inline void note_dates(const step_t* step, const uint8_t** at, uint32_t offset, size_t dates, sink_t* sink,
                            rows_t* rows) noexcept nogil:
    # Dates that are none were noted of no record: once more, with each record's number
    cdef batch_t* batch = rows.batch
    cdef const tile_t* tile = &sink.tile
    cdef uint32_t count = batch.count
    cdef uint8_t[16] unused
    cdef int i
    batch.invalid_dates.length = dates
    for i in range(tile.count):
        batch.count = <uint32_t> (tile.first + i)
        step.strip(step, at[i] + offset, unused, tile.nulls[i >> 3] >> (i & 7) & 1 if tile.has_nulls else 0, rows)
    batch.count = count


cdef inline void drop_times(column_t* c, tile_t* tile) noexcept nogil:
    # What is not a time is null
    cdef int64_t* out = <int64_t*> c.slots + tile.first
    cdef int i
    for i in range(tile.count):
        if out[i] == INT64_MIN:
            out[i] = 0
            mark_null(tile, i)


cdef inline bint take_column(const columnar_t* plan, sink_t* sink, int k, rows_t* rows) noexcept nogil:
    # The tile's values of one column. False: one is not valid, or no memory.
    cdef const target_t* target = &plan.targets[k]
    cdef const step_t* step = &target.step
    cdef column_t* c = &sink.made.items[k]
    cdef tile_t* tile = &sink.tile
    cdef const uint8_t** at = sink.places + LANE * <size_t> (<uint32_t> k if sink.by_column else target.segment)
    cdef uint32_t offset = 0 if sink.by_column else target.offset
    cdef gather_status_t status = GATHER_OK
    cdef size_t begin = c.data_len
    cdef size_t dates = rows.batch.invalid_dates.length
    cdef bint direct = c.layout == LAYOUT_COPY or c.layout == LAYOUT_MICROS
    tile.has_nulls = False
    tile.nulls = sink.no_nulls
    if sink.by_column:
        tile.nulls = sink.nulls + ROW_BYTES * <size_t> step.column
        tile.has_nulls = load_u64(tile.nulls) | load_u64(tile.nulls + 8) != 0
    if (c.layout == LAYOUT_UTF8 or c.layout == LAYOUT_BYTES) and not c.pad:
        status = copy_values(c, tile, at, offset, step.width)
        if status == GATHER_OK and c.layout == LAYOUT_UTF8:
            status = check_utf8(c, tile, begin)
    else:
        if not target.strip(
                step, at, offset, tile.count, c.slots + tile.first * c.width if direct else sink.values,
                c.width if direct else step.out_width, tile.nulls if tile.has_nulls else NULL, rows):
            return False
        if unlikely(rows.batch.invalid_dates.length != dates):
            note_dates(step, at, offset, dates, sink, rows)
            if direct:
                drop_times(c, tile)
        if not direct:
            tile.records = sink.values - c.field
            tile.stride = step.out_width
            status = gather(c, tile)
    if status != GATHER_OK:
        return False
    return not tile.has_nulls or keep_nulls(sink, c)


cdef inline bint take_tile(columnar_t* plan, sink_t* sink, rows_t* rows) noexcept nogil:
    # All that is located. False: not possible, and the columns are good for nothing.
    cdef int k
    cdef tile_t* tile = &sink.tile
    if sink.pending == 0:
        return True
    if not make_room(sink, sink.pending):
        return False
    tile.first = sink.made.rows
    tile.rows = sink.capacity
    tile.count = sink.pending
    if sink.by_column:
        spread_nulls(sink, plan.null_len)
    for k in range(plan.count):
        if not take_column(plan, sink, k, rows):
            return False
    if plan.column_count > MANY_COLUMNS and 2 * sink.null_rows > sink.pending:
        plan.unwise = True
    sink.made.rows += sink.pending
    sink.pending = 0
    if sink.by_column and not sink.null_rows:
        sink.by_column = False
        sink.most = ROWS
    sink.null_rows = 0
    return True


cdef inline void locate_each(const columnar_t* plan, sink_t* sink) noexcept nogil:
    sink.by_column = True
    sink.most = <int> max(16, min(<uint32_t> ROWS, PLACES // (<uint32_t> plan.count + 1)))


cdef inline rows_t rows_for_columns(batch_t* batch, const uint8_t* buffer, uint64_t length) noexcept nogil:
    # What the functions of steps are given: every length is checked already
    cdef rows_t rows
    memset(&rows, 0, sizeof(rows))
    rows.buffer = buffer
    rows.batch = batch
    rows.budget = INT64_MAX
    rows.exact = True
    batch.sink.tile.buffer = buffer
    batch.sink.tile.buffer_len = length
    return rows


cdef inline bint are_valid(const columnar_t* plan, sink_t* sink, int count, rows_t* rows) noexcept nogil:
    # Whether the last rows can be decoded, which otherwise would be told when their event has long been left
    cdef const target_t* target
    cdef const uint8_t** at
    cdef uint8_t[WIDEST] unused
    cdef int i
    cdef int k
    for k in range(plan.count):
        target = &plan.targets[k]
        if WIRE_DECIMAL64 <= target.step.code <= WIRE_DECIMAL256:
            at = sink.places + LANE * <size_t> (<uint32_t> k if sink.by_column else target.segment)
            for i in range(max(sink.pending - count, 0), sink.pending):
                if target.step.strip(
                        &target.step, at[i] + (0 if sink.by_column else target.offset), unused,
                        bit_at(sink.nulls_at[i], target.step.column) if sink.by_column else 0, rows) == NULL:
                    return False
    return True


cdef inline int64_t take_images(columnar_t* plan, const image_set_t* images, sink_t* sink, const uint8_t* pos,
                                const uint8_t* end, rows_t* rows) noexcept nogil:
    # How many row images of an event there are; -1: it cannot be told, or not made columns of
    cdef int64_t count = 0
    cdef int many
    cdef const uint8_t* ahead = pos
    cdef bint null
    while pos != end:
        if sink.pending >= sink.most and not take_tile(plan, sink, rows):
            return -1
        if end - pos < <ptrdiff_t> plan.null_len:
            return -1
        if plan.gap_count == 0 and not sink.by_column:
            many = locate_fixed(plan, images, sink, pos, end)
            count += many
            pos += many * <ptrdiff_t> (plan.null_len + plan.last_gap)
            if many:
                continue
        null = any_null(images, pos)
        if null and not sink.by_column:
            if not take_tile(plan, sink, rows):
                return -1
            locate_each(plan, sink)
        sink.null_rows += null
        if sink.by_column:
            sink.nulls_at[sink.pending] = pos
            pos = locate_columns(plan, sink.places + sink.pending, pos, end)
        else:
            pos = locate_segments(plan, sink.places + sink.pending, pos + plan.null_len, end)
        if pos == NULL:
            return -1
        sink.pending += 1
        count += 1
        while ahead < pos + AHEAD:
            prefetch(ahead)
            ahead += 64
    if plan.fallible and (
            not take_tile(plan, sink, rows) if sink.pending >= FEW else not are_valid(plan, sink, <int> count, rows)):
        return -1
    return count


# ---------------------------------------------------------------- the plan

cdef inline columnar_t* columnar_of(const plan_t* plan, const column_t* layout, int count) noexcept nogil:
    # NULL: no memory, or a column that is not made of what is on the wire
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
        made.columns[i].width = op.width
        if WIRE_SPAN1 <= op.code <= WIRE_SPAN or op.code == WIRE_SKIP_VALUE:
            made.columns[i].length_mask = <uint32_t> ((<uint64_t> 1 << (8 * op.width)) - 1)
        else:
            made.columns[i].length_mask = 0
        made.fallible = made.fallible or WIRE_DECIMAL64 <= op.code <= WIRE_DECIMAL256
        k = made.columns[i].target
        if k >= 0:
            made.targets[k].step = step_of(op)
            made.targets[k].strip = column_function(made.targets[k].step.strip)
            made.targets[k].segment = made.gap_count
            made.targets[k].offset = offset
        if made.columns[i].length_mask:
            made.gaps[made.gap_count].gap = offset
            made.gaps[made.gap_count].width = op.width
            made.gap_count += 1
            offset = 0
        else:
            offset += op.width
    made.last_gap = offset
    return made
