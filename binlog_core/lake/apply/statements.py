"""The effects of statements on the rows before them, determined by the driver before changes are folded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ...errors import ApplyStopped, CopyNeeded, SchemaError
from ...schema.tokens import tokenize_statements
from .alterations import Alteration, Check, From, ServerColumns, read_alteration
from .staging import AppliedStatement

if TYPE_CHECKING:
    import pyarrow as pa

OnAlter = Literal["apply", "ignore", "stop"]
OnDrop = Literal["stop", "empty"]
Position = tuple[int, int]  # version and ordinal


@dataclass(frozen=True)
class Rules:
    """How statements are handled.

    Parameters
    ----------
    keys : tuple of str
        The names of the key's columns.
    on_alter : "apply", "ignore" or "stop"
        As for `apply_changes`.
    on_drop : "stop" or "empty"
        As for `apply_changes`.
    types : mapping of name to pyarrow.DataType
        The columns of the table, in the batch and the target.
    target_has_rows : callable
        Whether the target has rows; called only at a DROP, since it reads the table's state.
    present : mapping of name to ColumnSchema or None, or None
        The columns that the server's table has before the statements, as in `Alteration`.
    same_key : bool
        Whether it is known that `keys` stay the table's key.
    """

    keys: tuple[str, ...]
    on_alter: OnAlter = "apply"
    on_drop: OnDrop = "stop"
    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    target_has_rows: Callable[[], bool] = lambda: True
    present: ServerColumns | None = None
    same_key: bool = False


class Altered(NamedTuple):
    """The effect of an ALTER TABLE.

    Parameters
    ----------
    place : (int, int)
        Its place among the changes.
    values : dict of name to From or a value
        See `Alteration`.
    defaults : dict of name to value
        Defaults of the columns that it added.
    """

    place: Position
    values: dict[str, Any]
    defaults: dict[str, Any]


@dataclass(frozen=True)
class Effects:
    """The effects of some statements together.

    Parameters
    ----------
    cleared : (int, int) or None
        The place of the last one that emptied the table: earlier rows are gone, in the target too.
    altered : tuple of Altered
        The effects of each ALTER TABLE on images before it.
    values : dict of name to From or a value
        Columns that change in the target's rows; a `From` names the source column.
    types : dict of name to pyarrow.DataType
        The types of columns that were added or got another type.
    checks : tuple of Check
        Checks of the target's columns, which hold if none of the values would change.
    present : mapping of name to ColumnSchema or None, or None
        The columns that the server's table has then, as in `Alteration`.
    """

    cleared: Position | None = None
    altered: tuple[Altered, ...] = ()
    values: dict[str, Any] = field(default_factory=dict)
    types: dict[str, pa.DataType] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    present: ServerColumns | None = None

    def clear(self, place: Position) -> Effects:
        """The effects with a statement that empties the table."""
        return replace(self, cleared=place, values={}, checks=())

    def alter(self, place: Position, change: Alteration) -> Effects:
        """The effects with a statement that changes columns of existing rows."""
        values = dict(self.values)
        for name, value in change.values.items():
            source = value.column if isinstance(value, From) else None
            values[name] = self.values.get(source, value) if source is not None else value
        return replace(
            self,
            altered=(*self.altered, Altered(place, change.values, change.defaults)),
            values=values,
            types={**self.types, **change.types},
            checks=(*self.checks, *self._of_target(change.checks)),
            present=change.present,
        )

    def _of_target(self, checks: Iterable[Check]) -> Iterable[Check]:
        for check in checks:
            source = self.values.get(check.column, From(check.column))
            if isinstance(source, From):
                yield check._replace(column=source.column)
            elif not check.holds(source):
                raise SchemaError(check.reason, column=check.column)


Alive = Callable[[Effects, Position, tuple[Check, ...]], tuple[int, Check | None]]


def follow(statements: Iterable[AppliedStatement], rules: Rules, alive: Alive) -> Effects:
    """Determine the effects of statements.

    Parameters
    ----------
    statements : iterable of AppliedStatement
        The statements, in order.
    rules : Rules
    alive : callable
        Counts the rows that the changes have put in before a place, and finds the first of some checks that
        does not hold for them.

    Raises
    ------
    ApplyStopped
        A statement cannot be applied.
    """
    effects = Effects(present=rules.present)
    for one in statements:
        kind, words = one.kind, _words(one.sql)
        if kind == "create" and "REPLACE" in words[:4]:
            kind = "drop"
        if kind == "create":
            continue  # either the table was there, or a DROP came before
        if kind == "truncate":
            effects = effects.clear(one.place)
        elif kind == "drop":
            if rules.on_drop == "stop":
                target = effects.cleared is None and rules.target_has_rows()
                if target or alive(effects, one.place, ())[0]:
                    raise ApplyStopped(
                        f"drop of the table is not applied (on_drop='empty' would apply it): {one.sql[:200]}"
                    )
            effects = replace(effects.clear(one.place), present=None)  # what follows is another table
        elif (
            rules.on_alter == "ignore"
            and words[:1] == ["ALTER"]
            and kind != "rename"
            and "PARTITION" not in words
        ):
            continue
        elif rules.on_alter == "apply" and kind == "alter":
            effects = _alter(effects, one, rules, alive)
        else:
            what = "a statement" if kind == "unknown" else f"{kind} of the table"
            raise CopyNeeded(f"{what} is not applied{_reason(kind, words)}: {one.sql[:200]}")
    return effects


def _alter(effects: Effects, statement: AppliedStatement, rules: Rules, alive: Alive) -> Effects:
    try:
        change = read_alteration(statement.sql, {**rules.types, **effects.types}, effects.present)
        if any(key in change.values for key in rules.keys):
            raise SchemaError("the key's columns change")
        if change.drops_key and not rules.same_key:  # rows with one of these keys may be several
            raise SchemaError("the primary key is dropped or changes")
        altered = effects.alter(statement.place, change)
        if change.checks:
            failed = alive(effects, statement.place, tuple(change.checks))[1]
            if failed is not None:
                raise SchemaError(failed.reason, column=failed.column)
    except SchemaError as error:
        column = "" if error.column is None else f", column {error.column}"
        reason = f"{error.message}{column}"
        raise CopyNeeded(f"alter of the table is not applied ({reason}): {statement.sql[:200]}") from error
    return altered


def _reason(kind: str, words: list[str]) -> str:
    if kind != "unknown" or words[:1] != ["ALTER"]:
        return ""
    return (
        " (it may change values without logging them: by its sql_mode, in generated columns, or in rows of"
        " partitions; with schema=ddl and the table's definition, harmless ones are recognized)"
    )


def _words(sql: str) -> list[str]:
    try:
        return [token.text.upper() for token in next(tokenize_statements(sql), ())]
    except SchemaError:
        return []  # it is an unknown statement, which stops the apply
