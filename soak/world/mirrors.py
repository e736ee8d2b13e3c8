"""Histories of a mirror: its process is killed at any step, its tables change, its servers fail."""

from __future__ import annotations

import builtins
import gc
import io
import json
import os
import re
import shutil
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from support.faults import Faults
from support.writer.numbering import MARIADB_GTID, MARIADB_GTID_LIST, QUERY, XA_PREPARE

from binlog_core._base.options import Deletes
from binlog_core.errors import BinlogError, DivergedError, MirrorError, PurgedError, UnreachableError
from binlog_core.lake.apply import key_index
from binlog_core.lake.runner import Meet, by_itself
from binlog_core.mirror import (
    Compared,
    chunks,
    copies,
    holder,
    mirror,
    mirroring,
    proving,
    reporting,
    status,
    verify,
)
from binlog_core.mirror.lake import Lake

from .asking import Ask, Asker, asks_of
from .history import History, Play, Step, Wrong, history_of, some_restored, some_without_files
from .model import Transaction
from .server import EPOCH
from .tables import STATEMENTS, Executed, State, Stored, Tables, executed, first_state
from .world import Killed, SimulatedWorld

# What histories have on demand only, until 300 new ones in a row are right.
YOUNG = frozenset(os.environ.get("WORLD_YOUNG", "").split(",")) & {"restores", "xa", "requests"}
_PATTERNS = ("shop.*", "stock.*")

_AGAIN = 3.0  # seconds after which a mirror that found no server starts again
_REST_OF_ASKED = 60.0  # seconds more, after which all tables go on
_CHUNK_ROWS, _ROUND_BYTES = 5, 2_000
_OPTIONS = {"heartbeat": 5.0, "reconnect": 300.0, "ssl_mode": "DISABLED"}
_MEMORY = Path("/dev/shm")  # where nothing waits for a disk


@dataclass(frozen=True)
class Mirror(History):
    """A history of `binlog_core.mirror.mirror`.

    Parameters
    ----------
    cuts : tuple of int
        After how many steps the process is killed; then it starts again.
    visits : tuple of int
        After how many steps another process merges the small files of the lake's tables, each time.
    statements : tuple of str
        Which kinds of statements change definitions: see `tables.STATEMENTS`.
    ways : tuple of str
        How some transactions go: see `model.WAYS`.
    keeps : bool
        Whether the mirror keeps histories.
    compact : float or None
        Seconds after which small files are merged.
    deletes : "copy" or "vectors"
        How rounds delete rows: see `mirror`.
    rate : float or None
        The bytes a second by which the mirror compares its tables with the server's while it runs.
    asks : tuple of Ask
        What somebody asks of the mirror.
    verifies : bool
        Whether the lake is compared with the server at the end, before and after a row is lost.
    """

    cuts: tuple[int, ...]
    visits: tuple[int, ...]
    statements: tuple[str, ...]
    ways: tuple[str, ...]
    keeps: bool
    compact: float | None
    deletes: Deletes
    rate: float | None
    asks: tuple[Ask, ...]
    verifies: bool

    def run(self) -> None:
        """Let it happen.

        Raises
        ------
        Wrong, Hang
            The lake is wrong.
        """
        where = _MEMORY if _MEMORY.is_dir() else None
        with warnings.catch_warnings(), tempfile.TemporaryDirectory(prefix="world-", dir=where) as folder:
            warnings.simplefilter("ignore")
            _Run(self, Path(folder)).keep()


