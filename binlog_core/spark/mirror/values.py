"""What a server sends for a SELECT, as the values that its log has for the same rows.

Text comes as it is stored (``character_set_results=NULL``) and is decoded by the tables that decode the log;
numbers that a server rounds on its way out are asked for in another way. So a row has the same values
whether it was copied or replayed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..._tables import charsets
from ..._tables.column_types import Kind
from ..._tables.tables import Column, Table
from ...errors import DecodeError, SchemaError
from ...schema.table_definitions import ColumnSchema, TableSchema
from ...schema.without_rows import table_without_rows
from ..rows.types import import_pyarrow, lake_schema, lake_type

if TYPE_CHECKING:
    import pyarrow as pa

# What a session must be before it SELECTs: nothing is converted, cut, padded or given up on.
SESSION = (
    "SET SESSION time_zone = '+00:00', sql_mode = '', character_set_results = NULL,"
    " net_write_timeout = 3600, net_read_timeout = 3600"
)
FIXED_BINARY = {"uuid": 16, "inet6": 16, "inet4": 4}
_DATE_LEN = 10
_NUMBERS = frozenset((Kind.INT, Kind.DECIMAL, Kind.YEAR))
_UNSIGNED = frozenset((Kind.BIT, Kind.ENUM, Kind.SET))


@dataclass(frozen=True)
class SelectList:
    """The columns of a table, as they are asked for and as they come into the lake.

    Parameters
    ----------
    table : Table
    expressions : tuple of str
        SQL, one for each column.
    """

    table: Table
    expressions: tuple[str, ...]

    @classmethod
    def of(cls, definition: TableSchema, *, mariadb: bool) -> SelectList:
        """Of a table's definition.

        Raises
        ------
        SchemaError
            A column is of a type that only a log tells.
        """
        table = table_without_rows(definition, mariadb=mariadb)
        if table is None:
            raise SchemaError("a column is of a type that cannot be copied", table=definition.full_name)
        named = zip(table.columns, definition.columns, strict=True)
        return cls(table, tuple(_expression(column, known) for column, known in named))

    @property
    def schema(self) -> pa.Schema:
        """Of the table in the lake."""
        pa = import_pyarrow()
        own = lake_schema(self.table.columns)
        return pa.schema([own.field(i) for i in range(len(self.table.columns))])

    def batch(self, rows: Sequence[tuple[bytes | None, ...]]) -> pa.RecordBatch:
        """Rows as the lake has them.

        Raises
        ------
        DecodeError
            A value is none of its column's type.
        """
        pa = import_pyarrow()
        values = zip(*rows, strict=True) if rows else [()] * len(self.table.columns)
        arrays = []
        for column, one in zip(self.table.columns, values, strict=True):
            try:
                arrays.append(converted(pa.array(one, pa.binary()), column))
            except (ValueError, OverflowError) as error:  # pyarrow's are such
                raise DecodeError(
                    f"the server sends what is not a {column.kind.name}: {type(error).__name__}",
                    table=self.table.full_name,
                    column=column.name,
                ) from None
        return pa.record_batch(arrays, schema=self.schema)


def quoted(name: str) -> str:
    """A name in SQL."""
    return "`" + name.replace("`", "``") + "`"


def _expression(column: Column, known: ColumnSchema) -> str:
    name = quoted(column.name)
    if column.kind in (Kind.FLOAT, Kind.DOUBLE):
        return f"{name} * 1e0"  # as it is a FLOAT is sent with six digits
    if column.kind in _UNSIGNED:
        return f"CAST({name} AS UNSIGNED)"
    if known.zerofill:
        return f"{name} + 0"
    if known.type_name in FIXED_BINARY:
        return f"CAST({name} AS BINARY({FIXED_BINARY[known.type_name]}))"
    return name


def converted(values: pa.Array, column: Column) -> pa.Array:
    """A column as the server sends it, in the type that it has in the lake.

    Parameters
    ----------
    values : pyarrow.Array of binary
    column : Column

    Raises
    ------
    ValueError
        A value is none of that type.
    """
    pa = import_pyarrow()
    kind, wanted = column.kind, lake_type(column)
    if kind in _NUMBERS:
        return values.cast(pa.string()).cast(wanted)
    if kind in (Kind.FLOAT, Kind.DOUBLE):
        return values.cast(pa.string()).cast(pa.float64()).cast(wanted)
    if kind is Kind.BIT:
        text = values.cast(pa.string())
        return text.cast(pa.uint8()).cast(wanted) if wanted == pa.bool_() else text.cast(wanted)
    if kind in (Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP):
        return _dates(values, column.fsp if kind is not Kind.DATE else -1).cast(wanted)
    if kind is Kind.TIME:
        return _times(values)
    if kind is Kind.ENUM:
        return _members(values, column, wanted)
    if kind is Kind.SET:
        return _sets(values, column, wanted)
    if kind is Kind.TEXT:
        return _text(values, column)
    if kind is Kind.JSON:
        return values.cast(pa.string())
    if kind is Kind.GEOMETRY:
        return _geometries(values, wanted)
    if kind is Kind.VECTOR:
        vectors = [None if one is None else np.frombuffer(one, "<f4") for one in values.to_pylist()]
        return pa.array(vectors, wanted)
    return values


def _fixed(values: pa.Array, length: int) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Values of one length as rows of bytes, and which of them are NULL (those are zeros)."""
    import pyarrow.compute as pc

    nulls = np.asarray(values.is_null())
    filled = pc.fill_null(values, b"0" * length)
    data = np.frombuffer(b"".join(filled.to_pylist()), np.uint8)
    if len(data) != length * len(values):
        raise ValueError("a value of another length")
    return data.reshape(len(values), length), nulls


