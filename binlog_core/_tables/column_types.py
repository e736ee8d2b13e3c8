"""What is known about each column type: one row per MYSQL_TYPE_* code.

TABLE_MAP parsing, the decoder's plans, Python values, Arrow and Spark types all read
this table, so that adding a type is one row here, one decoder and one test table.
Each presentation of values has one function that goes by the kind, and raises
KeyError for a kind that it does not have: `tests/whole/test_kinds.py` lists them.

Source: MySQL server documentation, "Table_map_event"; ``include/field_types.h``.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

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

SPAN_DTYPE = np.dtype([("offset", "<u8"), ("length", "<u4")])
DECIMAL128_DTYPE = np.dtype([("lo", "<u8"), ("hi", "<i8")])
DECIMAL256_DTYPE = np.dtype([("limb0", "<u8"), ("limb1", "<u8"), ("limb2", "<u8"), ("limb3", "<i8")])

# By bytes on the wire: INT24 has no dtype of its own.
_UNSIGNED_DTYPES = {n: np.dtype(t) for n, t in ((1, "u1"), (2, "<u2"), (3, "<u4"), (4, "<u4"), (8, "<u8"))}
_SIGNED_DTYPES = {n: np.dtype(t) for n, t in ((1, "i1"), (2, "<i2"), (3, "<i4"), (4, "<i4"), (8, "<i8"))}
_FIXED_DTYPES: dict[Kind, np.dtype] = {
    Kind.NULL: np.dtype("u1"),
    Kind.FLOAT: np.dtype("<f4"),
    Kind.DOUBLE: np.dtype("<f8"),
    Kind.YEAR: np.dtype("<u2"),
    Kind.DATE: np.dtype("<M8[D]"),
    Kind.DATETIME: np.dtype("<M8[us]"),
    Kind.TIMESTAMP: np.dtype("<M8[us]"),
    Kind.TIME: np.dtype("<m8[us]"),
    Kind.ENUM: np.dtype("<u2"),
    Kind.SET: np.dtype("<u8"),
}

SPAN_KINDS = frozenset((Kind.TEXT, Kind.BINARY, Kind.JSON, Kind.GEOMETRY, Kind.VECTOR))
# Numbers as the record has them, if ENUM and SET are taken by number; DECIMAL has a scale.
NUMBER_KINDS = frozenset((Kind.INT, Kind.FLOAT, Kind.DOUBLE, Kind.BIT, Kind.YEAR, Kind.ENUM, Kind.SET))
TEMPORAL_KINDS = frozenset((Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME))


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
    if kind in SPAN_KINDS:
        return SPAN_DTYPE
    return _FIXED_DTYPES[kind]
