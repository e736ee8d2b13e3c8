"""Changes of one table folded by key: whatever happened to a key in a batch becomes one row or one deletion.

If images are complete, the last one of a key is the result. Otherwise, or if the target has more columns,
each column is searched separately in the life of the row: from its insert, or from the row in the target,
through all keys that it moved to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...errors import ApplyStopped
from ..rows.types import import_pyarrow
from .alterations import Check, From
from .keys import numbered
from .staging import CAME, DELETE, GONE, INSERT, RowImages, Stager
from .statements import Altered, Position

if TYPE_CHECKING:
    import pyarrow as pa

_Result = TypeVar("_Result")


@dataclass(frozen=True, eq=False)
class Folded:
    """What became of keys.

    Parameters
    ----------
    columns : list of pyarrow.Array
        A row for each key; of a deleted row only the key's columns.
    deleted : ndarray, shape (n,), bool
        Whether the key is deleted.
    lacks : ndarray, shape (n, columns), bool, or None
        Columns that have to be taken from the target's row with the key in `bases`; None: none.
    bases : list of pyarrow.Array
        The columns of that key, if `lacks` is given.
    """

    columns: list[Any]
    deleted: NDArray[np.bool_]
    lacks: NDArray[np.bool_] | None = None
    bases: list[Any] = field(default_factory=list)


def fold(images: RowImages, keys: Sequence[int], *, truncated: bool = False) -> Folded:
    """Fold images.

    Parameters
    ----------
    images : RowImages
        All images of their keys, and of the keys that their rows moved from; in any order.
    keys : sequence of int
        The indices of the key's columns.
    truncated : bool
        Whether the target has no rows any more.
    """
    if images.lacks is not None:
        images = images.sorted()
    codes, count = numbered([images.columns[i] for i in keys])
    if images.lacks is None and count == len(images):
        return Folded(images.columns, np.isin(images.op, (DELETE, GONE)))
    order = images.order()
    order = np.arange(len(codes)) if order is None else order
    last = np.zeros(count, np.int64)
    last[codes[order]] = order  # for repeated indices, the last value is kept
    deleted = np.isin(images.op[last], (DELETE, GONE))
    if images.lacks is None:
        places = import_pyarrow().array(last)
        return Folded([column.take(places) for column in images.columns], deleted)
    return _by_column(images, images.lacks, keys, codes, last, deleted, truncated)


def _by_column(
    images: RowImages,
    lacks: NDArray[np.bool_],
    keys: Sequence[int],
    codes: NDArray[np.int64],
    last: NDArray[np.int64],
    deleted: NDArray[np.bool_],
    truncated: bool,
) -> Folded:
    pa = import_pyarrow()
    life, first = _lives(images, codes)
    no_image = np.isin(images.op, (DELETE, GONE))
    mine = life[last]
    unknown = np.zeros((len(last), lacks.shape[1]), np.bool_)
    columns = []
    for j, column in enumerate(images.columns):
        rows = np.flatnonzero(~lacks[:, j] & ~no_image)
        source = np.full(len(first), -1, np.int64)
        source[life[rows]] = rows
        found = np.where(deleted, last if j in keys else -1, source[mine])
        unknown[:, j] = (found < 0) & ~deleted
        columns.append(column.take(pa.array(found, mask=found < 0)))
    began = first[mine]  # the first image of each row's life
    has_base = ~np.isin(images.op[began], (INSERT, CAME)) & (not truncated)
    unknown &= has_base[:, None]
    if not unknown.any():
        return Folded(columns, deleted)
    places = pa.array(began)
    return Folded(columns, deleted, unknown, [images.columns[i].take(places) for i in keys])


def _lives(images: RowImages, codes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The life of a row that each image belongs to, and the first image of each life."""
    op, count = images.op, len(codes)
    order = np.argsort(codes, kind="stable")
    inside = np.concatenate(([False], codes[order][1:] == codes[order][:-1]))
    ended = np.concatenate(([False], np.isin(op[order], (DELETE, GONE))[:-1]))
    starts = ~inside | ended | np.isin(op[order], (INSERT, CAME))
    stay = np.empty(count, np.int64)  # of a row under one key
    stay[order] = np.cumsum(starts) - 1
    first = order[starts]
    # A row that came to a key was until then under the key of the image before.
    came = first[(op[first] == CAME) & (first > 0)]
    same = (images.version[came - 1] == images.version[came]) & (op[came - 1] == GONE)
    came = came[same & (images.ordinal[came - 1] + 1 == images.ordinal[came])]
    parent = np.arange(len(first))
    parent[stay[came]] = stay[came - 1]
    while True:
        further = parent[parent]
        if (further == parent).all():
            return parent[stay], first
        parent = further


