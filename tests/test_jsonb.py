"""Binary JSON to the server's text. Vectors marked "server" are values that a MySQL 9.7 server printed."""

from __future__ import annotations

import base64
import json
import math
import struct
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_core._jsonb import apply_json_diffs, jsonb_to_text, parse_json_diffs
from binlog_core.errors import DecodeError

# -- An encoder for the tests, from the description of the format -----------------------------


@dataclass(frozen=True)
class Opaque:
    type_code: int
    data: bytes


def data_length(n: int) -> bytes:
    out = bytearray()
    while True:
        out.append(n & 0x7F | (0x80 if n > 0x7F else 0))
        n >>= 7
        if not n:
            return bytes(out)


def encode_scalar(value: object) -> tuple[int, bytes]:
    if value is None or isinstance(value, bool):
        return 4, bytes([{None: 0, True: 1, False: 2}[value]])
    if isinstance(value, int):
        for code, layout in ((5, "<h"), (6, "<H"), (7, "<i"), (8, "<I"), (9, "<q"), (10, "<Q")):
            try:
                return code, struct.pack(layout, value)
            except struct.error:
                continue
        raise AssertionError(value)
    if isinstance(value, float):
        return 11, struct.pack("<d", value)
    if isinstance(value, str):
        data = value.encode()
        return 12, data_length(len(data)) + data
    assert isinstance(value, Opaque)
    return 15, bytes([value.type_code]) + data_length(len(value.data)) + value.data


def encode_container(value: list | dict, large: bool) -> bytes:
    """The bytes after the type byte."""
    width, layout = (4, "<I") if large else (2, "<H")
    if isinstance(value, dict):
        members = sorted(((k.encode(), v) for k, v in value.items()), key=lambda m: (len(m[0]), m[0]))
        keys, values = [k for k, _ in members], [v for _, v in members]
    else:
        keys, values = [], value
    head = 2 * width + len(keys) * (width + 2)
    at = head + len(values) * (1 + width)
    key_entries = b""
    for key in keys:
        key_entries += struct.pack(layout, at) + struct.pack("<H", len(key))
        at += len(key)
    value_entries, bodies = b"", b""
    for item in values:
        code, body = encode_value(item, large)
        if code in (4, 5, 6) or (large and code in (7, 8)):
            value_entries += bytes([code]) + body.ljust(width, b"\0")
        else:
            value_entries += bytes([code]) + struct.pack(layout, at)
            bodies += body
            at += len(body)
    content = key_entries + value_entries + b"".join(keys) + bodies
    return struct.pack(layout, len(values)) + struct.pack(layout, 2 * width + len(content)) + content


def encode_value(value: object, large: bool) -> tuple[int, bytes]:
    if isinstance(value, dict):
        return int(large), encode_container(value, large)
    if isinstance(value, list):
        return 2 + large, encode_container(value, large)
    return encode_scalar(value)


def encode(value: object, large: bool = False) -> bytes:
    code, body = encode_value(value, large)
    return bytes([code]) + body


def expected_double(value: float) -> str:
    """The rule of the format reference, on exact decimal digits."""
    sign, digit_tuple, exponent = Decimal(repr(value)).normalize().as_tuple()
    minus = "-" if sign else ""
    if value == 0:
        return minus + "0.0"
    digits = "".join(map(str, digit_tuple))
    point = len(digits) + exponent
    if not -14 <= point <= 15:
        return f"{minus}{digits[0]}{'.' if digits[1:] else ''}{digits[1:]}e{point - 1}"
    text = format(Decimal((0, digit_tuple, exponent)), "f")
    return minus + (text if "." in text else text + ".0")


def expected(value: object) -> str:
    if isinstance(value, dict):
        members = sorted(value.items(), key=lambda m: (len(m[0].encode()), m[0].encode()))
        return "{" + ", ".join(f"{expected(k)}: {expected(v)}" for k, v in members) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(expected, value)) + "]"
    if isinstance(value, float):
        return expected_double(value)
    if isinstance(value, Opaque):
        wrapped = base64.b64encode(value.data).decode()
        lines = [wrapped[i : i + 76] for i in range(0, len(wrapped), 76)]
        return f'"base64:type{value.type_code}:' + "\\n".join(lines) + '"'
    return json.dumps(value, ensure_ascii=False)


