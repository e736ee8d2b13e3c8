"""Descriptions of events in one line."""

from __future__ import annotations

import struct

import pytest
from support.event_bodies import MARIADB, MYSQL, UUID, UUID_TEXT, parse, query_body, text8

from binlog_core._format.format_description import FormatDescription
from binlog_core.events.describe import Describer

pytestmark = pytest.mark.sanitize_long

TABLE_MAP = b"\x07\0\0\0\0\0\x01\0" + b"\x04shop\0" + b"\x06orders\0" + b"\x02\x03\x03\0\0"


def rows(table_id: int, flags: int) -> bytes:
    return (
        table_id.to_bytes(6, "little") + flags.to_bytes(2, "little") + b"\x02\0" + b"\x02\xff" + b"r" * 1234
    )


@pytest.mark.parametrize(
    ("code", "body", "description", "text"),
    [
        (2, query_body(), MYSQL, "use d; SELECT 1"),
        (2, query_body(database=b"", query=b"BEGIN\n  -- of\tit"), MYSQL, "BEGIN -- of it"),
        (4, struct.pack("<Q", 4) + b"bin.000002", MYSQL, "bin.000002, position 4"),
        (15, b"", MYSQL, "server 9.7.4, binlog version 4, crc32"),
        (16, struct.pack("<Q", 77), MYSQL, "COMMIT, xid 77"),
        (19, TABLE_MAP, MYSQL, "shop.orders: 2 columns, table_id 7"),
        (26, b"\x01\0" + text8(b"LOST\nEVENTS"), MYSQL, "incident 1: LOST EVENTS"),
        (29, b"\xffDELETE FROM t", MYSQL, "# DELETE FROM t"),
        (38, b"\0" + struct.pack("<iII", 1, 2, 1) + b"\x01\x02\xff", MYSQL, "XA PREPARE x'0102',x'ff',1"),
        (38, b"\1" + struct.pack("<iII", 1, 1, 0) + b"\x01", MYSQL, "XA COMMIT ONE PHASE x'01',x'',1"),
        (3, b"", MYSQL, ""),
        (13, struct.pack("<QQ", 5, 6), MYSQL, "seed1 5, seed2 6"),
        (100, b"\xff" * 1200, MYSQL, "type 100, 1,200 bytes"),
        (162, struct.pack("<QIB", 12, 3, 1) + bytes(6), MARIADB, "3-11-12, standalone"),
        (33, b"\x01" + UUID + struct.pack("<Q", 9), MYSQL, f"{UUID_TEXT}:9"),
        (34, b"\x01" + UUID + struct.pack("<Q", 0), MYSQL, "anonymous"),
    ],
)
def test_lines(code: int, body: bytes, description: FormatDescription, text: str) -> None:
    assert Describer().describe(parse(code, body, description)) == text


def test_rows_are_those_of_the_table_map_before_them() -> None:
    describer = Describer()
    assert describer.describe(parse(30, rows(7, 0))) == "unknown table, table_id 7: 1,234 bytes of rows"
    describer.describe(parse(19, TABLE_MAP))
    assert describer.table_of(parse(30, rows(7, 0))) == "shop.orders"
    assert describer.describe(parse(30, rows(7, 1))) == (
        "shop.orders: 1,234 bytes of rows, end of the statement"
    )
    assert describer.describe(parse(30, rows(0xFFFFFF, 1))) == "end of the statement"
    describer.describe(parse(15, b""))
    assert describer.table_of(parse(15, b"")) is None  # table ids start again with the server
    assert describer.table_of(parse(30, rows(7, 0))) is None


def test_passwords_are_not_shown() -> None:
    line = Describer().describe(parse(2, query_body(query=b"CREATE USER u IDENTIFIED BY 'secret'")))
    assert "secret" not in line and "CREATE USER u" in line
