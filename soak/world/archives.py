"""Histories of an archiver: its process is killed, its disk loses what was not synced, its servers fail."""

from __future__ import annotations

import tempfile
import threading
import warnings
from dataclasses import dataclass, fields
from pathlib import Path
from random import Random
from unittest.mock import patch

from support.archive import PowerCut

import binlog_core
from binlog_core.archive import archive, own_logs
from binlog_core.archive.status import Status
from binlog_core.errors import ArchiveError, BinlogError, DivergedError, UnreachableError

from .disk import BROKEN, FULL, KILLED, POWER, Disk
from .history import History, Play, Wrong, history_of, some_without_files
from .readers import numbers

_LONG_ENOUGH = 60.0  # seconds after which an archiver has everything that was written before
_AGAIN = 3.0  # seconds after which an archiver that found no server starts again
_IN_USE = 21
_HEAD = _IN_USE + 1
_OWN_LOG_BYTES = 2_000  # after which an archive begins another log, where the server's have no files
_OPTIONS = {"heartbeat": 5.0, "reconnect": 300.0, "ssl_mode": "DISABLED"}


@dataclass(frozen=True)
class Archive(History):
    """A history of `binlog_core.archive.archive`.

    Parameters
    ----------
    cuts : tuple of (int, str)
        After how many calls to the disk something happens to it; then the archiver starts again.
    semi_sync : bool
        The archiver acknowledges what is on disk.
    """

    cuts: tuple[tuple[int, str], ...]
    semi_sync: bool

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
    return Archive(
        **{one.name: getattr(servers, one.name) for one in fields(servers)},
        cuts=tuple(
            (chance.choice((3, 10, 40, 150)), chance.choice((POWER, POWER, KILLED, KILLED, FULL, BROKEN)))
            for _ in range(chance.choice((0, 1, 2, 5)))
        ),
        semi_sync=chance.random() < 0.5 and not servers.kind.without_files,
    )


class _Run(Play):
    def __init__(self, history: Archive, folder: Path) -> None:
        super().__init__(history)
        self.history = history
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
        faults = list(self.history.cuts)
        disk = self._after_power()
        while True:
            disk.plan(*(faults.pop(0) if faults else (0, "")))
            connections = self.world.connections
            try:
                self._archive(disk)
                break
            except PowerCut:
                if disk.fault == KILLED:
                    continue
                disk.cut(str(self.folder))
                self._check_acknowledged()
                disk = self._after_power()
            except BinlogError as error:
                made = self.world.connections - connections
                silent = made == 1 and "timed out" in str(error)
                if isinstance(error, UnreachableError) and (not made or silent):
                    self.world.let(lambda: False, _AGAIN)  # that looks like a wrong address
                elif isinstance(error, ArchiveError) and disk.refused:
                    self._check_acknowledged()
                elif self._deserves(error):
                    return
                else:
                    raise Wrong(f"{type(error).__name__}: {error}") from error
        self._compare()

    def _after_power(self) -> Disk:
        """The disk as a machine finds it when it starts."""
        disk = Disk(self.world.chance)
        self.folder.mkdir(exist_ok=True)
        disk.watch(str(self.folder), tempfile.mkdtemp(dir=self._dropped))
        return disk

    def _archive(self, disk: Disk) -> None:
        stop = threading.Event()
        (self.folder / ".lock").unlink(missing_ok=True)  # it has another name on this disk
        self.world.files = disk
        self.world.after(max(0.0, self.end - self.world.now()), stop.set)
        self._began, self._status = self.world.now(), None
        with patch.object(own_logs, "LOG_BYTES", _OWN_LOG_BYTES):
            archive(
                self.url,
                self.folder,
                stop=stop,
                options={"world": self.world, **_OPTIONS},
                semi_sync=self.history.semi_sync,
                progress=self._take_status,
            )

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
        # Without GTIDs, also those of an archive that has no transaction yet, another server cannot go on.
        return isinstance(error, DivergedError) and self.history.hosts > 1 and "without GTIDs" in str(error)

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
        kept: dict[str, list[bytes]] = {}
        for path in self.folder.rglob("*-bin.*"):
            kept.setdefault(path.name, []).append(path.read_bytes())
        for server in self.world.hosts.values():
            for name, log in server.logs.items():
                position = max(server.acknowledged.get(name, 0), 0 if self.eras else self._told.get(name, 0))
                due = log.getvalue()[_HEAD:position]
                if position <= log.position and not any(
                    one[_HEAD:position] == due for one in kept.get(name, [b""])
                ):
                    raise Wrong(f"{name} is said to be kept up to {position}, and is not")

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
        for folder in {path.parent for path in self.folder.rglob("*-bin.*")}:
            *finished, last = sorted(folder.glob("*-bin.*"))
            for path in (*finished, last):
                mine = bytearray(path.read_bytes())
                if path == last:
                    mine[_IN_USE] = 0  # the descriptor's flag
                size = len(mine)
                if not any(
                    due[:size] == mine and size in (len(due), size * (path == last))
                    for due in theirs[path.name]
                ):
                    raise Wrong(f"{path.name} is not the server's: {size} bytes")
        with binlog_core.open(self.folder) as log:
            got = [number for group in log.groups() for number, *_ in numbers(group)]
        if self.eras:
            got = [number for number in got if number not in self.lost]
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
