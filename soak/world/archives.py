"""Histories of an archiver: its process is killed, its disk loses what was not synced, its servers fail.

Of some histories the archive is in an object store; then a reader of the store looks in from time to time.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from contextlib import closing
from dataclasses import dataclass, fields
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import zstandard
from support.archive import PowerCut

import binlog_core
from binlog_core import Position
from binlog_core._format.event_header import FIRST_EVENT
from binlog_core._sources import timeline
from binlog_core.archive import archive, own_logs
from binlog_core.archive.status import Status
from binlog_core.errors import (
    ArchiveError,
    BinlogError,
    DivergedError,
    MissingFileError,
    NotABinlogError,
    PurgedError,
    UnreachableError,
)

from .disk import BROKEN, FULL, KILLED, POWER, Disk
from .history import REST, History, Play, Step, Wrong, history_of, some_restored, some_without_files
from .model import Transaction
from .objects import URL, Objects
from .readers import numbers
from .server import EPOCH

_LONG_ENOUGH = 60.0  # seconds after which an archiver has everything that was written before
_AGAIN = 3.0  # seconds after which an archiver that found no server starts again
_IN_USE = 21
_HEAD = _IN_USE + 1
_OWN_LOG_BYTES = 2_000  # after which an archive begins another log, where the server's have no files
_OPTIONS = {"heartbeat": 5.0, "reconnect": 300.0, "ssl_mode": "DISABLED"}


@dataclass(frozen=True)
class Storing:
    """An archive in an object store.

    Parameters
    ----------
    interval : float
        Seconds between two uploads of the growing log.
    rate : float
        How many requests fail.
    moves : bool
        Whether a machine that loses power is gone, with the spool: another one goes on.
    reads : tuple of float
        Seconds to wait before a reader looks in, each time when the archive begins to change.
    """

    interval: float
    rate: float
    moves: bool
    reads: tuple[float, ...]


@dataclass(frozen=True)
class Archive(History):
    """A history of `binlog_core.archive.archive`.

    Parameters
    ----------
    cuts : tuple of (int, str)
        After how many calls to the disk something happens to it; then the archiver starts again.
    down : tuple of (float, tuple of str)
        Seconds from each of these ends to the next start, and what happens to the server meanwhile; later
        ones: none.
    semi_sync : bool
        The archiver acknowledges what is on disk.
    storing : Storing or None
    compress : bool
        Finished logs are compressed.
    keeps : float or None
        Seconds after which finished logs are removed.
    """

    cuts: tuple[tuple[int, str], ...]
    semi_sync: bool
    storing: Storing | None = None
    compress: bool = False
    keeps: float | None = None
    down: tuple[tuple[float, tuple[str, ...]], ...] = ()

    def run(self) -> None:
        """Let it happen.

        Raises
        ------
        Wrong, Hang
            The archive is wrong.
        """
        with warnings.catch_warnings(), tempfile.TemporaryDirectory(prefix="world-") as folder:
            warnings.simplefilter("ignore")
            _Run(self, Path(folder)).keep()


def keeper(seed: int) -> Archive:
    """The history of a seed."""
    chance = Random(seed)
    servers = some_without_files(history_of(seed, chance, resets=chance.random() < 0.2), seed)
    servers = some_restored(servers, seed)
    finished = _finished(servers, Random(f"finished {seed}"))
    return Archive(
        **{one.name: getattr(servers, one.name) for one in fields(servers)},
        cuts=tuple(
            (chance.choice((3, 10, 40, 150)), chance.choice((POWER, POWER, KILLED, KILLED, FULL, BROKEN)))
            for _ in range(chance.choice((0, 1, 2, 5)))
        ),
        semi_sync=chance.random() < 0.5 and not servers.kind.without_files,
        **finished,
        down=_down(servers, Random(f"down {seed}"), resets=finished["keeps"] is None),
    )


def _down(servers: History, chance: Random, *, resets: bool) -> tuple[tuple[float, tuple[str, ...]], ...]:
    """How long the archiver is away after each end, and what happens meanwhile."""
    if chance.random() < 0.5:
        return ()
    happens: list[tuple[str, ...]] = [(), (), ("rotate",)]
    others = any(step.what == "restore" for step in servers.steps)
    if resets and servers.hosts == 1 and not others and not servers.kind.without_files:
        happens += [("reset", "rotate"), ("reset", "rotate", "rotate")]
    return tuple((chance.choice((0.1, 3.0, 30.0)), chance.choice(happens)) for _ in range(5))


def _finished(servers: History, chance: Random) -> dict[str, Any]:
    """What becomes of finished logs."""
    storing = None
    if chance.random() < 0.5:
        waits = (0.0, 0.0, 0.1, 0.5, 5.0)
        reads = [chance.choice(waits) for _ in range(chance.choice((0, 5, 20)))]
        interval, rate = chance.choice((0.5, 5.0, 30.0)), chance.choice((0.0, 0.02, 0.3))
        storing = Storing(interval, rate, moves=chance.random() < 0.5, reads=tuple(reads))
    resets = any(step.what == "reset" for step in servers.steps)
    return {
        "storing": storing,
        "compress": chance.random() < 0.25,
        "keeps": chance.choice((5.0, 60.0)) if chance.random() < 0.2 and not resets else None,
    }


class _InTurn:
    """Has no threads; see `concurrent.futures.ThreadPoolExecutor`."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __enter__(self) -> _InTurn:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def map(self, work: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        return map(work, list(items))


