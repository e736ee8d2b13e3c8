"""What is known of column types and of the kinds of their values.

`COLUMN_TYPES` has a row for each MYSQL_TYPE_* code, `KINDS` one for each kind. All presentations of values
(NumPy, the loop, Python, Arrow, lakes, conditions, index, SQL, JSON) go by the kind's row. What a row cannot
say, because it depends on the column, is in the presentation's one function. `tests/whole/test_kinds.py`
lists them: a kind without a row is a KeyError in each.

Source: MySQL server documentation, "Table_map_event"; ``include/field_types.h``.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Literal, NamedTuple

import numpy as np

MYSQL_TYPE_DECIMAL = 0
MYSQL_TYPE_TINY = 1
MYSQL_TYPE_SHORT = 2
MYSQL_TYPE_LONG = 3
MYSQL_TYPE_FLOAT = 4
MYSQL_TYPE_DOUBLE = 5
MYSQL_TYPE_NULL = 6
MYSQL_TYPE_TIMESTAMP = 7
MYSQL_TYPE_LONGLONG = 8
MYSQL_TYPE_INT24 = 9
MYSQL_TYPE_DATE = 10
MYSQL_TYPE_TIME = 11
MYSQL_TYPE_DATETIME = 12
MYSQL_TYPE_YEAR = 13
MYSQL_TYPE_NEWDATE = 14
MYSQL_TYPE_VARCHAR = 15
MYSQL_TYPE_BIT = 16
MYSQL_TYPE_TIMESTAMP2 = 17
MYSQL_TYPE_DATETIME2 = 18
MYSQL_TYPE_TIME2 = 19
MYSQL_TYPE_TYPED_ARRAY = 20
MYSQL_TYPE_BLOB_COMPRESSED = 140
MYSQL_TYPE_VARCHAR_COMPRESSED = 141
MYSQL_TYPE_VECTOR = 242
MYSQL_TYPE_JSON = 245
MYSQL_TYPE_NEWDECIMAL = 246
MYSQL_TYPE_ENUM = 247
MYSQL_TYPE_SET = 248
MYSQL_TYPE_TINY_BLOB = 249
MYSQL_TYPE_MEDIUM_BLOB = 250
MYSQL_TYPE_LONG_BLOB = 251
MYSQL_TYPE_BLOB = 252
MYSQL_TYPE_VAR_STRING = 253
MYSQL_TYPE_STRING = 254
MYSQL_TYPE_GEOMETRY = 255
# Types whose unchanged values binlog_row_image=NOBLOB leaves out.
BLOB_TYPE_CODES = frozenset(
    (
        MYSQL_TYPE_BLOB_COMPRESSED,
        MYSQL_TYPE_VECTOR,
        MYSQL_TYPE_JSON,
        MYSQL_TYPE_TINY_BLOB,
        MYSQL_TYPE_MEDIUM_BLOB,
        MYSQL_TYPE_LONG_BLOB,
        MYSQL_TYPE_BLOB,
        MYSQL_TYPE_GEOMETRY,
    )
)


class Kind(IntEnum):
    """The kind of a column's decoded values; the same numbers as ``column_kind`` in src/wire/codes.pxd."""

    NULL = 0
    INT = 1
    FLOAT = 2
    DOUBLE = 3
    DECIMAL = 4
    BIT = 5
    YEAR = 6
    DATE = 7
    DATETIME = 8
    TIMESTAMP = 9
    TIME = 10
    TEXT = 11
    BINARY = 12
    ENUM = 13
    SET = 14
    JSON = 15
    GEOMETRY = 16
    VECTOR = 17


Stored = Literal["nothing", "number", "decimal", "moment", "span"]
Compared = Literal["number", "real", "moment", "time", "text", "bytes", "member", "members", "null"]

SPAN_DTYPE = np.dtype([("offset", "<u8"), ("length", "<u4")])


class KindFacts(NamedTuple):
    """What all presentations know of a kind.

    Parameters
    ----------
    stored : Stored
        How a record has it. A number is as it is (ENUM and SET too), a moment is datetime64 or timedelta64, a
        span says where the bytes are.
    dtype : numpy.dtype or None
        Of the record's field; None: by the column (`value_dtype`).
    wire : (str, int) or None
        The loop's operation and its width; None: by the column (`wire_op` in ``_decode/plans.py``).
    value : str
        The Python value, from which its SQL and JSON follow: the name of a form in
        ``src/objects/value_objects.pxd`` without FORM_; empty: a number, by the dtype.
    arrow : str or None
        Format string of the Arrow C data interface, from which the type in a lake follows; None: by the
        column (`arrow_field` in ``batch/arrow_types.py``).
    compared : Compared
        How conditions take it, and the index hashes it: "member" is an ENUM, "members" a SET, and "null" is
        only tested for NULL.
    """

    stored: Stored
    dtype: np.dtype | None
    wire: tuple[str, int] | None
    value: str
    arrow: str | None
    compared: Compared


