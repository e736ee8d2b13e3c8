"""Information that a log lacks, from a given schema: names, signs, character sets and members.

A schema is CREATE TABLE text, a .sql file, or a server that is asked once. `apply` merges one of its tables
into the definition in a TABLE_MAP event.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from .._sources.places import is_server
from .._tables import charsets
from .._tables import column_types as ct
from .._tables.column_types import Kind
from .._tables.full_names import full_name, split_name
from .._tables.tables import Column, Table
from ..errors import SchemaError
from . import asked
from .create_table import Dialect, NotADefinition, read_table_body
from .ddl import DdlTracker
from .table_definitions import (
    BLOB_TYPES,
    GEOMETRY_TYPES,
    TEXT_TYPES,
    UTF8MB4_BIN,
    ColumnSchema,
    TableSchema,
    without_assumed_charset,
)
from .tokens import TokenReader, tokenize_statements

__all__ = ["ColumnSchema", "Schema", "TableSchema", "apply", "parse_create_table"]

_GONE = frozenset((1049, 1146))  # errors: no such database, no such table (dropped since it was listed)
_SYSTEM_DATABASES = ("information_schema", "mysql", "performance_schema", "sys")


class Schema:
    """Table definitions by database and name.

    Parameters
    ----------
    tables : iterable of TableSchema
        A later definition of a table replaces an earlier one.

    Attributes
    ----------
    keys : dict of (str, str) to str
        For a schema given as a mapping, the mapping's key for each table.
    """

    def __init__(self, tables: Iterable[TableSchema] = ()) -> None:
        self._tables = {(table.database, table.name): table for table in tables}
        self.keys: dict[tuple[str, str], str] = {}

    @classmethod
    def load(cls, given: Mapping[str, str] | str | os.PathLike[str] | Schema) -> Schema:
        """The definitions of a ``schema=`` argument.

        Parameters
        ----------
        given : dict, path or URL
            A dict of "database.table" to CREATE TABLE text; the path of a .sql file (a dump, or statements
            in any order that a server would accept: USE, CREATE, ALTER, RENAME and DROP are followed); or
            ``mysql://user:password@host:port/database``, from which the definitions are read once (without
            a database, those of all databases except the system's own); options as for a log's server.

        Raises
        ------
        SchemaError
            A definition cannot be read, or a file or server cannot be reached.
        MissingExtraError
            PyMySQL is needed for a URL and is not installed.
        TypeError
            `given` is none of these.
        """
        if isinstance(given, Schema):
            return given
        if isinstance(given, Mapping):
            defined = [(key, table) for key, sql in given.items() for table in _of_key(key, sql)]
            schema = cls(table for _, table in defined)
            schema.keys = {(table.database, table.name): key for key, table in defined}
            return schema
        if not isinstance(given, str | os.PathLike):
            raise TypeError(
                "a schema is a dict of 'database.table' to CREATE TABLE text, the path of a .sql file or a"
                f" server's URL, not {type(given).__name__}"
            )
        text = os.fspath(given)
        if is_server(text):
            return cls(asked.tables_of(text))
        return cls(_from_file(text))

    def definition(self, database: str, table: str) -> TableSchema | None:
        """The definition of a table; None if the schema does not have it."""
        return self._tables.get((database, table))

    def __iter__(self) -> Iterator[TableSchema]:
        return iter(self._tables.values())

    def __len__(self) -> int:
        return len(self._tables)


# ---------------------------------------------------------------------------------------
# Reading


def parse_create_table(sql: str, database: str, table: str | None = None) -> TableSchema:
    """One table from its CREATE TABLE text.

    Parameters
    ----------
    sql : str
        The text, from SHOW CREATE TABLE or as someone wrote it.
    database : str
        The database of the table if the text does not name one.
    table : str or None
        The name that the table gets; None keeps the one in the text.

    Raises
    ------
    SchemaError
        The text is not a CREATE TABLE statement, or cannot be read.
    """
    name = full_name(database, table) if table is not None else None
    try:
        statements = tokenize_statements(sql)
        reader = TokenReader(next(statements, ()))
        if not reader.accept("CREATE"):
            raise reader.unexpected("CREATE TABLE")
        reader.accept("OR", "REPLACE")
        reader.accept("TEMPORARY")
        if not reader.accept("TABLE"):
            raise reader.unexpected("CREATE TABLE")
        reader.accept("IF", "NOT", "EXISTS")
        written_database, written_table = reader.qualified_name(database)
        if table is not None:
            written_database, written_table = database, table
        name = full_name(written_database, written_table)
        definition = read_table_body(reader, written_database, written_table, Dialect())
        if next(statements, None) is not None:
            raise SchemaError("expected one CREATE TABLE statement, found several statements")
        return definition
    except NotADefinition:
        raise SchemaError("the columns come from a SELECT; give SHOW CREATE TABLE", table=name) from None
    except SchemaError as error:
        raise SchemaError(error.message, table=name, column=error.column) from None


def _of_key(key: str, sql: str) -> Iterator[TableSchema]:
    # Either name may have dots itself: without quotes the table is known under each way to divide the key.
    if not isinstance(key, str):
        raise TypeError(f"a schema's keys are 'database.table', not {key!r}")
    divided = [(key[:i], key[i + 1 :]) for i in range(1, len(key) - 1) if key[i] == "."]
    if "`" in key and divided:
        divided = [split_name(key)]
    if not divided:
        raise SchemaError(f"a schema's keys are 'database.table', not {key!r}", table=key)
    if not isinstance(sql, str):
        raise SchemaError(f"expected CREATE TABLE text, found {type(sql).__name__}", table=key)
    for database, table in divided:
        yield parse_create_table(sql, database, table)


def _from_file(path: str) -> Iterable[TableSchema]:
    try:
        with open(path, encoding="utf-8-sig", errors="surrogateescape") as file:
            sql = file.read()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", "not a path")
        raise SchemaError(f"the schema file cannot be read: {why}", path=path) from error
    tracker = DdlTracker(lower_case=False)
    database = ""
    try:
        for number, tokens in enumerate(tokenize_statements(sql), start=1):
            reader = TokenReader(tokens)
            if reader.accept("USE"):
                database = reader.name()
            else:
                tracker.apply_reader(database, reader, position=number)
    except SchemaError as error:
        raise SchemaError(error.message, path=path) from None
    if tracker.unfollowed:
        first = tracker.unfollowed[0]
        reason = f"statement {first.position} of the file: {first.reason}"
        raise SchemaError(reason, path=path, table=first.table)
    tables = list(tracker)
    if not tables:
        raise SchemaError("the file defines no table", path=path)
    for table in tables:
        if not table.database:
            message = "neither USE nor the table's name gives the database"
            raise SchemaError(message, path=path, table=table.name)
    return tables


def read_definitions(
    query: Callable[[str], Iterable[tuple[Any, ...]]],
    wanted: str = "",
    chosen: Callable[[str], bool] = lambda name: True,
) -> list[TableSchema]:
    """The definitions of a server's tables.

    Parameters
    ----------
    query : callable
        Takes a statement and returns its rows, which begin with two texts; the caller handles its errors.
    wanted : str
        The database; "" stands for all except the system's own.
    chosen : callable
        Whether a table is asked for, by its ``database.table``.
    """
    # SHOW CREATE TABLE, since information_schema lacks MariaDB's mark of its old fractional types.
    query("SET SESSION sql_mode = ''")
    names = query(
        "SELECT table_schema, table_name FROM information_schema.tables"
        " WHERE table_type IN ('BASE TABLE', 'SYSTEM VERSIONED', 'SEQUENCE')"
    )
    tables = []
    for database, table, *_ in names:
        in_place = database == wanted if wanted else database.lower() not in _SYSTEM_DATABASES
        if in_place and chosen(full_name(database, table)):
            quoted = ".".join("`" + name.replace("`", "``") + "`" for name in (database, table))
            try:
                shown = [text for _, text, *_ in query(f"SHOW CREATE TABLE {quoted}")]
            except Exception as error:
                if _GONE.isdisjoint((getattr(error, "code", None), *error.args[:1])):
                    raise
                continue
            if not shown:
                raise SchemaError("the server does not show the definition", table=f"{database}.{table}")
            tables.append(parse_create_table(shown[0], database, table))
    return tables


# ---------------------------------------------------------------------------------------
# Merging into a table of the log

_STRINGS = frozenset(
    (
        *(ct.MYSQL_TYPE_VARCHAR, ct.MYSQL_TYPE_VAR_STRING, ct.MYSQL_TYPE_STRING),
        *(ct.MYSQL_TYPE_TINY_BLOB, ct.MYSQL_TYPE_BLOB, ct.MYSQL_TYPE_MEDIUM_BLOB, ct.MYSQL_TYPE_LONG_BLOB),
        *(ct.MYSQL_TYPE_VARCHAR_COMPRESSED, ct.MYSQL_TYPE_BLOB_COMPRESSED),
    )
)
_FIXED_BINARY = {"uuid": 16, "inet6": 16, "inet4": 4}
# The type codes that a declared type may have in the log. A server may make a blob of a string
# (VARCHAR(70000) becomes MEDIUMTEXT), so these are one family.
_CODES: dict[str, frozenset[int]] = {
    "tinyint": frozenset((ct.MYSQL_TYPE_TINY,)),
    "smallint": frozenset((ct.MYSQL_TYPE_SHORT,)),
    "mediumint": frozenset((ct.MYSQL_TYPE_INT24,)),
    "int": frozenset((ct.MYSQL_TYPE_LONG,)),
    "bigint": frozenset((ct.MYSQL_TYPE_LONGLONG,)),
    "float": frozenset((ct.MYSQL_TYPE_FLOAT,)),
    "double": frozenset((ct.MYSQL_TYPE_DOUBLE,)),
    "decimal": frozenset((ct.MYSQL_TYPE_NEWDECIMAL, ct.MYSQL_TYPE_DECIMAL)),
    "bit": frozenset((ct.MYSQL_TYPE_BIT,)),
    "year": frozenset((ct.MYSQL_TYPE_YEAR,)),
    "date": frozenset((ct.MYSQL_TYPE_DATE, ct.MYSQL_TYPE_NEWDATE)),
    "time": frozenset((ct.MYSQL_TYPE_TIME, ct.MYSQL_TYPE_TIME2)),
    "datetime": frozenset((ct.MYSQL_TYPE_DATETIME, ct.MYSQL_TYPE_DATETIME2)),
    "timestamp": frozenset((ct.MYSQL_TYPE_TIMESTAMP, ct.MYSQL_TYPE_TIMESTAMP2)),
    "enum": frozenset((ct.MYSQL_TYPE_ENUM,)),
    "set": frozenset((ct.MYSQL_TYPE_SET,)),
    "json": _STRINGS | {ct.MYSQL_TYPE_JSON},
    "vector": frozenset((ct.MYSQL_TYPE_VECTOR, ct.MYSQL_TYPE_VARCHAR)),
    **dict.fromkeys(_FIXED_BINARY, frozenset((ct.MYSQL_TYPE_STRING,))),
    **dict.fromkeys(GEOMETRY_TYPES, frozenset((ct.MYSQL_TYPE_GEOMETRY,))),
    **dict.fromkeys(("char", "varchar", "binary", "varbinary", *TEXT_TYPES, *BLOB_TYPES), _STRINGS),
}
_OLD_TEMPORAL = frozenset((ct.MYSQL_TYPE_TIME, ct.MYSQL_TYPE_DATETIME, ct.MYSQL_TYPE_TIMESTAMP))
_GENERATED_INVISIBLE_KEY = 0x0004  # TABLE_MAP flag: the first column is MySQL's own my_row_id


def apply(table: Table, schema: TableSchema) -> Table:
    """The table in the log, with the additions of its schema.

    Names, signs, character sets and members that the log itself has are kept; the schema adds the rest, and
    the types that TABLE_MAP has no code for.

    Parameters
    ----------
    table : Table
        The table from a TABLE_MAP event.
    schema : TableSchema
        The table's definition.

    Returns
    -------
    Table

    Raises
    ------
    SchemaError
        The number of columns, their names or a type differ from the log: the schema is from another time, or
        of another table.
    """
    columns = schema.columns
    if table.flags & _GENERATED_INVISIBLE_KEY and len(columns) == len(table.columns) - 1:
        # SHOW CREATE TABLE hides it with show_gipk_in_create_table_and_information_schema=OFF.
        columns = (
            ColumnSchema("my_row_id", "bigint", unsigned=True, nullable=False, invisible=True),
            *columns,
        )
    if len(columns) != len(table.columns):
        raise SchemaError(
            f"the schema has {len(columns)} columns, the log {len(table.columns)}: an ALTER TABLE lies"
            ' between them. schema="ddl" follows it; schema_start= has the tables older than the logs',
            table=table.full_name,
        )
    if schema.charset_assumed and any(
        _length_difference(column, known) for column, known in zip(table.columns, columns, strict=True)
    ):
        return apply(table, without_assumed_charset(schema))
    merged = tuple(_merge(table, column, known) for column, known in zip(table.columns, columns, strict=True))
    names: set[str] = set()
    for column in merged:
        if column.name in names:  # the log names some of the columns only, as no server does
            raise SchemaError(
                "the schema gives two columns the same name", table=table.full_name, column=column.name
            )
        names.add(column.name)
    primary_key = table.primary_key
    if primary_key is None and (row_key := schema.row_key) is not None:
        # By position, since the log's own names win.
        positions = {column.name: i for i, column in enumerate(columns)}
        primary_key = tuple(merged[positions[name]].name for name in row_key)
    return replace(table, columns=merged, primary_key=primary_key)


def _merge(table: Table, column: Column, known: ColumnSchema) -> Column:
    difference = _difference(column, known)
    if difference is not None:
        raise SchemaError(difference, table=table.full_name, column=known.name)
    charset, collation = known.charset, known.collation_id
    if known.type_name == "json" and column.type_code != ct.MYSQL_TYPE_JSON:
        charset, collation = "utf8mb4", UTF8MB4_BIN  # MariaDB: text
    elif known.type_name in ("binary", "varbinary", "vector", *BLOB_TYPES, *_FIXED_BINARY):
        charset, collation = "binary", charsets.BINARY_COLLATION
    changes: dict[str, object] = {"declared_type": known.type_name}
    if not column.named:
        changes |= {"name": known.name, "named": True}
    if column.signed is None and known.unsigned is not None:
        changes["signed"] = not known.unsigned
    if column.nullable is None:
        changes["nullable"] = known.nullable
    if column.visible is None:
        changes["visible"] = not known.invisible
    if column.members is None:
        changes["members"] = known.members
    if column.collation is None and column.type_code in _STRINGS | {ct.MYSQL_TYPE_ENUM, ct.MYSQL_TYPE_SET}:
        changes |= {"collation": collation, "charset": charset}
        if column.type_code in _STRINGS:
            text = charsets.get(charset) if charset is not None else None
            changes["kind"] = Kind.TEXT if text is not None and text.decodable else Kind.BINARY
    if known.type_name == "binary" and known.length is not None:
        changes["pad_to"] = known.length
    elif known.type_name in _FIXED_BINARY:
        changes["pad_to"] = _FIXED_BINARY[known.type_name]
    if column.type_code in _OLD_TEMPORAL and known.fsp:
        changes |= {"fsp": known.fsp, "old_fraction": True}
    if column.geometry_type is None and known.type_name in GEOMETRY_TYPES:
        changes["geometry_type"] = GEOMETRY_TYPES.index(known.type_name)
    if column.dimensions is None and known.dimensions is not None:
        changes["dimensions"] = known.dimensions
    return replace(column, **changes)  # type: ignore[arg-type]


def with_charset(table: Table, charset: str) -> Table:
    """The table with this character set for columns that may be text and have no known character set."""
    collation = charsets.default_collation(charset)
    known = charsets.canonical_name(charset)
    return replace(
        table,
        columns=tuple(
            replace(column, kind=Kind.TEXT, collation=collation, charset=known)
            if column.kind is Kind.BINARY and column.charset is None and column.type_code in _STRINGS
            else column
            for column in table.columns
        ),
    )


def _difference(column: Column, known: ColumnSchema) -> str | None:
    """Why a declared type is impossible for a column of the log; None: it fits."""
    codes = _CODES.get(known.type_name)
    if codes is None:
        return None  # a type of a plugin or a later server: only the log knows its layout
    if column.type_code not in codes:
        found = ct.COLUMN_TYPES[column.type_code].name if column.type_code in ct.COLUMN_TYPES else "?"
        return f"the schema says {known.type_name}, the log type {column.type_code} ({found})"
    match known.type_name:
        case "decimal" if column.type_code == ct.MYSQL_TYPE_NEWDECIMAL and (known.precision, known.scale) != (
            column.precision,
            column.scale,
        ):
            return (
                f"the schema says decimal({known.precision},{known.scale}),"
                f" the log decimal({column.precision},{column.scale})"
            )
        case "bit" if known.length != column.length:
            return f"the schema says bit({known.length}), the log bit({column.length})"
        case "time" | "datetime" | "timestamp" if (
            column.type_code not in _OLD_TEMPORAL and known.fsp != column.fsp
        ):
            return f"the schema says {known.type_name}({known.fsp}), the log {column.fsp} fraction digits"
        case "uuid" | "inet6" | "inet4" if _FIXED_BINARY[known.type_name] != column.length:
            return f"the schema says {known.type_name}, the log binary({column.length})"
        case "enum" | "set" if known.members is not None:
            wanted = member_bytes(known.type_name, len(known.members))
            if wanted != column.length:
                return (
                    f"the schema's {known.type_name} has {len(known.members)} members ({wanted} bytes),"
                    f" the log's {column.length} bytes"
                )
    return _length_difference(column, known)


def member_bytes(type_name: str, count: int) -> int:
    """Bytes of a value of an ENUM or SET with this many members."""
    if type_name == "enum":
        return 1 if count < 256 else 2
    size = (count + 7) // 8
    return 8 if size > 4 else size


def _length_difference(column: Column, known: ColumnSchema) -> str | None:
    """Compare the bytes of CHAR, VARCHAR and their binary twins with the log's, if both are known."""
    if known.length is None or column.type_code not in (ct.MYSQL_TYPE_VARCHAR, ct.MYSQL_TYPE_STRING):
        return None
    if known.type_name in ("binary", "varbinary"):
        wanted = known.length
    elif known.type_name in ("char", "varchar"):
        charset = charsets.get(column.charset or known.charset or "")
        if charset is None or charset.name == "binary":
            return None
        wanted = known.length * charset.max_char_len
    else:
        return None
    # CHAR above 255 bytes was written wrong before 5.1.26.
    if wanted == column.length or (known.type_name in ("char", "binary") and wanted > 255):
        return None
    return f"the schema says {known.type_name} of {wanted} bytes, the log {column.length}"
