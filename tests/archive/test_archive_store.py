"""Archives in object stores: a local spool, from which finished logs and the growing one are uploaded."""

from __future__ import annotations

import errno
import io
import math
import os
import random
import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import zstandard
from support.archive import OTHER, FakeServer, busy, replica_of
from support.archive_store import archive, held, ids, logs_in

import binlog_core
from binlog_core import ArchiveError
from binlog_core._sources.sources import Source
from binlog_core._sources.timeline import FAILOVER, NAME, ArchiveTimeline
from binlog_core.archive.files import Files
from binlog_core.archive.store import Store, Uploader
from binlog_core.report import BinlogWarning
from binlog_core.splits import plan_splits


def test_a_store_has_the_servers_bytes(target: Any, tmp_path: Path) -> None:
    server = busy(FakeServer(), 20)
    archiver = archive(server, target, tmp_path)
    assert logs_in(target) == {name: server.bytes_of(name) for name in server.logs}
    assert archiver.status.archive == target[0]
    closed = list(server.logs)[:-1]
    tail = f".tail-{server.current}.0-{len(server.bytes_of(server.current))}"
    assert set(held(target)) == {*closed, tail, "timeline.json"}
    busy(server, 10, seed=4)
    archive(server, target, tmp_path)
    assert logs_in(target) == {name: server.bytes_of(name) for name in server.logs}
    assert [path.name for path in tmp_path.glob("*.0*")] == [server.current]  # and no others
    assert ids(target) == list(range(1, 31))


def test_another_machine_continues(target: Any, tmp_path: Path) -> None:
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
    archive(server, target, tmp_path / "one")  # its spool is behind the store
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


