"""Changes of one table folded by key: whatever happened to a key in a batch becomes one row or one deletion.

That needs the rows in log order with the preimages of updates: only they tell that a key changed, and which
row a partial image belongs to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from ...errors import BinlogError, SchemaError
from ...schema.tokens import tokenize_statements
from ..rows.fit import SPECIAL, STATEMENT
from ..rows.images import ABSENT
from .alterations import Alteration, Check, From, read_alteration

if TYPE_CHECKING:
    import pyarrow as pa

OnAlter = Literal["apply", "ignore", "stop"]
OnDrop = Literal["stop", "empty"]
Key = tuple[Any, ...]
Row = dict[str, Any]


class ApplyStopped(BinlogError):
    """A logged statement changes the table in a way that cannot be applied; nothing of the batch was."""


@dataclass(frozen=True)
class Rules:
    """How changes are folded.

    Parameters
    ----------
    keys : tuple of str
        Columns that tell rows apart.
    on_alter : "apply", "ignore" or "stop"
    on_drop : "stop" or "empty"
    types : mapping of name to pyarrow.DataType
        The table's columns, as far as batch and target know them.
    target_has_rows : bool
        There is something to lose.
    defaults : mapping of name to value
        What columns are that an insert's image lacks.
    """

    keys: tuple[str, ...]
    on_alter: OnAlter = "apply"
    on_drop: OnDrop = "stop"
    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    target_has_rows: bool = True
    defaults: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Folded:
    """Changes by key.

    Parameters
    ----------
    rows : dict of key to dict or None
        What a row has become: the columns that are known; None: it is deleted.
    bases : dict of key to key or None
        Where the columns that `rows` lacks come from: the row that the target has under that key. None: from
        nowhere, they are null.
    truncated : bool
        What the target has is gone.
    values : dict of name to From or a value
        Columns that an ALTER TABLE changed in rows that the target has; From: of which of the target's.
    types : dict of name to pyarrow.DataType
        Of columns that an ALTER TABLE added or gave another type.
    checks : list of Check
        Of the target's own columns; they hold where an ALTER TABLE left all values alone.
    defaults : dict of name to value
        Of columns that an ALTER TABLE added.
    """

    rows: dict[Key, Row | None] = field(default_factory=dict)
    bases: dict[Key, Key | None] = field(default_factory=dict)
    truncated: bool = False
    values: dict[str, Any] = field(default_factory=dict)
    types: dict[str, pa.DataType] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)
    defaults: dict[str, Any] = field(default_factory=dict)

    def clear(self) -> None:
        """Nothing is left of what was."""
        self.rows.clear()
        self.bases.clear()
        self.values.clear()
        self.checks.clear()
        self.truncated = True

    def put(self, key: Key, row: Row, base: Key | None) -> None:
        """A row is there."""
        self.rows[key], self.bases[key] = row, base

    def take(self, key: Key) -> tuple[Row, Key | None]:
        """What is known of a row that an update found, and its base; under the key it is deleted then."""
        row = self.rows.get(key)
        base = self.bases.get(key) if row is not None else None if self.truncated else key
        self.rows[key], self.bases[key] = None, None
        return row or {}, base

    def alter(self, change: Alteration) -> None:
        """The rows that are there change their columns."""
        for check in change.checks:
            self._check(check)
        for row in self.rows.values():
            if row is None:
                continue
            before = dict(row)
            for name, value in change.values.items():
                if not isinstance(value, From):
                    row[name] = value
                elif value.column in before:
                    row[name] = before[value.column]
                else:
                    row.pop(name, None)  # of the base
        before = dict(self.values)
        self.defaults.update(change.defaults)
        for name, value in change.values.items():
            if isinstance(value, From):
                value = before.get(value.column, value)
            self.values[name] = value
        self.types.update(change.types)

    def _check(self, check: Check) -> None:
        for row in self.rows.values():
            value = None if row is None else row.get(check.column)
            if value is not None and not check.fits(value):
                raise SchemaError(check.reason, column=check.column)
        source = self.values.get(check.column, From(check.column))
        if isinstance(source, From):
            self.checks.append(check._replace(column=source.column))
        elif source is not None and not check.fits(source):
            raise SchemaError(check.reason, column=check.column)


def fold(changes: Iterable[Row], rules: Rules) -> Folded:
    """Fold changes of one table.

    Parameters
    ----------
    changes : iterable of dict
        Rows of the data source with images=both, in log order; with `_absent` where images are partial, with
        `_statement` for statements.
    rules : Rules

    Raises
    ------
    ApplyStopped
        A statement cannot be applied.
    ValueError
        A key is null or absent, or an update has no preimage.
    """
    folded, keys = Folded(), rules.keys
    before: Row | None = None
    for change in changes:
        kind = change["_change_type"]
        if kind == "update_preimage":
            before = change
        elif kind == "update_postimage":
            if before is None:
                raise ValueError("an update without its preimage: read with images=both")
            old, new = _key(before, keys), _key({**before, **_values(change)}, keys)
            known, base = folded.take(old)
            folded.put(new, {**known, **_values(before), **_values(change)}, base)
            before = None
        elif kind == "insert":
            row = {**_defaults(folded, change, rules), **_values(change)}
            folded.put(_key(row, keys), row, None)
        elif kind == "delete":
            folded.take(_key(change, keys))
        elif kind is None:
            raise ApplyStopped("the batch has an event that cannot be read: use mode=FAILFAST")
        else:
            _statement(folded, kind, change.get(STATEMENT) or "", rules)
    return folded


def _defaults(folded: Folded, change: Row, rules: Rules) -> Row:
    """What the server put into the columns that an insert did not name; such an image may lack them."""
    known = {**rules.defaults, **folded.defaults}
    lacking = change.get(ABSENT) or ()
    unknown = [name for name in lacking if name not in known]
    if unknown:
        raise ApplyStopped(
            f"an insert lacks the columns {', '.join(unknown)}, and the log does not tell their defaults:"
            " give them as defaults="
        )
    return {name: known[name] for name in lacking}


def _statement(folded: Folded, kind: str, sql: str, rules: Rules) -> None:
    words = _words(sql)
    if kind == "create" and "REPLACE" in words[:4]:
        kind = "drop"
    if kind == "create":
        pass  # either the table was there, or a DROP came before
    elif kind == "truncate":
        folded.clear()
    elif kind == "drop":
        _drop(folded, sql, rules)
    elif (
        rules.on_alter == "ignore"
        and words[:1] == ["ALTER"]
        and kind != "rename"
        and "PARTITION" not in words
    ):
        pass
    elif rules.on_alter == "apply" and kind == "alter":
        _alter(folded, sql, rules)
    else:
        raise ApplyStopped(f"{kind} of the table is not applied: {sql[:200]}")


def _drop(folded: Folded, sql: str, rules: Rules) -> None:
    rows = any(row is not None for row in folded.rows.values())
    if rules.on_drop == "stop" and (rows or (rules.target_has_rows and not folded.truncated)):
        raise ApplyStopped(f"drop of the table is not applied (on_drop='empty' would): {sql[:200]}")
    folded.clear()


def _alter(folded: Folded, sql: str, rules: Rules) -> None:
    try:
        change = read_alteration(sql, {**rules.types, **folded.types})
        if any(key in change.values for key in rules.keys):
            raise SchemaError("the key's columns change")
        folded.alter(change)
    except SchemaError as error:
        column = "" if error.column is None else f", column {error.column}"
        reason = f"{error.message}{column}"
        raise ApplyStopped(f"alter of the table is not applied ({reason}): {sql[:200]}") from error


def _words(sql: str) -> list[str]:
    try:
        return [token.text.upper() for token in next(tokenize_statements(sql), ())]
    except SchemaError:
        return []  # such a statement is unknown, and stops


def _values(change: Row) -> Row:
    absent = set(change.get(ABSENT) or ())
    return {
        name: value for name, value in change.items() if name.lower() not in SPECIAL and name not in absent
    }


def _key(change: Row, keys: Sequence[str]) -> Key:
    key = tuple(change.get(name) for name in keys)
    if None in key:
        raise ValueError(f"the key {', '.join(keys)} is null or not in a row image: name other keys")
    return key