def text(data: bytes) -> str:
    # An array of the exact size: a sanitizer sees a read one byte beyond, which bytes would hide.
    return jsonb_to_text(np.frombuffer(data, "u1").copy()).decode()


def packed_datetime(y: int, mo: int, d: int, h: int, mi: int, s: int, us: int) -> bytes:
    ymd = (y * 13 + mo) << 5 | d
    hms = (h << 6 | mi) << 6 | s
    return struct.pack("<q", (ymd << 17 | hms) << 24 | us)


def packed_time(sign: int, h: int, mi: int, s: int, us: int) -> bytes:
    return struct.pack("<q", sign * (((h << 6 | mi) << 6 | s) << 24 | us))


# -- Scalars ---------------------------------------------------------------------------------

@pytest.mark.parametrize(
    ("data", "want"),
    [
        (b"", "null"),
        (b"\x04\x00", "null"),
        (b"\x04\x01", "true"),
        (b"\x04\x02", "false"),
        (b"\x05\xff\xff", "-1"),
        (b"\x05\x00\x80", "-32768"),
        (b"\x06\xff\xff", "65535"),
        (b"\x07\x00\x00\x00\x80", "-2147483648"),
        (b"\x08\xff\xff\xff\xff", "4294967295"),
        (b"\x09" + struct.pack("<q", -(2**63)), "-9223372036854775808"),
        (b"\x09" + struct.pack("<q", 2**63 - 1), "9223372036854775807"),
        (b"\x0a" + b"\xff" * 8, "18446744073709551615"),
        (b"\x0c\x00", '""'),
        (b"\x0c\x05hello", '"hello"'),
        (b"\x0c\x81\x00a", '"a"'),  # a length longer than it need be
    ],
)
def test_scalar(data: bytes, want: str) -> None:
    assert text(data) == want


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (1.0, "1.0"),
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (-1.5, "-1.5"),
        (123456789012345.0, "123456789012345.0"),  # server, as are the five below
        (0.000000000000001315755530014741601, "0.0000000000000013157555300147416"),
        (1e15, "1e15"),
        (8.925842534745898e15, "8.925842534745898e15"),
        (1.8446744073709552e19, "1.8446744073709552e19"),
        (1e-16, "1e-16"),
        (1e14, "100000000000000.0"),
        (999999999999999.9, "999999999999999.9"),
        (1e-15, "0.000000000000001"),
        (5e-324, "5e-324"),
        (2.2250738585072014e-308, "2.2250738585072014e-308"),
        (-1.7976931348623157e308, "-1.7976931348623157e308"),
        (1000000.25, "1000000.25"),
    ],
)
def test_double(value: float, want: str) -> None:
    assert text(b"\x0b" + struct.pack("<d", value)) == want


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_double_that_json_lacks(value: float) -> None:
    with pytest.raises(DecodeError):
        text(b"\x0b" + struct.pack("<d", value))


@given(st.floats(allow_nan=False, allow_infinity=False))
@settings(deadline=None)
def test_any_double(value: float) -> None:
    got = text(b"\x0b" + struct.pack("<d", value))
    assert got == expected_double(value)
    assert struct.pack("<d", float(got)) == struct.pack("<d", value)


@pytest.mark.parametrize(
    ("content", "want"),
    [
        ('a"b', '"a\\"b"'),
        ("a\\b", '"a\\\\b"'),
        ("\b\f\n\r\t", '"\\b\\f\\n\\r\\t"'),
        ("\x00\x01\x1f", '"\\u0000\\u0001\\u001f"'),
        ("\x7f/é€\U0001f600", '"\x7f/é€\U0001f600"'),
        ("ordinary text of more than a word", '"ordinary text of more than a word"'),
    ],
)
def test_string(content: str, want: str) -> None:
    assert text(encode(content)) == want


