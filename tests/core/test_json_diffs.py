"""Partial updates of JSON documents: the list of diffs, and the document after it."""

from __future__ import annotations

import json
import random
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.growth import assert_linear
from support.jsonb_encoder import Opaque, encode, expected, json_values

from binlog_core._core._jsonb import apply_json_diffs, parse_json_diffs
from binlog_core.errors import DecodeError

pytestmark = pytest.mark.sanitize


def lenenc(n: int) -> bytes:
    return bytes([n]) if n < 251 else b"\xfc" + struct.pack("<H", n)


def diff(operation: int, path: str, *value: object) -> bytes:
    out = bytes([operation]) + lenenc(len(path.encode())) + path.encode()
    for v in value:
        out += lenenc(len(encode(v))) + encode(v)
    return out


def replace(path: str, value: object) -> bytes:
    return diff(0, path, value)


def insert(path: str, value: object) -> bytes:
    return diff(1, path, value)


def remove(path: str) -> bytes:
    return diff(2, path)


def test_parse_diffs() -> None:
    data = replace("$.name", "short") + insert("$.new", {"k": 1}) + remove('$."é key"[last-1]')
    assert parse_json_diffs(data) == [
        ("replace", "$.name", '"short"'),
        ("insert", "$.new", '{"k": 1}'),
        ("remove", '$."é key"[last-1]', None),
    ]
    assert parse_json_diffs(b"") == []


PAGE = {
    "i": 1,
    "f": 1.5,
    "list": [0, 1, 2, 3],
    "o": {"p": {"q": [1, {"r": "deep"}]}},
    "é key": {"a.b": 1},
}


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize(
    ("document", "diffs", "want"),
    [
        (PAGE, b"", PAGE),
        ([1], replace("$", {"a": 2}), {"a": 2}),
        (PAGE, replace("$.i", -1), PAGE | {"i": -1}),
        (PAGE, replace("$.f", None), PAGE | {"f": None}),
        (PAGE, replace("$.list[0]", [1, 2]), PAGE | {"list": [[1, 2], 1, 2, 3]}),
        (PAGE, replace("$.list[last]", 9), PAGE | {"list": [0, 1, 2, 9]}),
        (PAGE, replace("$.list[ last - 3 ]", 9), PAGE | {"list": [9, 1, 2, 3]}),
        (PAGE, remove("$.list[1]") + remove("$.list[1]"), PAGE | {"list": [0, 3]}),
        (PAGE, remove("$.o.p"), PAGE | {"o": {}}),
        (PAGE, replace("$.o.p.q[1].r", 5), PAGE | {"o": {"p": {"q": [1, {"r": 5}]}}}),
        (PAGE, replace("$ . o.p", 7), PAGE | {"o": {"p": 7}}),
        (PAGE, replace('$."\\u00e9 key"."a.b"', 42), PAGE | {"é key": {"a.b": 42}}),
        (PAGE, replace('$."é key"."a.b"', 42), PAGE | {"é key": {"a.b": 42}}),
        (PAGE, insert("$.new", {"k": 1}) + replace("$.new.k", 2), PAGE | {"new": {"k": 2}}),
        (PAGE, insert('$."q\\"\\\\"', 1), PAGE | {'q"\\': 1}),
        (PAGE, insert("$.a", 1) + insert("$.zzz", 2) + insert('$.""', 3), PAGE | {"a": 1, "zzz": 2, "": 3}),
        (PAGE, insert("$.list[1]", "x"), PAGE | {"list": [0, "x", 1, 2, 3]}),
        (PAGE, insert("$.list[99]", "x"), PAGE | {"list": [0, 1, 2, 3, "x"]}),
        (PAGE, insert("$.list[last]", "x"), PAGE | {"list": [0, 1, 2, "x", 3]}),
        (PAGE, insert("$.list[last-9]", "x"), PAGE | {"list": ["x", 0, 1, 2, 3]}),
        (PAGE, replace("$.i[0]", 2) + replace("$.f[last]", 3), PAGE | {"i": 2, "f": 3}),
        ([{"f": 1}, {"f": 2}], replace("$[0].f", 2.5) + replace("$[1].f", 1.25), [{"f": 2.5}, {"f": 1.25}]),
        ([], insert("$[0]", 1) + insert("$[1]", []) + insert("$[1][0]", 2), [1, [2]]),
    ],
)  # fmt: skip
def test_apply_diffs(document: object, diffs: bytes, want: object, large: bool) -> None:
    assert apply_json_diffs(encode(document, large), diffs).decode() == expected(want)


def test_scalars_beside_the_path_keep_their_text() -> None:
    document = {
        "d": Opaque(246, bytes([4, 2, 0x80, 0])),
        "n": 1e15,
        "t": Opaque(12, bytes(8)),
        "x": 0,
    }
    assert apply_json_diffs(encode(document), replace("$.x", 1)) == (
        b'{"d": 0.00, "n": 1e15, "t": "0000-00-00 00:00:00.000000", "x": 1}'
    )


