"""LOAD DATA: the events of every version."""

from __future__ import annotations

import struct

import pytest
from support.event_bodies import MYSQL, V1, V3, fails, parse, text8

from binlog_core import events as ev
from binlog_core._format.format_description import FormatDescription

pytestmark = pytest.mark.sanitize_long

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
