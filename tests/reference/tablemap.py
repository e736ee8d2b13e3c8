"""TABLE_MAP: columns, and what the optional metadata of either vendor says about them."""

from __future__ import annotations

from dataclasses import dataclass

from .charsets import decode_text
from .cursor import Cursor, Malformed

# Metadata bytes by type; none for the others.
METADATA_BYTES = {4: 1, 5: 1, 15: 2, 16: 2, 17: 1, 18: 1, 19: 1, 140: 1, 141: 2, 242: 1, 245: 1, 246: 2} | {
    247: 2,
    248: 2,
    249: 1,
    250: 1,
    251: 1,
    252: 1,
    253: 2,
    254: 2,
    255: 1,
}
KNOWN_TYPES = set(METADATA_BYTES) | {1, 2, 3, 6, 7, 8, 9, 10, 11, 12, 13, 14}
NUMERIC = {0, 1, 2, 3, 4, 5, 8, 9, 13, 246}
ENUM, SET, STRING, TYPED_ARRAY = 247, 248, 254, 20


@dataclass
class Column:
    name: str
    type: int  # ENUM and SET, already distinguished from STRING
    metadata: bytes
    length: int = 0  # CHAR: most bytes; ENUM and SET: bytes of a value
    unsigned: bool = False
    collation: int | None = None
    members: list[str] | None = None
    old_digits: int = 0  # of MariaDB's own fractional types; not in the log


@dataclass
class TableMap:
    database: str
    table: str
    columns: list[Column]

    @property
    def undecodable(self) -> bool:
        return any(c.type not in KNOWN_TYPES for c in self.columns)


def parse_table_map(cur: Cursor, mariadb: bool, flags: int) -> TableMap:
    """The body after the post-header."""
    database, table = _name(cur), _name(cur)
    count = cur.lenenc()
    if not 1 <= count <= 4096:
        raise Malformed(f"{count} columns")
    columns = [Column(f"c{i}", code, b"") for i, code in enumerate(cur.take(count))]
    if not cur.left:
        return TableMap(database, table, columns)  # the oldest 5.1 logs end here
    metadata = Cursor(cur.lenenc_bytes())
    for column in columns:
        if column.type == TYPED_ARRAY:
            element = metadata.take(1)
            column.metadata = element + metadata.take(METADATA_BYTES.get(element[0], 0))
            continue
        column.metadata = metadata.take(METADATA_BYTES.get(column.type, 0))
        if column.type == STRING:
            _tell_string(column)
    cur.bits(count)  # nullability
    fields: dict[int, bytes] = {}
    while cur.left:
        kind = cur.little(1)
        fields[kind] = cur.lenenc_bytes()
    _apply(columns, fields, mariadb)
    if flags & 4 and 4 not in fields:
        columns[0].name, columns[0].unsigned = "my_row_id", True
    return TableMap(database, table, columns)


def _name(cur: Cursor) -> str:
    name = cur.lenenc_bytes().decode()
    cur.take(1)
    return name


def _tell_string(column: Column) -> None:
    """STRING hides ENUM, SET and the two high bits of a length in its two bytes."""
    b0, b1 = column.metadata
    if b0 in (ENUM, SET):
        column.type, column.length = b0, b1
    else:
        column.length = b1 | ((b0 & 0x30) ^ 0x30) << 4


def _is_character(column: Column, mariadb: bool) -> bool:
    more = {140, 141, 255} if mariadb else {242}
    return column.type in {15, 252, 253, 254} | more


def _apply(columns: list[Column], fields: dict[int, bytes], mariadb: bool) -> None:
    if 1 in fields:
        numbers = [c for c in columns if c.type in NUMERIC]
        for column, bit in zip(numbers, Cursor(fields[1]).bits(len(numbers), msb_first=True), strict=True):
            column.unsigned = bit
    _collations([c for c in columns if _is_character(c, mariadb)], fields, 2, 3)
    members = [c for c in columns if c.type in (ENUM, SET)]
    _collations(members, fields, 10, 11)
    if 4 in fields:
        names = Cursor(fields[4])
        for column in columns:
            column.name = names.lenenc_bytes().decode()
    for kind, code in ((SET, 5), (ENUM, 6)):
        if code in fields:
            texts = Cursor(fields[code])
            for column in members:
                if column.type == kind:
                    column.members = [_member(texts.lenenc_bytes(), column) for _ in range(texts.lenenc())]


def _member(raw: bytes, column: Column) -> str:
    text = decode_text(raw, column.collation)
    return text if isinstance(text, str) else raw.decode("latin-1")


def _collations(columns: list[Column], fields: dict[int, bytes], as_default: int, one_by_one: int) -> None:
    if as_default in fields:
        cur = Cursor(fields[as_default])
        default = cur.lenenc()
        for column in columns:
            column.collation = default
        while cur.left:
            index = cur.lenenc()
            columns[index].collation = cur.lenenc()
    elif one_by_one in fields:
        cur = Cursor(fields[one_by_one])
        for column in columns:
            column.collation = cur.lenenc()
        if cur.left:
            raise Malformed("more collations than character columns")
