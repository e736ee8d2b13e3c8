"""A row whose changes are undone."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Literal

from .._tables.column_types import Kind
from .literals import ENUM_ZERO
from .statements import Ident, Literals, TableStatements

Action = Literal["insert", "update", "delete"]
State = Literal["ready", "changed since", "changed between", "refused", "conflict", "done"]
Place = tuple[int, int]  # position of the event, row in it

_MOST_OF_A_KEY = 120  # characters of a row's name


@dataclass(slots=True, eq=False)
class UndoRow:
    """One row, and the statement that undoes its changes.

    Parameters
    ----------
    plan : TableStatements
        How statements on its table are written, with the definition at the last change.
    before : sequence of str or None
        The row before the first change, as literals; None if it did not exist.
    after : sequence of str or None
        The row after the last change, as literals; None if it no longer exists.
    path : str
        The log with the last change.
    place : (int, int)
        Position of that change's event, and number of the row in it.

    Attributes
    ----------
    state : str
        "ready"; "changed since" by others, or "changed between" two of the changes; "refused" if the log or
        the server's table lacks something that is needed; "conflict" if the server refused the statement;
        "done".
    reason, who : str
        Why the row is left alone, and which transaction or statement changed it, as far as that is known.
    columns : tuple of str or None
        The only columns to set back, because others changed other columns; None for the whole row.
    """

    plan: TableStatements
    before: Literals | None
    after: Literals | None
    path: str
    place: Place
    state: State = "ready"
    reason: str = ""
    who: str = ""
    columns: tuple[str, ...] | None = None

    @property
    def table(self) -> str:
        """ "database.table"."""
        return self.plan.table.full_name

    @property
    def image(self) -> Literals:
        """The row as the last change left it, or before if it no longer exists."""
        found = self.after if self.after is not None else self.before
        assert found is not None
        return found

    @property
    def ident(self) -> Ident:
        """The identity of that image."""
        return self.plan.ident(self.image)

    @property
    def action(self) -> Action:
        """The kind of statement that undoes it."""
        return "insert" if self.after is None else "delete" if self.before is None else "update"

    @property
    def key(self) -> str:
        """The row's primary key, such as ``id=5``; without one, all its known values."""
        row = self.image
        chosen = self.plan.key if self.plan.key is not None else range(len(row))
        text = ", ".join(f"{self.plan.columns[i].name}={row[i]}" for i in chosen if row[i] is not None)
        return text if len(text) <= _MOST_OF_A_KEY else text[: _MOST_OF_A_KEY - 1] + "…"

    @property
    def why(self) -> str:
        """Why the row is left alone, on one line; "" if it is not."""
        if self.state in ("ready", "done"):
            return ""
        if self.state in ("refused", "conflict"):
            return self.reason
        if not self.who:
            return f"{self.reason}; these logs do not show by whom"
        return f"{self.reason}, changed by {self.who}" if self.reason else f"by {self.who}"

    def refuse(self, reason: str) -> None:
        """Leave the row alone because something that is needed is not known."""
        self.state, self.reason = "refused", reason

    def changed(self, who: str, *, between: bool = False) -> None:
        """Leave the row alone because others changed it."""
        if self.state == "ready":
            self.state, self.reason, self.who = "changed between" if between else "changed since", "", who

    def found(self, state: State, reason: str = "") -> None:
        """Note what the server shows; who changed the row is still known from the logs."""
        self.state, self.reason = state, reason

    def statement(self) -> str:
        """The statement that undoes it if it is still as the change left it; one line, with its semicolon.

        Raises
        ------
        SchemaError
            The log lacks something that is needed.
        """
        plan, before, after = self.plan, self.before, self.after
        if after is None:
            assert before is not None
            if plan.generated:
                own = zip(plan.columns, before, strict=True)
                before = [None if column.name in plan.generated else value for column, value in own]
            return plan.insertion(before)
        if before is None:
            return f"DELETE FROM {plan.name} WHERE {self.condition()};"
        if self.columns is None:
            chosen = plan.assigned(after, before, inverse=True)
        else:
            chosen = [i for i, column in enumerate(plan.columns) if column.name in self.columns]
        pairs = [f"{plan.names[i]} = {before[i]}" for i in chosen]
        return f"UPDATE {plan.name} SET {', '.join(pairs)} WHERE {self.condition()};"

    def changed_columns(self) -> tuple[str, ...] | None:
        """The possible `columns`: those that the changes set and the server does not, with all values known.

        Returns
        -------
        tuple of str, or None
            Their names; None if the whole row is needed.
        """
        plan, before, after = self.plan, self.before, self.after
        others = plan.generated | (plan.set_by_server.at_updates or frozenset())
        if before is None or after is None or plan.key_condition(after) is None:
            return None
        own = [i for i, c in enumerate(plan.columns) if before[i] != after[i] and c.name not in others]
        if not own or any(before[i] is None or after[i] is None for i in own):
            return None
        return tuple(plan.columns[i].name for i in own)

    def enum_zeros(self) -> list[str]:
        """The ENUM columns that the statement sets to index 0, which a server in strict mode refuses."""
        if self.before is None:
            return []
        after = self.after if self.after is not None else [None] * len(self.before)
        return [
            column.name
            for column, old, new in zip(self.plan.columns, self.before, after, strict=True)
            if column.kind is Kind.ENUM and old == ENUM_ZERO and new != ENUM_ZERO
        ]

    def condition(self) -> str:
        """The condition that a row is this one and still as the last change left it."""
        assert self.after is not None
        return self.condition_of(self.after)

    def restored(self) -> str:
        """The condition that a row is this one and as it was before the first change."""
        assert self.before is not None
        return self.condition_of(self.before, without=self.plan.generated)

    def condition_of(self, image: Literals, without: Container[str] = ()) -> str:
        """The condition that a row is this one, with the values of an image except in some columns."""
        wanted = self.columns
        compared = [
            one
            for name, one in self.plan.comparisons(image)
            if name not in without and (wanted is None or name in wanted)
        ]
        key = self.plan.key_condition(image)
        if key is None:
            return f"{' AND '.join(compared)} LIMIT 1"
        return " AND ".join(dict.fromkeys([key, *compared]))