def test_failover_compression_and_retention_in_a_store(
    target: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    assert sorted(logs_in(target))[0] == "mysql-bin.000001.zst"  # whatever the server's clock says
    monkeypatch.setattr(Store, "written_at", lambda *_: time.time() - 100_000)
    replica.rotate()
    archive(replica, target, tmp_path, compress=True, keep=85_000.0)
    assert sorted(logs_in(target))[0] == "mysql-bin.000002.zst"
    assert ids(target) == list(range(2, 8))
    assert replica.uuid == OTHER


def test_a_store_says_when_an_object_was_written(target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(*target, patience=1.0, stop=threading.Event())
    store.write("bin.000001", io.BytesIO(b"x"), 1)
    written = store.written_at("bin.000001")
    assert written is not None and abs(written - time.time()) < 3600

    def does_not_know(path: str) -> None:
        raise NotImplementedError

    if store._fsspec is not None:
        monkeypatch.setattr(store._fsspec, "modified", does_not_know)
        assert store.written_at("bin.000001") is None


def test_nothing_is_removed_from_a_store_that_does_not_say_when_it_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = f"memory://{tmp_path.name}/db1", None
    server = FakeServer()
    server.logs.clear()
    server.clock = int(time.time()) - 100_000
    server.begin_log(1)
    for _ in range(3):
        server.transaction()
        server.clock += 1000
        server.rotate()
    monkeypatch.setattr(Store, "written_at", lambda *_: None)
    with pytest.warns(BinlogWarning, match="does not say when") as told:
        archive(server, target, tmp_path, keep=10.0)
    assert len(told) == 1
    assert sorted(logs_in(target)) == list(server.logs)


def test_a_segment_without_a_log_hides_no_others(target: Any, tmp_path: Path) -> None:
    server = busy(FakeServer(), 3)
    archive(server, target, tmp_path / "one")
    store = Store(*target, patience=1.0, stop=threading.Event())
    timeline = ArchiveTimeline.parse(held(target)[NAME], "")
    lost = replace(timeline.segments[0], folder="timeline-2", seam=FAILOVER)
    data = timeline.begin(lost, ("mysql-bin.000001", 4)).to_bytes()
    store.write(NAME, io.BytesIO(data), len(data))  # without a log of the segment: the machine died
    server.transaction()
    archive(server, target, tmp_path / "two")  # a server of the first segment again
    assert ids(target) == [1, 2, 3, 4]
    assert len(ArchiveTimeline.parse(held(target)[NAME], "").segments) == 1


@pytest.mark.parametrize("base", ["replica", "mysql-bin"])
def test_a_disk_that_is_full_when_another_server_takes_over(base: str, tmp_path: Path) -> None:
    """The spool has the new segment, but neither a log of it nor one of those before: the archive goes on."""
    target = f"memory://{tmp_path.name}/db1", None
    server = busy(FakeServer(), 20)
    archive(server, target, tmp_path)
    replica = replica_of(server)
    replica.logs = {name.replace("replica", base): log for name, log in replica.logs.items()}
    replica.before = {name.replace("replica", base): gtids for name, gtids in replica.before.items()}
    replica.base = base
    replica.transaction()

    class Full(Files):
        def open(self, path: str, *, new: bool = False) -> int:
            if new and "timeline-2" in path:
                end = time.monotonic() + 60
                while (tmp_path / server.current).exists() and time.monotonic() < end:  # it is being uploaded
                    time.sleep(0.01)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().open(path, new=new)

    with pytest.raises(ArchiveError, match="No space left"):
        archive(replica, target, tmp_path, files=Full())
    assert ids(target) == list(range(1, 21))
    archive(replica, target, tmp_path)
    assert ids(target) == list(range(1, 22))
    assert {name: logs_in(target)[name] for name in server.logs} == {
        name: server.bytes_of(name) for name in server.logs
    }


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
        if "mysql-bin" in name and failed < times:
            failed += 1
            raise OSError("503 slow down")
        return write(self, name)

    monkeypatch.setattr(Store, "_writer", failing)
    monkeypatch.setattr("binlog_core.archive.store._FIRST_PAUSE", 0.01)
    if times == 2:
        archive(server, target, tmp_path, patience=60.0)
        assert failed == 2
    else:
        with pytest.raises(binlog_core.BinlogError, match="the store cannot write: OSError: 503"):
            archive(server, target, tmp_path, patience=0.1)
        monkeypatch.undo()
        archive(server, target, tmp_path)
    assert ids(target) == list(range(1, 6))


@pytest.mark.parametrize("call", [1, 2])
def test_a_store_that_fails_is_tried_again_before_the_spool_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    """Also what the next archiver reads first: how long the last log is, and the log itself."""
    target = (f"memory://{tmp_path.name}/taken{call}", None)
    server = busy(FakeServer(), 5)
    archive(server, target, tmp_path / "one")
    if call == 1:  # its spool is there, and is compared
        (tmp_path / "one").rename(tmp_path / "two")
    opened, calls = Store._opened, 0

    def failing(self: Store, name: str) -> Source:
        nonlocal calls
        calls += "mysql-bin" in name
        if "mysql-bin" in name and calls == call:
            raise OSError("503 slow down")
        return opened(self, name)

    monkeypatch.setattr(Store, "_opened", failing)
    monkeypatch.setattr("binlog_core.archive.store._FIRST_PAUSE", 0.01)
    monkeypatch.setattr("binlog_core.archive.store._PIECE", 500)
    archive(server, target, tmp_path / "two", patience=60.0)
    assert calls >= call
    assert ids(target) == list(range(1, 6))


def test_a_spool_that_fails_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server, target = busy(FakeServer(), 12), (f"memory://{tmp_path.name}/spooled", None)
    server.rotate()
    unlink = os.unlink

    def failing(path: Any, **options: Any) -> None:
        if "mysql-bin" in str(path):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        unlink(path, **options)

    monkeypatch.setattr(os, "unlink", failing)
    with pytest.raises(
        ArchiveError, match="cannot remove the log, which is in the store: Input/output error"
    ):
        archive(server, target, tmp_path / "spool")
    monkeypatch.undo()
    archive(server, target, tmp_path / "spool")
    assert logs_in(target) == {name: server.bytes_of(name) for name in server.logs}
    assert ids(target) == list(range(1, 13))


class _Failing(io.BytesIO):
    """A local file that cannot be read from a place on."""

    def __init__(self, size: int, most: int, error: BaseException | None) -> None:
        super().__init__(b"x" * size)
        self.most, self.error = most, error

    def read(self, size: int | None = -1, /) -> bytes:
        if self.tell() >= self.most:
            if self.error is None:
                return b""
            raise self.error
        return super().read(size)


@pytest.mark.parametrize("readable", [0, 8, 16])
@pytest.mark.parametrize("error", [None, OSError(errno.EIO, "Input/output error"), KeyboardInterrupt()])
def test_a_file_that_cannot_be_read_to_its_end_leaves_no_object(
    target: Any, monkeypatch: pytest.MonkeyPatch, readable: int, error: BaseException | None
) -> None:
    monkeypatch.setattr("binlog_core.archive.store._PIECE", 8)
    store = Store(*target, patience=0.0, stop=threading.Event())
    store.write("other", io.BytesIO(b"whole"), 5)
    expected = KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else ArchiveError
    with pytest.raises(expected):
        store.write("mysql-bin.000001", _Failing(20, readable, error), 20)
    assert held(target) == {"other": b"whole"}
    store.write("mysql-bin.000001", _Failing(20, 20, error), 20)
    assert held(target) == {"other": b"whole", "mysql-bin.000001": b"x" * 20}


def test_a_short_object_that_cannot_be_removed_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("binlog_core.archive.store._PIECE", 8)
    store = Store(f"memory://{tmp_path.name}", None, patience=0.0, stop=threading.Event())

    def refused(name: str) -> None:
        raise PermissionError("no deletes")

    monkeypatch.setattr(store, "_remove_once", refused)
    with pytest.raises(ArchiveError, match=r"ends 4 bytes early; the object is short, .*no deletes"):
        store.write("mysql-bin.000001", _Failing(20, 16, None), 20)


@pytest.fixture
def growing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Uploader, Path]:
    """An uploader, and the spool's growing log."""
    monkeypatch.setattr("binlog_core.archive.store._WHOLE_PART", 32 << 10)
    store = Store(f"memory://{tmp_path.name}", None, patience=1.0, stop=threading.Event())
    uploader = Uploader(store, str(tmp_path), 30.0)
    (tmp_path / NAME).write_bytes(ArchiveTimeline().to_bytes())
    uploader.begin()
    return uploader, tmp_path / "mysql-bin.000001"


@pytest.mark.parametrize("growth", [1, 100, 1000, 40_000, None])
def test_the_uploads_of_a_growing_log_are_linear(growing: tuple[Uploader, Path], growth: int | None) -> None:
    uploader, log = growing
    pieces, rounds = random.Random(15), 200
    sent, most_parts, size = 0, 0, 0
    write = uploader.store.write

    def counted(name: str, source: Any, size: int, begin: int = 0) -> None:
        nonlocal sent
        sent += size * (".tail-" in name)
        write(name, source, size, begin)

    uploader.store.write = counted  # type: ignore[method-assign]
    with open(log, "ab") as file:
        for _ in range(rounds):
            file.write(pieces.randbytes(growth or pieces.choice((1, 50, 3000, 200))))
            file.flush()
            size = file.tell()
            uploader.upload_tail((str(log), size))
            most_parts = max(most_parts, len(uploader._tail[1]))
    # A byte is sent again only in a part that has grown by half, up to a whole part.
    assert sent <= size * (1 + math.log(32 << 10, 1.5))
    assert sent <= rounds * size / 8  # sending all of it each time sends half of `rounds` times its size
    assert most_parts <= size / (32 << 10) + 16
    assert logs_in((uploader.store.url, None)) == {log.name: log.read_bytes()}
    uploader.upload_finished(str(log))
    assert set(held((uploader.store.url, None))) == {log.name, NAME}


def test_no_part_comes_before_the_end_of_the_log_before_it(growing: tuple[Uploader, Path]) -> None:
    uploader, log = growing
    log.write_bytes(b"finished")
    following = log.with_name("mysql-bin.000002")
    following.write_bytes(b"grows")
    uploader.upload_tail((str(following), 5))
    assert logs_in((uploader.store.url, None)) == {}
    uploader.upload_finished(str(log))
    uploader.upload_tail((str(following), 5))
    assert logs_in((uploader.store.url, None)) == {log.name: b"finished", following.name: b"grows"}


def names_of_logs(target: Any) -> list[str]:
    return Store(*target, patience=1.0, stop=threading.Event()).log_names("")


class Killed(BaseException):
    """The end of a process."""


@pytest.mark.parametrize("compress", [False, True])
def test_an_archiver_that_dies_at_any_call_of_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compress: bool
) -> None:
    """At any moment the store has a valid beginning of the history, and another machine continues there."""
    calls, die_at = 0, 0

    def dying(call: Any, after: bool) -> Any:
        def one(self: Store, name: str, *arguments: Any) -> None:
            nonlocal calls
            if "archiver" not in name:
                calls += 1
                if calls == die_at and not after:
                    raise Killed
            call(self, name, *arguments)
            if "archiver" not in name and calls == die_at:
                raise Killed

        return one

    for after in (False, True):
        die_at = 0
        while True:
            die_at += 1
            target = f"memory://{tmp_path.name}/{compress}{after}{die_at}", None
            spool = tmp_path / f"{after}{die_at}"
            server, seen = FakeServer(), 0
            died = False
            for step in range(6):
                server.transaction()
                if step in (2, 4):
                    server.rotate()
                calls = 0
                with monkeypatch.context() as patch:
                    patch.setattr(Store, "write", dying(Store.write, after))
                    patch.setattr(Store, "remove", dying(Store.remove, after))
                    try:
                        archive(server, target, spool, compress=compress)
                    except Killed:
                        died = True
                        shutil.rmtree(spool)  # the machine is gone
                if names_of_logs(target):
                    found = ids(target)
                    assert found == list(range(1, len(found) + 1))
                    assert len(found) >= seen
                    seen = len(found)
            archive(server, target, tmp_path / f"{after}{die_at} other", compress=compress)
            assert ids(target) == list(range(1, 7))
            held_now = logs_in(target)
            assert {name.removesuffix(".zst") for name in held_now} == set(server.logs)
            assert [name for name in held(target) if name.startswith(".tail-")] == [
                f".tail-{server.current}.0-{len(server.bytes_of(server.current))}"
            ]
            for name, data in held_now.items():
                data = zstandard.decompress(data) if name.endswith(".zst") else data
                assert data == server.bytes_of(name.removesuffix(".zst"))
            if not died:
                break
        assert die_at > 3


