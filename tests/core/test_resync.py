"""Event boundaries from any offset: each one of real logs, and none in random or forged bytes."""

from __future__ import annotations

import random
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.golden import Golden, golden_logs, old_logs
from support.guarded import exact
from support.writer import Log

from binlog_core._core import _resync
from binlog_core._format.descriptors import detect
from binlog_core._format.format_description import FormatDescription
from binlog_core._sources.sources import BufferSource, FileSource
from binlog_core._walk.resync import Boundaries, head_of
from binlog_core.errors import BinlogError

pytestmark = pytest.mark.sanitize

PLAIN = [g for g in golden_logs(max_bytes=60_000) if not g.keys]
UUID = "00112233-4455-6677-8899-aabbccddeeff"


def description_of(data: bytes) -> FormatDescription:
    found = detect(data).format
    assert found is not None
    return found


def find(data: bytes, start: int, limit: int | None = None, **options: Any) -> tuple[int, int]:
    description = description_of(options.pop("head", data))
    header_length, lengths, canonical, checksum = description.core_arrays()
    given = {"base": 0, "more": False, "rule": _resync.POSITION_END, "zeros": True} | options
    return _resync.find_event(
        exact(data),
        start,
        len(data) if limit is None else limit,
        header_length=header_length,
        lengths=lengths,
        canonical=canonical,
        checksum=bool(checksum),
        **given,
    )


def positions(golden: Golden) -> list[int]:
    """Where events begin, by the server's list, which has a compressed transaction's events at its end."""
    return [e["pos"] for e in golden.events if e["pos"] != e["end"]]


@pytest.mark.parametrize("golden", PLAIN, ids=str)
def test_every_boundary_of_a_real_log(golden: Golden) -> None:
    """From each offset the search ends at the next event, and nowhere else."""
    data, rng = golden.data, random.Random(golden.name)
    begins = [p for p in positions(golden) if p < len(data)]
    if golden.path.stem == "truncated":
        del begins[-3:]  # nothing confirms a TABLE_MAP without position before the event that was cut
    for start in rng.sample(range(4, begins[-1]), min(60, begins[-1] - 4)) + begins[:20]:
        found, status = find(data, start)
        assert status == _resync.FOUND
        assert found == min(p for p in begins if p >= start), start


@pytest.mark.parametrize("golden", PLAIN[::6], ids=str)
def test_piece_by_piece(golden: Golden) -> None:
    """With part of the log in the window the search asks for more, and ends at the same place."""
    data, rng = golden.data, random.Random(golden.name)
    begins = [p for p in positions(golden) if p < len(data)]
    for start in rng.sample(range(4, begins[-1]), 20):
        want = min(p for p in begins if p >= start)
        for size in (19, 60, 200, 1000):
            window = data[start : start + size]
            if not window:
                continue
            found, status = find(window, 0, head=data, base=start, more=True)
            if status == _resync.FOUND:
                assert start + found == want
            elif status == _resync.OPEN:
                assert start + found <= want
            else:
                assert want >= start + len(window) - 18


def test_chance_is_not_taken_for_events() -> None:
    rng = np.random.default_rng(7)
    head = Log("8.0.36").getvalue()
    bare = Log("5.1.73", checksum=False).getvalue()
    for noise in (
        rng.integers(0, 256, 1 << 20),
        rng.integers(0, 256, 1 << 20) * (rng.random(1 << 20) < 0.3),
        rng.integers(0, 3, 1 << 20),
        np.zeros(1 << 20),
        np.full(1 << 20, 255),
    ):
        data = noise.astype(np.uint8).tobytes()
        for known in (head, bare):
            found, status = find(data, 0, head=known)
            assert status == _resync.NOTHING and found == len(data) - 18
            assert find(data, 0, head=known, rule=_resync.POSITION_ELSEWHERE)[1] == _resync.NOTHING
            assert find(data, 0, head=known, rule=_resync.POSITION_AHEAD)[1] == _resync.NOTHING


def test_a_log_inside_a_blob_is_not_taken_for_events() -> None:
    """Binary logs stored in BLOBs: their positions do not fit, whatever their checksums say."""
    inner = next(g for g in golden_logs("maria118/dml_partitioned")).data
    log = Log("11.8.6-MariaDB")
    log.gtid_list()
    log.event(164 - 4, inner[4:])  # ANNOTATE_ROWS: any body will do
    at = log.xid(5)
    log.rotate()
    data = log.getvalue()
    begin = data.index(inner[4:])
    for start in range(begin, begin + len(inner), 97):
        assert find(data, start) == (at, _resync.FOUND)


