"""Histories of an archiver: its process is killed, its disk loses what was not synced, its servers fail."""

from __future__ import annotations

import tempfile
import threading
import warnings
from dataclasses import dataclass, fields
from pathlib import Path
from random import Random

from support.archive import DroppingFiles, PowerCut

import binlog_core
from binlog_core.archive import archive
from binlog_core.errors import ArchiveError, BinlogError, DivergedError, UnreachableError

from .history import History, Play, Wrong, history_of
from .readers import numbers

_AGAIN = 3.0  # seconds after which an archiver that found no server starts again
_IN_USE = 21
_HEAD = _IN_USE + 1
_OPTIONS = {"heartbeat": 5.0, "reconnect": 300.0, "ssl_mode": "DISABLED"}


@dataclass(frozen=True)
class Archive(History):
    """A history of `binlog_core.archive.archive`.

    Parameters
    ----------
    cuts : tuple of int
        After how many calls to the disk the machine stops; then the archiver starts again.
    semi_sync : bool
        The archiver acknowledges what is on disk.
    """

    cuts: tuple[int, ...]
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
    servers = history_of(seed, chance, purges=False)
    return Archive(
        **{one.name: getattr(servers, one.name) for one in fields(servers)},
        cuts=tuple(chance.choice((3, 10, 40, 150)) for _ in range(chance.choice((0, 1, 2, 5)))),
        semi_sync=chance.random() < 0.5,
    )


class _Run(Play):
    def __init__(self, history: Archive, folder: Path) -> None:
        super().__init__(history)
        self.history = history
        self.folder = folder / "archive"
        self._dropped = folder / "dropped"
        self._dropped.mkdir()

    def keep(self) -> None:
        """Archive, with cuts, until everything is there; then compare."""
        self.world.let(lambda: False, self.history.opened)
        cuts = list(self.history.cuts)
        while True:
            files = DroppingFiles(cuts.pop(0) if cuts else None, ragged=self.world.chance)
            self.folder.mkdir(exist_ok=True)
            (self.folder / ".lock").unlink(missing_ok=True)  # of a process that is gone
            files.watch(str(self.folder), tempfile.mkdtemp(dir=self._dropped))
            connections = self.world.connections
            try:
                self._archive(files)
                break
            except PowerCut:
                files.cut(str(self.folder))
                self._check_acknowledged()
            except BinlogError as error:
                if isinstance(error, UnreachableError) and self.world.connections == connections:
                    self.world.let(lambda: False, _AGAIN)  # it was down: that looks like a wrong address
                    continue
                if not self._deserves(error):
                    raise Wrong(f"{type(error).__name__}: {error}") from error
                return
        self._compare()

    def _archive(self, files: DroppingFiles) -> None:
        stop = threading.Event()
        self.world.files = files
        self.world.after(max(0.0, self.end - self.world.now()), stop.set)
        archive(
            self.url,
            self.folder,
            stop=stop,
            options={"world": self.world, **_OPTIONS},
            semi_sync=self.history.semi_sync,
        )

    def _deserves(self, error: Exception) -> bool:
        if self.cut and isinstance(error, ArchiveError | DivergedError):
            return True
        # Without GTIDs, also those of an archive that has no transaction yet, another server cannot go on.
        return isinstance(error, DivergedError) and self.history.hosts > 1 and "without GTIDs" in str(error)

    def _check_acknowledged(self) -> None:
        kept = {path.name: path.read_bytes() for path in self.folder.rglob("*-bin.*")}
        for server in self.world.hosts.values():
            for name, position in server.acknowledged.items():
                mine, log = kept.get(name, b""), server.logs[name].getvalue()
                same = mine[_HEAD:position] == log[_HEAD:position] and len(mine) >= position
                if not same and position <= len(log):  # else a crash has lost it
                    raise Wrong(f"{name} is acknowledged up to {position}, and not kept so far")

    def _compare(self) -> None:
        """Each log is the server's, or its beginning; read as one, each change comes once and in order."""
        theirs = {name: log.getvalue() for one in self.world.hosts.values() for name, log in one.logs.items()}
        for folder in {path.parent for path in self.folder.rglob("*-bin.*")}:
            *finished, last = sorted(folder.glob("*-bin.*"))
            for path in (*finished, last):
                mine = bytearray(path.read_bytes())
                if path == last:
                    mine[_IN_USE] = 0  # the descriptor's flag
                due = theirs[path.name]
                if due[: len(mine)] != mine or (path != last and len(due) != len(mine)):
                    raise Wrong(f"{path.name} is not the server's: {len(mine)} of {len(due)} bytes")
        with binlog_core.open(self.folder) as log:
            got = [number for group in log.groups() for number, _ in numbers(group)]
        wanted = [change.number for one, _ in self.committed for change in one.changes]
        if got != wanted:
            at = next((i for i, (a, b) in enumerate(zip(got, wanted, strict=False)) if a != b), None)
            raise Wrong(f"{len(got)} changes, {len(wanted)} are wanted; the first that differs is {at}")
