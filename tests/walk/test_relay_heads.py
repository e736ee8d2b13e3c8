"""Relay logs begin with several descriptors: reading from a position behind them takes the last."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.forged import transactions
from support.splits import cut, read, read_all
from support.writer import Log
from support.writer.numbering import MARIADB_BINLOG_CHECKPOINT, PREVIOUS_GTIDS

import binlog_core
from binlog_core import BinlogError, Limits
from binlog_core.index.making import index
from binlog_core.log import parts
from binlog_core.splits import Split, plan_splits

pytestmark = pytest.mark.sanitize_long

COUNT = 12


def relayed(server: str, *, checksum: bool, **options: Any) -> bytes:
    """What a replica gets from its source: a ROTATE event follows the replica's own descriptor."""
    source = Log(server, checksum=checksum, **options)
    if source.mariadb:
        source.gtid_list([(0, 1, 7)])
        source.event(MARIADB_BINLOG_CHECKPOINT, struct.pack("<I", 10) + b"bin.000001")
    transactions(source, COUNT)
    return source.getvalue()[4:]


def unlike_the_replica(*, checksum: bool) -> bytes:
    """Either the source or the replica has checksums."""
    log = Log("8.0.36", checksum=not checksum)
    log.previous_gtids()
    log.rotate("source.000007")
    log.raw(relayed("8.0.36", checksum=checksum))
    return log.getvalue()


def with_checksums() -> bytes:
    return unlike_the_replica(checksum=True)


def without_checksums() -> bytes:
    return unlike_the_replica(checksum=False)


def other_lengths() -> bytes:
    """A source without checksums, of longer event headers and other post-header lengths."""
    log = Log("8.0.36")
    log.rotate("source.000007")
    log.raw(relayed("5.6.24-log", checksum=False, header_length=27, rows_version=1))
    return log.getvalue()


def three_descriptors() -> bytes:
    """The source changed its checksums, and with them its log, before its first transaction."""
    log = Log("9.7.4", checksum=True)
    log.rotate("source.000007")
    log.checksum = False
    log.start()
    log.rotate("source.000008")
    log.raw(relayed("8.0.36", checksum=True))
    return log.getvalue()


def mariadb() -> bytes:
    log = Log("11.4.2-MariaDB", checksum=False)
    log.gtid_list([(0, 1, 3)])
    log.rotate("source.000007")
    log.raw(relayed("10.11.6-MariaDB", checksum=True))
    return log.getvalue()


def far_behind() -> bytes:
    """The replica's GTIDs are longer than what is read of a log to recognize it."""
    log = Log("8.0.36", checksum=False)
    gaps = [struct.pack("<QQ", 2 * i + 1, 2 * i + 2) for i in range(600)]
    log.event(PREVIOUS_GTIDS, struct.pack("<Q16sQ", 1, bytes(16), len(gaps)) + b"".join(gaps))
    log.rotate("source.000007")
    log.raw(relayed("8.0.36", checksum=True))
    return log.getvalue()


relay_logs = pytest.mark.parametrize(
    "make", [with_checksums, without_checksums, other_lengths, three_descriptors, mariadb, far_behind]
)


@pytest.fixture
def path(make: Callable[[], bytes], tmp_path: Path) -> Path:
    (tmp_path / "relay-bin.000003").write_bytes(make())
    return tmp_path / "relay-bin.000003"


def ids(target: object, **options: Any) -> list[int]:
    with binlog_core.open(target, **options) as log:  # type: ignore[arg-type]
        return [change.after["id"] for change in log.rows()]


def places(path: Path) -> list[tuple[binlog_core.Position, list[int], list[int]]]:
    """Each group's position, the rows after the group, and those from the position's offset on."""
    found, done = [], 0
    with binlog_core.open(path, limits=Limits(group_rows=1)) as log:
        for group in log.groups():
            done += sum(len(batch) for batch in group.batches)
            rest = list(range(done + 1, COUNT + 1))
            again = list(range(done + 1 - group.position.records, COUNT + 1))
            found.append((group.position, rest, again))
    assert len(found) >= COUNT
    return found


@relay_logs
def test_each_position_continues_with_the_rest(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ids(path) == list(range(1, COUNT + 1))
    monkeypatch.setattr(parts, "PART_BYTES", 200)
    for position, rest, again in places(path):
        for options in ({}, {"mmap": False}, {"threads": 2}, {"threads": 2, "mmap": False}):
            assert ids(path, start=position, **options) == rest
            assert ids(path, start=position.offset, **options) == again
        assert ids(io.BytesIO(path.read_bytes()), start=position.offset) == again


@relay_logs
def test_headers_and_events_from_any_event(path: Path) -> None:
    with binlog_core.open(path) as log:
        headers = log.headers()
    with binlog_core.open(path) as log:
        events = list(log.events())
    for i, position in enumerate(headers["position"].tolist()):
        for mmap in (True, False):
            with binlog_core.open(path, start=position, mmap=mmap) as log:
                assert (log.headers() == headers[i:]).all()
            with binlog_core.open(path, start=position, mmap=mmap) as log:
                assert list(log.events()) == events[i:]


@relay_logs
def test_the_format_stays_that_of_the_first_descriptor(path: Path) -> None:
    with binlog_core.open(path) as log:
        first = log.format
    position, _, _ = places(path)[-2]
    with binlog_core.open(path, start=position) as log:
        list(log.rows())
        assert log.format == first


@relay_logs
def test_a_split_from_a_position(path: Path) -> None:
    assert [split.whole for split in plan_splits(path, 200)] == [True]
    changes, _ = read_all(cut(path, 200))
    assert [change.after["id"] for change in changes] == list(range(1, COUNT + 1))
    for position, _, again in places(path):
        at = position.offset
        changes, _ = read(Split(str(path), at, None, anchor=at, trusted=True))
        assert [change.after["id"] for change in changes] == again


@relay_logs
def test_with_an_index(path: Path) -> None:
    index(path)
    for position, _, again in places(path):
        assert ids(path, start=position.offset, where="id > 3") == [i for i in again if i > 3]


def test_a_damaged_descriptor_before_the_position() -> None:
    data = bytearray(with_checksums())
    with binlog_core.open(bytes(data)) as log:
        second, start = log.headers()["position"][[3, 4]].tolist()
    data[second + 30] ^= 1  # in the server's version
    with pytest.raises(BinlogError, match="CRC32 of the format description") as caught:
        ids(bytes(data), start=start)
    assert caught.value.offset == second
    assert ids(bytes(data), start=start, on_error="skip") == ids(bytes(data), on_error="skip") == []


class Noting:
    """A file object that notes where it is read."""

    def __init__(self, data: bytes) -> None:
        self._file = io.BytesIO(data)
        self.seek, self.tell, self.seekable = self._file.seek, self._file.tell, self._file.seekable
        self.reads: list[tuple[int, int]] = []

    def read(self, size: int) -> bytes:
        self.reads.append((self._file.tell(), size))
        return self._file.read(size)


def test_the_head_is_fetched_once() -> None:
    """In an object store each read is a request."""
    log = Log("8.0.36")
    log.previous_gtids()
    transactions(log, 200)
    data = log.getvalue()
    with binlog_core.open(data, limits=Limits(group_rows=1)) as whole:
        last = [group.position.offset for group in whole.groups()][-2]
    assert last > 8192
    file = Noting(data)
    assert len(ids(file, start=last)) == 1
    assert sum(size for place, size in file.reads if place < last) == 4096
