"""``binlog-core events``: the events of logs, one line each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from .._decode.gtid_selection import gtid_set, is_selected
from .._decode.selection import is_wanted_name
from .._format.event_types import EVENT_NAMES, GTID_EVENTS, EventType
from .._tables.full_names import split_name
from .._tables.given_names import near_names
from ..events import Event, GtidEvent, MariadbGtidEvent, QueryEvent
from ..events.describe import Describer
from ..gtids import Gtid, MariadbGtid
from ..log.log import Log
from .checks import check_tables
from .options import (
    DatabaseOption,
    FollowOptions,
    LogOptions,
    RangeOptions,
    ThreadOption,
    ids,
    option,
    spread,
)
from .output import errors_as_lines, is_terminal, moment, note, printable, standard_output
from .text import json_line

_TABLE_MAPS = frozenset((EventType.TABLE_MAP, EventType.FORMAT_DESCRIPTION))  # what names tables
_NAMED_BY_TABLE_MAPS = frozenset(code for code in EventType if "ROWS" in code.name)
_OUTSIDE = frozenset(  # of any transaction
    (
        EventType.FORMAT_DESCRIPTION,
        EventType.PREVIOUS_GTIDS,
        EventType.MARIADB_GTID_LIST,
        EventType.MARIADB_BINLOG_CHECKPOINT,
        EventType.ROTATE,
        EventType.STOP,
    )
)
_QUERIES = frozenset((EventType.QUERY, EventType.MARIADB_QUERY_COMPRESSED))
_SEPARATOR = "  "
_LEAST_WIDTH = 120  # characters of a line on a terminal: the content begins at the 78th


@spread
def events(
    logs: LogOptions,
    part: RangeOptions,
    following: FollowOptions,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            "--type",
            help="Name as in SHOW BINLOG EVENTS (Query, Write_rows …), or a pattern; can be repeated.",
        ),
    ] = None,
    table: Annotated[
        list[str] | None, option("tables", " Only their table maps and rows events are printed.")
    ] = None,
    exclude_table: Annotated[list[str] | None, option("exclude_tables")] = None,
    database: DatabaseOption = None,
    include_gtids: Annotated[str | None, option("gtids")] = None,
    exclude_gtids: Annotated[str | None, option("exclude_gtids")] = None,
    server_id: Annotated[str | None, option("server_id")] = None,
    thread_id: ThreadOption = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="Stop after this many events.")
    ] = None,
    grep: Annotated[str | None, typer.Option(metavar="REGEX", help="Only lines that match.")] = None,
    form: Annotated[
        Literal["text", "jsonl"], typer.Option("--format", "-f", help="Readable lines, or JSON objects.")
    ] = "text",
) -> None:
    """Print one line per event: position, time, server, bytes, type and content.

    Events inside a compressed transaction follow it and have its position.

    Examples:

      binlog-core events mysql-bin.000042

      binlog-core events mysql-bin.000042 --type Query --grep 'DROP|TRUNCATE'

      binlog-core events /var/lib/mysql -t shop.orders --start '2026-11-21 08:00'

      binlog-core events /var/lib/mysql/mysql-bin.000042 --follow --type Query
    """
    try:
        wanted = re.compile(grep, re.IGNORECASE) if grep else None
    except re.error as error:
        raise typer.BadParameter(f"--grep: {error}") from None
    types = type_codes(kind)
    following.check(logs, part)
    with errors_as_lines():
        servers, threads = ids(server_id, "--server-id"), ids(thread_id, "--thread-id")
        only = servers[0] if len(servers) == 1 else None
        places = part.places(logs)
        with logs.open(passes=bool(table), follow=following.follow, server_id=only, **places) as log:
            several = len(log.files) > 1 or following.follow
            width = max(Console().width, _LEAST_WIDTH) if is_terminal() else None
            seen: set[str] = set()
            any_events = False
            printed = 0
            file = standard_output()
            gtids = _Gtids(include_gtids, exclude_gtids)
            found = _events(log, gtids.needed(types, threads=bool(threads)))
            for path, event, told, name in _of_threads(found, threads) if threads else found:
                if servers and event.server_id not in servers:
                    continue
                any_events = True
                if name is not None:
                    seen.add(name)
                if not gtids.wants(event):
                    continue
                if database and _database_of(event, name) not in database:
                    continue
                if table and not name:
                    continue
                if name and not is_wanted_name(name, table or None, exclude_table):
                    continue
                if types is not None and event.type_code not in types:
                    continue  # read for the names of tables, or for GTIDs
                line = _line(event, told)
                if wanted is not None and not wanted.search(line):
                    continue
                if form == "jsonl":
                    file.write(json_line(_as_dict(path, event, told, name)))
                else:
                    line = f"{path.rpartition('/')[2]}{_SEPARATOR}{line}" if several else line
                    line = printable(line)
                    if width is not None and len(line) > width:
                        line = line[: width - 1] + "…"
                    file.write(f"{line}\n".encode())
                if following.follow:
                    file.flush()
                printed += 1
                if printed == limit:
                    return
            if gtids.unmet:
                note(f"no transaction is in --include-gtids {include_gtids}")
            elif servers and not any_events:
                note(f"no event of --server-id {server_id}")
            if table:
                check_tables(log, table, seen)


def type_codes(names: list[str] | None) -> frozenset[int] | None:
    """Type codes of names as SHOW BINLOG EVENTS prints them, patterns or numbers; None: all."""
    if not names:
        return None
    found: set[int] = set()
    for name in names:
        if name.isdecimal() and int(name) < 256:
            found.add(int(name))
            continue
        pattern = re.compile(re.escape(name).replace(r"\*", ".*").replace(r"\?", "."), re.IGNORECASE)
        codes = {int(code) for code, known in EVENT_NAMES.items() if pattern.fullmatch(known)}
        codes |= {int(code) for code in EventType if pattern.fullmatch(code.name)}
        if not codes:
            found_near = near_names(name, EVENT_NAMES.values())
            hint = f"; near: {', '.join(found_near)}" if found_near else ""
            raise typer.BadParameter(f"--type {name!r} is not an event type{hint}")
        found |= codes
    return frozenset(found)


def _events(log: Log, types: frozenset[int] | None) -> Iterator[tuple[str, Event, str, str | None]]:
    if types is not None and any(_needs_names(code) for code in types):
        types |= _TABLE_MAPS
    for one in log.each_file():
        describer = Describer()
        for event in one.events(types):
            told = describer.describe(event)
            yield one.files[0].name, event, told, describer.table_of(event)


def _of_threads(
    found: Iterator[tuple[str, Event, str, str | None]], threads: list[int]
) -> Iterator[tuple[str, Event, str, str | None]]:
    """Events of some connections: the thread is in a transaction's BEGIN, after its GTID, or in the GTID."""
    here: int | None = None
    waiting: list[tuple[str, Event, str, str | None]] = []
    for one in found:
        event = one[1]
        if isinstance(event, GtidEvent | MariadbGtidEvent):
            here, waiting = getattr(event, "thread_id", None), [one]
            if here is None:
                continue
        elif event.type_code in _OUTSIDE:
            here, waiting = None, []
        else:
            here = event.thread_id if isinstance(event, QueryEvent) else here
            waiting.append(one)
        if here in threads:
            yield from waiting
        waiting = []


