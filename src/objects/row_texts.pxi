# The values of a RowReader as text of a format. Included by _values.pyx, so that it can call RowReader in C.

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeUTF8

from memory.memory cimport append, memory_t, release
from objects.field_texts cimport (
    PUT_DONE, PUT_NO_MEMORY, TEXT_CSV, TEXT_JSON, TEXT_SQL, is_text, put_fixed, put_status_t, put_text, text_form_t,
)

cdef dict TEXT_FORMS = {"csv": TEXT_CSV, "json": TEXT_JSON, "sql": TEXT_SQL}


def column_texts(RowReader reader not None, column, form, other, *, bint bytes_are_text=False):
    """One column's values in every record, as text of a format.

    Parameters
    ----------
    reader : RowReader
    column : str
        Name of a decoded column.
    form : "json", "csv" or "sql"
        Whole numbers come without quotes; so does DECIMAL (with all digits of the scale), except in JSON. Dates,
        times and text that needs no escape come in the format's quotes, as does DECIMAL in JSON. Times have six
        fraction digits if they have any; a TIMESTAMP has the offset of UTC, except in SQL.
    other : callable
        Makes text of every other value, including None for NULL and absent.
    bytes_are_text : bool
        Whether bytes that are printable ASCII are quoted like text.

    Returns
    -------
    list of str
        As long as the batch.

    Raises
    ------
    KeyError, DecodeError
        As in `RowReader.column_values`.
    """
    cdef Py_ssize_t i, record
    cdef field_t* field
    cdef memory_t text
    cdef text_form_t wanted = TEXT_FORMS[form]
    cdef list out = []
    i = reader.plan.index_of(column)
    field = &reader.plan.fields[i]
    nothing = other(None)
    memset(&text, 0, sizeof(text))
    try:
        for record in range(reader.record_count):
            if reader.is_missing(field, record):
                out.append(nothing)
                continue
            text.length = 0
            if not put_value(&text, reader, field, i, record, wanted, bytes_are_text):
                out.append(other(reader.value(field, i, record)))
                continue
            out.append(PyUnicode_DecodeUTF8(<const char*> text.data, <Py_ssize_t> text.length, NULL))
    finally:
        release(&text)
    return out


def row_texts(RowReader reader not None, form, list labels, bytes separator, other, *, bint gaps=True):
    """Every record as one line of a format.

    Parameters
    ----------
    reader : RowReader
    form : "json" or "csv"
        As in `column_texts`.
    labels : list of bytes
        Text before the value of each decoded column.
    separator : bytes
        Text between two values.
    other : callable
        Makes bytes of every other value, including None for NULL.
    gaps : bool
        Whether an absent column is written like NULL; False leaves it out.

    Returns
    -------
    list of bytes
        As long as the batch.

    Raises
    ------
    DecodeError
        As in `RowReader.column_values`.
    """
    cdef Py_ssize_t i, record
    cdef field_t* field
    cdef const uint8_t* bitmaps
    cdef memory_t text
    cdef text_form_t wanted = TEXT_FORMS[form]
    cdef bytes nothing = other(None)
    cdef bytes part
    cdef bint absent
    cdef list out = []
    if len(labels) != reader.plan.count:
        raise ValueError(f"{len(labels)} labels: expected one for each of the {reader.plan.count} columns")
    memset(&text, 0, sizeof(text))
    try:
        for record in range(reader.record_count):
            text.length = 0
            for i in range(reader.plan.count):
                field = &reader.plan.fields[i]
                bitmaps = reader.at(record) + sizeof(image_t) + field.bitmap_byte
                absent = (bitmaps[reader.plan.bitmap_len] & field.bitmap_mask) != 0
                if absent and not gaps:
                    continue
                if text.length or (gaps and i):
                    put_bytes(&text, separator)
                put_bytes(&text, <bytes> labels[i])
                if absent or bitmaps[0] & field.bitmap_mask:
                    put_bytes(&text, nothing)
                elif not put_value(&text, reader, field, i, record, wanted, False):
                    part = other(reader.value(field, i, record))
                    put_bytes(&text, part)
            out.append(PyBytes_FromStringAndSize(<const char*> text.data, <Py_ssize_t> text.length))
    finally:
        release(&text)
    return out


cdef int put_bytes(memory_t* out, bytes text) except -1:
    if append(out, <const char*> text, <size_t> len(text)):
        raise MemoryError
    return 0


cdef bint put_value(memory_t* out, RowReader reader, field_t* field, Py_ssize_t i, Py_ssize_t record,
                    text_form_t wanted, bint bytes_are_text) except -1:
    # False: the value's text cannot be taken from the record directly
    cdef const uint8_t* p = reader.at(record) + field.offset
    cdef put_status_t status
    cdef span_t span
    if is_text(field, bytes_are_text):
        memcpy(&span, p, sizeof(span))
        status = put_text(out, field, <const uint8_t*> reader.span_data(record, i, &span), span.length, wanted)
    else:
        status = put_fixed(out, field, p, wanted)
    if status == PUT_NO_MEMORY:
        raise MemoryError
    return status == PUT_DONE
