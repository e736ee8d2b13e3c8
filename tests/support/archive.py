"""A server in memory for archives, with its logs; and disks that lose data or fail."""

from __future__ import annotations

import errno
import json
import os
import random
import struct
import uuid as uuids
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import binlog_core
from binlog_core.archive.archiver import Archiver
from binlog_core.archive.feed import FeedRun, Identity, LineLost, LogMissing, Start
from binlog_core.archive.files import Files
from binlog_core.archive.keeper import Keeper
from binlog_core.gtids import GtidSet, MariadbGtidSet
from support.writer import Log, Table

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
TABLE = Table("shop", "orders", [("id", "INT", {"null": False}), ("note", "VARCHAR(200)")])
ROTATE, STOP, PREVIOUS_GTIDS, IN_USE = 4, 3, 35, 1


class FakeServer:
    """A server: transactions of one row each, in logs that it writes itself.

    Parameters
    ----------
    version : str
    uuid : str
    server_id : int
    checksum : bool
    base : str
        Base name of the logs.
    """

    def __init__(
        self,
        version: str = "8.0.36",
        *,
        uuid: str = UUID,
        server_id: int = 1,
        checksum: bool = True,
        base: str = "mysql-bin",
        gtids: bool = True,
    ) -> None:
        self.version, self.uuid, self.server_id, self.checksum, self.base = (
            version,
            uuid,
            server_id,
            checksum,
            base,
        )
        self.mariadb = "MariaDB" in version
        self.with_gtids = gtids
        self.executed: Any = MariadbGtidSet() if self.mariadb else GtidSet()
        self.next_id = 1
        self.clock = 1_700_000_000
        self.logs: dict[str, Log] = {}
        self.before: dict[str, Any] = {}
        self.begin_log(1)

    # ------------------------------------------------------------ its life

    @property
    def current(self) -> str:
        return list(self.logs)[-1]

    def begin_log(self, number: int) -> None:
        log = Log(
            self.version, checksum=self.checksum, server_id=self.server_id, in_use=True, timestamp=self.clock
        )
        name = f"{self.base}.{number:06}"
        self.logs[name] = log
        self.before[name] = self.executed
        if self.mariadb:
            log.gtid_list([(d, s, last) for (d, s), (_, last) in self.executed.intervals()])
        else:
            log.event(PREVIOUS_GTIDS, _encoded(self.executed), flags=0x80)

    def transaction(
        self,
        note: str = "x" * 20,
        *,
        gtid: tuple[str, int] | None = None,
        key: int | None = None,
        rows: int = 1,
    ) -> int:
        log = self.logs[self.current]
        self.clock += 1
        log.timestamp = self.clock
        if key is None:
            key, self.next_id = self.next_id, self.next_id + 1
        if self.mariadb:
            domain, number = (0, key) if gtid is None else (0, gtid[1])
            log.maria_gtid(number, domain)
            self.executed = self.executed | MariadbGtidSet([((domain, self.server_id), (1, number))])
        elif self.with_gtids:
            uuid, number = gtid or (self.uuid, key)
            log.gtid(uuid, number)
            self.executed = self.executed | GtidSet([((uuid, ""), (number, number))])
            log.begin("shop")
        else:
            log.gtid(self.uuid, 0, anonymous=True)
            log.begin("shop")
        for i in range(rows):
            log.insert(TABLE, [{"id": key, "note": note + "+" * i}])
        log.commit(key)
        return key

    def rotate(self) -> None:
        number = int(self.current[-6:]) + 1
        self.logs[self.current].rotate(f"{self.base}.{number:06}")
        self._close()
        self.begin_log(number)

    def restart(self) -> None:
        self.logs[self.current].stop()
        self._close()
        self.begin_log(int(self.current[-6:]) + 1)

    def reset(self) -> None:
        self.logs.clear()
        self.executed = type(self.executed)()
        self.clock += 1
        self.begin_log(1)

    def purge_to(self, name: str) -> None:
        for old in [log for log in self.logs if log < name]:
            del self.logs[old]

    def _close(self) -> None:
        self.logs[self.current]._out[21] &= ~IN_USE

    def bytes_of(self, name: str) -> bytes:
        return self.logs[name].getvalue()

    # ------------------------------------------------------------ a connection

    def connect(self, **settings: Any) -> FakeFeed:
        return FakeFeed(self, **settings)