class _Gtids:
    """Decides, event by event, whether events are in a wanted transaction.

    Parameters
    ----------
    include, exclude : str or None
    """

    def __init__(self, include: str | None, exclude: str | None) -> None:
        self._include, self._exclude = gtid_set(include, "gtids"), gtid_set(exclude, "exclude_gtids")
        self._gtid: Gtid | MariadbGtid | None = None
        self.unmet = self._include is not None  # no transaction was in the wanted set

    def needed(self, types: frozenset[int] | None, *, threads: bool) -> frozenset[int] | None:
        """Types of events that must be read to decide, including those with the thread."""
        if types is None:
            return None
        return types | (GTID_EVENTS if self._choose or threads else set()) | (_QUERIES if threads else set())

    def wants(self, event: Event) -> bool:
        """Whether the next event is wanted; events outside transactions are in no set."""
        if isinstance(event, GtidEvent | MariadbGtidEvent):
            self._gtid = event.gtid
        elif event.type_code in _OUTSIDE:
            self._gtid = None
        if self._gtid is not None and self.unmet:
            self.unmet = not is_selected(self._gtid, self._include, None)
        return not self._choose or is_selected(self._gtid, self._include, self._exclude)

    @property
    def _choose(self) -> bool:
        return self._include is not None or self._exclude is not None


def _database_of(event: Event, table: str | None) -> str | None:
    if table is not None:
        return split_name(table)[0]
    return event.database if isinstance(event, QueryEvent) else None


def _needs_names(code: int) -> bool:
    return code in _NAMED_BY_TABLE_MAPS


def _line(event: Event, told: str) -> str:
    time = moment(event.timestamp) if event.timestamp else " " * 19
    origin = f"{event.position:>10}  {time}  {event.server_id:>10}"
    return f"{origin}  {event.event_length:>8}  {event.name:<20}  {told}"


def _as_dict(path: str, event: Event, told: str, table: str | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "file": path,
        "position": event.position,
        "timestamp": event.timestamp,
        "server_id": event.server_id,
        "event_length": event.event_length,
        "type": event.name,
        "type_code": event.type_code,
        "info": told.encode("utf-8", "backslashreplace").decode(),
    }
    if table is not None:
        found["table"] = table
    if isinstance(event, GtidEvent | MariadbGtidEvent):
        found["gtid"] = str(event.gtid) if event.gtid is not None else None
    return found
