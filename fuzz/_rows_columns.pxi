# Rows into columns at once, and what is promised of them: the same columns come out of the batch's records.
# Included by _rows_target.pyx.

from libc.stdlib cimport calloc
from libc.string cimport memcmp

from arrow.arena cimport arena_t, drop_arena, new_arena
from arrow.gather cimport gather
from arrow.tile cimport (
    GATHER_OK, LABEL, LAYOUT_BYTES, LAYOUT_COMMIT_TIME, LAYOUT_COPY, LAYOUT_DAYS, LAYOUT_DECIMAL64,
    LAYOUT_DECIMAL_TEXT, LAYOUT_ENUM, LAYOUT_EWKB, LAYOUT_FIXED_BYTES, LAYOUT_GEOMETRY, LAYOUT_JSON, LAYOUT_LABEL,
    LAYOUT_MICROS, LAYOUT_SECONDS, LAYOUT_SET, LAYOUT_TABLE, LAYOUT_UTF16_BE, LAYOUT_UTF16_LE, LAYOUT_UTF32,
    LAYOUT_UTF8, LAYOUT_VECTOR, NULL_BYTES, TILE as TILE_ROWS, allocate_slots, column_t, gather_nulls, layout_t,
    store_validity, tile_t,
)
from batch.runs cimport run_t
from decode.columns_or_records cimport into_records
from memory.memory cimport reserve

cdef enum:
    CHANGES = 6                             # columns about the changes, behind those of the table

cdef layout_t[11] OF_SPANS
OF_SPANS = [
    LAYOUT_BYTES, LAYOUT_UTF8, LAYOUT_FIXED_BYTES, LAYOUT_GEOMETRY, LAYOUT_EWKB, LAYOUT_VECTOR, LAYOUT_TABLE,
    LAYOUT_UTF16_BE, LAYOUT_UTF16_LE, LAYOUT_UTF32, LAYOUT_JSON,
]
include "_code_tables.pxi"
cdef uint8_t[256 * LABEL] LABELS            # of 0 to 31 bytes
for _i in range(256):
    for _n in range(LABEL):
        LABELS[_i * LABEL + _n] = _i % LABEL if _n == LABEL - 1 else 97 + _i % 26
cdef memory_t lent_layouts                  # column_t*: they outlive the plans


