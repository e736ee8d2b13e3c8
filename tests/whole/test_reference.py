"""The comparison with the truth; the reference decoder in plain Python, as a whole and in parts."""

from __future__ import annotations

import copy
import datetime as dt
import math
from pathlib import Path
from typing import Any

import pytest
from reference import Log, Malformed, read_log
from reference.cursor import Cursor
from reference.jsonb import double_text, quote
from support import writer
from support.golden import Golden, golden_logs, old_logs
from support.known import read
from support.truth import differences, header_differences

ALL = golden_logs()


def headers_of(log: Log) -> list[tuple[int, int, int, int]]:
    return [(h.position, h.server_id, h.next_position, h.event_length) for h in log.headers]


@pytest.mark.parametrize("golden", ALL, ids=str)
def test_it_reads_what_the_server_has(golden: Golden) -> None:
    log = read(golden)
    assert differences(log.changes, golden) == []
    assert header_differences(headers_of(log), golden) == []


def _changed(value: Any) -> Any:
    """A value of the same kind that is not this one."""
    if isinstance(value, str):
        return value + "x"
    if isinstance(value, bytes):
        return value + b"x"
    if isinstance(value, list):
        return [*value, 1.5 if value and isinstance(value[0], float) else "x"]
    if isinstance(value, float):
        return math.nextafter(value, 0.0) if value else 1.0
    if isinstance(value, dt.date):
        return value - dt.timedelta(days=1) if value.year > 1 else value + dt.timedelta(days=1)
    if isinstance(value, dt.timedelta):
        return value + dt.timedelta(seconds=1)
    return 1 if value is None else value + 1


@pytest.mark.parametrize(
    "golden", [g for g in ALL if "types_" in g.name and g.path.stat().st_size < 20_000], ids=str
)
def test_comparison_sees_every_changed_value(golden: Golden) -> None:
    """A wrong value in any column of the last row is found."""
    changes = read(golden).changes
    image = changes[-1].after or changes[-1].before
    assert image is not None
    for name, value in list(image.items()):
        wrong = copy.copy(image)
        wrong[name] = _changed(value)
        broken = copy.copy(changes[-1])
        if broken.after:
            broken.after = wrong
        else:
            broken.before = wrong
        assert differences([*changes[:-1], broken], golden) != [], name


def test_comparison_sees_lost_rows_and_places() -> None:
    (golden,) = golden_logs("maria118/ddl")
    changes = read(golden).changes
    assert differences(changes[:-1], golden) != []
    assert differences([*changes, changes[-1]], golden) != []
    moved = copy.copy(changes[0])
    moved.position += 1
    assert differences([moved, *changes[1:]], golden) != []


def test_comparison_sees_wrong_and_lost_headers() -> None:
    (golden,) = golden_logs("maria118/ddl")
    headers = headers_of(read(golden))
    assert header_differences(headers, golden) == []
    assert header_differences(headers[:-2], golden) != []
    for part in range(4):
        wrong = list(headers[1])
        wrong[part] += 1
        assert header_differences([headers[0], tuple(wrong), *headers[2:]], golden) != [], part


@pytest.mark.parametrize("path", old_logs(), ids=lambda p: p.name)
def test_old_logs_are_read_to_the_end(path: Path) -> None:
    # A table of TIMESTAMP(n) in MariaDB's own layout: create table t(id int primary key, d timestamp(3)) …
    digits = {"steven.t": 3, "steven.t2": 4, "steven.t4": 4, "steven.t5": 1, "steven.t6": 4}
    log = read_log(path.read_bytes(), old_digits={name: {1: n} for name, n in digits.items()})
    last = log.headers[-1]
    assert last.position + last.event_length == path.stat().st_size
    assert log.server_versions


def test_broken_input() -> None:
    with pytest.raises(Malformed):
        read_log(b"PK\3\4")
    (golden,) = golden_logs("mysql97/stop")
    data = bytearray(golden.data)
    data[len(data) // 2] ^= 1
    with pytest.raises(Malformed):
        read_log(bytes(data))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1.0"),
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (123456789012345.0, "123456789012345.0"),
        (1e15, "1e15"),
        (1.3157555300147416e-15, "0.0000000000000013157555300147416"),
        (8.925842534745898e15, "8.925842534745898e15"),
        (1.8446744073709552e19, "1.8446744073709552e19"),
        (1e-16, "1e-16"),
        (0.1, "0.1"),
        (-2.5, "-2.5"),
    ],
)
def test_json_doubles_as_the_server_prints_them(value: float, text: str) -> None:
    assert double_text(value) == text


def test_json_strings() -> None:
    assert quote('a"\\\n\x01é') == '"a\\"\\\\\\n\\u0001é"'


def test_integers_of_the_serialization_library() -> None:
    assert Cursor(bytes.fromhex("fbff07")).varint() == 65535
    assert [Cursor(bytes.fromhex(h)).signed_varint() for h in ("f3ff0f", "ebff0f", "fbff0f")] == [
        65535,
        -65535,
        -65536,
    ]


def test_renumbered_logs_of_the_early_5_1() -> None:
    """Codes 16 and 17 of these builds are TABLE_MAP and WRITE_ROWS version 0."""
    log = writer.Log("5.2.2-a_drop6p13-alpha", rows_version=0)
    table = writer.Table("test", "t", [("a", "INT")], metadata=None)
    at = log.table_map(table, with_metadata=False)
    log.rows_event(0, table, bytes.fromhex("fd00000000"), [True])
    log.xid(7)
    data = log.getvalue()
    assert data[at + 4] == 16
    read = read_log(data)
    assert [h.type_code for h in read.headers] == [15, 19, 20, 16]
    assert read.undecoded == 1
