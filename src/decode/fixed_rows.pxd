# Rows whose images all have the same length on the wire, and no NULL. They are decoded not row by row, but one column
# of many rows at a time, at fixed strides, so that nothing the rows share is looked up once per row.

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from batch.gathered cimport batch_t
from batch.records cimport OP_UPDATE_POSTIMAGE, image_t
from decode.plan cimport ROOM, image_set_t, plan_t, rows_t, step_t, strip_t
from decode.row_image cimport any_null, put_image
from decode.strips cimport (
    strip_copy1, strip_copy2, strip_copy4, strip_copy8, strip_date, strip_datetime2, strip_decimal64, strip_joined,
    strip_number, strip_old_time, strip_skip, strip_timestamp2,
)
from memory.memory cimport reserve
from types.temporal cimport NOT_A_TIME
from wire.codes cimport DECODE_OK
from wire.cursor cimport load_u64, unlikely

cdef enum:
    FIXED_ROWS = 128                # most rows at once, so that their records stay in the nearest cache
    FEW_ROWS = 8                    # fewer than this are not worth it
    FIXED_BITMAPS = 32              # most bytes of a bitmap


# The image part of a record, and room for what is copied in whole words
cdef packed struct image_room_t:
    image_t image
    uint8_t[2 * FIXED_BITMAPS + ROOM] bitmaps


# For one image of each row: where the rows and records begin, and how far apart they are.
cdef struct strides_t:
    const uint8_t* pos
    size_t wire_len
    uint8_t* record
    size_t record_len
    uint32_t count


cdef inline bint strip_rows(const step_t* step, const strides_t* at, size_t offset, rows_t* rows,
                            strip_t strip) noexcept nogil:
    cdef step_t own = step[0]       # a local copy: the compiler knows that no store into a record changes it
    cdef const uint8_t* pos = at.pos + offset
    cdef uint8_t* out = at.record + own.out
    cdef size_t wire_len = at.wire_len
    cdef size_t record_len = at.record_len
    cdef uint32_t _i
    for _i in range(at.count):
        if strip(&own, pos, out, 0, rows) == NULL:
            return False
        pos += wire_len
        out += record_len
    return True


cdef inline bint strip_step(const step_t* step, const strides_t* at, size_t offset, rows_t* rows) noexcept nogil:
    # Names each function, so that it is inlined
    if step.strip == strip_skip:
        return True
    if step.strip == strip_joined:
        return strip_rows(step, at, offset, rows, strip_joined)
    if step.strip == strip_copy1:
        return strip_rows(step, at, offset, rows, strip_copy1)
    if step.strip == strip_copy2:
        return strip_rows(step, at, offset, rows, strip_copy2)
    if step.strip == strip_copy4:
        return strip_rows(step, at, offset, rows, strip_copy4)
    if step.strip == strip_copy8:
        return strip_rows(step, at, offset, rows, strip_copy8)
    if step.strip == strip_decimal64:
        return strip_rows(step, at, offset, rows, strip_decimal64)
    if step.strip == strip_date:
        return strip_rows(step, at, offset, rows, strip_date)
    if step.strip == strip_datetime2:
        return strip_rows(step, at, offset, rows, strip_datetime2)
    if step.strip == strip_timestamp2:
        return strip_rows(step, at, offset, rows, strip_timestamp2)
    if step.strip == strip_number:
        return strip_rows(step, at, offset, rows, strip_number)
    return strip_rows(step, at, offset, rows, step.strip)


cdef inline bint strip_images(const image_set_t* images, const strides_t* at, rows_t* rows) noexcept nogil:
    # False: a value is not valid. The steps must run in order: a copy may spill over into the next field, or into the
    # next record's image part, which is written last.
    cdef const step_t* step = images.dense
    cdef const step_t* last = step + images.dense_count
    cdef size_t offset = images.null_len
    while step < last:
        if not strip_step(step, at, offset, rows):
            return False
        offset += step.width * <size_t> step.count
        step += 1
    return True


cdef inline void put_images(const plan_t* plan, const image_set_t* images, image_t image, uint8_t op,
                            uint32_t row, const strides_t* at) noexcept nogil:
    # The images are the same except for the row's number. The bytes of a record's fields are not touched.
    cdef image_room_t room
    cdef uint8_t* whole = <uint8_t*> &room
    cdef uint8_t[16] first
    cdef uint8_t[16] last
    cdef uint8_t* record = at.record
    cdef size_t length = plan.image_len
    cdef uint32_t number
    put_image(whole, image, op, row, plan, images)
    memcpy(first, whole, 16)
    memcpy(last, whole + length - 16, 16)
    for number in range(row, row + at.count):
        memcpy(record, first, 16)
        if length > 32:
            memcpy(record + 16, whole + 16, length - 32)
        memcpy(record + length - 16, last, 16)
        (<image_t*> record).row = number
        record += at.record_len


