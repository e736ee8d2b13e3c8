"""Column types: what TABLE_MAP says about a column, and how one value is written."""

from __future__ import annotations

import decimal
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .jsonb import encode_json
from .temporal import (
    encode_date,
    encode_datetime,
    encode_datetime2,
    encode_time,
    encode_time2,
    encode_timestamp,
    encode_timestamp2,
)
from .wire import maria_column

BINARY = 63
UTF8MB4 = 45
# Collations that tests write with: codec, most bytes of a character.
COLLATIONS = {
    8: ("cp1252", 1),
    28: ("gbk", 2),
    33: ("utf-8", 3),
    35: ("utf-16-be", 2),
    45: ("utf-8", 4),
    46: ("utf-8", 4),
    51: ("cp1251", 1),
    54: ("utf-16-be", 4),
    60: ("utf-32-be", 4),
    BINARY: (None, 1),
    224: ("utf-8", 4),
    255: ("utf-8", 4),
}
INTEGERS = {"TINYINT": (1, 1), "SMALLINT": (2, 2), "MEDIUMINT": (9, 3), "INT": (3, 4), "BIGINT": (8, 8)}
BLOBS = {"TINY": 1, "": 2, "MEDIUM": 3, "LONG": 4}
GEOMETRIES = [
    "GEOMETRY",
    "POINT",
    "LINESTRING",
    "POLYGON",
    "MULTIPOINT",
    "MULTILINESTRING",
    "MULTIPOLYGON",
    "GEOMETRYCOLLECTION",
]
_DECIMAL_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)

Encoder = Callable[[Any], bytes]


@dataclass(frozen=True)
class ColumnSpec:
    """One column as TABLE_MAP and its optional metadata describe it, and the encoder of its values."""

    name: str
    declared: str
    code: int
    metadata: bytes
    encode: Encoder
    nullable: bool = True
    unsigned: bool = False
    collation: int | None = None
    members: tuple[str, ...] | None = None
    geometry_type: int | None = None
    dimensions: int | None = None
    visible: bool = True

    @property
    def is_enum(self) -> bool:
        return self.members is not None and self.metadata[0] == 0xF7

    @property
    def is_set(self) -> bool:
        return self.members is not None and self.metadata[0] == 0xF8


def encode_decimal(value: decimal.Decimal, precision: int, scale: int) -> bytes:
    """NEWDECIMAL: groups of nine digits outward from the point, big-endian; all bits inverted if negative."""
    number = int(value.scaleb(scale, decimal.Context(prec=100, Emin=-999, Emax=999)))
    digits = str(abs(number)).rjust(precision, "0")
    assert len(digits) == precision, f"{value} is no DECIMAL({precision},{scale})"
    whole, fraction = digits[: precision - scale], digits[precision - scale :]
    head = len(whole) % 9
    groups = [whole[:head]] + [whole[at : at + 9] for at in range(head, len(whole), 9)]
    groups += [fraction[at : at + 9] for at in range(0, scale, 9)]
    raw = bytearray(b"".join(int(g or "0").to_bytes(_DECIMAL_BYTES[len(g)], "big") for g in groups))
    if number < 0:
        raw = bytearray(b ^ 0xFF for b in raw)
    raw[0] ^= 0x80
    return bytes(raw)


def _text_bytes(collation: int) -> Callable[[str | bytes], bytes]:
    codec, _ = COLLATIONS[collation]

    def to_bytes(value: str | bytes) -> bytes:
        if isinstance(value, bytes):
            return value
        assert codec, "a binary column takes bytes"
        return value.encode(codec)

    return to_bytes


def _prefixed(length_bytes: int, to_bytes: Encoder) -> Encoder:
    def encode(value: Any) -> bytes:
        raw = to_bytes(value)
        return len(raw).to_bytes(length_bytes, "little") + raw

    return encode


def _char_encoder(most: int, collation: int) -> Encoder:
    to_bytes, codec = _text_bytes(collation), COLLATIONS[collation][0]
    pad = b"\0" if codec is None else " ".encode(codec)

    def trimmed(value: str | bytes) -> bytes:
        raw = to_bytes(value)
        while raw.endswith(pad):
            raw = raw[: -len(pad)]
        return raw

    return _prefixed(1 if most < 256 else 2, trimmed)


def _member_mask(members: tuple[str, ...], value: Any) -> int:
    return value if isinstance(value, int) else sum(1 << members.index(name) for name in value)


def _year(value: int) -> bytes:
    return bytes((value - 1900 if value else 0,))


