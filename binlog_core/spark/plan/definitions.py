"""``followDdl``: definitions of tables told by the statements of the logs, for readers of any part of them.

A log that does not name its columns (binlog_row_metadata=MINIMAL, the default of the servers) still has the
CREATE and ALTER statements that do. The plan follows them through all logs; each part then carries what its
tables are where it begins, and how that changes in it.
"""

from __future__ import annotations

import base64
import json
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from ..._decode.log_decoder import LogDecoder
from ..._decode.selection import Selection
from ..._tables.tables import Table
from ...errors import BinlogError, SchemaError
from ...report import Report
from ...schema.ddl import DdlTracker
from ...schema.definitions import Definitions
from ...schema.given import Schema, apply
from ...schema.table_definitions import ColumnSchema, TableSchema, UniqueKey
from ...splits import FILE_NUMBER_SHIFT, Split
from ..access import Access

if TYPE_CHECKING:
    from ...events import QueryEvent

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


def follow_definitions(
    logs: Iterable[Split],
    access: Access,
    tracker: DdlTracker,
    *,
    start: int = 0,
    end: int | None = None,
    wanted: Callable[[str], bool] = lambda name: True,
) -> Timeline:
    """Follow the statements of logs.

    Parameters
    ----------
    logs : iterable of Split
        Whole ones, in order.
    access : Access
    tracker : DdlTracker
        The definitions where reading begins; afterwards those where it ends.
    start : int
        Where reading begins in the first log: at a transaction boundary.
    end : int or None
        Where it ends in the last.
    wanted : callable of str
        Whether a table, by its ``database.table``, is part of the timeline.

    Returns
    -------
    Timeline
        Of the logs from `start` to `end`.

    Raises
    ------
    BinlogError
        A log is damaged.
    """
    steps: dict[str, list[tuple[int, TableSchema | None]]] = {}
    for table in tracker:
        if wanted(table.full_name):
            steps[table.full_name] = [(0, table)]
    definitions = Definitions.following(tracker)
    logs = list(logs)
    known = len(tracker.timeline)
    for i, log in enumerate(logs):
        with access.file(log.path).open() as source:
            decoder = LogDecoder(
                source,
                selection=Selection(
                    tables=(),
                    start_position=(start or None) if i == 0 else None,
                    stop_position=end if i + 1 == len(logs) else None,
                ),
                report=Report(),
                definitions=definitions,
                verify_checksum=False,  # who reads the rows verifies, and meets the damage
                skip_errors=True,
            )
            for _ in decoder.groups():
                pass
        for change in tracker.timeline[known:]:
            name = f"{change.database}.{change.table}"
            if wanted(name):
                steps.setdefault(name, []).append((log.version_base + change.position, change.definition))
        known = len(tracker.timeline)
    return Timeline({name: tuple(found) for name, found in steps.items()})


def definitions_of(schema: Any, split: Split) -> Definitions | None:
    """What completes the tables of a split: given definitions, or a timeline."""
    if isinstance(schema, Timeline):
        return schema.definitions(split)
    return Definitions(schema) if schema is not None else None


def tracker_of(schema_file: str | None, *, keep_timeline: bool = True) -> DdlTracker:
    """Follows statements from the beginning of the first log on, where the tables are as the file says."""
    start = Schema.load(schema_file) if schema_file is not None else None
    return DdlTracker(start, keep_timeline=keep_timeline)


# ------------------------------------------------------------ as text, for the offsets of a stream


def to_text(tracker: DdlTracker) -> str:
    """All that a tracker knows: JSON, compressed, in base64; the same text for the same definitions."""
    tables = sorted(tracker, key=lambda table: (table.database, table.name))
    known = {
        "tables": [_plain(table) for table in tables],
        "charsets": dict(sorted(tracker.database_charsets.items())),
    }
    return base64.b64encode(zlib.compress(json.dumps(known, separators=(",", ":")).encode())).decode("ascii")


def from_text(text: str) -> DdlTracker:
    """The tracker that `to_text` was given.

    Raises
    ------
    BinlogError
        It is not such a text.
    """
    try:
        known = json.loads(zlib.decompress(base64.b64decode(text, validate=True)))
        return DdlTracker(map(_table, known["tables"]), database_charsets=known["charsets"])
    except (ValueError, KeyError, TypeError, AttributeError, zlib.error) as error:
        raise BinlogError("the offset's definitions cannot be read: another version wrote them") from error


def _plain(one: Any) -> dict[str, Any]:
    """The fields of a definition that say something."""
    found = {}
    for about in fields(one):
        value = getattr(one, about.name)
        if value != about.default:
            of_definitions = isinstance(value, tuple) and value and is_dataclass(value[0])
            found[about.name] = [_plain(each) for each in value] if of_definitions else value
    return found


def _table(given: dict[str, Any]) -> TableSchema:
    columns = tuple(
        ColumnSchema(**{name: _tuple(value) for name, value in column.items()}) for column in given["columns"]
    )
    unique = tuple(
        UniqueKey(**{name: _tuple(value) for name, value in key.items()})
        for key in given.get("unique_keys", ())
    )
    rest = {name: _tuple(value) for name, value in given.items()}
    return TableSchema(**{**rest, "columns": columns, "unique_keys": unique})


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
