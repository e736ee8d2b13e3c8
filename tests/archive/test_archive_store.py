"""Archives in object stores: a local spool, finished logs and the growing one's beginning uploaded."""

from __future__ import annotations

import io
import json
import os
import random
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
from binlog_core.archive.claims import Claim
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


def claim(store: Store, name: str, *, updated: float) -> None:
    told = {"process": 1, "host": "gone", "updated": updated, "valid": 90}
    data = json.dumps(told).encode()
    store.write(f"archiver/{name}", io.BytesIO(data), len(data))


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


def test_a_second_archiver_on_another_machine_is_refused(target: Any, tmp_path: Path) -> None:
    server = busy(FakeServer(), 3)

    def idle() -> bool:
        with pytest.raises(binlog_core.BinlogError, match="another archiver keeps this archive"):
            archive(server, target, tmp_path / "two")
        return False

    archive(server, target, tmp_path / "one", connect=lambda: server.connect(idle=idle), until_now=False)
    archive(server, target, tmp_path / "two")


def test_a_claim_has_one_length_whatever_the_time(target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else who reads it while it is renewed may read a part of it, and take over from one that lives."""
    store = Store(*target, patience=1.0, stop=threading.Event())
    mine = Claim(store, 90.0)
    mine.begin()
    sizes = set()
    for now in (1.0, 1790000000.123456):
        monkeypatch.setattr("binlog_core.archive.claims.time.time", lambda now=now: now)
        mine.renew()
        sizes.add(store.size(f"archiver/{store.names('archiver')[0]}"))
    assert len(sizes) == 1


def test_an_archiver_that_was_taken_over_from_writes_no_more(target: Any, tmp_path: Path) -> None:
    server = busy(FakeServer(), 3)
    store = Store(*target, patience=1.0, stop=threading.Event())
    other = Claim(store, 1000.0)

    def idle() -> bool:  # it slept, its claim ran out, and another came
        if not store.names("archiver")[0].startswith("000002"):
            (mine,) = store.names("archiver")
            claim(store, mine, updated=time.time() - 1000)
            other.begin()
        server.transaction()
        return False

    settings = {"connect": lambda: server.connect(idle=idle), "until_now": False, "interval": 1000}
    refusal = rf"has taken over this archive \(process {os.getpid()} on "
    with pytest.raises(binlog_core.BinlogError, match=refusal):
        archive(server, target, tmp_path / "one", **settings)
    other.check()  # whose claim stands, whatever the first did
    other.end()
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
    claim(store, "000007-x.json", updated=time.time() - 1000)
    store.write("archiver/000008-y.json", io.BytesIO(b"{"), 1)  # it broke off
    archive(server, target, tmp_path)
    assert ids(target) == [1, 2, 3]
    assert store.names("archiver") == []


@pytest.mark.parametrize(
    "claim",
    [
        b"x" * (1 << 20),
        b"[" * 200_000,
        b"[]",
        b'{"id": "x", "process": 1, "host": "h", "updated": "now", "valid": 90}',
        b'{"id": "x", "process": 1, "host": "h", "updated": 1e999, "valid": 90}',
    ],
    ids=["long", "deep", "list", "text", "infinite"],
)
def test_what_is_no_claim_stops_nobody(claim: bytes, target: Any, tmp_path: Path) -> None:
    store = Store(*target, patience=1.0, stop=threading.Event())
    store.write("archiver/000001-x.json", io.BytesIO(claim), len(claim))
    archive(busy(FakeServer(), 3), target, tmp_path)
    assert ids(target) == [1, 2, 3]


def test_a_claim_is_shown_without_commands_for_a_terminal(target: Any, tmp_path: Path) -> None:
    store = Store(*target, patience=1.0, stop=threading.Event())
    told = {"id": "x", "process": "\x1b[2J", "host": 1000 * "h\x9b", "updated": time.time(), "valid": 90}
    data = json.dumps(told).encode()
    store.write("archiver/000001-x.json", io.BytesIO(data), len(data))
    with pytest.raises(ArchiveError, match="another archiver keeps") as caught:
        archive(busy(FakeServer(), 3), target, tmp_path)
    assert str(caught.value).isprintable() and len(str(caught.value)) < 1000


def test_a_claim_that_cannot_be_read_is_not_passed_over(
    target: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two archivers would write, each over the other's claim."""
    store = Store(*target, patience=1.0, stop=threading.Event())
    store.write("archiver/000001-x.json", io.BytesIO(b"{}"), 2)
    read = Store.read

    def failing(self: Store, name: str) -> Iterator[bytes]:
        if name.startswith("archiver/"):
            raise binlog_core.BinlogError("the store fails")
        return read(self, name)

    monkeypatch.setattr(Store, "read", failing)
    with pytest.raises(ArchiveError, match="fails to read"):
        archive(busy(FakeServer(), 3), target, tmp_path)


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


class Turns:
    """Two threads, one call of a store at a time, in an order that a seed decides."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._turn = threading.Condition()
        self._left = {0, 1}
        self._next = self._chance.randrange(2)

    def take(self, who: int) -> None:
        with self._turn:
            self._turn.wait_for(lambda: self._next == who)
            self._next = self._chance.choice(sorted(self._left))
            self._turn.notify_all()

    def leave(self, who: int) -> None:
        with self._turn:
            self._left.discard(who)
            self._next = 1 - who
            self._turn.notify_all()


class SteppedStore:
    """A store in memory whose calls take turns."""

    url = "memory://stepped"

    def __init__(self, who: int, turns: Turns, objects: dict[str, bytes]) -> None:
        self._who, self._turns, self._objects = who, turns, objects

    def names(self, folder: str) -> list[str]:
        self._turns.take(self._who)
        return sorted(name.removeprefix(f"{folder}/") for name in self._objects)

    def read_small(self, name: str, limit: int) -> bytes | None:
        self._turns.take(self._who)
        return self._objects.get(name)

    def write(self, name: str, source: io.BytesIO, size: int) -> None:
        self._turns.take(self._who)
        self._objects[name] = source.read(size)

    def remove(self, name: str) -> None:
        self._turns.take(self._who)
        self._objects.pop(name, None)

    def wait(self, seconds: float) -> None:
        self._turns.take(self._who)


@pytest.mark.parametrize("stale", [False, True])
def test_of_two_that_begin_at_once_at_most_one_keeps_the_store(stale: bool) -> None:
    """Whatever the order of their looks and writes; and mostly one does."""
    kept = 0
    for seed in range(150):
        turns, objects = Turns(seed), dict[str, bytes]()
        if stale:
            told = {"process": 1, "host": "gone", "updated": time.time() - 1000, "valid": 90}
            objects["archiver/000004-x.json"] = json.dumps(told).encode()
        keepers: list[int] = []

        def begin(who: int, turns: Turns = turns, objects: Any = objects, keepers: Any = keepers) -> None:
            claim = Claim(SteppedStore(who, turns, objects), 1000.0)  # type: ignore[arg-type]
            try:
                claim.begin()
                claim.check()
                keepers.append(who)
            except ArchiveError as error:
                assert "another archiver" in str(error)
            finally:
                turns.leave(who)

        threads = [threading.Thread(target=begin, args=(who,)) for who in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert len(keepers) <= 1, seed
        kept += len(keepers)
    assert kept > 140


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
