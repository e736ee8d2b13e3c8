# How the columns of a table become Python values. Included by _values.pyx: types of another module could be used
# only through Python.

import sys

from cpython.mem cimport PyMem_Free, PyMem_Malloc

from objects.value_objects cimport (
    FORM_BYTES, FORM_DATETIME, FORM_I16, FORM_I32, FORM_I64, FORM_TIMESTAMP, FORM_U16, FORM_U32, FORM_U8,
)
from wire.codes cimport KIND_BIT, KIND_GEOMETRY

from .._tables import charsets
from .._tables.column_types import KINDS
from .._tables.tables import record_dtype

cdef dict INT_FORMS = {
    "i1": FORM_I8, "i2": FORM_I16, "i4": FORM_I32, "i8": FORM_I64,
    "u1": FORM_U8, "u2": FORM_U16, "u4": FORM_U32, "u8": FORM_U64,
}

# By their names in KINDS
cdef dict FORMS = {
    "NONE": FORM_NONE,
    "FLOAT": FORM_FLOAT,
    "DOUBLE": FORM_DOUBLE,
    "DECIMAL": FORM_DECIMAL,
    "DATE": FORM_DATE,
    "DATETIME": FORM_DATETIME,
    "TIMESTAMP": FORM_TIMESTAMP,
    "TIME": FORM_TIME,
    "TEXT": FORM_TEXT,
    "BYTES": FORM_BYTES,
    "ENUM": FORM_ENUM,
    "SET": FORM_SET,
    "JSON": FORM_JSON,
    "VECTOR": FORM_VECTOR,
}


@cython.final
cdef class ValuePlan:
    """How the records of one table definition become Python values. Made once and used by many readers.

    Parameters
    ----------
    table : Table
    columns : tuple of Column
        The decoded columns, in table order.
    kept : Kept, optional
        Kept values, shared with the readers of other plans.
    """

    cdef readonly object table
    cdef readonly tuple columns
    cdef readonly object dtype
    cdef tuple names
    cdef tuple helpers        # per column: the members (a tuple) of ENUM and SET, the decoder of text, or None
    cdef dict template        # every name with None: copying it is cheaper than growing a dict
    cdef field_t* fields
    cdef Py_ssize_t count
    cdef size_t bitmap_len
    cdef size_t record_len
    cdef bint placed          # the values of a copied template lie in the slots of the fields
    cdef bint has_lists       # some values are lists: the garbage collector must track rows
    cdef Kept kept
    cdef dict json_plans      # a JsonPlan by style

    def __cinit__(self, table, columns, Kept kept=None):
        cdef size_t* slots
        self.table = table
        self.json_plans = {}
        self.kept = Kept() if kept is None else kept
        self.columns = tuple(columns)
        self.dtype = record_dtype(len(table.columns), self.columns)
        self.count = len(self.columns)
        self.bitmap_len = <size_t> (len(table.columns) + 7) // 8
        self.record_len = <size_t> self.dtype.itemsize
        self.names = tuple([sys.intern(column.name) for column in self.columns])
        self.template = dict.fromkeys(self.names)
        self.fields = <field_t*> PyMem_Malloc((self.count + 1) * sizeof(field_t))
        if self.fields == NULL:
            raise MemoryError
        row_offset = self.dtype.fields["row"][1]
        row = self.dtype["row"]
        helpers = []
        for i, column in enumerate(self.columns):
            dtype, offset = row.fields[column.name]
            if not 0 <= column.index < len(table.columns):
                raise ValueError(
                    f"column {column.name!r} has index {column.index}: the table has {len(table.columns)} columns"
                )
            helpers.append(fill_field(&self.fields[i], column, dtype, row_offset + offset))
            self.has_lists |= not self.fields[i].alike or self.fields[i].form == FORM_JSON
        self.helpers = tuple(helpers)
        slots = <size_t*> PyMem_Malloc((self.count + 1) * sizeof(size_t))
        if slots == NULL:
            raise MemoryError
        try:
            self.placed = len(self.template) == self.count and find_slots(self.template, slots)
            for i in range(self.count):
                self.fields[i].slot = slots[i] if self.placed else 0
        finally:
            PyMem_Free(slots)

    def __dealloc__(self):
        PyMem_Free(self.fields)

    cdef Py_ssize_t index_of(self, column) except -1:
        # Index of a decoded column
        try:
            return self.names.index(column)
        except ValueError:
            raise KeyError(column) from None


cdef object fill_field(field_t* field, column, dtype, offset):
    # Returns what the column's values need from Python.
    memset(field, 0, sizeof(field_t))
    field.offset = offset
    field.column = column.index
    field.bitmap_byte = <size_t> column.index // 8
    field.bitmap_mask = <uint8_t> (1 << (column.index % 8))
    field.scale = column.fsp
    facts = KINDS[column.kind]
    known = facts.dtype is None or facts.dtype == dtype
    if not known or (facts.stored == "decimal" and dtype.itemsize not in (8, 16, 32)):
        raise ValueError(f"column {column.name!r}: {dtype} is not what {column.kind!r} is stored as")
    if column.kind == KIND_BIT and not 0 <= column.length <= 64:
        raise ValueError(f"column {column.name!r}: a BIT of {column.length} bits")
    if not facts.value:
        field.form = INT_FORMS[dtype.str[1:]]
        field.alike = <uint8_t> dtype.itemsize
        return None
    field.form = FORMS[facts.value]
    field.is_span = facts.stored == "span"
    if field.form != FORM_SET and field.form != FORM_VECTOR:
        field.alike = <uint8_t> dtype.itemsize
    if field.form == FORM_DECIMAL:
        field.scale = column.scale
        field.limb_count = dtype.itemsize // 8
        field.keeps = field.limb_count == 1
        if not 0 <= field.scale <= 40:
            raise ValueError(f"DECIMAL scale {column.scale}")
    elif FORM_DATE <= field.form <= FORM_TIME:
        field.keeps = True
    elif field.form == FORM_BYTES:
        field.pad_to = column.pad_to
    elif field.form == FORM_ENUM or field.form == FORM_SET:
        return None if column.members is None else tuple(column.members)
    elif field.form == FORM_TEXT:
        field.keeps = True
        if column.charset in ("utf8mb4", "utf8mb3", "utf8"):
            field.form = FORM_UTF8
        elif column.charset == "ascii":
            field.form = FORM_ASCII
        else:
            charset = charsets.get(column.charset or "")
            if charset is None or not charset.decodable:
                field.form = FORM_BYTES
                return None
            field.ascii_alike = is_ascii_alike(charset)
            return charset.decode
    return None


def is_ascii_alike(charset):
    try:
        return charset.decode(bytes(range(128))) == bytes(range(128)).decode("ascii")
    except UnicodeDecodeError:
        return False
