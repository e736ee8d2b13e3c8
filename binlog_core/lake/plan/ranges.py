"""Ranges of logs that grow: between two offsets, each a log and a transaction boundary in it.

The mirror uses it too, on Spark 4.0, which has no readers of streams as those of Spark 4.2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ..._decode.boundaries import boundary_behind, last_boundary
from ..._format.event_header import FIRST_EVENT
from ..._sources.log_names import name_within
from ..._sources.resolve import resolve
from ..._sources.sources import Source
from ...errors import BinlogError
from ...schema.timeline import DefinitionTimeline
from ...splits import Split
from ...splits.following import beginning, follow_definitions, tracker_of
from ..rows.source_options import SourceOptions
from ..runner import HERE, Runner
from .definitions import from_text, to_text
from .parts import TaskPart, check_numbers, divide, index_of, plan_logs, start_of, with_definitions, without
from .xa import Open, XaHistory

_DEFINITIONS, _PREPARED, _DONE = "definitions", "prepared", "done"  # in an offset

Offset = dict[str, Any]
LogPlace = tuple[int, int]  # number of the log in the listing, position in it


class _Followed(NamedTuple):
    """What is needed to read a range between two offsets, and the state at its end."""

    timeline: DefinitionTimeline | None
    xa: XaHistory | None
    kept: dict[str, Any]


class LogRanges:
    """Logs that grow and are rotated, and what is between two offsets in them.

    What a range of the logs means depends on what came before it: with ``schema=ddl`` the definitions of the
    tables, with ``xa=committed`` the prepared transactions. Both are kept in the offsets, so that a restart
    needs no log before its checkpoint, and does not go wrong if one is gone.

    Parameters
    ----------
    options : SourceOptions
        What is read.
    paths : list of str
        The logs; directories are listed anew by each method.
    run : Runner
        What reads through logs.

    Attributes
    ----------
    lower_case : bool or None
        Whether the server stores names in lower case: see `DdlTracker`.
    """

    lower_case: bool | None = None

    def __init__(self, options: SourceOptions, paths: list[str], run: Runner = HERE) -> None:
        self._run = run
        self._options = options
        self._paths = paths
        # A range that was followed, and definitions as an offset's text and as a timeline's beginning.
        self._last: tuple[tuple[Offset | None, str, int], _Followed] | None = None
        self._begin: tuple[str, DefinitionTimeline] | None = None

    def _later(self, start: Offset, most: int | None, until: LogPlace | None = None) -> Offset:
        """The offset of a later boundary: after some bytes or the last, not beyond a place; or `start`."""
        logs = self._logs()
        begin = place_of(logs, start)
        if most is not None:
            found = self._advance(logs, begin, most)
        else:
            found = until or self._end(logs, begin)
        if until is not None:
            found = min(found, until)
        if found <= begin:
            return start
        return offset_of(logs, found, self._follow(logs, start, found).kept)

    def _parts(self, start: Offset, end: Offset) -> list[TaskPart]:
        """The parts between two offsets, the same ones at each call."""
        logs = self._logs()
        (first, begin), (last, stop) = place_of(logs, start), place_of(logs, end)
        tasks = [
            _Dividing(logs[i], begin if i == first else 0, stop if i == last else None, self._options)
            for i in range(first, last + 1)
        ]
        parts = [part for found in self._run.map(_Dividing.parts, tasks) for part in found]
        followed = self._follow(logs, start, (last, stop))
        if followed.xa is not None:
            # XA transactions come in the batch that has their commit, wherever they were prepared.
            since, below = (logs[i].version_base + at for i, at in ((first, begin), (last, stop)))
            late = followed.xa.committed_later(since, below)
            parts = [replace(part, prepared=followed.xa.prepared(part.split, below)) for part in parts]
            parts = [*(TaskPart(split, exact=True, prepared=(one,)) for split, one in late), *parts]
        if _DONE in start:
            own = {one.path for one in logs[first : self._same_history(logs, start, last) + 1]}
            done = without([part for part in parts if part.split.path in own], start[_DONE])
            parts = [*done, *(part for part in parts if part.split.path not in own)]
        return with_definitions(parts, followed.timeline)

    def _same_history(self, logs: list[Split], start: Offset, last: int) -> int:
        """The last log up to `last` in which the GTIDs of an offset name the same transactions."""
        first = place_of(logs, start)[0]
        if _DONE not in start or first == last:
            return last
        access = self._options.access
        files = resolve(self._paths, keys=access.keys, storage_options=access.storage_options)
        new = {file.path for file in files if file.begins_history}
        return next((i - 1 for i in range(first + 1, last + 1) if logs[i].path in new), last)

    def _follow(self, logs: list[Split], start: Offset | None, end: LogPlace) -> _Followed:
        """Read the statements from an offset, or the first log's beginning, to a place."""
        begin = (0, 0) if start is None else place_of(logs, start)
        asked = start, logs[end[0]].path, end[1]
        if self._last is not None and self._last[0] == asked:
            return self._last[1]
        options = self._options
        within = logs[begin[0] : end[0] + 1] if begin != end else []
        kept: dict[str, Any] = {}
        if start is not None and _DONE in start and self._same_history(logs, start, end[0]) == end[0]:
            kept[_DONE] = start[_DONE]
        timeline = xa = None
        if options.follows:
            known = None
            if start is None:
                tracker = tracker_of(options.schema_start)
            else:
                text = _kept(start, _DEFINITIONS, "schema=ddl", logs)
                tracker = from_text(text, lower_case=self.lower_case)
                if self._begin is None or self._begin[0] != text:
                    self._begin = text, beginning(tracker, options.wants)
                known = self._begin[1]
            timeline = follow_definitions(
                within,
                options.access,
                tracker,
                start=begin[1],
                end=end[1],
                wanted=options.wants,
                begin=known,
                run=self._run,
            )
            kept[_DEFINITIONS] = to_text(tracker)
        if options.xa == "committed":
            since = logs[begin[0]].version_base + begin[1]
            if start is None:  # what was committed before the stream begins is not read
                since = logs[end[0]].version_base + end[1]
            xa = XaHistory(options.access, since)
            if start is not None:
                opened = (Open(*one) for one in _kept(start, _PREPARED, "xa=committed", logs))
                xa.add_open(opened, lambda name: logs[index_of(logs, name)])
            xa.follow(within, start=begin[1], end=end[1], run=self._run)
            kept[_PREPARED] = [list(one) for one in xa.open]
        followed = _Followed(timeline, xa, kept)
        if start is not None:
            self._last = asked, followed
        return followed

    def _first(self) -> Offset:
        """Where the start offset of the options is, or the first log's beginning."""
        logs = self._logs()
        log, position, done = start_of(self._paths, logs, self._options)
        kept = self._follow(logs, None, (log, position)).kept
        return offset_of(logs, (log, position), kept if done is None else {**kept, _DONE: done})

    def _logs(self) -> list[Split]:
        logs = plan_logs(self._paths, self._options)
        check_numbers(logs, "a stream over them")
        return logs

    def _end(self, logs: list[Split], begin: LogPlace, until: tuple[str, int] | None = None) -> LogPlace:
        """The last boundary; with `until`, not beyond a number of bytes of that log."""
        last = len(logs) - 1 if until is None else index_of(logs, until[0])
        most = None if until is None else until[1]
        if last < begin[0]:
            return begin
        for i in range(last, begin[0], -1):
            end = _end_of(logs[i], 0, self._options, most)
            if end > FIRST_EVENT:
                return i, end
            most = None
        end = _end_of(logs[begin[0]], begin[1], self._options, most)
        return (begin[0], end) if end > max(begin[1], FIRST_EVENT) else begin

    def _advance(self, logs: list[Split], begin: LogPlace, most: int) -> LogPlace:
        """The boundary after this many bytes."""
        i, position = found = begin
        while True:
            # A log is complete if the listing, which was made before, has another after it.
            with self._options.access.file(logs[i].path).open() as source:
                _check_size(logs[i], source, position)
                least = max(position, FIRST_EVENT) + most
                end = boundary_behind(source, position, least)
            if end >= least:
                return i, end
            if end > max(position, FIRST_EVENT):
                found = i, end
                most -= end - position
            i, position = i + 1, 0
            if i == len(logs) or most <= 0:
                return found


