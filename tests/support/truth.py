"""Compares decoded values with the server's SELECT. Each reader of values has its own small rules.

``Reader.PYTHON`` is for ``RowChange`` values, ``Reader.ARROW`` for those of Arrow and Parquet: there an
invalid date is null, so is a partial JSON update without its document, and GEOMETRY is a struct.
"""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import json
import re
import struct
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any, Protocol

from .golden import KNOWN_FULL, KNOWN_MINIMAL, KNOWN_SCHEMA, Golden

MICROSECOND = dt.timedelta(microseconds=1)
INTEGER_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}


class Reader(Enum):
    PYTHON = "python"
    ARROW = "arrow"


class Change(Protocol):
    """What is compared: attributes of ``binlog_core.RowChange`` and of the reference decoder's changes."""

    op: str
    database: str
    table: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    position: int
    timestamp: int
    gtid: str | None


# ------------------------------------------------------------------ temporal


def _with_digits(whole: str, microsecond: int, digits: int) -> str:
    fraction = f"{microsecond:06d}"
    assert not fraction[digits:].strip("0"), f"microseconds beyond {digits} digits: {microsecond}"
    return f"{whole}.{fraction[:digits]}" if digits else whole


def _digits(text: str) -> int:
    return len(text.partition(".")[2])


def time_text(value: dt.timedelta, digits: int) -> str:
    """A TIME as the server prints it: ``-838:59:59.000000``."""
    total = value // MICROSECOND
    seconds, microsecond = divmod(abs(total), 1_000_000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return _with_digits(
        f"{'-' if total < 0 else ''}{hour:02d}:{minute:02d}:{second:02d}", microsecond, digits
    )


def datetime_text(value: dt.datetime, digits: int) -> str:
    whole = value.replace(microsecond=0, tzinfo=None).isoformat(sep=" ")
    return _with_digits(whole, value.microsecond, digits)


def in_calendar(text: str) -> bool:
    """False for zero and partial dates and the year 0, which Python cannot hold."""
    try:
        dt.date.fromisoformat(text[:10])
    except ValueError:
        return False
    return True


def _same_temporal(got: object, want: str, kind: str) -> bool:
    if kind == "time":
        return isinstance(got, dt.timedelta) and time_text(got, _digits(want)) == want
    if not in_calendar(want):
        return got == want
    if kind == "date":
        return type(got) is dt.date and got.isoformat() == want
    if not isinstance(got, dt.datetime):
        return False
    offset = dt.timedelta(0) if kind == "timestamp" else None
    return got.utcoffset() == offset and datetime_text(got, _digits(want)) == want


# ---------------------------------------------------------------------- JSON

_PATH_LEG = re.compile(r'\.("(?:[^"\\]|\\.)*")|\.([^.\["]+)|\[(\d+)\]|\[last(?:-(\d+))?\]')


def apply_diffs(document: str, diffs: Iterable[tuple[str, str, str | None]]) -> object:
    """A JSON document after the list of diffs that a partial update logged."""
    root: list[Any] = [json.loads(document)]
    for operation, path, text in diffs:
        holder: Any = root
        key: Any = 0
        for leg in _PATH_LEG.finditer(path):
            holder = holder[key]
            quoted, name, cell, from_last = leg.groups()
            if quoted is not None:
                key = json.loads(quoted)
            elif name is not None:
                key = name
            else:
                key = int(cell) if cell is not None else len(holder) - 1 - int(from_last or 0)
        if operation == "remove":
            del holder[key]
            continue
        assert text is not None
        if operation == "insert" and isinstance(holder, list):
            holder.insert(key, json.loads(text))
        else:
            holder[key] = json.loads(text)
    return root[0]


def _same_json(got: object, want: str, before: dict[str, str] | None) -> bool:
    if isinstance(got, str):
        return got == want
    if isinstance(got, list | tuple) and before is not None:
        return apply_diffs(before["json"], got) == json.loads(want)
    return False


# -------------------------------------------------------------------- values


def _same_members(got: object, want: dict[str, Any], column: dict[str, Any], known: int) -> bool:
    if isinstance(got, int):
        return got == want["i"] and known < KNOWN_FULL
    text = want["s"]
    if known == KNOWN_SCHEMA and "?" in column["column_type"]:
        # MySQL 5.6 shows characters of members outside the basic plane as '?'.
        text = "".join("?" if ord(c) > 0xFFFF else c for c in text)
    if column["data_type"] == "set":
        return isinstance(got, list | tuple) and sorted(got) == sorted(text.split(",") if text else [])
    return got == text


def _same_bytes(got: object, raw: bytes, kind: str, known: int) -> bool:
    if isinstance(got, dict):  # Arrow's struct of GEOMETRY
        got = struct.pack("<I", got["srid"]) + got["wkb"]
    if isinstance(got, list | tuple):
        return kind == "vector" and struct.pack(f"<{len(got)}f", *got) == raw
    if not isinstance(got, bytes | bytearray | memoryview):
        return False
    # Without metadata BINARY(n) cannot be distinguished from CHAR(n), and stays trimmed.
    return bytes(got) == raw or (
        known < KNOWN_MINIMAL and kind == "binary" and bytes(got) == raw.rstrip(b"\0")
    )


def _same_object(got: object, want: dict[str, Any], column: dict[str, Any], known: int, before: Any) -> bool:
    if "json" in want:
        return _same_json(got, want["json"], before)
    if "i" in want:
        return _same_members(got, want, column, known)
    raw = bytes.fromhex(want["hex"])
    if "cs" in want:
        return got == want["s"] or (known < KNOWN_MINIMAL and got == raw)
    if "s" in want:  # INET4, INET6, UUID
        return got == want["s"] or _same_bytes(got, raw, "binary", known)
    return _same_bytes(got, raw, column["data_type"], known)


def same_value(
    got: object,
    want: Any,
    column: dict[str, Any],
    known: int,
    before: Any = None,
    reader: Reader = Reader.PYTHON,
) -> bool:
    """Whether a decoded value is the server's.

    Parameters
    ----------
    got
        The decoded value.
    want
        The truth's, in the notation of tests/data/README.md.
    column : dict
        The column's definition (``data_type``, ``column_type``).
    known : int
        What the log says about its columns: see golden.py. Nothing else is compared.
    before
        The truth's value before the change if the logged before image lacks the column: then a partial JSON
        update can only be given as its diffs.
    """
    kind = column["data_type"]
    if want is None:
        return got is None
    if got is None:
        # Arrow cannot hold an invalid date, nor diffs without the document that they change.
        without_place = (
            isinstance(want, str) and kind != "decimal" and not in_calendar(want)
        ) or before is not None
        return reader is Reader.ARROW and kind in ("date", "datetime", "timestamp", "json") and without_place
    if isinstance(want, dict):
        return _same_object(got, want, column, known, before)
    if isinstance(want, int):
        if type(got) is not int:
            return False
        unsigned = (
            got + (1 << INTEGER_BITS[kind])
            if got < 0 and kind in INTEGER_BITS and known < KNOWN_MINIMAL
            else got
        )
        return want in (got, unsigned)
    if isinstance(want, float):
        return isinstance(got, float) and got == want
    if kind == "decimal":
        return isinstance(got, decimal.Decimal) and format(got, "f") == want
    if kind in ("date", "time", "datetime", "timestamp"):
        return _same_temporal(got, want, kind)
    if isinstance(got, bytes):
        return known < KNOWN_MINIMAL and got == want.encode()
    return isinstance(got, str) and got == want


# ------------------------------------------------------------------- changes


def _image_differences(
    got: dict[str, Any] | None,
    want: dict[str, Any] | None,
    logged: list[int] | None,
    columns: dict[str, dict[str, Any]],
    known: int,
    lacking: dict[str, Any],
    reader: Reader,
) -> list[str]:
    if got is None or want is None:
        return [] if got is want else [f"{'no' if got is None else 'an'} image"]
    names = list(want)
    kept = set(names if logged is None else (names[i] for i in logged))
    places = {f"c{i}" for i, name in enumerate(names) if name in kept}
    named = known >= KNOWN_FULL or set(got) == kept or set(got) != places
    found = []
    for i, name in enumerate(names):
        key = name if named else f"c{i}"
        if name not in kept:
            if key in got:
                found.append(f"{name}: not in the image, yet given as {got[key]!r:.80}")
        elif key not in got:
            found.append(f"{name}: missing; there are {list(got)[:6]}")
        elif not same_value(got[key], want[name], columns[name], known, lacking.get(name), reader):
            found.append(
                f"{name} ({columns[name]['column_type']}): {got[key]!r:.80}, truth {want[name]!r:.80}"
            )
    return found


def change_differences(
    change: Change,
    golden: Golden,
    row: int,
    known: int | None = None,
    reader: Reader = Reader.PYTHON,
    place: bool = True,
) -> list[str]:
    """How one decoded change differs from change number ``row`` of the truth: a line per difference."""
    if row >= len(golden.truth):
        return [f"row {row}: the truth has {len(golden.truth)} only"]
    truth = golden.truth[row]
    what, want = (change.op, change.database, change.table), (truth["op"], truth["db"], truth["table"])
    if what != want:
        return [f"row {row}: {what}, truth {want}"]
    known = golden.known if known is None else known
    columns = golden.columns_of(row)
    logged = truth.get("before_cols")
    lacking = {}
    if logged is not None and truth["before"]:
        lacking = {name: value for i, (name, value) in enumerate(truth["before"].items()) if i not in logged}
    found = [
        f"row {row} {side} {line}"
        for side, got, cols, gone in (
            ("before", change.before, logged, {}),
            ("after", change.after, truth.get("after_cols"), lacking),
        )
        for line in _image_differences(got, truth[side], cols, columns, known, gone, reader)
    ]
    if place:
        if change.position not in golden.row_positions:
            found.append(f"row {row}: no rows event at {change.position}")
        elif change.gtid != golden.gtid_at(change.position):
            found.append(f"row {row}: gtid {change.gtid}, truth {golden.gtid_at(change.position)}")
        if not 1_000_000_000 <= change.timestamp < 2_000_000_000:
            found.append(f"row {row}: timestamp {change.timestamp}")
    return found


def differences(
    changes: Iterable[Change],
    golden: Golden,
    known: int | None = None,
    reader: Reader = Reader.PYTHON,
    place: bool = True,
    limit: int = 10,
) -> list[str]:
    """How decoded changes differ from the whole truth, in at most ``limit`` lines; empty if they agree."""
    found: list[str] = []
    count = 0
    for row, change in enumerate(changes):
        count += 1
        found += change_differences(change, golden, row, known, reader, place)
        if len(found) >= limit:
            return found[:limit]
    if count != len(golden.truth):
        found.append(f"{count} rows, truth {len(golden.truth)}")
    return found


def header_differences(headers: Sequence[Sequence[int]], golden: Golden) -> list[str]:
    """How headers (position, server id, next position, length) differ from SHOW BINLOG EVENTS.

    Events inside a compressed transaction are listed where it ends.
    """
    want = [(e["pos"], e["server_id"], e["end"]) for e in golden.events if e["pos"] != e["end"]]
    found = [
        f"header {got}, truth {listed}"
        for got, listed in zip(headers, want, strict=False)
        if tuple(got[:3]) != listed
    ]
    # Lists were taken of running servers: a clean shutdown's STOP follows, and a file cut later has less.
    if abs(len(headers) - len(want)) > 1:
        found.append(f"{len(headers)} headers, truth {len(want)}")
    found += [
        f"header {got} ends elsewhere than {following} begins"
        for got, following in itertools.pairwise(headers)
        if got[0] + got[3] != following[0]
    ]
    return found
