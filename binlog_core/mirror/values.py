"""A server's answers to SELECT, as the values that its log has for the same rows.

Text comes as it is stored (``character_set_results=NULL``) and is decoded by the same tables as text in the
log; numbers that a server would round in its answer are selected in another form. So a row has the same
values whether it was copied or replayed.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core import _result_set as core
from .._tables.column_types import Kind
from .._tables.tables import Column, Table
from .._tables.transcoding import converter, encoding_of, utf8_table
from ..errors import DecodeError, SchemaError
from ..lake.rows.types import import_pyarrow, lake_schema, lake_type
from ..schema.table_definitions import ColumnSchema, TableSchema
from ..schema.without_rows import table_without_rows
from ..server.connection import Connection
from ..server.result_set import Rows
from .columns import EVERY_COLUMN, ColumnRules

if TYPE_CHECKING:
    import pyarrow as pa

_SESSION = (
    "SET SESSION time_zone = '+00:00', sql_mode = '', character_set_results = NULL,"
    " net_write_timeout = 3600, net_read_timeout = 3600"
    " /*!50708 , max_execution_time = 0 */ /*M!100101 , max_statement_time = 0 */"
)
FIXED_BINARY = {"uuid": 16, "inet6": 16, "inet4": 4}
_UNSIGNED = frozenset((Kind.BIT, Kind.ENUM, Kind.SET))
_TEMPORAL = {
    Kind.DATE: core.DATE,
    Kind.DATETIME: core.DATETIME,
    Kind.TIMESTAMP: core.DATETIME,
    Kind.TIME: core.TIME,
}


@dataclass(frozen=True)
class SelectList:
    """The columns of a table, as they are selected and as the lake has them.

    Parameters
    ----------
    table : Table
        The table.
    expressions : tuple of str
        The expressions to select, one for each column.
    rules : ColumnRules
        What becomes of the columns; those that the lake lacks are not among `table`'s any more.
    """

    table: Table
    expressions: tuple[str, ...]
    rules: ColumnRules = EVERY_COLUMN

    @classmethod
    def of(
        cls,
        definition: TableSchema,
        *,
        mariadb: bool,
        without: Collection[str] = (),
        rules: ColumnRules = EVERY_COLUMN,
    ) -> SelectList:
        """The columns of a table's definition.

        Parameters
        ----------
        definition : TableSchema
        mariadb : bool
            Whether the server is MariaDB.
        without : collection of str
            The names of columns that are left out: they are null.
        rules : ColumnRules
            What becomes of the columns.

        Raises
        ------
        SchemaError
            A column has a type whose layout only a log shows.
        """
        table = table_without_rows(definition, mariadb=mariadb)
        if table is None:
            raise SchemaError("a column's type cannot be copied", table=definition.full_name)
        named = [
            (column, "NULL" if column.name in without else _expression(column, known))
            for column, known in zip(table.columns, definition.columns, strict=True)
            if rules.keeps(column.name)
        ]
        columns = tuple(column for column, _ in named)
        return cls(replace(table, columns=columns), tuple(sql for _, sql in named), rules)

    @property
    def lake_schema(self) -> pa.Schema:
        """The schema of the table in the lake."""
        return self.rules.schema(self.schema)

    @property
    def schema(self) -> pa.Schema:
        """The columns that are selected, in the types of the lake."""
        pa = import_pyarrow()
        own = lake_schema(self.table.columns)
        return pa.schema([own.field(i) for i in range(len(self.table.columns))])

    def batch(self, rows: Rows) -> pa.RecordBatch:
        """Rows in the types of the lake.

        Raises
        ------
        DecodeError
            A value does not have its column's type.
        """
        pa = import_pyarrow()
        arrays = []
        for number, column in enumerate(self.table.columns):
            try:
                arrays.append(_converted(rows, number, column))
            except (ValueError, OverflowError, IndexError) as error:  # pyarrow's errors are ValueErrors
                raise DecodeError(
                    f"the server's value is not a {column.kind.name}: {type(error).__name__}",
                    table=self.table.full_name,
                    column=column.name,
                ) from None
        return pa.record_batch(arrays, schema=self.schema)


def set_for_reading(connection: Connection) -> None:
    """Give a session the settings for reading tables, whatever the server's defaults are.

    Values are not converted, cut or padded, queries have no time limit, and rows are read only after they
    were committed, since the log does not have what is rolled back.
    """
    connection.query(_SESSION)
    connection.query("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")


def quoted(name: str) -> str:
    """A name in SQL."""
    return "`" + name.replace("`", "``") + "`"


def _expression(column: Column, known: ColumnSchema) -> str:
    name = quoted(column.name)
    if column.kind in (Kind.FLOAT, Kind.DOUBLE):
        return f"{name} * 1e0"  # otherwise a FLOAT is sent with six digits
    if column.kind in _UNSIGNED:
        return f"CAST({name} AS UNSIGNED)"
    if known.zerofill:
        return f"{name} + 0"
    if known.type_name in FIXED_BINARY:
        return f"CAST({name} AS BINARY({FIXED_BINARY[known.type_name]}))"
    return name


def _converted(rows: Rows, number: int, column: Column) -> pa.Array:
    """A column as the server sends it, in the type that it has in the lake."""
    pa = import_pyarrow()
    kind, wanted = column.kind, lake_type(column)
    if (kind is Kind.INT and column.dtype.kind == "u") or kind in _UNSIGNED:
        numbers = _column(rows, number, core.UNSIGNED, pa.uint64())
        if kind is Kind.ENUM:
            return _members(numbers, column, wanted)
        if kind is Kind.SET:
            return _sets(numbers, column, wanted)
        return numbers.cast(pa.uint8()).cast(wanted) if wanted == pa.bool_() else numbers.cast(wanted)
    if kind in (Kind.INT, Kind.YEAR):
        return _column(rows, number, core.SIGNED, pa.int64()).cast(wanted)
    if pa.types.is_decimal(wanted):
        return _column(rows, number, core.DECIMAL, wanted, precision=column.precision, scale=column.scale)
    if kind in _TEMPORAL:
        return _column(rows, number, _TEMPORAL[kind], wanted)
    if kind is Kind.TEXT and encoding_of(column.charset) == "table":
        charset, keeps_ascii = utf8_table(column.charset or "")
        return _column(rows, number, core.BYTES, wanted, charset=charset, keeps_ascii=keeps_ascii)
    values = _column(rows, number, core.BYTES, pa.binary())
    if kind in (Kind.FLOAT, Kind.DOUBLE):
        return values.cast(pa.string()).cast(pa.float64()).cast(wanted)
    if kind is Kind.TEXT:
        return _text(values, column)
    if kind in (Kind.JSON, Kind.DECIMAL):
        return values.cast(pa.string())
    if kind is Kind.GEOMETRY:
        return _geometries(values, wanted)
    if kind is Kind.VECTOR:
        vectors = [None if one is None else np.frombuffer(one, "<f4") for one in values.to_pylist()]
        return pa.array(vectors, wanted)
    if kind is Kind.BINARY:
        return values
    raise KeyError(kind)


def _column(rows: Rows, number: int, format: int, wanted: pa.DataType, **options: Any) -> pa.Array:
    pa = import_pyarrow()
    null_count, *buffers = rows.column(number, format, **options)
    if format != core.BYTES:
        del buffers[1]  # offsets
    held = [None if one is None else pa.py_buffer(one) for one in buffers]
    return pa.Array.from_buffers(wanted, rows.count, held, null_count)


def _members(numbers: pa.Array, column: Column, wanted: pa.DataType) -> pa.Array:
    pa = import_pyarrow()
    if column.members is None:
        return numbers.cast(wanted)
    return pa.array(["", *column.members], pa.string()).take(numbers)


def _sets(masks: pa.Array, column: Column, wanted: pa.DataType) -> pa.Array:
    pa = import_pyarrow()
    if column.members is None:
        return masks.cast(wanted)
    masks = masks.dictionary_encode()
    members = column.members
    known = [
        [name for i, name in enumerate(members) if mask >> i & 1] for mask in masks.dictionary.to_pylist()
    ]
    return pa.array(known, wanted).take(masks.indices)


def _text(values: pa.Array, column: Column) -> pa.Array:
    pa = import_pyarrow()
    if encoding_of(column.charset) == "utf8":
        return values.cast(pa.string())
    convert = converter(column, "raise")
    return pa.array([None if one is None else convert(one) for one in values.to_pylist()], pa.binary()).cast(
        pa.string()
    )


def _geometries(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    pa = import_pyarrow()
    found = [
        None if one is None else {"srid": int.from_bytes(one[:4], "little"), "wkb": one[4:]}
        for one in values.to_pylist()
    ]
    return pa.array(found, wanted)
