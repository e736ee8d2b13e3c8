"""Archives in object stores: a local spool, finished logs and the growing one's beginning uploaded."""

from __future__ import annotations

import io
import os
import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.archive import OTHER, FakeServer, busy, replica_of
from support.archive_store import archive, held, ids, logs_in

import binlog_core
from binlog_core._sources.timeline import FAILOVER, NAME, Timeline
from binlog_core.archive.store import Store


def test_a_store_has_the_servers_bytes(target: Any, tmp_path: Path) -> None:
    server = busy(FakeServer(), 20)
    archiver = archive(server, target, tmp_path)
    assert logs_in(target) == {name: server.bytes_of(name) for name in server.logs}
    assert archiver.status.archive == target[0]
    assert set(held(target)) == {*server.logs, "timeline.json"}
    busy(server, 10, seed=4)
    archive(server, target, tmp_path)
    assert logs_in(target) == {name: server.bytes_of(name) for name in server.logs}
    assert [path.name for path in tmp_path.glob("*.0*")] == [server.current]  # and no others
    assert ids(target) == list(range(1, 31))


def test_another_machine_goes_on(target: Any, tmp_path: Path) -> None:
    server = busy(FakeServer(), 15)
    archive(server, target, tmp_path / "one")
    server.transaction()
    busy(server, 5, seed=2)
    before = os.umask(0o022)
    try:
        archive(server, target, tmp_path / "two")
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "two").iterdir()} == {0o640}
    assert logs_in(target) == {name: server.bytes_of(name) for name in server.logs}
    server.rotate()
    server.transaction()
    archive(server, target, tmp_path / "two")
    shutil.rmtree(tmp_path / "two")
    server.transaction()
    archive(server, target, tmp_path / "one")  # whose spool is behind the store
    assert logs_in(target) == {name: server.bytes_of(name) for name in server.logs}


def test_the_growing_log_is_there_while_it_grows(target: Any, tmp_path: Path) -> None:
    server = busy(FakeServer(), 3)
    seen: list[int] = []
    end = time.monotonic() + 60

    def idle() -> bool:
        if not seen:
            server.transaction()
            seen.append(len(server.bytes_of(server.current)))
        data = logs_in(target).get(server.current, b"")
        return len(data) < seen[0] and time.monotonic() < end

    archive(server, target, tmp_path, connect=lambda: server.connect(idle=idle), until_now=False)
    assert len(logs_in(target)[server.current]) == seen[0]


def test_failover_compression_and_retention_in_a_store(target: Any, tmp_path: Path) -> None:
    server = FakeServer()
    server.logs.clear()
    server.clock = int(time.time()) - 100_000
    server.begin_log(1)
    for _ in range(5):
        server.transaction()
        server.clock += 10_000
        server.rotate()
    server.transaction()
    archive(server, target, tmp_path, compress=True)
    assert sorted(logs_in(target)) == [*(f"mysql-bin.00000{n}.zst" for n in range(1, 6)), server.current]
    replica = replica_of(server)
    replica.clock = server.clock + 1000
    replica.rotate()
    replica.transaction()
    archive(replica, target, tmp_path, compress=True)
    assert ids(target) == list(range(1, 8))
    replica.rotate()
    archive(replica, target, tmp_path, compress=True, keep=85_000.0)
    assert sorted(logs_in(target))[0] == "mysql-bin.000002.zst"
    assert ids(target) == list(range(2, 8))
    assert replica.uuid == OTHER


def test_a_segment_without_a_log_hides_no_others(target: Any, tmp_path: Path) -> None:
    server = busy(FakeServer(), 3)
    archive(server, target, tmp_path / "one")
    store = Store(*target, patience=1.0, stop=threading.Event())
    timeline = Timeline.parse(held(target)[NAME], "")
    lost = replace(timeline.segments[0], folder="timeline-2", seam=FAILOVER)
    data = timeline.begin(lost, ("mysql-bin.000001", 4)).to_bytes()
    store.write(NAME, io.BytesIO(data), len(data))  # and no log of it: the machine died
    server.transaction()
    archive(server, target, tmp_path / "two")  # which is of the first segment again
    assert ids(target) == [1, 2, 3, 4]
    assert len(Timeline.parse(held(target)[NAME], "").segments) == 1


def test_names_in_a_store_that_are_not_those_of_logs(target: Any, tmp_path: Path) -> None:
    server = busy(FakeServer(), 3)
    archive(server, target, tmp_path)
    store = Store(*target, patience=1.0, stop=threading.Event())
    for name in ("mysql-bin." + "9" * 500, "mysql-bin.\u0661", "..bin.000001", "a\\b.000009"):
        store.write(name, io.BytesIO(b"x"), 1)
    spool = tmp_path / "another machine"
    archive(server, target, spool)
    assert {path.name for path in spool.iterdir()} <= {*server.logs, NAME, ".lock"}
    assert ids(target) == [1, 2, 3]


@pytest.mark.parametrize("times", [2, 10**9])
def test_a_store_that_fails_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    target = (f"memory://{tmp_path.name}/failing", None)
    server = busy(FakeServer(), 5)
    failed = 0
    write = Store._writer

    def failing(self: Store, name: str) -> Any:
        nonlocal failed
        if name.startswith("mysql-bin") and failed < times:
            failed += 1
            raise OSError("503 slow down")
        return write(self, name)

    monkeypatch.setattr(Store, "_writer", failing)
    monkeypatch.setattr("binlog_core.archive.store._FIRST_PAUSE", 0.01)
    if times == 2:
        archive(server, target, tmp_path, patience=60.0)
        assert failed == 2
    else:
        with pytest.raises(binlog_core.BinlogError, match="the store fails to write: OSError: 503"):
            archive(server, target, tmp_path, patience=0.1)
        monkeypatch.undo()
        archive(server, target, tmp_path)
    assert ids(target) == list(range(1, 6))


def test_names_in_a_store_are_those_of_now(s3: str, tmp_path: Path) -> None:
    """fsspec keeps what it has listed."""
    pytest.importorskip("s3fs")
    options = {"key": "user", "secret": "secret", "client_kwargs": {"endpoint_url": s3}, "use_ssl": False}
    url = f"s3://archives/{tmp_path.name}"
    one, two = (
        Store(url, {**options, "default_block_size": 5 << 20 | number}, patience=1.0, stop=threading.Event())
        for number in (0, 1)
    )
    one.write("a/x", io.BytesIO(b"1"), 1)
    assert two.names("a") == ["x"]
    one.write("a/y", io.BytesIO(b"1"), 1)
    assert two.names("a") == ["x", "y"]
    one.remove("a/x")
    one.remove("a/x")
    assert two.names("a") == ["y"]
