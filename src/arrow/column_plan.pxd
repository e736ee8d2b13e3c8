# Which loop gathers a column from the records, and what that loop needs. Header-only: used by _columns.pyx.
# Objects that must outlive the loops go into the list `keep`.

from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport INT32_MAX, int32_t, uint8_t, uint32_t

from arrow.tile cimport (
    LABEL, LAYOUT_BYTES, LAYOUT_BYTES_VIEW, LAYOUT_COMMIT_TIME, LAYOUT_COPY, LAYOUT_DAYS, LAYOUT_DECIMAL64,
    LAYOUT_DECIMAL_TEXT, LAYOUT_ENUM, LAYOUT_EWKB, LAYOUT_FIXED_BYTES, LAYOUT_GEOMETRY, LAYOUT_JSON, LAYOUT_LABEL,
    LAYOUT_LABEL_VIEW, LAYOUT_MICROS, LAYOUT_NULL, LAYOUT_OBJECT, LAYOUT_SECONDS, LAYOUT_SET, LAYOUT_TABLE,
    LAYOUT_UTF16_BE, LAYOUT_UTF16_LE, LAYOUT_UTF32, LAYOUT_UTF8, LAYOUT_UTF8_VIEW, LAYOUT_VECTOR, column_t,
)
from arrow.views cimport BINLOG_VIEW, binlog_put_view
from batch.records cimport span_t
from wire.codes cimport KIND_BINARY, KIND_DATE, KIND_GEOMETRY, KIND_JSON, KIND_VECTOR


cdef inline bint is_stored_so(const column_t* c) noexcept nogil:
    # Whether the loop of its layout reads a field of c.stored bytes
    if c.layout == LAYOUT_COPY:
        return c.width == c.stored and c.stored in (1, 2, 4, 8, 16, 32)
    if c.layout == LAYOUT_LABEL or c.layout == LAYOUT_LABEL_VIEW:
        return c.stored == 1
    if c.layout == LAYOUT_ENUM:
        return c.stored == 2
    if c.layout == LAYOUT_SECONDS or c.layout == LAYOUT_COMMIT_TIME:
        return c.stored == 4
    if c.layout in (LAYOUT_DAYS, LAYOUT_MICROS, LAYOUT_DECIMAL64, LAYOUT_SET):
        return c.stored == 8
    if c.layout == LAYOUT_DECIMAL_TEXT:
        return c.stored == 32
    return c.layout == LAYOUT_NULL or c.stored == sizeof(span_t)


cdef inline object kept(list keep, object array):
    keep.append(array)
    return array


cdef inline int plan_members(column_t* c, object field, list keep) except -1:
    # The dictionary of an ENUM or SET, and the place of each number in it
    import numpy as np

    cdef const uint32_t[::1] words = kept(keep, np.array(field.codes, np.uint32))
    cdef const int32_t[::1] ends
    cdef bytes members
    texts = [label.encode("utf-8", "replace") for label in field.labels]
    if len(field.codes) and max(field.codes) >= len(texts):
        raise ValueError(f"codes up to {max(field.codes)} for {len(texts)} members")
    members = kept(keep, b"".join(texts))
    if len(members) > INT32_MAX:
        from binlog_core.errors import DecodeError

        raise DecodeError(f"{len(members)} bytes of members: at most {INT32_MAX}")
    ends = kept(keep, np.cumsum([0, *map(len, texts)], dtype=np.int32))
    c.codes = &words[0] if len(field.codes) else NULL
    c.code_count = len(field.codes)
    c.members = <const uint8_t*> PyBytes_AS_STRING(members)
    c.ends = &ends[0]
    c.member_count = len(texts)
    return 0


cdef inline int plan_span(column_t* c, object column, object field, list keep) except -1:
    cdef const uint32_t[::1] table
    cdef int kind = column.kind
    cdef str form = field.format[1:] if c.view else field.format
    if field.format.startswith("w:"):
        c.layout = LAYOUT_FIXED_BYTES
        c.width = c.pad = int(field.format[2:])
    elif field.format.startswith("+w:"):
        c.layout = LAYOUT_FIXED_BYTES
        c.width = 4 * <uint32_t> int(field.format[3:])
        c.nested = True
    elif form == "z":
        c.layout = LAYOUT_EWKB if kind == KIND_GEOMETRY else LAYOUT_BYTES
        c.pad = column.pad_to if kind == KIND_BINARY else 0
        if c.view and c.layout == LAYOUT_BYTES and not c.pad:
            c.layout = LAYOUT_BYTES_VIEW
            c.width = BINLOG_VIEW
    elif kind == KIND_GEOMETRY:
        c.layout = LAYOUT_GEOMETRY
        c.width = 4
    elif kind == KIND_VECTOR:
        c.layout = LAYOUT_VECTOR
    elif kind == KIND_JSON:
        c.layout = LAYOUT_JSON
    else:
        from binlog_core._tables import transcoding

        encoding = transcoding.encoding_of(column.charset)
        if encoding == "utf8" and c.view:
            c.layout = LAYOUT_UTF8_VIEW
            c.width = BINLOG_VIEW
        elif encoding == "utf8":
            c.layout = LAYOUT_UTF8
        elif encoding == "utf16be":
            c.layout = LAYOUT_UTF16_BE
        elif encoding == "utf16le":
            c.layout = LAYOUT_UTF16_LE
        elif encoding == "utf32be":
            c.layout = LAYOUT_UTF32
        elif encoding == "table":
            c.layout = LAYOUT_TABLE
            words, c.keeps_ascii = transcoding.utf8_table(column.charset)
            table = kept(keep, words)
            c.table = &table[0]
        else:
            c.layout = LAYOUT_OBJECT
    return 0


