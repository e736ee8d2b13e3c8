"""Batches as tables for notebooks."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..batch import ChangeBatch

_ROWS = 10
_TEXT = 80  # characters of a value


def table_of(batch: ChangeBatch) -> str:
    """The first records of a batch, with their columns and kind of change."""
    names = ["_change_type", *(column.name for column in batch.value_columns)]
    shown = batch[:_ROWS].to_pylist(change_columns="_change_type")
    rows = [[_cell(record[name]) if name in record else "<td></td>" for name in names] for record in shown]
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(cells)}</tr>" for cells in rows)
    more = f"<p><small>{len(batch) - _ROWS:,} more</small></p>" if len(batch) > _ROWS else ""
    caption = html.escape(repr(batch)[1:-1])
    return f"<table><caption>{caption}</caption><tr>{head}</tr>{body}</table>{more}"


def _cell(value: Any) -> str:
    if value is None:
        return "<td><i>NULL</i></td>"
    text = str(value)
    return f"<td>{html.escape(text if len(text) <= _TEXT else text[:_TEXT] + '…')}</td>"
