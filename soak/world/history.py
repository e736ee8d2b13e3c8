"""What happens to the servers and the lines of a history; it is decided before the history begins."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import chain, repeat
from random import Random

from .line import Fault
from .model import Transaction, transactions
from .server import Kind, Server
from .world import SimulatedWorld

VERSIONS = ("5.6.51-log", "8.4.3", "9.7.0", "10.11.18-MariaDB-log", "11.8.6-MariaDB-log")
WITHOUT_FILES = "12.3.1-MariaDB-log"  # with its log in InnoDB
REST = 180.0  # seconds after the last step in which everybody must catch up
_SETS = (-7200, -45, -2, 2, 45, 7200)  # seconds by which a clock is set
_DOWN = 2.5  # seconds until a server that was stopped is back


class Wrong(Exception):
    """What was read or kept is not what the servers committed."""


@dataclass(frozen=True)
class Step:
    """Something that happens to the servers.

    Parameters
    ----------
    at : float
        Seconds after the world's beginning.
    what : str
        "commit", "rotate", "purge", "restart", "crash", "loss" (a crash with lost transactions), "failover",
        "reset", "clock" (of the servers or of the reader's machine: it is set, also back), "restore" (the
        server is made anew from a backup, and replicates again what the backup lacks).
    transaction : Transaction or None
        What is committed.
    """

    at: float
    what: str
    transaction: Transaction | None = None


@dataclass(frozen=True)
class History:
    """All that happens, apart from how bytes are divided.

    Parameters
    ----------
    seed : int
    kind : Kind
        Of all servers.
    hosts : int
        One, or two: the second has all transactions, in logs of its own.
    opened : float
        When the reader or the archiver starts.
    steps : tuple of Step
    faults : tuple of Fault
        Of the first connections; later ones have none.
    """

    seed: int
    kind: Kind
    hosts: int
    opened: float
    steps: tuple[Step, ...]
    faults: tuple[Fault, ...]


def history_of(
    seed: int, chance: Random, *, purges: bool = False, resets: bool = False, alone: bool = False
) -> History:
    """What happens to the servers, by a seed; `alone`: one that only writes logs, and loses none."""
    kind = Kind(chance.choice(VERSIONS), gtids=chance.random() < 0.6, checksum=chance.random() < 0.8)
    if kind.mariadb:
        kind = replace(kind, gtids=True)
    hosts = 2 if kind.gtids and chance.random() < 0.4 and not alone else 1
    kinds = ["rotate", "rotate", "rotate", "restart", "crash"]
    kinds = kinds[:4] if alone else [*kinds, "loss", "failover", "clock"]
    kinds += ["purge"] * purges + ["reset"] * resets
    steps, now = [], 0.0
    for transaction in transactions(chance, chance.choice((3, 20, 60)), xa=kind.logs_xa):
        now += chance.choice((0.0, 0.0, 0.01, 0.3, 1.0, 5.0))
        steps.append(Step(now, "commit", transaction))
        if chance.random() < 0.15:
            steps.append(Step(now + chance.choice((0.0, 0.0, 0.2)), chance.choice(kinds)))
    steps.sort(key=lambda step: step.at)
    return History(
        seed=seed,
        kind=kind,
        hosts=hosts,
        opened=chance.choice((5.0, 20.0, 60.0)),
        steps=tuple(steps),
        faults=tuple(_fault(chance) for _ in range(chance.choice((0, 1, 3, 8)))),
    )


def some_without_files(servers: History, seed: int) -> History:
    """The same, or of some histories of MariaDB one whose servers have their log in InnoDB."""
    if not servers.kind.mariadb or Random(f"12.3 {seed}").random() >= 0.2:
        return servers
    # By GTIDs alone nobody notices that transactions were lost and their numbers given again.
    steps = [
        replace(step, what="crash") if step.what in ("loss", "reset") else step for step in servers.steps
    ]
    return replace(servers, kind=replace(servers.kind, version=WITHOUT_FILES), steps=tuple(steps))


def some_restored(servers: History, seed: int, share: float = 0.1) -> History:
    """The same, or of some histories one whose server is made anew from a backup."""
    chance = Random(f"restore {seed}")
    others = any(step.what in ("loss", "reset") for step in servers.steps)
    if servers.hosts > 1 or others or servers.kind.without_files or chance.random() >= share:
        return servers
    step = Step(chance.uniform(0.0, servers.opened + 60), "restore")
    return replace(servers, steps=tuple(sorted((*servers.steps, step), key=lambda one: one.at)))


def _fault(chance: Random) -> Fault:
    most = chance.choice((6_000, 6_000, 60_000))
    kind = chance.random()
    if kind < 0.2:
        return Fault()
    if kind < 0.4:
        return Fault(stall=chance.randrange(most), seconds=chance.choice((0.5, 12.0, 45.0)))
    return Fault(cut=chance.randrange(most), reset=chance.random() < 0.5)


class Play:
    """A history, as it happens.

    Attributes
    ----------
    world : SimulatedWorld
    writer : Server
        The server that commits now.
    committed : list of (Transaction, float, int)
        Every transaction, when it was committed, and the second of it by the server's clock.
    end : float
        When everybody must have caught up.
    clocks_go_back : bool
        Whether the servers' clocks are also set back.
    """

    clocks_go_back, rest = True, REST
    world_class: type[SimulatedWorld] = SimulatedWorld

    def __init__(self, history: History) -> None:
        last = max((step.at for step in history.steps), default=0.0)
        self.end = max(last, history.opened) + self.rest + sum(fault.seconds for fault in history.faults)
        faults = chain(history.faults, repeat(Fault()))
        self.world = self.world_class(history.seed, faults, most=self.end + 600)
        hosts = [
            Server(self.world, name, history.kind, server_id=i + 1, first_log=1 + 6 * i)
            for i, name in enumerate(("a", "b")[: history.hosts])
        ]
        self.world.hosts = {server.name: server for server in hosts}
        self.writer, self._others = hosts[0], hosts[1:]
        self.failed_over = self.purged = self.restored = False
        self.cut = False  # whether a crash has lost transactions
        self.lost: set[int] = set()  # numbers of changes that it has lost
        self.committed: list[tuple[Transaction, float, int]] = []
        self.eras: list[list[tuple[Transaction, float, int]]] = []  # what was committed before each RESET
        self._waiting: list[Transaction] = []  # while the server is down
        for step in history.steps:
            self.world.after(step.at, lambda step=step: self._happen(step))  # type: ignore[misc]

    @property
    def url(self) -> str:
        """The address of the hosts."""
        return "mysql://root@" + ",".join(self.world.hosts)

    def _happen(self, step: Step) -> None:
        server = self.writer
        if step.transaction is not None:
            self._waiting.append(step.transaction)
        if not server.up:
            return
        if step.what == "rotate":
            server.rotate()
        elif step.what == "purge" and len(server.logs) > 1:
            self.purged = True
            server.purge(max(1, len(server.logs) // 2))
        elif step.what in ("restart", "crash", "loss"):
            server.stop(clean=step.what == "restart")
            if step.what == "loss" and len(self.world.hosts) == 1:
                lost = server.lose(1 + self.world.chance.randrange(3))
                self.cut |= bool(lost)
                self.lost.update(change.number for one in lost for change in one.changes)
                del self.committed[len(self.committed) - len(lost) :]
            self.world.after(_DOWN, lambda: self._back(server))
        elif step.what == "restore" and len(self.world.hosts) == 1 and server.written:
            self.restored = True
            count = self.world.chance.choice((0, 1, 3, 20))
            lacks = server.restore(min(count, len(server.written)))
            self.world.after(_DOWN, lambda: self._catch_up(server, lacks))
        elif step.what == "clock":
            self._set_clocks()
        elif step.what == "reset" and len(self.world.hosts) == 1:
            server.reset()
            self.eras.append(self.committed)
            self.committed = []
        elif step.what == "failover" and self._others:
            server.stop(clean=False)
            self.failed_over = True
            self.writer, self._others = self._others[0], []
        self._commit()

    def lacks_backed_up(self, kept: Iterable[tuple[str, bytes]]) -> bool:
        """Whether an archive lacks transactions that the backup has, and no log of the restored server."""
        server = self.writer
        sizes = {name: len(data) for name, data in kept if server.is_earlier(name, data)}
        had = (one.transaction.number for one in server.earlier if sizes.get(one.file, 0) >= one.end)
        return self.restored and max(had, default=0) < server.restored_to

    def _set_clocks(self) -> None:
        seconds = self.world.chance.choice(_SETS)
        if self.world.chance.random() < 0.5:
            self.world.skew += seconds
        else:
            for one in self.world.hosts.values():
                one.skew += seconds if self.clocks_go_back else abs(seconds)

    def _back(self, server: Server) -> None:
        server.begin()
        self._commit()

    def _catch_up(self, server: Server, lacks: list[Transaction]) -> None:
        server.up = True
        for transaction in lacks:
            server.commit(transaction)
        self._commit()

    def _made(self, transaction: Transaction, number: int) -> Transaction:
        """What is committed under a number."""
        return replace(transaction, number=number)

    def _is_locked(self) -> bool:
        """Whether a session keeps others from committing."""
        tables = [one.tables for one in (self.writer, *self._others)]
        return any(one is not None and one.locked for one in tables)

    def _commit(self) -> None:
        while self._waiting and self.writer.up and not self._is_locked():
            # A number that was lost is given again.
            transaction = self._made(self._waiting.pop(0), self.writer.last + 1)
            for server in (self.writer, *self._others):
                server.commit(transaction)
            self.committed.append((transaction, self.world.now(), self.writer.written[-1].second))
