"""Each test of a condition against the same in plain Python: every column of the golden logs."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from support.conditions import (
    OPERATORS,
    WITHOUT_ORDER,
    State,
    by_name,
    by_telling_name,
    columns_of,
    found,
    like,
    literal_of,
    matching,
    usable,
    value_of,
)
from support.golden import Golden

from binlog_core import Column, RowChange
from binlog_core._tables.column_types import Kind
from binlog_core.conditions.language import quoted, quoted_name

pytestmark = [pytest.mark.sanitize_logs, pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")]


@by_name
def test_operators(golden: Golden) -> None:
    chance = random.Random(str(golden))
    for table, column, changes, values in columns_of(golden):
        name, kind = quoted_name(column.name), column.kind

        def check(where: str, test: Callable[[Any], bool], only: Column = column) -> None:
            def state(image: dict[str, Any]) -> State:
                own = value_of(image, only.name, only.kind)
                return None if own is None else test(own)

            assert found(golden, table, where) == matching(changes, only.name, state), (table, where)  # noqa: B023

        if kind in WITHOUT_ORDER or not values or not all(usable(v, kind, column) for v in values):
            continue
        two = chance.sample(values, min(2, len(values)))
        wanted = {literal_of(value): value_of({"v": value}, "v", kind) for value in two}
        (first, low), (last, high) = (*wanted.items(), *wanted.items())[:2]
        for op in chance.sample(sorted(OPERATORS), 2):
            check(f"{name} {op} {first}", lambda own, op=op, low=low: OPERATORS[op](own, low))
        check(f"{last} > {name}", lambda own, high=high: own < high)
        check(f"{name} between {first} and {last}", lambda own, low=low, high=high: low <= own <= high)
        check(f"{name} in ({first}, {last})", lambda own, low=low, high=high: own in (low, high))
        check(f"{name} not in ({first}, null)", lambda own: False)


@by_telling_name
def test_null(golden: Golden) -> None:
    for table, column, changes, _ in columns_of(golden):
        where = f"{quoted_name(column.name)} is null"
        expected = matching(changes, column.name, lambda image, name=column.name: image[name] is None)
        assert found(golden, table, where) == expected, (table, where)


@by_telling_name
def test_like(golden: Golden) -> None:
    chance = random.Random(str(golden))
    for table, column, changes, values in columns_of(golden):
        texts = [v for v in values if isinstance(v, str | bytes) and 0 < len(v) < 60]
        if column.kind not in (Kind.TEXT, Kind.BINARY) or not texts or len(texts) != len(values):
            continue
        text = chance.choice(texts)
        wild = ("%", "_") if isinstance(text, str) else (b"%", b"_")
        cut = chance.randrange(len(text))
        for pattern in (text[:cut] + wild[0], wild[0] + text[cut:], text[:cut] + wild[1] + text[cut + 1 :]):
            if isinstance(pattern, bytes) or "\\" in pattern:
                continue

            def test(image: dict[str, Any], pattern: str = pattern, name: str = column.name) -> State:
                return None if image[name] is None else like(image[name], pattern)

            where = f"{quoted_name(column.name)} like {quoted(pattern)}"
            assert found(golden, table, where) == matching(changes, column.name, test), where


@by_telling_name
def test_changed(golden: Golden) -> None:
    for table, column, changes, _ in columns_of(golden):
        name = column.name

        def differs(change: RowChange, name: str = name) -> bool:
            if change.before is None or change.after is None or name not in change.before:
                return False
            return name in change.after and change.before[name] != change.after[name]

        where = f"changed({quoted_name(name)})"
        assert found(golden, table, where) == [c for c in changes if differs(c)], (table, where)