class FakeFeed:
    """A connection to a FakeServer.

    Parameters
    ----------
    server : FakeServer
    seed : int
        For the sizes of runs.
    cut_after : int or None
        Number of events after which the connection is lost.
    idle : callable
        Called when there are no more events; False ends the stream.
    """

    def __init__(
        self,
        server: FakeServer,
        *,
        seed: int = 0,
        cut_after: int | None = None,
        idle: Callable[[], bool] = lambda: False,
        most: int = 8,
        semi_sync: bool = False,
    ) -> None:
        self.server = server
        self.identity = Identity(
            "db1:3306", server.version, None if server.mariadb else server.uuid, server.server_id
        )
        self.end = server.current, len(server.bytes_of(server.current))
        self._chance = random.Random(seed)
        self._left = cut_after
        self._idle = idle
        self._most = most
        self._semi_sync = semi_sync
        self.acknowledged: list[tuple[str, int]] = []
        self.asked: list[tuple[str, int]] = []

    def locate(self, start: Start) -> tuple[str, int]:
        names = list(self.server.logs)
        if start is None:
            return names[0], 4
        if start == "now":
            return names[-1], len(self.server.bytes_of(names[-1]))
        if isinstance(start, tuple):
            if start[0] not in names:
                raise LogMissing("could not find first log file name in binary log index file")
            return start
        for name in reversed(names):
            if not self.server.before[name] - start:
                return name, 4
        raise LogMissing("the server has purged binary logs containing GTIDs that the replica requires")

    def lacking(self, gtids: Any) -> str | None:
        missing = gtids - self.server.executed
        return str(missing) if missing else None

    def dump(self, file: str, position: int, *, until_now: bool) -> Iterator[FeedRun]:
        self.asked.append((file, position))
        server = self.server
        end = {name: len(server.bytes_of(name)) for name in server.logs} if until_now else None
        if file not in server.logs:
            raise LogMissing("could not find first log file name in binary log index file")
        if position > len(server.bytes_of(file)):
            raise LogMissing("client requested to start from position > file size")
        description = None
        if position > 4:
            data = server.bytes_of(file)
            head = bytearray(data[4 : 4 + int.from_bytes(data[13:17], "little")])
            head[13:19] = bytes(6)
            head[71:75] = bytes(4)
            head[-4:] = b"other"[:4]
            description = memoryview(bytes(head))
            yield FeedRun(file, position, memoryview(b""), description)
        while True:
            data = server.bytes_of(file)
            stop = len(data) if end is None else end[file]
            while position < stop:
                begin, count = position, self._chance.randrange(1, self._most)
                while position < stop and count:
                    position += int.from_bytes(data[position + 9 : position + 13], "little")
                    count -= 1
                    if self._left is not None:
                        self._left -= 1
                        if self._left < 0:
                            raise LineLost("the connection was lost")
                sent = bytearray(data[begin:position])
                if begin == 4:
                    sent[17] &= ~IN_USE
                yield FeedRun(file, begin, memoryview(bytes(sent)), None, self._semi_sync)
            names = list(server.logs)
            if file in names[:-1]:
                file, position = names[names.index(file) + 1], 4
                continue
            yield FeedRun(file, position, memoryview(b""))
            if end is not None or not self._idle():
                return

    def acknowledge(self, file: str, position: int) -> None:
        self.acknowledged.append((file, position))

    def close(self) -> None:
        pass


def _encoded(gtids: GtidSet) -> bytes:
    by_uuid: dict[str, list[tuple[int, int]]] = {}
    for (uuid, _), interval in gtids.intervals():
        by_uuid.setdefault(uuid, []).append(interval)
    out = struct.pack("<Q", len(by_uuid))
    for uuid, intervals in by_uuid.items():
        out += uuids.UUID(uuid).bytes + struct.pack("<Q", len(intervals))
        for first, last in intervals:
            out += struct.pack("<QQ", first, last + 1)
    return out


class PowerCut(BaseException):
    """The machine stops here."""


