"""Which rows were changed most often, by their primary keys."""

from __future__ import annotations

import glob
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .._base.change_columns import POSTIMAGE
from .._core._values import RowReader
from .._tables.column_types import KINDS
from ..batch.subsets import only

if TYPE_CHECKING:
    from ..batch.change_batch import ChangeBatch
    from ..log.log import Log

_MOST = 1 << 17  # of the keys of a table that are counted at the same time


@dataclass(frozen=True, slots=True)
class HotKey:
    """A row that was changed often.

    Parameters
    ----------
    table : str
        The table, as "database.table".
    key : str
        The primary key, such as ``id=42``.
    changes : int
        How often it was inserted, updated or deleted; with very many keys, at least this often.
    """

    table: str
    key: str
    changes: int


def hot_keys(log: Log, tables: Iterable[str], *, most: int = 10) -> list[HotKey]:
    """The rows of some tables that were changed most often.

    Parameters
    ----------
    log : Log
        The log, which is read once more; only the columns of primary keys are decoded.
    tables : iterable of str
        The tables, as "database.table". A table is skipped if the log does not have its primary key.
    most : int
        The most rows to give.

    Returns
    -------
    list of HotKey
        The rows, those with most changes first; rows that were changed only once are left out.

    Raises
    ------
    BinlogError
        Reading the log failed.
    """
    patterns = [glob.escape(table) for table in tables]
    keys: dict[str, tuple[str, ...]] = {}
    found_keys = log.groups(tables=patterns, columns={"*": ()}) if patterns else ()
    for group in found_keys:
        for batch in group.batches:
            if batch.table.primary_key:
                keys.setdefault(batch.table.full_name, tuple(batch.table.primary_key))
        if len(keys) == len(patterns):
            break
    counts: dict[str, Counter[tuple[object, ...]]] = {name: Counter() for name in keys}
    columns = {glob.escape(name): key for name, key in keys.items()}
    for batch in log.batches(list(columns), columns) if columns else ():
        key = keys[batch.table.full_name]
        if set(key) <= {column.name for column in batch.columns}:
            _count(batch, key, counts[batch.table.full_name])
    found = [
        HotKey(name, ", ".join(f"{c}={v}" for c, v in zip(keys[name], values, strict=True)), count)
        for name, counter in counts.items()
        for values, count in counter.most_common(most)
        if count > 1
    ]
    return sorted(found, key=lambda one: -one.changes)[:most]


def _count(batch: ChangeBatch, key: tuple[str, ...], counter: Counter[tuple[object, ...]]) -> None:
    heads = only(batch, batch.array["image"]["op"] != POSTIMAGE)
    own = {column.name: column for column in batch.columns}
    if len(key) == 1 and KINDS[own[key[0]].kind].stored != "span" and heads.array["row"][key[0]].ndim == 1:
        # Only one record of each value becomes a Python value.
        _, first, counts = np.unique(heads.array["row"][key[0]], return_index=True, return_counts=True)
        kept = np.zeros(len(heads), np.bool_)
        kept[first] = True
        heads, amounts = only(heads, kept), counts[np.argsort(first)].tolist()
    else:
        amounts = [1] * len(heads)
    reader = RowReader(heads, None, "skip")
    values = zip(*(reader.column_values(name) for name in key), strict=True)
    for one, count in zip(values, amounts, strict=True):
        counter[tuple(map(_hashable, one))] += count
    if len(counter) > _MOST:  # subtract the median from all: what remains had more
        least = sorted(counter.values())[len(counter) // 2]
        for one in list(counter):
            counter[one] -= least
            if counter[one] <= 0:
                del counter[one]


def _hashable(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value
