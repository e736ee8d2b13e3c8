"""A group's batches as one sequence of changes, in log order across tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ._values import ChangeIterator, RowChange, RowReader, ValuePlan

if TYPE_CHECKING:
    from .batch import ChangeBatch
    from .group import Group
    from .report import Report

_PLANS = 4096  # kept before all are made anew


class ChangeReader:
    """Turns groups into RowChanges; keeps what it worked out of each table definition.

    Parameters
    ----------
    report : Report
        Texts and values that cannot be read are counted there.
    skip_errors : bool
        A damaged value comes as its bytes, instead of an error.
    """

    def __init__(self, report: Report, *, skip_errors: bool) -> None:
        self._report = report
        self._skip = skip_errors
        self._plans: dict[int, ValuePlan] = {}  # by id of the table, which the plan keeps alive

    def changes(self, group: Group) -> Iterator[RowChange]:
        """One RowChange per changed row, in log order across the group's batches."""
        readers = [self._reader(batch) for batch in group.batches if batch.table.undecodable is None]
        try:
            yield from ChangeIterator(readers)
        finally:
            for reader in readers:
                self._count("invalid_text", reader.invalid_text, reader.first_invalid_text)
                self._count("damaged_values", reader.damaged_values, reader.first_damaged_value)

    def _reader(self, batch: ChangeBatch) -> RowReader:
        plan = self._plans.get(id(batch.table))
        if plan is None or plan.columns != batch.columns:
            if len(self._plans) >= _PLANS:
                self._plans.clear()
            plan = self._plans[id(batch.table)] = ValuePlan(batch.table, batch.columns)
        return RowReader(batch, plan, "skip" if self._skip else "raise")

    def _count(self, kind: str, count: int, first: Exception | None) -> None:
        if count:
            where = {name: getattr(first, name, None) for name in ("path", "offset", "table", "column")}
            self._report.add(kind, count=count, detail=getattr(first, "message", None), **where)
