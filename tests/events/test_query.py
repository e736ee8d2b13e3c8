"""Query events: status variables version by version, and text in the client's character set."""

from __future__ import annotations

import struct
import zlib

import pytest
from support.event_bodies import MARIADB, MYSQL, V1, V3, description_of, fails, parse, query_body

from binlog_core import events as ev
from binlog_core._format.event_types import EventType
from binlog_core._format.format_description import FormatDescription
from binlog_core.errors import DecodeError, DecompressionError

pytestmark = pytest.mark.sanitize_long


def test_query() -> None:
    event = parse(2, query_body())
    assert isinstance(event, ev.QueryEvent)
    assert (event.name, event.thread_id, event.exec_time, event.error_code) == ("Query", 7, 3, 1062)
    assert (event.database, event.query, event.status) == ("d", "SELECT 1", ev.QueryStatus())


@pytest.mark.parametrize("description", [V1, V3])
def test_query_before_5_0_has_no_status_variables(description: FormatDescription) -> None:
    event = parse(2, struct.pack("<IIBH", 7, 3, 4, 0) + b"shop\0DELETE FROM t", description)
    assert (event.database, event.query) == ("shop", "DELETE FROM t")


def test_a_longer_post_header_is_stepped_over() -> None:
    lengths = bytearray(MYSQL.raw_post_header_lengths)
    lengths[EventType.QUERY - 1] = 16
    event = parse(2, query_body(post=b"???"), description_of("9.7.4", post_headers=bytes(lengths)))
    assert (event.database, event.query) == ("d", "SELECT 1")


STATUS = [
    (0, "01000000", {"flags2": 1}),
    (1, "2000a05500000000", {"sql_mode": 0x55A00020}),
    (2, "03737464 00", {"catalog": "std"}),
    (2, "00 00", {"catalog": ""}),
    (3, "0200 0500", {"auto_increment_increment": 2, "auto_increment_offset": 5}),
    (4, "2100 2d00 0800", {"character_set_client": 33, "collation_connection": 45, "collation_server": 8}),
    (5, "06 53595354454d", {"time_zone": "SYSTEM"}),
    (6, "03 737464", {"catalog": "std"}),
    (7, "6f00", {"lc_time_names": 111}),
    (8, "0800", {"collation_database": 8}),
    (9, "0300000000000000", {"table_map_for_update": 3}),
    (10, "64000000", {"master_data_written": 100}),
    (11, "01 75 04 686f7374", {"invoker_user": "u", "invoker_host": "host"}),
    (12, "02 6100 6262 00", {"updated_db_names": ("a", "bb")}),
    (12, "fe", {"updated_db_names": ()}),
    (13, "3fd90f", {"microseconds": 0x0FD93F}),
    (16, "01", {"explicit_defaults_for_timestamp": True}),
    (17, "f10a000000000000", {"ddl_xid": 2801}),
    (18, "ff00", {"default_collation_for_utf8mb4": 255}),
    (19, "01", {"sql_require_primary_key": 1}),
    (20, "01", {"default_table_encryption": 1}),
    (21, "01", {"enable_cascade_triggers": 1}),
    (128, "40420f", {"microseconds": 1000000}),
    (129, "0500000000000000", {"ddl_xid": 5}),
    (130, "02", {"gtid_flags3": 2}),
    (130, "04 0900000000000000", {"gtid_flags3": 4, "start_alter_seq_no": 9}),
    (
        131,
        "05 2100 0008 2300 000a 2d00 0009 3600 000b 3c00 000c",
        {"character_set_collations": ((33, 2048), (35, 2560), (45, 2304), (54, 2816), (60, 3072))},
    ),
]


@pytest.mark.parametrize(("code", "value", "fields"), STATUS)
def test_status_variables(code: int, value: str, fields: dict[str, object]) -> None:
    raw = bytes([code]) + bytes.fromhex(value)
    # Between two others, so that a wrong length would be seen.
    event = parse(2, query_body(b"\x08\x21\x00" * (code != 8) + raw + b"\x0a\x01\x00\x00\x00" * (code != 10)))
    expected = {"collation_database": 33, "master_data_written": 1} | fields
    if code == 8:
        expected["collation_database"] = fields["collation_database"]
    assert event.status == ev.QueryStatus(**expected)
    assert event.query == "SELECT 1"
    for cut in range(1, len(raw)):
        assert "needed" in fails(2, query_body(raw[:cut])) or code == 12


def test_status_variables_after_an_unknown_code_are_lost_but_kept() -> None:
    event = parse(2, query_body(bytes([0, 1, 0, 0, 0, 77, 0, 9])))
    assert event.status == ev.QueryStatus(flags2=1, unknown=bytes([77, 0, 9]))


def test_query_text_follows_the_clients_character_set() -> None:
    latin1 = parse(2, query_body(b"\x04\x08\x00\x08\x00\x08\x00", query=b"-- caf\xe9"))
    assert latin1.query == "-- café"
    utf8 = parse(2, query_body(b"\x04\x2d\x00\x2d\x00\x08\x00", query="-- café".encode()))
    assert utf8.query == "-- café"
    broken = parse(2, query_body(query=b"x \xe9"))
    assert broken.query.encode("utf-8", "surrogateescape") == broken.query_bytes == b"x \xe9"


@pytest.mark.parametrize("cut", [0, 5, 12, 13, 14])
def test_a_cut_query(cut: int) -> None:
    assert "needed" in fails(2, query_body()[:cut])


def test_query_compressed() -> None:
    text = b"INSERT INTO t VALUES " + b"(1)," * 100
    block = b"\x82" + len(text).to_bytes(2, "big") + zlib.compress(text)
    event = parse(165, query_body(query=block), MARIADB)
    assert (event.name, event.query_bytes) == ("Query_compressed", text)
    for broken in (
        b"",
        b"\x02" + block[1:],
        block[:-3],
        b"\x82\0\x01" + block[3:],
        b"\x82\xff\xff" + block[3:],
    ):
        with pytest.raises(DecodeError) as caught:
            parse(165, query_body(query=broken), MARIADB)
        assert caught.value.offset == 2**40
    with pytest.raises(DecompressionError):
        parse(165, query_body(query=block[:-3]), MARIADB)
