"""TABLE_MAP, rows events and what goes with them, over hand-made bodies."""

from __future__ import annotations

import struct
import zlib

import pytest
from support.event_bodies import MARIADB, description_of, fails, parse

from binlog_core import events as ev

pytestmark = pytest.mark.sanitize_long

TABLE_MAP = b"\x04shop\0\x01t\0" + b"\x02\x03\x0f" + b"\x02\x90\x01" + b"\x02" + b"\x01\x01\x80"


def test_table_map() -> None:
    event = parse(19, (2**40 + 5).to_bytes(6, "little") + b"\x05\0" + TABLE_MAP)
    assert (event.table_id, event.table_flags) == (2**40 + 5, 5)
    assert (event.database, event.table, event.column_count) == ("shop", "t", 2)
    assert (event.column_types, event.column_metadata, event.null_bits) == (b"\x03\x0f", b"\x90\x01", b"\x02")
    assert event.optional_metadata == b"\x01\x01\x80"


def test_table_map_of_the_oldest_5_1() -> None:
    # A table id of 4 bytes, and nothing after the types.
    description = description_of("5.2.2-a_drop6p13")
    assert description.post_header_lengths[19] == 6
    event = parse(19, b"\x0f\0\0\0\x01\0" + b"\x04test\0\x02t1\0\x02\x03\xfe", description)
    assert (event.table_id, event.table_flags, event.table, event.column_types) == (15, 1, "t1", b"\x03\xfe")
    assert (event.column_metadata, event.null_bits, event.optional_metadata) == (b"", None, b"")


def test_table_map_that_cannot_be() -> None:
    head = bytes(6) + b"\x01\0"
    for length in range(len(TABLE_MAP) - 3):
        # Where it ends after the types it is one of the oldest.
        if length != TABLE_MAP.index(b"\x03\x0f") + 2:
            fails(19, head + TABLE_MAP[:length])
    assert "4096" in fails(19, head + b"\x01d\0\x01t\0\xfd\0\0\x01" + bytes(65536))
    assert "packed" in fails(19, head + b"\xff")


@pytest.mark.parametrize(
    ("code", "post_header", "update"),
    [
        (20, "0f0000000000 0100", False),
        (21, "0f0000000000 0100", False),
        (23, "0f0000000000 0100", False),
        (24, "0f0000000000 0100", True),
        (30, "0f0000000000 0100 0200", False),
        (31, "0f0000000000 0100 0200", True),
        (39, "0f0000000000 0100 0200", True),
    ],
)
def test_rows(code: int, post_header: str, update: bool) -> None:
    bitmaps = b"\x09\xff\x01" + b"\x03\x00" * update
    event = parse(code, bytes.fromhex(post_header) + bitmaps + b"the rows")
    assert (event.table_id, event.rows_flags, event.width) == (15, 1, 9)
    assert event.columns_present == b"\xff\x01"
    assert event.columns_present_update == (b"\x03\x00" if update else None)
    assert (event.rows, event.extra_data, event.partition_id, event.ndb_info) == (
        b"the rows",
        b"",
        None,
        None,
    )


def test_rows_with_a_table_id_of_four_bytes() -> None:
    event = parse(20, b"\x0f\0\0\0\x01\0" + b"\x02\xffrows", description_of("5.2.2-a_drop6p13"))
    assert (event.table_id, event.rows_flags, event.rows) == (15, 1, b"rows")


def test_extra_row_data() -> None:
    head = b"\x0f\0\0\0\0\0\x01\0"
    extra = b"\x00\x05\x40abc" + b"\x01\x07\0"
    event = parse(30, head + b"\x0b\0" + extra + b"\x01\x01rows")
    assert (event.ndb_info, event.partition_id, event.source_partition_id) == ((64, b"abc"), 7, None)
    assert (event.width, event.rows) == (1, b"rows")
    event = parse(31, head + b"\x07\0" + b"\x01\x07\0\x09\0" + b"\x01\x01\x01rows")
    assert (event.partition_id, event.source_partition_id, event.rows) == (7, 9, b"rows")
    event = parse(30, head + b"\x05\0" + b"\x63??" + b"\x01\x01rows")
    assert (event.extra_data, event.rows) == (b"\x63??", b"rows")
    for bad in (b"\0\0", b"\x01\0", b"\xff\xff", b"\x03\0\x01", b"\x05\0\x00\x01\x00"):
        fails(30, head + bad + b"\x01\x01")


def test_the_dummy_that_ends_a_statement() -> None:
    event = parse(30, b"\xff\xff\xff\0\0\0\x01\0\x02\0")
    assert (event.table_id, event.rows_flags, event.width, event.rows) == (ev.DUMMY_TABLE_ID, 1, 0, b"")


@pytest.mark.parametrize(
    ("code", "post_length"), [(166, 8), (167, 8), (168, 8), (169, 10), (170, 10), (171, 10)]
)
def test_compressed_rows(code: int, post_length: int) -> None:
    post = b"\x0f\0\0\0\0\0\x01\0" + b"\x02\0" * (post_length == 10)
    block = b"\x81\x64" + zlib.compress(b"r" * 100)
    update = code in (167, 170)
    event = parse(code, post + b"\x01\x01" + b"\x01" * update + block, MARIADB)
    assert (event.rows, event.columns_present_update is not None) == (b"r" * 100, update)


def test_rows_query_and_annotate_rows() -> None:
    text = "INSERT INTO größe VALUES (1)".encode() * 20
    assert parse(29, b"\xff" + text).query_bytes == text
    assert parse(160, text, MARIADB).query == text.decode()


def test_rows_fragment() -> None:
    description = description_of("12.3.1-MariaDB", post_headers=MARIADB.raw_post_header_lengths + b"\0")
    event = parse(172, struct.pack("<IIBQ", 3, 1, 1, 2**33) + b"piece", description)
    assert (event.total_fragments, event.seq_no, event.original_size, event.fragment) == (
        3,
        1,
        2**33,
        b"piece",
    )


def test_transaction_payload() -> None:
    body = (
        b"\x02\x01\x00"
        + b"\x03\x03\xfc\x16\x04"
        + b"\x09\x01?"
        + b"\x01\x01\x05"
        + b"\x00"
        + b"bytes and more"
    )
    event = parse(40, body)
    assert (event.compression_type, event.payload_size, event.uncompressed_size) == (0, 5, 1046)
    assert bytes(event.payload) == b"bytes"
    fails(40, body[: body.index(b"bytes") + 4])
    fails(40, b"\x02\x01\x00\x00bytes")
