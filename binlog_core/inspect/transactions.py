"""The transactions in logs that change rows: where and when, by whom, how many rows, which statement."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, Literal, Unpack

import numpy as np
from numpy.typing import NDArray

from .._base.change_columns import DELETE, INSERT, POSTIMAGE, PREIMAGE
from .._base.redaction import shown_statement
from .._format.event_types import GTID_EVENTS, EventType
from .._format.statements import first_word
from ..batch.change_batch import OUTCOMES
from ..events import MariadbGtidEvent, QueryEvent, RowsQueryEvent
from ..events.query import query_text
from ..gtids import gtid_text
from ..log.opened import opened

if TYPE_CHECKING:
    from .._decode.group import Group
    from ..events import Event
    from ..log.log import Log
    from ..log.options import AnyTarget, OpenOptions

By = Literal["position", "bytes", "rows", "seconds"]

_STATEMENT_LEN = 400
_HEAD_LEN = 4096  # bytes at the beginning of a transaction, which have its thread and statement
_NEAR = 64 << 10  # bytes between two transactions that are read rather than left out
# First words of statements that begin, end or divide transactions.
FRAMES = frozenset((b"BEGIN", b"COMMIT", b"ROLLBACK", b"SAVEPOINT", b"RELEASE", b"XA", b""))
DETAIL_TYPES = GTID_EVENTS | {
    EventType.QUERY,
    EventType.MARIADB_QUERY_COMPRESSED,
    EventType.ROWS_QUERY,
    EventType.MARIADB_ANNOTATE_ROWS,
}


@dataclass(slots=True)
class Transaction:
    """One transaction that changes rows.

    Parameters
    ----------
    path : str
        The path of the file, or the name of the source.
    begin_position, end_position : int
        Where it begins and ends, in bytes; its end is 0 if the log ends before it.
    first_timestamp, last_timestamp : int
        When its first row was changed and when it was committed, as far as the log says; seconds since 1970
        UTC.
    gtid : str or None
        Its GTID as the server prints it; None if it has none.
    server_id : int
        The id of the server where it originated.
    xid : int
        The server's own number of it; 0 if it has none.
    rows : int
        Row images; an update has two.
    inserts, updates, deletes : int
        Rows inserted, updated and deleted.
    tables : dict of "database.table" to int
        Changed rows of each table.
    outcome : str
        One of ``OUTCOMES``.
    thread_id : int or None
        The connection's thread, if one of its events has it; MariaDB logs it from 11.8 on. `_thread_id` in
        conditions knows only what comes before the rows.
    user : str or None
        The user, if the log has it; it does only for some statements.
    statement : str or None
        The first of its statements whose text the log has (binlog_rows_query_log_events,
        binlog_annotate_row_events, or logged as a statement), without passwords and cut after 400
        characters.
    """

    path: str
    begin_position: int
    end_position: int
    first_timestamp: int
    last_timestamp: int
    gtid: str | None
    server_id: int
    xid: int
    rows: int
    inserts: int
    updates: int
    deletes: int
    tables: dict[str, int]
    outcome: str
    thread_id: int | None = None
    user: str | None = None
    statement: str | None = None

    @property
    def changes(self) -> int:
        """Changed rows."""
        return self.inserts + self.updates + self.deletes

    @property
    def bytes(self) -> int:
        """Its bytes in the log; 0 if its end is not known."""
        return max(0, self.end_position - self.begin_position)

    @property
    def seconds(self) -> int:
        """The time from its first change to its commit."""
        return max(0, self.last_timestamp - self.first_timestamp)

    def learn(self, event: Event) -> None:
        """Add what one of its events says."""
        match event:
            case MariadbGtidEvent():
                self.thread_id = event.thread_id or self.thread_id
            case QueryEvent():
                if self.thread_id is None:
                    self.thread_id = event.thread_id
                self.user = self.user or event.status.invoker_user or None
                if self.statement is None and first_word(event.query_bytes) not in FRAMES:
                    text = query_text(
                        event.query_bytes[: 4 * _STATEMENT_LEN], event.status.character_set_client
                    )
                    self.statement = _shown(text, event.status.sql_mode)
            case RowsQueryEvent() if self.statement is None:
                self.statement = _shown(event.query, None)


def transactions(
    log: AnyTarget,
    *,
    by: By = "position",
    most: int | None = None,
    details: bool = True,
    **options: Unpack[OpenOptions],
) -> Iterator[Transaction]:
    """The transactions of a log, or of several, that change rows.

    Parameters
    ----------
    log : Log, or what `binlog_core.open` takes
        The logs. If `details` is set they are read twice, so a pipe cannot be used. If it was opened with a
        selection (tables, conditions, GTIDs), only rows within it are counted.
    by : "position", "bytes", "rows" or "seconds"
        The order: that of the log, or the largest first by bytes in the log, by changed rows, or by the time
        from the first change to the commit.
    most : int or None
        The most transactions to give; None gives all. In log order, they are not kept in memory.
    details : bool
        Also find the user and the statement.
    **options
        Options for `binlog_core.open`.

    Yields
    ------
    Transaction

    Raises
    ------
    ValueError
        `by` is not one of those listed.
    BinlogError
        Reading the logs failed.
    """
    if by not in ("position", "bytes", "rows", "seconds"):
        raise ValueError(f"by={by!r}: expected position, bytes, rows or seconds")
    with opened(log, **options) as found:
        if by == "position":
            yield from _in_order(found, most, details=details)
            return
        best: list[Transaction] = []
        for one in found.each_file():
            mine: list[Transaction] = []
            for block in _blocks(one):
                mine = _largest((*mine, *map(block.transaction, block.top(by, most))), by, most)
            if details:
                describe(one, mine)
            best = _largest((*best, *mine), by, most)
        yield from best


def describe(log: Log, chosen: Iterable[Transaction]) -> None:
    """Add user and statement to some transactions of a log of one file."""
    heads = Heads(chosen)
    if len(heads):
        for event in log.events_between(heads.spans(), DETAIL_TYPES):
            heads.take(event)


class Heads:
    """The beginnings of some transactions of one file, which have the user and the statement.

    Parameters
    ----------
    chosen : iterable of Transaction
        The transactions, which learn from these events.
    """

    def __init__(self, chosen: Iterable[Transaction]) -> None:
        self._chosen = sorted(chosen, key=lambda one: one.begin_position)
        self._begins = np.array([one.begin_position for one in self._chosen], np.uint64)
        ends = [one.end_position or one.begin_position + _HEAD_LEN for one in self._chosen]
        self._ends = np.minimum(np.array(ends, np.uint64), self._begins + np.uint64(_HEAD_LEN))

    def __len__(self) -> int:
        return len(self._chosen)

    def spans(self) -> Iterator[tuple[int, int]]:
        """Ranges of events to read; neighbouring ones are joined."""
        apart = self._begins[1:] > np.maximum.accumulate(self._ends)[:-1] + np.uint64(_NEAR)
        edges = [0, *(np.flatnonzero(apart) + 1).tolist(), len(self)]
        for first, last in pairwise(edges):
            yield int(self._begins[first]), int(self._ends[first:last].max())

    def mask(self, headers: NDArray[np.void]) -> NDArray[np.bool_]:
        """Which of some events are in one of the ranges."""
        if not len(self):
            return np.zeros(len(headers), bool)
        at = np.searchsorted(self._begins, headers["position"], side="right")
        inside: NDArray[np.bool_] = (at > 0) & (headers["position"] < self._ends[np.maximum(at, 1) - 1])
        return inside

    def take(self, event: Event) -> bool:
        """Learn from an event if it is in one of the ranges; False if it is not."""
        i = int(np.searchsorted(self._begins, event.position, side="right")) - 1
        if i < 0 or event.position >= self._ends[i]:
            return False
        self._chosen[i].learn(event)
        return True


@dataclass(slots=True)
class Block:
    """Some transactions of one file that have ended, with what their rows show.

    Parameters
    ----------
    path : str
        The file.
    transactions : ndarray, shape (n,), TRANSACTION_DTYPE
        The transactions, in log order.
    images : ndarray of int, shape (n,)
        Row images.
    changes : ndarray of int, shape (n, 3)
        Inserts, updates, deletes.
    first : ndarray of uint32, shape (n,)
        When the first row was changed, in seconds since 1970 UTC.
    """

    path: str
    transactions: NDArray[np.void]
    images: NDArray[np.int64]
    changes: NDArray[np.int64]
    first: NDArray[np.uint32]
    _names: list[str]
    _counts: NDArray[np.int64]  # transaction, table, changed rows: by transaction
    _before: dict[str, int] = field(default_factory=dict)  # of the first transaction, in earlier groups

    def __len__(self) -> int:
        return len(self.transactions)

    def last(self) -> NDArray[np.int64]:
        """When they were committed, in whole seconds, like the time of the first change."""
        # Fractions of a second on one side only would add to the duration.
        commit = self.transactions["commit_time"]
        found: NDArray[np.int64] = np.where(commit >= 0, commit // 1_000_000, self.transactions["timestamp"])
        return found

    def sizes(self, by: str) -> NDArray[np.int64]:
        """The size of each: its changed rows, seconds from first change to commit, or bytes in the log."""
        found: NDArray[np.int64]
        if by == "rows":
            found = self.changes.sum(axis=1)
        elif by == "seconds":
            last = self.last()
            found = last - np.minimum(self.first, last)
        else:
            begin = self.transactions["begin_position"].astype(np.int64)
            found = np.maximum(self.transactions["end_position"].astype(np.int64) - begin, 0)
        return found

    def top(self, by: str, most: int | None) -> list[int]:
        """The indices of the largest ones, in no order."""
        there = np.flatnonzero(self.images)  # a condition may have left no row of one
        sizes = self.sizes(by)[there]
        count = len(sizes) if most is None else min(most, len(sizes))
        found: list[int] = there[np.argpartition(sizes, len(sizes) - count)[len(sizes) - count :]].tolist()
        return found if count else []

    def tables(self, i: int) -> dict[str, int]:
        """Changed rows by table of one transaction."""
        found = dict(self._before) if i == 0 else {}
        first, last = np.searchsorted(self._counts[:, 0], (i, i + 1)).tolist()
        for _, table, count in self._counts[first:last].tolist():
            found[self._names[table]] = found.get(self._names[table], 0) + count
        return found

    def transaction(self, i: int) -> Transaction:
        """One of them as a `Transaction`, without its user and statement."""
        record = self.transactions[i]
        last = int(self.last()[i])
        inserts, updates, deletes = self.changes[i].tolist()
        return Transaction(
            path=self.path,
            begin_position=int(record["begin_position"]),
            end_position=int(record["end_position"]),
            first_timestamp=min(int(self.first[i]), last),
            last_timestamp=last,
            gtid=gtid_text(record),
            server_id=int(record["server_id"]),
            xid=int(record["xid"]),
            rows=int(self.images[i]),
            inserts=inserts,
            updates=updates,
            deletes=deletes,
            tables=self.tables(i),
            outcome=OUTCOMES[record["outcome"]],
            thread_id=int(record["thread_id"]) or None,
        )


class Tallies:
    """Counts the contents of each transaction in the groups of one file.

    Parameters
    ----------
    path : str
        The file.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._open: Block | None = None  # the transaction in which the last group ended

    def add(self, group: Group) -> Iterator[Block]:
        """Yield the ended transactions of the next group: all except the last, if that continues."""
        found = group.transactions
        if not len(found):
            return
        block = _tally(self._path, group)
        if (held := self._open) is not None:
            self._open = None
            if held.transactions["begin_position"][0] == found["begin_position"][0]:
                block.images[0] += held.images[0]
                block.changes[0] += held.changes[0]
                block.first[0] = min(block.first[0], held.first[0])
                block._before = held.tables(0)
            else:
                yield held
        if not found["end_position"][-1]:
            self._open, block = _cut(block, len(found) - 1, None), _cut(block, 0, len(found) - 1)
        if len(block):
            yield block

    def finish(self) -> Iterator[Block]:
        """Yield the transaction that the log ends inside."""
        if self._open is not None:
            yield self._open


