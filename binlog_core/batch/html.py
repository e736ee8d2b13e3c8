"""Batches as tables for notebooks."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .records import BatchRecords

ROWS = 10
_TEXT = 80  # characters of a value


def table_of(batch: BatchRecords, shown: list[dict[str, Any]]) -> str:
    """Its first records, as dicts of their values and kind of change, as an HTML table."""
    names = ["_change_type", *(column.name for column in batch.value_columns)]
    rows = [[_cell(record[name]) if name in record else "<td></td>" for name in names] for record in shown]
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(cells)}</tr>" for cells in rows)
    more = f"<p><small>{len(batch) - ROWS:,} more</small></p>" if len(batch) > ROWS else ""
    caption = html.escape(repr(batch)[1:-1])
    return f"<table><caption>{caption}</caption><tr>{head}</tr>{body}</table>{more}"


def _cell(value: Any) -> str:
    if value is None:
        return "<td><i>NULL</i></td>"
    text = str(value)
    return f"<td>{html.escape(text if len(text) <= _TEXT else text[:_TEXT] + '…')}</td>"
