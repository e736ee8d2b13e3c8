"""Parts of logs for the tasks of a query, each from one transaction boundary to another."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, pairwise
from typing import NamedTuple

from ..._decode.boundaries import boundary_behind
from ..._decode.gtid_selection import union
from ..._format.event_header import FIRST_EVENT
from ..._sources.log_names import name_within, unpacked
from ...errors import BinlogError
from ...gtids import parse_gtid_set
from ...log.gtid_start import found_start
from ...log.opening import open as open_log
from ...schema.timeline import DefinitionTimeline
from ...splits import FILE_NUMBER_SHIFT, Split, plan_splits, trust_splits
from ...splits.following import follow_definitions, tracker_of
from ..rows.prepared import Prepared
from ..rows.source_options import SourceOptions
from ..runner import HERE, Runner
from .xa import XaHistory

# As Spark's files share tasks: opening a log costs what reading these bytes does, and there is work for many.
_OPENING = 4 << 20
_TASKS = 32

_EPOCH_SHIFT = 16  # of the file number: 2**7 epochs of 2**16 files


@dataclass(frozen=True, slots=True)
class TaskPart:
    """What one task reads.

    Parameters
    ----------
    split : Split
        The part of a log.
    exact : bool
        Whether it begins and ends at transaction boundaries.
    prepared : tuple of Prepared
        XA transactions in it and their outcomes, for xa=committed.
    definitions : DefinitionTimeline or None
        Definitions for schema=ddl.
    """

    split: Split
    exact: bool = False
    prepared: tuple[Prepared, ...] = ()
    definitions: DefinitionTimeline | None = None

    @property
    def versions(self) -> tuple[int, int]:
        """The smallest `_commit_version` that its rows can have, and the one that all are below."""
        split = self.split
        end = 1 << FILE_NUMBER_SHIFT if split.end is None else split.end
        least, below = split.version_base + split.begin, split.version_base + end
        versions = [one.version for one in self.prepared if one.version is not None]
        return min([least, *versions]), max([below, *(version + 1 for version in versions)])


def plan_logs(paths: Iterable[str], options: SourceOptions, *, divided: bool = False) -> list[Split]:
    """Logs in order, whole or divided by size alone, numbered as `options` say.

    Raises
    ------
    BinlogError
        A log does not exist, or its number does not fit.
    """
    size = options.split_size if divided else None
    splits = plan_splits(list(paths), size, storage_options=options.storage_options)
    if options.file_number is not None:
        first = splits[0].file_number
        splits = [replace(s, file_number=options.file_number + s.file_number - first) for s in splits]
    if options.epoch:
        for split in splits:
            if split.file_number >= 1 << _EPOCH_SHIFT:
                raise BinlogError(
                    f"file number {split.file_number}: expected one below {1 << _EPOCH_SHIFT} with an epoch",
                    path=split.path,
                )
        splits = [replace(s, file_number=(options.epoch << _EPOCH_SHIFT) + s.file_number) for s in splits]
    return splits


class Start(NamedTuple):
    """Where reading begins.

    Parameters
    ----------
    log : int
        The index of the log.
    position : int
        Where a transaction begins in it; 0 is its beginning.
    done : str or None
        GTIDs of transactions from there on that are not read.
    """

    log: int
    position: int
    done: str | None = None


def start_of(paths: Iterable[str], logs: Sequence[Split], options: SourceOptions) -> Start:
    """The place that the start offset names, by GTIDs or otherwise.

    Parameters
    ----------
    paths : iterable of str
        The logs, as for `plan_logs`.
    logs : sequence of Split
        One or more for each of them, in order.

    Raises
    ------
    BinlogError
        The log is not among these, or earlier ones would be needed.
    """
    given = options.start_offset
    if given is None:
        return Start(0, 0)
    if isinstance(given, tuple):
        return Start(index_of(logs, given[0]), given[1])
    access = options.access
    with open_log(
        list(paths), start=given, keys=access.keys, mmap=False, storage_options=access.storage_options
    ) as log:
        path, position, done = found_start(log)
    return Start(index_of(logs, path), position, done)


def check_numbers(logs: Sequence[Split], consequence: str) -> None:
    """Check that no log is missing between others.

    Between segments of an archive, its timeline says what follows, and the plan has read it.

    Parameters
    ----------
    logs : sequence of Split
        One for each log, in order.
    consequence : str
        What would lose changes, for the error.

    Raises
    ------
    BinlogError
        A log is missing.
    """
    for log, following in pairwise(logs):
        one_segment = os.path.dirname(log.path) == os.path.dirname(following.path)
        if one_segment and following.file_number != log.file_number + 1:
            raise BinlogError(
                f"logs are missing between this one and {os.path.basename(following.path)}: {consequence}"
                " would lose changes",
                path=log.path,
            )


def index_of(splits: Sequence[Split], file: str) -> int:
    """The index of the log that an offset names by its path or name, even if it was compressed since.

    Raises
    ------
    BinlogError
        The log is not among them.
    """
    for i, split in enumerate(splits):
        if file == split.path or unpacked(file) == unpacked(name_within(split.path)):
            return i
    raise BinlogError(f"no log {file!r} among those given: it may have been purged", path=splits[0].path)


def plan_parts(paths: Iterable[str], options: SourceOptions, run: Runner = HERE) -> list[TaskPart]:
    """The parts of a batch query, without definitions; `run` reads through logs where the options require it.

    Raises
    ------
    BinlogError
        As for `plan_logs`; also if a log that is to be divided is damaged.
    """
    paths = list(paths)
    parts = _divided(paths, options, run)
    if options.xa == "committed" and parts:
        first = parts[0].split
        since = first.version_base + first.start if options.start_offset is not None else 0
        history = XaHistory(options.access, since)
        history.follow(plan_logs(paths, options), run=run)
        late = history.committed_later(since, 1 << 63)
        parts = [replace(part, prepared=history.prepared(part.split)) for part in parts]
        parts = [*(TaskPart(split, exact=True, prepared=(one,)) for split, one in late), *parts]
    return parts


def timeline_of(
    paths: Iterable[str], options: SourceOptions, run: Runner = HERE
) -> DefinitionTimeline | None:
    """The definitions from the statements of all logs, with schema=ddl."""
    if not options.follows:
        return None
    logs = plan_logs(paths, options)
    tracker = tracker_of(options.schema_start)
    return follow_definitions(logs, options.access, tracker, wanted=options.wants, run=run)


def with_definitions(parts: list[TaskPart], timeline: DefinitionTimeline | None) -> list[TaskPart]:
    """The parts, each with its part of a timeline."""
    if timeline is None:
        return parts
    return [
        replace(part, definitions=timeline.part(part.split.version_base, part.split.start)) for part in parts
    ]


def tasks_of_parts(parts: Sequence[TaskPart], size: int | None) -> list[tuple[TaskPart, ...]]:
    """The parts of each task, all in order: small ones share a task.

    Parameters
    ----------
    parts : sequence of TaskPart
        The parts.
    size : int or None
        The most bytes of a task, each part counted with the cost of opening it; None: a task for each part.
    """
    if size is None:
        return [(part,) for part in parts]
    costs = [None if (length := part.split.length) is None else length + _OPENING for part in parts]
    most = min(size, sum(cost for cost in costs if cost is not None) // _TASKS)
    tasks: list[list[TaskPart]] = []
    room = 0
    for part, cost in zip(parts, costs, strict=True):
        if cost is None or cost > room:
            tasks.append([])
            room = most if cost is not None else 0
        tasks[-1].append(part)
        room -= cost or 0
    return [tuple(task) for task in tasks]


def _divided(paths: list[str], options: SourceOptions, run: Runner) -> list[TaskPart]:
    splits = plan_logs(paths, options, divided=True)
    begin = start_of(paths, splits, options)
    splits = _from_position(splits[begin.log :], begin.position)
    if options.verify_splits:
        trusted = partial(trust_splits, storage_options=options.storage_options)
        logs = [list(parts) for _, parts in groupby(splits, lambda split: split.path)]
        splits = [split for parts in run.map(trusted, logs) for split in parts]
    return without([TaskPart(split) for split in splits], begin.done)


def without(parts: list[TaskPart], done: str | None) -> list[TaskPart]:
    """The parts without the rows of some transactions, by their GTIDs."""
    if done is None:
        return parts
    gtids = parse_gtid_set(done)
    texts = {
        before: str(union(gtids, parse_gtid_set(before) if before else None))
        for before in {part.split.before for part in parts}
    }
    return [replace(part, split=replace(part.split, before=texts[part.split.before])) for part in parts]


def _from_position(splits: list[Split], position: int) -> list[Split]:
    """The splits without the part before a position in the first log at which a transaction begins."""
    first = splits[0]
    ends = [s.end for s in splits if s.path == first.path]
    if ends[-1] is not None and ends[-1] < position:
        raise BinlogError(
            f"the log has {ends[-1]} bytes, but the start offset is {position}", path=first.path
        )
    kept = [s for s in splits if s.path != first.path or s.end is None or s.end > position]
    if position > FIRST_EVENT and kept and kept[0].path == first.path:
        kept[0] = replace(kept[0], start=position, anchor=position, trusted=True)
    return kept


def divide(log: Split, start: int, stop: int | None, size: int, options: SourceOptions) -> Iterator[TaskPart]:
    """Parts of about `size` bytes, found by a walk over event headers."""
    if stop is not None and stop - start <= size:
        yield TaskPart(replace(log, start=start, end=stop), exact=True)
        return
    with options.access.file(log.path).open() as source:
        if not source.splittable:
            yield TaskPart(replace(log, start=start, end=stop), exact=start > 0 or stop is not None)
            return
        while True:
            least = (start or FIRST_EVENT) + size
            end = boundary_behind(source, start, least)
            if end < least or (stop is not None and end >= stop):
                break
            yield TaskPart(replace(log, start=start, end=end), exact=True)
            start = end
    yield TaskPart(replace(log, start=start, end=stop), exact=start > 0 or stop is not None)
