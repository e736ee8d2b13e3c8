"""Binary JSON to the server's text. Vectors marked "server" are values that a MySQL 9.7 server printed."""

from __future__ import annotations

import contextlib
import json
import math
import random
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.jsonb_encoder import (
    Opaque,
    data_length,
    encode,
    encode_container,
    expected,
    expected_double,
    json_values,
)

from binlog_core._core._jsonb import jsonb_to_text
from binlog_core.errors import DecodeError

pytestmark = pytest.mark.sanitize


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
        (b"\x0c\x81\x00a", '"a"'),  # a length in more bytes than needed
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


def test_doubles_of_every_exponent() -> None:
    """Each sign and exponent with significant fractions, against the digits of Python's repr."""
    generator = random.Random(41)
    fractions = [0, 1, 2, 2**52 - 1, 2**52 - 2, 2**51, 0x5555555555555]
    numbers = []
    for exponent in range(2047):
        for fraction in fractions + [generator.getrandbits(52) for _ in range(5)]:
            bits = generator.getrandbits(1) << 63 | exponent << 52 | fraction
            numbers += struct.unpack("<d", struct.pack("<Q", bits))
    for start in range(0, len(numbers), 1000):
        part = numbers[start : start + 1000]
        assert text(encode(part, large=True)) == expected(part)


@pytest.mark.parametrize("digits", [1, 2, 5, 15, 16, 17])
def test_doubles_of_few_digits(digits: int) -> None:
    generator = random.Random(digits)
    numbers = [
        float(f"{generator.randrange(10**digits)}e{e}") for e in range(-330, 308 - digits) for _ in range(5)
    ]
    assert text(encode(numbers, large=True)) == expected(numbers)


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
@pytest.mark.parametrize(
    "special",
    ['"', "\\", "\n", "\x1f", "é", "€", "\U0010ffff", "\x20", "\x7f", "!", "#"],
)
def test_special_character_at_any_place(place: int, special: str) -> None:
    content = "a" * place + special + "~" * (19 - place)
    assert text(encode(content)) == expected(content)


@pytest.mark.parametrize(
    "content",
    [
        b"\x80",
        b"\xc1\xbf",
        b"\xc3",
        b"\xe0\x9f\xbf",
        b"\xed\xa0\x80",
        b"\xf0\x8f\xbf\xbf",
        b"\xf4\x90\x80\x80",
        b"\xe2\x82",
        b"\xe2\x82a",
        b"\xff",
        b"\xf8\x88\x80\x80\x80",
    ],
)
def test_a_string_that_is_not_utf8(content: bytes) -> None:
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
        b"\x00", b"\x02\x00", b"\x02\x00\x00\x03\x00", b"\x02\x00\x00\x05\x00",  # size below head, beyond end
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


DOCUMENT = {
    "a": 1,
    "list": [0, 70000, {"k": "v"}, 1.5, Opaque(12, bytes(8))],
    "é key": {"": 2},
    "z": "x" * 130,
}


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
    with contextlib.suppress(DecodeError):
        json.loads(text(bytes(data)))


@given(st.binary(max_size=60))
@settings(deadline=None)
def test_any_bytes_give_text_or_an_error(data: bytes) -> None:
    with contextlib.suppress(DecodeError):
        json.loads(text(data))
