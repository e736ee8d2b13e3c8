"""``schema="ddl"``: table definitions from the statements of the logs, for readers of any part of them.

A log that does not name its columns (binlog_row_metadata=MINIMAL, the default of the servers) still has the
CREATE and ALTER statements that do. A plan follows them through all logs; each part then carries the
definitions of its tables where it begins, and how they change in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from .._decode.log_decoder import LogDecoder
from .._decode.selection import Selection
from .._tables.full_names import full_name
from .._walk.track import Rules
from ..events import QueryEvent
from ..lake.access import Access
from ..lake.runner import HERE, Runner
from ..report import Report
from ..schema.ddl import DdlTracker
from ..schema.definitions import Definitions, SchemaSource
from ..schema.given import Schema
from ..schema.table_definitions import TableSchema
from ..schema.timeline import DefinitionTimeline
from .split import Split


def follow_definitions(
    logs: Iterable[Split],
    access: Access,
    tracker: DdlTracker,
    *,
    start: int = 0,
    end: int | None = None,
    wanted: Callable[[str], bool] = lambda name: True,
    begin: DefinitionTimeline | None = None,
    run: Runner = HERE,
) -> DefinitionTimeline:
    """Follow the statements of logs: `run` reads them, log by log, and this process follows them.

    Parameters
    ----------
    logs : iterable of Split
        Complete logs, in order.
    access : Access
        How they are opened.
    tracker : DdlTracker
        The definitions where reading begins; afterwards those where it ends.
    start : int
        Where reading begins in the first log: at a transaction boundary.
    end : int or None
        Where it ends in the last.
    wanted : callable of str
        Whether a table, by its ``database.table``, is part of the timeline.
    begin : DefinitionTimeline or None
        What `beginning` says of the tracker, from who asks for many parts of logs.
    run : Runner
        What reads the logs.

    Returns
    -------
    DefinitionTimeline
        The definitions in the logs from `start` to `end`.

    Raises
    ------
    BinlogError
        A log is damaged.
    """
    if begin is None:
        begin = beginning(tracker, wanted)
    steps: dict[str, list[tuple[int, TableSchema | None]]] = {}
    definitions, known = Definitions.following(tracker), len(tracker.timeline)
    for log, found in statements_of(logs, access, start=start, end=end, run=run):
        report = Report()
        for event, mariadb, transaction in found:
            definitions.follow(event, report, mariadb=mariadb, path=log.path, transaction=transaction)
        for change in tracker.timeline[known:]:
            name = full_name(change.database, change.table)
            if wanted(name):
                place = log.version_base + change.position
                steps.setdefault(name, [*begin.tables.get(name, ())]).append((place, change.definition))
        known = len(tracker.timeline)
    if not steps:
        return begin
    return DefinitionTimeline({**begin.tables, **{name: tuple(found) for name, found in steps.items()}})


def beginning(tracker: DdlTracker, wanted: Callable[[str], bool]) -> DefinitionTimeline:
    """The definitions that a tracker has now, from the beginning of all logs on."""
    names = ((table.full_name, table) for table in tracker)
    return DefinitionTimeline({name: ((0, table),) for name, table in names if wanted(name)})


def statements_of(
    logs: Iterable[Split],
    access: Access,
    *,
    start: int = 0,
    end: int | None = None,
    run: Runner = HERE,
) -> Iterable[tuple[Split, list[FoundStatement]]]:
    """The statements in logs that define tables; the arguments are those of `follow_definitions`."""
    logs = list(logs)
    last = len(logs) - 1
    tasks = [
        _StatementScan(log, access, (start or None) if i == 0 else None, end if i == last else None)
        for i, log in enumerate(logs)
    ]
    return zip(logs, run.map(_StatementScan.statements, tasks), strict=True)


@dataclass(frozen=True)
class _StatementScan:
    """A log whose statements are read."""

    log: Split
    access: Access
    start: int | None
    end: int | None

    def statements(self) -> list[FoundStatement]:
        """The statements that define tables."""
        log, collector = self.log, _StatementCollector()
        with self.access.file(log.path).open() as source:
            selection = Selection(
                tables=(),
                start_position=self.start,
                stop_position=self.end,
            ).without_repeated(log.before)
            decoder = LogDecoder(source, selection, Rules.lenient(Report()), collector)
            for _ in decoder.groups():
                pass
        return collector.found


class FoundStatement(NamedTuple):
    """A statement that defines tables.

    Parameters
    ----------
    event : QueryEvent
    mariadb : bool
        Whether MariaDB wrote it.
    transaction : int
        The position where its transaction begins.
    """

    event: QueryEvent
    mariadb: bool
    transaction: int


class _StatementCollector(Definitions):
    """Stands in for definitions that follow statements, and keeps the statements."""

    def __init__(self) -> None:
        super().__init__({})
        self.found: list[FoundStatement] = []

    @property
    def follows(self) -> bool:
        """Statements are handed to `follow`."""
        return True

    def follow(
        self, event: QueryEvent, report: Report, *, mariadb: bool, path: str, transaction: int
    ) -> None:
        """Keep a statement."""
        self.found.append(FoundStatement(event, mariadb, transaction))


def tracker_of(start: SchemaSource | Schema | None, *, keep_timeline: bool = True) -> DdlTracker:
    """A tracker for the beginning of the first log, where `start` has the definitions."""
    return DdlTracker(Schema.load(start) if start is not None else None, keep_timeline=keep_timeline)
