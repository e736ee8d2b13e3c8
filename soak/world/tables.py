"""Tables of a server of the world: their definitions and rows, after each transaction."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from support.writer.table import Table

from .line import Clock
from .model import Transaction

Row = dict[str, Any]
Key = tuple[Any, ...]
_NEW_COLUMNS = ("INT", "VARCHAR(40)", "DOUBLE", "BIGINT")


@dataclass(frozen=True)
class Shape:
    """A table's definition."""

    database: str
    name: str
    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...]
    logged: Table = field(compare=False)  # one object, whose id its log knows

    @classmethod
    def of(
        cls, database: str, name: str, columns: tuple[tuple[str, str], ...], key: tuple[str, ...]
    ) -> Shape:
        """A definition, and how it is logged: with the least of metadata, as servers do by default."""
        specs = [(column, kind, {"null": column not in key}) for column, kind in columns]
        return cls(
            database, name, columns, key, Table(database, name, specs, primary_key=key, metadata="MINIMAL")
        )

    @property
    def full_name(self) -> str:
        """``database.table``."""
        return f"{self.database}.{self.name}"

    @property
    def sql(self) -> str:
        """The CREATE TABLE statement."""
        lines = [f"  `{name}` {kind}{' NOT NULL' * (name in self.key)}" for name, kind in self.columns]
        lines.append(f"  PRIMARY KEY ({', '.join(f'`{one}`' for one in self.key)})")
        return (
            f"CREATE TABLE `{self.name}` (\n"
            + ",\n".join(lines)
            + "\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"
        )


@dataclass(frozen=True)
class RowChange:
    """A change of a row of a table; see `model.Change`."""

    number: int
    definition: Table
    op: str
    before: Row
    after: Row


@dataclass(frozen=True)
class Stored:
    """A table: its definition, its rows by key, and what XA transactions wait with; they do not change."""

    shape: Shape
    rows: Mapping[Key, Row] = field(default_factory=dict)
    prepared: Mapping[str, tuple[RowChange, ...]] = field(default_factory=dict, compare=False)

    @property
    def held(self) -> set[Key]:
        """The keys that XA transactions have locked."""
        changes = [one for waiting in self.prepared.values() for one in waiting]
        return {_key(self.shape, row) for one in changes for row in (one.before, one.after) if row}


State = Mapping[str, Stored]  # by full name


@dataclass(frozen=True)
class Executed(Transaction):
    """A transaction and what it leaves."""

    state: State = field(default_factory=dict)


def is_xa_commit(transaction: Transaction) -> bool:
    """Whether it ends an XA transaction that was prepared, and its rows stay."""
    return transaction.statement.startswith("XA COMMIT")


class Tables:
    """What the tables of a server hold, and what its sessions see of it.

    A transaction is in the log a little before others see it.

    Parameters
    ----------
    world : Clock
    first : State
        What they hold before the first transaction.

    Attributes
    ----------
    states : list of State
        After each transaction, by its number.
    seen : int
        The last transaction that others see.
    """

    def __init__(self, world: Clock, first: State) -> None:
        self._world = world
        self.states: list[State] = [first]
        self.seen = 0
        self._locks: set[object] = set()
        self.unlocked: Callable[[], None] = lambda: None
        self.xa_commits = 0  # that have begun
        self.refused = -math.inf  # when a lock was last refused, since an XA transaction holds one
        self.unknown: list[str] = []  # statements that nobody understood

    @property
    def now(self) -> State:
        """What others see."""
        return self.states[self.seen]

    @property
    def locked(self) -> bool:
        """Whether nobody may commit."""
        return bool(self._locks)

    def refuse(self) -> None:
        """Note that a session did not get its lock."""
        self.refused = self._world.now()

    def commit(self, transaction: Transaction) -> None:
        """Take what a transaction leaves."""
        assert isinstance(transaction, Executed)
        self.states.append(transaction.state)
        number = len(self.states) - 1
        ends_xa = is_xa_commit(transaction)
        self.xa_commits += ends_xa
        gaps = (0.0, 0.03, 3.0) if ends_xa else (0.0, 0.0, 0.0004, 0.03)
        if (transaction.changes or ends_xa) and (seconds := self._world.chance.choice(gaps)):
            self._world.after(seconds, lambda: self._show(number))
        else:
            self.seen = number

    def _show(self, number: int) -> None:
        self.seen = max(self.seen, min(number, len(self.states) - 1))

    def lose(self, count: int) -> None:
        """Lose the last transactions."""
        del self.states[len(self.states) - count :]
        self.seen = min(self.seen, len(self.states) - 1)

    def reset(self) -> None:
        """Number transactions anew."""
        del self.states[:-1]
        self.seen = 0

    def stop(self) -> None:
        """The server ends: what is committed is there when it is back."""
        self.seen = len(self.states) - 1

    def lock(self, owner: object) -> None:
        """Wait until all see what was committed; then nobody commits."""
        self.seen = len(self.states) - 1
        self._locks.add(owner)

    def unlock(self, owner: object) -> None:
        """Let others commit again."""
        if owner in self._locks:
            self._locks.discard(owner)
            if not self._locks:
                self.unlocked()