cdef inline bint is_time(const step_t* step) noexcept nogil:
    return (step.strip == strip_date or step.strip == strip_datetime2 or step.strip == strip_timestamp2
            or step.strip == strip_old_time)


cdef inline bint note_dates(const image_set_t* images, const strides_t* at, uint32_t number,
                            rows_t* rows) noexcept nogil:
    # Invalid dates are noted without their record when many rows are decoded at once: note this row's again.
    # False: no memory
    cdef const step_t* step = images.dense
    cdef const step_t* last = step + images.dense_count
    cdef const uint8_t* pos = at.pos + number * at.wire_len + images.null_len
    cdef uint8_t* record = at.record + number * at.record_len
    cdef const uint8_t* value
    cdef uint32_t k
    while step < last:
        if is_time(step):
            value = record + step.out
            for k in range(step.count):
                if <int64_t> load_u64(value + k * step.apart) == NOT_A_TIME:
                    if step.strip(step, pos, record + step.out, 0, rows) == NULL:
                        return False
                    break
        pos += step.width * <size_t> step.count
        step += 1
    return True


cdef inline bint note_all_dates(const image_set_t* images, const strides_t* before, const image_set_t* after,
                                const strides_t* behind, rows_t* rows) noexcept nogil:
    # Notes invalid dates in the order of the records. after: for an update's second image, else NULL
    cdef batch_t* batch = rows.batch
    cdef uint32_t count = batch.count
    cdef uint32_t i
    cdef bint good = True
    for i in range(before.count):
        good = good and note_dates(images, before, i, rows)
        batch.count += 1
        if after != NULL:
            good = good and note_dates(after, behind, i, rows)
            batch.count += 1
    batch.count = count
    return good


cdef inline uint32_t rows_without_nulls(const image_set_t* images, const image_set_t* after, const uint8_t* pos,
                                        size_t wire_len, uint32_t most) noexcept nogil:
    # How many of the next rows have no NULL; after: for an update's second image, else NULL
    cdef uint32_t n = 0
    while n < most and not any_null(images, pos):
        if after != NULL and any_null(after, pos + images.null_len + images.fixed_len):
            break
        pos += wire_len
        n += 1
    return n


cdef inline uint32_t decode_fixed_rows(const plan_t* plan, const image_set_t* images, const image_set_t* after,
                                       const image_t* image, uint32_t row, rows_t* rows) noexcept nogil:
    # Decodes the next rows together, and returns how many. A result below FEW_ROWS means that none were decoded, and
    # that this many have no NULL. after: for an update's second image, else NULL
    cdef batch_t* batch = rows.batch
    cdef uint32_t images_per_row = 1 if after == NULL else 2
    cdef size_t dates = batch.invalid_dates.length
    cdef uint64_t limit = batch.limit
    cdef size_t before_len = images.null_len + <size_t> images.fixed_len
    cdef size_t most
    cdef strides_t at
    cdef strides_t behind
    cdef bint good
    at.pos = rows.pos
    at.wire_len = before_len if after == NULL else before_len + after.null_len + after.fixed_len
    at.record_len = plan.record_len * <size_t> images_per_row
    most = <size_t> (rows.end - rows.pos) // at.wire_len
    if most > FIXED_ROWS:
        most = FIXED_ROWS
    if plan.bitmap_len > FIXED_BITMAPS or batch.records.length + most * at.record_len > batch.limit:
        return 0
    at.count = rows_without_nulls(images, after, at.pos, at.wire_len, <uint32_t> most)
    if at.count < FEW_ROWS:
        return at.count
    if reserve(&batch.records, at.count * at.record_len + ROOM) != DECODE_OK:
        return 0
    at.record = batch.records.data + batch.records.length
    behind = at
    behind.pos += before_len
    behind.record += plan.record_len
    good = strip_images(images, &at, rows) and (after == NULL or strip_images(after, &behind, rows))
    if unlikely(batch.invalid_dates.length != dates):
        batch.invalid_dates.length = dates
        batch.limit = limit
        good = good and note_all_dates(images, &at, after, &behind, rows)
    if unlikely(not good):
        batch.invalid_dates.length = dates
        return 0
    put_images(plan, images, image[0], image.op, row, &at)
    if after != NULL:
        put_images(plan, after, image[0], OP_UPDATE_POSTIMAGE, row, &behind)
    batch.count += at.count * images_per_row
    batch.records.length += at.count * at.record_len
    rows.pos += at.count * at.wire_len
    return at.count
