"""``followDdl``: definitions of tables told by the statements of the logs, for readers of any part of them.

A log that does not name its columns (binlog_row_metadata=MINIMAL, the default of the servers) still has the
CREATE and ALTER statements that do. The plan follows them through all logs; each part then carries what its
tables are where it begins, and how that changes in it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._decode.log_decoder import LogDecoder
from .._decode.selection import Selection, matches_name
from .._tables.tables import Table
from ..errors import SchemaError
from ..report import Report
from ..schema.definitions import Definitions
from ..schema.given import Schema, apply
from ..schema.table_definitions import TableSchema
from .splits import FILE_NUMBER_SHIFT, Split

if TYPE_CHECKING:
    from ..events import QueryEvent
    from .options import SourceOptions

_NO_END = 1 << FILE_NUMBER_SHIFT

Steps = tuple[tuple[int, TableSchema | None], ...]


@dataclass(frozen=True)
class Timeline:
    """Definitions by place.

    Parameters
    ----------
    tables : dict of "database.table" to steps
        From a version (as `_commit_version` counts: file number and offset) on the table has a definition;
        None: none that is known. In order.
    """

    tables: dict[str, Steps]

    def part(self, split: Split) -> Timeline:
        """As much as the reader of a split needs."""
        start = split.version_base + split.start
        # Its last transaction may end behind it.
        end = split.version_base + _NO_END
        found = {}
        for name, steps in self.tables.items():
            places = [version for version, _ in steps]
            first = max(bisect_right(places, start) - 1, 0)
            kept = tuple(step for step in steps[first:] if step[0] < end)
            if kept:
                found[name] = kept
        return Timeline(found)

    def definitions(self, split: Split) -> Definitions:
        """What completes the tables of a split."""
        return _Located(self, split.version_base)

    def definition(self, name: str, version: int) -> TableSchema | None:
        """Of a table at a place."""
        steps = self.tables.get(name, ())
        place = bisect_right([at for at, _ in steps], version) - 1
        return steps[place][1] if place >= 0 else None


class _Located(Definitions):
    """Definitions by the offsets of one log."""

    def __init__(self, timeline: Timeline, base: int) -> None:
        self._timeline = timeline
        self._base = base

    @property
    def follows(self) -> bool:
        """The decoder asks anew behind each statement."""
        return True

    def complete(self, table: Table, report: Report, *, path: str, offset: int) -> Table:
        given = self._timeline.definition(table.full_name, self._base + offset)
        if given is None:
            return table
        try:
            return apply(table, given)
        except SchemaError as error:
            report.add(
                "schema_misfits", path=path, offset=offset, table=table.full_name, detail=error.message
            )
            return table

    def follow(
        self, event: QueryEvent, report: Report, *, mariadb: bool, path: str, transaction: int
    ) -> None:
        """Nothing: the timeline knows."""


class TimelineMaker:
    """Follows logs, one after another, and again when they have grown.

    Parameters
    ----------
    options : SourceOptions
        With its schema file as definitions at the beginning of the first log.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        start = Schema.load(options.schema_file) if options.schema_file is not None else None
        self._definitions = Definitions("ddl", start=start, keep_timeline=True)
        self._known = 0  # of its changes those that are in `_steps`
        self._steps: dict[str, list[tuple[int, TableSchema | None]]] = {}
        for table in start or ():
            self._note(table.full_name, 0, table)
        self._read: dict[str, int] = {}

    def follow(self, logs: Iterable[Split], *, end: int | None = None) -> Timeline:
        """Read on to the end of the logs, the last one to a position.

        Raises
        ------
        BinlogError
            A log is damaged.
        """
        from .planning import log_file

        logs = list(logs)
        for i, log in enumerate(logs):
            if i + 1 < len(logs) and logs[i + 1].path in self._read:
                continue
            with log_file(log.path, self._options).open() as source:
                decoder = LogDecoder(
                    source,
                    selection=Selection(
                        tables=(),
                        start_position=self._read.get(log.path),
                        stop_position=end if i + 1 == len(logs) else None,
                    ),
                    report=Report(),
                    definitions=self._definitions,
                    verify_checksum=False,  # who reads the rows verifies, and meets the damage
                    skip_errors=True,
                )
                for _ in decoder.groups():
                    pass
                self._read[log.path] = decoder.resume_position
            for change in self._definitions.timeline[self._known :]:
                name = f"{change.database}.{change.table}"
                self._note(name, log.version_base + change.position, change.definition)
            self._known = len(self._definitions.timeline)
        return Timeline({name: tuple(steps) for name, steps in self._steps.items()})

    def _note(self, name: str, version: int, definition: TableSchema | None) -> None:
        wanted = self._options.table
        tables = self._options.tables
        if (wanted is not None and name != wanted) or (
            tables is not None and not any(matches_name(name, pattern) for pattern in tables)
        ):
            return
        self._steps.setdefault(name, []).append((version, definition))


def definitions_of(schema: Any, split: Split) -> Definitions | None:
    """What completes the tables of a split: given definitions, or a timeline."""
    if isinstance(schema, Timeline):
        return schema.definitions(split)
    return Definitions(schema) if schema is not None else None
