"""A table: its TABLE_MAP body with the optional metadata of both vendors, and its row images."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .jsonb import encode_json
from .types import BINARY, COLLATIONS, UTF8MB4, ColumnSpec, column_spec
from .wire import bitmap, lenenc, lenenc_text

NUMERIC = {0, 1, 2, 3, 4, 5, 8, 9, 13, 246}
STRINGS = {15, 252, 253, 254}
OPERATIONS = {"replace": 0, "insert": 1, "remove": 2}

Row = Mapping[str, Any]


class JsonDiffs(list[tuple[str, str, Any]]):
    """A partial update's value of a JSON column: ``(operation, path, value)``, remove without value."""

    def encode(self) -> bytes:
        out = b""
        for operation, path, value in self:
            out += bytes((OPERATIONS[operation],)) + lenenc_text(path)
            if operation != "remove":
                out += lenenc_text(encode_json(value))
        return out


class Table:
    """A table definition.

    Parameters
    ----------
    database, name : str
    columns : sequence
        ColumnSpec, or ``(name, type)``, or ``(name, type, options)``: see ``column_spec``.
    primary_key : sequence of str or (str, int), optional
        Column names, with a prefix length where only a prefix is indexed.
    metadata : {"FULL", "MINIMAL", None}
        binlog_row_metadata; None: no optional metadata at all.
    default_charset : bool
        Write collations as a default and exceptions (types 2 and 10) instead of one by one (3 and 11).
    flags : int
    """

    def __init__(
        self,
        database: str,
        name: str,
        columns: Sequence[ColumnSpec | tuple[Any, ...]],
        *,
        primary_key: Sequence[str | tuple[str, int]] | None = None,
        metadata: str | None = "FULL",
        default_charset: bool = False,
        flags: int = 1,
    ) -> None:
        self.database = database
        self.name = name
        self.columns = tuple(
            c if isinstance(c, ColumnSpec) else column_spec(c[0], c[1], **(c[2] if len(c) > 2 else {}))
            for c in columns
        )
        self.primary_key = primary_key
        self.metadata = metadata
        self.default_charset = default_charset
        self.flags = flags
        self._bodies: dict[tuple[bool, bool], bytes] = {}

    # ------------------------------------------------------------- TABLE_MAP

    def map_body(self, *, mariadb: bool, with_metadata: bool = True) -> bytes:
        """The body after the post-header; ``with_metadata=False``: it ends after the types, as in 5.1.15."""
        known = self._bodies.get((mariadb, with_metadata))
        if known is None:
            known = self._bodies[mariadb, with_metadata] = self._map_body(mariadb, with_metadata)
        return known

    def _map_body(self, mariadb: bool, with_metadata: bool) -> bytes:
        body = lenenc_text(self.database) + b"\0" + lenenc_text(self.name) + b"\0"
        body += lenenc(len(self.columns)) + bytes(c.code for c in self.columns)
        if not with_metadata:
            return body
        body += lenenc_text(b"".join(c.metadata for c in self.columns))
        body += bitmap(c.nullable for c in self.columns)
        return body + self.optional_metadata(mariadb=mariadb)

    def optional_metadata(self, *, mariadb: bool) -> bytes:
        """The TLVs, in the order in which the servers write them."""
        if self.metadata is None:
            return b""
        full = self.metadata == "FULL"
        characters = STRINGS | ({140, 141, 255} if mariadb else {242})
        strings = [c for c in self.columns if c.code in characters and c.members is None]
        members = [c for c in self.columns if c.members is not None]
        fields: list[tuple[int, bytes]] = [
            (1, bitmap((c.unsigned for c in self.columns if c.code in NUMERIC), msb_first=True)),
            self._collations(strings, 2, 3),
            (7, b"".join(lenenc(c.geometry_type) for c in self.columns if c.geometry_type is not None)),
        ]
        if not mariadb:
            fields.append(
                (13, b"".join(lenenc(c.dimensions) for c in self.columns if c.dimensions is not None))
            )
        if full:
            fields += [
                (4, b"".join(lenenc_text(c.name) for c in self.columns)),
                self._collations(members, 10, 11),
                (5, b"".join(self._members(c) for c in members if c.is_set)),
                (6, b"".join(self._members(c) for c in members if c.is_enum)),
                self._primary_key(),
            ]
            if not mariadb:
                fields.append((12, bitmap((c.visible for c in self.columns), msb_first=True)))
        return b"".join(bytes((kind,)) + lenenc_text(value) for kind, value in fields if value)

    def _collations(self, columns: list[ColumnSpec], as_default: int, one_by_one: int) -> tuple[int, bytes]:
        ids = [BINARY if c.collation is None else c.collation for c in columns]
        if not ids or not self.default_charset:
            return one_by_one, b"".join(map(lenenc, ids))
        default = max(set(ids), key=ids.count)
        pairs = b"".join(lenenc(i) + lenenc(value) for i, value in enumerate(ids) if value != default)
        return as_default, lenenc(default) + pairs

    @staticmethod
    def _members(column: ColumnSpec) -> bytes:
        assert column.members is not None
        codec = COLLATIONS[column.collation or UTF8MB4][0] or "utf-8"
        return lenenc(len(column.members)) + b"".join(lenenc_text(m.encode(codec)) for m in column.members)

    def _primary_key(self) -> tuple[int, bytes]:
        names = [c.name for c in self.columns]
        key = self.primary_key or ()
        if all(isinstance(part, str) for part in key):
            return 8, b"".join(lenenc(names.index(str(part))) for part in key)
        pairs = [(part, 0) if isinstance(part, str) else part for part in key]
        return 9, b"".join(lenenc(names.index(name)) + lenenc(length) for name, length in pairs)

    # ------------------------------------------------------------ row images

    def present(self, columns: Iterable[str] | None) -> list[bool]:
        """The columns-present bits of an image that holds these columns (None: all)."""
        if columns is None:
            return [True] * len(self.columns)
        wanted = set(columns)
        return [c.name in wanted for c in self.columns]

    def image(self, row: Row, present: Sequence[bool], *, unused: int = 0) -> bytes:
        """NULL bitmap over the present columns, then their values."""
        kept = [c for c, there in zip(self.columns, present, strict=True) if there]
        out = bitmap((row[c.name] is None for c in kept), unused=unused)
        for column in kept:
            value = row[column.name]
            if isinstance(value, JsonDiffs):
                diffs = value.encode()
                out += len(diffs).to_bytes(4, "little") + diffs
            elif value is not None:
                out += column.encode(value)
        return out

    def partial_options(self, row: Row) -> bytes:
        """The bytes before the after image of a PARTIAL_UPDATE_ROWS event."""
        documents = [isinstance(row.get(c.name), JsonDiffs) for c in self.columns if c.code == 245]
        return lenenc(1) + bitmap(documents) if any(documents) else lenenc(0)
