"""Tables of a given schema that a log has no row changes of: their columns, as a server would log them."""

from __future__ import annotations

from .._tables import charsets
from .._tables import column_types as ct
from .._tables.column_types import COLUMN_TYPES, Kind
from .._tables.tables import Column, Table
from ..errors import SchemaError
from .given import apply, member_bytes
from .table_definitions import BLOB_TYPES, GEOMETRY_TYPES, TEXT_TYPES, ColumnSchema, TableSchema

_CODES = {
    "tinyint": ct.MYSQL_TYPE_TINY,
    "smallint": ct.MYSQL_TYPE_SHORT,
    "mediumint": ct.MYSQL_TYPE_INT24,
    "int": ct.MYSQL_TYPE_LONG,
    "bigint": ct.MYSQL_TYPE_LONGLONG,
    "float": ct.MYSQL_TYPE_FLOAT,
    "double": ct.MYSQL_TYPE_DOUBLE,
    "decimal": ct.MYSQL_TYPE_NEWDECIMAL,
    "bit": ct.MYSQL_TYPE_BIT,
    "year": ct.MYSQL_TYPE_YEAR,
    "date": ct.MYSQL_TYPE_DATE,
    "time": ct.MYSQL_TYPE_TIME2,
    "datetime": ct.MYSQL_TYPE_DATETIME2,
    "timestamp": ct.MYSQL_TYPE_TIMESTAMP2,
    "char": ct.MYSQL_TYPE_STRING,
    "binary": ct.MYSQL_TYPE_STRING,
    "varchar": ct.MYSQL_TYPE_VARCHAR,
    "varbinary": ct.MYSQL_TYPE_VARCHAR,
    "enum": ct.MYSQL_TYPE_ENUM,
    "set": ct.MYSQL_TYPE_SET,
    "json": ct.MYSQL_TYPE_JSON,
    "vector": ct.MYSQL_TYPE_VECTOR,
    **dict.fromkeys(("uuid", "inet6", "inet4"), ct.MYSQL_TYPE_STRING),
    **dict.fromkeys((*TEXT_TYPES, *BLOB_TYPES), ct.MYSQL_TYPE_BLOB),
    **dict.fromkeys(GEOMETRY_TYPES, ct.MYSQL_TYPE_GEOMETRY),
}
_MARIADB_CODES = _CODES | {"json": ct.MYSQL_TYPE_BLOB, "vector": ct.MYSQL_TYPE_VARCHAR}
_OLD_FRACTION = {
    "time": ct.MYSQL_TYPE_TIME,
    "datetime": ct.MYSQL_TYPE_DATETIME,
    "timestamp": ct.MYSQL_TYPE_TIMESTAMP,
}
_LENGTHS = {"json": 4, "vector": 4, "uuid": 16, "inet6": 16, "inet4": 4, **dict.fromkeys(GEOMETRY_TYPES, 4)}
_LENGTHS |= {name: i + 1 for types in (TEXT_TYPES, BLOB_TYPES) for i, name in enumerate(types)}


def table_without_rows(schema: TableSchema, *, mariadb: bool) -> Table | None:
    """The table as `apply` would give it if the log had rows of it.

    Parameters
    ----------
    schema : TableSchema
        The table's definition.
    mariadb : bool
        Whether the server is MariaDB, where JSON is text and a vector is bytes.

    Returns
    -------
    Table or None
        The table; None if a column has a type whose layout only a log shows.
    """
    columns = []
    for index, known in enumerate(schema.columns):
        column = _column(index, known, mariadb=mariadb)
        if column is None:
            return None
        columns.append(column)
    try:
        return apply(Table(schema.database, schema.name, tuple(columns)), schema)
    except SchemaError:
        return None  # a definition that no server has


def _column(index: int, known: ColumnSchema, *, mariadb: bool) -> Column | None:
    name = known.type_name
    code = (_MARIADB_CODES if mariadb else _CODES).get(name)
    if known.old_fraction:
        code = _OLD_FRACTION.get(name, code)
    if code is None or (kind := COLUMN_TYPES[code].kind) is None:
        return None
    return Column(
        known.name,
        index,
        code,
        kind,
        length=_length(known),
        precision=known.precision or 0 if kind == Kind.DECIMAL else 0,
        scale=known.scale or 0 if kind == Kind.DECIMAL else 0,
        fsp=known.fsp,
        signed=False if kind == Kind.YEAR else None,
        named=False,
        compressed=known.compressed,
    )


def _length(known: ColumnSchema) -> int:
    if known.type_name in ("enum", "set"):
        return member_bytes(known.type_name, len(known.members or ()))
    if known.type_name in ("char", "varchar"):
        charset = charsets.get(known.charset or "")
        return (known.length or 0) * (1 if charset is None else charset.max_char_len)
    return _LENGTHS.get(known.type_name, known.length or 0)