@pytest.mark.parametrize(
    ("document", "diffs"),
    [
        (PAGE, b"\x03\x03$.i"),
        (PAGE, b"\x02\xff"),
        (PAGE, b"\x02\x04$.i"),
        (PAGE, b"\x02"),
        (PAGE, b"\x00\x03$.i"),
        (PAGE, b"\x00\x03$.i\x05\x05\x00"),
        (PAGE, b"\x02\x03$.\xff"),
        (PAGE, replace("$.absent", 1)),
        (PAGE, replace("$.list[4]", 1)),
        (PAGE, replace("$.list[last-4]", 1)),
        (PAGE, replace("$.list.a", 1)),
        (PAGE, replace("$.i[1]", 1)),
        (PAGE, insert("$.i", 1)),
        (PAGE, insert("$.i.j", 1)),
        (PAGE, insert("$.o[0]", 1)),
        (PAGE, insert("$", 1)),
        (PAGE, remove("$")),
        (PAGE, remove("$[0]")),
        (PAGE, remove("")),
        (PAGE, remove("i")),
        (PAGE, remove("$i")),
        (PAGE, remove("$.")),
        (PAGE, remove("$.i.")),
        (PAGE, remove("$..i")),
        (PAGE, remove("$.*")),
        (PAGE, remove("$[*]")),
        (PAGE, remove("$[")),
        (PAGE, remove("$[-1]")),
        (PAGE, remove("$[last+1]")),
        (PAGE, remove("$[99999999999999999999]")),
        (PAGE, remove('$."i')),
        (PAGE, remove('$."\\')),
        (PAGE, remove('$."\\ud800"')),
        (PAGE, remove("$" + "[0]" * 101)),
    ],
)
def test_diffs_that_do_not_fit(document: object, diffs: bytes) -> None:
    with pytest.raises(DecodeError):
        apply_json_diffs(encode(document), diffs)


def test_diffs_of_a_damaged_document() -> None:
    for data in (b"\x00\x01", b"\x02\x01\x00\x07\x00\x0c\x08\x00"):
        with pytest.raises(DecodeError):
            apply_json_diffs(data, replace("$[0]", 1))
    twice = encode({"x": 1, "y": 2}).replace(b"xy", b"xx")
    with pytest.raises(DecodeError):
        apply_json_diffs(twice, replace("$.x", 1))


@given(
    json_values,
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), json_values), max_size=4),
    st.booleans(),
)
@settings(deadline=None, max_examples=200)
def test_any_diffs(document: object, changes: list[tuple[int, int, object]], large: bool) -> None:
    """Replace, insert and remove at random places of a document, against the same done in Python."""
    want: Any = json_copy(document)
    data = b""
    for operation, pick, value in changes:
        key: Any = pick
        if isinstance(want, dict):
            keys = sorted(want)
            key = "new key" if operation == 1 else keys[pick % len(keys)] if keys else "k"
            leg = "." + json.dumps(key)
            fits = (key in want) == (operation != 1)
        elif isinstance(want, list):
            leg = f"[{pick}]"
            fits = operation == 1 or pick < len(want)
        else:
            break
        if not fits:
            continue
        data += diff(operation, "$" + leg, *([value] if operation != 2 else []))
        if operation == 2:
            del want[key]
        elif operation == 1 and isinstance(want, list):
            want.insert(pick, value)
        else:
            want[key] = value
    assert apply_json_diffs(encode(document, large), data).decode() == expected(want)


def json_copy(value: object) -> object:
    if isinstance(value, dict):
        return {k: json_copy(v) for k, v in value.items()}
    if isinstance(value, list):
        return [json_copy(v) for v in value]
    return value


def test_cells_of_a_long_array() -> None:
    """Longer than a block: against the same done with a list."""
    chosen = random.Random(12)
    want = list(range(5000))
    data = b""
    for i in range(4000):
        at = chosen.randrange(len(want)) if chosen.random() < 0.7 else 2000
        match chosen.randrange(3):
            case 0:
                data += remove(f"$[{at}]")
                del want[at]
            case 1:
                data += insert(f"$[{at}]", -i)
                want.insert(at, -i)
            case 2:
                data += replace(f"$[last-{len(want) - 1 - at}]", -i)
                want[at] = -i
    for _ in range(3000):  # whole blocks go
        data += remove("$[100]")
        del want[100]
    data += insert(f"$[{len(want) + 7}]", "end")
    want.append("end")
    assert json.loads(apply_json_diffs(encode(list(range(5000)), True), data)) == want


CHANGES = {
    "members": (dict, lambda n: b"".join(insert(f"$.k{i:06}", i) for i in reversed(range(n)))),
    "cells in front": (lambda n: list(range(n)), lambda n: insert("$[0]", 1) * n),
    "cells that go": (lambda n: list(range(n)), lambda n: remove("$[0]") * n),
    "long paths": (dict, lambda n: insert(f'$."{"k" * n}"', 1) + insert("$.a" + " " * n, 1)),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_the_time_is_in_proportion_to_the_diffs(kind: str) -> None:
    document, diffs = CHANGES[kind]

    def make(n: int) -> tuple[bytes, bytes]:
        return encode(document(n) if document is not dict else {}, True), diffs(n)

    assert_linear(lambda given: apply_json_diffs(*given), make, 1500)
