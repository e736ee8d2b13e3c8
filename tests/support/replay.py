"""Shared by the tests of SQL."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import binlog_core
from binlog_core import Column, RowChange, Table
from binlog_core._tables.column_types import Kind
from binlog_core.replay import UndoPlan
from binlog_core.replay.statements import StatementMaker

from .golden import DATA

ID = Column("id", 0, 3, Kind.INT, signed=True)
TEXT = Column("text", 1, 15, Kind.TEXT, charset="utf8mb4")
FLOAT = Column("f", 2, 5, Kind.DOUBLE)
AT = Column("at", 3, 18, Kind.DATETIME)


def maker(name: str = "maria1011/types_ints") -> StatementMaker:
    """Writes statements for the tables of a golden log."""
    with binlog_core.open(DATA / f"{name}.binlog") as log:
        return StatementMaker(log.format)


def table(*columns: Column, key: tuple[str, ...] | None = ("id",)) -> Table:
    """A table with a name that must be quoted."""
    numbered = tuple(replace(column, index=i) for i, column in enumerate(columns))
    return Table("shop", "or`ders", numbered, primary_key=key)


def change(before: dict[str, Any] | None, after: dict[str, Any] | None) -> RowChange:
    """A change of one of its rows."""
    op = "insert" if before is None else "delete" if after is None else "update"
    return RowChange(op, "shop", "or`ders", before, after)


def alone(made: UndoPlan) -> list[tuple[str, str]]:
    """Keys of the rows that are left alone, and why."""
    return [(one.key, one.why) for one in made.left_alone()]