@dataclass(frozen=True)
class _Dividing:
    """A range of a log to be divided into parts; `end` None: up to its last boundary."""

    log: Split
    start: int
    end: int | None
    options: SourceOptions

    def parts(self) -> list[TaskPart]:
        """The parts."""
        log, start, end, size = self.log, self.start, self.end, self.options.split_size
        if end is None:
            end = _end_of(log, start, self.options)
        if end <= max(start, FIRST_EVENT):
            return []
        if size is None:
            return [TaskPart(replace(log, start=start, end=end), exact=True)]
        return list(divide(log, start, end, size, self.options))


def _end_of(log: Split, start: int, options: SourceOptions, most: int | None = None) -> int:
    """The last boundary at or after one; a transaction that a crash left incomplete was never committed."""
    with options.access.file(log.path).open() as source:
        _check_size(log, source, start)
        return last_boundary(source, start, None if most is None else max(most, start))


def _check_size(log: Split, source: Source, position: int) -> None:
    if source.size is not None and source.size < position:
        raise BinlogError(
            f"the log has {source.size} bytes, but the stream's offset is {position}: it is not"
            " the log that was read before",
            path=log.path,
        )


def offset_of(logs: list[Split], place: LogPlace, kept: dict[str, Any]) -> Offset:
    """The offset of a place, as Spark keeps it, with the state there."""
    return {"file": name_within(logs[place[0]].path), "position": place[1], **kept}


def place_of(logs: list[Split], offset: Offset) -> LogPlace:
    """The place that an offset names: the log's index, and the position in it."""
    return index_of(logs, offset["file"]), int(offset["position"])


def _kept(offset: Offset, name: str, option: str, logs: list[Split]) -> Any:
    if name not in offset:
        raise BinlogError(
            f"the stream began without {option}, so its offset does not have what came before: start a new"
            " checkpoint, with startOffset= at this place",
            path=logs[index_of(logs, offset["file"])].path,
            offset=int(offset["position"]),
        )
    return offset[name]