_MICROSECONDS = np.dtype("<M8[us]")

KINDS: dict[Kind, KindFacts] = {
    Kind.NULL: KindFacts("nothing", np.dtype("u1"), ("NOTHING", 0), "NONE", "n", "null"),
    Kind.INT: KindFacts("number", None, None, "", None, "number"),
    Kind.FLOAT: KindFacts("number", np.dtype("<f4"), ("COPY", 4), "FLOAT", "f", "real"),
    Kind.DOUBLE: KindFacts("number", np.dtype("<f8"), ("COPY", 8), "DOUBLE", "g", "real"),
    Kind.DECIMAL: KindFacts("decimal", None, None, "DECIMAL", None, "number"),
    Kind.BIT: KindFacts("number", None, None, "", None, "number"),
    Kind.YEAR: KindFacts("number", np.dtype("<u2"), ("YEAR", 1), "", "S", "number"),
    Kind.DATE: KindFacts("moment", np.dtype("<M8[D]"), ("DATE", 3), "DATE", "tdD", "moment"),
    Kind.DATETIME: KindFacts("moment", _MICROSECONDS, None, "DATETIME", "tsu:", "moment"),
    Kind.TIMESTAMP: KindFacts("moment", _MICROSECONDS, None, "TIMESTAMP", "tsu:UTC", "moment"),
    Kind.TIME: KindFacts("moment", np.dtype("<m8[us]"), None, "TIME", "tDu", "time"),
    Kind.TEXT: KindFacts("span", SPAN_DTYPE, None, "TEXT", "u", "text"),
    Kind.BINARY: KindFacts("span", SPAN_DTYPE, None, "BYTES", None, "bytes"),
    Kind.ENUM: KindFacts("number", np.dtype("<u2"), None, "ENUM", None, "member"),
    Kind.SET: KindFacts("number", np.dtype("<u8"), None, "SET", None, "members"),
    Kind.JSON: KindFacts("span", SPAN_DTYPE, None, "JSON", None, "null"),
    Kind.GEOMETRY: KindFacts("span", SPAN_DTYPE, None, "BYTES", None, "null"),
    Kind.VECTOR: KindFacts("span", SPAN_DTYPE, None, "VECTOR", None, "null"),
}


class ColumnType(NamedTuple):
    """One column type as TABLE_MAP names it.

    Parameters
    ----------
    code : int
        MYSQL_TYPE_* as written in TABLE_MAP.
    name : str
        MySQL's own name without the prefix.
    metadata_len : int
        Bytes of metadata in TABLE_MAP.
    kind : Kind or None
        The kind of its values; None if no layout is known, so that the table is not decoded.
    numeric : bool
        Whether the SIGNEDNESS metadata counts it.
    """

    code: int
    name: str
    metadata_len: int
    kind: Kind | None
    numeric: bool = False