def mirrorer(seed: int) -> Mirror:
    """The history of a seed."""
    chance = Random(f"mirror {seed}")
    purges, resets = chance.random() < 0.2, chance.random() < 0.1
    servers = history_of(seed, chance, purges=purges, resets=resets, alone=chance.random() < 0.4)
    if servers.hosts > 1 and Random(f"failover {seed}").random() < 0.4:
        at = Random(f"when {seed}").choice([step.at for step in servers.steps])
        steps = sorted([*servers.steps, Step(at + 0.01, "failover")], key=lambda step: step.at)
        servers = replace(servers, steps=tuple(steps))
    servers = some_without_files(servers, seed)
    if "restores" in YOUNG:
        servers = some_restored(servers, seed)
    xa = servers.kind.logs_xa and "xa" in YOUNG
    ways = ("rollback", "undone", *(("prepare", "prepare", "one phase") if xa else ()))
    servers = replace(servers, opened=chance.choice((0.0, 0.5, 5.0, 60.0)))
    asked, last = Random(f"asks {seed}"), max((step.at for step in servers.steps), default=0.0)
    return Mirror(
        **{one.name: getattr(servers, one.name) for one in fields(servers)},
        cuts=tuple(chance.choice((30, 100, 300, 1000)) for _ in range(chance.choice((0, 1, 2, 5)))),
        visits=tuple(chance.choice((40, 100, 300)) for _ in range(chance.choice((0, 0, 3, 8)))),
        statements=tuple(one for one in STATEMENTS if chance.random() < 0.3),
        ways=ways if Random(f"ways {seed}").random() < 0.5 else (),
        keeps=chance.random() < 0.3,
        compact=chance.choice((None, 5.0, 20.0)),
        deletes="vectors" if Random(f"vectors {seed}").random() < 0.4 else "copy",
        rate=Random(f"rate {seed}").choice((None, None, 2e3, 1e6)),
        asks=asks_of(asked, max(last, servers.opened))
        if asked.random() < 0.4 and "requests" in YOUNG
        else (),
        verifies=Random(f"verify {seed}").random() < 0.3,
    )