# ---------------------------------------------------------------- what happens to tables

FIRST = (
    (("shop", "orders", (("n", "BIGINT"), ("note", "VARCHAR(40)"), ("x", "INT")), ("n",))),
    (("shop", "items", (("n", "INT"), ("m", "BIGINT"), ("y", "DOUBLE")), ("n", "m"))),
    (("stock", "levels", (("body", "TEXT"), ("n", "BIGINT")), ("n",))),
)


def first_state(chance: Random) -> State:
    """Some tables with some rows."""
    found = {}
    for definition in FIRST[: chance.choice((1, 2, 3))]:
        shape = Shape.of(*definition)
        rows: dict[Key, Row] = {}
        for _ in range(chance.choice((0, 1, 12, 40))):
            row = _row(chance, shape)
            rows[_key(shape, row)] = row
        found[shape.full_name] = Stored(shape, rows)
    return found


def executed(
    state: State,
    transaction: Transaction,
    chance: Random,
    kinds: tuple[str, ...],
    ways: tuple[str, ...] = (),
) -> Executed:
    """What a transaction does to tables.

    Parameters
    ----------
    state : State
        Before.
    transaction : Transaction
        Its number.
    chance : Random
    kinds : tuple of str
        The statements that change definitions: see `_STATEMENTS`.
    ways : tuple of str
        How some transactions go: see `model.WAYS`.
    """
    branches = sorted({branch for stored in state.values() for branch in stored.prepared})
    if branches and chance.random() < 0.3:
        return _ended(state, transaction.number, chance.choice(branches), committed=chance.random() < 0.6)
    if kinds and chance.random() < 0.15:
        statement, after, database = _STATEMENTS[chance.choice(kinds)](state, chance, transaction.number)
        if statement:
            return Executed(transaction.number, (), statement=statement, state=after, database=database)
    after, changes, events = dict(state), list[RowChange](), list[int]()
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        if not after:
            break
        name = chance.choice(sorted(after))
        made = _changed(chance, after[name], transaction.number)
        if made:
            after[name] = _with(after[name], made)
            changes += made
            events.append(len(made))
    if not changes:
        return Executed(transaction.number, (), statement="CREATE DATABASE IF NOT EXISTS other", state=state)
    way = chance.choice(("commit", "commit", "savepoint"))
    branch = ""
    if ways and chance.random() < 0.4:
        way = chance.choice(ways)
        stays = 0 if way in ("rollback", "prepare") else events[0] if way == "undone" else len(changes)
        branch = f"X'{transaction.number:06x}',X'',1" if way in ("prepare", "one phase") else ""
        if any(branch in one.prepared for one in state.values()):  # its number was given again
            way, branch, stays = "commit", "", len(changes)
        after = _after(state, changes[:stays])
        if way == "prepare":
            after = _waiting(state, changes, branch)
    return Executed(transaction.number, tuple(changes), tuple(events), way, branch=branch, state=after)  # type: ignore[arg-type]


