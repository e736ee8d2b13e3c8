"""Tables and columns as a TABLE_MAP event, its optional metadata or a given schema describe them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from .column_types import INTEGER_BYTES, Kind, value_dtype
from .full_names import full_name

FLAG_GENERATED_PRIMARY_KEY = 0x0004  # my_row_id is the first column, even where no name is logged
_MOST_MEMBERS = 16 << 20  # characters of members in the text of some records


@dataclass(frozen=True, slots=True)
class Column:
    """One column of one table definition.

    Parameters
    ----------
    name : str
        The column's name, or ``c0``, ``c1`` … if neither the log nor a schema gives it.
    index : int
        The column's place in the table, from 0; it numbers the bits of the NULL and absent bitmaps.
    type_code : int
        MYSQL_TYPE_*; ENUM (247) and SET (248) are already distinguished from STRING (254).
    kind : Kind
        What the values are. Text whose character set is unknown or has no codec is BINARY.
    length : int
        For CHAR, BINARY and VARCHAR the most bytes of a value; for the BLOB family, JSON, GEOMETRY and
        VECTOR the bytes of its length; for ENUM and SET the bytes of a value; for BIT the bits; otherwise 0.
    precision, scale : int
        Digits of a DECIMAL in all, and after the point.
    fsp : int
        Fractional digits of a temporal type, 0 to 6.
    signed : bool or None
        Whether numbers are signed; None if the log does not say (the value is then read as signed) and for
        types without a sign.
    nullable : bool or None
        Whether values can be NULL; None if that is not known.
    collation : int or None
        The collation's id; 63 is binary, None is unknown or not a character column.
    charset : str or None
        The character set of that collation; "binary" for bytes.
    members : tuple of str or None
        The members of an ENUM or SET; None if the log does not have them.
    geometry_type, dimensions : int or None
        The subtype of a GEOMETRY, and the number of dimensions of a VECTOR.
    visible : bool or None
        Whether the column is visible; None if that is not known.
    named : bool
        False if the library made up the name.
    compressed : bool
        MariaDB's COMPRESSED attribute: values are stored with a header and may be deflated.
    old_fraction : bool
        MariaDB's own fractional layout of types 7, 11 and 12 (known only from a schema).
    pad_to : int
        For BINARY(n), n: values are padded back to it with zero bytes. Otherwise 0.
    declared_type : str or None
        The type's name in the given schema, such as "uuid" or "inet6".
    """

    name: str
    index: int
    type_code: int
    kind: Kind
    length: int = 0
    precision: int = 0
    scale: int = 0
    fsp: int = 0
    signed: bool | None = None
    nullable: bool | None = None
    collation: int | None = None
    charset: str | None = None
    members: tuple[str, ...] | None = None
    geometry_type: int | None = None
    dimensions: int | None = None
    visible: bool | None = None
    named: bool = True
    compressed: bool = False
    old_fraction: bool = False
    pad_to: int = 0
    declared_type: str | None = None

    def __hash__(self) -> int:
        # Only what distinguishes columns: a hash of all fields would cost more than the look-up.
        return hash((self.name, self.index, self.type_code))

    @property
    def dtype(self) -> np.dtype:
        """dtype of this column's field in ``batch.array["row"]``."""
        return value_dtype(
            self.kind,
            bytes_=INTEGER_BYTES.get(self.type_code, 0),
            unsigned=self.signed is False,
            bits=self.length,
            precision=self.precision,
        )


@dataclass(frozen=True, slots=True)
class Table:
    """One definition of one table, from a TABLE_MAP event and the schema, if one is given.

    Parameters
    ----------
    database, name : str
        The names of the database and the table.
    columns : tuple of Column
        All columns of the table, in its order.
    primary_key : tuple of str or None
        The names of its columns; None if neither the log nor a schema gives them.
    flags : int
        The flags of the TABLE_MAP event.
    undecodable : str or None
        Why rows of this table cannot be decoded; None if they can.
    """

    database: str
    name: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...] | None = None
    flags: int = 0
    undecodable: str | None = None
    full_name: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "full_name", full_name(self.database, self.name))

    def __str__(self) -> str:
        return self.full_name


def image_dtype(column_count: int) -> np.dtype:
    """dtype of the ``image`` group: what every record says about its row image.

    It is packed; its beginning must match image_t in src/batch/records.pxd.
    """
    bitmap_len = (column_count + 7) // 8
    return np.dtype(
        [
            ("op", "u1"),
            ("timestamp", "<u4"),
            ("server_id", "<u4"),
            ("position", "<u8"),
            ("row", "<u4"),
            ("transaction", "<u4"),
            ("null_bitmap", "u1", (bitmap_len,)),
            ("absent_bitmap", "u1", (bitmap_len,)),
        ]
    )


def record_dtype(column_count: int, columns: Iterable[Column]) -> np.dtype:
    """dtype of one record: ``image``, then ``row`` with one field per decoded column.

    Parameters
    ----------
    column_count : int
        The number of columns of the table, decoded or not.
    columns : iterable of Column
        The decoded columns, in the table's order.
    """
    return np.dtype(
        [
            ("image", image_dtype(column_count)),
            ("row", np.dtype([(c.name, c.dtype) for c in columns])),
        ]
    )


def records_at_a_time(columns: Iterable[Column]) -> int:
    """How many are made text at a time: members of ENUM and SET may be 64 kB for a byte of the log."""
    weight = 0
    for column in columns:
        sizes = [len(member) for member in column.members or ()]
        if sizes:
            weight += sum(sizes) if column.kind is Kind.SET else max(sizes)
    return max(2, _MOST_MEMBERS // max(weight, 1))