class DroppingFiles(Files):
    """A disk behind a cache: `cut` loses everything that was not synced, including names.

    It stops the machine before the n-th call that changes something, and nothing happens after that. A cut
    leaves each file as it was at its last sync, or (`ragged`) with some later bytes, or with its later size
    and zeros in their place.
    """

    def __init__(self, stop_at: int | None = None, *, ragged: random.Random | None = None) -> None:
        self.calls = 0
        self.stop_at = stop_at
        self.ragged = ragged
        self._paths: dict[int, int] = {}  # descriptor to inode
        self._synced: dict[int, bytes] = {}  # inode to the bytes that are on disk
        self._names: dict[str, dict[str, int]] = {}  # directory to the names on disk
        self._inodes: dict[int, str] = {}  # inode to a second name that keeps it
        self._keep = ""

    def _step(self) -> None:
        self.calls += 1
        if (
            self.stop_at is not None and self.calls >= self.stop_at
        ):  # what comes after it does not happen either
            raise PowerCut

    def watch(self, folder: str, keep: str) -> None:
        """Put everything in the folder on disk; removed files are kept in another folder."""
        self._keep = keep
        for path, _, names in os.walk(folder):
            self._names[path] = {}
            for name in names:
                full = os.path.join(path, name)
                self._see(full)
                self._names[path][name] = os.stat(full).st_ino
                with open(full, "rb") as file:
                    self._synced[os.stat(full).st_ino] = file.read()

    def _see(self, path: str) -> int:
        inode = os.stat(path).st_ino
        if inode not in self._inodes:
            self._inodes[inode] = os.path.join(self._keep, str(inode))
            os.link(path, self._inodes[inode])
            self._synced.setdefault(inode, b"")
        return inode

    def open(self, path: str, *, new: bool = False) -> int:
        if new:
            self._step()
        descriptor = super().open(path, new=new)
        self._paths[descriptor] = self._see(path)
        return descriptor

    def write(self, descriptor: int, data: bytes | memoryview, position: int) -> int:
        self._step()
        if self.ragged is not None and len(data) > 1:  # a short write
            data = memoryview(data)[: self.ragged.randrange(1, len(data) + 1)]
        return super().write(descriptor, data, position)

    def truncate(self, descriptor: int, size: int) -> None:
        self._step()
        super().truncate(descriptor, size)

    def sync(self, descriptor: int) -> None:
        self._step()
        inode = self._paths[descriptor]
        with open(self._inodes[inode], "rb") as file:
            self._synced[inode] = file.read()

    def sync_directory(self, path: str) -> None:
        self._step()
        with os.scandir(path) as entries:
            self._names[path] = {entry.name: self._see(entry.path) for entry in entries if entry.is_file()}

    def rename(self, old: str, new: str) -> None:
        self._step()
        super().rename(old, new)

    def remove(self, path: str) -> None:
        if os.path.exists(path):
            self._step()
            self._see(path)
        super().remove(path)

    def make_directory(self, path: str) -> None:
        super().make_directory(path)
        self._names.setdefault(path, {})

    def cut(self, folder: str) -> None:
        """Simulate a power failure: leave only what was on disk."""
        for path, _, names in os.walk(folder):
            for name in names:
                os.unlink(os.path.join(path, name))
        for path, names in self._names.items():
            for name, inode in names.items():
                data = self._synced[inode]
                if self.ragged is not None:
                    with open(self._inodes[inode], "rb") as file:
                        later = file.read()
                    size = (
                        self.ragged.randrange(len(data), len(later) + 1)
                        if len(later) >= len(data)
                        else len(data)
                    )
                    fate = self.ragged.randrange(3)
                    if fate == 1:
                        data = data + later[len(data) : size]
                    elif fate == 2:
                        data = data + bytes(size - len(data))
                with open(os.path.join(path, name), "wb") as file:
                    file.write(data)


