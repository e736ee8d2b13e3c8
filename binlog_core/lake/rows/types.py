"""Types of a lake: what each column is in Spark, Parquet, Delta and Iceberg, and how Arrow's convert.

One table for all interfaces. Lakes have no unsigned numbers, no decimals above 38 digits, no dictionaries and
no extension types, so these widen: `lake_type` says to what, `to_lake` converts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ..._base.change_columns import LAKE_COLUMNS
from ..._tables.column_types import Kind
from ..._tables.tables import Column, Table
from ...batch.arrow_types import ArrowField, arrow_field
from ...errors import DecodeError, MissingExtraError

if TYPE_CHECKING:
    import pyarrow as pa

KEY_METADATA = "binlog.primary_key"  # of a column: its place in the primary key, from 0
SPARK_METADATA = b"SPARK::metadata::json"
_MAX_PRECISION = 38  # of a decimal in a lake
_BIGINT_UNSIGNED_DIGITS = 20
# For each format of Arrow, the alias of the type in a lake.
_WIDENED = {
    "n": "null", "c": "int8", "C": "int16", "s": "int16", "S": "int32", "i": "int32", "I": "int64",
    "l": "int64", "f": "float", "g": "double", "tdD": "date32", "tsu:": "timestamp[us]", "tDu": "int64",
    "u": "string", "z": "binary", "w:16": "binary",
}  # fmt: skip
_NAMES = {
    "bool": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float": "float",
    "double": "double",
    "date32[day]": "date",
    "string": "string",
    "binary": "binary",
    "null": "void",
}


def lake_type(column: Column) -> pa.DataType:
    """The Arrow type of a column in a lake: one for which Spark has a type.

    Parameters
    ----------
    column : Column

    Returns
    -------
    pyarrow.DataType
        Signed numbers as they are, unsigned ones a size up, BIGINT UNSIGNED decimal(20, 0). DECIMAL decimal,
        above 38 digits string. BIT(1) bool, longer ones int64, BIT(64) decimal(20, 0). YEAR int32, DATE
        date32, DATETIME timestamp[us], TIMESTAMP timestamp[us, UTC], TIME int64 (microseconds). Text, JSON
        and ENUM string, SET list of string; if the log does not have the members, ENUM is int32 and SET the
        mask: int64, above 56 members decimal(20, 0). BINARY, UUID and INET binary, GEOMETRY struct of srid
        int32 and wkb binary, VECTOR list of float.
    """
    pa = import_pyarrow()
    match column.kind:
        case Kind.BIT if column.length < 64:  # Arrow has the smallest number that holds it
            return pa.bool_() if column.length == 1 else pa.int64()
        case Kind.SET if column.members is None and column.length < 8:
            return pa.int64()
        case Kind.GEOMETRY:
            return pa.struct([("srid", pa.int32()), ("wkb", pa.binary())])
    return _widened(arrow_field(column, vectors="list", wide_decimals="text"))


def _widened(field: ArrowField) -> pa.DataType:
    """The type of a lake that holds the values of an Arrow field."""
    pa = import_pyarrow()
    if field.dictionary is not None:
        return pa.string()
    if field.format == "+l":
        return pa.list_(pa.field("element", _widened(field.children[0])))
    if field.format.startswith("d:"):
        return pa.decimal128(*map(int, field.format[2:].split(",")))
    if field.format == "L":
        return pa.decimal128(_BIGINT_UNSIGNED_DIGITS, 0)
    if field.format == "tsu:UTC":
        return pa.timestamp("us", "UTC")
    return pa.type_for_alias(_WIDENED[field.format])


def lake_schema(columns: Iterable[Column]) -> pa.Schema:
    """The Arrow schema of rows in a lake: the table's columns, then those about the change.

    Parameters
    ----------
    columns : iterable of Column

    Returns
    -------
    pyarrow.Schema
        All fields nullable, as a Spark source declares them. `_change_type` string, `_commit_version` int64,
        `_commit_timestamp` timestamp[us, UTC], `_change_ordinal` int64.
    """
    pa = import_pyarrow()
    change_types = (pa.string(), pa.int64(), pa.timestamp("us", "UTC"), pa.int64())
    return pa.schema(
        [
            *((column.name, lake_type(column)) for column in columns),
            *zip(LAKE_COLUMNS, change_types, strict=True),
        ]
    )


def type_name(kind: pa.DataType) -> str:
    """The name of a lake's type in SQL: bigint, decimal(10,2), array<string> …"""
    pa = import_pyarrow()
    test = pa.types
    if test.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if test.is_list(kind):
        return f"array<{type_name(kind.value_type)}>"
    if test.is_struct(kind):
        return f"struct<{','.join(f'{one.name}:{type_name(one.type)}' for one in kind)}>"
    if test.is_timestamp(kind):
        return "timestamp_ntz" if kind.tz is None else "timestamp"
    return _NAMES[str(kind)]


