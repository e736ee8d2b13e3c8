"""The splits of an export: written by a `Runner`, those that began at a forged event again."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from ...splits import Split, SplitResult, check_seams
from ..plan.parts import TaskPart, tasks_of_parts
from ..runner import Runner, ended_early
from .results import WrittenSplit
from .split_writer import SplitWriter

Report = Callable[["Progress"], None]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an export has come.

    Parameters
    ----------
    done, total : int
        Splits that are done, and all splits; then, if rows were staged, tasks that write tables' files.
    log_bytes : int
        Bytes of logs that were read.
    rows : int
        Row images that were written.
    stage : "splits" or "tables"
        What is counted.
    """

    done: int
    total: int
    log_bytes: int = 0
    rows: int = 0
    stage: Literal["splits", "tables"] = "splits"


def run_splits(
    runner: Runner,
    writer: SplitWriter,
    splits: list[Split],
    progress: Report | None,
    done: list[SplitResult],
    size: int | None = None,
) -> tuple[list[WrittenSplit], int]:
    """Write splits, small ones in tasks of `size`; their results, and how many were read again.

    `done` has the results of earlier runs.
    """
    told = Progress(0, len(splits))
    if progress is not None:
        progress(told)

    def write(todo: list[Split]) -> list[WrittenSplit]:
        nonlocal told
        found: list[WrittenSplit] = []
        with ended_early(runner.each(partial(_write, writer), split_tasks(todo, size))) as each:
            for some in each:
                found += some
                read, rows = (sum(getattr(one, name) for one in some) for name in ("log_bytes", "rows"))
                ready = min(told.done + len(some), len(splits))  # some are read again
                told = Progress(ready, len(splits), told.log_bytes + read, told.rows + rows)
                if progress is not None and ready < len(splits):  # the end is told once
                    progress(told)
        return found

    found, reread = in_rounds(write, splits, done)
    return in_order(found, progress), reread


def _write(writer: SplitWriter, task: Sequence[Split]) -> list[WrittenSplit]:
    # No attempt, here or in another process, overwrites another's files.
    return [writer.write(split, uuid.uuid4().hex[:8]) for split in task]


def split_tasks(splits: list[Split], size: int | None) -> list[list[Split]]:
    """The splits of each task."""
    return [[part.split for part in task] for task in tasks_of_parts(list(map(TaskPart, splits)), size)]


def in_rounds(
    write: Callable[[list[Split]], list[WrittenSplit]], splits: list[Split], done: list[SplitResult]
) -> tuple[dict[int, WrittenSplit], int]:
    """Write splits, and repeat those whose seams do not fit until all do; how many were repeated."""
    found: dict[int, WrittenSplit] = {}
    reread, todo = 0, splits
    while todo:
        found |= {one.split.index: one for one in write(todo)}
        todo = check_seams([*done, *(one.seam for one in found.values())])
        reread += len(todo)
    return found, reread


def in_order(found: dict[int, WrittenSplit], progress: Report | None) -> list[WrittenSplit]:
    """The results in the order of the logs, of which the sums are told."""
    results = [found[i] for i in sorted(found)]
    if progress is not None:
        rows, log_bytes = (sum(getattr(one, name) for one in results) for name in ("rows", "log_bytes"))
        progress(Progress(len(results), len(results), log_bytes, rows))
    return results
