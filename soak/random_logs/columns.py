"""Columns of all types, each with its random values."""

from __future__ import annotations

import json
import random
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import UUID

from random_logs.values import FIXED, TEMPORAL


@dataclass
class Column:
    name: str
    sql: str
    kind: str
    value: Callable[[random.Random], Any]
    null: bool = True


def column(name: str, pick: random.Random, version: str) -> Column:
    """Any type that the server has."""
    made = pick.choice(KINDS_OF)(pick, version)
    while made is None:
        made = pick.choice(KINDS_OF)(pick, version)
    sql, kind, value = made
    return Column(name, sql, kind, value)


def _int(pick: random.Random, _: str) -> Any:
    name, bits = pick.choice(
        (("TINYINT", 8), ("SMALLINT", 16), ("MEDIUMINT", 24), ("INT", 32), ("BIGINT", 64))
    )
    unsigned = pick.random() < 0.5
    least, most = (0, (1 << bits) - 1) if unsigned else (-(1 << bits - 1), (1 << bits - 1) - 1)
    return (
        name + (" UNSIGNED" if unsigned else ""),
        "int",
        lambda p: p.choice((least, most, 0, 1, p.randint(least, most))),
    )


def _decimal(pick: random.Random, _: str) -> Any:
    digits = pick.choice((1, 5, 9, 10, 18, 19, 38, 39, 65))
    scale = pick.randrange(min(digits, 30) + 1)

    def value(p: random.Random) -> str:
        number = p.choice((0, 1, 10**digits - 1, p.randrange(10**digits)))
        return format(Decimal(f"{p.choice(('', '-'))}{number}E-{scale}"), "f")

    return f"DECIMAL({digits},{scale})", "decimal", value


def _float(pick: random.Random, _: str) -> Any:
    if pick.random() < 0.5:
        return "FLOAT", "float", lambda p: p.randrange(-8000, 8000) / 8
    return "DOUBLE", "float", lambda p: p.choice((0.0, 1e300, -1e-300, p.random(), p.uniform(-1e9, 1e9)))


def _bit(pick: random.Random, _: str) -> Any:
    bits = pick.choice((1, 7, 8, 9, 33, 64))
    return f"BIT({bits})", "bit", lambda p: p.randrange(1 << bits)


def _temporal(pick: random.Random, _: str) -> Any:
    kind, digits = pick.choice(TEMPORAL), pick.randrange(7)

    def value(p: random.Random) -> str:
        part = f".{p.randrange(10**digits):0{digits}d}" if digits else ""
        day = f"{p.randrange(1971, 2038)}-{p.randrange(1, 13):02}-{p.randrange(1, 29):02}"
        clock = f"{p.randrange(24):02}:{p.randrange(60):02}:{p.randrange(60):02}{part}"
        if kind == "time":
            return f"{p.choice(('', '-'))}{p.randrange(838)}:{p.randrange(60):02}:{p.randrange(60):02}{part}"
        if kind != "timestamp" and p.random() < 0.2:
            day = p.choice(("0000-00-00", "1000-01-01", "9999-12-31", "2020-00-00"))
            clock = "00:00:00" + (f".{'0' * digits}" if digits else "")
        return day if kind == "date" else f"{day} {clock}"

    return (kind if kind == "date" else f"{kind}({digits})") + " NULL", kind, value


def _year(_: random.Random, __: str) -> Any:
    return "YEAR", "int", lambda p: p.choice((0, 1901, 2155, 2026))


_SIGNS = {
    "latin1": "aZ é",
    "utf8mb4": "aß日😀 '\\",
    "ucs2": "aß日",
    "ascii": "az ",
    "cp1251": "aж",
    "utf8": "aß日",
}


def _compressed(pick: random.Random, name: str, version: str) -> str:
    long = name.startswith("VAR") or name.endswith(("TEXT", "BLOB"))
    return " COMPRESSED" if "MariaDB" in version and long and pick.random() < 0.3 else ""


