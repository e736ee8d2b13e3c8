"""JSON values to MySQL's binary JSON and to the server's text, each written from the format's description."""

from __future__ import annotations

import base64
import json
import struct
from dataclasses import dataclass
from decimal import Decimal

from hypothesis import strategies as st


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
        for code, layout in (
            (5, "<h"),
            (6, "<H"),
            (7, "<i"),
            (8, "<I"),
            (9, "<q"),
            (10, "<Q"),
        ):
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


def encode_container(value: list[object] | dict[str, object], large: bool) -> bytes:
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
    assert isinstance(exponent, int)
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


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.builds(Opaque, st.sampled_from([13, 15, 16, 252, 255]), st.binary(max_size=200)),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=8), inner, max_size=6),
    max_leaves=25,
)  # fmt: skip