@dataclass(frozen=True)
class FoldTask:
    """Buckets to be folded by one worker.

    Parameters
    ----------
    files : tuple of (str, tuple of int)
        The staged files, and the numbers of their record batches.
    """

    files: tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True)
class Folding:
    """How staged images are folded; pickled to the workers.

    Parameters
    ----------
    stager : Stager
        Reads the staged images.
    altered : tuple of Altered
        The ALTER TABLEs, which change the images before them.
    defaults : mapping of name to value
        Values for columns that inserts lack.
    since, until : (int, int) or None
        Fold only row images between these places.
    added : tuple of pyarrow.Field
        Columns that the images lack, after the others.
    """

    stager: Stager
    altered: tuple[Altered, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    since: Position | None = None
    until: Position | None = None
    added: tuple[pa.Field, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        """The schema of folded rows."""
        return import_pyarrow().schema([*self.stager.schema, *self.added])

    def fold(self, task: FoldTask) -> Folded | None:
        """Fold the images in some buckets; None if there are none.

        Raises
        ------
        ApplyStopped
            An insert lacks a column whose default is not known.
        """
        pieces = [images for name, batches in task.files for images in self.stager.read(name, batches)]
        if not pieces:
            return None
        images = joined(pieces)
        if self.altered or self.since is not None or self.until is not None:
            images = self._between(images.sorted())
        if not len(images):
            return None
        images = self._inserted(self._extended(images))
        for one in self.altered:
            if self.until is None or one.place < self.until:
                images = self._after(one, images)
        return fold(images, self.stager.keys, truncated=self.since is not None)

    def _between(self, images: RowImages) -> RowImages:
        start = 0 if self.since is None else _before(images, self.since)
        end = len(images) if self.until is None else _before(images, self.until)
        return images if end - start == len(images) else images.take(np.arange(start, max(start, end)))

    def _extended(self, images: RowImages) -> RowImages:
        if not self.added:
            return images
        pa, count = import_pyarrow(), len(self.stager.schema)
        lacks = np.zeros((len(images), count + len(self.added)), np.bool_)
        if images.lacks is not None:
            lacks[:, :count] = images.lacks
        lacks[images.op != INSERT, count:] = True  # an insert has null there
        nulls = [pa.nulls(len(images), one.type) for one in self.added]
        return replace(images, columns=[*images.columns, *nulls], lacks=lacks)

    def _inserted(self, images: RowImages) -> RowImages:
        """Give inserts the server's values for columns that they did not name and their images lack."""
        if images.lacks is None:
            return images
        inserts = images.op == INSERT
        lacking = np.flatnonzero(images.lacks[inserts].any(axis=0))
        if not len(lacking):
            return images
        lacks, columns = images.lacks.copy(), list(images.columns)
        known = dict(self.defaults)
        bounds: list[tuple[int, Mapping[str, Any]]] = [(0, {})]
        bounds += [(_before(images, one.place), one.defaults) for one in self.altered]
        ends = [start for start, _ in bounds[1:]] + [len(images)]
        for (start, more), end in zip(bounds, ends, strict=True):
            known |= more
            for j in lacking:
                rows = np.flatnonzero(inserts[start:end] & lacks[start:end, j]) + start
                name = self.schema.names[j]
                if not len(rows):
                    continue
                if name not in known:
                    raise self._unknown(lacks[rows[0]], known)
                columns[j] = _set(columns[j], rows, known[name])
                lacks[rows, j] = False
        return replace(images, columns=columns, lacks=lacks if lacks.any() else None)

    def _unknown(self, lacks: NDArray[np.bool_], known: Mapping[str, Any]) -> ApplyStopped:
        names = ", ".join(
            name for name, one in zip(self.schema.names, lacks, strict=True) if one and name not in known
        )
        return ApplyStopped(
            f"an insert lacks the columns {names}, and the log does not have their defaults: give them as"
            " defaults="
        )

    def _after(self, altered: Altered, images: RowImages) -> RowImages:
        """The row images before an ALTER TABLE, changed as it changes rows."""
        end = _before(images, altered.place)
        if not end:
            return images
        rows, names = np.arange(end), self.schema.names
        columns = list(images.columns)
        lacks = None if images.lacks is None else images.lacks.copy()
        for name, value in altered.values.items():
            if name not in names:
                continue
            j = names.index(name)
            gone = np.zeros(end, np.bool_)
            if not isinstance(value, From):
                columns[j] = _set(images.columns[j], rows, value)
            elif value.column in names:
                source = names.index(value.column)
                moved = images.columns[source].slice(0, end).cast(self.schema.field(j).type)
                columns[j] = import_pyarrow().concat_arrays([moved, images.columns[j].slice(end)])
                if images.lacks is not None:
                    gone = images.lacks[:end, source]
            else:
                gone[:] = True
            if lacks is None and gone.any():
                lacks = np.zeros((len(images), len(names)), np.bool_)
            if lacks is not None:
                lacks[:end, j] = gone
        return replace(images, columns=columns, lacks=lacks)


@dataclass(frozen=True)
class Living:
    """Counts the rows that exist, and finds the first of some checks that does not hold."""

    folding: Folding
    checks: tuple[Check, ...]

    def __call__(self, task: FoldTask) -> tuple[int, Check | None]:
        """Count and check the rows in some buckets."""
        folded = self.folding.fold(task)
        if folded is None:
            return 0, None
        pa = import_pyarrow()
        alive = pa.array(~folded.deleted)
        names = self.folding.schema.names
        for check in self.checks:
            if check.column in names:
                values = folded.columns[names.index(check.column)].filter(alive)
                if not fits(check, values):
                    return 0, check
        return int(np.count_nonzero(~folded.deleted)), None


def fits(check: Check, values: Any) -> bool:
    """Whether a check holds for all values."""
    return all(map(check.holds, values.unique().to_pylist()))


def _before(images: RowImages, place: Position) -> int:
    """How many of some images, which are in order, come before a place."""
    start, end = (int(np.searchsorted(images.version, place[0], side)) for side in ("left", "right"))
    return start + int(np.searchsorted(images.ordinal[start:end], place[1]))


def _set(column: pa.Array, rows: NDArray[np.int64], value: Any) -> pa.Array:
    import pyarrow.compute as pc

    pa = import_pyarrow()
    mask = np.zeros(len(column), np.bool_)
    mask[rows] = True
    return pc.if_else(pa.array(mask), pa.scalar(value, column.type), column)


def joined(pieces: Sequence[RowImages]) -> RowImages:
    """Several `RowImages` as one."""
    if len(pieces) == 1:
        return pieces[0]
    pa = import_pyarrow()
    lacks = None
    if any(one.lacks is not None for one in pieces):
        width = len(pieces[0].columns)
        lacks = np.concatenate(
            [np.zeros((len(one), width), np.bool_) if one.lacks is None else one.lacks for one in pieces]
        )
    return RowImages(
        [pa.concat_arrays(parts) for parts in zip(*(one.columns for one in pieces), strict=True)],
        np.concatenate([one.version for one in pieces]),
        np.concatenate([one.ordinal for one in pieces]),
        np.concatenate([one.op for one in pieces]),
        lacks,
    )