def _text(pick: random.Random, version: str) -> Any:
    charset = pick.choice(list(_SIGNS))
    size = pick.choice((1, 20, 63, 64, 255, 256, 300))
    name = pick.choice(
        (f"CHAR({min(size, 200)})", f"VARCHAR({size})", "TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT")
    )
    longest = {"C": min(size, 200), "V": size}.get(name[0], 60)
    packed = _compressed(pick, name, version)

    def value(p: random.Random) -> str:
        length = p.choice((0, 1, p.randrange(longest + 1), longest))
        return "".join(p.choice(_SIGNS[charset]) for _ in range(length)).rstrip(" ")

    return f"{name}{packed} CHARACTER SET {charset}", "text", value


def _bytes(pick: random.Random, version: str) -> Any:
    size = pick.choice((1, 16, 255))
    name = pick.choice(
        (f"BINARY({size})", f"VARBINARY({size + 1})", "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB")
    )
    packed = _compressed(pick, name, version)
    return name + packed, "bytes", lambda p: p.randbytes(p.choice((0, 1, size)))


def _members(pick: random.Random, version: str) -> Any:
    signs = "aß'日x," if pick.random() < 0.5 else "abc"
    many = pick.choice((1, 3, 20, 64))
    names = [f"{signs[i % len(signs)].replace(',', '')}{i}" for i in range(many)]
    told = ",".join(f"'{name.replace(chr(39), 2 * chr(39))}'" for name in names)
    if pick.random() < 0.5:
        names = names if "5.6" in version else [*names, *(f"n{i}" for i in range(300 if many == 64 else 0))]
        told = ",".join(f"'{name.replace(chr(39), 2 * chr(39))}'" for name in names)
        return f"ENUM({told}) CHARACTER SET utf8mb4", "text", lambda p: p.choice(names)
    return (
        f"SET({told}) CHARACTER SET utf8mb4",
        "set",
        lambda p: ",".join(name for name in names if p.random() < 0.3),
    )


def _json(_: random.Random, version: str) -> Any:
    if "5.6" in version:
        return None

    def document(p: random.Random, deep: int = 0) -> Any:
        simple = (None, True, 0, -1, 70000, 1 << 40, (1 << 64) - 1, 0.5, "", "日'x", "y" * 200)
        if deep > 2 or p.random() < 0.4:
            return p.choice(simple)
        if p.random() < 0.5:
            return [document(p, deep + 1) for _ in range(p.randrange(4))]
        return {f"k{i}": document(p, deep + 1) for i in range(p.randrange(4))}

    return "JSON", "json", lambda p: json.dumps(document(p), ensure_ascii=False)


def _point(_: random.Random, __: str) -> Any:
    def value(p: random.Random) -> bytes:
        return struct.pack("<IBIdd", 0, 1, 1, p.randrange(100), p.random())

    return "GEOMETRY", "geometry", value


def _vector(_: random.Random, version: str) -> Any:
    if not version.startswith(("9.", "11.8")):
        return None
    return "VECTOR(3)", "vector", lambda p: struct.pack("<3f", *(p.randrange(-9, 9) / 4 for _ in range(3)))


def _named(pick: random.Random, version: str) -> Any:
    """MariaDB's types of fixed bytes, from which the server trims zeros at the end."""
    if "MariaDB" not in version:
        return None
    kind = pick.choice(tuple(FIXED))

    def value(p: random.Random) -> str:
        size = 4 if kind == "inet4" else 16
        raw = p.randbytes(p.choice((0, 1, size - 1, size))).ljust(size, b"\0")
        return str(UUID(bytes=raw)) if kind == "uuid" else socket.inet_ntop(_FAMILIES[kind], raw)

    return kind.upper(), kind, value


_FAMILIES = {"inet4": socket.AF_INET, "inet6": socket.AF_INET6}
KINDS_OF = (
    _int,
    _int,
    _decimal,
    _float,
    _bit,
    _temporal,
    _temporal,
    _year,
    _text,
    _text,
    _bytes,
    _members,
    _json,
    _point,
    _vector,
    _named,
)
