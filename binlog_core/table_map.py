"""From a TABLE_MAP event to a Table: what its types, metadata and optional fields mean.

Fields of the optional metadata are lists over some of the columns only, and the two vendors
count differently which; that knowledge is here and nowhere else.

Source: MySQL server documentation, "Table_map_event"; MariaDB Knowledge Base, "TABLE_MAP_EVENT".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from . import charsets
from .column_types import (
    COLUMN_TYPES,
    MYSQL_TYPE_BIT,
    MYSQL_TYPE_BLOB,
    MYSQL_TYPE_BLOB_COMPRESSED,
    MYSQL_TYPE_DATETIME2,
    MYSQL_TYPE_DECIMAL,
    MYSQL_TYPE_ENUM,
    MYSQL_TYPE_GEOMETRY,
    MYSQL_TYPE_LONG_BLOB,
    MYSQL_TYPE_MEDIUM_BLOB,
    MYSQL_TYPE_NEWDECIMAL,
    MYSQL_TYPE_SET,
    MYSQL_TYPE_STRING,
    MYSQL_TYPE_TIME2,
    MYSQL_TYPE_TIMESTAMP2,
    MYSQL_TYPE_TINY_BLOB,
    MYSQL_TYPE_TYPED_ARRAY,
    MYSQL_TYPE_VAR_STRING,
    MYSQL_TYPE_VARCHAR,
    MYSQL_TYPE_VARCHAR_COMPRESSED,
    MYSQL_TYPE_VECTOR,
    MYSQL_TYPE_YEAR,
    Kind,
)
from .errors import DecodeError
from .tables import FLAG_GENERATED_PRIMARY_KEY, Column, Table

if TYPE_CHECKING:
    from ._table_map import TableMap

COLLATION_BINARY = 63

_BLOB_LENGTH_BYTES = {
    MYSQL_TYPE_TINY_BLOB: 1,
    MYSQL_TYPE_BLOB: 2,
    MYSQL_TYPE_MEDIUM_BLOB: 3,
    MYSQL_TYPE_LONG_BLOB: 4,
    MYSQL_TYPE_BLOB_COMPRESSED: 2,
}
_CHARACTER_TYPES = {
    MYSQL_TYPE_VARCHAR,
    MYSQL_TYPE_VAR_STRING,
    MYSQL_TYPE_STRING,
    MYSQL_TYPE_VARCHAR_COMPRESSED,
    *_BLOB_LENGTH_BYTES,
}
# Types that have an entry in the character set lists of one vendor only.
_MYSQL_CHARACTER_TYPES = _CHARACTER_TYPES | {MYSQL_TYPE_VECTOR}
_MARIADB_CHARACTER_TYPES = _CHARACTER_TYPES | {MYSQL_TYPE_GEOMETRY}
_FSP_TYPES = {MYSQL_TYPE_TIMESTAMP2, MYSQL_TYPE_DATETIME2, MYSQL_TYPE_TIME2}


def table_of(table_map: TableMap, *, flags: int, mariadb: bool) -> tuple[Table, list[str]]:
    """The Table that a TABLE_MAP event describes.

    Parameters
    ----------
    table_map : TableMap
    flags : int
        Of the event's post-header.
    mariadb : bool
        The server of the descriptor in force is a MariaDB.

    Returns
    -------
    (Table, notes)
        notes: what of the optional metadata did not fit and was left out.

    Raises
    ------
    DecodeError
        Metadata that no type has, or as many names as there are no columns.
    """
    notes: list[str] = []
    columns = [
        _column(i, code, table_map.column_metadata[i]) for i, code in enumerate(table_map.column_types)
    ]
    undecodable = next((_why_undecodable(c) for c in columns if c.type_code not in _DECODABLE), None)

    changes: list[dict[str, object]] = [{} for _ in columns]
    if table_map.null_bits is not None:
        for i, change in enumerate(changes):
            change["nullable"] = bool(table_map.null_bits[i >> 3] >> (i & 7) & 1)
    _add_signs(columns, changes, table_map.signedness, notes)
    _add_collations(columns, changes, table_map, mariadb, notes)
    _add_lists(columns, changes, table_map, notes)
    if table_map.column_visibility is not None:
        for i, visible in zip(range(len(columns)), _bits(table_map.column_visibility), strict=False):
            changes[i]["visible"] = visible
    named = _add_names(columns, changes, table_map, flags)

    columns = [replace(c, **change) for c, change in zip(columns, changes, strict=True)]  # type: ignore[arg-type]
    primary_key = None
    if table_map.primary_key is not None and named:
        if any(i >= len(columns) for i, _ in table_map.primary_key):
            raise DecodeError("the primary key names a column that the table does not have")
        primary_key = tuple(columns[i].name for i, _ in table_map.primary_key)
    return (
        Table(
            database=_text(table_map.database),
            name=_text(table_map.table),
            columns=tuple(with_kind_of_text(c) for c in columns),
            primary_key=primary_key,
            flags=flags,
            undecodable=undecodable,
        ),
        notes,
    )


def with_kind_of_text(column: Column) -> Column:
    """The column as its collation makes it: text where the character set is known, bytes otherwise."""
    if column.type_code not in _CHARACTER_TYPES:
        return column
    charset = charsets.charset_of(column.collation) if column.collation is not None else None
    known = charsets.get(charset) if charset is not None else None
    if column.collation == COLLATION_BINARY:
        pad_to = column.length if column.type_code == MYSQL_TYPE_STRING else 0
        return replace(column, kind=Kind.BINARY, charset="binary", pad_to=pad_to)
    text = known is not None and known.decodable
    return replace(column, kind=Kind.TEXT if text else Kind.BINARY, charset=charset, pad_to=0)


def _column(index: int, code: int, metadata: bytes) -> Column:
    """The column that a type byte and its metadata tell; metadata is empty in the oldest logs of 5.1."""
    known = COLUMN_TYPES.get(code)
    kind = known.kind if known is not None and known.kind is not None else Kind.BINARY
    length = precision = scale = fsp = 0
    if code == MYSQL_TYPE_STRING and not metadata:
        length = 255
    elif code in (MYSQL_TYPE_STRING, MYSQL_TYPE_ENUM, MYSQL_TYPE_SET):
        first, second = metadata
        if first in (MYSQL_TYPE_ENUM, MYSQL_TYPE_SET):
            code, length = first, second
            kind = Kind.ENUM if code == MYSQL_TYPE_ENUM else Kind.SET
        else:
            # Two bits of lengths above 255 hide, inverted, in the type byte.
            length = second | ((first & 0x30) ^ 0x30) << 4
        if (kind is Kind.ENUM and length not in (1, 2)) or (
            kind is Kind.SET and length not in (1, 2, 3, 4, 8)
        ):
            raise DecodeError(f"column {index}: {kind.name} of {length} bytes")
    elif code in (MYSQL_TYPE_VARCHAR, MYSQL_TYPE_VAR_STRING, MYSQL_TYPE_VARCHAR_COMPRESSED):
        length = int.from_bytes(metadata, "little") if metadata else 255
    elif code in _BLOB_LENGTH_BYTES or kind in (Kind.JSON, Kind.GEOMETRY, Kind.VECTOR):
        length = metadata[0] if metadata else _BLOB_LENGTH_BYTES.get(code, 4)
        if not 1 <= length <= 4:
            raise DecodeError(f"column {index}: a length of {length} bytes, 1 to 4 can be")
    elif code == MYSQL_TYPE_BIT:
        length = metadata[0] + 8 * metadata[1] if metadata else 1
        if not 1 <= length <= 64:
            raise DecodeError(f"column {index}: BIT({length}), 1 to 64 can be")
    elif code == MYSQL_TYPE_NEWDECIMAL:
        precision, scale = metadata if metadata else (10, 0)
        if not (1 <= precision <= 65 and scale <= min(precision, 38)):
            raise DecodeError(f"column {index}: DECIMAL({precision},{scale})")
    elif code in _FSP_TYPES:
        fsp = metadata[0] if metadata else 0
        if fsp > 6:
            raise DecodeError(f"column {index}: {fsp} fraction digits, at most 6 can be")
    return Column(
        name=f"c{index}",
        index=index,
        type_code=code,
        kind=kind,
        length=length,
        precision=precision,
        scale=scale,
        fsp=fsp,
        signed=False if code == MYSQL_TYPE_YEAR else None,
        named=False,
        compressed=code in (MYSQL_TYPE_BLOB_COMPRESSED, MYSQL_TYPE_VARCHAR_COMPRESSED),
    )


_DECODABLE = {code for code, t in COLUMN_TYPES.items() if t.kind is not None}


def _why_undecodable(column: Column) -> str:
    if column.type_code == MYSQL_TYPE_DECIMAL:
        return f"column {column.index} is a DECIMAL of before 5.0, whose length no log tells"
    if column.type_code == MYSQL_TYPE_TYPED_ARRAY:
        return f"column {column.index} is a TYPED_ARRAY, whose row layout is not established"
    return f"column {column.index} has the unknown type {column.type_code}"


def _bits(data: bytes) -> Iterator[bool]:
    """Most significant bit first."""
    for byte in data:
        for shift in range(7, -1, -1):
            yield bool(byte >> shift & 1)


def _add_signs(
    columns: Sequence[Column], changes: list[dict[str, object]], data: bytes | None, notes: list[str]
) -> None:
    numeric = [c for c in columns if c.type_code in COLUMN_TYPES and COLUMN_TYPES[c.type_code].numeric]
    if data is None:
        return
    if len(data) != (len(numeric) + 7) // 8:
        notes.append(f"signedness has {len(data)} bytes for {len(numeric)} numeric columns")
        return
    for column, unsigned in zip(numeric, _bits(data), strict=False):
        if column.type_code != MYSQL_TYPE_YEAR:  # its bit means nothing
            changes[column.index]["signed"] = not unsigned


def _collations_over(
    indexes: Sequence[int],
    default: tuple[int, dict[int, int]] | None,
    each: list[int] | None,
) -> dict[int, int] | None:
    """Column index to collation; None where the list does not fit these columns."""
    if default is not None:
        collation, others = default
        if others and max(others) >= len(indexes):
            return None
        return {column: others.get(i, collation) for i, column in enumerate(indexes)}
    if each is not None and len(each) == len(indexes):
        return dict(zip(indexes, each, strict=True))
    return None


def _add_collations(
    columns: Sequence[Column],
    changes: list[dict[str, object]],
    table_map: TableMap,
    mariadb: bool,
    notes: list[str],
) -> None:
    rules = [_MYSQL_CHARACTER_TYPES, _MARIADB_CHARACTER_TYPES]
    if mariadb:
        rules.reverse()
    if table_map.default_charset is not None or table_map.column_charset is not None:
        for types in rules:
            found = _collations_over(
                [c.index for c in columns if c.type_code in types],
                table_map.default_charset,
                table_map.column_charset,
            )
            if found is not None:
                for index, collation in found.items():
                    changes[index]["collation"] = collation
                break
        else:
            notes.append("character sets do not fit the character columns")
    if table_map.enum_and_set_default_charset is None and table_map.enum_and_set_column_charset is None:
        return
    found = _collations_over(
        [c.index for c in columns if c.kind in (Kind.ENUM, Kind.SET)],
        table_map.enum_and_set_default_charset,
        table_map.enum_and_set_column_charset,
    )
    if found is None:
        notes.append("character sets do not fit the ENUM and SET columns")
        return
    for index, collation in found.items():
        changes[index]["collation"] = collation
        changes[index]["charset"] = charsets.charset_of(collation)


def _add_lists(
    columns: Sequence[Column], changes: list[dict[str, object]], table_map: TableMap, notes: list[str]
) -> None:
    """Members, geometry types and dimensions: one entry per column of one kind."""
    lists: tuple[tuple[Kind, str, list[Any] | None], ...] = (
        (Kind.ENUM, "members", table_map.enum_members),
        (Kind.SET, "members", table_map.set_members),
        (Kind.GEOMETRY, "geometry_type", table_map.geometry_types),
        (Kind.VECTOR, "dimensions", table_map.vector_dimensionality),
    )
    for kind, field, values in lists:
        if values is None:
            continue
        of_kind = [c for c in columns if c.kind is kind]
        if len(values) != len(of_kind):
            notes.append(f"{len(values)} entries of {field} for {len(of_kind)} {kind.name} columns")
            continue
        for column, value in zip(of_kind, values, strict=True):
            change = changes[column.index]
            if field == "members":
                change[field] = tuple(_member_text(m, change.get("charset")) for m in value)
            else:
                change[field] = value


def _add_names(
    columns: Sequence[Column], changes: list[dict[str, object]], table_map: TableMap, flags: int
) -> bool:
    names = table_map.column_names
    if names is None:
        if flags & FLAG_GENERATED_PRIMARY_KEY and columns:
            changes[0].update(name="my_row_id", named=True, signed=False, visible=False)
        return False
    if len(names) != len(columns):
        raise DecodeError(f"{len(names)} column names for {len(columns)} columns")
    seen: set[str] = set()
    for i, raw in enumerate(names):
        name = _text(raw)
        if not name or name in seen:  # no server writes that; two fields of one name cannot be
            continue
        seen.add(name)
        changes[i].update(name=name, named=True)
    return True


def _member_text(member: bytes, charset: object) -> str:
    known = charsets.get(charset) if isinstance(charset, str) else None
    if known is not None and known.decodable:
        try:
            return known.decode(member)
        except UnicodeDecodeError:
            pass
    return _text(member)


def _text(name: bytes) -> str:
    """Names are utf8; what is not stays visible."""
    return name.decode("utf-8", "backslashreplace")
