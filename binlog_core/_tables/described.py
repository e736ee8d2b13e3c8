"""A table's definition as plain values for JSON, and back: for data that is kept without its log."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

from .column_types import Kind
from .tables import Column, Table

_FIELDS = tuple(fields(Column))


def describe(table: Table) -> dict[str, Any]:
    """Primary key and columns; for each column, only what differs from the default."""
    return {
        "key": None if table.primary_key is None else list(table.primary_key),
        "columns": [
            {
                one.name: value.name if isinstance(value, Kind) else value
                for one in _FIELDS
                if (value := getattr(column, one.name)) != one.default or one.default is MISSING
            }
            for column in table.columns
        ],
    }


def described_table(database: str, name: str, description: dict[str, Any]) -> Table:
    """The table that was given to `describe`.

    Raises
    ------
    KeyError, TypeError, ValueError
        The value was not made by `describe`.
    """
    columns = []
    for i, told in enumerate(description["columns"]):
        members = told.get("members")
        column = Column(
            **{
                **told,
                "kind": Kind[told["kind"]],
                "members": None if members is None else tuple(map(str, members)),
            }
        )
        if column.index != i or not isinstance(column.name, str):
            raise ValueError(f"column {i} is number {column.index}")
        column.dtype  # noqa: B018  (a type that has none is refused here)
        columns.append(column)
    key = description["key"]
    return Table(database, name, tuple(columns), None if key is None else tuple(map(str, key)))
