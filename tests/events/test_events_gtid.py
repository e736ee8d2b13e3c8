"""GTID events of both vendors over hand-made bodies, version by version."""

from __future__ import annotations

import struct

import pytest
from support.event_bodies import MARIADB, UUID, UUID_TEXT, fails, parse

from binlog_core.gtids import Gtid, MariadbGtid

pytestmark = pytest.mark.sanitize_long

GTID_56 = b"\x01" + UUID + struct.pack("<q", 4)
GTID_57 = GTID_56 + b"\x02" + struct.pack("<qq", 8, 9)
GTID_80 = GTID_57 + (1700000000000001).to_bytes(7, "little") + b"\xfc\x2c\x01"


def test_gtid_grows_with_the_versions() -> None:
    event = parse(33, GTID_56)
    assert (event.gtid_flags, event.uuid, event.gno, event.gtid) == (1, UUID_TEXT, 4, Gtid(UUID_TEXT, "", 4))
    assert (event.last_committed, event.immediate_commit_timestamp, event.transaction_length) == (None,) * 3
    event = parse(33, GTID_57)
    assert (event.last_committed, event.sequence_number, event.original_commit_timestamp) == (8, 9, None)
    event = parse(33, GTID_80)
    assert event.immediate_commit_timestamp == event.original_commit_timestamp == 1700000000000001
    assert (event.transaction_length, event.immediate_server_version) == (300, None)
    event = parse(33, GTID_80 + struct.pack("<I", 80045))
    assert (event.immediate_server_version, event.original_server_version) == (80045, 80045)
    event = parse(33, GTID_80 + struct.pack("<IIQ", 80045 | 1 << 31, 50744, 6))
    assert (event.immediate_server_version, event.original_server_version) == (80045, 50744)
    assert event.commit_group_ticket == 6


def test_gtid_with_two_timestamps() -> None:
    immediate, original = 1700000000000001, 1600000000000002
    body = GTID_57 + (immediate | 1 << 55).to_bytes(7, "little") + original.to_bytes(7, "little") + b"\x50"
    event = parse(33, body)
    assert (event.immediate_commit_timestamp, event.original_commit_timestamp) == (immediate, original)
    assert event.transaction_length == 80


def test_anonymous_gtid() -> None:
    event = parse(34, b"\0" + bytes(16) + bytes(8) + b"\x02" + struct.pack("<qq", 0, 1))
    assert (event.name, event.gtid, event.sequence_number) == ("Anonymous_Gtid", None, 1)


def test_gtid_that_is_cut() -> None:
    for length in range(25):
        fails(33, GTID_56[:length])


TAGGED = bytes.fromhex(
    "0272140000020022446688aaccee21026502a902ed0231037503b903fd030414060661626308080a0c0c7f00401e18240a0610b10412c3020b"
)


def test_gtid_tagged() -> None:
    event = parse(42, TAGGED)
    assert event.gtid == Gtid(UUID_TEXT, "abc", 5)
    assert (event.gtid_flags, event.last_committed, event.sequence_number) == (0, 2, 3)
    assert event.immediate_commit_timestamp == event.original_commit_timestamp == 1700000000000000
    assert (event.transaction_length, event.commit_group_ticket) == (300, None)
    assert event.immediate_server_version == event.original_server_version == 90200
    for length in range(len(TAGGED)):
        fails(42, TAGGED[:length])


def test_gtid_tagged_with_fields_of_the_future() -> None:
    # The size covers an unknown field 12, which may be ignored.
    assert parse(42, TAGGED[:1] + bytes([(57 + 2) * 2]) + TAGGED[2:] + b"\x18\x02").transaction_length == 300
    assert "13" in fails(42, TAGGED[:2] + bytes([13 * 2]) + TAGGED[3:])


def test_previous_gtids() -> None:
    body = struct.pack("<Q", 1) + UUID + struct.pack("<Qqq", 1, 1, 4)
    assert str(parse(35, body).gtid_set) == f"{UUID_TEXT}:1-3"
    fails(35, body[:-1])


def test_mariadb_gtid() -> None:
    head = struct.pack("<QI", 1155, 3)
    event = parse(162, head + b"\x29" + bytes(6), MARIADB)
    assert (event.gtid, event.flags2, event.standalone) == (MariadbGtid(3, 11, 1155), 0x29, True)
    assert (event.flags_extra, event.commit_id, event.thread_id) == (0, None, None)
    # 11.8: thread id, and one byte to fill the post-header
    event = parse(162, head + b"\x0c\x10" + struct.pack("<I", 77) + b"\0", MARIADB)
    assert (event.thread_id, event.standalone) == (77, False)
    # up to 10.11 a commit id alone gives 21 bytes, without flags_extra
    event = parse(162, head + b"\x0e" + struct.pack("<Q", 99), MARIADB)
    assert (event.commit_id, event.flags_extra) == (99, 0)
    event = parse(162, head + b"\x40" + struct.pack("<IBB", 1, 5, 2) + b"firstbq", MARIADB)
    assert event.xid == (1, b"first", b"bq")
    event = parse(162, head + b"\x00" + b"\x05\x02" + struct.pack("<Q", 913), MARIADB)
    assert (event.extra_engines, event.start_alter_seq_no) == (2, 913)
    fails(162, head, MARIADB)
    fails(162, head + b"\x02" + bytes(7), MARIADB)


def test_mariadb_gtid_list() -> None:
    items = struct.pack("<IIQ", 0, 11, 1154) + struct.pack("<IIQ", 4294967295, 7, 2)
    event = parse(163, struct.pack("<I", 2 | 1 << 28) + items, MARIADB)
    assert event.gtids == (MariadbGtid(0, 11, 1154), MariadbGtid(4294967295, 7, 2))
    assert event.list_flags == 1
    assert parse(163, bytes(4) + bytes(2), MARIADB).gtids == ()
    fails(163, struct.pack("<I", 2**28 - 1) + items, MARIADB)