def column_spec(name: str, declared: str, **options: Any) -> ColumnSpec:
    """A column from its SQL type.

    Parameters
    ----------
    name : str
    declared : str
        Such as ``INT UNSIGNED``, ``DECIMAL(10,2)``, ``VARCHAR(20)``, ``VARCHAR(200) COMPRESSED``,
        ``ENUM('a','b')``, ``DATETIME(6)``; ``OLD TIME`` and the like are the layouts before 5.6.
    options
        ``null`` (True), ``collation`` (45 for text), ``members`` (not in the type), ``visible`` (True).
    """
    found = re.match(r"(OLD )?(\w+)(?:\((.*)\))?((?: \w+)*)$", declared)
    assert found, declared
    old, kind, inside, words = bool(found[1]), found[2], found[3] or "", found[4].split()
    collation = options.pop("collation", UTF8MB4)
    common = {"nullable": options.pop("null", True), "visible": options.pop("visible", True)}
    members = options.pop("members", None)
    assert not options, options

    def spec(code: int, metadata: bytes, encode: Encoder, **more: Any) -> ColumnSpec:
        return ColumnSpec(name, declared, code, metadata, encode, **common, **more)

    if kind in INTEGERS:
        code, size = INTEGERS[kind]
        unsigned = "UNSIGNED" in words
        return spec(code, b"", lambda v: v.to_bytes(size, "little", signed=not unsigned), unsigned=unsigned)
    if kind == "FLOAT":
        return spec(4, b"\4", lambda v: struct.pack("<f", v), unsigned="UNSIGNED" in words)
    if kind == "DOUBLE":
        return spec(5, b"\10", lambda v: struct.pack("<d", v), unsigned="UNSIGNED" in words)
    if kind == "DECIMAL":
        precision, scale = (int(n) for n in inside.split(","))
        unsigned = "UNSIGNED" in words
        return spec(
            246, bytes((precision, scale)), lambda v: encode_decimal(v, precision, scale), unsigned=unsigned
        )
    if kind == "BIT":
        bits = int(inside or 1)
        return spec(16, bytes((bits % 8, bits // 8)), lambda v: v.to_bytes((bits + 7) // 8, "big"))
    if kind == "YEAR":
        return spec(13, b"", _year, unsigned=True)
    if kind in ("DATE", "TIME", "DATETIME", "TIMESTAMP"):
        return _temporal(spec, kind, old, int(inside or 0))
    if kind in ("ENUM", "SET"):
        names = tuple(members or re.findall(r"'([^']*)'", inside))
        return _member_column(spec, kind, names, collation)
    if kind in ("BINARY", "VARBINARY") or kind.endswith("BLOB"):
        collation = BINARY
    if kind in ("UUID", "INET6", "INET4"):
        kind, inside, collation = "BINARY", "4" if kind == "INET4" else "16", BINARY
    if kind in ("CHAR", "BINARY", "VARCHAR", "VARBINARY"):
        most = int(inside) * COLLATIONS[collation][1]
        return _string(spec, kind.startswith("VAR"), most, collation, "COMPRESSED" in words)
    if kind.endswith(("BLOB", "TEXT")):
        size = BLOBS[kind[:-4]]
        to_bytes = _text_bytes(collation)
        if "COMPRESSED" in words:
            return spec(
                140, bytes((size,)), _prefixed(size, lambda v: maria_column(to_bytes(v))), collation=collation
            )
        return spec(252, bytes((size,)), _prefixed(size, to_bytes), collation=collation)
    if kind == "JSON":
        return spec(245, b"\4", _prefixed(4, lambda v: v if isinstance(v, bytes) else encode_json(v)))
    if kind == "VECTOR":
        dimensions = int(inside)
        encode = _prefixed(4, lambda v: struct.pack(f"<{len(v)}f", *v))
        return spec(242, b"\4", encode, collation=BINARY, dimensions=dimensions)
    if kind in GEOMETRIES:
        # MariaDB counts geometry among the character columns, so it has a collation.
        return spec(255, b"\4", _prefixed(4, bytes), collation=BINARY, geometry_type=GEOMETRIES.index(kind))
    raise ValueError(f"unknown type {declared}")


def _temporal(spec: Callable[..., ColumnSpec], kind: str, old: bool, fsp: int) -> ColumnSpec:
    if kind == "DATE":
        return spec(10, b"", encode_date)
    if old:
        code, encode = {
            "TIME": (11, encode_time),
            "DATETIME": (12, encode_datetime),
            "TIMESTAMP": (7, encode_timestamp),
        }[kind]
        return spec(code, b"", encode)
    code2, encode2 = {
        "TIME": (19, encode_time2),
        "DATETIME": (18, encode_datetime2),
        "TIMESTAMP": (17, encode_timestamp2),
    }[kind]
    return spec(code2, bytes((fsp,)), lambda v: encode2(v, fsp))


def _member_column(
    spec: Callable[..., ColumnSpec], kind: str, names: tuple[str, ...], collation: int
) -> ColumnSpec:
    if kind == "ENUM":
        size = 1 if len(names) < 256 else 2

        def index(value: int | str) -> int:
            return value if isinstance(value, int) else names.index(value) + 1 if value else 0

        return spec(
            254,
            bytes((0xF7, size)),
            lambda v: index(v).to_bytes(size, "little"),
            members=names,
            collation=collation,
        )
    size = (len(names) + 7) // 8
    size = 8 if size > 4 else size
    return spec(
        254,
        bytes((0xF8, size)),
        lambda v: _member_mask(names, v).to_bytes(size, "little"),
        members=names,
        collation=collation,
    )


def _string(
    spec: Callable[..., ColumnSpec], variable: bool, most: int, collation: int, compressed: bool
) -> ColumnSpec:
    to_bytes = _text_bytes(collation)
    if variable:
        most += compressed  # one header byte more
        size = 1 if most < 256 else 2
        metadata = most.to_bytes(2, "little")
        if compressed:
            return spec(
                141, metadata, _prefixed(size, lambda v: maria_column(to_bytes(v))), collation=collation
            )
        return spec(15, metadata, _prefixed(size, to_bytes), collation=collation)
    # The two high bits of the length are hidden, inverted, in bits 4 and 5 of the type.
    metadata = bytes((0xFE ^ (most & 0x300) >> 4, most & 0xFF))
    return spec(254, metadata, _char_encoder(most, collation), collation=collation)
