"""Definitions of tables and columns, as CREATE TABLE text gives them.

Source: MySQL manual, "CREATE TABLE Statement", "Data Types"; MariaDB knowledge base,
"CREATE TABLE", "Data Types".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from .._tables import charsets
from .._tables.full_names import full_name
from ..errors import SchemaError

UTF8MB4_BIN = 46

# The servers' own limits, or more: no table can exceed them.
MOST_COLUMNS = 4096
MOST_UNIQUE_KEYS = 255
MOST_KEY_COLUMNS = 64


@dataclass(frozen=True, slots=True)
class ColumnSchema:
    """One column of a table's definition.

    Parameters
    ----------
    name : str
        The column's name.
    type_name : str
        The server's own name of the type in lower case: "int" for INTEGER, "decimal" for NUMERIC.
    unsigned : bool or None
        Whether a number is unsigned; None for other types.
    length : int or None
        Characters of CHAR and VARCHAR, bytes of BINARY and VARBINARY, bits of BIT.
    precision, scale : int or None
        Digits of a DECIMAL in all, and after the point; also of FLOAT(M,D) and DOUBLE(M,D).
    fsp : int
        Fractional digits of a temporal type.
    charset : str or None
        The character set of text, ENUM and SET; None if the definition does not give one.
    collation_id : int or None
        The id of a collation of that character set.
    members : tuple of str or None
        The members of an ENUM or SET.
    nullable : bool or None
        Whether values can be NULL; None for a TIMESTAMP if that depends on the server's settings.
    generated : "virtual", "stored" or None
        The kind of a generated column; None for other columns.
    invisible, zerofill, compressed : bool
        Whether the column has these attributes.
    old_fraction : bool
        Whether it is marked as having MariaDB's own fractional layout.
    srid, dimensions : int or None
        The SRID of a geometry type, and the number of dimensions of a VECTOR.
    """

    name: str
    type_name: str
    unsigned: bool | None = None
    length: int | None = None
    precision: int | None = None
    scale: int | None = None
    fsp: int = 0
    charset: str | None = None
    collation_id: int | None = None
    members: tuple[str, ...] | None = None
    nullable: bool | None = True
    generated: str | None = None
    invisible: bool = False
    zerofill: bool = False
    compressed: bool = False
    old_fraction: bool = False
    srid: int | None = None
    dimensions: int | None = None

    def with_charset(self, charset: str | None) -> ColumnSchema:
        """The same column in another character set; its type changes as it does on the server."""
        if self.type_name not in CHARACTER_TYPES:
            return self
        collation = None if charset is None else charsets.default_collation(charset)
        if (charset, collation) == (self.charset, self.collation_id) and charset != "binary":
            return self  # definitions share the columns that stay as they are
        column = replace(self, charset=charset, collation_id=collation)
        if charset == "binary" and self.type_name in BINARY_TWINS:
            return replace(column, type_name=BINARY_TWINS[self.type_name], charset=None, collation_id=None)
        return column

    def holds_same(self, other: ColumnSchema, *, any_charset: bool = False) -> bool:
        """Whether another definition certainly leaves the values of this one as they are.

        Parameters
        ----------
        other : ColumnSchema
            The other definition; its name and where it is shown do not matter.
        any_charset : bool
            Whether its character set does not matter either.
        """
        if other.nullable is not True and other.nullable != self.nullable:
            return False
        if not any_charset and self.type_name in CHARACTER_TYPES and self.charset is None:
            return False
        ours = replace(self, name=other.name, nullable=other.nullable, invisible=other.invisible)
        if any_charset:
            ours = replace(ours, charset=other.charset, collation_id=other.collation_id)
        members = self.members is not None or self.type_name not in ("enum", "set")
        return members and replace(ours, compressed=other.compressed) == other


@dataclass(frozen=True, slots=True)
class UniqueKey:
    """A UNIQUE index.

    Parameters
    ----------
    name : str
        The index's name; "" until `with_keys` names it.
    columns : tuple of str
        The names of its columns, without expressions.
    whole : bool
        Whether every part is a whole column, not a prefix or an expression.
    """

    name: str
    columns: tuple[str, ...]
    whole: bool = True


@dataclass(frozen=True, slots=True)
class TableSchema:
    """The definition of one table.

    Parameters
    ----------
    database, name : str
        The names of the database and the table.
    columns : tuple of ColumnSchema
        The columns in the table's order, which is also that of the log.
    primary_key : tuple of str or None
        The names of its columns; None if there is no PRIMARY KEY.
    charset : str or None
        The table's default character set; None if the definition does not give one.
    unique_keys : tuple of UniqueKey
        The table's UNIQUE indexes.
    charset_assumed : bool
        Whether `charset` is the server's default when the table was made, because its database's is not
        known. It is dropped if the lengths in the log contradict it.
    """

    database: str
    name: str
    columns: tuple[ColumnSchema, ...]
    primary_key: tuple[str, ...] | None = None
    charset: str | None = None
    unique_keys: tuple[UniqueKey, ...] = ()
    charset_assumed: bool = False

    @property
    def row_key(self) -> tuple[str, ...] | None:
        """The columns that identify a row: the primary key, or else the first UNIQUE index without NULLs.

        The servers choose in the same way, so the primary key in their own metadata may be a UNIQUE index.
        """
        if self.primary_key is not None:
            return self.primary_key
        never_null = {column.name for column in self.columns if column.nullable is False}
        keys = (k.columns for k in self.unique_keys if k.whole and never_null.issuperset(k.columns))
        return next(keys, None)

    @property
    def full_name(self) -> str:
        """``database.table``."""
        return full_name(self.database, self.name)

    def position(self, column: str) -> int:
        """The index of a column; names are compared without regard to case, as servers do."""
        found = self.positions().get(column.casefold())
        if found is None:
            raise SchemaError(f"there is no such column in a table of {len(self.columns)}", column=column)
        return found

    def positions(self) -> dict[str, int]:
        """The index of each column by its case-folded name; for a name that occurs twice, the first index."""
        last = len(self.columns) - 1
        return {c.name.casefold(): last - i for i, c in enumerate(reversed(self.columns))}


# ---------------------------------------------------------------------------------------
# Types

INTEGER_TYPES = frozenset(("tinyint", "smallint", "mediumint", "int", "bigint"))
NUMERIC_TYPES = INTEGER_TYPES | {"decimal", "float", "double"}
TEXT_TYPES = ("tinytext", "text", "mediumtext", "longtext")
BLOB_TYPES = ("tinyblob", "blob", "mediumblob", "longblob")
CHARACTER_TYPES = frozenset(("char", "varchar", "enum", "set", *TEXT_TYPES))
GEOMETRY_TYPES = (
    *("geometry", "point", "linestring", "polygon"),
    *("multipoint", "multilinestring", "multipolygon", "geometrycollection"),
)
BINARY_TWINS = {"char": "binary", "varchar": "varbinary", **dict(zip(TEXT_TYPES, BLOB_TYPES, strict=True))}
_LOB_CAPACITY = (2**8 - 1, 2**16 - 1, 2**24 - 1, 2**32 - 1)


def smallest_lob(kind: tuple[str, ...], size: int) -> str:
    """The smallest TEXT or BLOB type for a number of bytes."""
    return next((name for name, most in zip(kind, _LOB_CAPACITY, strict=True) if size <= most), kind[-1])


def with_keys(
    table: TableSchema, primary_key: tuple[str, ...] | None, unique_keys: Iterable[UniqueKey]
) -> TableSchema:
    """The table with these keys.

    Their columns are spelled as the table spells them, those of the primary key cannot be NULL, and
    an index without a name gets that of its first column, as in the server.
    """

    unique_keys = tuple(unique_keys)
    if len(unique_keys) > MOST_UNIQUE_KEYS:
        raise SchemaError(f"{len(unique_keys)} UNIQUE indexes: at most {MOST_UNIQUE_KEYS} are possible")
    positions = table.positions() if primary_key or unique_keys else {}

    def spelled(names: tuple[str, ...]) -> tuple[str, ...]:
        if len(names) > MOST_KEY_COLUMNS:
            raise SchemaError(f"an index of {len(names)} columns: at most {MOST_KEY_COLUMNS} are possible")
        missing = next((name for name in names if name.casefold() not in positions), None)
        if missing is not None:
            raise SchemaError(f"there is no such column in a table of {len(table.columns)}", column=missing)
        return tuple(table.columns[positions[name.casefold()]].name for name in names)

    primary = spelled(primary_key) if primary_key else None
    columns = list(table.columns)
    for name in primary or ():
        i = positions[name.casefold()]
        if columns[i].nullable is not False:
            columns[i] = replace(columns[i], nullable=False)
    unique: list[UniqueKey] = []
    taken: set[str] = set()
    for key in unique_keys:
        names = spelled(key.columns)
        unique.append(UniqueKey(key.name or _index_name(names, taken), names, key.whole))
        taken.add(unique[-1].name.casefold())
    return replace(table, columns=tuple(columns), primary_key=primary, unique_keys=tuple(unique))


def _index_name(columns: tuple[str, ...], taken: set[str]) -> str:
    base = name = columns[0] if columns else "functional_index"
    number = 2
    while name.casefold() in taken:
        name, number = f"{base}_{number}", number + 1
    return name


def convert_charset(table: TableSchema, charset: str | None) -> TableSchema:
    """The table after ``CONVERT TO CHARACTER SET``; None: a set that is not known here."""
    columns = tuple(_convert_column(column, charset) for column in table.columns)
    return replace(table, charset=charset, charset_assumed=False, columns=columns)


def without_assumed_charset(table: TableSchema) -> TableSchema:
    """The table as its text alone defines it; columns without their own character set get none."""
    if not table.charset_assumed:
        return table
    assert table.charset is not None
    collation = charsets.default_collation(table.charset)
    columns = tuple(
        column.with_charset(None)
        if (column.charset, column.collation_id) == (table.charset, collation)
        else column
        for column in table.columns
    )
    return replace(table, charset=None, charset_assumed=False, columns=columns)


def _convert_column(column: ColumnSchema, charset: str | None) -> ColumnSchema:
    converted = column.with_charset(charset)
    before = charsets.get(column.charset) if column.charset is not None else None
    after = charsets.get(charset) if charset is not None else None
    if converted.type_name not in TEXT_TYPES or before is None or after is None:
        return converted
    # TEXT types grow so that as many characters fit as before.
    capacity = _LOB_CAPACITY[TEXT_TYPES.index(column.type_name)]
    grown = smallest_lob(TEXT_TYPES, capacity // before.max_char_len * after.max_char_len)
    if TEXT_TYPES.index(grown) > TEXT_TYPES.index(column.type_name):
        return replace(converted, type_name=grown)
    return converted