cdef void release_layouts() noexcept nogil:
    cdef size_t i
    for i in range(lent_layouts.length // sizeof(column_t*)):
        free((<column_t**> lent_layouts.data)[i])
    lent_layouts.length = 0


cdef void layout_of(const wire_op_t* op, uint8_t choice, column_t* c) noexcept nogil:
    # As a Layout would say; `choice` is any byte.
    c.field = op.out
    c.stored = op.out_width
    c.bitmap_byte = op.column // 8
    c.bit = op.column % 8
    c.mask = <uint8_t> (1 << c.bit)
    c.layout = LAYOUT_COPY
    c.width = op.out_width
    c.codes = CODES
    c.code_count = 1 + choice % 200
    c.labels = LABELS
    if op.code >= WIRE_SPAN1:
        c.layout = OF_SPANS[choice % 11]
        c.width = 4 if c.layout == LAYOUT_GEOMETRY else 0
        c.pad = choice & 31 if c.layout == LAYOUT_BYTES and choice & 64 else 0
        c.table = WORDS
        c.keeps_ascii = choice >> 7
        if c.layout == LAYOUT_FIXED_BYTES:
            c.width = 4 + (choice & 12)
            c.pad = c.width if choice & 1 else 0
    elif WIRE_DATE <= op.code <= WIRE_MARIA_TIMESTAMP:
        c.layout = LAYOUT_DAYS if op.code == WIRE_DATE else LAYOUT_MICROS
        c.width = 4 if op.code == WIRE_DATE else 8
    elif op.out_width == 8 and choice & 3:
        c.layout = LAYOUT_DECIMAL64 if choice & 1 else LAYOUT_SET
        c.width = 16 if choice & 1 else 0
    elif op.out_width == 2 and choice & 3:
        c.layout = LAYOUT_ENUM
        c.width = 2 if choice & 1 else 4
    elif op.out_width == 4 and choice & 1:
        c.layout = LAYOUT_SECONDS
        c.width = 8
    elif op.out_width == 1 and choice & 1:
        c.layout = LAYOUT_LABEL
        c.width = 0
    elif op.out_width == 32 and choice & 1:
        c.layout = LAYOUT_DECIMAL_TEXT
        c.width = 0
        c.scale = choice % 41


cdef void add_change_columns(column_t* c) noexcept nogil:
    cdef image_t image
    cdef uint32_t[CHANGES] field
    cdef layout_t[CHANGES] layout
    cdef int k
    field[0] = <uint32_t> (<uint8_t*> &image.op - <uint8_t*> &image)
    field[1] = <uint32_t> (<uint8_t*> &image.timestamp - <uint8_t*> &image)
    field[2] = <uint32_t> (<uint8_t*> &image.transaction - <uint8_t*> &image)
    field[3] = <uint32_t> (<uint8_t*> &image.position - <uint8_t*> &image)
    field[4] = <uint32_t> (<uint8_t*> &image.row - <uint8_t*> &image)
    field[5] = <uint32_t> (<uint8_t*> &image.server_id - <uint8_t*> &image)
    layout[0] = LAYOUT_LABEL
    layout[1] = LAYOUT_SECONDS
    layout[2] = LAYOUT_COMMIT_TIME
    layout[3] = layout[4] = layout[5] = LAYOUT_COPY
    for k in range(CHANGES):
        c[k].layout = layout[k]
        c[k].field = field[k]
        c[k].stored = 1 if k == 0 else 8 if k == 3 else 4
        c[k].width = 0 if k == 0 else 8 if k < 4 else 4
        c[k].labels = LABELS
        c[k].code_count = 5
    c[2].transaction_len = sizeof(transaction_t)
    c[2].commit_time = TRANSACTION_DTYPE_COMMIT
    c[2].begin_time = TRANSACTION_DTYPE_BEGIN


cdef uint32_t TRANSACTION_DTYPE_COMMIT = TRANSACTION_DTYPE.fields["commit_time"][1]
cdef uint32_t TRANSACTION_DTYPE_BEGIN = TRANSACTION_DTYPE.fields["timestamp"][1]


cdef int decode_into_columns(plan_t* plan, const uint8_t* choices) except -1:
    # choices: of each column the third byte in the table map
    cdef column_t* made = <column_t*> calloc(plan.column_count + CHANGES, sizeof(column_t))
    cdef uint32_t i
    cdef int count = 0
    if made == NULL or append(&lent_layouts, &made, sizeof(made)) != DECODE_OK:
        raise MemoryError
    for i in range(plan.column_count):
        if plan.ops[i].out_width:
            layout_of(&plan.ops[i], choices[3 * i], &made[count])
            count += 1
    add_change_columns(made + count)
    plan.columnar = columnar_of(plan, made, count, CHANGES)
    return 0


# ---------------------------------------------------------------- what comes out

cdef void check_columns(Decoder decoder, batch_t* batch) noexcept nogil:
    # That each column is what the records of the same rows become
    cdef plan_t* plan = decoder.loop.plans[decoder.loop.tables.definitions[batch.definition].plan]
    cdef const column_t* columns = batch.sink.made.items
    cdef int count = batch.sink.made.count
    cdef batch_t other
    cdef arena_t* arena
    cdef column_t* c
    cdef int k
    check(batch.sink.made.rows == batch.count and batch.sink.pending == 0 and not batch.copies)
    memset(&other, 0, sizeof(other))
    other.definition = batch.definition
    check(into_records(&decoder.loop, plan, &other, <const run_t*> batch.runs.data,
                       batch.runs.length // sizeof(run_t), decoder.loop.windows[0].data) == DECODE_OK)
    check(other.count == batch.count)
    check_records(decoder, &other)
    check_same_dates(batch, &other)
    arena = new_arena(NULL, <size_t> -1)
    c = <column_t*> malloc((<size_t> count + 1) * sizeof(column_t))
    check(arena != NULL and c != NULL)
    for k in range(count):
        c[k] = plan.columnar.layout[k]
        c[k].transactions = columns[k].transactions
        if c[k].layout == LAYOUT_COMMIT_TIME:
            c[k].code_count = columns[k].code_count
        check(allocate_slots(arena, &c[k], other.count))
        gather_column(decoder, plan, &other, arena, &c[k])
        check_same(&columns[k], &c[k], other.count)
    drop_arena(arena)
    free(c)
    release_batch(&other)


cdef void gather_column(Decoder decoder, const plan_t* plan, const batch_t* batch, arena_t* arena,
                        column_t* c) noexcept nogil:
    cdef uint8_t[8 * NULL_BYTES] nulls
    cdef uint8_t[NULL_BYTES] none
    cdef tile_t tile
    cdef uint32_t at = plan.image_len - 2 * plan.bitmap_len + c.bitmap_byte
    cdef int64_t first = 0
    memset(&tile.text, 0, sizeof(tile.text))
    tile.arena = arena
    tile.wide = decoder.loop.wide
    tile.rows = batch.count
    tile.buffer = decoder.loop.windows[0].data
    tile.buffer_len = <uint64_t> decoder.loop.windows[0].view.len
    tile.stride = plan.record_len
    while first < tile.rows:
        tile.first = first
        tile.count = <int> min(<int64_t> TILE_ROWS, tile.rows - first)
        tile.records = batch.records.data + <size_t> first * plan.record_len
        tile.nulls = none
        tile.has_nulls = False
        if c.mask:
            gather_nulls(&tile, at, at + plan.bitmap_len, nulls)
            tile.nulls = nulls + NULL_BYTES * <size_t> c.bit
            tile.has_nulls = True
        check(gather(c, &tile) == GATHER_OK)
        check(not tile.has_nulls or store_validity(c, &tile))
        first += tile.count
    release(&tile.text)


cdef bint is_there(const column_t* c, int64_t i) noexcept nogil:
    return c.validity == NULL or c.validity[i >> 3] >> (i & 7) & 1


cdef void check_same(const column_t* a, const column_t* b, int64_t rows) noexcept nogil:
    cdef size_t unit = 4 if a.layout == LAYOUT_VECTOR else 1
    cdef size_t length
    cdef int64_t i
    check(a.layout == b.layout and a.null_count == b.null_count)
    for i in range(rows):
        check(is_there(a, i) == is_there(b, i))
        if a.offsets != NULL:
            check(0 <= a.offsets[i] <= a.offsets[i + 1] and unit * <size_t> a.offsets[i + 1] <= a.data_len)
        if not is_there(a, i):
            continue
        if a.slots != NULL:
            check(memcmp(a.slots + <size_t> i * a.width, b.slots + <size_t> i * a.width, a.width) == 0)
        if a.offsets != NULL:
            length = unit * <size_t> (a.offsets[i + 1] - a.offsets[i])
            check(length == unit * <size_t> (b.offsets[i + 1] - b.offsets[i]))
            check(length == 0 or memcmp(
                a.data + unit * <size_t> a.offsets[i], b.data + unit * <size_t> b.offsets[i], length) == 0)


cdef void check_same_dates(const batch_t* a, const batch_t* b) noexcept nogil:
    # The same ones, whatever their order
    cdef const invalid_date_t* mine = <const invalid_date_t*> a.invalid_dates.data
    cdef const invalid_date_t* other = <const invalid_date_t*> b.invalid_dates.data
    cdef size_t count = a.invalid_dates.length // sizeof(invalid_date_t)
    cdef size_t i, j
    check(a.invalid_dates.length == b.invalid_dates.length)
    for i in range(min(count, <size_t> 200)):
        j = 0
        while j < count and memcmp(&mine[i], &other[j], sizeof(invalid_date_t)):
            j += 1
        check(j < count)
