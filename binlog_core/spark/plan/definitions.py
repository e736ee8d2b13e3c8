"""``schema=ddl``: definitions of tables told by the statements of the logs, for readers of any part of them.

A log that does not name its columns (binlog_row_metadata=MINIMAL, the default of the servers) still has the
CREATE and ALTER statements that do. The plan follows them through all logs; each part then carries what its
tables are where it begins, and how that changes in it.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from typing import Any

from ..._decode.log_decoder import LogDecoder
from ..._decode.selection import Selection
from ...errors import BinlogError
from ...gtids import parse_gtid_set
from ...report import Report
from ...schema.ddl import DdlTracker
from ...schema.definitions import Definitions, SchemaSource
from ...schema.given import Schema
from ...schema.table_definitions import ColumnSchema, TableSchema, UniqueKey
from ...splits import Split
from ..access import Access
from ..rows.timeline import Timeline

_LONGEST_TEXT = 256 << 20


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
                    repeated=parse_gtid_set(log.before) if log.before is not None else None,
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


def tracker_of(start: SchemaSource | Schema | None, *, keep_timeline: bool = True) -> DdlTracker:
    """Follows statements from the beginning of the first log on, where the tables are as `start` says."""
    return DdlTracker(Schema.load(start) if start is not None else None, keep_timeline=keep_timeline)


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
        unpacking = zlib.decompressobj()
        known = json.loads(unpacking.decompress(base64.b64decode(text, validate=True), _LONGEST_TEXT))
        return DdlTracker(map(_table, known["tables"]), database_charsets=known["charsets"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, zlib.error) as error:
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