COLUMN_TYPES: dict[int, ColumnType] = {
    t.code: t
    for t in (
        ColumnType(MYSQL_TYPE_DECIMAL, "DECIMAL", 0, None, numeric=True),
        ColumnType(MYSQL_TYPE_TINY, "TINY", 0, Kind.INT, numeric=True),
        ColumnType(MYSQL_TYPE_SHORT, "SHORT", 0, Kind.INT, numeric=True),
        ColumnType(MYSQL_TYPE_LONG, "LONG", 0, Kind.INT, numeric=True),
        ColumnType(MYSQL_TYPE_FLOAT, "FLOAT", 1, Kind.FLOAT, numeric=True),
        ColumnType(MYSQL_TYPE_DOUBLE, "DOUBLE", 1, Kind.DOUBLE, numeric=True),
        ColumnType(MYSQL_TYPE_NULL, "NULL", 0, Kind.NULL),
        ColumnType(MYSQL_TYPE_TIMESTAMP, "TIMESTAMP", 0, Kind.TIMESTAMP),
        ColumnType(MYSQL_TYPE_LONGLONG, "LONGLONG", 0, Kind.INT, numeric=True),
        ColumnType(MYSQL_TYPE_INT24, "INT24", 0, Kind.INT, numeric=True),
        ColumnType(MYSQL_TYPE_DATE, "DATE", 0, Kind.DATE),
        ColumnType(MYSQL_TYPE_TIME, "TIME", 0, Kind.TIME),
        ColumnType(MYSQL_TYPE_DATETIME, "DATETIME", 0, Kind.DATETIME),
        # YEAR has a bit in SIGNEDNESS, but it means nothing: always unsigned.
        ColumnType(MYSQL_TYPE_YEAR, "YEAR", 0, Kind.YEAR, numeric=True),
        ColumnType(MYSQL_TYPE_NEWDATE, "NEWDATE", 0, Kind.DATE),
        ColumnType(MYSQL_TYPE_VARCHAR, "VARCHAR", 2, Kind.BINARY),
        ColumnType(MYSQL_TYPE_BIT, "BIT", 2, Kind.BIT),
        ColumnType(MYSQL_TYPE_TIMESTAMP2, "TIMESTAMP2", 1, Kind.TIMESTAMP),
        ColumnType(MYSQL_TYPE_DATETIME2, "DATETIME2", 1, Kind.DATETIME),
        ColumnType(MYSQL_TYPE_TIME2, "TIME2", 1, Kind.TIME),
        # One element type, then that type's own metadata, which decode_table_map reads.
        ColumnType(MYSQL_TYPE_TYPED_ARRAY, "TYPED_ARRAY", 1, None),
        ColumnType(MYSQL_TYPE_BLOB_COMPRESSED, "BLOB_COMPRESSED", 1, Kind.BINARY),
        ColumnType(MYSQL_TYPE_VARCHAR_COMPRESSED, "VARCHAR_COMPRESSED", 2, Kind.BINARY),
        ColumnType(MYSQL_TYPE_VECTOR, "VECTOR", 1, Kind.VECTOR),
        ColumnType(MYSQL_TYPE_JSON, "JSON", 1, Kind.JSON),
        ColumnType(MYSQL_TYPE_NEWDECIMAL, "NEWDECIMAL", 2, Kind.DECIMAL, numeric=True),
        ColumnType(MYSQL_TYPE_ENUM, "ENUM", 2, Kind.ENUM),
        ColumnType(MYSQL_TYPE_SET, "SET", 2, Kind.SET),
        ColumnType(MYSQL_TYPE_TINY_BLOB, "TINY_BLOB", 1, Kind.BINARY),
        ColumnType(MYSQL_TYPE_MEDIUM_BLOB, "MEDIUM_BLOB", 1, Kind.BINARY),
        ColumnType(MYSQL_TYPE_LONG_BLOB, "LONG_BLOB", 1, Kind.BINARY),
        ColumnType(MYSQL_TYPE_BLOB, "BLOB", 1, Kind.BINARY),
        ColumnType(MYSQL_TYPE_VAR_STRING, "VAR_STRING", 2, Kind.BINARY),
        ColumnType(MYSQL_TYPE_STRING, "STRING", 2, Kind.BINARY),
        ColumnType(MYSQL_TYPE_GEOMETRY, "GEOMETRY", 1, Kind.GEOMETRY),
    )
}

INTEGER_BYTES = {
    MYSQL_TYPE_TINY: 1,
    MYSQL_TYPE_SHORT: 2,
    MYSQL_TYPE_INT24: 3,
    MYSQL_TYPE_LONG: 4,
    MYSQL_TYPE_LONGLONG: 8,
}

# In MariaDB these may have fraction digits that only a schema shows.
OLD_TEMPORAL_TYPES = frozenset((MYSQL_TYPE_TIMESTAMP, MYSQL_TYPE_TIME, MYSQL_TYPE_DATETIME))

DECIMAL128_DTYPE = np.dtype([("lo", "<u8"), ("hi", "<i8")])
DECIMAL256_DTYPE = np.dtype([("limb0", "<u8"), ("limb1", "<u8"), ("limb2", "<u8"), ("limb3", "<i8")])

# By bytes on the wire: INT24 has no dtype of its own.
_UNSIGNED_DTYPES = {n: np.dtype(t) for n, t in ((1, "u1"), (2, "<u2"), (3, "<u4"), (4, "<u4"), (8, "<u8"))}
_SIGNED_DTYPES = {n: np.dtype(t) for n, t in ((1, "i1"), (2, "<i2"), (3, "<i4"), (4, "<i4"), (8, "<i8"))}


def value_dtype(
    kind: Kind, *, bytes_: int = 0, unsigned: bool = False, bits: int = 0, precision: int = 0
) -> np.dtype:
    """The record field's dtype for a kind of value.

    Parameters
    ----------
    kind : Kind
    bytes_ : int
        Wire bytes of an INT (1, 2, 3, 4 or 8).
    unsigned : bool
        Whether an INT is unsigned.
    bits : int
        Bits of a BIT column, 1 to 64.
    precision : int
        Digits of a DECIMAL: 18 digits fit i8, 38 two limbs, 65 four.

    Returns
    -------
    numpy.dtype
        Little-endian, packed.
    """
    if kind is Kind.INT:
        return (_UNSIGNED_DTYPES if unsigned else _SIGNED_DTYPES)[bytes_]
    if kind is Kind.BIT:
        return _UNSIGNED_DTYPES[1 if bits <= 8 else 2 if bits <= 16 else 4 if bits <= 32 else 8]
    if kind is Kind.DECIMAL:
        narrow = _SIGNED_DTYPES[8]
        return narrow if precision <= 18 else DECIMAL128_DTYPE if precision <= 38 else DECIMAL256_DTYPE
    fixed = KINDS[kind].dtype
    assert fixed is not None
    return fixed
