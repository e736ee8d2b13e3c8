"""Typed events over hand-made bodies, laid out as the servers' documentation has them."""

from __future__ import annotations

import pickle
import struct
import zlib
from decimal import Decimal

import pytest
from support.event_bodies import MARIADB, MYSQL, UUID_TEXT, V1, V3, description_of, fails, parse
from support.plain_walk import iterate
from support.writer.log import Log

from binlog_core import events as ev
from binlog_core._format.event_types import EVENT_NAMES, EventType
from binlog_core._format.format_description import FormatDescription
from binlog_core.errors import DecodeError, DecompressionError


def text8(text: bytes) -> bytes:
    return bytes([len(text)]) + text


# -- statements --------------------------------------------------------------------------------


def query_body(
    status: bytes = b"", database: bytes = b"d", query: bytes = b"SELECT 1", *, post: bytes = b""
) -> bytes:
    return (
        struct.pack("<IIBHH", 7, 3, len(database), 1062, len(status))
        + post
        + status
        + database
        + b"\0"
        + query
    )


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


def test_intvar_and_rand() -> None:
    event = parse(5, b"\x02" + struct.pack("<Q", 77))
    assert (event.type, event.variable, event.val) == (2, "INSERT_ID", 77)
    assert parse(5, b"\x01" + bytes(8)).variable == "LAST_INSERT_ID"
    event = parse(13, struct.pack("<QQ", 891739163, 258943219))
    assert (event.name, event.seed1, event.seed2) == ("RAND", 891739163, 258943219)
    fails(5, b"\x02\0")
    fails(13, bytes(15))


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


# -- LOAD DATA ---------------------------------------------------------------------------------

LOAD_POST_HEADER = struct.pack("<IIIBBI", 7, 2, 1, 1, 4, 2)
LOAD_NAMES = b"\x02\x01" + b"id\0n\0" + b"t\0" + b"shop\0"
SQL_EX_NEW = text8(b"\t") + text8(b"") + text8(b"\r\n") + text8(b"") + text8(b"\\") + b"\x04"


@pytest.mark.parametrize("description", [V1, V3])
def test_load(description: FormatDescription) -> None:
    # enclosed-by and line start are empty
    body = LOAD_POST_HEADER + b'\t"\n>\\' + bytes([6, 0b01010]) + LOAD_NAMES + b"/tmp/load.txt"
    event = parse(6, body, description)
    assert (event.thread_id, event.exec_time, event.skip_lines) == (7, 2, 1)
    assert event.sql_ex == ev.SqlEx(b"\t", b"", b"\n", b"", b"\\", 6)
    assert (event.fields, event.table, event.database) == (("id", "n"), "t", "shop")
    assert event.file_name == "/tmp/load.txt"


def test_new_load() -> None:
    event = parse(12, LOAD_POST_HEADER + SQL_EX_NEW + LOAD_NAMES + b"SQL_LOAD-1-0.data", V3)
    assert event.sql_ex == ev.SqlEx(b"\t", b"", b"\r\n", b"", b"\\", 4)
    assert (event.table, event.file_name) == ("t", "SQL_LOAD-1-0.data")


def test_create_file() -> None:
    head = LOAD_POST_HEADER + struct.pack("<I", 9)
    event = parse(8, head + SQL_EX_NEW + LOAD_NAMES + b"x.txt\0" + b"1\t2\n\0rest", V3)
    assert (event.file_id, event.file_name, event.block) == (9, "x.txt", b"1\t2\n\0rest")
    assert event.fields == ("id", "n")
    event = parse(8, LOAD_POST_HEADER + SQL_EX_NEW + LOAD_NAMES + b"x.txt\0", V1)
    assert (event.file_id, event.file_name, event.block) == (None, "x.txt", b"")


def test_blocks_of_a_file() -> None:
    for code in (9, 17):
        event = parse(code, b"\x05\0\0\0some rows", V3 if code == 9 else MYSQL)
        assert (event.file_id, event.block) == (5, b"some rows")
    for code in (10, 11):
        assert parse(code, b"\x05\0\0\0", V3).file_id == 5


def test_execute_load_query() -> None:
    post = struct.pack("<IIBHH", 7, 0, 1, 0, 5) + struct.pack("<IIIB", 3, 10, 20, 1)
    event = parse(18, post + b"\x00\x01\0\0\0" + b"d\0" + b"LOAD DATA INFILE 'f' INTO TABLE t")
    assert isinstance(event, ev.ExecuteLoadQueryEvent)
    assert (event.file_id, event.fn_pos_start, event.fn_pos_end, event.dup_handling) == (3, 10, 20, 1)
    assert (event.database, event.status.flags2) == ("d", 1)
    assert event.query == "LOAD DATA INFILE 'f' INTO TABLE t"


