"""Golden logs, and the changes that conditions select in them, found by plain Python."""

from __future__ import annotations

import datetime as dt
import glob
import operator
import random
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

import binlog_core
from binlog_core import Column, RowChange
from binlog_core._tables.column_types import Kind
from binlog_core.conditions.language import quoted, quoted_name
from support.golden import DATA, Golden, full_name, golden_logs

LOGS = golden_logs()
by_name = pytest.mark.parametrize("golden", LOGS, ids=str)
TELLING = [g for g in LOGS if any(word in g.name for word in ("types", "image", "compress", "partial"))]
by_telling_name = pytest.mark.parametrize("golden", TELLING, ids=str)
WITHOUT_ORDER = (Kind.JSON, Kind.GEOMETRY, Kind.VECTOR, Kind.NULL)
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
State = bool | None
MOST_COLUMNS = {True: 8, False: 2}  # of a table that are asked for: of logs about types, and of others


def comparable(value: Any) -> Any:
    """A value of ``RowChange`` in a form that can be compared with others of its kind."""
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None).isoformat(" ", "microseconds")
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, list):
        return ",".join(value)
    return value


def as_date(text: str, kind: Kind) -> str:
    """An invalid date, in the form that `comparable` gives the others."""
    if kind is Kind.DATE:
        return text
    return text if "." in text else f"{text}.000000"


def value_of(image: dict[str, Any], name: str, kind: Kind) -> Any:
    value = image[name]
    if kind in (Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP) and isinstance(value, str):
        whole, _, fraction = value.partition(".")
        return as_date(f"{whole}.{fraction.ljust(6, '0')}" if fraction else whole, kind)
    return comparable(value)


def literal_of(value: Any) -> str:
    if isinstance(value, list):
        return quoted(",".join(value))
    return quoted(value)


def matching(changes: list[RowChange], name: str, test: Callable[[dict[str, Any]], State]) -> list[RowChange]:
    return [
        c
        for c in changes
        if any(image is not None and name in image and test(image) is True for image in (c.before, c.after))
    ]


def like(text: Any, pattern: Any) -> bool:
    """Match by definition: tries everything."""
    if not pattern:
        return not text
    first, rest = pattern[:1], pattern[1:]
    if first in ("%", b"%"):
        return any(like(text[i:], rest) for i in range(len(text) + 1))
    return bool(text) and (first in ("_", b"_") or text[:1] == first) and like(text[1:], rest)


@cache
def opened(golden: Golden) -> binlog_core.Log:
    return binlog_core.open(golden.path, **golden.open_arguments)


@cache
def decoded(golden: Golden) -> dict[str, list[RowChange]]:
    found: dict[str, list[RowChange]] = {}
    for change in opened(golden).rows():
        found.setdefault(full_name(change.database, change.table), []).append(change)
    return found


def columns_of(golden: Golden) -> Iterator[tuple[str, Column, list[RowChange], list[Any]]]:
    """For each column of one definition: its changes, and some of its values that are not NULL."""
    definitions: dict[str, list[binlog_core.Table]] = {}
    for batch in opened(golden).batches():
        known = definitions.setdefault(batch.table.full_name, [])
        if batch.table not in known:
            known.append(batch.table)
    for name, tables in definitions.items():
        if len(tables) > 1 or tables[0].undecodable is not None:
            continue
        changes, columns = decoded(golden)[name], tables[0].columns
        most = min(MOST_COLUMNS["types" in golden.name], len(columns))
        for column in random.Random(name).sample(columns, most):
            images = [i for c in changes for i in (c.before, c.after) if i is not None and column.name in i]
            values = {repr(i[column.name]): i[column.name] for i in images if i[column.name] is not None}
            yield name, column, changes, list(values.values())


def found(golden: Golden, table: str, where: str) -> list[RowChange]:
    return list(opened(golden).rows(glob.escape(table), where=where))


def usable(value: Any, kind: Kind, column: Column) -> bool:
    if kind is Kind.ENUM or kind is Kind.SET:
        return column.members is not None and not isinstance(value, int)
    return kind is not Kind.TEXT or isinstance(value, str)


class Question:
    """A condition, and its result for a change."""

    def __init__(self, chance: random.Random, columns: list[tuple[Column, list[Any]]]) -> None:
        self._chance, self._columns = chance, columns

    def make(self, depth: int = 3) -> tuple[str, Callable[[dict[str, Any]], State]]:
        kind = self._chance.choice(("and", "or", "not", "leaf", "leaf")) if depth else "leaf"
        if kind == "leaf":
            return self._leaf()
        if kind == "not":
            text, part = self.make(depth - 1)

            def negated(images: dict[str, Any]) -> State:
                state = part(images)
                return None if state is None else not state

            return f"not ({text})", negated
        made = [self.make(depth - 1) for _ in range(self._chance.randint(2, 3))]

        def joined(images: dict[str, Any]) -> State:
            states = [part(images) for _, part in made]
            decisive = kind == "or"
            if decisive in states:
                return decisive
            return None if None in states else not decisive

        return f" {kind} ".join(f"({text})" for text, _ in made), joined

    def _leaf(self) -> tuple[str, Callable[[dict[str, Any]], State]]:
        column, values = self._chance.choice(self._columns)
        side = self._chance.choice(("", "", "before", "after"))
        name = f"{side}.{quoted_name(column.name)}" if side else quoted_name(column.name)
        op = self._chance.choice((*OPERATORS, "is null"))
        value = self._chance.choice(values)
        wanted = value_of({"v": value}, "v", column.kind)

        def test(images: dict[str, Any]) -> State:
            image = images[side]
            if image is None or column.name not in image:
                return None
            own = value_of(image, column.name, column.kind)
            if op == "is null":
                return own is None
            return None if own is None else OPERATORS[op](own, wanted)

        return f"{name} is null" if op == "is null" else f"{name} {op} {literal_of(value)}", test


ORDERS = str(DATA / "mysql97/image_full.binlog")
