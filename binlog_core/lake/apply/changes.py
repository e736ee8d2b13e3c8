"""The changes of one batch, staged and ready to be folded: the input of a target."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...errors import ApplyStopped, CopyNeeded
from ..rows.types import import_pyarrow
from ..tables.table import App
from .alterations import Check
from .folding import Folded, Folding, FoldTask, Living
from .jobs import Jobs
from .staging import AppliedStatement, Staged, Stager
from .statements import Effects, Position

if TYPE_CHECKING:
    import pyarrow as pa

_Result = TypeVar("_Result")
_TASK_BYTES = 48 << 20  # of staged images that a worker folds at a time
_SMALL_BYTES = 8 << 20  # of staged images, folded in less time than a job takes


@dataclass
class Changes:
    """The changes of one batch.

    Parameters
    ----------
    jobs : Jobs
        The changes, and who works on them.
    stager : Stager
        Stages them.
    keys : tuple of str
        The names of the key's columns.
    defaults : mapping of name to value
        Values for columns that inserts lack.
    effects : Effects
        The effects of the statements among the changes.
    app : App or None
        The application and its batch, which the commit records; `stage` adds the batch's last place.
    staged : list of Staged
        The workers' reports about the staged changes.
    added : tuple of pyarrow.Field
        Columns that statements added and that no image has.
    """

    jobs: Jobs
    stager: Stager
    keys: tuple[str, ...]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    effects: Effects = field(default_factory=Effects)
    app: App | None = None
    staged: list[Staged] = field(default_factory=list)
    added: tuple[pa.Field, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        """The columns of folded rows."""
        return self._folding.schema

    @property
    def _folding(self) -> Folding:
        effects = self.effects
        return Folding(self.stager, effects.altered, self.defaults, effects.cleared, added=self.added)

    @property
    def images(self) -> int:
        """The number of row images and statements."""
        return sum(one.images for one in self.staged)

    def stage(self) -> list[AppliedStatement]:
        """Stage the changes, and return the statements among them, in order.

        Raises
        ------
        ValueError
            A key is null or absent, or an update has no preimage.
        ApplyStopped
            An event cannot be read, or updates lack columns that they may have changed. It is a CopyNeeded if
            they have changed.
        """
        self.staged = self.jobs.stage(self.stager)
        places = [one.last for one in self.staged if one.last is not None]
        if self.app is not None and places:
            self.app = self.app._replace(last=max(places))
        if any(one.unreadable for one in self.staged):
            raise ApplyStopped("the batch has an event that cannot be read: use onError=raise")
        if any(one.torn for one in self.staged):
            self.staged = self.jobs.stage(self.stager, together=True)
        if any(one.torn for one in self.staged):
            raise ValueError("an update without its preimage: read with images=both")
        if changed := {name for one in self.staged for name in one.changed}:
            names = ", ".join(sorted(changed))
            raise CopyNeeded(
                f"the log has only changes of JSON documents in {names}, not the documents"
                " (binlog_row_value_options=PARTIAL_JSON without binlog_row_image=FULL)"
            )
        if unlogged := {name for one in self.staged for name in one.unlogged}:
            names = ", ".join(name for name in self.stager.schema.names if name in unlogged)
            raise ApplyStopped(
                f"both images of an update lack {names}, so the new values are not known: MariaDB 11.8 does"
                " not log the generated columns of updated rows; leave the columns or the table out, or use a"
                " server that logs them (MySQL, MariaDB 10.11)"
            )
        moved = [pairs for one in self.staged for pairs in one.moved]
        if moved and self.stager.buckets > 1:
            # Keys between which a row moved, and all keys connected by such moves, must be in one bucket.
            again = replace(self.stager, labels=labels_of(moved))
            kept = self.staged
            self.staged = self.jobs.run(again.again, [[one] for one in kept])
            for old, new in zip(kept, self.staged, strict=True):
                new.images, new.statements = old.images, old.statements
        return sorted(statement for one in self.staged for statement in one.statements)

    def alive(self, effects: Effects, until: Position, checks: tuple[Check, ...]) -> tuple[int, Check | None]:
        """Count the rows put in before a place, and find the first check that fails: `statements.Alive`."""
        added = tuple(
            import_pyarrow().field(name, kind)
            for name, kind in effects.types.items()
            if name not in self.stager.schema.names
        )
        folding = Folding(self.stager, effects.altered, self.defaults, effects.cleared, until, added)
        found = self.jobs.run(Living(folding, checks), self._tasks())
        return sum(count for count, _ in found), next(
            (check for _, check in found if check is not None), None
        )

    def fold(self, sink: Callable[[Folded], _Result]) -> list[_Result]:
        """Fold on the workers, where `sink` takes the results of some keys; returns what the calls returned.

        What is too small for a job is folded in this process.
        """
        size = sum(sum(sizes) for one in self.staged for _, _, sizes in one.files)
        work, tasks = _Sinking(self._folding, sink), self._tasks()
        found = [work(one) for one in tasks] if size < _SMALL_BYTES else self.jobs.run(work, tasks)
        return [one for one in found if one is not None]

    def _tasks(self) -> list[FoldTask]:
        sizes: dict[int, int] = {}
        parts: dict[int, list[tuple[str, list[int]]]] = {}
        for staged in self.staged:
            for name, buckets, bytes_of in staged.files:
                here: dict[int, list[int]] = {}
                for i, (bucket, size) in enumerate(zip(buckets, bytes_of, strict=True)):
                    here.setdefault(bucket, []).append(i)
                    sizes[bucket] = sizes.get(bucket, 0) + size
                for bucket, batches in here.items():
                    parts.setdefault(bucket, []).append((name, batches))
        tasks: list[FoldTask] = []
        together: list[int] = []
        for bucket in sorted(parts):
            if together and sum(sizes[b] for b in together) + sizes[bucket] > _TASK_BYTES:
                tasks.append(_task(parts[b] for b in together))
                together = []
            together.append(bucket)
        return [*tasks, _task(parts[b] for b in together)] if together else tasks


@dataclass(frozen=True)
class _Sinking:
    folding: Folding
    sink: Callable[[Folded], Any]

    def __call__(self, task: FoldTask) -> Any:
        folded = self.folding.fold(task)
        return None if folded is None else self.sink(folded)


def _task(buckets: Iterable[Sequence[tuple[str, list[int]]]]) -> FoldTask:
    files: dict[str, list[int]] = {}
    for parts in buckets:
        for name, batches in parts:
            files.setdefault(name, []).extend(batches)
    return FoldTask(tuple((name, tuple(batches)) for name, batches in files.items()))


def labels_of(moved: Sequence[NDArray[np.uint64]]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """The sorted hashes of keys, and for each a label that is the same for all connected keys.

    Parameters
    ----------
    moved : sequence of ndarray, shape (n, 2), uint64
        Pairs of hashes of keys between which a row moved.

    Returns
    -------
    tuple of ndarray, shape (n_keys,), uint64
        The hashes, and their labels: the smallest connected hash.
    """
    known, ends = np.unique(np.concatenate(moved), return_inverse=True)
    old, new = ends.reshape(-1, 2).T
    label = np.arange(len(known))
    while True:
        least = np.minimum(label[old], label[new])
        further = label.copy()
        for one in (old, new, label[old], label[new]):
            np.minimum.at(further, one, least)
        further = further[further]
        if (further == label).all():
            return known, known[label]
        label = further
