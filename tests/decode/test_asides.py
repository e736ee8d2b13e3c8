"""What a log has beside rows: statements, savepoints, XA, and lost rows."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from support.writer import Log, Table

import binlog_core
from binlog_core._decode import asides, other_events
from binlog_core._decode.group import Aside
from binlog_core._decode.log_decoder import LogDecoder
from binlog_core._decode.selection import Selection
from binlog_core._sources.sources import BufferSource
from binlog_core._walk.track import Rules
from binlog_core.report import Report

pytestmark = pytest.mark.sanitize

T = Table("shop", "t", [("id", "INT")])


def asides_of(data: bytes, **options: Any) -> list[Aside]:
    with binlog_core.open(data, **options) as log:
        return [aside for group in log.groups(asides=True) for aside in group.asides]


def test_where_and_what() -> None:
    log = Log("8.4.0")
    alter = log.query("ALTER TABLE t ADD n INT", "shop")
    begin = log.begin("shop")
    log.insert(T, [{"id": 1}])
    savepoint = log.query("SAVEPOINT `a`", "shop")
    log.insert(T, [{"id": 2}])
    log.commit()
    xa = log.query("XA START X'31',X'',1", "shop")
    log.query("XA END X'31',X'',1", "shop")
    assert asides_of(log.getvalue()) == [
        Aside("statement", alter, 0, "ALTER TABLE t ADD n INT", "shop", alter),
        Aside("savepoint", savepoint, 0, "SAVEPOINT `a`", "shop", begin),
        Aside("xa start", xa, 0, "XA START X'31',X'',1", "shop", xa),
    ]
    with binlog_core.open(log.getvalue()) as opened:
        assert not any(group.asides for group in opened.groups())


def test_statements_are_read_as_their_session_wrote_them() -> None:
    """Status variables: 1 sql_mode (4 is ANSI_QUOTES), 4 character set of the client (8 is latin1)."""
    log = Log("8.4.0")
    status = b"\x01" + (4).to_bytes(8, "little") + b"\x04" + 3 * (8).to_bytes(2, "little")
    at = log.query(b'DROP TABLE "n\xe9"', "shop", status=status)
    other = log.query(b'DROP TABLE "n\xe9"', "shop")
    assert asides_of(log.getvalue()) == [
        Aside("statement", at, 0, 'DROP TABLE "né"', "shop", at, 4),
        Aside("statement", other, 0, 'DROP TABLE "n\ufffd"', "shop", other),
    ]


def test_the_name_of_a_savepoint_is_in_utf8_whatever_the_client_uses() -> None:
    """As MariaDB 10.11 and MySQL 9.7 log it after SET NAMES latin1."""
    log = Log("8.4.0")
    latin1 = b"\x04" + 3 * (8).to_bytes(2, "little")
    at = log.query("SAVEPOINT `é`".encode(), "shop", status=latin1)
    assert asides_of(log.getvalue()) == [Aside("savepoint", at, 0, "SAVEPOINT `é`", "shop", at)]


def test_only_kinds_that_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement that is not wanted is not read: that takes long."""
    log = Log("10.11.6-MariaDB")
    log.insert(T, [{"id": 1}])  # the transaction's beginning is lost
    log.commit()
    log.query('INSERT INTO t VALUES ("a")', "shop")
    log.begin("shop")
    log.query("SAVEPOINT `a`", "shop")
    log.commit()
    log.query("XA START X'31',X'',1", "shop")

    def kinds(*wanted: str) -> list[str]:
        selection = Selection(asides=frozenset(wanted))
        decoder = LogDecoder(BufferSource(log.getvalue()), selection, Rules(Report(warn=False)))
        return [aside.kind for group in decoder.groups() for aside in group.asides]

    assert kinds("statement") == ["statement"]
    monkeypatch.setattr(other_events, "parse_current", None)
    assert kinds("savepoint") == ["savepoint"]
    assert kinds("xa start", "lost") == ["lost", "xa start"]
    assert kinds() == []


def test_load_data_is_a_statement() -> None:
    log = Log("8.4.0")
    text = b"LOAD DATA INFILE 'f' INTO TABLE t"
    body = struct.pack("<IIBHH", 7, 0, 4, 0, 0) + struct.pack("<IIIB", 3, 10, 20, 1) + b"shop\0" + text
    at = log.event(18, body)  # EXECUTE_LOAD_QUERY
    assert asides_of(log.getvalue()) == [Aside("statement", at, 0, text.decode(), "shop", at)]


def test_long_statements_are_cut() -> None:
    log = Log("8.4.0")
    log.query("ALTER TABLE t COMMENT '" + "x" * 5000 + "'", "shop")
    [aside] = asides_of(log.getvalue())
    assert len(aside.text) == 4096


def test_rows_that_are_lost() -> None:
    log = Log("8.4.0")
    log.begin("shop")
    log.table_map(T)
    at = log.insert(T, [{"id": 1}], mapped=True)
    log.commit()
    data = bytearray(log.getvalue())
    data[at + 9 : at + 13] = b"\xff\xff\xff\x0f"  # its length
    with pytest.warns(binlog_core.BinlogWarning):
        lost = [(aside.kind, aside.position) for aside in asides_of(bytes(data), on_error="skip")]
    assert lost == [("lost", at)]


def test_a_group_does_not_wait_for_rows_where_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asides, "_MOST", 10)
    log = Log("8.4.0")
    places = [log.query("ALTER TABLE t FORCE", "shop") for _ in range(45)]
    with binlog_core.open(log.getvalue()) as opened:
        groups = [[aside.position for aside in group.asides] for group in opened.groups(asides=True)]
    assert sum(groups, []) == places
    assert len(groups) > 3


@pytest.mark.parametrize(
    ("where", "there"),
    [
        ("_thread_id = 8", "ACX"),
        ("_thread_id in (7, 9)", "BX"),
        ("_thread_id between 1 and 9", "ABCX"),
        ("not _thread_id = 8", "BX"),
        ("_thread_id = 8 and id = 1", "ACX"),
        ("_thread_id = 99 and id = 1", "X"),
        ("_thread_id = 99 or id = 1", "ABCX"),
        ("_thread_id is null", "X"),
        ("_server_id = 1 and _thread_id = 7", "BX"),
        ("_server_id = 2", ""),
        ("id = 1", "ABCX"),
        ("_thread_id = 'x'", "ABCX"),  # an error about rows, although there are none
    ],
)
def test_statements_of_sessions_that_a_condition_leaves_out_are_not_there(where: str, there: str) -> None:
    """X is of an unknown thread, which may be any of them."""
    log = Log("8.4.0", server_id=1)
    for name, thread in (("A", 8), ("B", 7), ("C", 8), ("X", 0)):
        log.query(f"DROP TABLE {name}", "shop", thread=thread)
    assert [one.text[-1] for one in asides_of(log.getvalue(), where=where)] == list(there)
