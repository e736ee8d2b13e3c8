# A plan: how the rows of tables of one shape are decoded, one operation per column.
# It is made once per shape (binlog_core/_decode/plans.py) and walked once per row.

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport free

from arrow.tile cimport column_t
from batch.gathered cimport batch_t
from decode.condition_words cimport condition_t, free_condition
from memory.memory cimport memory_t
from types.decimal cimport decimal64_t

cdef enum wire_code_t:              # names in WIRE_OPS of words.pxi
    WIRE_NOTHING = 0                # MYSQL_TYPE_NULL: no bytes
    WIRE_SKIP = 1                   # a fixed-size column that is not wanted
    WIRE_SKIP_VALUE = 2             # the same with a length before it
    WIRE_COPY = 3                   # unchanged; neighbours are merged
    WIRE_COPY1 = 4
    WIRE_COPY2 = 5
    WIRE_COPY4 = 6
    WIRE_COPY8 = 7
    WIRE_INT24 = 8
    WIRE_UINT24 = 9
    WIRE_WIDEN = 10                 # little-endian into a wider unsigned: ENUM, SET
    WIRE_BIT = 11                   # big-endian
    WIRE_YEAR = 12
    WIRE_DATE = 13
    WIRE_TIME = 14
    WIRE_DATETIME = 15
    WIRE_TIMESTAMP = 16
    WIRE_TIME2 = 17
    WIRE_DATETIME2 = 18
    WIRE_TIMESTAMP2 = 19
    WIRE_MARIA_TIME = 20
    WIRE_MARIA_DATETIME = 21
    WIRE_MARIA_TIMESTAMP = 22
    WIRE_DECIMAL64 = 23
    WIRE_DECIMAL128 = 24
    WIRE_DECIMAL256 = 25
    WIRE_SPAN1 = 26                 # length of 1 byte, then the value
    WIRE_SPAN2 = 27
    WIRE_SPAN = 28                  # length of 3 or 4 bytes


cdef enum:
    # Bytes after a value, and after a record, that whole words may touch. The worst case is a NULL DECIMAL(65,30): none
    # of its 30 bytes are there, but its last group is still loaded, with 8.
    ROOM = 48
    STRIP_MAX = 56                  # columns of a step: their NULL bits come in one load, from any bit of a byte


cdef packed struct wire_op_t:          # packed by binlog_core/_decode/plans.py
    uint8_t code
    uint8_t a                     # temporal: fraction bytes or digits; decimal: head digits
    uint8_t b                     # decimal: full groups
    uint8_t c                     # decimal: tail digits
    uint16_t column               # index in the table
    uint16_t out_width            # bytes in the record
    uint32_t width                # bytes on the wire, or of the length before a value
    uint32_t out                  # offset in the record


cdef struct image_set_t
cdef struct step_t


# What the rows of an event share, and the current place in them.
cdef struct rows_t:
    const uint8_t* pos
    const uint8_t* end
    const uint8_t* buffer         # where offsets of values count from
    batch_t* batch
    memory_t* ends                # receives where each row ends; NULL: not needed
    const image_set_t* images     # of the current row image
    const uint8_t* nulls          # its NULL bitmap
    int64_t budget                # bytes that its values of variable length may take
    bint exact                    # the budget already includes what NULL columns leave free
    int status
    uint32_t failed_column
    const uint8_t* incomplete     # where a row begins that goes on after `end`; NULL: there is none
    uintptr_t ahead               # distance from a row to the bytes to prefetch; 0: none


# Decodes the columns of a step; the bits of `nulls` say which are NULL. Returns the place after them; NULL: see
# rows.status.
ctypedef const uint8_t* (*strip_t)(const step_t* step, const uint8_t* pos, uint8_t* out, uint64_t nulls,
                                   rows_t* rows) noexcept nogil