class FailingFiles(Files):
    """A disk on which the n-th change fails once.

    Parameters
    ----------
    fail_at : int
    number : int
        The error's number: ENOSPC, EIO, EROFS.
    """

    def __init__(self, fail_at: int | None, number: int = errno.ENOSPC) -> None:
        self.calls = 0
        self.fail_at = fail_at
        self.number = number
        self.failed: str | None = None

    def _step(self, what: str) -> None:
        self.calls += 1
        if self.calls == self.fail_at:
            self.failed = what
            raise OSError(self.number, os.strerror(self.number))

    def open(self, path: str, *, new: bool = False) -> int:
        if new:
            self._step("open")
        return super().open(path, new=new)

    def write(self, descriptor: int, data: bytes | memoryview, position: int) -> int:
        self.calls += 1
        if self.calls == self.fail_at:  # half of it is written first
            self.failed = "write"
            super().write(descriptor, memoryview(data)[: len(data) // 2], position)
            raise OSError(self.number, os.strerror(self.number))
        return super().write(descriptor, data, position)

    def sync(self, descriptor: int) -> None:
        self._step("sync")
        super().sync(descriptor)

    def sync_directory(self, path: str) -> None:
        self._step("sync_directory")
        super().sync_directory(path)

    def rename(self, old: str, new: str) -> None:
        self._step("rename")
        super().rename(old, new)

    def truncate(self, descriptor: int, size: int) -> None:
        self._step("truncate")
        super().truncate(descriptor, size)


OTHER = "4e11fa47-71ca-11e1-9e33-c80aa9429563"


def busy(server: FakeServer, transactions: int = 30, seed: int = 1) -> FakeServer:
    """A server with more transactions, in several logs."""
    chance = random.Random(seed)
    for _ in range(transactions):
        server.transaction("n" * chance.randrange(200))
        if chance.random() < 0.1:
            server.rotate()
        elif chance.random() < 0.03:
            server.restart()
    return server


def replica_of(server: FakeServer, **settings: Any) -> FakeServer:
    """Another server with the same transactions, in other logs."""
    replica = FakeServer(server.version, uuid=OTHER, server_id=2, base="replica", **settings)
    for (uuid, _), (first, last) in server.executed.intervals():
        for number in range(first, last + 1):
            replica.transaction(gtid=(uuid, number), key=number)
            if number % 7 == 0:
                replica.rotate()
    replica.next_id = server.next_id
    return replica


SERVERS = {
    "mysql": lambda: FakeServer("8.0.36"),
    "mysql 5.6": lambda: FakeServer("5.6.24", checksum=False),
    "mariadb": lambda: FakeServer("10.11.6-MariaDB-log"),
    "mariadb without checksums": lambda: FakeServer("11.4.2-MariaDB", checksum=False),
}


def archive(server: FakeServer, folder: Path, *, files: Files | None = None, **settings: Any) -> Archiver:
    """Archive a server's logs into a folder; return the archiver after it has run."""
    feed = {key: settings.pop(key) for key in ("seed", "most", "semi_sync") if key in settings}
    keep = {key: settings.pop(key) for key in ("compress", "keep", "index") if key in settings}
    settings.setdefault("connect", lambda: server.connect(**feed))
    settings.setdefault("until_now", True)
    archiver = Archiver(folder=str(folder), keeper=Keeper(files, **keep), files=files, **settings)
    archiver.run()
    return archiver


def segments(folder: Path) -> list[dict[str, Any]]:
    """The segments of an archive's timeline."""
    found: list[dict[str, Any]] = json.loads((folder / "timeline.json").read_text())["segments"]
    return found


def ids(folder: Path, **options: Any) -> list[int]:
    """The keys of an archive's rows, in order."""
    with binlog_core.open(folder, **options) as log:
        return [change.after["id"] for change in log.rows()]


def assert_same(server: FakeServer, folder: Path) -> None:
    """Check that every log of the archive equals the server's; the growing one may be a prefix."""
    names = sorted(path.name for path in folder.iterdir() if path.suffix[1:].isdigit())
    assert names == list(server.logs)
    for name in names:
        assert (folder / name).read_bytes() == server.bytes_of(name)


def altered_over_a_failover(folder: Path) -> dict[str, str]:
    """An archive of two servers' logs of a table: one row, ALTER TABLE, one row; the second has one more.

    Returns the table's definition before.
    """
    columns = [("id", "INT"), ("extra", "INT")]
    old, new = (Table("shop", "t", columns[:count], metadata="MINIMAL") for count in (1, 2))

    def altered(server: FakeServer) -> FakeServer:
        _put(server, 1, old, {"id": 1})
        server.logs[server.current].gtid(UUID, 2)
        server.logs[server.current].query("ALTER TABLE t ADD COLUMN extra INT", "shop")
        _put(server, 3, new, {"id": 3, "extra": 30})
        return server

    archive(altered(FakeServer()), folder)
    replica = altered(FakeServer(uuid=OTHER, server_id=2, base="replica"))
    _put(replica, 4, new, {"id": 4, "extra": 40})
    archive(replica, folder)
    assert len(segments(folder)) == 2
    return {"shop.t": "CREATE TABLE t (id INT)"}


def _put(server: FakeServer, number: int, table: Table, row: dict[str, int]) -> None:
    log = server.logs[server.current]
    log.gtid(UUID, number)
    log.begin("shop")
    log.insert(table, [row])
    log.commit(number)
    server.executed = server.executed | GtidSet([((UUID, ""), (1, number))])
