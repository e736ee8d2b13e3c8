"""Rows of a table in a lake and on a server in one form."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal
from typing import Any


def plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """Values as JSON has them; numbers alike, whatever type holds them."""
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