@pytest.mark.parametrize("place", range(20))
@pytest.mark.parametrize("special", ['"', "\\", "\n", "\x1f", "é", "€", "\U0010ffff", "\x20", "\x7f", "!", "#"])
def test_special_character_at_any_place(place: int, special: str) -> None:
    content = "a" * place + special + "~" * (19 - place)
    assert text(encode(content)) == expected(content)


@pytest.mark.parametrize(
    "content",
    [b"\x80", b"\xc1\xbf", b"\xc3", b"\xe0\x9f\xbf", b"\xed\xa0\x80", b"\xf0\x8f\xbf\xbf", b"\xf4\x90\x80\x80",
     b"\xe2\x82", b"\xe2\x82a", b"\xff", b"\xf8\x88\x80\x80\x80"],
)
def test_string_that_is_no_utf8(content: bytes) -> None:
    with pytest.raises(DecodeError):
        text(b"\x0c" + data_length(len(content)) + content)


# -- Opaque values ---------------------------------------------------------------------------

@pytest.mark.parametrize(
    ("value", "want"),
    [
        (Opaque(10, packed_datetime(2015, 1, 15, 0, 0, 0, 0)), '"2015-01-15"'),
        (Opaque(12, packed_datetime(2015, 1, 15, 23, 24, 25, 120000)), '"2015-01-15 23:24:25.120000"'),
        (Opaque(7, packed_datetime(1970, 1, 1, 0, 0, 1, 0)), '"1970-01-01 00:00:01.000000"'),
        (Opaque(12, packed_datetime(9999, 12, 31, 23, 59, 59, 999999)), '"9999-12-31 23:59:59.999999"'),
        (Opaque(12, bytes(8)), '"0000-00-00 00:00:00.000000"'),
        (Opaque(11, packed_time(-1, 838, 59, 59, 0)), '"-838:59:59.000000"'),
        (Opaque(11, packed_time(1, 1, 2, 3, 4)), '"01:02:03.000004"'),
        (Opaque(11, bytes(8)), '"00:00:00.000000"'),
        # The first two bytes are precision and scale; the third value is the server's own example.
        (Opaque(246, bytes([4, 2, 0x80 | 12, 34])), "12.34"),
        (Opaque(246, bytes([4, 2, 0x7F ^ 12, 0xFF ^ 34])), "-12.34"),
        (Opaque(246, bytes([10, 4]) + bytes.fromhex("7FFB2DE9D1")), "-1234.5678"),
        (Opaque(246, bytes([30, 10]) + bytes.fromhex("73EB655BCAF204C72DFF439EB1F6")),
         "-12345678901234567890.0123456789"),
        (Opaque(246, bytes([3, 3]) + bytes([0x80, 5])), "0.005"),
        (Opaque(246, bytes([9, 0]) + bytes([0x80, 0, 0, 7])), "7"),
        (Opaque(246, bytes([9, 0]) + bytes([0x80, 0, 0, 0])), "0"),
        (Opaque(246, bytes([9, 9]) + bytes([0x80, 0, 0, 1])), "0.000000001"),
        # 72 digits, more than a column can have
        (Opaque(246, bytes([72, 0]) + struct.pack(">8I", 0x80000000 | 123456789, *[987654321] * 7)),
         "123456789" + "987654321" * 7),
        (Opaque(16, b"\x02\x9a"), '"base64:type16:Apo="'),
        (Opaque(252, b""), '"base64:type252:"'),
        (Opaque(15, b"abc"), '"base64:type15:YWJj"'),
    ],
)  # fmt: skip
def test_opaque(value: Opaque, want: str) -> None:
    assert text(encode(value)) == want
    assert text(encode([value, {"k": value}])) == f'[{want}, {{"k": {want}}}]'


@pytest.mark.parametrize("length", [1, 2, 3, 55, 56, 57, 58, 59, 113, 114, 115, 171, 300])
def test_base64_lines(length: int) -> None:
    value = Opaque(252, bytes(range(256))[:length] + bytes(max(0, length - 256)))
    assert text(encode(value)) == expected(value)
    assert text(encode(value)).count("\\n") == (length - 1) // 57