def _after(state: State, changes: list[RowChange]) -> dict[str, Stored]:
    """What changes leave."""
    after = dict(state)
    for name, own in _by_table(changes).items():
        after[name] = _with(state[name], own)
    return after


def _waiting(state: State, changes: list[RowChange], branch: str) -> dict[str, Stored]:
    """What changes leave that are prepared."""
    after = dict(state)
    for name, own in _by_table(changes).items():
        after[name] = replace(state[name], prepared={**state[name].prepared, branch: tuple(own)})
    return after


def _by_table(changes: list[RowChange]) -> dict[str, list[RowChange]]:
    found: dict[str, list[RowChange]] = {}
    for one in changes:
        found.setdefault(f"{one.definition.database}.{one.definition.name}", []).append(one)
    return found


def _ended(state: State, number: int, branch: str, *, committed: bool) -> Executed:
    """An XA transaction that was prepared comes to its end."""
    after = dict(state)
    for name, stored in state.items():
        if branch in stored.prepared:
            made = list(stored.prepared[branch]) if committed else []
            left = {one: waiting for one, waiting in stored.prepared.items() if one != branch}
            after[name] = replace(_with(stored, made), prepared=left)
    statement = f"XA {'COMMIT' if committed else 'ROLLBACK'} {branch}"
    return Executed(number, (), statement=statement, branch=branch, state=after)


def _changed(chance: Random, stored: Stored, number: int) -> list[RowChange]:
    """One statement: a list of changes of different rows."""
    shape, rows = stored.shape, dict(stored.rows)
    op = chance.choice(("insert", "insert", "update", "update", "delete"))
    count = chance.choice((1, 1, 1, 2, 5, 40))
    made: list[RowChange] = []
    held = stored.held
    if op == "insert":
        for _ in range(count):
            row = _row(chance, shape)
            if _key(shape, row) not in {*rows, *held}:
                rows[_key(shape, row)] = row
                made.append(RowChange(number, shape.logged, op, {}, row))
        return made
    free = sorted(rows.keys() - held)
    for key in chance.sample(free, min(count, len(free))):
        before = rows[key]
        if op == "delete":
            made.append(RowChange(number, shape.logged, op, {}, before))
            continue
        after = _row(chance, shape)
        if chance.random() < 0.7 or _key(shape, after) in {*rows, *held}:
            after |= {name: before[name] for name in shape.key}
        else:
            rows[_key(shape, after)] = after
        made.append(RowChange(number, shape.logged, op, before, after))
    return made


def _with(stored: Stored, changes: list[RowChange]) -> Stored:
    rows, shape = dict(stored.rows), stored.shape
    for one in changes:
        if one.op == "delete":
            del rows[_key(shape, one.after)]
            continue
        if one.op == "update":
            del rows[_key(shape, one.before)]
        rows[_key(shape, one.after)] = one.after
    return replace(stored, rows=rows)


def _key(shape: Shape, row: Row) -> Key:
    return tuple(row[name] for name in shape.key)


def _row(chance: Random, shape: Shape) -> Row:
    return {
        name: chance.randrange(60) if name in shape.key else _value(chance, kind)
        for name, kind in shape.columns
    }


def _value(chance: Random, kind: str) -> Any:
    if chance.random() < 0.2:
        return None
    if kind == "DOUBLE":
        return chance.randrange(1000) / 8
    if kind in ("INT", "BIGINT"):
        return chance.randrange(-5, 1 << 30)
    return f"text {chance.randrange(1000)} é"


# ---------------------------------------------------------------- statements

Made = tuple[str, State, str]  # the statement ("": none), what it leaves, its database


def _pick(state: State, chance: Random) -> Stored | None:
    """A table that no XA transaction has locked."""
    free = sorted(name for name, stored in state.items() if not stored.prepared)
    return state[chance.choice(free)] if free else None


