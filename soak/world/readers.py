"""Histories of a reader: where it starts, what happens to it and its servers, and what it must have seen."""

from __future__ import annotations

import datetime as dt
import tempfile
import warnings
from collections.abc import Collection, Sequence
from contextlib import closing
from dataclasses import dataclass, fields, replace
from pathlib import Path
from random import Random
from typing import Any

import binlog_core
from binlog_core import GtidSet, MariadbGtidSet, Position
from binlog_core.errors import (
    BinlogError,
    DivergedError,
    PositionError,
    PurgedError,
    ServerError,
    UnreachableError,
)
from binlog_core.gtids import parse_gtid_set

from .history import History, Play, Step, Wrong, history_of, some_restored, some_without_files
from .model import OPS, Transaction
from .server import EPOCH, UUIDS, Kind

STARTS = ("none", "now", "place", "position", "gtids", "time")
_MOVED = 3  # beside the numbers of `OPS`: an update of the key
_OUTCOMES = {"rollback": 2, "prepare": 3}
_GROUP_ROWS = (1, 3, 50, 65536)


@dataclass(frozen=True)
class Reader(History):
    """A history of `binlog_core.open`.

    Parameters
    ----------
    start : str
        One of `STARTS`.
    follow : bool
    group_rows : int
        Small groups end inside transactions.
    resumes : tuple of (int, str)
        After how many groups the reader is ended and opened again at its last position: on the "server", or
        on "files", copies of its logs, of which the rest is read first.
    """

    start: str
    follow: bool
    group_rows: int
    resumes: tuple[tuple[int, str], ...]

    def run(self) -> None:
        """Let it happen.

        Raises
        ------
        Wrong, Hang
            The reader is wrong.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _Run(self).read()


def reader(seed: int) -> Reader:
    """The history of a seed."""
    chance = Random(seed)
    servers = some_without_files(history_of(seed, chance, purges=True), seed)
    apart = Random(f"reset {seed}")  # histories of before keep their seeds
    if servers.hosts == 1 and apart.random() < 0.1 and not servers.kind.without_files:
        reset = Step(apart.uniform(0.0, servers.opened + 60), "reset")
        servers = replace(servers, steps=tuple(sorted((*servers.steps, reset), key=lambda step: step.at)))
    start = chance.choice([one for one in STARTS if _is_known(one, servers.kind)])
    if start != "time":  # what is replicated again is logged in another second
        servers = some_restored(servers, seed)
    return Reader(
        **{one.name: getattr(servers, one.name) for one in fields(servers)},
        start=start,
        follow=chance.random() < 0.7,
        group_rows=chance.choice(_GROUP_ROWS),
        resumes=tuple(
            (chance.choice((1, 2, 5)), chance.choice(("server", "server", "files")))
            for _ in range(chance.choice((0, 0, 1, 4)))
        ),
    )


def _is_known(start: str, kind: Kind) -> bool:
    """Whether a server of this kind can be asked to begin so."""
    if kind.without_files:
        return start not in ("place", "position")
    return kind.gtids or start != "gtids"


class _Run(Play):
    """One history, as it happens."""

    def __init__(self, history: Reader) -> None:
        super().__init__(history)
        self.history = history
        # A time names a place in a log only while the server's clock goes forward.
        self.clocks_go_back = history.start != "time"

    def read(self) -> None:
        """Read, and compare with what was committed.

        Raises
        ------
        Wrong
            They differ, or an error comes that nothing of this history justifies.
        """
        history, world = self.history, self.world
        world.let(lambda: False, history.opened)
        start = self._start()
        if start is _NOTHING:
            return
        self._expect(start)
        got: list[tuple[int, int, int]] = []
        try:
            self._follow(start, got)
        except (BinlogError, OSError) as error:
            if not self._deserves(error, got):
                raise Wrong(f"{type(error).__name__}: {error}") from error
            complete = False
        else:
            complete = True
        if not complete or not history.follow:  # read before the crash that lost them
            got = [one for one in got if one[0] not in self.lost]
        if self._is_reset and complete and history.follow and any(one.changes for one, *_ in self.committed):
            raise Wrong("a RESET was not noticed")
        self._compare(got, complete=complete and not self._is_reset)

    def _follow(self, start: Any, got: list[tuple[int, int, int]]) -> None:
        resumes = [*self.history.resumes, (0, "server")]
        for groups, place in resumes:
            options = {"world": self.world, "heartbeat": 5.0, "reconnect": 300.0, "ssl_mode": "DISABLED"}
            with closing(self._open(self.url, start, follow=self.history.follow, server=options)) as log:
                if self.history.follow:
                    self.world.after(max(0.0, self.end - self.world.now()), log.stop)
                start = self._take(log, start, got, groups)
            if not isinstance(start, Position) or self.world.now() >= self.end:
                return
            if not got and self._resumed is None:
                self._resumed = self._first_at(start)
            if place == "files" and not self.restored and self.writer.has(start.file):
                with tempfile.TemporaryDirectory(prefix="world-") as folder:
                    for name, one in self.writer.logs.items():
                        Path(folder, name).write_bytes(one.getvalue())
                    with closing(self._open(folder, start)) as log:
                        start = self._take(log, start, got, 0)

    def _open(self, target: str, start: Any, **options: Any) -> binlog_core.Log:
        self._started, self._connections = start, self.world.connections
        limits = binlog_core.Limits(group_rows=self.history.group_rows)
        return binlog_core.open(target, start=start, limits=limits, **options)

    def _take(self, log: binlog_core.Log, start: Any, got: list[tuple[int, int, int]], most: int) -> Any:
        """Take so many groups, 0 for all; where to go on."""
        for number, group in enumerate(log.groups(), 1):
            got += numbers(group)
            start = Position.parse(str(group.position))
            if number == most:
                break
        return start

    # ------------------------------------------------------------ the judge

    def _start(self) -> Any:
        """What the reader is given as start=."""
        history, server = self.history, self.writer
        chance = Random(history.seed + 1)
        here = [one for one in server.written if server.has(one.file)]
        if history.start == "none":
            return None
        if history.start == "now":
            return "now"
        if history.start == "time":
            second = chance.choice(here).second if here else EPOCH
            self.since = second + chance.choice((0, 0, 1))
            return dt.datetime.fromtimestamp(self.since, dt.UTC)
        if not here:
            return _NOTHING
        at = chance.choice(here)
        self.start_after = at.transaction.number - 1
        if history.start == "gtids":
            if not self.start_after:
                return MariadbGtidSet() if history.kind.mariadb else GtidSet()
            return parse_gtid_set(self._set(self.start_after))
        if history.start == "place":
            return (at.file, at.start)
        return Position(
            at.file,
            at.start,
            parse_gtid_set(self._set(self.start_after)) if history.kind.gtids and self.start_after else None,
            None if history.kind.mariadb else server.uuid,
        )

    def _set(self, last: int) -> str:
        return f"0-1-{last}" if self.history.kind.mariadb else f"{UUIDS[0]}:1-{last}"

    def _expect(self, start: Any) -> None:
        """Note, before the reader is opened, where it may begin and up to where it must come."""
        self._done, self._era = len(self.committed), len(self.eras)
        if start is None or isinstance(start, dt.datetime):
            hosts = self.world.hosts.values()
            self._firsts = {one.state(next(iter(one.logs))) + 1 for one in hosts}
        elif start != "now":
            self._firsts = {self.start_after + 1}

    def _may_begin_with(self) -> Collection[int]:
        """The transactions with which the reader may begin."""
        if self.history.start != "now":
            if (self.purged or self.restored) and self.history.start in (
                "none",
                "time",
            ):  # maybe before the reader asked
                logs = {one.state(name) + 1 for one in self.world.hosts.values() for name in one.logs}
                return {*self._firsts, *logs}
            return self._firsts
        late = (one.number for one, when, _ in self._read_from if when > self.history.opened + 60)
        end = next(late, None) if self.history.follow else None
        return range(self._done + 1, (len(self._read_from) + 1 if end is None else end) + 1)

    @property
    def _read_from(self) -> list[tuple[Transaction, float, int]]:
        """What was committed between the RESETs before and after the beginning."""
        return [*self.eras, self.committed][self._era]

    @property
    def _is_reset(self) -> bool:
        """Whether a RESET came after the beginning."""
        return len(self.eras) > self._era

    _firsts: Collection[int] = ()
    _done = _era = 0
    start_after = 0
    since = 0
    _resumed: int | None = None  # the first transaction from there on, if no change had come until then
    _started: Any = None
    _connections = 0

    @property
    def _early(self) -> set[int]:
        """Transactions of the seconds before start=; a reader that goes on at a position knows no time."""
        return {
            one.number
            for one, _, second in self._read_from
            if second < self.since and (self._resumed is None or one.number < self._resumed)
        }

    def _first_at(self, place: Position) -> int:
        """The number of the first transaction at a place or after it."""
        if self.history.kind.without_files:
            return 1 + max((int(str(one).split("-")[2]) for one in place.gtids or ()), default=0)
        server = next(one for one in self.world.hosts.values() if place.file.startswith(f"{one.name}-"))
        later = (one for one in server.written if (one.file, one.start) >= (place.file, place.offset))
        first = next(later, None)
        return first.transaction.number if first is not None else server.last + 1

    def _compare(self, got: Sequence[tuple[int, int, int]], *, complete: bool) -> None:
        """Check that the reader got each change once and in order, from where it may begin."""
        early = self._early
        every = [
            (
                change.number,
                _MOVED if change.moves else OPS.index(change.op),
                _OUTCOMES.get(transaction.way, 1),
                transaction.number,
            )
            for transaction, *_ in self._read_from
            for change in transaction.changes
            if transaction.number not in early
        ]
        wrong = None
        for first in self._may_begin_with():
            wanted = [one for one in every if one[3] >= first]
            needed = sum(self.history.follow or number <= self._done for *_, number in wanted) * complete
            at = next(
                (i for i, one in enumerate(got) if i >= len(wanted) or not _same(one, wanted[i])),
                None if len(got) >= needed else len(got),
            )
            if at is None:
                return
            due, its = wanted[at : at + 1], list(got[at : at + 1])
            wrong = Wrong(
                f"change {at} of {len(got)} is {its}, not {due} ({needed} of {len(wanted)} are needed)"
            )
        if self._is_reset:  # it had not begun before
            self._era, self._done = len(self.eras), 0
            self._firsts = range(1, len(self.committed) + 2)
            self._compare(got, complete=False)
        elif wrong is not None:
            raise wrong

    def _deserves(self, error: Exception, got: Sequence[tuple[int, int, int]]) -> bool:
        """Whether the history justifies an error."""
        start, mine = self._started, self.world.connections - self._connections
        if isinstance(error, UnreachableError):
            # Nothing answered when it was opened, or nothing came: that looks like a wrong address.
            return not mine or (mine == 1 and "timed out" in str(error))
        if self.cut or self._is_reset:
            return (
                isinstance(error, PositionError | DivergedError | PurgedError) or type(error) is ServerError
            )
        if self.purged and isinstance(error, PurgedError | PositionError):
            return True
        if self.restored and (self.history.kind.mariadb or not self.history.kind.gtids):
            # Without its UUID nothing tells a server that was restored from one that lost transactions.
            return isinstance(error, DivergedError | PurgedError | PositionError)
        if self.restored and isinstance(error, PurgedError) and self._lacks_backed_up(got):
            return True
        # A place without GTIDs is one of one host.
        placed = isinstance(start, tuple) or (isinstance(start, Position) and start.gtids is None)
        return (
            placed
            and (self.history.hosts > 1 or self.restored)
            and isinstance(error, DivergedError | PurgedError | PositionError)
        )

    def _lacks_backed_up(self, got: Sequence[tuple[int, int, int]]) -> bool:
        """Whether changes were not read yet that the backup has, and no log of the restored server."""
        backed_up = [
            change.number
            for transaction, *_ in self._read_from
            for change in transaction.changes
            if min(self._firsts, default=self._done + 1) <= transaction.number <= self.writer.restored_to
        ]
        return bool(backed_up) and (not got or got[-1][0] < backed_up[-1])


_NOTHING: Any = object()


def _same(one: tuple[int, int, int], due: tuple[int, int, int, int]) -> bool:
    return one[:2] == due[:2] and one[2] in (0, due[2])


def numbers(group: Any) -> list[tuple[int, int, int]]:
    """(number, op, outcome) of a group's changes, in log order; outcome 0: the transaction goes on."""
    found = []
    for batch in group.batches:
        image = batch.array["image"]
        values = batch.array["row"]["n" if "n" in batch.array["row"].dtype.names else "c0"].tolist()
        outcomes = batch.transactions["outcome"][image["transaction"]].tolist()
        places = zip(image["position"].tolist(), image["row"].tolist(), strict=True)
        before = None
        for place, op, value, outcome in zip(places, image["op"].tolist(), values, outcomes, strict=True):
            if op == 2:  # the image before an update
                before = value
            else:
                moved = op == 3 and value != before
                found.append((place, value, _MOVED if moved else {1: 0, 3: 1, 4: 2}[op], outcome))
    found.sort()
    return [one[1:] for one in found]