@pytest.mark.parametrize(
    "value",
    [
        Opaque(10, bytes(7)),
        Opaque(12, bytes(9)),
        Opaque(11, b""),
        Opaque(12, packed_datetime(2015, 1, 1, 24, 0, 0, 0)),
        Opaque(12, packed_datetime(2015, 1, 1, 0, 60, 0, 0)),
        Opaque(12, packed_datetime(2015, 1, 1, 0, 0, 0, 1000000)),
        Opaque(12, packed_datetime(10000, 1, 1, 0, 0, 0, 0)),
        Opaque(11, packed_time(1, 839, 0, 0, 0)),
        Opaque(11, packed_time(1, 0, 60, 0, 0)),
        Opaque(11, b"\0\0\0\0\0\0\0\x80"),
        Opaque(246, b""),
        Opaque(246, b"\x04"),
        Opaque(246, b"\x00\x00\x80"),
        Opaque(246, b"\x02\x04\x80\x80"),
        Opaque(246, b"\x04\x02\x80"),
        Opaque(246, b"\x04\x02\x80\x00\x00"),
        Opaque(246, b"\x04\x02\x80\x64"),  # 100 in a group of two digits
    ],
)
def test_damaged_opaque(value: Opaque) -> None:
    with pytest.raises(DecodeError):
        text(encode(value))


# -- Containers ------------------------------------------------------------------------------

def test_object_as_the_server_lays_it_out() -> None:
    # {"a": 1, "bb": "x"}: count 2, size, two key entries, two value entries, keys, value
    data = bytes.fromhex("00 0200 1900 1200 0100 1300 0200 05 0100 0c 1500") + b"abb" + b"\x01x"
    size = len(data) - 1
    data = data[:3] + struct.pack("<H", size) + data[5:]
    assert text(data) == '{"a": 1, "bb": "x"}'


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize(
    "value",
    [
        [], {}, [[]], {"": {}}, [1, 70000, -70000, 2**31, -(2**40), 2**63, None, True, False],
        {"b": 1, "aa": [1.5, "x"], "a": {"é": None}}, ["é" * 200, "b" * 20000], [[[["deep"]]]],
        {"k" * 300: 3000000000},
    ],
)  # fmt: skip
def test_container(value: object, large: bool) -> None:
    assert text(encode(value, large)) == expected(value)


def test_keys_keep_the_order_of_the_document() -> None:
    data = encode({"x": 1, "y": 2}).replace(b"xy", b"yx")
    assert text(data) == '{"y": 1, "x": 2}'


def test_bytes_after_the_document_are_free_space() -> None:
    assert text(encode([1]) + b"rest") == "[1]"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.builds(Opaque, st.sampled_from([13, 15, 16, 252, 255]), st.binary(max_size=200)),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=8), inner, max_size=6),
    max_leaves=25,
)  # fmt: skip


@given(json_values, st.booleans())
@settings(deadline=None, max_examples=300)
def test_any_document(value: object, large: bool) -> None:
    assert text(encode(value, large)) == expected(value)


def test_accepts_any_bytes_like() -> None:
    for wrap in (bytes, bytearray, memoryview, lambda b: np.frombuffer(b, "u1")):
        assert jsonb_to_text(wrap(b"\x0c\x01a")) == b'"a"'


# -- Damage ----------------------------------------------------------------------------------

def nested(depth: int) -> bytes:
    body = encode_container([], True)
    for _ in range(depth - 1):
        body = struct.pack("<II", 1, 13 + len(body)) + b"\x03" + struct.pack("<I", 13) + body
    return b"\x03" + body


def test_depth_limit() -> None:
    assert text(nested(100)) == "[" * 100 + "]" * 100
    with pytest.raises(DecodeError):
        text(nested(101))


def test_entries_that_share_a_value_cannot_ask_for_more_text_than_the_document_holds() -> None:
    # 1000 entries, each the same array, which has 1000 entries ... : 10**15 values in 15 kB
    body = encode_container(["x"], True)
    for _ in range(5):
        head = 8 + 1000 * 5
        body = struct.pack("<II", 1000, head + len(body)) + (b"\x03" + struct.pack("<I", head)) * 1000 + body
    with pytest.raises(DecodeError):
        text(b"\x03" + body)