# Neighbouring columns that are stored alike, on the wire and in the record.
cdef struct step_t:
    strip_t strip
    uint8_t code
    uint8_t a
    uint8_t b
    uint8_t c
    uint16_t column               # index of the first in the table; the others follow it
    uint16_t count
    uint32_t width                # of each, as in wire_op_t
    uint32_t out                  # of the first
    uint32_t out_width            # of each
    size_t apart                  # distance from one value's destination to the next: in a record, out_width
    decimal64_t decimal64         # where strip_decimal64 is their function


# The columns of one kind of image: those that its columns-present bitmap names.
cdef struct image_set_t:
    uint32_t count                # columns present
    uint32_t null_len             # bytes of the NULL bitmap
    uint64_t null_mask            # the bits in use of its last one to eight bytes
    bint whole                    # all columns are present, and none is of MYSQL_TYPE_NULL
    bint fixed                    # … and none has variable length
    uint32_t fixed_len            # wire bytes of all present columns, without values of variable length
    step_t* sparse                # all present columns, up to STRIP_MAX in a step
    step_t* dense                 # the same for rows without NULLs: copies are joined, whatever their widths
    uint32_t sparse_count
    uint32_t dense_count
    uint8_t* present              # the columns-present bitmap as on the wire
    uint8_t* bitmaps              # null_bitmap and absent_bitmap of a record before its row's NULLs are added
    uint8_t* no_nulls             # a NULL bitmap without NULLs


# A column of the table, as it is on the wire.
cdef struct wire_column_t:
    bint has_length
    int target                      # number of the Arrow column; -1: none
    step_t step
    uint32_t lane                   # where its values of a tile wait for gather(), if they must


# Between two values of variable length: this many bytes, then a length of this width.
cdef struct gap_t:
    uint32_t gap
    uint32_t width


# Decodes values of one column, none of them NULL, from `count` rows: each lies `offset` bytes after its row's place in
# `at`, and goes to `out`, `stride` bytes after the one before. False: see rows.status.
ctypedef bint (*strip_column_t)(const step_t* step, const uint8_t** at, uint32_t offset, int count, uint8_t* out,
                                size_t stride, rows_t* rows) noexcept nogil


# An Arrow column that rows are decoded into.
cdef struct target_t:
    strip_column_t strip
    step_t step                     # of this column alone
    uint32_t segment
    uint32_t offset                 # in the segment, if the row has no NULLs


cdef struct columnar_t:
    const column_t* layout          # one for each target, then those about the changes; of a Layout that outlives this
    target_t* targets
    int count
    int changes
    wire_column_t* columns
    uint32_t column_count
    gap_t* gaps
    uint32_t gap_count
    uint32_t last_gap               # bytes after the last value with a length
    uint32_t null_len
    bint fallible                   # some columns have bytes that are not a valid value
    size_t lanes_len


cdef struct plan_t:
    uint32_t column_count
    uint32_t bitmap_len
    uint32_t image_len
    uint32_t record_len
    bint wanted                   # False: rows are not decoded at all
    bint raw                      # rows cannot be decoded: one record per event, a span of its row area
    bint compressed               # some values are: Python inflates them when it takes the batch
    wire_op_t* ops
    uint16_t* json_columns        # indexes of the table's JSON columns, in order
    uint32_t json_count
    uint8_t* nullable             # 1 byte per column, for rows of version 0
    condition_t* condition        # NULL: every row is wanted
    plan_t* scan                  # … else how its columns alone are decoded
    image_set_t[2] images         # before and after, as the last event had them
    columnar_t* columnar          # how rows become columns; NULL: into records


cdef inline void free_image_set(image_set_t* images) noexcept nogil:
    free(images.sparse)         # one block holds all arrays
    images.sparse = NULL


cdef inline void free_columnar(columnar_t* made) noexcept nogil:
    if made != NULL:
        free(made.targets)
        free(made.columns)
        free(made.gaps)
        free(made)


cdef inline void free_plan(plan_t* plan) noexcept nogil:
    if plan != NULL:
        free_image_set(&plan.images[0])
        free_image_set(&plan.images[1])
        free_columnar(plan.columnar)
        free(plan.ops)
        free(plan.json_columns)
        free(plan.nullable)
        free_condition(plan.condition)
        free(plan)
