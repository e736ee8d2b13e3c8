"""The contents of a log at a glance: events, tables, transactions, GTIDs and times.

`binlog_core.inspect.summarize.summarize` makes a summary.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._decode.gtid_selection import union
from ..gtids import AnyGtidSet
from .transactions import Transaction

if TYPE_CHECKING:
    from .._format.format_description import FormatDescription
    from .._sources.log_names import Gap
    from .._walk.track import Tail

TOP = 10  # largest and longest transactions that are kept
MOST_SERVERS = 10_000  # of a file, that are counted separately
MOST_TABLES = 65536  # likewise
OTHER_TABLES = "other tables"  # all further ones; the full name of a table has a dot
_MOST_BUCKETS = 2048
_MOST_BUCKETS_OF_ALL = 1 << 18

OPERATIONS = ("insert", "update", "delete")
# The fewest changed rows of each class of transactions.
SIZES = (1, 2, 10, 100, 1000, 10_000, 100_000, 1_000_000)


@dataclass(slots=True)
class TableSummary:
    """Changes of one table.

    Parameters
    ----------
    inserts, updates, deletes : int
        Rows inserted, updated and deleted.
    bytes : int
        Bytes of the rows events in the log; the bytes of a compressed transaction are divided among its
        tables by their row images.
    first_timestamp, last_timestamp : int
        The times of the first and the last change, in seconds since 1970 UTC.
    """

    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    bytes: int = 0
    first_timestamp: int = 0
    last_timestamp: int = 0

    @property
    def rows(self) -> int:
        """Changed rows, whatever the operation."""
        return self.inserts + self.updates + self.deletes

    def add(self, other: TableSummary) -> None:
        """Add the counts of another log."""
        self.first_timestamp = min(filter(None, (self.first_timestamp, other.first_timestamp)), default=0)
        self.last_timestamp = max(self.last_timestamp, other.last_timestamp)
        self.inserts += other.inserts
        self.updates += other.updates
        self.deletes += other.deletes
        self.bytes += other.bytes


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement in the log that is not the frame of a transaction.

    Parameters
    ----------
    path : str
        The log.
    position : int
        The position of its event, in bytes.
    timestamp : int
        When it was executed, in seconds since 1970 UTC.
    database : str
        The default database.
    text : str
        The beginning of the statement, without passwords.
    kind : "definition", "change" or "other"
        DDL, row changes logged as a statement, or anything else.
    """

    path: str
    position: int
    timestamp: int
    database: str
    text: str
    kind: str