def _altered(
    state: State, stored: Stored, columns: tuple[tuple[str, str], ...], change: Callable[[Row], Row]
) -> State:
    shape = Shape.of(stored.shape.database, stored.shape.name, columns, stored.shape.key)
    rows = {key: change(row) for key, row in stored.rows.items()}
    return {**state, shape.full_name: Stored(shape, rows)}


def _add_column(state: State, chance: Random, number: int) -> Made:
    if (stored := _pick(state, chance)) is None:
        return "", state, ""
    name, kind = f"c{number}", chance.choice(_NEW_COLUMNS)
    after = _altered(state, stored, (*stored.shape.columns, (name, kind)), lambda row: row | {name: None})
    return f"ALTER TABLE `{stored.shape.name}` ADD COLUMN {name} {kind}", after, stored.shape.database


def _drop_column(state: State, chance: Random, number: int) -> Made:
    stored = _pick(state, chance)
    free = (
        [] if stored is None else [name for name, _ in stored.shape.columns if name not in stored.shape.key]
    )
    if stored is None or not free:
        return "", state, ""
    gone = chance.choice(free)
    left = tuple(one for one in stored.shape.columns if one[0] != gone)
    after = _altered(state, stored, left, lambda row: {k: v for k, v in row.items() if k != gone})
    return f"ALTER TABLE `{stored.shape.name}` DROP COLUMN {gone}", after, stored.shape.database


def _rename_column(state: State, chance: Random, number: int) -> Made:
    if (stored := _pick(state, chance)) is None:
        return "", state, ""
    free = [one for one in stored.shape.columns if one[0] not in stored.shape.key]
    if not free:
        return "", state, ""
    old, kind = chance.choice(free)
    new = f"r{number}"
    columns = tuple((new, kind) if one[0] == old else one for one in stored.shape.columns)
    after = _altered(
        state,
        stored,
        columns,
        lambda row: {new if name == old else name: value for name, value in row.items()},
    )
    return f"ALTER TABLE `{stored.shape.name}` CHANGE {old} {new} {kind}", after, stored.shape.database


def _truncate(state: State, chance: Random, number: int) -> Made:
    if (stored := _pick(state, chance)) is None:
        return "", state, ""
    after = {**state, stored.shape.full_name: replace(stored, rows={})}
    return f"TRUNCATE TABLE `{stored.shape.name}`", after, stored.shape.database


def _rename(state: State, chance: Random, number: int) -> Made:
    if (stored := _pick(state, chance)) is None:
        return "", state, ""
    shape = stored.shape
    names = [one for one in ("orders", "items", "levels", "other") if f"{shape.database}.{one}" not in state]
    if not names:
        return "", state, ""
    made = Shape.of(shape.database, chance.choice(names), shape.columns, shape.key)
    after = {name: one for name, one in state.items() if name != shape.full_name}
    after[made.full_name] = Stored(made, stored.rows)
    return f"RENAME TABLE `{shape.name}` TO `{made.name}`", after, shape.database


def _drop(state: State, chance: Random, number: int) -> Made:
    if (stored := _pick(state, chance)) is None:
        return "", state, ""
    after = {name: one for name, one in state.items() if name != stored.shape.full_name}
    return f"DROP TABLE `{stored.shape.name}`", after, stored.shape.database


def _create(state: State, chance: Random, number: int) -> Made:
    database, name, columns, key = chance.choice(FIRST)
    if f"{database}.{name}" in state:
        return "", state, ""
    shape = Shape.of(database, name, columns, key)
    return shape.sql, {**state, shape.full_name: Stored(shape)}, database


_STATEMENTS: dict[str, Callable[[State, Random, int], Made]] = {
    "add": _add_column,
    "drop column": _drop_column,
    "rename column": _rename_column,
    "truncate": _truncate,
    "rename": _rename,
    "drop": _drop,
    "create": _create,
}
STATEMENTS = tuple(_STATEMENTS)