def _number(digits: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Rows of decimal digits as numbers."""
    if digits.size and (digits.min() < ord("0") or digits.max() > ord("9")):
        raise ValueError("a digit was expected")
    out = np.zeros(len(digits), np.int64)
    for i in range(digits.shape[1]):
        out = out * 10 + (digits[:, i] - ord("0"))
    return out


def _dates(values: pa.Array, fsp: int) -> pa.Array:
    """``2026-11-22 10:11:12.123`` as timestamps; null where no calendar has the date."""
    pa = import_pyarrow()
    length = _DATE_LEN if fsp < 0 else 19 + (fsp > 0) + fsp
    text, nulls = _fixed(values, length)
    year, month, day = _number(text[:, 0:4]), _number(text[:, 5:7]), _number(text[:, 8:10])
    wrong = nulls | (year < 1) | (month < 1) | (month > 12) | (day < 1)
    months = np.where(wrong, 0, (year - 1970) * 12 + month - 1).astype("M8[M]")
    days = months.astype("M8[D]") + np.where(wrong, 0, day - 1)
    wrong |= days.astype("M8[M]") != months
    if fsp < 0:
        return pa.array(days, pa.date32(), mask=wrong)
    micros = _number(text[:, 11:13]) * 3600 + _number(text[:, 14:16]) * 60 + _number(text[:, 17:19])
    micros *= 1_000_000
    if fsp:
        micros += _number(text[:, 20:]) * 10 ** (6 - fsp)
    return pa.array(days.astype("M8[us]") + micros, pa.timestamp("us"), mask=wrong)


def _times(values: pa.Array) -> pa.Array:
    """``-838:59:59.5`` as microseconds."""
    import pyarrow.compute as pc

    pa = import_pyarrow()
    pattern = r"^(?P<sign>-?)(?P<h>\d+):(?P<m>\d+):(?P<s>\d+)\.?(?P<f>\d*)$"
    parts = pc.extract_regex(values.cast(pa.string()), pattern)
    if parts.null_count != values.null_count:
        raise ValueError("a time was expected")
    hours, minutes, seconds = (pc.struct_field(parts, name).cast(pa.int64()) for name in "hms")
    fraction = pc.utf8_rpad(pc.struct_field(parts, "f"), 6, "0").cast(pa.int64())
    whole = pc.add(pc.multiply(pc.add(pc.multiply(hours, 60), minutes), 60), seconds)
    micros = pc.add(pc.multiply(whole, 1_000_000), fraction)
    negative = pc.equal(pc.struct_field(parts, "sign"), "-")
    return pc.if_else(negative, pc.negate(micros), micros).cast(pa.int64())


def _members(values: pa.Array, column: Column, wanted: pa.DataType) -> pa.Array:
    pa = import_pyarrow()
    numbers = values.cast(pa.string()).cast(pa.int32())
    if column.members is None:
        return numbers.cast(wanted)
    return pa.array(["", *column.members], pa.string()).take(numbers).cast(wanted)


def _sets(values: pa.Array, column: Column, wanted: pa.DataType) -> pa.Array:
    pa = import_pyarrow()
    text = values.cast(pa.string())
    if column.members is None:
        return text.cast(wanted)
    masks = text.cast(pa.uint64()).dictionary_encode()
    members = column.members
    known = [
        [name for i, name in enumerate(members) if mask >> i & 1] for mask in masks.dictionary.to_pylist()
    ]
    return pa.array(known, wanted).take(masks.indices)


def _text(values: pa.Array, column: Column) -> pa.Array:
    pa = import_pyarrow()
    charset = charsets.get(column.charset or "")
    if charset is None:
        raise ValueError("text in an unknown character set")
    if charset.name in ("utf8mb4", "utf8mb3", "ascii"):
        return values.cast(pa.string())
    return pa.array([None if one is None else charset.decode(one) for one in values.to_pylist()], pa.string())


def _geometries(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    pa = import_pyarrow()
    found = [
        None if one is None else {"srid": int.from_bytes(one[:4], "little"), "wkb": one[4:]}
        for one in values.to_pylist()
    ]
    return pa.array(found, wanted)