cdef inline int plan_column(column_t* c, object column, str stored, object field, uint32_t itemsize,
                            list keep) except -1:
    # A column of the table. stored: what KINDS says of its kind
    c.width = itemsize
    c.layout = LAYOUT_COPY
    c.view = field.format in ("vu", "vz")
    if stored == "nothing":
        c.layout = LAYOUT_NULL
        c.width = 0
    elif stored == "moment" and column.kind == KIND_DATE:
        c.layout = LAYOUT_DAYS
        c.width = 4
    elif stored == "moment":
        c.layout = LAYOUT_MICROS
    elif stored == "span":
        c.width = 0
        plan_span(c, column, field, keep)
    elif stored == "decimal" and itemsize == 8:
        c.layout = LAYOUT_DECIMAL64
        c.width = 16
    elif stored == "decimal" and field.format in ("u", "vu"):
        from binlog_core.errors import DecodeError

        if itemsize != 32 or not 0 <= column.scale <= 40:
            name = f"DECIMAL({column.precision},{column.scale})"
            raise DecodeError(f"{name} cannot be written as text", column=column.name)
        c.layout = LAYOUT_DECIMAL_TEXT
        c.width = 0
        c.scale = column.scale
    elif field.dictionary is not None:      # ENUM
        c.layout = LAYOUT_ENUM
        c.width = 2 if field.format == "s" else 4
        plan_members(c, field, keep)
    elif field.children:                    # SET
        c.layout = LAYOUT_SET
        c.width = 0
        plan_members(c, field.children[0], keep)
    return 0


cdef inline bytes label_slots(object labels):
    # The texts in the form that LAYOUT_LABEL reads
    texts = [label.encode() for label in labels]
    if max(map(len, texts)) >= LABEL:
        raise ValueError(f"labels of {max(map(len, texts))} bytes: at most {LABEL - 1}")
    return b"".join([text.ljust(LABEL - 1, b"\0") + bytes([len(text)]) for text in texts])


cdef inline int plan_change(column_t* c, object change, bint view, list keep) except -1:
    # An ImageColumn; view: text becomes views. Each batch brings its own transactions.
    cdef bytes slots
    cdef bytearray views
    cdef uint32_t k
    c.width = c.stored
    c.layout = LAYOUT_COPY
    if change.labels is not None:
        slots = kept(keep, label_slots(change.labels))
        c.layout = LAYOUT_LABEL
        c.width = 0
        c.labels = <const uint8_t*> PyBytes_AS_STRING(slots)
        c.code_count = len(change.labels)
        if view:
            views = kept(keep, bytearray(BINLOG_VIEW * len(change.labels)))
            for k in range(<uint32_t> len(change.labels)):
                binlog_put_view(<uint8_t*> PyByteArray_AS_STRING(views) + k * BINLOG_VIEW, c.labels + k * LABEL,
                                <uint32_t> c.labels[(k + 1) * LABEL - 1], k * LABEL, c.part_bits)
            c.view = True
            c.layout = LAYOUT_LABEL_VIEW
            c.width = BINLOG_VIEW
            c.label_views = <const uint8_t*> PyByteArray_AS_STRING(views)
    elif change.name == "_timestamp":
        c.layout = LAYOUT_SECONDS
        c.width = 8
    elif change.name == "_commit_timestamp":
        c.layout = LAYOUT_COMMIT_TIME
        c.width = 8
        from binlog_core._tables.side_dtypes import TRANSACTION_DTYPE

        c.transaction_len = TRANSACTION_DTYPE.itemsize
        c.commit_time = TRANSACTION_DTYPE.fields["commit_time"][1]
        c.begin_time = TRANSACTION_DTYPE.fields["timestamp"][1]
    return 0