def test_parts_behind_one_that_is_missing_come_anew(tmp_path: Path) -> None:
    target = f"memory://{tmp_path.name}/db1", None
    server = busy(FakeServer(), 12)
    archive(server, target, tmp_path / "spool")
    size = len(server.bytes_of(server.current))
    stray = f"{target[0]}/.tail-{server.current}.{size + 10}-{size + 20}"
    fsspec = pytest.importorskip("fsspec")
    fsspec.filesystem("memory").pipe_file(stray, bytes(10))
    with pytest.raises(binlog_core.BinlogError, match="are missing from the store"):
        ids(target)
    archive(server, target, tmp_path / "other")
    assert ids(target) == list(range(1, 13))


def test_a_growing_log_without_its_beginning_is_not_left_out(tmp_path: Path) -> None:
    """A store that removes old objects leaves it so."""
    target = f"memory://{tmp_path.name}/db1", None
    server = busy(FakeServer(), 12)
    archive(server, target, tmp_path / "spool")
    (tail,) = (name for name in held(target) if name.startswith(".tail-"))
    store = pytest.importorskip("fsspec").filesystem("memory")
    size = int(tail.rpartition("-")[2])
    store.pipe_file(f"{target[0]}/.tail-{server.current}.100-{size}", held(target)[tail][100:])
    store.rm(f"{target[0]}/{tail}")
    with pytest.raises(binlog_core.BinlogError, match="bytes 0 to 100 are missing from the store"):
        ids(target)
    archive(server, target, tmp_path / "other")
    assert ids(target) == list(range(1, 13))


def test_a_copy_of_a_store_on_a_disk(tmp_path: Path) -> None:
    target = f"memory://{tmp_path.name}/db1", None
    server = busy(FakeServer(), 12)
    archive(server, target, tmp_path / "spool")
    copy = tmp_path / "copy"
    copy.mkdir()
    for name, data in held(target).items():
        (copy / name).write_bytes(data)
    assert ids((str(copy), None)) == list(range(1, 13))
    assert [Path(split.path).name for split in plan_splits(str(copy))] == list(server.logs)


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
