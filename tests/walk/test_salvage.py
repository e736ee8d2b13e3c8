"""on_error="skip": events after damage are read, lost bytes are reported."""

from __future__ import annotations

import io
import struct
import sys
import warnings
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import pytest
from support.golden import Golden, golden_logs
from support.known import known, value
from support.writer import Log, Table

import binlog_core
from binlog_core._walk.resync import Boundaries
from binlog_core.errors import DecodeError
from binlog_core.inspect.verify import verify_log as verdict_of

pytestmark = [pytest.mark.sanitize_long, pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")]

UUID = "00112233-4455-6677-8899-aabbccddeeff"
COUNT = 20
XID, TABLE_MAP, GTIDS = 16, 19, (33, 34, 162)


class Made:
    """A log of transactions with one inserted row each, and where its events are."""

    def __init__(self, server: str = "8.0.36", *, next_positions: bool = True, checksum: bool = True) -> None:
        log = Log(server, next_positions=next_positions, checksum=checksum)
        self.begins: list[int] = []
        self.maps: list[int] = []
        self.rows: list[int] = []
        self.commits: list[int] = []
        table = Table("shop", "orders", [("id", "INT"), ("note", "BLOB")])
        for i in range(COUNT):
            self.begins.append(log.maria_gtid(i + 1) if log.mariadb else log.gtid(UUID, i + 1))
            if not log.mariadb:
                log.begin("shop")
            self.maps.append(log.table_map(table))
            self.rows.append(log.insert(table, [{"id": i, "note": bytes([i]) * 80}], mapped=True))
            self.commits.append(log.commit(i))
        self.size = log.position
        self.data = log.getvalue()


SERVERS = {
    "mysql": {"server": "8.0.36"},
    "mariadb": {"server": "10.11.6-MariaDB"},
    "without positions": {"server": "11.8.6-MariaDB", "next_positions": False},
    "without checksums": {"server": "8.0.36", "checksum": False},
}
by_server = pytest.mark.parametrize("server", SERVERS)
MAPPED = pytest.mark.parametrize("mapped", [True, False], ids=["mapped", "read"])


@cache
def made(server: str) -> Made:
    return Made(**SERVERS[server])  # type: ignore[arg-type]


def opened(data: bytes, mapped: bool = True, **options: Any) -> binlog_core.Log:
    options = {"on_error": "skip"} | options
    return binlog_core.open(np.frombuffer(data, np.uint8).copy() if mapped else io.BytesIO(data), **options)


def ids(log: binlog_core.Log) -> list[int]:
    return [change.after["id"] for change in log.rows()]  # type: ignore[index]


def patched(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


@MAPPED
@by_server
@pytest.mark.parametrize(
    "length",
    [0, 5, 18, 100, 5000, 0x7FFFFFFF, 0xFFFFFFFF],
)
def test_an_impossible_length(server: str, length: int, mapped: bool) -> None:
    """Whatever value event_length has, only its own transaction is affected."""
    log = made(server)
    for at in (log.begins[7], log.maps[7], log.rows[7], log.commits[7]):
        data = patched(log.data, at + 9, struct.pack("<I", length))
        with opened(data, mapped) as damaged:
            got = ids(damaged)
            assert [i for i in range(COUNT) if i != 7] == [i for i in got if i != 7], (at, length)
            assert got.count(7) <= 1
            ((_, start, end),) = damaged.report.lost_ranges
            # If an event has no position, its length may be what leads to the next one.
            assert log.begins[7] <= start <= at < end <= log.begins[8]
            assert damaged.report.skipped_events == 1


@MAPPED
@by_server
@pytest.mark.parametrize("verify", [True, False])
def test_a_length_that_skips_good_events(server: str, verify: bool, mapped: bool) -> None:
    """It leads exactly to a later event; those between are found all the same."""
    log = made(server)
    for target in (log.begins[9] + 5, log.rows[11] + 30):
        at = log.rows[7]
        data = patched(log.data, at + 9, struct.pack("<I", target - at))
        with opened(data, mapped, verify_checksum=verify) as damaged:
            # Without checksums the row before the false ones is the true one.
            got = [i for i in ids(damaged) if verify or i != 7]
            assert got == [i for i in range(COUNT) if i != 7]
            assert damaged.report.lost_ranges == [(damaged.files[0].path, at, log.commits[7])]


@MAPPED
@by_server
def test_a_stretch_of_rubbish(server: str, mapped: bool) -> None:
    """A lost disk block: transactions before and after it are complete, and the range is reported."""
    log = made(server)
    begin, end = log.maps[5] + 3, log.maps[12] + 7
    for filler in (b"\0", b"\xff", b"\x5a"):
        data = patched(log.data, begin, filler * (end - begin))
        with opened(data, mapped) as damaged:
            assert ids(damaged) == [*range(5), *range(13, COUNT)]
            ((path, start, after),) = damaged.report.lost_ranges
            assert path == damaged.files[0].path
            assert log.begins[5] <= start <= begin and log.maps[12] <= after <= log.begins[13]


@MAPPED
@by_server
def test_bytes_that_are_missing(server: str, mapped: bool) -> None:
    """A block that a copy lacks: positions after it all run ahead of the file."""
    log = made(server)
    at = log.rows[6] + 25
    data = log.data[:at] + log.data[at + 11 :]
    with opened(data, mapped) as damaged:
        assert ids(damaged) == [i for i in range(COUNT) if i != 6]
        assert damaged.report.missing_bytes == (server != "without positions")  # these do not disagree
        ((_, start, end),) = damaged.report.lost_ranges
        assert start == log.rows[6] and end < log.begins[7]
    data = log.data[:at] + log.data[log.maps[9] + 7 :]
    with opened(data, mapped) as damaged:
        got = ids(damaged)
        assert got == [*range(6), *range(10, COUNT)]
        ((_, start, end),) = damaged.report.lost_ranges
        assert start == log.rows[6] and end <= at + log.begins[10] - log.maps[9]


@by_server
def test_bytes_that_are_too_many(server: str) -> None:
    """Positions fall behind the file, as those of a log inside a BLOB do: the rest is lost, and reported."""
    log = made(server)
    at = log.rows[6] + 25
    with opened(log.data[:at] + b"\x5a" * 11 + log.data[at:]) as damaged:
        assert ids(damaged)[:6] == list(range(6))
        if server != "without positions":
            assert damaged.report.lost_ranges[-1][2] == log.size + 11


def without_events(golden: Golden, kind: str) -> bytes:
    """A copy without the events of one type; the headers of the others are unchanged."""
    data, out, at = golden.data, bytearray(), 0
    for event in golden.events:
        if event["type"] == kind:
            out += data[at : event["pos"]]
            at = event["pos"] + int.from_bytes(data[event["pos"] + 9 : event["pos"] + 13], "little")
    return bytes(out) + data[at:]


ANNOTATED = [
    golden
    for name in ("dml_*", "killed", "maria_gtid", "maria_bincompress*", "stmt_and_mixed_format", "xa", "ddl")
    for golden in golden_logs(f"maria*/{name}")
    if any(e["type"] == "Annotate_rows" for e in golden.events)
]


@MAPPED
@pytest.mark.parametrize("golden", ANNOTATED, ids=str)
def test_a_log_that_lacks_events_is_whole(golden: Golden, mapped: bool) -> None:
    """For example one fetched without annotations: it is not damaged, although positions disagree."""
    data = without_events(golden, "Annotate_rows")
    assert len(data) < len(golden.data)
    want = [value(change)[:-1] for change in known(golden).changes]
    with opened(data, mapped) as log:
        assert [value(change)[:-1] for change in log.rows()] == want
        assert (log.report.skipped_events, log.report.lost_ranges, log.tail) == (0, [], None)
        assert log.report.missing_bytes == 1
    events = [e["type"] for e in golden.events if e["type"] != "Annotate_rows"]
    with opened(data, mapped) as log:
        assert len(log.headers()) == len(events)
        assert log.report.lost_ranges == []
    with opened(data, mapped) as log:
        assert len(list(log.events())) == len(events)
        assert log.report.skipped_events == 0


def test_a_pipe_cannot_be_read_twice() -> None:
    """So the rest of a log that lacks events is lost there, and reported."""

    class Pipe(io.RawIOBase):
        def __init__(self, data: bytes) -> None:
            self.data = io.BytesIO(data)

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            return self.data.readinto(buffer)

    golden = golden_logs("maria1011/maria_bincompress")[0]
    data = without_events(golden, "Annotate_rows")
    with binlog_core.open(Pipe(data)) as log:
        assert len(list(log.rows())) == len(known(golden).changes)
    with binlog_core.open(Pipe(data), on_error="skip") as log:
        got = len(list(log.rows()))
        assert got < len(known(golden).changes)
        assert log.report.skipped_events == 1
        assert log.report.lost_ranges[-1][2] == len(data)


@MAPPED
def test_damage_in_a_log_that_lacks_events(mapped: bool) -> None:
    """The transactions after it are found, though no position agrees."""
    golden = golden_logs("maria1011/maria_bincompress")[0]
    data = without_events(golden, "Annotate_rows")
    places = binlog_core.open(data).headers()
    rows = [int(h["position"]) for h in places if h["type_code"] in (23, 24, 25)]
    want = [value(change)[:-1] for change in known(golden).changes]
    for at in (rows[len(rows) // 3], rows[len(rows) // 2]):
        before = sum(1 for c in binlog_core.open(data).rows() if c.position < at)
        for broken in (patched(data, at + 9, b"\xff\xff\xff\x7f"), patched(data, at + 30, b"\x5a\x5a")):
            with opened(broken, mapped) as log:
                got = [value(change)[:-1] for change in log.rows()]
                assert got[:before] == want[:before]
                assert all(change in want for change in got)
                ((_, start, end),) = log.report.lost_ranges
                assert start == at and end < at + 2000
                lost = sum(1 for c in binlog_core.open(data).rows() if at <= c.position < end)
                assert len(got) == len(want) - lost > before


def test_verify_of_a_log_that_lacks_events(tmp_path: Any) -> None:
    golden = golden_logs("maria1011/maria_bincompress")[0]
    path = tmp_path / "bin.000001"
    path.write_bytes(without_events(golden, "Annotate_rows"))
    with binlog_core.open(path) as log:
        found = verdict_of(log.files[0])
    assert found.state == "whole"
    assert found.rows == len(golden.truth)
    assert found.notes["missing_bytes"] == 1
    assert found.events == found.checksums == len([e for e in golden.events if e["type"] != "Annotate_rows"])


@MAPPED
@by_server
def test_the_rest_is_lost(server: str, mapped: bool) -> None:
    log = made(server)
    data = patched(log.data, log.begins[15], b"\xff" * (log.size - log.begins[15]))
    with opened(data, mapped) as damaged:
        assert ids(damaged) == list(range(15))
        assert damaged.report.lost_ranges[-1][2] == log.size
        assert damaged.report.lost_ranges[0][1] <= log.begins[15]


@MAPPED
@by_server
def test_a_cut_tail_is_not_damage(server: str, mapped: bool) -> None:
    log = made(server)
    data = log.data[: log.rows[-1] + 40]
    with opened(data, mapped) as cut:
        assert ids(cut) == list(range(COUNT - 1))
        assert cut.report.lost_ranges == [] and cut.report.skipped_events == 0
        assert cut.tail is not None and cut.tail.offset == log.rows[-1]


def test_neighbours_are_one_range() -> None:
    log = made("mysql")
    data = bytearray(log.data)
    for at in (log.maps[4], log.rows[4]):
        data[at + 30] ^= 0xFF  # its checksum is wrong
    with opened(bytes(data)) as damaged:
        assert ids(damaged) == [i for i in range(COUNT) if i != 4]
        assert damaged.report.lost_ranges == [(damaged.files[0].path, log.maps[4], log.commits[4])]
        assert damaged.report.skipped_events == 2


@MAPPED
def test_rows_whose_table_map_is_lost(mapped: bool) -> None:
    """They are counted, not decoded by a definition from before the damage."""
    log = Log("8.0.36")
    old = Table("shop", "orders", [("id", "INT"), ("note", "BLOB")])
    new = Table("shop", "orders", [("id", "INT"), ("price", "INT")])
    log.gtid(UUID, 1)
    log.begin("shop")
    log.table_map(old, 77)
    log.insert(old, [{"id": 1, "note": b"a"}], mapped=True)
    log.commit(1)
    log.gtid(UUID, 2)
    log.begin("shop")
    at = log.table_map(new, 77)
    rows = log.insert(new, [{"id": 2, "price": 5}], mapped=True)
    log.commit(2)
    data = bytearray(log.getvalue())
    data[at + 40] ^= 0x55
    with opened(bytes(data), mapped) as damaged:
        assert ids(damaged) == [1]
        assert damaged.report.rows_without_table_map == 1
        assert damaged.report.first["rows_without_table_map"].offset == rows


def test_start_in_the_middle_of_a_transaction() -> None:
    log = made("mysql")
    with opened(log.data, start=log.rows[3], on_error="raise") as late:
        assert ids(late) == list(range(4, COUNT))
        assert late.report.rows_without_table_map == 1
    with (
        opened(log.data, start=log.rows[3], on_error="raise", strict=True) as late,
        pytest.raises(binlog_core.StrictError, match="table map"),
    ):
        ids(late)


def test_a_lost_gtid_is_not_replaced_by_another() -> None:
    """Rows after a lost range do not get the GTID from before it."""
    log = made("mysql")
    begin, end = log.commits[3], log.maps[5]
    data = patched(log.data, begin, b"\xff" * (end - begin))
    with opened(data) as damaged:
        gtids = {change.after["id"]: change.gtid for change in damaged.rows()}  # type: ignore[index]
    assert gtids[3] == f"{UUID}:4" and gtids[5] is None and gtids[6] == f"{UUID}:7"
    with opened(data, gtids=f"{UUID}:4-6") as damaged:
        assert ids(damaged) == [3]


@by_server
def test_headers_and_events(server: str) -> None:
    """The events that are not damaged, no more and no less, in both ways."""
    log = made(server)
    with opened(log.data) as whole:
        places = whole.headers()["position"].tolist()
    at = log.rows[7]
    data = patched(log.data, at + 9, struct.pack("<I", log.begins[9] + 5 - at))
    for verify in (True, False):
        for mapped in (True, False):
            with opened(data, mapped, verify_checksum=verify) as damaged:
                assert damaged.headers()["position"].tolist() == [p for p in places if p != at]
                assert damaged.report.lost_ranges == [(damaged.files[0].path, at, log.commits[7])]
            with opened(data, mapped, verify_checksum=verify) as damaged:
                assert [e.position for e in damaged.events()] == [p for p in places if p != at]
                assert damaged.report.skipped_events == 1


@by_server
def test_raise_names_the_place(server: str) -> None:
    """Without on_error="skip" damage is never taken for the end of the log."""
    log = made(server)
    for length in (3, 0x0FFFFFFF):
        data = patched(log.data, log.rows[7] + 9, struct.pack("<I", length))
        for way in (ids, binlog_core.Log.headers, lambda log: list(log.events())):
            for mapped in (True, False):
                with opened(data, mapped, on_error="raise", verify_checksum=False) as damaged:
                    with pytest.raises(DecodeError) as caught:
                        way(damaged)
                    assert caught.value.offset == log.rows[7]


def test_a_relay_log_is_read_on() -> None:
    """Its positions are those of another log."""
    source = made("mysql")
    log = Log("8.0.36")
    log.rotate("binlog.000007")
    begin = log.raw(source.data[4:]) - 4
    data = patched(log.getvalue(), begin + source.rows[7] + 9, b"\xff\xff\xff\xff")
    for mapped in (True, False):
        with opened(data, mapped) as damaged:
            assert ids(damaged) == [i for i in range(COUNT) if i != 7]
            assert damaged.report.lost_ranges == [
                (damaged.files[0].path, begin + source.rows[7], begin + source.commits[7])
            ]


@pytest.mark.parametrize("version", [1, 3])
def test_old_logs_are_read_on_after_damage(version: int) -> None:
    log = Log("4.1.22" if version == 3 else "3.23.58", binlog_version=version)
    places = [log.query(f"INSERT INTO t VALUES ({i})", "shop") for i in range(40)]
    data = patched(log.getvalue(), places[9] + 9, b"\xff\xff\xff\xff")
    with opened(data) as damaged:
        assert [e.position for e in damaged.events()][1:] == [p for p in places if p != places[9]]


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Calls of functions, and bytes that were looked through for events."""
    work: Counter[str] = Counter()
    find = Boundaries.find

    def looking(self: Boundaries, window: Any, start: int, limit: int, **rest: Any) -> tuple[int, int]:
        found = find(self, window, start, limit, **rest)
        work["bytes"] += found[0] - start
        return found

    def calling(frame: Any, event: str, _: Any) -> None:
        work["calls"] += event in ("call", "c_call")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Boundaries, "find", looking)
        sys.setprofile(calling)
        try:
            yield work
        finally:
            sys.setprofile(None)


def test_damage_everywhere_takes_linear_time() -> None:
    """Every second event is broken; each search ends at the next event, not at the end of the log."""

    def taken(repeats: int) -> int:
        log = Log("8.0.36")
        table = Table("shop", "orders", [("id", "INT"), ("note", "BLOB")])
        places = []
        for i in range(repeats):
            log.gtid(UUID, i + 1)
            log.begin("shop")
            places.append(log.table_map(table))
            log.insert(table, [{"id": i, "note": b"x" * 200}], mapped=True)
            log.commit(i)
        data = bytearray(log.getvalue())
        for at in places[::2]:
            data[at + 9 : at + 13] = b"\xff\xff\xff\x7f"
        with counted() as work, warnings.catch_warnings(), opened(bytes(data)) as damaged:
            warnings.simplefilter("ignore")
            assert ids(damaged) == list(range(1, repeats, 2))
        return work["calls"] + work["bytes"]

    taken(50)  # things that are made once exist now
    assert taken(1600) < 10 * taken(200)  # 8 times the data; were it quadratic, 64 times the work


def test_damage_in_a_log_that_lacks_events_takes_linear_time() -> None:
    """Earlier bytes are not searched again at each damage, nor at each descriptor."""

    def taken(repeats: int) -> int:
        log = Log("8.0.36")
        table = Table("shop", "orders", [("id", "INT"), ("note", "BLOB")])
        log.query("CREATE DATABASE shop")
        gap = log.query("CREATE TABLE orders (id INT, note BLOB)", "shop")
        broken = []
        for i in range(repeats):
            log.gtid(UUID, i + 1)
            log.begin("shop")
            log.table_map(table)
            broken.append(log.insert(table, [{"id": i, "note": b"x" * 200}], mapped=True))
            log.commit(i)
            log.start()
        data = bytearray(log.getvalue())
        for at in broken[::2]:
            data[at + 9 : at + 13] = b"\xff\xff\xff\x7f"
        del data[gap : gap + int.from_bytes(data[gap + 9 : gap + 13], "little")]
        with counted() as work, warnings.catch_warnings(), opened(bytes(data)) as damaged:
            warnings.simplefilter("ignore")
            assert ids(damaged) == list(range(1, repeats, 2))
            assert damaged.report.missing_bytes == 1
            verdict = verdict_of(damaged.files[0])
            assert len(verdict.damages) == len(broken[::2]) and verdict.notes["missing_bytes"] == 1
        return work["calls"] + work["bytes"]

    taken(20)
    assert taken(800) < 10 * taken(100)


def test_crc_of_the_made_logs() -> None:
    """Without damage they are whole: only the damage breaks them."""
    for server in SERVERS:
        log = made(server)
        with opened(log.data) as whole:
            assert ids(whole) == list(range(COUNT))
            assert whole.report.lost_ranges == [] and whole.tail is None
        if server != "without checksums":
            at = log.rows[0]
            (length,) = struct.unpack_from("<I", log.data, at + 9)
            (stored,) = struct.unpack_from("<I", log.data, at + length - 4)
            assert zlib.crc32(log.data[at : at + length - 4]) == stored


def test_an_event_with_a_flipped_type_is_not_taken_for_a_descriptor() -> None:
    """START_V3 has no checksum: a GTID event must not become one, and with it the log one of 4.0."""
    log = made("mysql")
    data = patched(log.data, log.begins[7] + 4, b"\1")
    with opened(data, on_error="raise") as damaged:
        with pytest.raises(binlog_core.BinlogError) as caught:
            ids(damaged)
        assert caught.value.offset == log.begins[7]
        with pytest.raises(binlog_core.BinlogError):
            damaged.headers()
    with opened(data) as damaged:
        assert [i for i in ids(damaged) if i != 7] == [i for i in range(COUNT) if i != 7]
        assert damaged.report.lost_ranges == [(damaged.files[0].path, log.begins[7], log.begins[7] + 77)]
        assert damaged.headers()["position"].tolist() == [
            p for p in opened(log.data).headers()["position"].tolist() if p != log.begins[7]
        ]


def test_a_packed_transaction_behind_rows_without_a_table_map() -> None:
    """It is read: rows before it that could not be decoded do not matter for it."""
    log = Log("8.0.36")
    log.gtid(UUID, 1)
    log.begin("shop")
    table = Table("shop", "orders", [("id", "INT"), ("note", "BLOB")])
    at = log.table_map(table)
    log.insert(table, [{"id": 1, "note": b"a"}], mapped=True)
    log.commit(1)
    log.gtid(UUID, 2)
    with log.compressed_transaction() as inner:
        inner.begin("shop")
        inner.insert(table, [{"id": 2, "note": b"b"}])
        inner.commit(2)
    data = bytearray(log.getvalue())
    data[at + 30] ^= 0xFF
    with opened(bytes(data)) as damaged:
        assert ids(damaged) == [2]
        assert damaged.report.rows_without_table_map == 1


def test_damage_at_the_head_makes_no_relay_log() -> None:
    """Bytes from elsewhere in the log, with valid checksums, are not taken for its head."""
    log = made("mysql")
    span = log.begins[9] - log.begins[1]
    data = patched(log.data, log.begins[1], log.data[log.begins[11] : log.begins[11] + span])
    with opened(data) as damaged:
        got = ids(damaged)
    assert got == [0, *range(9, COUNT)]
