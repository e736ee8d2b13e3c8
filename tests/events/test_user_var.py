"""User variables that a statement used."""

from __future__ import annotations

import struct
from decimal import Decimal

import pytest
from support.event_bodies import MARIADB, MYSQL, V3, fails, parse

from binlog_core._format.format_description import FormatDescription

pytestmark = pytest.mark.sanitize_long


def user_var(type_: int, value: bytes, tail: bytes = b"", collation: int = 33) -> bytes:
    return b"\x02\0\0\0u1\0" + struct.pack("<BII", type_, collation, len(value)) + value + tail


@pytest.mark.parametrize(
    ("body", "description", "value", "unsigned"),
    [
        (user_var(0, b"caf\xe9", collation=8), MYSQL, b"caf\xe9", False),
        (user_var(1, struct.pack("<d", 1250.0)), MYSQL, 1250.0, False),
        (user_var(2, struct.pack("<q", -5), b"\0"), MYSQL, -5, False),
        (user_var(2, b"\xff" * 8, b"\x01"), MYSQL, 2**64 - 1, True),
        (user_var(2, b"\xff" * 8, b"\x01"), MARIADB, 2**64 - 1, True),
        (user_var(2, b"\xff" * 8), V3, -1, False),
        # DECIMAL(10,4) and (30,10), as MariaDB stored them in rows
        (user_var(4, bytes.fromhex("0a04 7ffb2de9d1")), MYSQL, Decimal("-1234.5678"), False),
        (
            user_var(4, bytes.fromhex("1e0a 73eb655bcaf204c72dff439eb1f6")),
            MARIADB,
            Decimal("-12345678901234567890.0123456789"),
            False,
        ),
        (user_var(4, bytes.fromhex("0302 8232")), MYSQL, Decimal("2.50"), False),
    ],
)
def test_user_var(body: bytes, description: FormatDescription, value: object, unsigned: bool) -> None:
    event = parse(14, body, description)
    assert (event.variable, event.value, event.unsigned) == ("u1", value, unsigned)
    assert type(event.value) is type(value)
    if isinstance(value, Decimal):
        assert str(event.value) == str(value)


def test_user_var_null_and_mariadbs_type_name() -> None:
    event = parse(14, b"\x02\0\0\0u4\x01")
    assert (event.variable, event.value, event.type, event.collation) == ("u4", None, None, None)
    event = parse(14, user_var(0, b"\0" * 4, b"\x00\x02\x05inet4"), MARIADB)
    assert (event.value, event.type_name, event.collation) == (bytes(4), "inet4", 33)


@pytest.mark.parametrize(
    "body",
    [
        user_var(2, bytes(4)),
        user_var(1, bytes(9)),
        user_var(3, bytes(8)),
        user_var(4, b""),
        user_var(4, bytes.fromhex("0a04 7ffb")),
        user_var(4, b"\x02\x05" + bytes(8)),
        user_var(4, b"\x02\x00\xff"),
        user_var(0, b"abc")[:-1],
        b"\xff\xff\xff\xffu",
    ],
)
def test_user_var_that_cannot_be(body: bytes) -> None:
    fails(14, body)


def test_intvar_and_rand() -> None:
    event = parse(5, b"\x02" + struct.pack("<Q", 77))
    assert (event.type, event.variable, event.val) == (2, "INSERT_ID", 77)
    assert parse(5, b"\x01" + bytes(8)).variable == "LAST_INSERT_ID"
    event = parse(13, struct.pack("<QQ", 891739163, 258943219))
    assert (event.name, event.seed1, event.seed2) == ("RAND", 891739163, 258943219)
    fails(5, b"\x02\0")
    fails(13, bytes(15))
