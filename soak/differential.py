# ruff: noqa: E402, E501
"""Random tables and statements; each way of reading the log must give the rows that SELECT then returns.

    python soak/differential.py --logs 100                        # the machine's mariadbd
    python soak/differential.py --logs 100 --port 3306 --seed 7   # a server that runs, root has no password
    python soak/differential.py --logs 1 --seed 1234              # one log again

Each log has its own seed: tables of random columns of all types, with keys of all kinds or none, rows and
definitions that change, row images that are complete or partial. It is read with rows(), arrays (support/arrays.py,
by NumPy alone), Arrow batches (through records and straight into columns), Arrow streams, three threads, splits,
from the server, and from an archive. The changes, applied in order, must give the server's rows, and all ways
must have read the same changes.
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import struct
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
from archive_kills import connect
from server import port_of

sys.path[:0] = [str(Path(__file__).resolve().parent.parent / "tests" / one) for one in ("", "whole")]
from support.arrays import array_changes
from support.server import dump
from support.splits import cut, read_all
from test_arrow_truth import changes as arrow_changes

import binlog_core
from binlog_core._core import _rows
from binlog_core.archive import archive

DATABASE = "differ"
TEMPORAL = ("date", "time", "datetime", "timestamp")
Row = dict[str, Any]


@dataclass
class Column:
    name: str
    sql: str
    kind: str
    value: Callable[[random.Random], Any]
    null: bool = True


@dataclass
class Table:
    name: str
    own: str
    columns: list[Column]
    key: tuple[str, ...]
    altered: bool = False
    added: int = 0
    kinds: dict[str, str] = field(default_factory=dict)


# ---------------------------------------------------------------- columns


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
    kind = pick.choice(tuple(_FIXED))

    def value(p: random.Random) -> str:
        size = 4 if kind == "inet4" else 16
        raw = p.randbytes(p.choice((0, 1, size - 1, size))).ljust(size, b"\0")
        return str(UUID(bytes=raw)) if kind == "uuid" else socket.inet_ntop(_FAMILIES[kind], raw)

    return kind.upper(), kind, value


_FAMILIES = {"inet4": socket.AF_INET, "inet6": socket.AF_INET6}
_FIXED = {
    "uuid": lambda text: UUID(text).bytes,
    "inet4": lambda text: socket.inet_pton(socket.AF_INET, text),
    "inet6": lambda text: socket.inet_pton(socket.AF_INET6, text),
}

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


# ---------------------------------------------------------------- the work


class Work:
    """One log: the work on the server."""

    def __init__(self, cursor: Any, version: str, seed: int) -> None:
        self.pick, self.cursor, self.version = random.Random(seed), cursor, version
        self.mariadb = "MariaDB" in version
        self.image = self.pick.choice(("FULL", "FULL", "FULL", "MINIMAL", "NOBLOB"))
        self.tables: list[Table] = []

    def run(self, sql: str, *values: Any) -> None:
        self.cursor.execute(sql, values or None)

    def tried(self, sql: str, *values: Any) -> None:
        """Restrictions that a key or a value brings."""
        with suppress(self.cursor.connection.Error):
            self.run(sql, *values)

    def begin(self) -> None:
        pick = self.pick
        self.run("SET SESSION sql_mode = '', time_zone = '+00:00', foreign_key_checks = 0")
        self.run(f"SET SESSION binlog_row_image = '{self.image}'")
        if self.version.startswith(("8.", "9.")):
            self.run(f"SET SESSION binlog_transaction_compression = {pick.choice(('ON', 'OFF', 'OFF'))}")
            partial = self.image == "FULL" and pick.random() < 0.4  # else there is nothing to apply diffs to
            self.run(f"SET SESSION binlog_row_value_options = '{'PARTIAL_JSON' if partial else ''}'")
        if self.mariadb:
            self.run(f"SET GLOBAL log_bin_compress = {pick.choice(('ON', 'OFF', 'OFF'))}")
            self.run("SET GLOBAL log_bin_compress_min_len = 10")
        self.run(f"CREATE DATABASE {DATABASE} CHARACTER SET {pick.choice(('utf8mb4', 'latin1'))}")
        self.run(f"USE {DATABASE}")
        for number in range(pick.randrange(1, 4)):
            self._create(f"t{number}")

    def _create(self, name: str, own: tuple[tuple[str, ...], str] | None = None) -> None:
        pick = self.pick
        keys: list[tuple[tuple[str, ...], str]] = [
            (("id",), "id INT NOT NULL"),
            (("id",), "id BIGINT UNSIGNED NOT NULL"),
            (("id", "k"), "id INT NOT NULL, k VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"),
            (("k",), "id INT, k VARBINARY(9) NOT NULL"),
            ((), "id INT"),
        ]
        key, sql = own or pick.choice(keys if self.image == "FULL" else keys[:4])
        table = Table(
            name, sql, [column(f"c{i}", pick, self.version) for i in range(pick.randrange(1, 9))], key
        )
        parts = [sql, "touched INT", *(f"{one.name} {one.sql}" for one in table.columns)]
        parts += [f"PRIMARY KEY ({', '.join(key)})"] if key else []
        self.run(f"CREATE TABLE {name} ({', '.join(parts)}) CHARACTER SET utf8mb4")
        table.kinds = {
            "id": "int",
            "touched": "int",
            **({"k": "bytes" if "VARBINARY" in sql else "text"} if "k " in sql else {}),
        }
        self.tables.append(table)

    def _set(self, one: Column) -> tuple[str, Any]:
        """A value, and its form in a statement."""
        value = None if self.pick.random() < 0.2 else one.value(self.pick)
        if one.kind == "geometry" and value is not None:
            return "ST_GeomFromWKB(%s)" if "5.6" not in self.version else "GeomFromWKB(%s)", value[4:]
        return ("CONVERT(%s USING utf8mb4)" if one.kind == "json" and value is not None else "%s"), value

    def work(self, count: int) -> None:
        for _ in range(count):
            if self.pick.random() < 0.3:
                self.run("BEGIN")
                for _ in range(self.pick.randrange(1, 6)):
                    self.change(self.pick.choice(self.tables))
                self.run(self.pick.choice(("COMMIT", "COMMIT", "ROLLBACK")))
            else:
                self.change(self.pick.choice(self.tables))
            if self.pick.random() < 0.06 and self.image == "FULL":
                self.alter(self.pick.choice(self.tables))

    def change(self, table: Table) -> None:
        pick, what = self.pick, self.pick.random()
        key = pick.randrange(50)
        if what < 0.55:
            rows, values = [], []
            for _ in range(pick.choice((1, 1, 1, 5, 30))):
                sets = [self._set(one) for one in table.columns]
                own = [
                    pick.randrange(80),
                    *([pick.choice(("a", "é", "Z9"))] if "k" in table.kinds else []),
                    0,
                ]
                rows.append("(" + ", ".join([*("%s" for _ in own), *(sql for sql, _ in sets)]) + ")")
                values += [*own, *(value for _, value in sets)]
            names = [
                "id",
                *(["k"] if "k" in table.kinds else []),
                "touched",
                *(one.name for one in table.columns),
            ]
            verb = pick.choice(("INSERT IGNORE", "INSERT IGNORE", "REPLACE"))
            self.tried(f"{verb} INTO {table.name} ({', '.join(names)}) VALUES {', '.join(rows)}", *values)
        elif what < 0.85 and table.columns:
            one = pick.choice(table.columns)
            if one.kind == "json" and not self.mariadb and pick.random() < 0.7:
                path = pick.choice(("$.k0", "$.k1", "$[0]", "$[1]", "$.k0.k1"))
                self.tried(
                    f"UPDATE {table.name} SET {one.name} = JSON_SET({one.name}, '{path}', %s) WHERE id > %s",
                    key,
                    key,
                )
                return
            sql, value = self._set(one)
            self.tried(
                f"UPDATE {table.name} SET {one.name} = {sql} WHERE id % 7 = %s".replace("% 7", "%% 7"),
                value,
                key % 7,
            )
        elif what < 0.93:
            self.tried(
                f"UPDATE IGNORE {table.name} SET id = id + %s WHERE id = %s", pick.randrange(1, 40), key
            )
        else:
            self.tried(f"DELETE FROM {table.name} WHERE id BETWEEN %s AND %s", key, key + pick.randrange(4))

    def alter(self, table: Table) -> None:
        if not table.key:
            return
        pick, columns = self.pick, table.columns
        what = pick.randrange(5)
        table.added += 1
        if what == 0 or not columns:
            new = column(f"x{table.added}", pick, self.version)
            self.run(
                f"ALTER TABLE {table.name} ADD COLUMN {new.name} {new.sql} {pick.choice(('', 'FIRST', 'AFTER id'))}"
            )
            columns.append(new)
        elif what == 1:
            gone = columns.pop(pick.randrange(len(columns)))
            self.run(f"ALTER TABLE {table.name} DROP COLUMN {gone.name}")
        elif what == 2:
            one = pick.choice(columns)
            self.run(f"ALTER TABLE {table.name} CHANGE {one.name} y{table.added} {one.sql}")
            one.name = f"y{table.added}"
        elif what == 3:
            self.run(f"DELETE FROM {table.name}")
            self.run(f"DROP TABLE {table.name}")
            self.tables.remove(table)
            self._create(table.name, (table.key, table.own))
            self.tables[-1].altered = True
            return
        else:
            self.run(f"ALTER TABLE {table.name} MODIFY touched BIGINT")
        table.altered = True
        self.run(f"UPDATE {table.name} SET touched = COALESCE(touched, 0) + 1")

    def truth(self) -> dict[str, Counter[str]]:
        """The rows of each table."""
        found = {}
        for table in self.tables:
            kinds = {**table.kinds, **{one.name: one.kind for one in table.columns}}
            asked = [
                f"CAST({name} AS CHAR)" if kind in TEMPORAL else f"HEX({name})" if kind == "vector" else name
                for name, kind in kinds.items()
            ]
            self.run(f"SELECT {', '.join(asked)} FROM {table.name}")
            rows = [dict(zip(kinds, row, strict=True)) for row in self.cursor.fetchall()]
            found[table.name] = Counter(
                shown({name: known(row[name], kinds[name]) for name in row}) for row in rows
            )
        return found

    def kinds(self, table: str) -> dict[str, str]:
        one = next(one for one in self.tables if one.name == table)
        return {**one.kinds, **{each.name: each.kind for each in one.columns}}


# ---------------------------------------------------------------- values


def known(value: Any, kind: str) -> Any:
    """A value of SELECT, in the form that `ours` gives decoded values."""
    if value is None:
        return None
    if kind == "bytes":
        return (value.encode() if isinstance(value, str) else bytes(value)).rstrip(b"\0")
    if kind in _FIXED:
        return _FIXED[kind](value)
    if kind == "bit":
        return int.from_bytes(value, "big")
    if kind == "set":
        return sorted(value.split(",")) if value else []
    if kind == "json":
        return json.dumps(json.loads(value), sort_keys=True)
    if kind == "vector":
        raw = bytes.fromhex(value) if isinstance(value, str) else value
        return list(struct.unpack(f"<{len(raw) // 4}f", raw))
    if kind in TEMPORAL:
        return value.decode() if isinstance(value, bytes) else value
    return value


def ours(value: Any, kind: str) -> Any:
    """A decoded value, to be compared."""
    if value is None:
        return None
    if kind == "bytes":
        return bytes(value).rstrip(b"\0")
    if kind in _FIXED:
        return bytes(value)
    if kind in ("int", "bit"):
        return int(value)
    if kind == "decimal":
        return Decimal(value)
    if kind == "set":
        return sorted(value)
    if kind == "json":
        return json.dumps(json.loads(value), sort_keys=True)
    if kind == "vector":
        if isinstance(value, bytes):  # MariaDB logs a VARBINARY
            return known(value, kind)
        return [float(one) for one in value]
    if kind == "geometry":
        if isinstance(value, dict):
            return struct.pack("<I", value["srid"] or 0) + value["wkb"]
        if not isinstance(value, bytes):
            return struct.pack("<I", value.srid) + bytes(value.wkb)
    if kind in TEMPORAL:
        return text_of(value, kind)
    return value


def text_of(value: Any, kind: str) -> str:
    """A date or time with as many digits as it needs; other values unchanged."""
    from support.truth import datetime_text, time_text

    if isinstance(value, str):
        return value
    return value.isoformat() if kind == "date" else (time_text if kind == "time" else datetime_text)(value, 6)


def shown(row: Row) -> str:
    """A row, to be compared: fractions of seconds without trailing zeros."""
    return repr(sorted((name, trimmed(value)) for name, value in row.items()))


def trimmed(value: Any) -> Any:
    return (
        value.rstrip("0").rstrip(".")
        if (isinstance(value, str) and value[-7:-6] == ".") or _fraction(value)
        else value
    )


def _fraction(value: Any) -> bool:
    return isinstance(value, str) and ":" in value and "." in value[-7:] and value[-1].isdigit()


# ---------------------------------------------------------------- ways of reading


def folded(changes: Iterable[Any], work: Work) -> dict[str, Counter[str]]:
    """The rows after all changes."""
    rows: dict[str, dict[Any, Row]] = {}
    bags: dict[str, Counter[str]] = {}
    keys = {table.name: table.key for table in work.tables}
    for change in changes:
        if change.database != DATABASE:
            continue
        key, kinds = keys.get(change.table, ()), work.kinds(change.table)

        def row(image: Row, kinds: dict[str, str] = kinds) -> Row:
            return {
                name: ours(value, kinds[name]) if name in kinds else value for name, value in image.items()
            }

        if not key:
            bag = bags.setdefault(change.table, Counter())
            if change.before is not None:
                old = shown(row(change.before))
                if not bag[old]:
                    raise AssertionError(f"{change.table}: no row {old}")
                bag[old] -= 1
            if change.after is not None:
                bag[shown(row(change.after))] += 1
            continue
        here = rows.setdefault(change.table, {})
        held: Row = {}
        if change.before is not None:
            held = here.pop(repr([change.before[name] for name in key]))
        if change.after is not None:
            # An image may lack columns that did not change; one of another definition has all of its columns.
            new = {**held, **change.after} if work.image != "FULL" else change.after
            here[repr([new.get(name) for name in key])] = new
    for table, left in rows.items():
        kinds = work.kinds(table)
        bags[table] = Counter(
            shown({name: ours(value, kinds[name]) for name, value in one.items()}) for one in left.values()
        )
    return {table.name: +bags.get(table.name, Counter()) for table in work.tables}


def places(changes: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Changes, to be compared with those of another way that gives the same values."""
    return [
        (c.position, c.op, c.table, repr(c.before), repr(c.after)) for c in changes if c.database == DATABASE
    ]


