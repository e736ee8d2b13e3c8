"""Several rows in one statement: as many rows in fewer events of the log, and in less time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from .._tables.column_types import Kind
from .literals import NULL

if TYPE_CHECKING:
    from .._tables.tables import Column
    from .statements import TableStatements
    from .undo_rows import UndoRow

ROWS_AT_A_TIME = 100
_MOST_TEXT = 1 << 18  # characters of values in a statement; a server takes at least 1 MiB

# Kinds whose literals stay what they are in a CASE. Text does so as plain ASCII: with a character set of its
# own, one literal could change how another is read.
_NUMBERS = frozenset((Kind.INT, Kind.DECIMAL, Kind.FLOAT, Kind.DOUBLE))
_QUOTED = frozenset((Kind.DATE, Kind.TIME, Kind.DATETIME, Kind.TIMESTAMP, Kind.TEXT, Kind.ENUM, Kind.SET))
_INTEGER = 18  # digits that fit a signed and an unsigned number: a mixture of both may be of another type


def divided(rows: Iterable[UndoRow], most: int) -> Iterator[list[UndoRow]]:
    """Neighbours that one statement can undo; the others alone.

    Parameters
    ----------
    rows : iterable of UndoRow
        The rows, in the order in which they are undone.
    most : int
        Rows of a statement.
    """
    together: list[UndoRow] = []
    text = 0
    for row in rows:
        size = sum(len(v) for image in (row.before, row.after) if image for v in image if v is not None)
        if together and (
            len(together) >= most or text + size > _MOST_TEXT or not _are_alike(together[-1], row)
        ):
            yield together
            together, text = [], 0
        together.append(row)
        text += size
    if together:
        yield together


def _are_alike(one: UndoRow, row: UndoRow) -> bool:
    if one.plan is not row.plan or one.action != row.action or one.columns or row.columns:
        return False
    return all(map(_can_be_joined, (one, row)))


def _can_be_joined(row: UndoRow) -> bool:
    plan, before, after = row.plan, row.before, row.after
    if before is not None and any(
        value is None and column.name not in plan.generated
        for column, value in zip(plan.columns, before, strict=True)
    ):
        return False
    if after is None:
        return True
    if plan.key is None or plan.key_condition(after) is None:
        return False
    return before is None or all(before[i] == after[i] for i in plan.key)  # a new key may need an order


def joined(rows: list[UndoRow]) -> str:
    """One statement that undoes what `divided` put together, with its semicolon."""
    plan, first = rows[0].plan, rows[0]
    if len(rows) == 1:
        return first.statement()
    if first.after is None:
        own = [i for i, column in enumerate(plan.columns) if column.name not in plan.generated]
        names = ", ".join(plan.names[i] for i in own)
        images = ("(" + ", ".join(str(row.before[i]) for i in own) + ")" for row in rows if row.before)
        return f"INSERT INTO {plan.name} ({names}) VALUES {', '.join(images)};"
    where = each_is(rows, [row.condition() for row in rows])
    if first.before is None:
        return f"DELETE FROM {plan.name} WHERE {where};"
    pairs = []
    for i in _assigned(rows):
        values = [str(row.before[i]) for row in rows if row.before is not None]
        value = values[0] if len(set(values)) == 1 else _case(rows, values)
        pairs.append(f"{plan.names[i]} = {value}")
    return f"UPDATE {plan.name} SET {', '.join(pairs)} WHERE {where};"


def each_is(rows: list[UndoRow], conditions: list[str]) -> str:
    """The condition that a row is one of some, and that its own condition holds.

    It costs a server less than all the conditions one after the other.
    """
    return f"{any_key(rows)} AND {_case(rows, conditions)}"


def any_key(rows: list[UndoRow]) -> str:
    """The condition that a row has the primary key of one of some rows."""
    if (i := _integer_key(rows[0].plan)) is not None:
        return f"{rows[0].plan.names[i]} IN ({', '.join(str(row.image[i]) for row in rows)})"
    return f"({' OR '.join(f'({key})' for key in _keys(rows))})"


def _case(rows: list[UndoRow], values: list[str]) -> str:
    """An expression that is another one for each row."""
    if (i := _integer_key(rows[0].plan)) is not None:
        operand, keys = f" {rows[0].plan.names[i]}", [str(row.image[i]) for row in rows]
    else:
        operand, keys = "", _keys(rows)
    cases = " ".join(f"WHEN {key} THEN {value}" for key, value in zip(keys, values, strict=True))
    return f"CASE{operand} {cases} END"


def _integer_key(plan: TableStatements) -> int | None:
    """The column of a key that is one integer."""
    if plan.key is not None and len(plan.key) == 1 and plan.columns[plan.key[0]].kind is Kind.INT:
        return plan.key[0]
    return None


def _keys(rows: list[UndoRow]) -> list[str]:
    return [str(row.plan.key_condition(row.image)) for row in rows]


def is_certain(rows: list[UndoRow]) -> bool:
    """Whether nobody has to look at what the joined statement did.

    A CASE gives each row its own value if the values are of one type.
    """
    return rows[0].action != "update" or all(
        _stays_in_a_case(rows[0].plan.columns[i], row.before[i])
        for i in _assigned(rows)
        for row in rows
        if row.before is not None
    )


def _stays_in_a_case(column: Column, literal: str | None) -> bool:
    if literal is None or literal == NULL:
        return literal is not None
    if column.kind in _NUMBERS:
        return len(literal) <= _INTEGER or not literal.isdigit()
    return column.kind in _QUOTED and literal.startswith("'")


def _assigned(rows: list[UndoRow]) -> list[int]:
    """The columns that at least one of them sets."""
    plan: TableStatements = rows[0].plan
    chosen: set[int] = set()
    for row in rows:
        assert row.before is not None and row.after is not None
        chosen.update(plan.assigned(row.after, row.before, inverse=True))
    return sorted(chosen)