@pytest.mark.parametrize("count", [3, 0xFFFFFFFF])
def test_load_with_too_many_fields(count: int) -> None:
    post = struct.pack("<IIIBBI", 7, 2, 1, 1, 4, count)
    fails(12, post + SQL_EX_NEW + LOAD_NAMES, V3)


def test_slave_event_stays_opaque() -> None:
    assert parse(7, b"anything", V3) == ev.OpaqueEvent(2**40, 1700000000, 7, 11, 31, 0, 0, b"anything")


# -- control -----------------------------------------------------------------------------------


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


@pytest.mark.parametrize("code", [0, 28, 43, 100, 159, 173, 255])
def test_unknown_types_are_opaque(code: int) -> None:
    event = parse(code, b"\xff" * 9, flags=0x80)
    assert isinstance(event, ev.OpaqueEvent)
    assert event.body == b"\xff" * 9


def test_a_type_beyond_the_array_is_an_error() -> None:
    short = description_of("5.0.91", post_headers=MYSQL.raw_post_header_lengths[:15])
    assert "15 event types" in fails(33, bytes(25), short)
    assert isinstance(parse(100, b"", short), ev.OpaqueEvent)


def test_every_type_has_a_name() -> None:
    assert set(EVENT_NAMES) == set(EventType) - {EventType.UNKNOWN}
    assert parse(100, b"").name == "Unknown"


def test_events_are_plain_values() -> None:
    event = parse(2, query_body(b"\x08\x21\x00"))
    assert pickle.loads(pickle.dumps(event)) == event
    assert hash(event) == hash(parse(2, query_body(b"\x08\x21\x00")))
    with pytest.raises(AttributeError):
        event.database = "other"


# -- whole logs --------------------------------------------------------------------------------

SERVERS = [
    "5.0.91",
    "5.1.63",
    "5.2.2-a_drop6p13",
    "5.5.38",
    "5.6.41",
    "5.7.41",
    "8.0.36",
    "8.4.8",
    "9.7.4",
    "5.5.36-MariaDB",
    "10.0.17-MariaDB",
    "10.11.18-MariaDB",
]


@pytest.mark.parametrize("header_length", [19, 23, 31])
@pytest.mark.parametrize("server", SERVERS)
def test_a_log_of_each_server(server: str, header_length: int) -> None:
    log = Log(server, header_length=header_length)
    log.begin("shop")
    log.query("INSERT INTO t VALUES (1)", "shop", status=b"\x08\x21\x00")
    log.commit(77)
    log.rotate("next.000002")
    events = [event for event, _ in iterate(log.getvalue())]
    assert [event.type_code for event in events] == [15, 2, 2, 16, 4]
    assert (events[1].query, events[2].query) == ("BEGIN", "INSERT INTO t VALUES (1)")
    assert (events[2].database, events[2].status.collation_database) == ("shop", 33)
    assert (events[3].xid, events[4].new_log_ident, events[4].pos) == (77, "next.000002", 4)


@pytest.mark.parametrize(("version", "server"), [(1, "3.23.58"), (3, "4.1.22")])
def test_a_log_before_5_0(version: int, server: str) -> None:
    log = Log(server, binlog_version=version)
    log.event(5, b"\x02" + struct.pack("<Q", 3))
    log.query("INSERT INTO t VALUES (1)", "shop")
    log.rotate("next.002", 4)
    events = [event for event, _ in iterate(log.getvalue())]
    assert [event.name for event in events] == ["Start_v3", "Intvar", "Query", "Rotate"]
    assert (events[0].format.binlog_version, events[0].format.server_version) == (version, server)
    assert (events[1].val, events[2].query, events[3].new_log_ident) == (
        3,
        "INSERT INTO t VALUES (1)",
        "next.002",
    )
    assert events[2].next_position == (0 if version == 1 else events[2].position)


def test_a_relay_log_changes_its_descriptor() -> None:
    log = Log("9.7.4", checksum=True)
    log.rotate("source.000007", 4)
    # The source's own descriptor: no checksums, and no events that it does not know.
    source = Log("5.1.63")
    source.begin()
    source.commit(5)
    data = log.getvalue() + source.getvalue()[4:]
    pairs = list(iterate(data))
    assert [event.type_code for event, _ in pairs] == [15, 4, 15, 2, 16]
    assert [description.checksum for _, description in pairs] == ["crc32", "crc32", "none", "none", "none"]
    assert pairs[-1][0].xid == 5
