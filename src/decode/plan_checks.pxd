# Checks a plan that Python gives: no operation may write outside its field of the record, or load more than the room
# after a value.

from libc.stdint cimport uint32_t

from batch.records cimport image_t, span_t
from decode.plan cimport (
    WIRE_COPY1, WIRE_COPY8, WIRE_DECIMAL256, WIRE_DECIMAL64, WIRE_MARIA_TIME, WIRE_MARIA_TIMESTAMP, WIRE_NOTHING,
    WIRE_SKIP, WIRE_SKIP_VALUE, WIRE_SPAN, WIRE_SPAN1, WIRE_YEAR, wire_op_t,
)
from types.decimal cimport digits_len


cdef inline bint writes_field(const wire_op_t* op) noexcept:
    # Whether the operation loads no more than the room after a value, and writes only its field
    if op.code == WIRE_NOTHING or op.code == WIRE_SKIP:
        return True
    if op.code == WIRE_SKIP_VALUE:
        return 1 <= op.width <= 4
    if WIRE_COPY1 <= op.code <= WIRE_COPY8:
        return op.width == <uint32_t> 1 << (op.code - WIRE_COPY1) and op.out_width == op.width
    if op.code <= WIRE_YEAR:                      # copies of other widths, and values that become a number
        return 1 <= op.width <= 8 and op.out_width in (1, 2, 4, 8)
    if op.code <= WIRE_MARIA_TIMESTAMP:
        if op.code >= WIRE_MARIA_TIME:
            return op.out_width == 8 and op.a <= 6 and 4 <= op.width <= 8
        return op.out_width == 8 and op.a <= 3 and 3 <= op.width <= 8
    if op.code <= WIRE_DECIMAL256:
        return (op.out_width == 8 << (op.code - WIRE_DECIMAL64) and op.a <= 9 and op.c <= 9
                and op.width == digits_len[op.a] + 4u * op.b + digits_len[op.c] and 1 <= op.width <= 32
                and (op.code == WIRE_DECIMAL256 or (op.code == WIRE_DECIMAL64 and op.width <= 8)
                     or (op.b <= 4 and op.b + (op.a != 0) >= 2)))           # else not of decode_decimal128
    if op.code <= WIRE_SPAN:
        return op.out_width == sizeof(span_t) and 1 <= op.width <= 4 and (
            op.code == WIRE_SPAN or op.width == 1u + op.code - WIRE_SPAN1)
    return False


cdef inline int check_ops(const wire_op_t* ops, uint32_t count, uint32_t image_len, uint32_t record_len) except -1:
    cdef uint32_t i
    if image_len != sizeof(image_t) + 2 * ((count + 7) // 8) or image_len > record_len:
        raise ValueError(f"an image part of {image_len} bytes for {count} columns and records of {record_len}")
    for i in range(count):
        if (ops[i].column != i or ops[i].out > record_len or ops[i].out_width > record_len - ops[i].out
                or not writes_field(&ops[i])):
            raise ValueError(f"column {i}: operation {ops[i].code} of {ops[i].width} bytes is not valid")
    return 0