class _Runner:
    """Calls functions one after the other; see `binlog_core.lake.runner.Runner`."""

    slots = 1

    @property
    def light(self) -> _Runner:
        return self

    def map(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        return [function(one) for one in tasks]

    def each(
        self, function: Callable[[Any], Any], tasks: Sequence[Any], stop: threading.Event | None = None
    ) -> Iterator[Any]:
        for one in tasks:
            if stop is not None and stop.is_set():
                return
            yield function(one)

    def together(self, function: Callable[[int, Meet], Any], count: int) -> list[Any]:
        assert count == 1
        return [function(0, by_itself)]


class _Steps(Faults):
    """Tells of each call of this process that changes a file of the lake.

    Attributes
    ----------
    within : callable or None
        Is told of a call; None: nobody is.
    """

    def __init__(self) -> None:
        import deltalake
        import deltalake.table
        import deltalake.transaction

        from binlog_core.lake.tables import parquet

        self.within: Callable[[str], None] | None = None
        owners = (os, builtins, io, parquet, deltalake.transaction, deltalake.DeltaTable)
        before = [(owner, dict(vars(owner))) for owner in (*owners, deltalake.table.TableAlterer)]
        super().__init__("/nowhere")
        self._replaced = [
            (owner, name, value, vars(owner)[name])
            for owner, values in before
            for name, value in values.items()
            if vars(owner)[name] is not value
        ]
        self._put(real=True)

    def _put(self, *, real: bool) -> None:
        for owner, name, value, replacement in self._replaced:
            setattr(owner, name, value if real else replacement)

    @contextmanager
    def of(self, root: Path, within: Callable[[str], None]) -> Iterator[None]:
        """Have the calls for files below a folder told."""
        self.root, self.within = str(root.resolve()), within
        self._put(real=False)
        try:
            yield
        finally:
            self._put(real=True)
            self.within = None

    @contextmanager
    def left_out(self) -> Iterator[None]:
        """Have the calls of others not told."""
        within, self.within = self.within, None
        try:
            yield
        finally:
            self.within = within

    def step(self, what: str, path: str, before: Callable[[], object] | None = None) -> None:
        """See `Faults.step`."""
        if self.within is not None and (path == self.root or path.startswith(self.root + "/")):
            self.within(what)


@cache
def _steps() -> _Steps:
    return _Steps()


class _World(SimulatedWorld):
    """Counts what the process does; at a step it is killed."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.left = 0  # steps until it is killed; 0: it is not
        self.at_kill: Callable[[], None] = lambda: None
        self.visits: list[int] = []  # steps until somebody else works on the lake, each time
        self.visit: Callable[[], None] = lambda: None

    def step(self, what: str = "") -> None:
        """See `SimulatedWorld.step`."""
        super().step()
        if self.visits:
            self.visits[0] -= 1
            if not self.visits[0]:
                del self.visits[0]
                self.visit()
        if self.left:
            self.left -= 1
            if not self.left:
                self.at_kill()
                self.killed = True
                raise Killed


class _Run(Play):
    world: _World
    world_class, rest = _World, 60.0

    def __init__(self, history: Mirror, folder: Path) -> None:
        self.rest += _REST_OF_ASKED * bool(history.asks)
        super().__init__(history)
        self.history = history
        self.lake, self._copy = folder / "lake", folder / "copy"
        self._first = first = first_state(Random(f"tables {history.seed}"))
        for server in self.world.hosts.values():
            server.tables = Tables(self.world, first)
            server.tables.unlocked = self._commit
        self.world.at_kill, self.world.visit = self._keep_files, self._merge_files
        self.world.visits = list(history.visits)
        self._clock = SimpleNamespace(time=self.world.time, monotonic=self.world.now)
        options = {"world": self.world, **_OPTIONS}
        until = self.end - _REST_OF_ASKED
        self._asker = Asker(self.world, self.lake, history.asks, until, options, _Runner(), _PATTERNS)
        self._found: list[str] = []  # what the mirror itself says of its tables

    def _made(self, transaction: Transaction, number: int) -> Transaction:
        assert self.writer.tables is not None
        chance = Random(f"{self.history.seed} {transaction.number}")
        state = self.writer.tables.states[-1]
        made = replace(transaction, number=number)
        return executed(state, made, chance, self.history.statements, self.history.ways)

    def _keep_files(self) -> None:
        """What a killed process leaves."""
        with _steps().left_out():
            if self.lake.exists():
                shutil.copytree(self.lake, self._copy)

    def _merge_files(self) -> None:
        """Another process merges small files, as who looks after Delta tables does."""
        from deltalake import DeltaTable

        with _steps().left_out():
            for log in sorted(self.lake.glob("*.*/_delta_log")):
                if DeltaTable.is_deltatable(str(log.parent)):
                    DeltaTable(str(log.parent)).optimize.compact()

    def keep(self) -> None:
        """Mirror, with kills, until everything is there; then compare."""
        self.world.let(lambda: False, self.history.opened)
        kills = list(self.history.cuts)
        while True:
            self.world.left = kills.pop(0) if kills else 0
            connections = self.world.connections
            try:
                self._mirror()
                break
            except Killed:
                self._begin_anew()
            except BinlogError as error:
                made = self.world.connections - connections
                if isinstance(error, UnreachableError) and not made:
                    self.world.let(lambda: False, _AGAIN)  # that looks like a wrong address
                elif "another process is working on this mirror" in str(error) and not self._asker.over:
                    self.world.let(lambda: False, _AGAIN)
                elif self._deserves(error):
                    return
                else:
                    raise Wrong(f"{type(error).__name__}: {error}") from error
        self._compare()

    def _deserves(self, error: BinlogError) -> bool:
        if isinstance(error, MirrorError) and "prepared before the archive's first log" in str(error):
            return self._was_prepared_before()
        if self.cut or self.eras:
            return isinstance(error, DivergedError | PurgedError)
        if isinstance(error, PurgedError) and (self.purged or self.lacks_backed_up(self._kept())):
            return True
        # Without GTIDs, also those of an archive that has no transaction yet, another server cannot go on.
        others = self.history.hosts > 1 or self.restored
        return isinstance(error, DivergedError) and others and "without GTIDs" in str(error)

    def _kept(self) -> list[tuple[str, bytes]]:
        """Name and bytes of each log in the archive."""
        paths = (self.lake / "_mirror/archive").rglob(f"{self.writer.name}-bin.*")
        return [(path.name, path.read_bytes()) for path in paths]

    def _was_prepared_before(self) -> bool:
        """Whether the archive has an XA COMMIT of a transaction that none of its logs prepares."""
        logs = (self.lake / "_mirror/archive").rglob("*.[0-9]*")
        events = [event for path in logs for event in _events(path.read_bytes())]
        prepared = b"".join(event for event in events if event[4] == XA_PREPARE)
        ends = [event for event in events if event[4] == QUERY and b"XA COMMIT X'" in event]
        return any(
            bytes.fromhex(event.split(b"XA COMMIT X'")[1].split(b"'")[0].decode()) not in prepared
            for event in ends
        )

    def _mirror(self) -> None:
        stop = threading.Event()
        self.world.after(max(0.0, self.end - self.world.now()), stop.set)
        with ExitStack() as patched:
            patched.enter_context(_steps().of(self.lake, self.world.step))
            self._patch(patched)
            patched.enter_context(self._asker.beside())
            mirror(
                self.url,
                self.lake,
                tables=_PATTERNS,
                history=self.history.keeps,
                compact=self.history.compact,
                deletes=self.history.deletes,
                verify_rate=self.history.rate,
                runner=_Runner(),
                stop=stop,
                options={"world": self.world, **_OPTIONS},
            )
            self.world.let(self.world.alone, 60.0)

    def _patch(self, patched: ExitStack) -> None:
        """Have little be a lot, and no threads but the world's."""
        for module, name, value in (
            (chunks, "_LEAST_ROWS", _CHUNK_ROWS),
            (copies, "_AT_ONCE", 1),
            (copies, "_ahead", lambda batches, give_up: batches),
            (mirroring, "_ROUND_BYTES", _ROUND_BYTES),
            (mirroring, "_AT_ONCE", 1),
            (key_index, "_WORTH", 0),
            (key_index, "_ROWS_A_KEY", 0),
            (key_index, "_SPILLED", 8),
            (mirroring, "_AGAIN", 20.0),
            (reporting, "time", self._clock),
            (holder, "time", self._clock),
            (holder, "_BEAT", 1e9),
            (proving, "_EVERY", 15.0),
            (proving, "_LOOK", 3.0),
            (proving, "_SOON", 3.0),
            (proving, "_warn", self._found.append),
        ):
            patched.enter_context(patch.object(module, name, value))

    def _begin_anew(self) -> None:
        """The process is dead: its threads, its connections, and what it did after its last step."""
        self.world.end_threads()
        with patch.object(sys, "unraisablehook", lambda _: None):  # of half-written files
            gc.collect()
        self.world.killed = False
        for server in self.world.hosts.values():
            for session in list(server.sessions):
                session.line.close()
        if self.lake.exists():
            shutil.rmtree(self.lake)
        if self._copy.exists():
            self._copy.rename(self.lake)
        self._check_claims()

    def _check_claims(self) -> None:
        """Each table is the server's at the place that its last commit names, and as old as it says."""
        lake = Lake(str(self.lake))
        state = lake.load()
        if state is None or self.eras or self.cut:
            return  # places of what is no more
        for name, one in state.tables.items():
            stage = one.again if one.stage == "paused" else one.stage
            if stage != "following" or one.place is None:
                continue
            reached = self._transactions_at(one.place)
            gtids = state.offsets[one.place].get("gtids")
            if gtids is not None and _last_of(gtids) != reached:
                raise Wrong(f"{name} has {reached} transactions, and says {gtids}")
            if one.as_of is not None:
                self._check_age(name, one.as_of, reached)
            place = lake.opened(one).applied(state.id)
            if place is None:
                raise Wrong(f"{name} is followed, and its table has no place")
            if place < max(one.exact_from, one.place):
                if place < one.place and self._states[self._transactions_at(place)].get(name) != self._states[
                    reached
                ].get(name):
                    raise Wrong(f"{name} is at {one.place}, and its table at {place}")
                continue
            there = self._states[self._transactions_at(place)].get(name)
            if there is not None and (wrong := _difference(Path(lake.table(one)), there)) is not None:
                raise Wrong(f"{name} at {place}, after {self._transactions_at(place)}: {wrong}")

    def _check_age(self, name: str, as_of: float, reached: int) -> None:
        clocks = any(step.what == "clock" for step in self.history.steps)
        for one, when, _ in self.committed:
            if not clocks and EPOCH + when < as_of and one.number > reached:
                raise Wrong(f"{name} has {reached} transactions, and says it has those before {when} s")

    @property
    def _states(self) -> list[State]:
        """After each transaction, by its number; a restored server may lack some for a while."""
        return [self._first, *(one.state for one, *_ in self.committed if isinstance(one, Executed))]

    def _transactions_at(self, place: int) -> int:
        """How many transactions a place in the archive has before it."""
        timeline = json.loads((self.lake / "_mirror/archive/timeline.json").read_text())
        segment = timeline["segments"][place >> 56]
        server = self.world.hosts[segment["server"]["address"].partition(":")[0]]
        number, offset = place >> 40 & 0xFFFF, place % (1 << 40)
        if server.kind.without_files:
            logs = sorted((self.lake / "_mirror/archive" / segment["folder"]).glob("stream.[0-9]*"))
            numbers = [_listed_in(logs[0])]
            for log in logs:
                if (its := int(log.suffix[1:])) <= number:
                    numbers += _numbers_in(log, offset if its == number else None)
            return max(numbers)
        log = self.lake / "_mirror/archive" / segment["folder"] / f"{server.name}-bin.{number:06d}"
        earlier = server.is_earlier(log.name, log.read_bytes())
        written = server.earlier if earlier else server.written
        before = 0 if earlier else server.restored_to  # in a backup, and in no log
        before += sum((int(one.file[-6:]), one.end) <= (number, offset) for one in written)
        return max(before, _last_of(segment["before"]))  # it has those of the other server again

    def _compare(self) -> None:
        """The lake's tables are the server's."""
        if self._asker.wrong is not None:
            raise Wrong(f"what was asked: {self._asker.wrong}") from self._asker.wrong
        if not self._asker.over:
            raise Wrong("who asked waits for an answer")
        if differ := [one for one in self._found if "rows differ" in one or "it has values" in one]:
            raise Wrong(f"the mirror says: {differ[0]}")
        assert self.writer.tables is not None
        if self.writer.tables.unknown:
            raise Wrong(f"a statement that nobody knows: {self.writer.tables.unknown[0]}")
        state = self.writer.tables.states[-1]
        told = {one.table: one for one in status(self.lake)}
        for name, stored in state.items():
            if name not in told or told[name].stage != "stopped":
                raise Wrong(f"{name} is {told.get(name)}")
            if (wrong := _difference(Path(told[name].uri), stored)) is not None:
                raise Wrong(f"{name}: {wrong}")
        waits = any(stored.prepared for stored in state.values())  # with locks on its tables
        if self.history.verifies and self.writer.up and not waits:
            self._verify(state)

    def _verify(self, state: State) -> None:
        """The mirror's own comparison agrees, and names a row that the lake has lost."""
        from deltalake import DeltaTable

        self.world.visits.clear()
        if wrong := [one for one in self._compared() if not one.agrees]:
            raise Wrong(f"verify: {wrong[0]}")
        name, stored = next(((name, one) for name, one in state.items() if one.rows), ("", None))
        if stored is None:
            return
        key = next(iter(stored.rows))
        where = " AND ".join(
            f"{column} = {value}" for column, value in zip(stored.shape.key, key, strict=True)
        )
        DeltaTable(str(self.lake / name)).delete(where)
        found = {one.table: one for one in self._compared()}
        if found.pop(name).agrees or not all(one.agrees for one in found.values()):
            raise Wrong(f"verify does not name {name} alone, which has lost {key}: {found}")

    def _compared(self) -> list[Compared]:
        with ExitStack() as patched:
            self._patch(patched)
            return verify(self.lake, runner=_Runner(), options={"world": self.world, **_OPTIONS})


def _events(data: bytes) -> Iterator[bytes]:
    at = 4
    while at + 19 <= len(data):
        length = int.from_bytes(data[at + 9 : at + 13], "little")
        yield data[at : at + length]
        at += length


def _numbers_in(path: Path, end: int | None = None) -> list[int]:
    """The numbers of the transactions that begin in a log of the archive's own."""
    events = _events(path.read_bytes()[:end])
    return [int.from_bytes(one[19:27], "little") for one in events if one[4] == MARIADB_GTID]


def _listed_in(path: Path) -> int:
    """The number of the last transaction before a log of the archive's own."""
    one = next(one for one in _events(path.read_bytes()) if one[4] == MARIADB_GTID_LIST)
    return int.from_bytes(one[31:39], "little") if one[19] else 0


def _last_of(gtids: str | None) -> int:
    """The last number of a set of GTIDs of one source."""
    return int(re.split("[-:]", gtids)[-1]) if gtids else 0


def _difference(path: Path, stored: Stored) -> str | None:
    """How a table in the lake differs from the server's; columns that were dropped are null in it."""
    import pyarrow as pa
    from deltalake import DeltaTable

    mine = pa.table(DeltaTable(str(path)).scan().read_all()).to_pylist()  # also with deletion vectors
    shape = stored.shape
    names = [name for name, _ in shape.columns]
    rows = {tuple(row[name] for name in shape.key): row for row in mine}
    if len(rows) != len(mine):
        return "a key is there twice"
    for key in rows.keys() ^ stored.rows.keys():
        return f"row {key} is " + ("lost" if key in stored.rows else "too much")
    for key, row in rows.items():
        due = stored.rows[key]
        if any(row[name] != due[name] for name in names):
            return f"row {key} is {row}, not {due}"
        if any(value is not None for name, value in row.items() if name not in names):
            return f"row {key} has {row} in columns that are gone"
    return None