def _tally(path: str, group: Group) -> Block:
    found = group.transactions
    n = len(found)
    images = np.zeros(n, np.int64)
    changes = np.zeros((n, 3), np.int64)
    first = np.full(n, 0xFFFFFFFF, np.uint32)
    names = list(dict.fromkeys(batch.table.full_name for batch in group.batches))
    counts = np.zeros((0, 3), np.int64)
    if group.batches:
        numbers = {name: i for i, name in enumerate(names)}
        # For all tables together: there may be as many as transactions.
        image = np.concatenate([b.array["image"][["transaction", "timestamp", "op"]] for b in group.batches])
        table = np.repeat(
            [numbers[batch.table.full_name] for batch in group.batches], [len(b) for b in group.batches]
        )
        transaction, op = image["transaction"].astype(np.int64), image["op"]
        images = np.bincount(transaction, minlength=n)
        np.minimum.at(first, transaction, image["timestamp"])
        for k, code in enumerate((INSERT, POSTIMAGE, DELETE)):
            changes[:, k] = np.bincount(transaction[op == code], minlength=n)
        whole = op != PREIMAGE
        keys, sums = np.unique(transaction[whole] * len(names) + table[whole], return_counts=True)
        counts = np.stack([keys // len(names), keys % len(names), sums], axis=1)
    return Block(path, found, images, changes, first, names, counts)


def _cut(block: Block, start: int, stop: int | None) -> Block:
    counts = block._counts
    end = len(block) if stop is None else stop
    counts = counts[(counts[:, 0] >= start) & (counts[:, 0] < end)] - (start, 0, 0)
    part = slice(start, stop)
    return Block(
        block.path,
        block.transactions[part],
        block.images[part],
        block.changes[part],
        block.first[part],
        block._names,
        counts,
        {} if start else block._before,
    )


def _blocks(log: Log) -> Iterator[Block]:
    tallies = Tallies(log.files[0].name)
    for group in log.indexed_groups(columns={"*": ()}):
        yield from tallies.add(group)
    yield from tallies.finish()


def _places(log: Log) -> Iterator[tuple[Block, int, float]]:
    """The block of each transaction, its number there, and where the next one begins, if one does."""
    held: tuple[Block, int] | None = None
    for block in _blocks(log):
        for i in range(len(block)):
            if held is not None:
                yield *held, int(block.transactions["begin_position"][i])
            held = block, i
    if held is not None:
        yield *held, inf


def _in_order(log: Log, most: int | None, *, details: bool) -> Iterator[Transaction]:
    left = most
    for one in log.each_file():
        events = iter(one.events(DETAIL_TYPES)) if details else iter(())
        event = next(events, None)
        for block, i, behind in _places(one):
            if left == 0:
                return
            if not block.images[i]:
                continue
            found = block.transaction(i)
            while event is not None and event.position < (found.end_position or behind):
                if event.position >= found.begin_position:
                    found.learn(event)
                event = next(events, None)
            left = None if left is None else left - 1
            yield found


def _largest(found: Iterable[Transaction], by: str, most: int | None) -> list[Transaction]:
    def size(one: Transaction) -> int:
        return one.changes if by == "rows" else one.bytes if by == "bytes" else one.seconds

    return sorted(found, key=size, reverse=True) if most is None else heapq.nlargest(most, found, key=size)


def _shown(text: str, sql_mode: int | None) -> str:
    return " ".join(shown_statement(text[:_STATEMENT_LEN], sql_mode).split())