class Activity:
    """Row changes over time, by table and operation; memory does not grow with the log.

    A bucket is 1 second wide; if there are too many buckets, they become twice as wide, and so on.
    """

    def __init__(self) -> None:
        self.width = 1
        self.counts: dict[tuple[str, str], Counter[int]] = {}
        self._buckets = 0

    def add(
        self,
        table: str,
        operation: str,
        timestamps: NDArray[np.uint32],
        amounts: NDArray[np.integer[Any]] | None = None,
    ) -> None:
        """Count changes by their times, or add up amounts such as bytes.

        Parameters
        ----------
        table, operation : str
            What to count them under.
        timestamps : ndarray, shape (n,), uint32
            Seconds since 1970 UTC.
        amounts : ndarray of int, shape (n,), or None
            What to add at each time; None counts each as 1.
        """
        moments, places = np.unique(timestamps // self.width, return_inverse=True)
        counts = np.bincount(places, amounts).astype(np.int64)
        bucket = self.counts.setdefault((table, operation), Counter())
        before = len(bucket)
        for moment, count in zip(moments.tolist(), counts.tolist(), strict=True):
            bucket[moment] += count
        self._buckets += len(bucket) - before
        if len(bucket) > _MOST_BUCKETS or self._too_many():
            self.widen(self.width * 2)

    def _too_many(self) -> bool:
        # Each table has at least one bucket, and widening must be worth its cost.
        return self._buckets > max(_MOST_BUCKETS_OF_ALL, 2 * len(self.counts))

    def widen(self, width: int) -> None:
        """Make the buckets `width` seconds wide, a multiple of their present width."""
        factor = width // self.width
        if factor == 1:
            return
        for key, old in self.counts.items():
            new: Counter[int] = Counter()
            for moment, count in old.items():
                new[moment // factor] += count
            self.counts[key] = new
        self.width = width
        self._buckets = sum(map(len, self.counts.values()))

    def merge(self, other: Activity) -> None:
        """Add the counts of another log."""
        width = max(self.width, other.width)
        self.widen(width)
        other.widen(width)
        for key, counts in other.counts.items():
            bucket = self.counts.setdefault(key, Counter())
            self._buckets -= len(bucket)
            bucket.update(counts)
            self._buckets += len(bucket)
        if self._too_many():
            self.widen(self.width * 2)

    def span(self) -> tuple[int, int]:
        """First and last bucket; (0, -1) if there are none."""
        moments = [moment for counts in self.counts.values() for moment in counts]
        return (min(moments), max(moments)) if moments else (0, -1)


@dataclass(slots=True)
class FileSummary:
    """The contents of one log.

    Parameters
    ----------
    path : str
        The path of the file, or the name of the source.
    format : FormatDescription
        The log's descriptor.
    size : int or None
        Its bytes, decrypted and decompressed; None if that is not known.
    end_position : int
        Where the last complete event ends, in bytes.
    tail : Tail or None
        Where and why the file ends inside an event.
    event_count : int
        The number of events, without those inside compressed transactions.
    events : dict of type name to (events, bytes)
        The same events by type.
    first_timestamp, last_timestamp : int
        The times of the first and the last event, in seconds since 1970 UTC.
    servers : Counter
        Events by server id, for the first 10,000 server ids.
    tables : dict of "database.table" to TableSummary
        The first 65536 tables; the rest are counted as "other tables".
    transactions : Counter
        Transactions that change rows, by outcome.
    largest, longest : list of Transaction
        The 10 largest by bytes, and those that took longest from the first change to the commit.
    gtids, gtids_before : GtidSet, MariadbGtidSet or None
        The GTIDs in this log, and those before it that this log lists.
    statement_count, definition_count : int
        The number of statements that changed rows, and of DDL statements; `statements` has the first ones.
    incidents : int
        How often the server says that events are missing.
    activity, traffic : Activity
        Changed rows over time, and bytes of events over time.
    hours : ndarray, shape (168,)
        Changed rows by hour of the week (UTC), from Monday.
    sizes : ndarray, shape (len(SIZES), 2)
        Transactions and their bytes, by the number of changed rows.
    compressed : bool
        Whether there are compressed transactions.
    """

    path: str
    format: FormatDescription
    size: int | None
    end_position: int = 0
    tail: Tail | None = None
    event_count: int = 0
    events: dict[str, tuple[int, int]] = field(default_factory=dict)
    servers: Counter[int] = field(default_factory=Counter)
    first_timestamp: int = 0
    last_timestamp: int = 0
    tables: dict[str, TableSummary] = field(default_factory=dict)
    transactions: Counter[str] = field(default_factory=Counter)
    largest: list[Transaction] = field(default_factory=list)
    longest: list[Transaction] = field(default_factory=list)
    gtids: AnyGtidSet | None = None
    gtids_before: AnyGtidSet | None = None
    statements: list[Statement] = field(default_factory=list)
    statement_count: int = 0
    definition_count: int = 0
    incidents: int = 0
    activity: Activity = field(default_factory=Activity)
    traffic: Activity = field(default_factory=Activity)
    hours: NDArray[np.int64] = field(default_factory=lambda: np.zeros(7 * 24, np.int64))
    sizes: NDArray[np.int64] = field(default_factory=lambda: np.zeros((len(SIZES), 2), np.int64))
    compressed: bool = False

    def counted_name(self, full_name: str) -> str:
        """The name under which a table is counted."""
        known = full_name in self.tables or len(self.tables) < MOST_TABLES
        return full_name if known else OTHER_TABLES


@dataclass(slots=True)
class LogSummary:
    """The contents of several logs together.

    Parameters
    ----------
    files : list of FileSummary
        The summary of each log.
    gaps : tuple of Gap
        The numbers missing between the logs.
    """

    files: list[FileSummary]
    gaps: tuple[Gap, ...] = ()

    def tables(self) -> dict[str, TableSummary]:
        """The tables of all logs, the most changed one first."""
        total: dict[str, TableSummary] = {}
        for file in self.files:
            for name, table in file.tables.items():
                total.setdefault(name, TableSummary()).add(table)
        return dict(sorted(total.items(), key=lambda item: (-item[1].rows, item[0])))

    def events(self) -> dict[str, tuple[int, int]]:
        """Events and bytes by type, the type with the most bytes first."""
        total: dict[str, tuple[int, int]] = {}
        for file in self.files:
            for name, (count, size) in file.events.items():
                before = total.get(name, (0, 0))
                total[name] = before[0] + count, before[1] + size
        return dict(sorted(total.items(), key=lambda item: -item[1][1]))

    def transactions(self) -> Counter[str]:
        """Transactions that change rows, by outcome."""
        return sum((file.transactions for file in self.files), Counter())

    def largest(self) -> list[Transaction]:
        """The largest transactions by bytes."""
        return largest(transaction for file in self.files for transaction in file.largest)

    def longest(self) -> list[Transaction]:
        """The transactions that took longest from the first change to the commit, and at least a second."""
        return longest(transaction for file in self.files for transaction in file.longest)

    def gtids(self) -> AnyGtidSet | None:
        """The GTIDs of all logs; None if there are none."""
        # In pairs: one after the other, each file would copy the set of all before it.
        sets = [file.gtids for file in self.files]
        while len(sets) > 1:
            sets = [union(a, b) for a, b in zip_longest(sets[::2], sets[1::2])]
        return sets[0] if sets else None

    def statements(self) -> list[Statement]:
        """Statements that are not the frame of a transaction, in log order."""
        return [statement for file in self.files for statement in file.statements]

    def activity(self) -> Activity:
        """Row changes over time."""
        return _merged(file.activity for file in self.files)

    def traffic(self) -> Activity:
        """Bytes of events over time, under the table "" and the operation ""."""
        return _merged(file.traffic for file in self.files)

    def hours(self) -> NDArray[np.int64]:
        """Changed rows by hour of the week (UTC), from Monday; shape (168,)."""
        return sum((file.hours for file in self.files), np.zeros(7 * 24, np.int64))

    def sizes(self) -> NDArray[np.int64]:
        """Transactions and their bytes by the number of changed rows, as in SIZES."""
        return sum((file.sizes for file in self.files), np.zeros((len(SIZES), 2), np.int64))


def _merged(parts: Iterable[Activity]) -> Activity:
    total = Activity()
    for one in parts:
        total.merge(one)
    return total


def largest(transactions: Iterable[Transaction]) -> list[Transaction]:
    """The `TOP` largest transactions by bytes."""
    return heapq.nlargest(TOP, transactions, key=lambda transaction: transaction.bytes)


def longest(transactions: Iterable[Transaction]) -> list[Transaction]:
    """The `TOP` longest transactions, of those that took a second or more."""
    slow = (transaction for transaction in transactions if transaction.seconds >= 1)
    return heapq.nlargest(TOP, slow, key=lambda transaction: transaction.seconds)
