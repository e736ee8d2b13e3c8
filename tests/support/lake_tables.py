"""Rows of a table, in one form for a lake and a server."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal
from typing import Any


def plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """Values as JSON has them; equal numbers are equal, whatever their type."""
    return {name: _plain(value) for name, value in row.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if isinstance(value, dt.datetime | dt.date):
        return value.isoformat()
    return value
