"""Typed events over hand-made bodies, laid out as the servers' documentation has them."""

from __future__ import annotations

import struct
import subprocess
import sys

import pytest
from support.event_bodies import MYSQL, V3, description_of, fails, parse
from support.plain_walk import iterate
from support.writer.log import Log

from binlog_core import events as ev

pytestmark = pytest.mark.sanitize_long

# -- opaque events ----------------------------------------------------------------------------


def test_slave_event_stays_opaque() -> None:
    assert parse(7, b"anything", V3) == ev.OpaqueEvent(2**40, 1700000000, 7, 11, 31, 0, 0, b"anything")


@pytest.mark.parametrize("code", [0, 28, 43, 100, 159, 173, 255])
def test_unknown_types_are_opaque(code: int) -> None:
    event = parse(code, b"\xff" * 9, flags=0x80)
    assert isinstance(event, ev.OpaqueEvent)
    assert event.body == b"\xff" * 9


def test_every_name_and_every_type_has_its_family() -> None:
    assert {name for name in ev.__all__ if not hasattr(ev, name)} == set()
    assert set(ev.__all__) <= set(dir(ev))


def test_families_are_attributes_as_submodules_are() -> None:
    """In a fresh process, since whatever was loaded before sets them."""
    names = ["base", "control", "gtid", "load", "query", "rows", "user_var"]
    code = f"import binlog_core.events as ev; print([getattr(ev, name).__name__ for name in {names}])"
    got = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert got.strip() == str([f"binlog_core.events.{name}" for name in names])
    assert set(names) <= set(dir(ev))
    assert len([code for code in range(256) if ev._decoder_of(code)]) == len(ev._DECODERS)
    with pytest.raises(AttributeError, match="no attribute 'GtidEvents'"):
        ev.GtidEvents  # noqa: B018


def test_a_type_beyond_the_array_is_an_error() -> None:
    short = description_of("5.0.91", post_headers=MYSQL.raw_post_header_lengths[:15])
    assert "15 event types" in fails(33, bytes(25), short)
    assert isinstance(parse(100, b"", short), ev.OpaqueEvent)


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