def read(path: Path, url: str, name: str, folder: Path, work: Work) -> tuple[dict[str, Any], int]:
    """For each way of reading: the rows after all changes; and how many batches went straight into columns."""
    given = {"schema": "ddl"}
    roads: dict[str, Any] = {}
    with binlog_core.open(path, **given) as log:
        rows = list(log.rows())
        roads["rows"] = folded(rows, work)
        roads["arrays"] = folded(array_changes(log.batches()), work)
        roads["arrow"] = folded(arrow_changes(log), work)
    same = {}
    with binlog_core.open(path, threads=3, **given) as log:
        same["threads"] = places(log.rows())
    with binlog_core.open(url, start=(name, 4), **given) as log:
        same["live"] = places(change for change in log.rows())
    archive(url, folder, start=name, until="now")
    with binlog_core.open(folder, **given) as log:
        same["archive"] = places(log.rows())
    wanted = places(rows)
    for road, found in same.items():
        roads[road] = roads["rows"] if found == wanted else difference(found, wanted)
    with binlog_core.open(path) as log:
        plain = places(log.rows())
    split = places(read_all(cut(path, 1500))[0])
    roads["splits"] = roads["rows"] if split == plain else difference(split, plain)
    wrong, at_once = arrow_differences(path, **given)
    roads["arrow"] = wrong or roads["arrow"]
    return roads, at_once


