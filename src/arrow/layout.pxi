# How records become columns, made once for each shape. Included by arrow/_columns.pyx.

from arrow.column_plan cimport is_stored_so, plan_change, plan_column

from .._tables.column_types import KINDS


cdef class Layout:
    """How records of one dtype become Arrow columns: made once, used for every batch of that shape.

    Parameters
    ----------
    dtype : numpy.dtype
        The dtype of the records: ``record_dtype(…, …)``.
    columns : sequence of Column
        The columns to export: fields of ``records["row"]``. One that the records do not have is exported as nulls.
    fields : sequence of ArrowField
        One for each column, from ``arrow_field``.
    changes : sequence of ImageColumn
        Columns about the changes, which follow the table's.
    change_views : container of str
        The names of those of them whose text becomes views.
    """

    cdef column_t* items
    cdef readonly int count
    cdef uint32_t record_len
    cdef uint32_t bitmap_len
    cdef uint32_t null_bitmap         # where in a record
    cdef uint32_t absent_bitmap
    cdef readonly int table_columns   # how many of the columns are the table's
    cdef readonly object dtype
    cdef readonly tuple columns       # the table's, then those about the changes
    cdef readonly tuple fields
    cdef list keep

    def __cinit__(self, dtype, columns, fields, changes=(), change_views=()):
        self.keep = []
        self.dtype = dtype
        self.columns = (*columns, *changes)
        self.table_columns = len(columns)
        self.fields = (*fields, *[
            change.field.as_view() if change.name in change_views else change.field for change in changes])
        image, image_offset = dtype.fields["image"][:2]
        null_bitmap, null_offset = image.fields["null_bitmap"][:2]
        self.record_len = dtype.itemsize
        self.bitmap_len = null_bitmap.itemsize
        self.null_bitmap = image_offset + null_offset
        self.absent_bitmap = image_offset + image.fields["absent_bitmap"][1]
        if self.absent_bitmap != self.null_bitmap + self.bitmap_len:
            raise ValueError("records whose absent bitmap does not follow the NULL bitmap")
        self.items = <column_t*> calloc(<size_t> len(self.columns) + 1, sizeof(column_t))
        if self.items == NULL:
            raise MemoryError
        row, row_offset = dtype.fields["row"][:2]
        places = row.fields or {}
        for column, field in zip(columns, fields, strict=True):
            self.add(column, field, places, row_offset)
        for change in changes:
            self.add_change(change, change.name in change_views, image.fields, image_offset)

    @property
    def address(self):
        """Address of its array of column_t."""
        return <uintptr_t> self.items

    cdef int add(self, object column, object field, object places, uint32_t row_offset) except -1:
        # A column of the table
        cdef column_t* c = &self.items[self.count]
        cdef str stored = KINDS[column.kind].stored
        c.part_bits = part_bits
        c.missing = column.name not in places
        if c.missing:
            plan_column(c, column, stored, field, column.dtype.itemsize, self.keep)
            self.count += 1
            return 0
        dtype, offset = places[column.name][:2]
        if dtype != column.dtype:
            raise ValueError(f"column {column.name!r}: {column.dtype}, the records hold {dtype}")
        if column.index // 8 >= self.bitmap_len:
            raise ValueError(f"column {column.name!r}: no place {column.index} in the NULL bitmap")
        plan_column(c, column, stored, field, dtype.itemsize, self.keep)
        c.field = row_offset + offset
        c.stored = dtype.itemsize
        if not is_stored_so(c):
            raise ValueError(f"column {column.name!r}: {dtype} is not what {column.kind!r} is stored as")
        if column.index >= 0:       # below 0 it is not a column of the table (RAW_COLUMN) and has no bit
            c.bitmap_byte = column.index // 8
            c.bit = column.index % 8
            c.mask = 1 << c.bit
        self.count += 1
        return 0

    cdef int add_change(self, object change, bint view, object places, uint32_t offset) except -1:
        # A column made of the fields before the row
        cdef column_t* c = &self.items[self.count]
        dtype, place = places[change.source][:2]
        c.field = offset + place
        c.stored = dtype.itemsize
        c.part_bits = part_bits
        plan_change(c, change, view, self.keep)
        if not is_stored_so(c):
            raise ValueError(f"change column {change.name!r}: {dtype} is not what it is made of")
        self.count += 1
        return 0

    def __dealloc__(self):
        free(self.items)