class _Run(Play):
    def __init__(self, history: Archive, folder: Path) -> None:
        storing = history.storing
        if storing is not None:  # a claim of a process that was killed is waited for
            self.rest = REST + (90 + 3 * storing.interval) * (1 + len(history.cuts))
        super().__init__(history)
        self.history = history
        self.objects: Objects | None = None
        if storing is not None:
            self.objects = Objects(self.world, history.seed, rate=storing.rate, sound_from=self.end - 90)
        self._read: list[int] = []  # by the reader that looks in
        self._read_to: Position | None = None
        self.folder = folder / "archive"
        self._dropped = folder / "dropped"
        self._dropped.mkdir()
        self._told: dict[str, int] = {}  # how far a status has said that a log is kept
        self._status: tuple[str | None, int] | None = None
        self._began = 0.0
        self._stale = ""

    def keep(self) -> None:
        """Archive, with faults of the disk, until everything is there; then compare."""
        self.world.let(lambda: False, self.history.opened)
        self.world.after(self.end - 1 - self.world.now(), self._check_status)
        if self.objects is not None and self.history.keeps is None:  # or a log could go while it is read
            self.world.start(self._look_in, "reader")
        if self.history.keeps is not None:
            for step in self.history.steps:
                self.world.after(max(0.0, step.at + 0.5 - self.world.now()), self._look_at_age)
        faults, down = list(self.history.cuts), list(self.history.down)
        disk = self._after_power()
        while True:
            disk.plan(*(faults.pop(0) if faults else (0, "")))
            connections = self.world.connections
            try:
                self._archive(disk)
                break
            except PowerCut:
                away, happens = down.pop(0) if down else (0.0, ())
                if disk.fault == KILLED:
                    self._be_away(away, happens)
                    continue
                if self.history.storing is not None and self.history.storing.moves:
                    shutil.rmtree(self.folder)
                    self._told.clear()
                    for server in self.world.hosts.values():
                        server.acknowledged.clear()
                else:
                    disk.cut(str(self.folder))
                    self._check_acknowledged()
                self._be_away(away, happens)
                disk = self._after_power()
            except BinlogError as error:
                made = self.world.connections - connections
                silent = made == 1 and "timed out" in str(error)
                if isinstance(error, UnreachableError) and (not made or silent):
                    self.world.let(lambda: False, _AGAIN)  # that looks like a wrong address
                elif isinstance(error, ArchiveError) and "another archiver keeps this archive" in str(error):
                    self.world.let(lambda: False, 10.0)  # until the claim of the dead one has run out
                elif isinstance(error, ArchiveError) and disk.refused:
                    self._check_acknowledged()
                elif self._deserves(error):
                    return
                else:
                    raise Wrong(f"{type(error).__name__}: {error}") from error
        self._compare()

    def _be_away(self, seconds: float, happens: tuple[str, ...]) -> None:
        """Nobody archives for a while."""
        for what in happens:
            self._happen(Step(self.world.now(), what))
        self.world.let(lambda: False, seconds)

    def _after_power(self) -> Disk:
        """The disk as a machine finds it when it starts."""
        disk = Disk(self.world.chance, self.world.time)
        self.folder.mkdir(exist_ok=True)
        disk.watch(str(self.folder), tempfile.mkdtemp(dir=self._dropped))
        return disk

    def _archive(self, disk: Disk) -> None:
        stop = threading.Event()
        (self.folder / ".lock").unlink(missing_ok=True)  # it has another name on this disk
        self.world.files = disk
        self.world.after(max(0.0, self.end - self.world.now()), stop.set)
        self._began, self._status = self.world.now(), None
        storing, place = self.history.storing, dict[str, Any]()
        if self.objects is not None and storing is not None:
            place = {"spool": self.folder, "tail_interval": storing.interval}
            place["storage_options"] = self.objects.options(disk)
        with (
            patch.object(own_logs, "LOG_BYTES", _OWN_LOG_BYTES),
            patch.object(futures, "ThreadPoolExecutor", _InTurn),
        ):
            archive(
                self.url,
                self.folder if storing is None else URL,
                stop=stop,
                options={"world": self.world, **_OPTIONS},
                semi_sync=self.history.semi_sync,
                progress=self._take_status,
                compress="zstd" if self.history.compress else None,
                keep=self.history.keeps,
                **place,
            )

    def _set_clocks(self) -> None:
        if self.objects is None:
            super()._set_clocks()
            return
        skew = self.world.skew  # a claim is as old as the machines' clocks agree that it is
        super()._set_clocks()
        self.world.skew = skew

    def _look_in(self) -> None:
        """Read what is in the store, from time to time, each time from where the last one ended."""
        assert self.history.storing is not None and self.objects is not None
        try:
            for seconds in self.history.storing.reads:
                self.world.let(lambda: self.objects.stirred, self.end)
                self.world.let(lambda: False, seconds)
                if self.world.now() >= self.end:
                    return
                self.objects.stirred = False
                self._read_on()
        except Exception as error:
            self._stale = f"a reader of the store: {type(error).__name__}: {error}"

    def _read_on(self) -> None:
        assert self.objects is not None
        # The names of two segments' logs may be the same then, and a position does not say which it means.
        start = None if self.eras or self.restored else self._read_to
        if start is None:
            self._read = []
        try:
            with closing(binlog_core.open(URL, start=start, storage_options=self.objects.options())) as log:
                for group in log.groups():
                    self._read += [number for number, *_ in numbers(group)]
                    self._read_to = Position.parse(str(group.position))
        except (NotABinlogError, MissingFileError):
            if start is not None:
                raise

    def _take_status(self, status: Status) -> None:
        self._status = (status.file, status.position)
        # After a crash, a log without checksums may hold zeros until the server's bytes were compared.
        if status.file is not None and status.state in ("archiving", "waiting"):
            self._told[status.file] = max(status.position, self._told.get(status.file, 0))

    def _check_status(self) -> None:
        """Long after the last change, what the archiver last said is so."""
        ends = [(one.file, one.log.position) for one in self.world.hosts.values()]
        own = self.history.kind.without_files  # logs of the archive's own, whose positions no server knows
        if not own and self.world.now() - self._began > _LONG_ENOUGH and self._status not in ends:
            self._stale = f"the status says {self._status}, the servers are at {ends}"

    def _deserves(self, error: Exception) -> bool:
        if self.cut and isinstance(error, ArchiveError | DivergedError):
            return True
        if isinstance(error, DivergedError) and self._looks_cut():
            return True
        if isinstance(error, PurgedError) and self.lacks_backed_up(self._kept()):
            return True
        # Without GTIDs, also those of an archive that has no transaction yet, another server cannot go on.
        others = self.history.hosts > 1 or self.restored
        return isinstance(error, DivergedError) and others and "without GTIDs" in str(error)

    def _kept(self) -> list[tuple[str, bytes]]:
        """Name and bytes of each log in the archive."""
        folders = (*self._on_disk().values(), *self._in_store().values())
        return [log for logs in folders for log in logs.items()]

    def _compare_restored(self, got: list[int]) -> None:
        """A server that was restored has only what came after its backup, and some of that again.

        On MySQL its UUID tells that it is another server; on MariaDB it looks as after RESET.
        """
        wanted = [change.number for one, *_ in self.committed for change in one.changes]
        since = [
            n for one, *_ in self.committed if one.number > self.writer.restored_to for n in _numbers(one)
        ]
        before = len(wanted) - len(since)
        new = len(got) >= len(since) and got[len(got) - len(since) :] == since
        had = got[: len(got) - len(since)]
        start = wanted.index(had[0]) if had and had[0] in wanted and self.history.keeps is not None else 0
        repeats = self.history.kind.mariadb and had == wanted[start : start + len(had)]
        kept = self.history.keeps is not None and got == wanted[len(wanted) - len(got) :]
        if not kept and not (new and (had in ([], wanted[:before]) or repeats)):
            raise Wrong(f"{len(got)} changes of {len(wanted)}, of which {before} came before the backup")

    def _looks_cut(self) -> bool:
        """Whether a RESET came in the second in which a log of the same name began: as if a crash cut it."""
        for server in self.world.hosts.values():
            logs = (*server.gone, *server.logs.items())
            heads = [(name, log.getvalue()[4:_IN_USE]) for name, log in logs]
            if len(set(heads)) < len(heads):
                return True
        return False

    def _check_acknowledged(self) -> None:
        """What a status or an acknowledgement named is on the disk."""
        begun_again = self.eras or self.restored
        kept: dict[str, list[bytes]] = {}
        for logs in (*self._on_disk().values(), *self._in_store().values()):
            for name, data in logs.items():
                kept.setdefault(name, []).append(data)
        for server in self.world.hosts.values():
            for name, log in server.logs.items():
                position = max(
                    server.acknowledged.get(name, 0), 0 if begun_again else self._told.get(name, 0)
                )
                due = log.getvalue()[_HEAD:position]
                if self.history.keeps is not None and name not in kept:
                    continue
                if position <= log.position and not any(
                    one[_HEAD:position] == due for one in kept.get(name, [b""])
                ):
                    raise Wrong(f"{name} is said to be kept up to {position}, and is not")

    def _on_disk(self) -> dict[str, dict[str, bytes]]:
        """The logs on the disk, by folder and name."""
        found: dict[str, dict[str, bytes]] = {}
        for path in self.folder.rglob("*-bin.*"):
            if not path.name.startswith("."):
                name, data = _plain(path.name, path.read_bytes())
                found.setdefault(str(path.parent.relative_to(self.folder)), {})[name] = data
        return found

    def _in_store(self) -> dict[str, dict[str, bytes]]:
        """The logs in the store; one that grows is joined from its parts."""
        found: dict[str, dict[str, bytes]] = {}
        parts: list[tuple[str, str, int, bytes]] = []
        for path, (data, _) in () if self.objects is None else self.objects.held.items():
            folder, _, name = path.removeprefix("store/archive/").rpartition("/")
            if "-bin." not in name:  # of a server without files
                continue
            if part := re.fullmatch(r"\.tail-(.*)\.(\d+)-(\d+)", name):
                if len(data) != int(part[3]) - int(part[2]):
                    raise Wrong(f"{path} has {len(data)} bytes")
                parts.append((folder, part[1], int(part[2]), data))
            else:
                name, data = _plain(name, data)
                found.setdefault(folder, {})[name] = data
        growing: dict[tuple[str, str], bytes] = {}
        for folder, name, begin, data in sorted(parts):
            if name not in found.get(folder, {}):
                before = growing.get((folder, name), b"")
                if begin <= len(before):
                    growing[folder, name] = before[:begin] + data + before[begin + len(data) :]
        for (folder, name), data in growing.items():
            found.setdefault(folder, {})[name] = data
        return found

    def _left_without_events(self) -> set[tuple[str, str]]:
        """Folder and name of logs that end before their first event: nobody reads what a crash left there."""
        if self.objects is None:
            data = (self.folder / timeline.NAME).read_bytes()
        else:
            data, _ = self.objects.held[f"store/archive/{timeline.NAME}"]
        segments = json.loads(data)["segments"]
        ended = [(one["folder"], *one["until"]) for one in segments if one["until"] is not None]
        outer = "." if self.objects is None else ""
        return {(folder or outer, name) for folder, name, position in ended if position == FIRST_EVENT}

    def _look_at_age(self) -> None:
        """Note a log that is gone while the one after it is young."""
        assert self.history.keeps is not None
        clocks = any(step.what == "clock" for step in self.history.steps)
        logs = self._on_disk() if self.objects is None else self._in_store()
        found = {
            name: data for name, data in logs.get("." if self.objects is None else "", {}).items() if data
        }
        firsts = {name for one in self.world.hosts.values() for name in list(one.logs)[:1]}
        if clocks or not found or (first := min(found)) in firsts:
            return
        age = EPOCH + self.world.now() - int.from_bytes(found[first][4:8], "little")
        if age < self.history.keeps - 1:
            self._stale = f"{first} began {age} s ago, and the log before it is gone"

    def _compare(self) -> None:
        """Each log is the server's, or its beginning; read as one, each change comes once and in order."""
        if self._stale:
            raise Wrong(self._stale)
        theirs: dict[str, list[bytes]] = {}
        for one in self.world.hosts.values():
            for name, log in (*one.gone, *one.logs.items()):
                theirs.setdefault(name, []).append(log.getvalue())
            if self.eras:  # a RESET after a crash hides what the crash has lost
                for name, whole in one.had:
                    theirs.setdefault(name, []).append(whole)
        kept = self._on_disk() if self.objects is None else self._in_store()
        left = self._left_without_events() if kept else set()
        for folder, logs in kept.items():
            last = max(logs)
            for name, data in logs.items():
                mine = bytearray(data if (folder, name) not in left else b"")
                if name == last and mine:  # an empty one is left where another history went on
                    mine[_IN_USE] = 0  # the descriptor's flag
                size = len(mine)
                if not any(
                    due[:size] == mine and size in (len(due), size * (name == last)) for due in theirs[name]
                ):
                    raise Wrong(f"{name} is not the server's: {size} bytes")
        if self.objects is None:
            log = binlog_core.open(self.folder)
        else:
            log = binlog_core.open(URL, storage_options=self.objects.options())
        with closing(log):
            got = [number for group in log.groups() for number, *_ in numbers(group)]
        if self._read:
            self._read_on()
            if self._read != got:
                raise Wrong(f"a reader that went on has {len(self._read)} changes, another {len(got)}")
        if self.eras:
            got = [number for number in got if number not in self.lost]
        if self.restored:
            self._compare_restored(got)
            return
        if self.history.keeps is not None:
            wanted = [change.number for one, *_ in self.committed for change in one.changes]
            if got != wanted[len(wanted) - len(got) :]:
                raise Wrong(f"{len(got)} changes are not the last of {len(wanted)}")
            return
        at = 0
        for era in (*self.eras, self.committed):  # of what was before a RESET, the end may be gone
            wanted = [change.number for one, *_ in era for change in one.changes]
            same = next((i for i, (a, b) in enumerate(zip(got[at:], wanted, strict=False)) if a != b), None)
            same = min(len(got) - at, len(wanted)) if same is None else same
            if era is self.committed and not same == len(wanted) == len(got) - at:
                raise Wrong(
                    f"{len(got) - at} changes, {len(wanted)} are wanted; the first that differs is {same}"
                )
            at += same


def _plain(name: str, data: bytes) -> tuple[str, bytes]:
    """A log's own name and bytes."""
    if not name.endswith(".zst"):
        return name, data
    return name.removesuffix(".zst"), zstandard.ZstdDecompressor().decompressobj().decompress(data)


def _numbers(transaction: Transaction) -> list[int]:
    return [change.number for change in transaction.changes]
