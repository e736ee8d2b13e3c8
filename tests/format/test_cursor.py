"""The cursor over an event's body: numbers by hand from the formats' documentation, none past the end."""

from __future__ import annotations

import pytest

from binlog_core._format.cursor import Cursor
from binlog_core.errors import DecodeError

pytestmark = pytest.mark.sanitize


def test_numbers_are_little_endian() -> None:
    cur = Cursor(bytes(range(1, 32)))
    assert cur.take_u8() == 0x01
    assert cur.take_u16() == 0x0302
    assert cur.take_u24() == 0x060504
    assert cur.take_u32() == 0x0A090807
    assert cur.take_u48() == 0x100F0E0D0C0B
    assert cur.take_u56() == 0x17161514131211
    assert cur.take_u64() == 0x1F1E1D1C1B1A1918
    assert cur.remaining == 0
    assert Cursor(b"\xfe\xff\xff\xff").take_i32() == -2
    assert Cursor(b"\xfe" + b"\xff" * 7).take_i64() == -2
    assert Cursor(b"\0" * 6 + b"\xf0\x3f").take_f64() == 1.0


@pytest.mark.parametrize(
    ("data", "value"),
    [
        ("fa", 250),
        ("fcfb00", 251),
        ("fcffff", 65535),
        ("fd000001", 65536),
        ("fe0000000100000000", 1 << 24),
        ("fe0500000000000000", 5),  # in more bytes than needed
    ],
)
def test_packed_integers(data: str, value: int) -> None:
    cur = Cursor(bytes.fromhex(data))
    assert cur.take_lenenc() == value
    assert cur.remaining == 0


@pytest.mark.parametrize("first", [0xFB, 0xFF])  # NULL, and an error packet of the protocol
def test_what_is_not_a_packed_integer(first: int) -> None:
    with pytest.raises(DecodeError, match=f"begins with {first}"):
        Cursor(bytes([first]) + bytes(8)).take_lenenc()


@pytest.mark.parametrize(
    ("data", "value"),
    [
        ("00", 0),
        ("fe", 127),  # 7 bits, above the 0 that ends the ones
        ("0102", 128),  # 128 << 2 | 0b01
        ("fdff", 16383),
        ("030002", 16384),  # 16384 << 3 | 0b011
        ("ff" + "ff" * 8, 2**64 - 1),
    ],
)
def test_integers_of_serialized_events(data: str, value: int) -> None:
    cur = Cursor(bytes.fromhex(data))
    assert cur.take_varint() == value
    assert cur.remaining == 0


def test_signed_integers_of_serialized_events() -> None:
    # The sign is the lowest bit: 0 and 1 are 0 and -1, 2 and 3 are 1 and -2.
    assert [Cursor(bytes([n << 1])).take_signed_varint() for n in range(4)] == [0, -1, 1, -2]
    assert Cursor(b"\xff" * 9).take_signed_varint() == -(2**63)


def test_texts() -> None:
    cur = Cursor(b"\x03caf\xc3\xa9shop\0\xff")
    assert (cur.take_text_u8(), cur.take_text(2), cur.take_cstr()) == ("caf", "é", b"shop")
    assert cur.take_text(1).encode("utf-8", "surrogateescape") == b"\xff"
    with pytest.raises(DecodeError, match="no NUL ends the text in the 2 bytes left"):
        Cursor(b"ab").take_cstr()


def test_a_slice_does_not_reach_its_neighbour() -> None:
    cur = Cursor(b"abcdef")
    part = cur.take_slice(2)
    assert (part.rest(), cur.remaining) == (b"ab", 4)
    with pytest.raises(DecodeError, match="1 bytes are needed, 0 are left"):
        part.take_u8()
    assert bytes(cur.rest_view()) == b"cdef"
    for take in (cur.take_u8, cur.take_u64, cur.take_lenenc, cur.take_varint, cur.take_text_u8):
        with pytest.raises(DecodeError):
            take()


def test_a_count_is_held_against_the_bytes_left() -> None:
    cur = Cursor(bytes(12))
    assert cur.check_count(3, 4) == 3
    with pytest.raises(DecodeError, match="4 items of at least 4 bytes, but 12 bytes are left"):
        cur.check_count(4, 4)
