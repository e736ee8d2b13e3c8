"""Which archiver owns a store: at most one, whatever the others do."""

from __future__ import annotations

import io
import json
import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.archive import FakeServer, busy
from support.archive_store import archive, ids

import binlog_core
from binlog_core.archive.claims import Claim
from binlog_core.archive.store import Store
from binlog_core.errors import ArchiveError
from binlog_core.server.world import World


def claim(store: Store, name: str, *, updated: float, valid: float = 90) -> None:
    told = {"process": 1, "host": "gone", "updated": updated, "valid": valid}
    data = json.dumps(told).encode()
    store.write(f"archiver/{name}", io.BytesIO(data), len(data))


def test_a_second_archiver_on_another_machine_is_refused(target: Any, tmp_path: Path) -> None:
    server = busy(FakeServer(), 3)

    def idle() -> bool:
        with pytest.raises(binlog_core.BinlogError, match="another archiver keeps this archive"):
            archive(server, target, tmp_path / "two")
        return False

    archive(server, target, tmp_path / "one", connect=lambda: server.connect(idle=idle), until_now=False)
    archive(server, target, tmp_path / "two")


def test_a_claim_has_one_length_whatever_the_time(target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a reader may see a part of it during renewal, and take over from a living archiver."""
    store = Store(*target, patience=1.0, stop=threading.Event())
    mine = Claim(store, 90.0)
    mine.begin()
    sizes = set()
    for now in (1.0, 1790000000.123456):
        monkeypatch.setattr(World, "time", lambda _, now=now: now)
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
    other.check()  # its claim is valid, whatever the first did
    other.end()
    archive(server, target, tmp_path / "two")
    assert ids(target)[:3] == [1, 2, 3]


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


def test_a_claim_from_the_future_ends_if_nobody_renews_it(
    target: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after the clock was set back: its archiver is dead, or has a clock that is ahead, and renews it."""
    stop = threading.Event()
    store = Store(*target, patience=1.0, stop=stop)
    ahead = time.time() + 86400
    claim(store, "000007-x.json", updated=ahead, valid=0.2)
    mine = Claim(store, 90.0)
    mine.begin()
    (name,) = store.names("archiver")
    assert name.startswith("000008-")
    mine.end()

    claim(store, "000007-x.json", updated=ahead, valid=0.2)
    wait = Store.wait

    def renewed(store: Store, seconds: float) -> None:
        wait(store, seconds)
        claim(store, "000007-x.json", updated=ahead + 0.1, valid=0.2)

    monkeypatch.setattr(Store, "wait", renewed)
    with pytest.raises(ArchiveError, match="another archiver keeps this archive"):
        Claim(store, 90.0).begin()

    monkeypatch.undo()
    claim(store, "000007-x.json", updated=ahead, valid=600)
    stop.set()  # Ctrl-C while it waits: nothing is known yet
    with pytest.raises(ArchiveError, match="another archiver keeps this archive"):
        Claim(store, 90.0).begin()
    claim(store, "000007-x.json", updated=ahead, valid=1e15)
    with pytest.raises(ArchiveError, match="another archiver keeps this archive"):
        Claim(store, 90.0).begin()
    assert store.names("archiver") == ["000007-x.json"]


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
def test_a_file_that_is_not_a_claim_does_not_stop_an_archiver(
    claim: bytes, target: Any, tmp_path: Path
) -> None:
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
    with pytest.raises(ArchiveError, match="cannot read"):
        archive(busy(FakeServer(), 3), target, tmp_path)


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
    """In any order of their reads and writes; in most orders one of them does."""
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