def key_metadata(place: int) -> dict[bytes, bytes]:
    """Field metadata with a column's place in the primary key, from 0, in Spark's form."""
    return {SPARK_METADATA: json.dumps({KEY_METADATA: place}).encode()}


def named_key(schema: Iterable[Any]) -> tuple[str, ...]:
    """The primary key in the metadata of the columns of a DataFrame or table; empty if there is none."""
    places: dict[str, int] = {}
    for field in schema:
        metadata: Any = field.metadata or {}
        if SPARK_METADATA in metadata:
            metadata = json.loads(metadata[SPARK_METADATA])
        if KEY_METADATA in metadata:
            places[field.name] = int(metadata[KEY_METADATA])
    return tuple(sorted(places, key=places.__getitem__))


def to_lake(
    batch: pa.RecordBatch,
    schema: pa.Schema,
    table: Table,
    columns: Sequence[Column],
    *,
    path: str | None = None,
    most: int | None = None,
) -> pa.RecordBatch:
    """Record batch of ``ChangeBatch.export`` (VECTOR as list) in the types of a lake.

    Parameters
    ----------
    batch : pyarrow.RecordBatch
        The columns, then those about the change, in the order of `schema`.
    schema : pyarrow.Schema
        Of `lake_schema`.
    table, columns, path
        For errors: the table, its decoded columns and the log.
    most : int or None
        Bytes that the members of ENUM and SET may take, which are written out for each row here: the log's
        ``Limits.arrow_bytes``.

    Raises
    ------
    DecodeError
        A value does not fit (an SRID above 2**31, for example), or the members take more than `most`.
    """
    pa = import_pyarrow()
    arrays = []
    if most is not None and sum(_most_member_bytes(array) for array in batch.columns) > most:
        _refuse_members(batch, schema, most, path=path, table=table.full_name)
    for i, (array, field) in enumerate(zip(batch.columns, schema, strict=True)):
        try:
            arrays.append(_convert(array, field.type))
        except pa.ArrowInvalid as error:
            column = columns[i].name if i < len(columns) else field.name
            raise DecodeError(
                f"a value does not fit {field.type}: {error}", path=path, table=table.full_name, column=column
            ) from error
    return pa.record_batch(arrays, schema=schema)


def _references(array: pa.Array) -> pa.Array | None:
    """The dictionary array of an ENUM or SET column; None: it is neither."""
    types = import_pyarrow().types
    values = array.flatten() if types.is_list(array.type) else array
    return values if types.is_dictionary(values.type) and len(values.dictionary) else None


def _most_member_bytes(array: pa.Array) -> int:
    """The most bytes that an ENUM or SET column can take as text; 0 for others."""
    import pyarrow.compute as pc

    found = _references(array)
    return 0 if found is None else int(pc.max(pc.binary_length(found.dictionary)).as_py()) * len(found)


def _refuse_members(
    batch: pa.RecordBatch, schema: pa.Schema, most: int, *, path: str | None, table: str
) -> None:
    import pyarrow.compute as pc

    pa = import_pyarrow()
    taken = 0
    for array, field in zip(batch.columns, schema, strict=True):
        found = _references(array)
        if found is not None:
            lengths = pc.binary_length(found.dictionary).cast(pa.int64())
            taken += int(pc.sum(lengths.take(found.indices)).as_py() or 0)
        if taken > most:
            raise DecodeError(
                f"{len(array)} rows whose members take more than Limits.arrow_bytes={most}",
                path=path,
                table=table,
                column=field.name,
            )


def _convert(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    pa = import_pyarrow()
    if isinstance(array, pa.ExtensionArray):  # UUID, JSON
        array = array.storage
    if array.type == wanted:
        return array
    if pa.types.is_decimal256(array.type):
        # Arrow's own cast prints small numbers with an exponent.
        return pa.array([None if d is None else format(d, "f") for d in array.to_pylist()], wanted)
    return array.cast(wanted)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type that is written for one that a lake's library gives, such as a view or a large string."""
    pa = import_pyarrow()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(pa.field("element", plain_type(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, plain_type(field.type)) for field in kind])
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    return kind


def import_pyarrow() -> pa:
    """pyarrow.

    Raises
    ------
    MissingExtraError
        It is not installed.
    """
    try:
        import pyarrow
    except ImportError:
        raise MissingExtraError.of("pyarrow", "spark", "binlog_core.spark") from None
    return pyarrow
