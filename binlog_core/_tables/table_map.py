"""From a TABLE_MAP event to a Table: interprets its types, metadata and optional fields.

Fields of the optional metadata are lists over only some of the columns, and the two vendors
count different ones; only this module knows these rules.

Source: MySQL server documentation, "Table_map_event"; MariaDB Knowledge Base, "TABLE_MAP_EVENT".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .._core._table_map import decode_table_map, decode_table_name
from ..errors import DecodeError
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
from .tables import FLAG_GENERATED_PRIMARY_KEY, Column, Table

if TYPE_CHECKING:
    from .._core._table_map import TableMap

COLLATION_BINARY = 63
_MOST_MEMBER_LEN = 65535  # MariaDB takes longer ones than MySQL, up to about this

Fields = dict[str, Any]  # of a Column in the making

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


class Shape(NamedTuple):
    """What a TABLE_MAP event says about its table, except the names of database and table.

    Parameters
    ----------
    columns, primary_key, flags, undecodable
        As in Table.
    notes : tuple of str
        Parts of the optional metadata that did not fit and were left out.
    """

    columns: tuple[Column, ...]
    primary_key: tuple[str, ...] | None
    flags: int
    undecodable: str | None
    notes: tuple[str, ...]

    def table_of(self, names: bytes) -> Table:
        """The table of this shape with these names of database and table, as the event has them."""
        database, name, _ = decode_table_name(names)
        return Table(
            database=_text(database),
            name=_text(name),
            columns=self.columns,
            primary_key=self.primary_key,
            flags=self.flags,
            undecodable=self.undecodable,
        )


class TableMaps:
    """The shapes of the tables that TABLE_MAP events describe.

    Many logs hold thousands of tables of a few shapes, one per tenant or partition.
    """

    def __init__(self) -> None:
        self._shapes: dict[tuple[bytes, int, bool], Shape] = {}

    def shape_of(self, body: bytes, *, flags: int, mariadb: bool) -> tuple[Shape, bytes]:
        """The shape of the table that a TABLE_MAP event describes, and its names.

        Parameters
        ----------
        body : bytes
            The event's bytes after its post-header.
        flags : int
            Flags in the event's post-header.
        mariadb : bool
            Whether the server in the descriptor in force is MariaDB.

        Returns
        -------
        (Shape, names)
            names: of database and table, as the event has them, for `Shape.table_of`.

        Raises
        ------
        DecodeError
            The metadata is not valid for its type, or the number of names differs from the number of columns.
        """
        _, _, rest = decode_table_name(body)
        shape = self._shapes.get((rest, flags, mariadb))
        if shape is None:
            shape = shape_of(decode_table_map(body), flags=flags, mariadb=mariadb)
            shape = self._shapes.setdefault((rest, flags, mariadb), shape)  # unless another thread was first
        return shape, body[: len(body) - len(rest)]

    def clear(self) -> None:
        """Forget all shapes."""
        self._shapes.clear()


def shape_of(table_map: TableMap, *, flags: int, mariadb: bool) -> Shape:
    """What a TABLE_MAP event says about its table; arguments and errors as in :meth:`TableMaps.shape_of`."""
    notes: list[str] = []
    fields = [_fields(i, code, table_map.column_metadata[i]) for i, code in enumerate(table_map.column_types)]
    undecodable = next((_why_undecodable(f) for f in fields if f["type_code"] not in _DECODABLE), None)
    if table_map.null_bits is not None:
        for i, field in enumerate(fields):
            field["nullable"] = bool(table_map.null_bits[i >> 3] >> (i & 7) & 1)
    _add_signs(fields, table_map.signedness, notes)
    _add_collations(fields, table_map, mariadb, notes)
    _add_lists(fields, table_map, notes)
    if table_map.column_visibility is not None:
        for field, visible in zip(fields, _bits(table_map.column_visibility), strict=False):
            field["visible"] = visible
    named = _add_names(fields, table_map, flags)
    columns = tuple([Column(**field) for field in fields])

    primary_key = None
    if table_map.primary_key is not None and named:
        if any(i >= len(columns) for i, _ in table_map.primary_key):
            raise DecodeError("the primary key names a column that the table does not have")
        primary_key = tuple(columns[i].name for i, _ in table_map.primary_key)
    return Shape(columns, primary_key, flags, undecodable, tuple(notes))


def _kind_of_text(type_code: int, collation: int | None, length: int) -> Fields:
    """Apply the collation of a column: text if the character set is known, otherwise bytes."""
    if collation == COLLATION_BINARY:
        pad_to = length if type_code == MYSQL_TYPE_STRING else 0
        return {"kind": Kind.BINARY, "charset": "binary", "pad_to": pad_to}
    charset = charsets.charset_of(collation) if collation is not None else None
    known = charsets.get(charset) if charset is not None else None
    text = known is not None and known.decodable
    return {"kind": Kind.TEXT if text else Kind.BINARY, "charset": charset, "pad_to": 0}


def _fields(index: int, code: int, metadata: bytes) -> Fields:
    """The fields of a Column by its type byte and metadata, which the oldest logs of 5.1 lack."""
    known = COLUMN_TYPES.get(code)
    kind = known.kind if known is not None and known.kind is not None else Kind.BINARY
    length = precision = scale = fsp = 0
    if code == MYSQL_TYPE_STRING and not metadata:
        length = 255
    elif code in (MYSQL_TYPE_STRING, MYSQL_TYPE_ENUM, MYSQL_TYPE_SET):
        if not metadata:
            raise DecodeError(f"column {index}: type {code} lacks its metadata")
        first, second = metadata
        if first in (MYSQL_TYPE_ENUM, MYSQL_TYPE_SET):
            code, length = first, second
            kind = Kind.ENUM if code == MYSQL_TYPE_ENUM else Kind.SET
        else:
            # Two bits of lengths above 255 are hidden, inverted, in the type byte.
            length = second | ((first & 0x30) ^ 0x30) << 4
        if (kind is Kind.ENUM and length not in (1, 2)) or (
            kind is Kind.SET and length not in (1, 2, 3, 4, 8)
        ):
            raise DecodeError(f"column {index}: {kind.name} of {length} bytes is not valid")
    elif code in (MYSQL_TYPE_VARCHAR, MYSQL_TYPE_VAR_STRING, MYSQL_TYPE_VARCHAR_COMPRESSED):
        length = int.from_bytes(metadata, "little") if metadata else 255
    elif code in _BLOB_LENGTH_BYTES or kind in (Kind.JSON, Kind.GEOMETRY, Kind.VECTOR):
        length = metadata[0] if metadata else _BLOB_LENGTH_BYTES.get(code, 4)
        if not 1 <= length <= 4:
            raise DecodeError(f"column {index}: a length of {length} bytes: expected 1 to 4")
    elif code == MYSQL_TYPE_BIT:
        length = metadata[0] + 8 * metadata[1] if metadata else 1
        if not 1 <= length <= 64:
            raise DecodeError(f"column {index}: BIT({length}): expected 1 to 64")
    elif code == MYSQL_TYPE_NEWDECIMAL:
        precision, scale = metadata if metadata else (10, 0)
        if not (1 <= precision <= 65 and scale <= min(precision, 38)):
            raise DecodeError(f"column {index}: DECIMAL({precision},{scale}) is not valid")
    elif code in _FSP_TYPES:
        fsp = metadata[0] if metadata else 0
        if fsp > 6:
            raise DecodeError(f"column {index}: {fsp} fraction digits: expected at most 6")
    return {
        "name": f"c{index}",
        "index": index,
        "type_code": code,
        "kind": kind,
        "length": length,
        "precision": precision,
        "scale": scale,
        "fsp": fsp,
        "signed": False if code == MYSQL_TYPE_YEAR else None,
        "named": False,
        "compressed": code in (MYSQL_TYPE_BLOB_COMPRESSED, MYSQL_TYPE_VARCHAR_COMPRESSED),
    }


_NUMERIC = {code for code, t in COLUMN_TYPES.items() if t.numeric}
_DECODABLE = {code for code, t in COLUMN_TYPES.items() if t.kind is not None}


def _why_undecodable(field: Fields) -> str:
    index, type_code = field["index"], field["type_code"]
    if type_code == MYSQL_TYPE_DECIMAL:
        return f"column {index} is a DECIMAL from before 5.0, whose length is not in the log"
    if type_code == MYSQL_TYPE_TYPED_ARRAY:
        return f"column {index} is a TYPED_ARRAY, whose row layout is not established"
    return f"column {index} has the unknown type {type_code}"


def _bits(data: bytes) -> Iterator[bool]:
    """Most significant bit first."""
    for byte in data:
        for shift in range(7, -1, -1):
            yield bool(byte >> shift & 1)


def _add_signs(fields: list[Fields], data: bytes | None, notes: list[str]) -> None:
    if data is None:
        return
    numeric = [f for f in fields if f["type_code"] in _NUMERIC]
    if len(data) != (len(numeric) + 7) // 8:
        notes.append(f"signedness has {len(data)} bytes for {len(numeric)} numeric columns")
        return
    for field, unsigned in zip(numeric, _bits(data), strict=False):
        if field["type_code"] != MYSQL_TYPE_YEAR:  # its bit means nothing
            field["signed"] = not unsigned


def _collations_over(
    indexes: Sequence[int],
    default: tuple[int, dict[int, int]] | None,
    each: list[int] | None,
) -> dict[int, int] | None:
    """Column index to collation; None if the list does not fit these columns."""
    if default is not None:
        collation, others = default
        if others and max(others) >= len(indexes):
            return None
        return {column: others.get(i, collation) for i, column in enumerate(indexes)}
    if each is not None and len(each) == len(indexes):
        return dict(zip(indexes, each, strict=True))
    return None


def _add_collations(fields: list[Fields], table_map: TableMap, mariadb: bool, notes: list[str]) -> None:
    _add_collations_of_text(fields, table_map, mariadb, notes)
    for field in fields:
        if field["type_code"] in _CHARACTER_TYPES:
            field.update(_kind_of_text(field["type_code"], field.get("collation"), field["length"]))
    if table_map.enum_and_set_default_charset is None and table_map.enum_and_set_column_charset is None:
        return
    found = _collations_over(
        [f["index"] for f in fields if f["kind"] in (Kind.ENUM, Kind.SET)],
        table_map.enum_and_set_default_charset,
        table_map.enum_and_set_column_charset,
    )
    if found is None:
        notes.append("character sets do not fit the ENUM and SET columns")
        return
    for index, collation in found.items():
        fields[index]["collation"] = collation
        fields[index]["charset"] = charsets.charset_of(collation)


def _add_collations_of_text(
    fields: list[Fields], table_map: TableMap, mariadb: bool, notes: list[str]
) -> None:
    if table_map.default_charset is None and table_map.column_charset is None:
        return
    rules = [_MYSQL_CHARACTER_TYPES, _MARIADB_CHARACTER_TYPES]
    for types in reversed(rules) if mariadb else rules:
        found = _collations_over(
            [f["index"] for f in fields if f["type_code"] in types],
            table_map.default_charset,
            table_map.column_charset,
        )
        if found is not None:
            for index, collation in found.items():
                fields[index]["collation"] = collation
            return
    notes.append("character sets do not fit the character columns")


def _add_lists(fields: list[Fields], table_map: TableMap, notes: list[str]) -> None:
    """Members, geometry types and dimensions: one entry per column of one kind."""
    lists: tuple[tuple[Kind, str, list[Any] | None], ...] = (
        (Kind.ENUM, "members", table_map.enum_members),
        (Kind.SET, "members", table_map.set_members),
        (Kind.GEOMETRY, "geometry_type", table_map.geometry_types),
        (Kind.VECTOR, "dimensions", table_map.vector_dimensionality),
    )
    for kind, name, values in lists:
        if values is None:
            continue
        of_kind = [f for f in fields if f["kind"] is kind]
        if len(values) != len(of_kind):
            notes.append(f"{len(values)} entries of {name} for {len(of_kind)} {kind.name} columns")
            continue
        if name == "members":
            longest = max((len(member) for members in values for member in members), default=0)
            if longest > _MOST_MEMBER_LEN:
                notes.append(f"a member of {longest} bytes: at most {_MOST_MEMBER_LEN} are possible")
                continue
        for field, value in zip(of_kind, values, strict=True):
            if name == "members":
                field[name] = tuple(_member_text(m, field.get("charset")) for m in value)
            else:
                field[name] = value


def _add_names(fields: list[Fields], table_map: TableMap, flags: int) -> bool:
    names = table_map.column_names
    if names is None:
        if flags & FLAG_GENERATED_PRIMARY_KEY and fields:
            fields[0].update(name="my_row_id", named=True, signed=False, visible=False)
        return False
    if len(names) != len(fields):
        raise DecodeError(f"{len(names)} column names for {len(fields)} columns")
    seen: set[str] = set()
    for field, raw in zip(fields, names, strict=True):
        name = _text(raw)
        if not name or name in seen:  # no server writes that, and two fields with one name are not valid
            continue
        seen.add(name)
        field["name"] = name
        field["named"] = True
    for field in fields if len(seen) < len(fields) else ():
        if not field["named"]:
            while field["name"] in seen:
                field["name"] += "_"
            seen.add(field["name"])
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
    """Names are UTF-8; other bytes stay visible."""
    return name.decode("utf-8", "backslashreplace")
