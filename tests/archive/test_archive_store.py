"""Archives in object stores: a local spool, finished logs and the growing one's beginning uploaded."""

from __future__ import annotations

import io
import json
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.archive import FakeServer

import binlog_core
from binlog_core._sources.places import place_of
from binlog_core._sources.timeline import FAILOVER, NAME, Timeline
from binlog_core.archive.archiver import Archiver
from binlog_core.archive.keeper import Keeper
from binlog_core.archive.store import Store, Uploader
from binlog_core.errors import ArchiveError

from .test_archive_timeline import OTHER, replica_of
from .test_archiver import busy


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    module = pytest.importorskip("moto.server")
    import botocore.session

    server = module.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    client = botocore.session.get_session().create_client(
        "s3",
        endpoint_url=f"http://{host}:{port}",
        region_name="us-east-1",
        aws_access_key_id="user",
        aws_secret_access_key="secret",
    )
    client.create_bucket(Bucket="archives")
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(params=["pyarrow", "fsspec"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, dict[str, Any] | None]:
    if request.param == "fsspec":
        return f"memory://{tmp_path.name}/db1", None
    endpoint = request.getfixturevalue("s3")
    options = {
        "access_key": "user",
        "secret_key": "secret",
        "endpoint_override": endpoint,
        "region": "us-east-1",
    }
    return f"s3://archives/{tmp_path.name}/db1", options


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("binlog_core.archive.store._CLAIM_PAUSE", 0.0)


def archive(
    server: FakeServer, target: tuple[str, dict[str, Any] | None], spool: Path, **settings: Any
) -> Archiver:
    keep = {key: settings.pop(key) for key in ("compress", "keep") if key in settings}
    store = Store(*target, patience=settings.pop("patience", 1.0), stop=threading.Event())
    uploader = Uploader(store, str(spool), settings.pop("interval", 0.05))
    settings.setdefault("connect", server.connect)
    settings.setdefault("until_now", True)
    archiver = Archiver(folder=str(spool), keeper=Keeper(**keep), uploader=uploader, **settings)
    archiver.run()
    return archiver


def held(target: tuple[str, dict[str, Any] | None], folder: str = "") -> dict[str, bytes]:
    place = place_of(*target)
    found = {}
    for path in sorted(place.files(f"{target[0]}/{folder}") or ()):
        name = path.rpartition("/")[2]
        with place.open(path, None) as source:
            found[name] = b"".join(iter(lambda: source.read(1 << 20), b""))
    return found


def logs_in(target: tuple[str, dict[str, Any] | None], folder: str = "") -> dict[str, bytes]:
    return {name: data for name, data in held(target, folder).items() if "json" not in name}


def ids(target: tuple[str, dict[str, Any] | None], **options: Any) -> list[int]:
    with binlog_core.open(target[0], storage_options=target[1], **options) as log:
        return [change.after["id"] for change in log.rows()]


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
    archive(server, target, tmp_path / "two")
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


def test_a_second_archiver_on_another_machine_is_refused(target: Any, tmp_path: Path) -> None:
    server = busy(FakeServer(), 3)

    def idle() -> bool:
        with pytest.raises(binlog_core.BinlogError, match="another archiver keeps this archive"):
            archive(server, target, tmp_path / "two")
        return False

    archive(server, target, tmp_path / "one", connect=lambda: server.connect(idle=idle), until_now=False)
    archive(server, target, tmp_path / "two")


def test_an_archiver_that_was_taken_over_from_writes_no_more(target: Any, tmp_path: Path) -> None:
    server = busy(FakeServer(), 3)
    store = Store(*target, patience=1.0, stop=threading.Event())
    told = {"id": "x", "process": 7, "host": "db9", "updated": time.time() - 1000, "valid": 90}
    data = json.dumps(told).encode()

    def idle() -> bool:  # it slept, its claim ran out, and another came
        store.write("archiver.json", io.BytesIO(data), len(data))
        server.transaction()
        return False

    # Between reading and writing the claim lies a moment: with a tick it would be met now and then.
    settings = {"connect": lambda: server.connect(idle=idle), "until_now": False, "interval": 1000}
    with pytest.raises(binlog_core.BinlogError, match=r"has taken over this archive \(process 7 on db9\)"):
        archive(server, target, tmp_path / "one", **settings)
    assert held(target)["archiver.json"] == data  # the other's claim stands
    archive(server, target, tmp_path / "two")
    assert ids(target)[:3] == [1, 2, 3]


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


def test_a_store_that_is_refused_is_not_claimed(target: Any, tmp_path: Path) -> None:
    store = Store(*target, patience=1.0, stop=threading.Event())
    store.write("mysql-bin.000007", io.BytesIO(b"x"), 1)
    for _ in range(2):
        with pytest.raises(binlog_core.BinlogError, match="is not an archive"):
            archive(FakeServer(), target, tmp_path)


def test_a_dead_archivers_claim_ends(target: Any, tmp_path: Path) -> None:
    server = busy(FakeServer(), 3)
    store = Store(*target, patience=1.0, stop=threading.Event())
    told = {"id": "x", "process": 1, "host": "gone", "updated": time.time() - 1000, "valid": 90}
    data = json.dumps(told).encode()
    store.write("archiver.json", io.BytesIO(data), len(data))
    archive(server, target, tmp_path)
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


def test_of_two_that_begin_at_once_one_is_refused(
    target: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both look before either writes: the claim that is written later stands."""
    monkeypatch.setattr("binlog_core.archive.store._CLAIM_PAUSE", 60.0)
    store = Store(*target, patience=1.0, stop=threading.Event())
    first, second = (Uploader(store, str(tmp_path / name), 1.0) for name in ("a", "b"))
    refused: list[ArchiveError] = []

    def begin() -> None:
        try:
            first.begin()
        except ArchiveError as error:
            refused.append(error)

    thread = threading.Thread(target=begin)
    thread.start()
    while "archiver.json" not in store.names():
        time.sleep(0.01)
    second._write_lock()  # it had looked before the first wrote
    first._ended.set()  # the pause is over
    thread.join(30)
    assert len(refused) == 1
    second._check_claim()
