# One column of a RowReader as text of a format. Included by _values.pyx, so that it can call RowReader in C.

from cpython.unicode cimport PyUnicode_DecodeUTF8

from objects.field_texts cimport (
    PUT_DONE, PUT_NO_MEMORY, PUT_OTHER, TEXT_CSV, TEXT_SQL, is_text, put_fixed, put_status_t, put_text, text_form_t,
)

cdef dict TEXT_FORMS = {"csv": TEXT_CSV, "sql": TEXT_SQL}


def column_texts(RowReader reader not None, column, form, other, *, bint bytes_are_text=False):
    """One column's values in every record, as text of a format.

    Parameters
    ----------
    reader : RowReader
    column : str
        Name of a decoded column.
    form : "csv" or "sql"
        Numbers come without quotes, DECIMAL with all digits of the scale. Dates, times and text that needs no escape
        come in the format's quotes. Times have six fraction digits if they have any; a TIMESTAMP has the offset of
        UTC, except in SQL.
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