def test_positions_wrap_at_4_gib() -> None:
    base = (1 << 32) - 100
    log = Log("8.0.36")
    head = log.getvalue()
    events, at = b"", base
    for i in range(6):
        body = struct.pack("<Q", i)
        length = 19 + len(body) + 4
        event = struct.pack("<IBIIIH", 1, 16, 1, length, (at + length) & 0xFFFFFFFF, 0) + body
        events += event + struct.pack("<I", zlib.crc32(event))
        at += length
    for start in range(len(events) - 31):
        assert find(events, start, head=head, base=base) == (-(-start // 31) * 31, _resync.FOUND)


@pytest.mark.parametrize("checksum", [True, False])
def test_positions_of_zero(checksum: bool) -> None:
    """A whole log without positions: found where asked for, never among candidates without."""
    log = Log("11.8.6-MariaDB", checksum=checksum, next_positions=False)
    places = [log.maria_gtid(i) for i in range(12)]
    data = log.getvalue()
    assert Boundaries.of(data, description_of(data)).zeros
    for start in range(places[0] - 20, places[-3]):
        assert find(data, start) == (min(p for p in places if p >= start), _resync.FOUND)
        assert find(data, start, zeros=False)[1] == _resync.NOTHING


@pytest.mark.parametrize("version, rule", [(1, _resync.POSITION_NONE), (3, _resync.POSITION_START)])
def test_old_versions(version: int, rule: int) -> None:
    log = Log("4.1.22" if version == 3 else "3.23.58", binlog_version=version)
    places = [log.query(f"INSERT INTO t VALUES ({i})", "shop") for i in range(20)]
    data = log.getvalue()
    assert Boundaries.of(data, description_of(data)).rule == rule
    for start in range(places[0], places[8]):
        assert find(data, start, rule=rule) == (min(p for p in places if p >= start), _resync.FOUND)


def test_relay_log() -> None:
    """Positions of the source's log: known by the second descriptor, found by a shift that stays."""
    source = Log("8.0.36")
    source.previous_gtids()
    for i in range(1, 9):
        source.gtid(UUID, i)
        source.query(f"CREATE TABLE t{i} (a INT)", "shop")
    theirs = source.getvalue()
    log = Log("8.0.36")
    log.rotate("binlog.000007")
    begin = log.raw(theirs[4:])
    data = log.getvalue()
    boundaries = Boundaries.of(data, description_of(data))
    assert boundaries.rule == _resync.POSITION_ELSEWHERE and not boundaries.splittable
    headers, _ = head_of(theirs, description_of(theirs))
    places = [int(p) - 4 + begin for p in headers["position"]]
    for start in range(places[1] - 10, places[-2]):
        want = min(p for p in places if p >= start)
        assert find(data, start, rule=boundaries.rule) == (want, _resync.FOUND)


@pytest.mark.parametrize("path", old_logs(), ids=lambda p: p.name)
def test_rule_of_old_logs(path: Path) -> None:
    data = path.read_bytes()
    assert Boundaries.of(data, description_of(data)).rule == _resync.POSITION_END


def test_an_event_between_damage_counts_with_its_checksum() -> None:
    log = Log("8.0.36")
    log.xid(1)
    log.raw(b"\xaa" * 100)
    at = log.xid(2)
    log.raw(b"\xbb" * 100)
    assert find(log.getvalue(), 200) == (at, _resync.FOUND)
    bare = Log("8.0.36", checksum=False)
    bare.raw(b"\xaa" * 100)
    bare.xid(2)
    bare.raw(b"\xbb" * 100)
    assert find(bare.getvalue(), 130)[1] == _resync.NOTHING


def test_forged_headers_that_share_their_end_take_linear_time() -> None:
    """Each would need a checksum of most of the data: the cost of these is bounded."""
    size = 4 << 20
    data = bytearray(size)
    end = size - 31
    for at in range(0, end - 100, 19):
        struct.pack_into("<IBIIIH", data, at, 1, 16, 1, end - at, end, 0)
    event = struct.pack("<IBIIIHQ", 1, 16, 1, 31, size, 0, 5)
    data[end:] = event + struct.pack("<I", zlib.crc32(event))
    found, status = find(bytes(data), 0, head=Log("8.0.36").getvalue())
    assert (found, status) == (end, _resync.FOUND)


class Pipe:
    """A stream that gives a few bytes at a time and cannot seek."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def read(self, size: int) -> bytes:
        part = self.data[self.at : self.at + min(size, 777)]
        self.at += len(part)
        return part


@pytest.mark.parametrize("limit", [None, 9000])
def test_next_event_of_a_stream(limit: int | None) -> None:
    data = golden_logs("mysql97/checksum_crc32")[0].data
    begins = positions(golden_logs("mysql97/checksum_crc32")[0])
    boundaries = Boundaries.of(data, description_of(data))
    for start in (5, 1000, 4321, len(data) - 30):
        want = next((p for p in begins if p >= start and (limit is None or p < limit)), None)
        source = FileSource(Pipe(data), "pipe")  # type: ignore[arg-type]
        source.seek(start)
        window, base, found = boundaries.next_event(source, b"", start, 0, limit=limit)
        assert (None if found is None else base + found) == want
        if found is not None:
            assert bytes(window[found : found + 9]) == data[base + found : base + found + 9]
        mapped = boundaries.next_event(BufferSource(data), memoryview(data), 0, start, limit=limit)
        assert mapped[2] == want


@pytest.mark.parametrize("size", [0, 1, 12, 18, 19, 40])
def test_too_little_data(size: int) -> None:
    head = Log("8.0.36").getvalue()
    assert find(bytes(size), 0, head=head, more=True)[1] == _resync.NOTHING
    with pytest.raises(ValueError, match="rule"):
        find(bytes(40), 0, head=head, rule=9)


def test_not_a_log_has_no_boundaries() -> None:
    with pytest.raises(BinlogError):
        description_of(b"no log at all, but long enough to be one")