def arrow_of(
    path: Path, least: int, tables: str | None = None, **given: Any
) -> tuple[list[tuple[str, pa.RecordBatch, list[Any]]], int]:
    """Batches of a few records, straight into columns from `least` records on; and how many were."""
    before = _rows.columns_from(least)
    found, at_once = [], 0
    try:
        with binlog_core.open(path, limits=binlog_core.Limits(group_rows=8), **given) as log:
            for batch in log.batches(tables):
                made = batch.to_arrow()
                made.validate(full=True)
                at_once += batch.run_list is not None
                found.append((batch.table.full_name, made, batch.invalid_dates.tolist()))
    finally:
        _rows.columns_from(before)
    return found, at_once


def arrow_differences(path: Path, **given: Any) -> tuple[str, int]:
    """How columns and streams differ from batches through records; and the number of batches straight into columns."""
    records, none = arrow_of(path, 1 << 30, **given)
    columns, at_once = arrow_of(path, 1, **given)
    assert not none
    if columns != records:
        return f"columns at once: {difference(columns, records)}", at_once
    for table in {name for name, _, _ in records}:
        # Rows of a compressed transaction are numbered among those that are read.
        parts = [part for _, part, _ in arrow_of(path, 1 << 30, table, **given)[0]]
        places = [(row["_position"], row["_row"]) for part in parts for row in part.to_pylist()]
        if places != sorted(places):
            return f"rows of {table} are not in the order of the log", at_once
        if any(part.schema != parts[0].schema for part in parts):
            continue  # a stream has one schema
        for least, threads in ((1, 1), (1, 3), (1 << 30, 1)):
            before = _rows.columns_from(least)
            try:
                with binlog_core.open(
                    path, threads=threads, limits=binlog_core.Limits(group_rows=8), **given
                ) as log:
                    stream = pa.table(log.batches(table))
            finally:
                _rows.columns_from(before)
            if stream != pa.Table.from_batches(parts):
                return f"stream of {table}, {threads} threads, at once from {least}", at_once
    return "", at_once


