"""Events about the log itself, its transactions and its servers."""

from __future__ import annotations

import struct

import pytest
from support.event_bodies import MARIADB, MYSQL, UUID_TEXT, V1, V3, description_of, fails, parse, text8

from binlog_core import events as ev
from binlog_core._format.event_types import EventType

pytestmark = pytest.mark.sanitize_long


def test_rotate() -> None:
    event = parse(4, struct.pack("<Q", 2**33) + b"bin.000143")
    assert (event.new_log_ident, event.pos) == ("bin.000143", 2**33)
    event = parse(4, b"bin.002", V1)
    assert (event.new_log_ident, event.pos) == ("bin.002", 4)


def test_rotate_is_frozen_whatever_length_is_listed() -> None:
    lengths = bytearray(MYSQL.raw_post_header_lengths)
    lengths[EventType.ROTATE - 1] = 12
    event = parse(
        4, struct.pack("<Q", 4) + b"bin.000143", description_of("9.7.4", post_headers=bytes(lengths))
    )
    assert event.new_log_ident == "bin.000143"


def test_descriptors() -> None:
    for code, description in ((15, MYSQL), (1, V3)):
        event = parse(code, b"whatever was read before", description)
        assert event.format is description


def test_xid_stop_incident() -> None:
    assert parse(16, struct.pack("<Q", 2**63)).xid == 2**63
    assert isinstance(parse(3, b""), ev.StopEvent)
    event = parse(26, b"\x01\0" + text8(b"LOST_EVENTS"))
    assert (event.incident, event.message) == (1, "LOST_EVENTS")
    fails(16, bytes(7))
    fails(26, b"\x01\0\x05abc")


def test_xa_prepare() -> None:
    event = parse(38, b"\x01" + struct.pack("<iII", -1, 5, 2) + b"firstbq")
    assert (event.one_phase, event.format_id, event.gtrid, event.bqual) == (True, -1, b"first", b"bq")
    assert "64" in fails(38, b"\0" + struct.pack("<iII", 1, 65, 0) + bytes(65))


def test_heartbeats() -> None:
    assert parse(27, b"bin.000001", next_position=400).log_pos == 400
    event = parse(27, struct.pack("<Q", 2**33) + b"bin.000001", MARIADB)
    assert (event.log_ident, event.log_pos) == ("bin.000001", 2**33)
    body = b"\x01\x0abin.000001" + b"\x09\x02??" + b"\x02\x09\xfe" + struct.pack("<Q", 2**33) + b"\0"
    event = parse(41, body)
    assert (event.log_ident, event.log_pos) == ("bin.000001", 2**33)
    fails(41, body[:-1])


def test_transaction_context() -> None:
    post = struct.pack("<BIBIII", 36, 7, 1, 8, 2, 1)
    body = post + UUID_TEXT.encode() + bytes(8) + b"\x02\0w1\x00\0\x01\0r"
    event = parse(36, body)
    assert (event.server_uuid, event.thread_id, event.gtid_specified) == (UUID_TEXT, 7, True)
    assert (event.snapshot_version, event.write_set, event.read_set) == (bytes(8), (b"w1", b""), (b"r",))
    fails(36, struct.pack("<BIBIII", 36, 7, 1, 8, 2**31, 1) + body[18:])


def test_view_change() -> None:
    post = b"15041379:3".ljust(40, b"\0") + struct.pack("<QI", 9, 1)
    event = parse(37, post + b"\x03\0key\x05\0\0\0value")
    assert (event.view_id, event.seq_number) == ("15041379:3", 9)
    assert event.certification_info == ((b"key", b"value"),)
    fails(37, post[:-4] + b"\xff\xff\xff\xff\x03\0key\x05\0\0\0value")


def test_mariadb_checkpoint_and_start_encryption() -> None:
    assert parse(161, b"\x0a\0\0\0bin.000141", MARIADB).file_name == "bin.000141"
    event = parse(164, b"\x01\x01\0\0\0" + bytes(range(12)), MARIADB)
    assert (event.crypto_scheme, event.key_version, event.nonce) == (1, 1, bytes(range(12)))
    fails(164, bytes(16), MARIADB)
