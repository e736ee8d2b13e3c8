"""A group's batches as one sequence of changes, in log order across tables."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from .._core._values import Changes, Kept, RowReader, ValuePlan
from ..batch.change_batch import ChangeBatch
from ..batch.subsets import only
from ..gtids import gtid_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .._sources.opened import OpenSources
    from ..gtids import Gtid, MariadbGtid
    from ..report import Report
    from .group import Group

_PLANS = 4096  # at most; then all are dropped and made again


class ChangeReader:
    """Turns groups into RowChanges; keeps the value plans of columns, which many tables may share.

    Parameters
    ----------
    report : Report
        Counts texts and values that cannot be read.
    skip_errors : bool
        Return a damaged value as its bytes instead of raising an error.
    """

    def __init__(self, report: Report, *, skip_errors: bool) -> None:
        self._report = report
        self._skip = skip_errors
        # By the number of the table's columns, and the identity of the decoded ones, which the plan keeps
        # alive.
        self._plans: dict[tuple[int, int], ValuePlan] = {}
        self._kept = Kept()

    def changes(self, groups: Iterable[Group], opened: OpenSources | None = None) -> Changes:
        """One RowChange per changed row, in log order across each group's batches.

        Parameters
        ----------
        groups : iterable of Group
        opened : OpenSources, optional
            The sources of the groups; when they are closed, the changes end.
        """
        return Changes(self._read(groups), opened)

    def _read(self, groups: Iterable[Group]) -> Generator[list[RowReader], None, None]:
        for group in groups:
            with self.readers(group) as found:
                yield [reader for _, reader in found]

    @contextmanager
    def readers(self, group: Group) -> Iterator[list[tuple[ChangeBatch, RowReader]]]:
        """A reader for each batch that can be decoded; unreadable values are counted at the end."""
        found = [(batch, self._reader(batch)) for batch in group.batches if batch.table.undecodable is None]
        try:
            yield found
        finally:
            for _, reader in found:
                self._count("invalid_text", reader.invalid_text, reader.first_invalid_text)
                self._count("damaged_values", reader.damaged_values, reader.first_damaged_value)

    def _reader(self, batch: ChangeBatch) -> RowReader:
        key = len(batch.table.columns), id(batch.columns)
        plan = self._plans.get(key)
        if plan is None or plan.columns is not batch.columns:
            if len(self._plans) >= _PLANS:
                self._plans.clear()
            plan = self._plans[key] = ValuePlan(batch.table, batch.columns, self._kept)
        return RowReader(batch, plan, "skip" if self._skip else "raise")

    def _count(self, kind: str, count: int, first: Exception | None) -> None:
        if count:
            where = {name: getattr(first, name, None) for name in ("path", "offset", "table", "column")}
            self._report.add(kind, count=count, detail=getattr(first, "message", None), **where)


def without_first(
    batches: list[ChangeBatch], count: int, gtid: Gtid | MariadbGtid | None = None
) -> tuple[list[ChangeBatch], int]:
    """Batches without their first records in log order.

    Parameters
    ----------
    batches : list of ChangeBatch
    count : int
        Records.
    gtid : Gtid, MariadbGtid or None
        The transaction that these records belong to; None: any.

    Returns
    -------
    (batches, count)
        As many batches as before, perhaps empty ones; and how many records are still to be dropped.
    """
    lengths = [len(batch) for batch in batches]
    if not sum(lengths):
        return batches, count
    images = [batch.array["image"] for batch in batches]
    # Stable: both images of an update have the same place and stay together.
    order = np.lexsort(
        (np.concatenate([i["row"] for i in images]), np.concatenate([i["position"] for i in images]))
    )
    if gtid is not None:
        order = order[np.concatenate([_of_gtid(batch, str(gtid)) for batch in batches])[order]]
    kept = np.ones(sum(lengths), np.bool_)
    kept[order[:count]] = False
    parts = np.split(kept, np.cumsum(lengths)[:-1])
    left = [batch if part.all() else only(batch, part) for batch, part in zip(batches, parts, strict=True)]
    return left, max(0, count - len(order))


def _of_gtid(batch: ChangeBatch, gtid: str) -> NDArray[np.bool_]:
    """Which records of a batch belong to the transaction with a GTID."""
    found = np.array([gtid_text(one) == gtid for one in batch.transactions], np.bool_)
    its: NDArray[np.bool_] = found[batch.array["image"]["transaction"]]
    return its