def difference(found: list[Any], wanted: list[Any]) -> str:
    first = next((pair for pair in zip(found, wanted, strict=False) if pair[0] != pair[1]), None)
    return f"{len(found)} changes of {len(wanted)}; {first!r:.600}"


def log_of(port: int, seed: int) -> tuple[list[str], Counter[str]]:
    """What is wrong with one log; its rows at the end, its bytes, its batches that went straight into columns."""
    url = f"mysql://root@127.0.0.1:{port}"
    with (
        closing(connect(port)) as connection,
        connection.cursor() as cursor,
        tempfile.TemporaryDirectory(prefix="differ") as folder,
    ):
        work = Work(cursor, connection.get_server_info(), seed)
        cursor.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("SHOW BINARY LOGS")
        name = cursor.fetchall()[-1][0]
        work.begin()
        work.work(work.pick.choice((10, 30, 80)))
        truth = work.truth()
        cursor.execute("FLUSH BINARY LOGS")
        path = Path(folder) / name
        path.write_bytes(b"\xfebin" + b"".join(dump(name, url)))
        roads, at_once = read(path, url, name, Path(folder) / "archive", work)
        wrong = []
        for road, found in roads.items():
            if isinstance(found, str):
                wrong.append(f"{road}: {found}")
                continue
            for table, rows in truth.items():
                if found[table] != rows:
                    more, less = found[table] - rows, rows - found[table]
                    wrong.append(
                        f"{road}: {table}: {list(more)[:1]!r:.900} instead of {list(less)[:1]!r:.900}"
                    )
        return wrong, Counter(rows=sum(map(len, truth.values())), size=path.stat().st_size, at_once=at_once)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--logs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--port", type=int)
    parser.add_argument("--keep-going", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    bad: list[int] = []
    figures: Counter[str] = Counter()
    began = time.monotonic()
    with port_of(arguments.port) as port:
        for seed in range(arguments.seed, arguments.seed + arguments.logs):
            try:
                wrong, found = log_of(port, seed)
                figures += found
            except KeyboardInterrupt:
                seed -= 1
                break
            except Exception:
                wrong = [traceback.format_exc()]
            if wrong:
                bad.append(seed)
                print(f"seed {seed}:", *wrong, sep="\n  ", flush=True)
                if not arguments.keep_going:
                    break
    seconds = time.monotonic() - began
    done = seed - arguments.seed + 1
    print(
        f"{done} logs from seed {arguments.seed}, {figures['size']:,} bytes, {figures['rows']:,} rows at the end,"
        f" {figures['at_once']:,} batches as columns at once, {seconds:.0f} s; wrong: {bad or 'none'}"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
