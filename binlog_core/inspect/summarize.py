"""Makes the summary of a log, in three passes that decode no values.

The first reads the headers, which have the lengths of the events, and verifies checksums. The second runs
the compiled loop over the rows without any column. The last parses the few events outside of transactions
with rows. So a summary costs little more than a checksum of the file, and keeps no event in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Unpack

import numpy as np
from numpy.typing import NDArray

from .._base.change_columns import DELETE, INSERT, POSTIMAGE, PREIMAGE
from .._base.redaction import shown_statement
from .._format.event_types import EventType, event_name
from .._format.statements import changes_rows, first_word, may_change_definitions
from ..batch.change_batch import OUTCOMES
from ..events import (
    GtidEvent,
    IncidentEvent,
    MariadbGtidEvent,
    MariadbGtidListEvent,
    PreviousGtidsEvent,
    QueryEvent,
)
from ..events.query import query_text
from ..gtids import AnyGtidSet, GtidSet, MariadbGtidSet, uuid_text
from ..log.opened import in_all_threads, opened
from .summary import (
    MOST_SERVERS,
    SIZES,
    TOP,
    FileSummary,
    LogSummary,
    Statement,
    TableSummary,
    largest,
    longest,
)
from .transactions import DETAIL_TYPES, FRAMES, Block, Heads, Tallies

if TYPE_CHECKING:
    from ..batch.change_batch import ChangeBatch
    from ..log.log import Log
    from ..log.options import AnyTarget, OpenOptions

Progress = Callable[[str, int], None]  # path, position

_MOST_STATEMENTS = 2000  # kept of each log; all are counted
_STATEMENT_LEN = 400
_MOST_SPANS = 1 << 22  # of transactions with rows; events in further ones are parsed, at worst in vain
_MERGE_AT = 4096  # intervals of GTIDs
_FIRST_HOUR = 3 * 24  # of the week: 1970 began on a Thursday
_PARSED_TYPES = frozenset(
    (
        EventType.GTID,
        EventType.GTID_TAGGED,
        EventType.MARIADB_GTID,
        EventType.QUERY,
        EventType.MARIADB_QUERY_COMPRESSED,
        EventType.PREVIOUS_GTIDS,
        EventType.MARIADB_GTID_LIST,
        EventType.INCIDENT,
    )
)
_OPERATIONS = {"insert": INSERT, "update": POSTIMAGE, "delete": DELETE}  # the image that counts the row
_GTID_FIELDS = ["gtid_kind", "uuid", "tag", "domain_id", "server_id"]


def summarize(log: AnyTarget, progress: Progress | None = None, **options: Unpack[OpenOptions]) -> LogSummary:
    """Summarize a log, or several.

    Parameters
    ----------
    log : Log, or what `binlog_core.open` takes
        The logs. If it was opened with a selection of tables, operations or GTIDs, that applies to rows; its
        range and `server_id` apply to events too.
    progress : callable of (path, position), optional
        Called from time to time with the position reached in a file, in bytes.
    **options
        Options for `binlog_core.open`; all processors are used unless ``threads=`` says otherwise.

    Returns
    -------
    LogSummary

    Raises
    ------
    BinlogError
        Reading the log failed.
    """
    with opened(log, **in_all_threads(log, options)) as found:
        files = [_Summarizer(one, progress).run() for one in found.each_file()]
        return LogSummary(files, found.files.gaps)


class _Summarizer:
    """Gathers the summary of one file."""

    def __init__(self, log: Log, progress: Progress | None) -> None:
        self.log = log
        self.progress = progress
        self.out = FileSummary(log.files[0].name, log.format, log.size)
        self.gtids = _Gtids()
        self.spans = _Spans()  # of transactions with rows
        self.decoded = 0  # position up to which rows were counted
        self.tallies = Tallies(self.out.path)

    def run(self) -> FileSummary:
        self._rows()
        self._statements()
        self.out.gtids = self.gtids.as_set()
        return self.out

    # ------------------------------------------------------------ headers

    def _headers(self) -> Iterator[tuple[NDArray[np.uint64], NDArray[np.uint32]]]:
        """Count all headers, and yield the positions and lengths of some at a time."""
        out = self.out
        counts, sizes = np.zeros(256, np.int64), np.zeros(256, np.int64)
        for headers in self.log.header_chunks():
            kinds = headers["type_code"]
            counts += np.bincount(kinds, minlength=256)
            sizes += np.bincount(kinds, weights=headers["event_length"], minlength=256).astype(np.int64)
            servers, of_each = np.unique(headers["server_id"], return_counts=True)
            for server, count in zip(servers.tolist(), of_each.tolist(), strict=True):
                if server in out.servers or len(out.servers) < MOST_SERVERS:
                    out.servers[server] += count
            times = headers["timestamp"][headers["timestamp"] > 0]  # 0: an artificial event
            if len(times):
                first = int(times.min())
                out.first_timestamp = min(out.first_timestamp or first, first)
                out.last_timestamp = max(out.last_timestamp, int(times.max()))
                out.traffic.add("", "", times, headers["event_length"][headers["timestamp"] > 0])
            out.end_position = int(headers["position"][-1]) + int(headers["event_length"][-1])
            self._show_progress()
            yield headers["position"].copy(), headers["event_length"].copy()
        out.event_count = int(counts.sum())
        out.compressed = bool(counts[EventType.TRANSACTION_PAYLOAD])
        for code in np.flatnonzero(counts).tolist():
            name = event_name(code)
            if name == "Unknown":
                name = f"type {code}"
            count, size = out.events.get(name, (0, 0))
            out.events[name] = count + int(counts[code]), size + int(sizes[code])

    def _show_progress(self) -> None:
        if self.progress is not None:
            self.progress(self.out.path, (self.out.end_position + self.decoded) // 2)

    # ------------------------------------------------------------ rows

    def _rows(self) -> None:
        headers = self._headers()
        sizes = _Bytes(headers)
        groups = self.log.groups(columns={"*": ()})
        for group in groups:
            for batch in group.batches:
                self._table(batch)
            sizes.add(group.batches)
            for block in self.tallies.add(group):
                self._count(block)
            self.decoded = group.end_position
            self._show_progress()
        sizes.finish()
        for _ in headers:
            pass
        for name, size in sizes.by_table.items():
            self.out.tables[self.out.counted_name(name)].bytes += size
        for block in self.tallies.finish():
            self._count(block)
        self.out.tail = groups.tail

    def _table(self, batch: ChangeBatch) -> None:
        name, image = self.out.counted_name(batch.table.full_name), batch.array["image"]
        for operation, op in _OPERATIONS.items():
            moments = image["timestamp"][image["op"] == op]
            if len(moments):
                self.out.activity.add(name, operation, moments)
        hours = image["timestamp"][image["op"] != PREIMAGE] // 3600 + _FIRST_HOUR
        self.out.hours += np.bincount(hours % (7 * 24), minlength=7 * 24)
        counts = np.bincount(image["op"], minlength=5)
        seen = TableSummary(
            inserts=int(counts[1]),
            updates=int(counts[3]),
            deletes=int(counts[4]),
            first_timestamp=int(image["timestamp"].min()),
            last_timestamp=int(image["timestamp"].max()),
        )
        self.out.tables.setdefault(name, TableSummary()).add(seen)

    # ------------------------------------------------------------ transactions

    def _count(self, block: Block) -> None:
        """Count transactions that are complete (or will never be)."""
        out = self.out
        outcomes = np.bincount(block.transactions["outcome"][block.images > 0], minlength=len(OUTCOMES))
        for outcome, count in enumerate(outcomes.tolist()):
            if count:
                out.transactions[OUTCOMES[outcome]] += count
        begin, end = block.transactions["begin_position"], block.transactions["end_position"]
        ends = np.where(end > 0, end, np.maximum(begin, np.uint64(out.end_position)))
        self.spans.add(begin, ends)
        self.gtids.add(block.transactions)
        sizes = np.searchsorted(SIZES, block.sizes("rows"), side="right") - 1
        known = sizes >= 0
        for i, amounts in enumerate((None, block.sizes("bytes")[known])):
            counted = np.bincount(sizes[known], amounts, minlength=len(SIZES))
            out.sizes[:, i] += counted.astype(np.int64)
        out.largest = largest((*out.largest, *map(block.transaction, block.top("bytes", TOP))))
        out.longest = longest((*out.longest, *map(block.transaction, block.top("seconds", TOP))))

    # ------------------------------------------------------------ the rest

    def _statements(self) -> None:
        out = self.out
        begins, ends = self.spans.sorted()
        known = {one.begin_position: one for one in out.largest}
        out.longest = [known.setdefault(one.begin_position, one) for one in out.longest]
        heads = Heads(known.values())

        def outside(headers: NDArray[np.void]) -> NDArray[np.bool_]:
            # Transactions with rows are already counted.
            at = np.searchsorted(begins, headers["position"], side="right")
            inside: NDArray[np.bool_] = (at > 0) & (headers["position"] < ends[np.maximum(at, 1) - 1])
            return ~inside | heads.mask(headers)

        for event in self.log.events(_PARSED_TYPES | DETAIL_TYPES, where=outside):
            if heads.take(event):
                continue
            match event:
                case QueryEvent():
                    self._statement(event)
                case GtidEvent() if event.gno:
                    self.gtids.add_mysql((event.uuid, event.tag), (event.gno, event.gno))
                case MariadbGtidEvent():
                    self.gtids.add_mariadb((event.domain_id, event.server_id), (event.seq_no, event.seq_no))
                case PreviousGtidsEvent():
                    out.gtids_before = event.gtid_set
                case MariadbGtidListEvent():
                    out.gtids_before = MariadbGtidSet(
                        ((g.domain_id, g.server_id), (g.seq_no, g.seq_no)) for g in event.gtids
                    )
                case IncidentEvent():
                    out.incidents += 1

    def _statement(self, event: QueryEvent) -> None:
        out = self.out
        kind = "other"
        if changes_rows(event.query_bytes):
            kind = "change"
            out.statement_count += 1
        elif may_change_definitions(event.query_bytes):
            kind = "definition"
            out.definition_count += 1
        elif first_word(event.query_bytes) in FRAMES:
            return
        if len(out.statements) < _MOST_STATEMENTS:
            # Only the part of a large statement that is kept is decoded.
            query = query_text(event.query_bytes[: 4 * _STATEMENT_LEN], event.status.character_set_client)
            text = " ".join(shown_statement(query[:_STATEMENT_LEN], event.status.sql_mode).split())
            out.statements.append(
                Statement(out.path, event.position, event.timestamp, event.database, text, kind)
            )


class _Gtids:
    """Gathers intervals of GTIDs."""

    def __init__(self) -> None:
        self._mysql: list[tuple[tuple[str, str], tuple[int, int]]] = []
        self._mariadb: list[tuple[tuple[int, int], tuple[int, int]]] = []
        self._merge_at = _MERGE_AT

    def add_mysql(self, source: tuple[str, str], interval: tuple[int, int]) -> None:
        """Add an interval (first and last number) of a source (UUID and tag)."""
        self._mysql.append((source, interval))
        if len(self._mysql) >= self._merge_at:
            self._mysql = list(GtidSet(self._mysql).intervals())
            self._merge_at = 2 * len(self._mysql) + _MERGE_AT

    def add_mariadb(self, source: tuple[int, int], interval: tuple[int, int]) -> None:
        """Add an interval (first and last number) of a source (domain and server)."""
        self._mariadb.append((source, interval))
        if len(self._mariadb) >= self._merge_at:
            self._mariadb = list(MariadbGtidSet(self._mariadb).intervals())
            self._merge_at = 2 * len(self._mariadb) + _MERGE_AT

    def add(self, transactions: NDArray[np.void]) -> None:
        """Add the GTIDs of transactions; consecutive numbers become one interval."""
        named = transactions[transactions["gtid_kind"] > 0]
        if not len(named):
            return
        numbers = named["sequence_number"].astype(np.int64)
        same = np.ones(len(named) - 1, bool)
        for name in _GTID_FIELDS:
            equal = named[name][1:] == named[name][:-1]
            same &= equal.all(axis=1) if equal.ndim > 1 else equal
        runs = np.flatnonzero(~same | (np.diff(numbers) != 1)) + 1
        starts = np.concatenate([[0], runs])
        stops = np.concatenate([runs, [len(named)]]) - 1
        for i, j in zip(starts.tolist(), stops.tolist(), strict=True):
            interval = int(numbers[i]), int(numbers[j])
            one = named[i]
            if one["gtid_kind"] == 1:
                tag = one["tag"].decode("ascii", "replace")
                self.add_mysql((uuid_text(one["uuid"].tobytes()), tag), interval)
            else:
                self.add_mariadb((int(one["domain_id"]), int(one["server_id"])), interval)

    def as_set(self) -> AnyGtidSet | None:
        """The set of all; None if there are none."""
        if self._mysql:
            return GtidSet(self._mysql)
        return MariadbGtidSet(self._mariadb) if self._mariadb else None


class _Bytes:
    """Bytes of the rows events by table.

    All rows of a compressed transaction have the position of its event, whose bytes are divided among the
    tables by their row images. Rows of an event may be in several groups: the last event waits for the next
    group.

    Parameters
    ----------
    headers : iterator of (positions, lengths)
        Positions and lengths of all events in the file, in order; read as far as rows have come.
    """

    def __init__(self, headers: Iterator[tuple[NDArray[np.uint64], NDArray[np.uint32]]]) -> None:
        self._headers = headers
        self._positions, self._lengths = np.empty(0, np.uint64), np.empty(0, np.uint32)
        self.by_table: dict[str, int] = {}
        self._waiting: dict[str, tuple[NDArray[np.uint64], NDArray[np.int64]]] = {}

    def add(self, batches: list[ChangeBatch]) -> None:
        """Add the events of a group."""
        found = dict(self._waiting)
        last = np.uint64(0)
        for batch in batches:
            name = batch.table.full_name
            at, images = np.unique(batch.array["image"]["position"], return_counts=True)
            if name in found:
                at = np.concatenate([found[name][0], at])
                images = np.concatenate([found[name][1], images])
            found[name] = at, images
            last = max(last, at[-1])
        # Only tables of the last event: otherwise each group would look at all tables so far.
        self._waiting = {
            name: (at[at == last], n[at == last]) for name, (at, n) in found.items() if at[-1] == last
        }
        self._share({name: (at[at < last], n[at < last]) for name, (at, n) in found.items()})

    def finish(self) -> None:
        """Count what is waiting."""
        self._share(self._waiting)
        self._waiting = {}

    def _share(self, found: dict[str, tuple[NDArray[np.uint64], NDArray[np.int64]]]) -> None:
        parts = [at for at, _ in found.values()]
        if not parts or not sum(map(len, parts)):
            return
        every, place = np.unique(np.concatenate(parts), return_inverse=True)
        images = np.bincount(place, weights=np.concatenate([n for _, n in found.values()]))
        per_image = self._lengths_at(every) / images
        for name, (at, n) in found.items():
            size = round(float((per_image[np.searchsorted(every, at)] * n).sum()))
            self.by_table[name] = self.by_table.get(name, 0) + size

    def _lengths_at(self, every: NDArray[np.uint64]) -> NDArray[np.uint32]:
        """Lengths of the events at some positions, in order; later calls ask for later positions only."""
        lengths = np.zeros(len(every), np.uint32)
        done = 0
        while done < len(every):
            known = self._positions
            here = int(np.searchsorted(every, known[-1], side="right")) if len(known) else done
            if here > done:
                lengths[done:here] = self._lengths[np.searchsorted(known, every[done:here])]
                done = here
            elif (following := next(self._headers, None)) is not None:
                self._positions, self._lengths = following
            else:
                break
        return lengths


class _Spans:
    """Ranges of positions, adjacent ones joined; only a limited number is kept."""

    def __init__(self) -> None:
        self._kept: list[NDArray[np.uint64]] = []
        self._count = 0
        self._last = np.zeros((0, 2), np.uint64)  # may continue

    def add(self, begins: NDArray[np.uint64], ends: NDArray[np.uint64]) -> None:
        """Add ranges that come after the earlier ones."""
        spans = np.concatenate([self._last, np.stack([begins, ends], axis=1)])
        apart = spans[1:, 0] != spans[:-1, 1]
        joined = np.stack(
            [spans[np.concatenate([[True], apart]), 0], spans[np.concatenate([apart, [True]]), 1]], axis=1
        )
        self._last = joined[-1:]
        if self._count < _MOST_SPANS:
            self._kept.append(joined[:-1].copy())
            self._count += len(joined) - 1

    def sorted(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Begins and ends; one empty range if there are none."""
        spans = np.concatenate([*self._kept, self._last])
        if not len(spans):
            spans = np.zeros((1, 2), np.uint64)
        begins, ends = spans[np.argsort(spans[:, 0])].T
        return begins, ends