@pytest.mark.parametrize(
    "data",
    [
        b"\x00", b"\x02\x00", b"\x02\x00\x00\x03\x00", b"\x02\x00\x00\x05\x00",  # size below its head, beyond the end
        b"\x02\x01\x00\x04\x00",  # an entry beyond the size
        b"\x02\xff\xff\x04\x00", b"\x03\xff\xff\xff\xff\x08\x00\x00\x00",
        b"\x02\x01\x00\x07\x00\x0c\x00\x00",  # a value inside the head
        b"\x02\x01\x00\x07\x00\x0c\x08\x00",  # a value beyond the end
        b"\x00\x01\x00\x0b\x00\x0b\x00\x01\x00\x04\x00\x00",  # a key beyond the end
        b"\x00\x01\x00\x0b\x00\x00\x00\x01\x00\x04\x00\x00",  # a key inside the head
        b"\x04", b"\x04\x03", b"\x05\x00", b"\x07\x00\x00\x00", b"\x0a" + bytes(7), b"\x0b" + bytes(7),
        b"\x0c", b"\x0c\x01", b"\x0c\x80", b"\x0c\x80\x80\x80\x80\x80\x00", b"\x0c\xff\xff\xff\xff\x7f",
        b"\x0d\x00", b"\x0e\x00", b"\x0f", b"\x0f\x0a", b"\x0f\x0a\x08", b"\x10", b"\xff",
    ],
)  # fmt: skip
def test_damaged(data: bytes) -> None:
    with pytest.raises(DecodeError):
        text(data)


DOCUMENT = {"a": 1, "list": [0, 70000, {"k": "v"}, 1.5, Opaque(12, bytes(8))], "é key": {"": 2}, "z": "x" * 130}


@pytest.mark.parametrize("large", [False, True])
def test_cut_at_every_byte(large: bool) -> None:
    data = encode(DOCUMENT, large)
    for end in range(1, len(data)):
        with pytest.raises(DecodeError):
            text(data[:end])


@given(st.integers(0, 10**6), st.integers(0, 255), st.booleans())
@settings(deadline=None, max_examples=500)
def test_any_flipped_byte_gives_text_or_an_error(place: int, byte: int, large: bool) -> None:
    data = bytearray(encode(DOCUMENT, large))
    data[place % len(data)] = byte
    try:
        json.loads(text(bytes(data)))
    except DecodeError:
        pass


@given(st.binary(max_size=60))
@settings(deadline=None)
def test_any_bytes_give_text_or_an_error(data: bytes) -> None:
    try:
        json.loads(text(data))
    except DecodeError:
        pass


# -- Partial updates -------------------------------------------------------------------------

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


PAGE = {"i": 1, "f": 1.5, "list": [0, 1, 2, 3], "o": {"p": {"q": [1, {"r": "deep"}]}}, "é key": {"a.b": 1}}


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
        (PAGE, insert("$.a", 1) + insert("$.zzzzzzz", 2) + insert('$.""', 3), PAGE | {"a": 1, "zzzzzzz": 2, "": 3}),
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
    document = {"d": Opaque(246, bytes([4, 2, 0x80, 0])), "n": 1e15, "t": Opaque(12, bytes(8)), "x": 0}
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


@given(json_values, st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), json_values), max_size=4), st.booleans())
@settings(deadline=None, max_examples=200)
def test_any_diffs(document: object, changes: list[tuple[int, int, object]], large: bool) -> None:
    """Replace, insert and remove at random places of a document, against the same done in Python."""
    want = json_copy(document)
    data = b""
    for operation, pick, value in changes:
        if isinstance(want, dict):
            keys = sorted(want)
            key: object = keys[pick % len(keys)] if keys else "k"
            leg = "." + json.dumps(key)
            if operation == 1:
                leg, key = '."new key"', "new key"
            exists = key in want
        elif isinstance(want, list):
            key = pick
            leg = f"[{pick}]"
            exists = pick < len(want)
        else:
            break
        if operation != 1 and not exists or operation == 1 and isinstance(want, dict) and exists:
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
