"""Logs of more than 4 GiB, where next_position wraps: sparse files, whose holes are inside of events."""

from __future__ import annotations

import struct
import sys
import zlib
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from support.writer import Log, Table

import binlog_core
from binlog_core.splits import Split, check_seams, read_split_groups

pytestmark = pytest.mark.sanitize_long

UUID = "00112233-4455-6677-8899-aabbccddeeff"
HOLE = 1_600_000_000  # three of them: the third and the fourth transaction lie behind 4 GiB
ROWS_QUERY, GTID = 29, 33
TABLE = Table("shop", "orders", [("id", "INT"), ("note", "BLOB")])


@dataclass
class Sparse:
    path: Path
    size: int
    positions: list[int]  # of all events
    begins: list[int]
    rows: list[int]


def transaction(number: int) -> list[bytes]:
    log = Log("8.0.36")
    places = [log.gtid(UUID, number), log.begin("shop"), log.table_map(TABLE)]
    places += [log.insert(TABLE, [{"id": number, "note": b"n" * 50}], mapped=True), log.commit(number)]
    data = log.getvalue()
    return [data[a:b] for a, b in zip(places, [*places[1:], len(data)], strict=True)]


def moved(event: bytes, position: int) -> bytes:
    """The event at another position."""
    end = struct.pack("<I", (position + len(event)) & 0xFFFFFFFF)
    event = event[:13] + end + event[17:-4]
    return event + struct.pack("<I", zlib.crc32(event))


@pytest.fixture(scope="module")
def sparse(tmp_path_factory: pytest.TempPathFactory) -> Sparse:
    path = tmp_path_factory.mktemp("large") / "binlog.000001"
    made = Sparse(path, 0, [4], [], [])
    with path.open("wb") as file:
        log = Log("8.0.36")
        made.positions.append(log.previous_gtids())
        file.write(log.getvalue())
        for number in range(1, 5):
            for i, event in enumerate(transaction(number)):
                at = file.tell()
                made.positions.append(at)
                if i == 0:
                    made.begins.append(at)
                if i == 3:
                    made.rows.append(at)
                file.write(moved(event, at))
            if number < 4:
                at = file.tell()
                made.positions.append(at)
                head = struct.pack("<IBIIIH", 1, ROWS_QUERY, 1, HOLE, (at + HOLE) & 0xFFFFFFFF, 0x80)
                file.write(head)
                file.seek(at + HOLE)
        made.size = file.tell()
    assert made.size > 1 << 32 and made.begins[2] < 1 << 32 < made.begins[3]
    if path.stat().st_blocks * 512 > 1 << 28:
        pytest.skip("the file system has no sparse files")
    return made


def peak_bytes() -> int:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def test_headers_and_rows(sparse: Sparse) -> None:
    before = peak_bytes() if sys.platform == "linux" else 0
    with binlog_core.open(sparse.path, mmap=True, verify_checksum=False) as log:
        headers = log.headers()
        changes = list(log.rows())
        batches = list(log.batches())
    assert headers["position"].tolist() == sparse.positions
    ends = headers["position"] + headers["event_length"]
    assert np.array_equal(ends % (1 << 32), headers["next_position"])
    assert int(ends[-1]) == sparse.size
    assert [(c.position, c.after["id"], c.gtid) for c in changes] == [  # type: ignore[index]
        (at, i, f"{UUID}:{i}") for i, at in enumerate(sparse.rows, 1)
    ]
    (batch,) = batches
    assert batch.transactions["begin_position"].tolist() == sparse.begins
    assert batch.transactions["end_position"].tolist()[3] == sparse.size
    if sys.platform == "linux":
        assert peak_bytes() - before < 256 << 20, "the holes were read"


def test_start_and_stop_behind_4_gib(sparse: Sparse) -> None:
    with binlog_core.open(
        sparse.path, mmap=True, verify_checksum=False, start=sparse.begins[2], stop=sparse.begins[3]
    ) as log:
        assert [c.after["id"] for c in log.rows()] == [3]  # type: ignore[index]
    with binlog_core.open(sparse.path, mmap=False, start=sparse.begins[3]) as log:
        assert [c.after["id"] for c in log.rows()] == [4]  # type: ignore[index]


@pytest.mark.parametrize("mapped", [True, False], ids=["mapped", "read"])
def test_splits(sparse: Sparse, mapped: bool) -> None:
    """They begin close before the transactions: searching a hole takes seconds."""
    places = sparse.begins[1:] if mapped else sparse.begins[3:]
    borders = [0, *(at + shift for at in places for shift in (-1000, 1)), sparse.size]
    splits = [Split(str(sparse.path), a, b) for a, b in pairwise(borders)]
    results, ids = [], []
    for split in splits:
        if not mapped and split.start == 0:
            continue  # it would read the holes
        with read_split_groups(split, mmap=mapped, verify_checksum=False) as reader:
            for group in reader:
                ids += [i for batch in group.batches for i in batch.array["row"]["id"].tolist()]
        results.append(reader.result)
    owned = [r.first_anchor for r in results if r.first_anchor is not None]
    if mapped:
        assert ids == [1, 2, 3, 4] and owned == [4, *sparse.begins[1:]]
        assert check_seams(results) == []
    else:
        assert ids == [4] and owned == sparse.begins[3:]


def test_damage_behind_4_gib(sparse: Sparse) -> None:
    at = sparse.rows[3]
    with sparse.path.open("r+b") as file:
        file.seek(at + 9)
        good = file.read(4)
        file.seek(at + 9)
        file.write(b"\x05\0\0\0")
    try:
        with (
            binlog_core.open(sparse.path, mmap=True, verify_checksum=False, on_error="skip") as log,
            pytest.warns(binlog_core.BinlogWarning, match="skipped"),
        ):
            assert [c.after["id"] for c in log.rows()] == [1, 2, 3]  # type: ignore[index]
            assert log.report.lost_ranges == [(str(sparse.path), at, sparse.positions[-1])]
            assert log.headers()["position"].tolist() == [p for p in sparse.positions if p != at]
    finally:
        with sparse.path.open("r+b") as file:
            file.seek(at + 9)
            file.write(good)
